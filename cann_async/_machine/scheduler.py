"""Step 3: which task may go to an engine.

`settle` looks at the queues that have news, `advance` moves a queue on to its next head, `retire` is called by the
executors for each item that has ended. Items without an engine (records and waits) are resolved here, on the spot.
Only the thread that holds the machine's baton runs this code. Order among ready heads: priority, then who has been
ready longer, so streams of one priority take turns; what becomes ready at one instant does so in submission order.
"""

from __future__ import annotations

import contextlib
import itertools
from heapq import heapify, heappush
from typing import TYPE_CHECKING

from .task import DONE, DROPPED, FAILED, QUEUED, Item, Work

if TYPE_CHECKING:
    from .engine import Engine
    from .machine import Machine
    from .queue import Queue


class Scheduler:
    """The device-side scheduler of one machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._record = machine.records.add
        self._pack, self._extend = machine.records.pack, machine.records.extend
        self._called = machine.called
        self._now = machine.now
        self._next_turn = itertools.count().__next__

    def settle(self) -> None:
        """Take in what other threads have posted: queues with a new head, items that workers have finished."""
        machine = self._machine
        machine.news = False
        arrivals, inbox = machine.arrivals, machine.inbox
        if arrivals and not (machine.clock.modelled and machine.bodies.active):
            machine.completing = True
            ended = [arrivals.popleft().settle() for _ in range(len(arrivals))]
            for item in sorted(ended, key=_id):  # of one instant of virtual time, in the order of submission
                engine = item.work.engine
                assert engine is not None
                engine.step(item)
                if not engine.called:
                    engine.called = True
                    self._called.append(engine)
            machine.completing = False
        while inbox:
            queue = inbox.popleft()
            head = queue.head
            if head is None:
                self.advance(queue)
            elif head.work.engine is None:
                if self._passes(head, self._now()):
                    self.retire(head)
            elif head.state == DROPPED:  # cancelled while it was ready
                self._withdraw(head.work.engine, head)
                self.retire(head)

    def retire(self, item: Item) -> None:
        """Write down an item that has ended, tell whoever waits for it, and move its queue on."""
        queue, work = item.queue, item.work
        if item.state == DONE and work.number >= 0:  # the hot way through `_end` and `advance`: no further call
            self._extend(
                self._pack(item.id, work.number, item.lane, item.submitted, item.started, item.finished, item.nbytes)
            )
            item.args = None
            if item.waiters is not None:
                self._machine.wake(item)
        else:
            self._end(item)
        if not queue.tasks:
            self.advance(queue)
            return
        try:
            head = queue.tasks.popleft()
        except IndexError:  # cancelled between the two lines
            self.advance(queue)
            return
        engine = head.work.engine
        if engine is None:
            self._resolve(queue, head)
            return
        queue.head = head
        heappush(engine.ready, (queue.rank | self._next_turn(), head))
        if not engine.called:
            engine.called = True
            self._called.append(engine)

    def advance(self, queue: Queue) -> None:
        """Make the next item of the queue its head and bring it where it belongs."""
        tasks = queue.tasks
        while True:
            if not tasks:
                queue.head = None
                queue.idle = True
                if not tasks:
                    return
                queue.idle = False  # a host appended between the two looks
            try:
                head = tasks.popleft()
            except IndexError:  # cancelled between the two lines
                continue
            self._resolve(queue, head)
            return

    def _resolve(self, queue: Queue, item: Item | None) -> None:
        """Hand a new head to its engine; the scheduler's own items end here, one after the other."""
        while item is not None:
            queue.head = item
            engine = item.work.engine
            if engine is not None:
                heappush(engine.ready, (queue.rank | self._next_turn(), item))
                if not engine.called:
                    engine.called = True
                    self._called.append(engine)
                return
            item.started = self._machine.clock.last_ns = now = self._now()
            item.lane = 0
            if not self._passes(item, now):
                return
            self._end(item)
            try:
                item = queue.tasks.popleft()
            except IndexError:
                item = None
        self.advance(queue)

    def drop(self, queue: Queue, error: BaseException) -> None:
        """End all that is in the queue with `error`; what is running goes on unheard and keeps its engine till then."""
        dropped: list[Item] = [] if queue.head is None else [queue.head]
        queue.head = None
        while queue.tasks or not queue.idle:
            queue.idle = True  # before the last look: a host that appends after it will post the queue
            with contextlib.suppress(IndexError):  # empty, or cancelled between two looks
                while True:
                    dropped.append(queue.tasks.popleft())
        for item in dropped:
            item.outcome = error
            item.state = DROPPED
            self._end(item)

    def _withdraw(self, engine: Engine, item: Item) -> None:
        """Take an item out of the line in front of its engine; who stood behind it may fit."""
        engine.ready[:] = [place for place in engine.ready if place[1] is not item]
        heapify(engine.ready)
        if not engine.called:
            engine.called = True
            self._called.append(engine)

    def _passes(self, item: Item, now: int) -> bool:
        """Resolve an item of the scheduler's own: True when its stream may go on."""
        if item.state != QUEUED:
            return True
        if not item.work.arrive(item):
            return False
        item.finished = now
        item.outcome = None
        item.state = DONE
        return True

    def _end(self, item: Item) -> None:
        if item.state != DROPPED:
            self._record(item)
            if item.state == FAILED:
                item.queue.failed.append(item)
        item.args = None
        if item.waiters is not None:
            self._machine.wake(item)


def _id(item: Item) -> int:
    return item.id


class Wait(Work):
    """The stream goes on when another item has ended, however it ended."""

    __slots__ = ()

    def arrive(self, item: Item) -> bool:
        """Look whether the other item has ended; if not, have the queue looked at again when it has."""
        assert item.args is not None
        target = item.args[0]
        assert isinstance(target, Item)
        if target.state >= DONE:
            return True
        return not item.queue.machine.watch(target, item.queue)

    def waits_for(self, item: Item) -> str:
        """Name the item that the stream waits for."""
        target = item.args[0] if item.args else None
        assert isinstance(target, Item)
        return f"{target.work.name!r} (task {target.id}) on stream {target.queue.id}"
