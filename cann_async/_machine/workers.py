"""The threads of a machine on the wall clock.

* Workers run heavy bodies. A worker that has ended one drives the machine itself, and keeps the next heavy body that
  comes up for itself, so a chain of heavy kernels costs no thread switch.
* The device thread drives when nobody else does: it is rung once, watches as long as there is work, and then sleeps
  for good. A host that waits is faster, so the device thread first gives it the time of a nap.
* Asynchronous bodies run as asyncio tasks on a loop of the machine's own (bodies.py).

All are daemon threads, started on first use: nothing here can keep an interpreter from exiting.
"""

from __future__ import annotations

import sys
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

from .task import DONE, LIGHT_NS, RUNNING, Item, fail

if TYPE_CHECKING:
    from collections.abc import Callable

    from .machine import Machine

NAP_S = 0.0001
HAND_OVER_S = 0.05
SLICE_NS = 200_000
"""How long a thread that has something else to do drives at a time."""
NAPS = 20
"""So many naps without any work, and the device thread sleeps until it is rung."""


class Arrival(NamedTuple):
    """What a body on another thread has come to; the driver takes it over."""

    item: Item
    outcome: object
    problem: BaseException | None
    started_ns: int
    ended_ns: int

    def settle(self) -> Item:
        """Write it into the item; of an item that has been dropped meanwhile it is thrown away."""
        item = self.item
        if item.state == RUNNING:
            clock = item.queue.machine.clock
            item.started = self.started_ns
            item.finished = clock.device_now() if clock.modelled else self.ended_ns
            if self.problem is not None:
                fail(item, self.problem)
            else:
                item.outcome, item.state = self.outcome, DONE
        return item


def start_thread(target: Callable[[], None], name: str) -> int:
    """Start a daemon thread and give its number; 0 when the interpreter no longer allows one."""
    if sys.is_finalizing():  # Python 3.11 allows it, and then waits for ever for the thread to begin
        return 0
    thread = threading.Thread(target=target, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return 0
    return thread.ident or 0


class Workers:
    """Threads for heavy bodies, as many as there are bodies at work at once."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._jobs: SimpleQueue[Item | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._free = 0
        """Workers without a body, minus jobs that wait for one."""
        self._count = 0
        self.kept: list[Item] | None = None
        """Where the worker that drives now keeps one job for itself; None when no worker drives."""

    def put(self, item: Item) -> None:
        """Have the body run on another thread."""
        machine = self._machine
        item.started = machine.now()
        if item.work.is_asynchronous:
            machine.bodies.start(item)
            return
        if sys.is_finalizing():  # the workers are gone: better here than never
            self._run(item)
            return
        with self._lock:
            self._free -= 1
            spawn = self._free < 0
        if self.kept is not None and not self.kept:
            self.kept.append(item)
            return
        if spawn:
            if start_thread(self._loop, f"cann-async worker {self._count}"):
                self._count += 1
                with self._lock:
                    self._free += 1
            elif self._count == 0:  # no thread can be had: better here than never
                self._run(item)
                return
        self._jobs.put(item)

    def stop(self) -> None:
        """Let every worker end when it is idle."""
        for _ in range(self._count):
            self._jobs.put(None)

    def _loop(self) -> None:
        machine = self._machine
        machine.threads.add(threading.get_ident())
        kept: list[Item] = []
        while True:
            item = kept.pop() if kept else self._jobs.get()
            if item is None:
                return
            self._run(item)
            del item
            machine.drive(machine.now() + SLICE_NS, kept)

    def _run(self, item: Item) -> None:
        machine = self._machine
        started = machine.now()
        outcome: object = None
        problem: BaseException | None = None
        try:
            outcome = item.work.run(item)
        except BaseException as caught:  # whatever a kernel raises is that task's failure, not the thread's
            problem = caught
        ended = machine.now()
        if ended - started < LIGHT_NS:  # a longer time may be a wait for the interpreter, so it teaches nothing
            item.work.gauge.was_light(item.nbytes)
        with self._lock:  # before anybody is woken who may have the next job
            self._free += 1
        machine.arrive(Arrival(item, outcome, problem, started, ended))


class DeviceThread:
    """Drives when nobody else does."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._bell = threading.Lock()
        self._bell.acquire()
        self._turn = threading.Lock()
        self._turn.acquire()
        self._handing_over = False
        self._started = False
        self._stopped = False

    def ring(self) -> None:
        """Wake the thread if it sleeps. Any thread may ring, at any time."""
        self._machine.asleep = False
        if not self._started:
            self._started = bool(start_thread(self._loop, "cann-async device"))
            return
        try:
            self._bell.release()
        except RuntimeError:  # somebody else has just rung
            pass

    def hand_over(self) -> None:
        """Let the thread drain what a host that enqueues without end has piled up; wait for it, a moment at most.

        A host that enqueues holds the interpreter, so the device gets behind, and a backlog of 100k tasks costs a
        third more per task than one of 1k: caches, and the garbage collector.
        """
        self._turn.acquire(False)  # a turn for which the last caller had no patience
        self._handing_over = True
        self.ring()
        self._turn.acquire(timeout=HAND_OVER_S)

    def stop(self) -> None:
        """End the thread."""
        self._stopped = True
        if self._started:
            self.ring()

    def _loop(self) -> None:
        machine, bell = self._machine, self._bell
        machine.threads.add(threading.get_ident())
        naps = NAPS if machine.clock.hosts_drive else 0
        while not self._stopped:
            idle = 0
            if not naps:  # nobody else drives, so there is nobody to wait for
                machine.drive()
            while idle < naps and not self._stopped:
                driven = machine.driven
                bell.acquire(timeout=NAP_S)
                if self._handing_over:
                    self._handing_over = False
                    machine.drive()
                    try:
                        self._turn.release()
                    except RuntimeError:  # nobody had the patience
                        pass
                elif not machine.has_work:
                    idle += 1
                    continue
                elif machine.driven == driven:
                    machine.drive()
                idle = 0
            machine.asleep = True
            if machine.has_work or self._stopped:
                machine.asleep = False
                continue
            bell.acquire(timeout=machine.seconds_to_timer)
            machine.asleep = False
