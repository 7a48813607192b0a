"""Random programs against the reference model: every time and every byte on the virtual clock, order and results on the
wall clock; through asyncio, uvloop and the blocking twin.

A program is a list of operations that refer to streams, events and buffers by number and to earlier tasks by how far
back they are, so that Hypothesis can leave out any of them and what is left is a program still. `concrete` turns it
into steps; `predict` runs the steps on the model, `play` on the package. MODEL_EXAMPLES in the environment says how
many programs to try (by default few enough for CI).
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import os
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cann_async as ca
import cann_async.sync as blocking

from .reference_model import Stream, Task
from .reference_semantics import Semantics

EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "400"))
common = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
pytestmark = pytest.mark.timeout(60 + EXAMPLES)

BYTES, STREAMS, BUFFERS, HOSTS, EVENTS = 8, 5, 3, 4, 2
PINNED = 2
"""The first so many host arrays are pinned."""
ENGINES = {"ai_core": 3, "ai_vector": 2, "ai_cpu": 1}
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop] | None] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
    "blocking": None,
}


# -- programs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Launch:
    """``out = 3 * out + given + salt`` on `blocks` blocks, as a kernel of one of three kinds."""

    stream: int
    engine: str
    ns: int
    blocks: int
    out: int
    given: int
    salt: int
    kind: str


@dataclass(frozen=True)
class CopyIn:
    """From a host array to a buffer."""

    stream: int
    buf: int
    host: int
    nbytes: int


@dataclass(frozen=True)
class CopyOut:
    """From a buffer to a host array."""

    stream: int
    host: int
    buf: int
    nbytes: int


@dataclass(frozen=True)
class CopyOver:
    """From a buffer to a buffer."""

    stream: int
    buf: int
    source: int
    nbytes: int


@dataclass(frozen=True)
class Fill:
    """memset."""

    stream: int
    buf: int
    value: int


@dataclass(frozen=True)
class Record:
    """Record an event."""

    stream: int
    event: int


@dataclass(frozen=True)
class WaitEvent:
    """Have a stream wait for the latest record of an event."""

    stream: int
    event: int


@dataclass(frozen=True)
class WaitTask:
    """Have a stream wait for a task: in a program the one so far back, in steps the one with this number."""

    stream: int
    task: int


@dataclass(frozen=True)
class WaitStream:
    """Have a stream wait for all that another one has been given."""

    stream: int
    other: int


@dataclass(frozen=True)
class Renew:
    """Free a buffer, whatever still uses it, and put a new one of zeros, or uploaded, in its place."""

    buf: int
    upload: bool


@dataclass(frozen=True)
class Poke:
    """The host writes into one of its arrays."""

    host: int
    value: int


@dataclass(frozen=True)
class Get:
    """The host reads a buffer, ordered with no stream."""

    buf: int


@dataclass(frozen=True)
class AwaitTask:
    """The host waits for a task: in a program the one so far back, in steps the one with this number."""

    task: int


@dataclass(frozen=True)
class Cancel:
    """The host cancels a task: in a program the one so far back, in steps the one with this number."""

    task: int


@dataclass(frozen=True)
class AwaitEvent:
    """The host waits for an event."""

    event: int


@dataclass(frozen=True)
class Synchronize:
    """The host waits for a stream."""

    stream: int


@dataclass(frozen=True)
class Query:
    """The host asks a stream."""

    stream: int


@dataclass(frozen=True)
class Sleep:
    """The host sleeps in the runtime's time."""

    ns: int


@dataclass(frozen=True)
class Program:
    """Streams with these priorities, so many copy engines for each direction, and what is done."""

    priorities: list[int]
    lanes: int
    ops: list[Any]


SHORT = st.integers(0, 6)
"""Costs in nanoseconds: few values, so that much falls on one instant."""


