"""The same work on one stream and on three: on the wall clock, and on the virtual clock of a modelled NPU.

`pipeline` is the part to copy: one coroutine per stream, each with a pair of device buffers that it uses for every
batch. Three streams are triple buffering: while one batch is computed, the next arrives and the last leaves.
"""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

import cann_async as ca

from ..runtime import ClockName, run
from ..timeline.model import Record
from ..timeline.text import Style, compare, duration, legend

Floats = npt.NDArray[np.float32]

BATCHES, SHAPE = 32, (512, 512)
"""So many batches of one grey picture each, 1 MiB of float32."""
GAMMA, FLOPS = 1 / 2.2, 64
"""A power is a logarithm and an exponential, some 64 operations: so a kernel on one vector core of an ascend910b takes
about as long as each of its batch's two copies."""
STREAMS = 3
REPEATS = 5
"""On the wall clock the best of so many runs counts."""
SHOWN = 3
"""How much to draw: as long as one stream needs for so many batches."""


@ca.kernel(engine="ai_vector", cost=lambda launch, x, y: ca.Cost(flops=FLOPS * x.size, bytes=x.nbytes + y.nbytes))
def gamma(block: ca.Block, x: Floats, y: Floats) -> None:
    """Brighten a picture."""
    part = block.slice(len(x))
    np.power(x[part], GAMMA, out=y[part])


async def pipeline(device: ca.Device, source: Floats, target: Floats, streams: int) -> None:
    """Push every batch through: copy in, kernel, copy out, dealt out to so many streams."""

    async def work(first: int) -> None:
        async with device.create_stream(name=f"stream {first + 1}") as stream:
            x, y = device.empty(SHAPE, np.float32), device.empty(SHAPE, np.float32)
            for batch in range(first, BATCHES, streams):
                stream.memcpy(x, source[batch])
                stream.launch(gamma, x, y)
                stream.memcpy(target[batch], y)
            await stream.synchronize()

    async with asyncio.TaskGroup() as group:
        for first in range(streams):
            group.create_task(work(first))


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the pipeline: how long it took, what ran, and how many batches differ from NumPy's."""

    took_ns: int
    records: Sequence[Record]
    wrong: int


async def measure(clock: ClockName, output: Path | None = None) -> tuple[Run, Run]:
    """Run the pipeline on one and on several streams of one device, and save the trace if there is a path for it."""
    repeats = REPEATS if clock == "wall" else 1
    single: list[Run] = []
    several: list[Run] = []
    async with ca.open_device(0, clock=clock) as device:
        source = device.malloc_host((BATCHES, *SHAPE), np.float32)
        target = device.malloc_host((BATCHES, *SHAPE), np.float32)
        fill(source)
        expected = np.power(source, GAMMA)
        if clock == "wall":
            await pipeline(device, source, target, STREAMS)  # touches memory for the first time: slow
        for _ in range(repeats):
            for streams, runs in ((1, single), (STREAMS, several)):
                target[:] = 0
                earlier, started = len(device.timeline), device.runtime.clock.now_ns()
                await pipeline(device, source, target, streams)
                took = device.runtime.clock.now_ns() - started
                wrong = int((~np.isclose(target, expected)).any(axis=(1, 2)).sum())
                runs.append(Run(took, device.timeline.records[earlier:], wrong))
        if output is not None:
            device.timeline.save(output)
    return _best(single), _best(several)


