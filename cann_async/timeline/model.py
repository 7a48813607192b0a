"""The records as a sequence that can be looked at, and saved."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np
import numpy.typing as npt

from .._machine.record import COLUMNS, HOST_COLUMNS, MEMORY_COLUMNS, SHIFT, WorkRow

if TYPE_CHECKING:
    from .._machine.clock import Clock
    from .._machine.record import Records

TASK_FIELDS = ("id", "stream", "lane", "submitted_ns", "started_ns", "finished_ns", "nbytes")


@dataclass(frozen=True, slots=True)
class Record:
    """One task that has ended. Times are nanoseconds of the runtime's clock; `engine` is empty for waits, records."""

    id: int
    name: str
    device: int
    stream: int
    stream_name: str | None
    engine: str
    lane: int
    cores: int
    submitted_ns: int
    started_ns: int
    finished_ns: int
    nbytes: int
    waited_for: int | None
    """Of a wait: the id of the task that it waited for."""

    @property
    def duration_ns(self) -> int:
        """How long it took."""
        return self.finished_ns - self.started_ns


class Timeline:
    """All tasks of a runtime that have ended; a snapshot is taken whenever it is read."""

    def __init__(self, records: Records, clock: Clock, start_ns: int = 0) -> None:
        self._records = records
        self._clock = clock
        self.start_ns = start_ns
        """What the runtime's clock showed when the runtime was made; saved traces count from there."""

    def __len__(self) -> int:
        return len(self._records)

    @property
    def clock(self) -> str:
        """The name of the clock: "wall", "virtual" or "paced"."""
        return self._clock.name

    @property
    def records(self) -> Sequence[Record]:
        """The tasks in the order in which they were submitted."""
        return Rows(self.rows(), self.works(), dict(self._records.stream_names))

    def rows(self) -> npt.NDArray[np.int64]:
        """Give the bare rows, one column per `cann_async._machine.record.COLUMNS`, by task id."""
        rows = np.frombuffer(bytes(self._records.rows), np.int64).reshape(-1, len(COLUMNS)).copy()
        rows[:, 3:6] -= self._clock.origin_ns
        return rows[np.argsort(rows[:, 0], kind="stable")]

    def to_numpy(self, what: str = "tasks") -> npt.NDArray[np.void]:
        """Give a structured array: of "tasks" by id, of "waits" of hosts, or of "memory" in use, in order of time.

        Times are nanoseconds of the runtime's clock. Of tasks: id, stream, lane, submitted_ns, started_ns, finished_ns
        and nbytes; of a wait of a host: the task it waited for, started_ns, ended_ns and the number of its thread; of
        memory: time_ns, device and the bytes used from then on. Anything else is a ValueError.
        """
        if what == "tasks":
            rows = self.rows()
            found = np.zeros(len(rows), [(name, np.int64) for name in TASK_FIELDS])
            for name in TASK_FIELDS:
                found[name] = (rows[:, 1] >> SHIFT) - 1 if name == "stream" else rows[:, COLUMNS.index(name)]
            return found
        records, origin = self._records, self._clock.origin_ns
        kinds = {"waits": (records.hosts, HOST_COLUMNS), "memory": (records.memory, MEMORY_COLUMNS)}
        if what not in kinds:
            raise ValueError(f"there are 'tasks', 'waits' and 'memory', not {what!r}")
        data, columns = kinds[what]
        found = np.frombuffer(bytes(data), [(name, np.int64) for name in columns]).copy()
        for name in columns:
            if name.endswith("_ns"):
                found[name] -= origin
        if what == "waits":  # threads are counted in the order in which they first waited
            _, first, threads = np.unique(found["thread"], return_index=True, return_inverse=True)
            found["thread"] = np.argsort(np.argsort(first))[threads]
        return np.sort(found, order=next(name for name in columns if name.endswith("_ns")), kind="stable")

    def works(self) -> list[WorkRow]:
        """Give what the rows share: the low half of the second column counts into this list."""
        return list(self._records.works)

    def save(self, path: str | Path, format: str | None = None) -> Path:
        """Write a Chrome trace (``.json``), which Perfetto and chrome://tracing open; give the path.

        Another suffix or format is a ValueError.
        """
        from .chrome import write_chrome

        target = Path(path)
        kind = format if format is not None else target.suffix.lstrip(".")
        if kind not in ("json", "chrome"):
            raise ValueError(f"cannot write {kind or target.name!r}: this version writes Chrome traces, .json")
        write_chrome(self, target)
        return target

    def show(self, width: int | None = None) -> None:
        """Print a drawing of all tasks, as wide as the terminal unless `width` says how many columns."""
        from .text import Style, draw, kinds, legend

        records, style = list(self.records), Style.of(sys.stdout)
        columns = width if width is not None else shutil.get_terminal_size().columns
        print(*draw(records, columns, style=style), sep="\n")
        if records:
            print(legend(style, kinds(records)))

    def __repr__(self) -> str:
        return f"<Timeline, {len(self)} tasks, {self.clock} clock>"


class Rows(Sequence[Record]):
    """The rows as `Record`s, made when they are looked at."""

    def __init__(self, rows: npt.NDArray[np.int64], works: list[WorkRow], names: dict[int, str]) -> None:
        self._rows = rows
        self._works = works
        self._names = names

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        """Give one record, or a part of them."""
        if isinstance(index, slice):
            return Rows(self._rows[index], self._works, self._names)
        return self._record(self._rows[index].tolist())

    def __iter__(self) -> Iterator[Record]:
        for row in self._rows.tolist():
            yield self._record(row)

    def _record(self, row: list[int]) -> Record:
        number, work, lane, submitted, started, finished, nbytes, _ = row
        shared, stream = self._works[work & ((1 << SHIFT) - 1)], (work >> SHIFT) - 1
        waits = not shared.engine and shared.name in ("wait", "wait notify") and nbytes > 0
        return Record(
            id=number,
            name=shared.name,
            device=shared.device,
            stream=stream,
            stream_name=self._names.get(stream),
            engine=shared.engine,
            lane=lane,
            cores=shared.cores,
            submitted_ns=submitted,
            started_ns=started,
            finished_ns=finished,
            nbytes=0 if waits else nbytes,
            waited_for=nbytes if waits else None,
        )
