"""Host callbacks: functions of the host that a stream calls when it reaches them.

A callback is ordinary work on an engine of its own. A function runs on a worker (on the virtual clock: in place), a
coroutine function on the loop of the host that enqueued it, or on the machine's own where there was none. Each
runs in the context variables of whoever enqueued it, copied at the call. Nothing in it may wait for the device.

`Reports` is the older way, in which threads of the program subscribe to streams and call what is due themselves.
"""

from __future__ import annotations

import threading
from collections import deque
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, cast

from ..errors import DeadlockError, error
from .bodies import current_body
from .task import DONE, NEVER_LIGHT, RUNNING, Item, TimerStop, Work
from .workers import SLICE_NS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .bodies import Place
    from .engine import Engine
    from .hosts import HostLoop
    from .machine import Machine
    from .queue import Queue

NEEDED_HERE = (
    107000,
    "cannot block here: a callback that is due must run on the event loop of this thread",
    "Await instead, or enqueue the callback where no loop is running.",
)
QUIET_S = 0.05
"""So long a thread that processes reports watches on virtual time whether others enqueue, before it moves time."""


class HostCall(Work):
    """A callback; ``args`` are the context, the function and its arguments."""

    __slots__ = ("is_asynchronous", "may_wait", "place")

    def __init__(self, name: str, engine: Engine, place: Place | None, *, is_asynchronous: bool) -> None:
        super().__init__(name, engine, gauge=NEVER_LIGHT)  # it is the program's code, and may take its time
        self.is_asynchronous = is_asynchronous
        self.place = place
        self.may_wait = isinstance(place, _Box)
        """A thread that processes reports is a host like any other."""

    def context(self, item: Item) -> Context:
        """Give the context of whoever enqueued it."""
        context, _, _ = _parts(item)
        context.run(current_body.set, item)
        return context

    def run(self, item: Item) -> object:
        """Call the function."""
        _, function, args = _parts(item)
        return self.context(item).run(function, *args)

    async def run_async(self, item: Item) -> object:
        """Await the coroutine function, within the context already."""
        _, function, args = _parts(item)
        return await cast("Awaitable[object]", function(*args))


def call_args(function: Callable[..., object], args: tuple[object, ...]) -> tuple[object, ...]:
    """Make the ``args`` of the item of a `HostCall`."""
    return (copy_context(), function, args)


def _parts(item: Item) -> tuple[Context, Callable[..., object], tuple[object, ...]]:
    return cast("tuple[Context, Callable[..., object], tuple[object, ...]]", item.args)


def check_may_wait(body: Item, item: Item) -> None:
    """Raise if this body must not wait for the item: in a callback, unless it only sleeps."""
    if isinstance(body.work, HostCall) and not body.work.may_wait and item.queue is not item.queue.machine.timer_queue:
        raise error(
            107000,
            f"cannot wait for the device inside the callback {body.work.name!r}: the device would wait for itself",
            "Enqueue and return, or wait on the host.",
        )


class OnLoop:
    """The loop of a host, as the place of a callback."""

    def __init__(self, machine: Machine, host: HostLoop) -> None:
        self._machine = machine
        self.host = host

    def begin(self, item: Item) -> None:
        """Make the callback a task of the loop; a loop that has been closed is its failure."""
        machine, loop = self._machine, self.host.loop
        try:
            loop.call_soon_threadsafe(machine.bodies.begin_on, loop, item)
        except RuntimeError:
            closed = RuntimeError("the event loop that enqueued this callback has been closed")
            machine.bodies.end(item, None, closed)
            return
        machine.loop_is_needed(self.host.thread)


