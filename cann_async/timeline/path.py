"""Where the time went: the chain of tasks, waits and pauses that a run could not have been shorter than, and the gaps.

`Timeline.critical_path` and `Timeline.gaps` call me; why something began when it did is `causes`' answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

import numpy as np

from .causes import ENGINE, HOST, START, STREAM, WAIT, Cause, Causes
from .intervals import Intervals
from .table import COMPUTES, MOVES, Table
from .text import columns, duration, share

if TYPE_CHECKING:
    from .model import Record

LONGEST = 20
"""So many lines a printed list has; all of it is in the object."""


@dataclass(frozen=True, slots=True)
class Step:
    """A piece of the critical path. The pieces follow each other without a gap."""

    kind: str
    """"compute", "copy", "callback"; "host": it had not been enqueued yet; "idle"; "wait": a moment without length."""
    started_ns: int
    ended_ns: int
    record: Record | None
    """The task that ran or waited; of a pause, the one that began after it."""
    why: str
    """What the piece came after."""

    @property
    def duration_ns(self) -> int:
        """How long it is."""
        return self.ended_ns - self.started_ns


class CriticalPath(Sequence[Step]):
    """The steps from the first enqueue to the last end, in order of time; print it."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = tuple(steps)

    def __len__(self) -> int:
        return len(self._steps)

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | Sequence[Step]:
        """Give a step, or some."""
        return self._steps[index]

    @property
    def total_ns(self) -> int:
        """How long the run was."""
        return self._steps[-1].ended_ns - self._steps[0].started_ns if self._steps else 0

    @property
    def by_kind(self) -> dict[str, int]:
        """How much of it is what, in nanoseconds, the most first."""
        found: dict[str, int] = {}
        for step in self._steps:
            found[step.kind] = found.get(step.kind, 0) + step.duration_ns
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    def __str__(self) -> str:
        if not self._steps:
            return "nothing has run"
        total = self.total_ns
        kinds = ", ".join(f"{kind} {duration(ns)} ({share(ns, total)})" for kind, ns in self.by_kind.items() if ns)
        begin = self._steps[0].started_ns
        shown = [step for step in self._steps if step.duration_ns or step.kind == WAIT]
        some = set(sorted(range(len(shown)), key=lambda n: -shown[n].duration_ns)[:LONGEST])
        rows = [
            [_what(step), f"+{duration(step.started_ns - begin)}", duration(step.duration_ns), step.why]
            for number, step in enumerate(shown)
            if number in some
        ]
        more = f"\nthe {LONGEST} longest of {len(shown)} steps" if len(shown) > LONGEST else ""
        listed = columns(["step", "at", "took", "began"], rows, (0, 3))
        return f"critical path: {duration(total)}: {kinds}\n\n{listed}{more}"


def critical_path(table: Table) -> CriticalPath:
    """Walk back from the task that ended last, each time to what the task had to wait for."""
    if not len(table):
        return CriticalPath(())
    from .model import Rows

    causes, records = Causes(table), Rows(table)
    place = int(np.lexsort((table.id, table.finished))[-1])
    until = int(table.finished[place])
    steps: list[Step] = []
    seen = set()
    while place >= 0 and place not in seen:
        seen.add(place)
        record = records[place]
        cause = causes.of_end(place)  # a wait: how it ended counts, not how it began
        if cause is not None:
            steps.append(Step(WAIT, until, until, record, describe(cause, table)))
        else:
            cause = causes.of_start(place)
            if record.engine and record.started_ns < until:
                why = describe(root_cause(causes, place), table)
                steps.append(Step(_kind(record), record.started_ns, until, record, why))
            until = min(until, record.started_ns)
        if cause.since_ns < until:
            kind = "host" if cause.kind in (HOST, START) else "idle"
            enqueued = max(min(record.submitted_ns, until), cause.since_ns)
            if kind == "host" and enqueued < until:
                steps.append(Step("idle", enqueued, until, record, "after it had been enqueued"))
            if kind == "idle" or cause.since_ns < enqueued:
                end = until if kind == "idle" else enqueued
                steps.append(Step(kind, cause.since_ns, end, record, describe(cause, table)))
            until = cause.since_ns
        place = cause.place
    first = table.span_ns[0]
    if first < until:
        steps.append(Step("host", first, until, None, "before it"))
    return CriticalPath(steps[::-1])


