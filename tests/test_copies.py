"""Copies: every direction, logical elements, and what is checked at the call."""

from __future__ import annotations

import numpy as np
import pytest

import cann_async as ca

from .helpers import Hold, both, numbers, open_device, rejects, work

pytestmark = pytest.mark.timeout(30)

LAYOUTS = {
    "C": lambda a: a,
    "F": np.asfortranarray,
    "transposed": lambda a: a.T.copy().T,
    "reversed": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "strided": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "offset": lambda a: np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(a.dtype).reshape(a.shape),
}
DTYPES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")


@both
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("order", ("C", "F"))
@pytest.mark.asyncio
async def test_copies_are_of_logical_elements_whatever_the_strides(clock, order, layout):
    """Up, inside and down, with any layout on either side."""
    base = numbers(12, np.float64).reshape(3, 4)
    async with open_device(clock) as device, device.create_stream() as stream:
        source = LAYOUTS[layout](base)
        assert np.array_equal(source, base)
        a, b = device.empty((3, 4), np.float64, order=order), device.empty((3, 4), np.float64)
        back = LAYOUTS[layout](np.zeros_like(base))
        back = back if back.flags.writeable else back.copy()
        stream.memcpy(a, source)
        stream.memcpy(b, a)
        stream.memcpy(back, b)
        await stream.synchronize()
        assert np.array_equal(back, base)
        assert np.array_equal(await a.get(), base)


@both
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.asyncio
async def test_every_dtype_of_numbers_goes_there_and_back(clock, dtype):
    """Values and dtype are kept."""
    source = (np.arange(20) % 2 if dtype == "?" else np.arange(20)).astype(dtype)
    async with open_device(clock) as device:
        back = await (await device.upload(source)).get()
        assert back.dtype == source.dtype
        assert np.array_equal(back, source)


@both
@pytest.mark.asyncio
async def test_special_values_are_copied_bit_by_bit(clock):
    """NaN with payload, infinities, negative zero."""
    bits = np.array([0x7FC00001, 0x7F800000, 0xFF800000, 0x80000000, 0x7FA12345], np.uint32)
    async with open_device(clock) as device:
        back = await (await device.upload(bits.view(np.float32))).get()
        assert np.array_equal(back.view(np.uint32), bits)


@both
@pytest.mark.asyncio
async def test_byte_order_is_converted(clock):
    """Device memory is native; values stay equal, in both directions."""
    source = np.array([1.5, -2.5, 3.5], ">f4")
    async with open_device(clock) as device, device.create_stream() as stream:
        buffer = await device.upload(source)
        assert buffer.dtype.isnative
        assert np.array_equal(await buffer.get(), source)
        target = np.zeros(3, ">f4")
        await stream.memcpy(target, buffer)
        assert target.tolist() == [1.5, -2.5, 3.5]
        await stream.memcpy(buffer, np.array([7, 8, 9], ">f4"))
        assert (await buffer.get()).tolist() == [7, 8, 9]


@pytest.mark.parametrize(
    "bad",
    (
        np.array([object()]),
        np.array(["text"]),
        np.array([b"bytes"]),
        np.zeros(2, "M8[s]"),
        np.zeros(2, "m8[s]"),
        np.zeros(2, [("a", "i4"), ("b", "f4")]),
    ),
    ids=lambda bad: bad.dtype.kind,
)
@pytest.mark.asyncio
async def test_what_is_no_number_is_a_type_error_that_names_the_dtype(bad):
    """Objects, texts, dates and structures never get to a device."""
    async with open_device() as device, device.create_stream() as stream:
        for use in (
            lambda: device.upload(bad),
            lambda: device.empty(2, bad.dtype),
            lambda: stream.memcpy(device.malloc(bad.nbytes), bad),
            lambda: device.memcpy(bad, device.malloc(bad.nbytes)),
        ):
            with pytest.raises(TypeError, match="dtype"):
                use()


