"""Kernels: blocks, waves, arguments, engines, costs, asynchronous bodies."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

import cann_async as ca

from .helpers import LIMIT_S, SOC, Hold, both, numbers, open_device, rejects, work

pytestmark = pytest.mark.timeout(30)


@ca.kernel
def add(block, x, y, z):
    """Add this block's share."""
    part = block.slice(x.size)
    np.add(x[part], y[part], out=z[part])


@both
@pytest.mark.parametrize("blocks", (1, 2, 7, 24, 100))
@pytest.mark.asyncio
async def test_a_kernel_runs_once_per_block(clock, blocks):
    """Each takes its share."""
    async with open_device(clock) as device, device.create_stream() as stream:
        x, y = await device.upload(numbers(1001)), await device.upload(numbers(1001)[::-1])
        z = device.zeros(1001)
        assert await stream.launch(add, x, y, z, blocks=blocks) is None
        assert (await z.get() == 1000).all()


@both
@pytest.mark.asyncio
async def test_a_block_knows_its_place(clock):
    """Index, count, its launch, a readable repr."""
    seen = []

    @ca.kernel
    def look(block):
        seen.append((block.index, block.count, block.launch.blocks, block.launch.name, repr(block)))

    async with open_device(clock) as device, device.create_stream() as stream:
        await stream.launch(look, blocks=3, name="mine")
    assert sorted(seen) == [(i, 3, 3, "mine", f"<Block {i} of 3 of 'mine'>") for i in range(3)]


@pytest.mark.parametrize("n", (0, 1, 5, 24, 100, 1001))
@pytest.mark.parametrize("count", (1, 3, 24, 200))
def test_the_shares_of_all_blocks_cover_everything_once_and_are_even(n, count):
    """Also when there are more blocks than elements."""
    shares = [ca.Block(i, count, None).slice(n) for i in range(count)]
    assert [i for share in shares for i in range(n)[share]] == list(range(n))
    sizes = {share.stop - share.start for share in shares}
    assert max(sizes) - min(sizes) <= 1


@both
@pytest.mark.asyncio
async def test_a_whole_launch_body_runs_once_and_its_result_is_the_tasks(clock):
    """It sees its launch."""

    @ca.kernel(per_block=False)
    def total(launch, x, scale):
        return launch.blocks, launch.name, launch.stream, launch.device, float(x.sum() * scale)

    async with open_device(clock) as device, device.create_stream() as stream:
        x = await device.upload(numbers(10))
        assert await stream.launch(total, x, 2, blocks=5) == (5, "total", stream, device, 90.0)


@both
@pytest.mark.asyncio
async def test_buffers_arrive_as_views_of_exactly_their_memory_and_the_rest_as_it_is(clock):
    """Shape, dtype, strides; writing through a view changes the buffer."""
    seen = {}
    thing = object()

    @ca.kernel(per_block=False)
    def look(launch, x, part, scalar, text, other):
        seen.update(x=(type(x), x.shape, x.dtype.str), part=part.copy(), rest=(scalar, text, other))
        part[...] = -1

    async with open_device(clock) as device, device.create_stream() as stream:
        x = await device.upload(numbers(12, np.int16).reshape(3, 4))
        await stream.launch(look, x, x[1:, ::2], 2.5, "text", thing)
        assert seen["x"] == (np.ndarray, (3, 4), "<i2")
        assert seen["part"].tolist() == [[4, 6], [8, 10]]
        assert seen["rest"] == (2.5, "text", thing)
        assert (await x.get()).tolist() == [[0, 1, 2, 3], [-1, 5, -1, 7], [-1, 9, -1, 11]]


@both
@pytest.mark.asyncio
async def test_a_kernel_that_changes_the_shape_of_its_view_does_not_change_the_buffer(clock):
    """The view is the kernel's own."""

    @ca.kernel
    def reshape(block, x):
        x.shape = (2, 3)

    async with open_device(clock) as device, device.create_stream() as stream:
        x = device.zeros(6)
        await stream.launch(reshape, x)
        assert x.shape == (6,)
        await stream.launch(reshape, x)


