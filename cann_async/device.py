"""Devices: memory, contexts, and the copies that are ordered with no stream."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt

from ._machine.arena import Arena, host_arena
from ._machine.completion import Ended
from ._machine.queue import Queue
from ._machine.task import DONE
from .context import Context, _raise_failures
from .dtypes import device_dtype
from .errors import error
from .memory import Allocation, Array, Buffer, Operand, check_copy
from .soc import Cost
from .stream import Stream

if TYPE_CHECKING:
    from types import TracebackType

    from .event import Event
    from .kernel import Launch
    from .runtime import Runtime
    from .soc import Soc
    from .task import Task
    from .timeline import Timeline

Shape = int | tuple[int, ...]
S = TypeVar("S", bound=np.generic)


class Device:
    """One NPU of a runtime. Made by `open_device` (then leaving the block closes its runtime) or `Runtime.device`."""

    _context_type: ClassVar[type[Context]] = Context
    _buffer_type: ClassVar[type[Buffer]] = Buffer

    def __init__(self, runtime: Runtime, index: int, soc: Soc) -> None:
        self._runtime = runtime
        self._machine = runtime._machine
        self._index = index
        self._soc = soc
        self._engines = self._machine.engines[index]
        self._arena: Arena | None = None
        self._peers: set[int] = set()
        self._owns_runtime = False
        self._loose: list[Stream] = []
        """Streams of one copy each, used again when they are idle: a synchronous copy is ordered with nothing."""
        self._default_context = self._context_type(self, is_default=True)

    # -- streams and events -------------------------------------------------------------------------------------------

    @property
    def index(self) -> int:
        """The device's number in its runtime."""
        return self._index

    @property
    def soc(self) -> Soc:
        """What kind of chip it is: name, cores, memory, speeds. Mirrors aclrtGetSocName and aclrtGetDeviceInfo."""
        return self._soc

    @property
    def runtime(self) -> Runtime:
        """The runtime it belongs to."""
        return self._runtime

    @property
    def timeline(self) -> Timeline:
        """What has run on the runtime, and when; the same as `Runtime.timeline`."""
        return self._runtime.timeline

    @property
    def default_context(self) -> Context:
        """The context that comes with the device."""
        return self._default_context

    @property
    def default_stream(self) -> Stream:
        """The default stream of the default context."""
        return self._default_context.default_stream

    def create_context(self) -> Context:
        """Make another context with its own default stream; mirrors aclrtCreateContext."""
        self._check()
        return self._context_type(self)

    def create_stream(self, priority: int = 0, name: str | None = None) -> Stream:
        """Make a stream in the default context; see `Context.create_stream`."""
        return self._default_context.create_stream(priority, name)

    def create_event(self, timing: bool = True, name: str | None = None) -> Event:
        """Make an event in the default context; see `Context.create_event`."""
        return self._default_context.create_event(timing, name)

    # -- memory -------------------------------------------------------------------------------------------------------

    def malloc(self, nbytes: int) -> Buffer:
        """Allocate `nbytes` raw bytes, 64-byte aligned, not cleared; mirrors aclrtMalloc.

        0 is 100000, less is 107000, more than there is is 207001 with the figures.
        """
        count = operator.index(nbytes)
        if count == 0:
            raise error(100000, "malloc needs at least one byte")
        if count < 0:
            raise error(107000, f"malloc needs a positive number of bytes, not {count}")
        return self._allocate((count,), np.dtype(np.uint8))

    def empty(self, shape: Shape, dtype: npt.DTypeLike = np.float32, order: str = "C") -> Buffer:
        """Allocate a buffer of this shape and dtype, not cleared; `order` is "C" or "F"."""
        if order not in ("C", "F"):
            raise ValueError(f"order must be 'C' or 'F', not {order!r}")
        whole = _shape(shape)
        if order == "F":
            buffer = self._allocate(whole[::-1], device_dtype(dtype))
            buffer._array = buffer._array.transpose()
            return buffer
        return self._allocate(whole, device_dtype(dtype))

    def zeros(self, shape: Shape, dtype: npt.DTypeLike = np.float32) -> Buffer:
        """Allocate a buffer of zeros."""
        buffer = self.empty(shape, dtype)
        buffer._array[...] = 0
        return buffer

    def upload(self, array: npt.ArrayLike) -> Buffer:
        """Copy an array into a new buffer of the same shape and dtype (native byte order); await it, or go on.

        The source is read before this returns, so any work enqueued later sees the data. A dtype that is not one of
        numbers is a TypeError.
        """
        return self._upload(array)

    def _upload(self, array: npt.ArrayLike) -> Buffer:
        source: Array = np.asarray(array)
        buffer = self.empty(source.shape, source.dtype)
        buffer._array[...] = source
        buffer._upload = self._loose_stream()._enqueue_copy("h2d", (), source.nbytes, 4)
        return buffer

    @overload
    def malloc_host(self, shape: Shape, dtype: type[S] | np.dtype[S]) -> npt.NDArray[S]: ...
    @overload
    def malloc_host(self, shape: Shape, dtype: npt.DTypeLike = ...) -> Array: ...
    def malloc_host(self, shape: Shape, dtype: npt.DTypeLike = np.uint8) -> Array:
        """Allocate pinned host memory as an ordinary array, 64-byte aligned, not cleared; mirrors aclrtMallocHost.

        It is given back when the array and all its views are gone: that mirrors aclrtFreeHost.
        """
        self._check()
        whole, element = _shape(shape), device_dtype(dtype)
        return _carve(host_arena(), whole, element)

    def memcpy(self, dst: Operand, src: Operand, nbytes: int | None = None, kind: int | None = None) -> Task[None]:
        """Copy, ordered with no stream; done when awaited. Mirrors aclrtMemcpy.

        As `Stream.memcpy`, but also from host to host, and a source is read when the copy runs.
        """
        return self._copy(dst, src, nbytes, kind)

    def _copy(self, dst: Operand, src: Operand, nbytes: int | None = None, kind: int | None = None) -> Task[None]:
        self._check()
        engine, target, source = check_copy(self, dst, src, nbytes, kind)
        return self._loose_stream()._enqueue_copy(engine, (target, source), source.nbytes, 4)

    def memset(self, buf: Buffer, value: int) -> Task[None]:
        """Set every byte of a buffer to `value` (0 to 255), ordered with no stream. Mirrors aclrtMemset."""
        return self._fill(buf, value)

    def _fill(self, buf: Buffer, value: int) -> Task[None]:
        self._check()
        return self._loose_stream()._enqueue_fill(self._check_fill(buf, value), value, 4)

    def memory_info(self) -> tuple[int, int]:
        """Give the free and the total bytes of device memory; mirrors aclrtGetMemInfo."""
        self._check()
        return self._memory().free_and_total()

    # -- peers --------------------------------------------------------------------------------------------------------

    def can_access_peer(self, peer: Device) -> bool:
        """Say whether copies with the other device are possible; mirrors aclrtDeviceCanAccessPeer."""
        self._check_other(peer)
        return peer._machine is self._machine

    def enable_peer_access(self, peer: Device) -> None:
        """Allow copies between this device's streams and the peer's memory; mirrors aclrtDeviceEnablePeerAccess."""
        if not self.can_access_peer(peer):
            raise error(207000, "devices of different runtimes cannot reach each other")
        self._peers.add(peer.index)

    def disable_peer_access(self, peer: Device) -> None:
        """Forbid them again; 107000 if they were not allowed. Mirrors aclrtDeviceDisablePeerAccess."""
        self._check_other(peer)
        if peer.index not in self._peers:
            raise error(107000, f"peer access from npu:{self.index} to npu:{peer.index} is not enabled")
        self._peers.discard(peer.index)

    # -- wait and end -------------------------------------------------------------------------------------------------

    async def synchronize(self) -> None:
        """Wait for everything enqueued so far on every stream of the device; raises the first failure not yet seen."""
        await self._synchronize()

    async def _synchronize(self) -> None:
        self._check()
        queues = [queue for queue in list(self._machine.queues) if queue.device == self._index]
        for last in [queue.last for queue in queues]:
            if last is not None and last.state < DONE:
                await Ended(last)
        self._check()
        _raise_failures(queues)

    async def close(self) -> None:
        """Close the runtime of a device made by `open_device`; any other device waits for its work.

        Mirrors aclrtResetDevice.
        """
        await self._exit(None)

    async def _exit(self, problem: BaseException | None) -> None:
        if self._owns_runtime:
            await self._runtime._close(drain=problem is None)
        elif problem is None and self._machine.closed is None:
            await self._synchronize()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit(problem)

    def __repr__(self) -> str:
        state = f", {self._machine.closed}" if self._machine.closed else ""
        return f"<Device npu:{self._index} {self._soc.name}, {self._machine.clock.name} clock{state}>"

    def __bool__(self) -> bool:
        return self._machine.closed is None

    # -- within the package -------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._machine.closed is not None:
            raise error(507033 if "fork" in self._machine.closed else 507007, self._machine.closed)

    def _check_other(self, peer: Device) -> None:
        self._check()
        if not isinstance(peer, Device):
            raise TypeError(f"a peer is a Device, not {type(peer).__name__}")
        if peer is self:
            raise error(100000, "a device is no peer of itself")

    def _check_peer(self, other: Device) -> None:
        if other._machine is not self._machine:
            raise error(107000, "the buffer belongs to a device of another runtime")
        if other.index not in self._peers:
            raise error(
                107000,
                f"npu:{self.index} may not reach memory of npu:{other.index}",
                "Allow it first: device.enable_peer_access(peer).",
            )

    def _check_fill(self, buf: Buffer, value: int) -> Array:
        if not isinstance(buf, Buffer):
            raise TypeError(f"memset needs a Buffer, not {type(buf).__name__}")
        buf._check()
        if buf._allocation.device is not self:
            self._check_peer(buf._allocation.device)
        if not isinstance(value, int | np.integer):
            raise TypeError(f"the byte must be an int, not {type(value).__name__}")
        if not 0 <= value <= 255:
            raise error(107000, f"memset sets bytes: the value must be 0 to 255, not {value}")
        return buf._array

    def _memory(self) -> Arena:
        if self._arena is None:
            self._arena = Arena(self._soc.memory_bytes, f"device memory of npu:{self._index}")
        return self._arena

    def _allocate(self, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Buffer:
        self._check()
        return self._buffer_type(Allocation(self), _carve(self._memory(), shape, dtype), is_root=True)

    def _loose_stream(self) -> Stream:
        for stream in self._loose:
            if stream._queue.last is None or stream._queue.last.state >= DONE:
                return stream
        self._check()
        queue = Queue(self._machine, self._index, -1, 0, "sync")
        self._machine.queues[queue] = None
        stream = Stream(self._default_context, queue, is_default=True)
        queue.owner = None
        self._loose.append(stream)
        return stream

    def _launch_time_ns(self, work: Launch, args: tuple[object, ...], nbytes: int) -> int:
        """Model a launch; what does not depend on the arguments is kept in the work."""
        kernel = work.kernel
        function = kernel.cost_function
        if function is not None:
            cost = function(work, *args)
            if not isinstance(cost, Cost):
                raise TypeError(f"the cost function of {kernel!r} gave {type(cost).__name__}, not a Cost")
            seconds = cost.seconds
            if seconds is not None and 0 <= seconds < 1e9:  # as `launch_time_ns` does, without the call
                return round(seconds * 1e9)
            return self._soc.launch_time_ns(cost, kernel.engine, work.blocks, work.cores)
        if kernel.cost is None:
            return self._soc.launch_time_ns(Cost(bytes=nbytes), kernel.engine, work.blocks, work.cores)
        work.fixed_ns = time_ns = self._soc.launch_time_ns(kernel.cost, kernel.engine, work.blocks, work.cores)
        return time_ns


def _shape(shape: Shape) -> tuple[int, ...]:
    whole = (operator.index(shape),) if not isinstance(shape, tuple | list) else tuple(map(operator.index, shape))
    if any(n < 0 for n in whole):
        raise error(107000, f"a shape has no negative lengths: {whole}")
    return whole


def _carve(arena: Arena, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    count = math.prod(shape)
    if count:
        return Arena.view(arena.allocate(count * dtype.itemsize), shape, dtype)
    return Arena.view(arena.allocate(dtype.itemsize), (1,), dtype)[:0].reshape(shape)  # it has an address, too
