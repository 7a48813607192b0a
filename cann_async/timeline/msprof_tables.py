"""The tables of an msprof folder, row by row, and what they share with its trace; `msprof` calls me.

A task has 16 bits for its number, and a batch that counts how often they were used up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from .table import COMPUTES
from .tracks import us

if TYPE_CHECKING:
    from .table import Table

NONE = 4294967295
"""What msprof writes for no model and no subtask."""
TYPES = {
    "ai_core": "AI_CORE",
    "ai_vector": "AI_VECTOR_CORE",
    "ai_cpu": "AI_CPU",
    "dvpp": "DVPP",
    "h2d": "MEMCPY_ASYNC",
    "d2h": "MEMCPY_ASYNC",
    "d2d": "SDMA",
    "host": "CALLBACK_LAUNCH",
}
EVENTS = {"record": "EVENT_RECORD", "wait": "EVENT_WAIT", "wait notify": "NOTIFY_WAIT", "wait value": "MEM_WAIT_VALUE"}
SUMMARY = (
    *("Device_id", "Model ID", "Task ID", "Stream ID", "Op Name", "OP Type", "OP State", "Task Type"),
    *("Task Start Time(us)", "Task Duration(us)", "Task Wait Time(us)", "Block Dim", "Mix Block Dim", "HF32 Eligible"),
    *("Input Shapes", "Input Data Types", "Input Formats", "Output Shapes", "Output Data Types", "Output Formats"),
    "Context ID",
)
STATISTIC = (
    *("Device_id", "OP Type", "Core Type", "Count"),
    *("Total Time(us)", "Min Time(us)", "Avg Time(us)", "Max Time(us)", "Ratio(%)"),
)
APIS = ("Device_id", "Level", "API Name", "Time(us)", "Count", "Avg(us)", "Min(us)", "Max(us)", "Variance")
TIMES = (
    *("Device_id", "kernel_name", "kernel_type", "stream_id", "task_id"),
    *("task_time(us)", "task_start(us)", "task_stop(us)"),
)
CHUNK = 1 << 14


def task_types(table: Table) -> list[str]:
    """Give msprof's word for each kind of work."""
    named = (EVENTS.get(work.name, work.name.upper().replace(" ", "_")) for work in table.works)
    return [TYPES.get(work.engine, name) for work, name in zip(table.works, named, strict=True)]


def on_streams(table: Table) -> Iterator[tuple[int, tuple[str, int, int, int]]]:
    """Give the tasks of streams by their begin: the place in the table, then name, device, stream and id."""
    places = np.flatnonzero(table.stream >= 0)
    places = places[np.lexsort((places, table.started[places]))]
    for first in range(0, len(places), CHUNK):
        part = places[first : first + CHUNK]
        columns = (part, table.work[part], table.stream[part], table.id[part])
        for place, number, stream, task in zip(*(column.tolist() for column in columns), strict=True):
            work = table.works[number]
            yield place, (work.name, work.device, stream, task)


def ts(nanoseconds: int) -> str:
    """Write microseconds with three decimals, as msprof does for an instant."""
    whole, rest = divmod(nanoseconds, 1000)
    return f"{whole}.{rest:03d}"


def summary(table: Table) -> Iterator[tuple[object, ...]]:
    """Give op_summary: what computed, one by one."""
    computes, types = table.is_on(COMPUTES), task_types(table)
    ended: dict[int, int] = {}
    for place, (name, device, stream, task) in on_streams(table):
        begin, end = int(table.started[place]), int(table.finished[place])
        idle, ended[stream] = begin - ended.get(stream, begin), end
        if computes[place]:
            number = int(table.work[place])
            head = (device, NONE, task & 0xFFFF, stream, name, name, "N/A", types[number], ts(begin))
            yield (*head, us(end - begin), us(idle), table.works[number].blocks, 0, "NO", *("N/A",) * 7)


def statistic(table: Table) -> Iterator[tuple[object, ...]]:
    """Give op_statistic: what computed, by kind, the longest first."""
    types = task_types(table)
    kinds = [(w.device, w.name, types[n]) if w.engine in COMPUTES else None for n, w in enumerate(table.works)]
    numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kind for kind in kinds if kind))}
    of_task = table.of_works([numbers[kind] if kind else -1 for kind in kinds])
    found = []
    for kind, number in numbers.items():
        took = (table.finished - table.started)[of_task == number]
        if len(took):
            found.append((int(took.sum()), kind, len(took), int(took.min()), int(took.max())))
    totals = {device: sum(total for total, kind, *_ in found if kind[0] == device) for (device, *_) in numbers}
    for total, kind, count, least, most in sorted(found, key=lambda row: (-row[0], row[1])):
        share = round(100 * total / max(1, totals[kind[0]]), 3)
        yield (*kind, count, us(total), us(least), round(total / count / 1000, 3), us(most), share)


def apis(table: Table) -> Iterator[tuple[object, ...]]:
    """Give api_statistic: the waits of the host, and its launches, whose time nobody has measured."""
    tasks = int(np.count_nonzero(table.stream >= 0))
    waited = table.hosts["ended_ns"] - table.hosts["started_ns"]
    for level, name, took in (("acl", "wait", waited), ("node", "launch", np.zeros(tasks, np.int64))):
        if len(took):
            spread = round(float(np.var(took / 1000)), 3)
            mean = round(float(np.mean(took)) / 1000, 3)
            row = (us(int(took.sum())), len(took), mean, us(int(took.min())), us(int(took.max())), spread)
            yield ("host", level, name, *row)


def times(table: Table) -> Iterator[tuple[object, ...]]:
    """Give task_time: every task of a stream."""
    types = task_types(table)
    for place, (name, device, stream, task) in on_streams(table):
        begin, end = int(table.started[place]), int(table.finished[place])
        kind = types[int(table.work[place])]
        yield device, name, kind, stream, task & 0xFFFF, us(end - begin), ts(begin), ts(end)
