"""Threads against threads, with the interpreter switching all the time: nothing is lost, doubled, or hangs.

Everybody starts at once and works on the same device: hosts in threads and on several loops that submit and wait, the
device thread, workers with heavy bodies, and whoever cancels, closes and forgets. RACE_ROUNDS in the environment says
how often each race is run. When a race does not end in time, the stacks of all threads are printed.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import itertools
import os
import random
import sys
import threading
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import uvloop

import cann_async as ca
import cann_async.sync as blocking

from .helpers import SOC

ROUNDS = int(os.environ.get("RACE_ROUNDS", "4"))
LIMIT_S = 30
"""For one round."""
LOOPS = (asyncio.new_event_loop, uvloop.new_event_loop)
pytestmark = pytest.mark.timeout(30 + LIMIT_S * 2 + ROUNDS * 10)
rounds = pytest.mark.parametrize("seed", range(ROUNDS))


@pytest.fixture(autouse=True)
def fast_switching() -> Iterator[None]:
    """Switch threads as often as the interpreter can, and print all stacks when a round takes too long."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    faulthandler.dump_traceback_later(LIMIT_S + 5)
    yield
    faulthandler.cancel_dump_traceback_later()
    sys.setswitchinterval(before)


def together(*actors: Callable[[], object]) -> list[Any]:
    """Run everybody in a thread of their own, starting at one moment; give what each gave, or raise what one raised."""
    start = threading.Barrier(len(actors))
    results: list[Any] = [None] * len(actors)
    problems: list[BaseException] = []

    def act(index: int, actor: Callable[[], object]) -> None:
        start.wait()
        try:
            results[index] = actor()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=act, args=given, name=f"actor {given[0]}", daemon=True)
               for given in enumerate(actors)]  # fmt: skip
    for thread in threads:
        thread.start()
    end = time.monotonic() + LIMIT_S
    for thread in threads:
        thread.join(max(end - time.monotonic(), 0))
    if any(thread.is_alive() for thread in threads):
        faulthandler.dump_traceback()
        pytest.fail(f"these hang: {[thread.name for thread in threads if thread.is_alive()]}")
    if problems:
        raise problems[0]
    return results


def on_loop(factory: Callable[[], asyncio.AbstractEventLoop], main: Callable[[], Any]) -> Callable[[], object]:
    """Make an actor that runs a coroutine function on a loop of its own."""

    def act() -> object:
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(main())

    return act


@ca.kernel(per_block=False)
def light(launch: ca.Launch, log: list[Any], key: int, number: int) -> tuple[int, int]:
    """Note that it has run. Soon known to be light, so it runs in place."""
    log.append((key, number))
    return key, number


@ca.kernel(per_block=False)
def heavy(launch: ca.Launch, log: list[Any], key: int, number: int) -> tuple[int, int]:
    """Do the same after more than 50 us, so workers run it."""
    time.sleep(0.0003)
    log.append((key, number))
    return key, number


@ca.kernel(per_block=False)
async def later(launch: ca.Launch, log: list[Any], key: int, number: int) -> tuple[int, int]:
    """Do the same in a coroutine."""
    await asyncio.sleep(0)
    log.append((key, number))
    return key, number


@ca.kernel(per_block=False)
def fails(launch: ca.Launch, log: list[Any], key: int, number: int) -> None:
    """Do the same, and fail."""
    log.append((key, number))
    raise ZeroDivisionError


KINDS = (light,) * 12 + (heavy, heavy, later, fails)


