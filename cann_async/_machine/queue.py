"""Step 2: one FIFO per stream.

Hosts append from any thread, without a lock; only the thread that drives the machine takes. `head` is the item that
has left the FIFO and has not ended; nothing behind it moves until it has. `idle` says that the driver will not look
at the queue unless it is told: who appends to an idle queue puts the queue into the machine's inbox.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from ..errors import CannError, error
from .task import DONE

if TYPE_CHECKING:
    import weakref

    from .machine import Machine
    from .task import Item

PRIORITIES = 8


class Refusal(NamedTuple):
    """Why something can no longer be used."""

    code: int
    text: str
    hint: str = ""

    def error(self) -> CannError:
        """Make the error that whoever tries gets."""
        return error(self.code, self.text, self.hint)


class Domain:
    """What the queues of one context share: whether the first failure stops all of them, and that failure."""

    __slots__ = ("failure", "queues", "stops")

    def __init__(self) -> None:
        self.stops = False
        self.failure: Refusal | None = None
        self.queues: dict[Queue, None] = {}


class Queue:
    """The FIFO of one stream; `rank` orders it among ready heads: smaller is more urgent."""

    __slots__ = (
        "beside",
        "closed",
        "device",
        "domain",
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
        "thread",
    )

    def __init__(
        self,
        machine: Machine,
        device: int,
        number: int,
        priority: int = 0,
        name: str | None = None,
        domain: Domain | None = None,
    ) -> None:
        self.machine = machine
        self.device = device
        self.id = number
        self.name = name
        self.priority = priority
        self.rank = priority << 56
        self.tasks: deque[Item] = deque()
        self.thread = 0
        """The one that has enqueued last."""
        self.head: Item | None = None
        self.last: Item | None = None
        self.idle = True
        self.failed: list[Item] = []
        """Failures that nobody has been told of."""
        self.domain = domain if domain is not None else Domain()
        self.beside: Queue | None = None
        """Callbacks of this stream that do not hold it up."""
        self.closed: Refusal | None = None
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