def describe(cause: Cause, table: Table) -> str:
    """Say what a cause is in a few words."""
    if cause.place < 0:
        return "when it was enqueued"
    work, task = table.works[int(table.work[cause.place])], int(table.id[cause.place])
    stream = int(table.stream[cause.place])
    name = f"{work.name} (task {task}" + (f", stream {stream})" if stream >= 0 else ")")
    if cause.kind == STREAM:
        return f"after {name} in its stream"
    if cause.kind == ENGINE:
        return f"after {name} had left the {work.engine}"
    if cause.kind == WAIT:
        event = f"event {work.label!r} after " if work.label else ""
        return f"after a wait for {event}{name}"
    return f"after the host had waited for {name}"


def _kind(record: Record) -> str:
    if record.engine in COMPUTES:
        return "compute"
    return "copy" if record.engine in MOVES or record.engine == "host" else record.engine


def _what(step: Step) -> str:
    record = step.record
    if step.kind == WAIT and record is not None:
        return f"({record.name}, stream {record.stream})"
    if step.kind in ("host", "idle") or record is None:
        return f"({step.kind})"
    return f"{record.name}, {record.engine}, " + (f"stream {record.stream}" if record.stream >= 0 else "no stream")


@dataclass(frozen=True, slots=True)
class Gap:
    """A time at which nothing ran on an engine that had more to do later."""

    device: int
    engine: str
    started_ns: int
    ended_ns: int
    before: Record
    after: Record
    kind: str
    """What the next task came after: "host", "stream", "wait" or "start"."""
    why: str

    @property
    def duration_ns(self) -> int:
        """How long it was."""
        return self.ended_ns - self.started_ns


class Gaps(Sequence[Gap]):
    """The gaps of all engines, the longest first; print it."""

    def __init__(self, gaps: Sequence[Gap]) -> None:
        self._gaps = tuple(gaps)

    def __len__(self) -> int:
        return len(self._gaps)

    @overload
    def __getitem__(self, index: int) -> Gap: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Gap]: ...
    def __getitem__(self, index: int | slice) -> Gap | Sequence[Gap]:
        """Give a gap, or some."""
        return self._gaps[index]

    def __str__(self) -> str:
        if not self._gaps:
            return "no engine stood still between two of its tasks"
        rows = [
            [f"npu:{g.device} {g.engine}", duration(g.duration_ns), f"{g.before.name} -> {g.after.name}", g.why]
            for g in self._gaps[:LONGEST]
        ]
        more = f"\nthe {LONGEST} longest of {len(self)}" if len(self) > LONGEST else ""
        return columns(["engine", "idle", "between", "the next one began"], rows, (0, 2, 3)) + more


def gaps(table: Table) -> Gaps:
    """Find the gaps, and for each what the next task had to wait for."""
    return Gaps(sorted(_gaps(table), key=lambda gap: (-gap.duration_ns, gap.started_ns, gap.engine)))


def _gaps(table: Table) -> Iterator[Gap]:
    from .model import Rows

    causes, records = Causes(table), Rows(table)
    for key in sorted({(work.device, work.engine) for work in table.works if work.engine}):
        numbers = [number for number, work in enumerate(table.works) if (work.device, work.engine) == key]
        mine = np.flatnonzero(np.isin(table.work, numbers))
        began = mine[np.argsort(table.started[mine], kind="stable")]
        ended = mine[np.argsort(table.finished[mine], kind="stable")]
        idle = Intervals.union(table.started[mine], table.finished[mine]).gaps()
        afters = began[np.searchsorted(table.started[began], idle.ends)]
        befores = ended[np.searchsorted(table.finished[ended], idle.begins)]
        for begin, end, before, after in zip(
            idle.begins.tolist(), idle.ends.tolist(), befores.tolist(), afters.tolist(), strict=True
        ):
            cause = root_cause(causes, after)
            yield Gap(*key, begin, end, records[before], records[after], cause.kind, describe(cause, table))


def root_cause(causes: Causes, place: int) -> Cause:
    """Go back from a task over waits and records, which take no engine, to what really held it up."""
    table = causes.table
    cause = causes.of_start(place)
    for _ in range(len(table)):
        if cause.place < 0 or cause.kind not in (STREAM, WAIT) or table.works[int(table.work[cause.place])].engine:
            return cause
        further = causes.of_end(cause.place) or causes.of_start(cause.place)
        if further.kind == STREAM and cause.kind == WAIT:  # the work before a record is what was waited for
            further = Cause(WAIT, further.place, further.since_ns)
        cause = further
    return cause