@both
@pytest.mark.asyncio
async def test_a_pageable_source_is_staged_and_a_pinned_one_is_read_when_the_copy_runs(clock):
    """Never a mix of old and new."""
    async with open_device(clock) as device, device.create_stream() as stream:
        pinned, pageable = device.malloc_host(1 << 16, np.uint8), np.ones(1 << 16, np.uint8)
        pinned[:] = 1
        a, b, c = (device.malloc(1 << 16) for _ in range(3))
        hold = Hold(stream)
        stream.memcpy(a, pinned)
        stream.memcpy(b, pageable)
        stream.memcpy(c, pinned[::1])
        pinned[:] = pageable[:] = 9
        hold.let_go()
        await stream.synchronize()
        assert [set(np.unique(await x.get())) for x in (a, b, c)] == [{9}, {1}, {9}]


@both
@pytest.mark.asyncio
async def test_a_copy_to_the_host_writes_when_it_runs(clock):
    """Until then the destination keeps its old bytes."""
    async with open_device(clock) as device, device.create_stream() as stream:
        buffer = await device.upload(numbers(1000))
        target = np.full(1000, -1, np.float32)
        hold = Hold(stream)
        copy = stream.memcpy(target, buffer)
        assert (target == -1).all()
        hold.let_go()
        await copy
        assert np.array_equal(target, numbers(1000))


@pytest.mark.asyncio
async def test_modelled_copies_change_memory_at_the_instant_at_which_they_end():
    """A kernel that runs meanwhile sees the old bytes."""
    async with open_device() as device:
        up, compute = device.create_stream(), device.create_stream()
        x, early, late = device.zeros(1000, np.uint8), device.empty(1000, np.uint8), device.empty(1000, np.uint8)

        @ca.kernel(cost=ca.Cost(seconds=0.6e-6), per_block=False)
        def copy(launch, target, source):
            target[...] = source

        up.memcpy(x, np.ones(1000, np.uint8))  # takes 1000 ns
        compute.launch(copy, early, x)  # ends at 600 ns
        compute.launch(copy, late, x)  # ends at 1200 ns
        await device.synchronize()
        assert not (await early.get()).any()
        assert (await late.get()).all()


@both
@pytest.mark.asyncio
async def test_the_direction_follows_from_the_operands_and_kind_must_agree(clock):
    """A kind that contradicts is 107000, an unknown one 100000; the default fits everything."""
    async with open_device(clock) as device, device.create_stream() as stream:
        a, b, host = device.malloc(8), device.malloc(8), np.zeros(8, np.uint8)
        cases = (
            (a, host, ca.MemcpyKind.HOST_TO_DEVICE, "h2d"),
            (host, a, ca.MemcpyKind.DEVICE_TO_HOST, "d2h"),
            (a, b, ca.MemcpyKind.DEVICE_TO_DEVICE, "d2d"),
        )
        for dst, src, kind, engine in cases:
            for given in (None, kind, int(kind), ca.MemcpyKind.DEFAULT):
                task = stream.memcpy(dst, src, kind=given)
                assert task.engine == engine
                await task
            for wrong in set(range(4)) - {kind}:
                with rejects(107000, "contradicts"):
                    stream.memcpy(dst, src, kind=wrong)
            for unknown in (-1, 5, 99):
                with rejects(100000):
                    stream.memcpy(dst, src, kind=unknown)
            with pytest.raises(TypeError):
                stream.memcpy(dst, src, kind="h2d")
        assert stream.pending == 0


