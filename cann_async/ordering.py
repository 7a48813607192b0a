"""Step 1: what orders streams among each other, and with the host: events, notifies, values in memory, callbacks.

`Ordering` is the half of `Stream` that enqueues them; all of it returns at once. Waiting on the device and waiting on
the host have different names: ``stream.wait(event)`` and ``await event``.
"""

from __future__ import annotations

import inspect
import operator
from typing import TYPE_CHECKING, TypeVar, cast, overload

import numpy as np

from ._machine.calls import HostCall, OnLoop, call_args
from ._machine.hosts import has_running_loop, running_host
from ._machine.task import DONE, Work, nanoseconds
from ._machine.waits import CONDITIONS, SetLatch, Wait, WaitLatch, WaitValue, WriteValue
from .errors import error
from .event import Event
from .memory import Buffer
from .notify import Notify
from .task import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    import numpy.typing as npt

    from ._machine.machine import Machine
    from ._machine.queue import Queue
    from ._machine.task import Item
    from .context import Context
    from .device import Device
    from .stream import Stream

R = TypeVar("R")


class Ordering:
    """What a `Stream` enqueues besides kernels and copies."""

    __slots__ = ()

    if TYPE_CHECKING:
        _context: Context
        _device: Device
        _machine: Machine
        _queue: Queue

        def _check(self) -> None: ...
        def _work(
            self, key: str, kind: type[Work], engine: str | None, name: str | None = None, label: str | None = None
        ) -> Work: ...
        def _enqueue(
            self, work: Work, args: tuple[object, ...], nbytes: int, cost: int = -1, up: int = 2
        ) -> Task[object]: ...

    def record(self, event: Event | None = None) -> Event:
        """Record an event, a new one if none is given; mirrors aclrtRecordEvent. Another context's is 107003."""
        self._check()
        if event is None:
            event = self._context.create_event()
        elif not isinstance(event, Event):
            raise TypeError(f"record needs an Event, not {type(event).__name__}")
        event._check()
        self._check_context(event._context, repr(event))
        work, args = event._recording(self._work)
        event._record = cast("Task[None]", self._enqueue(work, args, 0))
        return event

    def wait(self, what: Event | Task[object] | Stream, timeout: float | None = None) -> Task[None]:
        """Hold later tasks of this stream until something is complete; mirrors aclrtStreamWaitEvent[WithTimeout].

        That is an event's latest record, a task, or all that another stream has been given so far. The host does not
        wait. An event that was never recorded holds nothing. Another context's event or stream is 107003. After
        `timeout` seconds (default: `Runtime.op_wait_timeout`) the wait fails with 107020 and the stream goes on. If
        what is waited for is aborted, the wait fails, and what was enqueued behind it is dropped.
        """
        self._check()
        limit = self._wait_limit(timeout)
        target: Item | None
        label = None
        if isinstance(what, Event):
            label = what.name
            what._check()
            self._check_context(what._context, repr(what))
            latch, target = what._awaited()
            if latch is not None:
                work = self._work("wait latch", WaitLatch, None, "wait", label)
                waiting = self._enqueue(work, (latch, limit, None), 0)
                what._note_wait(waiting)
                return cast("Task[None]", waiting)
        elif isinstance(what, Task):
            owner = what.stream
            if what.queue.machine is not self._machine or (owner is not None and owner._context is not self._context):
                raise error(107003, f"{what!r} belongs to another context than {self!r}")
            target = what
        elif isinstance(what, Ordering):
            what._check()
            self._check_context(what._context, repr(what))
            target = what._queue.last
        else:
            raise TypeError(f"a stream waits for an Event, a Task or a Stream, not {type(what).__name__}")
        if target is None:
            return cast("Task[None]", self._enqueue(self._work("wait nothing", Work, None, "wait", label), (), 0))
        work = self._work("wait", Wait, None, label=label)
        return cast("Task[None]", self._enqueue(work, (target, limit, None), target.id))

    def record_notify(self, notify: Notify) -> Task[None]:
        """Set a notify when the stream gets there; twice before a wait is once. Mirrors aclrtRecordNotify."""
        latch = self._latch_of(notify)
        work = self._work("record notify", SetLatch, None, label=notify.name)
        return cast("Task[None]", self._enqueue(work, (latch,), 0))

    def wait_notify(self, notify: Notify, timeout: float | None = None) -> Task[None]:
        """Hold later tasks of this stream until the notify is set, and clear it; mirrors aclrtWaitAndResetNotify.

        A wait always waits, also for what was recorded before it. After `timeout` seconds it fails with 107020.
        """
        latch, limit = self._latch_of(notify), self._wait_limit(timeout)
        work = self._work("wait notify", WaitLatch, None, label=notify.name)
        return cast("Task[None]", self._enqueue(work, (latch, limit, None), 0))

    def write_value(self, buf: Buffer, value: int) -> Task[None]:
        """Write 64 bits to the beginning of a buffer when the stream gets there; mirrors aclrtValueWrite.

        A buffer that is not 8-byte aligned or has less than 8 bytes, or a value that is not of 64 bits, is 107000.
        """
        args = (self._eight_bytes(buf), _of_64_bits(value))
        return cast("Task[None]", self._enqueue(self._work("write value", WriteValue, None), args, 8))

    def wait_value(self, buf: Buffer, value: int, op: str = "ge", timeout: float | None = None) -> Task[None]:
        """Hold later tasks until the first 64 bits of a buffer fulfil a condition; mirrors aclrtValueWait.

        `op` is "ge" (as signed difference), "eq", "and" (some bit in common) or "nor". Whoever writes there releases
        the stream: a kernel, a copy, `write_value`. Misuse as `write_value`; after `timeout` seconds it fails: 107020.
        """
        if op not in CONDITIONS:
            raise error(107000, f"op must be {', '.join(map(repr, CONDITIONS))}, not {op!r}")
        what = (self._eight_bytes(buf), _of_64_bits(value), op)
        args = (what, self._wait_limit(timeout), None)
        return cast("Task[None]", self._enqueue(self._work("wait value", WaitValue, None), args, 0))

    @overload
    def call(self, fn: Callable[..., Coroutine[object, object, R]], *args: object, block: bool = ...) -> Task[R]: ...
    @overload
    def call(self, fn: Callable[..., R], *args: object, block: bool = ...) -> Task[R]: ...
    def call(self, fn: Callable[..., object], *args: object, block: bool = True) -> Task[object]:
        """Call a function of the host when the stream gets there; mirrors aclrtLaunchCallback and aclrtLaunchHostFunc.

        It runs in a copy of the caller's context variables: a function on a thread of the device, a coroutine function
        on the running loop, or on the runtime's own if none is running. With `block` later tasks of the stream wait
        for it; without, only `synchronize` does. It may enqueue; waiting for the device in it is 107000. What it
        raises is the failure of this task.
        """
        if not callable(fn):
            raise TypeError(f"a callback is a function, not {type(fn).__name__}")
        self._check()
        name = str(getattr(fn, "__name__", type(fn).__name__))
        engine = self._device._engines["callback"]
        is_coroutine = inspect.iscoroutinefunction(fn)
        on_host = is_coroutine and has_running_loop() and not self._machine.on_device_thread()
        place = OnLoop(self._machine, running_host()) if on_host else None
        work = HostCall(name, engine, place, is_asynchronous=is_coroutine)
        task = self._enqueue_call(work, call_args(fn, args), block)
        if self._machine.clock.is_virtual and has_running_loop():  # the host may wait for what the callback does
            task.add_done_callback(_nothing)
        return task

    def _call_subscribed(self, fn: Callable[..., object], args: tuple[object, ...], block: bool) -> Task[object]:
        """Have the subscribed thread call a function; 107015 if there is none. Mirrors aclrtLaunchCallback."""
        self._check()
        place = self._machine.reports.place(self._queue)
        name = str(getattr(fn, "__name__", type(fn).__name__))
        work = HostCall(name, self._device._engines["callback"], place, is_asynchronous=True)
        return self._enqueue_call(work, call_args(fn, args), block)

    def _enqueue_call(self, work: Work, args: tuple[object, ...], block: bool) -> Task[object]:
        """Enqueue a callback; those that do not block run, in order, on a queue beside this one."""
        queue = self._queue
        if block:
            earlier = queue.beside.last if queue.beside is not None else None
            if earlier is not None and earlier.state < DONE:
                self._enqueue(self._work("wait", Wait, None), (earlier, None, None), earlier.id, up=3)
            return self._enqueue(work, args, 0, up=3)
        posted = self._enqueue(self._work("post callback", Work, None), (), 0, up=3)
        beside = queue.beside
        if beside is None:
            beside = queue.beside = self._context._new_queue(queue.priority, f"{queue.name or queue.id} callbacks")
            beside.failed = queue.failed
        wait = Wait("wait", None)
        machine = self._machine
        for one, values in ((wait, (posted, None, None)), (work, args)):
            number, now = machine.next_id(), machine.now()
            task: Task[object] = Task(number, beside, one, values, 0, -1, now, posted.code, posted.lasti)
            machine.submit(beside, task)
        return task

    def _wait_limit(self, timeout: float | None) -> int | None:
        return nanoseconds(timeout) if timeout is not None else self._machine.op_wait_timeout_ns

    def _latch_of(self, notify: Notify) -> object:
        self._check()
        if not isinstance(notify, Notify):
            raise TypeError(f"this needs a Notify, not {type(notify).__name__}")
        notify._check()
        if notify._device._machine is not self._machine:
            raise error(107000, f"{notify!r} belongs to another runtime than {self!r}")
        return notify._latch

    def _eight_bytes(self, buf: Buffer) -> npt.NDArray[np.uint64]:
        self._check()
        if not isinstance(buf, Buffer):
            raise TypeError(f"this needs a Buffer, not {type(buf).__name__}")
        buf._check()
        if buf._allocation.device is not self._device:
            self._device._check_peer(buf._allocation.device)
        array = buf._array
        if buf.address % 8 or array.nbytes < 8 or not array.flags.c_contiguous:
            raise error(107000, f"{buf!r} does not begin with 8 contiguous bytes that are 8-byte aligned")
        return cast("npt.NDArray[np.uint64]", array.reshape(-1).view(np.uint8)[:8].view(np.uint64))

    def _check_context(self, context: Context, what: str) -> None:
        if context is not self._context:
            raise error(
                107003, f"{what} belongs to another context than {self!r}", "Streams and events of contexts never mix."
            )


def _nothing(task: Task[object]) -> None:
    """Be told of the end: a loop that is to be told is a host that waits, so virtual time moves for it."""


def _of_64_bits(value: int) -> int:
    number = operator.index(value)
    if not -(1 << 63) <= number < 1 << 64:
        raise error(107000, f"{number} does not fit in 64 bits")
    return number % (1 << 64)
