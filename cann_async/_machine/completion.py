"""Step 5: whoever waits for an item.

An item that nobody waits for costs nothing here: no future, no lock. Whoever waits first tries to drive the machine
itself, which is about fifty times cheaper than being woken by another thread; only then is a waiter left on the item.

Protocol without a lock on the hot side: the driver sets the item's state and then looks for waiters; who waits adds
itself and then looks at the state once more. So a wake-up can come twice, and never not at all.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the C half of `signal`; typeshed does not have it
import signal
import threading
import time
from typing import TYPE_CHECKING, TypeVar

from ..errors import error
from .bodies import current_body
from .calls import NEEDED_HERE, OnLoop, check_may_wait
from .hosts import MOMENT_S, HostLoop, running_host
from .task import DONE, Item, TimerStop
from .workers import SLICE_NS

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Coroutine, Generator

    from .bodies import Place
    from .machine import Machine
MAIN_THREAD = threading.main_thread().ident
T = TypeVar("T")


class Awaiter:
    """One coroutine that waits; `body` is set if it belongs to an asynchronous kernel and not to a host."""

    __slots__ = ("_future", "_host", "_machine", "body", "problem", "woken")

    blocks = 0
    """The thread that can do nothing else meanwhile: none."""

    def __init__(self, machine: Machine, host: HostLoop, body: Item | None) -> None:
        self._machine = machine
        self._host = host
        self._future: Future[None] = host.loop.create_future()
        self.body = body
        self.woken = False
        self.problem: BaseException | None = None

    def wake(self) -> None:
        """Set the future on its loop; a body's on virtual time when the driver has time for it."""
        machine = self._machine
        is_virtual = machine.clock.is_virtual
        if is_virtual and self.body is not None:
            machine.bodies.woken.append(self)
            machine.news = True
            return
        if is_virtual:  # time must stand still while somebody can go on
            machine.stop = machine.news = True
        self.deliver()

    def deliver(self) -> None:
        """Set the future on its loop."""
        self._host.wake(self._future)

    def kick(self) -> None:
        """Try to drive again: another thread has let go of the baton."""
        self._host.kick()

    def wait(self, item: Item) -> Generator[Future[None], None, None]:
        """Suspend until the item has ended."""
        machine, host, body = self._machine, self._host, self.body
        moves_time = machine.clock.is_virtual and body is None
        machine.waiting[self] = item
        try:
            if machine.watch(item, self):
                if body is not None:
                    machine.bodies.park(self)
                if moves_time:
                    host.watch(machine)
                try:
                    yield from self._future
                finally:
                    if moves_time:
                        host.unwatch(machine)
        except BaseException:  # cancelled: the item does not mind
            machine.unwatch(item, self)
            if body is not None:
                machine.bodies.unpark(self)
            raise
        finally:
            del machine.waiting[self]
        if self.problem is not None:
            raise self.problem


class _Mode(threading.local):
    blocking = False


mode = _Mode()
"""Whether this thread is in `run_blocking`."""


def run_blocking(coroutine: Coroutine[object, object, T]) -> T:
    """Run a coroutine that waits for nothing but machines to its end in this thread, also inside a running loop."""
    outer, mode.blocking = mode.blocking, True
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        mode.blocking = outer
        coroutine.close()
    raise RuntimeError(f"{coroutine!r} waited for something that is not the machine's")


class Sleeper:
    """One thread that blocks."""

    __slots__ = ("_lock", "blocks", "problem")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self.blocks = threading.get_ident()
        self.problem: BaseException | None = None

    def wake(self) -> None:
        """Let the thread go on."""
        try:
            self._lock.release()
        except RuntimeError:  # woken twice
            pass

    kick = wake

    def sleep(self, timeout: float = -1) -> None:
        """Block until woken; KeyboardInterrupt gets through."""
        self._lock.acquire(timeout=timeout)


def wait(machine: Machine, item: Item, asked_for: Item | None = None) -> Generator[Future[None] | None, None, None]:
    """Wait for the item in a coroutine of any running loop; the body of every `__await__`.

    `asked_for` is what the host really wants, if it is not the item: then the item is a timer.
    """
    if mode.blocking:
        block(machine, item, asked_for)
        return
    machine.check_alive()
    host = running_host()
    body = current_body.get()
    if body is not None:
        check_may_wait(body, item)
        yield from _wait(machine, item, host, body)
        return
    began = machine.now()
    wanted = asked_for or item
    if machine.host_call_ns and wanted.queue is not machine.timer_queue:
        machine.spend()
    try:
        yield from _wait(machine, item, host, None)
    finally:
        machine.records.host_waited(wanted.id, began, machine.now())


