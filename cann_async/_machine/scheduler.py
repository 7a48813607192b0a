"""Step 3: which task may go to an engine.

`settle` looks at the queues that have news, `advance` moves a queue on to its next head, `retire` is called by the
executors for each item that has ended. Items without an engine (records and waits, see waits.py) are resolved here,
on the spot. Only the thread that holds the machine's baton runs this code. Order among ready heads: priority, then who
has been ready longer, so streams of one priority take turns; what becomes ready at one instant does so in submission
order.
"""

from __future__ import annotations

import contextlib
import itertools
from heapq import heapify, heappush
from typing import TYPE_CHECKING

from ..errors import CannError, ExecutionError, one_line
from .queue import Refusal
from .task import CANCELLED, DONE, DROPPED, FAILED, QUEUED, RUNNING, TIMEOUTS, Item, end_failed

if TYPE_CHECKING:
    from .engine import Engine
    from .machine import Machine
    from .queue import Domain, Queue


class Scheduler:
    """The device-side scheduler of one machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._record = machine.records.add
        self._pack, self._extend = machine.records.pack, machine.records.extend
        self._called = machine.called
        self._now = machine.clock.device_now
        self._next_turn = itertools.count().__next__

    def settle(self) -> None:
        """Take in what other threads have posted: queues with a new head, items that workers have finished."""
        machine = self._machine
        machine.news = False
        arrivals, inbox = machine.arrivals, machine.inbox
        if arrivals and not (machine.clock.is_virtual and machine.bodies.active):
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
            elif head.state == CANCELLED:  # while it was ready
                self._withdraw(head.work.engine, head)
                self.retire(head)

    def retire(self, item: Item) -> None:
        """Write down an item that has ended, tell whoever waits for it, and move its queue on."""
        queue, work = item.queue, item.work
        if item.state == DONE and work.number >= 0:  # the hot way through `_end` and `advance`: no further call
            self._extend(
                self._pack(
                    item.id,
                    work.number,
                    item.lane,
                    item.submitted,
                    item.started,
                    item.finished,
                    item.nbytes,
                    item.cost,
                )
            )
            item.args = None
            if item.waiters is not None:
                self._machine.wake(item)
        else:
            self._end(item)
            if queue.head is not item:  # it has been dropped, or its context has stopped
                return
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
            now = self._now()
            if now < item.submitted:  # as in `ModelledClock.serve`
                now = item.submitted
            item.started = self._machine.clock.last_ns = now
            item.lane = 0
            if not self._passes(item, now):
                return
            self._end(item)
            if queue.head is not item:  # its context has stopped
                return
            try:
                item = queue.tasks.popleft()
            except IndexError:
                item = None
        self.advance(queue)

    def drop(self, queue: Queue, problem: BaseException) -> None:
        """End all that is in the queue with `problem`; what runs is killed."""
        head = queue.head
        queue.head = None
        dropped: list[Item] = []
        if head is not None and head.state < DONE:
            dropped.append(head)
            self._kill(head)
        while queue.tasks or not queue.idle:
            queue.idle = True  # before the last look: a host that appends after it will post the queue
            dropped += _take_all(queue)
        for item in dropped:
            item.outcome = problem
            item.state = DROPPED
            self._end(item)

    def expire(self, item: Item) -> None:
        """Kill an item that has run for too long; that is its failure, and its stream goes on."""
        if item.state != RUNNING:
            return
        self._kill(item)
        engine, limit = item.work.engine, item.work.timeout_ns or 0
        failure = ExecutionError(
            TIMEOUTS.get(engine.name if engine is not None else "", 507014),
            f"{one_line(item.work.name)!r} (task {item.id} on stream {item.queue.id}) ran for more than its "
            f"{limit / 1e9:g} s and was killed",
            "Give the launch a longer timeout, or find out what it waits for.",
        )
        item.finished = self._now()
        end_failed(item, failure)
        if item.queue.head is item:
            self.retire(item)

    def _kill(self, item: Item) -> None:
        """Take the engine from an item. A body on a worker cannot be stopped: what it comes to is thrown away."""
        engine = item.work.engine
        if engine is None:
            return
        if item.state == QUEUED:
            self._withdraw(engine, item)
            return
        if item.work.is_asynchronous:
            self._machine.bodies.cancel(item)
        if item.lane >= 0 and item.lane not in engine.lanes:  # a body in place never took the engine
            engine.take_back(item)
        if not engine.called:
            engine.called = True
            self._called.append(engine)

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
        try:
            if not item.work.arrive(item):
                return False
            item.outcome = None
            item.state = DONE
        except CannError as problem:
            end_failed(item, problem)
            if problem.code in ABORTS:  # what stands behind it relies on something that will never happen
                for behind in _take_all(item.queue):
                    behind.outcome, behind.state = problem, DROPPED
                    self._end(behind)
        item.finished = now
        return True

    def _end(self, item: Item) -> None:
        if item.state < CANCELLED:
            self._record(item)
            if item.state == FAILED:
                item.queue.failed.append(item)
                domain = item.queue.domain
                if domain.stops and domain.failure is None:
                    self._stop(domain, item)
        item.args = None
        if item.waiters is not None:
            self._machine.wake(item)

    def _stop(self, domain: Domain, item: Item) -> None:
        """Stop a whole context at its first failure, and let nothing in any more."""
        failure = item.outcome
        assert isinstance(failure, CannError)
        failure.reported = True  # by every call from now on
        domain.failure = refusal = Refusal(
            failure.code,
            f"the context has stopped at its first failure: {failure.detail}",
            "Destroy the context, or reset the device.",
        )
        for queue in list(domain.queues):
            queue.closed = queue.closed or refusal
            self.drop(queue, refusal.error())


ABORTS = frozenset({107022, 107023, 507007})


def _id(item: Item) -> int:
    return item.id


def _take_all(queue: Queue) -> list[Item]:
    taken: list[Item] = []
    with contextlib.suppress(IndexError):  # empty, or cancelled between two looks
        while True:
            taken.append(queue.tasks.popleft())
    return taken
