"""Device memory: the allocator, buffers and their parts, and when memory comes back."""

from __future__ import annotations

import gc
import itertools
import random
import sys

import numpy as np
import pytest

import cann_async as ca
import cann_async.sync as blocking

from .helpers import SOC, Hold, both, in_threads, numbers, open_device, rejects, resident, script, work

pytestmark = pytest.mark.timeout(30)
MIB = 1 << 20


def small(nbytes: int) -> ca.Device:
    """Open a device with so little memory."""
    return open_device(soc=SOC.replace(memory_bytes=nbytes))


def free(device: ca.Device) -> int:
    """Give the free bytes."""
    return device.memory_info()[0]


@pytest.mark.asyncio
async def test_addresses_are_64_byte_aligned_and_never_overlap():
    """Whatever the sizes."""
    async with open_device() as device:
        buffers = [device.malloc(n) for n in (1, 2, 31, 63, 64, 65, 100, 4095, 4096, 4097, MIB + 1)]
        spans = sorted((b.address, b.address + b.nbytes) for b in buffers)
        assert all(start % 64 == 0 for start, _ in spans)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


@pytest.mark.asyncio
async def test_memory_info_counts_what_is_taken_and_given_back():
    """Rounded up to 64 bytes."""
    async with small(MIB) as device:
        assert device.memory_info() == (MIB, MIB)
        buffer = device.malloc(100)
        assert device.memory_info() == (MIB - 128, MIB)
        buffer.free()
        assert device.memory_info() == (MIB, MIB)


@pytest.mark.asyncio
async def test_a_request_for_nothing_less_or_no_number():
    """As in CANN: 0 bytes are 100000; but a shape may have no elements."""
    async with open_device() as device:
        with rejects(100000):
            device.malloc(0)
        with rejects(107000):
            device.malloc(-1)
        with rejects(107000):
            device.empty((2, -1))
        for wrong in (1.5, "8", None):
            with pytest.raises(TypeError):
                device.malloc(wrong)
        assert device.empty((0, 3)).shape == (0, 3)
        assert device.malloc_host((0, 3), np.int64).shape == (0, 3)


@pytest.mark.asyncio
async def test_out_of_memory_says_the_figures_and_changes_nothing():
    """207001 at the call; the next request that fits succeeds."""
    async with small(MIB) as device:
        first = device.malloc(600 * 1024)
        left = free(device)
        with rejects(207001, str(600 * 1024), str(left), str(MIB)) as caught:
            device.malloc(600 * 1024)
        assert isinstance(caught.value, ca.ResourceError)
        assert free(device) == left
        device.malloc(100 * 1024)
        first.free()
        device.malloc(600 * 1024)
        for absurd in ((1 << 40,), (1 << 40, 1 << 40)):
            with rejects(207001, "requested"):
                device.empty(absurd)


@pytest.mark.asyncio
async def test_all_of_the_memory_can_be_taken_in_one_piece_again_and_again():
    """Freed neighbours grow together."""
    async with small(MIB) as device:
        for _ in range(3):
            pieces = [device.malloc(64 * 1024) for _ in range(16)]
            assert free(device) == 0
            random.Random(1).shuffle(pieces)
            for piece in pieces:
                piece.free()
            whole = device.malloc(MIB)
            whole.free()


