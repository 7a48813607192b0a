"""Modelled time: each task keeps its engine for as long as the Soc says, in integer nanoseconds.

A heap holds what ends when, and a body runs at the instant at which its task ends. `VirtualClock` jumps from one end to
the next, and only when a host waits. `PacedClock` lets the same things happen when the real time has come.
"""

from __future__ import annotations

import time
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from .clock import MANY, Clock, Due, without_given_up
from .sharing import Memory
from .task import DONE, RUNNING, Item

if TYPE_CHECKING:
    from ..soc import Soc
    from .machine import Machine

AFTER_WORK = 1 << 62
"""At one instant timers end after the work: at the deadline itself the work wins."""


class ModelledClock(Clock):
    """What both have in common. `time_ns` is the instant that the device has come to."""

    modelled = True

    def __init__(self, machine: Machine, start_ns: int) -> None:
        super().__init__(machine)
        self.time_ns = start_ns
        self.device_now = self._device_now
        self._due: Due = []
        self._most_due = MANY

    def _device_now(self) -> int:
        return self.time_ns

    @property
    def next_due_ns(self) -> int | None:
        """When something ends next; None if nothing is under way."""
        due = list(self._due)  # a host may be adding a timer just now
        return min((at for at, _, item in due if item.state == RUNNING and item.finished == at), default=None)

    def memory(self, soc: Soc) -> Memory:
        """Share the bandwidth among what runs at the same time."""
        return Memory(int(soc.memory_bandwidth), self._plan)

    def _plan(self, at_ns: int, item: Item) -> None:
        item.finished = at_ns
        heappush(self._due, (at_ns, item.id, item))

    def serve(self, item: Item) -> bool:
        """Keep the engine for the modelled time."""
        if self.is_watchful and self.machine.look_after(item):
            return False
        item.state = RUNNING
        now = self.time_ns
        if now < item.submitted:  # on the paced clock, when the device is behind
            now = item.submitted
        item.started = now
        cost = item.cost
        if cost < 0:
            item.finished = now = now + ~cost
            heappush(self._due, (now, item.id, item))
            return False
        engine = item.work.engine
        assert engine is not None
        service, demand = engine.time_ns(item)
        if demand and engine.memory is not None:
            engine.memory.enter(item, demand, service, now)
        else:
            self._plan(now + service, item)
        return False

    def timer(self, item: Item, at_ns: int) -> None:
        """Have the item end at that time."""
        item.finished = at_ns
        with self._lock:  # for the driver who forgets; nobody else adds but the driver
            heappush(self._due, (at_ns, AFTER_WORK | item.id, item))

    def _forget(self) -> None:
        if len(self._due) > self._most_due:
            with self._lock:
                self._most_due = without_given_up(self._due)

    def _end_next(self) -> bool:
        """End what is due next, with all that ends at the same instant; False if that had been given up."""
        machine, due = self.machine, self._due
        now, _, item = heappop(due)
        if item.state != RUNNING or item.finished != now:  # given up meanwhile, or planned anew
            return False
        self.time_ns = now
        if due and due[0][0] == now:  # who ends at one instant ends before any engine chooses
            machine.completing = True
            self._end(item, now)
            while due and due[0][0] == now:
                last, item = item, heappop(due)[2]
                # else another one of this instant has ended it, or it was planned twice for this instant
                if item.state == RUNNING and item.finished == now and item is not last:
                    self._end(item, now)
            machine.completing = False
        else:  # it is alone, so its engine may choose in the same step
            self._end(item, now)
        if machine.pollers:
            machine.memory_changed()
        return True

    def _end(self, item: Item, now: int) -> None:
        """The time of an item is over."""
        engine = item.work.engine
        if engine is not None:
            if item.cost >= 0 and engine.memory is not None:
                engine.memory.leave(item, now)
            engine.step(item)
        else:  # a timer of a host
            item.state = DONE
            self.machine.wake(item)


class VirtualClock(ModelledClock):
    """Discrete events: time jumps to what ends next, and only when a host waits.

    At one instant all completions come first, then new heads become ready, then free engines choose.
    """

    name = "virtual"
    is_virtual = True

    def __init__(self, machine: Machine, start_ns: int = 0) -> None:
        super().__init__(machine, start_ns)
        self.now = self._device_now

    def run(self, deadline_ns: int) -> None:
        """Drive; see `Clock.run`."""
        machine, called, due = self.machine, self.machine.called, self._due
        bodies, settle, end_next = machine.bodies, machine.scheduler.settle, self._end_next
        self._forget()
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
            end_next()


class PacedClock(ModelledClock):
    """Modelled time in real time: an engine is busy for as long as the model says, while the processor is free.

    Only the device thread drives. It sleeps until something is due, and when it is late it catches up: what was due
    happens at its own time and in its own order, so lateness never adds up.
    """

    name = "paced"
    hosts_drive = False

    def __init__(self, machine: Machine) -> None:
        self.now = time.perf_counter_ns
        self.origin_ns = self.now()
        super().__init__(machine, self.origin_ns)
        self.timers = self._due

    def timer(self, item: Item, at_ns: int) -> None:
        """Have the device thread look at the time; see `Clock.timer`."""
        super().timer(item, at_ns)
        self.machine.ring()

    def run(self, deadline_ns: int) -> None:
        """Drive; see `Clock.run`."""
        machine, called, due, now = self.machine, self.machine.called, self._due, self.now
        settle, end_next = machine.scheduler.settle, self._end_next
        self._forget()
        while not machine.stop:
            is_late = due and due[0][0] <= now()
            if machine.news:
                if not is_late and not called:  # else there is still something to do at this instant
                    self.time_ns = max(self.time_ns, now())
                settle()
            elif called:  # at the instant that the device has come to
                engine = called.popleft()
                engine.called = False
                engine.step(None)
            elif is_late:
                end_next()
            else:
                return
