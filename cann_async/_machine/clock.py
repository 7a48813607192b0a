"""What it means that an engine works on a task: wall time or virtual time.

The executors are the same under both; a clock decides how long an item keeps its engine and where its body runs
(`serve`), and how the driver goes from one thing to the next (`run`).

* `WallClock`, here: kernels take the time that they take. Light bodies run in place on the driving thread, heavy ones
  on worker threads.
* `VirtualClock` and `PacedClock` take modelled time, see modelled.py.
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

    from ..soc import Soc
    from .machine import Machine
    from .sharing import Memory


Due = list[tuple[int, int, Item]]
"""A heap of (time, id, item) of what ends when. An item that is no longer RUNNING has been given up; one whose
`finished` is another time has been planned anew."""
MANY = 1000


def without_given_up(due: Due) -> int:
    """Forget what has been given up, and say how long the heap may grow until the next time."""
    live = [(at, number, item) for at, number, item in due if item.state == RUNNING and item.finished == at]
    heapify(live)
    due[:] = live
    return max(MANY, 2 * len(live))


class Clock(ABC):
    """The time of one machine."""

    name: str
    modelled: bool
    """Whether tasks take modelled time."""
    is_virtual = False
    """Whether time moves only while hosts wait."""
    hosts_drive = True
    """Whether who waits drives the machine, or leaves that to the device thread."""
    now: Callable[[], int]
    """Nanoseconds, as hosts see them; hot, so it is a plain function and not a method."""
    device_now: Callable[[], int]
    """Nanoseconds, as the device sees them: of what happens just now."""
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

    def memory(self, soc: Soc) -> Memory | None:
        """Give what deals out the memory bandwidth of one more device; None: nobody counts."""
        return None

    @abstractmethod
    def run(self, deadline_ns: int) -> None:
        """Drive until nothing can be done now, a host has been woken, or the time (of `now`) is past the deadline."""

    @property
    def seconds_to_timer(self) -> float:
        """How long until the next timer ends; -1 if there is none."""
        timers = self.timers
        return max(0.0, (timers[0][0] - self.now()) / 1e9) if timers else -1

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
        self.now = self.device_now = time.perf_counter_ns
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

    def timer(self, item: Item, at_ns: int) -> None:
        """Have the device thread look at the time; see `Clock.timer`."""
        item.finished = at_ns
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
