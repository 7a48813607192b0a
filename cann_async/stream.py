"""Step 1: streams, where hosts enqueue. Every method that enqueues does so when it is called, and returns at once.

A stream checks what the host can check (nothing is enqueued otherwise), builds a `Task` and hands it to the machine.
Waiting is separate: `await stream.synchronize()`, `await task`.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from threading import get_ident
from typing import TYPE_CHECKING, Self, TypeVar, cast

import numpy as np

from ._machine.completion import Ended, run_blocking
from ._machine.hosts import has_running_loop
from ._machine.queue import Refusal
from ._machine.task import DONE, DROPPED, Call, Work, nanoseconds
from .errors import CannError, SyncTimeout, error
from .kernel import LAUNCHER_CODE, Kernel, Launch
from .memory import Buffer
from .memory_tasks import MemoryTasks
from .ordering import Ordering
from .overflow import OverflowTasks, Watched
from .task import Task

if TYPE_CHECKING:
    from types import TracebackType

    from ._machine.queue import Queue
    from ._machine.task import Item
    from .context import Context
    from .device import Device

R = TypeVar("R")
MANY = 256
PLAIN = frozenset({int, float, bool, str})
"""Types of arguments that need no look, for speed; any other that is no array passes as well."""


class Stream(Ordering, MemoryTasks, OverflowTasks):
    """A FIFO of tasks; made by `create_stream` of a device or context. Streams have no order among each other."""

    __slots__ = (
        "__weakref__",
        "_context",
        "_core_limits",
        "_depth",
        "_device",
        "_is_blocking",
        "_is_default",
        "_is_watched",
        "_launches",
        "_machine",
        "_modelled",
        "_next_id",
        "_now",
        "_queue",
        "_saturates",
        "_works",
    )

    def __init__(self, context: Context, queue: Queue, *, is_default: bool = False) -> None:
        self._context = context
        self._device: Device = context.device
        self._queue = queue
        self._machine = queue.machine
        self._next_id = queue.machine.next_id
        self._now = queue.machine.now
        self._modelled = queue.machine.clock.modelled
        self._is_default = is_default
        self._core_limits: dict[str, int] = {}
        self._saturates = context.device.saturation_mode
        self._is_watched = False
        self._is_blocking = queue.machine.launch_blocking
        self._depth: int | None = None
        """With so many tasks queued who enqueues must wait: only in the blocking twin."""
        self._launches: dict[object, Launch] = {}
        self._works: dict[tuple[str, str | None, str | None], Work] = {}
        """What tasks of one kind on this stream share; launches by kernel, the others by kind and engine."""
        queue.owner = weakref.ref(self)

    # -- enqueue ------------------------------------------------------------------------------------------------------

    def launch(
        self,
        kernel: Kernel[..., R],
        *args: object,
        blocks: int = 1,
        name: str | None = None,
        timeout: float | None = None,
    ) -> Task[R]:
        """Launch a kernel with `blocks` blocks; mirrors aclrtLaunchKernel and ``kernel<<<blocks, nullptr, stream>>>``.

        Buffers arrive in the body as NumPy views, everything else as it is; a host array is a TypeError. A freed
        buffer, one of another device, or blocks below 1 are 107000. The result is what a whole-launch body returns.
        After `timeout` seconds (default: `Runtime.op_execute_timeout`) the kernel is killed, and its failure is 507014,
        507034 (vector cores) or 507017 (AI CPU). On the wall clock its body goes on unheard, as Python cannot stop it.
        Arguments are taken over at the call; so it mirrors aclrtLaunchKernelV2, aclrtLaunchKernelWithConfig,
        aclrtLaunchKernelWithHostArgs and aclrtLaunchKernelWithArgsArray as well.
        """
        queue, machine = self._queue, self._machine
        if queue.closed is not None:
            raise queue.closed.error()
        if blocks == 1 and name is None and timeout is None:
            work = self._launches.get(kernel)
        else:
            work = self._launches.get((kernel, blocks, name, timeout))
        if work is None:
            work = self._launch_work(kernel, blocks, name, timeout)
        tasks = queue.tasks
        if self._depth is not None and len(tasks) >= self._depth:
            self._wait_for_room()
        nbytes = 0
        given = args
        for arg in args:
            if type(arg) not in PLAIN:
                args, nbytes = self._views(kernel, args)
                break
        cost = 0
        if self._modelled:
            fixed = work.fixed_cost
            if fixed is None:
                nbytes, cost = self._device._price(work, given, nbytes)
            else:
                cost = fixed
                if work.fixed_bytes is not None:
                    nbytes = work.fixed_bytes
            if machine.host_call_ns:
                machine.spend()
        frame = sys._getframe(1)
        code = frame.f_code
        if code is LAUNCHER_CODE and frame.f_back is not None:
            frame = frame.f_back
            code = frame.f_code
        number = self._next_id()
        thread = get_ident()
        if queue.thread != thread:
            queue.thread = thread
            machine.records.fed(queue.id, number)
        task: Task[R] = Task(number, queue, work, args, nbytes, cost, self._now(), code, frame.f_lasti)
        queue.last = task
        tasks.append(task)
        if queue.idle:
            queue.idle = False
            machine.post(queue)
        if not number & 1023:
            machine.breathe(number)
        if self._is_blocking:
            self._finish(task)
        return task

    # -- wait ---------------------------------------------------------------------------------------------------------

    async def synchronize(self, timeout: float | None = None) -> None:
        """Wait until everything enqueued before this call has ended; mirrors aclrtSynchronizeStream[WithTimeout].

        Raises the first failure of this stream that nobody has seen yet, once. Not done within `timeout` seconds is
        507046 (`SyncTimeout`): the work goes on. Aborted meanwhile is 107023 or 107022.
        """
        await self._synchronize(timeout)

    def query(self) -> bool:
        """Say whether everything enqueued so far has ended; never waits; mirrors aclrtStreamQuery."""
        self._check()
        lasts = [last for last in self._lasts() if last.state < DONE]
        if lasts:
            self._machine.poll()
            self._check()
        return all(last.state >= DONE for last in lasts)

    async def drain(self) -> None:
        """Wait until fewer tasks are pending than the queue of the Soc holds, as ``StreamWriter.drain`` does."""
        await self._drain(self._device.soc.queue_depth)

    async def abort(self) -> None:
        """Kill what runs, drop what is queued; whoever waits for any of it gets 107023. Mirrors aclrtStreamAbort.

        The stream can be used afterwards. What waits elsewhere for an event that now cannot happen fails as well. A
        default stream is 107000.
        """
        await self._abort()

    async def close(self, *, force: bool = False) -> None:
        """Finish the queue, or with `force` drop what has not ended (107023), and give the stream back.

        Raises a failure that nobody has seen yet. Twice is fine; a default stream stays. Mirrors aclrtDestroyStream
        and aclrtDestroyStreamForce.
        """
        await self._close(force=force)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit(problem)

    @property
    def failure_mode(self) -> str:
        """Whether a failure stops the context ("stop"), or the next task runs ("continue")."""
        return "stop" if self._queue.domain.stops else "continue"

    def set_failure_mode(self, mode: str) -> None:
        """Have the first failure stop the whole context ("stop"), for good; mirrors aclrtSetStreamFailureMode.

        Then every call on its streams and events raises that failure's code, until the context is destroyed or the
        device reset. Back to "continue" is 207000.
        """
        self._check()
        stops = check_failure_mode(mode)
        if self._queue.domain.stops and not stops:
            raise error(207000, "a context cannot go back from failure mode 'stop' to 'continue'")
        self._queue.domain.stops = stops

    def set_core_limit(self, engine: str, cores: int | None) -> None:
        """Let later launches of this stream use at most so many cores of an engine; None: what the device allows.

        Mirrors aclrtSetStreamResLimit and aclrtResetStreamResLimit. Less than 1, or an engine without cores, is 107000.
        """
        self._check()
        self._device._check_core_limit(engine, cores)
        if cores is None:
            self._core_limits.pop(engine, None)
        else:
            self._core_limits[engine] = cores
        self._launches.clear()

    def core_limit(self, engine: str) -> int:
        """Give how many cores of an engine a launch of this stream may use; mirrors aclrtGetStreamResLimit."""
        return self._core_limits.get(engine, self._device.core_limit(engine))

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def id(self) -> int:
        """The number of the stream within its runtime. Mirrors aclrtStreamGetId."""
        return self._queue.id

    @property
    def name(self) -> str | None:
        """The name it was given."""
        return self._queue.name

    @property
    def priority(self) -> int:
        """0 (most urgent) to 7: which ready task a free engine takes first. Nothing running is pre-empted.

        Mirrors aclrtStreamGetPriority and aclrtDeviceGetStreamPriorityRange.
        """
        return self._queue.priority

    @property
    def context(self) -> Context:
        """The context it belongs to."""
        return self._context

    @property
    def device(self) -> Device:
        """The device it belongs to."""
        return self._device

    @property
    def pending(self) -> int:
        """How many of its tasks have not ended."""
        return self._queue.pending

    def __bool__(self) -> bool:
        return self._queue.closed is None

    def __repr__(self) -> str:
        queue = self._queue
        name = f" {queue.name!r}" if queue.name else ""
        state = f"{queue.pending} pending" if queue.closed is None else "closed"
        return f"<Stream {queue.id}{name} on npu:{self._device.index}, {state}>"

    def __del__(self) -> None:
        queue: Queue | None = getattr(self, "_queue", None)
        if queue is None or queue.closed is not None or self._is_default or sys.is_finalizing():
            return  # in the end all finalizers run, in any order, and one of the program may still close it
        label = repr(self)
        queue.closed = Refusal(507000, f"Stream {queue.id} has been forgotten")
        last = queue.last  # what is queued still runs
        if last is None or not self._machine.watch(last, Call(self._context._releaser(queue))):
            self._context._release_queue(queue)
        warnings.warn(f"{label} was never closed", ResourceWarning, source=self, stacklevel=2)

    # -- within the package; what waits stands here once, for this class and its blocking twin -------------------------

    async def _synchronize(self, timeout: float | None = None) -> None:
        limit = nanoseconds(timeout)
        self._check()
        await _all_ended(self._lasts(), limit, self)
        if self._device._pools:
            self._device._trim_pools()
        self._check_stopped()
        self._raise_failure()

    async def _drain(self, depth: int) -> None:
        self._check()
        queue = self._queue
        while queue.pending >= depth:
            try:
                blocking = queue.tasks[len(queue.tasks) - depth]
            except IndexError:
                blocking = queue.head or queue.tasks[0]
            await Ended(blocking)
            _raise_if_dropped(blocking)
        self._check()

    async def _abort(self) -> None:
        if self._is_default:
            raise error(107000, f"{self!r} is a default stream, which cannot be aborted")
        self._check_stopped()
        queue = self._queue
        if queue.closed is None or queue.closed is queue.domain.failure:
            queues = [queue] if queue.beside is None else [queue, queue.beside]
            self._machine.drop(queues, error(107023, f"{self!r} was aborted"))
        else:
            self._check()

    def _lasts(self) -> list[Item]:
        """Give the last items of this stream, and of its callbacks that run beside it."""
        queue = self._queue
        lasts = [queue.last, queue.beside.last if queue.beside is not None else None]
        return [last for last in lasts if last is not None]

    def _wait_for_room(self) -> None:
        """Block a host of the blocking twin until its stream has room; a running loop or a kernel is never held up."""
        if not self._machine.on_device_thread() and not has_running_loop():
            run_blocking(self._have_room())

    async def _have_room(self) -> None:
        queue = self._queue
        while self._depth is not None and len(queue.tasks) >= self._depth:
            first = queue.head or queue.tasks[0]
            await Ended(first)
            _raise_if_dropped(first)
        self._check()

    def _finish(self, task: Task[object]) -> None:
        """With `launch_blocking`: see the task to its end in the call that enqueued it, and raise its failure there."""
        if not self._machine.on_device_thread():
            task.result()

    async def _close(self, *, force: bool = False) -> None:
        queue = self._queue
        if self._is_default or (queue.closed is not None and queue.closed is not queue.domain.failure):
            return
        runtime = self._device.runtime
        runtime._tell(runtime._stream_hooks, "destroy_pre", self)
        label, lasts = repr(self), self._lasts()
        queue.closed = Refusal(507000, f"Stream {queue.id} has been closed")
        if force:
            queues = [queue] if queue.beside is None else [queue, queue.beside]
            self._machine.drop(queues, error(107023, f"{label} was closed with force"))
        else:
            for last in lasts:
                if last.state < DONE:
                    self._machine.watch(last, Call(self._context._releaser(last.queue)))  # also if this is cancelled
                    await Ended(last)
        self._release()
        self._raise_failure()

    async def _exit(self, problem: BaseException | None) -> None:
        try:
            await self._close()
        except CannError:
            if problem is None:  # an error of the block itself is what its writer must see
                raise

    def _enqueue(self, work: Work, args: tuple[object, ...], nbytes: int, cost: int = -1, up: int = 2) -> Task[object]:
        queue, machine = self._queue, self._machine
        if queue.closed is not None:
            raise queue.closed.error()
        if self._depth is not None and len(queue.tasks) >= self._depth:
            self._wait_for_room()
        if machine.host_call_ns:
            machine.spend()
        frame = sys._getframe(up)
        number, thread = machine.next_id(), get_ident()
        if queue.thread != thread:
            queue.thread = thread
            machine.records.fed(queue.id, number)
        task: Task[object] = Task(number, queue, work, args, nbytes, cost, machine.now(), frame.f_code, frame.f_lasti)
        machine.submit(queue, task)
        if machine.launch_blocking and work.engine is not None:
            self._finish(task)
        return task

    def _work(
        self, key: str, kind: type[Work], engine: str | None, name: str | None = None, label: str | None = None
    ) -> Work:
        work = self._works.get((key, engine, label))
        if work is None:
            on = self._device._engines[engine] if engine is not None else None
            if len(self._works) >= MANY:  # events with ever new names
                self._works.clear()
            work = self._works[key, engine, label] = kind(name if name is not None else key, on)
            work.label = label
        return work

    def _views(self, kernel: Kernel[..., object], args: tuple[object, ...]) -> tuple[tuple[object, ...], int]:
        """Give what the body will see, and the bytes of the buffers among it; see `launch` for what is refused."""
        nbytes = 0
        views: list[object] = []
        for arg in args:
            if isinstance(arg, Buffer):
                allocation = arg._allocation
                if allocation.freed:
                    arg._check()
                if allocation.device is not self._device:
                    raise error(107000, f"{arg!r} is on another device than {self!r}", "Copy it over first.")
                array = arg._array
                nbytes += array.nbytes
                views.append(array[...])
            elif isinstance(arg, np.ndarray):
                raise TypeError(
                    f"kernel {kernel.__name__!r} got a host array: copy it to the device first, "
                    "x = await device.upload(array)"
                )
            else:
                views.append(arg)
        return tuple(views), nbytes

    def _launch_work(self, kernel: Kernel[..., object], blocks: int, name: str | None, timeout: float | None) -> Launch:
        if not isinstance(kernel, Kernel):
            raise TypeError(f"launch needs a kernel, not {type(kernel).__name__}: decorate it with @cann_async.kernel")
        machine = self._machine
        limit = nanoseconds(timeout) if timeout is not None else machine.op_execute_timeout_ns
        cores = self._core_limits.get(kernel.engine, self._device._core_limits.get(kernel.engine))
        kind = Watched if self._is_watched else Launch
        work = kernel.work(self._queue, self._device._engines, blocks, name, cores, limit, kind)
        if isinstance(work, Watched):
            work.overflow = self._device._overflow
        if limit is not None:
            machine.clock.is_watchful = True
        if len(self._launches) >= MANY:  # kernels made on the fly, one per launch: do not keep them all
            self._launches.clear()
        plain = blocks == 1 and name is None and timeout is None
        self._launches[kernel if plain else (kernel, blocks, name, timeout)] = work
        return work

    def _watch(self, on: bool) -> None:
        self._is_watched = on
        self._launches.clear()

    def _raise_failure(self) -> None:
        failed = self._queue.failed
        while failed:
            task = cast("Task[object]", failed.pop(0))
            failure = cast("CannError", task.outcome)
            if not failure.reported:
                task._result()

    def _check_stopped(self) -> None:
        failure = self._queue.domain.failure
        if failure is not None:
            raise failure.error()

    def _check(self) -> None:
        if self._queue.closed is not None:
            raise self._queue.closed.error()

    def _release(self) -> None:
        self._works.clear()
        self._launches.clear()
        queue = self._queue
        self._context._release_queue(queue)
        if queue.beside is not None:
            self._context._release_queue(queue.beside)


def check_failure_mode(mode: str) -> bool:
    """Say whether the mode is "stop"; anything but that and "continue" is 107000."""
    if mode not in ("continue", "stop"):
        raise error(107000, f"failure_mode must be 'continue' or 'stop', not {mode!r}")
    return mode == "stop"


async def _all_ended(lasts: list[Item], limit: int | None, what: object) -> None:
    """Wait for all of them, for `limit` nanoseconds at most; an item that was aborted raises its error."""
    deadline = lasts[0].queue.machine.now() + limit if limit is not None and lasts else 0
    for last in lasts:
        if last.state < DONE:
            left = max(deadline - last.queue.machine.now(), 0) if limit is not None else None
            if not await Ended(last, left):
                assert limit is not None
                raise SyncTimeout(507046, f"{what!r} was not done within {limit / 1e9:g} s", "The work goes on.")
            _raise_if_dropped(last)


def _raise_if_dropped(item: Item) -> None:
    """Tell who has waited for an item that it was aborted."""
    if item.state == DROPPED and isinstance(item.outcome, CannError):
        item.outcome.reported = True
        raise item.outcome.with_traceback(None)
