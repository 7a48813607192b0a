"""Step 1: what an enqueue returns. A handle of work that has been submitted already.

It is neither a coroutine nor a future: nobody has to await it, anybody may, any number of times, from any loop or
thread. Cancelling who awaits changes nothing for the work.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from typing import TYPE_CHECKING, Generic, TypeVar, cast, final

from ._machine.completion import Ended, block, run_blocking, wait
from ._machine.hosts import HostLoop, running_host
from ._machine.task import CANCELLED, DONE, FAILED, QUEUED, Call, Item, Work, blame, nanoseconds
from .errors import CannError, SyncTimeout, error, location

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from .stream import Stream

T_co = TypeVar("T_co", covariant=True)
log = logging.getLogger("cann_async")


@final
class Task(Item, Generic[T_co]):
    """One task on a stream; `await` it for its result or its own error."""

    __slots__ = ()

    def __await__(self) -> Generator[object, None, T_co]:
        """Wait until the task has ended, on any running loop; give its result or raise its error."""
        if self.state < DONE:
            yield from wait(self.queue.machine, self)
        return self._result()

    async def wait(self) -> T_co:
        """Do as ``await task``: for whoever needs a coroutine, such as ``TaskGroup.create_task(task.wait())``."""
        return await self

    def result(self, timeout: float | None = None) -> T_co:
        """Block until the task has ended; give its result or raise its error.

        Works in any thread, also inside a running loop (which it holds up). In a kernel or a callback it raises 107000
        at once. Not ended within `timeout` seconds is 507046 (`SyncTimeout`).
        """
        if self.state < DONE:
            if timeout is None:
                block(self.queue.machine, self)
            elif not run_blocking(_ended(self, nanoseconds(timeout))):
                raise SyncTimeout(507046, f"{self!r} has not ended within {timeout:g} s", "The work goes on.")
        return self._result()

    def exception(self) -> CannError | None:
        """Give the error of a task that has ended, None if it went well; 107000 if it has not ended."""
        if self.state < DONE:
            raise error(107000, f"{self!r} has not ended", "Await it first, or ask done().")
        return self._failure() if self.state != DONE else None

    def done(self) -> bool:
        """Say whether the task has ended, in whatever way; never waits."""
        if self.state < DONE:
            self.queue.machine.poll()
        return self.state >= DONE

    def cancelled(self) -> bool:
        """Say whether the task ended without having run."""
        return self.state >= CANCELLED

    def cancel(self) -> bool:
        """Take the task out of its stream; True only if it had not started. Who awaits it gets 107023."""
        if self.state != QUEUED:
            return False
        queue, machine = self.queue, self.queue.machine
        if queue.last is self:  # whoever waits for the stream still waits for what came before: an empty item stands in
            gone = Item(machine.next_id(), queue, Work("cancelled", None), (), 0, -1, machine.now(), None, 0)
            machine.submit(queue, gone)
        return machine.cancel(self, error(107023, f"{self!r} was cancelled before it started"))

    def future(self) -> asyncio.Future[T_co]:
        """Give an `asyncio.Future` of the running loop that ends as the task does."""
        future: asyncio.Future[T_co] = asyncio.get_running_loop().create_future()

        def settle(_: Task[T_co]) -> None:
            if future.done():
                return
            try:
                future.set_result(self._result())
            except CannError as problem:
                future.set_exception(problem)

        self.add_done_callback(settle)
        future.add_done_callback(lambda _: self.remove_done_callback(settle))  # if it is cancelled
        return future

    def add_done_callback(self, fn: Callable[[Task[T_co]], object]) -> None:
        """Call ``fn(task)`` once when the task has ended: on the running loop if there is one, else where it ends.

        A loop with a callback is a host that waits: virtual time moves for it.
        """
        waiter = _Callback(self, fn)
        if not self.queue.machine.watch(self, waiter):
            waiter.wake()

    def remove_done_callback(self, fn: Callable[[Task[T_co]], object]) -> int:
        """Take callbacks back; give how many there were."""
        waiters = [w for w in self.waiters or () if isinstance(w, _Callback) and w.fn == fn]
        for waiter in waiters:
            self.queue.machine.unwatch(self, waiter)
            waiter.forget()
        return len(waiters)

    @property
    def name(self) -> str:
        """The kernel's name, or what kind of task it is."""
        return self.work.name

    @property
    def engine(self) -> str:
        """The engine it runs on; empty for waits and records, which the scheduler resolves itself."""
        return self.work.engine.name if self.work.engine is not None else ""

    @property
    def stream(self) -> Stream | None:
        """The stream it was enqueued on; None for a copy that is ordered with no stream, or if the stream is gone."""
        owner = self.queue.owner() if self.queue.owner is not None else None
        return cast("Stream | None", owner)

    @property
    def launched_at(self) -> str | None:
        """``file:line`` of the call that enqueued it."""
        return location(self.code, self.lasti)

    @property
    def submitted_ns(self) -> int:
        """When it was enqueued, in nanoseconds of the runtime's clock."""
        return self.submitted - self.queue.machine.clock.origin_ns

    @property
    def started_ns(self) -> int | None:
        """When it started; None before that."""
        started: int | None = getattr(self, "started", None)
        return None if started is None else started - self.queue.machine.clock.origin_ns

    @property
    def finished_ns(self) -> int | None:
        """When it ended; None before that."""
        if not DONE <= self.state <= FAILED:  # until then it is when it will end, for all that is known
            return None
        return self.finished - self.queue.machine.clock.origin_ns

    def _result(self) -> T_co:
        if self.state == DONE:
            return cast("T_co", self.outcome)
        raise self._failure().with_traceback(None)

    def _failure(self) -> CannError:
        failure = cast("CannError", self.outcome)
        failure.reported = True
        if failure.task is not self:
            if self.state >= CANCELLED:  # one error for all that were dropped together: this task's says which it is
                self.outcome = failure = copy.copy(failure)
                blame(self, failure)
            failure.task = self
        return failure

    def __repr__(self) -> str:
        state = ("queued", "running", "done", "failed", "cancelled", "dropped")[self.state]
        return f"<Task {self.id} {self.work.name!r} on stream {self.queue.id}, {state}>"


