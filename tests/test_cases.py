"""Cases from public bug reports of streams, events, kernels and event loops, one test each, named by the case's id.

A case that needs several features is covered as far as they exist. Where a case and the contract differ, the
contract wins, and the test says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import random
import sys
import threading
import time
import warnings
import weakref

import anyio
import numpy as np
import pytest
import uvloop

import cann_async as ca
import cann_async.sync as blocking

from .helpers import (
    LIMIT_S,
    SOC,
    Hold,
    boom,
    both,
    copy_kernel,
    in_threads,
    numbers,
    open_device,
    rejects,
    script,
    work,
)

pytestmark = pytest.mark.timeout(60)
LOOPS = (asyncio.new_event_loop, uvloop.new_event_loop)


# -- cancellation -----------------------------------------------------------------------------------------------------


@both
@pytest.mark.asyncio
async def test_aio_2_cancelling_an_awaiter_never_cancels_the_work(clock):
    """AIO-2: only `task.cancel()` removes work, and only what has not started."""
    log = []
    async with open_device(clock) as device, device.create_stream() as stream:
        hold = Hold(stream, fn=lambda: log.append(1))
        second, third = stream.launch(work(1000, log.append, 2)), stream.launch(work(1000, log.append, 3))
        waiting, staying = asyncio.create_task(second.wait()), asyncio.create_task(second.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        assert third.cancel() is True
        hold.let_go()
        await staying
        assert hold.task.cancel() is False
        await stream.synchronize()
        assert log == [1, 2]
        assert third.cancelled()
        assert waiting.cancelled()
        with rejects(107023):
            await third


@pytest.mark.asyncio
async def test_aio_3_a_timeout_at_the_moment_of_the_result_swallows_nothing():
    """AIO-3: an await ends in exactly one way; the work goes on, and no buffer stays referenced."""
    rng = random.Random(3)
    async with open_device("wall") as device, device.create_stream() as stream:
        buffer = device.malloc(64)
        hold = Hold(stream, 0, buffer)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(hold.task, 0.01)
        assert not hold.task.cancelled()
        hold.let_go()
        await hold.task
        for _ in range(200):
            task = stream.launch(work(1, time.sleep, rng.random() * 0.0005), buffer)
            waiting = asyncio.create_task(task.wait())
            await asyncio.sleep(rng.random() * 0.001)
            cancelled = waiting.cancel()
            (result,) = await asyncio.gather(waiting, return_exceptions=True)
            assert isinstance(result, asyncio.CancelledError) is cancelled
        await stream.synchronize()
        ref = weakref.ref(buffer)
        del buffer, hold, task, waiting, result
        gc.collect()
        assert ref() is None


@pytest.mark.asyncio
async def test_aio_5_scopes_and_groups_pass_cancellation_on_unchanged():
    """AIO-5: a scope of the caller never stops the device; failing kernels give a group of CannErrors only."""
    async with open_device("wall") as device:
        stream, first, second = (device.create_stream() for _ in range(3))
        hold = Hold(stream)
        with anyio.move_on_after(0.01) as scope:
            await hold.task
        assert scope.cancelled_caught
        with pytest.raises(TimeoutError), anyio.fail_after(0.01):
            await hold.task
        with pytest.raises(ExceptionGroup) as caught:
            async with anyio.create_task_group() as group:
                group.start_soon(first.launch(boom).wait)
                group.start_soon(second.launch(boom).wait)
                await asyncio.sleep(0)
        assert 1 <= len(caught.value.exceptions) <= 2
        assert all(isinstance(problem, ca.CannError) for problem in caught.value.exceptions)
        hold.let_go()
        await stream.synchronize()
        await stream.launch(work(1))
        for each in (first, second):
            with contextlib.suppress(ca.ExecutionError):  # the group may have ended before it saw the second
                await each.close()


# -- event loops ------------------------------------------------------------------------------------------------------


@both
@pytest.mark.asyncio
async def test_aio_9_blocking_calls_work_inside_a_running_loop(clock):
    """AIO-9: as in a notebook cell, with `await` of the same objects beside them, and without nest_asyncio."""
    with blocking.open_device(clock=clock, soc=SOC) as device, device.create_stream() as stream:
        buffer = device.upload(np.arange(4))
        stream.launch(work(1000))
        stream.synchronize()
        event = stream.record()
        event.synchronize()
        assert buffer.get().tolist() == [0, 1, 2, 3]
        await event
        target = np.zeros(4, np.int64)
        await stream.memcpy(target, buffer)
        assert target.tolist() == [0, 1, 2, 3]
        assert "nest_asyncio" not in sys.modules


@both
@pytest.mark.asyncio
async def test_aio_17_work_is_submitted_when_it_is_called(clock):
    """AIO-17: awaiting is optional, in any order, and never decides the order of the work."""
    log = []
    async with open_device(clock) as device, device.create_stream() as stream:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for i in range(5):
                stream.launch(work(1, log.append, i))
            gc.collect()
        fifth, sixth = stream.launch(work(1, log.append, 5)), stream.launch(work(1, log.append, 6))
        await asyncio.gather(sixth, fifth)
        assert log == [0, 1, 2, 3, 4, 5, 6]
        assert device.runtime.statistics().recorded == 7
        assert not inspect.iscoroutine(fifth)


@both
@pytest.mark.asyncio
async def test_aio_16_a_handle_can_be_awaited_by_many_and_many_times(clock):
    """AIO-16: before and after; all get the same object, or the same error."""
    async with open_device(clock) as device, device.create_stream() as stream:
        good, bad = stream.launch(work(1000, lambda: {"x": 1})), stream.launch(boom)
        results = await asyncio.gather(*(good.wait() for _ in range(20)))
        assert all(result is results[0] for result in results)
        assert await good is results[0]
        assert await good is results[0]
        problems = await asyncio.gather(*(bad.wait() for _ in range(5)), return_exceptions=True)
        assert {type(problem) for problem in problems} == {ca.ExecutionError}
        with rejects(507015):
            await bad


def test_aio_7_one_handle_awaited_by_loops_in_many_threads():
    """AIO-7: asyncio and uvloop mixed, every waiter wakes on its own loop, over many rounds."""
    with blocking.open_device(clock="wall", soc=SOC) as device, device.create_stream() as stream:
        rounds, barrier, box = 250, threading.Barrier(8), {}

        def use(index):
            async def main():
                woken = 0
                for number in range(rounds):
                    if index == 0:
                        box[number] = stream.launch(work(1, time.sleep, 0.0001)), stream.record()
                    barrier.wait(LIMIT_S)
                    task, event = box[number]
                    await asyncio.wait_for(event, LIMIT_S)
                    await task
                    woken += 1
                return woken

            with asyncio.Runner(loop_factory=LOOPS[index % 2]) as runner:
                return runner.run(main())

        assert in_threads(8, use) == [rounds] * 8


@pytest.mark.parametrize("factory", LOOPS)
def test_aio_8_a_waiter_whose_loop_is_closed_is_dropped_silently(factory, capfd):
    """AIO-8: the device lives on, stderr stays empty, waiters on other loops get their results."""
    with blocking.open_device(clock="wall", soc=SOC) as device, device.create_stream() as stream:
        hold = Hold(stream)

        async def abandon():
            asyncio.ensure_future(hold.task.wait())  # noqa: RUF006  # that it is dropped is the point
            await asyncio.sleep(0)

        async def later():
            hold.let_go()
            await asyncio.wait_for(hold.task, 5)
            return await stream.launch(work(1, lambda: "alive"))

        for main in (abandon, later):
            with asyncio.Runner(loop_factory=factory) as runner:
                result = runner.run(main())
        assert result == "alive"
    gc.collect()
    assert "Event loop is closed" not in capfd.readouterr().err


@pytest.mark.parametrize("factory", LOOPS)
def test_aio_12_debug_mode_finds_no_thread_safety_error(factory, caplog):
    """AIO-12: wake-ups from other threads go by call_soon_threadsafe. (Host callbacks do not exist yet.)"""

    async def main():
        async with open_device("wall") as device, device.create_stream() as stream:
            tasks = [stream.launch(work(200)) for _ in range(100)]
            await asyncio.gather(*tasks, stream.record(), stream.synchronize())
            await (await device.upload(np.arange(4))).get()
            blocking.wait(stream.synchronize())

    with asyncio.Runner(debug=True, loop_factory=factory) as runner:
        runner.run(main())
    assert "thread-safe" not in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.asyncio
async def test_aio_18_an_interrupted_cell_leaves_the_stream_usable():
    """AIO-18: the await ends at once, the queue still runs in order."""
    log = []
    async with open_device("wall") as device, device.create_stream() as stream:
        hold = Hold(stream, fn=lambda: log.append(1))
        cell = asyncio.create_task(stream.synchronize())
        await asyncio.sleep(0.01)
        cell.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cell
        assert not hold.task.done()
        stream.launch(work(1, log.append, 2))
        hold.let_go()
        await asyncio.wait_for(stream.synchronize(), LIMIT_S)
        assert log == [1, 2]


# -- event timing and semantics ---------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_evt_t1_elapsed_time_of_a_pending_event_is_an_error_at_once():
    """EVT-T1: it neither blocks nor gives garbage; afterwards it is exact."""
    async with open_device() as device, device.create_stream() as stream:
        a, b = device.create_event(timing=True), device.create_event(timing=True)
        a.record(stream)
        stream.launch(work(5000))
        b.record(stream)
        with rejects(107006):
            a.elapsed_time(b)
        await b
        assert a.elapsed_time(b) == 5.0


@pytest.mark.asyncio
async def test_evt_t3_elapsed_time_is_in_milliseconds():
    """EVT-T3: as a float with the resolution of nanoseconds."""
    async with open_device() as device, device.create_stream() as stream:
        a, b, c = (device.create_event() for _ in range(3))
        a.record(stream)
        stream.launch(work(2500))
        b.record(stream)
        stream.launch(work(1))
        c.record(stream)
        await c
        assert isinstance(a.elapsed_time(b), float)
        assert (a.elapsed_time(b), b.elapsed_time(c)) == (2.5, 0.001)
        assert b.timestamp_ns - a.timestamp_ns == 2_500_000


@pytest.mark.asyncio
async def test_evt_s2_a_wait_never_reaches_forward_to_a_later_record():
    """EVT-S2: on an event that was never recorded it is a no-op."""
    async with open_device() as device:
        first, second, event = device.create_stream(), device.create_stream(), device.create_event()
        second.wait(event)
        task = second.launch(work(10))
        first.launch(work(5000))
        event.record(first)
        await task
        assert task.started_ns == 0
        await first.synchronize()


@pytest.mark.asyncio
async def test_evt_s3_query_is_true_before_any_record_and_recorded_is_false():
    """EVT-S3: awaiting returns at once; pending work makes query False."""
    async with open_device() as device, device.create_stream() as stream:
        event = device.create_event()
        assert (event.query(), event.recorded) == (True, False)
        await asyncio.wait_for(event, LIMIT_S)
        stream.launch(work(1000))
        event.record(stream)
        assert (event.recorded, event.query()) == (True, False)
        await event
        assert event.query() is True


@pytest.mark.asyncio
async def test_evt_s5_polling_an_event_sees_false_and_then_true():
    """EVT-S5: without blocking, and from another thread, too."""
    async with open_device("wall") as device, device.create_stream() as stream:
        hold = Hold(stream)
        event = stream.record()
        assert event.query() is False
        asyncio.get_running_loop().call_later(0.01, hold.let_go)
        while not event.query():
            await asyncio.sleep(0.001)
        await stream.synchronize()
        assert stream.query()
        assert await asyncio.to_thread(event.query) is True


def test_evt_s6_waiting_on_the_device_and_on_the_host_have_different_names():
    """EVT-S6: `stream.wait(event)` returns at once; `event.synchronize()` blocks."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        first, second = device.create_stream(), device.create_stream()
        first.launch(work(50_000))
        event = first.record()
        start = device.runtime.clock.now_ns()
        second.wait(event)
        assert device.runtime.clock.now_ns() == start
        assert event.query() is False
        event.synchronize()
        assert event.query() is True
        assert device.runtime.clock.now_ns() - start >= 50_000_000
        assert not hasattr(event, "wait")


