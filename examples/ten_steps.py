"""The ten steps of a CANN program, with asyncio. Its blocking twin is ten_steps_blocking.py.

Every step names its CANN call. The clock is virtual, so the times are those of the modelled NPU and the same on every
run; leave `clock` out, and the wall clock measures this computer.
"""

import numpy as np

import cann_async as ca


@ca.kernel(cost=lambda launch, x, y, z: ca.Cost(flops=x.size, bytes=3 * x.nbytes))
def add(block, x, y, z):  # runs once per block; x, y, z are NumPy views of device memory
    part = block.slice(x.size)  # this block's share, like GetBlockIdx() and GetBlockNum()
    np.add(x[part], y[part], out=z[part])


async def main():
    async with ca.open_device(0, clock="virtual") as device:  # 1 aclrtSetDevice
        async with device.create_stream() as stream:  # 2 aclrtCreateStream
            host = device.malloc_host((4096,), np.float32)  # 3 aclrtMallocHost: a pinned ndarray
            host[:] = np.arange(4096)
            x, y, z = (device.empty((4096,), np.float32) for _ in range(3))  # 4 aclrtMalloc

            await device.memcpy(x, host)  # 5 aclrtMemcpy: done when it returns
            copy = stream.memcpy(y, host)  # 5 aclrtMemcpyAsync: queued, and ordered in the stream
            launch = stream.launch(add, x, y, z, blocks=8)  # 6 add<<<8, nullptr, stream>>>(x, y, z)
            print("queued:  ", copy, launch)
            await stream.synchronize()  # 7 aclrtSynchronizeStream
            print("finished:", copy, launch)

            await device.memcpy(host, z)  # 8 aclrtMemcpy
            for buffer in (x, y, z):
                buffer.free()  # 9 aclrtFree; pinned memory (aclrtFreeHost) goes with its last array
    # 10 aclrtResetDevice: leaving the block has closed the device

    print("z[:4] =", host[:4], "and z == 2 x:", np.array_equal(host, 2 * np.arange(4096)))
    for task in device.timeline.records:
        print(f"{task.started_ns:6} to {task.finished_ns:6} ns  {task.engine:7}  {task.name}")


if __name__ == "__main__":
    ca.run(main)