async def _ended(item: Item, limit_ns: int | None) -> bool:
    return await Ended(item, limit_ns)


class _Callback(Call):
    """A waiter that calls a user's function once, on the loop of whoever left it."""

    __slots__ = ("_host", "_machine", "_once", "_waits", "fn")

    def __init__(self, task: Task[T_co], fn: Callable[[Task[T_co]], object]) -> None:
        super().__init__(lambda: fn(task))
        self.fn = fn
        self._machine = task.queue.machine
        self._once = [True]
        try:
            self._host: HostLoop | None = running_host()
        except RuntimeError:
            self._host = None
        self._waits = self._host is not None and self._machine.clock.is_virtual
        if self._host is not None and self._waits:
            self._host.watch(self._machine)

    def wake(self) -> None:
        """Call the function; an exception in it is logged, as asyncio does."""
        try:
            self._once.pop()
        except IndexError:
            return
        if self._host is not None:
            if self._machine.clock.is_virtual:  # time must stand still while somebody can go on
                self._machine.stop = self._machine.news = True
            try:
                self._host.loop.call_soon_threadsafe(self._call)
            except RuntimeError:  # that loop has been closed
                return
        else:
            try:
                self.function()
            except Exception:
                log.exception("a done callback of a task failed")

    def forget(self) -> None:
        """Wait no longer. To be called on the loop."""
        if self._host is not None and self._waits:
            self._waits = False
            self._host.unwatch(self._machine)

    def _call(self) -> None:
        self.forget()
        self.function()
