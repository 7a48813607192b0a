"""The same program gives the same timeline, to the byte: on every run, on every loop and on none, for any hash seed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import uvloop

import cann_async as ca
import cann_async.sync as blocking

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
SOC = ca.Soc(ai_cores=4, vector_cores=2)
keep: list[list[ca.Stream]] = []
"""Streams that nobody closes: their runtime is closed."""
GOLDEN = Path(__file__).parent / "golden" / "determinism.json"


def kernel(engine: str, microseconds: float) -> ca.Kernel[..., None]:
    """Make a kernel that takes so long and adds one."""

    @ca.kernel(engine=engine, cost=ca.Cost(seconds=microseconds * 1e-6))
    def add_one(block: ca.Block, x: np.ndarray) -> None:
        x[block.slice(x.size)] += 1

    return add_one


def enqueue(device: ca.Device) -> None:
    """Enqueue a program in which streams meet, compete and tie."""
    streams = [device.default_stream] + [device.create_stream(priority=index % 3) for index in range(5)]
    kernels = [kernel("ai_core", 10), kernel("ai_vector", 10), kernel("ai_core", 7)]
    host = device.malloc_host((64,), np.float32)
    host[:] = 1
    buffers = [device.zeros((64,), np.float32) for _ in streams]
    for step in range(12):
        for index, (stream, buffer) in enumerate(zip(streams, buffers, strict=True)):
            stream.memcpy(buffer, host)
            stream.launch(kernels[(index + step) % 3], buffer, blocks=1 + (index + step) % 5)
            streams[(index + 1) % len(streams)].wait(stream.record())
    device.default_stream.wait(streams[-1])
    keep.append(streams)


def saved(runtime: ca.Runtime, folder: Path) -> bytes:
    """Give the bytes of the saved timeline."""
    return runtime.timeline.save(folder / "trace.json").read_bytes()


def on_loop(factory: Callable[[], asyncio.AbstractEventLoop], folder: Path) -> bytes:
    """Run the program through asyncio."""

    async def main() -> bytes:
        async with ca.Runtime(clock="virtual", soc=SOC) as runtime:
            enqueue(runtime.device(0))
            await runtime.device(0).synchronize()
            return saved(runtime, folder)

    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main())


def without_loop(folder: Path) -> bytes:
    """Run the program through the blocking twin."""
    with blocking.Runtime(clock="virtual", soc=SOC) as runtime:
        enqueue(runtime.device(0))
        runtime.device(0).synchronize()
        return saved(runtime, folder)


def test_every_loop_and_none_give_the_same_bytes_ten_times(tmp_path: Path) -> None:
    """One timeline, thirty runs; the golden file has it, too, and so compares the Pythons that run these tests."""
    timelines = {without_loop(tmp_path) for _ in range(10)}
    for factory in LOOPS.values():
        timelines |= {on_loop(factory, tmp_path) for _ in range(10)}
    assert len(timelines) == 1
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_bytes(*timelines)
    assert timelines == {GOLDEN.read_bytes()}


def test_the_hash_seed_changes_nothing(tmp_path: Path) -> None:
    """Nothing depends on the order of a set."""
    program = (
        "import sys, pathlib, importlib.util as u; spec = u.spec_from_file_location('program', sys.argv[1]); "
        "module = u.module_from_spec(spec); spec.loader.exec_module(module); "
        "sys.stdout.buffer.write(module.without_loop(pathlib.Path(sys.argv[2])))"
    )
    for seed in ("0", "1", "random"):
        ran = subprocess.run(
            [sys.executable, "-c", program, __file__, str(tmp_path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        )
        assert ran.stdout == GOLDEN.read_bytes()


async def two_hundred_hosts(runtime: ca.Runtime) -> tuple[tuple[int, int], ...]:
    """Let hosts pass work on through queues, locks, gather, task groups and sleeps; give who finished what when."""
    device = runtime.device(0)
    streams = [device.create_stream(priority=index % 4) for index in range(8)]
    kernels = [kernel("ai_core", 3 + index % 5) for index in range(8)]
    buffers = [device.zeros((16,), np.float32) for _ in range(8)]
    queues = [asyncio.Queue[int](maxsize=2) for _ in range(50)]
    lock = asyncio.Lock()
    done: list[tuple[int, int]] = []

    async def work(number: int) -> None:
        index = number % 8
        await streams[index].launch(kernels[index], buffers[index], blocks=1 + number % 4)

    async def produce(lane: int) -> None:
        for number in range(4):
            await work(lane + number)
            await queues[lane].put(lane * 10 + number)

    async def move(lane: int) -> None:
        for _ in range(4):
            number = await queues[lane].get()
            await asyncio.gather(work(number), asyncio.gather(work(number + 1), asyncio.sleep(0)))
            await queues[(lane + 7) % 25 + 25].put(number)

    async def finish(lane: int) -> None:
        for _ in range(4):
            number = await queues[lane].get()
            async with lock:
                await runtime.clock.sleep(1e-6)
            done.append((number, runtime.clock.now_ns()))

    async def group_up(lane: int) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(work(lane + number))
        await runtime.clock.sleep(5e-6)

    async with asyncio.TaskGroup() as group:
        for lane in range(25):
            group.create_task(produce(lane))
            group.create_task(move(lane))
            group.create_task(finish(lane + 25))
        for lane in range(125):
            group.create_task(group_up(lane))
    for stream in streams:
        await stream.close()
    return tuple(done)


def test_two_hundred_hosts_that_pass_work_on_are_deterministic(tmp_path: Path) -> None:
    """The same timeline, and the same results at the same times, on both loops, five runs each."""
    seen = set()

    async def main() -> tuple[bytes, tuple[tuple[int, int], ...]]:
        async with ca.Runtime(clock="virtual", soc=SOC) as runtime:
            done = await two_hundred_hosts(runtime)
            return saved(runtime, tmp_path), done

    for factory in LOOPS.values():
        for _ in range(5):
            with asyncio.Runner(loop_factory=factory) as runner:
                seen.add(runner.run(main()))
    ((_, done),) = seen
    assert len(done) == 100
