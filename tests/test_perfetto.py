"""Perfetto's own format, read back with the classes of its package; and Chrome traces, read by a strict reader."""

from __future__ import annotations

import itertools
import json
import sys
from collections import Counter, defaultdict

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import CounterDescriptor, Trace, TrackEvent

import cann_async.sync as blocking

from .helpers import SOC, work
from .test_timeline import pipeline

pytestmark = pytest.mark.timeout(30)


class Read:
    """A trace: the paths of its tracks, and of each the slices, instants and counts."""

    def __init__(self, path) -> None:
        packets = Trace.FromString(path.read_bytes()).packet
        names = {n.iid: n.name for p in packets for n in p.interned_data.event_names}
        details = {n.iid: n.name for p in packets for n in p.interned_data.debug_annotation_names}
        assert packets[0].sequence_flags == 3  # names are new from here on
        tracks = {p.track_descriptor.uuid: p.track_descriptor for p in packets if p.HasField("track_descriptor")}
        self.path = {uuid: self._path(tracks, uuid) for uuid in tracks}
        self.units = {self.path[u]: t.counter.unit for u, t in tracks.items() if t.HasField("counter")}
        self.slices, self.instants, self.counts = defaultdict(list), defaultdict(list), defaultdict(list)
        self.flows, self.flow_ends = [], []
        self.nested = defaultdict(list)
        open_slices = defaultdict(list)
        events = sorted((p for p in packets if p.HasField("track_event")), key=lambda p: p.timestamp)  # stable
        for packet in events:
            event, track = packet.track_event, self.path[packet.track_event.track_uuid]
            said = {details[d.name_iid]: d.string_value or d.int_value for d in event.debug_annotations}
            if event.type == TrackEvent.TYPE_SLICE_BEGIN:
                self.nested[track].append((len(open_slices[track]), names[event.name_iid]))
                open_slices[track].append([names[event.name_iid], packet.timestamp, said])
            elif event.type == TrackEvent.TYPE_SLICE_END:
                name, start, about = open_slices[track].pop()
                self.slices[track].append((name, start, packet.timestamp, about))
            elif event.type == TrackEvent.TYPE_INSTANT:
                self.instants[track].append((names[event.name_iid], packet.timestamp, said))
            else:
                self.counts[track].append((packet.timestamp, event.counter_value))
            for flow in event.terminating_flow_ids:
                assert flow in self.flows, "a flow ends before it begins"
                self.flow_ends.append(flow)
            self.flows += event.flow_ids
        assert not any(open_slices.values())

    def _path(self, tracks, uuid) -> tuple[str, ...]:
        track = tracks[uuid]
        return (*(self._path(tracks, track.parent_uuid) if track.parent_uuid else ()), track.name)


def test_a_trace_holds_every_task_with_exact_times(tmp_path):
    """Once on its engine's lane and once on its stream, counted from the runtime's start, on tracks with names."""
    start = 1_709_591_365 * 10**9
    with blocking.Runtime(clock="virtual", soc=SOC, start_ns=start, devices=2) as runtime:
        pipeline(runtime.device(0))
        stream = runtime.device(1).create_stream(name="second")
        for us in (0.001, 1.234, 1000.007):
            stream.launch(work(us))
        stream.close()
        read = Read(runtime.timeline.save(tmp_path / "x.pftrace"))
        records = list(runtime.timeline.records)
    lanes, streams = Counter(), Counter()
    for r in records:
        times = (r.name, r.started_ns - start, r.finished_ns - start)
        if r.engine:
            lanes[(f"npu:{r.device}", "engines", f"{r.engine} {r.lane}"), *times] += 1
        if r.stream >= 0:
            label = f"stream {r.stream}" + f" ({r.stream_name})" * bool(r.stream_name)
            streams[(f"npu:{r.device}", "streams", label), *times] += 1
    found = Counter((path, *s[:3]) for path, slices in read.slices.items() for s in slices if path[0] != "host")
    assert found == lanes + streams
    assert all(depth == 0 for path, nested in read.nested.items() if path[0] != "host" for depth, _ in nested)