class Ledger:
    """Launches work from many threads, and knows what must come of it."""

    def __init__(self) -> None:
        self.tasks: list[tuple[ca.Task[Any], ca.Kernel[..., Any], int, int]] = []
        self.log: list[tuple[int, int]] = []
        """(stream, number within the stream) of every body, in the order in which they ran."""
        self.ended: list[int] = []
        """The id of the task of every callback that was called."""
        self._numbers: Counter[int] = Counter()
        self._turn = threading.Lock()

    def launch(self, stream: ca.Stream, kind: ca.Kernel[..., Any], *, watch: bool = True) -> ca.Task[Any]:
        """Launch one body, with a callback."""
        key = stream.id
        with self._turn:  # so that the number is the order in which the stream is given it
            number = self._numbers[key]
            task = stream.launch(kind, self.log, key, number)
            self._numbers[key] += 1
            self.tasks.append((task, kind, key, number))
        if watch:
            task.add_done_callback(lambda task: self.ended.append(task.id))
        return task

    def check(self, *, dropped: bool = False) -> None:
        """Every task has ended, once, in one way, and has run if it should; every stream kept its order.

        With `dropped` a task that was running may have been dropped.
        """
        times = Counter(self.log)
        for task, kind, key, number in self.tasks:
            assert task.done()
            ran = times[key, number]
            if task.cancelled():
                assert ran <= dropped, task
                assert task.exception() is not None
            elif kind is fails:
                assert isinstance(task.exception(), ca.ExecutionError)
                assert ran == 1, task
            else:
                assert task.exception() is None
                assert task.result() == (key, number)
                assert ran == 1, task
        assert len(self.ended) == len(set(self.ended))
        orders = defaultdict(list)
        for key, number in self.log:
            orders[key].append(number)
        for order in orders.values():
            assert order == sorted(order)

    @property
    def all_told(self) -> bool:
        """Whether every callback has been called."""
        return len(self.ended) >= len(self.tasks)


def settled(condition: Callable[[], bool], what: str) -> None:
    """Wait for what another thread does in a moment."""
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.001)


def expect_failure(wait: Callable[[], object]) -> None:
    """Wait; a failure of a body may come back from it."""
    with contextlib.suppress(ca.ExecutionError):
        wait()


async def await_failure(what: Any) -> None:
    """As `expect_failure`, in a coroutine."""
    with contextlib.suppress(ca.ExecutionError):
        await what


@rounds
def test_threads_and_loops_on_shared_and_own_streams(seed: int) -> None:
    """Submitting, awaiting from two loops, blocking: all at once, light and heavy."""
    ledger = Ledger()
    with blocking.open_device(clock="wall", soc=SOC) as device:
        shared = [device.create_stream(priority) for priority in (0, 3)]

        def submits(who: int) -> Callable[[], None]:
            def act() -> None:
                draw = random.Random(f"{seed} {who}").choice
                with contextlib.suppress(ca.ExecutionError), device.create_stream(who) as own:
                    for _ in range(60):
                        stream = draw((own, *shared))
                        task = ledger.launch(stream, draw(KINDS))
                        match draw(range(12)):
                            case 0:
                                expect_failure(task.result)
                            case 1:
                                expect_failure(stream.synchronize)
                            case 2:
                                stream.wait(draw(ledger.tasks)[0])
                            case 3:
                                stream.wait(draw(shared))
                            case 4:
                                stream.record().synchronize()
                            case 5:
                                stream.query()

            return act

        async def awaits() -> None:
            draw = random.Random(f"{seed} loop").choice

            async def one(stream: ca.Stream) -> None:
                for _ in range(25):
                    task = ledger.launch(stream, draw(KINDS), watch=False)
                    task.add_done_callback(lambda task: ledger.ended.append(task.id))
                    match draw(range(4)):
                        case 0:
                            await await_failure(task)
                        case 1:
                            await await_failure(draw(ledger.tasks)[0])
                        case 2:
                            await stream.record()
                        case 3:
                            await asyncio.gather(task, draw(ledger.tasks)[0].wait(), return_exceptions=True)

            await asyncio.gather(*(one(stream) for stream in (*shared, device.default_stream)))
            for task, *_ in list(ledger.tasks):
                await await_failure(task)
            while not ledger.all_told and asyncio.get_running_loop().time() < end:
                await asyncio.sleep(0.001)  # for callbacks, which come to this loop

        def blocks() -> None:
            for _ in range(30):
                expect_failure(device.synchronize)
                for task, *_ in ledger.tasks[-3:]:
                    expect_failure(task.result)

        end = time.monotonic() + LIMIT_S
        together(*map(submits, range(3)), *(on_loop(factory, awaits) for factory in LOOPS), blocks)
        expect_failure(device.synchronize)
        settled(lambda: ledger.all_told, "a callback is missing")
        ledger.check()


