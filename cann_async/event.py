"""Events: what a stream has reached, as a future with a timestamp.

An event stands for its latest record, an item in a stream's queue. `Stream.wait(event)` binds to the record that is
the latest when it is called; before any record it is a no-op. Waiting on the device and waiting on the host have
different names: `stream.wait(event)` and `await event`. `LatchEvent` is CANN's older kind, a bit that is set and reset.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ._machine.completion import Ended, wait
from ._machine.task import CANCELLED, DONE, Work, nanoseconds
from ._machine.waits import ClearLatch, Latch, SetLatch
from .errors import SyncTimeout, error

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator

    from ._machine.task import Item
    from .context import Context
    from .stream import Stream
    from .task import Task


class Event:
    """Made by `create_event` of a device or context, or by `Stream.record`."""

    __slots__ = ("__weakref__", "_closed", "_context", "_record", "name", "timing")

    kind = "snapshot"
    """Of `create_event`: "snapshot", "latch" or "sync latch"."""

    def __init__(self, context: Context, *, timing: bool = True, name: str | None = None) -> None:
        self._closed = True  # until it has its place among the device's
        context.device._take("events")
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

    def query_status(self) -> bool:
        """Say whether it is complete, as aclrtQueryEventStatus does: before any record True, of a latch False."""
        return self.query()

    def query_wait_status(self) -> bool:
        """Say whether every stream that waits for a latch has passed; mirrors aclrtQueryEventWaitStatus.

        A snapshot does not know who waits for it: 207000.
        """
        self._check()
        raise error(207000, f"{self!r} does not know which streams wait for it", "Make it with kind='latch'.")

    def reset(self, stream: Stream | None = None) -> None:
        """Make it as if never recorded; what already waits goes on. Mirrors aclrtResetEvent.

        With a stream a latch is reset when the stream gets there. A latch without a stream is 107000.
        """
        self._check()
        if stream is not None:
            stream._check()
            stream._check_context(self._context, repr(self))
        self._record = None

    async def synchronize(self, timeout: float | None = None) -> None:
        """Wait on the host until the latest record is complete, at once before any.

        Not within `timeout` seconds is 507047 (`SyncTimeout`). Mirrors aclrtSynchronizeEvent[WithTimeout].
        """
        await self._synchronize(timeout)

    async def _synchronize(self, timeout: float | None = None) -> None:
        limit = nanoseconds(timeout)
        self._check()
        record = self._record
        if limit is not None and record is not None and not await Ended(record, limit):
            raise SyncTimeout(507047, f"{self!r} was not complete within {timeout:g} s", "The work goes on.")
        await self

    def __await__(self) -> Generator[object, None, None]:
        self._check()
        record = self._record
        if record is not None:
            if record.state < DONE:
                yield from wait(record.queue.machine, record)
            if record.state >= CANCELLED:
                record._result()
            self._check()

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
        """Give the event back; what already waits for it goes on. Twice is fine. Mirrors aclrtDestroyEvent."""
        if not self._closed:
            self._closed = True
            self._context.device._give_back("events")

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and not sys.is_finalizing():
            self.close()

    def _check(self) -> None:
        if self._closed:
            raise error(507000, f"Event{f' {self.name!r}' if self.name else ''} has been closed")
        refusal = self._context._closed or self._context._domain.failure
        if refusal is not None:
            raise refusal.error()

    def _recording(self, work: Callable[..., Work]) -> tuple[Work, tuple[object, ...]]:
        """Give what a stream enqueues to record it."""
        return work("record", Work, None, label=self.name), ()

    def _awaited(self) -> tuple[Latch | None, Item | None]:
        """Give what a stream waits for: a latch, or the latest record, or nothing."""
        return None, self._record

    def _note_wait(self, task: Task[object]) -> None:
        """Remember a stream that waits."""

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


class LatchEvent(Event):
    """CANN's older kind (aclrtCreateEvent, aclrtCreateEventWithFlag): a bit that stays set until it is reset.

    A stream that waits for it looks at the bit when it gets there, whichever record has set it. With kind "latch" a
    wait before any record is 107000, with "sync latch" it holds the stream until one comes.
    """

    __slots__ = ("_latch", "_waits", "kind")

    def __init__(self, context: Context, *, kind: str, timing: bool = True, name: str | None = None) -> None:
        super().__init__(context, timing=timing, name=name)
        self.kind = kind
        self._latch = Latch(f"event {name!r}" if name else "an event", clears=False)
        self._waits: list[Task[object]] = []

    def query_status(self) -> bool:
        """Say whether it has been recorded and that is complete; mirrors aclrtQueryEventStatus."""
        return self._record is not None and self.query()

    def query_wait_status(self) -> bool:
        """Say whether every stream that waits for it has passed; mirrors aclrtQueryEventWaitStatus."""
        self._check()
        self._waits = [task for task in self._waits if not task.done()]
        return not self._waits

    def reset(self, stream: Stream | None = None) -> None:
        """Clear the bit when the stream gets there, best right behind the last wait; mirrors aclrtResetEvent."""
        self._check()
        if stream is None:
            raise error(107000, f"{self!r} is reset on a stream", "Give the stream that has waited for it.")
        stream._check()
        stream._check_context(self._context, repr(self))
        stream._enqueue(stream._work("reset", ClearLatch, None), (self._latch,), 0)

    def _recording(self, work: Callable[..., Work]) -> tuple[Work, tuple[object, ...]]:
        return work("record latch", SetLatch, None, "record", self.name), (self._latch,)

    def _awaited(self) -> tuple[Latch | None, Item | None]:
        if self._record is None and self.kind == "latch":
            raise error(107000, f"{self!r} was never recorded, so no stream can wait for it", "Record it first.")
        return self._latch, None

    def _note_wait(self, task: Task[object]) -> None:
        self._waits = [one for one in self._waits if one.state < DONE]
        self._waits.append(task)
