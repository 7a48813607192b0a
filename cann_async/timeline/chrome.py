"""Write a Chrome trace, which Perfetto, chrome://tracing and MindStudio Insight open.

Every device is two processes: its engines with one track per lane, and its streams with one track each. On a track
nothing overlaps: a lane runs one task at a time, and so does a stream. Times are microseconds with three decimals,
counted from the runtime's start, so a 64-bit float keeps every nanosecond.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import Record, Timeline

LANES = 1000
"""Room for lane numbers between two engines' first tracks."""


def write_chrome(timeline: Timeline, path: Path) -> None:
    """Write the trace, one event a line."""
    records, start = timeline.records, timeline.start_ns
    tracks: dict[tuple[int, int], str] = {}
    order: dict[str, int] = {}
    with path.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit":"ns","otherData":')
        file.write(json.dumps({"clock": timeline.clock, "tasks": len(records)}))
        file.write(',"traceEvents":[\n')
        for record in sorted(records, key=lambda r: (r.started_ns, -r.duration_ns, r.id)):
            for line in _slices(record, start, tracks, order):
                file.write(line + ",\n")
        file.write(",\n".join(_names(tracks)))
        file.write("\n]}\n")


def _slices(record: Record, start: int, tracks: dict[tuple[int, int], str], order: dict[str, int]) -> list[str]:
    pid_engines, pid_streams = 2 * record.device + 1, 2 * record.device + 2
    lines = []
    submitted = _us(record.submitted_ns - start)
    args: dict[str, object] = {"task": record.id, "stream": record.stream, "submitted": submitted}
    if record.nbytes:
        args["bytes"] = record.nbytes
    if record.waited_for is not None:
        args["waited_for_task"] = record.waited_for
    category = record.engine or record.name
    if record.engine:
        first = order.setdefault(record.engine, len(order)) * LANES
        track = (pid_engines, first + record.lane)
        tracks[track] = f"{record.engine} {record.lane}"
        lines.append(_slice(record, start, category, *track, {**args, "cores": record.cores}))
    if record.stream >= 0:
        track = (pid_streams, record.stream)
        tracks[track] = f"stream {record.stream}" + (f" ({record.stream_name})" if record.stream_name else "")
        lines.append(_slice(record, start, category, *track, args))
    return lines


def _slice(record: Record, start: int, category: str, pid: int, tid: int, args: dict[str, object]) -> str:
    head = json.dumps({"name": record.name, "cat": category, "ph": "X", "pid": pid, "tid": tid})
    times = f'"ts":{_us(record.started_ns - start)},"dur":{_us(record.duration_ns)}'
    return f'{head[:-1]},{times},"args":{json.dumps(args)}}}'


def _names(tracks: dict[tuple[int, int], str]) -> list[str]:
    lines = []
    for pid in sorted({pid for pid, _ in tracks}):
        device, streams = divmod(pid - 1, 2)
        name = f"npu:{device} {'streams' if streams else 'engines'}"
        lines.append(json.dumps({"name": "process_name", "ph": "M", "pid": pid, "tid": 0, "args": {"name": name}}))
        lines.append(
            json.dumps({"name": "process_sort_index", "ph": "M", "pid": pid, "tid": 0, "args": {"sort_index": pid}})
        )
    for (pid, tid), name in sorted(tracks.items()):
        lines.append(json.dumps({"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}))
        lines.append(
            json.dumps({"name": "thread_sort_index", "ph": "M", "pid": pid, "tid": tid, "args": {"sort_index": tid}})
        )
    return lines


def _us(nanoseconds: int) -> float:
    return nanoseconds / 1000
