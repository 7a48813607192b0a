"""The process as pyACL sees it: one runtime, handles that are integers, and what is current in each thread.

The runtime is made by the first call that needs it. Every implementation in this package begins with `current()`, or
with one of the look-ups here: they say what is wrong with a handle, in CANN's codes.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import threading
from typing import TYPE_CHECKING, TypeVar, cast

from .. import sync
from ..errors import error
from ..event import Event
from ..notify import Notify
from ..runtime import ClockName, device_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..soc import Soc
    from ..task import Task

T = TypeVar("T")
FIRST_HANDLE = 0xACC0_0000


class _Here(threading.local):
    """What belongs to one thread; nothing is inherited."""

    context: sync.Context | None = None
    last_task = 0
    adopted: sync.Stream | None = None
    """Whose limits of cores the thread goes by."""


here = _Here()


class Handles:
    """Integers that stand for objects. No two objects ever have the same, and none is 0."""

    def __init__(self) -> None:
        self._next = itertools.count(FIRST_HANDLE, 16).__next__
        self._objects: dict[int, object] = {}
        self._numbers: dict[int, int] = {}
        """By the identity of the objects, which live as long as they have a handle."""

    def put(self, thing: object) -> int:
        """Give the handle of an object; the same as before if it has one."""
        number = self._numbers.get(id(thing))
        if number is None:
            number = self._next()
            self._objects[number] = thing
            self._numbers[id(thing)] = number
        return number

    def get(self, number: int, kind: type[T], code: int) -> T:
        """Give the object; 0 is 100000, and one of another kind or of none is `code`."""
        thing = self._objects.get(number)
        if isinstance(thing, kind):
            return thing
        what = kind.__name__.lower()
        if not number:
            raise error(100000, f"the handle of the {what} is 0")
        raise error(code, f"{number:#x} is no handle of a {what}, or it has been destroyed")

    def peek(self, number: int) -> object:
        """Give the object, whatever it is; None if there is none."""
        return self._objects.get(number)

    def pop(self, number: int) -> None:
        """Forget a handle."""
        thing = self._objects.pop(number, None)
        self._numbers.pop(id(thing), None)

    def clear(self) -> None:
        """Forget all."""
        self._objects.clear()
        self._numbers.clear()

    def put_at(self, number: int, thing: object) -> None:
        """Let the program choose the handle: an address of its own."""
        self.pop(number)
        self._objects[number] = thing
        self._numbers[id(thing)] = number

    def forget_if(self, unwanted: Callable[[object], bool]) -> list[object]:
        """Forget all objects of which this holds, and give them."""
        found = [(number, thing) for number, thing in list(self._objects.items()) if unwanted(thing)]
        for number, _ in found:
            self.pop(number)
        return [thing for _, thing in found]

    def forget(self, context: sync.Context) -> None:
        """Forget a context that has ended, and its streams and events."""
        self.forget_if(
            lambda thing: thing is context or (isinstance(thing, sync.Stream | Event) and thing.context is context)
        )


class _Process:
    def __init__(self) -> None:
        self.runtime: sync.Runtime | None = None
        self.lock = threading.Lock()
        self.clock: ClockName | None = None
        self.soc: str | Soc | None = None
        self.devices: int | None = None
        self.default_device: int | None = None
        self.strict = os.environ.get("CANN_ASYNC_STRICT_COPIES", "0") not in ("", "0")
        """Whether the direction of a queued copy must be right."""


process = _Process()
handles = Handles()
_ends: list[Callable[[], None]] = []


def at_end(function: Callable[[], None]) -> Callable[[], None]:
    """Have `end` call a function that makes what a module keeps as new."""
    _ends.append(function)
    return function


def configure(
    *, clock: ClockName | None = None, soc: str | Soc | None = None, devices: int | None = None, strict: bool = False
) -> None:
    """Say what the runtime is to be; it must not have been used yet (507000)."""
    if process.runtime is not None:
        raise error(507000, "acl has been used already", "Say what the runtime is to be before the first call.")
    process.clock, process.soc, process.devices = clock, soc, devices
    process.strict = process.strict or strict


def runtime() -> sync.Runtime:
    """Give the runtime of the process; made by the first call.

    One reference is held by nobody: else the interpreter's last collection would close the generators of the engines,
    perhaps before it calls the program's own finalizers.
    """
    if process.runtime is None:
        with process.lock:
            if process.runtime is None:
                made = sync.Runtime(devices=process.devices, soc=process.soc, clock=process.clock)
                made._machine.minds_threads = True  # they may yet do what another one waits for
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
                process.runtime = made
    return process.runtime


def number_of_devices() -> int:
    """Give it without making the runtime."""
    if process.runtime is not None:
        return len(process.runtime.devices)
    return process.devices if process.devices is not None else device_count()


def end() -> None:
    """Begin anew: close the runtime and forget all handles. For tests; a program never needs it."""
    with process.lock:
        if process.runtime is not None:
            process.runtime.close(drain=False)
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(process.runtime))
        process.runtime = None
        process.clock = process.soc = process.devices = process.default_device = None
        process.strict = False
        for function in _ends:
            function()
        handles.clear()
        here.__dict__.clear()


def device_of(index: int) -> sync.Device:
    """Give a device by number; 107001 if there is none."""
    return runtime().device(index)


def current() -> sync.Context:
    """Give the context that is current in this thread; 107002 if there is none."""
    context = here.context
    if context is not None and context._closed is None:
        return context
    if process.default_device is not None and context is None:
        here.context = context = device_of(process.default_device).default_context
        return context
    if context is not None:
        raise error(107002, "the context of this thread has ended", "Set a device or a context in this thread.")
    raise error(107002, "this thread has no context", "Each thread needs its own set_device or set_context.")


def stream_of(handle: int) -> sync.Stream:
    """Give a stream of the current context; 0 is its default stream. One of another context is 107003."""
    context = current()
    if not handle:
        return context.default_stream
    found = handles.get(handle, sync.Stream, 507000)
    if found.context is not context:
        raise error(107003, f"{found!r} is not in the current context", "Set its context first.")
    return found


def any_stream(handle: int) -> sync.Stream:
    """Give a stream, whatever context is current; 0 is the default stream of the current one."""
    return handles.get(handle, sync.Stream, 507000) if handle else current().default_stream


def event_of(handle: int) -> sync.Event:
    """Give an event."""
    return cast("sync.Event", handles.get(handle, Event, 507000))  # or a latch, which has the same methods


def notify_of(handle: int) -> Notify:
    """Give a notify."""
    return handles.get(handle, Notify, 507000)


def enqueued(task: Task[object]) -> None:
    """Note what an implementation has enqueued: its number for this thread, and whose line it was.

    To be called by the implementation itself: the program is two frames further up.
    """
    here.last_task = task.id
    frame = sys._getframe(3)
    task.code, task.lasti = frame.f_code, frame.f_lasti