# -- virtual time -----------------------------------------------------------------------------------------------------


def test_vt_5_what_is_due_at_one_instant_runs_in_the_order_of_the_calls(tmp_path):
    """VT-5: and the timeline is byte-identical, whatever PYTHONHASHSEED."""
    code = (
        "import sys, cann_async.sync as ca\n"
        "d = ca.open_device(clock='virtual', soc=ca.Soc(ai_cores=2))\n"
        "k = ca.kernel(cost=ca.Cost(seconds=1e-5))(lambda block: None)\n"
        "ss = [d.create_stream() for _ in range(8)]\n"
        "for _ in range(20):\n"
        "    for s in ss: s.launch(k)\n"
        "d.synchronize()\n"
        "d.runtime.timeline.save(sys.argv[1])\n"
        "print(open(sys.argv[1]).read())\n"
    )
    outs = set()
    for seed in ("0", "1", "random"):
        done = script(code, str(tmp_path / "trace.json"), PYTHONHASHSEED=seed)
        assert done.returncode == 0, done.stderr
        outs.add(done.stdout)
    assert len(outs) == 1


@pytest.mark.asyncio
async def test_vt_8_a_deadlock_is_an_error_for_every_waiter_at_once():
    """VT-8: asynchronous bodies that await each other; it lists the blocked streams. (Notify does not exist yet.)"""
    async with open_device() as device:
        first, second = device.create_stream(), device.create_stream()
        tasks = []

        @ca.kernel(per_block=False)
        async def body(launch, other):
            await tasks[other]

        tasks += [first.launch(body, 1), second.launch(body, 0)]
        with rejects(107020, "deadlock", f"stream {first.id}", f"stream {second.id}"):
            await asyncio.wait_for(device.synchronize(), LIMIT_S)
        await device.default_stream.launch(work(1))


