"""The drawing of a timeline in the terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import cann_async.sync as ca
from cann_async.timeline import Record
from cann_async.timeline.text import ESCAPE, Style, compare, draw, duration, kinds, legend

GOLDEN = Path(__file__).parent / "golden" / "timeline.txt"


def record(engine: str, stream: int, start: int, end: int, lane: int = 0, device: int = 0) -> Record:
    """Make a record with what a drawing looks at."""
    name = "work" if engine else "wait"
    return Record(0, name, device, stream, None, engine, lane, 1, 0, start, end, 0, None)


def pipeline(streams: int, batches: int = 6) -> list[Record]:
    """Copy in for 40 us, compute for 30, copy out for 40, every stream in turn."""
    free = {"h2d": 0, "ai_core": 0, "d2h": 0}
    ready = [0] * streams
    records = []
    for batch in range(batches):
        stream = batch % streams
        for engine, took in (("h2d", 40_000), ("ai_core", 30_000), ("d2h", 40_000)):
            start = max(free[engine], ready[stream])
            free[engine] = ready[stream] = start + took
            records.append(record(engine, stream + 1, start, start + took))
    return records


def mixed() -> list[Record]:
    """Give one of everything: waits, copies on the device, two lanes, what is too short to be seen, no stream."""
    return [
        record("h2d", 1, 0, 300),
        record("", 2, 0, 300),
        record("d2d", 2, 300, 500),
        record("ai_core", 1, 300, 700),
        record("ai_core", 2, 500, 900, lane=4),
        record("ai_cpu", 1, 700, 703),
        record("d2h", -1, 900, 1000),
        record("", 1, 950, 950),
    ]


def drawings() -> str:
    """Give everything that the golden file holds."""
    runs = [("1 stream", pipeline(1)), ("3 streams", pipeline(3))]
    parts = {
        "blocks, 80 columns": draw(mixed(), 80),
        "ASCII, 80 columns": draw(mixed(), 80, style=Style(blocks=False)),
        "30 columns": draw(mixed(), 30),
        "a part of the time": draw(mixed(), 60, start_ns=250, end_ns=750),
        "side by side": compare(runs, 120),
        "side by side, zoomed, ASCII": compare(runs, 120, span_ns=220_000, style=Style(blocks=False)),
        "one above the other": compare(runs, 80),
        "two devices": draw([record("h2d", 1, 0, 50), record("h2d", 2, 50, 100, device=1)], 60),
    }
    return "".join(f"-- {title}\n" + "".join(f"{line}\n" for line in lines) for title, lines in parts.items())


def test_drawings_are_as_they_were() -> None:
    """The golden file shows what each drawing looks like; look at it before changing it."""
    assert drawings() == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [24, 40, 79, 80, 119, 120, 200])
def test_no_line_is_too_wide(width: int) -> None:
    """Whatever is drawn fits."""
    runs = [("one", pipeline(1)), ("three streams with a title that goes on for rather a long time", pipeline(3))]
    for style in (Style(), Style(blocks=False), Style(colours=True)):
        lines = draw(mixed(), width, style=style) + compare(runs, width, style=style)
        assert max(len(ESCAPE.sub("", line)) for line in lines) <= width


def test_same_scale() -> None:
    """In a comparison, the ticks of both halves stand at the same columns."""
    lines = compare([("1", pipeline(1)), ("3", pipeline(3))], 140)
    left, right = lines[2].split()
    assert left == right


def test_colours_only_colour() -> None:
    """Without its escapes, a coloured drawing is the plain one."""
    coloured = draw(mixed(), 80, style=Style(colours=True))
    assert any("\x1b[" in line for line in coloured)
    assert [ESCAPE.sub("", line) for line in coloured] == draw(mixed(), 80)


def test_style_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks need an encoding that has them; colours need a terminal, and nobody who says no."""

    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert Style.of(Terminal(io.BytesIO(), "utf-8")) == Style(blocks=True, colours=True)
    assert Style.of(Terminal(io.BytesIO(), "ascii")) == Style(blocks=False, colours=True)
    assert Style.of(io.TextIOWrapper(io.BytesIO(), "latin-1")) == Style(blocks=False, colours=False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert Style.of(Terminal(io.BytesIO(), "utf-8")) == Style(blocks=True, colours=False)


def test_many_rows_are_cut() -> None:
    """A thousand streams do not fill a thousand lines."""
    lines = draw([record("h2d", stream, stream, stream + 1) for stream in range(1000)])
    assert len(lines) < 50
    assert lines[-1] == "and 961 more rows"


def test_nothing_to_draw() -> None:
    """An empty timeline says so."""
    assert draw([]) == draw([record("", 1, 5, 5)]) == ["nothing has run"]


def test_legend_and_durations() -> None:
    """The legend names what is there; durations have three digits."""
    assert kinds(mixed()) == ["copy in", "kernel", "copy out", "copy", "wait"]
    assert legend(Style(blocks=False), ["copy in", "kernel"]) == "ii copy in   ## kernel"
    shown = [duration(n) for n in (0, 7, 1_234, 45_678, 456_789, 4_568_544, 3_000_000_000)]
    assert shown == ["0 ns", "7 ns", "1.23 us", "45.7 us", "457 us", "4.57 ms", "3.00 s"]


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    """`Timeline.show` prints the drawing and its legend."""
    with ca.open_device(clock="virtual") as device:
        device.timeline.show()
        assert capsys.readouterr().out == "nothing has run\n"
        device.upload([1.0] * 1000)
        device.timeline.show(60)
    out = capsys.readouterr().out.splitlines()
    assert out[2].startswith("h2d ")
    assert out[-1].endswith("copy in")
    assert max(map(len, out)) <= 60
