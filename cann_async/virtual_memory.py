"""Virtual memory: addresses are reserved first, and get memory piece by piece. For buffers that grow where they are.

    rows = device.reserve_memory(1 << 30)
    rows.map(device.malloc_physical(4 << 20), 0)
    first = rows.buffer((1 << 20,), np.float32)       # an ordinary buffer

Made by `Device.malloc_physical` and `Device.reserve_memory`. Work that is queued keeps what it uses: memory is really
taken away when nothing looks at it any more.
"""

from __future__ import annotations

import math
import operator
import time
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ._machine.pages import GRANULARITY, Export, Memory, Pages, Reservation, View
from .dtypes import device_dtype
from .errors import error
from .memory import Allocation, Buffer, _freed_like

if TYPE_CHECKING:
    from .device import Device

MOMENTS, MOMENT_S = 50, 0.0002


def _is_let_go(reference: weakref.ref[Pages]) -> bool:
    """Say whether nothing looks at the pages; a thread that has run the last task on them gets a moment to let go."""
    for _ in range(MOMENTS):
        if reference() is None:
            return True
        time.sleep(MOMENT_S)
    return False


def _check_size(nbytes: int, what: str) -> None:
    if nbytes <= 0 or nbytes % GRANULARITY:
        raise error(107000, f"{what} of {nbytes} bytes is no multiple of {GRANULARITY}")


class PhysicalMemory:
    """Memory of a device that has no address until it is mapped."""

    def __init__(self, device: Device, nbytes: int, memory: Memory | None = None) -> None:
        _check_size(nbytes, "memory")
        self._place = device._memory().allocate(nbytes)  # counts among the device's memory; nobody looks at it
        self._memory: Memory | None = memory if memory is not None else Memory(nbytes)
        self._export: Export | None = None
        self._is_imported = memory is not None
        self._device = device
        self.nbytes = nbytes

    @property
    def device(self) -> Device:
        """The device whose memory it is."""
        return self._device

    def export(self, *, check_pids: bool = True) -> str:
        """Give a key with which another process can import this memory, once; mirrors aclrtMemExportToShareableHandle.

        With `check_pids` only the processes that `allow` names. A second export, and one of imported memory, is 107000.
        This process must live, and keep the memory, until the other one has imported it.
        """
        memory = self._take()
        if self._export is not None or self._is_imported:
            raise error(107000, f"{self!r} {'was imported' if self._is_imported else 'has been exported already'}")
        self._export = Export(memory, checks_pids=check_pids)
        return self._export.key

    def allow(self, pids: Iterable[int]) -> None:
        """Let these processes import it; 107000 before `export`. Mirrors aclrtMemSetPidToShareableHandle."""
        self._take()
        if self._export is None:
            raise error(107000, f"{self!r} has not been exported")
        self._export.allow(map(operator.index, pids))

    def free(self) -> None:
        """Give it back, as soon as it is mapped nowhere; twice is 107000. Mirrors aclrtFreePhysical."""
        self._take()
        self._memory = self._export = None
        del self._place

    def _take(self) -> Memory:
        if self._memory is None:
            raise error(107000, f"{self!r} has been freed")
        if self._place.arena is not self._device._arena:
            raise error(107000, f"{self!r} is gone: its device has been reset")
        return self._memory

    def __repr__(self) -> str:
        state = "" if self._memory is not None else ", freed"
        return f"<PhysicalMemory of {self.nbytes} bytes on npu:{self._device.index}{state}>"


