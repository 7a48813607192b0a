"""The peers: PoCL, an OpenCL device on the CPU, written in C; and SimPy, which simulates discrete events."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness import Measure, Peer, has

INSTALL_POCL = "pip install pyopencl, and PoCL: apt install pocl-opencl-icd or pip install pocl-binary-distribution"
INSTALL_SIMPY = "pip install simpy"
VENDORS = Path("/etc/OpenCL/vendors")
Plan = list[list[tuple[int, float]]]
"""Per stream: the engine and the seconds of each task."""


class Pocl:
    """One PoCL device with eight in-order queues and an empty kernel."""

    def __init__(self, cl: Any, device: Any) -> None:
        """Build the kernel and the queues on a device of the `pyopencl` module."""
        self._cl = cl
        context = cl.Context([device])
        program = cl.Program(context, "__kernel void empty(__global float *a) {}").build()
        self._small = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4096)
        self._host = np.zeros(1024, np.uint8)
        self._kernel = cl.Kernel(program, "empty")
        self._kernel.set_args(self._small)
        self._queues = [cl.CommandQueue(context) for _ in range(8)]
        self.version: str = device.platform.version

    def launches(self, tasks: int, queues: int) -> float:
        """Enqueue empty kernels round robin, then finish; microseconds each."""
        enqueue, kernel, one = self._cl.enqueue_nd_range_kernel, self._kernel, (1,)
        chosen = self._queues[:queues]
        start = time.perf_counter()
        for _ in range(tasks // queues):
            for queue in chosen:
                enqueue(queue, kernel, one, one)
        for queue in chosen:
            queue.finish()
        return (time.perf_counter() - start) / tasks * 1e6

    def waits(self, tasks: int) -> float:
        """Enqueue an empty kernel and wait for it, again and again; microseconds each."""
        enqueue, kernel, one, queue = self._cl.enqueue_nd_range_kernel, self._kernel, (1,), self._queues[0]
        start = time.perf_counter()
        for _ in range(tasks):
            enqueue(queue, kernel, one, one).wait()
        return (time.perf_counter() - start) / tasks * 1e6

    def copies(self, tasks: int) -> float:
        """Enqueue copies of 1 KiB to the device, then finish; microseconds each. A dropped event would wait."""
        enqueue, queue = self._cl.enqueue_copy, self._queues[0]
        start = time.perf_counter()
        events = [enqueue(queue, self._small, self._host, is_blocking=False) for _ in range(tasks)]
        queue.finish()
        elapsed = time.perf_counter() - start
        return elapsed / len(events) * 1e6


@functools.cache
def find_pocl() -> Pocl | None:
    """Look for PoCL; None where it or PyOpenCL is not installed."""
    if not has("pyopencl"):
        return None
    if VENDORS.is_dir():
        os.environ.setdefault("OCL_ICD_VENDORS", str(VENDORS))
    import pyopencl as cl

    try:
        platforms = cl.get_platforms()
    except cl.Error:
        return None
    for platform in platforms:
        if platform.name == "Portable Computing Language":
            return Pocl(cl, platform.get_devices()[0])
    return None


def pocl(measure: Callable[[Pocl], float]) -> Peer:
    """Make PoCL the peer of a row."""
    found = find_pocl()
    return Peer("PoCL", functools.partial(measure, found) if found is not None else None, INSTALL_POCL)


def simpy_model(plan: Plan, priorities: list[int], engines: int) -> tuple[float, float]:
    """Run streams over engines of capacity 1 with SimPy's PriorityResource; seconds it took, and the makespan."""
    import simpy

    start = time.perf_counter()
    env = simpy.Environment()
    resources = [simpy.PriorityResource(env, 1) for _ in range(engines)]

    def stream(priority: int, tasks: list[tuple[int, float]]) -> Any:
        for engine, seconds in tasks:
            with resources[engine].request(priority=priority) as turn:
                yield turn
                yield env.timeout(seconds)

    for priority, tasks in zip(priorities, plan, strict=True):
        env.process(stream(priority, tasks))
    env.run()
    return time.perf_counter() - start, float(env.now)


def simpy(measure: Measure) -> Peer:
    """Make SimPy the peer of a row."""
    return Peer("SimPy PriorityResource", measure if has("simpy") else None, INSTALL_SIMPY)
