"""Events: what a stream has reached, as a future with a timestamp.

An event stands for its latest record, an item in a stream's queue. `Stream.wait(event)` binds to the record that is
the latest when it is called; before any record it is a no-op. Waiting on the device and waiting on the host have
different names: `stream.wait(event)` and `await event`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._machine.completion import wait
from ._machine.task import DONE, DROPPED
from .errors import error

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Generator

    from .context import Context
    from .stream import Stream
    from .task import Task


class Event:
    """Made by `create_event` of a device or context, or by `Stream.record`."""

    __slots__ = ("__weakref__", "_closed", "_context", "_record", "name", "timing")

    def __init__(self, context: Context, *, timing: bool = True, name: str | None = None) -> None:
        self._context = context
        self._record: Task[None] | None = None
        self._closed = False
        self.timing = timing
        self.name = name

    @property
    def context(self) -> Context:
        """The context whose streams may record it and wait for it."""
        return self._context

    @property
    def recorded(self) -> bool:
        """Whether it has ever been recorded."""
        return self._record is not None

    def record(self, stream: Stream) -> None:
        """Record it on a stream: it is complete when everything enqueued there so far is; mirrors aclrtRecordEvent."""
        stream.record(self)

    def query(self) -> bool:
        """Say whether the latest record is complete, True before any; never waits.

        Mirrors aclrtQueryEventStatus and aclrtQueryEvent.
        """
        self._check()
        record = self._record
        return record is None or record.done()

    async def synchronize(self) -> None:
        """Wait on the host until the latest record is complete, at once before any; mirrors aclrtSynchronizeEvent."""
        await self._synchronize()

    async def _synchronize(self) -> None:
        await self

    def __await__(self) -> Generator[object, None, None]:
        self._check()
        record = self._record
        if record is not None:
            if record.state < DONE:
                yield from wait(record.queue.machine, record)
            if record.state == DROPPED:
                record._result()

    def future(self) -> asyncio.Future[None]:
        """Give an `asyncio.Future` of the running loop for the latest record."""
        self._check()
        if self._record is None:
            raise error(507000, f"{self!r} was never recorded", "Record it on a stream first.")
        return self._record.future()

    @property
    def timestamp_ns(self) -> int:
        """When the latest record was complete, in nanoseconds of the runtime's clock.

        Never recorded is 507000; not complete, or made without timing, is 107006. Mirrors aclrtEventGetTimestamp.
        """
        self._check()
        record = self._record
        if not self.timing:
            raise error(107006, f"{self!r} was made without timing", "Use create_event(timing=True).")
        if record is None:
            raise error(507000, f"{self!r} was never recorded", "Record it on a stream first.")
        if record.state != DONE:
            raise error(107006, f"{self!r} is recorded but not complete", "Wait first: await event.")
        finished = record.finished_ns
        assert finished is not None
        return finished

    def elapsed_time(self, end: Event) -> float:
        """Give the milliseconds from this event to `end`, negative in the wrong order; mirrors aclrtEventElapsedTime.

        Both must have timing and be complete: `timestamp_ns` says what is raised otherwise.
        """
        if not isinstance(end, Event):
            raise TypeError(f"end must be an Event, not {type(end).__name__}")
        return (end.timestamp_ns - self.timestamp_ns) / 1e6

    def __sub__(self, start: Event) -> float:
        if not isinstance(start, Event):
            return NotImplemented
        return start.elapsed_time(self)

    def close(self) -> None:
        """Give the event back; what already waits for it goes on. Mirrors aclrtDestroyEvent."""
        self._closed = True

    def _check(self) -> None:
        if self._closed:
            raise error(507000, f"Event{f' {self.name!r}' if self.name else ''} has been closed")

    def __bool__(self) -> bool:
        return not self._closed

    def __repr__(self) -> str:
        if self._closed:
            state = "closed"
        elif self._record is None:
            state = "never recorded"
        else:
            state = f"recorded on stream {self._record.queue.id}, "
            state += "complete" if self._record.state >= DONE else "pending"
        return f"<Event{f' {self.name!r}' if self.name else ''}, {state}>"