class AddressRange:
    """Reserved addresses of a device, which memory is mapped to."""

    def __init__(self, device: Device, nbytes: int) -> None:
        _check_size(nbytes, "a range")
        self._device = device
        self._arena = device._memory()
        self._reservation: Reservation | None = Reservation(nbytes)
        self.address = self._reservation.address
        """The first address."""
        self.nbytes = nbytes
        self._mapped: dict[int, tuple[Pages, object]] = {}
        """What is mapped, by its offset, and the device memory that this takes."""
        self._placed: dict[int, tuple[weakref.ref[Pages], int]] = {}
        """What is mapped, and what has been until nothing looks at it any more."""
        self._buffers: weakref.WeakKeyDictionary[Allocation, range] = weakref.WeakKeyDictionary()

    @property
    def device(self) -> Device:
        """The device that it is for."""
        return self._device

    def map(self, memory: PhysicalMemory, offset: int = 0) -> None:
        """Put all of a memory at an offset; mirrors aclrtMapMem.

        An offset that is no multiple of the granularity, memory of another device, and a place beyond the end or where
        something is mapped, or still used by queued work, are 107000. The same memory may be mapped at several places.
        """
        reservation = self._check()
        if not isinstance(memory, PhysicalMemory):
            raise TypeError(f"map needs a PhysicalMemory, not {type(memory).__name__}")
        taken = memory._take()
        start = operator.index(offset)
        if memory.device is not self._device:
            raise error(107000, f"{memory!r} is of another device than {self!r}")
        if start < 0 or start % GRANULARITY or start + memory.nbytes > self.nbytes:
            raise error(107000, f"{memory.nbytes} bytes at offset {start} do not fit into {self!r}")
        for place, (reference, nbytes) in list(self._placed.items()):
            overlaps = start < place + nbytes and place < start + memory.nbytes
            if reference() is None or (overlaps and place not in self._mapped and _is_let_go(reference)):
                del self._placed[place]
            elif overlaps:
                state = "mapped" if place in self._mapped else "still used by queued work"
                raise error(107000, f"what is at offset {place} of {self!r} is {state}", "Unmap it, and synchronize.")
        pages = Pages(reservation, start, taken)
        self._mapped[start] = pages, memory._place
        self._placed[start] = weakref.ref(pages), memory.nbytes

    def buffer(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.uint8, offset: int = 0) -> Buffer:
        """Give a buffer on mapped memory, at `offset` bytes; 107000 if not all of it is mapped, or it is not aligned.

        It may reach over several pieces that lie side by side. It is stale as soon as one of them is unmapped.
        """
        self._check()
        element = device_dtype(dtype)
        whole = (shape,) if isinstance(shape, int) else tuple(map(operator.index, shape))
        start = operator.index(offset)
        nbytes = math.prod(whole) * element.itemsize
        if start < 0 or start % element.alignment or any(n < 0 for n in whole) or not nbytes:
            raise error(107000, f"there is no buffer of shape {whole} and dtype {element} at offset {start}")
        pieces, reached = [], start
        for place, (pages, _) in sorted(self._mapped.items(), key=operator.itemgetter(0)):
            if place <= reached < place + pages.nbytes and reached < start + nbytes:
                pieces.append(pages)
                reached = place + pages.nbytes
        if reached < start + nbytes:
            raise error(107000, f"at offset {reached} of {self!r} no memory is mapped")
        view = np.asarray(View(self.address + start, nbytes, tuple(pieces)))
        allocation = Allocation(self._device)
        buffer = self._device._buffer_type(allocation, view.view(element).reshape(whole))
        allocation.buffers.add(buffer)
        self._device._allocations.add(allocation)
        self._buffers[allocation] = range(start, start + nbytes)
        return buffer

    def unmap(self, offset: int = 0) -> None:
        """Take away what was mapped at this offset; 107000 if nothing was. Mirrors aclrtUnmapMem.

        Buffers on it are stale. What is queued still runs.
        """
        self._check()
        start = operator.index(offset)
        if start not in self._mapped:
            raise error(107000, f"nothing was mapped at offset {start} of {self!r}")
        pages, _ = self._mapped.pop(start)
        for allocation, part in list(self._buffers.items()):
            if part.start < start + pages.nbytes and start < part.stop:
                allocation.freed = True
                for buffer in list(allocation.buffers):
                    buffer._array = _freed_like(buffer._array)

    def release(self) -> None:
        """Give the addresses back; 107000 while something is mapped, and twice. Mirrors aclrtReleaseMemAddress."""
        self._check()
        if self._mapped:
            raise error(107000, f"memory is mapped at {len(self._mapped)} places of {self!r}", "Unmap it first.")
        self._reservation = None

    def _check(self) -> Reservation:
        if self._reservation is None:
            raise error(107000, f"{self!r} has been released")
        if self._arena is not self._device._arena:
            raise error(107000, f"{self!r} is gone: its device has been reset")
        return self._reservation

    def __repr__(self) -> str:
        state = f"{len(self._mapped)} mapped" if self._reservation is not None else "released"
        return f"<AddressRange of {self.nbytes} bytes at {self.address:#x} on npu:{self._device.index}, {state}>"
