"""Random work for minutes: faults, cancels, aborts and resets, from four threads and two loops, on the wall clock.

    python tests/soak.py [--seconds 600] [--seed 0]

Every task must end in exactly one state, memory must not grow after the warm-up (a tenth of the time), and at the end
every engine must still work. `nox -s soak` runs it for ten minutes; CI does not. Prints the figures of
docs/reliability.md and exits with 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import faulthandler
import gc
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import cann_async as ca
import cann_async.sync as blocking

PATIENCE_S = 30.0
GROWTH_BYTES = 20e6
SOC = ca.Soc(name="soak", ai_cores=4, vector_cores=4, ai_cpus=2, memory_bytes=1 << 26, queue_depth=64)


@ca.kernel(per_block=False)
def light(launch: ca.Launch, x: Any) -> int:
    """Add one."""
    x += 1
    return int(x[0])


@ca.kernel(engine="ai_vector")
def blocks(block: ca.Block, x: Any) -> None:
    """Add one, in parts."""
    x[block.slice(x.size)] += 1


@ca.kernel(engine="ai_cpu", per_block=False)
def heavy(launch: ca.Launch, x: Any) -> None:
    """Take long enough for a worker."""
    time.sleep(0.0005)


@ca.kernel(per_block=False)
async def later(launch: ca.Launch, x: Any) -> None:
    """Take time as a coroutine."""
    await asyncio.sleep(0.0002)


@ca.kernel(per_block=False)
def fails(launch: ca.Launch, x: Any) -> None:
    """Fail."""
    raise ValueError("as it should")


class Count:
    """What came of the tasks; a task that has not ended when it must have is lost."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.states: collections.Counter[str] = collections.Counter()
        self.lost = 0
        self.rounds = 0

    def add(self, tasks: list[Any]) -> None:
        """Count tasks that must have ended by now."""
        names = ("queued", "running", "done", "failed", "cancelled", "dropped")
        with self._lock:
            self.rounds += 1
            for task in tasks:
                self.states[names[task.state]] += 1
                self.lost += not task.done()


async def one_round(runtime: ca.Runtime, draw: random.Random, count: Count, sleep: Callable[[float], Any]) -> None:
    """Make streams and events on a device, do random things with them, and see that all that was enqueued ends."""
    device = runtime.devices[draw.randrange(len(runtime.devices))]
    tasks: list[Any] = []
    streams: list[Any] = []
    try:
        context = device.create_context() if draw.random() < 0.3 else device.default_context
        mode = "stop" if context is not device.default_context and draw.random() < 0.3 else "continue"
        streams = [context.create_stream(draw.randrange(8), failure_mode=mode) for _ in range(3)]
        event, notify = context.create_event(), device.create_notify()
        x, host = device.zeros(64, np.int32), np.ones(64, np.int32)
        for _ in range(draw.randrange(10, 60)):
            stream = draw.choice(streams)
            what = draw.randrange(14)
            if what < 5:
                kernel = draw.choice((light, blocks, heavy, later, fails))
                limit = 0.05 if kernel is later else draw.choice((None, None, None, 0.0001))  # the one that may hang
                tasks.append(stream.launch(kernel, x, blocks=draw.randrange(1, 6), timeout=limit))
            elif what == 5:
                tasks.append(stream.memcpy(x, host))
            elif what == 6:
                tasks.append(stream.memset(x, 1))
            elif what == 7:
                stream.record(event)
            elif what == 8:
                tasks.append(stream.wait(event, timeout=0.01))
            elif what == 9:
                tasks.append(stream.record_notify(notify))
                tasks.append(stream.wait_notify(notify, timeout=0.005))
            elif what == 10:
                tasks.append(stream.call(lambda: None, block=draw.random() < 0.5))
            elif what == 11 and tasks:
                draw.choice(tasks).cancel()
            elif what == 12 and draw.random() < 0.2:
                await stream._abort()
            elif what == 13 and draw.random() < 0.3:
                await draw.choice((stream, device))._synchronize(draw.choice((0.0005, PATIENCE_S)))
        if draw.random() < 0.01:
            await device._reset()
        elif draw.random() < 0.02:
            await device._task_abort()
        if draw.random() < 0.5:
            await sleep(0)
    except ca.CannError:
        pass  # reset, aborted, stopped or failed: which, is chance
    for stream in streams:
        try:
            await stream._close(force=draw.random() < 0.2)
        except ca.CannError:
            pass
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and not all(task.done() for task in tasks):
        await sleep(0.001)
    count.add(tasks)


