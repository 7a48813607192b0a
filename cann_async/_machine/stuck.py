"""What a deadlock looks like: which stream waits for what, and why that does not happen."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from .task import DONE
from .waits import SetLatch, Waiting

if TYPE_CHECKING:
    from .queue import Queue
    from .task import Item
    from .waits import Latch


def stuck(queues: list[Queue]) -> list[str]:
    """Give a clause for each stream that stands still."""
    return [
        f"stream {queue.id} waits for {_cause(queue.head)}"
        for queue in sorted(queues, key=_id)
        if queue.head is not None
    ]


def _cause(head: Item) -> str:
    """Say what a head waits for, on which stream that stands, and behind what."""
    work = head.work
    if not isinstance(work, Waiting):
        return f"the end of {work.name!r}"
    target = work.target(head)
    if target is None:
        return f"{work.waits_for(head)}, which nobody will record"
    before = target.queue.head
    title, verb = _title(target)
    where = f"{title}, {verb} stream {target.queue.id}"
    if before is None or before is target or target.state >= DONE:
        return where
    if isinstance(before.work, Waiting):
        behind = before.work.target(before)
        return f"{where} behind a wait for {_title(behind)[0] if behind is not None else before.work.waits_for(before)}"
    return f"{where} behind {_title(before)[0]}"


def _title(item: Item) -> tuple[str, str]:
    """Give what the end of an item is to those who wait for it, and how it got onto its stream."""
    work = item.work
    if isinstance(work, SetLatch) and item.args:
        return cast("tuple[Latch]", item.args)[0].label, "recorded on"
    if work.engine is None and work.name == "record":
        return f"event {work.label!r}" if work.label is not None else "an event", "recorded on"
    return f"{work.name!r} (task {item.id})", "on"


def _id(queue: Queue) -> int:
    return queue.id
