"""acl.rt: virtual memory. Addresses are reserved, memory is allocated, and the one is put at the other."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from .._machine.pages import Memory
from ..errors import error
from ..virtual_memory import AddressRange, PhysicalMemory
from .addresses import addresses, region_of
from .allocation import device_in
from .binding import pyacl
from .process import at_end, current, device_of, handles

NO_PID_CHECK = 1
FD_BITS = 20
"""A shareable handle is the number of a process and, in so many bits, of a file in which it keeps the key."""
_ranges: dict[int, AddressRange] = {}
"""Reserved addresses, by the first of them."""


class _Shared:
    """Memory that is shared, and the file in which its key stands for other processes to read."""

    def __init__(self, memory: PhysicalMemory, key: str) -> None:
        self.memory = memory
        self._file = Memory(4096)
        os.pwrite(self._file.file, key.encode().ljust(4096, b"\0"), 0)
        self.handle = os.getpid() << FD_BITS | self._file.file


_exported: dict[int, _Shared] = {}


@pyacl("rt.reserve_mem_address", "k,k,k,K", 0)
def reserve_mem_address(size: int, alignment: int, expect_ptr: int, flags: int) -> int:
    """Reserve addresses; the expected place is not taken into account. Mirrors aclrtReserveMemAddress."""
    context = current()
    if not size:
        raise error(100000, "there is nothing to reserve")
    if alignment:
        raise error(107000, f"alignment must be 0, not {alignment}")
    found = context.device.reserve_memory(size)
    _ranges[found.address] = found
    addresses.reserve(found.address, found.nbytes)
    return found.address


@pyacl("rt.release_mem_address", "k")
def release_mem_address(vir_ptr: int) -> None:
    """Give reserved addresses back, when nothing is mapped there. Mirrors aclrtReleaseMemAddress."""
    if not vir_ptr:
        raise error(100000, "the pointer is NULL")
    found = _ranges.get(vir_ptr)
    if found is None:
        raise error(107000, f"no addresses were reserved at {vir_ptr:#x}")
    reservation = found._reservation
    found.release()
    addresses.give_back(vir_ptr, reservation)
    del _ranges[vir_ptr]


@pyacl("rt.malloc_physical", "k,O(dict),K", 0)
def malloc_physical(size: int, prop: dict[str, object], flags: int) -> int:
    """Allocate memory that has no address yet. Mirrors aclrtMallocPhysical."""
    if not size:
        raise error(100000, "malloc_physical needs at least one byte")
    if flags:
        raise error(107000, f"flags must be 0, not {flags}")
    return handles.put(device_of(device_in(prop)).malloc_physical(size))


def _physical(handle: int) -> PhysicalMemory:
    return handles.get(handle, PhysicalMemory, 107000)


@pyacl("rt.free_physical", "k")
def free_physical(handle: int) -> None:
    """Give it back, as soon as it is mapped nowhere. Mirrors aclrtFreePhysical."""
    _physical(handle).free()
    handles.pop(handle)
    _exported.pop(handle, None)


@pyacl("rt.map_mem", "k,k,k,k,K")
def map_mem(vir_ptr: int, size: int, offset: int, handle: int, flags: int) -> None:
    """Put all of a memory at reserved addresses. Mirrors aclrtMapMem."""
    memory = _physical(handle)
    if not vir_ptr:
        raise error(100000, "the pointer is NULL")
    if offset or flags or size != memory.nbytes:
        raise error(107000, f"all of {memory.nbytes} bytes are mapped: offset and flags are 0, size is not {size}")
    found = _range_at(vir_ptr)
    found.map(memory, vir_ptr - found.address)
    _note_runs(found)


@pyacl("rt.unmap_mem", "k")
def unmap_mem(vir_ptr: int) -> None:
    """Take away what was mapped at an address. Mirrors aclrtUnmapMem."""
    if not vir_ptr:
        raise error(100000, "the pointer is NULL")
    found = _range_at(vir_ptr)
    found.unmap(vir_ptr - found.address)
    _note_runs(found)


def _range_at(address: int) -> AddressRange:
    for found in _ranges.values():
        if found.address <= address < found.address + found.nbytes:
            return found
    raise error(107000, f"no addresses were reserved at {address:#x}")


def _note_runs(found: AddressRange) -> None:
    """Have pointers reach over pieces that lie side by side: one region for each run of them."""
    addresses.drop(found.address, found.address + found.nbytes)
    pieces = sorted((place, pages.nbytes) for place, (pages, _) in found._mapped.items())
    runs: list[list[int]] = []
    for place, nbytes in pieces:
        if runs and sum(runs[-1]) == place:
            runs[-1][1] += nbytes
        else:
            runs.append([place, nbytes])
    for place, nbytes in runs:
        addresses.add(region_of(found.buffer(nbytes, np.uint8, place)))


@pyacl("rt.mem_export_to_shareable_handle", "k,i,K", 0)
def mem_export_to_shareable_handle(handle: int, handle_type: int, flags: int) -> int:
    """Let other processes have a memory, those of `mem_set_pid_to_shareable_handle` or with flag 1 all.

    Mirrors aclrtMemExportToShareableHandle.
    """
    memory = _physical(handle)
    if handle_type not in (0, 2):
        raise error(107000, f"the type of a shareable handle is 0 or 2, not {handle_type}")
    if flags & ~NO_PID_CHECK:
        raise error(107000, f"unknown flags: {flags:#x}")
    _exported[handle] = shared = _Shared(memory, memory.export(check_pids=not flags & NO_PID_CHECK))
    return shared.handle


@pyacl("rt.mem_set_pid_to_shareable_handle", "K,O(list)")
def mem_set_pid_to_shareable_handle(shareable_handle: int, pids: list[int]) -> None:
    """Let these processes have it. Mirrors aclrtMemSetPidToShareableHandle."""
    for shared in _exported.values():
        if shared.handle == shareable_handle:
            shared.memory.allow(pids)
            return
    raise error(107000, f"{shareable_handle:#x} was not exported by this process")


@pyacl("rt.mem_import_from_shareable_handle", "K,i", 0)
def mem_import_from_shareable_handle(shareable_handle: int, device_id: int) -> int:
    """Open the memory of another process. Mirrors aclrtMemImportFromShareableHandle."""
    device = device_of(device_id)
    path = Path(f"/proc/{shareable_handle >> FD_BITS}/fd/{shareable_handle & ((1 << FD_BITS) - 1)}")
    try:
        key = path.read_bytes()[:4096].rstrip(b"\0").decode()
    except (OSError, UnicodeError) as problem:
        raise error(107000, f"{shareable_handle:#x} is no shareable handle (any more): {problem}") from problem
    return handles.put(device.import_physical(key))


@at_end
def _end() -> None:
    """Forget all."""
    _ranges.clear()
    _exported.clear()
