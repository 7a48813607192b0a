"""Typed uses of the public API; never run, but `mypy --strict` must accept them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import cann_async as ca
import cann_async.sync as blocking
from cann_async import last_error
from cann_async.timeline import Record

Floats = npt.NDArray[np.float32]


@ca.kernel
def add(block: ca.Block, x: Floats, y: Floats, z: Floats) -> None:
    """Add this block's share."""
    part = block.slice(x.size)
    assert_type(part, slice)
    assert_type(block.index, int)
    assert_type(block.launch.stream, ca.Stream | None)
    np.add(x[part], y[part], out=z[part])


@ca.kernel(engine="ai_vector", cost=lambda launch, x: ca.Cost(bytes=x.nbytes))
def clear(block: ca.Block, x: Floats) -> None:
    """Clear."""
    x[:] = 0


@ca.kernel(per_block=False, cost=ca.Cost(seconds=1e-6))
def total(launch: ca.Launch, x: Floats) -> float:
    """Sum."""
    return float(x.sum())


@ca.kernel
async def patient(block: ca.Block) -> None:
    """Wait."""
    await asyncio.sleep(0)


async def native() -> None:
    """Use what is awaited."""
    async with ca.Runtime(devices=2, soc="ascend910b", clock="virtual", record=True) as runtime:
        assert_type(runtime, ca.Runtime)
        assert_type(runtime.devices, tuple[ca.Device, ...])
        assert_type(runtime.clock.now_ns(), int)
        assert_type(await runtime.clock.sleep(1.5), None)
        assert_type(runtime.statistics().pending, int)
        await runtime.close(drain=False)
    async with ca.open_device(0, soc=ca.Soc(ai_cores=4), clock="wall") as device, device.create_stream() as stream:
        assert_type(device, ca.Device)
        assert_type(stream, ca.Stream)
        assert_type(device.soc, ca.Soc)
        assert_type(device.memory_info(), tuple[int, int])
        assert_type(device.can_access_peer(device), bool)
        x = device.empty((2, 3), np.float32)
        assert_type(x, ca.Buffer)
        assert_type(device.malloc(8), ca.Buffer)
        assert_type(device.zeros(3), ca.Buffer)
        assert_type(await device.upload([1, 2, 3]), ca.Buffer)
        assert_type(x[1:, ::2], ca.Buffer)
        assert_type(x.reshape(6).view("u1"), ca.Buffer)
        assert_type(x.shape, tuple[int, ...])
        assert_type(x.address, int)
        host = device.malloc_host((2, 3), np.float32)
        await device.memcpy(x, host)
        await device.memset(x, 0)
        await device.synchronize()
        assert_type(stream.memcpy(host, x, nbytes=8, kind=ca.MemcpyKind.DEVICE_TO_HOST), ca.Task[None])
        assert_type(stream.memset(x, 1), ca.Task[None])
        assert_type(stream.launch(add, x, x, x, blocks=8, name="mine"), ca.Task[None])
        assert_type(stream.launch(clear, x), ca.Task[None])
        assert_type(stream.launch(patient), ca.Task[None])
        task = stream.launch(total, x)
        assert_type(task, ca.Task[float])
        assert_type(await task, float)
        assert_type(task.result(), float)
        assert_type(await task.wait(), float)
        assert_type(task.future(), asyncio.Future[float])
        assert_type(task.exception(), ca.CannError | None)
        assert_type(task.cancel(), bool)
        assert_type(task.finished_ns, int | None)
        assert_type(task.stream, ca.Stream | None)
        task.add_done_callback(lambda ended: print(ended.name))
        assert_type(add[8, stream](x, x, x), ca.Task[None])
        with ca.use(stream):
            assert_type(total[1](x), ca.Task[float])
            assert_type(ca.current_stream(), ca.Stream)
            assert_type(ca.current_device(), ca.Device)
        event = stream.record()
        assert_type(event, ca.Event)
        assert_type(stream.wait(event), ca.Task[None])
        stream.wait(task)
        stream.wait(device.default_stream)
        assert_type(await event, None)
        await event.synchronize()
        assert_type(event - device.create_event(timing=False), float)
        assert_type(event.elapsed_time(event), float)
        assert_type(event.timestamp_ns, int)
        assert_type(stream.query(), bool)
        await asyncio.gather(task, stream.synchronize(), event)
        assert_type(stream.call(len, [1, 2]), ca.Task[int])
        assert_type(stream.call(later, 1, block=False), ca.Task[str])
        notify = device.create_notify()
        assert_type(stream.wait_notify(notify, timeout=1.0), ca.Task[None])
        flag = device.zeros(1, np.uint64)
        assert_type(stream.write_value(flag, 1), ca.Task[None])
        assert_type(stream.wait_value(flag, 1, "eq"), ca.Task[None])
        assert_type(stream.memcpy_batch([(x, np.zeros(2))]), ca.Task[None])
        pool = device.create_pool()
        assert_type(pool.malloc(64, stream), ca.Buffer)
        assert_type(await stream.synchronize(timeout=1.0), None)
        assert_type(task.result(timeout=1.0), float)
        await stream.abort()
        await device.task_abort()
        assert_type(await device.release(), int)
        with ca.testing.faults(device.runtime) as faults:
            faults.fail("total", code=507035).delay(total, seconds=0.1).hang()
        context = device.create_context()
        assert_type(context, ca.Context)
        assert_type(context.create_stream(priority=3, name="urgent"), ca.Stream)
        await context.destroy()
        timeline = device.runtime.timeline
        assert_type(timeline, ca.Timeline)
        assert_type(timeline.records, Sequence[Record])
        assert_type(timeline.records[0].duration_ns, int)
        assert_type(timeline.save("trace.json"), Path)