@pytest.mark.asyncio
async def test_vt_7_the_runtime_sleeps_on_virtual_time_and_asyncio_on_real_time():
    """VT-7: interleaved with kernels, and with no real delay."""
    start = time.monotonic()
    async with open_device() as device, device.create_stream() as stream:
        clock, task = device.runtime.clock, stream.launch(work(150))
        await clock.sleep(100e-6)
        assert (clock.now_ns(), task.done()) == (100_000, False)
        await clock.sleep(100e-6)
        assert (clock.now_ns(), task.done(), task.finished_ns) == (200_000, True, 150_000)
        await clock.sleep(3600)
        await asyncio.sleep(0.001)
        assert clock.now_ns() == 200_000 + 3600 * 10**9
    assert time.monotonic() - start < LIMIT_S


@pytest.mark.asyncio
async def test_vt_3_virtual_time_is_in_integer_nanoseconds():
    """VT-3: also from a realistic date on."""
    start = 1_709_591_365 * 10**9
    async with ca.Runtime(clock="virtual", soc=SOC, start_ns=start) as runtime:
        stream = runtime.device().default_stream
        assert runtime.clock.now_ns() == start
        await stream.launch(work(0.001))
        assert runtime.clock.now_ns() - start == 1
        kernel = work(1)
        for _ in range(100_000):
            stream.launch(kernel)
        await stream.synchronize()
        assert runtime.clock.now_ns() - start == 1 + 100_000 * 1000
        assert isinstance(runtime.clock.now_ns(), int)


