"""Draw records in a terminal: time from left to right, one row per stream and one per engine lane.

`Timeline.show` and the demo call me; I read `Record`s and give lines of text. No line is wider than asked, and the
kinds of work differ in shape, so the drawing is readable without colour. A cell shows the work that takes most of its
time; what is too short to be seen in any cell is a thin stroke.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING, NamedTuple, Self, TextIO, TypeVar

if TYPE_CHECKING:
    from .._machine.record import WorkRow
    from .model import Record

T = TypeVar("T")
StreamKey = tuple[int, int, str]
"""A device, the stream's id, and what it is called."""
LaneKey = tuple[int, str, int]
"""A device, an engine, and the number of the lane."""

LEAST_WIDTH = 24
"""A drawing with fewer columns than this says nothing."""
HALF_WIDTH = 50
"""Two drawings go side by side where each gets at least so many columns."""
GAP = 4
MOST_ROWS = 40
UNITS = ((10**9, "s"), (10**6, "ms"), (10**3, "us"), (1, "ns"))
COLOURS = {"copy in": "36", "kernel": "32", "copy out": "35", "copy": "34", "wait": "2"}
ESCAPE = re.compile("\x1b\\[[0-9;]*m")


class Glyph(NamedTuple):
    """How a kind of work looks: a cell of it, and its last cell when more of the same kind follows at once."""

    body: str
    end: str


EMPTY = Glyph(" ", " ")
BLOCKS = {
    "copy in": Glyph("▄", "▖"),
    "kernel": Glyph("█", "▌"),
    "copy out": Glyph("▀", "▘"),
    "copy": Glyph("≡", "-"),
    "wait": Glyph("·", "·"),
    "little": Glyph("▏", "▏"),
    "tick": Glyph("┬", "─"),
}
ASCII = {
    "copy in": Glyph("i", "|"),
    "kernel": Glyph("#", "|"),
    "copy out": Glyph("o", "|"),
    "copy": Glyph("=", "|"),
    "wait": Glyph(".", "."),
    "little": Glyph("'", "'"),
    "tick": Glyph("+", "-"),
}


@dataclass(frozen=True, slots=True)
class Style:
    """What a terminal can show: block characters or plain ASCII, colours or none."""

    blocks: bool = True
    colours: bool = False

    @classmethod
    def of(cls, file: TextIO) -> Self:
        """Find out: blocks if the encoding has them, colours on a terminal unless NO_COLOR is set."""
        try:
            "".join(map("".join, BLOCKS.values())).encode(getattr(file, "encoding", None) or "ascii")
            blocks = True
        except (UnicodeEncodeError, LookupError):
            blocks = False
        wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(blocks, wanted and file.isatty())

    @property
    def glyphs(self) -> dict[str, Glyph]:
        """The characters, by kind of work."""
        return BLOCKS if self.blocks else ASCII

    def paint(self, kind: str, text: str) -> str:
        """Colour a piece of text as that kind of work, where colours are wanted."""
        return f"\x1b[{COLOURS[kind]}m{text}\x1b[0m" if self.colours and kind in COLOURS else text


PLAIN = Style()


def draw(
    records: Iterable[Record],
    width: int = 80,
    *,
    start_ns: int | None = None,
    end_ns: int | None = None,
    style: Style = PLAIN,
) -> list[str]:
    """Draw the records from `start_ns` to `end_ns`, by default all of them, in lines of at most `width` columns."""
    rows = _rows(records)
    if not rows:
        return ["nothing has run"]
    first, last = _span(record for row in rows.values() for record in row)
    start = first if start_ns is None else start_ns
    end = max(last if end_ns is None else end_ns, start + 1)
    return _draw(rows, width, start, end, max(map(len, rows)), style)


