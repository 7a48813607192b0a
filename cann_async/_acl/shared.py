"""acl.rt: what processes of one host share: ordinary device memory, and notifies.

A key names a file that the exporting process keeps in memory; it says what is exported, and who may import it. Who
exports must live, and keep what is exported, until the others have done with it.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._machine.pages import GRANULARITY, Memory, Pages, Reservation, SharedPages, View, import_memory
from ..errors import error
from ..memory import Allocation
from ..notify import Notify
from .addresses import addresses, region_of
from .binding import pyacl
from .process import at_end, current, handles, notify_of

if TYPE_CHECKING:
    from collections.abc import Iterable

KEY_BYTES = 65
"""So much room a key needs, with its end."""
NO_PID_CHECK = {"memory": 1, "notify": 2}
PEER_ACCESS = {"memory": 1, "notify": 2}
FILE_BYTES = 65536


class KeyFile:
    """What a key leads to."""

    def __init__(self, what: dict[str, object], *, checks_pids: bool) -> None:
        self._file = Memory(FILE_BYTES)
        self._what = what
        self._pids: set[int] = set()
        self._checks_pids = checks_pids
        self.key = f"cann_async:{os.getpid()}:{self._file.file}:{self._file.label[-16:]}"
        self.allow(())

    def allow(self, pids: Iterable[int]) -> None:
        """Let these processes in as well."""
        new = list(pids)
        if not all(isinstance(pid, int) for pid in new):
            raise error(107000, "processes are given as a list of their numbers")
        self._pids.update(new)
        text = json.dumps({**self._what, "pids": sorted(self._pids) if self._checks_pids else None}).encode()
        if len(text) > FILE_BYTES:
            raise error(107000, f"{len(self._pids)} processes are too many")
        os.pwrite(self._file.file, text.ljust(FILE_BYTES), 0)


def _look_up(key: str, kind: str) -> tuple[int, dict[str, Any]]:
    """Read what a key leads to; 107000 if it is none, is over, or this process may not."""
    try:
        _, pid, number, label = key.split(":")
        path = Path(f"/proc/{int(pid)}/fd/{int(number)}")
        is_exported = label in str(path.readlink())
        what: dict[str, Any] = json.loads(path.read_bytes()) if is_exported else {}
    except (OSError, ValueError) as problem:
        raise error(107000, f"{key!r} is no key, or no longer one: {problem}") from problem
    if not is_exported:
        raise error(107000, f"{key!r} is no longer exported")
    if what["kind"] != kind:
        raise error(107000, f"{key!r} is the key of a {what['kind']}")
    if int(pid) == os.getpid():
        raise error(107000, "this process has exported it itself")
    if what["pids"] is not None and os.getpid() not in what["pids"]:
        raise error(107000, f"process {os.getpid()} is not among those that may import it: {what['pids']}")
    return int(pid), what


def _check_export(length: int, flag: int, kind: str) -> bool:
    """Check what an export is given, and say whether it looks at the numbers of processes."""
    if length < KEY_BYTES:
        raise error(107000, f"a key needs room for {KEY_BYTES} bytes, not {length}")
    if flag & ~NO_PID_CHECK[kind]:
        raise error(107000, f"unknown flags: {flag:#x}")
    return not flag


# -- memory ------------------------------------------------------------------------------------------------------------


@dataclass
class _ExportedMemory:
    file: KeyFile
    pages: SharedPages


_exported: dict[str, _ExportedMemory] = {}
_imported: dict[str, tuple[int, Reservation]] = {}
"""Keys, and where their memory is in this process."""


@pyacl("rt.ipc_mem_get_export_key", "k,k,k,K", "")
def ipc_mem_get_export_key(dev_ptr: int, size: int, len: int, flag: int) -> str:
    """Share device memory with other processes, and give the key. Whole pages become visible.

    Mirrors aclrtIpcMemGetExportKey.
    """
    buffer = addresses.buffer(dev_ptr, size)
    checks_pids = _check_export(len, flag, "memory")
    if not size:
        raise error(100000, "there is nothing to share")
    with buffer.device._machine._at_rest():  # nobody writes between the two looks at the pages
        pages = SharedPages(dev_ptr, size)
    what = {"kind": "memory", "key": pages.export.key, "offset": pages.offset, "size": size}
    file = KeyFile(what, checks_pids=checks_pids)
    _exported[file.key] = _ExportedMemory(file, pages)
    return file.key


@pyacl("rt.ipc_mem_set_import_pid", "s,O(list)")
def ipc_mem_set_import_pid(key: str, pids: list[int]) -> None:
    """Let these processes import it. Mirrors aclrtIpcMemSetImportPid."""
    if key not in _exported:
        raise error(107000, f"this process has not exported {key!r}")
    _exported[key].file.allow(pids)


@pyacl("rt.ipc_mem_import_by_key", "s,K", 0)
def ipc_mem_import_by_key(key: str, flag: int) -> int:
    """Give the address at which memory of another process is in this one. Mirrors aclrtIpcMemImportByKey."""
    context = current()
    if flag & ~PEER_ACCESS["memory"]:
        raise error(107000, f"unknown flags: {flag:#x}")
    _, what = _look_up(key, "memory")
    memory = import_memory(what["key"])
    reservation = Reservation(-(-memory.nbytes // GRANULARITY) * GRANULARITY)
    pages = Pages(reservation, 0, memory)
    addresses.reserve(reservation.address, memory.nbytes)
    view = np.asarray(View(pages.address + what["offset"], what["size"], (pages,)))
    allocation = Allocation(context.device)
    buffer = context.device._buffer_type(allocation, view)
    context.device._allocations.add(allocation)
    address = addresses.add(region_of(buffer))
    _imported[key] = address, reservation
    return address


@pyacl("rt.ipc_mem_close", "s")
def ipc_mem_close(key: str) -> None:
    """End the sharing on this side: who has imported first, who has exported last. Mirrors aclrtIpcMemClose."""
    if key in _imported:
        address, reservation = _imported.pop(key)
        addresses.remove(address, on_device=True)
        addresses.give_back(reservation.address, reservation)
    elif key in _exported:
        shared = _exported.pop(key)
        with current().device._machine._at_rest():
            shared.pages.end()
    else:
        raise error(107000, f"{key!r} is not open in this process")


# -- notifies ----------------------------------------------------------------------------------------------------------


class _ExportedNotify:
    """A pipe: who has imported the notify writes to it, a thread of this process reads and sets the notify."""

    def __init__(self, notify: Notify, *, checks_pids: bool) -> None:
        self._notify = notify
        reading, writing = os.pipe()
        self._writing = writing
        self.file = KeyFile({"kind": "notify", "pipe": writing}, checks_pids=checks_pids)
        threading.Thread(target=self._listen, args=(reading,), name="cann-async notify", daemon=True).start()

    def _listen(self, reading: int) -> None:
        while os.read(reading, 1) and self._notify:
            self._notify.device._loose_stream().record_notify(self._notify)
        os.close(reading)

    def end(self) -> None:
        """Let nobody in any more."""
        os.close(self._writing)


class RemoteNotify:
    """A notify of another process: it can be set from here, and waited for only there."""

    def __init__(self, key: str, pid: int, number: int) -> None:
        try:
            self.pipe = os.open(f"/proc/{pid}/fd/{number}", os.O_WRONLY)
        except OSError as problem:
            raise error(107000, f"{key!r} is no longer exported: {problem}") from problem

    def set(self) -> None:
        """Set it."""
        os.write(self.pipe, b"!")

    def __del__(self) -> None:
        pipe: int | None = getattr(self, "pipe", None)
        if pipe is not None:
            os.close(pipe)


_notifies: dict[str, tuple[int, _ExportedNotify]] = {}


@pyacl("rt.notify_get_export_key", "k,k,K", "")
def notify_get_export_key(notify: int, len: int, flag: int) -> str:
    """Let other processes set a notify, and give the key. Mirrors aclrtNotifyGetExportKey."""
    found = notify_of(notify)
    found._check()
    exported = _ExportedNotify(found, checks_pids=_check_export(len, flag, "notify"))
    _notifies[exported.file.key] = notify, exported
    return exported.file.key


@pyacl("rt.notify_set_import_pid", "s,O(list)")
def notify_set_import_pid(key: str, pids: list[int]) -> None:
    """Let these processes import it. Mirrors aclrtNotifySetImportPid."""
    if key not in _notifies:
        raise error(107000, f"this process has not exported {key!r}")
    _notifies[key][1].file.allow(pids)


@pyacl("rt.notify_import_by_key", "s,K", 0)
def notify_import_by_key(key: str, flag: int) -> int:
    """Give a handle with which a notify of another process can be recorded. Mirrors aclrtNotifyImportByKey."""
    current()
    if flag & ~PEER_ACCESS["notify"]:
        raise error(107000, f"unknown flags: {flag:#x}")
    pid, what = _look_up(key, "notify")
    return handles.put(RemoteNotify(key, pid, what["pipe"]))


def forget_notify(handle: int) -> None:
    """End the exports of a notify that is destroyed."""
    for key, (number, exported) in list(_notifies.items()):
        if number == handle:
            del _notifies[key]
            exported.end()


@at_end
def _end() -> None:
    """Forget all."""
    for _, exported in _notifies.values():
        exported.end()
    _notifies.clear()
    _exported.clear()
    _imported.clear()
