"""Random programs with failures, aborts, notifies, timeouts, callbacks, contexts and two devices against the model.

One program is played twice, on the model (`Predicted`) and on the package (`Real`), which have the same methods; the
package plays it as a coroutine, on loops and blocking. All times, results, errors and bytes must agree in virtual time;
on the wall clock every task must end, and nothing may hang. Half of MODEL_EXAMPLES programs are tried.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cann_async as ca
import cann_async.sync as blocking

from .reference_model import Stream, Task
from .reference_semantics import Context, Failure, Line, Notify, Semantics, Step
from .test_model import BYTES, ENGINES, EXAMPLES, LOOPS, check_timeline, common

pytestmark = pytest.mark.timeout(60 + EXAMPLES)
BUFFERS, NOTIFIES, EVENTS = 2, 2, 2
COPIES = ("h2d", "d2h", "d2d")
SOC = ca.Soc(
    name="model",
    ai_cores=ENGINES["ai_core"],
    vector_cores=ENGINES["ai_vector"],
    ai_cpus=ENGINES["ai_cpu"],
    memory_bytes=1 << 16,
    h2d_bandwidth=1e9,
    d2h_bandwidth=1e9,
    d2d_bandwidth=1e9,
    copy_latency_ns=1,
)


@dataclass(frozen=True)
class Program:
    """Streams as (context, priority), contexts as (device, stops), and what is done: a method's name and arguments."""

    contexts: list[tuple[int, bool]]
    streams: list[tuple[int, int]]
    ops: list[tuple[Any, ...]]


def programs() -> st.SearchStrategy[Program]:
    """Make programs."""
    stream, small, byte = st.integers(0, 4), st.integers(0, 6), st.integers(0, 255)
    buf, number, back = st.integers(0, BUFFERS - 1), st.integers(0, 1), st.integers(0, 9)
    engine = st.sampled_from(("ai_core", "ai_core", "ai_vector", "ai_cpu"))
    kind = st.sampled_from(("blocks", "whole", "async", "whole", "fails"))
    limit = st.none() | st.none() | st.integers(1, 8)  # whether 0 is over within its instant is nobody's promise
    name = st.just
    queued = (
        st.tuples(name("launch"), stream, engine, small, st.integers(1, 5), buf, byte, kind, limit),
        st.tuples(name("launch"), stream, engine, small, st.integers(1, 5), buf, byte, kind, st.none()),
        st.tuples(name("fill"), stream, buf, byte),
        st.tuples(name("call"), stream, byte, st.booleans(), st.booleans()),
        st.tuples(name("record"), stream, number),
        st.tuples(name("wait_event"), stream, number, limit),
        st.tuples(name("wait_stream"), stream, stream, limit),
        st.tuples(name("record_notify"), stream, number),
        st.tuples(name("wait_notify"), stream, number, limit),
    )
    host = (
        st.tuples(name("synchronize"), stream, limit),
        st.tuples(name("await_task"), back),
        st.tuples(name("query"), stream),
        st.tuples(name("sleep"), small),
        st.tuples(name("abort"), stream),
        st.tuples(name("task_abort"), number),
        st.tuples(name("cancel"), back),
    )
    ops = st.sampled_from((queued[:3], queued, queued, host)).flatmap(st.one_of)
    return st.builds(
        Program,
        st.lists(st.tuples(number, st.booleans()), min_size=1, max_size=3),
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 7)), min_size=1, max_size=5),
        st.lists(ops, max_size=10) | st.lists(ops, min_size=20, max_size=50),
    )


Row = tuple[Any, ...]