async def later(number: int) -> str:
    """Be a coroutine callback."""
    return str(number)


def twin() -> None:
    """Use what blocks."""
    with blocking.open_device(clock="virtual") as device, device.create_stream() as stream:
        assert_type(device, blocking.Device)
        assert_type(stream, blocking.Stream)
        x = device.upload([1.0, 2.0])
        assert_type(x, blocking.Buffer)
        assert_type(device.memcpy(x, np.zeros(2)), None)
        values: npt.NDArray[Any] = x.get()
        print(values)
        task = stream.launch(total, x)
        assert_type(task.result(), float)
        assert_type(stream.synchronize(), None)
        event = stream.record()
        assert_type(event, blocking.Event)
        assert_type(event.synchronize(), None)
        assert_type(device.create_context().default_stream, blocking.Stream)
        assert_type(device.runtime.clock.sleep(1), None)
        assert_type(blocking.wait(task), float)
    with blocking.Runtime(clock="virtual") as runtime:
        assert_type(runtime.device(), blocking.Device)


def whole() -> None:
    """Use what belongs to nobody, and the errors."""

    async def main(n: int) -> str:
        return str(n)

    assert_type(ca.run(main, 3), str)
    assert_type(ca.socs(), tuple[str, ...])
    assert_type(ca.device_count(), int)
    try:
        ca.open_device(7)
    except ca.UsageError as problem:
        assert_type(problem.code, int)
        assert_type(problem.name, str)
        assert_type(problem.hint, str)
        assert_type(problem.launched_at, str | None)
        assert_type(problem.task, ca.Task[object] | None)
        assert_type(problem.kernel, str | None)
        assert_type(problem.stream_id, int | None)
        assert_type(last_error.note(problem), int)
        assert_type(last_error.get_last_error(), int)
        assert_type(last_error.recent_error_message(), str | None)
    except ca.SyncTimeout as problem:
        timeout: TimeoutError = problem
        raise timeout from None
    except (ca.ResourceError, ca.DeadlockError, ca.ExecutionError) as problem:
        other: ca.CannError = problem
        raise other from None
