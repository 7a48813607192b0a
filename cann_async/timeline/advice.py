"""What to change about a program so that the device has less time to stand still: `Timeline.advice`.

Eight checks (see `checks`), each of which looks for the traces of one fault in the records. Where a change can be
played through (see `changes`), the program is replayed with it. A finding is a hint from a model: it says what it saw
and what it assumed.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np

from .causes import Causes
from .replay import replay
from .table import Ints, Table
from .text import duration

WIDTH = 96


@dataclass(frozen=True, slots=True)
class Finding:
    """One piece of advice."""

    name: str
    """Of the check: "keep-ahead", "stream-per-engine", "stream-per-thread", "more-threads", "fill-cores", "pageable",
    "synchronize" or "starvation"."""
    title: str
    evidence: str
    """What was seen: how many tasks, how much time."""
    change: str
    """What to do."""
    tasks: tuple[int, ...]
    """The ids of the tasks that show it, the first few."""
    before_ns: int | None = None
    """How long it takes (the whole run, or what `evidence` says); None where the change cannot be played through."""
    after_ns: int | None = None
    """The same with the change, from the model."""

    @property
    def gain(self) -> float | None:
        """How many times faster the change makes it; None if that is not known."""
        return None if self.before_ns is None or self.after_ns is None else self.before_ns / max(self.after_ns, 1)

    def __str__(self) -> str:
        gain = self.gain
        expected = (
            f"expected: {duration(self.before_ns or 0)} -> {duration(self.after_ns or 0)} ({gain:.2f}x)"
            if gain is not None
            else "expected: not to be told from a record"
        )
        tasks = f" Tasks {', '.join(map(str, self.tasks))}." if self.tasks else ""
        texts = (f"seen: {self.evidence}{tasks}", f"change: {self.change}", expected)
        wrapped = (textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="    ") for text in texts)
        return "\n".join((f"{self.title} [{self.name}]", *wrapped))


class Advice(Sequence[Finding]):
    """The findings, those that bring the most first; print it."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self._findings = tuple(sorted(findings, key=lambda found: -(found.gain or 0)))

    def __len__(self) -> int:
        return len(self._findings)

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Finding]: ...
    def __getitem__(self, index: int | slice) -> Finding | Sequence[Finding]:
        """Give a finding, or some."""
        return self._findings[index]

    def __str__(self) -> str:
        return "\n\n".join(map(str, self._findings)) or "nothing to say: none of the checks has found anything"


class Case:
    """A timeline under examination: the table, and replays of it with one thing changed."""

    def __init__(self, table: Table) -> None:
        self.table = table
        first, last = table.span_ns
        self.span_ns = last - first
        self.is_measured = table.clock == "wall"
        """Then tasks have taken what they took on this computer, and no model knows better."""

    @cached_property
    def causes(self) -> Causes:
        """Why each task began when it did."""
        return Causes(self.table)

    @cached_property
    def call_ns(self) -> int:
        """What a call of the host is taken to cost where waiting is at issue: nothing if the record has it already.

        In virtual time without `host_time` hosts are infinitely fast, and no wait would ever cost anything.
        """
        table = self.table
        if table.clock != "virtual" or np.isin(table.submitted, (table.start_ns, *table.hosts["ended_ns"])).mean() < 1:
            return 0
        return max(soc.host_call_ns for soc in table.socs)

    @cached_property
    def before_ns(self) -> int:
        """How long a replay takes that changes nothing."""
        return self.after_ns(self.table)

    def after_ns(self, table: Table, *, pace: float = 1.0, call_ns: int = 0, skipped: Ints | None = None) -> int:
        """Say how long a changed program takes."""
        first, last = replay(table, measured=self.is_measured, pace=pace, call_ns=call_ns, skipped=skipped).span_ns
        return last - first


def advise(table: Table) -> Advice:
    """Run all checks."""
    from .checks import CHECKS

    case = Case(table)
    checks: Sequence[Callable[[Case], Finding | None]] = CHECKS if len(table) else ()
    return Advice([finding for check in checks if (finding := check(case)) is not None])
