"""The threads of a machine on the wall clock, and the loop on which asynchronous bodies run.

* Workers run heavy bodies. A worker that has ended one drives the machine itself, and keeps the next heavy body that
  comes up for itself, so a chain of heavy kernels costs no thread switch.
* The device thread drives when nobody else does: it is rung once, watches as long as there is work, and then sleeps
  for good. A host that waits is faster, so the device thread first gives it the time of a nap.
* Asynchronous bodies run as asyncio tasks on a loop of the machine's own, so a host that blocks cannot starve them.

All are daemon threads, started on first use: nothing here can keep an interpreter from exiting.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextvars import ContextVar, copy_context
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

from .hosts import running_host
from .task import DONE, LIGHT_NS, RUNNING, Item, fail

if TYPE_CHECKING:
    from collections.abc import Callable

    from .completion import Awaiter
    from .machine import Machine

NAP_S = 0.0001
HAND_OVER_S = 0.05
SLICE_NS = 200_000
"""How long a thread that has something else to do drives at a time."""
REST_S = 0.1
"""So long the driver waits for a body on the virtual clock that itself waits for real time, or for a host."""
NAPS = 20
"""So many naps without any work, and the device thread sleeps until it is rung."""

current_body: ContextVar[Item | None] = ContextVar("cann_async_body", default=None)
"""The item whose asynchronous body is running in this context."""


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
            item.started, item.finished = self.started_ns, self.ended_ns
            if self.problem is not None:
                fail(item, self.problem)
            else:
                item.outcome, item.state = self.outcome, DONE
        return item


def start_thread(target: Callable[[], None], name: str) -> int:
    """Start a daemon thread and give its number; 0 when the interpreter no longer allows one."""
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
            elif self._count == 0:  # the interpreter is going down: better here than never
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
        while not self._stopped:
            idle = 0
            while idle < NAPS and not self._stopped:
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
            bell.acquire()


class Bodies:
    """Asynchronous kernel bodies, on an event loop of the machine's own.

    On the virtual clock the driver starts them one by one (`run`, `resume`) and waits until each has ended or waits for
    the machine in its turn, so they are as exact as plain ones. `active` counts the bodies that do neither: those
    that wait for real time, or for a host. After a while the driver leaves them alone, so that the host can go on,
    and virtual time stands still until they have ended.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._lock = threading.Lock()
        self._parked: dict[Item, set[Awaiter]] = {}
        self._tasks: set[asyncio.Task[object]] = set()
        self._rest = threading.Event()
        self._idle = False
        """Nothing can run on the loop, and yet a body is active."""
        self._looking = False
        self.active = 0
        self.woken: deque[Awaiter] = deque()
        """On the virtual clock: who may go on, as soon as the driver gives them the time."""

    def start(self, item: Item) -> None:
        """Begin the body of the item; it arrives at the machine when it has ended."""
        with self._lock:
            self.active += 1
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = start_thread(self._run_loop, "cann-async bodies")
        self._loop.call_soon_threadsafe(self._begin, item)

    def run(self, item: Item) -> bool:
        """Begin the body and see it to its end; False if it needs something else first, and arrives later."""
        self.start(item)
        self._come_to_rest()
        arrivals = self._machine.arrivals
        for place, arrival in enumerate(arrivals):
            if arrival.item is item:
                del arrivals[place]
                arrival.settle()
                return True
        return False

    def resume(self) -> None:
        """Let the bodies go on for which something has happened."""
        while self.woken:
            awaiter = self.woken.popleft()
            self.unpark(awaiter)
            awaiter.deliver()
            self._come_to_rest()

    def stop(self) -> None:
        """End the loop; bodies under way are cancelled."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def park(self, awaiter: Awaiter) -> None:
        """A coroutine of a body has begun to wait for the machine, unless it has been woken already."""
        body = awaiter.body
        assert body is not None
        with self._lock:
            if not awaiter.woken:
                waits = self._parked.setdefault(body, set())
                waits.add(awaiter)
                if len(waits) == 1:
                    self.active -= 1
        self._look_again()
        self._machine.kick()

    def unpark(self, awaiter: Awaiter) -> None:
        """What the coroutine waited for has happened, or it has given up. From any thread, also twice."""
        body = awaiter.body
        assert body is not None
        with self._lock:
            awaiter.woken = True
            waits = self._parked.get(body)
            if waits is not None and awaiter in waits:
                waits.discard(awaiter)
                if not waits:
                    del self._parked[body]
                    self.active += 1

    def _come_to_rest(self) -> None:
        """Wait, as the driver, until nothing can run on the loop. Meanwhile the bodies have the baton."""
        machine, loop = self._machine, self._loop
        if loop is None or not self._thread:  # the interpreter is going down
            return
        self._idle = False
        self._rest.clear()
        with machine.lent_to(self._thread):
            loop.call_soon_threadsafe(self._look_again)
            while not self._rest.wait(REST_S):
                if self._idle or machine.hurry:
                    return

    def _look_again(self) -> None:
        if not self._looking and self._loop is not None:
            self._looking = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._looking = False
        if not running_host().is_quiet:
            self._look_again()
        elif self.active:
            self._idle = True
        else:
            self._rest.set()

    def _run_loop(self) -> None:
        assert self._loop is not None
        self._machine.threads.add(threading.get_ident())
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            for task in self._tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.close()

    def _begin(self, item: Item) -> None:
        assert self._loop is not None
        context = copy_context()
        context.run(current_body.set, item)
        task = self._loop.create_task(self._body(item), context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _body(self, item: Item) -> object:
        machine = self._machine
        started = machine.now() if not machine.clock.modelled else item.started
        outcome: object = None
        problem: BaseException | None = None
        try:
            outcome = await item.work.run_async(item)
        except BaseException as caught:  # as for any body
            problem = caught
        machine.arrive(Arrival(item, outcome, problem, started, machine.now()))
        with self._lock:  # after it has arrived: who sees no active body sees all that have ended
            self.active -= 1
        self._look_again()
        machine.kick()
        return None