class Reports:
    """Callbacks for subscribed threads (aclrtSubscribeReport, aclrtProcessReport); one per machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._ready = threading.Condition()
        self._boxes: dict[int, _Box] = {}
        self._threads: dict[Queue, int] = {}

    def subscribe(self, thread: int, queue: Queue) -> None:
        """Have the thread call what the stream is given.

        107011 if the stream has a thread, 107012 if the thread serves another device.
        """
        with self._ready:
            if queue in self._threads:
                raise error(107011, f"stream {queue.id} has a subscribed thread already")
            devices = {other.device for other, owner in self._threads.items() if owner == thread}
            if devices - {queue.device}:
                raise error(107012, f"thread {thread} is subscribed to streams of another device")
            self._threads[queue] = thread
            self._boxes.setdefault(thread, _Box(self, thread))

    def unsubscribe(self, thread: int, queue: Queue) -> None:
        """End it; 107011 if the stream has no such thread, 107012 if the thread has no stream at all."""
        with self._ready:
            if thread not in self._boxes:
                raise error(107012, f"thread {thread} is not subscribed")
            if self._threads.get(queue) != thread:
                raise error(107011, f"thread {thread} is not subscribed to stream {queue.id}")
            del self._threads[queue]
            if thread not in self._threads.values():
                del self._boxes[thread]

    def place(self, queue: Queue) -> _Box:
        """Give the place for callbacks of a stream; 107015 if no thread is subscribed."""
        with self._ready:
            thread = self._threads.get(queue)
            if thread is None:
                raise error(107015, f"no thread is subscribed to stream {queue.id}", "Subscribe one first.")
            return self._boxes[thread]

    def process(self, timeout: float | None = None) -> int:
        """Call all that is due for this thread, wait for the first; 507012 after `timeout` seconds without any.

        Gives how many there were. 107012 if this thread is not subscribed.
        """
        thread = threading.get_ident()
        with self._ready:
            box = self._boxes.get(thread)
            if box is None:
                raise error(107012, "this thread is not subscribed to any stream", "Subscribe it first.")
        machine = self._machine
        if machine.clock.is_virtual:
            self._wait_on_virtual_time(box, timeout)
        else:
            self._wait(box, timeout)
        if not box.due:
            raise error(507012, f"no callback came within {timeout} s")
        called, at_once = 0, len(box.due)
        until = machine.now() + SLICE_NS
        while box.due and (called < at_once or machine.now() < until):  # not for ever, if callbacks make callbacks
            self._call(box.due.popleft())
            called += 1
            if not machine.clock.modelled and machine.now() < until:  # what stands behind it may be due here as well
                machine.drive(until)
        return called

    def _wait(self, box: _Box, seconds: float | None) -> None:
        with self._ready:
            self._ready.wait_for(lambda: bool(box.due), seconds)

    def _wait_on_virtual_time(self, box: _Box, timeout: float | None) -> None:
        """Wait until something is due here, or so much virtual time has passed.

        Who waits for the device moves time, and then this thread need not. But the others may wait for its callbacks in
        ways of their own: then it moves time itself, once nobody has enqueued anything for a moment.
        """
        machine, left = self._machine, timeout
        self._let_time_pass(box, 0)
        while not box.due:
            if not machine.waiting and not machine.somebody_may_act():  # nobody but this thread
                self._let_time_pass(box, left)
                if not box.due and left is None:
                    raise DeadlockError(107020, "deadlock: no callback is due, and nobody else could enqueue one")
                return
            before = self._lasts(box)
            moment = QUIET_S if left is None else min(QUIET_S, left)
            self._wait(box, moment)
            self._let_time_pass(box, 0)
            is_pending = any(last is not None and last.state < DONE for last in before)
            if is_pending and not machine.waiting and self._lasts(box) == before:
                self._let_time_pass(box, left)
                if left is not None:
                    return
            elif left is not None:
                left -= moment
                if left <= 0:
                    return

    def _lasts(self, box: _Box) -> list[Item | None]:
        """Give the last items of the streams of a thread, and of what runs beside them."""
        queues = [queue for queue, owner in list(self._threads.items()) if owner == box.thread]
        return [one.last for queue in queues for one in (queue, queue.beside) if one is not None]

    def _let_time_pass(self, box: _Box, seconds: float | None) -> None:
        """Let so much virtual time pass (None: as much as it takes), or less if something becomes due here."""
        machine = self._machine
        if seconds is None:
            while not box.due and machine.drive() and machine.stop:
                pass
            return
        after_ns = int(seconds * 1e9)
        deadline, timer = machine.now() + after_ns, machine.timer(after_ns)
        while not box.due and machine.drive(deadline) and machine.stop:
            pass
        TimerStop(machine, timer).wake()

    def post(self, box: _Box, item: Item) -> None:
        """Tell the thread."""
        with self._ready:
            box.due.append(item)
            self._ready.notify_all()

    def _call(self, item: Item) -> None:
        outcome, problem = None, None
        if item.state == RUNNING:  # else its stream has been aborted
            context, function, args = item.work.context(item), *_parts(item)[1:]
            try:
                outcome = context.run(function, *args)
            except Exception as caught:
                problem = caught
        self._machine.bodies.end(item, outcome, problem)


class _Box:
    """What is due for one subscribed thread; a place."""

    def __init__(self, reports: Reports, thread: int) -> None:
        self._reports = reports
        self.thread = thread
        self.due: deque[Item] = deque()

    def begin(self, item: Item) -> None:
        """Tell the thread; it will call it."""
        self._reports.post(self, item)
