"""acl.rt: values in memory, reductions and cache operations on streams; allocators of programs."""

from __future__ import annotations

from typing import Any

from ..errors import error
from .addresses import addresses
from .binding import pyacl
from .data_types import dtype_of
from .process import at_end, enqueued, handles, stream_of

CONDITIONS = ("ge", "eq", "and", "nor")
"""Of a wait for a value, by CANN's numbers."""
OPERATIONS = {10: "sum", 11: "max", 12: "min"}
EQUAL = 13


@pyacl("rt.value_write", "k,k,I,k")
def value_write(dev_addr: int, value: int, flag: int, stream: int) -> None:
    """Write 64 bits to device memory in stream order. Mirrors aclrtValueWrite."""
    found = stream_of(stream)
    if flag:
        raise error(107000, f"flag must be 0, not {flag}")
    enqueued(found.write_value(addresses.buffer(dev_addr, 8), value))


@pyacl("rt.value_wait", "k,k,I,k")
def value_wait(dev_addr: int, value: int, flag: int, stream: int) -> None:
    """Hold later tasks until 64 bits fulfil a condition: >= 0, == 1, and 2, nor 3. Mirrors aclrtValueWait."""
    found = stream_of(stream)
    if flag >= len(CONDITIONS):
        raise error(107000, f"the condition is 0 to 3, not {flag}")
    enqueued(found.wait_value(addresses.buffer(dev_addr, 8), value, CONDITIONS[flag]))


@pyacl("rt.reduce_async", "k,k,k,i,i,k,k")
def reduce_async(dst: int, src: int, count: int, kind: int, type: int, stream: int, reserve: int) -> None:
    """Make dst = dst op src over `count` bytes: sum 10, maximum 11, minimum 12. Mirrors aclrtReduceAsync."""
    if not dst or not src or reserve:
        raise error(100000, "reserve must be NULL" if reserve else "a pointer is NULL")
    found = stream_of(stream)
    if kind == EQUAL:
        raise error(207000, "a comparison as reduction is not supported")
    if kind not in OPERATIONS:
        raise error(107000, f"there is no reduction {kind}")
    dtype = dtype_of(type)
    if not count or count % dtype.itemsize:
        raise error(107000, f"{count} bytes are no whole number of elements of {dtype}")
    target, source = (addresses.buffer(address, count).view(dtype) for address in (dst, src))
    enqueued(found.reduce(target, source, OPERATIONS[kind]))


@pyacl("rt.cmo_async", "k,k,i,k")
def cmo_async(src: int, size: int, cmo_type: int, stream: int) -> None:
    """Prefetch (0), write back (1), invalidate (2) or flush (3) a cache: without effect here. Mirrors aclrtCmoAsync."""
    found = stream_of(stream)
    if not 0 <= cmo_type <= 3:
        raise error(107000, f"there is no cache operation {cmo_type}")
    if not size:
        raise error(107000, "a cache operation needs at least one byte")
    addresses.buffer(src, size)
    found._check()


# -- allocators of programs: kept for layers above, never called here --------------------------------------------------


class Allocator:
    """A program's own allocator: an object and its functions."""

    def __init__(self) -> None:
        self.parts: dict[str, Any] = {}


@pyacl("rt.allocator_create_desc", has_code=False)
def allocator_create_desc() -> int:
    """Make an empty description of an allocator. Mirrors aclrtAllocatorCreateDesc."""
    return handles.put(Allocator())


@pyacl("rt.allocator_destroy_desc", "k")
def allocator_destroy_desc(allocator_desc: int) -> None:
    """Give it back. Mirrors aclrtAllocatorDestroyDesc."""
    _allocator(allocator_desc)
    handles.pop(allocator_desc)


def _allocator(handle: int) -> Allocator:
    return handles.get(handle, Allocator, 107000)


def _setter(part: str, mirrors: str, units: str) -> None:
    def setter(allocator_desc: int, what: Any) -> None:
        if not what:
            raise error(100000, f"the {part} of an allocator cannot be NULL")
        _allocator(allocator_desc).parts[part] = what

    setter.__doc__ = f"Set the {part} of an allocator. Mirrors {mirrors}."
    pyacl(f"rt.allocator_set_{part}_to_desc", units)(setter)


_setter("obj", "aclrtAllocatorSetObjToDesc", "k,k")
_setter("alloc_func", "aclrtAllocatorSetAllocFuncToDesc", "k,k")
_setter("free_func", "aclrtAllocatorSetFreeFuncToDesc", "k,k")
_setter("alloc_advise_func", "aclrtAllocatorSetAllocAdviseFuncToDesc", "k,k")
_setter("get_addr_from_block_func", "aclrtAllocatorSetGetAddrFromBlockFuncToDesc", "k,k")
_by_stream: dict[int, Allocator] = {}


@pyacl("rt.allocator_register", "k,k")
def allocator_register(stream: int, allocator_desc: int) -> None:
    """Let a stream have an allocator; the last one counts. Mirrors aclrtAllocatorRegister."""
    if not stream:
        raise error(100000, "the handle of the stream is 0")
    found = stream_of(stream)
    _by_stream[found.id] = _allocator(allocator_desc)


@pyacl("rt.allocator_unregister", "k")
def allocator_unregister(stream: int) -> None:
    """Take a stream's allocator away, if it has one. Mirrors aclrtAllocatorUnregister."""
    if not stream:
        raise error(100000, "the handle of the stream is 0")
    _by_stream.pop(stream_of(stream).id, None)


@at_end
def _end() -> None:
    """Forget all."""
    _by_stream.clear()
