"""Event loops as the machine sees them: how to wake a coroutine, and whether any host coroutine can still run.

A machine belongs to no loop. Whoever awaits gets a `HostLoop` for the loop it runs on; wake-ups from another thread
are gathered, so that many completions cost one `call_soon_threadsafe`. On the virtual clock a host loop with waiting
coroutines looks, turn by turn, whether anything is left to run on it; only when nothing is may time move.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections import deque
from typing import TYPE_CHECKING

from ..errors import error

if TYPE_CHECKING:
    from collections.abc import Callable

    from .machine import Machine

MOMENT_S = 0.001
_here = threading.local()


class HostLoop:
    """One running event loop in its thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.thread = threading.get_ident()
        self.slice_ends_ns = 0
        """Until when a coroutine may keep the loop with work in place; then it lets the others run once."""
        self.waiting: dict[Machine, int] = {}
        """Machines on virtual time with coroutines of this loop waiting for them, and how many."""
        self._ready: deque[object] | None = None
        self._mail: deque[asyncio.Future[None]] = deque()
        self._posted = False
        self._looking = False

    @property
    def is_quiet(self) -> bool:
        """Whether nothing at all is ready to run on this loop, besides the caller."""
        if self._ready is None:
            self._ready = _ready_queue(self.loop)
        return not self._ready

    def wake(self, future: asyncio.Future[None]) -> None:
        """Set the future, on its own loop; a loop that has been closed is passed over."""
        if threading.get_ident() == self.thread:
            self._set(future)
            return
        self._mail.append(future)
        if not self._posted:
            self._posted = True
            self._call_threadsafe(self._deliver)

    def watch(self, machine: Machine) -> None:
        """Have virtual time move when this loop is quiet. To be called on the loop."""
        self.waiting[machine] = self.waiting.get(machine, 0) + 1
        self._look_again()

    def unwatch(self, machine: Machine) -> None:
        """One coroutine less waits for the machine."""
        left = self.waiting[machine] - 1
        if left:
            self.waiting[machine] = left
        else:
            del self.waiting[machine]

    def kick(self) -> None:
        """Look again, from any thread."""
        self._call_threadsafe(self._look_again)

    def look_later(self) -> None:
        """Look again in a moment: another thread is about to do something, and may not know that this loop waits."""
        self.loop.call_later(MOMENT_S, self._look_again)

    def _call_threadsafe(self, function: Callable[[], object]) -> None:
        try:
            self.loop.call_soon_threadsafe(function)
        except RuntimeError:  # the loop has been closed: nobody waits there any more
            self._posted = False

    def _deliver(self) -> None:
        self._posted = False
        mail = self._mail
        while mail:
            self._set(mail.popleft())

    def _set(self, future: asyncio.Future[None]) -> None:
        if not future.done():
            try:
                future.set_result(None)
            except RuntimeError:  # the loop has been closed between two runs in this thread
                return

    def _look_again(self) -> None:
        if self.waiting and not self._looking:
            self._looking = True
            self.loop.call_soon(self._look)

    def _look(self) -> None:
        self._looking = False
        for machine in list(self.waiting):
            if not self.is_quiet:
                break
            machine.move_time(self)
        if not self.is_quiet:
            self._look_again()


def has_running_loop() -> bool:
    """Say whether this thread is running an event loop just now."""
    return asyncio._get_running_loop() is not None


def running_host() -> HostLoop:
    """Give the running loop's host; one is kept per thread."""
    loop = asyncio.get_running_loop()
    host: HostLoop | None = getattr(_here, "host", None)
    if host is None or host.loop is not loop:
        host = _here.host = HostLoop(loop)
    return host


def _ready_queue(loop: asyncio.AbstractEventLoop) -> deque[object]:
    """Find the loop's queue of callbacks that are ready to run.

    That it is empty is the one exact and cheap sign that no host coroutine can run: whether tasks look parked is not,
    since `gather` and the like hand results on through callbacks. asyncio keeps it in `_ready`; uvloop hides it, but
    it is the one deque that its loop refers to.
    """
    ready = getattr(loop, "_ready", None)
    if isinstance(ready, deque):
        return ready
    deques = [found for found in gc.get_referents(loop) if isinstance(found, deque)]
    if len(deques) == 1:
        return deques[0]
    raise error(207000, f"virtual time needs an asyncio or uvloop event loop, not {type(loop).__name__}")
