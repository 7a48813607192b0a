"""Memory a user holds: buffers on a device; and the check of every copy before anything is enqueued.

Device and host memory are apart: host code cannot look into a `Buffer`, data moves by copies. A copy is defined on
logical elements, whatever the strides on either side; `check_copy` decides direction and sizes at the call, the
engine runs `Copy` later (step 4).
"""

from __future__ import annotations

import enum
import operator
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, NoReturn, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from ._machine.task import Gauge, Work
from .dtypes import device_dtype
from .errors import MismatchError, error

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import EllipsisType

    from ._machine.engine import Engine
    from ._machine.task import Item
    from .device import Device
    from .task import Task

Array: TypeAlias = npt.NDArray[np.generic]
COPY_GAUGE = Gauge(512 * 1024)
"""A copy of so many bytes costs about as much as handing it to another thread."""


TWO_HANDS = 16 << 20 if (os.cpu_count() or 1) > 1 else 1 << 62
"""A copy of so many bytes is worth a second thread."""


class MemcpyKind(enum.IntEnum):
    """Directions of a copy, with CANN's numbers (aclrtMemcpyKind)."""

    HOST_TO_HOST = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    DEFAULT = 4


ENGINE_OF = {(False, False): "host", (True, False): "h2d", (False, True): "d2h", (True, True): "d2d"}
KIND_OF = {"host": 0, "h2d": 1, "d2h": 2, "d2d": 3}


class Allocation:
    """One device allocation, shared by a buffer and its sub-buffers; `freed` once any of them may no longer be used."""

    __slots__ = ("__weakref__", "buffers", "device", "freed")

    def __init__(self, device: Device) -> None:
        self.device = device
        self.freed = False
        self.buffers: weakref.WeakSet[Buffer] = weakref.WeakSet()
        """The sub-buffers; the memory would stay while one of them looks at it."""

    def free(self, root: Buffer) -> None:
        """Let every buffer on it let go of the memory; queued work keeps its own hold."""
        self.freed = True
        for buffer in (root, *self.buffers):
            buffer._array = _freed_like(buffer._array)
        arena = self.device._arena
        if arena is not None:
            arena.tell()


