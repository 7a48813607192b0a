"""acl.rt: copies and fills. The checks are CANN's, in CANN's order; the work is the device's copy engines'."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from .._machine.arena import is_registered
from .._machine.record import PAGEABLE
from ..errors import error
from ..memory import KIND_OF, Copy
from ..memory_tasks import HIGHEST, WIDEST
from .addresses import Bytes, Region, addresses
from .binding import pyacl
from .process import current, enqueued, process, stream_of
from .streams import synchronize

if TYPE_CHECKING:
    from .. import sync
    from .._machine.task import Item
    from ..device import Device
    from ..task import Task

H2H, H2D, D2H, D2D, DEFAULT, SNAPSHOT, DESCRIBED = range(7)
"""Directions (aclrtMemcpyKind); 5 takes the source over at the call, 6 is for descriptors."""
ADDRESS_LIMIT = 4 << 30
DESCRIPTOR_BYTES = 64


def _direction(to: Region | None, of: Region | None) -> tuple[str, Device | None]:
    """Give the engine, and the device of the memory: None from host to host. Two devices must be peers."""
    to_device = to.device if to is not None else None
    of_device = of.device if of is not None else None
    if to_device is None:
        return ("host", None) if of_device is None else ("d2h", of_device)
    if of_device is None:
        return "h2d", to_device
    if to_device is not of_device:
        of_device._check_peer(to_device)
    return "d2d", to_device


def _are_known(dst: int, to: Region | None, src: int, of: Region | None) -> bool:
    """Say whether both sides are memory that was allocated or registered here."""
    return (to is not None or is_registered(dst)) and (of is not None or is_registered(src))


def _check(dst: int, dest_max: int, src: int, count: int, kind: int, last: int) -> None:
    if not dst or not src:
        raise error(100000, "a pointer is NULL")
    if not 0 <= kind <= last:
        raise error(100000, f"unknown kind of copy: {kind}")
    if count > dest_max:
        raise error(107000, f"{count} bytes do not fit into {dest_max}")


@pyacl("rt.memcpy", "k,k,k,k,i")
def memcpy(dst: int, dest_max: int, src: int, count: int, kind: int) -> None:
    """Copy, and return when it is done; the addresses say in which direction. Mirrors aclrtMemcpy."""
    if not count:
        return
    _check(dst, dest_max, src, count, kind, DEFAULT)
    context = current()
    if dst == src:
        return
    target, to = addresses.view(dst, count)
    source, of = addresses.view(src, count)
    engine, device = _direction(to, of)
    loose = (device if device is not None else context.device)._loose_stream()
    loose._enqueue_copy(engine, (target, source), count, 3).result()


@pyacl("rt.memcpy_async", "k,k,k,k,i,k")
def memcpy_async(dst: int, dest_max: int, src: int, count: int, kind: int, stream: int) -> None:
    """Copy in stream order. From or to memory that is not pinned it is done when this returns.

    A wrong kind is put right where both addresses are known, unless CANN_ASYNC_STRICT_COPIES is set; else it is 107000.
    Mirrors aclrtMemcpyAsync and aclrtMemcpyAsyncWithCondition.
    """
    if not count:
        return
    _check(dst, dest_max, src, count, kind, SNAPSHOT)
    found = stream_of(stream)
    target, to = addresses.view(dst, count)
    source, of = addresses.view(src, count)
    engine, _ = _direction(to, of)
    known = _are_known(dst, to, src, of)
    _check_kind(engine, kind, known=known)
    if kind == SNAPSHOT:
        source, known = source.copy(), True
    task = _enqueue(found, engine, (target, source), count, known=known)
    if task is not None:
        enqueued(task)


pyacl("rt.memcpy_async_with_condition", "k,k,k,k,i,k")(memcpy_async)


def _check_kind(engine: str, kind: int, *, known: bool) -> None:
    if engine == "host":
        raise error(207000, "a copy from host to host cannot be queued", "Use memcpy.")
    true = KIND_OF[engine]
    if kind in (true, DEFAULT):
        return
    if kind == SNAPSHOT:
        kind, known = H2D, False
    if kind != true and (not known or process.strict):
        raise error(107000, f"kind {kind} contradicts the addresses, which say {true}")


def _enqueue(
    stream: sync.Stream, engine: str, arrays: tuple[Bytes, Bytes], count: int, *, known: bool
) -> Task[None] | None:
    """Enqueue a copy; with memory that is not pinned, wait for the stream and make it now."""
    if known:
        return stream._enqueue_copy(engine, arrays, count, 5)
    synchronize(stream)
    stream.device._loose_stream()._enqueue_copy(engine, arrays, count, 5, PAGEABLE).result()
    return None


@pyacl("rt.memset", "k,k,i,k")
def memset(dev_ptr: int, max_count: int, value: int, count: int) -> None:
    """Set bytes of the device or the host, and return when it is done. Mirrors aclrtMemset."""
    if not count:
        return
    current()
    view, device = _to_fill(dev_ptr, max_count, count)
    if device is None:
        view[:] = value & 0xFF
    else:
        device._loose_stream()._enqueue_fill(view, value & 0xFF, 3).result()


@pyacl("rt.memset_async", "k,k,i,k,k")
def memset_async(dev_ptr: int, max_count: int, value: int, count: int, stream: int) -> None:
    """Set bytes in stream order; of the host, it is done when this returns. Mirrors aclrtMemsetAsync."""
    if not count:
        return
    found = stream_of(stream)
    view, device = _to_fill(dev_ptr, max_count, count)
    if device is None:
        synchronize(found)
        view[:] = value & 0xFF
    else:
        enqueued(found._enqueue_fill(view, value & 0xFF))


def _to_fill(address: int, most: int, count: int) -> tuple[Bytes, Device | None]:
    if not address:
        raise error(100000, "the pointer is NULL")
    if count > most:
        raise error(107000, f"{count} bytes do not fit into {most}")
    view, region = addresses.view(address, count)
    return view, region.device if region is not None else None


# -- rows --------------------------------------------------------------------------------------------------------------


@pyacl("rt.memcpy2d", "k,k,k,k,k,k,i")
def memcpy2d(dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int) -> None:
    """Copy rows into or out of the device, and return when it is done. Mirrors aclrtMemcpy2d."""
    context = current()
    rows = _rows((dst, dpitch), (src, spitch), width, height, kind, (H2D, D2H, DEFAULT))
    if rows is not None:
        engine, device, arrays, _ = rows
        if engine == "d2d":
            raise error(100000, "a two-dimensional copy within the device needs a stream")
        (device or context.device)._loose_stream()._enqueue_copy(engine, arrays, width * height).result()


@pyacl("rt.memcpy2d_async", "k,k,k,k,k,k,i,k")
def memcpy2d_async(
    dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int, stream: int
) -> None:
    """Copy rows in stream order. Mirrors aclrtMemcpy2dAsync."""
    found = stream_of(stream)
    rows = _rows((dst, dpitch), (src, spitch), width, height, kind, (H2D, D2H, D2D, DEFAULT))
    if rows is None:
        return
    engine, _, arrays, known = rows
    _check_kind(engine, kind, known=known)
    task = _enqueue(found, engine, arrays, width * height, known=known)
    if task is not None:
        enqueued(task)


def _rows(
    dst: tuple[int, int], src: tuple[int, int], width: int, height: int, kind: int, kinds: tuple[int, ...]
) -> tuple[str, Device | None, tuple[Bytes, Bytes], bool] | None:
    if not dst[0] or not src[0]:
        raise error(100000, "a pointer is NULL")
    if width > dst[1] or width > src[1]:
        raise error(100000, f"a width of {width} is more than a pitch ({dst[1]} and {src[1]})")
    if kind not in kinds:
        raise error(100000, f"kind {kind} is not for two-dimensional copies of this sort")
    if not width or not height:
        return None
    if width > WIDEST or height > HIGHEST:
        raise error(107000, f"a copy of {height} rows of {width} bytes is out of range")
    target, to = addresses.view(dst[0], (height - 1) * dst[1] + width)
    source, of = addresses.view(src[0], (height - 1) * src[1] + width)
    engine, device = _direction(to, of)
    if engine == "host":
        raise error(100000, "a two-dimensional copy is not from host to host")
    arrays = (
        np.lib.stride_tricks.as_strided(target, (height, width), (dst[1], 1)),
        np.lib.stride_tricks.as_strided(source, (height, width), (src[1], 1)),
    )
    return engine, device, arrays, _are_known(dst[0], to, src[0], of)


# -- descriptors -------------------------------------------------------------------------------------------------------


class DescribedCopy(Copy):
    """A copy that a descriptor in device memory describes; it is read when the copy runs."""

    __slots__ = ()

    def run(self, item: Item) -> object:
        """Read the descriptor, and copy."""
        (descriptor,) = cast("tuple[Bytes]", item.args)
        dst, src, count = (int(word) for word in descriptor.view(np.uint64)[:3])
        np.copyto(addresses.view(dst, count)[0], addresses.view(src, count)[0])
        return None


@pyacl("rt.get_memcpy_desc_size", "i", 0)
def get_memcpy_desc_size(kind: int) -> int:
    """Give the bytes of a descriptor; the kind is 6. Mirrors aclrtGetMemcpyDescSize."""
    _check_described(kind)
    return DESCRIPTOR_BYTES


@pyacl("rt.set_memcpy_desc", "k,i,k,k,k,k", 0)
def set_memcpy_desc(desc: int, kind: int, src_addr: int, dst_addr: int, count: int, config: int) -> int:
    """Write a descriptor into device memory, and give its address. Mirrors aclrtSetMemcpyDesc."""
    current()
    _check_described(kind)
    if not (desc and src_addr and dst_addr):
        raise error(100000, "a pointer is NULL")
    if config:
        raise error(107000, "the configuration of a descriptor must be NULL")
    if count > ADDRESS_LIMIT:
        raise error(107000, f"a descriptor describes at most {ADDRESS_LIMIT} bytes, not {count}")
    addresses.buffer(src_addr, count)
    addresses.buffer(dst_addr, count)
    view, _ = addresses.view(desc, DESCRIPTOR_BYTES)
    view.view(np.uint64)[:3] = dst_addr, src_addr, count
    return desc


@pyacl("rt.memcpy_async_with_desc", "k,i,k")
def memcpy_async_with_desc(desc: int, kind: int, stream: int) -> None:
    """Copy within the device as a descriptor says, in stream order. Mirrors aclrtMemcpyAsyncWithDesc."""
    found = stream_of(stream)
    _check_described(kind)
    buffer = addresses.buffer(desc, DESCRIPTOR_BYTES)
    view = cast("Bytes", buffer._array)
    count = int(view.view(np.uint64)[2])
    enqueued(_enqueue_described(found, view, count))


def _enqueue_described(stream: sync.Stream, descriptor: Bytes, count: int) -> Task[object]:
    work = stream._work("memcpy described", DescribedCopy, "d2d", "memcpy d2d")
    return stream._enqueue(work, (descriptor,), count, 0)


def _check_described(kind: int) -> None:
    if kind != DESCRIBED:
        raise error(107000, f"the kind of a descriptor is {DESCRIBED} (within the device), not {kind}")