@both
@pytest.mark.asyncio
async def test_sizes_shapes_and_dtypes_must_agree(clock):
    """An error that is a ValueError, too, with both sides in it; nothing is enqueued or changed."""
    async with open_device(clock) as device, device.create_stream() as stream:
        target = await device.upload(np.full((2, 3), 5, np.float32))
        for bad in (
            np.zeros((3, 2), np.float32),
            np.zeros(6, np.float32),
            np.zeros((2, 3), np.float64),
            np.zeros((2, 3), np.int32),
            np.zeros((2, 4), np.float32),
            np.zeros(23, np.uint8),
            np.float32(3).reshape(()),
        ):
            with rejects(107000, "(2, 3)", "float32") as caught:
                stream.memcpy(target, bad)
            assert isinstance(caught.value, ValueError)
            assert isinstance(caught.value, ca.UsageError)
            with rejects(107000):
                device.memcpy(bad.copy(), target)
        assert stream.pending == 0
        assert (await target.get() == 5).all()


@both
@pytest.mark.asyncio
async def test_raw_bytes_of_the_same_size_fit_anything(clock):
    """On either side."""
    async with open_device(clock) as device, device.create_stream() as stream:
        buffer = await device.upload(numbers(4, np.int32))
        raw = np.zeros(16, np.uint8)
        await stream.memcpy(raw, buffer)
        assert raw.view(np.int32).tolist() == [0, 1, 2, 3]
        await stream.memcpy(buffer, raw[::-1].copy())
        assert (await buffer.view(np.uint8).get() == raw[::-1]).all()
        await stream.memcpy(buffer, np.array([4, 3, 2, 1], np.int32).tobytes())
        assert (await buffer.get()).tolist() == [4, 3, 2, 1]
        target = bytearray(16)
        await stream.memcpy(target, buffer)
        assert np.frombuffer(target, np.int32).tolist() == [4, 3, 2, 1]
        await stream.memcpy(memoryview(target)[8:], buffer[:2])
        assert np.frombuffer(target, np.int32).tolist() == [4, 3, 4, 3]


@both
@pytest.mark.asyncio
async def test_nbytes_copies_so_many_raw_bytes(clock):
    """And no more than there are on either side."""
    async with open_device(clock) as device, device.create_stream() as stream:
        buffer = await device.upload(np.zeros(4, np.int32))
        await stream.memcpy(buffer, np.full(100, -1, np.int8), nbytes=6)
        assert (await buffer.get()).tolist() == [-1, 0xFFFF, 0, 0]
        host = np.zeros(3, np.float64)
        await stream.memcpy(host, buffer, nbytes=8)
        assert host.view(np.int32).tolist() == [-1, 0xFFFF, 0, 0, 0, 0]
        await stream.memcpy(buffer, host, nbytes=0)
        for bad in (17, -1, 1 << 40):
            with rejects(107000, str(bad)):
                stream.memcpy(buffer, np.zeros(100, np.uint8), nbytes=bad)
        with rejects(107000):
            stream.memcpy(buffer, np.zeros(5, np.uint8), nbytes=6)
        for bad in (1.5, "3"):
            with pytest.raises(TypeError):
                stream.memcpy(buffer, host, nbytes=bad)
        with rejects(107000, "contiguous"):
            stream.memcpy(buffer, np.zeros((4, 4), np.uint8)[:, ::2], nbytes=4)
        assert stream.pending == 0


@both
@pytest.mark.asyncio
async def test_operands_that_are_no_memory_are_a_type_error(clock):
    """Lists, numbers, None."""
    async with open_device(clock) as device, device.create_stream() as stream:
        buffer = device.malloc(8)
        for bad in ([1, 2], 3, None, "text"):
            with pytest.raises(TypeError):
                stream.memcpy(buffer, bad)
            with pytest.raises(TypeError):
                device.memcpy(bad, buffer)
        for bad in (None, np.zeros(8, np.uint8)):
            with pytest.raises(TypeError, match="Buffer"):
                stream.memset(bad, 0)


