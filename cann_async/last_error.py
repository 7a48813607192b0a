"""The last error, as C programs ask for it: for layers that give codes back instead of raising them.

The native API raises, and an exception says more than a code. Whoever catches one and hands its code on, as a pyACL
program expects, calls `note`; the others here then answer as CANN's calls of these names do.

What is kept belongs to one thread of control, as in CANN: what thread A's synchronize has noticed is no error of
thread B. Within asyncio the thread of control is the running task, because several of them take turns in one thread;
anywhere else it is the thread. So it is neither a `threading.local`, in which the tasks of a loop would read each
other's errors, nor a `ContextVar`, whose value every new task and every `asyncio.to_thread` gets a copy of, whereas a
new thread of CANN starts with nothing. What is kept goes when its task or thread does.

A layer for programs that know nothing of asyncio says ``of="thread"``: then it is the thread's, also within a task.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .errors import CannError

Scope = Literal["thread", "process"]
Of = Literal["task", "thread"]
RECENT = 32
"""How many messages are kept at most; the oldest go first."""
RUNTIME = frozenset({107, 207, 507})
"""The thousands of codes that the runtime itself gives; the others come from the layers in front of it."""
NOT_FINISHED = frozenset({507004, 507006})
"""Answers to a query and no failures."""


class _State:
    """What one thread of control has noted; only it looks at it."""

    def __init__(self) -> None:
        self.code = 0
        self.messages: deque[str] = deque(maxlen=RECENT)


class _Thread(threading.local):
    """The states of one thread: its own, and those of the tasks that run in it."""

    def __init__(self) -> None:
        self.own = _State()
        self.tasks: weakref.WeakKeyDictionary[asyncio.Task[object], _State] = weakref.WeakKeyDictionary()


_thread = _Thread()
_everybody: deque[str] = deque(maxlen=RECENT)
"""The messages of the whole process, while the scope is that."""
_scope: Scope = "thread"


def note(error: CannError, of: Of = "task") -> int:
    """Note an error that the running task or thread was given, and give its code.

    It becomes the last error unless a layer in front of the runtime has refused the call (100000 and the like). Its
    text becomes the most recent message. "Not finished yet" (507004, 507006) is neither.
    """
    if error.code not in NOT_FINISHED:
        if error.code // 1000 in RUNTIME:
            _state(of).code = error.code
        _messages(of).appendleft(str(error))
    return error.code


def get_last_error(of: Of = "task") -> int:
    """Give the code of the last error and forget it, 0 if there is none. Mirrors aclrtGetLastError."""
    state = _state(of)
    code, state.code = state.code, 0
    return code


def peek_last_error(of: Of = "task") -> int:
    """Give the code of the last error and keep it, 0 if there is none. Mirrors aclrtPeekAtLastError."""
    return _state(of).code


def recent_error_message(of: Of = "task") -> str | None:
    """Give the recent messages, the newest first, and forget them; None if there are none.

    Each is one paragraph. Mirrors aclGetRecentErrMsg.
    """
    messages = _messages(of)
    taken = []
    while messages:  # another thread may take from the messages of the process as well
        try:
            taken.append(messages.popleft())
        except IndexError:
            break
    return "\n".join(taken) or None


def set_message_scope(scope: Scope) -> None:
    """Keep messages per "thread" (of control, the default) or for the whole "process"; anything else is a ValueError.

    It is `err_msg_mode` of CANN's configuration. The last error is always the thread's. Messages stay where they were
    noted.
    """
    global _scope  # noqa: PLW0603  # one setting for the process, as there
    if scope not in ("thread", "process"):
        raise ValueError(f"the scope must be 'thread' or 'process', not {scope!r}")
    _scope = scope


def _messages(of: Of) -> deque[str]:
    return _everybody if _scope == "process" else _state(of).messages


def _state(of: Of) -> _State:
    if of == "thread":
        return _thread.own
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        task = None
    if task is None:
        return _thread.own
    return _thread.tasks.setdefault(task, _State())