@rounds
def test_cancelling(seed: int) -> None:
    """Several threads cancel the same tasks while they are started: one wins, or none does and it runs."""
    ledger = Ledger()
    won: list[int] = []
    with blocking.open_device(clock="wall", soc=SOC) as device:
        streams = [device.create_stream() for _ in range(3)]

        def submits() -> None:
            draw = random.Random(f"{seed}").choice
            for _ in range(150):
                stream = draw(streams)
                ledger.launch(stream, draw(KINDS))
                if draw(range(5)) == 0:
                    stream.wait(draw(streams))
                if draw(range(20)) == 0:
                    time.sleep(0.0005)

        def cancels(who: int) -> Callable[[], None]:
            def act() -> None:
                draw = random.Random(f"{seed} {who}").random
                for place in range(150):
                    settled(lambda: len(ledger.tasks) > place, "nothing is submitted")
                    if draw() < 0.6:
                        task = ledger.tasks[max(0, place - int(draw() * 3))][0]
                        if task.cancel():
                            won.append(task.id)

            return act

        def blocks() -> None:
            for _ in range(30):
                expect_failure(device.synchronize)
                for stream in streams:
                    expect_failure(stream.synchronize)

        async def awaits() -> None:
            for place in range(0, 150, 3):
                while len(ledger.tasks) <= place:
                    await asyncio.sleep(0)
                with contextlib.suppress(ca.CannError):
                    await ledger.tasks[place][0]

        together(submits, *map(cancels, range(3)), blocks, *(on_loop(factory, awaits) for factory in LOOPS))
        expect_failure(device.synchronize)
        settled(lambda: ledger.all_told, "a callback is missing")
        ledger.check()
        for task, *_ in ledger.tasks:
            assert won.count(task.id) == task.cancelled(), task
        for stream in streams:
            assert stream.pending == 0
            expect_failure(stream.close)


@rounds
@pytest.mark.parametrize("what", ("stream", "runtime"))
def test_closing(seed: int, what: str) -> None:
    """Somebody closes by force while others submit and wait: everybody gets on, with a result or an error."""
    ledger = Ledger()
    runtime = blocking.Runtime(clock="wall", soc=SOC)
    device = runtime.device()
    streams = [device.create_stream() for _ in range(3)]

    def submits(who: int) -> Callable[[], None]:
        def act() -> None:
            draw = random.Random(f"{seed} {who}").choice
            with contextlib.suppress(ca.CannError):
                for _ in range(300):
                    stream = draw(streams)
                    ledger.launch(stream, draw(KINDS))
                    if draw(range(10)) == 0:
                        expect_failure(stream.synchronize)

        return act

    async def awaits() -> None:
        for _ in range(20):
            for task, *_ in ledger.tasks[-10:]:
                with contextlib.suppress(ca.CannError):
                    await task
            with contextlib.suppress(ca.CannError):
                await asyncio.gather(*(blocking_free(stream) for stream in streams))

    async def blocking_free(stream: ca.Stream) -> None:
        await ca.Stream.synchronize(stream)

    def blocks() -> None:
        for _ in range(20):
            for task, *_ in ledger.tasks[-10:]:
                with contextlib.suppress(ca.CannError):
                    task.result()
            with contextlib.suppress(ca.CannError):
                device.synchronize()

    def closes() -> None:
        time.sleep(random.Random(seed).random() * 0.02)
        if what == "runtime":
            runtime.close(drain=False)
        else:
            for stream in streams:
                expect_failure(lambda stream=stream: stream.close(force=True))

    together(*map(submits, range(2)), blocks, *(on_loop(factory, awaits) for factory in LOOPS), closes)
    settled(lambda: all(task.done() for task, *_ in ledger.tasks), "a task has not ended")
    settled(lambda: ledger.all_told, "a callback is missing")
    runtime.close()
    ledger.check(dropped=True)


