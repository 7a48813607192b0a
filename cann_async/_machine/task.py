"""Step 1 to 2: what a launch puts into a queue.

The nouns build an `Item` (as the public `Task`, its subclass) and hand it to `Machine.submit`. An item's state only
moves forward: QUEUED, RUNNING, then exactly one of DONE, FAILED, CANCELLED, DROPPED; whoever sees one of these may
read `outcome`. CANCELLED was taken out by a host before it started, DROPPED was ended by an abort or the like.
"""

from __future__ import annotations

from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Protocol

from ..errors import ExecutionError, error, location, one_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    from ..errors import CannError
    from .bodies import Place
    from .engine import Engine
    from .machine import Machine
    from .queue import Queue

QUEUED, RUNNING, DONE, FAILED, CANCELLED, DROPPED = range(6)
FAULTS = {"ai_vector": 507035, "ai_cpu": 507018}
"""The code of a body that raises, by engine; any other is 507015."""
TIMEOUTS = {"ai_vector": 507034, "ai_cpu": 507017}
"""The code of a body that runs too long, by engine; any other is 507014."""


class Waiter(Protocol):
    """Whoever wants to know that an item has ended. `wake` may be called from any thread, and twice."""

    def wake(self) -> None:
        """Pass on that the item has ended."""


LIGHT_NS = 50_000
"""What costs less than this runs in place: handing it to another thread would cost more."""
FOREVER_S = 1e9
HICCUP_NS = 20_000_000
"""Longer than the interpreter or the operating system keeps a thread waiting for its turn."""
STRIKES = 8


class Gauge:
    """Up to how many bytes of arguments a body is known to be light; -1: not even with none.

    What is light with more is light with less. A body that took long in place may just have waited for its turn, so
    it takes eight of these, or one that is beyond doubt, to send the next one to a worker again.
    """

    __slots__ = ("_strikes", "limit")

    def __init__(self, limit: int = -1) -> None:
        self.limit = limit
        self._strikes = 0

    def was_light(self, nbytes: int) -> None:
        """Learn from a run on a worker."""
        self.limit = max(self.limit, nbytes)
        self._strikes = 0

    def was_slow(self, nbytes: int, nanoseconds: int) -> None:
        """Learn from a run in place."""
        self._strikes += 1
        if self._strikes == STRIKES or nanoseconds > HICCUP_NS:
            self.limit = min(self.limit, nbytes - 1)
            self._strikes = 0


ALWAYS_LIGHT = Gauge(1 << 62)


class _NeverLight(Gauge):
    """It has to run on a worker, however little it costs."""

    def was_light(self, nbytes: int) -> None:
        """Learn nothing."""


NEVER_LIGHT = _NeverLight()


class Work:
    """What all items of one kind share: a name, the engine (None: the scheduler's own), the cores, and the body."""

    __slots__ = ("cores", "engine", "gauge", "label", "name", "number")

    is_asynchronous = False
    """Whether the body is a coroutine: then `run_async` is called, on the machine's own loop."""
    place: Place | None = None
    """Of an asynchronous body: where it must run, if not on the machine's own loop."""
    timeout_ns: int | None = None
    """So long the body may keep its engine."""
    blocks = 1
    """Of a launch: its blocks, which run in waves when there are more than cores."""

    def __init__(self, name: str, engine: Engine | None, cores: int = 1, gauge: Gauge = ALWAYS_LIGHT) -> None:
        self.name = name
        self.gauge = gauge
        self.engine = engine
        self.cores = cores
        self.label: str | None = None
        """Of a record or a wait: the name of its event or notify; see also `record.PAGEABLE`."""
        self.number = -1
        """Row of the records' table of works; given by the records when first used."""

    def run(self, item: Item) -> object:
        """Do it, on whatever thread the clock chose; what it returns is the item's result."""
        return None

    async def run_async(self, item: Item) -> object:
        """Do it as a coroutine."""
        return self.run(item)

    def context(self, item: Item) -> Context:
        """Give the context in which the coroutine of `run_async` is to run."""
        return copy_context()

    def arrive(self, item: Item) -> bool:
        """Of the scheduler's own items: may the stream pass? If not, arrange for the queue to be looked at again."""
        return True

    def waits_for(self, item: Item) -> str:
        """Say what the item waits for, for the deadlock report."""
        return self.name


