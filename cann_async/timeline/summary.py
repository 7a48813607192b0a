"""Sum a timeline up: per engine, per stream, per kind of work, and the four figures of MindStudio Insight.

`Timeline.summary` and `Timeline.compare` call me. All times are nanoseconds; a share is of the time from the first
enqueue to the last end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .intervals import Intervals
from .table import COMPUTES, MOVES, Codes, Table
from .text import columns, duration, share


@dataclass(frozen=True, slots=True)
class EngineSummary:
    """What one engine of one device did."""

    device: int
    engine: str
    capacity: int
    """Its cores, channels or lanes."""
    tasks: int
    busy_ns: int
    """How long anything ran on it."""
    utilisation: float
    """The share of its cores' time that was in use."""
    gaps: int
    gap_ns: int
    """How long it stood still between its first and its last task."""


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """What one stream did."""

    device: int
    stream: int
    name: str | None
    tasks: int
    busy_ns: int
    """How long its work ran on engines."""
    utilisation: float
    """The share of all time that it was busy."""
    waiting_ns: int
    """How long it waited for events, notifies and the like."""
    gaps: int
    gap_ns: int
    """How long nothing of it ran between its first and its last task."""


@dataclass(frozen=True, slots=True)
class WorkSummary:
    """All tasks of one name on one engine."""

    name: str
    engine: str
    tasks: int
    total_ns: int
    longest_ns: int


