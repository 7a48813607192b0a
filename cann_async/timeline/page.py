"""Write one page to look at a timeline in a browser, offline: its style, its script and its data are all in it.

The parts stand in the folder `html`, and `write_page` only puts them together: the script has its own steps, from
`data.js` (decode) over `rows.js` and `paint.js` (draw) to `view.js` and `input.js` (react). Times count from the
runtime's start, so a script's numbers, which are 64-bit floats, keep every nanosecond for a hundred days.
"""

from __future__ import annotations

import html
import json
import re
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from .._machine.record import HOST_COLUMNS, MEMORY_COLUMNS
from .saved import packed

if TYPE_CHECKING:
    from .table import Ints, Table

SCRIPTS = ("data.js", "rows.js", "ink.js", "paint.js", "axis.js", "panel.js", "view.js", "input.js")
"""In the order in which they build on one another; together they are one script."""
TASKS = ("id", "work", "stream", "lane", "submitted", "started", "finished", "bytes")
"""The columns of the tasks in the page."""
MARK = re.compile(r"\{\{ (\w+) \}\}")


def write_page(table: Table, path: Path) -> None:
    """Write the page. It needs no network, and no kernel's name can break out of its data."""
    parts = {
        "title": html.escape(f"{len(table)} tasks, {table.clock} clock"),
        "style": _read("page.css"),
        "script": "\n".join(_read(name) for name in SCRIPTS),
        "data": _data(table),
    }
    # In one pass: what a part contains is never taken for a mark.
    path.write_text(MARK.sub(lambda mark: parts[mark[1]], _read("page.html")), encoding="utf-8")


def _read(name: str) -> str:
    return (resources.files(__package__) / "html" / name).read_text(encoding="utf-8")


def _data(table: Table) -> str:
    """Give the table as JSON without a single "<", which is all that HTML looks for within a script."""
    hosts = table.hosts.view("i8").reshape(-1, len(HOST_COLUMNS))
    found = {
        "clock": table.clock,
        "start_ns": table.start_ns,
        "socs": [soc.name for soc in table.socs],
        "works": table.works,
        "streams": table.streams,
        "spans": [
            (name, began - table.start_ns, ended - table.start_ns, thread) for name, began, ended, thread in table.spans
        ],
        "tasks": list(packed(_tasks(table))),
        "hosts": list(packed(_plain(hosts[:, :4], (1, 2), table.start_ns))),
        "memory": list(packed(_plain(table.memory.view("i8").reshape(-1, len(MEMORY_COLUMNS)), (0,), table.start_ns))),
    }
    return json.dumps(found, separators=(",", ":")).replace("<", "\\u003c")


def _tasks(table: Table) -> Ints:
    """Give the rows of the tasks, with the stream in a column of its own; of a wait, `bytes` is what it waited for."""
    rows = _plain(table.rows, (3, 4, 5), table.start_ns)
    rows[:, 7] = rows[:, 6]
    rows[:, 4:7] = rows[:, 3:6].copy()
    rows[:, 3] = rows[:, 2]
    rows[:, 1], rows[:, 2] = table.work, table.stream
    return rows


def _plain(rows: Ints, times: tuple[int, ...], start_ns: int) -> Ints:
    """Copy the rows, with times that count from the start."""
    rows = rows.copy()
    for column in times:
        rows[:, column] -= start_ns
    return rows
