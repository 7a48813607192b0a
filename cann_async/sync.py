"""The blocking twin: the same names for scripts, threads and notebook cells, no loop needed.

    import cann_async.sync as ca

    with ca.open_device(0) as device, device.create_stream() as stream:
        task = stream.launch(add, x, y, z, blocks=8)   # returns at once
        stream.synchronize()                           # blocks

It is the same machine: every class is a subclass of the native one, and a method that would be awaited there runs
the very same coroutine to its end here. What is not awaited there (launches, stream copies, records) is inherited.
A blocking call also works inside a running loop, which it holds up as any blocking call does.
"""

# mypy: disable-error-code="override"
# Reason: a blocking method gives the result where the native one gives a coroutine; that is what a twin is for.

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt

from . import context as _context
from . import device as _device
from . import device_memory as _device_memory
from . import event as _event
from . import memory as _memory
from . import runtime as _runtime
from . import stream as _stream
from ._machine.completion import block, run_blocking
from ._machine.task import DONE
from .context import current_device as current_device
from .context import current_stream as current_stream
from .context import use as use
from .errors import CannError as CannError
from .errors import DeadlockError as DeadlockError
from .errors import ExecutionError as ExecutionError
from .errors import MismatchError as MismatchError
from .errors import ResourceError as ResourceError
from .errors import SyncTimeout as SyncTimeout
from .errors import UsageError as UsageError
from .kernel import Block as Block
from .kernel import Kernel as Kernel
from .kernel import Launch as Launch
from .kernel import kernel as kernel
from .memory import ManagedBuffer as ManagedBuffer
from .memory import MemcpyKind as MemcpyKind
from .notify import Notify as Notify
from .pool import Pool as Pool
from .runtime import device_count as device_count
from .runtime import socs as socs
from .soc import Cost as Cost
from .soc import Soc as Soc
from .task import Task as Task
from .timeline import Timeline as Timeline
from .virtual_memory import AddressRange as AddressRange
from .virtual_memory import PhysicalMemory as PhysicalMemory

if TYPE_CHECKING:
    from types import TracebackType

    from ._machine.queue import Queue

R = TypeVar("R")