def programs(*, cancel: bool = False) -> st.SearchStrategy[Program]:
    """Make programs with kernels of all kinds; on the wall clock it is chance whether a cancel comes in time."""
    stream, buf, host, event = (st.integers(0, n - 1) for n in (STREAMS, BUFFERS, HOSTS, EVENTS))
    nbytes, byte, back = st.integers(0, BYTES), st.integers(0, 255), st.integers(0, 12)
    engine = st.sampled_from(("ai_core", "ai_core", "ai_core", "ai_vector", "ai_cpu"))
    blocks = st.sampled_from((1, 2, 3, 2, 5))
    kind = st.sampled_from(("blocks", "whole", "async"))
    launch = (st.builds(Launch, stream, engine, SHORT, blocks, buf, buf, byte, kind),)
    copies = (
        st.builds(CopyIn, stream, buf, host, nbytes),
        st.builds(CopyOut, stream, host, buf, nbytes),
        st.builds(CopyOver, stream, buf, buf, nbytes),
        st.builds(Fill, stream, buf, byte),
    )
    orders = (
        st.builds(Record, stream, event),
        st.builds(WaitEvent, stream, event),
        st.builds(WaitTask, stream, back),
        st.builds(WaitStream, stream, stream),
    )
    host_steps = (
        st.builds(Renew, buf, st.booleans()),
        st.builds(Poke, host, byte),
        st.builds(Get, buf),
        st.builds(AwaitTask, back),
        st.builds(AwaitEvent, event),
        st.builds(Synchronize, stream),
        st.builds(Query, stream),
        st.builds(Sleep, SHORT),
        *((st.builds(Cancel, back), st.builds(Cancel, back)) if cancel else ()),
    )
    priority = st.just(0) | st.integers(0, 7)
    groups = (launch, launch, launch, launch, copies, copies, orders, orders, host_steps)
    ops = st.sampled_from(groups).flatmap(st.one_of)
    return st.builds(
        Program,
        st.lists(priority, min_size=1, max_size=2) | st.lists(priority, min_size=3, max_size=STREAMS),
        st.integers(1, 2),
        st.lists(ops, max_size=8) | st.lists(ops, min_size=25, max_size=60),
    )


# -- steps ------------------------------------------------------------------------------------------------------------

Thing = tuple[str, int]
"""A buffer or a host array."""


def accesses(step: Any) -> tuple[list[Thing], list[Thing]]:
    """Say what a queued step writes and reads when it runs; a pageable source is read at the call."""
    match step:
        case Launch(out=out, given=given):
            return [("buf", out)], [("buf", out), ("buf", given)]
        case CopyIn(buf=buf, host=host):
            return [("buf", buf)], [("host", host)] if host < PINNED else []
        case CopyOut(host=host, buf=buf):
            return [("host", host)], [("buf", buf)]
        case CopyOver(buf=buf, source=source):
            return [("buf", buf)], [("buf", source)]
        case Fill(buf=buf):
            return [("buf", buf)], []
    return [], []


class Order:
    """Who has written and read what since, to find the tasks that a step must come after."""

    def __init__(self) -> None:
        self._writer: dict[Thing, tuple[int, int]] = {}
        self._readers: dict[Thing, list[tuple[int, int]]] = defaultdict(list)

    def before(self, writes: Iterable[Thing], reads: Iterable[Thing]) -> list[tuple[int, int]]:
        """Give (task, stream) of all that must have ended."""
        found = [self._writer[thing] for thing in (*writes, *reads) if thing in self._writer]
        for thing in writes:
            found += self._readers[thing]
        return sorted(set(found))

    def take(self, who: tuple[int, int], writes: Iterable[Thing], reads: Iterable[Thing]) -> None:
        """Note an access."""
        for thing in reads:
            self._readers[thing].append(who)
        for thing in writes:
            self._writer[thing] = who
            self._readers[thing] = []

    def forget(self, thing: Thing) -> None:
        """The memory is another one from now on."""
        self._writer.pop(thing, None)
        self._readers.pop(thing, None)


