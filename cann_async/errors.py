"""What can go wrong, said with CANN's own codes.

Everybody imports this module, and it imports only the table of the codes. A code's first digit says who can act:
1xxxxx is the caller's mistake, 2xxxxx and 3xxxxx a resource or a feature that is not there, 5xxxxx a fault of the
device or of a kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from .error_codes import CODES, FAMILIES

if TYPE_CHECKING:
    from types import CodeType

    from .task import Task

LINE = 300
"""How much of a foreign text (the message of a kernel's exception, a name) stands in a message of ours."""


class CannError(Exception):
    """An error of the runtime: `code` and `name` are CANN's, `detail` is what happened, `hint` says what to do.

    A failure of queued work also says which work it was; all of these are None otherwise, and `__cause__` is what a
    body raised. An error can be copied and pickled; the `task` stays in its process, and so does a cause that cannot
    be pickled.
    """

    def __init__(self, code: int, detail: str, hint: str = "") -> None:
        name, family, advice = CODES.get(code, ("UNKNOWN", "done", ""))
        self.code = code
        """The number. Mirrors aclrtGetErrorCodeFromExceptionInfo."""
        self.name = name
        self.detail = detail
        self.hint = hint or advice or FAMILIES[family]
        self.task: Task[object] | None = None
        """The task itself."""
        self.kernel: str | None = None
        """The name of the kernel, or the kind of the task. Mirrors aclrtGetFuncHandleFromExceptionInfo."""
        self.stream_id: int | None = None
        """The number of its stream. Mirrors aclrtGetStreamIdFromExceptionInfo."""
        self.task_id: int | None = None
        """The number of the task. Mirrors aclrtGetTaskIdFromExceptionInfo."""
        self.device_id: int | None = None
        """The number of the device. Mirrors aclrtGetDeviceIdFromExceptionInfo."""
        self.launched_at: str | None = None
        """``file:line`` of the call that enqueued it."""
        self.reported = False
        """Whether somebody has been given this error; a stream reports only what nobody has seen."""
        Exception.__init__(self, code, detail, hint)  # not super(): OSError would read errno and a file name into it

    def __str__(self) -> str:
        text = f"{self.detail} [{self.code} {self.name}]"
        if self.launched_at:
            text += f"; launched at {self.launched_at}"
        return f"{text}. {self.hint}" if self.hint else text

    def __copy__(self) -> Self:
        twin = type(self)(*self.args)
        twin.__dict__.update(self.__dict__)
        if self.__cause__ is not None:
            twin.__cause__ = self.__cause__
        return twin

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self.__copy__()  # a task is a handle: there is no second one of it

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...], dict[str, object]]:
        state = {**self.__dict__, "task": None}
        if self.__cause__ is not None and _survives_pickling(self.__cause__):
            state["__cause__"] = self.__cause__
        return type(self), self.args, state


class UsageError(CannError):
    """The call is wrong (1xxxxx): nothing was enqueued and nothing has changed."""


class MismatchError(UsageError, ValueError):
    """Two sides of a copy do not fit: shapes, dtypes, sizes, or a destination that is read-only."""


class ResourceError(CannError):
    """Something is used up or not supported (2xxxxx)."""


class ExecutionError(CannError):
    """The device or a kernel failed (5xxxxx)."""


class SyncTimeout(ExecutionError, TimeoutError):  # noqa: N818  # the contract names it so
    """A host has waited long enough (507046 for streams and tasks, 507047 for events); the work goes on."""


class DeadlockError(ExecutionError):
    """Nothing that is waited for can ever happen; the text lists every blocked stream and what it waits for."""


def error(code: int, detail: str, hint: str = "") -> CannError:
    """Make the error of the kind that fits the code; without a `hint` it gets the one of the code."""
    if code in (507046, 507047):
        return SyncTimeout(code, detail, hint)
    if code < 200000:
        return UsageError(code, detail, hint)
    if code < 500000:
        return ResourceError(code, detail, hint)
    return ExecutionError(code, detail, hint)


def one_line(thing: object) -> str:
    """Give ``str(thing)`` on one line, cut to `LINE` characters: for texts of users, which may be or do anything."""
    try:
        text = " ".join(str(thing).split())
    except BaseException as problem:  # noqa: BLE001  # it runs in the driver, where a user's error must not get out
        return f"<{type(thing).__name__} whose str() raises {type(problem).__name__}>"
    return text if len(text) <= LINE else f"{text[: LINE - 3]}..."


def location(code: CodeType | None, lasti: int) -> str | None:
    """Name the source line of a bytecode position, ``file:line``: kept as two numbers until somebody asks."""
    if code is None:
        return None
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= lasti < end and number is not None:
            line = number
    return f"{code.co_filename}:{line}"


def _survives_pickling(cause: BaseException) -> bool:
    """Try it: an exception with an `__init__` of its own often pickles, and then breaks whoever unpickles it."""
    import pickle

    try:
        pickle.loads(pickle.dumps(cause))
    except Exception:  # noqa: BLE001  # whatever the methods of the user's class raise
        return False
    return True