@rounds
def test_done_callbacks_that_come_and_go(seed: int) -> None:
    """Left and taken back by many threads while the tasks end: every one is called once, or was taken back."""
    log: list[Any] = []
    called: list[tuple[int, int]] = []
    taken: list[tuple[int, int]] = []
    with blocking.open_device(clock="wall", soc=SOC) as device, device.create_stream() as stream:
        tasks: list[ca.Task[Any]] = []

        def submits() -> None:
            for number in range(200):
                tasks.append(stream.launch(heavy if number % 40 == 0 else light, log, 0, number))

        def watches(who: int) -> Callable[[], None]:
            def act() -> None:
                draw = random.Random(f"{seed} {who}").random
                for number in range(200):
                    settled(lambda: len(tasks) > number, "nothing is submitted")
                    key = who, number

                    def callback(_: object, key: tuple[int, int] = key) -> None:
                        called.append(key)

                    tasks[number].add_done_callback(callback)
                    if draw() < 0.3 and tasks[number].remove_done_callback(callback):
                        taken.append(key)

            return act

        together(submits, *map(watches, range(3)), stream.synchronize)
        stream.synchronize()
        every = set(itertools.product(range(3), range(200)))
        settled(lambda: every == {*called, *taken}, "a callback is missing")
        assert len(called) == len(set(called))
        assert len(log) == 200


@rounds
def test_forgetting_streams_and_buffers_while_work_is_queued(seed: int) -> None:
    """What is queued still runs on the right bytes; then everything has been given back."""
    with blocking.open_device(clock="wall", soc=SOC) as device:
        free, total = device.memory_info()

        def uses(who: int) -> Callable[[], None]:
            def act() -> None:
                draw = random.Random(f"{seed} {who}").choice
                for turn in range(15):
                    stream = device.create_stream(draw(range(8)))
                    out = device.malloc_host((64,), np.uint8)
                    buf, other = device.zeros(64, np.uint8), device.empty(64, np.uint8)
                    stream.memcpy(buf, np.full(64, turn, np.uint8))
                    for number in range(draw(range(6))):
                        stream.launch(draw((light, heavy)), [], who, number)
                    stream.memcpy(other, buf)
                    if draw((True, False)):
                        buf.free()
                    last = stream.memcpy(out, other)
                    del stream, buf, other
                    if draw(range(20)) == 0:
                        gc.collect()
                    if draw((True, False)):
                        last.result()
                        assert (out == turn).all()
                last.result()
                assert (out == turn).all()

            return act

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # that is what is tested
            together(*map(uses, range(4)))
            device.synchronize()
            settled(lambda: device.runtime.statistics().streams == 1, "a stream is still there")
        settled(lambda: device.memory_info() == (free, total) or gc.collect() < 0, "memory has not been given back")


@rounds
def test_hosts_that_wait_on_virtual_time(seed: int) -> None:
    """Threads and loops share the virtual clock: whoever waits moves it, nobody is left waiting."""
    ledger = Ledger()
    with blocking.Runtime(clock="virtual", soc=SOC) as runtime:
        device = runtime.device()
        shared = device.create_stream()

        def blocks(who: int) -> Callable[[], None]:
            def act() -> None:
                draw = random.Random(f"{seed} {who}").choice
                with contextlib.suppress(ca.ExecutionError), device.create_stream() as own:
                    for _ in range(40):
                        task = ledger.launch(draw((own, shared)), draw(KINDS))
                        match draw(range(6)):
                            case 0 | 1:
                                expect_failure(task.result)
                            case 2:
                                expect_failure(shared.synchronize)
                            case 3:
                                runtime.clock.sleep(1e-6)
                            case 4:
                                own.wait(shared)

            return act

        async def awaits() -> None:
            async def one(number: int) -> None:
                draw = random.Random(f"{seed} {number}").choice
                for _ in range(20):
                    task = ledger.launch(shared, draw(KINDS), watch=False)
                    task.add_done_callback(lambda task: ledger.ended.append(task.id))
                    match draw(range(3)):
                        case 0:
                            await await_failure(task)
                        case 1:
                            await ca.runtime.RuntimeClock.sleep(runtime.clock, 1e-6)
                        case 2:
                            await asyncio.gather(task, shared.record().future(), return_exceptions=True)

            await asyncio.gather(*map(one, range(3)))
            for task, *_ in list(ledger.tasks):
                await await_failure(task)
            for _ in range(3):
                await asyncio.sleep(0.001)

        together(*map(blocks, range(3)), *(on_loop(factory, awaits) for factory in LOOPS))
        expect_failure(device.synchronize)
        settled(lambda: ledger.all_told, "a callback is missing")
        ledger.check()