@both
@pytest.mark.asyncio
async def test_a_read_only_destination_is_a_value_error(clock):
    """Of an array, or of bytes; a read-only source is fine."""
    async with open_device(clock) as device, device.create_stream() as stream:
        buffer = device.malloc(8)
        host = np.zeros(8, np.uint8)
        host.flags.writeable = False
        for target in (host, bytes(8), memoryview(bytes(8))):
            with pytest.raises(ValueError, match="read-only"):
                stream.memcpy(target, buffer)
            with pytest.raises(ValueError, match="read-only"):
                device.memcpy(target, buffer)
        await stream.memcpy(buffer, host)


@both
@pytest.mark.asyncio
async def test_host_to_host_is_refused_on_a_stream_and_done_by_the_device(clock):
    """As in CANN: 207000 when queued."""
    async with open_device(clock) as device, device.create_stream() as stream:
        a, b = numbers(8), np.zeros(8, np.float32)
        with rejects(207000):
            stream.memcpy(b, a)
        await device.memcpy(b, a)
        await device.memcpy(b, a, kind=ca.MemcpyKind.HOST_TO_HOST)
        assert np.array_equal(a, b)


@both
@pytest.mark.asyncio
async def test_nothing_to_copy_is_a_task_without_time(clock):
    """In stream order, with strides or without; memset, too."""
    async with open_device(clock) as device, device.create_stream() as stream:
        empty = device.empty((0, 3), np.float32)
        for task in (
            stream.memcpy(empty, np.empty((0, 3), np.float32)),
            stream.memcpy(np.empty((3, 0), np.float32).T, empty),
            stream.memcpy(empty, device.empty((0, 3), np.float32)),
            stream.memset(empty, 3),
            stream.memcpy(device.malloc(8), b"12345678", nbytes=0),
            device.memcpy(empty, np.empty((0, 3), np.float32)),
        ):
            await task
            assert task.finished_ns == task.started_ns


@both
@pytest.mark.parametrize("shift", (-5, -1, 0, 1, 5))
@pytest.mark.asyncio
async def test_overlapping_parts_are_copied_as_through_a_temporary(clock, shift):
    """In both directions, also of two dimensions and backwards."""
    base = numbers(400, np.int32).reshape(20, 20)
    rows = slice(5, 15), slice(5 + shift, 15 + shift)
    async with open_device(clock) as device, device.create_stream() as stream:
        for dst, src in (
            (rows[0], rows[1]),
            ((slice(None), rows[0]), (slice(None), rows[1])),
            ((rows[0], slice(None, None, -1)), rows[1]),
        ):
            buffer, want = await device.upload(base), base.copy()
            want[dst] = base[src]
            await stream.memcpy(buffer[dst], buffer[src])
            assert np.array_equal(await buffer.get(), want)


@both
@pytest.mark.asyncio
async def test_memset_sets_every_byte_of_a_buffer_or_part(clock):
    """Of any dtype and layout; the byte must be one."""
    async with open_device(clock) as device, device.create_stream() as stream:
        buffer = await device.upload(np.ones((4, 6), np.int16))
        await stream.memset(buffer[1:3, ::2], 0xAB)
        want = np.ones((4, 6), np.int16)
        want[1:3, ::2] = np.int16(0xABAB - 0x10000)
        assert np.array_equal(await buffer.get(), want)
        await device.memset(buffer, 0)
        assert not (await buffer.get()).any()
        for bad in (-1, 256):
            with rejects(107000, str(bad)):
                stream.memset(buffer, bad)
        for bad in (1.0, "0", None):
            with pytest.raises(TypeError):
                stream.memset(buffer, bad)


@pytest.mark.asyncio
async def test_a_synchronous_copy_is_ordered_with_no_stream():
    """It neither waits for queued work nor holds it up."""
    async with open_device() as device, device.create_stream() as stream:
        x = device.zeros(100, np.uint8)
        stream.launch(work(1000))
        stream.memset(x, 1)
        await device.memcpy(x, np.full(100, 7, np.uint8))
        assert device.runtime.clock.now_ns() == 100
        assert stream.query() is False
        assert (await x.get() == 7).all()
        await stream.synchronize()
        assert (await x.get() == 1).all()


