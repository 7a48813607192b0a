"""Step 4: engines, each drained by one executor coroutine that lives as long as its machine.

The machine's driver steps an executor: `send(item)` says that the item's time on the engine is over, `send(None)` that
there may be something to start. The coroutine is the same under every clock: complete, then start the most urgent
ready item that fits, again and again. How long an item keeps the engine, and where its body runs, is the clock's
business (`Clock.serve`, `Clock.finish`).
"""

from __future__ import annotations

import types
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from .task import QUEUED, RUNNING, Item

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

    from .machine import Machine



class Engine:
    """One engine of one device with `capacity` cores or lanes, of which `free` are not at work.

    `ready` is a heap of (rank and turn, item); `lanes` are the free slots, so that each running item has a row of its
    own in a timeline.
    """

    __slots__ = ("called", "capacity", "device", "executor", "free", "lanes", "name", "ready")

    def __init__(self, device: int, name: str, capacity: int, machine: Machine) -> None:
        self.device = device
        self.name = name
        self.capacity = self.free = capacity
        self.lanes = list(range(capacity))
        self.ready: list[tuple[int, Item]] = []
        self.called = False
        """Whether the driver already knows that there is something to do here."""
        self.executor: Coroutine[None, Item | None, None] = executor(self, machine)
        self.executor.send(None)

    def can_start(self) -> bool:
        """Say whether the most urgent ready item fits on what is free. Nobody overtakes it while it does not."""
        return bool(self.ready) and self.ready[0][1].work.cores <= self.free


@types.coroutine
def parked() -> Generator[None, Item | None, Item | None]:
    """Give control back to the driver until it sends an item that has been served, or None."""
    return (yield)


async def executor(engine: Engine, machine: Machine) -> None:
    """Drain one engine for ever."""
    ready, lanes, called = engine.ready, engine.lanes, machine.called
    serve, finish, retire = machine.clock.serve, machine.clock.finish, machine.scheduler.retire
    while True:
        item = await parked()
        if item is not None:
            if item.state == RUNNING and not finish(item):
                continue  # an asynchronous body has only begun: the item comes again when it has ended
            engine.free += item.work.cores
            heappush(lanes, item.lane)
            if item.queue.head is item:  # else its stream has been dropped meanwhile
                retire(item)
        if machine.completing or machine.news:  # not yet: more ends at this instant, or the scheduler must look first
            if ready and not engine.called:
                engine.called = True
                called.append(engine)
            continue
        while ready and (item := ready[0][1]).work.cores <= engine.free:
            heappop(ready)
            if item.state != QUEUED:  # cancelled or dropped while it was ready
                if item.queue.head is item:
                    retire(item)
                continue
            item.lane = lanes[0]
            if serve(item):
                retire(item)
                if machine.news:
                    break
            else:
                engine.free -= item.work.cores
                heappop(lanes)
