"""Contexts, and what is current."""

from __future__ import annotations

import asyncio

import pytest

import cann_async as ca

from .helpers import Hold, both, in_threads, open_device, rejects, work

pytestmark = pytest.mark.timeout(30)


@both
@pytest.mark.asyncio
async def test_objects_of_different_contexts_never_mix(clock):
    """107003, with nothing enqueued."""
    async with open_device(clock) as device:
        context = device.create_context()
        ours, theirs = device.create_stream(), context.create_stream()
        event, task = theirs.record(), theirs.launch(work(1))
        for mix in (
            lambda: ours.wait(event),
            lambda: ours.wait(task),
            lambda: ours.wait(theirs),
            lambda: ours.record(event),
            lambda: event.record(ours),
            lambda: ours.wait(context.create_event()),
        ):
            with rejects(107003, "context"):
                mix()
        assert ours.pending == 0
        await device.synchronize()


@pytest.mark.asyncio
async def test_streams_of_different_devices_never_mix():
    """Each device has its own contexts."""
    async with open_device(devices=2) as first:
        second = first.runtime.device(1)
        event = second.default_stream.record()
        with rejects(107003):
            first.default_stream.wait(event)
        with rejects(107003):
            first.default_stream.wait(second.default_stream)


@pytest.mark.asyncio
async def test_tasks_of_different_runtimes_never_mix():
    """Although both default contexts look alike."""
    async with open_device() as first, open_device() as second:
        with rejects(107003):
            first.default_stream.wait(second.default_stream.launch(work(1)))


@both
@pytest.mark.asyncio
async def test_every_context_has_one_default_stream(clock):
    """A FIFO like any other, without a barrier."""
    async with open_device(clock) as device:
        context = device.create_context()
        assert context.default_stream is context.default_stream
        assert context.default_stream is not device.default_stream
        assert device.default_context.default_stream is device.default_stream
        assert context.default_stream.context is context
        assert context.device is device
        hold = Hold(context.default_stream)
        assert await device.default_stream.launch(work(1, lambda: "free")) == "free"
        assert clock == "virtual" or not hold.task.done()
        hold.let_go()


@both
@pytest.mark.asyncio
async def test_contexts_share_the_memory_of_their_device(clock):
    """A buffer belongs to the device."""
    async with open_device(clock) as device:
        context = device.create_context()
        buffer = device.zeros(8)
        await context.default_stream.memset(buffer, 255)
        await device.default_stream.memset(buffer, 0)
        assert not (await buffer.get()).any()
        await device.synchronize()


@both
@pytest.mark.asyncio
async def test_a_context_synchronizes_its_own_streams(clock):
    """And not those of others."""
    async with open_device(clock) as device:
        context = device.create_context()
        log = []
        hold = Hold(device.default_stream)
        streams = [context.create_stream() for _ in range(3)]
        for i, stream in enumerate(streams):
            stream.launch(work(1, log.append, i))
        await context.synchronize()
        assert sorted(log) == [0, 1, 2]
        assert clock == "virtual" or not hold.task.done()
        hold.let_go()


@both
@pytest.mark.asyncio
async def test_destroying_a_context_finishes_its_streams_and_closes_it(clock):
    """Twice is fine; what is used afterwards says so; the default context stays."""
    log = []
    async with open_device(clock) as device:
        context = device.create_context()
        stream, event = context.create_stream(), context.create_event()
        stream.launch(work(10, log.append, 1))
        await context.destroy()
        assert log == [1]
        await context.destroy()
        assert not context
        for use in (
            lambda: stream.launch(work(1)),
            lambda: context.default_stream.launch(work(1)),
            stream.record,
        ):
            with rejects(507000, "destroyed"):
                use()
        for use in (context.create_stream, context.create_event):
            with rejects(107002, "destroyed"):
                use()
        with rejects(107002, "destroyed"):
            await context.synchronize()
        with rejects(107002, "destroyed"):
            device.default_stream.record(event)
        with rejects(107002, "default context"):
            await device.default_context.destroy()
        assert await device.default_stream.launch(work(1, lambda: 1)) == 1


def test_nothing_is_current_at_first():
    """107002, with what to do."""
    for ask in (ca.current_stream, ca.current_device):
        with rejects(107002, "use(device)"):
            ask()


@pytest.mark.asyncio
async def test_use_makes_a_device_context_or_stream_current_for_its_block():
    """Whatever happens, what was current comes back."""
    async with open_device() as device:
        context, stream = device.create_context(), device.create_stream()
        with ca.use(device):
            assert ca.current_device() is device
            assert ca.current_stream() is device.default_stream
            with ca.use(context):
                assert ca.current_stream() is context.default_stream
                with pytest.raises(KeyError), ca.use(stream):
                    assert ca.current_stream() is stream
                    raise KeyError
                assert ca.current_stream() is context.default_stream
            assert ca.current_stream() is device.default_stream
        with rejects(107002):
            ca.current_stream()
        for wrong in (None, 0, device.runtime):
            with pytest.raises(TypeError), ca.use(wrong):
                pass
        await stream.close()


@pytest.mark.asyncio
async def test_coroutines_do_not_see_what_is_current_in_others():
    """Each task of asyncio has its own; a new one inherits."""
    async with open_device() as device:

        async def one(i):
            stream = device.create_stream(name=str(i))
            with ca.use(stream):
                await asyncio.sleep(0)
                await stream.launch(work(10 - i))
                assert ca.current_stream() is stream
            await stream.close()

        async def inherits():
            return ca.current_device()

        await asyncio.gather(*(one(i) for i in range(5)))
        with ca.use(device):
            assert await asyncio.create_task(inherits()) is device
        with rejects(107002):
            ca.current_device()


@pytest.mark.asyncio
async def test_a_new_thread_has_nothing_current():
    """107002, as after no set_device; it may set its own."""
    async with open_device() as device:
        with ca.use(device):

            def in_thread(_):
                with rejects(107002, "thread"):
                    ca.current_stream()
                with ca.use(device):
                    return ca.current_stream()

            assert set(in_threads(3, in_thread)) == {device.default_stream}
