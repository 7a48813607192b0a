"""What it means that an engine works on a task: wall time or virtual time.

The executors are the same under both; a clock decides how long an item keeps its engine and where its body runs
(`serve`), and how the driver goes from one thing to the next (`run`).

* `WallClock`: kernels take the time that they take. Light bodies run in place on the driving thread, heavy ones on
  worker threads.
* `VirtualClock`: modelled time in integer nanoseconds, a heap of what ends when. A body runs at the instant at which
  its task ends. At one instant all completions come first, then new heads become ready, then free engines choose.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from .task import DONE, LIGHT_NS, RUNNING, Item, fail

if TYPE_CHECKING:
    from collections.abc import Callable

    from .machine import Machine


Due = list[tuple[int, int, Item]]
"""A heap of (time, id, item) of what ends when; an item that is no longer RUNNING has been given up."""
MANY = 1000
AFTER_WORK = 1 << 62
"""At one instant timers end after the work: at the deadline itself the work wins."""


def without_given_up(due: Due) -> int:
    """Forget what has been given up, and say how long the heap may grow until the next time."""
    live = [entry for entry in due if entry[2].state == RUNNING]
    heapify(live)
    due[:] = live
    return max(MANY, 2 * len(live))


class Clock(ABC):
    """The time of one machine."""

    name: str
    modelled: bool
    """Whether tasks need a modelled service time."""
    now: Callable[[], int]
    """Nanoseconds; hot, so it is a plain function and not a method."""
    origin_ns = 0
    is_watchful = False
    """Some bodies have a timeout, or faults are injected: look at every one that starts."""
    last_ns = 0
    """When the driver last looked at the clock; a body in place starts then, so that one look serves two tasks."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.timers: Due = []
        """On the wall clock: what ends when, besides work. On the virtual clock they stand among the work."""
        self._lock = threading.Lock()

    @abstractmethod
    def run(self, deadline_ns: int) -> None:
        """Drive until nothing can be done now, a host has been woken, or the time (of `now`) is past the deadline."""

    @abstractmethod
    def timer(self, item: Item, at_ns: int) -> None:
        """Have a timer end at that time, unless it has ended before."""

    @abstractmethod
    def serve(self, item: Item) -> bool:
        """Start the item on its engine; True if it has already ended."""


class WallClock(Clock):
    """Real time."""

    name = "wall"
    modelled = False

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.now = time.perf_counter_ns
        self.origin_ns = self.now()
        self._deadline = 0
        self._most_timers = MANY

    def run(self, deadline_ns: int) -> None:
        """Drive; see `Clock.run`."""
        machine, called, timers, pollers = self.machine, self.machine.called, self.timers, self.machine.pollers
        self._deadline = deadline_ns
        while not machine.stop:
            if timers and timers[0][0] <= self.now():
                self._ring(heappop(timers)[2])
            if machine.news:
                machine.scheduler.settle()
            if not called:
                return
            engine = called.popleft()
            engine.called = False
            self.last_ns = self.now()
            if self.last_ns >= deadline_ns:
                machine.stop = True
            else:
                engine.step(None)
            if pollers:  # also when time is up: the engine may be called because something has arrived from a worker
                machine.memory_changed()
            if engine.can_start() and not engine.called:
                engine.called = True
                called.append(engine)

    def serve(self, item: Item) -> bool:
        """Run a light body in place; hand a heavy one to a worker."""
        if self.is_watchful and self.machine.look_after(item):
            return False
        work = item.work
        item.state = RUNNING
        if item.nbytes > work.gauge.limit:
            self.machine.workers.put(item)
            return False
        start = self.last_ns
        if start < item.submitted:
            start = item.submitted
        try:
            outcome = work.run(item)
            if item.state == RUNNING:  # else it has aborted its own stream
                item.outcome, item.state = outcome, DONE
        except BaseException as problem:  # whatever a kernel raises is that task's failure, not the driver's
            fail(item, problem)
        item.started = start
        item.finished = self.last_ns = end = self.now()
        if end - start > LIGHT_NS:
            work.gauge.was_slow(item.nbytes, end - start)
        if end >= self._deadline:
            self.machine.stop = self.machine.news = True
        return True

    @property
    def seconds_to_timer(self) -> float:
        """How long until the next timer ends; -1 if there is none."""
        return max(0.0, (self.timers[0][0] - self.now()) / 1e9) if self.timers else -1

    def timer(self, item: Item, at_ns: int) -> None:
        """Have the device thread look at the time; see `Clock.timer`."""
        with self._lock:  # for who forgets; that a driver takes one meanwhile does no harm, as it ends it
            heappush(self.timers, (at_ns, item.id, item))
            if len(self.timers) > self._most_timers:
                self._most_timers = without_given_up(self.timers)
        self.machine.ring()

    def _ring(self, item: Item) -> None:
        if item.state == RUNNING:
            item.finished = self.now()
            item.state = DONE
            self.machine.wake(item)


