"""Overflow detection: what NumPy reports of the kernels of a watched stream."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import cann_async as ca

pytestmark = pytest.mark.asyncio
CLOCKS = pytest.mark.parametrize("clock", ["wall", "virtual"])


@ca.kernel
def square(block: ca.Block, x: np.ndarray) -> None:
    """Overflow, for large numbers."""
    np.multiply(x, x, out=x)


@ca.kernel(per_block=False)
async def square_async(launch: ca.Launch, x: np.ndarray) -> None:
    """The same as a coroutine."""
    np.multiply(x, x, out=x)


@ca.kernel
def add_in_python(block: ca.Block, x: np.ndarray) -> None:
    """Python's arithmetic, which NumPy does not see."""
    x[0] = float(x[0]) + 1


async def _status(device: ca.Device, stream: ca.Stream) -> list[int]:
    """Ask on the stream."""
    status = device.malloc(64)
    await device.memset(status, 7)
    stream.get_overflow_status(status)
    await stream.synchronize()
    words = (await status.get()).view(np.uint32)
    assert not words[1:].any()
    return int(words[0])


@CLOCKS
@pytest.mark.parametrize("kernel", [square, square_async], ids=["plain", "async"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
async def test_an_overflow_is_seen_until_it_is_reset(clock, kernel, dtype):
    """It stays until it is reset, and the numbers stay as they are."""
    async with ca.open_device(0, clock=clock) as device:
        assert device.saturation_mode is False
        device.set_saturation_mode(True)
        async with device.create_stream() as stream:
            assert stream.overflow_switch is False
            stream.set_overflow_switch(True)
            small, large = await device.upload(np.array([3], dtype)), await device.upload(np.array([np.inf], dtype))
            stream.launch(kernel, small)
            assert await _status(device, stream) == 0
            large = await device.upload(np.array([np.finfo(dtype).max], dtype))
            stream.launch(kernel, large)
            assert await _status(device, stream) == 1
            assert np.isinf((await large.get())[0])  # what NumPy has made of it stays
            assert await _status(device, stream) == 1
            stream.reset_overflow_status()
            assert await _status(device, stream) == 0


async def test_a_killed_body_is_no_longer_heard():
    """What it computes after its timeout says nothing about the device."""
    killed, ended = threading.Event(), threading.Event()

    @ca.kernel
    def late(block: ca.Block, x: np.ndarray) -> None:
        killed.wait(10)
        np.multiply(x, x, out=x)
        ended.set()

    async with ca.open_device(0) as device:
        device.set_saturation_mode(True)
        async with device.create_stream() as stream:
            stream.set_overflow_switch(True)
            large = await device.upload(np.array([np.finfo(np.float32).max], np.float32))
            with pytest.raises(ca.ExecutionError):
                await stream.launch(late, large, timeout=0.01)
            killed.set()
            assert ended.wait(10)
            assert await _status(device, stream) == 0
            await stream.launch(square, large)
            assert await _status(device, stream) == 0  # infinite already
            await stream.launch(square, await device.upload(np.array([1e30], np.float32)))
            assert await _status(device, stream) == 1


@CLOCKS
async def test_the_status_is_written_in_stream_order(clock):
    """Asking and resetting are tasks like any other."""
    async with ca.open_device(0, clock=clock) as device:
        device.set_saturation_mode(True)
        async with device.create_stream() as stream:
            stream.set_overflow_switch(True)
            large = await device.upload(np.array([3e38], np.float32))
            before, after, forgotten = (device.malloc(64) for _ in range(3))
            stream.get_overflow_status(before)
            stream.launch(square, large)
            stream.get_overflow_status(after)
            stream.reset_overflow_status()
            stream.get_overflow_status(forgotten)
            await stream.synchronize()
            assert [int((await one.get())[0]) for one in (before, after, forgotten)] == [0, 1, 0]


@CLOCKS
async def test_the_switch_concerns_later_launches_of_its_stream(clock):
    """Nothing is watched before it, after it, or beside it."""
    async with ca.open_device(0, clock=clock) as device:
        device.set_saturation_mode(True)
        async with device.create_stream() as stream, device.create_stream() as other:
            large = await device.upload(np.array([3e38] * 2, np.float32))
            with np.errstate(over="ignore"):
                stream.launch(add_in_python, large)
            other.set_overflow_switch(True)
            assert await _status(device, stream) == 0
            other.set_overflow_switch(False)
            assert other.overflow_switch is False
            other.launch(add_in_python, large)
            assert await _status(device, other) == 0


async def test_what_cannot_be_switched_is_refused():
    """A refused switch changes nothing."""
    async with ca.open_device(0, clock="virtual") as device, device.create_stream() as stream:
        device.set_saturation_mode(True)  # this stream was made before
        with pytest.raises(ca.ResourceError) as refused:
            stream.set_overflow_switch(True)
        assert refused.value.code == 207000
        assert stream.overflow_switch is False
        stream.set_overflow_switch(False)
        with pytest.raises(ca.UsageError) as small:
            stream.get_overflow_status(device.malloc(63))
        assert small.value.code == 107000
        assert stream.pending == 0
    async with ca.open_device(0, clock="virtual", soc="ascend310p") as device:
        assert device.saturation_mode is True
        with pytest.raises(ca.ResourceError) as always:
            device.set_saturation_mode(False)
        assert always.value.code == 207000
        async with device.create_stream() as stream:
            stream.set_overflow_switch(True)
            assert stream.overflow_switch is True
