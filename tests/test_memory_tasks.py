"""Two-dimensional and batched copies, words, reductions, random numbers, pools, registered memory, on both clocks."""

from __future__ import annotations

import mmap
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cann_async as ca
import cann_async.sync as blocking

from .helpers import SOC, both, open_device, rejects, work

pytestmark = pytest.mark.timeout(60)
MIB = 1 << 20
EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "400")) // 8


@both
@pytest.mark.asyncio
async def test_rows_are_copied_and_what_is_between_them_is_not(clock):
    """In, within, and out again; also at once."""
    async with open_device(clock) as device, device.create_stream() as stream:
        picture = np.arange(60, dtype=np.uint8).reshape(6, 10)
        x, y = device.malloc(64), device.zeros(48, np.uint8)
        await device.memset(x, 255)
        stream.memcpy2d(x, picture, 4, 6, 8, 10)
        stream.memcpy2d(y, x, 4, 5, 6, 8)
        back = np.zeros((6, 10), np.uint8)
        stream.memcpy2d(back, y, 3, 5, 10, 6)
        await stream.synchronize()
        rows = (await x.get()).reshape(8, 8)
        assert (rows[:6, :4] == picture[:, :4]).all()
        assert (rows[:, 4:] == 255).all()
        assert (back[:5, :3] == picture[:5, :3]).all()
        assert not back[:, 3:].any()
        assert not back[5].any()
        await device.memcpy2d(x, picture, 10, 6, 10, 10)
        assert ((await x.get())[:60] == picture.ravel()).all()
        for width, height in ((0, 5), (5, 0)):
            await stream.memcpy2d(x, picture, width, height, 8, 10)


@both
def test_misuse_of_two_dimensional_copies(clock):
    """At the call, and nothing is enqueued."""
    with blocking.open_device(soc=SOC, clock=clock) as device, device.create_stream() as stream:
        x, y, host = device.malloc(64), device.malloc(64), np.zeros(64, np.uint8)
        for code, call in (
            (100000, lambda: stream.memcpy2d(x, host, 9, 2, 8, 10)),
            (100000, lambda: stream.memcpy2d(x, host, 9, 2, 10, 8)),
            (100000, lambda: stream.memcpy2d(host, host.copy(), 4, 2, 8, 8)),
            (100000, lambda: device.memcpy2d(x, y, 4, 2, 8, 8)),
            (107000, lambda: stream.memcpy2d(x, host, 8, 9, 8, 8)),
            (107000, lambda: stream.memcpy2d(x, host, -1, 2, 8, 8)),
            (107000, lambda: stream.memcpy2d(x, host, 5_000_001, 1, 5_000_001, 5_000_001)),
        ):
            with rejects(code):
                call()
        assert stream.pending == 0
        assert len(device.timeline) == 0


@both
@pytest.mark.asyncio
async def test_a_batch_is_one_task(clock):
    """All pairs, in one direction; a wrong one is named, and nothing of the batch happens."""
    async with open_device(clock) as device, device.create_stream() as stream:
        buffers = [device.zeros(4, np.int32) for _ in range(3)]
        hosts = [np.full(4, n, np.int32) for n in (1, 2, 3)]
        task = stream.memcpy_batch(list(zip(buffers, hosts, strict=True)))
        for host in hosts:
            host[:] = 9  # staged at the call
        await task
        assert [(await buffer.get()).tolist() for buffer in buffers] == [[n] * 4 for n in (1, 2, 3)]
        await stream.memcpy_batch(list(zip(hosts, buffers, strict=True)))
        assert [host.tolist() for host in hosts] == [[n] * 4 for n in (1, 2, 3)]
        before = len(device.timeline)
        for code, pairs in (
            (107000, [(buffers[0], hosts[0]), (hosts[1], buffers[1])]),
            (107000, [(buffers[0], hosts[0]), (buffers[1], hosts[1][:2])]),
            (107000, [(buffers[0], buffers[1])]),
            (100000, []),
        ):
            with rejects(code, "batch"):
                stream.memcpy_batch(pairs)
        with rejects(107000, "pair 1"):
            stream.memcpy_batch([(buffers[0], hosts[0]), (buffers[1], hosts[1][:2])])
        assert len(device.timeline) == before


@both
@pytest.mark.asyncio
async def test_words_are_set(clock):
    """32 bits at a time, also negative ones, on a stream and at once."""
    async with open_device(clock) as device, device.create_stream() as stream:
        x = device.malloc(16)
        await stream.memset_d32(x, 0x01020304)
        assert (await x.get()).view(np.uint32).tolist() == [0x01020304] * 4
        await device.memset_d32(x, -1)
        assert (await x.get()).tolist() == [255] * 16
        y = device.zeros(4, np.uint32)
        await stream.memset(y, 1)
        assert (await y.get()).tolist() == [0x01010101] * 4
        for wrong in (x[1:5], x[:6]):
            with rejects(100000):
                stream.memset_d32(wrong, 1)
        with rejects(107000):
            stream.memset_d32(x, 1 << 32)


