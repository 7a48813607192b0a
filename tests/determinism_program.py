"""Two programs on virtual time whose timelines must not depend on anything; `test_determinism` runs this as a script.

    python determinism_program.py one|many asyncio|uvloop|none

It prints digests of the timeline that it has saved and of the results. Needs nothing but NumPy (and uvloop, if asked).
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import random
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np

import cann_async as ca
import cann_async.sync as blocking

SOC = ca.Soc(name="determinism", ai_cores=4, vector_cores=2, ai_cpus=1, copy_latency_ns=3, launch_ns=2)
HOSTS, TOKENS, HOPS = 200, 50, 15


@functools.cache
def kernel(engine: str, ns: int) -> ca.Kernel[..., Any]:
    """Make a kernel that takes so long and mixes two buffers; every third is asynchronous."""
    make = ca.kernel(engine=engine, cost=ca.Cost(seconds=ns * 1e-9))

    def mix(block: ca.Block, out: Any, given: Any) -> None:
        part = block.slice(out.size)
        out[part] = 5 * out[part] + given[part] + block.index

    async def mix_later(block: ca.Block, out: Any, given: Any) -> None:
        for _ in range(block.index):
            await asyncio.sleep(0)
        mix(block, out, given)

    made = make(mix_later) if ns % 3 == 1 else make(mix)
    made.__name__ = f"{engine}-{ns}"
    return made


@ca.kernel(cost=ca.Cost(seconds=5e-9), per_block=False)
async def nested(launch: ca.Launch, stream: ca.Stream, out: Any, more: tuple[ca.Buffer, ca.Buffer], ns: int) -> None:
    """Launch from a kernel, on another stream, and wait for it in virtual time."""
    out += 1
    await stream.launch(kernel("ai_vector", ns), *more)
    out *= 3


# -- one host ----------------------------------------------------------------------------------------------------------


def one_host(runtime: ca.Runtime) -> Generator[Callable[[], Any], Any, str]:
    """A long random program of one host; yields what the host waits for. Gives a digest of all results."""
    draw = random.Random("one host").randrange
    device = runtime.device()
    streams = [device.create_stream(priority, name=f"s{priority}") for priority in (0, 0, 3, 7, 7)]
    events = [device.create_event() for _ in range(3)]
    buffers = [device.zeros(16, np.uint8) for _ in range(6)]
    inner = device.create_stream(5, name="inner")
    recent: deque[Any] = deque(maxlen=6)
    host = device.malloc_host(16, np.uint8)
    host[:] = range(16)
    for number in range(1500):
        stream, other = streams[draw(5)], streams[draw(5)]
        x, y = buffers[draw(6)], buffers[draw(6)]
        match draw(16):
            case 0:
                stream.memcpy(x, host)
            case 1:
                stream.memcpy(x, np.full(16, number % 256, np.uint8))
            case 2:
                stream.memcpy(x, y)
            case 3:
                stream.memcpy(host, x)
            case 4:
                stream.memset(x, number % 256)
            case 5:
                stream.record(events[draw(3)])
            case 6:
                stream.wait(events[draw(3)])
            case 7:
                stream.wait(other)
            case 8 if number % 3 == 0:
                yield (stream.synchronize, events[draw(3)].synchronize)[draw(2)]
            case 9 if number % 3 == 0:
                yield functools.partial(runtime.clock.sleep, draw(40) * 1e-9)
            case 8 if recent:
                recent[draw(len(recent))].cancel()
            case 9:
                recent.append(stream.launch(nested, inner, x, (x, y), draw(8)))
            case _:
                body = kernel(("ai_core", "ai_core", "ai_vector", "ai_cpu")[draw(4)], draw(12))
                recent.append(stream.launch(body, x, y, blocks=1 + draw(6)))
    digest = hashlib.sha256()
    for stream in (*streams, inner):
        yield stream.synchronize
    for buffer in buffers:
        digest.update((yield buffer.get))
    for stream in (*streams, inner):
        yield stream.close
    return digest.hexdigest()


async def drive(game: Generator[Callable[[], Any], Any, str]) -> str:
    """Run the program of one host in a coroutine."""
    given: Any = None
    try:
        while True:
            given = await game.send(given)()
    except StopIteration as end:
        return str(end.value)


def drive_blocking(game: Generator[Callable[[], Any], Any, str]) -> str:
    """Run the program of one host without a loop."""
    given: Any = None
    try:
        while True:
            given = game.send(given)()
    except StopIteration as end:
        return str(end.value)


# -- many hosts --------------------------------------------------------------------------------------------------------


async def many_hosts(runtime: ca.Runtime) -> str:
    """Two hundred coroutines that hand work on by all that asyncio has; gives a digest of what they saw, and when."""
    device, clock = runtime.device(), runtime.clock
    streams = [device.create_stream(number % 8) for number in range(12)]
    buffers = [(device.zeros(8, np.uint8), device.zeros(8, np.uint8)) for _ in range(3)]
    queues: list[asyncio.Queue[int]] = [asyncio.Queue(maxsize=1 + number % 3) for number in range(HOSTS)]
    lock, room, turn = asyncio.Lock(), asyncio.Semaphore(5), asyncio.Condition()
    log: list[tuple[int, int, int]] = []

    async def launch(who: int, ns: int) -> None:
        body = kernel(("ai_core", "ai_vector", "ai_cpu")[ns % 3], ns)
        await streams[who % 12].launch(body, *buffers[who % 3], blocks=1 + ns % 5)

    async def work(who: int, ns: int) -> None:
        """Do something in one of ten ways."""
        stream = streams[who % 12]
        match (who + ns) % 10:
            case 0:
                async with lock:
                    await launch(who, ns)
            case 1:
                await asyncio.gather(launch(who, ns), asyncio.gather(launch(who + 1, 3), launch(who + 2, 4)))
            case 2:
                async with asyncio.TaskGroup() as group:
                    for i in range(3):
                        group.create_task(launch(who + i, ns))
            case 3:
                await clock.sleep(3 * ns * 1e-9)
            case 4:
                async with room, asyncio.timeout(60):  # wait_for takes a turn of the loop more in Python 3.11
                    await launch(who, ns)
            case 5:
                event = stream.record()
                streams[(who + 5) % 12].wait(event)
                await event
            case 6:
                done = asyncio.get_running_loop().create_future()
                stream.memset(buffers[0][0], 1).add_done_callback(done.set_result)
                await done
            case 7:
                await asyncio.shield(asyncio.create_task(launch(who, ns)))
            case 8:
                tasks = [asyncio.create_task(launch(who + i, ns + i)) for i in range(2)]  # it shuffles coroutines
                for finished in asyncio.as_completed(tasks):
                    await finished
                await asyncio.sleep(0)
            case _:
                async with asyncio.timeout(60):
                    await stream.synchronize()

    async def worker(who: int) -> None:
        """Take a token from the own queue, work, and pass it on with one hop less to go."""
        while (hops := await queues[who].get()) >= 0:
            await work(who, (7 * who + 3 * hops) % 9)
            async with turn:
                log.append((clock.now_ns(), who, hops))
                turn.notify_all()
            if hops:
                await queues[(who + 37) % HOSTS].put(hops - 1)

    async with asyncio.TaskGroup() as group:
        for who in range(HOSTS):
            group.create_task(worker(who))
        for token in range(TOKENS):
            await queues[token * 3].put(HOPS)
        async with turn:
            await turn.wait_for(lambda: len(log) == TOKENS * (HOPS + 1))
        for queue in queues:
            await queue.put(-1)
    for stream in streams:
        await stream.close()
    return hashlib.sha256(repr(log).encode()).hexdigest()


# -- the script --------------------------------------------------------------------------------------------------------


def main(program: str, loop: str) -> None:
    """Run a program on a loop; print digests of the timeline it saves and of its results."""

    def save(runtime: ca.Runtime) -> str:
        with tempfile.TemporaryDirectory() as folder:
            saved = runtime.timeline.save(Path(folder) / "timeline.json")
            table = ca.Timeline.load(saved).table()
            # what is packed is compared as it was before: the bytes are up to the build of zlib
            whole = saved.read_bytes().partition(b'"hosts":')[0] + table.rows.tobytes() + table.hosts.tobytes()
            return f"{len(runtime.timeline)} {hashlib.sha256(whole).hexdigest()}"

    async def run() -> str:
        async with ca.Runtime(clock="virtual", soc=SOC) as runtime:
            result = await (many_hosts(runtime) if program == "many" else drive(one_host(runtime)))
            return f"{save(runtime)} {result}"

    if loop == "none":
        with blocking.Runtime(clock="virtual", soc=SOC) as runtime:
            result = drive_blocking(one_host(runtime))
            print(save(runtime), result)  # noqa: T201 - it is a script
        return
    factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    if loop == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        print(runner.run(run()))  # noqa: T201 - it is a script


if __name__ == "__main__":
    main(*sys.argv[1:])
