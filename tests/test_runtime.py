"""Runtimes: options, environment, closing, statistics, several side by side."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading

import numpy as np
import pytest

import cann_async as ca

from .helpers import SOC, Hold, boom, both, numbers, open_device, rejects, work

pytestmark = pytest.mark.timeout(30)


@both
@pytest.mark.asyncio
async def test_everything_that_is_used_after_close_says_what_was_closed(clock):
    """And nothing is enqueued; closing twice is fine, so are repr, hash and bool."""
    runtime = ca.Runtime(clock=clock, soc=SOC)
    device = runtime.device()
    context, stream, event = device.create_context(), device.create_stream(), device.create_event()
    buffer, task = await device.upload(numbers(4)), stream.launch(work(1, lambda: 5))
    await runtime.close()
    await runtime.close()
    for use in (
        lambda: stream.launch(work(1)),
        lambda: stream.memcpy(buffer, numbers(4)),
        lambda: stream.record(event),
        lambda: stream.wait(event),
        stream.query,
    ):
        with rejects(507007, "Runtime has been closed"):
            use()
    for use in (
        runtime.device,
        device.create_stream,
        device.create_event,
        device.create_context,
        context.create_stream,
        device.memory_info,
        lambda: device.malloc(8),
        lambda: device.malloc_host(8),
        lambda: device.upload(numbers(3)),
        lambda: device.memcpy(buffer, numbers(4)),
        lambda: device.memset(buffer, 0),
    ):
        with rejects(507007, "Runtime has been closed"):
            use()
    for wait in (device.synchronize, context.synchronize, stream.synchronize, buffer.get):
        with pytest.raises(ca.CannError, match="Runtime has been closed"):
            await wait()
    with pytest.raises(ca.CannError, match="Runtime has been closed"):
        await runtime.clock.sleep(1)
    assert await task == 5  # what was done stays done
    assert not runtime
    assert not device
    assert not stream
    for thing in (runtime, device, context, stream, event, buffer, task):
        repr(thing)
        hash(thing)
    await stream.close()
    await device.close()
    assert len(runtime.timeline) == 2


@both
@pytest.mark.asyncio
async def test_close_finishes_what_is_queued(clock):
    """On every stream."""
    log = []
    async with ca.Runtime(clock=clock, soc=SOC, devices=2) as runtime:
        for device in runtime.devices:
            for i in range(3):
                device.default_stream.launch(work(10, log.append, i))
    assert sorted(log) == [0, 0, 1, 1, 2, 2]


@both
@pytest.mark.asyncio
async def test_close_without_drain_wakes_whoever_waits(clock):
    """With 507007; what was running is not heard any more."""
    runtime = ca.Runtime(clock=clock, soc=SOC)
    device = runtime.device()
    stream = device.create_stream()
    hold = Hold(stream, 1e9)
    event, last = stream.record(), stream.launch(work(1))
    waits = event.synchronize(), stream.synchronize(), device.synchronize(), last.wait()
    waiting = [asyncio.create_task(wait) for wait in waits]
    if clock == "wall":
        await asyncio.sleep(0.01)
    await runtime.close(drain=False)
    for problem in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(problem, ca.CannError)
        assert "closed" in str(problem)
    assert last.cancelled()
    hold.let_go()


@both
@pytest.mark.asyncio
async def test_an_error_of_the_block_is_what_its_writer_sees(clock):
    """Nothing is waited for then."""
    with pytest.raises(KeyError):
        async with ca.Runtime(clock=clock, soc=SOC) as runtime:
            hold = Hold(runtime.device().default_stream)
            raise KeyError
    hold.let_go()
    with pytest.raises(KeyError):
        async with open_device(clock) as device:
            hold = Hold(device.default_stream)
            raise KeyError
    assert not device
    hold.let_go()


@both
@pytest.mark.asyncio
async def test_failures_that_nobody_has_seen_are_logged_at_the_end(clock, caplog):
    """And those that somebody has seen are not."""
    with caplog.at_level(logging.WARNING, "cann_async"):
        async with open_device(clock) as device:
            with rejects(507015):
                await device.default_stream.launch(boom)
        assert not caplog.records
        async with open_device(clock) as device:
            device.default_stream.launch(boom)
        assert "boom" in caplog.text


@pytest.mark.asyncio
async def test_a_device_number_out_of_range_is_107001():
    """With the range."""
    async with ca.Runtime(devices=2, clock="virtual", soc=SOC) as runtime:
        assert [device.index for device in runtime.devices] == [0, 1]
        assert runtime.device(1) is runtime.devices[1]
        assert runtime.device(1).runtime is runtime
        for bad in (-1, 2, 1 << 40):
            with rejects(107001, str(bad), "0..1"):
                runtime.device(bad)
        for bad in ("0", 1.0, None):
            with pytest.raises(TypeError):
                runtime.device(bad)
    with rejects(107001):
        ca.open_device(-1)
    with rejects(107001):
        ca.open_device(3, devices=2)
    async with open_device(index=2) as device:
        assert len(device.runtime.devices) == 3


def test_options_that_are_none():
    """Each error lists what there is."""
    with pytest.raises(ValueError, match=r"'wall'.*'virtual'"):
        ca.Runtime(clock="fast")
    with pytest.raises(ValueError, match="ascend910b"):
        ca.Runtime(soc="h100")
    with pytest.raises(TypeError, match="Soc"):
        ca.Runtime(soc=910)
    for bad in (0, -1, 65):
        with pytest.raises(ValueError, match="devices"):
            ca.Runtime(devices=bad)
    with pytest.raises(TypeError):
        ca.Runtime(devices="two")
    with pytest.raises(TypeError):
        ca.Runtime(no_such_option=1)
    with pytest.raises(TypeError):
        ca.open_device(0, no_such_option=1)
    with pytest.raises(ValueError, match="start_ns"):
        ca.Runtime(clock="wall", start_ns=1)
    with pytest.raises(ValueError, match="ai_cores"):
        ca.Soc(ai_cores=0)


def test_what_can_be_asked_without_a_runtime():
    """Starts nothing."""
    before = threading.active_count()
    assert {"ascend310b", "ascend310p", "ascend910b"} <= set(ca.socs())
    assert ca.device_count() == 1
    assert threading.active_count() == before


def test_the_environment_says_what_is_not_given(monkeypatch):
    """It is read when a runtime is made; an argument wins."""
    monkeypatch.setenv("CANN_ASYNC_CLOCK", "virtual")
    monkeypatch.setenv("CANN_ASYNC_SOC", "ascend310p")
    monkeypatch.setenv("CANN_ASYNC_DEVICES", "3")
    assert ca.device_count() == 3
    runtime = ca.Runtime()
    assert runtime.clock.name == "virtual"
    assert [d.soc.name for d in runtime.devices] == ["ascend310p"] * 3
    given = ca.Runtime(clock="wall", soc="ascend310b", devices=1)
    assert (given.clock.name, given.devices[0].soc.name, len(given.devices)) == ("wall", "ascend310b", 1)
    assert len(ca.open_device().runtime.devices) == 3
    monkeypatch.setenv("CANN_ASYNC_CLOCK", "sundial")
    with pytest.raises(ValueError, match="sundial"):
        ca.Runtime()
    monkeypatch.setenv("CANN_ASYNC_SOC", "abacus")
    with pytest.raises(ValueError, match="abacus"):
        ca.Runtime(clock="virtual")
    for bad in ("0", "many", "-1", "1e9", ""):
        monkeypatch.setenv("CANN_ASYNC_DEVICES", bad)
        with pytest.raises(ValueError, match="CANN_ASYNC_DEVICES"):
            ca.device_count()


def test_presets_are_chips():
    """They differ where the products do."""
    for name in ca.socs():
        runtime = ca.Runtime(soc=name, clock="virtual")
        soc = runtime.device().soc
        assert soc.name == name
        assert runtime.device().memory_info()[1] == soc.memory_bytes
    assert soc.replace(ai_cores=3).ai_cores == 3
    assert soc.ai_cores != 3


@pytest.mark.asyncio
async def test_runtimes_with_different_clocks_side_by_side():
    """In one loop, at once; each has its own time, streams and figures."""
    async with open_device("wall") as wall, open_device("virtual") as virtual, open_device("virtual") as other:
        assert wall.runtime.clock.name == "wall"

        async def use(device, us):
            x = await device.upload(numbers(100))
            for _ in range(10):
                await device.default_stream.launch(work(us, None), x)
            return (await x.get()).sum()

        sums = await asyncio.gather(use(wall, 1), use(virtual, 1000), use(other, 10))
        assert sums == [4950] * 3
        assert virtual.runtime.clock.now_ns() == 10_000_000 + 800
        assert other.runtime.clock.now_ns() == 100_000 + 800
        assert wall.runtime.statistics().recorded == 12


@pytest.mark.asyncio
async def test_statistics_count_what_is_alive():
    """Streams, tasks, records, bytes."""
    async with ca.Runtime(devices=2, clock="virtual", soc=SOC) as runtime:
        first, second = runtime.devices
        start = runtime.statistics()
        assert (start.streams, start.pending, start.recorded, start.device_bytes) == (2, 0, 0, (0, 0))
        buffer = second.malloc(1000)
        async with first.create_stream() as stream:
            for _ in range(3):
                stream.launch(work(1))
            now = runtime.statistics()
            assert (now.streams, now.pending, now.device_bytes) == (3, 3, (0, 1024))
        buffer.free()
        end = runtime.statistics()
        assert (end.streams, end.pending, end.recorded, end.device_bytes) == (2, 0, 3, (0, 0))


@both
@pytest.mark.asyncio
async def test_without_records_everything_else_works(clock):
    """`record=False`."""
    async with open_device(clock, record=False) as device:
        assert await device.default_stream.launch(work(1, lambda: 1)) == 1
        assert len(device.runtime.timeline) == 0
        assert device.runtime.statistics().recorded == 0


@both
def test_a_runtime_works_before_any_loop_and_across_loops(clock):
    """Its objects belong to none."""
    device = open_device(clock)
    stream = device.create_stream()
    first = stream.launch(work(10, lambda: 1))
    event = stream.record()

    async def one():
        await event
        return await first, stream.launch(work(10, lambda: 2))

    async def two(second):
        assert await second == 2
        await stream.close()
        await device.close()

    value, second = asyncio.run(one())
    assert value == 1
    asyncio.run(two(second))


def test_run_gives_what_main_gives():
    """With arguments; errors come through."""

    async def main(a, b=2):
        async with open_device() as device:
            return a + b + await device.default_stream.launch(work(1, lambda: 3))

    async def bad():
        raise KeyError

    assert ca.run(main, 1) == 6
    assert ca.run(main, 1, 5) == 9
    with pytest.raises(KeyError):
        ca.run(bad)


@pytest.mark.asyncio
async def test_a_device_of_a_runtime_does_not_close_it():
    """Only the device of `open_device` owns its runtime; the other waits for its work."""
    log = []
    async with ca.Runtime(clock="virtual", soc=SOC) as runtime:
        async with runtime.device() as device:
            device.default_stream.launch(work(1, log.append, 1))
        assert log == [1]
        assert runtime
        assert device


def test_forgotten_runtimes_leave_nothing_behind():
    """No thread, no memory."""

    def use():
        device = open_device("wall")
        device.default_stream.launch(work(1)).result()
        return device.runtime

    for _ in range(3):
        use()
    gc.collect()
    runtime = use()
    asyncio.run(runtime.close())
    assert not runtime


def test_the_whole_program_of_the_readme_runs():
    """The contract's first example, as it stands."""

    @ca.kernel(cost=lambda launch, x, y, z: ca.Cost(flops=x.size, bytes=3 * x.nbytes))
    def add(block, x, y, z):
        part = block.slice(x.size)
        np.add(x[part], y[part], out=z[part])

    async def main():
        async with ca.open_device(0) as device:  # noqa: SIM117  # as the contract has it
            async with device.create_stream() as stream:
                host = device.malloc_host((4096,), np.float32)
                host[:] = 1
                x, y, z = (device.empty((4096,), np.float32) for _ in range(3))
                await device.memcpy(x, host)
                stream.memcpy(y, host)
                stream.launch(add, x, y, z, blocks=8)
                await stream.synchronize()
                await device.memcpy(host, z)
        return host

    assert (ca.run(main) == 2).all()
    assert (asyncio.run(main()) == 2).all()
