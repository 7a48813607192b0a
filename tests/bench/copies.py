"""Rows of copies: large ones against np.copyto, small ones against PoCL, and a copy beside a matmul."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt
import peers
from harness import Measure, Peer, Sides, row

import cann_async as ca
import cann_async.sync as blocking

LARGE = 64 << 20
ROUNDS = 4
SMALL_COPIES = 10_000
SIDE = 768
Bytes = npt.NDArray[np.uint8]
Operand = blocking.Buffer | Bytes


def _touched(array: Bytes, value: int) -> Bytes:
    array[:] = value
    return array


def _pageable(value: int) -> Bytes:
    return _touched(np.empty(LARGE, np.uint8), value)


def _copyto(source: Bytes) -> Peer:
    """Make np.copyto between touched pages the peer; milliseconds each."""
    target = _pageable(2)

    def measure() -> float:
        start = time.perf_counter()
        for _ in range(ROUNDS):
            np.copyto(target, source)
        return (time.perf_counter() - start) / ROUNDS * 1e3

    return Peer("np.copyto", measure)


def _filled(device: blocking.Device) -> blocking.Buffer:
    buffer = device.malloc(LARGE)
    device.memset(buffer, 3)
    return buffer


def _timed(copy: Callable[[], object]) -> Measure:
    def ours() -> float:
        start = time.perf_counter()
        for _ in range(ROUNDS):
            copy()
        return (time.perf_counter() - start) / ROUNDS * 1e3

    return ours


def _await_memcpy(stack: ExitStack, pinned: bool) -> Sides:
    runtime = ca.Runtime(clock="wall")
    stack.callback(lambda: asyncio.run(runtime.close()))
    device = runtime.device(0)
    buffer = device.malloc(LARGE)
    source = _touched(device.malloc_host(LARGE, np.uint8), 1) if pinned else _pageable(1)

    async def main() -> float:
        start = time.perf_counter()
        for _ in range(ROUNDS):
            await device.memcpy(buffer, source)
        return (time.perf_counter() - start) / ROUNDS * 1e3

    return Sides(lambda: asyncio.run(main()), _copyto(source))


@row("64 MiB H2D, pinned, await memcpy", 1.1, "ms")
def await_pinned(stack: ExitStack) -> Sides:
    """Copy from pinned memory with `await device.memcpy`."""
    return _await_memcpy(stack, pinned=True)


@row("64 MiB H2D, pageable, await memcpy", 1.1, "ms")
def await_pageable(stack: ExitStack) -> Sides:
    """Copy from an ordinary array with `await device.memcpy`."""
    return _await_memcpy(stack, pinned=False)


@row("64 MiB H2D, pinned, sync memcpy", 1.1, "ms")
def sync_pinned(stack: ExitStack) -> Sides:
    """Copy from pinned memory with the blocking memcpy."""
    device = stack.enter_context(blocking.open_device(0, clock="wall"))
    buffer, source = _filled(device), _touched(device.malloc_host(LARGE, np.uint8), 1)
    return Sides(_timed(lambda: device.memcpy(buffer, source)), _copyto(source))


@row("64 MiB H2D, pageable, sync memcpy", 1.1, "ms")
def sync_pageable(stack: ExitStack) -> Sides:
    """Copy from an ordinary array with the blocking memcpy."""
    device = stack.enter_context(blocking.open_device(0, clock="wall"))
    buffer, source = _filled(device), _pageable(1)
    return Sides(_timed(lambda: device.memcpy(buffer, source)), _copyto(source))


def _on_stream(stack: ExitStack, direction: str) -> Sides:
    device = stack.enter_context(blocking.open_device(0, clock="wall"))
    stream = device.create_stream()
    buffer, other = _filled(device), _filled(device)
    pinned = _touched(device.malloc_host(LARGE, np.uint8), 1)
    ends: dict[str, tuple[Operand, Operand]] = {
        "h2d": (buffer, pinned),
        "d2h": (pinned, buffer),
        "d2d": (other, buffer),
    }
    target, source = ends[direction]

    def ours() -> float:
        start = time.perf_counter()
        for _ in range(ROUNDS):
            stream.memcpy(target, source)
        stream.synchronize()
        return (time.perf_counter() - start) / ROUNDS * 1e3

    return Sides(ours, _copyto(pinned))


@row("64 MiB H2D, pinned, on a stream", 1.1, "ms")
def stream_h2d(stack: ExitStack) -> Sides:
    """Queue copies to the device, then synchronize."""
    return _on_stream(stack, "h2d")


@row("64 MiB D2H, pinned, on a stream", 1.1, "ms")
def stream_d2h(stack: ExitStack) -> Sides:
    """Queue copies to the host, then synchronize."""
    return _on_stream(stack, "d2h")


@row("64 MiB D2D, on a stream", 1.1, "ms")
def stream_d2d(stack: ExitStack) -> Sides:
    """Queue copies within the device, then synchronize."""
    return _on_stream(stack, "d2d")


@row("1 KiB H2D, pinned, queued", 1.0, "us/task")
def small_copies(stack: ExitStack) -> Sides:
    """Queue many copies of 1 KiB and keep the tasks, then synchronize."""
    device = stack.enter_context(blocking.open_device(0, clock="wall"))
    stream = device.create_stream()
    buffer, source = device.malloc(1024), device.malloc_host(1024, np.uint8)

    def ours() -> float:
        start = time.perf_counter()
        tasks = [stream.memcpy(buffer, source) for _ in range(SMALL_COPIES)]
        stream.synchronize()
        elapsed = time.perf_counter() - start
        return elapsed / len(tasks) * 1e6

    return Sides(ours, peers.pocl(lambda pocl: pocl.copies(SMALL_COPIES)))


@ca.kernel(per_block=False)
def matmul(
    launch: ca.Launch, a: npt.NDArray[np.float32], b: npt.NDArray[np.float32], out: npt.NDArray[np.float32], times: int
) -> None:
    """Multiply two matrices, several times."""
    for _ in range(times):
        np.matmul(a, b, out=out)


def _seconds(body: Callable[[], object]) -> float:
    start = time.perf_counter()
    body()
    return time.perf_counter() - start


def _overlap(copy: Callable[[], object], compute: Callable[[], object], both: Callable[[], object]) -> Measure:
    """Give the time of both alone over the time of both at once: 2 is perfect, 1 is none."""

    def measure() -> float:
        alone = together = 0.0
        for _ in range(ROUNDS):
            alone += _seconds(copy) + _seconds(compute)
            together += _seconds(both)
        return alone / together

    return measure


@row("copy beside a matmul, overlap", 0.9, "x", at_least=True)
def copy_beside_matmul(stack: ExitStack) -> Sides:
    """A copy on one stream beside a kernel of about its length on another, against two bare threads."""
    device = stack.enter_context(blocking.open_device(0, clock="wall"))
    one, other = device.create_stream(), device.create_stream()
    target, source = _filled(device), _touched(device.malloc_host(LARGE, np.uint8), 1)
    matrix = np.random.default_rng(1).random((SIDE, SIDE), np.float32)
    a, b, out = device.upload(matrix), device.upload(matrix), device.empty((SIDE, SIDE), np.float32)
    bare_target, bare_out = _pageable(2), np.zeros_like(matrix)

    def bare_copies() -> None:
        for _ in range(copies):
            np.copyto(bare_target, source)

    def bare_matmul() -> None:
        for _ in range(times):
            np.matmul(matrix, matrix, out=bare_out)

    def bare_both() -> None:
        threads = [threading.Thread(target=body) for body in (bare_copies, bare_matmul)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def queue_copies() -> None:
        for _ in range(copies):
            one.memcpy(target, source)

    def our_copies() -> None:
        queue_copies()
        one.synchronize()

    def our_matmul() -> None:
        other.launch(matmul, a, b, out, times)
        other.synchronize()

    def our_both() -> None:
        queue_copies()
        other.launch(matmul, a, b, out, times)
        one.synchronize()
        other.synchronize()

    copies = times = 1
    copy_s = min(_seconds(bare_copies) for _ in range(5))
    matmul_s = min(_seconds(bare_matmul) for _ in range(5))
    copies, times = max(1, round(matmul_s / copy_s)), max(1, round(copy_s / matmul_s))
    return Sides(
        _overlap(our_copies, our_matmul, our_both),
        Peer("two bare threads", _overlap(bare_copies, bare_matmul, bare_both)),
    )