@pytest.mark.asyncio
async def test_vt_2_time_never_goes_back():
    """VT-2: what costs nothing runs now; less than nothing is a ValueError."""
    seen = []
    async with open_device() as device, device.create_stream() as stream:
        clock = device.runtime.clock
        for us in (0, 0, 5, 0, 3):
            stream.launch(work(us, lambda: seen.append(clock.now_ns())))
        await stream.synchronize()
        assert seen == sorted(seen)
        assert clock.now_ns() == 8_000
        with pytest.raises(ValueError, match="-1"):
            await clock.sleep(-1)
        await clock.sleep(0)
        assert clock.now_ns() == 8_000


# -- memory lifetime --------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_mem_4_when_a_source_is_read_is_fixed():
    """MEM-4: a pinned one when the copy runs, a pageable one at the call; never a mix."""
    async with open_device() as device, device.create_stream() as stream:
        pinned, pageable = device.malloc_host(1 << 20, np.uint8), np.ones(1 << 20, np.uint8)
        pinned[:] = 1
        a, b = device.malloc(1 << 20), device.malloc(1 << 20)
        stream.launch(work(5000))
        first, second = stream.memcpy(a, pinned), stream.memcpy(b, pageable)
        pinned[:] = pageable[:] = 9
        await first
        await second
        assert set(np.unique(await a.get())) == {9}
        assert set(np.unique(await b.get())) == {1}