@pytest.mark.asyncio
async def test_the_allocator_against_a_simple_model():
    """Random requests: no overlap, exact accounting, all of it comes back, and freed memory is used again."""
    total = 4 * MIB
    rng = random.Random(7)
    async with small(total) as device:
        live: list[ca.Buffer] = []
        spans: dict[int, int] = {}
        for _ in range(3000):
            used = sum(spans.values())
            if live and rng.random() < 0.48:
                buffer = live.pop(rng.randrange(len(live)))
                del spans[buffer.address]
                buffer.free()
            else:
                size = rng.choice((1, 64, 65, 1000, 4096, 70_000, 300_000)) + rng.randrange(64)
                try:
                    buffer = device.malloc(size)
                except ca.ResourceError:
                    assert total - used < 4 * size or len(live) > 8  # too full, or in pieces
                    continue
                rounded = -(-size // 64) * 64
                live.append(buffer)
                spans[buffer.address] = rounded
                end = max(start + length for start, length in spans.items())
                assert end - min(spans) <= total
            assert free(device) == total - sum(spans.values())
        ordered = sorted(spans.items())
        assert all(a + size <= b for (a, size), (b, _) in itertools.pairwise(ordered))
        del buffer
        live.clear()
        gc.collect()
        assert free(device) == total
        assert device.malloc(total).nbytes == total


@pytest.mark.asyncio
async def test_buffers_keep_their_own_content():
    """Many of them, filled, freed in part, and checked."""
    async with small(4 * MIB) as device:
        rng = random.Random(3)
        kept: list[tuple[ca.Buffer, int]] = []
        for i in range(300):
            buffer = device.malloc(rng.randrange(1, 20_000))
            await device.memset(buffer, i % 251)
            kept.append((buffer, i % 251))
            if len(kept) > 60:
                kept.pop(rng.randrange(len(kept)))[0].free()
        for buffer, value in kept:
            assert (await buffer.get() == value).all()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_64_gib_reserved_cost_no_resident_memory():
    """The mapping is committed page by page, and pinned memory, too."""
    with blocking.open_device(clock="virtual", soc="ascend910b") as device:
        before = resident()
        assert device.memory_info()[1] == 64 << 30
        big = device.malloc(40 << 30)
        assert big.nbytes == 40 << 30
        assert device.malloc_host(8 << 30).nbytes == 8 << 30
        assert resident() - before < 8 * MIB
        small_part = big[: 4 * MIB]
        device.memset(small_part, 1)
        assert resident() - before < 16 * MIB


@pytest.mark.asyncio
async def test_freed_memory_is_used_again_first():
    """Pages that have been touched are fast; fresh ones are not."""
    async with open_device() as device:
        buffer = device.malloc(MIB)
        address = buffer.address
        buffer.free()
        assert device.malloc(MIB).address == address


@pytest.mark.asyncio
async def test_freeing_twice_a_part_or_using_it_afterwards_is_107000():
    """Each says what is wrong; nothing is enqueued."""
    async with open_device() as device, device.create_stream() as stream:
        buffer = device.empty((8,), np.float32)
        part = buffer[2:4]
        with rejects(107000, "part"):
            part.free()
        buffer.free()
        for use in (
            buffer.free,
            part.free,
            lambda: buffer.address,
            lambda: part.address,
            lambda: buffer[1:],
            lambda: buffer.reshape(2, 4),
            lambda: buffer.view(np.uint8),
            lambda: stream.memcpy(buffer, np.zeros(8, np.float32)),
            lambda: stream.memcpy(np.zeros(2, np.float32), part),
            lambda: stream.memset(buffer, 0),
            lambda: stream.launch(work(1), buffer),
            lambda: stream.launch(work(1), part),
            lambda: device.memcpy(buffer, np.zeros(8, np.float32)),
        ):
            with rejects(107000, "freed"):
                use()
        with rejects(107000, "freed"):
            await buffer.get()
        assert stream.pending == 0
        assert not buffer
        assert not part
        assert "freed" in repr(buffer)


@pytest.mark.asyncio
async def test_buffers_are_only_made_by_devices():
    """There is no way to make one from an address."""
    with pytest.raises(TypeError, match="malloc"):
        ca.Buffer(1234, np.zeros(3))


@pytest.mark.asyncio
async def test_a_buffer_of_another_device_or_runtime_is_refused():
    """A kernel reads memory of its own device only."""
    async with open_device() as device, open_device(devices=2) as other:
        foreign = other.empty((4,), np.float32)
        with rejects(107000, "another device"):
            device.default_stream.launch(work(1), foreign)
        with rejects(107000):
            device.default_stream.memset(foreign, 0)
        peer = other.runtime.device(1).empty((4,), np.float32)
        with rejects(107000, "another device"):
            other.default_stream.launch(work(1), peer)


@pytest.mark.asyncio
async def test_what_a_buffer_says_about_itself():
    """Shape, dtype, sizes, device."""
    async with open_device() as device:
        buffer = device.empty((3, 4), "i2")
        assert (buffer.shape, buffer.dtype, buffer.nbytes, buffer.size, buffer.ndim) == ((3, 4), np.int16, 24, 12, 2)
        assert len(buffer) == 3
        assert buffer.device is device
        assert buffer
        assert "(3, 4)" in repr(buffer)
        assert "int16" in repr(buffer)
        assert device.malloc(5).dtype == np.uint8
        assert device.empty(7).shape == (7,)
        assert device.empty(7).dtype == np.float32
        assert not (await device.zeros((100, 100)).get()).any()


@pytest.mark.asyncio
async def test_host_code_cannot_look_into_a_buffer():
    """The error says how to copy it."""
    async with open_device() as device:
        buffer = await device.upload(numbers(6))
        for look in (
            lambda: np.asarray(buffer),
            lambda: np.add(buffer, 1),
            lambda: buffer[0],
            lambda: list(buffer),
            lambda: float(buffer[2]),
        ):
            with pytest.raises(TypeError, match="get"):
                look()
        with pytest.raises(TypeError, match="memcpy"):
            buffer[0] = 1


@both
@pytest.mark.asyncio
async def test_parts_share_the_memory(clock):
    """Slices, reshape and view, as NumPy has them."""
    async with open_device(clock) as device:
        whole = await device.upload(numbers(24, np.int32).reshape(4, 6))
        assert (await whole[1:3, ::2].get()).tolist() == [[6, 8, 10], [12, 14, 16]]
        assert (await whole[-1].get()).tolist() == [18, 19, 20, 21, 22, 23]
        assert (await whole[..., 0].get()).tolist() == [0, 6, 12, 18]
        assert (await whole.reshape(2, 12)[1].get()).tolist() == list(range(12, 24))
        assert whole[1].address == whole.address + 24
        assert whole.reshape(-1).address == whole.address
        assert whole[2:].device is device
        await device.memcpy(whole[1], np.full(6, -1, np.int32))
        raw = await whole.view(np.uint8).get()
        assert raw.shape == (4, 24)
        assert (raw[1] == 255).all()
        assert not (raw[2] == 255).any()


@pytest.mark.asyncio
async def test_parts_that_would_need_a_copy_are_refused():
    """A part is the same memory or it is nothing."""
    async with open_device() as device:
        whole = device.empty((4, 6), np.int32)
        with pytest.raises(ValueError, match="copy"):
            whole[:, :4].reshape(-1)
        with pytest.raises(ValueError, match="copy"):
            whole[[0, 2]]
        with pytest.raises(ValueError, match="reshape"):
            whole.reshape(5, 5)
        with pytest.raises(IndexError):
            whole[9]
        with pytest.raises(TypeError, match="object"):
            whole.view(object)


@both
@pytest.mark.asyncio
async def test_memory_that_queued_work_uses_is_not_given_out_again(clock):
    """Free is deferred until that work is done."""
    async with open_device(clock) as device, device.create_stream() as stream:
        seen = []

        @ca.kernel(per_block=False)
        def look(launch, x):
            seen.append(x.tolist())

        hold = Hold(stream)
        buffer = await device.upload(np.full(1000, 7, np.int32))
        address = buffer.address
        full = free(device)
        stream.launch(look, buffer)
        buffer.free()
        with rejects(107000):
            buffer.free()
        assert free(device) == full
        other = device.empty(1000, np.int32)
        assert other.address != address
        await device.memset(other, 0)
        hold.let_go()
        await stream.synchronize()
        assert seen == [[7] * 1000]
        gc.collect()
        assert free(device) == full  # one back, one taken


@both
@pytest.mark.asyncio
async def test_a_forgotten_buffer_gives_its_memory_back(clock):
    """When queued work and parts no longer hold it."""
    async with open_device(clock) as device, device.create_stream() as stream:
        full = free(device)
        buffer = device.malloc(MIB)
        part = buffer[:64]
        del buffer
        gc.collect()
        assert free(device) == full - MIB
        hold = Hold(stream, 10, part)
        del part
        gc.collect()
        assert free(device) == full - MIB
        hold.let_go()
        await hold.task
        gc.collect()
        assert free(device) == full


@both
@pytest.mark.asyncio
async def test_a_copy_holds_both_sides_until_it_has_run(clock):
    """Arrays and buffers may be forgotten right after the call."""
    async with open_device(clock) as device, device.create_stream() as stream:
        hold = Hold(stream)
        target = device.empty(1000, np.float32)
        stream.memcpy(target, device.upload(numbers(1000)))
        pinned = device.malloc_host(1000, np.float32)
        pinned[:] = 5
        second = device.empty(1000, np.float32)
        stream.memcpy(second, pinned)
        del pinned
        gc.collect()
        junk = [device.malloc_host(1000, np.float32) for _ in range(4)]
        for array in junk:
            array[:] = -1
        hold.let_go()
        await stream.synchronize()
        assert (await target.get() == numbers(1000)).all()
        assert (await second.get() == 5).all()


@pytest.mark.asyncio
async def test_memory_survives_the_context_that_allocated_under_it():
    """It belongs to the device."""
    async with open_device() as device:
        context = device.create_context()
        buffer = device.zeros(10)
        await context.default_stream.memset(buffer, 1)
        await context.destroy()
        assert (await buffer.view(np.uint8).get() == 1).all()


@pytest.mark.asyncio
async def test_pinned_memory_is_an_ordinary_array():
    """64-byte aligned, writable, of any number dtype; views of it stay valid alone."""
    async with open_device() as device:
        array = device.malloc_host((3, 5), np.float64)
        assert type(array) is np.ndarray
        assert array.flags.writeable
        assert array.shape == (3, 5)
        assert array.ctypes.data % 64 == 0
        array[...] = 2
        row = array[1]
        del array
        gc.collect()
        others = [device.malloc_host((3, 5), np.float64) for _ in range(5)]
        for other in others:
            other[...] = 0
        assert (row == 2).all()
        with pytest.raises(TypeError):
            device.malloc_host(3, object)


def test_pinned_memory_outlives_its_runtime():
    """A result can be used after everything is closed."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        host = device.malloc_host(4, np.int32)
        device.memcpy(host, device.upload(numbers(4, np.int32)))
    del device
    gc.collect()
    assert host.tolist() == [0, 1, 2, 3]


def test_threads_allocate_and_free_at_once():
    """Nobody gets what somebody else has."""
    with blocking.open_device(clock="wall", soc=SOC.replace(memory_bytes=64 * MIB)) as device:

        def use(index):
            rng = random.Random(index)
            for _ in range(100):
                buffer = device.empty(rng.randrange(1, 5000), np.uint8)
                device.memset(buffer, index)
                assert (buffer.get() == index).all()
                buffer.free()

        in_threads(6, use)
        gc.collect()
        assert device.memory_info()[0] == 64 * MIB


def test_more_address_space_than_there_is_is_an_error_that_says_so():
    """No crash, no silent smaller device."""
    done = script(
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
        "import cann_async as ca\n"
        "d = ca.open_device(clock='virtual')\n"
        "try: d.malloc(64)\n"
        "except ca.CannError as e: print(e.code, 'reserve' in str(e))\n"
    )
    assert done.stdout.split() == ["207001", "True"], done.stderr
