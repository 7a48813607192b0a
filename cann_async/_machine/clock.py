"""What it means that an engine works on a task: wall time or virtual time.

The executors are the same under both; a clock decides how long an item keeps its engine and where its body runs
(`serve`, `finish`), and how the driver goes from one thing to the next (`run`).

* `WallClock`: kernels take the time that they take. Light bodies run in place on the driving thread, heavy ones on
  worker threads.
* `VirtualClock`: modelled time in integer nanoseconds, a heap of what ends when. A body runs at the instant at which
  its task ends. At one instant all completions come first, then new heads become ready, then free engines choose.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from ..errors import ExecutionError, location
from .task import DONE, FAILED, QUEUED, RUNNING, Item

if TYPE_CHECKING:
    from collections.abc import Callable

    from .machine import Machine

LIGHT_NS = 50_000
"""What costs less than this runs in place: handing it to another thread would cost more."""
FAULTS = {"ai_vector": 507035, "ai_cpu": 507018}


class Clock(ABC):
    """The time of one machine."""

    name: str
    modelled: bool
    """Whether tasks need a modelled service time."""
    now: Callable[[], int]
    """Nanoseconds; hot, so it is a plain function and not a method."""
    origin_ns = 0

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    @abstractmethod
    def run(self, deadline_ns: int) -> None:
        """Drive until nothing can be done now, a host has been woken, or the time (of `now`) is past the deadline."""

    @abstractmethod
    def serve(self, item: Item) -> bool:
        """Start the item on its engine; True if it has already ended."""

    @abstractmethod
    def finish(self, item: Item) -> bool:
        """Complete an item whose time on the engine is over; False if its body goes on."""


def fail(item: Item, problem: BaseException) -> None:
    """Make `problem` the failure of the item, as the CANN error that its engine would report."""
    engine = item.work.engine
    code = FAULTS.get(engine.name if engine is not None else "", 507015)
    if isinstance(problem, ExecutionError):
        code = problem.code
    failure = ExecutionError(
        code,
        f"{item.work.name!r} (task {item.id} on stream {item.queue.id}) raised {type(problem).__name__}: {problem}",
    )
    failure.__cause__ = problem
    failure.launched_at = location(item.code, item.lasti)
    item.outcome = failure
    item.state = FAILED


class WallClock(Clock):
    """Real time."""

    name = "wall"
    modelled = False

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.now = time.perf_counter_ns
        self.origin_ns = self.now()
        self._last = 0
        self._deadline = 0

    def run(self, deadline_ns: int) -> None:
        """Drive; see `Clock.run`."""
        machine, called = self.machine, self.machine.called
        self._deadline = deadline_ns
        while True:
            if machine.news:
                machine.scheduler.settle()
            if machine.stop or not called:
                return
            engine = called.popleft()
            engine.called = False
            self._last = self.now()
            if self._last >= deadline_ns:
                machine.stop = True
            else:
                engine.executor.send(None)
            if engine.can_start() and not engine.called:
                engine.called = True
                called.append(engine)

    def serve(self, item: Item) -> bool:
        """Run a light body in place; hand a heavy one to a worker."""
        work = item.work
        item.state = RUNNING
        if item.nbytes > work.gauge.limit:
            self.machine.workers.put(item)
            return False
        start = self._last
        if start < item.submitted:
            start = item.submitted
        try:
            item.outcome = work.run(item)
            item.state = DONE
        except BaseException as problem:  # whatever a kernel raises is that task's failure, not the driver's
            fail(item, problem)
        item.started = start
        item.finished = self._last = end = self.now()
        if end - start > LIGHT_NS:
            work.gauge.learn(item.nbytes, light=False)
        if end >= self._deadline:
            self.machine.stop = self.machine.news = True
        return True

    def finish(self, item: Item) -> bool:
        """A worker has done everything."""
        return True


class VirtualClock(Clock):
    """Discrete events: time jumps to what ends next, and only when a host waits."""

    name = "virtual"
    modelled = True

    def __init__(self, machine: Machine, start_ns: int = 0) -> None:
        super().__init__(machine)
        self.time_ns = start_ns
        self.now = self._now
        self._due: list[tuple[int, int, Item]] = []

    def _now(self) -> int:
        return self.time_ns

    @property
    def next_due_ns(self) -> int | None:
        """When something ends next; None if nothing is under way."""
        return self._due[0][0] if self._due else None

    def run(self, deadline_ns: int) -> None:
        """Drive; see `Clock.run`."""
        machine, called, due = self.machine, self.machine.called, self._due
        while True:
            while machine.news:
                machine.scheduler.settle()
            while called:
                engine = called.popleft()
                engine.called = False
                engine.executor.send(None)
            if machine.stop or machine.bodies.active:
                return
            if not due or due[0][0] > deadline_ns:
                return
            now, _, item = heappop(due)
            self.time_ns = now
            while due and due[0][0] == now:
                machine.completing = True  # who ends at one instant ends before any engine chooses
                self._end(item)
                item = heappop(due)[2]
            machine.completing = bool(called)
            self._end(item)  # the last one; if no other engine has to choose, its own may do so in the same step
            machine.completing = False

    def _end(self, item: Item) -> None:
        """The time of an item is over."""
        engine = item.work.engine
        if engine is None:  # a timer of a host
            item.state, item.finished = DONE, self.time_ns
            self.machine.wake(item)
        else:
            engine.executor.send(item)

    def serve(self, item: Item) -> bool:
        """Keep the engine for the modelled time."""
        item.state = RUNNING
        now = item.started = self.time_ns
        heappush(self._due, (now + item.service_ns, item.id, item))
        return False

    def finish(self, item: Item) -> bool:
        """Run the body at the instant at which the task ends."""
        if item.work.is_asynchronous:
            self.machine.bodies.start(item)
            return False
        item.finished = self.time_ns
        try:
            item.outcome = item.work.run(item)
            item.state = DONE
        except BaseException as problem:  # whatever a kernel raises is that task's failure, not the driver's
            fail(item, problem)
        return True

    def timer(self, item: Item, at_ns: int) -> None:
        """Have the item end at that time."""
        heappush(self._due, (at_ns, item.id, item))