@pytest.mark.asyncio
async def test_mem_3_queued_work_keeps_its_arguments_alive():
    """MEM-3: dropping the handle neither blocks nor cancels nor frees anything early."""
    async with open_device("wall") as device, device.create_stream() as stream:
        x, y = await device.upload(numbers(8)), device.empty(8)
        hold = Hold(stream)
        stream.launch(copy_kernel, y, x)
        del x
        gc.collect()
        assert not hold.task.done()  # nothing has waited
        others = [device.zeros(8) for _ in range(10)]
        hold.let_go()
        await stream.synchronize()
        assert np.array_equal(await y.get(), numbers(8))
        del others


@both
@pytest.mark.asyncio
async def test_mem_6_out_of_memory_is_an_error_of_the_call_itself(clock):
    """MEM-6: with requested, free and total; the state is unchanged."""
    async with open_device(clock, soc=SOC.replace(memory_bytes=1 << 20)) as device:
        first = device.malloc(600 * 1024)
        free, total = device.memory_info()
        with rejects(207001, str(600 * 1024), str(free), str(total)):
            device.malloc(600 * 1024)
        assert device.memory_info() == (free, total)
        device.malloc(100 * 1024)
        first.free()
        device.malloc(600 * 1024)


# -- stream order -----------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_str_3_without_events_streams_race_and_with_them_they_do_not():
    """STR-3: the order of the host's calls alone decides nothing; on virtual time the race has one result."""
    async with open_device() as device:
        up, compute = device.create_stream(), device.create_stream()
        ones = device.malloc_host(1000, np.float32)
        ones[:] = 1
        for ordered in (False, True):
            x, y = await device.upload(np.zeros(1000, np.float32)), device.empty(1000)
            up.memcpy(x, ones)
            if ordered:
                compute.wait(up.record())
            compute.launch(copy_kernel, y, x)
            await device.synchronize()
            assert (await y.get() == (1 if ordered else 0)).all()


@pytest.mark.asyncio
async def test_str_1_the_default_stream_is_an_ordinary_fifo_without_a_barrier():
    """STR-1: one object per context."""
    async with open_device() as device:
        default, other = device.default_stream, device.create_stream()
        first, beside, second = default.launch(work(1000)), other.launch(work(1000)), default.launch(work(1000))
        await device.synchronize()
        assert first.started_ns == beside.started_ns == 0
        assert second.started_ns == first.finished_ns
        assert device.default_stream is default


@pytest.mark.asyncio
async def test_str_4_a_lower_number_is_more_urgent_and_nothing_is_preempted():
    """STR-4: out of range is 107000, not a clamp (the native API differs from aclrtCreateStreamWithConfig here)."""
    async with open_device(soc=SOC.replace(ai_cores=1)) as device:
        low, high, ran = device.create_stream(priority=7), device.create_stream(priority=0), []
        for i in range(4):
            low.launch(work(100, ran.append, f"low {i}"))
        await device.runtime.clock.sleep(50e-6)
        high.launch(work(10, ran.append, "high"))
        await device.synchronize()
        assert ran == ["low 0", "high", "low 1", "low 2", "low 3"]
        with rejects(107000):
            device.create_stream(priority=8)
        assert (high.priority, low.priority) == (0, 7)


# -- arrays and copies ------------------------------------------------------------------------------------------------


@both
@pytest.mark.asyncio
async def test_arr_3_nothing_can_be_copied(clock):
    """ARR-3: as an ordinary task without time. The reference wins: `malloc(0)` is 100000, not the case's 107000."""
    async with open_device(clock) as device, device.create_stream() as stream:
        for array in (np.empty(0, "f4"), np.empty((3, 0, 2), "i8"), np.arange(10)[5:5:2]):
            back = await (await device.upload(array)).get()
            assert (back.shape, back.dtype) == (array.shape, array.dtype)
        task = stream.memcpy(device.empty((0,), np.uint8), np.empty(0, np.uint8))
        await task
        assert task.finished_ns == task.started_ns
        with rejects(100000):
            device.malloc(0)
        assert device.empty((0, 3)).shape == (0, 3)


@both
@pytest.mark.asyncio
async def test_arr_2_copies_are_defined_on_logical_elements(clock):
    """ARR-2: for every mix of orders and views on either side."""
    base = np.arange(12, dtype="f8").reshape(3, 4)
    async with open_device(clock) as device, device.create_stream() as stream:
        for source in (base, np.asfortranarray(base), base.T.copy().T, base[::-1], base[:, ::2]):
            for order in "CF":
                buffer = device.empty(source.shape, source.dtype, order=order)
                await stream.memcpy(buffer, source)
                assert np.array_equal(await buffer.get(), source)