class _With:
    """``with`` for classes whose native ``async with`` ends in `_exit`."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        run_blocking(self._exit(problem))  # type: ignore[attr-defined]  # of the native class beside it


class Buffer(_memory.Buffer):
    """As `cann_async.Buffer`; `get` blocks."""

    __slots__ = ()

    def get(self) -> _memory.Array:
        """Copy everything to the host into a new array; see `cann_async.Buffer.get`."""
        return run_blocking(self._get())


class Event(_event.Event):
    """As `cann_async.Event`; `synchronize` blocks."""

    __slots__ = ()

    def synchronize(self, timeout: float | None = None) -> None:
        """Wait until the latest record is complete; see `cann_async.Event.synchronize`."""
        run_blocking(self._synchronize(timeout))


class LatchEvent(_event.LatchEvent):
    """As `cann_async.LatchEvent`; `synchronize` blocks."""

    __slots__ = ()

    def synchronize(self, timeout: float | None = None) -> None:
        """Wait until the latest record is complete; see `cann_async.Event.synchronize`."""
        run_blocking(self._synchronize(timeout))


class Stream(_With, _stream.Stream):
    """As `cann_async.Stream`; `synchronize`, `drain`, `abort` and `close` block, and so does a full queue."""

    __slots__ = ()

    def __init__(self, context: _context.Context, queue: Queue, *, is_default: bool = False) -> None:
        super().__init__(context, queue, is_default=is_default)
        self._depth = self._device.soc.queue_depth

    def drain(self) -> None:
        """Wait until fewer tasks are pending than the queue holds; see `cann_async.Stream.drain`."""
        run_blocking(self._drain(self._device.soc.queue_depth))

    def abort(self) -> None:
        """Kill what runs and drop what is queued; see `cann_async.Stream.abort`."""
        run_blocking(self._abort())

    def synchronize(self, timeout: float | None = None) -> None:
        """Wait until everything enqueued before this call has ended; see `cann_async.Stream.synchronize`."""
        last = self._queue.last
        if timeout is None and last is not None and last.state < DONE:
            block(self._machine, last)  # without a coroutine: a third less for a wait that finds its work to do
            _stream._raise_if_dropped(last)
        run_blocking(self._synchronize(timeout))

    def close(self, *, force: bool = False) -> None:
        """Finish the queue, or drop it with `force`; see `cann_async.Stream.close`."""
        run_blocking(self._close(force=force))

    def record(self, event: _event.Event | None = None) -> Event:
        """Record an event; see `cann_async.Stream.record`."""
        return cast("Event", super().record(event))


class Context(_context.Context):
    """As `cann_async.Context`; `synchronize` and `destroy` block."""

    _stream_type: ClassVar[type[_stream.Stream]] = Stream
    _event_type: ClassVar[type[_event.Event]] = Event
    _latch_event_type: ClassVar[type[_event.LatchEvent]] = LatchEvent

    def synchronize(self, timeout: float | None = None) -> None:
        """Wait for every stream of the context; see `cann_async.Context.synchronize`."""
        run_blocking(self._synchronize(timeout))

    def destroy(self) -> None:
        """Finish and close every stream, then the context; see `cann_async.Context.destroy`."""
        run_blocking(self._destroy())

    if TYPE_CHECKING:
        default_stream: Stream

        def create_stream(
            self, priority: int = 0, name: str | None = None, failure_mode: str = "continue"
        ) -> Stream: ...
        def create_event(
            self,
            timing: bool = True,
            name: str | None = None,
            kind: Literal["snapshot", "latch", "sync latch"] = "snapshot",
        ) -> Event: ...


class Device(_With, _device.Device):
    """As `cann_async.Device`; copies, `upload`, `synchronize` and `close` block."""

    _context_type: ClassVar[type[_context.Context]] = Context
    _buffer_type: ClassVar[type[_memory.Buffer]] = Buffer

    def synchronize(self, timeout: float | None = None) -> None:
        """Wait for every stream of the device; see `cann_async.Device.synchronize`."""
        run_blocking(self._synchronize(timeout))

    def task_abort(self) -> None:
        """Kill what runs and drop what is queued; see `cann_async.Device.task_abort`."""
        run_blocking(self._task_abort())

    def reset(self) -> None:
        """Begin anew; see `cann_async.Device.reset`."""
        run_blocking(self._reset())

    def release(self) -> int:
        """Count one user less; see `cann_async.Device.release`."""
        return run_blocking(self._release())

    def close(self) -> None:
        """Close the runtime of a device made by `open_device`; any other device waits for its work."""
        run_blocking(self._exit(None))

    def memcpy(
        self, dst: _memory.Operand, src: _memory.Operand, nbytes: int | None = None, kind: int | None = None
    ) -> None:
        """Copy and return when it is done; see `cann_async.Device.memcpy`."""
        self._copy(dst, src, nbytes, kind).result()

    def memset(self, buf: _memory.Buffer, value: int) -> None:
        """Set every byte and return when it is done; see `cann_async.Device.memset`."""
        self._fill(buf, value).result()

    def memcpy2d(
        self, dst: _memory.Operand, src: _memory.Operand, width: int, height: int, dst_pitch: int, src_pitch: int
    ) -> None:
        """Copy rows and return when it is done; see `cann_async.Device.memcpy2d`."""
        self._copy_2d(dst, src, width, height, dst_pitch, src_pitch).result()

    def memset_d32(self, buf: _memory.Buffer, value: int) -> None:
        """Set every word and return when it is done; see `cann_async.Device.memset_d32`."""
        self._fill_words(buf, value).result()

    def upload(self, array: npt.ArrayLike) -> Buffer:
        """Copy an array into a new buffer and return when it is done; see `cann_async.Device.upload`."""
        buffer = self._upload(array)
        if buffer._upload is not None:
            buffer._upload.result()
        return cast("Buffer", buffer)

    if TYPE_CHECKING:
        default_context: Context
        default_stream: Stream
        runtime: Runtime

        def create_context(self) -> Context: ...
        def create_stream(
            self, priority: int = 0, name: str | None = None, failure_mode: str = "continue"
        ) -> Stream: ...
        def create_event(
            self,
            timing: bool = True,
            name: str | None = None,
            kind: Literal["snapshot", "latch", "sync latch"] = "snapshot",
        ) -> Event: ...
        def malloc(self, nbytes: int) -> Buffer: ...
        def empty(self, shape: _device_memory.Shape, dtype: npt.DTypeLike = np.float32, order: str = "C") -> Buffer: ...
        def zeros(self, shape: _device_memory.Shape, dtype: npt.DTypeLike = np.float32) -> Buffer: ...


class RuntimeClock(_runtime.RuntimeClock):
    """As the native clock; `sleep` blocks."""

    def sleep(self, seconds: float) -> None:
        """Sleep in the runtime's own time."""
        if self._machine.clock.is_virtual:
            run_blocking(self._sleep(seconds))
        else:
            time.sleep(seconds)


class Runtime(_With, _runtime.Runtime):
    """As `cann_async.Runtime`; `close` blocks."""

    _device_type: ClassVar[type[_device.Device]] = Device
    _clock_type: ClassVar[type[_runtime.RuntimeClock]] = RuntimeClock

    def close(self, *, drain: bool = True) -> None:
        """Finish what is queued, or drop it without `drain`, and end the runtime; see `cann_async.Runtime.close`."""
        run_blocking(self._close(drain=drain))

    if TYPE_CHECKING:
        clock: RuntimeClock
        devices: tuple[Device, ...]

        def device(self, index: int = 0) -> Device: ...


def open_device(
    index: int = 0,
    *,
    devices: int | None = None,
    soc: str | Soc | None = None,
    clock: _runtime.ClockName | None = None,
    record: bool = True,
    host_time: bool | None = None,
) -> Device:
    """Make a runtime and give its device `index`; leaving ``with`` closes the runtime. Mirrors aclrtSetDevice."""
    return cast("Device", _runtime._open(Runtime, index, devices, soc, clock, record, host_time))


def wait(what: Awaitable[R]) -> R:
    """Block until what the native API would await is done: a task, an event, or ``stream.synchronize()``.

    For code that mixes both styles on the same objects. It waits for the device only: an awaitable that waits for
    anything else is a RuntimeError.
    """

    async def waiting() -> R:
        return await what

    return run_blocking(waiting())
