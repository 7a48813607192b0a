"""What the traces for viewers share: what is on which track, what points where, and how much of it is kept.

`chrome`, `perfetto` and `msprof` call me. On a track nothing overlaps unless it nests: a lane runs one task at a time,
and so does a stream. What does not grow with the tasks is thinned out to `detail`, so that a trace stays small.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .table import TARGETS

if TYPE_CHECKING:
    from .._machine.record import SpanRow
    from .table import Ints, Table


class Burst(NamedTuple):
    """What hosts have enqueued between two waits."""

    begin: int
    end: int
    tasks: int


class Wait(NamedTuple):
    """A time at which a thread waited: for this task last, and for so many tasks in all."""

    thread: int
    begin: int
    end: int
    task: int
    waits: int


def detail(tasks: int) -> int:
    """Say how many arrows, and how many points of each kind of counter, a trace of so many tasks has at most."""
    return max(200, tasks // 50)


def thinned(values: Ints, most: int) -> Ints:
    """Give at most so many of the values, evenly chosen, with the first and the last."""
    if len(values) <= most:
        return values
    return values[np.linspace(0, len(values) - 1, most).astype(np.int64)]


def us(nanoseconds: int) -> str:
    """Write microseconds without losing a nanosecond, as short as can be."""
    whole, rest = divmod(nanoseconds, 1000)
    return f"{whole}.{rest:03d}".rstrip("0") if rest else str(whole)


def stream_label(table: Table, stream: int) -> str:
    """Give the number of a stream, and its name if it has one."""
    row = table.streams.get(stream)
    return f"stream {stream}" + (f" ({row.name})" if row is not None and row.name else "")


def bursts(table: Table) -> Iterator[Burst]:
    """Give what hosts enqueued between two waits, so that arrows have where to come from."""
    if not len(table):
        return
    submitted = np.sort(table.submitted)
    breaks = thinned(np.unique(table.hosts["ended_ns"]), detail(len(table)))
    firsts = np.unique(np.concatenate(([0], np.searchsorted(submitted, breaks))))
    firsts = firsts[firsts < len(submitted)]
    lasts = np.append(firsts[1:], len(submitted)) - 1
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        yield Burst(int(submitted[first]), int(submitted[last]), last - first + 1)


def waits(table: Table) -> Iterator[Wait]:
    """Give the times at which each thread waited; waits of one thread that overlap, as in a loop, are one."""
    hosts = table.hosts
    for thread in np.unique(hosts["thread"]).tolist():
        mine = hosts[hosts["thread"] == thread]
        reach = np.maximum.accumulate(mine["ended_ns"])
        firsts = np.flatnonzero(np.append(True, mine["started_ns"][1:] >= reach[:-1]))
        lasts = np.append(firsts[1:], len(mine)) - 1
        longest = np.argsort(mine["started_ns"][firsts] - reach[lasts], kind="stable")[: detail(len(table))]
        for place in np.sort(longest).tolist():
            first, last = int(firsts[place]), int(lasts[place])
            begin, end = int(mine["started_ns"][first]), int(reach[last])
            yield Wait(thread, begin, end, int(mine["task"][last]), last - first + 1)


def annotated(table: Table) -> Iterator[tuple[int, SpanRow]]:
    """Give the annotations, each with a track: what overlaps without nesting, as coroutines do, goes to another."""
    tracks: list[list[int]] = []
    """Of each track the ends of what is still open."""
    for span in table.spans:
        for ends in tracks:
            while ends and ends[-1] <= span.started_ns:
                ends.pop()
        track = next((n for n, ends in enumerate(tracks) if not ends or span.ended_ns <= ends[-1]), len(tracks))
        if track == len(tracks):
            tracks.append([])
        tracks[track].append(span.ended_ns)
        yield track, span


def launched(table: Table) -> Ints:
    """Give the places of tasks on engines that get an arrow from their launch."""
    return thinned(np.flatnonzero(table.engine >= 0), detail(len(table)))


def handovers(table: Table) -> Iterator[tuple[int, int]]:
    """Give the places of each wait and of what it has waited for, if that is on a stream."""
    found = np.flatnonzero(table.is_named(TARGETS))
    for place, source in zip(found.tolist(), table.index(table.rows[found, 6]).tolist(), strict=True):
        if source >= 0 and table.stream[source] >= 0:
            yield place, source


def depths(table: Table) -> Iterator[tuple[int, Iterator[tuple[int, int]]]]:
    """Give of each stream how many tasks were in it from when on."""
    streams = np.unique(table.stream[table.stream >= 0])
    most = max(2, detail(len(table)) // max(1, len(streams)))
    for stream in streams.tolist():
        mine = table.stream == stream
        enqueued, ended = table.submitted[mine], table.finished[mine]
        enqueued.sort()
        ended.sort()
        times = np.unique(np.concatenate((thinned(enqueued, most), thinned(ended, most))))
        pending = np.searchsorted(enqueued, times, "right") - np.searchsorted(ended, times, "right")
        yield stream, zip(times.tolist(), pending.tolist(), strict=True)


def memory(table: Table) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Give of each device how many bytes were in use from when on."""
    for device in np.unique(table.memory["device"]).tolist():
        mine = table.memory[thinned(np.flatnonzero(table.memory["device"] == device), detail(len(table)))]
        yield device, list(zip(mine["time_ns"].tolist(), mine["used"].tolist(), strict=True))
