"""Pointers of pyACL: real addresses, and which memory lies behind them.

What was allocated here is known by its region: a program may point into the middle of one, not beyond its end, and not
into one that has been freed (107000). Any other address is taken for the program's own memory (bytes, arrays) and is
looked at as it is, as C would.
"""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections import deque
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
import numpy.typing as npt

from .._machine.arena import host_arena
from ..errors import error

if TYPE_CHECKING:
    from .._machine.arena import Arena
    from ..device import Device
    from ..memory import Buffer

KEPT = 64
"""So many ranges of addresses that were given back still give errors."""
Bytes = npt.NDArray[np.uint8]
LOWEST, HIGHEST = 1 << 16, 1 << 47
"""Where addresses of a process lie; a pointer elsewhere is a mistake, and looking there a crash."""


class Region:
    """Memory that has been allocated: on a device if it has a buffer, else pinned memory of the host."""

    __slots__ = ("array", "buffer", "device", "end", "start")

    def __init__(self, array: Bytes, buffer: Buffer | None = None) -> None:
        self.array = array
        self.buffer = buffer
        self.start: int = array.__array_interface__["data"][0]
        self.end = self.start + array.nbytes
        self.device: Device | None = None if buffer is None else buffer.device
        """The device whose memory it is."""


class _AddressSpace:
    """All addresses that a process can have, for NumPy."""

    __array_interface__: ClassVar[dict[str, object]] = {
        "version": 3,
        "data": (LOWEST, False),
        "shape": (HIGHEST - LOWEST,),
        "typestr": "|u1",
    }


EVERYTHING: Bytes = np.asarray(_AddressSpace())
"""The memory of the program is a slice of it: ten times as fast as an array for each pointer."""


class Addresses:
    """All regions, by address."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._regions: dict[int, Region] = {}
        self._arenas: tuple[Arena, ...] = ()
        """From which regions have ever come."""
        self._reserved: dict[int, int] = {}
        """Beginnings and ends of addresses at which memory comes and goes."""
        self._gone: deque[tuple[int, object]] = deque()
        """Of these, the ones that have been given back: kept a while, so that nothing else gets the addresses."""
        self._lock = threading.RLock()
        """A finalizer of the program may free while this thread has it."""

    def add(self, region: Region) -> int:
        """Note a region, and give its address; stale ones at the same place go."""
        with self._lock:
            self._drop(region.start, region.end)
            insort(self._starts, region.start)
            self._regions[region.start] = region
            arena = host_arena() if region.device is None else region.device._memory()
            if arena not in self._arenas:
                self._arenas = (*self._arenas, arena)
        return region.start

    def drop(self, start: int, end: int) -> None:
        """Forget what lies in a part of the addresses."""
        with self._lock:
            self._drop(start, end)

    def _drop(self, start: int, end: int) -> None:
        place = bisect_right(self._starts, start)
        while place and self._regions[self._starts[place - 1]].end > start:
            place -= 1
        while place < len(self._starts) and self._starts[place] < end:
            del self._regions[self._starts.pop(place)]

    def remove(self, address: int, *, on_device: bool) -> Region:
        """Take out the region that begins at an address; 107000 if there is none of the kind, NULL is 100000."""
        if not address:
            raise error(100000, "the pointer is NULL")
        with self._lock:
            region = self._regions.get(address)
            if region is None or (region.buffer is not None) != on_device:
                where = "device" if on_device else "pinned host"
                raise error(107000, f"{address:#x} is no {where} memory that was allocated, or it was freed already")
            del self._regions[address]
            self._starts.remove(address)
        return region

    def find(self, address: int) -> Region | None:
        """Give the region that an address points into."""
        region = self._regions.get(address)
        if region is not None:
            return region
        with self._lock:  # else other threads move what is being looked at
            place = bisect_right(self._starts, address)
            region = self._regions.get(self._starts[place - 1]) if place else None
        return region if region is not None and address < region.end else None

    def view(self, address: int, nbytes: int) -> tuple[Bytes, Region | None]:
        """Give the bytes at an address, and the region they are in; 107000 if they are not all there."""
        region = self.find(address)
        if region is not None:
            if address + nbytes > region.end:
                raise error(
                    107000,
                    f"{nbytes} bytes at {address:#x} are more than the allocation has: {region.end - address} are left",
                )
            if region.buffer is not None and region.buffer._allocation.freed:
                region.buffer._check()
            start = address - region.start
            return region.array[start : start + nbytes], region
        if self.is_stale(address):
            raise error(107000, f"{address:#x} points to memory that has been freed, or was never allocated")
        start = address - LOWEST
        if start < 0 or address + nbytes > HIGHEST:
            raise error(107000, f"{address:#x} is no address of memory")
        return EVERYTHING[start : start + nbytes], None

    def is_stale(self, address: int) -> bool:
        """Say whether an address that is in no region lies where regions have been made."""
        for arena in self._arenas:  # twice as fast as any()
            if arena.base <= address < arena.base + arena.capacity:
                return True
        return any(start <= address < end for start, end in self._reserved.items()) if self._reserved else False

    def reserve(self, start: int, nbytes: int) -> None:
        """Note addresses that may be looked at only where a region is."""
        with self._lock:
            self._reserved[start] = start + nbytes

    def give_back(self, start: int, reservation: object) -> None:
        """Note that such addresses are over, and keep what holds them."""
        with self._lock:
            self._gone.append((start, reservation))
            if len(self._gone) > KEPT:
                over, _ = self._gone.popleft()
                self._reserved.pop(over, None)

    def buffer(self, address: int, nbytes: int | None = None) -> Buffer:
        """Give device memory as a buffer of bytes, up to the end of its region if no size is given; else 107000."""
        region = self.find(address)
        if not address:
            raise error(100000, "the pointer is NULL")
        if region is None or region.buffer is None:
            raise error(107000, f"{address:#x} is no address of device memory")
        region.buffer._check()
        end = region.end if nbytes is None else address + nbytes
        if end > region.end:
            raise error(107000, f"{nbytes} bytes at {address:#x} are more than the allocation has")
        return region.buffer[address - region.start : end - region.start]

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._starts.clear()
            self._regions.clear()
            self._arenas = ()
            self._reserved.clear()
            self._gone.clear()


def region_of(buffer: Buffer) -> Region:
    """Make the region of a buffer of bytes."""
    return Region(cast("Bytes", buffer._array), buffer)


addresses = Addresses()