@both
@pytest.mark.asyncio
async def test_a_host_array_is_refused_with_the_way_to_do_it(clock):
    """At the call; nothing is enqueued."""
    async with open_device(clock) as device, device.create_stream() as stream:
        for array in (np.zeros(3), device.malloc_host(3, np.float32)):
            with pytest.raises(TypeError, match="upload"):
                stream.launch(add, array, array, array)
        assert stream.pending == 0


@both
@pytest.mark.asyncio
async def test_blocks_below_one_are_107000_and_no_int_is_a_type_error(clock):
    """At the call."""
    async with open_device(clock) as device, device.create_stream() as stream:
        for bad in (0, -1):
            with rejects(107000, "blocks"):
                stream.launch(work(1), blocks=bad)
            with rejects(107000, "blocks"):
                work(1)[bad, stream]()
        for bad in (1.5, "2", None):
            with pytest.raises(TypeError, match="blocks"):
                stream.launch(work(1), blocks=bad)
        assert stream.pending == 0


@pytest.mark.asyncio
async def test_a_launch_takes_as_many_cores_as_it_has_blocks():
    """What fits beside it runs at once, what does not waits."""
    async with open_device() as device:  # four cores
        streams = [device.create_stream() for _ in range(4)]
        tasks = [stream.launch(work(10), blocks=blocks) for stream, blocks in zip(streams, (3, 1, 2, 100), strict=True)]
        await device.synchronize()
        assert [t.started_ns for t in tasks] == [0, 0, 10_000, 20_000]
        assert [r.cores for r in device.runtime.timeline.records] == [3, 1, 2, 4]


@pytest.mark.asyncio
async def test_more_blocks_than_cores_run_in_waves():
    """The roofline: flops over the share of the peak, in whole waves; memory bandwidth is the chip's."""
    soc = SOC.replace(peak_flops=4e9, memory_bandwidth=1e9, launch_ns=7)
    compute = ca.kernel(cost=ca.Cost(flops=4000), per_block=False)(lambda launch: None)
    memory = ca.kernel(cost=ca.Cost(flops=1, bytes=5000), per_block=False)(lambda launch: None)
    async with open_device(soc=soc) as device, device.create_stream() as stream:

        async def takes(kernel, blocks):
            task = stream.launch(kernel, blocks=blocks)
            await task
            return task.finished_ns - task.started_ns - 7

        assert await takes(compute, 1) == 4000
        assert await takes(compute, 2) == 2000
        assert await takes(compute, 4) == 1000
        assert await takes(compute, 8) == 1000
        assert await takes(compute, 5) == 1600  # two waves, the second part empty
        assert await takes(memory, 1) == await takes(memory, 4) == 5000


@pytest.mark.asyncio
async def test_a_cost_may_depend_on_the_arguments_and_default_to_their_bytes():
    """The function sees the launch and the buffers."""

    @ca.kernel(cost=lambda launch, x, n: ca.Cost(seconds=x.size * n * launch.blocks * 1e-9))
    def modelled(block, x, n):
        pass

    @ca.kernel
    def free(block, x, n):
        pass

    async with open_device() as device, device.create_stream() as stream:
        x = device.empty(100, np.float32)
        first, second = stream.launch(modelled, x, 3, blocks=2), stream.launch(free, x, 3)
        await stream.synchronize()
        assert first.finished_ns - first.started_ns == 600
        assert second.finished_ns - second.started_ns == 400  # bytes at 1 GB/s


@pytest.mark.parametrize("cost", ({"flops": -1}, {"bytes": float("nan")}, {"seconds": -0.1}, {"seconds": float("inf")}))
@pytest.mark.asyncio
async def test_a_cost_below_nothing_or_for_ever_is_a_value_error(cost):
    """At the latest at the launch, with nothing enqueued."""
    async with open_device() as device, device.create_stream() as stream:
        with pytest.raises(ValueError, match="c"):
            stream.launch(ca.kernel(cost=ca.Cost(**cost))(lambda block: None))
        assert stream.pending == 0


