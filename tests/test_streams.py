"""Streams: order, overlap, waiting, priorities, closing."""

from __future__ import annotations

import asyncio
import gc

import numpy as np
import pytest

import cann_async as ca

from .helpers import Hold, boom, both, open_device, rejects, work

pytestmark = pytest.mark.timeout(30)


@both
@pytest.mark.asyncio
async def test_tasks_of_one_stream_run_in_the_order_of_the_calls(clock):
    """Whatever the engine, a stream is a FIFO."""
    log = []
    async with open_device(clock) as device, device.create_stream() as stream:
        for i in range(50):
            stream.launch(work(1, log.append, i, engine=("ai_core", "ai_vector", "ai_cpu")[i % 3]))
        await stream.synchronize()
    assert log == list(range(50))


@pytest.mark.asyncio
async def test_tasks_of_one_stream_never_overlap():
    """The next one starts when the one before has ended, although there are cores left."""
    async with open_device() as device, device.create_stream() as stream:
        tasks = [stream.launch(work(10)) for _ in range(3)]
        await stream.synchronize()
    assert [(t.started_ns, t.finished_ns) for t in tasks] == [(0, 10_000), (10_000, 20_000), (20_000, 30_000)]


@pytest.mark.asyncio
async def test_streams_share_the_engines():
    """Kernels of several streams run side by side as long as there are cores."""
    async with open_device() as device:
        streams = [device.create_stream() for _ in range(5)]
        tasks = [stream.launch(work(10)) for stream in streams]
        await device.synchronize()
        assert [t.started_ns for t in tasks] == [0, 0, 0, 0, 10_000]  # four cores


@pytest.mark.asyncio
async def test_copies_in_both_directions_and_kernels_run_at_the_same_time():
    """H2D, D2H, D2D and compute are engines of their own."""
    async with open_device() as device:
        a, b, c, d = (device.empty(1000, np.uint8) for _ in range(4))
        host = np.zeros(1000, np.uint8)
        up, down, inside, compute = (device.create_stream() for _ in range(4))
        tasks = [
            up.memcpy(a, host),
            down.memcpy(host.copy(), b),
            inside.memcpy(c, d),
            compute.launch(work(1)),
        ]
        await device.synchronize()
        assert [(t.engine, t.started_ns, t.finished_ns) for t in tasks] == [
            (engine, 0, 1000) for engine in ("h2d", "d2h", "d2d", "ai_core")
        ]


@pytest.mark.asyncio
async def test_synchronize_waits_for_what_was_enqueued_before_it():
    """What comes later is not waited for."""
    async with open_device() as device, device.create_stream() as stream:
        first = stream.launch(work(10))
        waiting = asyncio.create_task(stream.synchronize())
        await asyncio.sleep(0)
        second = stream.launch(work(1000))
        await waiting
        assert first.done()
        assert device.runtime.clock.now_ns() == 10_000
        assert second.finished_ns is None


@both
@pytest.mark.asyncio
async def test_query_says_whether_everything_has_ended(clock):
    """False while work is queued, True before any and after."""
    async with open_device(clock) as device, device.create_stream() as stream:
        assert stream.query() is True
        hold = Hold(stream)
        assert stream.query() is False
        hold.let_go()
        await stream.synchronize()
        assert stream.query() is True


@both
@pytest.mark.asyncio
async def test_pending_counts_what_has_not_ended(clock):
    """Running and queued tasks."""
    async with open_device(clock) as device, device.create_stream() as stream:
        hold = Hold(stream)
        for _ in range(3):
            stream.launch(work(1))
        assert stream.pending == 4
        hold.let_go()
        await stream.synchronize()
        assert stream.pending == 0


@pytest.mark.asyncio
async def test_what_a_stream_says_about_itself():
    """Id, name, priority, context, device, repr."""
    async with open_device() as device:
        plain, named = device.create_stream(), device.create_stream(priority=3, name="load")
        assert plain.id != named.id
        assert (plain.name, plain.priority) == (None, 0)
        assert (named.name, named.priority) == ("load", 3)
        assert named.context is device.default_context
        assert named.device is device
        assert "load" in repr(named)
        assert named != plain
        assert hash(named) != hash(plain)


@pytest.mark.asyncio
async def test_priority_out_of_range_is_107000_and_no_int_is_a_type_error():
    """Nothing is clamped."""
    async with open_device() as device:
        for priority in (-1, 8, 1 << 40):
            with rejects(107000, str(priority)):
                device.create_stream(priority=priority)
        with pytest.raises(TypeError):
            device.create_stream(priority="high")
        with pytest.raises(TypeError):
            device.create_stream(no_such_option=1)


