"""A recorded program re-simulated: exact on its own Soc, and as a real run would be on another."""

from __future__ import annotations

import asyncio
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cann_async as ca
import cann_async.sync as blocking

from .helpers import SOC, open_device, work

pytestmark = pytest.mark.timeout(60)
NAMES = ("id", "stream", "lane", "submitted_ns", "started_ns", "finished_ns", "nbytes")
heavy = ca.kernel(cost=lambda launch, *_: ca.Cost(flops=1e6 * launch.blocks, bytes=1e3), per_block=False)(
    lambda launch, *_: None
)


def program(device: blocking.Device, seed: int, steps: int = 120) -> None:
    """Do a bit of everything, in an order that the seed decides."""
    choice = random.Random(seed)
    lanes = [device.create_stream(priority=i % 3, name=f"lane {i}") for i in range(4)]
    buffer = device.zeros(1000, np.uint8)
    host = device.malloc_host(1000, np.uint8)
    kernels = [work(i) for i in range(5)]
    for _ in range(steps):
        stream, what = choice.choice(lanes), choice.random()
        if what < 0.35:
            stream.launch(choice.choice(kernels), blocks=choice.randint(1, 6))
        elif what < 0.5:
            stream.launch(heavy, blocks=choice.randint(1, 9))
        elif what < 0.6:
            stream.memcpy(buffer, host)
        elif what < 0.7:
            stream.wait(choice.choice(lanes).record())
        elif what < 0.75:
            notify = device.create_notify()
            lanes[0].record_notify(notify)
            lanes[1].wait_notify(notify)
        elif what < 0.8:
            stream.call(int)
        elif what < 0.85:
            stream.synchronize()
        elif what < 0.9:
            device.runtime.clock.sleep(choice.random() * 1e-5)
        elif what < 0.95:
            device.memcpy(host, buffer)
        else:
            stream.launch(choice.choice(kernels)).result()
    for stream in lanes:
        stream.close()


def times(timeline: ca.Timeline) -> list[tuple[int, ...]]:
    """Give all figures of all tasks."""
    return timeline.to_numpy().tolist()


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_a_replay_on_the_same_soc_is_the_run(seed, host_time):
    """Every task, to the nanosecond, and every wait of the host."""
    with blocking.open_device(clock="virtual", soc=SOC, host_time=host_time) as device:
        program(device, seed)
        timeline = device.timeline
        replayed = timeline.replay()
    assert times(replayed) == times(timeline)
    assert replayed.to_numpy("waits").tolist() == timeline.to_numpy("waits").tolist()
    assert [record.name for record in replayed.records] == [record.name for record in timeline.records]


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from((1, 2, 4)),
    st.sampled_from((1, 2)),
    st.sampled_from((5e8, 2e9)),
    st.integers(1, 4),
    st.booleans(),
)
def test_a_replay_on_another_soc_is_the_run_there(cores, copies, bandwidth, count, waits):
    """A pipeline, recorded here, takes there what it takes if it is really run there."""

    def run(soc: ca.Soc) -> ca.Timeline:
        with blocking.open_device(clock="virtual", soc=soc) as device:
            lanes = [device.create_stream() for _ in range(count)]
            host, buffer = device.malloc_host((8, 5000), np.uint8), device.empty((count, 5000), np.uint8)
            for batch in range(8):
                lane = batch % count
                lanes[lane].memcpy(buffer[lane], host[batch])
                lanes[lane].launch(heavy, blocks=1 + batch % 5)
                lanes[lane].launch(work(3), blocks=8)
                if waits:
                    lanes[lane].synchronize()
                lanes[lane].memcpy(host[batch], buffer[lane])
            lanes[0].wait(lanes[-1].record())
            lanes[0].memset(buffer[0], 1)
            for lane in lanes:
                lane.close()
            return device.timeline

    other = SOC.replace(ai_cores=cores, copy_engines=copies, h2d_bandwidth=bandwidth)
    assert times(run(SOC).replay(other)) == times(run(other))
    assert times(run(other).replay(SOC)) == times(run(SOC))


@pytest.mark.asyncio
async def test_hosts_that_await_are_replayed():
    """Coroutines that look at each result still do, on a chip that is twice as slow."""

    async def run(soc: ca.Soc) -> ca.Timeline:
        async with open_device(soc=soc) as device:

            async def worker(number: int) -> None:
                async with device.create_stream() as stream:
                    for _ in range(4):
                        await stream.launch(heavy, blocks=4)
                        await device.runtime.clock.sleep((number + 1) * 1e-6)

            await asyncio.gather(*(worker(number) for number in range(3)))
            return device.timeline

    slow = SOC.replace(peak_flops=SOC.peak_flops / 2)
    here, there = await run(SOC), await run(slow)
    assert times(here.replay()) == times(here)
    assert here.replay(slow).summary().span_ns == there.summary().span_ns


def test_presets_and_fields_by_name():
    """As `Soc.replace` and `open_device` take them; what is unknown is refused."""
    with blocking.open_device(clock="virtual", soc="ascend910b") as device:
        device.upload(np.zeros(1 << 20, np.uint8))
        timeline = device.timeline
        slow = timeline.replay("ascend310b")
        assert slow.table().socs[0].name == "ascend310b"
        assert timeline.compare(slow).speedup < 1
        halved = timeline.replay(h2d_bandwidth=12e9)
        assert timeline.compare(halved).speedup == pytest.approx(0.54, abs=0.02)
        with pytest.raises(ValueError, match="ascend9000"):
            timeline.replay("ascend9000")
        with pytest.raises(TypeError):
            timeline.replay(flux=3)
        assert halved.clock == "virtual"


def test_a_replay_can_be_saved_and_asked(tmp_path):
    """It is a timeline like any other."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        program(device, 1)
        replayed = device.timeline.replay(ai_cores=2)
    loaded = ca.Timeline.load(replayed.save(tmp_path / "t.json"))
    assert times(loaded) == times(replayed)
    assert loaded.critical_path().total_ns == loaded.summary().span_ns
    assert str(loaded.replay(SOC).summary())


def test_measured_times_are_kept_on_request():
    """On the wall clock: what tasks took here stays, and another number of engines makes a difference."""

    @ca.kernel(per_block=False)
    def spin(launch: ca.Launch) -> None:
        sum(range(10_000))

    with blocking.open_device(clock="wall", soc=SOC) as device:
        lanes = [device.create_stream() for _ in range(3)]
        for lane in lanes:
            for _ in range(5):
                lane.launch(spin, blocks=4)
        for lane in lanes:
            lane.close()
        timeline = device.timeline
    took = [record.duration_ns for record in timeline.records]
    kept = timeline.replay(measured=True)
    assert [record.duration_ns for record in kept.records] == took
    assert sum(took) <= kept.summary().span_ns
    assert timeline.replay(measured=True, ai_cores=12).summary().span_ns < kept.summary().span_ns


def test_a_part_of_a_program_can_be_replayed():
    """A wait for something outside of it holds nothing up."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        first, second = device.create_stream(), device.create_stream()
        first.launch(work(10))
        event = first.record()
        with device.runtime.tracing() as trace:
            second.wait(event)
            second.launch(work(5))
            second.synchronize()
        assert [record.duration_ns for record in trace.replay().records] == [0, 5000]
        for stream in (first, second):
            stream.close()
