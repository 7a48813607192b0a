"""Contexts: what streams and events belong to, and what is current.

Objects of different contexts never mix (107003); device memory belongs to the device, not to a context. Every context
has one default stream, an ordinary FIFO that neither waits for the others nor holds them up. What is current is a
ContextVar that `use` sets for a block: coroutines and threads never see each other's.
"""

from __future__ import annotations

import contextlib
import operator
from contextvars import ContextVar
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from ._machine.completion import Ended
from ._machine.queue import PRIORITIES, Domain, Queue, Refusal
from ._machine.task import DONE, nanoseconds
from .errors import CannError, error
from .event import Event, LatchEvent
from .notify import Notify
from .stream import Stream, _all_ended, check_failure_mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .device import Device
    from .task import Task


class Context:
    """Made by `Device.create_context`; every device has a default one."""

    _stream_type: ClassVar[type[Stream]] = Stream
    _event_type: ClassVar[type[Event]] = Event
    _latch_event_type: ClassVar[type[LatchEvent]] = LatchEvent

    def __init__(self, device: Device, *, is_default: bool = False) -> None:
        self._device = device
        self._machine = device._machine
        self._is_default = is_default
        self._closed: Refusal | None = None
        self._domain = Domain()
        self._queues = self._domain.queues
        device._contexts.add(self)
        self._default_stream = self._stream_type(self, self._new_queue(0, "default"), is_default=True)

    @property
    def device(self) -> Device:
        """The device it is on."""
        return self._device

    @property
    def default_stream(self) -> Stream:
        """The stream that comes with the context. Mirrors aclrtCtxGetCurrentDefaultStream."""
        return self._default_stream

    def create_stream(self, priority: int = 0, name: str | None = None, failure_mode: str = "continue") -> Stream:
        """Make a stream; `priority` 0 (most urgent) to 7, else 107000.

        `failure_mode` "stop" is as `Stream.set_failure_mode`. More streams than the Soc has are 207008. Mirrors
        aclrtCreateStream and aclrtCreateStreamWithConfig.
        """
        self._check()
        rank = operator.index(priority)
        if not 0 <= rank < PRIORITIES:
            raise error(107000, f"priority must be 0 (most urgent) to {PRIORITIES - 1}, not {rank}")
        stops = check_failure_mode(failure_mode)
        device = self._device
        if not device.streams_available:
            limit = device.soc.max_streams
            raise error(207008, f"{device!r} has {limit} streams, and {limit} are alive", "Close one first.")
        self._domain.stops = self._domain.stops or stops
        stream = self._stream_type(self, self._new_queue(rank, name))
        device.runtime._tell(device.runtime._stream_hooks, "create_post", stream)
        return stream

    def create_event(
        self,
        timing: bool = True,
        name: str | None = None,
        kind: Literal["snapshot", "latch", "sync latch"] = "snapshot",
    ) -> Event:
        """Make an event, with a timestamp unless `timing` is off. Mirrors aclrtCreateEventExWithFlag.

        Kind "latch" mirrors aclrtCreateEvent and "sync latch" aclrtCreateEventWithFlag, see `LatchEvent`. More events
        than the Soc has are 207007.
        """
        self._check()
        if kind == "snapshot":
            return self._event_type(self, timing=timing, name=name)
        if kind not in ("latch", "sync latch"):
            raise error(107000, f"kind must be 'snapshot', 'latch' or 'sync latch', not {kind!r}")
        return self._latch_event_type(self, kind=kind, timing=timing, name=name)

    def create_notify(self, name: str | None = None) -> Notify:
        """Make a notify; mirrors aclrtCreateNotify. More than the Soc has are 207009."""
        self._check()
        return Notify(self._device, name)

    async def synchronize(self, timeout: float | None = None) -> None:
        """Wait for everything enqueued so far on every stream of the context; mirrors aclrtSynchronizeDevice.

        Raises the first failure that nobody has seen yet, once. Not done within `timeout` seconds is 507046.
        """
        await self._synchronize(timeout)

    async def _synchronize(self, timeout: float | None = None) -> None:
        limit = nanoseconds(timeout)
        self._check()
        queues = list(self._queues)
        await _all_ended([queue.last for queue in queues if queue.last is not None], limit, self)
        self._device._check()
        if self._domain.failure is not None:
            raise self._domain.failure.error()
        _raise_failures(queues)

    async def destroy(self) -> None:
        """Finish and close every stream, then the context; mirrors aclrtDestroyContext. A default one is 107002."""
        await self._destroy()

    async def _destroy(self) -> None:
        if self._is_default:
            raise error(107002, "a device's default context cannot be destroyed", "Close or reset the device.")
        if self._closed is not None:
            return
        self._closed = Refusal(107002, f"{self!r} has been destroyed")
        queues = list(self._queues)
        for queue in queues:
            if queue.closed is None:
                queue.closed = Refusal(507000, f"Stream {queue.id} has been closed: its context was destroyed")
        for last in [queue.last for queue in queues]:
            if last is not None and last.state < DONE:
                await Ended(last)
        for queue in queues:
            self._release_queue(queue)
        _raise_failures(queues)

    def __bool__(self) -> bool:
        return self._closed is None

    def __repr__(self) -> str:
        kind = "default context" if self._is_default else "context"
        state = "closed" if self._closed is not None else f"{len(self._queues)} streams"
        return f"<Context: {kind} of npu:{self._device.index}, {state}>"

    def _check(self) -> None:
        self._device._check()
        if self._closed is not None:
            raise self._closed.error()

    def _new_queue(self, priority: int, name: str | None) -> Queue:
        machine = self._machine
        queue = Queue(machine, self._device.index, machine.next_queue_id(), priority, name, self._domain)
        machine.queues[queue] = None
        queue.closed = self._domain.failure
        self._device._live["streams"] += 1
        self._queues[queue] = None
        return queue

    def _release_queue(self, queue: Queue) -> None:
        self._machine.queues.pop(queue, None)
        if queue.last is not None and queue.last.state >= DONE:
            queue.last = None  # the two would keep each other alive
        if self._queues.pop(queue, queue) is None:  # it was there
            self._device._live["streams"] -= 1

    def _releaser(self, queue: Queue) -> Callable[[], None]:
        return lambda: self._release_queue(queue)


