"""What can go wrong, said with CANN's own codes.

Everybody imports this module and it imports nobody. A code's first digit says who can act: 1xxxxx is the caller's
mistake, 2xxxxx a resource or a feature that is not there, 5xxxxx a fault of the device or of a kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import CodeType

    from .task import Task

CODES: dict[int, str] = {
    100000: "ACL_ERROR_INVALID_PARAM",
    107000: "ACL_ERROR_RT_PARAM_INVALID",
    107001: "ACL_ERROR_RT_INVALID_DEVICEID",
    107002: "ACL_ERROR_RT_CONTEXT_NULL",
    107003: "ACL_ERROR_RT_STREAM_CONTEXT",
    107006: "ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID",
    107020: "ACL_ERROR_RT_TASK_TIMEOUT",
    107023: "ACL_ERROR_RT_STREAM_ABORT",
    200006: "ACL_ERROR_UNSUPPORTED_DATA_TYPE",
    207000: "ACL_ERROR_RT_FEATURE_NOT_SUPPORT",
    207001: "ACL_ERROR_RT_MEMORY_ALLOCATION",
    207007: "ACL_ERROR_RT_NO_EVENT_RESOURCE",
    207008: "ACL_ERROR_RT_NO_STREAM_RESOURCE",
    507000: "ACL_ERROR_RT_INTERNAL_ERROR",
    507007: "ACL_ERROR_RT_CONTEXT_RELEASE_ERROR",
    507015: "ACL_ERROR_RT_AICORE_EXCEPTION",
    507012: "ACL_ERROR_RT_REPORT_TIMEOUT",
    507014: "ACL_ERROR_RT_AICORE_TIMEOUT",
    507017: "ACL_ERROR_RT_AICPU_TIMEOUT",
    507034: "ACL_ERROR_RT_VECTOR_CORE_TIMEOUT",
    507046: "ACL_ERROR_RT_STREAM_SYNC_TIMEOUT",
    507047: "ACL_ERROR_RT_EVENT_SYNC_TIMEOUT",
    107011: "ACL_ERROR_RT_STREAM_SUBSCRIBE",
    107012: "ACL_ERROR_RT_THREAD_SUBSCRIBE",
    107015: "ACL_ERROR_RT_STREAM_NO_CB_REG",
    107022: "ACL_ERROR_RT_DEVICE_TASK_ABORT",
    207009: "ACL_ERROR_RT_NO_NOTIFY_RESOURCE",
    507018: "ACL_ERROR_RT_AICPU_EXCEPTION",
    507033: "ACL_ERROR_RT_DEV_SETUP_ERROR",
    507035: "ACL_ERROR_RT_VECTOR_CORE_EXCEPTION",
}


class CannError(Exception):
    """An error of the runtime: `code` and `name` are CANN's, `hint` says what to do.

    A failure of queued work also carries the `task` and `launched_at`, the ``file:line`` of the call that enqueued it.
    """

    def __init__(self, code: int, detail: str, hint: str = "") -> None:
        self.code = code
        self.name = CODES.get(code, "UNKNOWN")
        self.detail = detail
        self.hint = hint
        self.task: Task[object] | None = None
        self.launched_at: str | None = None
        self.reported = False
        """Whether somebody has been given this error; a stream reports only what nobody has seen."""
        super().__init__(code, detail, hint)

    def __str__(self) -> str:
        text = f"{self.detail} [{self.code} {self.name}]"
        if self.launched_at:
            text += f"; launched at {self.launched_at}"
        return f"{text}. {self.hint}" if self.hint else text


class UsageError(CannError):
    """The call is wrong (1xxxxx): nothing was enqueued and nothing has changed."""


class MismatchError(UsageError, ValueError):
    """Two sides of a copy do not fit: shapes, dtypes, sizes, or a destination that is read-only."""


class ResourceError(CannError):
    """Something is used up or not supported (2xxxxx)."""


class ExecutionError(CannError):
    """The device or a kernel failed (5xxxxx)."""


class SyncTimeout(ExecutionError, TimeoutError):  # noqa: N818 - the contract names it so
    """A host has waited long enough (507046 for streams and tasks, 507047 for events); the work goes on."""


class DeadlockError(ExecutionError):
    """Nothing that is waited for can ever happen; the text lists every blocked stream and what it waits for."""


def error(code: int, detail: str, hint: str = "") -> CannError:
    """Make the error of the kind that fits the code."""
    if code < 200000:
        return UsageError(code, detail, hint)
    if code < 300000:
        return ResourceError(code, detail, hint)
    return ExecutionError(code, detail, hint)


def location(code: CodeType | None, lasti: int) -> str | None:
    """Name the source line of a bytecode position, ``file:line``: kept as two numbers until somebody asks."""
    if code is None:
        return None
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= lasti < end and number is not None:
            line = number
    return f"{code.co_filename}:{line}"