def concrete(program: Program, *, race_free: bool = False) -> list[Any]:
    """Turn a program into steps: streams that exist, tasks by number; with `race_free`, waits where they are due."""
    steps: list[Any] = []
    order = Order()
    count = 0  # of tasks

    def queue(step: Any) -> None:
        nonlocal count
        steps.append(step)
        count += 1

    for op in program.ops:
        stream = op.stream % len(program.priorities) if hasattr(op, "stream") else -1
        step = replace(op, stream=stream) if stream >= 0 else op
        writes, reads = accesses(step)
        if race_free:
            for task, owner in order.before(writes, reads):
                if owner == stream:
                    continue
                if task % 3 == 0:
                    queue(WaitTask(stream, task))
                elif task % 3 == 1:
                    queue(WaitStream(stream, owner))
                else:
                    queue(Record(owner, EVENTS))
                    queue(WaitEvent(stream, EVENTS))
        match step:
            case WaitTask() | AwaitTask() | Cancel() if not count:
                continue
            case WaitTask() | AwaitTask() | Cancel():
                step = replace(step, task=count - 1 - step.task % count)
            case WaitStream(other=other):
                step = replace(step, other=other % len(program.priorities))
        if race_free:  # what the host does itself
            touched: tuple[list[Thing], list[Thing]] = ([], [])
            match step:
                case Poke(host=host):
                    touched = [("host", host)], []
                case CopyIn(host=host) if host >= PINNED:
                    touched = [], [("host", host)]
                case Get(buf=buf):
                    touched = [], [("buf", buf)]
                case Renew(buf=buf):
                    order.forget(("buf", buf))
            for task, _ in order.before(*touched):
                steps.append(AwaitTask(task))
        if stream >= 0 and not isinstance(step, Synchronize | Query):
            order.take((count, stream), writes, reads)
            queue(step)
        else:
            steps.append(step)
    return steps + [Synchronize(stream) for stream in range(len(program.priorities))]


