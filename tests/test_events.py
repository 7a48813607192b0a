"""Events: futures with timestamps, on the device and on the host."""

from __future__ import annotations

import asyncio

import pytest

import cann_async as ca

from .helpers import Hold, boom, both, open_device, rejects, work

pytestmark = pytest.mark.timeout(30)


@both
@pytest.mark.asyncio
async def test_an_event_is_complete_when_what_was_before_it_is(clock):
    """What comes after does not matter."""
    async with open_device(clock) as device, device.create_stream() as stream:
        first = Hold(stream)
        event = stream.record()
        second = Hold(stream)
        assert event.recorded
        assert event.query() is False
        first.let_go()
        await event
        assert event.query() is True
        assert not second.task.done()
        second.let_go()


@both
@pytest.mark.asyncio
async def test_record_gives_the_event_it_was_given_or_a_new_one(clock):
    """Both spellings record."""
    async with open_device(clock) as device, device.create_stream() as stream:
        event = device.create_event(name="e")
        assert not event.recorded
        assert stream.record(event) is event
        assert event.recorded
        other = device.create_event()
        assert other.record(stream) is None
        assert other.recorded
        assert isinstance(stream.record(), ca.Event)


@both
@pytest.mark.asyncio
async def test_before_any_record_an_event_holds_nothing_up(clock):
    """Query is True, awaiting returns at once, a stream passes."""
    async with open_device(clock) as device, device.create_stream() as stream:
        event = device.create_event()
        assert event.query() is True
        await event
        await event.synchronize()
        stream.wait(event)
        assert await stream.launch(work(1, lambda: "passed")) == "passed"


@pytest.mark.asyncio
async def test_a_wait_binds_to_the_latest_record_before_the_call():
    """Recording again later does not move it."""
    async with open_device() as device:
        first, second, third = (device.create_stream() for _ in range(3))
        event = device.create_event()
        first.launch(work(10))
        first.record(event)
        second.wait(event)
        early = second.launch(work(1))
        first.launch(work(100))
        first.record(event)
        third.wait(event)
        late = third.launch(work(1))
        await device.synchronize()
        assert (early.started_ns, late.started_ns) == (10_000, 110_000)


@pytest.mark.asyncio
async def test_recording_again_replaces_the_content():
    """Query, timestamp and await are about the latest record."""
    async with open_device() as device, device.create_stream() as stream:
        event = device.create_event()
        stream.launch(work(10))
        stream.record(event)
        await event
        assert event.timestamp_ns == 10_000
        stream.launch(work(20))
        stream.record(event)
        assert event.query() is False
        with rejects(107006):
            event.timestamp_ns  # noqa: B018  # it raises
        await event
        assert event.timestamp_ns == 30_000


@pytest.mark.asyncio
async def test_elapsed_time_is_in_milliseconds_exact_and_negative_in_the_wrong_order():
    """As floats, with `-` as another spelling."""
    async with open_device() as device, device.create_stream() as stream:
        start = stream.record()
        stream.launch(work(2500))
        end = stream.record()
        await end
        assert start.elapsed_time(end) == end - start == 2.5
        assert end.elapsed_time(start) == start - end == -2.5
        assert start - start == 0.0
        assert isinstance(start - start, float)
        assert end.timestamp_ns - start.timestamp_ns == 2_500_000


@pytest.mark.asyncio
async def test_elapsed_time_across_streams():
    """There is one clock for all streams."""
    async with open_device() as device:
        first, second = device.create_stream(), device.create_stream()
        first.launch(work(10))
        second.launch(work(35))
        a, b = first.record(), second.record()
        await device.synchronize()
        assert b - a == 0.025


@both
@pytest.mark.asyncio
async def test_elapsed_time_that_cannot_be_told_is_an_error_at_once(clock):
    """Never recorded 507000, pending or without timing 107006; each says what to do."""
    async with open_device(clock) as device, device.create_stream() as stream:
        done, never = stream.record(), device.create_event(name="never")
        untimed = stream.record(device.create_event(timing=False, name="untimed"))
        hold = Hold(stream)
        pending = stream.record(device.create_event(name="pending"))
        await done
        with rejects(507000, "never", "Record it"):
            done.elapsed_time(never)
        with rejects(507000):
            never.elapsed_time(done)
        with rejects(107006, "untimed", "timing"):
            done.elapsed_time(untimed)
        with rejects(107006, "pending", "await"):
            done.elapsed_time(pending)
        with rejects(107006):
            pending - done
        for wrong in (None, 1, stream):
            with pytest.raises(TypeError):
                done.elapsed_time(wrong)
            with pytest.raises(TypeError):
                done - wrong
        hold.let_go()