class Item:
    """One queued piece of work; `outcome` is its result or error.

    `nbytes` and `cost` say how long it takes on a modelled clock: `cost` below 0 is ``~nanoseconds``, else the engine
    works it out (`Engine.time_ns`): of a launch from its operations, see `Cost.packed`, and its `nbytes` of traffic;
    of a copy from `nbytes` and `cost` further bytes.
    """

    __slots__ = (
        "args",
        "code",
        "cost",
        "finished",
        "id",
        "lane",
        "lasti",
        "nbytes",
        "outcome",
        "queue",
        "started",
        "state",
        "submitted",
        "waiters",
        "work",
    )

    started: int
    finished: int
    lane: int
    args: tuple[object, ...] | None
    outcome: object
    waiters: list[Waiter] | None
    code: CodeType | None

    def __init__(
        self,
        number: int,
        queue: Queue,
        work: Work,
        args: tuple[object, ...],
        nbytes: int,
        cost: int,
        now: int,
        code: CodeType | None,
        lasti: int,
    ) -> None:
        self.id = number
        self.queue = queue
        self.work = work
        self.args = args
        self.nbytes = nbytes
        self.cost = cost
        self.submitted = now
        self.code = code
        self.lasti = lasti
        self.state = QUEUED
        self.waiters = None
        # started, finished, lane and outcome stay unset until they are known: this runs for every launch


class Call:
    """A waiter that calls a function."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[], object]) -> None:
        self.function = function

    def wake(self) -> None:
        """Call it."""
        self.function()


class TimerStop:
    """A waiter that ends a timer: what it was set for has happened."""

    __slots__ = ("_machine", "_timer")

    def __init__(self, machine: Machine, timer: Item) -> None:
        self._machine = machine
        self._timer = timer

    def wake(self) -> None:
        """End the timer."""
        timer = self._timer
        if timer.state == RUNNING:
            timer.finished, timer.state = self._machine.now(), DONE
            self._machine.wake(timer)


def nanoseconds(timeout: float | None) -> int | None:
    """Turn a timeout in seconds into nanoseconds; less than 0 or not a number is 107000, None is for ever."""
    if timeout is None:
        return None
    if not timeout >= 0:
        raise error(107000, f"a timeout is 0 or more seconds, or None, not {timeout}")
    return round(min(timeout, FOREVER_S) * 1e9)


def fail(item: Item, problem: BaseException) -> None:
    """Make `problem` the failure of the item, as the CANN error that its engine would report."""
    if item.state != RUNNING:  # it has been given up, so nobody asks
        return
    engine = item.work.engine
    code = FAULTS.get(engine.name if engine is not None else "", 507015)
    if isinstance(problem, ExecutionError):
        code = problem.code
    said = one_line(problem)
    failure = ExecutionError(
        code,
        f"{one_line(item.work.name)!r} (task {item.id} on stream {item.queue.id}) raised {type(problem).__name__}"
        + (f": {said}" if said else ""),
    )
    failure.__cause__ = problem
    end_failed(item, failure)


def end_failed(item: Item, failure: CannError) -> None:
    """End the item with this failure, as the driver; the hooks hear of it before anybody can see it."""
    blame(item, failure)
    machine = item.queue.machine
    if machine.failure_hooks:
        machine.tell_failure(failure)
    item.outcome = failure
    item.state = FAILED


def blame(item: Item, failure: CannError) -> None:
    """Say in the error which item it is about."""
    failure.kernel = one_line(item.work.name)
    failure.stream_id = item.queue.id
    failure.task_id = item.id
    failure.device_id = item.queue.device
    failure.launched_at = location(item.code, item.lasti)
