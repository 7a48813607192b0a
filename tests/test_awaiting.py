"""Awaiting: every tool of asyncio and anyio, many awaiters, several loops and threads, cancellation, callbacks."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import threading
import warnings
import weakref
from collections import Counter

import anyio
import pytest
import uvloop

import cann_async as ca
import cann_async.sync as blocking

from .helpers import LIMIT_S, Hold, boom, both, in_threads, open_device, rejects, work

pytestmark = pytest.mark.timeout(60)


@both
@pytest.mark.asyncio
async def test_a_launch_is_submitted_when_it_is_called(clock):
    """Nobody has to await it, and nothing warns."""
    log = []
    async with open_device(clock) as device, device.create_stream() as stream:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for i in range(5):
                stream.launch(work(1, log.append, i))
            gc.collect()
        task = stream.launch(work(1, log.append, 5))
        assert not inspect.iscoroutine(task)
        assert not isinstance(task, asyncio.Future)
        await task
        assert log == list(range(6))


@both
@pytest.mark.asyncio
async def test_gather_wait_for_wait_and_as_completed(clock):
    """On tasks, events and streams."""
    async with open_device(clock) as device:
        streams = [device.create_stream() for _ in range(3)]
        tasks = [stream.launch(work(30 - 10 * i, lambda i=i: i)) for i, stream in enumerate(streams)]
        assert await asyncio.gather(*tasks) == [0, 1, 2]
        tasks = [stream.launch(work(30 - 10 * i, lambda i=i: i)) for i, stream in enumerate(streams)]
        ended = [await each for each in asyncio.as_completed([task.future() for task in tasks])]
        assert sorted(ended) == [0, 1, 2]
        assert clock == "wall" or ended == [2, 1, 0]
        assert await asyncio.wait_for(streams[0].launch(work(1, lambda: "in time")), LIMIT_S) == "in time"
        await asyncio.wait_for(streams[0].record(), LIMIT_S)
        await asyncio.wait_for(streams[0].synchronize(), LIMIT_S)
        tasks = [stream.launch(work(10, lambda: 1)) for stream in streams]
        done, pending = await asyncio.wait([asyncio.create_task(task.wait()) for task in tasks])
        assert (len(done), len(pending)) == (3, 0)
        async with asyncio.timeout(LIMIT_S):
            await streams[0].launch(work(1))


@both
@pytest.mark.asyncio
async def test_wait_until_the_first_has_ended(clock):
    """On virtual time the shorter one, exactly."""
    async with open_device(clock) as device:
        first, second = device.create_stream(), device.create_stream()
        hold = Hold(first, 1000)
        short = second.launch(work(10))
        futures = {short.future(), hold.task.future()}
        done, pending = await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        assert (len(done), len(pending)) == (1, 1)
        assert short.done()
        assert clock == "wall" or device.runtime.clock.now_ns() == 10_000
        hold.let_go()
        await asyncio.wait(pending)


@both
@pytest.mark.asyncio
async def test_task_groups_of_asyncio_and_anyio(clock):
    """Results and errors: an ExceptionGroup of CannErrors only; the device goes on."""
    async with open_device(clock) as device:
        first, second = device.create_stream(), device.create_stream()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(s.launch(work(10, lambda: 4)).wait()) for s in (first, second)]
        assert [task.result() for task in tasks] == [4, 4]
        async with anyio.create_task_group() as group:
            group.start_soon(first.launch(work(10)).wait)
            group.start_soon(second.synchronize)
            group.start_soon(first.record().synchronize)
        for make in (asyncio.TaskGroup, anyio.create_task_group):
            with pytest.raises(ExceptionGroup) as caught:
                async with make() as group:
                    start = getattr(group, "start_soon", None) or (lambda wait: group.create_task(wait()))
                    start(first.launch(boom).wait)
                    start(second.launch(boom).wait)
            assert 1 <= len(caught.value.exceptions) <= 2
            assert {type(problem) for problem in caught.value.exceptions} == {ca.ExecutionError}
        with contextlib.suppress(ca.CannError):  # the group may have ended before it saw the second
            await device.synchronize()
        assert await first.launch(work(1, lambda: "alive")) == "alive"


@pytest.mark.asyncio
async def test_scopes_and_timeouts_end_the_wait_and_not_the_work():
    """`move_on_after`, `fail_after`, `wait_for`, `timeout`."""
    async with open_device("wall") as device, device.create_stream() as stream:
        hold = Hold(stream, fn=lambda: "done")
        with anyio.move_on_after(0.01) as scope:
            await hold.task
        assert scope.cancelled_caught
        with pytest.raises(TimeoutError), anyio.fail_after(0.01):
            await stream.synchronize()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(hold.task, 0.01)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await device.synchronize()
        assert not hold.task.done()
        assert not hold.task.cancelled()
        hold.let_go()
        assert await hold.task == "done"


@pytest.mark.asyncio
async def test_a_timeout_of_real_time_also_ends_a_wait_on_virtual_time():
    """Virtual time that cannot move does not hold the loop up."""
    gate = threading.Event()

    @ca.kernel(cost=ca.Cost(seconds=1))
    async def slow(block):
        while not gate.is_set():
            await asyncio.sleep(0.001)

    async with open_device() as device, device.create_stream() as stream:
        task = stream.launch(slow)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(task, 0.02)
        gate.set()
        await task


@both
@pytest.mark.asyncio
async def test_many_awaiters_and_many_times(clock):
    """All get the same object, or the same error; awaiting what has ended needs no progress."""
    async with open_device(clock) as device, device.create_stream() as stream:
        hold, bad = Hold(stream, fn=lambda: {"x": 1}), stream.launch(boom)
        waits = [asyncio.create_task(hold.task.wait()) for _ in range(100)]
        fails = [asyncio.create_task(bad.wait()) for _ in range(100)]
        await asyncio.sleep(0)
        hold.let_go()
        results = await asyncio.gather(*waits)
        assert all(result is results[0] for result in results)
        assert await hold.task is results[0]
        assert hold.task.result() is results[0]
        problems = await asyncio.gather(*fails, return_exceptions=True)
        assert {(type(problem), problem.code) for problem in problems} == {(ca.ExecutionError, 507015)}
        for _ in range(3):
            with rejects(507015):
                await bad
    with rejects(507015):
        await bad  # long after everything has been closed
    assert await hold.task is results[0]


@both
@pytest.mark.asyncio
async def test_cancelling_an_awaiter_changes_nothing_for_the_work(clock):
    """Other awaiters, events and later tasks go on."""
    log = []
    async with open_device(clock) as device, device.create_stream() as stream:
        hold = Hold(stream, fn=lambda: log.append(1))
        second = stream.launch(work(10, log.append, 2))
        event = stream.record()
        waits = [asyncio.create_task(x) for x in (second.wait(), event.synchronize(), stream.synchronize())]
        staying = asyncio.create_task(second.wait())
        if clock == "wall":
            await asyncio.sleep(0.01)
        for wait in waits:
            wait.cancel()
        for wait in waits:
            with pytest.raises(asyncio.CancelledError):
                await wait
        hold.let_go()
        await staying
        assert log == [1, 2]
        assert not second.cancelled()


@both
@pytest.mark.asyncio
async def test_cancel_takes_out_what_has_not_started(clock):
    """True only then; who awaits it gets 107023, later tasks run, its arguments are dropped."""

    class Thing:
        pass

    log, thing = [], Thing()
    ref = weakref.ref(thing)
    async with open_device(clock) as device, device.create_stream() as stream:
        hold = Hold(stream, fn=lambda: log.append(1))
        await asyncio.to_thread(hold.started.wait, LIMIT_S) if clock == "wall" else None
        second = stream.launch(work(1, log.append, 2), thing)
        third = stream.launch(work(1, log.append, 3))
        waiting = asyncio.create_task(second.wait())
        if clock == "wall":
            await asyncio.sleep(0.01)
        del thing
        assert second.cancel() is True
        assert second.cancel() is False
        assert second.cancelled()
        assert second.done()
        gc.collect()
        assert ref() is None
        for wait in (waiting, second):
            with rejects(107023, "cancelled"):
                await wait
        assert isinstance(second.exception(), ca.UsageError)
        if clock == "wall":
            assert hold.task.cancel() is False  # it runs
        hold.let_go()
        await stream.synchronize()
        assert third.cancel() is False
        assert log == [1, 3]


@both
@pytest.mark.asyncio
async def test_cancelling_the_last_task_does_not_fail_synchronize(clock):
    """What is gone is not waited for, and no failure."""
    async with open_device(clock) as device:
        first, second = device.create_stream(), device.create_stream()
        hold = Hold(first)
        last = first.launch(work(1))
        second.wait(last)
        after = second.launch(work(1, lambda: "went on"))
        waiting = asyncio.create_task(first.synchronize())
        await asyncio.sleep(0.01 if clock == "wall" else 0)
        last.cancel()
        assert last.done()
        hold.let_go()
        await waiting
        await device.synchronize()
        assert await after == "went on"


@both
@pytest.mark.asyncio
async def test_cancelling_the_last_task_leaves_what_is_before_it_to_wait_for(clock):
    """For synchronize, query, close, and for other streams."""
    log = []
    async with open_device(clock) as device:
        first, second = device.create_stream(), device.create_stream()
        hold = Hold(first, fn=lambda: log.append(1))
        assert first.launch(work(1)).cancel()
        assert first.query() is False
        second.wait(first)
        second.launch(work(1, log.append, 2))
        hold.let_go()
        await first.synchronize()
        assert log[:1] == [1]
        await device.synchronize()
        assert log == [1, 2]
        hold = Hold(first, fn=lambda: log.append(3))
        assert first.launch(work(1)).cancel()
        hold.let_go()
        await first.close()
        assert log == [1, 2, 3]


@both
@pytest.mark.asyncio
async def test_a_cancelled_record_does_not_hold_anybody_up(clock):
    """Waiters of its event are told."""
    async with open_device(clock) as device:
        first, second = device.create_stream(), device.create_stream()
        hold = Hold(first)
        middle = first.launch(work(1))
        event = first.record()
        second.wait(event)
        after = second.launch(work(1, lambda: 1))
        assert middle.cancel()
        hold.let_go()
        assert await after == 1
        await event


@both
@pytest.mark.asyncio
async def test_done_exception_and_cancelled(clock):
    """An error that is asked for too early says so."""
    async with open_device(clock) as device, device.create_stream() as stream:
        hold = Hold(stream)
        assert hold.task.done() is False
        assert hold.task.cancelled() is False
        with rejects(107000, "not ended"):
            hold.task.exception()
        hold.let_go()
        await hold.task
        assert hold.task.done() is True
        assert hold.task.exception() is None


@both
@pytest.mark.asyncio
async def test_done_callbacks_run_once_on_the_loop_of_who_left_them(clock):
    """In their order, with the task; also when it has already ended."""
    seen = []
    async with open_device(clock) as device, device.create_stream() as stream:
        hold = Hold(stream, fn=lambda: 1)
        task = hold.task

        def note(what):
            return lambda ended: seen.append((what, ended is task, threading.get_ident(), asyncio.get_running_loop()))

        removed = note("removed")
        task.add_done_callback(note(1))
        task.add_done_callback(removed)
        task.add_done_callback(removed)
        task.add_done_callback(note(2))
        assert task.remove_done_callback(removed) == 2
        assert task.remove_done_callback(removed) == 0
        hold.let_go()
        await task
        task.add_done_callback(note(3))
        await asyncio.sleep(0.01)
        here = threading.get_ident(), asyncio.get_running_loop()
        assert seen == [(i, True, *here) for i in (1, 2, 3)]


@pytest.mark.asyncio
async def test_a_done_callback_is_enough_for_virtual_time_to_move():
    """To that instant and no further; taken back, it moves nothing."""
    async with open_device() as device:
        first, second = device.create_stream(), device.create_stream()
        ended = asyncio.get_running_loop().create_future()
        second.launch(work(20)).add_done_callback(ended.set_result)
        task = first.launch(work(10))
        task.add_done_callback(print)
        assert task.remove_done_callback(print) == 1
        future = task.future()
        future.cancel()
        await asyncio.sleep(0)
        await asyncio.wait_for(ended, LIMIT_S)
        assert device.runtime.clock.now_ns() == 20_000
        beyond = first.launch(work(1000)).future()
        beyond.cancel()
        await asyncio.sleep(0.01)
        assert device.runtime.clock.now_ns() == 20_000


@both
def test_done_callbacks_without_a_loop_run_where_the_task_ends(clock, caplog):
    """An exception in one is logged and harms nothing."""
    with blocking.open_device(clock=clock) as device, device.create_stream() as stream:
        seen = []
        hold = Hold(stream)
        hold.task.add_done_callback(lambda task: 1 / 0)
        hold.task.add_done_callback(seen.append)
        hold.let_go()
        stream.synchronize()
        device.close()
        assert seen == [hold.task]
        assert "ZeroDivisionError" in caplog.text


@both
@pytest.mark.asyncio
async def test_a_task_gives_futures_of_the_running_loop(clock):
    """Each is its own: cancelling one touches neither the task nor the others."""
    async with open_device(clock) as device, device.create_stream() as stream:
        hold = Hold(stream, fn=lambda: 3)
        bad = stream.launch(boom)
        first, second, third = hold.task.future(), hold.task.future(), bad.future()
        assert asyncio.isfuture(first)
        assert first.get_loop() is asyncio.get_running_loop()
        first.cancel()
        hold.let_go()
        assert await second == 3
        assert first.cancelled()
        with rejects(507015):
            await third
        assert await hold.task.future() == 3
        assert await asyncio.shield(hold.task.future()) == 3


def test_a_future_needs_a_running_loop():
    """As asyncio says."""
    with blocking.open_device(clock="virtual") as device:
        task = device.default_stream.launch(work(1))
        with pytest.raises(RuntimeError, match="loop"):
            task.future()


@both
def test_several_loops_and_threads_await_the_same_objects_at_once(clock):
    """asyncio and uvloop mixed; each wakes on its own loop, a blocked thread beside them."""
    with blocking.open_device(clock=clock) as device, device.create_stream() as stream:
        for _ in range(10):
            hold = Hold(stream, fn=lambda: object())
            event = stream.record()
            ready = threading.Barrier(7)

            async def wait(hold=hold, event=event, ready=ready):
                await asyncio.to_thread(ready.wait, LIMIT_S)
                await asyncio.wait_for(event, LIMIT_S)
                return await hold.task

            def one(index, hold=hold, ready=ready, wait=wait):
                if index == 6:
                    ready.wait(LIMIT_S)
                    hold.let_go()
                    return hold.task.result()
                factory = uvloop.new_event_loop if index % 2 else asyncio.new_event_loop
                with asyncio.Runner(loop_factory=factory) as runner:
                    return runner.run(wait())

            results = in_threads(7, one)
            assert all(result is results[0] for result in results)


@both
@pytest.mark.parametrize("factory", (asyncio.new_event_loop, uvloop.new_event_loop))
def test_a_waiter_whose_loop_is_closed_is_passed_over(clock, factory, capfd):
    """The others still get their results, and nothing is printed."""
    with blocking.open_device(clock=clock) as device, device.create_stream() as stream:
        hold = Hold(stream, fn=lambda: 5)

        async def abandon():
            abandoned = asyncio.ensure_future(hold.task.wait())
            hold.task.add_done_callback(lambda task: None)
            hold.task.future()
            await asyncio.sleep(0)
            return abandoned

        async def later():
            hold.let_go()
            assert await asyncio.wait_for(hold.task, LIMIT_S) == 5
            return await stream.launch(work(1, lambda: "alive"))

        loop = factory()
        abandoned = loop.run_until_complete(abandon())
        abandoned._log_destroy_pending = False
        loop.close()
        with asyncio.Runner(loop_factory=factory) as runner:
            assert runner.run(later()) == "alive"
        del abandoned
        gc.collect()
    assert capfd.readouterr().err == ""


@both
@pytest.mark.asyncio
async def test_nothing_is_kept_of_an_await_that_was_given_up(clock):
    """Neither buffers nor tasks."""
    async with open_device(clock) as device, device.create_stream() as stream:
        buffer = device.malloc(64)
        ref = weakref.ref(buffer)
        hold = Hold(stream, 10, buffer)
        waiting = asyncio.create_task(hold.task.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        hold.let_go()
        await hold.task
        del buffer, hold, waiting
        gc.collect()
        assert ref() is None


@both
@pytest.mark.asyncio
async def test_a_loop_stays_responsive_while_a_long_queue_is_awaited(clock):
    """Other coroutines get their turns between the tasks that the loop's own thread runs."""
    turns = 0
    here = threading.get_ident()
    at_turn: Counter[int] = Counter()

    def body(block):
        sum(range(500))  # about 10 us of real time
        if threading.get_ident() == here:
            at_turn[turns] += 1

    async with open_device(clock) as device, device.create_stream() as stream:

        async def other():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        spinning = asyncio.create_task(other())
        await asyncio.sleep(0)
        kernel = ca.kernel(cost=ca.Cost(seconds=1e-6))(body)
        await asyncio.to_thread(stream.launch(kernel).result)  # known to be light from now on
        for _ in range(900):
            last = stream.launch(kernel)
        if clock == "virtual":
            spinning.cancel()  # on virtual time a host that can run keeps time from moving
        await last
        spinning.cancel()
        assert turns > 0
        if clock == "wall":  # a slice is 200 us
            assert max(at_turn.values(), default=0) < 300


@both
@pytest.mark.asyncio
async def test_a_queue_of_tasks_as_a_pipeline(clock):
    """Producers and consumers on one loop hand tasks to each other."""
    async with open_device(clock) as device:
        streams = [device.create_stream() for _ in range(3)]
        queue: asyncio.Queue = asyncio.Queue(maxsize=2)
        results = []

        async def produce():
            for i in range(30):
                await queue.put(streams[i % 3].launch(work(i % 4, lambda i=i: i)))
            await queue.put(None)

        async def consume():
            while (task := await queue.get()) is not None:
                results.append(await task)

        await asyncio.wait_for(asyncio.gather(produce(), consume()), LIMIT_S)
        assert results == list(range(30))
