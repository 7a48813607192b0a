"""acl.rt and acl.media: memory of the device and pinned memory of the host; what is known of a pointer."""

from __future__ import annotations

from typing import cast

import numpy as np

from .._machine.arena import is_registered, register, unregister
from ..errors import error
from .addresses import Bytes, Region, addresses, region_of
from .binding import pyacl
from .process import at_end, current, device_of, runtime

PADDING = 32
"""Sizes become a multiple of this, and most allocations get as many bytes more."""
HOST, DEVICE, UNREGISTERED = range(3)
"""Where a pointer points to (aclrtMemLocationType)."""
REGISTER_TYPES = (0, 4, 8)
REGISTER_FLAGS = 2 | 4 | 8 | 0x1000_0000
_registered: dict[int, Bytes] = {}
"""The program's own memory that it has registered, by address."""


def _allocate(size: int, padding: int = PADDING) -> int:
    context = current()
    if not size:
        raise error(100000, "malloc needs at least one byte")
    buffer = context.device.malloc(-(-size // PADDING) * PADDING + padding)
    return addresses.add(region_of(buffer))


@pyacl("rt.malloc", "k,i", 0)
def malloc(size: int, policy: int) -> int:
    """Allocate device memory, not cleared; which pages the policy asks for changes nothing. Mirrors aclrtMalloc."""
    return _allocate(size)


@pyacl("rt.malloc_align32", "k,i", 0)
def malloc_align32(size: int, policy: int) -> int:
    """Allocate without padding. Mirrors aclrtMallocAlign32."""
    return _allocate(size, padding=0)


@pyacl("rt.malloc_cached", "k,i", 0)
def malloc_cached(size: int, policy: int) -> int:
    """Allocate cached memory, which is always up to date here. Mirrors aclrtMallocCached."""
    return _allocate(size)


@pyacl("rt.malloc_with_cfg", "k,i,O(dict)", 0)
def malloc_with_cfg(size: int, policy: int, cfg: dict[str, object]) -> int:
    """Allocate with attributes, none of which changes anything here. Mirrors aclrtMallocWithCfg."""
    return _allocate(size)


@pyacl("rt.malloc_for_task_scheduler", "k,i,O(dict)", 0)
def malloc_for_task_scheduler(size: int, policy: int, cfg: dict[str, object]) -> int:
    """Allocate memory that the task scheduler can read; all can. Mirrors aclrtMallocForTaskScheduler."""
    return _allocate(size)


@pyacl("rt.free", "k")
def free(dev_ptr: int) -> None:
    """Give device memory back at once; what is queued keeps what it uses. Mirrors aclrtFree."""
    _free_device(dev_ptr)


def _free_device(address: int) -> None:
    runtime()
    region = addresses.remove(address, on_device=True)
    if region.buffer is not None:
        region.buffer.free()


@pyacl("media.dvpp_malloc", "k", 0)
def dvpp_malloc(size: int) -> int:
    """Allocate device memory for media engines: like any other. As acldvppMalloc."""
    return _allocate(size)


@pyacl("media.dvpp_free", "k")
def dvpp_free(dev_ptr: int) -> None:
    """Give it back. As acldvppFree."""
    _free_device(dev_ptr)


@pyacl("rt.mem_flush", "k,k")
def mem_flush(dev_ptr: int, size: int) -> None:
    """Write cached memory back: nothing to do. Mirrors aclrtMemFlush."""
    addresses.buffer(dev_ptr, size)


@pyacl("rt.mem_invalidate", "k,k")
def mem_invalidate(dev_ptr: int, size: int) -> None:
    """Read cached memory anew: nothing to do. Mirrors aclrtMemInvalidate."""
    addresses.buffer(dev_ptr, size)


# -- the host ----------------------------------------------------------------------------------------------------------


def _allocate_host(size: int) -> int:
    context = current()
    if not size:
        raise error(100000, "malloc_host needs at least one byte")
    return addresses.add(Region(context.device.malloc_host(size, np.uint8)))


@pyacl("rt.malloc_host", "k", 0)
def malloc_host(size: int) -> int:
    """Allocate pinned memory of the host. Mirrors aclrtMallocHost."""
    return _allocate_host(size)


@pyacl("rt.malloc_host_with_cfg", "k,O(dict)", 0)
def malloc_host_with_cfg(size: int, cfg: dict[str, object]) -> int:
    """Allocate it with attributes, none of which changes anything here. Mirrors aclrtMallocHostWithCfg."""
    return _allocate_host(size)


@pyacl("rt.free_host", "k")
def free_host(host_ptr: int) -> None:
    """Give pinned memory back. Mirrors aclrtFreeHost."""
    runtime()
    addresses.remove(host_ptr, on_device=False)


@pyacl("rt.host_register", "k,k,i", 0)
def host_register(ptr: int, size: int, type: int) -> int:
    """Pin memory of the program, and give the pointer for kernels: the same one. Mirrors aclrtHostRegister."""
    if type not in REGISTER_TYPES:
        raise error(107000, f"the type is 0 (mapped), 4 (IO memory) or 8 (read-only), not {type}")
    _register(ptr, size)
    return ptr


@pyacl("rt.host_register_v2", "K,K,I")
def host_register_v2(ptr: int, size: int, flag: int) -> None:
    """Pin memory of the program. Mirrors aclrtHostRegisterV2."""
    if flag & ~REGISTER_FLAGS:
        raise error(107000, f"unknown flags for registered memory: {flag:#x}")
    _register(ptr, size)


def _register(address: int, size: int) -> None:
    current()
    if not address or not size:
        raise error(100000, "there is no memory to register")
    view, region = addresses.view(address, size)
    if region is not None:
        raise error(107000, f"{address:#x} is memory that was allocated here: it needs no registration")
    register(view)
    _registered[address] = view


@pyacl("rt.host_unregister", "k")
def host_unregister(ptr: int) -> None:
    """Make the memory ordinary again. Mirrors aclrtHostUnregister."""
    current()
    if not ptr:
        raise error(100000, "the pointer is NULL")
    view = _registered.pop(ptr, None)
    if view is None:
        raise error(507911, f"the memory at {ptr:#x} is not registered")
    unregister(view)


@pyacl("rt.host_get_device_pointer", "K,I", 0)
def host_get_device_pointer(host_ptr: int, flag: int) -> int:
    """Give the pointer with which kernels reach registered memory: the same one. Mirrors aclrtHostGetDevicePointer."""
    if flag or not host_ptr:
        raise error(107000 if flag else 100000, f"flag must be 0, not {flag}" if flag else "the pointer is NULL")
    if not is_registered(host_ptr):
        raise error(107000, f"the memory at {host_ptr:#x} is not registered")
    return host_ptr


# -- what is known of a pointer ----------------------------------------------------------------------------------------


@pyacl("rt.pointer_get_attributes", "k", {})
def pointer_get_attributes(ptr: int) -> dict[str, object]:
    """Say where a pointer points to, and on which device. Mirrors aclrtPointerGetAttributes."""
    if not ptr:
        raise error(100000, "the pointer is NULL")
    region = addresses.find(ptr)
    if region is not None and region.device is not None:
        kind, device = DEVICE, region.device.index
    elif region is not None or is_registered(ptr):
        kind, device = HOST, 0
    elif addresses.is_stale(ptr):
        raise error(107000, f"{ptr:#x} points to memory that has been freed, or was never allocated")
    else:
        kind, device = UNREGISTERED, 0
    return {"location": {"type": kind, "id": device}, "pageSize": 4096}


@pyacl("rt.mem_get_allocation_granularity", "O(dict),i", 0)
def mem_get_allocation_granularity(prop: dict[str, object], option: int) -> int:
    """Give the bytes of which sizes of physical memory are multiples. Mirrors aclrtMemGetAllocationGranularity."""
    if option not in (0, 1):
        raise error(107000, f"the option is 0 (least) or 1 (recommended), not {option}")
    return device_of(device_in(prop)).allocation_granularity()


def device_in(prop: dict[str, object]) -> int:
    """Read the device from the properties of physical memory: ``{"location": {"id": n, "type": 1}}``."""
    location = prop.get("location", {})
    number = cast("dict[str, object]", location).get("id", 0) if isinstance(location, dict) else 0
    if not isinstance(number, int):
        raise error(107000, f"the id of a location is a number, not {number!r}")
    return number


@at_end
def _end() -> None:
    """Forget all."""
    for view in _registered.values():
        unregister(view)
    _registered.clear()
    addresses.clear()