class Buffer:
    """Device memory with a shape and a dtype. Awaiting it waits for the upload that filled it, if one did.

    Made by `Device.malloc`, `empty`, `zeros`, `upload`. Slicing, `reshape` and `view` give sub-buffers of the same
    memory. The memory returns to the device when the buffer is freed, or forgotten, and no queued work uses it.
    """

    __slots__ = ("__weakref__", "_allocation", "_array", "_is_root", "_upload")

    def __init__(self, allocation: Allocation, array: Array, *, is_root: bool = False) -> None:
        if not isinstance(allocation, Allocation):
            raise TypeError("buffers come from device.malloc(...), empty, zeros or upload")
        self._allocation = allocation
        self._array: Array = array
        self._is_root = is_root
        self._upload: Task[None] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The logical shape."""
        return self._array.shape

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The dtype of the elements."""
        return self._array.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of all elements together."""
        return self._array.nbytes

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._array.size

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._array.ndim

    @property
    def address(self) -> int:
        """The device pointer of the first element, an integer."""
        self._check()
        return cast("int", self._array.__array_interface__["data"][0])

    @property
    def device(self) -> Device:
        """The device whose memory it is."""
        return self._allocation.device

    async def get(self) -> Array:
        """Copy everything to the host into a new array; ordered with no stream, as aclrtMemcpy."""
        return await self._get()

    async def _get(self) -> Array:
        self._check()
        host = np.empty(self._array.shape, self._array.dtype)
        await self._allocation.device._copy(host, self)
        return host

    def free(self) -> None:
        """Give the memory back once no queued work uses it; mirrors aclrtFree. Twice is 107000, and so is a part."""
        self._check()
        if not self._is_root:
            raise error(107000, f"{self!r} is a part of another buffer", "Free the buffer that it was taken from.")
        self._allocation.free(self)

    def reshape(self, *shape: int | tuple[int, ...]) -> Buffer:
        """Give the same memory in another shape; ValueError if that would need a copy."""
        self._check()
        array = self._array.reshape(*shape)  # type: ignore[arg-type]  # NumPy's own rules and errors
        return self._part(array, "reshape")

    def view(self, dtype: npt.DTypeLike) -> Buffer:
        """Give the same bytes as another dtype."""
        self._check()
        return self._part(self._array.view(device_dtype(dtype)), "view")

    def __getitem__(self, key: slice | int | EllipsisType | tuple[slice | int | EllipsisType | None, ...]) -> Buffer:
        """Give a part of the same memory, by slices as in NumPy. A single element cannot be read: `await get()`."""
        self._check()
        part = self._array[key]
        if not isinstance(part, np.ndarray) or (part.ndim == 0 and self._array.ndim):
            self._refuse()
        return self._part(part, "indexing")

    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise TypeError("host code cannot write device memory by index: await device.memcpy(buffer[...], array)")

    def __array__(self, *_: object, **__: object) -> NoReturn:
        self._refuse()

    def __iter__(self) -> NoReturn:
        self._refuse()

    def __len__(self) -> int:
        return len(self._array)

    def __bool__(self) -> bool:
        return not self._allocation.freed

    def __await__(self) -> Generator[object, None, Buffer]:
        if self._upload is not None:
            yield from self._upload.__await__()
        return self

    def __repr__(self) -> str:
        if self._allocation.freed:
            return "<Buffer, freed>"
        return f"<Buffer {self.shape} {self.dtype} on npu:{self._allocation.device.index}>"

    def _part(self, array: Array, how: str) -> Buffer:
        if array.size and not np.may_share_memory(array, self._array):
            raise ValueError(f"{how} would need a copy; device memory is only copied by memcpy")
        part = type(self)(self._allocation, array)
        part._upload = self._upload
        self._allocation.buffers.add(part)
        return part

    def _refuse(self) -> NoReturn:
        raise TypeError("host code cannot read device memory: copy it first with `await buf.get()` or memcpy")

    def _check(self) -> None:
        if self._allocation.freed:
            raise error(107000, "this buffer has been freed", "Free a buffer only after its last use.")


class ManagedBuffer(Buffer):
    """A buffer that the host may look into as well: `array` is the memory itself. Made by `Device.malloc_managed`.

    Synchronize before the host looks; what it sees while a kernel runs is not defined.
    """

    __slots__ = ()

    @property
    def array(self) -> Array:
        """The memory, as an ordinary array that can be read and written. Of a freed buffer it is 107000."""
        self._check()
        return self._array[...]


Operand: TypeAlias = Buffer | Array | bytes | bytearray | memoryview


def _freed_like(array: Array) -> Array:
    """Keep shape and dtype, and let go of the memory."""
    return np.lib.stride_tricks.as_strided(np.empty(1, array.dtype), array.shape, (0,) * array.ndim)


class Copy(Work):
    """One direction of copies on one queue: ``args`` are destination and source arrays."""

    __slots__ = ()

    def __init__(self, name: str, engine: Engine | None) -> None:
        super().__init__(name, engine, gauge=COPY_GAUGE)

    def run(self, item: Item) -> object:
        """Copy; overlapping ranges give what a temporary would give."""
        if item.args:
            target, source = cast("tuple[Array, Array]", item.args)
            if target.nbytes < TWO_HANDS:
                np.copyto(target, source)
            else:
                _copy_with_two_hands(target, source)
        return None


def _copy_with_two_hands(target: Array, source: Array) -> None:
    """Copy much with two threads: one core alone does not fill the memory bus (64 MiB take 0.6 to 0.95 of the time)."""
    half = len(target) // 2
    if not half or sys.is_finalizing() or np.may_share_memory(target, source):
        np.copyto(target, source)
        return
    other = threading.Thread(target=np.copyto, args=(target[half:], source[half:]), daemon=True)
    try:
        other.start()
    except RuntimeError:  # the interpreter is going down
        np.copyto(target[half:], source[half:])
    np.copyto(target[:half], source[:half])
    if other.ident is not None:
        other.join()


class Fill(Copy):
    """memset: ``args`` are the array and the byte."""

    __slots__ = ()

    def run(self, item: Item) -> object:
        """Fill every byte of every element."""
        assert item.args is not None
        array, value = cast("tuple[Array, int]", item.args)
        if array.flags.c_contiguous:
            array.reshape(-1).view(np.uint8)[:] = value
        else:
            array[...] = np.full(array.dtype.itemsize, value, np.uint8).view(array.dtype)[0]
        return None


def host_array(operand: Array | bytes | bytearray | memoryview, what: str) -> Array:
    """Give the host side of a copy as an array over the same memory; TypeError names what cannot be one."""
    if not isinstance(operand, np.ndarray):
        try:
            operand = np.asarray(memoryview(operand))
        except TypeError:
            raise TypeError(f"{what} must be a Buffer or an array, not {type(operand).__name__}") from None
    device_dtype(operand.dtype)
    return operand


def check_copy(
    device: Device, dst: Operand, src: Operand, nbytes: int | None, kind: int | None
) -> tuple[str, Array, Array]:
    """Check a copy, and give its engine and the two arrays; what is wrong is raised before anything happens."""
    to_device, from_device = isinstance(dst, Buffer), isinstance(src, Buffer)
    engine = ENGINE_OF[to_device, from_device]
    target = _device_side(device, dst) if isinstance(dst, Buffer) else host_array(dst, "dst")
    source = _device_side(device, src) if isinstance(src, Buffer) else host_array(src, "src")
    if kind is not None:
        _check_kind(kind, engine)
    if not target.flags.writeable:
        raise MismatchError(107000, "the destination is read-only")
    if nbytes is not None:
        return engine, bytes_of(target, nbytes, "dst"), bytes_of(source, nbytes, "src")
    if target.shape == source.shape and (target.dtype == source.dtype or _same_but_order(target, source)):
        return engine, target, source
    if _is_raw(target) and target.nbytes == source.nbytes:
        return engine, target, bytes_of(source, source.nbytes, "src")
    if _is_raw(source) and target.nbytes == source.nbytes:
        return engine, bytes_of(target, target.nbytes, "dst"), source
    raise MismatchError(
        107000,
        f"dst is {target.shape} {target.dtype} ({target.nbytes} bytes), "
        f"src is {source.shape} {source.dtype} ({source.nbytes} bytes)",
        "Give both the same shape and dtype, or say nbytes to copy raw bytes.",
    )


def _device_side(device: Device, buffer: Buffer) -> Array:
    buffer._check()
    allocation = buffer._allocation
    if allocation.device is not device:
        device._check_peer(allocation.device)
    return buffer._array


def _check_kind(kind: int, engine: str) -> None:
    number = operator.index(kind)
    if not 0 <= number <= 4:
        raise error(100000, f"unknown kind of copy: {number}", "Kinds are 0 to 4, see MemcpyKind.")
    if number not in (MemcpyKind.DEFAULT, KIND_OF[engine]):
        true = MemcpyKind(KIND_OF[engine]).name
        raise error(107000, f"kind {MemcpyKind(number).name} contradicts the addresses, which say {true}")


def bytes_of(array: Array, nbytes: int, what: str) -> Array:
    """Give the first `nbytes` bytes of an array; 107000 if it has fewer, or none in a row."""
    try:
        count = operator.index(nbytes)
    except TypeError:
        raise TypeError(f"nbytes must be an int, not {type(nbytes).__name__}") from None
    if not 0 <= count <= array.nbytes:
        raise error(107000, f"cannot copy {count} bytes: {what} has {array.nbytes}")
    if not array.flags.c_contiguous:
        raise MismatchError(107000, f"{what} is not contiguous, so it has no raw bytes to copy")
    return array.reshape(-1).view(np.uint8)[:count]


def _is_raw(array: Array) -> bool:
    return array.dtype == np.uint8 and array.ndim == 1


def _same_but_order(target: Array, source: Array) -> bool:
    return target.dtype.newbyteorder("=") == source.dtype.newbyteorder("=")
