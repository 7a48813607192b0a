"""Rows of time and records: what it costs to record a task, to write a timeline, and to keep the paced clock."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from harness import Measure, Peer, Sides, row

import cann_async as ca
import cann_async.sync as blocking

TASKS = 50_000
FILED = 100_000
DEVICES, KERNELS, KERNEL_S, PACED_S = 8, 144, 0.05, 2.0


@ca.kernel
def empty(block: ca.Block) -> None:
    """Do nothing."""


@ca.kernel(cost=ca.Cost(seconds=KERNEL_S), per_block=False)
def paced(launch: ca.Launch) -> None:
    """Do nothing, for a while of modelled time."""


def _in_bulk(stack: ExitStack, clock: str, *, record: bool) -> Measure:
    device = stack.enter_context(blocking.open_device(0, clock=clock, record=record))
    stream = device.create_stream()

    def measure() -> float:
        start = time.process_time()  # both threads: the wall clock depends on how they take turns
        for _ in range(TASKS):
            stream.launch(empty)
        stream.synchronize()
        return (time.process_time() - start) / TASKS * 1e6

    return measure


@row("recording, wall clock", 1.15, "us/task")
def recording_wall(stack: ExitStack) -> Sides:
    """Empty kernels in bulk with records, and without; processor time."""
    without = Peer("ours without records", _in_bulk(stack, "wall", record=False))
    return Sides(_in_bulk(stack, "wall", record=True), without)


@row("recording, virtual clock", 1.15, "us/task")
def recording_virtual(stack: ExitStack) -> Sides:
    """Empty kernels in bulk with records, and without; processor time."""
    without = Peer("ours without records", _in_bulk(stack, "virtual", record=False))
    return Sides(_in_bulk(stack, "virtual", record=True), without)


def _saved(stack: ExitStack, suffix: str) -> tuple[Measure, Path]:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    device = stack.enter_context(blocking.open_device(0, clock="wall"))
    stream = device.create_stream()
    for _ in range(FILED):
        stream.launch(empty)
    stream.synchronize()
    path = folder / f"timeline{suffix}"

    def measure() -> float:
        start = time.perf_counter()
        device.timeline.save(path)
        return (time.perf_counter() - start) / FILED * 1e6

    return measure, path


@row("a trace's size, .json", 1.0, "B/task")
def trace_size(stack: ExitStack) -> Sides:
    """How long a Chrome trace is, per task."""
    measure, path = _saved(stack, ".json")

    def ours() -> float:
        measure()
        return path.stat().st_size / FILED

    return Sides(ours, Peer("the budget", lambda: 250.0))


@row("writing a trace, .json", 2.0, "us/task")
def trace_time(stack: ExitStack) -> Sides:
    """How long it takes to write a Chrome trace, beside launching its tasks."""
    measure, _ = _saved(stack, ".json")
    return Sides(measure, Peer("launching and running them", _in_bulk(stack, "wall", record=True)))


@row("paced clock, 1,152 kernels of 50 ms in flight", 1.0, "% of a core")
def paced_clock(stack: ExitStack) -> Sides:
    """Keep every AI core of eight devices and what stands behind them busy with modelled kernels."""

    def ours() -> float:
        device = blocking.open_device(0, devices=DEVICES, clock="paced")
        with device:
            rounds = int(PACED_S / KERNEL_S)
            streams = [each.create_stream() for each in device.runtime.devices for _ in range(KERNELS)]
            for stream in streams:
                for _ in range(rounds):
                    stream.launch(paced)
            time.sleep(2 * KERNEL_S)
            began, used = time.perf_counter(), os.times()
            time.sleep(PACED_S / 2)
            now, took = os.times(), time.perf_counter() - began
            for stream in streams:
                stream.close(force=True)
        return (now.user + now.system - used.user - used.system) / took * 100

    return Sides(ours, Peer("the budget", lambda: 20.0))
