"""The memory of a device: allocations, pinned host memory, and copies that are ordered with no stream.

`DeviceMemory` is that part of `Device`. A single copy runs on a stream of its own that is idle, so it neither waits for
what is queued nor holds it up, as CANN's synchronous copies.
"""

from __future__ import annotations

import math
import operator
import weakref
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast, overload

import numpy as np
import numpy.typing as npt

from ._machine.arena import Arena, host_arena, is_pinned, is_registered, register, unregister
from ._machine.pages import GRANULARITY, import_memory
from ._machine.queue import Queue
from ._machine.task import DONE
from .dtypes import device_dtype
from .errors import error
from .memory import Allocation, Array, Buffer, ManagedBuffer, Operand, check_copy
from .memory_tasks import check_copy_2d, check_words
from .pool import Pool
from .stream import Stream
from .virtual_memory import AddressRange, PhysicalMemory

if TYPE_CHECKING:
    from ._machine.machine import Machine
    from .context import Context
    from .device import Device
    from .runtime import Runtime
    from .soc import Soc
    from .task import Task

Shape = int | tuple[int, ...]
S = TypeVar("S", bound=np.generic)


class DeviceMemory:
    """What a `Device` does with memory."""

    _buffer_type: ClassVar[type[Buffer]] = Buffer

    if TYPE_CHECKING:
        _default_context: Context
        _index: int
        _machine: Machine
        _runtime: Runtime
        _soc: Soc

        def _check(self) -> None: ...
        def _check_peer(self, other: Device) -> None: ...

    def __init__(self) -> None:
        self._arena: Arena | None = None
        self._loose: list[Stream] = []
        """Streams of one copy each, used again when they are idle: a synchronous copy is ordered with nothing."""
        self._allocations: weakref.WeakSet[Allocation] = weakref.WeakSet()
        self._pools: list[weakref.ref[Pool]] = []

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

    def malloc_managed(self, shape: Shape, dtype: npt.DTypeLike = np.uint8) -> ManagedBuffer:
        """Allocate memory that host and device can use without copies; mirrors aclrtMemAllocManaged."""
        buffer = self.empty(shape, dtype)
        managed = ManagedBuffer(buffer._allocation, buffer._array, is_root=True)
        buffer._allocation.buffers.add(managed)
        return managed

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
        engine, target, source = check_copy(self._this, dst, src, nbytes, kind)
        return self._loose_stream()._enqueue_copy(engine, (target, source), source.nbytes, 4)

    def memset(self, buf: Buffer, value: int) -> Task[None]:
        """Set every byte of a buffer to `value` (0 to 255), ordered with no stream. Mirrors aclrtMemset."""
        return self._fill(buf, value)

    def _fill(self, buf: Buffer, value: int) -> Task[None]:
        self._check()
        return self._loose_stream()._enqueue_fill(self._check_fill(buf, value), value, 4)

    def memcpy2d(
        self, dst: Operand, src: Operand, width: int, height: int, dst_pitch: int, src_pitch: int
    ) -> Task[None]:
        """Copy rows, ordered with no stream, into or out of the device; as `Stream.memcpy2d`. Mirrors aclrtMemcpy2d."""
        return self._copy_2d(dst, src, width, height, dst_pitch, src_pitch)

    def _copy_2d(
        self, dst: Operand, src: Operand, width: int, height: int, dst_pitch: int, src_pitch: int
    ) -> Task[None]:
        self._check()
        engine, target, source = check_copy_2d(self._this, dst, src, width, height, (dst_pitch, src_pitch))
        if engine == "d2d":
            raise error(100000, "a two-dimensional copy within the device needs a stream")
        return self._loose_stream()._enqueue_copy(engine, (target, source), source.nbytes, 4)

    def memset_d32(self, buf: Buffer, value: int) -> Task[None]:
        """Set every 32-bit word of a buffer, ordered with no stream; as `Stream.memset_d32`. Mirrors aclrtMemsetD32."""
        return self._fill_words(buf, value)

    def _fill_words(self, buf: Buffer, value: int) -> Task[None]:
        self._check()
        return self._loose_stream()._enqueue_words(check_words(self._this, buf, value), value, 4)

    def register_host(self, array: npt.NDArray[np.generic]) -> None:
        """Make an ordinary array pinned until `unregister_host`: queued copies then read it when they run.

        It must be contiguous and begin at a multiple of 4 KiB (107000); twice is 507910. Mirrors aclrtHostRegister.
        """
        self._check()
        register(array)

    def unregister_host(self, array: npt.NDArray[np.generic]) -> None:
        """End it; 507911 if it was not registered. Mirrors aclrtHostUnregister."""
        self._check()
        unregister(array)

    def pointer_attributes(self, what: Buffer | npt.NDArray[np.generic] | int) -> tuple[str, int | None]:
        """Say where memory is and on which device: "device", "host" (pinned or registered) or "unregistered".

        Takes a buffer, an array or an address. Mirrors aclrtPointerGetAttributes.
        """
        self._check()
        if isinstance(what, Buffer):
            return "device", what.device.index
        if isinstance(what, np.ndarray):
            return ("host" if is_pinned(what) else "unregistered"), None
        address = operator.index(what)
        for device in self._runtime.devices:
            if device._arena is not None and address in device._arena:
                return "device", device.index
        return ("host" if address in host_arena() or is_registered(address) else "unregistered"), None

    def allocation_granularity(self) -> int:
        """Give the bytes of which sizes of virtual memory are multiples; mirrors aclrtMemGetAllocationGranularity."""
        return GRANULARITY

    def malloc_physical(self, nbytes: int) -> PhysicalMemory:
        """Allocate memory that has no address yet; mirrors aclrtMallocPhysical.

        No multiple of the granularity is 107000, more than there is 207001.
        """
        self._check()
        return PhysicalMemory(self._this, operator.index(nbytes))

    def import_physical(self, key: str) -> PhysicalMemory:
        """Open the memory that another process has exported; mirrors aclrtMemImportFromShareableHandle.

        107000 if there is no such memory any more, if this process may not, or has exported it itself.
        """
        self._check()
        memory = import_memory(key)
        return PhysicalMemory(self._this, memory.nbytes, memory)

    def reserve_memory(self, nbytes: int) -> AddressRange:
        """Reserve addresses that have no memory yet; mirrors aclrtReserveMemAddress.

        No multiple of the granularity is 107000, and more than the system has addresses 207001.
        """
        self._check()
        return AddressRange(self._this, operator.index(nbytes))

    def create_pool(self, release_threshold: int = 0) -> Pool:
        """Make a pool of stream-ordered memory; see `Pool`. Mirrors aclrtMemPoolCreate."""
        self._check()
        pool = Pool(self._this, release_threshold)
        self._pools = [ref for ref in self._pools if ref() is not None]
        self._pools.append(weakref.ref(pool))
        return pool

    def memory_info(self) -> tuple[int, int]:
        """Give the free and the total bytes of device memory; mirrors aclrtGetMemInfo."""
        self._check()
        return self._memory().free_and_total()

    # -- within the package -------------------------------------------------------------------------------------------

    @property
    def _this(self) -> Device:
        return cast("Device", self)

    def _forget_memory(self) -> None:
        """Make all that was allocated stale, for a reset."""
        for allocation in list(self._allocations):
            allocation.freed = True
        self._loose.clear()
        self._pools.clear()
        self._arena = None

    def _trim_pools(self) -> None:
        """Let pools give back what they need not keep: somebody has just waited."""
        for ref in self._pools:
            pool = ref()
            if pool is not None:
                pool._trim(pool.release_threshold)

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
            what = f"device memory of npu:{self._index}"
            self._arena = Arena(self._soc.memory_bytes, what, self._machine.memory_teller(self._index))
        return self._arena

    def _allocate(self, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Buffer:
        self._check()
        allocation = Allocation(self._this)
        buffer = self._buffer_type(allocation, _carve(self._memory(), shape, dtype), is_root=True)
        self._allocations.add(allocation)
        return buffer

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
