"""Write a Chrome trace, which Perfetto, chrome://tracing and MindStudio Insight open.

Every device is two processes: its engines with one track per lane, and its streams with one track each. The host is a
third: what it enqueued between two waits, when it waited, what it annotated. On a track nothing overlaps unless it
nests: a lane runs one task at a time, and so does a stream. Arrows go from a launch to its kernel and from a record to
what waited for it. Times are microseconds with three decimals, counted from the runtime's start, so a 64-bit float
keeps every nanosecond. A trace is written row by row, and at most 250 bytes a task: of more than a few hundred tasks
only some get their arrow, and counters have that many points (`detail`).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import numpy as np

from .saved import KEY, encode
from .table import WAITS
from .tracks import annotated, bursts, depths, handovers, launched, memory, stream_label, us, waits

if TYPE_CHECKING:
    from .table import Table

LANES = 1000
"""Room for lane numbers between two engines' first tracks."""
HOST_PID = 1000
LAUNCHES, SPANS, THREADS = 0, 1, 1000
"""Tracks of the host: what it enqueues, what it has annotated, and the waits of its threads."""
CHUNK = 1 << 11
quoted = json.encoder.encode_basestring_ascii


def write_chrome(table: Table, path: Path) -> None:
    """Write the trace, one event a line; compressed if the path ends in .gz."""
    with path.open("wb") as raw:
        if path.suffix == ".gz":
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as file:
                _write(table, cast("IO[bytes]", file))
        else:
            _write(table, raw)


def _write(table: Table, file: IO[bytes]) -> None:
    trace = _Trace(table)
    file.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
    lines: list[str] = []
    first = True
    for line in trace.events():
        lines.append(line)
        if len(lines) == CHUNK:
            file.write(("" if first else ",\n").encode() + ",\n".join(lines).encode())
            first = False
            lines.clear()
    file.write(("" if first or not lines else ",\n").encode() + ",\n".join(lines).encode())
    file.write(
        f'\n],"otherData":{{"clock":"{table.clock}","tasks":{len(table)},"start_ns":{table.start_ns},\n'.encode()
    )
    file.write(KEY.encode())
    for piece in encode(table):
        file.write(piece.encode())
    file.write(b"}}\n")


