"""Run a recorded program again on another chip, without its kernels: what `Timeline.replay` and the advice do.

The same machine on the virtual clock runs it: each stream gets a queue, each row an item without a body, and a wait
waits for the item of the row that it had waited for. The host is played as well: it enqueues and waits as long after
its last wait had ended as it did then. So a host that looks at each result still does, and one that was busy for a
millisecond is busy for a millisecond. What it would have done differently is beyond a record.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from .._machine.machine import FOREVER, Machine
from .._machine.modelled import VirtualClock
from .._machine.queue import Queue
from .._machine.record import StreamRow, WorkRow
from .._machine.task import DONE, Call, Item, Work
from .._machine.waits import Waiting
from .table import COMPUTES, Ints, Live, Table

if TYPE_CHECKING:
    from ..soc import Soc

SKIPPED = -2
SUBMIT, WAIT, WAITED = range(3)
"""What a host does at a time: enqueue a task, begin to wait, or find that what it waits for has ended."""


def replay(
    table: Table,
    socs: Sequence[Soc] | None = None,
    *,
    measured: bool = False,
    pace: float = 1.0,
    call_ns: int = 0,
    skipped: Ints | None = None,
) -> Table:
    """Give the table that the program would have left on these chips, one per device; by default on the same ones.

    With `measured` every task takes as long as it took, and only what it has to wait for may change. The host takes
    `pace` times as long between its waits and `call_ns` more per call, and does not wait where `skipped`, places in
    `table.hosts`, says so. A chip
    without an engine that the program used is a ValueError.
    """
    chips = tuple(socs if socs is not None else table.socs)
    return _Replay(table, chips, measured=measured, pace=pace, call_ns=call_ns, skipped=skipped).run()


class _Task(Work):
    """A task without a body."""

    __slots__ = ("blocks",)


class _Behind(Waiting):
    """A wait for the item at another place of the table; ``args[0]`` is the place."""

    __slots__ = ("_items", "_unborn")

    def __init__(self, row: WorkRow, items: list[Item | None], unborn: dict[int, list[Queue]]) -> None:
        super().__init__(row.name, None)
        self._items = items
        self._unborn = unborn

    def has_happened(self, item: Item, what: object) -> bool:
        """Look at the other item."""
        assert isinstance(what, int)
        target = self._items[what]
        return target is not None and target.state >= DONE

    def listen(self, item: Item, what: object) -> bool:
        """Leave the queue as a waiter; of an item that the host has not enqueued yet, for later."""
        assert isinstance(what, int)
        target = self._items[what]
        if target is None:
            self._unborn.setdefault(what, []).append(item.queue)
            return False
        return not item.queue.machine.watch(target, item.queue)


class _Replay:
    def __init__(
        self,
        table: Table,
        socs: tuple[Soc, ...],
        *,
        measured: bool,
        pace: float,
        call_ns: int,
        skipped: Ints | None,
    ) -> None:
        self._table = table
        self._socs = socs
        self._machine = Machine(socs, "virtual", start_ns=table.start_ns)
        self._works: dict[tuple[int, int], Work] = {}
        self._queues: dict[int, Queue] = {}
        self._items: list[Item | None] = [None] * len(table)
        self._unborn: dict[int, list[Queue]] = {}
        self._targets = _targets(table)
        fixed = np.full(len(table), measured) | ~table.is_on(COMPUTES | {"h2d", "d2h", "d2d"})
        self._rows = table.rows[:, [0, 6]].tolist()
        self._streams, self._numbers = table.stream.tolist(), table.work.tolist()
        self._costs = np.where(fixed, ~(table.finished - table.started), table.rows[:, 7]).tolist()
        self._pace, self._call_ns = pace, call_ns
        order = np.argsort(table.hosts["ended_ns"], kind="stable")
        self._hosts = hosts = table.hosts[order]
        waited = table.index(hosts["task"])
        known = waited >= 0
        ended = table.finished[waited] if len(table) else hosts["ended_ns"]
        late = hosts["ended_ns"] - np.maximum(hosts["started_ns"], ended)
        # how long after the end of its task the host noticed; of a sleep, and of what has left no record, all of it
        self._delays = np.where(known, np.maximum(late, 0), hosts["ended_ns"] - hosts["started_ns"]).tolist()
        if skipped is not None:
            waited[np.isin(order, skipped)] = SKIPPED
        self._waited = waited.tolist()
        self._begun = np.zeros(len(self._hosts), np.int64)
        self._over = np.zeros(len(self._hosts), np.int64)
        self._ended: list[tuple[int, int]] = []
        """Waits whose task has ended just now, and when."""
        self._due: list[tuple[int, int, int]] = []
        """What the host does next: when, which of the three, and the place of the task or the wait."""

    def run(self) -> Table:
        machine, clock, due = self._machine, self._machine.clock, self._due
        assert isinstance(clock, VirtualClock)
        after = self._what_follows()
        self._go_on(after, -1, self._table.start_ns)
        while True:
            while due and due[0][0] <= clock.time_ns:
                _, what, place = heappop(due)
                if what == SUBMIT:
                    self._submit(place)
                elif what == WAIT:
                    self._wait(place)
                else:
                    self._over[place] = clock.time_ns
                    self._go_on(after, place, clock.time_ns)
            machine.drive(due[0][0] if due else FOREVER)
            for wait, at in self._ended:
                heappush(due, (at + self._delays[wait], WAITED, wait))
            if self._ended:
                self._ended.clear()
            elif due:
                clock.time_ns = max(clock.time_ns, due[0][0])
            else:
                break
        found = Live(machine, self._socs, self._table.start_ns)()
        machine.close("the replay has ended")
        if len(found) != len(self._table):
            raise ValueError(f"this program cannot be replayed: {len(found)} of {len(self._table)} tasks would end")
        hosts = self._hosts.copy()
        hosts["started_ns"], hosts["ended_ns"] = self._begun, self._over
        return dataclasses.replace(found, hosts=hosts[np.argsort(hosts["started_ns"], kind="stable")])

    # -- the host -----------------------------------------------------------------------------------------------------

    def _what_follows(self) -> dict[int, list[tuple[int, int, int]]]:
        """Give, for each wait of the host (-1: the beginning), what it did next: after how long, what, which one."""
        table, hosts = self._table, self._hosts
        ended = hosts["ended_ns"].tolist()
        after: dict[int, list[tuple[int, int, int]]] = {}

        def follows(gate: int, at: int, what: int, place: int) -> None:
            later = round((at - (ended[gate] if gate >= 0 else table.start_ns)) * self._pace)
            calls = after.setdefault(gate, [])
            calls.append((later + self._call_ns * (len(calls) + 1), what, place))

        gates = np.searchsorted(hosts["ended_ns"], table.submitted, "right") - 1
        following = np.where(hosts["following"] > 0, hosts["following"], hosts["task"] + 1).tolist()
        for place, (last, task) in enumerate(zip(gates.tolist(), table.id.tolist(), strict=True)):
            # a wait of the same instant may have come after what was enqueued then
            gate = next((wait for wait in range(last, -1, -1) if following[wait] <= task), -1)
            follows(gate, int(table.submitted[place]), SUBMIT, place)
        gates = np.minimum(np.searchsorted(hosts["ended_ns"], hosts["started_ns"], "right"), np.arange(len(hosts))) - 1
        for wait, gate in enumerate(gates.tolist()):
            follows(gate, int(hosts["started_ns"][wait]), WAIT, wait)
        return after

    def _go_on(self, after: dict[int, list[tuple[int, int, int]]], wait: int, now: int) -> None:
        for delay, what, place in after.pop(wait, ()):
            heappush(self._due, (now + delay, what, place))

    def _wait(self, wait: int) -> None:
        """Begin to wait."""
        now = self._begun[wait] = self._machine.now()
        place = self._waited[wait]
        item = self._items[place] if place >= 0 else None
        if item is None or not self._machine.watch(item, Call(lambda: self._has_ended(wait, item))):
            heappush(self._due, (now + (self._delays[wait] if place != SKIPPED else 0), WAITED, wait))

    def _has_ended(self, wait: int, item: Item) -> None:
        self._ended.append((wait, item.finished))
        self._machine.stop = self._machine.news = True

    # -- the device ---------------------------------------------------------------------------------------------------

    def _submit(self, place: int) -> None:
        table, machine = self._table, self._machine
        number, nbytes = self._rows[place]
        stream, work_number, target = self._streams[place], self._numbers[place], self._targets.get(place, -1)
        args: tuple[object, ...] = ()
        if target >= 0:
            work: Work = _Behind(table.works[work_number], self._items, self._unborn)
            work.label = table.works[work_number].label
            args = (target, None, None)
        else:
            key = work_number, stream
            work = self._works.get(key) or self._works.setdefault(key, self._work(work_number))
        queue = self._queue(stream, table.works[work_number].device)
        item = Item(number, queue, work, args, nbytes, self._costs[place], machine.now(), None, 0)
        self._items[place] = item
        machine.submit(queue, item)
        for waiting in self._unborn.pop(place, ()):
            waiting.wake()

    def _queue(self, stream: int, device: int) -> Queue:
        queue = self._queues.get(stream)
        if queue is None:
            row = self._table.streams.get(stream, StreamRow("sync", device, 0))
            queue = Queue(self._machine, row.device, stream, row.priority, row.name)
            self._machine.queues[queue] = None
            if stream >= 0:  # what is in no stream is ordered with nothing
                self._queues[stream] = queue
        return queue

    def _work(self, number: int) -> Work:
        row = self._table.works[number]
        if not row.engine:
            work = _Task(row.name, None)
        else:
            engine = self._machine.engines[row.device].get(row.engine)
            if engine is None:
                raise ValueError(f"{self._socs[row.device].name} has no engine {row.engine!r}")
            limit = row.cores if row.cores < min(row.blocks, row.capacity) else row.blocks
            work = _Task(row.name, engine, min(limit, engine.capacity) if row.engine in COMPUTES else row.cores)
        work.blocks, work.label = row.blocks, row.label
        return work


def _targets(table: Table) -> dict[int, int]:
    """Give, by place, the place of the task that each wait waited for, as far as it is known and did happen.

    A wait for a value says nothing of who wrote it; if it took time, that is who ended at the same instant.
    """
    waits = np.flatnonzero(table.target)
    targets = table.index(table.target[waits])
    happened = (targets >= 0) & (table.finished[targets] <= table.finished[waits])
    found = dict(zip(waits[happened].tolist(), targets[happened].tolist(), strict=True))
    order: Ints = np.argsort(table.finished, kind="stable")
    for place in np.flatnonzero(table.is_named(frozenset({"wait value"}))).tolist():
        if table.finished[place] > table.started[place]:
            last = int(np.searchsorted(table.finished[order], table.finished[place], "right")) - 1
            others = (int(order[n]) for n in range(last, -1, -1) if table.stream[order[n]] != table.stream[place])
            found[place] = next(others, -1)
    return found
