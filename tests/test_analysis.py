"""What a timeline says about itself: summary, critical path, gaps, comparison; loading and tracing."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading

import numpy as np
import pytest

import cann_async as ca
import cann_async.sync as blocking

from .helpers import SOC, both, numbers, open_device, work

pytestmark = pytest.mark.timeout(60)


def pipeline(device, streams: int, batches: int = 6, us: float = 40, nbytes: int = 40_000) -> None:
    """Copy in, compute, copy out; each takes 40 us."""
    lanes = [device.create_stream(name=f"lane {i}") for i in range(streams)]
    host = device.malloc_host((batches, nbytes), np.uint8)
    buffers = [device.empty(nbytes, np.uint8) for _ in lanes]
    for batch in range(batches):
        stream, buffer = lanes[batch % streams], buffers[batch % streams]
        stream.memcpy(buffer, host[batch])
        stream.launch(work(us), buffer, name="compute", blocks=4)
        stream.memcpy(host[batch], buffer)
    for stream in lanes:
        stream.close()


# -- summary and comparison -------------------------------------------------------------------------------------------


def test_summary_of_one_stream():
    """Nothing overlaps: every figure is known beforehand."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        pipeline(device, 1)
        summary = device.timeline.summary()
    assert (summary.tasks, summary.span_ns, summary.clock) == (18, 720_000, "virtual")
    assert summary.host_waiting_ns == 720_000
    engines = {engine.engine: engine for engine in summary.engines}
    assert set(engines) == {"h2d", "ai_core", "d2h"}
    assert [engines[name].busy_ns for name in ("h2d", "ai_core", "d2h")] == [240_000] * 3
    assert engines["ai_core"].utilisation == pytest.approx(1 / 3)
    assert (engines["h2d"].tasks, engines["h2d"].gaps, engines["h2d"].gap_ns) == (6, 5, 400_000)
    (stream,) = summary.streams
    assert (stream.name, stream.busy_ns, stream.gaps, stream.waiting_ns) == ("lane 0", 720_000, 0, 0)
    (overlap,) = summary.overlap
    assert dict(overlap.items()) == {
        "Computing": 240_000,
        "Communication": 480_000,
        "Communication not overlapped": 480_000,
        "Free": 0,
    }
    assert {(w.name, w.tasks, w.total_ns, w.longest_ns) for w in summary.works} == {
        ("compute", 6, 240_000, 40_000),
        ("memcpy h2d", 6, 240_000, 40_000),
        ("memcpy d2h", 6, 240_000, 40_000),
    }
    text = str(summary)
    for words in ("18 tasks in 720 us", "npu:0 h2d", "stream 1 (lane 0)", "Communication not overlapped", "33%"):
        assert words in text


def test_summary_of_three_streams_and_the_comparison():
    """Three times the engines at work at once, save at the ends."""
    found = []
    for streams in (1, 3):
        with blocking.open_device(clock="virtual", soc=SOC) as device:
            pipeline(device, streams)
            found.append(device.timeline)
    one, three = found
    summary = three.summary()
    assert summary.span_ns == 320_000
    assert dict(summary.overlap[0].items()) == {
        "Computing": 240_000,
        "Communication": 320_000,
        "Communication not overlapped": 80_000,
        "Free": 0,
    }
    comparison = one.compare(three)
    assert comparison.speedup == 720 / 320
    rows = {name: (before, after) for name, before, after in comparison.rows()}
    assert rows["total"] == (720_000, 320_000)
    assert rows["Communication not overlapped"] == (480_000, 80_000)
    assert rows["compute (ai_core)"] == (240_000, 240_000)
    assert "2.25x" in str(comparison)