async def nap(seconds: float) -> None:
    """Sleep where no loop runs."""
    time.sleep(seconds)


def from_thread(runtime: Any, seed: int, stop: threading.Event, count: Count) -> None:
    """Do rounds in a thread that blocks."""
    draw = random.Random(seed)
    while not stop.is_set():
        blocking.wait(one_round(runtime, draw, count, nap))


def from_loop(runtime: Any, seed: int, stop: threading.Event, count: Count) -> None:
    """Do rounds in a loop, three at a time, some of which are cancelled."""
    draw = random.Random(seed)

    async def rounds() -> None:
        while not stop.is_set():
            await one_round(runtime, draw, count, asyncio.sleep)

    async def waits() -> None:
        while not stop.is_set():
            async with runtime.device().create_stream() as stream:
                waiting = asyncio.create_task(stream.launch(later, runtime.device().zeros(8), timeout=0.05).wait())
                await asyncio.sleep(draw.random() * 0.001)
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)

    async def tolerant() -> None:
        while not stop.is_set():
            try:
                await waits()
            except ca.CannError:
                await asyncio.sleep(0)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for job in (rounds, rounds, tolerant):
                group.create_task(job())

    asyncio.run(main())


def resident() -> int:
    """Give the bytes of memory that this process occupies."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def main() -> int:
    """Soak; give the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    faulthandler.dump_traceback_later(args.seconds + 4 * PATIENCE_S, exit=True)
    ca.runtime.log.setLevel("CRITICAL")
    count, stop = Count(), threading.Event()
    runtime = ca.Runtime(soc=SOC, devices=2, record=False)
    with ca.testing.faults(runtime) as faults:
        jobs = [(from_thread, n) for n in range(4)] + [(from_loop, n) for n in range(4, 6)]
        threads = [threading.Thread(target=job, args=(runtime, 1000 * args.seed + n, stop, count)) for job, n in jobs]
        for thread in threads:
            thread.start()
        begin, baseline, peak = time.monotonic(), 0, 0
        draw = random.Random(args.seed)
        while (passed := time.monotonic() - begin) < args.seconds:
            time.sleep(min(1.0, args.seconds / 20))
            faults.clear()
            faults.fail(draw.choice(("light", "blocks", "memcpy")), nth=draw.randrange(1, 500), code=507054)
            faults.delay("heavy", seconds=0.002, nth=draw.randrange(1, 50))
            faults.hang("later", nth=draw.randrange(1, 2000)) if draw.random() < 0.3 else None
            gc.collect()
            now = resident()
            if passed < args.seconds / 10:
                baseline = max(baseline, now)
            peak = max(peak, now)
        faults.clear()
        stop.set()
        for device in runtime.devices:  # what hangs is got rid of
            blocking.wait(device._task_abort())
        for thread in threads:
            thread.join(2 * PATIENCE_S)
    alive = sum(thread.is_alive() for thread in threads)
    for device in runtime.devices:
        blocking.wait(device._reset())
        for kernel in (light, blocks, heavy, later):
            blocking.wait(device.default_stream.launch(kernel, device.zeros(8, np.int32)).wait())
    total = sum(count.states.values())
    print(f"rounds {count.rounds}, tasks {total}: {dict(count.states)}")
    print(f"lost {count.lost}, threads that hang {alive}, memory {baseline / 1e6:.1f} MB, peak {peak / 1e6:.1f} MB")
    faulthandler.cancel_dump_traceback_later()
    return int(bool(count.lost or alive or peak - baseline > GROWTH_BYTES))


if __name__ == "__main__":
    sys.exit(main())