def _raise_failures(queues: list[Queue]) -> None:
    for queue in queues:
        while queue.failed:
            task = cast("Task[object]", queue.failed.pop(0))
            failure = task.outcome
            if isinstance(failure, CannError) and not failure.reported:
                task._result()


_current: ContextVar[Device | Context | Stream | None] = ContextVar("cann_async_current", default=None)


@contextlib.contextmanager
def use(what: Device | Context | Stream) -> Iterator[None]:
    """Make a device, context or stream current for the block; what was current comes back, whatever happens.

    Mirrors aclrtSetDevice and aclrtSetCurrentContext, but per task of asyncio and per thread, and only for a block.
    """
    from .device import Device  # devices need contexts

    if not isinstance(what, Device | Context | Stream):
        raise TypeError(f"use() takes a Device, Context or Stream, not {type(what).__name__}")
    token = _current.set(what)
    try:
        yield
    finally:
        _current.reset(token)


def current_stream() -> Stream:
    """Give the current stream: the one in use, or the default stream of the device or context in use; else 107002.

    Its `context` mirrors aclrtGetCurrentContext.
    """
    what = _current.get()
    if what is None:
        raise error(
            107002,
            "no device or stream is current here",
            "Make one current with `with cann_async.use(device):` or pass the stream. "
            "A new thread starts without one, as after no set_device.",
        )
    return what if isinstance(what, Stream) else what.default_stream


def current_device() -> Device:
    """Give the current device, as `current_stream` does; mirrors aclrtGetDevice."""
    return current_stream().device
