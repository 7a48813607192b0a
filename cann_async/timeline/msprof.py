"""Write the folder that msprof leaves behind and MindStudio Insight opens: step 7; `Timeline.save` calls me.

`PROF_.../mindstudio_profiler_output` holds a trace of events (CANN's layer of the host, the streams of each device,
how computing and copying overlap) and four tables. Names, columns and numbers have msprof's form. Two things are not
as on a machine with an NPU: copies stand where msprof has communication, and the process has number 1 and the files
the time of the runtime's clock at its start, so that the same timeline gives the same folder.
"""

from __future__ import annotations

import csv
import datetime as dt
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .intervals import Intervals
from .msprof_tables import (
    APIS,
    NONE,
    STATISTIC,
    SUMMARY,
    TIMES,
    apis,
    on_streams,
    statistic,
    summary,
    task_types,
    times,
    ts,
)
from .table import COMPUTES, MOVES
from .tracks import launched, waits

if TYPE_CHECKING:
    from .table import Table

FOLDER = "mindstudio_profiler_output"
OURS = re.compile(rf"PROF_000001_\d+_CANNASYNC(/{FOLDER}(/[a-z_]+_\d+\.(json|csv))?)?")
"""What an earlier folder of ours may hold."""
PROCESS, HOST = 1, 31
"""The process that all belongs to, and what stands for its device on the host."""
CANN, HARDWARE, OVERLAP = ("CANN", "CPU", 7), ("Ascend Hardware", "NPU", 14), ("Overlap Analysis", "NPU", 18)
"""The layers: name, label, and place among the others."""


def write_msprof(table: Table, path: Path) -> None:
    """Write the folder; one that holds anything but an earlier one of ours is a ValueError, and is left alone."""
    _clear(path)
    start = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=table.start_ns // 10**9)
    stamp = start.strftime("%Y%m%d%H%M%S")
    folder = path / f"PROF_000001_{stamp}_CANNASYNC" / FOLDER
    folder.mkdir(parents=True)
    with (folder / f"msprof_{stamp}.json").open("w", encoding="utf-8", newline="\n") as file:
        for number, event in enumerate(_events(table)):
            file.write((",\n" if number else "[\n") + json.dumps(event))
        file.write("\n]\n")
    tables: dict[str, tuple[tuple[str, ...], Callable[[Table], Iterator[tuple[object, ...]]]]] = {
        "op_summary": (SUMMARY, summary),
        "op_statistic": (STATISTIC, statistic),
        "api_statistic": (APIS, apis),
        "task_time": (TIMES, times),
    }
    for name, (columns, rows) in tables.items():
        target = folder / f"{name}_{stamp}.csv"
        with target.open("w", encoding="utf-8", errors="replace", newline="") as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(columns)
            lines.writerows(rows(table))


def _clear(path: Path) -> None:
    if not path.exists():
        return
    if not path.is_dir():
        raise ValueError(f"msprof's format is a folder, and {path} is a file")
    if not all(OURS.fullmatch(found.relative_to(path).as_posix()) for found in path.rglob("*")):
        raise ValueError(f"{path} holds something else than an earlier msprof folder of cann_async: choose another")
    for earlier in path.iterdir():
        shutil.rmtree(earlier)


# -- the trace --------------------------------------------------------------------------------------------------------


def _events(table: Table) -> Iterator[dict[str, object]]:
    yield from _layer(CANN, HOST, ())
    yield from _host(table)
    devices = np.unique(table.device).tolist()
    for device in devices:
        mine = table.stream[(table.device == device) & (table.stream >= 0)]
        yield from _layer(HARDWARE, device, ((stream, f"Stream {stream}") for stream in np.unique(mine).tolist()))
    yield from _hardware(table)
    for device in devices:
        yield from _overlap(table, device)


def _layer(layer: tuple[str, str, int], device: int, threads: Iterable[tuple[int, str]]) -> Iterator[dict[str, object]]:
    """Name a layer of one device, and its rows."""
    name, label, index = layer
    about = {"process_name": {"name": name}, "process_labels": {"labels": label}}
    for key, args in (about | {"process_sort_index": {"sort_index": index}}).items():
        yield {"name": key, "pid": _pid(layer, device), "tid": 0, "ph": "M", "args": args}
    for tid, thread in threads:
        yield from _thread(layer, device, tid, thread)