def _wait(
    machine: Machine, item: Item, host: HostLoop, body: Item | None
) -> Generator[Future[None] | None, None, None]:
    clock = machine.clock
    if clock.is_virtual:
        if body is None and host.is_quiet:
            machine.watch(item, machine.stopper)
            machine.move_time(host, item)
    elif clock.hosts_drive:
        now = machine.now
        while item.state < DONE:
            present = now()
            if present >= host.slice_ends_ns:  # fairness: everybody else on this loop gets a turn
                yield None
                host.slice_ends_ns = now() + SLICE_NS
                continue
            machine.watch(item, machine.stopper)
            if not machine.drive(present + SLICE_NS):
                break
            if not machine.called:
                break
    if item.state < DONE:
        yield from Awaiter(machine, host, body).wait(item)
        host.slice_ends_ns = machine.now() + SLICE_NS


class Ended:
    """Awaitable: an item has ended, however it did; False if it has not within the time that is given."""

    __slots__ = ("_item", "_timeout_ns")

    def __init__(self, item: Item, timeout_ns: int | None = None) -> None:
        self._item = item
        self._timeout_ns = timeout_ns

    def __await__(self) -> Generator[Future[None] | None, None, bool]:
        item, machine = self._item, self._item.queue.machine
        if item.state >= DONE:
            return True
        if self._timeout_ns is None:
            yield from wait(machine, item)
            return True
        body = current_body.get()
        if body is not None:
            check_may_wait(body, item)
        timer = machine.timer(self._timeout_ns)
        stop = TimerStop(machine, timer)
        try:
            if machine.watch(item, stop):
                yield from wait(machine, timer, item)
        finally:
            machine.unwatch(item, stop)
            stop.wake()
        return item.state >= DONE


def block(machine: Machine, item: Item, asked_for: Item | None = None) -> None:
    """Wait for the item in this thread, also inside a running loop; KeyboardInterrupt gets through."""
    if machine.on_device_thread():
        raise error(
            107000,
            "cannot block inside a kernel or a callback: the device would wait for itself",
            "Enqueue and return, or wait on the host.",
        )
    machine.check_alive()
    body = current_body.get()
    if body is not None:
        check_may_wait(body, item)
        machine.bodies.pause(-1)
    began = machine.now()
    wanted = asked_for or item
    if machine.host_call_ns and wanted.queue is not machine.timer_queue:
        machine.spend()
    sleeper: Sleeper | None = None
    since = 0
    try:
        while item.state < DONE:
            if sleeper is None:
                machine.watch(item, machine.stopper)
            if machine.clock.hosts_drive and _drive_shielded(machine):
                if item.state >= DONE:
                    return
                if machine.stop:
                    continue
                if machine.is_stuck():
                    machine.raise_deadlock()
            if sleeper is None:
                sleeper, since = Sleeper(), time.monotonic_ns()
                machine.waiting[sleeper] = item
                if any(isinstance(place, OnLoop) and place.host.thread == sleeper.blocks for place in _places(machine)):
                    raise error(*NEEDED_HERE)
                machine.watch(item, sleeper)
                continue  # the item, or the baton, may have become free meanwhile
            sleeper.sleep(MOMENT_S if machine.clock.is_virtual else -1)  # as `HostLoop.look_later`
            if sleeper.problem is not None:
                raise sleeper.problem
            if _has_stood_still(machine, item, since):
                TimerStop(machine, item).wake()
    finally:
        if sleeper is not None:
            machine.waiting.pop(sleeper, None)
            machine.unwatch(item, sleeper)
        if body is not None:
            machine.bodies.pause(1)
        else:
            machine.records.host_waited(wanted.id, began, machine.now())


def _has_stood_still(machine: Machine, item: Item, since: int) -> bool:
    """Whether the item is a timer of virtual time that stands still, and its time is over in real time.

    Time stands still until a host has called what is due on its thread. A timeout ends nevertheless.
    """
    if not (machine.clock.is_virtual and machine.bodies.elsewhere and item.queue is machine.timer_queue):
        return False
    return item.state < DONE and time.monotonic_ns() - since >= item.finished - item.submitted


def _places(machine: Machine) -> list[Place]:
    return list(machine.bodies.elsewhere.values())


def _drive_shielded(machine: Machine) -> bool:
    """Drive; in the main thread Ctrl-C is kept back until the machine is in one piece again.

    `_signal.signal` costs 0.3 us, `signal.signal` 4.6 us: it only converts enums.
    """
    if threading.get_ident() != MAIN_THREAD or _signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return machine.drive()
    hits = 0

    def keep_back(number: int, frame: object) -> None:
        nonlocal hits
        hits += 1
        if hits > 1:
            raise KeyboardInterrupt
        machine.stop = machine.news = machine.hurry = True

    _signal.signal(signal.SIGINT, keep_back)
    try:
        driven = machine.drive()
    finally:
        _signal.signal(signal.SIGINT, signal.default_int_handler)
    if hits:
        raise KeyboardInterrupt
    return driven
