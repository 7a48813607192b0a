"""What every row shares: how it is declared, how both sides are measured, and how the results are shown.

A row has our side and, mostly, a peer's. Both run in this process, one after the other in every repetition, in
alternating order: whatever else the machine does disturbs both alike, so the ratio of the medians can be trusted where
the figures themselves cannot.
"""

from __future__ import annotations

import gc
import importlib.metadata
import importlib.util
import os
import platform
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
"""Read when NumPy is imported, later: with a BLAS that takes all cores a matmul could overlap with nothing."""

Measure = Callable[[], float]
"""One repetition; gives the figure in the unit of its row."""
PACKAGES = ("numpy", "anyio", "uvloop", "pyopencl", "simpy")


class Peer(NamedTuple):
    """The other side of a row. Without `measure` it is not installed, and `install` says how to get it."""

    name: str
    measure: Measure | None
    install: str = ""


class Sides(NamedTuple):
    """Both sides of one row, ready to run."""

    ours: Measure
    peer: Peer


class UnavailableError(Exception):
    """Our own side needs something that is not installed; the text says what, and how to get it."""


@dataclass(frozen=True)
class Row:
    """One line of the table: `set_up` makes both sides, and the stack it gets undoes what has to be undone."""

    name: str
    unit: str
    target: float
    set_up: Callable[[ExitStack], Sides]
    at_least: bool = False
    """The target is a lower bound."""
    warm: bool = True
    """The first repetition is not counted; rows that start fresh processes need none."""


@dataclass
class Result:
    """What a row has given."""

    name: str
    unit: str
    target: float
    at_least: bool
    peer_name: str = ""
    ours: list[float] = field(default_factory=list)
    peer: list[float] = field(default_factory=list)
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours over the peer's, of the medians."""
        if not self.ours or not self.peer:
            return None
        return statistics.median(self.ours) / statistics.median(self.peer)

    @property
    def verdict(self) -> str:
        """Either ok or missed, or a dash where there is nothing to compare."""
        if self.ratio is None:
            return "-"
        return "ok" if (self.ratio >= self.target if self.at_least else self.ratio <= self.target) else "missed"

    def cells(self) -> tuple[str, ...]:
        """Give the line of the table."""
        ratio = "-" if self.ratio is None else f"{self.ratio:.2f}"
        target = f"{'>=' if self.at_least else '<='} {self.target:g}"
        ours = f"{_figure(self.ours)} {self.unit}"
        peer = f"{_figure(self.peer)} {self.unit}, {self.peer_name}" if self.peer else self.note
        return self.name, ratio, target, self.verdict, ours, peer

    def as_json(self) -> dict[str, object]:
        """Give everything, with every repetition."""
        return {
            "row": self.name,
            "ratio": self.ratio,
            "target": self.target,
            "bound": "at least" if self.at_least else "at most",
            "verdict": self.verdict,
            "unit": self.unit,
            "ours": self.ours,
            "peer": self.peer,
            "peer_name": self.peer_name,
            "note": self.note,
        }


ROWS: dict[str, Row] = {}
HEAD = ("row", "ratio", "target", "", "ours (median)", "peer (median)")


def row(
    name: str, target: float, unit: str, *, at_least: bool = False, warm: bool = True
) -> Callable[[Callable[[ExitStack], Sides]], Callable[[ExitStack], Sides]]:
    """Declare a row; the decorated function sets it up."""

    def declare(set_up: Callable[[ExitStack], Sides]) -> Callable[[ExitStack], Sides]:
        ROWS[name] = Row(name, unit, target, set_up, at_least, warm)
        return set_up

    return declare


def measure(row: Row, reps: int) -> Result:
    """Run both sides of a row `reps` times, interleaved."""
    result = Result(row.name, row.unit, row.target, row.at_least)
    with ExitStack() as stack:
        try:
            ours, peer = row.set_up(stack)
        except UnavailableError as missing:
            result.note = f"not measured: {missing}"
            return result
        result.peer_name = peer.name
        if peer.measure is None:
            result.note = f"{peer.name} is not installed: {peer.install}"
        for rep in range(-1 if row.warm else 0, reps):
            sides = [(ours, result.ours)]
            if peer.measure is not None:
                sides.append((peer.measure, result.peer))
            for side, figures in sides if rep % 2 else reversed(sides):
                gc.collect()
                figure = side()
                if rep >= 0:
                    figures.append(figure)
    return result


def machine() -> dict[str, str]:
    """Describe what the figures were taken on."""
    facts = {
        "CPU": f"{_cpu()}, {os.cpu_count()} cores, {platform.machine()}",
        "system": f"{platform.system()} {platform.release()}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
    }
    for package in PACKAGES:
        try:
            facts[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def table(results: list[Result]) -> str:
    """Lay the results out for a terminal."""
    lines = [HEAD, *(result.cells() for result in results)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    return "\n".join("  ".join(line).rstrip() for line in padded)


def markdown(results: list[Result], facts: dict[str, str], reps: int) -> str:
    """Write the machine and the table as Markdown."""
    lines = [f"- {name}: {fact}" for name, fact in facts.items()]
    lines += ["", f"Medians of {reps} repetitions, both sides interleaved.", ""]
    lines += [f"| {' | '.join(HEAD)} |", "|---|---:|---:|---|---:|---|"]
    lines += [f"| {' | '.join(result.cells())} |" for result in results]
    return "\n".join(lines) + "\n"


def has(package: str) -> bool:
    """Say whether a package can be imported."""
    return importlib.util.find_spec(package) is not None


def _figure(figures: list[float]) -> str:
    return f"{statistics.median(figures):.4g}" if figures else "-"


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown CPU"