@pytest.mark.asyncio
async def test_synchronous_copies_run_beside_each_other():
    """Those of different directions at the same time."""
    async with open_device() as device:
        a, b, host = device.malloc(1000), device.malloc(1000), np.zeros(1000, np.uint8)
        tasks = [device.memcpy(a, host), device.memcpy(host.copy(), b), device.memcpy(a, host)]
        for task in tasks:
            await task
        assert [t.finished_ns for t in tasks] == [1000, 1000, 2000]


@both
@pytest.mark.asyncio
async def test_upload_reads_its_source_before_it_returns(clock):
    """And work enqueued later sees the data, awaited or not."""
    async with open_device(clock) as device, device.create_stream() as stream:
        source = np.ones(1000, np.float32)
        buffer = device.upload(source)
        source[:] = 2
        copy = device.empty(1000)
        stream.memcpy(copy, buffer)
        await stream.synchronize()
        assert (await copy.get() == 1).all()
        assert (await (await device.upload([[1, 2], [3, 4]])).get()).tolist() == [[1, 2], [3, 4]]
        scalar = await device.upload(3.5)
        assert scalar.shape == ()
        assert await scalar.get() == 3.5


@both
@pytest.mark.asyncio
async def test_copies_across_devices_need_peer_access(clock):
    """Refused with the remedy, then done, then refused again."""
    async with open_device(clock, devices=2) as first:
        second = first.runtime.device(1)
        a, b = await first.upload(numbers(10)), second.empty(10)
        stream = first.create_stream()
        assert first.can_access_peer(second) is True
        for copy in (stream.memcpy, first.memcpy):
            with rejects(107000, "enable_peer_access"):
                copy(b, a)
        first.enable_peer_access(second)
        first.enable_peer_access(second)
        await stream.memcpy(b, a)
        assert np.array_equal(await b.get(), numbers(10))
        await second.memset(b, 0)
        await first.memcpy(a, b)
        assert not (await a.get()).any()
        with rejects(107000):
            second.default_stream.memcpy(a, b)  # one direction only
        first.disable_peer_access(second)
        with rejects(107000):
            stream.memcpy(b, a)
        with rejects(107000):
            first.disable_peer_access(second)


@pytest.mark.asyncio
async def test_peers_that_are_none():
    """The device itself, one of another runtime, something else."""
    async with open_device() as device, open_device() as other:
        for call in (device.can_access_peer, device.enable_peer_access, device.disable_peer_access):
            with rejects(100000):
                call(device)
            with pytest.raises(TypeError):
                call(1)
        assert device.can_access_peer(other) is False
        with rejects(207000):
            device.enable_peer_access(other)
        with rejects(107000, "another runtime"):
            device.memcpy(other.malloc(4), b"abcd")


@pytest.mark.asyncio
async def test_a_copy_takes_latency_and_bytes_over_bandwidth():
    """Rounded up to whole nanoseconds; the record has the bytes."""
    soc = ca.Soc(h2d_bandwidth=3e9, copy_latency_ns=100)
    async with open_device(soc=soc) as device, device.create_stream() as stream:
        task = stream.memcpy(device.malloc(1000), bytes(1000))
        await task
        assert task.finished_ns - task.started_ns == 100 + 334
        assert device.runtime.timeline.records[-1].nbytes == 1000


@both
@pytest.mark.asyncio
async def test_big_copies(clock):
    """Larger than anything that is done in place."""
    source = np.random.default_rng(1).integers(0, 255, 20_000_000, np.uint8)
    async with open_device(clock) as device, device.create_stream() as stream:
        a, b = device.malloc(source.nbytes), device.malloc(source.nbytes)
        back = np.empty_like(source)
        stream.memcpy(a, source)
        stream.memcpy(b, a)
        stream.launch(work(1), b)
        stream.memcpy(back, b)
        await stream.synchronize()
        assert np.array_equal(back, source)
