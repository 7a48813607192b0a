"""What users hold: the timeline of a runtime, of a device, of a block of code, of a saved trace or of a replay.

A `Timeline` has nothing but a function that gives the `Table` of this moment; views, files and analyses each live in
a module of their own and are imported when they are first used.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np
import numpy.typing as npt

from .._machine.record import COLUMNS, PAGEABLE, SHIFT
from .table import TARGETS, Table

if TYPE_CHECKING:
    from os import PathLike

    from ..soc import Soc
    from .advice import Advice
    from .path import CriticalPath, Gaps
    from .summary import Comparison, Summary

FIELDS = {"waits": ["task", "started_ns", "ended_ns", "thread"], "memory": ["time_ns", "device", "used"]}
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
    event: str | None = None
    """Of a record or a wait: the name of its event or notify."""
    blocks: int = 1
    pageable: bool = False
    """Of a queued copy: its host memory was not pinned."""

    @property
    def duration_ns(self) -> int:
        """How long it took."""
        return self.finished_ns - self.started_ns


class Timeline:
    """All tasks of a runtime, a device or a block of code that have ended; whatever reads it takes a snapshot."""

    def __init__(self, take: Callable[[], Table]) -> None:
        self._take = take

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Timeline:
        """Read a trace that `save` has written (``.json``, ``.json.gz``), with all that it has recorded.

        Another file is a ValueError that says so; an OSError if there is none.
        """
        from .saved import load

        table = load(Path(path))
        return cls(lambda: table)

    def __len__(self) -> int:
        return len(self._take())

    def table(self) -> Table:
        """Give the bare arrays of this moment."""
        return self._take()

    @property
    def clock(self) -> str:
        """The name of the clock: "wall", "virtual" or "paced"."""
        return self._take().clock

    @property
    def start_ns(self) -> int:
        """What the runtime's clock showed when the runtime was made; saved traces count from there."""
        return self._take().start_ns

    @property
    def records(self) -> Sequence[Record]:
        """The tasks in the order in which they were submitted."""
        return Rows(self._take())

    def to_numpy(self, what: str = "tasks") -> npt.NDArray[np.void]:
        """Give a structured array: of "tasks" by id, of "waits" of hosts, or of "memory" in use, in order of time.

        Times are nanoseconds of the runtime's clock. Of tasks: id, stream, lane, submitted_ns, started_ns, finished_ns
        and nbytes; of a wait of a host: the task it waited for, started_ns, ended_ns and the number of its thread; of
        memory: time_ns, device and the bytes used from then on. Anything else is a ValueError.
        """
        table = self._take()
        if what == "tasks":
            found = np.zeros(len(table), [(name, np.int64) for name in TASK_FIELDS])
            for name in TASK_FIELDS:
                found[name] = table.stream if name == "stream" else table.rows[:, COLUMNS.index(name)]
            return found
        kinds = {"waits": table.hosts, "memory": table.memory}
        if what not in kinds:
            raise ValueError(f"there are 'tasks', 'waits' and 'memory', not {what!r}")
        return kinds[what][FIELDS[what]]

    def summary(self) -> Summary:
        """Sum it up per engine, stream and kind of work, with the four overlap figures of MindStudio Insight.

        Those are Computing, Communication (copies), Communication not overlapped, and Free. Print it, or read its
        fields; times are nanoseconds.
        """
        from .summary import summarise

        return summarise(self._take())

    def critical_path(self) -> CriticalPath:
        """Give the chain of tasks and pauses that decided how long it took, from the first enqueue to the last end.

        Each step says what it came after: its stream's task before, a busy engine, an event, or the host. Print it, or
        read its steps and `by_kind`.
        """
        from .path import critical_path

        return critical_path(self._take())

    def gaps(self) -> Gaps:
        """Give the times at which an engine stood still between two of its tasks, the longest first, and why."""
        from .path import gaps

        return gaps(self._take())

    def advice(self) -> Advice:
        """Say what to change so that the device has less time to stand still, with evidence and the expected gain.

        The five practices of CANN's programming guide (keep the host ahead of the device; one stream per kind of
        engine; one stream per thread; more threads when one cannot feed the device; merge or parallelise kernels that
        do not fill the AI cores), pageable copies, needless synchronisation, and starvation by priority. The gain is
        that of a replay with the change. Print it, or read its findings.
        """
        from .advice import advise

        return advise(self._take())

    def compare(self, other: Timeline) -> Comparison:
        """Put two runs side by side: this one is before, the other after. Print it, or read `speedup` and `rows()`."""
        from .summary import Comparison, summarise

        return Comparison(summarise(self._take()), summarise(other._take()))

    def replay(self, soc: Soc | str | None = None, *, measured: bool = False, **changes: object) -> Timeline:
        """Give the timeline of the same program on another Soc, or on its own with `changes`, without running it again.

        `soc` is a `Soc` or a preset's name, for all devices; `changes` are fields as for `Soc.replace`, such as
        ``copy_engines=2``. The tasks are modelled anew from what they have recorded (operations, bytes, blocks), and
        the host enqueues each as long after what it had waited for as it did. With `measured` tasks take as long as
        they took, and only the number of engines makes a difference. The result is in virtual time; of
        coroutines that enqueue at the same instant it may have them in another order. An unknown Soc, or one that lacks
        an engine, is a ValueError, an unknown field a TypeError.
        """
        from ..soc import find
        from .replay import replay

        table = self._take()
        socs = [find(soc) if soc is not None else old for old in table.socs]
        if changes:
            socs = [each.replace(**changes) for each in socs]
        replayed = replay(table, socs, measured=measured)
        return Timeline(lambda: replayed)

    def save(self, path: str | PathLike[str], format: str | None = None) -> Path:
        """Write the timeline to a file, by its suffix or by `format`; give the path.

        ``.json`` and ``.json.gz`` ("chrome") are Chrome traces for Perfetto and chrome://tracing, which `load` reads.
        ``.pftrace`` ("perfetto") is Perfetto's own format, with tracks that nest; it needs cann-async[perfetto].
        ``.html`` ("html") is a page to look at in a browser, offline.
        ``.svg`` ("svg") is the picture that a notebook shows. "msprof" makes a folder for MindStudio Insight.
        Another suffix or format is a ValueError, and so is a folder that holds something else.
        """
        from .files import writer

        target = Path(path)
        writer(target, format)(self._take(), target)
        return target

    def show(self, width: int | None = None) -> None:
        """Print a drawing of all tasks, as wide as the terminal unless `width` says how many columns."""
        from .text import Style, draw, kinds, legend

        records, style = list(self.records), Style.of(sys.stdout)
        columns = width if width is not None else shutil.get_terminal_size().columns
        print(*draw(records, columns, style=style), sep="\n")
        if records:
            print(legend(style, kinds(records)))

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        """Give a notebook the picture, and a console the text."""
        from .svg import svg

        make = {"text/plain": lambda: repr(self), "image/svg+xml": lambda: svg(self._take())}
        wanted = [kind for kind in make if kind in (include or make) and kind not in (exclude or ())]
        return {kind: make[kind]() for kind in wanted}

    def __repr__(self) -> str:
        table = self._take()
        return f"<Timeline, {len(table)} tasks, {table.clock} clock>"


