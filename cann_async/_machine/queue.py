"""Step 2: one FIFO per stream.

Hosts append from any thread, without a lock; only the thread that drives the machine takes. `head` is the item that
has left the FIFO and has not ended; nothing behind it moves until it has. `idle` says that the driver will not look
at the queue unless it is told: who appends to an idle queue puts the queue into the machine's inbox.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from .task import DONE

if TYPE_CHECKING:
    import weakref

    from .machine import Machine
    from .task import Item

PRIORITIES = 8


class Queue:
    """The FIFO of one stream; `rank` orders it among ready heads: smaller is more urgent."""

    __slots__ = (
        "closed",
        "device",
        "failed",
        "head",
        "id",
        "idle",
        "last",
        "machine",
        "name",
        "owner",
        "priority",
        "rank",
        "tasks",
    )

    def __init__(self, machine: Machine, device: int, number: int, priority: int = 0, name: str | None = None) -> None:
        self.machine = machine
        self.device = device
        self.id = number
        self.name = name
        self.priority = priority
        self.rank = priority << 56
        self.tasks: deque[Item] = deque()
        self.head: Item | None = None
        self.last: Item | None = None
        self.idle = True
        self.failed: list[Item] = []
        """Failures that nobody has been told of."""
        self.closed: str | None = None
        """Why nothing can be enqueued any more."""
        self.owner: weakref.ref[object] | None = None
        """The stream a user holds."""

    @property
    def pending(self) -> int:
        """How many items have not ended."""
        head = self.head
        return len(self.tasks) + (head is not None and head.state < DONE)

    def wake(self) -> None:
        """Have the driver look at the queue again: what its head waits for has happened. (A queue is a Waiter.)."""
        self.machine.post(self)
