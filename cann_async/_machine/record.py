"""Step 6: one row of integers per task, written when it ends.

Hot: the row is packed into one byte array and nothing else is kept, so that a million tasks cost 64 MB and no work
for the garbage collector. What the rows of one kind share (name, engine) stands once, in `works`. Besides the tasks
there are shorter lists: when hosts waited for what, what they call it, which thread fed which stream, and how much
device memory was in use.
"""

from __future__ import annotations

import itertools
import struct
from threading import get_ident
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from .task import Item

COLUMNS = ("id", "work", "lane", "submitted_ns", "started_ns", "finished_ns", "nbytes", "cost")
"""Of a wait, `nbytes` holds the id of the task that was waited for. `work` also holds the stream, see
`SHIFT`; for `cost` see `Item`."""
HOST_COLUMNS = ("task", "started_ns", "ended_ns", "thread", "following")
"""One wait of a host: the id of the task it waited for (of a timer: none has this id), the thread it ran on, and, if
it took no time, the next task's id: what has a smaller one was enqueued before."""
FEED_COLUMNS = ("stream", "task", "thread")
"""From this task on the stream's tasks were enqueued by that thread."""
MEMORY_COLUMNS = ("time_ns", "device", "used")
SHIFT = 32
"""The column `work` is the number in `works`, and above so many bits the stream's id plus one."""
PAGEABLE = "pageable"
"""The label of a queued copy from or to host memory that is not pinned."""
WAITED = struct.Struct("5q").pack
USED = struct.Struct("3q").pack


class WorkRow(NamedTuple):
    """What the rows of one kind of work share. `engine` is empty for waits and records.

    The label is the name of the event or notify of a record or a wait, or PAGEABLE.
    """

    name: str
    engine: str
    capacity: int
    cores: int
    device: int
    blocks: int
    label: str | None


class StreamRow(NamedTuple):
    """What the rows of one stream share."""

    name: str | None
    device: int
    priority: int


class SpanRow(NamedTuple):
    """What a host has called a piece of its own time; `thread` is the one it ran on."""

    name: str
    started_ns: int
    ended_ns: int
    thread: int


class Records:
    """The rows of one machine, in the order in which the tasks ended."""

    def __init__(self, ids: itertools.count[int], *, keep: bool) -> None:
        self._ids = ids
        self.rows = bytearray()
        self.hosts = bytearray()
        self.memory = bytearray()
        self.feeds = bytearray()
        self.works: list[WorkRow] = []
        self.streams: dict[int, StreamRow] = {}
        self.spans: list[SpanRow] = []
        self._numbers: dict[WorkRow, int] = {}
        self._keep = keep
        self.pack = struct.Struct("8q").pack
        self.extend: Callable[[bytes], object] = self.rows.extend if keep else len
        """Keeps a packed row, or does nothing with it."""

    def __len__(self) -> int:
        return len(self.rows) // 64

    def add(self, item: Item) -> None:
        """Write down an item that has ended."""
        number = item.work.number
        if number < 0:
            number = item.work.number = self._number(item) if self._keep else 0
        lane = max(item.lane, ~item.lane)  # negative: it was given up
        self.extend(
            self.pack(item.id, number, lane, item.submitted, item.started, item.finished, item.nbytes, item.cost)
        )

    def host_waited(self, task: int, started: int, ended: int) -> None:
        """Write down that a host on this thread has waited for a task, or slept."""
        if self._keep:
            following = int(repr(self._ids)[6:-1]) if started == ended else 0  # it says "count(7)"
            self.hosts += WAITED(task, started, ended, get_ident(), following)

    def fed(self, stream: int, task: int) -> None:
        """Write down that this thread enqueues on a stream on which another one did before."""
        if self._keep:
            self.feeds += USED(stream, task, get_ident())

    def annotated(self, name: str, started: int, ended: int) -> None:
        """Write down what a host on this thread calls the time from then to then."""
        if self._keep:
            self.spans.append(SpanRow(name, started, ended, get_ident()))

    def memory_used(self, now: int, device: int, used: int) -> None:
        """Write down how much memory of a device is in use from now on."""
        if self._keep:
            self.memory += USED(now, device, used)

    def _number(self, item: Item) -> int:
        work, engine, queue = item.work, item.work.engine, item.queue
        row = WorkRow(
            work.name,
            engine.name if engine is not None else "",
            engine.capacity if engine is not None else 0,
            work.cores,
            engine.device if engine is not None else queue.device,
            work.blocks,
            work.label,
        )
        number = self._numbers.setdefault(row, len(self.works))
        if number == len(self.works):
            self.works.append(row)
        if queue.id >= 0:
            self.streams[queue.id] = StreamRow(queue.name, queue.device, queue.priority)
        return number | (queue.id + 1) << SHIFT