@rounds
def test_aborts_timeouts_and_callbacks_race_with_the_work(seed: int) -> None:
    """Three hosts enqueue, one aborts and resets limits, one lets kernels time out: every task ends in one state."""
    draw = random.Random(seed)
    with blocking.Runtime(soc=SOC, clock="wall") as runtime:
        device = runtime.device()
        streams = [device.create_stream() for _ in range(3)]
        log: list[Any] = []
        tasks: list[list[Any]] = [[] for _ in streams]
        over = threading.Event()

        def host(index: int) -> Callable[[], None]:
            own = random.Random(f"{seed} {index}")

            def act() -> None:
                stream, other = streams[index], streams[(index + 1) % 3]
                for number in range(60):
                    kernel = own.choice((light, heavy, later))
                    limit = own.choice((None, None, 0.0001, 0.01))
                    tasks[index].append(stream.launch(kernel, log, index, number, timeout=limit))
                    if number % 7 == 0:
                        tasks[index].append(stream.call(log.append, (index, number), block=own.random() < 0.5))
                    if number % 11 == 0:
                        tasks[index].append(stream.wait(other.record(), timeout=0.02))
                    if number % 13 == 0:
                        with contextlib.suppress(ca.CannError):
                            stream.synchronize(timeout=own.choice((0.0001, 5)))

            return act

        def aborter() -> None:
            while not over.is_set():
                with contextlib.suppress(ca.CannError):
                    streams[draw.randrange(3)].abort()
                device.set_core_limit("ai_core", draw.randrange(1, 5))
                time.sleep(0.001)

        def hosts() -> None:
            try:
                together(*(host(index) for index in range(3)))
            finally:
                over.set()

        together(hosts, aborter)
        for stream in streams:
            for _ in range(1000):
                try:
                    stream.synchronize(timeout=LIMIT_S)
                    break
                except ca.SyncTimeout:
                    raise
                except ca.CannError:  # failures, one at a time
                    continue
        states = Counter(task.state for own in tasks for task in own)
        assert all(task.done() for own in tasks for task in own)
        assert sum(states.values()) == sum(len(own) for own in tasks)
        device.set_core_limit("ai_core", None)
        for stream in streams:
            assert stream.launch(light, log, 9, 9).result(timeout=LIMIT_S) == (9, 9)
            with contextlib.suppress(ca.CannError):
                stream.close()
        free = {engine.name: engine.capacity - engine.free for engine in device._engines.values()}
        assert not any(free.values()), free


@rounds
def test_a_reset_races_with_hosts_on_loops(seed: int) -> None:
    """Whoever waits gets an error or a result, nobody hangs, and the device is as new afterwards."""
    with blocking.Runtime(soc=SOC, clock="wall") as runtime:
        device = runtime.device()
        over = threading.Event()
        log: list[Any] = []

        async def host() -> int:
            ended = 0
            while not over.is_set():
                with contextlib.suppress(ca.CannError):
                    stream = device.create_stream()
                    mine = [stream.launch(kernel, log, 0, 0) for kernel in (light, heavy, later) for _ in range(3)]
                    mine.append(stream.call(log.append, 1))
                    for one in await asyncio.gather(*(task.wait() for task in mine), return_exceptions=True):
                        assert not isinstance(one, Exception) or isinstance(one, ca.CannError), one
                        ended += 1
                    blocking.wait(stream._close())
                await asyncio.sleep(0)
            return ended

        def resetter() -> None:
            draw = random.Random(seed)
            for _ in range(12):
                time.sleep(draw.random() * 0.005)
                device.reset()
            over.set()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # streams that a reset has taken away
            *ended, _ = together(*(on_loop(factory, host) for factory in LOOPS), resetter)
            gc.collect()
        assert all(ended)
        assert device.default_stream.launch(light, log, 9, 9).result(timeout=LIMIT_S) == (9, 9)
        device.synchronize()
        assert device.memory_info()[0] == device.memory_info()[1]