class Predicted:
    """The program on the model."""

    def __init__(self, program: Program) -> None:
        capacity = ENGINES | dict.fromkeys(COPIES, 1) | {"callback": 1024}
        self.model = Semantics({f"{device} {name}": n for device in range(2) for name, n in capacity.items()})
        self.contexts = [Context(device, stops) for device, stops in program.contexts]
        self.streams = [self.line(self.contexts[i % len(self.contexts)], rank) for i, rank in program.streams]
        self.buffers = [[bytearray(BYTES) for _ in range(BUFFERS)] for _ in range(2)]
        self.notifies = [Notify() for _ in range(NOTIFIES)]
        self.events: dict[int, Task] = {}
        self.log: list[int] = []
        self.tasks: list[Task] = []

    @staticmethod
    def line(context: Context, priority: int) -> Line:
        stream = Line(priority, context=context)
        context.streams.append(stream)
        return stream

    def play(self, program: Program) -> tuple[list[Any], list[Row], Any]:
        seen = []
        for name, *args in program.ops:
            try:
                answer = getattr(self, name)(*args)
            except Failure as failure:
                answer = failure.code
            seen.append((self.model.now, list(self.log), answer))
        rows = []
        for task in self.model.tasks:
            dropped = task.result == "cancelled" or (isinstance(task, Step) and task.is_dropped)
            if task.finished >= 0 and task.engine != "timers" and not dropped:
                rows.append((task.engine, task.cores, task.submitted, task.started, task.finished))
        return seen, rows, self.buffers

    def on(self, index: int) -> Line:
        stream = self.streams[index % len(self.streams)]
        if stream.context.failure is not None:
            raise Failure(stream.context.failure.code)
        return stream

    def push(self, stream: Line, **what: Any) -> None:
        self.tasks.append(self.model.submit(Step(stream, **what)))

    def launch(
        self, index: int, engine: str, ns: int, blocks: int, buf: int, salt: int, kind: str, limit: int | None
    ) -> None:
        stream = self.on(index)
        target = self.buffers[stream.context.device][buf]
        late = limit is not None and limit < ns

        def body() -> int | None:
            if late:
                raise Failure({"ai_vector": 507034, "ai_cpu": 507017}.get(engine, 507014))
            if kind == "fails":
                raise Failure({"ai_vector": 507035, "ai_cpu": 507018}.get(engine, 507015))
            target[:] = [(3 * a + salt) % 256 for a in target]
            return None if kind == "blocks" else sum(target)

        place = f"{stream.context.device} {engine}"
        cores, cost_ns = min(blocks, ENGINES[engine]), limit if late else ns
        self.push(stream, engine=place, cores=cores, cost_ns=cost_ns, body=body, is_late=late)

    def fill(self, index: int, buf: int, value: int) -> None:
        stream = self.on(index)
        target = self.buffers[stream.context.device][buf]

        def body() -> None:
            target[:] = [value] * BYTES

        self.push(stream, engine=f"{stream.context.device} d2d", cost_ns=1 + BYTES, body=body)

    def call(self, index: int, value: int, block: bool, is_coroutine: bool) -> None:
        stream = self.on(index)

        def body() -> int:
            self.log.append(value)
            return 2 * value

        what = {"engine": f"{stream.context.device} callback", "body": body}
        beside = stream.beside
        if block:
            if beside is not None and beside.last is not None and beside.last.finished < 0:
                self.model.submit(Step(stream, after=beside.last))
            self.push(stream, **what)
            return
        posted = self.model.submit(Step(stream))
        if beside is None:
            beside = stream.beside = self.line(stream.context, stream.priority)
            beside.failed = stream.failed
        self.model.submit(Step(beside, after=posted))
        self.push(beside, **what)

    def record(self, index: int, event: int) -> None:
        stream = self.on(index)
        self.same(stream, event)
        self.push(stream)
        self.events[event] = self.tasks[-1]

    def wait_event(self, index: int, event: int, limit: int | None) -> None:
        stream = self.on(index)
        self.same(stream, event)
        self.push(stream, after=self.events.get(event), timeout_ns=limit)

    def same(self, stream: Line, event: int) -> None:
        context = self.contexts[event % len(self.contexts)]
        if context.failure is not None:
            raise Failure(context.failure.code)
        if context is not stream.context:
            raise Failure(107003)

    def wait_stream(self, index: int, other: int, limit: int | None) -> None:
        stream, target = self.on(index), self.on(other)
        if target.context is not stream.context:
            raise Failure(107003)
        self.push(stream, after=target.last, timeout_ns=limit)

    def record_notify(self, index: int, notify: int) -> None:
        self.push(self.on(index), sets=self.notifies[notify])

    def wait_notify(self, index: int, notify: int, limit: int | None) -> None:
        self.push(self.on(index), takes=self.notifies[notify], timeout_ns=limit)

    def run(self, tasks: list[Task], limit: int | None = None) -> None:
        """Wait for the tasks in turn: 507046 at the deadline, 107020 if nothing can happen."""
        deadline = self.model.now + limit if limit is not None else None
        for task in tasks:
            if task.finished >= 0:
                continue
            until = task
            timer = None
            if deadline is not None:
                until = timer = Task(Stream(), "timers", 0, max(deadline - self.model.now, 0))
                timer.started = self.model.now
                timer.stream.tasks.append(timer)
                self.model.tasks.append(timer)
                self.model.running.append(timer)
            self.model.until(until, task)
            if timer in self.model.running:
                self.model.running.remove(timer)
            if task.finished < 0:
                raise Failure(507046 if timer is not None else 107020)
            if isinstance(task, Step) and task.is_dropped:
                assert isinstance(task.result, Failure)
                task.result.seen = True
                raise task.result

    def synchronize(self, index: int, limit: int | None) -> None:
        stream = self.on(index)
        lasts = [stream.last, stream.beside.last if stream.beside is not None else None]
        self.run([last for last in lasts if last is not None], limit)
        if stream.context.failure is not None:
            raise Failure(stream.context.failure.code)
        while stream.failed:
            failure = stream.failed.pop(0)
            if not failure.seen:
                failure.seen = True
                raise failure

    def await_task(self, back: int) -> Any:
        if not self.tasks:
            return None
        task = self.tasks[-1 - back % len(self.tasks)]
        self.run([task])
        if isinstance(task.result, Failure):
            task.result.seen = True
            raise task.result
        return task.result

    def query(self, index: int) -> bool:
        stream = self.on(index)
        lasts = [stream.last, stream.beside.last if stream.beside is not None else None]
        lasts = [last for last in lasts if last is not None and last.finished < 0]
        if lasts:
            self.model.run()
            self.on(index)
        return all(last.finished >= 0 for last in lasts)

    def sleep(self, ns: int) -> None:
        timer = self.model.submit(Task(Stream(), "timers", 0, ns))
        self.model.until(timer, timer)

    def abort(self, index: int) -> None:
        stream = self.on(index)
        self.model.abort([stream] if stream.beside is None else [stream, stream.beside], 107023)

    def task_abort(self, device: int) -> None:
        contexts = [context for context in self.contexts if context.device == device]
        for context in contexts:
            context.failure = None
        failure = Failure(107022)
        for context in contexts:
            for stream in context.streams:
                for task in list(stream.tasks):
                    self.model._drop(task, failure)

    def cancel(self, back: int) -> bool | None:
        return self.model.cancel(self.tasks[-1 - back % len(self.tasks)]) if self.tasks else None