@both
@pytest.mark.asyncio
async def test_arr_6_bytes_are_never_reinterpreted_silently(clock):
    """ARR-6: another byte order is converted, what is no number is a TypeError."""
    big = np.array([1.5, 2.5, 3.5], dtype=">f4")
    async with open_device(clock) as device:
        assert np.array_equal(await (await device.upload(big)).get(), big)
        for bad in (np.array([object()]), np.array(["x"], dtype=object), np.zeros(2, "M8[s]"), np.zeros(2, "i4,f4")):
            with pytest.raises(TypeError, match="dtype"):
                device.upload(bad)


@both
@pytest.mark.asyncio
async def test_arr_5_too_many_bytes_are_107000_and_change_nothing(clock):
    """ARR-5: on either side, from an offset, negative, or no int. (An offset is a part of the buffer here.)"""
    async with open_device(clock) as device, device.create_stream() as stream:
        buffer, host = device.malloc(64), np.zeros(1000, np.uint8)
        stream.memset(buffer, 5)
        for nbytes, offset in ((65, 0), (64, 1), (-1, 0), (1 << 40, 0)):
            with rejects(107000):
                stream.memcpy(buffer[offset:], host, nbytes=nbytes)
        with pytest.raises(TypeError):
            stream.memcpy(buffer, host, nbytes=1.5)
        await stream.synchronize()
        assert set(await buffer.get()) == {5}


@both
@pytest.mark.asyncio
async def test_arr_11_overlapping_copies_are_like_memmove(clock):
    """ARR-11: in both directions; onto itself it completes."""
    base = np.arange(16, dtype="i4")
    async with open_device(clock) as device, device.create_stream() as stream:
        for dst, src in (
            (slice(1, 16), slice(0, 15)),
            (slice(0, 15), slice(1, 16)),
            (slice(4, 12), slice(0, 8)),
            (slice(3, 9), slice(3, 9)),
        ):
            buffer, want = await device.upload(base), base.copy()
            want[dst] = want[src].copy()
            await stream.memcpy(buffer[dst], buffer[src])
            assert np.array_equal(await buffer.get(), want)


@both
@pytest.mark.asyncio
async def test_arr_9_any_address_of_the_host_can_be_copied(clock):
    """ARR-9: and allocations are 64-byte aligned. (There is no strict mode: the contract does not name one.)"""
    raw = np.arange(257, dtype=np.uint16).astype(np.uint8)
    async with open_device(clock) as device:
        odd = raw[1:129]
        assert np.array_equal(await (await device.upload(odd)).get(), odd)
        assert device.malloc_host(100, np.uint8).ctypes.data % 64 == 0
        assert device.malloc(100).address % 64 == 0


# -- the simulator ----------------------------------------------------------------------------------------------------


@both
@pytest.mark.asyncio
async def test_krn_2_an_index_outside_of_a_buffer_changes_nothing_else(clock):
    """KRN-2: the IndexError is the cause, with index and size; negative indices are NumPy's."""
    async with open_device(clock) as device, device.create_stream() as stream:
        pool = device.malloc(96)
        a, b = pool[0:32].view(np.int32), pool[64:96].view(np.int32)
        await stream.memset(pool, 0)

        @ca.kernel
        def outside(block, view):
            view[8] = 7

        @ca.kernel
        def last(block, view):
            view[-1] = 5

        with rejects(507015, "8") as caught:
            await stream.launch(outside, a)
        assert isinstance(caught.value.__cause__, IndexError)
        assert not (await pool.get()).any()
        await stream.launch(last, a)
        assert (await a.get())[7] == 5
        assert not (await b.get()).any()


def test_krn_3_both_clocks_have_the_same_names():
    """KRN-3: the classes are the same ones; an unknown keyword is a TypeError in both."""
    wall, virtual = ca.Runtime(clock="wall"), ca.Runtime(clock="virtual")
    for make in (
        lambda runtime: runtime,
        lambda runtime: runtime.clock,
        lambda runtime: runtime.device(),
        lambda runtime: runtime.device().default_stream,
        lambda runtime: runtime.device().create_event(),
        lambda runtime: runtime.device().malloc(8),
    ):
        assert type(make(wall)) is type(make(virtual))
    for runtime in (wall, virtual):
        with pytest.raises(TypeError):
            runtime.device().create_stream(no_such_option=1)
        blocking.wait(runtime.close())