@both
@pytest.mark.asyncio
async def test_a_stream_waits_for_an_event_a_task_and_a_stream(clock):
    """Device-side waits order streams; the call itself returns at once."""
    log = []
    async with open_device(clock) as device:
        first, second = device.create_stream(), device.create_stream()
        for how in range(3):
            hold = Hold(first, fn=lambda how=how: log.append(("first", how)))
            what = (first.record(), hold.task, first)[how]
            waiting = second.wait(what)
            second.launch(work(1, log.append, ("second", how)))
            assert not waiting.done()
            hold.let_go()
            await second.synchronize()
    assert log == [(stream, how) for how in range(3) for stream in ("first", "second")]


@both
@pytest.mark.asyncio
async def test_a_wait_and_a_record_are_tasks_that_can_be_awaited(clock):
    """They end with None, on no engine."""
    async with open_device(clock) as device:
        first, second = device.create_stream(), device.create_stream()
        first.launch(work(5))
        waiting = second.wait(first)
        assert await waiting is None
        assert waiting.engine == ""
        assert await second.wait(device.create_event()) is None


@pytest.mark.asyncio
async def test_waiting_for_nothing_new_holds_nothing_up():
    """An idle stream, a task that has ended, the stream itself."""
    async with open_device() as device:
        first, second = device.create_stream(), device.create_stream()
        done = first.launch(work(7))
        await done
        for what in (first, done, second, device.create_stream()):
            second.wait(what)
        task = second.launch(work(1))
        await task
        assert task.started_ns == 7_000


@both
@pytest.mark.asyncio
async def test_a_wait_for_a_task_that_fails_lets_go(clock):
    """The failure belongs to its own task; who waits for it goes on."""
    async with open_device(clock) as device:
        first, second = device.create_stream(), device.create_stream()
        bad = first.launch(boom)
        second.wait(bad)
        assert await second.launch(work(1, str)) == ""
        with rejects(507015):
            await bad


@both
@pytest.mark.asyncio
async def test_a_stream_waits_only_for_events_tasks_and_streams(clock):
    """Anything else is a TypeError, with nothing enqueued."""
    async with open_device(clock) as device, device.create_stream() as stream:
        for what in (None, 1, device):
            with pytest.raises(TypeError, match="Event"):
                stream.wait(what)
        with pytest.raises(TypeError):
            stream.record("event")
        with pytest.raises(TypeError, match="kernel"):
            stream.launch(print)
        assert stream.pending == 0


@both
@pytest.mark.asyncio
async def test_a_failure_belongs_to_its_task_and_the_stream_goes_on(clock):
    """507015 with the original as cause and the line of the launch; later tasks run."""
    async with open_device(clock) as device, device.create_stream() as stream:
        bad, good = stream.launch(boom), stream.launch(work(1, lambda: "fine"))
        assert await good == "fine"
        with rejects(507015, "boom", "ZeroDivisionError", "test_streams.py") as caught:
            await bad
        failure = caught.value
        assert isinstance(failure, ca.ExecutionError)
        assert failure.name == "ACL_ERROR_RT_AICORE_EXCEPTION"
        assert isinstance(failure.__cause__, ZeroDivisionError)
        assert failure.task is bad
        assert failure.launched_at == bad.launched_at
        assert bad.exception() is failure
        assert good.exception() is None


@both
@pytest.mark.asyncio
async def test_a_failure_that_nobody_has_seen_is_raised_once_by_the_next_synchronize(clock):
    """And one that somebody has awaited is not raised again."""
    async with open_device(clock) as device, device.create_stream() as stream:
        stream.launch(boom)
        with rejects(507015):
            await stream.synchronize()
        await stream.synchronize()
        with rejects(507015):
            await stream.launch(boom)
        await stream.synchronize()
        stream.launch(boom)
        with rejects(507015):
            await device.synchronize()
        await device.synchronize()


@both
@pytest.mark.asyncio
async def test_the_code_of_a_failure_says_the_engine(clock):
    """AI Core, vector core and AI CPU have their own."""

    def fail():
        raise OSError("no")

    async with open_device(clock) as device, device.create_stream() as stream:
        for engine, code in (("ai_core", 507015), ("ai_vector", 507035), ("ai_cpu", 507018)):
            with rejects(code):
                await stream.launch(work(1, fail, engine=engine))


