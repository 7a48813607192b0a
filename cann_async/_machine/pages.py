"""Pages of virtual memory: addresses without memory, memory without addresses, and the one put at the other.

Only `virtual_memory` uses it, and only Linux has what it needs. What is looked at stays: addresses and memory are given
back when the last NumPy view of them has gone, because each view keeps its `Pages`, and these keep their `Reservation`.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import secrets
import sys
from collections.abc import Iterable
from pathlib import Path

from ..errors import error

GRANULARITY = 2 << 20
_PROT_NONE = 0
_FIXED = 0x10
_NORESERVE = 0x4000


def _system() -> ctypes.CDLL:
    if not sys.platform.startswith("linux"):
        raise error(207000, f"virtual memory needs Linux, and this is {sys.platform}")
    system = ctypes.CDLL(None, use_errno=True)
    system.mmap.restype = ctypes.c_void_p
    system.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    system.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return system


def _map(system: ctypes.CDLL, address: int | None, nbytes: int, protection: int, flags: int, file: int) -> int:
    found: int | None = system.mmap(address, nbytes, protection, flags, file, 0)
    if found is None or found == ctypes.c_void_p(-1).value:
        reason = os.strerror(ctypes.get_errno())
        raise error(207001, f"the system does not map {nbytes} bytes: {reason}")
    return found


class Reservation:
    """Addresses that nothing else in the process will get."""

    def __init__(self, nbytes: int) -> None:
        self.system = _system()
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
        self._nbytes = nbytes + GRANULARITY
        self._start = _map(self.system, None, self._nbytes, _PROT_NONE, flags, -1)
        self.address = -(-self._start // GRANULARITY) * GRANULARITY

    def __del__(self) -> None:
        start: int | None = getattr(self, "_start", None)
        if start is not None:
            self.system.munmap(start, self._nbytes)


class Memory:
    """Bytes without an address; of `file`, or new ones."""

    def __init__(self, nbytes: int, file: int | None = None) -> None:
        _system()
        self.nbytes = nbytes
        self.label = f"cann_async-{secrets.token_hex(8)}"
        """The number of a file comes again, this does not."""
        self.file = file if file is not None else os.memfd_create(self.label)
        if file is None:
            try:
                os.ftruncate(self.file, nbytes)
            except OSError as problem:
                raise error(207001, f"the system does not give {nbytes} bytes: {problem}") from problem

    def __del__(self) -> None:
        file: int | None = getattr(self, "file", None)
        if file is not None:
            os.close(file)


class Export:
    """Memory that other processes may open by `key`, while this process lives and keeps it.

    Who may is written in a file beside it, so that the importer can look: nobody guards it, as all are one user's.
    """

    def __init__(self, memory: Memory, *, checks_pids: bool) -> None:
        self._memory = memory
        self._pids: set[int] = set()
        self._checks_pids = checks_pids
        self._list = Memory(GRANULARITY)
        self.key = f"{os.getpid()}:{memory.nbytes}:{_place(memory)}:{_place(self._list)}"
        self.allow(())

    def allow(self, pids: Iterable[int]) -> None:
        """Let these processes in as well."""
        self._pids.update(pids)
        allowed = sorted(self._pids) if self._checks_pids else None
        os.pwrite(self._list.file, json.dumps(allowed).encode().ljust(GRANULARITY), 0)


def import_memory(key: str) -> Memory:
    """Open what another process has exported; 107000 if that cannot be, with the reason."""
    _system()
    try:
        owner, size, memory, allowed = key.split(":")
        pid, nbytes = int(owner), int(size)
    except ValueError:
        raise error(107000, f"{key!r} is no key of exported memory") from None
    if pid == os.getpid():
        raise error(107000, "this process has exported the memory itself", "Use what was exported.")
    try:
        beside = _open(pid, allowed, os.O_RDONLY)
        with os.fdopen(beside, "rb") as text:
            pids = json.loads(text.read())
        if pids is None or os.getpid() in pids:
            return Memory(nbytes, _open(pid, memory, os.O_RDWR))
    except (OSError, ValueError) as problem:
        raise error(107000, f"process {pid} no longer exports this memory: {problem}") from problem
    raise error(107000, f"process {os.getpid()} is not among those that may import this memory: {pids}")


def _place(memory: Memory) -> str:
    return f"{memory.file}/{memory.label}"


def _open(pid: int, place: str, flags: int) -> int:
    """Open a file of another process, if what has this number there is still the one that is meant."""
    number, label = place.split("/")
    path = Path(f"/proc/{pid}/fd/{int(number)}")
    if label not in str(path.readlink()):
        raise OSError("it has been freed")
    return os.open(path, flags)


class Pages:
    """Memory put at addresses of a reservation."""

    def __init__(self, reservation: Reservation, offset: int, memory: Memory) -> None:
        self._reservation = reservation
        self._memory = memory
        self.address = reservation.address + offset
        self.nbytes = memory.nbytes
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        _map(reservation.system, self.address, self.nbytes, protection, mmap.MAP_SHARED | _FIXED, memory.file)
        self._is_mapped = True

    def __del__(self) -> None:
        if getattr(self, "_is_mapped", False):
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE | _FIXED
            self._reservation.system.mmap(self.address, self.nbytes, _PROT_NONE, flags, -1, 0)


class SharedPages:
    """The pages that some bytes of an arena are on, made memory that other processes can import.

    Whoever makes it or ends it sees to it that nobody writes there meanwhile.
    """

    def __init__(self, address: int, nbytes: int) -> None:
        self._system = _system()
        self._start = address // mmap.PAGESIZE * mmap.PAGESIZE
        self.offset = address - self._start
        self._nbytes = -(-(self.offset + nbytes) // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = Memory(self._nbytes)
        os.pwrite(memory.file, self._content(), 0)
        self._put(mmap.MAP_SHARED, memory.file)
        self.export = Export(memory, checks_pids=False)  # who may is asked before

    def end(self) -> None:
        """Make them this process's own again, as they are."""
        content = self._content()
        self._put(mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE, -1)
        ctypes.memmove(self._start, content, self._nbytes)

    def _content(self) -> bytes:
        return ctypes.string_at(self._start, self._nbytes)

    def _put(self, flags: int, file: int) -> None:
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        _map(self._system, self._start, self._nbytes, protection, flags | _FIXED, file)


class View:
    """Adjacent pages as bytes for NumPy; whoever looks at them keeps them."""

    __slots__ = ("__array_interface__", "_pages")

    def __init__(self, address: int, nbytes: int, pages: tuple[Pages, ...]) -> None:
        self._pages = pages
        self.__array_interface__ = {"version": 3, "data": (address, False), "shape": (nbytes,), "typestr": "|u1"}
