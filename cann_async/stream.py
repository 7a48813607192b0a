"""Step 1: streams, where hosts enqueue. Every method that enqueues does so when it is called, and returns at once.

A stream checks what the host can check (nothing is enqueued otherwise), builds a `Task` and hands it to the machine.
Waiting is separate: `await stream.synchronize()`, `await task`.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from typing import TYPE_CHECKING, Self, TypeVar, cast

import numpy as np

from ._machine.arena import is_pinned
from ._machine.completion import Ended
from ._machine.scheduler import Wait
from ._machine.task import DONE, DROPPED, Call, Work
from .errors import CannError, error
from .event import Event
from .kernel import LAUNCHER_CODE, Kernel, Launch
from .memory import Buffer, Copy, Fill, Operand, check_copy
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


class Stream:
    """A FIFO of tasks; made by `create_stream` of a device or context. Streams have no order among each other."""

    __slots__ = (
        "__weakref__",
        "_context",
        "_device",
        "_is_default",
        "_launches",
        "_machine",
        "_modelled",
        "_next_id",
        "_now",
        "_queue",
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
        self._launches: dict[object, Launch] = {}
        self._works: dict[tuple[str, str | None], Work] = {}
        """What tasks of one kind on this stream share; launches by kernel, the others by kind and engine."""
        queue.owner = weakref.ref(self)

    # -- enqueue ------------------------------------------------------------------------------------------------------

    def launch(self, kernel: Kernel[..., R], *args: object, blocks: int = 1, name: str | None = None) -> Task[R]:
        """Launch a kernel with `blocks` blocks; mirrors aclrtLaunchKernel and ``kernel<<<blocks, nullptr, stream>>>``.

        Buffers arrive in the body as NumPy views, everything else as it is; a host array is a TypeError. A freed
        buffer, one of another device, or blocks below 1 are 107000. The result is what a whole-launch body returns.
        Arguments are taken over at the call; so it mirrors aclrtLaunchKernelV2, aclrtLaunchKernelWithConfig,
        aclrtLaunchKernelWithHostArgs and aclrtLaunchKernelWithArgsArray as well.
        """
        queue = self._queue
        if queue.closed is not None:
            raise error(507000, queue.closed)
        launches = self._launches
        work = launches.get(kernel) if blocks == 1 and name is None else launches.get((kernel, blocks, name))
        if work is None:
            work = self._launch_work(kernel, blocks, name)
        nbytes = 0
        given = args
        for arg in args:
            if type(arg) not in PLAIN:
                args, nbytes = self._views(kernel, args)
                break
        service = 0
        if self._modelled:
            fixed = work.fixed_ns
            service = fixed if fixed is not None else self._device._launch_time_ns(work, given, nbytes)
        frame = sys._getframe(1)
        code = frame.f_code
        if code is LAUNCHER_CODE and frame.f_back is not None:
            frame = frame.f_back
            code = frame.f_code
        number = self._next_id()
        task: Task[R] = Task(number, queue, work, args, nbytes, service, self._now(), code, frame.f_lasti)
        queue.last = task
        queue.tasks.append(task)
        if queue.idle:
            queue.idle = False
            self._machine.post(queue)
        if not number & 1023:
            self._machine.breathe(number)
        return task

    def memcpy(self, dst: Operand, src: Operand, nbytes: int | None = None, kind: int | None = None) -> Task[None]:
        """Copy in stream order; mirrors aclrtMemcpyAsync. The direction follows from the operands.

        Shapes and dtypes must agree, or one side is raw bytes of the same size, or `nbytes` says how many raw bytes
        to copy. A pinned source is read when the copy runs, any other host source is staged before this returns.
        107000 if sizes, or `kind` and the operands, do not fit; 207000 from host to host.
        """
        engine, target, source = check_copy(self._device, dst, src, nbytes, kind)
        if engine == "host":
            raise error(207000, "a copy from host to host cannot be queued", "Use device.memcpy, or NumPy.")
        if not isinstance(src, Buffer) and not is_pinned(source):
            source = source.copy()
        return self._enqueue_copy(engine, (target, source), source.nbytes)

    def memset(self, buf: Buffer, value: int) -> Task[None]:
        """Set every byte of a buffer to `value` (0 to 255), in stream order; mirrors aclrtMemsetAsync."""
        return self._enqueue_fill(self._device._check_fill(buf, value), value)

    def record(self, event: Event | None = None) -> Event:
        """Record an event, a new one if none is given; mirrors aclrtRecordEvent. Another context's is 107003."""
        self._check()
        if event is None:
            event = self._context.create_event()
        elif not isinstance(event, Event):
            raise TypeError(f"record needs an Event, not {type(event).__name__}")
        event._check()
        self._check_context(event._context, repr(event))
        event._record = cast("Task[None]", self._enqueue(self._work("record", Work, None), (), 0))
        return event

    def wait(self, what: Event | Task[object] | Stream) -> Task[None]:
        """Hold later tasks of this stream until something is complete; mirrors aclrtStreamWaitEvent.

        That is an event's latest record, a task, or all that another stream has been given so far. The host does not
        wait. An event that was never recorded holds nothing. Another context's event or stream is 107003.
        """
        self._check()
        if isinstance(what, Event):
            what._check()
            self._check_context(what._context, repr(what))
            target: Item | None = what._record
        elif isinstance(what, Task):
            owner = what.stream
            if what.queue.machine is not self._machine or (owner is not None and owner._context is not self._context):
                raise error(107003, f"{what!r} belongs to another context than {self!r}")
            target = what
        elif isinstance(what, Stream):
            what._check()
            self._check_context(what._context, repr(what))
            target = what._queue.last
        else:
            raise TypeError(f"a stream waits for an Event, a Task or a Stream, not {type(what).__name__}")
        if target is None:
            return cast("Task[None]", self._enqueue(self._work("wait nothing", Work, None, "wait"), (), 0))
        return cast("Task[None]", self._enqueue(self._work("wait", Wait, None), (target,), target.id))

    # -- wait ---------------------------------------------------------------------------------------------------------

    async def synchronize(self) -> None:
        """Wait until everything enqueued before this call has ended; mirrors aclrtSynchronizeStream.

        Raises the first failure of this stream that nobody has seen yet, once.
        """
        await self._synchronize()

    def query(self) -> bool:
        """Say whether everything enqueued so far has ended; never waits; mirrors aclrtStreamQuery."""
        self._check()
        last = self._queue.last
        if last is None or last.state >= DONE:
            return True
        self._machine.poll()
        return last.state >= DONE

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
        if queue is None or queue.closed is not None or self._is_default:
            return
        label = repr(self)
        queue.closed = f"Stream {queue.id} has been forgotten"
        last = queue.last  # what is queued still runs
        if last is None or not self._machine.watch(last, Call(self._context._releaser(queue))):
            self._context._release_queue(queue)
        warnings.warn(f"{label} was never closed", ResourceWarning, source=self, stacklevel=2)

    # -- within the package; what waits stands here once, for this class and its blocking twin -------------------------

    async def _synchronize(self) -> None:
        self._check()
        last = self._queue.last
        if last is not None and last.state < DONE:
            await Ended(last)
            if last.state == DROPPED and self._queue.closed is not None:  # closed by force meanwhile
                cast("Task[object]", last)._result()
        self._raise_failure()

    async def _close(self, *, force: bool = False) -> None:
        if self._is_default or self._queue.closed is not None:
            return
        label = repr(self)
        self._queue.closed = f"Stream {self._queue.id} has been closed"
        if force:
            self._machine.drop([self._queue], error(107023, f"{label} was closed with force"))
        else:
            last = self._queue.last
            if last is not None and last.state < DONE:
                self._machine.watch(last, Call(self._context._releaser(self._queue)))  # also if this is cancelled
                await Ended(last)
        self._release()
        self._raise_failure()

    async def _exit(self, problem: BaseException | None) -> None:
        try:
            await self._close()
        except CannError:
            if problem is None:  # an error of the block itself is what its writer must see
                raise

    def _enqueue(
        self, work: Work, args: tuple[object, ...], nbytes: int, service: int = 0, up: int = 2
    ) -> Task[object]:
        queue, machine = self._queue, self._machine
        if queue.closed is not None:
            raise error(507000, queue.closed)
        frame = sys._getframe(up)
        task: Task[object] = Task(
            machine.next_id(), queue, work, args, nbytes, service, machine.now(), frame.f_code, frame.f_lasti
        )
        machine.submit(queue, task)
        return task

    def _enqueue_copy(self, engine: str, arrays: tuple[object, ...], nbytes: int, up: int = 3) -> Task[None]:
        work = self._work("memcpy", Copy, engine if nbytes else None, f"memcpy {engine}")
        service = self._device.soc.copy_time_ns(engine, nbytes) if self._modelled else 0
        return cast("Task[None]", self._enqueue(work, arrays, nbytes, service, up))

    def _enqueue_fill(self, array: object, value: int, up: int = 3) -> Task[None]:
        nbytes = cast("np.ndarray[tuple[int, ...], np.dtype[np.generic]]", array).nbytes
        work = self._work("memset", Fill, "d2d" if nbytes else None)
        service = self._device.soc.copy_time_ns("d2d", nbytes) if self._modelled else 0
        return cast("Task[None]", self._enqueue(work, (array, value), nbytes, service, up))

    def _work(self, key: str, kind: type[Work], engine: str | None, name: str | None = None) -> Work:
        work = self._works.get((key, engine))
        if work is None:
            on = self._device._engines[engine] if engine is not None else None
            work = self._works[key, engine] = kind(name if name is not None else key, on)
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

    def _launch_work(self, kernel: Kernel[..., object], blocks: int, name: str | None) -> Launch:
        if not isinstance(kernel, Kernel):
            raise TypeError(f"launch needs a kernel, not {type(kernel).__name__}: decorate it with @cann_async.kernel")
        work = kernel.work(self._queue, self._device._engines, blocks, name)
        if len(self._launches) >= MANY:  # kernels made on the fly, one per launch: do not keep them all
            self._launches.clear()
        self._launches[kernel if blocks == 1 and name is None else (kernel, blocks, name)] = work
        return work

    def _raise_failure(self) -> None:
        failed = self._queue.failed
        while failed:
            task = cast("Task[object]", failed.pop(0))
            failure = cast("CannError", task.outcome)
            if not failure.reported:
                task._result()

    def _check(self) -> None:
        if self._queue.closed is not None:
            raise error(507000, self._queue.closed)

    def _check_context(self, context: Context, what: str) -> None:
        if context is not self._context:
            raise error(
                107003, f"{what} belongs to another context than {self!r}", "Streams and events of contexts never mix."
            )

    def _release(self) -> None:
        self._works.clear()
        self._launches.clear()
        self._context._release_queue(self._queue)
