"""Step 4: engines, each drained by one executor coroutine that lives as long as its machine.

The machine's driver steps an executor: `send(item)` says that the item's time on the engine is over, `send(None)` that
there may be something to start. The coroutine is the same under every clock: complete, then start the most urgent
ready item that fits, again and again. How long an item keeps the engine is the clock's
business (`Clock.serve`).
"""

from __future__ import annotations

import types
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from .sharing import Memory
from .task import DONE, QUEUED, RUNNING, Item, fail

if TYPE_CHECKING:
    from collections.abc import Generator

    from ..soc import Soc
    from .machine import Machine

MANY = 1000


class Engine:
    """One engine of one device with `capacity` cores or lanes, of which `free` are not at work.

    `ready` is a heap of (rank and turn, item); `lanes` are the free slots, so that each running item has a row of its
    own in a timeline.
    """

    __slots__ = (
        "_times",
        "called",
        "capacity",
        "device",
        "free",
        "lanes",
        "memory",
        "name",
        "ready",
        "soc",
        "step",
    )

    def __init__(
        self, device: int, name: str, capacity: int, machine: Machine, soc: Soc, memory: Memory | None
    ) -> None:
        self.device = device
        self.name = name
        self.capacity = self.free = capacity
        self.lanes = list(range(capacity))
        self.ready: list[tuple[int, Item]] = []
        self.called = False
        """Whether the driver already knows that there is something to do here."""
        self.soc = soc
        self.memory = memory
        """Of the device, on a modelled clock."""
        self._times: dict[tuple[int, int, int, int], tuple[int, int]] = {}
        self.step = executor(self, machine).send
        """Steps the executor."""
        self.step(None)

    def time_ns(self, item: Item) -> tuple[int, int]:
        """Model an item without a fixed time: nanoseconds alone on the chip, and bytes per second meanwhile."""
        work, nbytes = item.work, item.nbytes
        key = (nbytes, item.cost, work.blocks, work.cores)
        found = self._times.get(key)
        if found is None:
            if len(self._times) >= MANY:
                self._times.clear()
            service, moved = self.soc.service(self.name, *key)
            found = self._times[key] = (service, moved * 10**9 // service if service else 0)
        return found

    def take_back(self, item: Item) -> None:
        """Free what an item occupies that is given up; the lane stays known to its record as a negative number."""
        if self.memory is not None:
            self.memory.leave(item, item.queue.machine.clock.device_now())
        self.free += item.work.cores
        heappush(self.lanes, item.lane)
        item.lane = ~item.lane

    def can_start(self) -> bool:
        """Say whether the most urgent ready item fits on what is free. Nobody overtakes it while it does not."""
        return bool(self.ready) and self.ready[0][1].work.cores <= self.free


@types.coroutine
def executor(engine: Engine, machine: Machine) -> Generator[None, Item | None, None]:
    """Drain one engine for ever.

    A coroutine in its older spelling, because this one yields to the driver directly: an ``async def`` would make and
    drop a second generator at every step, which is a tenth of a virtual task.
    """
    ready, lanes, called = engine.ready, engine.lanes, machine.called
    serve, retire = machine.clock.serve, machine.scheduler.retire
    while True:
        ended = yield
        if ended is not None:
            if ended.state == RUNNING:  # modelled time is over, and the body runs at this instant
                work = ended.work
                if work.is_asynchronous:
                    if not machine.bodies.run(ended):
                        continue  # the item comes again when the body has ended
                else:
                    try:
                        outcome = work.run(ended)
                        if ended.state == RUNNING:  # else it has aborted its own stream
                            ended.outcome, ended.state = outcome, DONE
                    except BaseException as problem:  # whatever a kernel raises is that task's failure
                        fail(ended, problem)
            if ended.lane >= 0:  # else it has been given up, and its engine is working for others
                engine.free += ended.work.cores
                heappush(lanes, ended.lane)
                if ended.queue.head is ended:
                    retire(ended)
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
