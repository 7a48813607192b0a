"""One host with its devices: the parts put together, and the baton.

At any moment at most one thread drives the machine: it holds the baton, a lock that is only ever taken without
waiting. Everybody else appends to `inbox` or `arrivals` and sets `news`; neither needs a lock. On the wall clock a
driver is whoever waits (a coroutine, a blocked thread), a worker that has ended a body, or the device thread; on the
virtual clock only whoever waits, so that time moves only then.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import os
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING

from ..errors import DeadlockError, error
from .bodies import Bodies
from .calls import NEEDED_HERE, Reports
from .clock import Clock, WallClock
from .engine import Engine
from .modelled import PacedClock, VirtualClock
from .queue import Queue, Refusal
from .record import Records
from .scheduler import Scheduler
from .stuck import stuck
from .task import CANCELLED, DONE, QUEUED, RUNNING, Call, Item, TimerStop, Waiter, Work
from .workers import Arrival, DeviceThread, Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..errors import CannError
    from ..soc import Soc
    from .completion import Awaiter, Sleeper
    from .hosts import HostLoop

FOREVER = 1 << 62
CLOCKS = ("wall", "virtual", "paced")
CALLBACKS = {"callback": 1024}
"""The engine of host callbacks: at most so many run at once."""
BACKLOG = 100
"""With fewer tasks that have not ended a host that enqueues is not made to breathe."""
PATIENCE = 100
"""So many questions in a row a host on virtual time may ask before time goes on."""
log = logging.getLogger("cann_async")
_machines: weakref.WeakSet[Machine] = weakref.WeakSet()
_forked = False


class _Stopper:
    """The cheapest waiter: the driver stops when the item has ended."""

    __slots__ = ("_machine",)

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def wake(self) -> None:
        self._machine.stop = self._machine.news = True


class Machine:
    """One host with its devices and one clock."""

    def __init__(self, socs: Sequence[Soc], clock: str, *, record: bool = True, start_ns: int = 0) -> None:
        if _forked:
            raise FORKED.error()
        self.clock: Clock
        if clock == "virtual":
            self.clock = VirtualClock(self, start_ns)
        else:
            self.clock = WallClock(self) if clock == "wall" else PacedClock(self)
        self.now = self.clock.now
        self._timed = self.clock.timers
        ids = itertools.count(1)
        self.records = Records(ids, keep=record)
        self.inbox: deque[Queue] = deque()
        self.arrivals: deque[Arrival] = deque()
        self.called: deque[Engine] = deque()
        self.news = False
        """Something was posted, or the driver is to stop: look before you go on."""
        self.stop = False
        self.hurry = False
        """The driver is wanted elsewhere: do not wait for bodies."""
        self.completing = False
        """More ends at this instant: engines must not choose yet."""
        self.asleep = not self.clock.is_virtual
        """Whether the device thread must be rung when there is work."""
        self.driven = 0
        self.threads: set[int] = set()
        self.waiting: dict[Awaiter | Sleeper, Item] = {}
        self.queues: dict[Queue, None] = {}
        self.next_id = ids.__next__
        self.next_queue_id = itertools.count(0).__next__
        self.stopper = _Stopper(self)
        self.closed: Refusal | None = None
        self.pollers: dict[Queue, None] = {}
        """Whose heads wait for a value in device memory."""
        self.faults: Callable[[Item], bool] | None = None
        self.launch_blocking = False
        self.minds_threads = False
        """Whether any thread of the process may yet enqueue what another one waits for; else only hosts that wait."""
        self.failure_hooks: dict[str, Callable[[CannError], object]] = {}
        """Who is told of each task that fails."""
        self.host_call_ns = 0
        """What a call that enqueues or waits costs the host in virtual time."""
        self.op_wait_timeout_ns: int | None = None
        self.op_execute_timeout_ns: int | None = None
        self._timers = Work("timer", None)
        self.timer_queue = Queue(self, -1, -1)
        self._baton = threading.Lock()
        self._driver: int | None = None
        self._wanted = False
        self._polls = 0
        self._last_poll = 0
        self._mutex = threading.RLock()
        """Guards lists of waiters. Re-entrant: a garbage collection within may forget a stream, and leave one."""
        self.scheduler = Scheduler(self)
        self.workers = Workers(self)
        self.bodies = Bodies(self)
        self.reports = Reports(self)
        self._device_thread = DeviceThread(self)
        self.engines = [self._make_engines(index, soc) for index, soc in enumerate(socs)]
        _machines.add(self)

    def _make_engines(self, device: int, soc: Soc) -> dict[str, Engine]:
        memory = self.clock.memory(soc)
        kinds = (soc.engines() | CALLBACKS).items()
        return {name: Engine(device, name, capacity, self, soc, memory) for name, capacity in kinds}

    # -- what hosts do ------------------------------------------------------------------------------------------------

    def submit(self, queue: Queue, item: Item) -> None:
        """Append an item to a queue. From any thread; never waits."""
        queue.last = item
        queue.tasks.append(item)
        if queue.idle:
            queue.idle = False
            self.post(queue)

    def post(self, queue: Queue) -> None:
        """Have the driver look at the queue."""
        self.inbox.append(queue)
        self.news = True
        if self.closed is not None and self._driver != threading.get_ident():  # closed while the host was enqueueing
            self.drop([queue], self.closed.error())
        elif self.asleep:
            self._device_thread.ring()

    def ring(self) -> None:
        """Have the device thread look, if there is one that sleeps."""
        if self.asleep:
            self._device_thread.ring()

    def timer(self, after_ns: int) -> Item:
        """Give an item that ends after so many nanoseconds. Who no longer needs it sets its state to DONE."""
        now = self.now()
        item = Item(self.next_id(), self.timer_queue, self._timers, (), 0, -1, now, None, 0)
        item.state, item.started, item.lane = RUNNING, now, 0
        self.clock.timer(item, now + after_ns)
        return item

    @property
    def seconds_to_timer(self) -> float:
        """How long the device thread may sleep; -1 for ever."""
        return self.clock.seconds_to_timer

    def look_after(self, item: Item) -> bool:
        """Start the watch over an item that is about to run, and let faults happen to it; True if it is to hang."""
        hangs = self.faults is not None and self.faults(item)
        if hangs:
            item.state, item.started = RUNNING, self.now()
        limit = item.work.timeout_ns
        if limit is not None:
            timer = self.timer(limit)
            self.watch(item, TimerStop(self, timer))
            self.watch(timer, Call(functools.partial(self.scheduler.expire, item)))
        return hangs

    def loop_is_needed(self, thread: int) -> None:
        """Give an error to whoever blocks the thread of a loop on which a callback is due: it would wait for ever."""
        for waiter in list(self.waiting):
            if waiter.blocks == thread:
                waiter.problem = error(*NEEDED_HERE)
                waiter.wake()

    def tell_failure(self, failure: CannError) -> None:
        """Tell the hooks of a failure; one that raises is logged."""
        for fn in list(self.failure_hooks.values()):
            try:
                fn(failure)
            except Exception:
                log.exception("a hook for failures has raised")

    def memory_changed(self) -> None:
        """Have all look again who wait for a value in device memory."""
        queues = list(self.pollers)
        self.pollers.clear()
        for queue in queues:
            self.post(queue)

    def memory_teller(self, device: int) -> Callable[[int], object]:
        """Give what writes down how much memory of a device is in use."""
        records, now = self.records, self.now
        return lambda used: records.memory_used(now(), device, used)

    def breathe(self, submitted: int) -> None:
        """Let the device keep up, on the wall clock: a host has enqueued a thousand tasks more, `submitted` in all."""
        if submitted - len(self.records) > BACKLOG and not self.clock.modelled and not self.on_device_thread():
            self._device_thread.hand_over()

    def arrive(self, arrival: Arrival) -> None:
        """Bring back an item whose body has run on another thread."""
        self.arrivals.append(arrival)
        self.news = True
        if self.asleep:
            self._device_thread.ring()

    def spend(self) -> None:
        """Let the host take its time for one call, on the virtual clock; a body in place takes none."""
        clock = self.clock
        if isinstance(clock, VirtualClock) and not self.on_device_thread():
            until = clock.time_ns + self.host_call_ns
            while self.drive(until) and self.stop:
                pass
            if not self.bodies.active:
                clock.time_ns = max(clock.time_ns, until)

    def poll(self) -> None:
        """Bring the present instant of virtual time up to date, because a host asks how things stand.

        Many questions in a row, with nothing else done between them, let the next thing happen: so polling ends.
        """
        clock = self.clock
        if isinstance(clock, VirtualClock):
            asked = self.next_id()
            self._polls = self._polls + 1 if asked == self._last_poll + 1 else 0
            self._last_poll = asked
            while self.drive(clock.time_ns) and self.stop:  # a host was woken, and there may be more at this instant
                pass
            if self._polls >= PATIENCE and clock.next_due_ns is not None:
                self.drive(clock.next_due_ns)

    def drive(self, deadline_ns: int = FOREVER, kept: list[Item] | None = None) -> bool:
        """Drive until nothing can be done now, a host has been woken, or the deadline; False if somebody else does."""
        baton = self._baton
        while True:
            if not baton.acquire(False):
                self._wanted = True
                if not baton.acquire(False):
                    return False
            self._driver = threading.get_ident()
            self.workers.kept = kept
            self.stop = self.hurry = False
            try:
                self.clock.run(deadline_ns)
            except BaseException as problem:
                self._crash(problem)
                raise
            finally:
                self.workers.kept = None
                self._driver = None
                self.driven += 1
                baton.release()
            if not self.news or self.stop:
                break
        self._let_others_drive()
        return True

    def _let_others_drive(self) -> None:
        """After the baton was let go: see that nobody waits for it in vain."""
        if self._wanted:
            self._wanted = False
            self.kick()
        if self.asleep and self.has_work:
            self._device_thread.ring()

    @property
    def has_work(self) -> bool:
        """Whether a driver would find something to do."""
        if self.called or self.inbox or self.arrivals or self.bodies.woken:
            return True
        timers = self._timed
        return bool(timers) and timers[0][0] <= self.now()

    def kick(self) -> None:
        """Have whoever waits on the virtual clock try again to drive; the wall clock needs none."""
        if self.clock.is_virtual:
            for waiter in list(self.waiting):
                waiter.kick()

    def move_time(self, host: HostLoop, item: Item | None = None) -> None:
        """Let virtual time go on until a coroutine of this loop can run, or the item has ended."""
        while host.is_quiet and (item is None or item.state < DONE):
            if not self.drive():
                host.look_later()
                return
            if self.stop:
                continue
            if self.is_stuck():
                self.raise_deadlock(here=item is not None)
            else:
                host.look_later()
            return

    # -- who waits ----------------------------------------------------------------------------------------------------

    def watch(self, item: Item, waiter: Waiter) -> bool:
        """Leave a waiter on the item; False if it has already ended (then the waiter may yet be woken once)."""
        with self._mutex:
            if item.state >= DONE:
                return False
            if item.waiters is None:
                item.waiters = [waiter]
            elif waiter not in item.waiters:
                item.waiters.append(waiter)
        if item.state >= DONE:
            self.wake(item)
            return False
        return True

    def unwatch(self, item: Item, waiter: Waiter) -> None:
        """Take a waiter back."""
        with self._mutex:
            if item.waiters is not None and waiter in item.waiters:
                item.waiters.remove(waiter)

    def wake(self, item: Item) -> None:
        """Tell whoever waits that the item has ended."""
        with self._mutex:
            waiters, item.waiters = item.waiters, None
        for waiter in waiters or ():
            waiter.wake()

    def on_device_thread(self) -> bool:
        """Say whether this thread is one of the device's, or is driving it just now."""
        here = threading.get_ident()
        return here == self._driver or here in self.threads

    # -- the end ------------------------------------------------------------------------------------------------------

    def check_alive(self) -> None:
        """Raise what anybody gets who still waits after the end: nobody would ever wake them."""
        if self.closed is not None:
            raise self.closed.error()

    def is_stuck(self) -> bool:
        """Whether on virtual time nothing is under way that could change anything."""
        clock = self.clock
        if not isinstance(clock, VirtualClock) or not self._baton.acquire(False):
            return False  # while another thread drives, something is under way
        try:
            if clock.next_due_ns is not None or self.bodies.active or self.has_work:
                return False
            if any(queue.head is None and queue.tasks for queue in list(self.queues)):  # one is being posted
                return False
            return not (self.minds_threads and self.somebody_may_act())
        finally:
            self._baton.release()

    def somebody_may_act(self) -> bool:
        """Whether there are threads besides this one that do not wait for the machine."""
        waiting = {waiter.blocks for waiter in list(self.waiting)} | self.threads | {threading.get_ident()}
        return any(thread.ident not in waiting for thread in threading.enumerate())

    def raise_deadlock(self, *, here: bool = True) -> None:
        """Give every waiter the DeadlockError; raise it for the caller, too, if it waits `here`."""
        problem = DeadlockError(
            107020,
            "deadlock: nothing that is waited for can happen: " + "; ".join(stuck(list(self.queues))),
            "Let something else do what they wait for, or wait in another order.",
        )
        for waiter in list(self.waiting):
            waiter.problem = problem
            waiter.wake()
        if here:
            raise problem

    def cancel(self, item: Item, problem: BaseException) -> bool:
        """Take an item out before it has started; False if it has."""
        queue = item.queue
        with self._mutex:  # of two who cancel it, one has
            try:
                queue.tasks.remove(item)
            except ValueError:
                found = False
            else:
                found = True
                item.outcome = problem
                item.state = CANCELLED
        if not found:  # it is its stream's head, and may yet wait for an engine or for another stream
            with self._at_rest():
                if item.state != QUEUED or queue.head is not item:
                    return False
                item.outcome = problem
                item.state = CANCELLED
            self.post(queue)
        item.args = None
        if item.waiters is not None:
            self.wake(item)
        return True

    def drop(self, queues: list[Queue], problem: BaseException) -> None:
        """End everything in the queues with `problem`, whatever it is doing."""
        with self._at_rest():
            for queue in queues:
                self.scheduler.drop(queue, problem)

    @contextlib.contextmanager
    def _at_rest(self) -> Iterator[None]:
        """Hold the baton: nobody drives meanwhile. Waits for at most the body that is running in place."""
        me = threading.get_ident()
        if self._driver == me:  # asked by a body in place: this thread has it already
            yield
            return
        self.stop = self.news = self.hurry = True
        while not self._baton.acquire(timeout=0.001):
            self.stop = self.news = self.hurry = True  # a driver that has begun anew is to stop as well
        self._driver = me
        try:
            yield
        finally:
            self._driver = None
            self._baton.release()
            self._let_others_drive()

    @contextlib.contextmanager
    def lent_to(self, thread: int) -> Iterator[None]:
        """As the driver: let what another thread does count as done by the driver."""
        driver, self._driver = self._driver, thread
        try:
            yield
        finally:
            self._driver = driver

    def close(self, why: str) -> None:
        """End everything; nothing can be enqueued any more."""
        if self.closed is not None:
            return
        self.closed = Refusal(507007, why)
        queues = list(self.queues)
        for queue in queues:
            queue.closed = self.closed
        self.drop(queues, self.closed.error())
        self._device_thread.stop()
        self.workers.stop()
        self.bodies.stop()

    def abandon(self) -> None:
        """Let idle threads end: nobody holds the runtime. A garbage collection calls it, so it takes no lock."""
        if not any(queue.pending for queue in list(self.queues)):
            self._device_thread.stop()
            self.workers.stop()
            self.bodies.stop()

    def _crash(self, problem: BaseException) -> None:
        log.critical("the simulated device has crashed; please report this", exc_info=problem)
        self.closed = Refusal(507000, f"the simulated device has crashed: {problem!r}", "Please report this.")
        for queue in list(self.queues):
            queue.closed = self.closed
            self.scheduler.drop(queue, self.closed.error())


FORKED = Refusal(
    507033,
    "the runtime was used before this process was forked, and its threads did not come along",
    "Start the child with spawn (multiprocessing.get_context('spawn')), or make the first Runtime in the child.",
)


def _after_fork() -> None:
    global _forked
    for machine in list(_machines):
        _forked = True
        machine.closed = FORKED
        for queue in list(machine.queues):
            queue.closed = FORKED


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