def _thread(layer: tuple[str, str, int], device: int, tid: int, name: str) -> Iterator[dict[str, object]]:
    for key, args in (("thread_name", {"name": name}), ("thread_sort_index", {"sort_index": tid})):
        yield {"name": key, "pid": _pid(layer, device), "tid": tid, "ph": "M", "args": args}


def _host(table: Table) -> Iterator[dict[str, object]]:
    """Give the launches, with an arrow to what they have launched, and the waits of each thread."""
    threads = {0}
    pid = _pid(CANN, HOST)
    for place in launched(table).tolist():
        task, submitted = int(table.id[place]), int(table.submitted[place])
        if table.stream[place] < 0:
            continue
        args = {"Thread Id": 0, "Mode": "launch", "level": "node", "id": "0", "item_id": "launch"}
        yield _slice("Node@launch", pid, 0, submitted, submitted, {**args, "connection_id": task})
        arrow = _arrow_id(table, place)
        both = {"cat": "HostToDevice", "name": f"HostToDevice{arrow}", "id": arrow}
        yield {"ph": "s", "pid": pid, "tid": 0, "ts": ts(submitted), **both}
        device, stream, started = int(table.device[place]), int(table.stream[place]), int(table.started[place])
        yield {"ph": "f", "bp": "e", "pid": _pid(HARDWARE, device), "tid": stream, "ts": ts(started), **both}
    for thread, begin, end, task, _ in waits(table):
        threads.add(thread)
        args = {"Thread Id": thread, "Mode": "ACL_RTS", "level": "acl", "id": "wait", "item_id": "0"}
        yield _slice("AscendCL@wait", pid, thread, begin, end, {**args, "connection_id": task})
    for thread in sorted(threads):
        yield from _thread(CANN, HOST, thread, f"Thread {thread}")


def _hardware(table: Table) -> Iterator[dict[str, object]]:
    types = task_types(table)
    for place, (name, device, stream, task) in on_streams(table):
        begin, end = int(table.started[place]), int(table.finished[place])
        args = {
            "Model Id": NONE,
            "Task Type": types[int(table.work[place])],
            "Physic Stream Id": stream,
            "Task Id": task & 0xFFFF,
            "Batch Id": task >> 16,
            "Subtask Id": NONE,
            "connection_id": task,
        }
        yield _slice(name, _pid(HARDWARE, device), stream, begin, end, args)


def _overlap(table: Table, device: int) -> Iterator[dict[str, object]]:
    """Give when the device computed, when it copied, when it only copied, and when it did neither."""
    mine = table.device == device
    works = [table.rows[mine & table.is_on(engines)] for engines in (COMPUTES, MOVES)]
    found = [Intervals.union(rows[:, 4], rows[:, 5]) for rows in works]
    points = np.unique(np.concatenate((*found[0], *found[1], table.span_ns)))
    busy, moving = (
        np.searchsorted(i.begins, points, "right") > np.searchsorted(i.ends, points, "right") for i in found
    )
    rows = {
        "Computing": busy,
        "Communication": moving,
        "Communication(Not Overlapped)": moving & ~busy,
        "Free": ~(moving | busy),
    }
    yield from _layer(OVERLAP, device, enumerate(rows))
    for tid, (name, is_so) in enumerate(rows.items()):
        change = np.flatnonzero(np.diff(is_so[:-1].astype(np.int8), prepend=0, append=0))
        edges = points[change].tolist()
        for begin, end in zip(edges[::2], edges[1::2], strict=True):
            yield _slice(name, _pid(OVERLAP, device), tid, begin, end, {})


def _slice(name: str, pid: int, tid: int, begin: int, end: int, args: dict[str, object]) -> dict[str, object]:
    took = (end - begin) / 1000
    return {"name": name, "pid": pid, "tid": tid, "ts": ts(begin), "dur": took, "args": args, "ph": "X"}


def _pid(layer: tuple[str, str, int], device: int) -> int:
    return PROCESS << 10 | layer[2] << 5 | device


def _arrow_id(table: Table, place: int) -> str:
    task = int(table.id[place])
    where = int(table.device[place]) << 80 | int(table.stream[place]) << 64
    return str(where | (task & 0xFFFF) << 48 | (task >> 16) << 32 | NONE)