@both
@pytest.mark.asyncio
async def test_an_event_without_timing_still_orders(clock):
    """It only has no timestamp."""
    async with open_device(clock) as device:
        first, second = device.create_stream(), device.create_stream()
        log = []
        hold = Hold(first, fn=lambda: log.append(1))
        event = first.record(device.create_event(timing=False))
        assert event.timing is False
        second.wait(event)
        second.launch(work(1, log.append, 2))
        hold.let_go()
        await event
        await second.synchronize()
        assert log == [1, 2]


@both
@pytest.mark.asyncio
async def test_many_streams_wait_for_one_event(clock):
    """It is broadcast."""
    async with open_device(clock) as device:
        first, others = device.create_stream(), [device.create_stream() for _ in range(20)]
        log = []
        hold = Hold(first, fn=lambda: log.append("first"))
        event = first.record()
        for i, stream in enumerate(others):
            stream.wait(event)
            stream.launch(work(1, log.append, i))
        hold.let_go()
        await device.synchronize()
        assert log[0] == "first"
        assert sorted(log[1:]) == list(range(20))


@both
@pytest.mark.asyncio
async def test_an_event_completes_although_the_task_before_it_failed(clock):
    """The failure belongs to the task (CANN's continue mode)."""
    async with open_device(clock) as device, device.create_stream() as stream:
        bad = stream.launch(boom)
        event = stream.record()
        await event
        assert event.query()
        assert event.timestamp_ns == bad.finished_ns or clock == "wall"
        with rejects(507015):
            await bad


@both
@pytest.mark.asyncio
async def test_an_event_can_be_awaited_by_many_and_many_times(clock):
    """Before and after."""
    async with open_device(clock) as device, device.create_stream() as stream:
        hold = Hold(stream)
        event = stream.record()
        waiting = [asyncio.create_task(event.synchronize()) for _ in range(20)]
        await asyncio.sleep(0)
        hold.let_go()
        assert await asyncio.gather(*waiting) == [None] * 20
        await event
        await event


@both
@pytest.mark.asyncio
async def test_an_event_gives_a_future_of_the_running_loop(clock):
    """For `asyncio.wait` and the like; before any record there is nothing to give."""
    async with open_device(clock) as device, device.create_stream() as stream:
        event = device.create_event()
        with rejects(507000):
            event.future()
        stream.launch(work(10))
        stream.record(event)
        future = event.future()
        assert isinstance(future, asyncio.Future)
        done, _ = await asyncio.wait([future])
        assert done == {future}
        assert future.result() is None


@both
@pytest.mark.asyncio
async def test_a_closed_event_says_so_and_its_waiters_go_on(clock):
    """Destroying an event never disturbs the work."""
    async with open_device(clock) as device:
        first, second = device.create_stream(), device.create_stream()
        hold = Hold(first)
        event = first.record()
        second.wait(event)
        task = second.launch(work(1, lambda: "ran"))
        event.close()
        event.close()
        assert not event
        assert "closed" in repr(event)
        for use in (
            event.query,
            event.future,
            lambda: event.timestamp_ns,
            lambda: first.record(event),
            lambda: second.wait(event),
        ):
            with rejects(507000, "closed"):
                use()
        with rejects(507000, "closed"):
            await event
        hold.let_go()
        assert await task == "ran"


@both
@pytest.mark.asyncio
async def test_what_an_event_says_about_itself(clock):
    """Its context, its name, its state."""
    async with open_device(clock) as device, device.create_stream() as stream:
        event = device.create_event(name="copied")
        assert event.name == "copied"
        assert event.context is device.default_context
        assert "never recorded" in repr(event)
        hold = Hold(stream)
        stream.record(event)
        assert "pending" in repr(event)
        hold.let_go()
        await event
        assert "complete" in repr(event)
        assert "copied" in repr(event)
        assert event
