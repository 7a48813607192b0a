"""Memory of a device, and pinned memory of the host: real bytes at real addresses.

An arena is one anonymous mapping, reserved in full and committed page by page when touched, so that 64 GiB cost
nothing until they are used; "is this a device pointer" is a range check. The allocator is a good fit with segregated
free lists: a request takes a block of the smallest class that is sure to hold it, preferring memory that has been
used (pages touched for the first time are slow), and freed neighbours grow together again.

A `Block` is released when the last reference to it has gone, and every NumPy view of it is one. So memory that queued
work or a user still looks at is never handed out again. Release only appends to a deque: it may run at any moment, in
any thread, inside a garbage collection.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..errors import error

if TYPE_CHECKING:
    from collections.abc import Callable

ALIGNMENT = 64
_SPLIT_BITS = 3
"""Every power of two is split into 8 classes."""


class Block:
    """Allocated bytes. NumPy arrays made from it keep it alive through their base."""

    __slots__ = ("__array_interface__", "__weakref__", "_returns", "address", "arena", "nbytes")

    def __init__(self, arena: Arena, address: int, nbytes: int, returns: deque[int]) -> None:
        self.arena = arena
        self.address = address
        self.nbytes = nbytes
        self._returns = returns
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": (nbytes,),
            "typestr": "|u1",
        }

    def __del__(self) -> None:
        self._returns.append(self.address)


class Arena:
    """`capacity` bytes of address space with an allocator; `what` names it in error texts.

    `tell` hears how many bytes are in use, when that has changed.
    """

    def __init__(self, capacity: int, what: str, tell: Callable[[int], object] | None = None) -> None:
        self.what = what
        self._tell = tell
        self.capacity = -(-capacity // ALIGNMENT) * ALIGNMENT
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _no_reserve()
        try:
            self._mapping = mmap.mmap(-1, self.capacity + mmap.PAGESIZE, flags=flags)
        except (OSError, ValueError) as problem:
            raise error(
                207001, f"cannot reserve {capacity} bytes of address space for {what}: {problem}", "Use a smaller Soc."
            ) from problem
        if hasattr(mmap, "MADV_HUGEPAGE"):  # as NumPy does for its own big arrays: faster copies, fewer page faults
            with contextlib.suppress(OSError):  # a kernel without huge pages
                self._mapping.madvise(mmap.MADV_HUGEPAGE)
        self.base: int = np.frombuffer(self._mapping, np.uint8).__array_interface__["data"][0]
        self._lock = threading.RLock()
        self._is_busy = False
        """In the middle of a change. Who has the lock and sees this is a finalizer within that change."""
        self._returns: deque[int] = deque()
        self._sizes: dict[int, int] = {}
        """Live blocks: address to size."""
        self._free_size: dict[int, int] = {}
        """Free blocks: address to size."""
        self._free_end: dict[int, int] = {}
        """Free blocks: end to address."""
        self._bins: dict[int, dict[int, None]] = {}
        self._filled = 0
        """Bit set of the bins that are not empty."""
        self._in_use = 0
        self._put(self.base, self.capacity)

    def __contains__(self, address: int) -> bool:
        return self.base <= address < self.base + self.capacity

    def allocate(self, nbytes: int) -> Block:
        """Take at least `nbytes` bytes, 64-byte aligned, not cleared; 207001 with the figures when there are none."""
        size = max(-(-nbytes // ALIGNMENT), 1) * ALIGNMENT
        self._begin()
        try:
            self._take_back()
            address = self._find(size)
            if address is None:
                free = self.capacity - self._in_use
                largest = max(self._free_size.values(), default=0)
                raise error(
                    207001,
                    f"out of {self.what}: requested {nbytes} bytes, free {free}, total {self.capacity}"
                    + (f", largest piece {largest}" if largest < free else ""),
                    "Free buffers that are no longer needed, or split the work.",
                )
            left = self._remove(address) - size
            if left:
                self._put(address + size, left)
            self._sizes[address] = size
            self._in_use = used = self._in_use + size
        finally:
            self._end()
        if self._tell is not None:
            self._tell(used)
        return Block(self, address, nbytes, self._returns)

    def free_and_total(self) -> tuple[int, int]:
        """Give the bytes that are free and all there are."""
        self._begin()
        try:
            has_changed = bool(self._returns)
            self._take_back()
            used = self._in_use
        finally:
            self._end()
        if has_changed and self._tell is not None:
            self._tell(used)
        return self.capacity - used, self.capacity

    def tell(self) -> None:
        """Tell how much is in use, unless the arena is just being used."""
        if self._tell is not None and not self._is_busy:
            self.free_and_total()

    @staticmethod
    def view(block: Block, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> npt.NDArray[np.generic]:
        """Make the array over a block; the array keeps the block."""
        raw: npt.NDArray[np.uint8] = np.asarray(block)
        return raw.view(dtype).reshape(shape) if dtype.itemsize and raw.size else np.empty(shape, dtype)

    def _begin(self) -> None:
        """Take the lock; a finalizer within another change of the same thread gets 207001, and waits for nothing."""
        self._lock.acquire()
        if self._is_busy:
            self._lock.release()
            raise error(
                207001,
                f"out of {self.what}, for a moment: a finalizer asked in the middle of an allocation",
                "Take memory outside of finalizers.",
            )
        self._is_busy = True

    def _end(self) -> None:
        self._is_busy = False
        self._lock.release()

    # -- the free lists; the lock is held ------------------------------------------------------------------------------

    def _take_back(self) -> None:
        while self._returns:
            address = self._returns.popleft()
            size = self._sizes.pop(address)
            self._in_use -= size
            before = self._free_end.get(address)
            if before is not None:
                size += self._remove(before)
                address = before
            if address + size in self._free_size:
                size += self._remove(address + size)
            self._put(address, size)

    def _find(self, size: int) -> int | None:
        own = _bin(size)
        higher = self._filled >> (own + 1)
        same = self._bins.get(own, ())
        for address in itertools.islice(same, 8 if higher else None):
            if self._free_size[address] >= size:  # a block of the same class may hold it ...
                return address
        if not higher:
            return None
        number = own + 1 + (higher & -higher).bit_length() - 1
        return next(iter(self._bins[number]))  # ... and any of a higher class does

    def _put(self, address: int, size: int) -> None:
        self._free_size[address] = size
        self._free_end[address + size] = address
        number = _bin(size)
        self._bins.setdefault(number, {})[address] = None
        self._filled |= 1 << number

    def _remove(self, address: int) -> int:
        size = self._free_size.pop(address)
        del self._free_end[address + size]
        number = _bin(size)
        members = self._bins[number]
        del members[address]
        if not members:
            self._filled &= ~(1 << number)
        return size


def _bin(size: int) -> int:
    units = size // ALIGNMENT
    power = units.bit_length()
    if power <= _SPLIT_BITS + 1:
        return units
    return (power << _SPLIT_BITS) + ((units >> (power - 1 - _SPLIT_BITS)) & ((1 << _SPLIT_BITS) - 1))


def _no_reserve() -> int:
    """MAP_NORESERVE, which `mmap` only names from Python 3.13 on."""
    return {"linux": 0x4000, "darwin": 0x40}.get(sys.platform, 0)


_host: Arena | None = None
_host_lock = threading.Lock()


def host_arena() -> Arena:
    """Give the arena of pinned host memory; there is one per process, made on first use."""
    global _host
    with _host_lock:
        if _host is None:
            _host = Arena(1 << 36, "pinned host memory")
        return _host


def is_pinned(array: npt.NDArray[np.generic]) -> bool:
    """Say whether the array is (a view of) pinned host memory. It is known by its base, which costs 60 ns."""
    base: object = array.base
    while isinstance(base, np.ndarray):
        base = base.base
    return type(base) is Block or (bool(_registered) and is_registered(_address(array)))


_registered: dict[int, npt.NDArray[np.generic]] = {}
"""Arrays that a user has made pinned, by their addresses."""
PAGE = 4096


def register(array: npt.NDArray[np.generic]) -> None:
    """Make an array count as pinned; 107000 if it is not contiguous or begins no page, 507910 if it is already."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"only an array can be registered, not {type(array).__name__}")
    address = _address(array)
    if not array.flags.c_contiguous or not array.nbytes or address % PAGE:
        raise error(107000, "memory to be registered is contiguous and begins at a multiple of 4096")
    with _host_lock:
        if is_registered(address):
            raise error(507910, f"the memory at {address:#x} is registered already")
        _registered[address] = array


def unregister(array: npt.NDArray[np.generic]) -> None:
    """Make it ordinary again; 507911 if it was not registered."""
    with _host_lock:
        if _registered.pop(_address(array), None) is None:
            raise error(507911, "this memory is not registered")


def is_registered(address: int) -> bool:
    """Say whether the address lies in a registered array."""
    return any(start <= address < start + array.nbytes for start, array in list(_registered.items()))


def _address(array: npt.NDArray[np.generic]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
