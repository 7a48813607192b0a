"""Cases from public reports about errors, what is current, and long runs; each test names its case."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading

import numpy as np
import pytest

import cann_async as ca

from .helpers import SOC, both, copy_kernel, rejects, resident, work

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(120)]


@ca.kernel(per_block=False)
def divide(launch):
    """Fail."""
    return 1 // 0


@both
async def test_case_err_1_an_error_belongs_to_its_own_task(clock):
    """ERR-1: innocent handles succeed; the error names kernel, stream, task, line and cause."""
    async with ca.open_device(soc=SOC, clock=clock) as device, device.create_stream() as s:
        ok1, bad, ok2 = s.launch(work(10)), s.launch(divide), s.launch(work(10))
        await ok1
        await ok2
        with pytest.raises(ca.ExecutionError) as caught:
            await bad
        problem = caught.value
        assert problem.task is bad
        assert (bad.name, bad.stream) == ("divide", s)
        assert f"task {bad.id} on stream {s.id}" in str(problem)
        assert f"{__file__}:" in problem.launched_at
        assert problem.launched_at in str(problem)
        assert type(problem.__cause__) is ZeroDivisionError


@both
async def test_case_err_2_a_failure_is_not_sticky(clock):
    """ERR-2: what follows runs, other streams mind nothing, synchronize says it once."""
    async with ca.open_device(soc=SOC, clock=clock) as device:
        s1, s2 = device.create_stream(), device.create_stream()
        h1, bad, h2 = s1.launch(work(1)), s1.launch(divide), s1.launch(work(1))
        other = s2.launch(work(1))
        with pytest.raises(ca.ExecutionError) as caught:
            await s1.synchronize()
        assert caught.value.task is bad or "divide" in str(caught.value)
        assert h1.exception() is None
        assert h2.exception() is None
        await s2.synchronize()
        assert other.exception() is None
        await s1.synchronize()
        await s1.launch(work(1))
        await s1.close()
        await s2.close()


@both
async def test_case_err_4_launch_blocking_raises_at_the_launch(clock):
    """ERR-4, as far as there is no capture yet."""
    runtime = ca.Runtime(soc=SOC, clock=clock, launch_blocking=True)
    async with runtime, runtime.device().create_stream() as s:
        with pytest.raises(ca.ExecutionError) as caught:
            s.launch(divide)
        assert caught.value.task.name == "divide"
        assert s.launch(work(1)).done()


@both
async def test_case_cur_1_what_is_current_belongs_to_a_coroutine(clock):
    """CUR-1: two that interleave keep their own."""
    async with ca.open_device(soc=SOC, clock=clock) as device:
        s0, s1, s2 = (device.create_stream() for _ in range(3))

        async def worker(stream):
            with ca.use(stream):
                for _ in range(50):
                    assert ca.current_stream() is stream
                    task = ca.current_stream().launch(work(10))
                    assert task.stream is stream
                    await task
                    await asyncio.sleep(0)

        with ca.use(s0):
            await asyncio.gather(worker(s1), worker(s2), worker(s1))
            assert ca.current_stream() is s0
        for stream in (s0, s1, s2):
            await stream.close()


async def test_case_cur_3_the_same_stream_may_be_used_twice():
    """CUR-3: nested and recursive."""
    async with ca.open_device(soc=SOC) as device, device.create_stream() as outer, device.create_stream() as s:

        def recurse(n):
            with ca.use(s):
                assert ca.current_stream() is s
                return recurse(n - 1) if n else None

        with ca.use(outer):
            with ca.use(s), ca.use(s):
                recurse(5)
                assert ca.current_stream() is s
            assert ca.current_stream() is outer


async def test_case_cur_5_a_thread_starts_without_anything_current():
    """CUR-5: 107002 says what to do; explicit streams work; every thread sees the same default context."""
    async with ca.Runtime(soc=SOC) as runtime:
        device, out = runtime.device(), {}
        async with device.create_stream() as s:

            def plain():
                try:
                    ca.current_stream()
                except ca.CannError as problem:
                    out["code"], out["text"] = problem.code, str(problem)
                out["explicit"] = s.launch(work(1))
                with ca.use(runtime.device(0)):
                    out["context"] = ca.current_device().default_context

            with ca.use(device):
                thread = threading.Thread(target=plain)
                thread.start()
                thread.join()
            assert out["code"] == 107002
            assert "use(device)" in out["text"]
            assert out["context"] is device.default_context
            await out["explicit"]


async def test_case_cur_7_no_call_changes_what_is_current():
    """CUR-7: whether it succeeds or fails, and also when it acts on another device."""
    async with ca.Runtime(soc=SOC, devices=2) as runtime:
        s1 = runtime.device(1).create_stream()
        with ca.use(s1):
            before = (ca.current_device(), ca.current_stream())
            buffer = await runtime.device(0).upload(np.arange(4))
            await buffer.get()
            other = runtime.device(0).create_stream()
            with contextlib.suppress(ca.CannError):
                await other.launch(divide)
            with contextlib.suppress(ca.CannError):
                runtime.device(7)
            runtime.device(0).memory_info()
            await runtime.device(0).reset()
            runtime.device(0).retain()
            assert before == (ca.current_device(), ca.current_stream())
        await s1.close()


async def test_case_cur_9_a_stream_of_another_device_is_really_used():
    """CUR-9: device and stream follow; a buffer of the wrong device is refused and nothing is enqueued."""
    async with ca.Runtime(soc=SOC, devices=2, clock="virtual") as runtime:
        first, second = runtime.devices
        stream = second.create_stream()
        with ca.use(first):
            buffer = first.empty(4)
            with ca.use(stream):
                assert ca.current_device().index == 1
                task = ca.current_stream().launch(work(1))
                assert task.stream is stream
                with rejects(107000, "another device"):
                    ca.current_stream().launch(copy_kernel, buffer, buffer)
                assert stream.pending == 1
            assert ca.current_device().index == 0
        await stream.close()


async def test_case_lrg_1_nothing_is_left_of_what_is_used_and_dropped():
    """LRG-1: 20k rounds without a garbage collection; the part without a capture."""
    async with ca.Runtime(soc=SOC, clock="virtual", record=False) as runtime:
        device = runtime.device()
        kernel = work(1)

        async def once():
            stream, event, buffer = device.create_stream(), device.create_event(), device.malloc(4096)
            stream.launch(kernel, buffer)
            event.record(stream)
            await event
            await stream.close()

        for _ in range(500):
            await once()
        before, memory = runtime.statistics(), resident()
        gc.disable()
        try:
            for _ in range(20_000):
                await once()
            assert runtime.statistics() == before
            assert device.streams_available == SOC.max_streams - before.streams
            assert device.events_available == SOC.max_events
            assert device.memory_info()[0] == device.memory_info()[1]
        finally:
            gc.enable()
        assert resident() - memory < 20e6
