"""Faults on purpose: each kind, on both clocks, and what a program can do about it."""

from __future__ import annotations

import numpy as np
import pytest

import cann_async as ca
import cann_async.sync as blocking

from .helpers import SOC, both, open_device, rejects, work

pytestmark = pytest.mark.timeout(60)


@ca.kernel(per_block=False, cost=ca.Cost(seconds=1e-3))
def add(launch, x):
    """Add one."""
    x += 1


@ca.kernel(per_block=False, cost=ca.Cost(seconds=1e-3))
async def add_later(launch, x):
    """Add one, as a coroutine."""
    x += 1


@both
@pytest.mark.asyncio
async def test_the_nth_kernel_fails_with_the_code_that_is_given(clock):
    """By kernel, by name, or any; those before and after it run."""
    for what, kernel in ((add, add), ("add", add), (None, add), (add_later, add_later)):
        async with open_device(clock) as device, device.create_stream() as stream:
            x = device.zeros(1, np.int32)
            with ca.testing.faults(device.runtime) as faults:
                faults.fail(what, code=507054, nth=2, count=2)
                tasks = [stream.launch(kernel, x) for _ in range(4)]
                for number, task in enumerate(tasks):
                    if number in (1, 2):
                        with rejects(507054, "injected"):
                            await task
                    else:
                        await task
            await stream.launch(kernel, x)
            assert (await x.get()).tolist() == [3]


@both
@pytest.mark.asyncio
async def test_a_copy_fails_and_the_memory_is_as_before(clock):
    """By "memcpy" and by its direction."""
    async with open_device(clock) as device, device.create_stream() as stream:
        x = device.zeros(4, np.int32)
        with ca.testing.faults(device.runtime) as faults:
            faults.fail("memcpy", code=507054).fail("memcpy d2h", code=507056)
            with rejects(507054):
                await device.memcpy(x, np.ones(4, np.int32))
            with rejects(507056):
                await x.get()
        assert (await x.get()).tolist() == [0] * 4
        await stream.synchronize()


@pytest.mark.asyncio
async def test_a_delay_is_in_the_time_of_the_runtime():
    """A second more, in virtual time; on the wall clock a little is enough to see it."""
    async with open_device("virtual") as device, device.create_stream() as stream:
        with ca.testing.faults(device.runtime) as faults:
            faults.delay("add", seconds=1)
            task = stream.launch(add, device.zeros(1))
            await task
            assert task.finished_ns - task.started_ns == 1_001_000_000
    async with open_device("wall") as device, device.create_stream() as stream:
        with ca.testing.faults(device.runtime) as faults:
            faults.delay(add, seconds=0.01).delay(add_later, seconds=0.01)
            for kernel in (add, add_later):
                task = stream.launch(kernel, x := device.zeros(1))
                await task
                assert task.finished_ns - task.started_ns >= 10_000_000
                assert (await x.get()).tolist() == [1]


@both
@pytest.mark.asyncio
async def test_what_hangs_is_got_rid_of_by_a_timeout_an_abort_or_a_reset(clock):
    """And on virtual time waiting for it is a deadlock, said at once."""
    async with open_device(clock) as device, device.create_stream() as stream:
        with ca.testing.faults(device.runtime) as faults:
            faults.hang("add", count=4)
            x = device.zeros(1, np.int32)
            with rejects(507014):
                await stream.launch(add, x, timeout=0.01)
            hanging = stream.launch(add, x)
            with rejects(507046):
                await stream.synchronize(timeout=0.01)
            if clock == "virtual":
                with pytest.raises(ca.DeadlockError, match="the end of 'add'"):
                    await hanging
            await stream.abort()
            with rejects(107023):
                await hanging
            other = device.create_stream()
            hanging = other.launch(add, x)
            await other.close(force=True)
            with rejects(107023):
                await hanging
            hanging = stream.launch(add, x)
            await device.reset()
            with rejects(507007):
                await hanging
        fresh = device.zeros(1, np.int32)
        await device.default_stream.launch(add, fresh)
        assert (await fresh.get()).tolist() == [1]


@both
@pytest.mark.asyncio
async def test_a_lost_device_is_lost_until_it_is_reset(clock):
    """Every call says so; the other device goes on."""
    async with ca.Runtime(soc=SOC, clock=clock, devices=2) as runtime:
        first, second = runtime.devices
        stream = first.create_stream()
        with ca.testing.faults(runtime) as faults:
            faults.hang()
            pending = stream.launch(work(1))
            faults.lose(first)
            with rejects(507010, "lost"):
                await pending
            for call in (lambda: stream.launch(work(1)), first.create_stream, lambda: first.zeros(4)):
                with rejects(507010, "npu:0"):
                    call()
            with rejects(507010):
                await first.synchronize()
        assert (first.health, second.health) == ("lost", "ok")
        await second.default_stream.launch(work(1))
        await first.reset()
        assert first.health == "ok"
        await runtime.device(0).default_stream.launch(work(1))


@pytest.mark.asyncio
async def test_case_err_8_a_device_that_cannot_be_opened_says_which_and_why():
    """ERR-8: 507033 with device and cause; what was current stays, and later calls work."""
    async with ca.Runtime(soc=SOC, devices=2) as runtime:
        with ca.use(runtime.device(0)), ca.testing.faults(runtime) as faults:
            faults.fail_to_open(runtime.device(1))
            with rejects(507033, "npu:1", "injected"):
                runtime.device(1)
            for bad in (-1, 2, 102):
                with rejects(107001, "0..1"):
                    runtime.device(bad)
            with pytest.raises(TypeError):
                runtime.device("0")
            assert ca.current_device().index == 0
            await ca.current_stream().launch(work(1))


def test_memory_that_is_short():
    """Out of memory comes early, and ends with the block."""
    with blocking.open_device(soc=SOC) as device:
        held = [device.malloc(64) for _ in range(100)]
        held = held[::2]
        with ca.testing.faults(device.runtime) as faults:
            faults.shrink_memory(device, 4096)
            assert device.memory_info()[0] <= 4096
            with rejects(207001):
                device.malloc(8192)
        assert device.malloc(8192)
        del held


def test_rules_are_checked():
    """And only one set of faults at a time."""
    with blocking.Runtime(soc=SOC) as runtime, ca.testing.faults(runtime) as faults:
        for wrong in (lambda: faults.fail(nth=0), lambda: faults.hang(count=0), lambda: faults.delay(seconds=-1)):
            with rejects(107000):
                wrong()
        with rejects(107000, "already"), ca.testing.faults(runtime):
            pass