# -- life cycle -------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_lif_13_closing_wakes_whoever_waits_and_hides_no_error():
    """LIF-13: an error inside of the block is what the caller sees."""
    runtime = ca.Runtime(clock="wall", soc=SOC)
    device = runtime.device()
    stream = device.create_stream()
    hold = Hold(stream)
    event = stream.record()
    waits = [asyncio.create_task(wait) for wait in (event.synchronize(), stream.synchronize(), device.synchronize())]
    await asyncio.sleep(0.01)
    await runtime.close(drain=False)
    ended = await asyncio.wait_for(asyncio.gather(*waits, return_exceptions=True), LIMIT_S)
    assert all(isinstance(problem, ca.CannError) and "closed" in str(problem) for problem in ended)
    hold.let_go()
    with pytest.raises(KeyError):
        async with ca.Runtime(clock="wall", soc=SOC) as second:
            hold = Hold(second.device().default_stream)
            raise KeyError
    hold.let_go()


@both
@pytest.mark.asyncio
async def test_lif_1_what_is_closed_says_so_and_enqueues_nothing_anywhere(clock):
    """LIF-1: closing twice, repr, == and hash stay safe; closing the default stream does nothing."""
    async with open_device(clock) as device:
        stream, event, buffer = device.create_stream(), device.create_event(), device.malloc(8)
        await stream.close()
        await stream.close()
        before = device.runtime.statistics()
        for use in (
            lambda: stream.launch(work(1)),
            lambda: stream.memcpy(buffer, bytes(8)),
            lambda: event.record(stream),
            lambda: stream.wait(event),
            lambda: stream.memset(buffer, 0),
        ):
            with rejects(507000, "closed"):
                use()
        assert device.runtime.statistics() == before
        repr(stream)
        hash(stream)
        assert stream == stream
        assert not stream
        await device.default_stream.close()
        assert device.default_stream


@pytest.mark.parametrize("clock", ("wall", "virtual"))
def test_lif_7_a_forked_child_gets_an_error_that_says_what_to_do(clock):
    """LIF-7: at once, with the words fork and spawn. (`test_sync` has spawn, and fork after a mere import.)"""
    code = (
        "import os, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "import cann_async.sync as ca\n"
        f"d = ca.open_device(clock={clock!r}); k = ca.kernel(lambda block: None)\n"
        "d.default_stream.launch(k).result()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try: ca.open_device().default_stream.launch(k); print('ok', flush=True)\n"
        "    except ca.CannError as e: print('fork' in str(e), 'spawn' in str(e), flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
    )
    assert script(code, timeout=20).stdout.split() == ["True", "True"]


@both
@pytest.mark.asyncio
async def test_lif_2_closing_a_stream_with_work_in_flight(clock):
    """LIF-2: it drains; with force it drops (107023); one that is forgotten still runs its queue, with a warning."""
    ran = []
    async with open_device(clock) as device:
        stream = device.create_stream()
        stream.launch(work(100, ran.append, 1))
        await stream.close()
        assert ran == [1]
        stream = device.create_stream()
        hold, task = Hold(stream), stream.launch(work(1, ran.append, 2))
        await stream.close(force=True)
        hold.let_go()
        with rejects(107023):
            await task
        with pytest.warns(ResourceWarning):
            stream = device.create_stream()
            task = stream.launch(work(1, ran.append, 3))
            del stream
            gc.collect()
        await task
        assert ran == [1, 3]


@both
def test_lif_6_a_blocking_call_at_exit_works_and_never_hangs(clock):
    """LIF-6: first used inside of atexit. (`test_sync` has more endings.)"""
    code = (
        "import atexit, cann_async.sync as ca\n"
        f"s = ca.open_device(clock={clock!r}).default_stream\n"
        "def last():\n"
        "    s.launch(ca.kernel(lambda block: None)); s.synchronize(); print('done')\n"
        "atexit.register(last)\n"
    )
    done = script(code, timeout=20)
    assert (done.stdout.strip(), done.stderr) == ("done", "")