def test_summary_counts_waits_and_free_time():
    """A wait of a stream is waiting, a pause of the host is free time."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        first, second = device.create_stream(), device.create_stream()
        first.launch(work(100))
        second.wait(first.record())
        second.launch(work(50))
        device.synchronize()
        device.runtime.clock.sleep(1e-4)
        second.launch(work(50)).result()
        summary = device.timeline.summary()
        assert summary.span_ns == 300_000
        assert [stream.waiting_ns for stream in summary.streams] == [0, 100_000]
        assert summary.streams[1].gap_ns == 100_000
        assert dict(summary.overlap[0].items())["Free"] == 100_000
        for stream in (first, second):
            stream.close()


def test_overlap_is_per_device():
    """Each device has its own four figures, and its own timeline."""
    with blocking.open_device(clock="virtual", soc=SOC, devices=2) as device:
        other = device.runtime.device(1)
        device.default_stream.launch(work(10))
        other.default_stream.launch(work(30))
        device.default_stream.launch(work(10))
        device.synchronize()
        other.synchronize()
        summary = device.runtime.timeline.summary()
        assert [(o.device, o.computing_ns, o.free_ns) for o in summary.overlap] == [(0, 20_000, 10_000), (1, 30_000, 0)]
        assert len(device.timeline) == 2
        assert len(other.timeline) == 1
        assert other.timeline.summary().span_ns == 30_000


def test_an_empty_timeline_can_be_asked():
    """It has nothing to say."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        timeline = device.timeline
        assert timeline.summary().tasks == 0
        assert str(timeline.summary()) == "nothing has run"
        assert len(timeline.critical_path()) == len(timeline.gaps()) == len(timeline.advice()) == 0
        assert "nothing" in str(timeline.critical_path()) + str(timeline.advice())
        assert len(timeline.replay()) == 0


# -- critical path and gaps -------------------------------------------------------------------------------------------


def test_the_critical_path_is_the_chain_that_took_the_time():
    """Over streams, a busy engine, an event; its pieces follow each other without a gap."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        first, second = device.create_stream(), device.create_stream()
        first.launch(work(100), name="a", blocks=4)
        second.launch(work(50), name="b", blocks=4)
        second.memcpy(device.malloc_host(1000, np.uint8), device.zeros(1000, np.uint8))
        event = second.record()
        first.wait(event)
        first.launch(work(30), name="c")
        for stream in (first, second):
            stream.close()
        path = device.timeline.critical_path()
    names = [step.record.name for step in path if step.record is not None]
    assert names == ["a", "b", "memcpy d2h", "wait", "c"]
    assert path.total_ns == 100_000 + 50_000 + 1_000 + 30_000
    assert path.by_kind == {"compute": 180_000, "copy": 1_000, "wait": 0}
    assert [later.started_ns for later in path[1:]] == [step.ended_ns for step in path[:-1]]
    assert "had left the ai_core" in path[1].why
    assert "memcpy d2h" in path[-1].why
    assert "critical path: 181 us" in str(path)


def test_the_critical_path_shows_the_host():
    """Time in which the host did something else is the host's."""
    with blocking.open_device(clock="virtual", soc=SOC) as device, device.create_stream() as stream:
        stream.launch(work(20)).result()
        device.runtime.clock.sleep(5e-5)
        stream.launch(work(30)).result()
        path = device.timeline.critical_path()
    assert path.by_kind == {"compute": 50_000, "host": 50_000}
    assert [step.kind for step in path] == ["compute", "host", "compute"]


@both
def test_the_critical_path_covers_all_the_time(clock):
    """On either clock, from the first enqueue to the last end, whatever ran."""
    with blocking.open_device(clock=clock, soc=SOC) as device:
        streams = [device.create_stream(priority=i) for i in range(3)]
        for i in range(60):
            stream = streams[i % 3]
            stream.launch(work(3 + i % 5), blocks=1 + i % 4)
            if i % 7 == 0:
                stream.wait(streams[(i + 1) % 3].record())
            if i % 11 == 0:
                stream.synchronize()
        for stream in streams:
            stream.close()
        timeline = device.timeline
        path, summary = timeline.critical_path(), timeline.summary()
    assert path.total_ns == sum(step.duration_ns for step in path) == summary.span_ns
    assert all(step.duration_ns >= 0 for step in path)
    assert [later.started_ns for later in path[1:]] == [step.ended_ns for step in path[:-1]]
    assert str(path)


