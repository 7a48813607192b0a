"""The records as arrays: the one thing that every view, file and analysis reads.

`Live` copies the records of a running machine into a `Table` whenever somebody looks; a saved trace and a replay are
tables too. Times are nanoseconds of the runtime's clock. Rows are in the order of submission, which is that of ids.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .._machine.record import COLUMNS, FEED_COLUMNS, HOST_COLUMNS, MEMORY_COLUMNS, SHIFT, SpanRow, StreamRow, WorkRow

if TYPE_CHECKING:
    from .._machine.machine import Machine
    from ..soc import Soc

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
"""Small numbers, one per task: of a million tasks every such array counts."""
ROW = 8 * len(COLUMNS)
CHUNK = 1 << 15
"""Rows that are copied or packed at once: 2 MiB of them."""
HOST = np.dtype([(name, np.int64) for name in HOST_COLUMNS])
FEED = np.dtype([(name, np.int64) for name in FEED_COLUMNS])
MEMORY = np.dtype([(name, np.int64) for name in MEMORY_COLUMNS])
COMPUTES = frozenset({"ai_core", "ai_vector", "ai_cpu", "dvpp"})
MOVES = frozenset({"h2d", "d2h", "d2d"})
WAITS = frozenset({"wait", "wait notify", "wait value"})
TARGETS = frozenset({"wait", "wait notify"})
"""Waits whose rows say which task they waited for."""


@dataclass(frozen=True)
class Table:
    """One snapshot. Nothing of it changes."""

    rows: Ints
    """One row per task that has ended, one column per `cann_async._machine.record.COLUMNS`, by id."""
    works: tuple[WorkRow, ...]
    """What the rows of one kind share; `work` counts into it."""
    streams: dict[int, StreamRow]
    hosts: npt.NDArray[np.void]
    """When hosts waited, by the beginning; see `HOST_COLUMNS`. Threads are counted in order of appearance."""
    feeds: npt.NDArray[np.void]
    """Which thread enqueued on which stream from which task on; see `FEED_COLUMNS`."""
    memory: npt.NDArray[np.void]
    """How much memory was in use from when on; see `MEMORY_COLUMNS`."""
    spans: tuple[SpanRow, ...]
    """What hosts have annotated."""
    clock: str
    start_ns: int
    """What the clock showed when the runtime was made."""
    socs: tuple[Soc, ...]
    """The chip of each device."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def id(self) -> Ints:
        """The tasks' ids, ascending."""
        return self.rows[:, 0]

    @cached_property
    def work(self) -> Codes:
        """The number of each task's work in `works`."""
        return self.rows[:, 1].astype(np.int32)

    @cached_property
    def stream(self) -> Codes:
        """The id of each task's stream; -1 for what is in no stream."""
        return (self.rows[:, 1] >> SHIFT).astype(np.int32) - np.int32(1)

    @property
    def submitted(self) -> Ints:
        """When each task was enqueued."""
        return self.rows[:, 3]

    @property
    def started(self) -> Ints:
        """When each task began."""
        return self.rows[:, 4]

    @property
    def finished(self) -> Ints:
        """When each task ended."""
        return self.rows[:, 5]

    def of_works(self, values: list[int]) -> Codes:
        """Give each task the value of its work."""
        return np.array(values or [0], np.int32)[self.work]

    @cached_property
    def device(self) -> Codes:
        """The device of each task."""
        return self.of_works([work.device for work in self.works])

    @cached_property
    def engines(self) -> list[tuple[int, str]]:
        """All engines that were used: device and name, in order."""
        return sorted({(work.device, work.engine) for work in self.works if work.engine})

    @cached_property
    def engine(self) -> Codes:
        """The place of each task's engine in `engines`; -1 for waits and records."""
        codes = {key: code for code, key in enumerate(self.engines)}
        return self.of_works([codes.get((work.device, work.engine), -1) for work in self.works])

    @cached_property
    def cores(self) -> Codes:
        """How many cores or lanes each task took."""
        return self.of_works([work.cores for work in self.works])

    def is_on(self, engines: frozenset[str]) -> npt.NDArray[np.bool_]:
        """Say of each task whether it ran on one of these engines."""
        return self.of_works([work.engine in engines for work in self.works]).astype(bool)

    def is_named(self, names: frozenset[str]) -> npt.NDArray[np.bool_]:
        """Say of each task whether it is one of the scheduler's own with such a name, such as "wait"."""
        return self.of_works([not work.engine and work.name in names for work in self.works]).astype(bool)

    @cached_property
    def target(self) -> Ints:
        """Of each wait: the id of the task it waited for, or 0."""
        return np.where(self.is_named(TARGETS), self.rows[:, 6], 0)

    @cached_property
    def thread(self) -> Ints:
        """The thread of the host that enqueued each task; 0 where that is not known."""
        found = np.zeros(len(self), np.int64)
        for stream in np.unique(self.feeds["stream"]).tolist():
            feeds, places = self.feeds[self.feeds["stream"] == stream], np.flatnonzero(self.stream == stream)
            last = np.searchsorted(feeds["task"], self.id[places], "right") - 1
            found[places] = np.where(last >= 0, feeds["thread"][last], 0)
        return found

    def by_start(self) -> Codes:
        """Give the places of the tasks in order of time, of those that begin together the longest first."""
        order = np.argsort(self.started, kind="stable").astype(np.int32)
        began = self.started[order]
        same = np.concatenate(([False], began[1:] == began[:-1], [False]))
        ties = np.flatnonzero(same[1:] | same[:-1])  # only these need a second look, and so little memory
        del began
        tied = order[ties]
        order[ties] = tied[np.lexsort((self.started[tied] - self.finished[tied], self.started[tied]))]
        return order

    def index(self, ids: Ints) -> Ints:
        """Give the places of tasks by id; -1 for who is not here."""
        if not len(self):
            return np.full(len(ids), -1)
        found = np.minimum(np.searchsorted(self.id, ids), len(self) - 1)
        return np.where(self.id[found] == ids, found, -1)

    @property
    def span_ns(self) -> tuple[int, int]:
        """When the first task was enqueued and the last one ended; (0, 0) if there is none."""
        return (int(self.submitted.min()), int(self.finished.max())) if len(self) else (0, 0)

    def of_device(self, device: int) -> Table:
        """Give what happened on one device."""
        return dataclasses.replace(
            self, rows=self.rows[self.device == device], memory=self.memory[self.memory["device"] == device]
        )

    def between(self, first: int, last: int, since_ns: int, until_ns: int) -> Table:
        """Give the tasks with these ids, without the last, and what hosts and memory did at that time."""
        low, high = np.searchsorted(self.id, (first, last))
        waited, used = self.hosts["started_ns"], self.memory["time_ns"]
        return dataclasses.replace(
            self,
            rows=self.rows[low:high],
            hosts=self.hosts[(since_ns <= waited) & (waited <= until_ns)],
            memory=self.memory[(since_ns <= used) & (used <= until_ns)],
            spans=tuple(span for span in self.spans if since_ns <= span.started_ns <= until_ns),
        )