@pytest.mark.asyncio
async def test_a_cost_that_is_none():
    """Of the wrong type, or a function that gives something else."""
    with pytest.raises(TypeError):
        ca.kernel(cost=3)(lambda block: None)
    wrong = ca.kernel(cost=lambda launch: 3)(lambda block: None)
    async with open_device() as device, device.create_stream() as stream:
        with pytest.raises(TypeError, match="Cost"):
            stream.launch(wrong)
        assert stream.pending == 0


@both
@pytest.mark.asyncio
async def test_kernel_blocks_stream_is_another_way_to_launch(clock):
    """With the blocks only, on the current stream."""
    async with open_device(clock) as device, device.create_stream() as stream:
        x, z = await device.upload(numbers(64)), device.zeros(64)
        task = add[4, stream](x, x, z)
        await task
        assert task.stream is stream
        assert np.array_equal(await z.get(), 2 * numbers(64))
        with ca.use(stream):
            task = add[2](x, z, z)
        await task
        assert task.stream is stream
        assert np.array_equal(await z.get(), 3 * numbers(64))
        with rejects(107002):
            add[2](x, x, z)


@both
@pytest.mark.asyncio
async def test_a_task_names_its_line_however_it_was_launched(clock):
    """The user's line, not the package's."""
    async with open_device(clock) as device, device.create_stream() as stream:
        line = test_a_task_names_its_line_however_it_was_launched.__code__.co_firstlineno
        x = device.malloc(8)
        tasks = [
            stream.launch(work(1)),
            work(1)[1, stream](),
            stream.memcpy(x, bytes(8)),
            stream.memset(x, 0),
            stream.wait(stream),
            device.memcpy(x, bytes(8)),
            device.memset(x, 0),
        ]
        lines = [int(task.launched_at.rpartition(":")[2]) - line for task in tasks]
        assert lines == list(range(lines[0], lines[0] + len(tasks)))
        assert {task.launched_at.rpartition(":")[0] for task in tasks} == {__file__}


def test_a_kernel_is_launched_not_called():
    """The error says how."""
    with pytest.raises(TypeError, match=r"add\[blocks, stream\]"):
        add(1, 2)
    assert add.__name__ == "add"
    assert add.__doc__ == "Add this block's share."
    assert "add" in repr(add)


def test_what_cannot_be_a_kernel():
    """No function; an engine that copies."""
    with pytest.raises(TypeError):
        ca.kernel(3)
    with pytest.raises(ValueError, match="h2d"):
        ca.kernel(engine="h2d")(lambda block: None)


@both
@pytest.mark.asyncio
async def test_an_engine_that_the_soc_lacks_is_207000_with_those_there_are(clock):
    """At the launch: only there the Soc is known."""
    async with open_device(clock) as device, device.create_stream() as stream:
        with rejects(207000, "warp", "ai_core"):
            stream.launch(work(1, engine="warp"))


@both
@pytest.mark.parametrize("engine", ("ai_core", "ai_vector", "ai_cpu", "dvpp"))
@pytest.mark.asyncio
async def test_kernels_run_on_the_engine_they_ask_for(clock, engine):
    """The task says so, and the record."""
    async with open_device(clock) as device, device.create_stream() as stream:
        task = stream.launch(work(1, engine=engine))
        await task
        assert task.engine == engine
        assert device.runtime.timeline.records[0].engine == engine


@pytest.mark.asyncio
async def test_engines_do_not_wait_for_each_other():
    """A full AI Core does not keep the AI CPU from working."""
    async with open_device() as device:
        streams = [device.create_stream() for _ in range(4)]
        tasks = [
            stream.launch(work(10, engine=engine), blocks=4)
            for stream, engine in zip(streams, ("ai_core", "ai_vector", "ai_cpu", "ai_core"), strict=True)
        ]
        await device.synchronize()
        assert [t.started_ns for t in tasks] == [0, 0, 0, 10_000]