def test_gaps_say_why_an_engine_stood_still():
    """It waited for a copy, for the host, for another stream."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        first, second = device.create_stream(), device.create_stream()
        x = device.zeros(1000, np.uint8)
        first.launch(work(10), name="a")
        first.memcpy(x, device.malloc_host(1000, np.uint8))
        first.launch(work(10), name="b")
        second.memset(x, 0)
        second.wait(first.record())
        second.launch(work(10), name="c")
        device.synchronize()
        device.runtime.clock.sleep(1e-5)
        second.launch(work(10), name="d").result()
        gaps = device.timeline.gaps()
        for stream in (first, second):
            stream.close()
    found = [(gap.engine, gap.duration_ns, gap.before.name, gap.after.name, gap.kind) for gap in gaps]
    assert found == [("ai_core", 10_000, "c", "d", "host"), ("ai_core", 1_000, "a", "b", "stream")]
    assert "memcpy h2d" in gaps[1].why
    assert "c -> d" in str(gaps)


# -- tracing, annotating ----------------------------------------------------------------------------------------------


@both
def test_tracing_holds_what_was_enqueued_in_the_block(clock):
    """Also what ends after it, and nothing that was enqueued before or after."""
    with blocking.open_device(clock=clock, soc=SOC) as device, device.create_stream() as stream:
        stream.launch(work(1), name="before")
        with device.runtime.tracing() as trace:
            assert len(trace) == 0
            stream.launch(work(1), name="first").result()
            assert [record.name for record in trace.records] == ["first"]
            late = stream.launch(work(1), name="late")
        stream.launch(work(1), name="after").result()
        assert late.done()
        assert [record.name for record in trace.records] == ["first", "late"]
        assert trace.summary().tasks == 2
        with pytest.raises(KeyError), device.runtime.tracing() as empty:
            raise KeyError
        assert len(empty) == 0


@pytest.mark.asyncio
async def test_tracing_of_two_blocks_at_once():
    """Each holds what was enqueued between its beginning and its end, by whomever."""
    async with open_device() as device:
        with device.runtime.tracing() as outer:
            await device.default_stream.launch(work(1), name="a")
            with device.runtime.tracing() as inner:
                await asyncio.gather(*(device.default_stream.launch(work(1), name="b") for _ in range(3)))
        assert [len(outer), len(inner)] == [4, 3]


def test_threads_and_annotations_are_recorded(tmp_path):
    """Who enqueued what, and what a host calls its time."""
    with blocking.open_device(clock="virtual", soc=SOC) as device, device.create_stream() as stream:
        with device.runtime.annotate("main"):
            stream.launch(work(1)).result()

        def other() -> None:
            with device.runtime.annotate("other"):
                stream.launch(work(1)).result()
                stream.memcpy(device.empty(8, np.uint8), np.zeros(8, np.uint8))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        stream.synchronize()
        table = ca.Timeline.load(device.timeline.save(tmp_path / "t.json")).table()
        assert table.thread.tolist() == [0, 1, 1]
        assert [(span.name, span.thread) for span in table.spans] == [("main", 0), ("other", 1)]
        assert [record.pageable for record in device.timeline.records] == [False, False, True]


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", (".json", ".json.gz"))
@both
def test_a_saved_trace_can_be_loaded(clock, suffix, tmp_path):
    """It is the timeline that it was, to the last record."""
    with blocking.open_device(clock=clock, soc=SOC, devices=2) as device:
        pipeline(device, 2)
        device.runtime.device(1).default_stream.launch(work(3), name='"</script>" ü').result()
        timeline = device.runtime.timeline
        path = timeline.save(tmp_path / f"trace{suffix}")
        loaded = ca.Timeline.load(str(path))
        assert list(loaded.records) == list(timeline.records)
        for what in ("tasks", "waits", "memory"):
            assert (loaded.to_numpy(what) == timeline.to_numpy(what)).all()
        assert loaded.clock == clock
        assert loaded.table().socs == (SOC, SOC)
        assert str(loaded.summary()) == str(timeline.summary())
        again = loaded.save(tmp_path / f"again{suffix}")
        assert again.read_bytes() == path.read_bytes()
        opened = gzip.open if suffix.endswith("gz") else open
        with opened(path, "rt", encoding="utf-8") as file:
            assert json.load(file, parse_constant=pytest.fail)["otherData"]["tasks"] == len(timeline)


def test_what_is_no_trace_is_a_value_error(tmp_path):
    """It names the file; a missing one is an OSError."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        device.upload(numbers(10))
        text = device.timeline.save(tmp_path / "good.json").read_text()
    bad = {
        "empty.json": "",
        "other.json": '{"traceEvents":[]}',
        "version.json": text.replace('"version":1', '"version":99'),
        "cut.json": text[: len(text) // 2],
        "torn.json": text[:-100],
        "rows.json": text.replace('"rows":["', '"rows":["AAAA'),
        "works.json": text.replace('"works":[', '"works":[[],'),
    }
    for name, content in bad.items():
        (tmp_path / name).write_text(content)
        with pytest.raises(ValueError, match=name):
            ca.Timeline.load(tmp_path / name)
    (tmp_path / "bytes.json.gz").write_bytes(b"\x1f\x8b nonsense")
    with pytest.raises(ValueError, match=r"bytes\.json\.gz"):
        ca.Timeline.load(tmp_path / "bytes.json.gz")
    with pytest.raises(FileNotFoundError):
        ca.Timeline.load(tmp_path / "missing.json")


def test_long_traces_stay_small(tmp_path):
    """At most 250 bytes a task, with arrows and counters; a short one has an arrow for each kernel."""

    @ca.kernel(per_block=False)
    def add(launch: ca.Launch) -> None:
        pass

    for clock in ("wall", "virtual"):
        with blocking.open_device(clock=clock, soc=SOC) as device, device.create_stream() as stream:
            for i in range(20_000):
                stream.launch(add)
                if i % 10 == 0:
                    stream.synchronize()
            stream.synchronize()
            path = device.timeline.save(tmp_path / "long.json")
            assert path.stat().st_size <= 250 * len(device.timeline)
            phases = {event["ph"] for event in json.loads(path.read_text())["traceEvents"]}
            assert phases == {"X", "s", "f", "C", "M"}


def test_arrows_go_from_launch_to_kernel_and_from_record_to_wait(tmp_path):
    """Each begins and ends in a slice of its track, at the instant that it is about."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        first, second = device.create_stream(), device.create_stream()
        first.launch(work(5))
        second.wait(first.record())
        second.launch(work(5), name="released")
        for stream in (first, second):
            stream.close()
        events = json.loads(device.timeline.save(tmp_path / "t.json").read_text())["traceEvents"]
    arrows = {
        (begin["cat"], begin["id"]): (begin, end)
        for begin in events
        for end in events
        if begin["ph"] == "s" and end["ph"] == "f" and (begin["cat"], begin["id"]) == (end["cat"], end["id"])
    }
    assert sorted(arrows) == [("event", 3), ("launch", 1), ("launch", 4)]
    for begin, end in arrows.values():
        for event in (begin, end):
            assert any(
                e["ph"] == "X" and (e["pid"], e["tid"]) == (event["pid"], event["tid"])
                and e["ts"] <= event["ts"] <= e["ts"] + e["dur"]
                for e in events
            )  # fmt: skip
    begin, end = arrows["event", 3]
    assert (begin["ts"], begin["tid"], end["ts"], end["tid"]) == (5, first.id, 5, second.id)


def test_counters_show_queues_and_memory(tmp_path):
    """How many tasks a stream has, and how many bytes a device."""
    with blocking.open_device(clock="virtual", soc=SOC) as device, device.create_stream() as stream:
        device.empty(1000, np.uint8)
        for _ in range(3):
            stream.launch(work(10))
        stream.synchronize()
        events = json.loads(device.timeline.save(tmp_path / "t.json").read_text())["traceEvents"]
    counters = [(e["ts"], e["args"]) for e in events if e["ph"] == "C"]
    assert [args["pending"] for _, args in counters if "pending" in args] == [3, 2, 1, 0]
    assert next(args["bytes"] for _, args in counters if "bytes" in args) >= 1000


def test_a_file_that_cannot_be_written_is_an_os_error(tmp_path):
    """As for any file."""
    with blocking.open_device(clock="virtual", soc=SOC) as device, pytest.raises(OSError, match="missing"):
        device.timeline.save(tmp_path / "missing" / "t.json")
