"""The ten steps of a CANN program, each printed with its CANN call and what it came to."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import cann_async as ca

from ..timeline.text import duration

Floats = npt.NDArray[np.float32]

SIZE, BLOCKS = 1024 * 1024, 8


@ca.kernel(cost=lambda launch, x, y, z: ca.Cost(flops=x.size, bytes=3 * x.nbytes))
def add(block: ca.Block, x: Floats, y: Floats, z: Floats) -> None:
    """Add two vectors; every block adds its share."""
    part = block.slice(x.size)
    np.add(x[part], y[part], out=z[part])


async def ten_steps() -> bool:
    """Add two vectors the CANN way, say what each step did, and whether the result is NumPy's."""
    print("The ten steps of a CANN program: z = x + y on the wall clock\n")
    rng = np.random.default_rng(0)

    device = ca.open_device(0, clock="wall")
    now, soc = device.runtime.clock.now_ns, device.soc
    memory = device.memory_info()[1]
    chip = f"npu:{device.index} {soc.name}"
    _step(1, "set device", "aclrtSetDevice", chip, f"{soc.ai_cores} AI cores, {_size(memory)}")
    async with device:
        stream = device.create_stream()
        _step(2, "create stream", "aclrtCreateStream", f"stream {stream.id}, priority {stream.priority}")

        host_x, host_y, host_z = (device.malloc_host((SIZE,), np.float32) for _ in range(3))
        host_x[:], host_y[:] = rng.random(SIZE, np.float32), rng.random(SIZE, np.float32)
        hosts = zip("xyz", (host_x, host_y, host_z), strict=True)
        _step(3, "malloc host", "aclrtMallocHost", *(_place(name, a.nbytes, a.ctypes.data) for name, a in hosts))

        x, y, z = (device.empty((SIZE,), np.float32) for _ in range(3))
        buffers = zip("xyz", (x, y, z), strict=True)
        _step(4, "malloc device", "aclrtMalloc", *(_place(name, b.nbytes, b.address) for name, b in buffers))

        called = now()
        copy_x, copy_y = stream.memcpy(x, host_x), stream.memcpy(y, host_y)
        _step(5, "copy H2D", "aclrtMemcpyAsync", f"x and y queued in {duration(now() - called)}")

        called = now()
        launch = stream.launch(add, x, y, z, blocks=BLOCKS)
        _step(6, "launch kernel", "aclrtLaunchKernel", f"add<<<{BLOCKS}>>>, queued in {duration(now() - called)}")

        called = now()
        await stream.synchronize()
        waited = duration(now() - called)
        ran = [f"{what} ran for {_ran(task)}" for what, task in (("x", copy_x), ("y", copy_y), ("add", launch))]
        _step(7, "synchronize stream", "aclrtSynchronizeStream", f"waited for {waited}", *ran)

        copy_z = device.memcpy(host_z, z)
        await copy_z
        _step(8, "copy D2H", "aclrtMemcpy", f"z, {_size(z.nbytes)} in {_ran(copy_z)}")

        right = np.array_equal(host_z, host_x + host_y)
        used = memory - device.memory_info()[0]
        for buffer in (x, y, z):
            buffer.free()
        del host_x, host_y, host_z
        await stream.close()
        freed = used - (memory - device.memory_info()[0])
        _step(9, "free", "aclrtFree, aclrtFreeHost", f"{_size(freed)} of device memory", "and the stream")
    _step(10, "reset device", "aclrtResetDevice", "by leaving `async with device`")
    print(f"\n    z {'equals' if right else 'DIFFERS FROM'} x + y in NumPy, all {SIZE} numbers")
    return right


def _step(number: int, what: str, call: str, *came_to: str) -> None:
    for index, text in enumerate(came_to):
        print(f"{number:2}  {what:18}  {call:24}  {text}" if index == 0 else f"{'':50}{text}")


def _place(name: str, nbytes: int, address: int) -> str:
    return f"{name}: {_size(nbytes)} at {address:#x}"


def _ran(task: ca.Task[None]) -> str:
    assert task.started_ns is not None
    assert task.finished_ns is not None
    return duration(task.finished_ns - task.started_ns)


def _size(nbytes: int) -> str:
    return f"{nbytes >> 30} GiB" if nbytes >> 30 else f"{nbytes >> 20} MiB"