def compare(
    runs: Sequence[tuple[str, Sequence[Record]]], width: int = 80, *, span_ns: int | None = None, style: Style = PLAIN
) -> list[str]:
    """Draw several runs with titles at one scale, each from its own start: side by side, or one above the other.

    `span_ns` is how much time to draw; by default that of the longest run.
    """
    drawn = [(title, _rows(records)) for title, records in runs]
    spans = [_span(record for row in rows.values() for record in row) for _, rows in drawn]
    span = max(1, span_ns if span_ns is not None else max(end - start for start, end in spans))
    label = max((len(name) for _, rows in drawn for name in rows), default=0)
    beside = (width - GAP * (len(runs) - 1)) // len(runs)
    across = beside >= HALF_WIDTH
    each = beside if across else width
    parts = [
        [title[:each], *_draw(rows, each, start, start + span, label, style)]
        for (title, rows), (start, _) in zip(drawn, spans, strict=True)
    ]
    if not across:
        return [line for part in parts for line in (*part, "")][:-1]
    return ["".join(_pad(cell, each + GAP) for cell in cells).rstrip() for cells in zip_longest(*parts, fillvalue="")]


def legend(style: Style = PLAIN, kinds: Iterable[str] = ("copy in", "kernel", "copy out")) -> str:
    """Say in one line which characters stand for which kind of work."""
    return "   ".join(f"{style.paint(kind, style.glyphs[kind].body * 2)} {kind}" for kind in kinds)


def kinds(records: Iterable[Record]) -> list[str]:
    """Name the kinds of work that a drawing of these records shows, in the order of a legend."""
    present = {kind_of(record) for record in records if record.duration_ns}
    return [kind for kind in COLOURS if kind in present]


def duration(nanoseconds: int) -> str:
    """Give a duration with three digits in the unit that fits: 1.65 ms."""
    scale, unit = next((pair for pair in UNITS if nanoseconds >= pair[0]), UNITS[-1])
    value = nanoseconds / scale
    digits = 0 if value >= 100 or scale == 1 else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {unit}"


def share(part: int, whole: int) -> str:
    """Give a share in percent."""
    return f"{100 * part / max(whole, 1):.0f}%"


