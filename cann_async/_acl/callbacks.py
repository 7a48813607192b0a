"""acl.rt and acl.util: callbacks in subscribed threads, the threads themselves, and word of failures."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, cast

from ..errors import CannError, error
from .binding import FUNCTIONS, UNITS, pyacl
from .limits import host_timeout
from .process import any_stream, at_end, enqueued, handles, runtime, stream_of

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("cann_async.acl")
UNKNOWN = 0xFFFF_FFFF
"""What is said of a failure that belongs to no task."""


@pyacl("rt.subscribe_report", "K,k")
def subscribe_report(thread_id: int, stream: int) -> None:
    """Have a thread call what `launch_callback` enqueues on a stream. Mirrors aclrtSubscribeReport."""
    found = any_stream(stream)
    found._check()
    runtime()._machine.reports.subscribe(thread_id, found._queue)


@pyacl("rt.unsubscribe_report", "K,k")
def unsubscribe_report(thread_id: int, stream: int) -> None:
    """End it. Mirrors aclrtUnSubscribeReport."""
    runtime()._machine.reports.unsubscribe(thread_id, any_stream(stream)._queue)


@pyacl("rt.process_report", "i")
def process_report(timeout: int) -> None:
    """Call what is due for this thread, wait so many milliseconds for the first, -1 for ever.

    Mirrors aclrtProcessReport.
    """
    if timeout == 0 or timeout < -1:
        raise error(100000, f"a timeout is -1 (for ever) or more than 0 milliseconds, not {timeout}")
    runtime()._machine.reports.process(host_timeout(timeout))


@pyacl("rt.launch_callback", "O(callable),O,i,k")
def launch_callback(fn: Callable[[object], object], user_data: object, block_type: int, stream: int) -> None:
    """Call ``fn(user_data)`` in the subscribed thread when the stream gets there; with `block_type` 1 it is held up.

    What the function raises is logged, and the stream goes on. Mirrors aclrtLaunchCallback.
    """
    if block_type not in (0, 1):
        raise error(100000, f"block_type is 0 or 1, not {block_type}")
    found = stream_of(stream)

    def call() -> None:
        try:
            fn(user_data)
        except BaseException:  # there is nobody to whom it could go, and the stream must go on
            log.exception("a callback has raised")

    call.__name__ = str(getattr(fn, "__name__", type(fn).__name__))
    enqueued(found._call_subscribed(call, (), bool(block_type)))


# -- threads -----------------------------------------------------------------------------------------------------------


class _Thread(threading.Thread):
    """A thread of `start_thread`; it keeps what its function raised for `stop_thread`."""

    def __init__(self, function: Callable[..., object], args: object) -> None:
        super().__init__(name="acl.util.start_thread", daemon=True)
        self._function = function
        self._given = () if args is None else (args,)
        self.problem: BaseException | None = None

    def run(self) -> None:
        """Call the function."""
        try:
            self._function(*self._given)
        except BaseException as problem:  # noqa: BLE001  # stop_thread tells
            self.problem = problem


_threads: dict[int, _Thread] = {}


def start_thread(*args: object) -> tuple[int, int]:
    """Run ``func(args)`` in a new thread, and give the thread's number and 0; with None as `args` run ``func()``."""
    if len(args) != 2:
        raise TypeError(f"function takes exactly 2 arguments ({len(args)} given)")
    function, given = args
    if not callable(function):
        raise TypeError("parameter must be callable")
    thread = _Thread(function, given)
    thread.start()
    number = cast("int", thread.ident)
    _threads[number] = thread
    return number, 0


start_thread.__qualname__, start_thread.__module__ = "start_thread", "acl.util"
FUNCTIONS.setdefault("util", {})["start_thread"] = start_thread
UNITS["acl.util.start_thread"] = "O(callable),O"


@pyacl("util.stop_thread", "K")
def stop_thread(thread_id: int) -> None:
    """Wait until a thread of `start_thread` has ended; RuntimeError if its function has raised."""
    thread = _threads.pop(thread_id, None)
    if thread is None:
        raise error(100000, f"{thread_id} is no thread of start_thread, or it has been stopped")
    thread.join()
    if thread.problem is not None:
        kind = type(thread.problem).__name__
        raise RuntimeError(f"exception={kind},msg=thread call failed;") from thread.problem


# -- word of failures --------------------------------------------------------------------------------------------------

HOOK = "acl.rt.set_exception_info_callback"


class _Info:
    """What is known of one failure, while the callback runs."""

    def __init__(self, failure: CannError, thread: int) -> None:
        self.failure = failure
        self.thread = thread


@pyacl("rt.set_exception_info_callback", "[O(callable or None)]")
def set_exception_info_callback(fn: Callable[[int], object] | None = None) -> None:
    """Call ``fn(info)`` for each task that fails; None takes it away. Mirrors aclrtSetExceptionInfoCallback."""
    where = runtime()
    where.on_failure(HOOK, None)
    if fn is None:
        return
    registrar = threading.get_ident()

    def tell(failure: CannError) -> None:
        info = handles.put(_Info(failure, registrar))
        try:
            fn(info)
        finally:
            handles.pop(info)

    where.on_failure(HOOK, tell)


def _info(handle: int) -> _Info:
    return handles.get(handle, _Info, 100000)


@pyacl("rt.get_task_id_from_exception_info", "k", UNKNOWN, has_code=False)
def get_task_id_from_exception_info(info: int) -> int:
    """Give the number of the task that failed. Mirrors aclrtGetTaskIdFromExceptionInfo."""
    return _or_unknown(_info(info).failure.task_id)


@pyacl("rt.get_stream_id_from_exception_info", "k", UNKNOWN, has_code=False)
def get_stream_id_from_exception_info(info: int) -> int:
    """Give the number of its stream. Mirrors aclrtGetStreamIdFromExceptionInfo."""
    return _or_unknown(_info(info).failure.stream_id)


@pyacl("rt.get_device_id_from_exception_info", "k", UNKNOWN, has_code=False)
def get_device_id_from_exception_info(info: int) -> int:
    """Give the number of its device. Mirrors aclrtGetDeviceIdFromExceptionInfo."""
    return _or_unknown(_info(info).failure.device_id)


@pyacl("rt.get_thread_id_from_exception_info", "k", UNKNOWN, has_code=False)
def get_thread_id_from_exception_info(info: int) -> int:
    """Give the number of the thread that has registered the callback. Mirrors aclrtGetThreadIdFromExceptionInfo."""
    return _info(info).thread


@pyacl("rt.get_error_code_from_exception_info", "k", UNKNOWN, has_code=False)
def get_error_code_from_exception_info(info: int) -> int:
    """Give the code of the failure. Mirrors aclrtGetErrorCodeFromExceptionInfo."""
    return _info(info).failure.code


def _or_unknown(number: int | None) -> int:
    return UNKNOWN if number is None else number


@at_end
def _end() -> None:
    """Forget all."""
    _threads.clear()