class Rows(Sequence[Record]):
    """The rows as `Record`s, made when they are looked at."""

    def __init__(self, table: Table, rows: npt.NDArray[np.int64] | None = None) -> None:
        self._table = table
        self._rows = table.rows if rows is None else rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        """Give one record, or a part of them."""
        if isinstance(index, slice):
            return Rows(self._table, self._rows[index])
        return self._record(self._rows[index].tolist())

    def __iter__(self) -> Iterator[Record]:
        for row in self._rows.tolist():
            yield self._record(row)

    def _record(self, row: list[int]) -> Record:
        number, work, lane, submitted, started, finished, nbytes, _ = row
        shared, stream = self._table.works[work & ((1 << SHIFT) - 1)], (work >> SHIFT) - 1
        waits = not shared.engine and shared.name in TARGETS and nbytes > 0
        named = self._table.streams.get(stream)
        return Record(
            id=number,
            name=shared.name,
            device=shared.device,
            stream=stream,
            stream_name=named.name if named is not None else None,
            engine=shared.engine,
            lane=lane,
            cores=shared.cores,
            submitted_ns=submitted,
            started_ns=started,
            finished_ns=finished,
            nbytes=0 if waits else nbytes,
            waited_for=nbytes if waits else None,
            event=None if shared.engine else shared.label,
            pageable=shared.label == PAGEABLE,
            blocks=shared.blocks,
        )