@functools.cache
def kernel(engine: str, ns: int, kind: str) -> ca.Kernel[..., Any]:
    """Make the kernel of a launch."""
    make = ca.kernel(engine=engine, cost=ca.Cost(seconds=ns * 1e-9), per_block=kind == "blocks")

    def body(unit: Any, out: Any, salt: int) -> int | None:
        if kind == "fails":
            raise ValueError("as it should")
        part = unit.slice(out.size) if kind == "blocks" else slice(None)
        out[part] = 3 * out[part] + np.uint8(salt)
        return None if kind == "blocks" else int(out.sum())

    async def later(unit: Any, out: Any, salt: int) -> int | None:
        await asyncio.sleep(0)
        return body(unit, out, salt)

    return make(later) if kind == "async" else make(body)


class Real:
    """The program on the package."""

    def __init__(self, program: Program, runtime: ca.Runtime) -> None:
        self.runtime = runtime
        self.on_loop = not isinstance(runtime, blocking.Runtime)
        self.scale = 1e-9 if runtime.clock.name == "virtual" else 1e-6
        self.contexts = [runtime.device(device).create_context() for device, _ in program.contexts]
        for context, (_, stops) in zip(self.contexts, program.contexts, strict=True):
            context.default_stream.set_failure_mode("stop" if stops else "continue")
        self.streams = [self.contexts[i % len(self.contexts)].create_stream(rank) for i, rank in program.streams]
        self.buffers = [[device.zeros(BYTES, np.uint8) for _ in range(BUFFERS)] for device in runtime.devices]
        self.notifies = [runtime.device().create_notify() for _ in range(NOTIFIES)]
        self.events = [self.contexts[i % len(self.contexts)].create_event() for i in range(EVENTS)]
        self.log: list[int] = []
        self.tasks: list[Any] = []

    async def play(self, program: Program) -> tuple[list[Any], list[Row], Any]:
        seen = []
        for name, *args in program.ops:
            try:
                answer = await getattr(self, name)(*args)
            except ca.CannError as problem:
                answer = "cancelled" if "was cancelled" in problem.detail else problem.code
            seen.append((self.runtime.clock.now_ns(), list(self.log), answer))
        records = list(self.runtime.timeline.records)
        check_timeline(records, all_waited=False)  # some have lost patience
        rows = [
            (f"{r.device} {r.engine}" if r.engine else "", r.cores, r.submitted_ns, r.started_ns, r.finished_ns)
            for r in records
        ]
        for context in self.contexts:
            await context.device._task_abort()
        assert all(task.done() for task in self.tasks)
        assert not any(stream.pending for stream in self.streams)
        buffers = [[(await buffer._get()).tobytes() for buffer in row] for row in self.buffers]
        for stream in self.streams:
            with contextlib.suppress(ca.CannError):  # failures that nobody has asked for
                await stream._close(force=True)
        return seen, rows, buffers

    def on(self, index: int) -> Any:
        return self.streams[index % len(self.streams)]

    def seconds(self, limit: int | None) -> float | None:
        return None if limit is None else limit * self.scale

    async def launch(
        self, index: int, engine: str, ns: int, blocks: int, buf: int, salt: int, kind: str, limit: int | None
    ) -> None:
        stream = self.on(index)
        out = self.buffers[stream.device.index][buf]
        body = kernel(engine, ns, kind)
        self.tasks.append(stream.launch(body, out, salt, blocks=blocks, timeout=self.seconds(limit)))

    async def fill(self, index: int, buf: int, value: int) -> None:
        stream = self.on(index)
        self.tasks.append(stream.memset(self.buffers[stream.device.index][buf], value))

    async def call(self, index: int, value: int, block: bool, is_coroutine: bool) -> None:
        def function() -> int:
            self.log.append(value)
            return 2 * value

        async def coroutine() -> int:
            return function()

        as_coroutine = is_coroutine and not self.on_loop  # there it would run beside this one, in no set order
        self.tasks.append(self.on(index).call(coroutine if as_coroutine else function, block=block))

    async def record(self, index: int, event: int) -> None:
        self.on(index).record(self.events[event])
        self.tasks.append(self.events[event]._record)

    async def wait_event(self, index: int, event: int, limit: int | None) -> None:
        self.tasks.append(self.on(index).wait(self.events[event], timeout=self.seconds(limit)))

    async def wait_stream(self, index: int, other: int, limit: int | None) -> None:
        self.tasks.append(self.on(index).wait(self.on(other), timeout=self.seconds(limit)))

    async def record_notify(self, index: int, notify: int) -> None:
        self.tasks.append(self.on(index).record_notify(self.notifies[notify]))

    async def wait_notify(self, index: int, notify: int, limit: int | None) -> None:
        self.tasks.append(self.on(index).wait_notify(self.notifies[notify], timeout=self.seconds(limit)))

    async def synchronize(self, index: int, limit: int | None) -> None:
        await self.on(index)._synchronize(self.seconds(limit))

    async def await_task(self, back: int) -> Any:
        return await self.tasks[-1 - back % len(self.tasks)] if self.tasks else None

    async def query(self, index: int) -> bool:
        return bool(self.on(index).query())

    async def sleep(self, ns: int) -> None:
        if self.runtime._machine.clock.modelled:  # what sleeps in real time belongs to a loop
            await self.runtime.clock._sleep(ns * self.scale)

    async def abort(self, index: int) -> None:
        await self.on(index)._abort()

    async def task_abort(self, device: int) -> None:
        await self.runtime.device(device)._task_abort()

    async def cancel(self, back: int) -> bool | None:
        return self.tasks[-1 - back % len(self.tasks)].cancel() if self.tasks else None


