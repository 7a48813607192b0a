"""Records and what is made of them."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest

import cann_async as ca
import cann_async.sync as blocking

from .helpers import SOC, both, copy_kernel, numbers, open_device, rejects, work

pytestmark = pytest.mark.timeout(30)
GOLDEN = Path(__file__).parent / "golden"
TRACKS = ("engines", "streams")


def pipeline(device, batches: int = 4, streams: int = 2) -> None:
    """Enqueue copy in, kernel, copy out for some batches, on several streams, with an event between two of them."""
    lanes = [device.create_stream(priority=i, name=f"lane {i}") for i in range(streams)]
    x, y = device.empty((batches, 1000), np.uint8), device.empty((batches, 1000), np.uint8)
    pinned = device.malloc_host((batches, 1000), np.uint8)
    for i in range(batches):
        stream = lanes[i % streams]
        stream.memcpy(x[i], pinned[i])
        stream.launch(copy_kernel, y[i], x[i], blocks=1 + i, name=f"copy {i}")
        stream.memcpy(pinned[i], y[i])
    lanes[0].wait(lanes[1].record())
    lanes[0].memset(x[0], 0)
    for stream in lanes:
        stream.close()


def chrome(device, path: Path) -> list[dict]:
    """Save a Chrome trace and read it back."""
    assert device.runtime.timeline.save(path) == path
    return json.loads(path.read_text(encoding="utf-8"))["traceEvents"]


@both
def test_every_task_has_a_record_with_all_of_it(clock):
    """Name, times, stream, engine, lane, cores, bytes; in the order of submission."""
    with blocking.open_device(clock=clock, soc=SOC) as device:
        stream, other = device.create_stream(name="main"), device.create_stream()
        x = device.upload(numbers(250))
        tasks = [
            stream.memcpy(x, numbers(250)),
            stream.launch(copy_kernel, x, x, blocks=3),
            stream.memset(x, 0),
            stream.launch(work(2, engine="ai_cpu"), name="by hand"),
        ]
        event = stream.record()
        waiting = other.wait(event)
        tasks.append(other.memcpy(numbers(250), x))
        device.synchronize()
        assert waiting.done()
        records = device.runtime.timeline.records[1:]
        assert len(device.runtime.timeline) == len(records) + 1 == 8
        assert [r.id for r in records] == sorted(r.id for r in records)
        assert [r.name for r in records] == [
            "memcpy h2d", "copy_kernel", "memset", "by hand", "record", "wait", "memcpy d2h",
        ]  # fmt: skip
        assert [r.engine for r in records] == ["h2d", "ai_core", "d2d", "ai_cpu", "", "", "d2h"]
        assert [r.nbytes for r in records] == [1000, 2000, 1000, 0, 0, 0, 1000]
        assert [r.cores for r in records][:2] == [1, 3]
        assert [r.stream for r in records] == [stream.id] * 5 + [other.id] * 2
        assert {r.stream_name for r in records} == {"main", None}
        assert records[5].waited_for == records[4].id
        assert {r.device for r in records} == {0}
        for task, record in zip(tasks, [*records[:4], records[6]], strict=True):
            assert (record.id, record.name) == (task.id, task.name)
            assert record.submitted_ns == task.submitted_ns
            assert record.started_ns == task.started_ns
            assert record.finished_ns == task.finished_ns
        for record in records:
            assert 0 <= record.submitted_ns <= record.started_ns <= record.finished_ns
            assert record.duration_ns == record.finished_ns - record.started_ns
            assert all(type(v) is int for v in (record.id, record.lane, record.started_ns, record.finished_ns))


@both
def test_nothing_overlaps_on_a_lane_or_a_stream(clock):
    """Each lane runs one task at a time, and so does each stream."""
    with blocking.open_device(clock=clock, soc=SOC) as device:
        streams = [device.create_stream() for _ in range(6)]
        for i in range(120):
            streams[i % 6].launch(work(1 + i % 5), blocks=1 + i % 3)
        for stream in streams:
            stream.close()
        records = device.runtime.timeline.records
        lanes: dict[object, list[tuple[int, int]]] = {}
        for r in records:
            lanes.setdefault(("lane", r.engine, r.lane), []).append((r.started_ns, r.finished_ns))
            lanes.setdefault(("stream", r.stream), []).append((r.started_ns, r.finished_ns))
        for spans in lanes.values():
            for (_, end), (start, _) in itertools.pairwise(sorted(spans)):
                assert end <= start
        assert {r.lane for r in records} <= set(range(SOC.ai_cores))


def test_no_more_cores_are_busy_than_there_are():
    """At any instant."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        streams = [device.create_stream() for _ in range(6)]
        for i in range(120):
            streams[i % 6].launch(work(1 + i % 5), blocks=1 + i % 6)
        for stream in streams:
            stream.close()
        changes = [(r.started_ns, r.cores) for r in device.runtime.timeline.records]
        changes += [(r.finished_ns, -r.cores) for r in device.runtime.timeline.records]
        busy = list(itertools.accumulate(change for _, change in sorted(changes)))
        assert max(busy) == SOC.ai_cores
        assert min(busy) == busy[-1] == 0


@both
def test_records_can_be_sliced_and_looked_at_while_work_goes_on(clock):
    """They are a snapshot."""
    with blocking.open_device(clock=clock, soc=SOC) as device:
        pipeline(device)
        records = device.runtime.timeline.records
        count = len(records)
        device.default_stream.launch(work(1)).result()
        assert len(records) == count
        assert len(device.runtime.timeline.records) == count + 1
        assert [r.id for r in records[2:5]] == [records[i].id for i in (2, 3, 4)]
        assert records[-1] == list(records)[-1]
        with pytest.raises(IndexError):
            records[count]
        assert str(count + 1) in repr(device.runtime.timeline)
        assert device.runtime.timeline.clock == clock