@dataclass(frozen=True, slots=True)
class Overlap:
    """The four figures that MindStudio Insight gives for a device; here communication is what copy engines do."""

    device: int
    computing_ns: int
    communication_ns: int
    communication_not_overlapped_ns: int
    """Copies with no kernel at the same time."""
    free_ns: int
    """Neither."""

    def items(self) -> Iterator[tuple[str, int]]:
        """Give the figures under Insight's names."""
        yield "Computing", self.computing_ns
        yield "Communication", self.communication_ns
        yield "Communication not overlapped", self.communication_not_overlapped_ns
        yield "Free", self.free_ns


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of a timeline; print it."""

    tasks: int
    span_ns: int
    """From the first enqueue to the last end."""
    clock: str
    engines: tuple[EngineSummary, ...]
    streams: tuple[StreamSummary, ...]
    works: tuple[WorkSummary, ...]
    """By total time, the longest first."""
    overlap: tuple[Overlap, ...]
    """Per device that did something."""
    host_waiting_ns: int
    """How long at least one host waited for the device."""

    def __str__(self) -> str:
        if not self.tasks:
            return "nothing has run"
        span = self.span_ns
        waited = share(self.host_waiting_ns, span)
        parts = [
            f"{self.tasks} tasks in {duration(span)} ({self.clock} clock), in {waited} of it a host waited",
            columns(
                ["engine", "cores", "tasks", "busy", "", "cores in use", "gaps", "idle between"],
                [
                    [
                        f"npu:{e.device} {e.engine}", e.capacity, e.tasks, duration(e.busy_ns), share(e.busy_ns, span),
                        f"{e.utilisation:.0%}", e.gaps, duration(e.gap_ns),
                    ]
                    for e in self.engines
                ],
            ),
            columns(
                ["stream", "tasks", "busy", "", "waiting", "gaps", "idle between"],
                [
                    [
                        f"npu:{s.device} {label(s)}", s.tasks, duration(s.busy_ns), share(s.busy_ns, span),
                        duration(s.waiting_ns), s.gaps, duration(s.gap_ns),
                    ]
                    for s in self.streams
                ],
            ),
            columns(
                ["work", "engine", "tasks", "total", "mean", "longest"],
                [
                    [w.name, w.engine, w.tasks, *map(duration, (w.total_ns, w.total_ns // w.tasks, w.longest_ns))]
                    for w in self.works
                ],
                (0, 1),
            ),
            *(
                columns(
                    [f"npu:{o.device}" if len(self.overlap) > 1 else "overlap", "", ""],
                    [[name, duration(value), share(value, span)] for name, value in o.items()],
                )
                for o in self.overlap
            ),
        ]  # fmt: skip
        return "\n\n".join(parts)


def summarise(table: Table) -> Summary:
    """Work the figures out."""
    first, last = table.span_ns
    engines = _groups(table.engine)
    streams = _groups(table.stream)
    works = [_work(table, rows) for rows in _groups(_work_codes(table))]
    waited = np.clip(table.hosts["started_ns"], first, last), np.clip(table.hosts["ended_ns"], first, last)
    return Summary(
        tasks=len(table),
        span_ns=last - first,
        clock=table.clock,
        engines=tuple(_engine(table, rows, last - first) for rows in engines),
        streams=tuple(_stream(table, rows, last - first) for rows in streams),
        works=tuple(sorted(works, key=lambda work: (-work.total_ns, work.name))),
        overlap=tuple(_overlap(table, device, first, last) for device in np.unique(table.device).tolist()),
        host_waiting_ns=Intervals.union(*waited).total,
    )


def _groups(codes: Codes) -> Iterator[npt.NDArray[np.int64]]:
    """Give the places of the tasks of each code from 0 on, in the order of the codes."""
    order = np.argsort(codes, kind="stable")
    _, firsts = np.unique(codes[order], return_index=True)
    for group in np.split(order, firsts[1:]):
        if len(group) and codes[group[0]] >= 0:
            yield group


def _work_codes(table: Table) -> Codes:
    keys = sorted({(work.engine, work.name) for work in table.works if work.engine})
    codes = {key: code for code, key in enumerate(keys)}
    return table.of_works([codes.get((work.engine, work.name), -1) for work in table.works])


def _work(table: Table, rows: npt.NDArray[np.int64]) -> WorkSummary:
    work = table.works[int(table.work[rows[0]])]
    took = table.finished[rows] - table.started[rows]
    return WorkSummary(work.name, work.engine, len(rows), int(took.sum()), int(took.max()))


def _engine(table: Table, rows: npt.NDArray[np.int64], span: int) -> EngineSummary:
    work = table.works[int(table.work[rows[0]])]
    began, ended = table.started[rows], table.finished[rows]
    busy = Intervals.union(began, ended)
    used = int(((ended - began) * table.cores[rows]).sum())
    idle = busy.gaps()
    return EngineSummary(
        work.device, work.engine, work.capacity, len(rows), busy.total, used / (max(span, 1) * work.capacity),
        len(idle.begins), idle.total,
    )  # fmt: skip


def _stream(table: Table, rows: npt.NDArray[np.int64], span: int) -> StreamSummary:
    on_engine = table.engine[rows] >= 0
    busy = Intervals.union(table.started[rows][on_engine], table.finished[rows][on_engine])
    waits = rows[~on_engine]
    idle = busy.gaps()
    number = int(table.stream[rows[0]])
    row = table.streams[number]
    waiting = int((table.finished[waits] - table.started[waits]).sum())
    return StreamSummary(
        row.device, number, row.name, len(rows), busy.total, busy.total / max(span, 1), waiting, len(idle.begins),
        idle.total,
    )  # fmt: skip


def _overlap(table: Table, device: int, first: int, last: int) -> Overlap:
    here = table.device == device
    kinds = [here & table.is_on(engines) for engines in (COMPUTES, MOVES)]
    computing, moving = (Intervals.union(table.started[kind], table.finished[kind]) for kind in kinds)
    both = computing.and_(moving)
    return Overlap(
        device, computing.total, moving.total, moving.total - both, last - first - computing.total - moving.total + both
    )


def label(stream: StreamSummary) -> str:
    """Name a stream as users do."""
    return f"stream {stream.stream}" + (f" ({stream.name})" if stream.name else "")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two timelines side by side; print it."""

    before: Summary
    after: Summary

    @property
    def speedup(self) -> float:
        """How many times faster the second one is."""
        return self.before.span_ns / max(self.after.span_ns, 1)

    def rows(self) -> list[tuple[str, int, int]]:
        """Give each figure of both: total time, the four figures, time per engine and per kind of work; nanoseconds."""
        one, two = (_figures(summary) for summary in (self.before, self.after))
        return [(name, one.get(name, 0), two.get(name, 0)) for name in dict.fromkeys((*one, *two))]

    def __str__(self) -> str:
        rows: list[Sequence[object]] = [
            [name, duration(one), duration(two), f"{one / two:.2f}x" if two and one else "-"]
            for name, one, two in self.rows()
        ]
        return columns(["", "before", "after", "faster"], rows)


def _figures(summary: Summary) -> dict[str, int]:
    found = {"total": summary.span_ns, "host waited": summary.host_waiting_ns}
    for overlap in summary.overlap:
        where = f"npu:{overlap.device} " if len(summary.overlap) > 1 else ""
        found |= {where + name: value for name, value in overlap.items()}
    found |= {f"npu:{engine.device} {engine.engine} busy": engine.busy_ns for engine in summary.engines}
    return found | {f"{work.name} ({work.engine})": work.total_ns for work in summary.works}