class VirtualClock(Clock):
    """Discrete events: time jumps to what ends next, and only when a host waits."""

    name = "virtual"
    modelled = True

    def __init__(self, machine: Machine, start_ns: int = 0) -> None:
        super().__init__(machine)
        self.time_ns = start_ns
        self.now = self._now
        self._due: Due = []
        self._most_due = MANY

    def _now(self) -> int:
        return self.time_ns

    @property
    def next_due_ns(self) -> int | None:
        """When something ends next; None if nothing is under way."""
        due = list(self._due)  # a host may be adding a timer just now
        return min((at for at, _, item in due if item.state == RUNNING), default=None)

    def run(self, deadline_ns: int) -> None:
        """Drive; see `Clock.run`."""
        machine, called, due, pollers = self.machine, self.machine.called, self._due, self.machine.pollers
        bodies, settle = machine.bodies, machine.scheduler.settle
        if len(due) > self._most_due:
            with self._lock:
                self._most_due = without_given_up(due)
        while True:
            while machine.news or (machine.arrivals and not bodies.active):
                if bodies.woken:
                    bodies.resume()
                settle()
            if bodies.active:  # a body of this instant waits for real time, or for a host
                return
            if called:
                engine = called.popleft()
                engine.called = False
                engine.step(None)
                continue  # a choice may bring news, such as a cancelled head that makes way
            if not due or machine.stop or due[0][0] > deadline_ns:
                return
            now, _, item = heappop(due)
            if item.state != RUNNING:  # given up meanwhile
                continue
            self.time_ns = now
            if due and due[0][0] == now:  # who ends at one instant ends before any engine chooses
                machine.completing = True
                self._end(item, now)
                while due and due[0][0] == now:
                    item = heappop(due)[2]
                    if item.state == RUNNING:  # else another one of this instant has ended it
                        self._end(item, now)
                machine.completing = False
            else:  # it is alone, so its engine may choose in the same step
                self._end(item, now)
            if pollers:
                machine.memory_changed()

    def _end(self, item: Item, now: int) -> None:
        """The time of an item is over."""
        item.finished = now
        engine = item.work.engine
        if engine is not None:
            engine.step(item)
        else:  # a timer of a host
            item.state = DONE
            self.machine.wake(item)

    def serve(self, item: Item) -> bool:
        """Keep the engine for the modelled time."""
        if self.is_watchful and self.machine.look_after(item):
            return False
        item.state = RUNNING
        now = item.started = self.time_ns
        heappush(self._due, (now + item.service_ns, item.id, item))
        return False

    def timer(self, item: Item, at_ns: int) -> None:
        """Have the item end at that time."""
        with self._lock:  # for the driver who forgets; nobody else adds but the driver
            heappush(self._due, (at_ns, AFTER_WORK | item.id, item))