@both
@pytest.mark.asyncio
async def test_close_finishes_the_queue(clock):
    """And so does leaving the block."""
    log = []
    async with open_device(clock) as device:
        stream = device.create_stream()
        for i in range(5):
            stream.launch(work(10, log.append, i))
        await stream.close()
        assert log == list(range(5))
        async with device.create_stream() as stream:
            stream.launch(work(10, log.append, 5))
        assert log == list(range(6))
        assert not stream


@both
@pytest.mark.asyncio
async def test_close_raises_a_failure_nobody_has_seen_but_not_over_an_error_of_the_block(clock):
    """An error of the block itself is what its writer must see."""
    async with open_device(clock) as device:
        with rejects(507015):
            async with device.create_stream() as stream:
                stream.launch(boom)
        with pytest.raises(KeyError):
            async with device.create_stream() as stream:
                stream.launch(boom)
                raise KeyError
        assert not stream


@both
@pytest.mark.asyncio
async def test_close_with_force_drops_what_has_not_ended(clock):
    """Who waits for it gets 107023."""
    log = []
    async with open_device(clock) as device:
        stream = device.create_stream()
        hold, later = Hold(stream), stream.launch(work(1, log.append, 1))
        waiting = asyncio.create_task(later.wait())
        event = stream.record()
        await asyncio.sleep(0)
        await stream.close(force=True)
        for what in (later, waiting, event, hold.task):
            with rejects(107023):
                await what
        assert later.cancelled()
        hold.let_go()
        await device.default_stream.launch(work(1, log.append, 2))
        assert log == [2]


@both
@pytest.mark.asyncio
async def test_a_default_stream_cannot_be_closed(clock):
    """Closing it does nothing."""
    async with open_device(clock) as device:
        stream = device.default_stream
        await stream.close()
        await stream.close(force=True)
        assert stream
        assert await stream.launch(work(1, lambda: 3)) == 3


@both
@pytest.mark.asyncio
async def test_a_forgotten_stream_runs_its_queue_and_warns(clock):
    """One ResourceWarning; nothing is lost."""
    log = []
    async with open_device(clock) as device:
        stream = device.create_stream(name="lost")
        hold = Hold(stream)
        task = stream.launch(work(1, log.append, 1))
        with pytest.warns(ResourceWarning, match="lost"):
            del stream
            gc.collect()
        hold.let_go()
        await task
        await device.synchronize()
        assert log == [1]
        assert device.runtime.statistics().streams == 1


@both
@pytest.mark.asyncio
async def test_a_task_keeps_nothing_of_what_it_used(clock):
    """Once it has run, its arguments are dropped."""
    import weakref

    class Thing:
        pass

    async with open_device(clock) as device, device.create_stream() as stream:
        thing = Thing()
        ref = weakref.ref(thing)
        task = stream.launch(work(1), thing)
        del thing
        assert ref() is not None
        await task
        gc.collect()
        assert ref() is None


@both
@pytest.mark.asyncio
async def test_a_device_synchronizes_all_its_streams(clock):
    """Also those of other contexts."""
    log = []
    async with open_device(clock) as device:
        context = device.create_context()
        streams = [device.create_stream(), device.default_stream, context.default_stream, context.create_stream()]
        for i, stream in enumerate(streams):
            stream.launch(work(10 + i, log.append, i))
        await device.synchronize()
        assert sorted(log) == [0, 1, 2, 3]


@both
@pytest.mark.asyncio
async def test_a_long_queue(clock):
    """The native API takes more than a hardware queue holds and never blocks."""
    count = 20_000
    async with open_device(clock) as device, device.create_stream() as stream:
        kernel = work(1)
        for _ in range(count):
            last = stream.launch(kernel)
        await stream.synchronize()
        assert last.done()
        assert device.runtime.statistics().recorded == count


@pytest.mark.asyncio
async def test_whoever_synchronizes_a_stream_that_is_closed_by_force_gets_107023():
    """Nobody hangs, and nobody believes that the work is done."""
    async with open_device("wall") as device:
        stream = device.create_stream()
        hold = Hold(stream)
        waiting = asyncio.create_task(stream.synchronize())
        await asyncio.sleep(0.01)
        await stream.close(force=True)
        with rejects(107023, "force"):
            await waiting
        hold.let_go()


@pytest.mark.asyncio
async def test_a_close_that_is_cancelled_still_gives_the_stream_back():
    """Once its queue has ended."""
    async with open_device("wall") as device:
        stream = device.create_stream()
        hold = Hold(stream)
        closing = asyncio.create_task(stream.close())
        await asyncio.sleep(0.01)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert device.runtime.statistics().streams == 2
        hold.let_go()
        await hold.task
        await device.synchronize()
        assert device.runtime.statistics().streams == 1