def show_overlap(output: Path, width: int, style: Style) -> bool:
    """Measure on both clocks, draw, explain, and say whether every result was NumPy's."""
    cores = _cores()
    print(f"{BATCHES} batches of one {SHAPE[0]} x {SHAPE[1]} picture (1 MiB): copy in, gamma correction, copy out\n")
    wall = run(measure, "wall")
    _draw(f"Wall clock: what this computer does, on {cores} CPU cores, best of {REPEATS} runs", wall, width, style)
    virtual = run(measure, "virtual", output)
    _draw("Virtual clock: what the model of an ascend910b does, the same on every run", virtual, width, style)

    print(f"{'':16}{'1 stream':>10}{f'{STREAMS} streams':>12}{'speed-up':>11}   results")
    for name, runs in (("wall clock", wall), ("virtual clock", virtual)):
        single, several = runs
        print(
            f"{name:16}{duration(single.took_ns):>10}{duration(several.took_ns):>12}{_gain(runs):>10.2f}x   "
            + ("all equal to NumPy" if not single.wrong + several.wrong else "WRONG")
        )
    print()
    for text in _explain(wall, virtual, cores, output):
        print(textwrap.fill(text, min(width, 100), subsequent_indent="  "))
    wrong = [
        f"{result.wrong} of {BATCHES} batches differ from NumPy ({name} clock, {streams})"
        for name, runs in (("wall", wall), ("virtual", virtual))
        for result, streams in zip(runs, ("1 stream", f"{STREAMS} streams"), strict=True)
        if result.wrong
    ]
    for text in wrong:
        print(f"WRONG: {text}", file=sys.stderr)
    return not wrong


def bare_gain() -> float:
    """Do the same NumPy work on bare threads, without a device: give the speed-up of several threads over one."""
    source, target = np.empty((BATCHES, *SHAPE), np.float32), np.ones((BATCHES, *SHAPE), np.float32)
    fill(source)
    single, several = (min(_on_threads(threads, source, target) for _ in range(REPEATS)) for threads in (1, STREAMS))
    return single / several


def _on_threads(threads: int, source: Floats, target: Floats) -> int:
    def work(first: int) -> None:
        x, y = np.zeros(SHAPE, np.float32), np.zeros(SHAPE, np.float32)
        for batch in range(first, BATCHES, threads):
            np.copyto(x, source[batch])
            np.power(x, GAMMA, out=y)
            np.copyto(target[batch], y)

    team = [threading.Thread(target=work, args=(first,)) for first in range(threads)]
    started = time.perf_counter_ns()
    for thread in team:
        thread.start()
    for thread in team:
        thread.join()
    return time.perf_counter_ns() - started


def fill(source: Floats) -> None:
    """Fill the batches with numbers from 0 to 1, the same ones every time."""
    source[:] = np.random.default_rng(0).random(source.shape, np.float32)


def _best(runs: Sequence[Run]) -> Run:
    """Take the fastest run; wrong is what any run got wrong."""
    return replace(min(runs, key=lambda run: run.took_ns), wrong=max(run.wrong for run in runs))


def _gain(runs: tuple[Run, Run]) -> float:
    single, several = runs
    return single.took_ns / several.took_ns


def _draw(title: str, runs: tuple[Run, Run], width: int, style: Style) -> None:
    single, several = runs
    start = min(record.started_ns for record in single.records if record.stream >= 0)
    ends = sorted(record.finished_ns for record in single.records if record.engine == "d2h")
    span = ends[SHOWN - 1] - start
    print(title)
    print(f"The first {duration(span)}: as long as one stream needs for {SHOWN} batches\n")
    named = [
        (f"1 stream: {duration(single.took_ns)} in all", single.records),
        (f"{STREAMS} streams: {duration(several.took_ns)} in all", several.records),
    ]
    print(*compare(named, width, span_ns=span, style=style), "", legend(style), "", sep="\n")


def _explain(wall: tuple[Run, Run], virtual: tuple[Run, Run], cores: int, output: Path) -> list[str]:
    bare = bare_gain()
    little = " There is little to gain: the cores are busy, or too few." if bare < 1.2 else ""
    return [
        (
            f"Wall clock, {_gain(wall):.2f}x: here the engines are threads on {cores} CPU cores, and the kernel "
            f"takes most of the time, so the gain is what the cores allow. For comparison: {STREAMS} bare threads that "
            f"do the same NumPy work without a device gain {bare:.2f}x on this computer now.{little}"
        ),
        (
            f"Virtual clock, {_gain(virtual):.2f}x: copies in, kernels and copies out run at the same time, each on "
            "its own engine. With three engines 3x is the most; filling and draining the pipeline takes the rest."
        ),
        f"The trace of the virtual clock is in {output}: open it in https://ui.perfetto.dev",
    ]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
