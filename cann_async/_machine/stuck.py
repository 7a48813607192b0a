"""What a deadlock looks like: which stream waits for what, and why that does not happen. Called by the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .task import DONE
from .waits import Waiting, WaitLatch, title

if TYPE_CHECKING:
    from .queue import Queue
    from .task import Item


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
        never = "which nobody will record" if isinstance(work, WaitLatch) else "and nothing runs that could write it"
        return f"{work.waits_for(head)}, {never}"
    before = target.queue.head
    is_record = target.work.engine is None
    where = f"{title(target)}, {'recorded ' if is_record else ''}on stream {target.queue.id}"
    if before is None or before is target or target.state >= DONE:
        return where
    if isinstance(before.work, Waiting):
        behind = before.work.target(before)
        return f"{where} behind a wait for {title(behind) if behind is not None else before.work.waits_for(before)}"
    return f"{where} behind {title(before)}"


def _id(queue: Queue) -> int:
    return queue.id