def run(program: Program, clock: Any, factory: Callable[[], asyncio.AbstractEventLoop] | None) -> Any:
    """Play it on the package, on a loop or without one."""
    if factory is None:
        with blocking.Runtime(clock=clock, soc=SOC, devices=2) as runtime:
            return blocking.wait(Real(program, runtime).play(program))

    async def main() -> Any:
        async with ca.Runtime(clock=clock, soc=SOC, devices=2) as runtime:
            return await Real(program, runtime).play(program)

    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main())


@given(programs())
@settings(common, max_examples=max(EXAMPLES // 2, 1))
def test_virtual_time_agrees_with_the_model(program: Program) -> None:
    """What the host sees after every step, all rows, all bytes."""
    expected_seen, expected_rows, expected_buffers = Predicted(program).play(program)
    for factory in LOOPS.values():
        seen, rows, buffers = run(program, "virtual", factory)
        for step, (got, expected) in enumerate(itertools.zip_longest(seen, expected_seen)):
            assert got == expected, (step, program.ops[step])
        assert rows == expected_rows
        assert buffers == [[bytes(buffer) for buffer in row] for row in expected_buffers]


def no_deadlock(op: tuple[Any, ...]) -> bool:
    """On the wall clock a wait for what never comes is a hang, as on a device: there all waits have a limit."""
    return op[0] not in ("synchronize", "await_task", "wait_notify") or (op[0] != "await_task" and op[-1] is not None)


@pytest.mark.parametrize("loop", list(LOOPS))
@given(program=programs())
@settings(common, max_examples=max(EXAMPLES // 8, 1))
def test_on_the_wall_clock_every_task_ends(loop: str, program: Program) -> None:
    """In one state, whatever fails, times out or is aborted; `play` checks it and the order of all tasks."""
    safe = Program(program.contexts, program.streams, [op for op in program.ops if no_deadlock(op)])
    run(safe, "wall", LOOPS[loop])
