"""Why a task began when it did: the question behind `critical_path`, `gaps` and the advice.

A task can begin when it has been enqueued, its stream has come to it, and its engine has room. Whichever of the three
came last is its cause; a wait ends when what it waits for has. All of it is read from the records.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .table import Ints, Table

HOST, STREAM, ENGINE, WAIT, START = "host", "stream", "engine", "wait", "start"


class Cause(NamedTuple):
    """What a task began after: the place of another task in the table (-1: none), and since when that has been over."""

    kind: str
    place: int
    since_ns: int


class Causes:
    """Answers for one table, by the place of a task in it."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._before = _predecessors(table)
        self._engines = {
            key: _Engine(table, key) for key in {(work.device, work.engine) for work in table.works if work.engine}
        }
        known = table.index(table.hosts["task"])
        some = known >= 0
        order = np.argsort(table.hosts["ended_ns"][some], kind="stable")
        self._wait_ends, self._waited = table.hosts["ended_ns"][some][order], known[some][order]

    def of_start(self, place: int) -> Cause:
        """Say what the task waited for before it began."""
        table = self.table
        submitted, started = int(table.submitted[place]), int(table.started[place])
        before = int(self._before[place])
        free = int(table.finished[before]) if before >= 0 else submitted
        ready = max(submitted, free)
        work = table.works[int(table.work[place])]
        if started > ready and work.engine:
            blocker = self._engines[work.device, work.engine].blocker(ready, started, work.cores)
            if blocker >= 0 and blocker != place:
                return Cause(ENGINE, blocker, int(table.finished[blocker]))
        if before >= 0 and free >= submitted:
            return Cause(STREAM, before, free)
        return self._of_host(submitted)

    def of_end(self, place: int) -> Cause | None:
        """Of a wait that took time: what it waited for, if that is known; of anything else None."""
        table = self.table
        if not table.target[place]:
            return None
        target = int(table.index(table.target[place : place + 1])[0])
        if target < 0 or table.finished[target] < table.started[place]:
            return None
        return Cause(WAIT, target, int(table.finished[target]))

    def _of_host(self, submitted: int) -> Cause:
        """Say what the host had waited for last when it enqueued something."""
        number = int(np.searchsorted(self._wait_ends, submitted, "right")) - 1
        if number < 0:
            return Cause(START, -1, submitted)
        place = int(self._waited[number])
        return Cause(HOST, place, min(int(self.table.finished[place]), submitted))


class _Engine:
    """One engine's tasks by time, to tell whether there was room."""

    def __init__(self, table: Table, key: tuple[int, str]) -> None:
        works = [number for number, work in enumerate(table.works) if (work.device, work.engine) == key]
        places = np.flatnonzero(np.isin(table.work, works))
        cores = table.of_works([work.cores for work in table.works])[places]
        self._capacity = table.works[works[0]].capacity
        order = np.argsort(table.finished[places], kind="stable")
        self._ended, self._places = table.finished[places][order], places[order]
        self._freed = np.append(0, np.cumsum(cores[order]))
        order = np.argsort(table.started[places], kind="stable")
        self._began, self._taken = table.started[places][order], np.append(0, np.cumsum(cores[order]))

    def blocker(self, ready: int, started: int, cores: int) -> int:
        """Give the task that had to end before one that was ready could begin; -1 if there had been room all along."""
        last = int(np.searchsorted(self._ended, started, "right")) - 1
        if last < 0 or self._ended[last] <= ready:
            return -1
        before = int(self._ended[last])  # just before that instant
        used = self._taken[np.searchsorted(self._began, before)] - self._freed[np.searchsorted(self._ended, before)]
        return int(self._places[last]) if self._capacity - used < cores else -1


def _predecessors(table: Table) -> Ints:
    """Give the place of the task before each one in its stream; -1 for the first, and for what is in no stream."""
    order = np.lexsort((table.id, table.stream))
    before = np.full(len(table), -1)
    same = table.stream[order[1:]] == table.stream[order[:-1]]
    same &= table.stream[order[1:]] >= 0
    before[order[1:][same]] = order[:-1][same]
    return before
