"""Rows of empty kernels on the wall clock: what one task costs, in bulk, one by one, and over many streams."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack

import peers
from harness import Measure, Peer, Sides, UnavailableError, has, row

import cann_async as ca
import cann_async.sync as blocking

TASKS = 100_000
ONE_BY_ONE = 1_000


@ca.kernel
def empty(block: ca.Block) -> None:
    """Do nothing."""


def _in_bulk(stack: ExitStack, streams: int) -> Measure:
    """Launch round robin over the streams of a device of their own, then wait for all; microseconds each."""
    soc = ca.Soc(max_streams=max(1984, streams + 1))  # and the default stream
    device = stack.enter_context(blocking.open_device(0, soc=soc, clock="wall"))
    chosen = [device.create_stream() for _ in range(streams)]

    def ours() -> float:
        start = time.perf_counter()
        for _ in range(TASKS // streams):
            for stream in chosen:
                stream.launch(empty)
        device.synchronize()
        return (time.perf_counter() - start) / TASKS * 1e6

    return ours


@row("launch, 1 stream", 1.0, "us/task")
def launch_one_stream(stack: ExitStack) -> Sides:
    """100k empty kernels on one stream, then synchronize."""
    return Sides(_in_bulk(stack, 1), peers.pocl(lambda pocl: pocl.launches(TASKS, 1)))


@row("launch, 8 streams", 1.0, "us/task")
def launch_eight_streams(stack: ExitStack) -> Sides:
    """100k empty kernels over eight streams, then synchronize."""
    return Sides(_in_bulk(stack, 8), peers.pocl(lambda pocl: pocl.launches(TASKS, 8)))


def _each() -> Peer:
    return peers.pocl(lambda pocl: pocl.waits(ONE_BY_ONE))


def _await_each(stack: ExitStack, new_loop: Callable[[], asyncio.AbstractEventLoop]) -> Sides:
    runtime = ca.Runtime(clock="wall")
    stack.callback(lambda: asyncio.run(runtime.close()))
    stream = runtime.device(0).create_stream()

    async def main() -> float:
        start = time.perf_counter()
        for _ in range(ONE_BY_ONE):
            await stream.launch(empty)
        return (time.perf_counter() - start) / ONE_BY_ONE * 1e6

    def ours() -> float:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(main())

    return Sides(ours, _each())


@row("launch and await, asyncio", 0.2, "us/task")
def await_asyncio(stack: ExitStack) -> Sides:
    """Launch and await, one by one."""
    return _await_each(stack, asyncio.new_event_loop)


@row("launch and await, uvloop", 0.2, "us/task")
def await_uvloop(stack: ExitStack) -> Sides:
    """Launch and await, one by one, on uvloop."""
    if not has("uvloop"):
        raise UnavailableError("pip install uvloop")
    import uvloop

    return _await_each(stack, uvloop.new_event_loop)


@row("launch and block, result()", 0.2, "us/task")
def block_result(stack: ExitStack) -> Sides:
    """Launch and block for the result, one by one."""
    stream = stack.enter_context(blocking.open_device(0, clock="wall")).create_stream()

    def ours() -> float:
        start = time.perf_counter()
        for _ in range(ONE_BY_ONE):
            stream.launch(empty).result()
        return (time.perf_counter() - start) / ONE_BY_ONE * 1e6

    return Sides(ours, _each())


@row("launch and block, synchronize()", 0.2, "us/task")
def block_synchronize(stack: ExitStack) -> Sides:
    """Launch and synchronize the stream, one by one."""
    stream = stack.enter_context(blocking.open_device(0, clock="wall")).create_stream()

    def ours() -> float:
        start = time.perf_counter()
        for _ in range(ONE_BY_ONE):
            stream.launch(empty)
            stream.synchronize()
        return (time.perf_counter() - start) / ONE_BY_ONE * 1e6

    return Sides(ours, _each())


@row("100 streams against 1", 1.5, "us/task")
def hundred_streams(stack: ExitStack) -> Sides:
    """100k tasks over 100 streams, against as many on one."""
    return Sides(_in_bulk(stack, 100), Peer("ours on 1 stream", _in_bulk(stack, 1)))


@row("10,000 streams against 1", 1.5, "us/task")
def ten_thousand_streams(stack: ExitStack) -> Sides:
    """100k tasks over 10,000 streams, against as many on one."""
    return Sides(_in_bulk(stack, 10_000), Peer("ours on 1 stream", _in_bulk(stack, 1)))
