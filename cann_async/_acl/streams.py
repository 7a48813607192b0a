"""acl.rt: streams, and waiting for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import CannError, error
from .addresses import addresses
from .binding import pyacl
from .limits import host_timeout
from .process import any_stream, at_end, current, enqueued, handles, here, stream_of

if TYPE_CHECKING:
    from .. import sync

LEAST = 7
"""The least urgent priority; a higher number counts as this one."""
DEVICE_USE_ONLY, PERSISTENT = 32, 4
FAILURE_MODE, OVERFLOW_CHECK, CUSTOM_TAG, CACHE_OP_INFO, PRIORITY = range(1, 6)
_tags: dict[int, int] = {}
"""What a program has attached to streams, by their ids."""


@pyacl("rt.create_stream", "", 0)
def create_stream() -> int:
    """Make a stream of the current context, of the highest priority. Mirrors aclrtCreateStream."""
    return handles.put(current().create_stream())


@pyacl("rt.create_stream_with_config", "i,i", 0)
def create_stream_with_config(priority: int, flag: int) -> int:
    """Make a stream of a priority (0 to 7; more is 7). Mirrors aclrtCreateStreamWithConfig.

    Flags that make a stream faster change nothing; one that makes it another kind of stream is 207000.
    """
    context = current()
    if flag & (DEVICE_USE_ONLY | PERSISTENT):
        raise error(207000, f"a stream with flag {flag:#x} is not supported", "Leave PERSISTENT and DEVICE_USE_ONLY.")
    if priority < 0:
        raise error(107000, f"a priority is 0 (most urgent) to {LEAST}, not {priority}")
    return handles.put(context.create_stream(priority=min(priority, LEAST)))


@pyacl("rt.destroy_stream", "k")
def destroy_stream(stream: int) -> None:
    """Finish a stream and give it back. Mirrors aclrtDestroyStream."""
    _close(stream, force=False)


@pyacl("rt.destroy_stream_force", "k")
def destroy_stream_force(stream: int) -> None:
    """Drop what is queued and give the stream back. Mirrors aclrtDestroyStreamForce."""
    _close(stream, force=True)


def _close(handle: int, *, force: bool) -> None:
    if not handle:
        raise error(100000, "the handle of the stream is 0")
    found = stream_of(handle)
    if found is found.context.default_stream:
        raise error(107000, "a default stream cannot be destroyed")
    try:
        found.close(force=force)
    finally:
        if not found:
            handles.pop(handle)
            _tags.pop(found.id, None)


@pyacl("rt.synchronize_stream", "k")
def synchronize_stream(stream: int) -> None:
    """Wait until all that was enqueued has ended; a failure comes once. Mirrors aclrtSynchronizeStream."""
    synchronize(any_stream(stream))


@pyacl("rt.synchronize_stream_with_timeout", "k,i")
def synchronize_stream_with_timeout(stream: int, timeout: int) -> None:
    """Wait so many milliseconds at most, -1 for ever. Mirrors aclrtSynchronizeStreamWithTimeout."""
    found = any_stream(stream)
    synchronize(found, host_timeout(timeout))


def synchronize(stream: sync.Stream, timeout: float | None = None) -> None:
    """Wait for a stream; of several failures the last one counts, as in CANN, and all are over with it."""
    try:
        stream.synchronize(timeout)
    except CannError as first:
        if first.task_id is None:  # no task's failure: a stopped context, a timeout
            raise
        last = first
        while stream._queue.failed:
            outcome = stream._queue.failed.pop(0).outcome
            if isinstance(outcome, CannError) and not outcome.reported:
                outcome.reported = True
                last = outcome
        if last is not first:
            raise last from None
        raise


@pyacl("rt.stream_query", "k", 0)
def stream_query(stream: int) -> int:
    """Say whether all that was enqueued has ended: 0, or 1 if it has not. Mirrors aclrtStreamQuery."""
    found = any_stream(stream)
    found._check_stopped()
    return int(not found.query())


@pyacl("rt.stream_abort", "k")
def stream_abort(stream: int) -> None:
    """Kill what runs on a stream and drop what is queued. Mirrors aclrtStreamAbort."""
    if not stream:
        raise error(100000, "the handle of the stream is 0")
    stream_of(stream).abort()


@pyacl("rt.stream_get_id", "k", 0)
def stream_get_id(stream: int) -> int:
    """Give the number of a stream. Mirrors aclrtStreamGetId."""
    return any_stream(stream).id


@pyacl("rt.get_stream_available_num", "", 0)
def get_stream_available_num() -> int:
    """Give how many streams can still be made. Mirrors aclrtGetStreamAvailableNum."""
    return current().device.streams_available


@pyacl("rt.get_thread_last_task_id", "", 0)
def get_thread_last_task_id() -> int:
    """Give the number of the last task that this thread has enqueued, 0 if none. Mirrors aclrtGetThreadLastTaskId."""
    current()
    return here.last_task


@pyacl("rt.set_stream_failure_mode", "k,I")
def set_stream_failure_mode(stream: int, mode: int) -> None:
    """Let a failure stop the whole context (1), for good, or not (0). Mirrors aclrtSetStreamFailureMode."""
    stream_of(stream).set_failure_mode("stop" if mode & 1 else "continue")


@pyacl("rt.set_stream_attribute", "k,i,O(dict)")
def set_stream_attribute(stream: int, attr: int, value: dict[str, object]) -> None:
    """Set an attribute; `value` has one entry, whose number counts. Mirrors aclrtSetStreamAttribute."""
    found = stream_of(stream)
    numbers = [one for one in value.values() if isinstance(one, int)]
    if len(numbers) != 1:
        raise error(107000, f"the value of attribute {attr} is a dict with one number, not {value!r}")
    (number,) = numbers
    if attr == FAILURE_MODE:
        found.set_failure_mode("stop" if number & 1 else "continue")
    elif attr == OVERFLOW_CHECK:
        set_overflow(found, number)
    elif attr == CUSTOM_TAG:
        _tags[found.id] = number & 0xFFFF_FFFF
    elif attr == PRIORITY:
        if not stream:
            raise error(107000, "a default stream has the priority it has")
        raise error(207000, "the priority of a stream is chosen when it is made", "Use create_stream_with_config.")
    else:
        _unknown(attr)


@pyacl("rt.get_stream_attribute", "k,i", {})
def get_stream_attribute(stream: int, attr: int) -> dict[str, int]:
    """Give an attribute, as `set_stream_attribute` takes it. Mirrors aclrtGetStreamAttribute."""
    found = stream_of(stream)
    if attr == FAILURE_MODE:
        return {"failure_mode": int(found.failure_mode == "stop")}
    if attr == OVERFLOW_CHECK:
        return {"overflow_switch": int(found.overflow_switch)}
    if attr == CUSTOM_TAG:
        return {"user_custom_tag": _tags.get(found.id, 0)}
    if attr == PRIORITY:
        return {"priority": found.priority}
    _unknown(attr)
    return {}


def _unknown(attr: int) -> None:
    if attr == CACHE_OP_INFO:
        raise error(207000, "only a stream that is being captured keeps this")
    raise error(107000, f"there is no attribute {attr} of a stream")


@pyacl("rt.set_stream_overflow_switch", "k,I")
def set_stream_overflow_switch(stream: int, flag: int) -> None:
    """Watch later kernels of a stream for overflows (1) or not (0). Mirrors aclrtSetStreamOverflowSwitch."""
    set_overflow(stream_of(stream), flag)


def set_overflow(stream: sync.Stream, flag: int) -> None:
    """Switch it; anything but 0 and 1 is 107000."""
    if flag not in (0, 1):
        raise error(107000, f"the switch is 0 or 1, not {flag}")
    stream.set_overflow_switch(bool(flag))


@pyacl("rt.get_stream_overflow_switch", "k", 0)
def get_stream_overflow_switch(stream: int) -> int:
    """Say whether it is watched. Mirrors aclrtGetStreamOverflowSwitch."""
    return int(stream_of(stream).overflow_switch)


@pyacl("rt.get_overflow_status", "k,k,k")
def get_overflow_status(output_addr: int, output_size: int, stream: int) -> None:
    """Write 64 bytes, the first word of which says whether there was one. Mirrors aclrtGetOverflowStatus."""
    found = stream_of(stream)
    enqueued(found.get_overflow_status(addresses.buffer(output_addr, output_size)))


@pyacl("rt.reset_overflow_status", "k")
def reset_overflow_status(stream: int) -> None:
    """Forget overflows, in stream order. Mirrors aclrtResetOverflowStatus."""
    enqueued(stream_of(stream).reset_overflow_status())


@at_end
def _end() -> None:
    """Forget all."""
    _tags.clear()
