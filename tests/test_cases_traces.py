"""Cases from public bug reports of trace files, one test each, named by the case's id."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import cann_async as ca

from .helpers import SOC, copy_kernel, numbers, open_device, work

pytestmark = pytest.mark.timeout(60)


def events(device: ca.Device, folder: Path) -> list[dict[str, Any]]:
    """Save a trace and read its events with a strict reader."""
    path = device.timeline.save(folder / "trace.json")
    return json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)["traceEvents"]


def tracks(found: list[dict[str, Any]]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """Sort the slices by track, in the order of the file."""
    groups = defaultdict(list)
    for event in found:
        if event["ph"] == "X":
            groups[event["pid"], event["tid"]].append(event)
    return groups


def streams(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give the slices on the tracks of streams."""
    pids = {e["pid"] for e in found if e["name"] == "process_name" and e["args"]["name"].endswith("streams")}
    return [event for event in found if event["ph"] == "X" and event["pid"] in pids]


@pytest.mark.asyncio
async def test_trc_1_slices_of_a_track_nest_or_do_not_overlap(tmp_path):
    """TRC-1: whatever ran at once, callbacks, waits and the host's own slices included."""
    async with open_device() as device:
        lanes = [device.create_stream() for _ in range(8)]
        buffers = [device.empty(100) for _ in lanes]
        host = device.malloc_host(100, "float32")
        for i in range(200):
            stream = lanes[i % 8]
            stream.launch(work(10 + i % 7), blocks=1 + i % 3)
            stream.memcpy(buffers[i % 8], host)
            if i % 5 == 0:
                stream.wait(lanes[(i + 3) % 8].record())
                stream.call(lambda: None)
            if i % 20 == 0:
                await stream.synchronize()
        await device.synchronize()
        found = events(device, tmp_path)
        for group in tracks(found).values():
            open_ends: list[int] = []
            spans = [(round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)) for e in group]
            for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
                while open_ends and open_ends[-1] <= begin:
                    open_ends.pop()
                assert not open_ends or end <= open_ends[-1]
                open_ends.append(end)
        for stream in lanes:
            await stream.close()


@pytest.mark.asyncio
async def test_trc_2_parents_come_before_their_children(tmp_path):
    """TRC-2: a track is sorted by time and longer first; of annotations that begin together the outer one is first."""
    async with open_device() as device, device.create_stream() as stream:
        with device.runtime.annotate("outer"), device.runtime.annotate("inner"):
            for us in (0, 0, 10):
                stream.launch(work(us))
            await stream.synchronize()
        found = events(device, tmp_path)
    for group in tracks(found).values():
        assert group == sorted(group, key=lambda e: (e["ts"], -e["dur"]))
    annotations = [e for e in found if e["name"] in ("outer", "inner")]
    assert [e["name"] for e in annotations] == ["outer", "inner"]
    assert len({(e["pid"], e["tid"]) for e in annotations}) == 1
    assert all(e["dur"] == 10 for e in annotations)


@pytest.mark.asyncio
async def test_trc_3_times_are_microseconds(tmp_path):
    """TRC-3: a millisecond is 1000, a nanosecond 0.001."""
    async with open_device() as device, device.create_stream() as stream:
        await stream.launch(work(1000), name="ms")
        await stream.launch(work(0.001), name="ns")
        path = device.timeline.save(tmp_path / "trace.json")
    document = json.loads(path.read_text())
    found = {event["name"]: event for event in document["traceEvents"] if event["ph"] == "X"}
    assert found["ms"]["dur"] == 1000
    assert found["ns"]["dur"] == 0.001
    assert found["ns"]["ts"] == 1000
    assert document["displayTimeUnit"] in ("ms", "ns")


@pytest.mark.asyncio
async def test_trc_4_neighbours_neither_overlap_nor_part(tmp_path):
    """TRC-4: 100,000 kernels of 1 to 999 ns keep every nanosecond, also after a realistic date."""
    async with ca.Runtime(clock="virtual", soc=SOC, start_ns=1_709_591_365 * 10**9) as runtime:
        device = runtime.device()
        stream = device.create_stream()
        kernels = [work(0.001 * (1 + i)) for i in range(999)]
        for i in range(100_000):
            stream.launch(kernels[i % 999])
        await stream.close()
        slices = streams(events(device, tmp_path))
        spent = runtime.clock.now_ns() - 1_709_591_365 * 10**9
    ends = [(round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)) for e in slices]
    assert len(ends) == 100_000
    assert all(later[0] == earlier[1] for earlier, later in itertools.pairwise(ends))
    assert slices[0]["ts"] == 0
    assert ends[-1][1] == spent


@pytest.mark.asyncio
async def test_trc_10_every_wait_is_there_and_says_what_it_waited_for(tmp_path):
    """TRC-10: also one that is its stream's first task, and one that cost nothing."""
    async with open_device() as device, device.create_stream() as first, device.create_stream() as second:
        first.launch(work(1000))
        event = device.create_event()
        event.name = "go"
        first.record(event)
        second.wait(event)
        second.launch(work(10))
        second.wait(event)
        await device.synchronize()
        found = events(device, tmp_path)
        waits = [e for e in found if e.get("cat") == "wait" and e["args"]["stream"] == second.id]
        assert len(waits) == 2
        assert (waits[0]["ts"], waits[0]["dur"]) == (0, 1000)
        assert waits[0]["args"]["event"] == "go"
        assert waits[0]["args"]["recorded_on"] == first.id
        assert waits[1]["dur"] == 0


@pytest.mark.asyncio
async def test_trc_11_tracks_have_numbers_and_names(tmp_path):
    """TRC-11: pid and tid are integers, every track and process has a name, and the time begins near 0."""
    async with open_device() as device, device.create_stream() as first, device.create_stream() as second:
        first.launch(work(10))
        x = device.empty(100, "float32")
        second.memcpy(x, numbers(100))
        second.launch(copy_kernel, x, x)
        await device.synchronize()
        found = events(device, tmp_path)
    named = {(e["name"], e["pid"], e["tid"]) for e in found if e["ph"] == "M"}
    for event in found:
        assert type(event["pid"]) is int
        assert type(event["tid"]) is int
        if event["ph"] == "X":
            assert ("thread_name", event["pid"], event["tid"]) in named
            assert ("thread_sort_index", event["pid"], event["tid"]) in named
            assert any(name == "process_name" and pid == event["pid"] for name, pid, _ in named)
    assert min(e["ts"] for e in found if e["ph"] == "X") == 0