@both
@pytest.mark.asyncio
async def test_reduce_sample(clock):
    """1 2 3 4 plus 1 2 3 4: 2 4 6 8; and the other operations."""
    async with open_device(clock) as device, device.create_stream() as stream:
        for dtype in (np.float32, np.int16, np.float16):
            x, y = (
                await device.upload(np.array([1, 2, 3, 4], dtype)),
                await device.upload(np.array([4, 1, 3, 9], dtype)),
            )
            await stream.reduce(x, await device.upload(np.array([1, 2, 3, 4], dtype)))
            assert (await x.get()).tolist() == [2, 4, 6, 8]
            await stream.reduce(x, y, "max")
            assert (await x.get()).tolist() == [4, 4, 6, 9]
            await stream.reduce(x, y, "min")
            assert (await x.get()).tolist() == [4, 1, 3, 9]
        flags, other = device.zeros(4, np.bool_), device.zeros(4, np.int32)
        for code, call in (
            (107000, lambda: stream.reduce(x, y, "xor")),
            (107000, lambda: stream.reduce(flags, flags)),
            (107000, lambda: stream.reduce(x, other)),
            (107000, lambda: stream.reduce(x, np.zeros(4, np.float16))),
            (107000, lambda: stream.reduce(x, y[:2])),
        ):
            with rejects(code):
                call()


@both
@pytest.mark.asyncio
async def test_random_numbers_are_in_range_and_can_be_had_again(clock):
    """The sample's five kinds; the same seed and offset give the same."""
    async with open_device(clock) as device, device.create_stream() as stream:
        for dtype, kind, options, low, high in (
            (np.float32, "normal", {"mean": 10, "stddev": 1}, 3, 17),
            (np.float32, "truncated_normal", {"mean": 0, "stddev": 3}, -6.01, 6.01),
            (np.float16, "uniform", {"low": -1, "high": 1}, -1, 1),
            (np.int32, "uniform", {"low": 5, "high": 9}, 5, 8),
        ):
            x = device.zeros(1000, dtype)
            await stream.random(x, kind, seed=7, **options)
            first = await x.get()
            assert low <= first.min() < first.max() <= high
            await stream.random(x, kind, seed=7, offset=1, **options)
            assert (await x.get() != first).any()
            await stream.random(x, kind, seed=7, **options)
            assert (await x.get() == first).all()
        mask = device.zeros(1000, np.uint8)
        await stream.random(mask, "dropout", ratio=0.25)
        share = np.unpackbits(await mask.get()).mean()
        assert 0.7 < share < 0.8
        x = device.zeros(4, np.int32)
        for call in (
            lambda: stream.random(x, "poisson"),
            lambda: stream.random(x, "normal"),
            lambda: stream.random(x, low=1, high=1),
            lambda: stream.random(x, "dropout"),
            lambda: stream.random(mask, "dropout", ratio=2),
        ):
            with rejects(107000):
                call()


@both
@pytest.mark.asyncio
async def test_a_pool_reuses_memory_in_the_order_of_streams(clock):
    """At once for the same stream, for another one only when the first has come to the free."""
    async with open_device(clock) as device:
        s1, s2, notify = device.create_stream(), device.create_stream(), device.create_notify()
        pool = device.create_pool(release_threshold=64 * MIB)
        first = pool.malloc(1 * MIB, s1)
        address = first.address
        assert (pool.used, pool.reserved) == (MIB, 2 * MIB)
        s1.memset(first, 1)
        s1.wait_notify(notify)
        pool.free(first, s1)
        with rejects(107000, "freed"):
            s1.memset(first, 2)
        again = pool.malloc(1 * MIB, s1)
        assert again.address == address
        pool.free(again, s1)
        elsewhere = pool.malloc(1 * MIB, s2)
        assert elsewhere.address != address
        s2.record_notify(notify)
        await s1.synchronize()
        here = pool.malloc(1 * MIB, s2)
        assert here.address == address
        assert pool.used_high == 2 * MIB
        for buffer in (here, elsewhere):
            pool.free(buffer, s2)
        await s2.synchronize()
        assert (pool.used, pool.reserved) == (0, 2 * MIB)
        pool.reset_highs()
        assert (pool.used_high, pool.reserved_high) == (0, 2 * MIB)
        pool.trim_to(0)
        assert pool.reserved == 0
        assert device.memory_info()[0] == device.memory_info()[1]
        await s1.close()
        await s2.close()


@both
@pytest.mark.asyncio
async def test_a_pool_gives_back_above_its_threshold_at_the_next_synchronize(clock):
    """By default all of it; a big piece takes a chunk of its own."""
    async with open_device(clock) as device, device.create_stream() as stream:
        pool = device.create_pool()
        big, small = pool.malloc(5 * MIB, stream), pool.malloc(100, stream)
        assert pool.reserved == 6 * MIB
        assert big.address % 64 == 0
        await stream.launch(work(1), big)
        pool.free(big, stream)
        assert pool.reserved == 6 * MIB
        await stream.synchronize()
        assert pool.reserved == 6 * MIB  # the small one is in the same chunk
        pool.free(small, stream)
        await stream.synchronize()
        assert pool.reserved == 0
        for code, call in (
            (100000, lambda: pool.malloc(0, stream)),
            (107000, lambda: pool.malloc(-1, stream)),
            (107000, lambda: pool.free(device.malloc(8), stream)),
            (107000, lambda: pool.free(small, stream)),
            (207001, lambda: pool.malloc(2 << 30, stream)),
            (107000, lambda: setattr(pool, "release_threshold", -1)),
        ):
            with rejects(code):
                call()
        held = pool.malloc(8, stream)
        with rejects(107000):
            held.free()
        pool.close()
        with rejects(107000):
            pool.malloc(8, stream)
        await stream.memset(held, 1)
        assert (await held.get()).tolist() == [1] * 8