class Live:
    """The records of a machine; called, it gives the table of this moment."""

    def __init__(self, machine: Machine, socs: tuple[Soc, ...], start_ns: int) -> None:
        self._records = machine.records
        self._clock = machine.clock
        self._socs = socs
        self._start_ns = start_ns

    def __len__(self) -> int:
        return len(self._records)

    def __call__(self) -> Table:
        """Copy the records, with times that count from where the runtime's clock does."""
        records, origin = self._records, self._clock.origin_ns
        rows = np.empty((len(records), len(COLUMNS)), np.int64, order="F")  # column by column, which is how it is read
        for first in range(0, len(rows), CHUNK):
            part = np.frombuffer(records.rows[first * ROW : (first + CHUNK) * ROW], np.int64).reshape(-1, len(COLUMNS))
            rows[first : first + CHUNK] = part[: len(rows) - first]
        order = np.argsort(rows[:, 0], kind="stable").astype(np.int32)
        for column in range(len(COLUMNS)):
            rows[:, column] = rows[order, column]
        rows[:, 3:6] -= origin
        hosts, memory = np.frombuffer(bytearray(records.hosts), HOST), np.frombuffer(bytearray(records.memory), MEMORY)
        feeds = np.frombuffer(bytearray(records.feeds), FEED)
        names: dict[int, int] = {}
        """Threads are counted: first those that enqueue, then others that wait or annotate."""
        for array in (feeds, hosts):
            idents, places, number = np.unique(array["thread"], return_index=True, return_inverse=True)
            for ident in idents[np.argsort(places)].tolist():
                names.setdefault(ident, len(names))
            array["thread"] = np.array([names[ident] for ident in idents.tolist()], np.int64)[number]
        for array, fields in ((hosts, ("started_ns", "ended_ns")), (memory, ("time_ns",))):
            for name in fields:
                array[name] -= origin
        spans = [
            SpanRow(name, started - origin, ended - origin, names.setdefault(thread, len(names)))
            for name, started, ended, thread in reversed(list(records.spans))  # who ends last is outside
        ]
        return Table(
            rows=rows,
            works=tuple(records.works),
            streams=dict(records.streams),
            hosts=_in_order(hosts, "started_ns"),
            feeds=_in_order(feeds, "task"),
            memory=_in_order(memory, "time_ns"),
            spans=tuple(sorted(spans, key=lambda span: (span.started_ns, -span.ended_ns))),
            clock=self._clock.name,
            start_ns=self._start_ns,
            socs=self._socs,
        )


def _in_order(rows: npt.NDArray[np.void], name: str) -> npt.NDArray[np.void]:
    """Sort by one field; what is in order is not copied."""
    key = rows[name]
    return rows if (key[1:] >= key[:-1]).all() else rows[np.argsort(key, kind="stable")]
