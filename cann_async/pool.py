"""Stream-ordered memory: a pool hands out buffers in the order of a stream, without waiting for the device.

A pool takes memory from its device in chunks of a multiple of 2 MiB and gives out pieces of them. A piece that was
freed on a stream is used again at once for the same stream, whose order keeps the two uses apart, and for any other
stream when the first one has come to the free. What nobody uses goes back to the device at the next synchronize, as
far as it is above the release threshold.
"""

from __future__ import annotations

import operator
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from ._machine.task import DONE, Work
from .errors import error
from .memory import Allocation, Array, Buffer

if TYPE_CHECKING:
    from ._machine.queue import Queue
    from ._machine.task import Item
    from .device import Device
    from .stream import Stream

UNIT = 2 << 20
ALIGNMENT = 512


@dataclass(eq=False)
class Piece:
    """A part of a chunk; free, it may carry the item that has freed it, on whose queue it can be used at once."""

    chunk: Array
    start: int
    size: int
    is_free: bool = True
    freed_by: Item | None = None

    def serves(self, size: int, queue: Queue) -> bool:
        """Say whether a use of so many bytes that is ordered on this queue may have it."""
        if not self.is_free or self.size < size:
            return False
        return self.freed_by is None or self.freed_by.state >= DONE or self.freed_by.queue is queue


class Pool:
    """Made by `Device.create_pool`; `release_threshold` is in bytes and can be set."""

    def __init__(self, device: Device, release_threshold: int = 0) -> None:
        self._device = device
        self._closed = False
        self._lock = threading.Lock()
        self._chunks: list[tuple[Buffer, list[Piece]]] = []
        self._owned: dict[Allocation, Piece] = {}
        self._threshold = _bytes(release_threshold)
        self._reserved_high = self._used_high = 0

    @property
    def device(self) -> Device:
        """The device whose memory it hands out."""
        return self._device

    @property
    def release_threshold(self) -> int:
        """So many bytes it keeps, though nobody uses them; mirrors aclrtMemPoolSetAttr and aclrtMemPoolGetAttr."""
        return self._threshold

    @release_threshold.setter
    def release_threshold(self, nbytes: int) -> None:
        self._threshold = _bytes(nbytes)

    @property
    def reserved(self) -> int:
        """Bytes it has taken from the device."""
        return sum(chunk.nbytes for chunk, _ in self._chunks)

    @property
    def used(self) -> int:
        """Bytes of the buffers it has handed out."""
        return sum(piece.size for piece in list(self._owned.values()))

    @property
    def reserved_high(self) -> int:
        """The most that `reserved` has been; `reset_highs` begins anew."""
        return self._reserved_high

    @property
    def used_high(self) -> int:
        """The most that `used` has been; `reset_highs` begins anew."""
        return self._used_high

    def reset_highs(self) -> None:
        """Have the high marks begin at what is now; mirrors setting these attributes to 0."""
        with self._lock:
            self._reserved_high, self._used_high = self.reserved, self.used

    def malloc(self, nbytes: int, stream: Stream) -> Buffer:
        """Give a buffer of raw bytes at once, to be used in the order of this stream; mirrors aclrtMemPoolMallocAsync.

        Other streams may use it after an event of this one. 0 bytes is 100000, another device's stream 107000, no
        memory left 207001.
        """
        size = operator.index(nbytes)
        if size <= 0:
            raise error(100000 if size == 0 else 107000, f"a pool cannot allocate {size} bytes")
        self._check(stream)
        with self._lock:
            piece = self._find(-(-size // ALIGNMENT) * ALIGNMENT, stream)
            piece.is_free = False
            allocation = Allocation(self._device)
            self._owned[allocation] = piece
            self._used_high = max(self._used_high, self.used)
        array = piece.chunk[piece.start : piece.start + size]
        self._device._allocations.add(allocation)
        return self._device._buffer_type(allocation, array)

    def free(self, buffer: Buffer, stream: Stream) -> None:
        """Take a buffer back when the stream gets there; mirrors aclrtMemPoolFreeAsync.

        It must not be used any more from now on. One that is not of this pool is 107000.
        """
        self._check(stream)
        if not isinstance(buffer, Buffer):
            raise TypeError(f"a pool takes back a Buffer, not {type(buffer).__name__}")
        buffer._check()
        with self._lock:
            piece = self._owned.get(buffer._allocation)
            if piece is None:
                raise error(107000, f"{buffer!r} is not of this pool")
            task = stream._enqueue(stream._work("pool free", Work, None), (), 0)
            del self._owned[buffer._allocation]
            buffer._allocation.free(buffer)
            piece.freed_by, piece.is_free = cast("Item", task), True
            piece.freed_by.args = None

    def trim_to(self, nbytes: int) -> None:
        """Give back what nobody uses, but keep `nbytes` bytes; mirrors aclrtMemPoolTrimTo."""
        self._trim(_bytes(nbytes))

    def close(self) -> None:
        """Hand out nothing more and give back all that nobody uses; buffers live on. Mirrors aclrtMemPoolDestroy."""
        self._closed = True
        self._trim(0)

    def __bool__(self) -> bool:
        return not self._closed

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self.used} of {self.reserved} bytes in use"
        return f"<Pool on npu:{self._device.index}, {state}>"

    def _check(self, stream: Stream) -> None:
        self._device._check()
        if self._closed:
            raise error(107000, f"{self!r} hands out nothing more")
        stream._check()
        if stream.device is not self._device:
            raise error(107000, f"{stream!r} is on another device than {self!r}")

    def _find(self, size: int, stream: Stream) -> Piece:
        """Take the smallest piece that serves, or a new chunk; the rest of it stays free."""
        for _, pieces in self._chunks:
            _merge(pieces)
        fitting = [p for _, pieces in self._chunks for p in pieces if p.serves(size, stream._queue)]
        if fitting:
            piece = min(fitting, key=lambda p: p.size)
        else:
            chunk = self._device.malloc(-(-size // UNIT) * UNIT)
            piece = Piece(chunk._array, 0, chunk.nbytes)
            self._chunks.append((chunk, [piece]))
            self._reserved_high = max(self._reserved_high, self.reserved)
        if piece.size > size:
            pieces = next(pieces for _, pieces in self._chunks if piece in pieces)
            rest = Piece(piece.chunk, piece.start + size, piece.size - size, freed_by=piece.freed_by)
            pieces.insert(pieces.index(piece) + 1, rest)
            piece.size = size
        return piece

    def _trim(self, keep: int) -> None:
        with self._lock:
            for chunk, pieces in list(self._chunks):
                _merge(pieces)
                if self.reserved <= keep:
                    return
                if len(pieces) == 1 and pieces[0].is_free and _is_over(pieces[0]):
                    self._chunks.remove((chunk, pieces))
                    if chunk:
                        chunk.free()


def _is_over(piece: Piece) -> bool:
    return piece.freed_by is None or piece.freed_by.state >= DONE


def _merge(pieces: list[Piece]) -> None:
    """Let free neighbours grow together, as far as no stream still has to come to their free."""
    index = 0
    while index + 1 < len(pieces):
        one, other = pieces[index], pieces[index + 1]
        if one.is_free and other.is_free and _is_over(one) and _is_over(other):
            one.size += other.size
            one.freed_by = None
            del pieces[index + 1]
        else:
            index += 1


def _bytes(nbytes: int) -> int:
    count = operator.index(nbytes)
    if count < 0:
        raise error(107000, f"a number of bytes is not {count}")
    return count
