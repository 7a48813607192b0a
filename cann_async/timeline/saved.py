"""Keep a whole table within a trace file, so that a saved timeline can be analysed and replayed like a live one.

`chrome` puts what `encode` gives at the end of its file. Numbers stand as differences to the row before, byte by byte
plane, compressed: that is some ten bytes a task.
"""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._machine.record import COLUMNS, FEED_COLUMNS, HOST_COLUMNS, MEMORY_COLUMNS, SpanRow, StreamRow, WorkRow
from ..soc import Soc
from .table import CHUNK, FEED, HOST, MEMORY, Ints, Table

VERSION = 1
KEY = '"cann_async":'
"""What stands in front of the table in a trace; nothing else in the file may look like it."""


def encode(table: Table) -> Iterator[str]:
    """Write the table as JSON, in pieces."""
    head = {
        "version": VERSION,
        "clock": table.clock,
        "start_ns": table.start_ns,
        "socs": [dataclasses.asdict(soc) for soc in table.socs],
        "works": table.works,
        "streams": table.streams,
        "spans": table.spans,
        "hosts": list(packed(table.hosts.view(np.int64).reshape(-1, len(HOST_COLUMNS)))),
        "feeds": list(packed(table.feeds.view(np.int64).reshape(-1, len(FEED_COLUMNS)))),
        "memory": list(packed(table.memory.view(np.int64).reshape(-1, len(MEMORY_COLUMNS)))),
    }
    yield json.dumps(head, separators=(",", ":"))[:-1]
    yield ',"rows":['
    for number, text in enumerate(packed(table.rows)):
        yield f',\n"{text}"' if number else f'"{text}"'
    yield "]}"


def load(path: Path) -> Table:
    """Read the table of a trace that `Timeline.save` has written; anything else is a ValueError that names the file."""
    data = path.read_bytes()
    try:
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
        place = text.rfind(KEY)  # at the end: the events before it need not be parsed
        return _table(json.JSONDecoder().raw_decode(text, place + len(KEY))[0] if place >= 0 else {})
    except (ValueError, TypeError, KeyError, OSError, EOFError, zlib.error) as problem:
        raise ValueError(f"{path} is not a trace (.json, .json.gz) that cann_async has saved: {problem}") from problem


def _table(found: dict[str, Any]) -> Table:
    if found.get("version") != VERSION:
        raise ValueError("it has no records that this version can read")
    works = tuple(WorkRow(*row) for row in found["works"])
    table = Table(
        rows=unpacked(found["rows"], len(COLUMNS)),
        works=works,
        streams={int(number): StreamRow(*row) for number, row in found["streams"].items()},
        hosts=unpacked(found["hosts"], len(HOST_COLUMNS)).view(HOST).reshape(-1),
        feeds=unpacked(found["feeds"], len(FEED_COLUMNS)).view(FEED).reshape(-1),
        memory=unpacked(found["memory"], len(MEMORY_COLUMNS)).view(MEMORY).reshape(-1),
        spans=tuple(SpanRow(*row) for row in found["spans"]),
        clock=str(found["clock"]),
        start_ns=int(found["start_ns"]),
        socs=tuple(Soc(**soc) for soc in found["socs"]),
    )
    if len(table) and not (table.work.min() >= 0 and table.work.max() < len(works)):
        raise ValueError("its records are damaged")
    return table


def packed(rows: Ints) -> Iterator[str]:
    """Write rows as text, so many of them a piece; `page` puts its rows into a file like that as well."""
    for first in range(0, len(rows), CHUNK):
        part = rows[first : first + CHUNK]
        steps = np.diff(part, axis=0, prepend=np.zeros((1, part.shape[1]), np.int64)).T
        planes: npt.NDArray[np.uint8] = np.ascontiguousarray(steps).astype("<i8").view(np.uint8).reshape(-1, 8).T
        yield base64.b64encode(zlib.compress(planes.tobytes())).decode()


def unpacked(texts: list[str], columns: int) -> Ints:
    """Read what `packed` has written."""
    parts = [np.zeros((0, columns), np.int64)]
    for text in texts:
        planes = np.frombuffer(zlib.decompress(base64.b64decode(text, validate=True)), np.uint8).reshape(8, -1)
        steps = np.ascontiguousarray(planes.T).view("<i8").reshape(columns, -1)
        parts.append(np.cumsum(steps.T, axis=0, dtype=np.int64))
    return np.concatenate(parts)
