"""Hooks around failures: whoever wants to hear of each task that fails, and of aborts."""

from __future__ import annotations

import logging
import threading

import pytest

import cann_async as ca

pytestmark = pytest.mark.asyncio
CLOCKS = pytest.mark.parametrize("clock", ["wall", "virtual"])


@ca.kernel
def wrong(block: ca.Block) -> None:
    """Fail."""
    raise ValueError("wrong")


@ca.kernel(cost=lambda launch, gate: ca.Cost(seconds=1.0))
def slow(block: ca.Block, gate: threading.Event | None) -> None:
    """Take too long."""
    if gate is not None:
        gate.wait(10)


@ca.kernel
def right(block: ca.Block) -> None:
    """Do nothing."""


@CLOCKS
async def test_a_hook_hears_of_every_failure_before_who_waits(clock):
    """It is given the very error that the task raises."""
    async with ca.Runtime(clock=clock) as runtime:
        heard: list[ca.CannError] = []
        runtime.on_failure("test", heard.append)
        async with runtime.device().create_stream() as stream:
            stream.launch(right)
            task = stream.launch(wrong)
            stream.launch(right)
            with pytest.raises(ca.ExecutionError) as failed:
                await task
            assert heard == [failed.value]
            assert (heard[0].code, heard[0].task_id, heard[0].stream_id) == (507015, task.id, stream.id)
            assert heard[0].device_id == 0
            runtime.on_failure("test", None)
            with pytest.raises(ca.ExecutionError):
                await stream.launch(wrong)
            assert len(heard) == 1
            runtime.on_failure("unknown", None)


@CLOCKS
@pytest.mark.parametrize("how", ["raises", "runs for too long", "waits for too long"])
async def test_a_task_ends_only_when_its_hook_has_heard(clock, how):
    """Nobody who looks can see the failure before the hook has."""
    async with ca.Runtime(clock=clock) as runtime:
        ends: list[bool] = []
        runtime.on_failure("test", lambda error: ends.append(task.done()))
        device = runtime.device()
        async with device.create_stream() as stream:
            gate = threading.Event()
            if how == "raises":
                task = stream.launch(wrong)
            elif how == "runs for too long":
                task = stream.launch(slow, gate if clock == "wall" else None, timeout=0.01)
            else:
                task = stream.wait(device.create_event(kind="sync latch"), timeout=0.01)
            with pytest.raises(ca.CannError):
                await task
            gate.set()
            assert ends == [False]


async def test_names_of_hooks_are_unique_and_hooks_are_functions():
    """As with the other hooks."""
    async with ca.Runtime(clock="virtual") as runtime:
        for register in (runtime.on_failure, runtime.on_task_abort):
            register("one", print)
            with pytest.raises(ca.UsageError) as taken:
                register("one", repr)
            assert taken.value.code == 107000
            with pytest.raises(TypeError):
                register("two", 7)


@CLOCKS
async def test_what_is_dropped_or_cancelled_has_not_failed(clock):
    """An abort and a cancellation are no failures of the device."""
    async with ca.Runtime(clock=clock) as runtime:
        heard: list[ca.CannError] = []
        runtime.on_failure("test", heard.append)
        device = runtime.device()
        async with device.create_stream(failure_mode="continue") as stream, device.create_stream() as other:
            event = device.create_event(kind="sync latch")
            stream.wait(event)
            cancelled = stream.launch(wrong)
            stream.launch(wrong)
            assert cancelled.cancel()
            await stream.abort()
            await other.synchronize()
            assert heard == []


@CLOCKS
async def test_a_hook_that_raises_harms_nobody(clock, caplog):
    """Its error is logged; the other hooks are called and the work goes on."""
    async with ca.Runtime(clock=clock) as runtime:
        heard: list[ca.CannError] = []

        def bad(error: ca.CannError) -> None:
            raise RuntimeError("hook")

        runtime.on_failure("bad", bad)
        runtime.on_failure("good", heard.append)
        async with runtime.device().create_stream() as stream:
            with caplog.at_level(logging.ERROR, "cann_async"), pytest.raises(ca.ExecutionError):
                await stream.launch(wrong)
            assert len(heard) == 1
            assert "hook for failures" in caplog.text
            await stream.launch(right)


@CLOCKS
async def test_hooks_stand_around_a_task_abort(clock):
    """Before it and after it."""
    async with ca.Runtime(clock=clock) as runtime:
        device = runtime.device()
        told: list[tuple[str, int]] = []
        runtime.on_task_abort("test", lambda state, which: told.append((state, which.index)))
        await device.task_abort()
        assert told == [("pre", 0), ("post", 0)]


@CLOCKS
async def test_a_hook_before_an_abort_can_prevent_it(clock):
    """107035, and nothing has been aborted."""
    async with ca.Runtime(clock=clock) as runtime:
        device = runtime.device()

        def never(state: str, which: ca.Device) -> None:
            raise RuntimeError("not now")

        runtime.on_task_abort("test", never)
        async with device.create_stream() as stream:
            event = device.create_event(kind="sync latch")
            waiting = stream.wait(event)
            with pytest.raises(ca.UsageError) as prevented:
                await device.task_abort()
            assert prevented.value.code == 107035
            assert isinstance(prevented.value.__cause__, RuntimeError)
            assert not waiting.done()
            runtime.on_task_abort("test", None)
            await device.task_abort()
            assert waiting.done()
