"""Step 3, the scheduler's own work: what makes one stream wait for something else, and what it waits for.

None of it has an engine. The scheduler asks `arrive` when the item is its stream's head, and again whenever the queue
has been posted; True lets the stream pass, a CannError is the item's failure. All of it runs on the driving thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from ..errors import CannError, error
from .task import DONE, DROPPED, TimerStop, Work

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from .queue import Queue
    from .task import Item


class Waiting(Work):
    """A wait; ``args`` are what it waits for, its timeout in nanoseconds or None, and, once it waits, its timer."""

    __slots__ = ()

    def arrive(self, item: Item) -> bool:
        """Let the stream pass if it has happened; if not, have the queue looked at again, or fail at the timeout."""
        what, timeout_ns, timer = cast("tuple[object, int | None, Item | None]", item.args)
        if self.has_happened(item, what):
            return True
        if timeout_ns is not None:
            machine = item.queue.machine
            if timer is None:
                timer = machine.timer(timeout_ns)
                item.args = (what, timeout_ns, timer)
                machine.watch(timer, item.queue)
                machine.watch(item, TimerStop(machine, timer))  # however the wait ends
            elif timer.state >= DONE:
                raise error(
                    107020, f"stream {item.queue.id} has waited {timeout_ns / 1e9:g} s for {self.waits_for(item)}"
                )
        return self.listen(item, what)

    def target(self, item: Item) -> Item | None:
        """Give the item that would let the stream go on; None if there is no such one."""
        return None

    def has_happened(self, item: Item, what: object) -> bool:
        """Say whether the stream may go on."""
        raise NotImplementedError

    def listen(self, item: Item, what: object) -> bool:
        """Have the queue posted when it has happened; True if it has happened meanwhile."""
        raise NotImplementedError


class Wait(Waiting):
    """The stream goes on when another item has ended; it fails if that was dropped, since it never happened."""

    __slots__ = ()

    def has_happened(self, item: Item, what: object) -> bool:
        """Look at the other item."""
        target = cast("Item", what)
        if target.state == DROPPED:
            code = target.outcome.code if isinstance(target.outcome, CannError) else 107023
            raise error(
                code,
                f"stream {item.queue.id} waited for {self.waits_for(item)}, which was aborted and can no longer happen",
                "What was enqueued behind the wait has been dropped with it.",
            )
        return target.state >= DONE

    def listen(self, item: Item, what: object) -> bool:
        """Leave the queue as a waiter."""
        return not item.queue.machine.watch(cast("Item", what), item.queue)

    def waits_for(self, item: Item) -> str:
        """Name the item that the stream waits for."""
        target = self.target(item)
        return f"{title(target)} on stream {target.queue.id}" if target is not None else self.name

    def target(self, item: Item) -> Item | None:
        """Give the item that the stream waits for."""
        return cast("Item", item.args[0]) if item.args else None


def title(item: Item) -> str:
    """Say what the end of an item is to those who wait for it."""
    work = item.work
    if isinstance(work, SetLatch) and item.args:
        return cast("tuple[Latch]", item.args)[0].label
    if work.engine is None and work.name == "record":
        return f"event {work.label!r}" if work.label is not None else "an event"
    return f"{work.name!r} (task {item.id})"


class Latch:
    """One bit that streams set, wait for and clear: a notify (which a wait clears), or an event of the older family."""

    __slots__ = ("clears", "is_set", "label", "queues", "setter")

    def __init__(self, label: str, *, clears: bool) -> None:
        self.label = label
        self.clears = clears
        self.is_set = False
        self.setter = 0
        """The task that has set it last."""
        self.queues: list[Queue] = []
        """Who waits, first come first served."""


class SetLatch(Work):
    """``args`` are the latch."""

    __slots__ = ()

    def arrive(self, item: Item) -> bool:
        """Set it, and have all who wait look."""
        (latch,) = cast("tuple[Latch]", item.args)
        latch.is_set = True
        latch.setter = item.id
        queues, latch.queues = latch.queues, []
        for queue in queues:
            queue.wake()
        return True


class ClearLatch(Work):
    """``args`` are the latch."""

    __slots__ = ()

    def arrive(self, item: Item) -> bool:
        """Clear it."""
        (latch,) = cast("tuple[Latch]", item.args)
        latch.is_set = False
        return True


class WaitLatch(Waiting):
    """The stream goes on when the latch is set."""

    __slots__ = ()

    def has_happened(self, item: Item, what: object) -> bool:
        """Look at the latch; a notify is taken by the one who has waited for it."""
        latch = cast("Latch", what)
        if not latch.is_set:
            return False
        item.nbytes = latch.setter
        latch.is_set = not latch.clears
        return True

    def listen(self, item: Item, what: object) -> bool:
        """Stand in line."""
        latch = cast("Latch", what)
        if item.queue not in latch.queues:
            latch.queues.append(item.queue)
        return False

    def waits_for(self, item: Item) -> str:
        """Name the latch."""
        return cast("Latch", item.args[0]).label if item.args else self.name

    def target(self, item: Item) -> Item | None:
        """Give the first item in any queue that would set the latch."""
        latch = cast("Latch", item.args[0]) if item.args else None
        for queue in list(item.queue.machine.queues):
            for other in list(queue.tasks):
                if isinstance(other.work, SetLatch) and other.args == (latch,):
                    return other
        return None


CONDITIONS: dict[str, Callable[[int, int], bool]] = {
    "ge": lambda found, value: (found - value) % (1 << 64) < 1 << 63,
    "eq": lambda found, value: found == value,
    "and": lambda found, value: found & value != 0,
    "nor": lambda found, value: ~(found | value) % (1 << 64) != 0,
}
"""Of aclrtValueWait: what must hold between the 64 bits that are found and the value."""


class WriteValue(Work):
    """``args`` are eight bytes of device memory as an array of one uint64, and the value."""

    __slots__ = ()

    def arrive(self, item: Item) -> bool:
        """Write it, and have all look who wait for memory."""
        memory, value = cast("tuple[npt.NDArray[np.uint64], int]", item.args)
        memory[0] = value
        item.queue.machine.memory_changed()
        return True


class WaitValue(Waiting):
    """The stream goes on when eight bytes of device memory fulfil a condition, whoever writes them."""

    __slots__ = ()

    def has_happened(self, item: Item, what: object) -> bool:
        """Look into the memory."""
        memory, value, condition = cast("tuple[npt.NDArray[np.uint64], int, str]", what)
        return CONDITIONS[condition](int(memory[0]), value)

    def listen(self, item: Item, what: object) -> bool:
        """Look again whenever something has run that may have written there."""
        item.queue.machine.pollers[item.queue] = None
        return False

    def waits_for(self, item: Item) -> str:
        """Name the condition."""
        if not item.args:
            return self.name
        _, value, condition = cast("tuple[object, int, str]", item.args[0])
        return f"memory that is {condition} {value}"
