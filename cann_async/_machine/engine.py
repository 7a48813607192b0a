"""Step 4: engines, each drained by one executor coroutine that lives as long as its machine.

The machine's driver steps an executor with `send(COMPLETE)` or `send(CHOOSE)`. The coroutine is the same under every
clock: what has been served is completed, then the most urgent ready item that fits is started, again and again. How
long an item keeps the engine, and where its body runs, is the clock's business (`Clock.serve`, `Clock.finish`).
"""

from __future__ import annotations

import types
from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from .task import QUEUED, RUNNING, Item

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

    from .machine import Machine

COMPLETE, CHOOSE = True, False


class Engine:
    """One engine of one device with `capacity` cores or lanes, of which `free` are not at work.

    `ready` is a heap of (rank and submission, item); `served` holds the items that the clock has finished with;
    `lanes` are the free slots, so that each running item has a row of its own in a timeline.
    """

    __slots__ = ("called", "capacity", "device", "executor", "free", "lanes", "name", "ready", "served")

    def __init__(self, device: int, name: str, capacity: int, machine: Machine) -> None:
        self.device = device
        self.name = name
        self.capacity = self.free = capacity
        self.lanes = list(range(capacity))
        self.ready: list[tuple[int, Item]] = []
        self.served: deque[Item] = deque()
        self.called = False
        """Whether the driver already knows that there is something to do here."""
        self.executor: Coroutine[None, bool, None] = executor(self, machine)
        self.executor.send(None)  # type: ignore[arg-type]  # a new coroutine is started with None

    def can_start(self) -> bool:
        """Say whether the most urgent ready item fits on what is free. Nobody overtakes it while it does not."""
        return bool(self.ready) and self.ready[0][1].work.cores <= self.free


@types.coroutine
def parked() -> Generator[None, bool, bool]:
    """Give control back to the driver until it sends COMPLETE or CHOOSE."""
    return (yield)


async def executor(engine: Engine, machine: Machine) -> None:
    """Drain one engine for ever."""
    ready, served, lanes = engine.ready, engine.served, engine.lanes
    serve, finish, retire = machine.clock.serve, machine.clock.finish, machine.scheduler.retire
    while True:
        if await parked():
            while served:
                item = served.popleft()
                if item.state == RUNNING and not finish(item):
                    continue  # an asynchronous body has only begun: the item comes again when it has ended
                engine.free += item.work.cores
                heappush(lanes, item.lane)
                if item.queue.head is item:  # else its stream has been dropped meanwhile
                    retire(item)
        else:
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