def test_registered_memory_counts_as_pinned():
    """A queued copy reads it when it runs; the codes of misuse."""
    with blocking.open_device(soc=SOC, clock="virtual") as device, device.create_stream() as stream:
        memory = mmap.mmap(-1, 8192)
        array = np.frombuffer(memory, np.uint8)
        buffer = device.malloc(8)
        assert device.pointer_attributes(array) == ("unregistered", None)
        device.register_host(array)
        assert device.pointer_attributes(array) == ("host", None)
        assert device.pointer_attributes(array.ctypes.data + 100) == ("host", None)
        array[:8] = 1
        stream.memcpy(buffer, array[:8])
        array[:8] = 2
        stream.synchronize()
        assert buffer.get().tolist() == [2] * 8
        with rejects(507910):
            device.register_host(array)
        with rejects(507911):
            device.unregister_host(array[4096:])
        with rejects(107000, "4096"):
            device.register_host(np.frombuffer(memory, np.uint8)[8:])
        device.unregister_host(array)
        stream.memcpy(buffer, array[:8])
        array[:8] = 3
        stream.synchronize()
        assert buffer.get().tolist() == [2] * 8
        assert device.pointer_attributes(buffer) == ("device", 0)
        assert device.pointer_attributes(buffer.address + 1) == ("device", 0)
        assert device.pointer_attributes(device.malloc_host(8)) == ("host", None)
        with pytest.raises(TypeError):
            device.register_host([1, 2])


@both
def test_managed_memory_is_the_same_on_both_sides(clock):
    """The sample: a kernel writes, the host reads after a synchronize, without a copy; freed, it is gone."""

    @ca.kernel(per_block=False)
    def fill(launch, x):
        x += 1

    with blocking.open_device(soc=SOC, clock=clock) as device, device.create_stream() as stream:
        memory = device.malloc_managed(4, np.int32)
        memory.array[:] = [1, 2, 3, 4]
        stream.launch(fill, memory)
        stream.synchronize()
        assert memory.array.tolist() == [2, 3, 4, 5]
        memory.free()
        for use in (lambda: memory.array, lambda: stream.launch(fill, memory), memory.free):
            with rejects(107000, "freed"):
                use()


@ca.kernel(per_block=False, cost=ca.Cost(seconds=3e-9))
def stamp(launch, memory, number):
    """Write a number over everything."""
    memory[...] = number


@ca.kernel(per_block=False, cost=ca.Cost(seconds=2e-9))
def check(launch, memory, number):
    """Fail unless it is still there."""
    assert (memory == number).all()


POOL_STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(("malloc", "malloc", "free", "wait", "sync")), st.integers(1, 5)),
    max_size=60,
)


@pytest.mark.parametrize("clock", ["wall", "virtual"])
@given(steps=POOL_STEPS)
@settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
def test_memory_of_a_pool_is_never_two_buffers_at_once(clock, steps):
    """Whoever has a buffer writes its number, and finds it there before the free; on three streams with events."""
    with blocking.open_device(soc=SOC, clock=clock) as device:
        streams = [device.create_stream(priority) for priority in (0, 3, 7)]
        pool = device.create_pool(release_threshold=3 * MIB)
        live: list[list[tuple[int, ca.Buffer]]] = [[], [], []]
        number = 0
        for index, what, size in steps:
            stream = streams[index]
            if what == "malloc":
                number += 1
                buffer = pool.malloc(size * 300_000, stream)
                stream.launch(stamp, buffer, number % 256)
                live[index].append((number % 256, buffer))
            elif what == "free" and live[index]:
                value, buffer = live[index].pop(size % len(live[index]))
                stream.launch(check, buffer, value)
                pool.free(buffer, stream)
            elif what == "wait":
                stream.wait(streams[(index + size) % 3])
            elif what == "sync":
                stream.synchronize()
            assert pool.used == sum(-(-buffer.nbytes // 512) * 512 for own in live for _, buffer in own)
        for stream, own in zip(streams, live, strict=True):
            for value, buffer in own:
                stream.launch(check, buffer, value)
                pool.free(buffer, stream)
            stream.synchronize()
        assert pool.used == 0
        assert pool.reserved <= 3 * MIB
        pool.trim_to(0)
        assert device.memory_info()[0] == device.memory_info()[1]
        for stream in streams:
            stream.close()


def test_the_names_are_public():
    """And so is the pool's type."""
    with blocking.open_device(soc=SOC) as device:
        assert isinstance(device.create_pool(), ca.Pool)