@both
def test_failed_tasks_are_recorded_and_cancelled_ones_are_not(clock):
    """What never ran took no time."""
    with blocking.open_device(clock=clock, soc=SOC) as device, device.create_stream() as stream:
        bad = stream.launch(work(1, lambda: 1 / 0))
        with rejects(507015):
            bad.result()
        gate = ca.kernel(per_block=False)(lambda launch: doomed.cancel())
        stream.launch(gate)
        doomed = stream.launch(work(1), name="doomed")
        stream.synchronize()
        names = [r.name for r in device.runtime.timeline.records]
        assert "work_body" in names
        assert doomed.cancelled() is ("doomed" not in names)


@both
def test_a_chrome_trace_is_valid_and_complete(clock, tmp_path):
    """Every task once on its engine's lane and once on its stream's track, which are named; nothing overlaps."""
    with blocking.open_device(clock=clock, soc=SOC, devices=2) as device:
        pipeline(device)
        second = device.runtime.device(1).default_stream
        second.launch(work(3), name='with "quotes" and ü').result()
        events = chrome(device, tmp_path / "trace.json")
        records = device.runtime.timeline.records
        slices = [e for e in events if e["ph"] == "X"]
        assert {process(events, e) for e in events} == {"host", *(f"npu:{i} {w}" for i in (0, 1) for w in TRACKS)}
        on_engines = [e for e in slices if "engines" in process(events, e)]
        on_streams = [e for e in slices if "streams" in process(events, e)]
        assert len(on_engines) == sum(1 for r in records if r.engine)
        assert len(on_streams) == sum(1 for r in records if r.stream >= 0)
        tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
        assert {(e["pid"], e["tid"]) for e in slices} == set(tracks)
        assert any("lane 0" in name for name in tracks.values())
        assert any(e["name"] == 'with "quotes" and ü' for e in slices)
        by_track: dict[object, list[tuple[float, float]]] = {}
        for e in slices:
            assert e["dur"] >= 0
            by_track.setdefault((e["pid"], e["tid"]), []).append((round(e["ts"] * 1000), round(e["dur"] * 1000)))
        for spans in by_track.values():
            for (start, length), (following, _) in itertools.pairwise(sorted(spans)):
                assert start + length <= following


def slices(events) -> list[dict]:
    """Give the slices of devices, without those of the host."""
    return [e for e in events if e["ph"] == "X" and process(events, e) != "host"]


def process(events, event) -> str:
    """Give the name of an event's process."""
    return next(e["args"]["name"] for e in events if e["name"] == "process_name" and e["pid"] == event["pid"])


def test_a_chrome_trace_keeps_every_nanosecond(tmp_path):
    """Counted from the runtime's start, also if that is a realistic date."""
    start = 1_709_591_365 * 10**9
    with blocking.Runtime(clock="virtual", soc=SOC, start_ns=start) as runtime:
        stream = runtime.device().create_stream()
        for us in (0.001, 1.234, 1000.007):
            stream.launch(work(us))
        stream.close()
        events = chrome(runtime.device(), tmp_path / "trace.json")
        exact = {(r.started_ns - start, r.duration_ns) for r in runtime.timeline.records}
    assert {(round(e["ts"] * 1000), round(e["dur"] * 1000)) for e in slices(events)} == exact
    assert {duration for _, duration in exact} == {1, 1234, 1_000_007}


def test_a_format_that_is_not_known_is_a_value_error(tmp_path):
    """Nothing is written."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        for name, options in (("trace.xyz", {}), ("trace", {}), ("trace.json", {"format": "papyrus"})):
            with pytest.raises(ValueError, match="write"):
                device.runtime.timeline.save(tmp_path / name, **options)
        assert list(tmp_path.iterdir()) == []
        assert device.runtime.timeline.save(str(tmp_path / "empty.json")).exists()
        json.loads((tmp_path / "empty.json").read_text())


def without_packed(path: Path) -> str:
    """Give the text of a trace without the compressed numbers at its end, which are up to the build of zlib."""
    return path.read_text(encoding="utf-8").partition('"hosts":')[0]


def test_the_golden_timeline(tmp_path):
    """The saved timeline of a small program is, byte for byte, the one in `golden/`.

    Set UPDATE_GOLDEN=1 to write it anew, and look at the difference.
    """
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        pipeline(device)
        path = device.runtime.timeline.save(tmp_path / "pipeline.json")
    golden = GOLDEN / "pipeline.json"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_bytes(path.read_bytes())
    assert without_packed(path) == without_packed(golden)


@pytest.mark.asyncio
async def test_the_golden_timeline_from_a_loop(tmp_path):
    """The same program in a loop, by a host that awaits, saves the same bytes."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        await asyncio.sleep(0)
        pipeline(device)
        path = device.runtime.timeline.save(tmp_path / "pipeline.json")
    assert without_packed(path) == without_packed(GOLDEN / "pipeline.json")


@both
@pytest.mark.asyncio
async def test_records_of_two_devices_of_one_runtime(clock):
    """Each row says its device."""
    async with open_device(clock, devices=2) as first:
        second = first.runtime.device(1)
        await first.default_stream.launch(work(1), name="a")
        await second.default_stream.launch(work(1), name="b")
        assert [(r.name, r.device) for r in first.runtime.timeline.records] == [("a", 0), ("b", 1)]