@both
@pytest.mark.asyncio
async def test_async_bodies(clock):
    """They may await; the blocks of one wave run at the same time."""
    log = []

    @ca.kernel
    async def body(block, x):
        log.append(block.index)
        await asyncio.sleep(0)
        x[block.index] = block.index
        log.append(-block.index)

    @ca.kernel(per_block=False)
    async def whole(launch, x):
        await asyncio.sleep(0.001)
        return int(x.sum())

    async with open_device(clock) as device, device.create_stream() as stream:
        x = device.zeros(8, np.int32)
        stream.launch(body, x, blocks=8)
        assert await stream.launch(whole, x) == 28
        assert log == [0, 1, 2, 3, 0, -1, -2, -3, 4, 5, 6, 7, -4, -5, -6, -7]


@both
@pytest.mark.asyncio
async def test_an_async_body_may_await_work_of_the_device(clock):
    """On another stream, by launching or by an event; others go on meanwhile."""
    async with open_device(clock) as device:
        first, second = device.create_stream(), device.create_stream()

        @ca.kernel(per_block=False, cost=ca.Cost(seconds=1e-6))
        async def outer(launch):
            inner = second.launch(work(10, lambda: 20))
            event = second.record()
            await event
            return 1 + await inner

        assert await first.launch(outer) == 21


@both
@pytest.mark.asyncio
async def test_an_async_body_that_fails_fails_its_task(clock):
    """As any other."""

    @ca.kernel
    async def bad(block):
        await asyncio.sleep(0)
        raise KeyError("lost")

    async with open_device(clock) as device, device.create_stream() as stream:
        task = stream.launch(bad, blocks=3)
        with rejects(507015, "lost"):
            await task
        assert await stream.launch(work(1, lambda: "on")) == "on"


@both
@pytest.mark.asyncio
async def test_a_body_that_blocks_on_the_device_is_refused_at_once(clock):
    """`result()` in a kernel would wait for itself: 107000."""
    async with open_device(clock) as device:
        first, second = device.create_stream(), device.create_stream()
        inner = Hold(second)
        outer = first.launch(work(1, lambda: inner.task.result()))
        inner_done = asyncio.create_task(inner.task.wait())
        with pytest.raises(ca.CannError) as caught:
            await outer
        assert "block" in str(caught.value)
        inner.let_go()
        await inner_done


@both
@pytest.mark.asyncio
async def test_a_body_may_enqueue_more_work(clock):
    """On its own stream or another."""
    log = []
    async with open_device(clock) as device:
        first, second = device.create_stream(), device.create_stream()

        def body():
            log.append("outer")
            first.launch(work(1, log.append, "later"))
            second.launch(work(1, log.append, "beside"))

        await first.launch(work(1, body))
        await device.synchronize()
        assert log[0] == "outer"
        assert sorted(log[1:]) == ["beside", "later"]


@both
@pytest.mark.parametrize("problem", (KeyboardInterrupt, SystemExit, asyncio.CancelledError, StopIteration))
@pytest.mark.asyncio
async def test_whatever_a_body_raises_is_its_tasks_failure(clock, problem):
    """Never the driver's, nor the host's."""

    def body():
        raise problem("from a kernel")

    async with open_device(clock) as device, device.create_stream() as stream:
        with rejects(507015, problem.__name__) as caught:
            await stream.launch(work(1, body))
        assert isinstance(caught.value.__cause__, problem)
        assert await stream.launch(work(1, lambda: 1)) == 1


@pytest.mark.asyncio
async def test_heavy_bodies_run_on_other_threads_at_the_same_time():
    """On the wall clock; never on the host's."""
    meet = threading.Barrier(2)

    def body():
        meet.wait(LIMIT_S)  # both are there at once
        return threading.current_thread()

    async with open_device("wall") as device:
        streams = device.default_stream, device.create_context().default_stream
        tasks = [stream.launch(work(1, body)) for stream in streams]
        threads = [await task for task in tasks]
        assert threading.current_thread() not in threads
        await device.synchronize()


@pytest.mark.asyncio
async def test_one_kernel_on_many_streams_devices_and_runtimes():
    """A kernel belongs to nobody."""
    async with open_device(devices=2) as first, open_device("wall") as other:
        for device in (first, first.runtime.device(1), other):
            x = await device.upload(numbers(8))
            z = device.zeros(8)
            await device.default_stream.launch(add, x, x, z, blocks=2)
            assert np.array_equal(await z.get(), 2 * numbers(8))
