"""Rows of pyACL: blocking calls against one call through anyio's BlockingPortal, the other way to block on a loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

from anyio.from_thread import start_blocking_portal
from harness import Measure, Peer, Sides, row

from cann_async import acl
from cann_async._acl import process

CALLS = 2_000
SIZE = 1024
H2D = 1


def _timed(call: Callable[[], object]) -> Measure:
    def measure() -> float:
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        return (time.perf_counter() - start) / CALLS * 1e6

    return measure


def _portal(stack: ExitStack) -> Peer:
    portal = stack.enter_context(start_blocking_portal())

    async def nothing() -> None:
        pass

    return Peer("BlockingPortal.call", _timed(lambda: portal.call(nothing)))


def _begin(stack: ExitStack, clock: str) -> tuple[int, int, int]:
    """Give a stream, device memory and pinned memory."""
    process.end()
    stack.callback(process.end)
    acl.configure(clock=clock)
    acl.rt.set_device(0)
    return acl.rt.create_stream()[0], acl.rt.malloc(SIZE, 0)[0], acl.rt.malloc_host(SIZE)[0]


def _memcpy(stack: ExitStack, clock: str) -> Sides:
    _, device, host = _begin(stack, clock)
    memcpy = acl.rt.memcpy
    return Sides(_timed(lambda: memcpy(device, SIZE, host, SIZE, H2D)), _portal(stack))


@row("acl.rt.memcpy of 1 KiB, wall", 0.1, "us/call")
def memcpy_wall(stack: ExitStack) -> Sides:
    """A blocking copy on the wall clock."""
    return _memcpy(stack, "wall")


@row("acl.rt.memcpy of 1 KiB, virtual", 0.1, "us/call")
def memcpy_virtual(stack: ExitStack) -> Sides:
    """A blocking copy on the virtual clock."""
    return _memcpy(stack, "virtual")


@row("acl.rt.memcpy_async and synchronize_stream", 0.15, "us/pair")
def pair(stack: ExitStack) -> Sides:
    """A queued copy, and the wait for it."""
    stream, device, host = _begin(stack, "wall")
    copy, synchronize = acl.rt.memcpy_async, acl.rt.synchronize_stream

    def both() -> None:
        copy(device, SIZE, host, SIZE, H2D, stream)
        synchronize(stream)

    return Sides(_timed(both), _portal(stack))


@row("acl.rt.launch_callback, in bulk", 1.0, "us/callback")
def callbacks(stack: ExitStack) -> Sides:
    """Callbacks that hold the stream up, called in a thread that processes reports; no target, so 1."""
    stream, _, _ = _begin(stack, "wall")
    ends = threading.Event()

    def loop() -> None:
        while not ends.is_set():
            acl.rt.process_report(20)

    def stop() -> None:
        ends.set()
        acl.util.stop_thread(thread)

    thread, _ = acl.util.start_thread(loop, None)
    acl.rt.subscribe_report(thread, stream)
    stack.callback(stop)

    def ours() -> float:
        start = time.perf_counter()
        for _ in range(CALLS):
            acl.rt.launch_callback(str, None, 1, stream)
        acl.rt.synchronize_stream(stream)
        return (time.perf_counter() - start) / CALLS * 1e6

    return Sides(ours, _portal(stack))