def test_details_of_slices(tmp_path):
    """What a slice says of its task: cores and blocks, bytes, what a wait waited for."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        pipeline(device)
        read = Read(device.timeline.save(tmp_path / "x", format="perfetto"))
        records = {r.id: r for r in device.timeline.records}
    seen = [s[3] for path, slices in read.slices.items() if path[1] == "streams" for s in slices]
    wait = next(said for said in seen if "waited_for_task" in said)
    assert records[wait["waited_for_task"]].name == "record"
    assert records[wait["task"]].waited_for == wait["waited_for_task"]
    assert wait["recorded_on"] == records[wait["waited_for_task"]].stream
    assert sum(said.get("bytes", 0) for said in seen) == sum(r.nbytes for r in records.values())
    lanes = {s[3]["task"]: s[3] for path, slices in read.slices.items() if path[1] == "engines" for s in slices}
    assert all((said["cores"], said["blocks"]) == (records[n].cores, records[n].blocks) for n, said in lanes.items())


def test_flows_come_in_pairs_and_in_order(tmp_path):
    """One from each launch to its kernel and one from each record to what waited for it; they begin before they end."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        pipeline(device)
        read = Read(device.timeline.save(tmp_path / "x.pftrace"))
        records = list(device.timeline.records)
    assert sorted(read.flows) == sorted(read.flow_ends)
    assert len(set(read.flows)) == len(read.flows)
    on_engines = sum(bool(r.engine) for r in records)
    assert len(read.flows) == on_engines + sum(r.waited_for is not None for r in records)
    launches = read.instants["host", "enqueues"]
    assert sorted((said["task"], time) for _, time, said in launches) == [
        (r.id, r.submitted_ns) for r in records if r.engine
    ]


def test_the_host_and_the_counters(tmp_path):
    """Waits and annotations, which nest, and on the devices how much memory was in use and how much was queued."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        with device.runtime.annotate("outer"), device.runtime.annotate("inner"):
            stream = device.create_stream(name="s")
            device.empty((1000,), "u1")
            stream.launch(work(5))
            stream.synchronize()
        stream.close()
        read = Read(device.timeline.save(tmp_path / "x.pftrace"))
    assert read.nested["host", "annotations"] == [(0, "outer"), (1, "inner")]
    assert any(path[0] == "host" and path[1].endswith("waits") for path in read.slices)
    label = next(path for path in read.counts if path[-1].startswith("queue of stream"))
    assert read.units[label] == CounterDescriptor.UNIT_COUNT
    assert [value for _, value in read.counts[label]][-1] == 0
    assert max(value for _, value in read.counts[label]) == 1
    assert read.units["npu:0", "device memory"] == CounterDescriptor.UNIT_SIZE_BYTES
    assert max(value for _, value in read.counts["npu:0", "device memory"]) >= 1000


def test_any_name_can_be_written_and_nothing_too(tmp_path):
    """What cannot be encoded is replaced; an empty timeline is a trace without events."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        assert not Read(device.timeline.save(tmp_path / "empty.pftrace")).slices
        with device.create_stream(name="\ud800") as stream:
            stream.launch(work(1), name="bad \udfff\x00 name")
        read = Read(device.timeline.save(tmp_path / "x.pftrace"))
    assert "bad ?\x00 name" in {s[0] for slices in read.slices.values() for s in slices}


def test_without_the_package_it_says_what_to_install(tmp_path, monkeypatch):
    """And writes nothing."""
    monkeypatch.setitem(sys.modules, "perfetto.trace_builder.proto_builder", None)
    missing = pytest.raises(ImportError, match=r"pip install 'cann-async\[perfetto\]'")
    with blocking.open_device(clock="virtual", soc=SOC) as device, missing:
        device.timeline.save(tmp_path / "x.pftrace")
    assert list(tmp_path.iterdir()) == []


KEYS = {"X": {"ts", "dur", "name", "args"}, "s": {"ts", "id", "cat", "name"}, "f": {"ts", "id", "cat", "name", "bp"}}
KEYS |= {"C": {"ts", "name", "args"}, "M": {"name", "args"}}


def test_chrome_traces_for_a_strict_reader(tmp_path):
    """No key twice, no NaN; every event has the keys of its phase, and arrows come in pairs that point forward."""

    def once(pairs):
        assert len({key for key, _ in pairs}) == len(pairs)
        return dict(pairs)

    with blocking.open_device(clock="virtual", soc=SOC) as device:
        pipeline(device)
        text = device.timeline.save(tmp_path / "x.json").read_text(encoding="utf-8")
    trace = json.loads(text, object_pairs_hook=once, parse_constant=pytest.fail)
    arrows = defaultdict(list)
    for e in trace["traceEvents"]:
        assert KEYS[e["ph"]] | {"ph", "pid", "tid"} <= set(e) <= KEYS[e["ph"]] | {"ph", "pid", "tid", "cat"}
        assert all(isinstance(e[key], int) for key in ("pid", "tid"))
        assert all(isinstance(e[key], int | float) and e[key] >= 0 for key in ("ts", "dur") if key in e)
        if e["ph"] in "sf":
            arrows[e["cat"], e["id"]].append(e)
    assert all([e["ph"] for e in pair] == ["s", "f"] and pair[0]["ts"] <= pair[1]["ts"] for pair in arrows.values())
    tracks = itertools.groupby(sorted((e["pid"], e["tid"]) for e in trace["traceEvents"] if e["ph"] == "X"))
    named = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert {track for track, _ in tracks} == named