@dataclass
class Outcome:
    """What a run came to."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    """Of every task: stream (-1: none), engine, cores, submitted, started, finished, the row that it waited for."""
    seen: list[tuple[Any, ...]] = field(default_factory=list)
    """What the host saw after each of its own steps: time, its arrays, bytes in use on the device, an answer."""
    results: list[Any] = field(default_factory=list)
    """Of every task that has a handle."""
    memory: list[bytes] = field(default_factory=list)
    """The buffers and the host arrays in the end."""


# -- the model --------------------------------------------------------------------------------------------------------


def predict(program: Program, steps: list[Any]) -> Outcome:
    """Run the steps on the reference model."""
    return _Prediction(program).run(steps)


class _Prediction:
    def __init__(self, program: Program) -> None:
        self.model = Semantics({**ENGINES, **dict.fromkeys(("h2d", "d2h", "d2d"), program.lanes)})
        self.streams = [Stream(priority) for priority in program.priorities]
        self.buffers = [bytearray(BYTES) for _ in range(BUFFERS)]
        self.hosts = [bytearray(range(i, i + BYTES)) for i in range(HOSTS)]
        self.events: dict[int, Task] = {}
        self.tasks: list[Task] = []

    def run(self, steps: list[Any]) -> Outcome:
        outcome = Outcome()
        for step in steps:
            task = self.enqueue(step)
            if task is not None:
                self.tasks.append(self.model.submit(task))
                if isinstance(step, Record):
                    self.events[step.event] = task
            else:
                answer = self.host(step)
                outcome.seen.append((self.model.now, *map(bytes, self.hosts), self.in_use(), answer))
        tasks = [task for task in self.model.tasks if task.engine != "timers" and task.result != "cancelled"]
        for task in tasks:
            stream = self.streams.index(task.stream) if task.stream in self.streams else -1
            after = tasks.index(task.after) if task.after in tasks else None
            outcome.rows.append((stream, task.engine, task.cores, task.submitted, task.started, task.finished, after))
        outcome.results = [task.result for task in self.tasks]
        outcome.memory = [bytes(memory) for memory in (*self.buffers, *self.hosts)]
        return outcome

    def in_use(self) -> int:
        held = {id(memory) for task in self.tasks for memory in task.memory}
        return 64 * len(held | {id(memory) for memory in self.buffers})

    def enqueue(self, step: Any) -> Task | None:
        stream = self.streams[step.stream] if hasattr(step, "stream") else Stream()
        buffers, hosts = self.buffers, self.hosts
        match step:
            case Launch(engine=engine, ns=ns, blocks=blocks, out=out, given=given):
                target, source = buffers[out], buffers[given]

                def body() -> int | None:
                    target[:] = [(3 * a + b + step.salt) % 256 for a, b in zip(target, source, strict=True)]
                    return None if step.kind == "blocks" else sum(target)

                return Task(stream, engine, min(blocks, ENGINES[engine]), ns, body, (target, source))
            case CopyIn(buf=buf, host=host, nbytes=nbytes):
                source = hosts[host] if host < PINNED else bytearray(hosts[host])
                return self.copy(stream, "h2d", buffers[buf], source, nbytes, buffers[buf])
            case CopyOut(host=host, buf=buf, nbytes=nbytes):
                return self.copy(stream, "d2h", hosts[host], buffers[buf], nbytes, buffers[buf])
            case CopyOver(buf=buf, source=number, nbytes=nbytes):
                target, source = buffers[buf], buffers[number]
                return self.copy(stream, "d2d", target, source, nbytes, target, source)
            case Fill(buf=buf, value=value):
                return self.copy(stream, "d2d", buffers[buf], bytearray([value] * BYTES), BYTES, buffers[buf])
            case Record():
                return Task(stream)
            case WaitEvent(event=event):
                return Task(stream, after=self.events.get(event))
            case WaitTask(task=number):
                return Task(stream, after=self.tasks[number])
            case WaitStream(other=other):
                return Task(stream, after=self.streams[other].last)
        return None

    @staticmethod
    def copy(
        stream: Stream, engine: str, target: bytearray, source: bytearray, nbytes: int, *memory: bytearray
    ) -> Task:
        def body() -> None:
            target[:nbytes] = source[:nbytes]

        if not nbytes:
            return Task(stream, memory=memory)
        return Task(stream, engine, 1, 1 + nbytes, body, memory)

    def host(self, step: Any) -> Any:
        model, buffers = self.model, self.buffers
        match step:
            case Synchronize(stream=stream) | Query(stream=stream):
                last = self.streams[stream].last
                if last is not None and last.finished < 0:
                    model.run(last if isinstance(step, Synchronize) else None)
                return last is None or last.finished >= 0
            case AwaitTask(task=number):
                task = self.tasks[number]
                model.run(task)
                return task.result
            case Cancel(task=number):
                return model.cancel(self.tasks[number])
            case AwaitEvent(event=event):
                if event in self.events:
                    model.run(self.events[event])
            case Sleep(ns=ns):
                model.run(model.submit(Task(Stream(), "timers", 0, ns)))
            case Poke(host=host, value=value):
                self.hosts[host][:] = [value] * BYTES
            case Get(buf=buf):
                copied = bytearray(BYTES)
                model.run(model.submit(self.copy(Stream(), "d2h", copied, buffers[buf], BYTES, buffers[buf])))
                return bytes(copied)
            case Renew(buf=buf, upload=upload):
                buffers[buf] = bytearray([7] * BYTES if upload else BYTES)
                if upload:
                    nothing = bytearray(BYTES)
                    model.run(model.submit(self.copy(Stream(), "h2d", nothing, nothing, BYTES)))
        return None


# -- the package ------------------------------------------------------------------------------------------------------


@functools.cache
def kernel(engine: str, ns: int, kind: str, slow: bool) -> ca.Kernel[..., Any]:
    """Make the kernel of a launch; `slow` ones take long enough on the wall clock to be given to a thread."""
    cost = ca.Cost(seconds=ns * 1e-9)
    pause = 0.0002 if slow else 0

    def compute(out: Any, given: Any, salt: int) -> None:
        if pause:
            time.sleep(pause)
        out[...] = 3 * out + given + np.uint8(salt)

    if kind == "blocks":

        @ca.kernel(engine=engine, cost=cost)
        def by_block(block: ca.Block, out: Any, given: Any, salt: int) -> None:
            part = block.slice(out.size)
            compute(out[part], given[part], salt)

        return by_block
    if kind == "whole":

        @ca.kernel(engine=engine, cost=cost, per_block=False)
        def whole(launch: ca.Launch, out: Any, given: Any, salt: int) -> int:
            compute(out, given, salt)
            return int(out.sum())

        return whole

    @ca.kernel(engine=engine, cost=cost, per_block=False)
    async def later(launch: ca.Launch, out: Any, given: Any, salt: int) -> int:
        await asyncio.sleep(pause)
        compute(out, given, salt)
        return int(out.sum())

    return later


Wait = Callable[[], Any]


def play(program: Program, steps: list[Any], runtime: ca.Runtime) -> Generator[Wait, Any, Outcome]:
    """Run the steps on the package; yields what the host waits for, to be called and, if need be, awaited."""
    device, virtual = runtime.device(), runtime.clock.name == "virtual"
    is_blocking = isinstance(runtime, blocking.Runtime)
    streams = [device.create_stream(priority) for priority in program.priorities]
    events = [device.create_event() for _ in range(EVENTS + 1)]
    buffers = [device.zeros(BYTES, np.uint8) for _ in range(BUFFERS)]
    hosts = [device.malloc_host(BYTES, np.uint8) if i < PINNED else np.empty(BYTES, np.uint8) for i in range(HOSTS)]
    for i, host in enumerate(hosts):
        host[:] = range(i, i + BYTES)
    tasks: list[Any] = []
    outcome = Outcome()

    def enqueue(step: Any) -> Any:
        match step:
            case Launch(engine=engine, ns=ns, blocks=blocks, out=out, given=given, salt=salt, kind=kind):
                body = kernel(engine, ns, kind, not virtual and ns % 4 == 3)
                return stream.launch(body, buffers[out], buffers[given], salt, blocks=blocks)
            case CopyIn(buf=buf, host=number, nbytes=nbytes):
                return stream.memcpy(buffers[buf], hosts[number], nbytes)
            case CopyOut(host=number, buf=buf, nbytes=nbytes):
                return stream.memcpy(hosts[number], buffers[buf], nbytes)
            case CopyOver(buf=buf, source=source, nbytes=nbytes):
                return stream.memcpy(buffers[buf], buffers[source], nbytes)
            case Fill(buf=buf, value=value):
                return stream.memset(buffers[buf], value)
            case Record(event=event):
                return stream.record(events[event])._record
            case WaitEvent(event=event):
                return stream.wait(events[event])
            case WaitTask(task=number):
                return stream.wait(tasks[number])
            case WaitStream(other=other):
                return stream.wait(streams[other])
        return None

    def host_step(step: Any) -> Generator[Wait, Any, Any]:
        match step:
            case Synchronize(stream=number):
                yield streams[number].synchronize
                return True
            case Query(stream=number):
                return streams[number].query()
            case AwaitTask(task=number):
                task = tasks[number]
                if task.cancelled():
                    return "cancelled"
                return (yield task.result if is_blocking else task.wait)
            case Cancel(task=number):
                return tasks[number].cancel()
            case AwaitEvent(event=number):
                record = events[number]._record
                if record is None or not record.cancelled():
                    yield events[number].synchronize
            case Sleep(ns=ns):
                yield lambda: runtime.clock.sleep(ns * (1e-9 if virtual else 1e-6))
            case Poke(host=number, value=value):
                hosts[number][:] = value
            case Get(buf=number):
                return (yield buffers[number].get).tobytes()
            case Renew(buf=number, upload=upload):
                buffers[number].free()
                if upload:
                    buffers[number] = yield lambda: device.upload(np.full(BYTES, 7, np.uint8))
                else:
                    buffers[number] = device.zeros(BYTES, np.uint8)
        return None

    for step in steps:
        stream = streams[step.stream] if hasattr(step, "stream") else device.default_stream
        task = enqueue(step)
        if task is not None:
            tasks.append(task)
            continue
        answer = yield from host_step(step)
        free, total = device.memory_info()
        arrays = [host.tobytes() for host in hosts]
        outcome.seen.append((runtime.clock.now_ns(), *arrays, total - free, answer))
    records = list(runtime.timeline.records)
    numbers = {record.id: i for i, record in enumerate(records)}
    rows = {stream.id: i for i, stream in enumerate(streams)}
    for r in records:
        after = numbers.get(r.waited_for)  # what was cancelled has no row
        times = (r.submitted_ns, r.started_ns, r.finished_ns)
        outcome.rows.append((rows.get(r.stream, -1), r.engine, r.cores, *times, after))
    check_timeline(records)
    outcome.results = ["cancelled" if task.cancelled() else task.result() for task in tasks]
    for buffer in buffers:
        outcome.memory.append((yield buffer.get).tobytes())
    outcome.memory += [host.tobytes() for host in hosts]
    for stream in streams:
        yield stream.close
    return outcome


def check_timeline(records: list[Any], *, all_waited: bool = True) -> None:
    """What holds on every clock: FIFO within a stream, waits respected, nothing overlapping on a lane."""
    by_id = {record.id: record for record in records}
    streams, lanes = defaultdict(list), defaultdict(list)
    for record in records:
        assert record.submitted_ns <= record.started_ns <= record.finished_ns
        streams[record.stream].append(record)
        if record.engine:
            lanes[record.device, record.engine, record.lane].append(record)
        if record.waited_for in by_id and all_waited:
            assert by_id[record.waited_for].finished_ns <= record.finished_ns
    streams.pop(-1, None)  # copies that are ordered with no stream
    for track in streams.values():
        for before, after in itertools.pairwise(track):
            assert before.finished_ns <= after.started_ns, (before, after)
    for track in lanes.values():
        for before, after in itertools.pairwise(sorted(track, key=lambda r: (r.started_ns, r.finished_ns, r.id))):
            assert before.finished_ns <= after.started_ns, (before, after)


def run(program: Program, steps: list[Any], clock: Any, api: str) -> Outcome:
    """Run the steps through one of the APIs."""
    soc = ca.Soc(
        name="model",
        ai_cores=ENGINES["ai_core"],
        vector_cores=ENGINES["ai_vector"],
        ai_cpus=ENGINES["ai_cpu"],
        copy_engines=program.lanes,
        memory_bytes=1 << 16,
        h2d_bandwidth=1e9,
        d2h_bandwidth=1e9,
        d2d_bandwidth=1e9,
        copy_latency_ns=1,
    )
    factory = LOOPS[api]
    if factory is None:
        with blocking.Runtime(clock=clock, soc=soc) as runtime:
            game = play(program, steps, runtime)
            given: Any = None
            while True:
                try:
                    wait = game.send(given)
                except StopIteration as end:
                    return end.value
                given = wait()

    async def main() -> Outcome:
        async with ca.Runtime(clock=clock, soc=soc) as runtime:
            game = play(program, steps, runtime)
            given: Any = None
            while True:
                try:
                    wait = game.send(given)
                except StopIteration as end:
                    return end.value
                given = wait()
                if inspect.isawaitable(given):
                    given = await given

    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main())


# -- the tests --------------------------------------------------------------------------------------------------------


@given(programs(cancel=True))
@settings(common, max_examples=EXAMPLES)
def test_virtual_time_agrees_with_the_model(program: Program) -> None:
    """Every start and finish, every byte, all that the host sees; races included, since virtual time decides them."""
    steps = concrete(program)
    expected = predict(program, steps)
    for api in LOOPS:
        outcome = run(program, steps, "virtual", api)
        assert outcome.rows == expected.rows
        assert outcome == expected


@pytest.mark.parametrize("api", list(LOOPS))
@given(program=programs())
@settings(common, max_examples=max(EXAMPLES // 4, 1))
def test_the_wall_clock_gives_the_same_results(api: str, program: Program) -> None:
    """Of programs without races; `play` checks the order of all tasks."""
    steps = concrete(program, race_free=True)
    expected = predict(program, steps)
    outcome = run(program, steps, "wall", api)
    assert [(row[:3], row[6]) for row in outcome.rows] == [(row[:3], row[6]) for row in expected.rows]
    assert outcome.results == expected.results
    assert outcome.memory == expected.memory
