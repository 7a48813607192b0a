"""The row on the virtual clock: streams with priorities over three engines, simulated."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack

import peers
from harness import Sides, row

import cann_async as ca
import cann_async.sync as blocking

STREAMS, TASKS = 8, 1250
ENGINES = ("ai_core", "ai_cpu", "dvpp")


def _plan() -> peers.Plan:
    chance = random.Random(7)
    return [[(chance.randrange(3), chance.uniform(0.5, 2.0)) for _ in range(TASKS)] for _ in range(STREAMS)]


PLAN = _plan()
PRIORITIES = [stream % 3 for stream in range(STREAMS)]


def _body(block: ca.Block, seconds: float) -> None:
    """Do nothing; the cost function says how long it takes."""


KERNELS = [ca.kernel(engine=engine, cost=lambda launch, seconds: ca.Cost(seconds=seconds))(_body) for engine in ENGINES]


def our_model() -> tuple[float, float]:
    """Queue the whole plan, then synchronize; seconds it took, and the makespan."""
    soc = ca.Soc(ai_cores=1, ai_cpus=1, dvpp_channels=1)
    start = time.perf_counter()
    with blocking.open_device(0, clock="virtual", soc=soc) as device:
        streams = [device.create_stream(priority=priority) for priority in PRIORITIES]
        for step in range(TASKS):
            for stream, tasks in zip(streams, PLAN, strict=True):
                engine, seconds = tasks[step]
                stream.launch(KERNELS[engine], seconds)
        device.synchronize()
        return time.perf_counter() - start, device.runtime.clock.now_ns() / 1e9


@row("virtual clock, 8 streams, 3 engines", 0.5, "us/task")
def virtual_clock(stack: ExitStack) -> Sides:
    """Simulate 10,000 tasks; both models must end at the same instant."""
    makespans: dict[str, float] = {}

    def figure(side: str, seconds: float, makespan: float) -> float:
        makespans[side] = makespan
        if abs(makespans.get("ours", makespan) - makespans.get("peer", makespan)) > 1e-6:
            raise AssertionError(f"the makespans differ: {makespans}")
        return seconds / (STREAMS * TASKS) * 1e6

    return Sides(
        lambda: figure("ours", *our_model()),
        peers.simpy(lambda: figure("peer", *peers.simpy_model(PLAN, PRIORITIES, len(ENGINES)))),
    )