class _Trace:
    def __init__(self, table: Table) -> None:
        self._table = table
        self._start = table.start_ns
        self._order: dict[str, int] = {}
        self._tracks: dict[tuple[int, int], str] = {}

    def events(self) -> Iterator[str]:
        """Give one JSON object after the other: slices by time and longer first, then arrows, counters, names."""
        yield from self._host()
        yield from self._tasks()
        yield from self._arrows()
        yield from self._queues()
        yield from self._memory()
        yield from self._names()

    def _tasks(self) -> Iterator[str]:
        table, start = self._table, self._start
        heads = [self._head(number) for number in range(len(table.works))]
        ends = [f'"name":{quoted(w.name)},"args":{{"cores":{w.cores},"stream":' for w in table.works]
        order = table.by_start()
        for first in range(0, len(order), CHUNK):
            part = order[first : first + CHUNK]
            rows = table.rows[part].tolist()
            for row, number, stream in zip(rows, table.work[part].tolist(), table.stream[part].tolist(), strict=True):
                task, _, lane, submitted, started, finished, nbytes, _ = row
                head, pid, tid = heads[number]
                times = f'"ts":{us(started - start)},"dur":{us(finished - started)}'
                if tid >= 0:
                    place = f'"pid":{pid},"tid":{tid + lane}'
                    yield f'{{"ph":"X",{place},{times},{ends[number]}{stream}}}}}'
                    if (pid, tid + lane) not in self._tracks:
                        self._tracks[pid, tid + lane] = f"{table.works[number].engine} {lane}"
                if stream >= 0:
                    if (pid + 1, stream) not in self._tracks:
                        self._tracks[pid + 1, stream] = stream_label(table, stream)
                    if tid >= 0:
                        more = f',"bytes":{nbytes}' if nbytes else ""
                    else:
                        more = self._waited(number, stream, nbytes)
                    args = f'"args":{{"task":{task},"submitted":{us(submitted - start)}{more}}}'
                    yield f'{{"ph":"X","pid":{pid + 1},"tid":{stream},{times},{head},{args}}}'

    def _head(self, number: int) -> tuple[str, int, int]:
        """Give what all slices of one kind of work share: the text, the pid of its engines, the first lane's tid."""
        work = self._table.works[number]
        tid = self._order.setdefault(work.engine, len(self._order)) * LANES if work.engine else -1
        category = work.engine or ("wait" if work.name in WAITS else work.name)
        return f'"cat":{quoted(category)},"name":{quoted(work.name)}', 2 * work.device + 1, tid

    def _waited(self, number: int, stream: int, nbytes: int) -> str:
        """Say what a wait waited for, and of a record what it recorded."""
        table, work = self._table, self._table.works[number]
        more = f',"stream":{stream}'
        if work.label is not None:
            more += f',"event":{quoted(work.label)}'
        place = int(table.index(np.array([nbytes]))[0]) if work.name in WAITS and nbytes else -1
        if place >= 0:
            other = table.works[int(table.work[place])]
            more += f',"waited_for_task":{nbytes},"waited_for":{quoted(other.name)}'
            more += f',"recorded_on":{int(table.stream[place])}'
        return more

    # -- the host -----------------------------------------------------------------------------------------------------

    def _host(self) -> Iterator[str]:
        slices = [*self._bursts(), *self._waits(), *self._annotated()]
        for begin, end, tid, head in sorted(slices, key=lambda s: (s[0], -s[1], s[2])):
            times = f'"ts":{us(begin - self._start)},"dur":{us(end - begin)}'
            yield f'{{"ph":"X","pid":{HOST_PID},"tid":{tid},{times},{head}}}'

    def _bursts(self) -> Iterator[tuple[int, int, int, str]]:
        for begin, end, tasks in bursts(self._table):
            self._tracks[HOST_PID, LAUNCHES] = "enqueues"
            yield begin, end, LAUNCHES, f'"cat":"host","name":"enqueue","args":{{"tasks":{tasks}}}'

    def _waits(self) -> Iterator[tuple[int, int, int, str]]:
        for thread, begin, end, task, number in waits(self._table):
            self._tracks[HOST_PID, THREADS + thread] = f"thread {thread} waits"
            head = f'"cat":"host","name":"wait","args":{{"task":{task},"waits":{number}}}'
            yield begin, end, THREADS + thread, head

    def _annotated(self) -> Iterator[tuple[int, int, int, str]]:
        for track, span in annotated(self._table):
            self._tracks[HOST_PID, SPANS + track] = "annotations"
            head = f'"cat":"annotation","name":{quoted(span.name)},"args":{{"thread":{span.thread}}}'
            yield span.started_ns, span.ended_ns, SPANS + track, head

    # -- arrows and counters ------------------------------------------------------------------------------------------

    def _arrows(self) -> Iterator[str]:
        table, start = self._table, self._start
        for place in launched(table).tolist():
            task, _, lane, submitted, started, *_ = table.rows[place].tolist()
            _, pid, tid = self._head(int(table.work[place]))
            yield _arrow("s", "launch", task, HOST_PID, LAUNCHES, submitted - start)
            yield _arrow("f", "launch", task, pid, tid + lane, started - start)
        for place, source in handovers(table):
            task, stream, other = int(table.id[place]), int(table.stream[place]), int(table.stream[source])
            end = int(table.finished[place])
            begin = min(int(table.finished[source]), end)
            yield _arrow("s", "event", task, 2 * int(table.device[source]) + 2, other, begin - start)
            yield _arrow("f", "event", task, 2 * int(table.device[place]) + 2, stream, end - start)

    def _queues(self) -> Iterator[str]:
        for stream, points in depths(self._table):
            pid = 2 * self._table.streams[stream].device + 2
            name = quoted(f"queue of {stream_label(self._table, stream)}")
            for time, depth in points:
                yield _counter(pid, name, time - self._start, f'"pending":{depth}')

    def _memory(self) -> Iterator[str]:
        for device, points in memory(self._table):
            for time, used in points:
                yield _counter(2 * device + 1, '"device memory"', time - self._start, f'"bytes":{used}')

    def _names(self) -> Iterator[str]:
        for pid in sorted({pid for pid, _ in self._tracks}):
            device, streams = divmod(pid - 1, 2)
            name = "host" if pid == HOST_PID else f"npu:{device} {'streams' if streams else 'engines'}"
            yield _meta("process_name", pid, 0, f'"name":"{name}"')
            yield _meta("process_sort_index", pid, 0, f'"sort_index":{0 if pid == HOST_PID else pid}')
        for (pid, tid), name in sorted(self._tracks.items()):
            yield _meta("thread_name", pid, tid, f'"name":{quoted(name)}')
            yield _meta("thread_sort_index", pid, tid, f'"sort_index":{tid}')


def _arrow(phase: str, name: str, number: int, pid: int, tid: int, time: int) -> str:
    head = f'{{"ph":"{phase}","pid":{pid},"tid":{tid},"ts":{us(time)},"id":{number},"cat":"{name}","name":"{name}"'
    return head + (',"bp":"e"}' if phase == "f" else "}")


def _counter(pid: int, name: str, time: int, args: str) -> str:
    return f'{{"ph":"C","pid":{pid},"tid":0,"ts":{us(time)},"name":{name},"args":{{{args}}}}}'


def _meta(name: str, pid: int, tid: int, args: str) -> str:
    return f'{{"ph":"M","pid":{pid},"tid":{tid},"name":"{name}","args":{{{args}}}}}'
