"""Write Perfetto's own format through the package `perfetto`: step 7, beside `chrome`; `Timeline.save` calls me.

It says what a Chrome trace cannot: tracks nest (npu:0 > engines > ai_core 0), times are whole nanoseconds, and the
details of a slice have types. A packet refers to names by number; the first packet has them all. Packets stand in the
order in which things happened, also within one instant, because a flow must begin before it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .table import WAITS
from .tracks import annotated, bursts, depths, handovers, launched, memory, stream_label, waits

if TYPE_CHECKING:
    from .table import Ints, Table

SEQUENCE = 1
CLEARED, NEEDS = 1, 2
"""Flags of a packet: from here on the names are new; it refers to names."""
EXPLICIT = 3
"""Children of a track stand in the order of their ranks."""
BEGIN, END, INSTANT, COUNT = 1, 2, 3, 4
"""Types of events."""
COUNTS, BYTES = 2, 3
"""Units of counters."""
DETAILS = (
    *("task", "submitted", "stream", "cores", "blocks", "bytes", "event"),
    *("waited_for_task", "recorded_on", "waits", "tasks", "thread"),
)
CHUNK = 1 << 14
Key = tuple[str | int, ...]


def write_perfetto(table: Table, path: Path) -> None:
    """Write the trace packet by packet; an ImportError that says what to install if `perfetto` is missing."""
    try:
        builder = import_module("perfetto.trace_builder.proto_builder").StreamingTraceProtoBuilder
    except ImportError as problem:
        raise ImportError("writing .pftrace needs a package: pip install 'cann-async[perfetto]'") from problem
    with path.open("wb") as file:
        _Trace(table, builder(file)).write()


class _Trace:
    def __init__(self, table: Table, builder: Any) -> None:
        self._table, self._builder, self._start = table, builder, table.start_ns
        self._tracks: dict[Key, int] = {}
        self._ranks: dict[Key, int] = {}
        self._names: dict[str, int] = {}
        known = chain((work.name for work in table.works), (span.name for span in table.spans), ("enqueue", "wait"))
        for name in known:
            self._names.setdefault(name, len(self._names) + 1)
        self._details = {name: number for number, name in enumerate(DETAILS, 1)}

    def write(self) -> None:
        self._write_names()
        self._host()
        self._tasks()
        for stream, points in depths(self._table):
            device = self._table.streams[stream].device
            name = f"queue of {stream_label(self._table, stream)}"
            self._counter(("npu", device, "streams", f"{stream} queue"), name, COUNTS, points)
        for device, used in memory(self._table):
            self._counter(("npu", device, "memory"), "device memory", BYTES, used)

    # -- the host -----------------------------------------------------------------------------------------------------

    def _host(self) -> None:
        table = self._table
        places = launched(table)
        places = places[np.argsort(table.submitted[places], kind="stable")]
        pending = list(zip(table.submitted[places].tolist(), places.tolist(), strict=True))[::-1]
        for begin, end, tasks in bursts(table):
            track = self._track(("host", "enqueues"), "enqueues")
            self._event(BEGIN, track, begin, "enqueue", {"tasks": tasks})
            while pending and pending[-1][0] <= end:
                time, place = pending.pop()
                task = int(table.id[place])
                name = table.works[int(table.work[place])].name
                self._event(INSTANT, track, time, name, {"task": task}, flows=[2 * task])
            self._event(END, track, end)
        for thread, begin, end, task, number in waits(table):
            track = self._track(("host", "wait", thread), f"thread {thread} waits")
            self._event(BEGIN, track, begin, "wait", {"task": task, "waits": number})
            self._event(END, track, end)
        open_ends: dict[int, list[int]] = {}
        for level, span in annotated(table):
            ends = open_ends.setdefault(level, [])
            track = self._track(("host", "annotations", level), f"annotations {level}" if level else "annotations")
            while ends and ends[-1] <= span.started_ns:
                self._event(END, track, ends.pop())
            self._event(BEGIN, track, span.started_ns, span.name, {"thread": span.thread})
            ends.append(span.ended_ns)
        for level, ends in open_ends.items():
            for end in reversed(ends):
                self._event(END, self._tracks["host", "annotations", level], end)

    # -- the devices --------------------------------------------------------------------------------------------------

    def _tasks(self) -> None:
        table = self._table
        to_launch = set(table.id[launched(table)].tolist())
        begins: dict[int, list[int]] = {}
        ends: dict[int, list[int]] = {}
        for wait, source in handovers(table):
            flow = 2 * int(table.id[wait]) + 1
            begins.setdefault(source, []).append(flow)
            ends[wait] = [flow]
        for place, what in _happenings(table):
            task, _, lane, submitted, started, finished, nbytes, _ = table.rows[place].tolist()
            work, stream = table.works[int(table.work[place])], int(table.stream[place])
            on_lane = self._lane(work.device, work.engine, lane) if work.engine else 0
            on_stream = self._stream(work.device, stream) if stream >= 0 else 0
            if what in (BEGIN, INSTANT):
                if on_lane:
                    details = {"task": task, "stream": stream, "cores": work.cores, "blocks": work.blocks}
                    flows = [2 * task] if task in to_launch else []
                    self._event(BEGIN, on_lane, started, work.name, details, ends=flows)
                if on_stream:
                    details = {"task": task, "submitted": submitted - self._start, **self._more(place, nbytes)}
                    self._event(BEGIN, on_stream, started, work.name, details, flows=begins.get(place, []))
            if what in (END, INSTANT):
                for track in filter(None, (on_lane, on_stream)):
                    self._event(END, track, finished, ends=ends.get(place, []) if track == on_stream else [])

    def _more(self, place: int, nbytes: int) -> dict[str, int | str]:
        """Say what a wait waited for, of a record what it recorded, and of a copy how much it was."""
        table, work = self._table, self._table.works[int(self._table.work[place])]
        more: dict[str, int | str] = {}
        if work.engine:
            return {"bytes": nbytes} if nbytes else more
        if work.label is not None:
            more["event"] = work.label
        if work.name in WAITS and table.target[place]:
            more["waited_for_task"] = int(table.target[place])
            source = int(table.index(table.target[place : place + 1])[0])
            if source >= 0:
                more["recorded_on"] = int(table.stream[source])
        return more

    def _lane(self, device: int, engine: str, lane: int) -> int:
        key = ("npu", device, "engines", engine, lane)
        return self._tracks.get(key) or self._track(key, f"{engine} {lane}")

    def _stream(self, device: int, stream: int) -> int:
        key = ("npu", device, "streams", stream)
        return self._tracks.get(key) or self._track(key, stream_label(self._table, stream))

    # -- packets ------------------------------------------------------------------------------------------------------

    def _track(self, key: Key, name: str, unit: int = 0) -> int:
        """Give the number of a track; when it is new it is described, below those that it belongs to."""
        if key in self._tracks:
            return self._tracks[key]
        parent = 0
        if key[0] == "npu" and len(key) > 2:
            above = key[:3] if len(key) > 3 else key[:2]
            parent = self._track(above, f"npu:{key[1]}" if len(above) == 2 else str(above[2]))
        elif len(key) > 1 and key[0] == "host":
            parent = self._track(("host",), "host")
        number = self._tracks[key] = len(self._tracks) + 1
        packet = self._packet()
        track = packet.track_descriptor
        track.uuid, track.name, track.child_ordering = number, _text(name), EXPLICIT
        if parent:
            track.parent_uuid = parent
        rank = self._ranks[(parent,)] = self._ranks.get((parent,), 0) + 1
        track.sibling_order_rank = rank
        if unit:
            track.counter.unit = unit
        self._builder.write_packet(packet)
        return number

    def _counter(
        self, key: Key, name: str, unit: int, points: Iterator[tuple[int, int]] | list[tuple[int, int]]
    ) -> None:
        track = self._track(key, name, unit)
        for time, value in points:
            packet = self._packet(time)
            packet.track_event.type, packet.track_event.track_uuid = COUNT, track
            packet.track_event.counter_value = value
            self._builder.write_packet(packet)

    def _event(
        self,
        kind: int,
        track: int,
        time: int,
        name: str = "",
        details: dict[str, Any] | None = None,
        *,
        flows: list[int] | None = None,
        ends: list[int] | None = None,
    ) -> None:
        packet = self._packet(time)
        event = packet.track_event
        event.type, event.track_uuid = kind, track
        if kind != END:
            event.name_iid = self._names[name]
        for key, value in (details or {}).items():
            detail = event.debug_annotations.add()
            detail.name_iid = self._details[key]
            if isinstance(value, int):
                detail.int_value = value
            else:
                detail.string_value = _text(value)
        event.flow_ids.extend(flows or ())
        event.terminating_flow_ids.extend(ends or ())
        self._builder.write_packet(packet)

    def _packet(self, time: int | None = None) -> Any:
        packet = self._builder.create_packet()
        packet.trusted_packet_sequence_id, packet.sequence_flags = SEQUENCE, NEEDS
        if time is not None:
            packet.timestamp = time - self._start
        return packet

    def _write_names(self) -> None:
        packet = self._packet()
        packet.sequence_flags = CLEARED | NEEDS
        for name, number in self._names.items():
            packet.interned_data.event_names.add(iid=number, name=_text(name))
        for name, number in self._details.items():
            packet.interned_data.debug_annotation_names.add(iid=number, name=name)
        self._builder.write_packet(packet)


def _happenings(table: Table) -> Iterator[tuple[int, int]]:
    """Give the place of a task with BEGIN, with END, or with INSTANT if it took no time, in the order of events.

    Of what happens at one instant, ends come before begins, and within each the order is that of submission: so a
    record comes before the end of a wait for it, and that before the next task of its stream.
    """
    short = table.finished == table.started
    begin, end, both = (np.flatnonzero(which) for which in (~short, ~short, short))
    places: Ints = np.concatenate((end, both, begin))
    what = np.repeat((END, INSTANT, BEGIN), (len(end), len(both), len(begin)))
    times = np.concatenate((table.finished[end], table.started[both], table.started[begin]))
    order = np.lexsort((places, what == BEGIN, times))
    for first in range(0, len(order), CHUNK):
        part = order[first : first + CHUNK]
        yield from zip(places[part].tolist(), what[part].tolist(), strict=True)


def _text(name: str) -> str:
    """Replace what cannot be encoded."""
    return name.encode(errors="replace").decode()