def columns(heads: Sequence[str], rows: Iterable[Sequence[object]], left: Sequence[int] = (0,)) -> str:
    """Lay out a table; the columns named in `left` stand to the left, numbers to the right."""
    lines = [[str(cell) for cell in row] for row in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    laid = [
        [cell.ljust(w) if n in left else cell.rjust(w) for n, (cell, w) in enumerate(zip(line, widths, strict=True))]
        for line in lines
    ]
    return "\n".join("  ".join(line).rstrip() for line in laid)


def kind_of(record: Record | WorkRow) -> str:
    """Say what kind of work it is: what looks alike in every picture."""
    if not record.engine:
        return "wait"
    return {"h2d": "copy in", "d2h": "copy out", "d2d": "copy", "host": "copy"}.get(record.engine, "kernel")


def _span(records: Iterable[Record]) -> tuple[int, int]:
    times = [(record.started_ns, record.finished_ns) for record in records]
    return min((start for start, _ in times), default=0), max((end for _, end in times), default=0)


def _rows(records: Iterable[Record]) -> dict[str, list[Record]]:
    streams: dict[StreamKey, list[Record]] = defaultdict(list)
    lanes: dict[LaneKey, list[Record]] = defaultdict(list)
    for record in records:
        if not record.duration_ns:
            continue
        if record.stream >= 0:
            streams[record.device, record.stream, record.stream_name or f"stream {record.stream}"].append(record)
        if record.engine:
            lanes[record.device, record.engine, record.lane].append(record)
    return arrange(streams, lanes)


def arrange(streams: Mapping[StreamKey, T], lanes: Mapping[LaneKey, T]) -> dict[str, T]:
    """Put rows in order by label: the streams first, then the lanes of the engines in the way of the data."""
    way = {"h2d": 0, "d2d": 2, "d2h": 3, "host": 4}
    many = len({key[0] for key in (*streams, *lanes)}) > 1
    used = Counter(key[:2] for key in lanes)
    rows: dict[str, T] = {}
    for device, number, name in sorted(streams):
        label = f"npu:{device} " * many + name
        rows[label if label not in rows else f"{label} ({number})"] = streams[device, number, name]
    for key in sorted(lanes, key=lambda key: (key[0], way.get(key[1], 1), key)):
        rows[f"npu:{key[0]} " * many + (key[1] if used[key[:2]] == 1 else f"{key[1]} {key[2]}")] = lanes[key]
    return rows


def _draw(rows: dict[str, list[Record]], width: int, start: int, end: int, label: int, style: Style) -> list[str]:
    width = max(width, LEAST_WIDTH)
    label = min(label, 16, width // 3)
    cells = width - label - len("  100%")
    lines = [" " * (label + 1) + line for line in _axis(cells, end - start, style)]
    for name, records in list(rows.items())[:MOST_ROWS]:
        busy = sum(max(0, min(r.finished_ns, end) - max(r.started_ns, start)) for r in records if kind_of(r) != "wait")
        share = f"{min(100, busy * 100 // (end - start)):3d}%"
        lines.append(f"{name[:label]:{label}} {_bar(records, cells, start, end, style)} {share}")
    if len(rows) > MOST_ROWS:
        lines.append(f"and {len(rows) - MOST_ROWS} more rows")
    return lines


def ticks(span: int, width: int, apart: int) -> list[tuple[int, str]]:
    """Give round times from 0 to `span` with their labels, at least `apart` of `width` from each other."""
    step = next(
        step
        for power in range(20)
        for step in (10**power, 2 * 10**power, 5 * 10**power)
        if step * width >= apart * span
    )
    scale, unit = next((pair for pair in UNITS if span >= 2 * pair[0]), UNITS[-1])
    return [(time, f"{time / scale:g} {unit}" if time else "0") for time in range(0, span, step)]


def _axis(cells: int, span: int, style: Style) -> list[str]:
    """Give two lines: labels at round times, and their ticks."""
    tick, line = style.glyphs["tick"]
    numbers, ruler = "", [line] * cells
    for time, text in ticks(span, cells, 9):
        column = time * cells // span
        ruler[column] = tick
        if column + len(text) <= cells:
            numbers = numbers.ljust(column) + text
    return [numbers, "".join(ruler)]


def _bar(records: Sequence[Record], cells: int, start: int, end: int, style: Style) -> str:
    span = end - start
    busy = [0] * cells  # in units of 1 / cells nanoseconds, so that all of this is exact
    best: list[tuple[int, int]] = [(0, -1)] * cells
    for number, record in enumerate(records):
        low = (max(record.started_ns, start) - start) * cells
        high = (min(record.finished_ns, end) - start) * cells
        for cell in range(low // span, -(-high // span)):
            part = min(high, (cell + 1) * span) - max(low, cell * span)
            busy[cell] += part if record.engine else 0
            if part > best[cell][0]:
                best[cell] = (part, number)
    most: dict[int, tuple[int, int]] = {}
    """Per record the cell that it takes most of: what is seen in no other is seen there."""
    for cell, (part, number) in enumerate(best):
        if part > most.get(number, (0, 0))[0]:
            most[number] = (part, cell)
    shown: list[tuple[str, int]] = []
    for cell, (total, (part, number)) in enumerate(zip(busy, best, strict=True)):
        kind = kind_of(records[number]) if number >= 0 else ""
        if kind and max(total, part) * 2 < span:
            kind = "little" if total and most[number][0] * 2 < span and most[number][1] == cell else ""
        shown.append((kind, number))
    return _glyphs(shown, style)


def _glyphs(shown: list[tuple[str, int]], style: Style) -> str:
    """Turn cells of (kind, number of the record) into characters, with a gap between neighbours of one kind."""
    pieces: list[tuple[str, str]] = []
    for before, cell, after in zip([("", -1), *shown], shown, [*shown[1:], ("", -1)], strict=False):
        kind = cell[0]
        ends = before == cell and after != cell and after[0] == kind
        glyph = style.glyphs[kind] if kind else EMPTY
        pieces.append((kind, glyph.end if ends else glyph.body))
    return "".join(
        style.paint(kind, "".join(text for _, text in run)) for kind, run in groupby(pieces, key=lambda piece: piece[0])
    )


def _pad(text: str, width: int) -> str:
    return text + " " * (width - len(ESCAPE.sub("", text)))
