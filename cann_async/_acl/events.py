"""acl.rt: events, and notifies within one process. Notifies of other processes: shared.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ..errors import error
from .binding import pyacl
from .limits import host_timeout
from .process import at_end, current, enqueued, event_of, handles, notify_of, stream_of
from .shared import RemoteNotify, forget_notify

if TYPE_CHECKING:
    from ..event import Event
    from ..task import Task

SYNC, PROGRESS, TIME_LINE, DEVICE_USE_ONLY, EXTERNAL, IPC = 1, 2, 8, 0x10, 0x20, 0x40
KNOWN = SYNC | PROGRESS | TIME_LINE
UNSUPPORTED_FLAGS = DEVICE_USE_ONLY | EXTERNAL | IPC


_flags: dict[int, int] = {}
"""With which flags events were made, by their handles."""


def _made(event: Event, flag: int) -> int:
    handle = handles.put(event)
    _flags[handle] = flag
    return handle


def _check_waitable(handle: int) -> None:
    if not _flags.get(handle, SYNC) & SYNC:
        raise error(207000, "a stream can wait only for an event with ACL_EVENT_SYNC")


@pyacl("rt.create_event", "", 0)
def create_event() -> int:
    """Make an event of the older kind, with a timestamp. Mirrors aclrtCreateEvent."""
    return _made(current().create_event(kind="latch"), KNOWN)


@pyacl("rt.create_event_with_flag", "I", 0)
def create_event_with_flag(flag: int) -> int:
    """Make an event of the older kind: SYNC 1, progress 2, timestamp 8. Mirrors aclrtCreateEventWithFlag."""
    context = current()
    _check_flags(flag)
    if not flag:
        raise error(107000, "an event needs at least one flag")
    return _made(context.create_event(kind="sync latch", timing=bool(flag & TIME_LINE)), flag)


@pyacl("rt.create_event_ex_with_flag", "I", 0)
def create_event_ex_with_flag(flag: int) -> int:
    """Make an event that stands for its latest record; flag 0 is fine. Mirrors aclrtCreateEventExWithFlag."""
    context = current()
    _check_flags(flag)
    return _made(context.create_event(timing=bool(flag & TIME_LINE)), flag or SYNC)


def _check_flags(flag: int) -> None:
    if flag & UNSUPPORTED_FLAGS and not flag & ~(KNOWN | UNSUPPORTED_FLAGS):
        raise error(207000, f"events with flags {flag:#x} are not supported", "Use SYNC 1, progress 2, timestamp 8.")
    if flag & ~KNOWN:
        raise error(107000, f"unknown flags of an event: {flag:#x}")


@pyacl("rt.destroy_event", "k")
def destroy_event(event: int) -> None:
    """Give an event back; what waits for it goes on. Mirrors aclrtDestroyEvent."""
    event_of(event).close()
    handles.pop(event)
    _flags.pop(event, None)


@pyacl("rt.record_event", "k,k")
def record_event(event: int, stream: int) -> None:
    """Record an event on a stream. Mirrors aclrtRecordEvent."""
    found = event_of(event)
    stream_of(stream).record(found)
    enqueued(cast("Task[object]", found._record))


@pyacl("rt.reset_event", "k,k")
def reset_event(event: int, stream: int) -> None:
    """Clear an event of the older kind in stream order. Mirrors aclrtResetEvent."""
    found = event_of(event)
    on = stream_of(stream)
    if found.kind == "snapshot":
        raise error(207000, "an event of this kind stands for its latest record: there is nothing to reset")
    _check_waitable(event)
    found.reset(on)


@pyacl("rt.stream_wait_event", "k,k")
def stream_wait_event(stream: int, event: int) -> None:
    """Hold later tasks of a stream until an event is complete. Mirrors aclrtStreamWaitEvent."""
    on = stream_of(stream)
    found = event_of(event)
    _check_waitable(event)
    enqueued(on.wait(found))


@pyacl("rt.synchronize_event", "k")
def synchronize_event(event: int) -> None:
    """Wait until an event is complete. Mirrors aclrtSynchronizeEvent."""
    event_of(event).synchronize()


@pyacl("rt.synchronize_event_with_timeout", "k,i")
def synchronize_event_with_timeout(event: int, timeout: int) -> None:
    """Wait so many milliseconds at most, -1 for ever. Mirrors aclrtSynchronizeEventWithTimeout."""
    found = event_of(event)
    found.synchronize(host_timeout(timeout))


@pyacl("rt.query_event", "k", 1)
def query_event(event: int) -> int:
    """Say whether an event is complete: 0, or 1 if it is not. Mirrors aclrtQueryEvent."""
    found = event_of(event)
    if found.kind == "snapshot" and not found.recorded:
        raise error(207000, "an event of this kind that was never recorded cannot be asked so")
    return int(not found.query())


@pyacl("rt.query_event_status", "k", 0)
def query_event_status(event: int) -> int:
    """Say whether an event is complete: 1, or 0 if it is not. Mirrors aclrtQueryEventStatus."""
    return int(event_of(event).query_status())


@pyacl("rt.query_event_wait_status", "k", 1)
def query_event_wait_status(event: int) -> int:
    """Say whether all streams that wait for it have passed: 0, or 1. Mirrors aclrtQueryEventWaitStatus."""
    return int(not event_of(event).query_wait_status())


@pyacl("rt.event_elapsed_time", "k,k", 0.0)
def event_elapsed_time(start: int, end: int) -> float:
    """Give the milliseconds between two events. Mirrors aclrtEventElapsedTime."""
    return event_of(start).elapsed_time(event_of(end))


@pyacl("rt.event_get_timestamp", "k", 0)
def event_get_timestamp(event: int) -> int:
    """Give the microseconds since the runtime began at which it was complete. Mirrors aclrtEventGetTimestamp."""
    return event_of(event).timestamp_ns // 1000


@pyacl("rt.get_event_id", "k", 0)
def get_event_id(event: int) -> int:
    """Give a number for an event. Mirrors aclrtGetEventId."""
    found: Event = event_of(event)
    found._check()
    return event >> 4 & 0xFFFF_FFFF


@pyacl("rt.get_event_avail_num", "", 0)
def get_event_avail_num() -> int:
    """Give how many events can still be made. Mirrors aclrtGetEventAvailNum."""
    return current().device.events_available


# -- notifies ----------------------------------------------------------------------------------------------------------


@pyacl("rt.create_notify", "K", 0)
def create_notify(flag: int) -> int:
    """Make a notify; `flag` 0, or 1 (for the device only). Mirrors aclrtCreateNotify."""
    context = current()
    if flag not in (0, 1):
        raise error(107000, f"the flag of a notify is 0 or 1, not {flag}")
    return handles.put(context.create_notify())


@pyacl("rt.destroy_notify", "k")
def destroy_notify(notify: int) -> None:
    """Give a notify back. Mirrors aclrtDestroyNotify."""
    if not isinstance(handles.peek(notify), RemoteNotify):
        notify_of(notify).close()
        forget_notify(notify)
    handles.pop(notify)


@pyacl("rt.record_notify", "k,k")
def record_notify(notify: int, stream: int) -> None:
    """Set a notify in stream order, also one of another process. Mirrors aclrtRecordNotify."""
    found = stream_of(stream)
    remote = handles.peek(notify)
    enqueued(found.call(remote.set) if isinstance(remote, RemoteNotify) else found.record_notify(notify_of(notify)))


@pyacl("rt.wait_and_reset_notify", "k,k,I")
def wait_and_reset_notify(notify: int, stream: int, timeout: int) -> None:
    """Hold later tasks of a stream until it is set, for so many seconds (0: for ever), and clear it.

    Mirrors aclrtWaitAndResetNotify.
    """
    found = stream_of(stream)
    if isinstance(handles.peek(notify), RemoteNotify):
        raise error(107000, "a notify of another process can be waited for only there")
    enqueued(found.wait_notify(notify_of(notify), timeout or None))


@pyacl("rt.get_notify_id", "k", 0)
def get_notify_id(notify: int) -> int:
    """Give a number for a notify. Mirrors aclrtGetNotifyId."""
    notify_of(notify)._check()
    return notify >> 4 & 0xFFFF_FFFF


@pyacl("rt.notify_batch_reset", "O(list)")
def notify_batch_reset(notifies: list[int]) -> None:
    """Clear notifies from the host. Mirrors aclrtNotifyBatchReset."""
    if not all(isinstance(number, int) for number in notifies):
        raise error(107000, "notifies are given as a list of their handles")
    for found in [notify_of(number) for number in notifies]:
        found.reset()


@at_end
def _end() -> None:
    """Forget all."""
    _flags.clear()
