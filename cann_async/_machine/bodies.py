"""Where asynchronous bodies run, and whatever else needs a certain place: `async def` kernels and host callbacks.

Kernels, and callbacks enqueued where no loop was running, are asyncio tasks on a loop of the machine's own, so a host
that blocks cannot starve them. A coroutine callback runs on the loop of the host that enqueued it, and a subscribed
callback on the thread that processes reports: those are places (`Place`), which begin a body when they are told to and
call `Bodies.end` when it has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from .hosts import running_host
from .task import RUNNING, Item
from .workers import Arrival, start_thread

if TYPE_CHECKING:
    from .completion import Awaiter
    from .machine import Machine

REST_S = 0.1
"""So long the driver waits for a body on the virtual clock that itself waits for real time, or for a host."""
current_body: ContextVar[Item | None] = ContextVar("cann_async_body", default=None)
"""The item whose asynchronous body is running in this context."""


class Place(Protocol):
    """Where a body runs that cannot run just anywhere."""

    def begin(self, item: Item) -> None:
        """Have the body run there soon. Called by the driver, so it must not wait."""


class Bodies:
    """The asynchronous bodies of one machine.

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
        self._tasks: dict[Item, asyncio.Task[object]] = {}
        self.elsewhere: dict[Item, Place] = {}
        """Bodies under way that run where their work wants it."""
        self._rest = threading.Event()
        self._idle = False
        """Nothing can run on the loop, and yet a body is active."""
        self._looking = False
        self.active = 0
        self.woken: deque[Awaiter] = deque()
        """On the virtual clock: who may go on, as soon as the driver gives them the time."""

    def start(self, item: Item) -> None:
        """Begin the body of the item; it arrives at the machine when it has ended."""
        place = item.work.place
        with self._lock:
            self.active += 1
            if self._loop is None and place is None:
                self._loop = asyncio.new_event_loop()
                self._thread = start_thread(self._run_loop, "cann-async bodies")
        if place is not None:
            self.elsewhere[item] = place
            place.begin(item)
        elif self._loop is not None:
            self._loop.call_soon_threadsafe(self.begin_on, self._loop, item)

    def cancel(self, item: Item) -> None:
        """Stop a body that has been given up, at its next await."""
        task = self._tasks.get(item)
        if task is not None:
            with contextlib.suppress(RuntimeError):  # its loop has been closed
                task.get_loop().call_soon_threadsafe(task.cancel)

    def run(self, item: Item) -> bool:
        """Begin the body and see it to its end; False if it needs something else first, and arrives later."""
        self.start(item)
        if item.work.place is not None or not self._machine.clock.is_virtual:  # the host must be let go on
            return False
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
            if awaiter.body is not None and awaiter.body.work.place is None:
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

    def pause(self, active: int) -> None:
        """A callback on a subscribed thread blocks (-1), or goes on (1): meanwhile time may go on for it."""
        with self._lock:
            self.active += active

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
        if not self._looking and self._loop is not None and threading.get_ident() == self._thread:
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
            for task in list(self._tasks.values()):
                task.cancel()
            self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.close()

    def begin_on(self, loop: asyncio.AbstractEventLoop, item: Item) -> None:
        """Make the body a task of the loop. To be called on it."""
        if item.state != RUNNING:  # given up meanwhile
            self.end(item, None, None)
            return
        context = item.work.context(item)
        context.run(current_body.set, item)
        task = self._tasks[item] = loop.create_task(self._body(item), context=context)
        task.add_done_callback(lambda _: self._tasks.pop(item, None))

    async def _body(self, item: Item) -> None:
        try:
            outcome = await item.work.run_async(item)
        except BaseException as problem:  # as for any body
            self.end(item, None, problem)
        else:
            self.end(item, outcome, None)

    def end(self, item: Item, outcome: object, problem: BaseException | None) -> None:
        """Bring back a body that has ended. From any thread."""
        machine = self._machine
        machine.arrive(Arrival(item, outcome, problem, item.started, machine.now()))
        self.elsewhere.pop(item, None)
        with self._lock:  # after it has arrived: who sees no active body sees all that have ended
            self.active -= 1
        self._look_again()
        machine.kick()
