"""Draw a table as a picture for notebooks and pages: step 7, beside `text`, which draws the same rows in a terminal.

`Timeline.save` and `Timeline._repr_mimebundle_` call me. The picture is SVG without a script and without an id, and
its classes have a prefix of their own, so that any number of pictures can stand on one page. It follows the reader's
choice of light or dark, on a ground of its own, since a notebook may show it as an image that knows nothing of the page
around it. However many tasks there are, it stays small: what is too narrow to be seen is drawn together.
"""

from __future__ import annotations

import html
import re
import unicodedata
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .text import COLOURS, MOST_ROWS, arrange, duration, kind_of, ticks

if TYPE_CHECKING:
    from .table import Ints, Table
    from .text import LaneKey, StreamKey

WIDTH = 960
MARGIN, HEAD, STEP, BAR, SPLIT = 16, 66, 24, 18, 12
"""In pixels: around everything, above the rows, from row to row, of a bar, between the streams and the engines."""
SHARE, LETTER = 46, 7.2
"""In pixels: room for the percent at the end of a row, and what a letter takes at most on average."""
MOST_SLICES = 1900
LONGEST_LABEL, LONGEST_NAME = 22, 80
KINDS = tuple(COLOURS)
FILLS = dict(zip(KINDS, ("#6db6e8", "#f0a830", "#b878b0", "#9a9a45", ""), strict=True))
"""The same on light and dark; far apart in hue or in lightness also for who does not see red, green or blue."""
SHORT = dict(zip(KINDS, ("in", "kernel", "out", "copy", "wait"), strict=True))
LIGHT = {"ground": "#ffffff", "edge": "#d8dee6", "ink": "#1d2530", "faint": "#667180", "track": "#f2f4f7"}
DARK = {"ground": "#161b22", "edge": "#30363d", "ink": "#e6edf3", "faint": "#8d96a0", "track": "#21262d"}
FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What may not stand in XML, not even escaped."""


class Row(NamedTuple):
    """One row of the picture: the places of its tasks in the table, by time."""

    on_engine: bool
    places: Ints


class Slices(NamedTuple):
    """What is drawn of a row, as arrays: a slice holds the tasks from `first` to `last` of the row."""

    first: Ints
    last: Ints


def write_svg(table: Table, path: Path) -> None:
    """Write the picture to a file."""
    path.write_text(svg(table), encoding="utf-8", newline="\n")


def svg(table: Table, width: int = WIDTH) -> str:
    """Draw all tasks that took time: streams, engine lanes, and how busy each was; at least 480 pixels wide."""
    width = max(width, 480)
    rows = _rows(table)
    mark = zlib.crc32(repr((table.works, table.streams, table.clock, width)).encode(), zlib.crc32(table.rows.tobytes()))
    prefix = f"ca{mark:08x}"
    if not rows:
        note = f'<text class="{prefix}-faint" x="160" y="37" text-anchor="middle">nothing has run</text>'
        return _picture(prefix, 320, 64, "an empty timeline", [note])
    return _Drawing(table, dict(list(rows.items())[:MOST_ROWS]), len(rows), width, prefix).picture()


def _rows(table: Table) -> dict[str, Row]:
    """Find the rows by label; they are the same as those of `text`, without making a Python object per task."""
    lasting = np.flatnonzero(table.finished > table.started)
    lasting = lasting[np.lexsort((table.id[lasting], table.started[lasting]))]
    streams: dict[StreamKey, Row] = {}
    for number in np.unique(table.stream[lasting]).tolist():
        if number >= 0:
            places, row = lasting[table.stream[lasting] == number], table.streams.get(number)
            device = row.device if row is not None else int(table.device[places[0]])
            streams[device, number, (row.name if row is not None else None) or f"stream {number}"] = Row(False, places)
    engines = {(work.device, work.engine): number for number, work in enumerate(table.works) if work.engine}
    engine = table.of_works([engines.get((work.device, work.engine), -1) for work in table.works])
    lanes: dict[LaneKey, Row] = {}
    for (device, name), number in engines.items():
        mine = lasting[engine[lasting] == number]
        lane = table.rows[mine, 2]
        for each in np.unique(lane).tolist():
            lanes[device, name, each] = Row(True, mine[lane == each])
    return arrange(streams, lanes)


class _Drawing:
    def __init__(self, table: Table, rows: dict[str, Row], found: int, width: int, prefix: str) -> None:
        self._table, self._rows, self._found, self._width, self._prefix = table, rows, found, width, prefix
        drawn = np.concatenate([row.places for row in rows.values()])
        self._drawn = len(np.unique(drawn))
        self._start = int(table.started[drawn].min())
        self._span = int(table.finished[drawn].max()) - self._start
        self._kind = table.of_works([KINDS.index(kind_of(work)) for work in table.works])
        self._left = round(MARGIN + 10 + LETTER * max(_cells(_cut(name, LONGEST_LABEL)) for name in rows))
        self._plot = width - MARGIN - SHARE - self._left
        self._scale = self._plot / self._span

    def picture(self) -> str:
        rows = list(self._rows.items())
        streams = sum(not row.on_engine for _, row in rows)
        split = SPLIT * (0 < streams < len(rows))
        tops = [HEAD + STEP * number + split * row.on_engine for number, (_, row) in enumerate(rows)]
        bottom, more = tops[-1] + BAR, self._found - len(rows)
        what = f"{self._drawn:,} task{'s' * (self._drawn != 1)} in {duration(self._span)}"
        body = [*self._heading(what), *map(self._track, tops), *self._axis(bottom)]
        for (label, row), slices, top in zip(rows, self._slices(), tops, strict=True):
            body += self._row(label, row, slices, top)
        if more:
            body.append(self._text("faint", MARGIN, bottom + 22, f"and {more} more row{'s' * (more != 1)}"))
        return _picture(self._prefix, self._width, bottom + MARGIN + 20 * bool(more), what, body)

    def _slices(self) -> list[Slices]:
        """Choose what is drawn: tasks narrower than a pixel as one, or than more if it would be too much otherwise."""
        table, least = self._table, -(-self._span // self._plot)
        times = [(table.started[row.places], table.finished[row.places]) for row in self._rows.values()]
        while True:
            found = []
            for started, finished in times:
                narrow = finished - started < least
                cell = np.where(narrow, (started - self._start) // least, -1 - np.arange(len(started)))
                first = np.flatnonzero(np.append(True, cell[1:] != cell[:-1]))
                found.append(Slices(first, np.append(first[1:], len(cell)) - 1))
            if sum(len(slices.first) for slices in found) <= MOST_SLICES:
                return found
            least *= 2

    def _heading(self, what: str) -> Iterator[str]:
        yield self._text("title", MARGIN, 26, what)
        yield self._text("faint", MARGIN + round(7.6 * len(what)) + 8, 26, f"{self._table.clock} clock")
        kinds = np.unique(np.concatenate([self._kind[row.places] for row in self._rows.values()])).tolist()
        right = float(self._width - MARGIN)
        for kind in reversed([KINDS[number] for number in kinds]):
            right -= LETTER * len(kind)
            yield self._text("faint", right, 26, kind)
            right -= 20
            yield self._bar(kind, right, 17, 15, 11) + "</rect>" + self._dots(kind, right, 17, 15, 11)
            right -= 14

    def _axis(self, bottom: int) -> Iterator[str]:
        for time, label in ticks(self._span, self._plot, 84):
            x = self._left + time * self._scale
            yield f'<path class="{self._prefix}-grid" d="M{x:.1f} {HEAD - 8}V{bottom + 4}"/>'
            if x + LETTER * len(label) <= self._left + self._plot + 8:
                yield self._text("faint", x, HEAD - 13, label)
        yield self._text("faint", self._width - MARGIN, HEAD - 13, "busy", "end")

    def _track(self, top: int) -> str:
        place = f'x="{self._left}" y="{top}" width="{self._plot}" height="{BAR}"'
        return f'<rect class="{self._prefix}-track" {place} rx="3"/>'

    def _row(self, label: str, row: Row, slices: Slices, top: int) -> Iterator[str]:
        table, places = self._table, row.places
        started, finished = table.started[places] - self._start, table.finished[places] - self._start
        kind, took = self._kind[places], finished - started
        yield self._text("ink", MARGIN, top + 13, _cut(label, LONGEST_LABEL), title=_clip(label))
        each = [np.add.reduceat(np.where(kind == number, took, 0), slices.first) for number in range(len(KINDS))]
        most, filled = np.argmax(each, axis=0).tolist(), np.sum(each, axis=0).tolist()
        ends = zip(slices.first.tolist(), slices.last.tolist(), most, filled, strict=True)
        names: list[str] = []  # above all bars: a name may begin where the next bar has its edge
        for first, last, number, full in ends:
            begin, end = int(started[first]), int(finished[last])
            x, wide = self._left + begin * self._scale, (end - begin) * self._scale
            shown = max(wide - 0.8 * (wide >= 3), 0.8)  # a gap between neighbours, where there is room
            work = table.works[int(table.work[places[first]])]
            if first == last:
                about, opacity = f"{_clip(work.name)}\ntask {int(table.id[places[first]])}", 1.0
                if wide >= 44 and KINDS[number] != "wait":
                    names += self._name(work.name, x, shown, top)
            else:
                about, opacity = f"{last - first + 1:,} tasks, mostly {KINDS[number]}", max(0.4, full / (end - begin))
            about += f"\n{begin / 1000:,.3f} us to {end / 1000:,.3f} us\n{duration(full)}"
            bar = self._bar(KINDS[number], x, top, shown, BAR, opacity)
            yield f"{bar}<title>{_escaped(about)}</title></rect>{self._dots(KINDS[number], x, top, shown, BAR)}"
        yield from names
        busy = int(took[kind != KINDS.index("wait")].sum()) * 100 // self._span
        yield self._text("ink", self._width - MARGIN, top + 13, f"{min(busy, 100)}%", "end")

    def _bar(self, kind: str, x: float, y: int, wide: float, high: int, opacity: float = 1) -> str:
        more = f' opacity="{opacity:.2f}"' if opacity < 0.995 else ""
        size = f'x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{high}"' + ' rx="2"' * (wide >= 8)
        return f'<rect class="{self._prefix}-{SHORT[kind]}" {size}{more}>'

    def _dots(self, kind: str, x: float, y: int, wide: float, high: int) -> str:
        """Give a wait its dots: a hatching would need an id, which could be there twice on a page."""
        if kind != "wait" or wide < 6:
            return ""
        return f'<path class="{self._prefix}-dots" d="M{x + 3:.1f} {y + high / 2:g}H{x + wide - 2:.1f}"/>'

    def _name(self, name: str, x: float, wide: float, top: int) -> Iterator[str]:
        text = _cut(name, int((wide - 8) / LETTER))
        if len(text) > 3 or text == name:
            yield self._text("name", x + 5, top + 13, text)

    def _text(self, kind: str, x: float, y: int, text: str, anchor: str = "", title: str = "") -> str:
        at = f' text-anchor="{anchor}"' if anchor else ""
        more = f"<title>{_escaped(title)}</title>" if title not in {"", text} else ""
        return f'<text class="{self._prefix}-{kind}" x="{x:g}" y="{y}"{at}>{more}{_escaped(text)}</text>'


def _picture(prefix: str, width: int, height: int, what: str, body: list[str]) -> str:
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}" style="max-width:100%;height:auto"'
    ground = f'<rect class="{prefix}-ground" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="{prefix}" {size} role="img" aria-label="{_escaped(what)}">'
    return "\n".join([head, f"<style>{_style(prefix)}</style>", ground, *body, "</svg>", ""])


def _style(prefix: str) -> str:
    def themed(colours: dict[str, str]) -> str:
        return (
            f".{prefix}-ground{{fill:{colours['ground']};stroke:{colours['edge']}}}"
            f".{prefix}-track{{fill:{colours['track']}}}"
            f".{prefix}-grid{{stroke:{colours['edge']}}}"
            f".{prefix}-ink,.{prefix}-title{{fill:{colours['ink']}}}"
            f".{prefix}-faint{{fill:{colours['faint']}}}"
            f".{prefix}-wait{{fill:{colours['edge']}}}"
            f".{prefix}-dots{{stroke:{colours['faint']}}}"
        )

    kinds = "".join(f".{prefix}-{SHORT[kind]}{{fill:{fill}}}" for kind, fill in FILLS.items() if fill)
    return (
        f".{prefix} text{{font:11px system-ui,sans-serif;white-space:pre}}"
        f".{prefix} .{prefix}-title{{font-size:13px;font-weight:600}}"
        f".{prefix}-name{{fill:#14191f;pointer-events:none}}"
        f".{prefix}-dots{{fill:none;stroke-width:2;stroke-linecap:round;stroke-dasharray:0 5;pointer-events:none}}"
        f"{kinds}{themed(LIGHT)}@media (prefers-color-scheme:dark){{{themed(DARK)}}}"
    )


def _cells(text: str) -> int:
    """Count the letters, those of East Asia twice."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _clip(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _cut(text: str, cells: int) -> str:
    """Shorten to so many letters' room."""
    text = _clip(text)
    if _cells(text) <= cells:
        return text
    while text and _cells(text) >= cells:
        text = text[:-1]
    return text + "…"


def _escaped(text: str) -> str:
    return html.escape(FORBIDDEN.sub("\ufffd", text))
