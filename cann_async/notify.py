"""Notifies: one bit that a stream sets and another one waits for and clears, on any stream and device of a runtime."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ._machine.waits import Latch
from .errors import error

if TYPE_CHECKING:
    from .device import Device


class Notify:
    """Made by `create_notify` of a device or context; `Stream.record_notify` sets it, `Stream.wait_notify` takes it."""

    __slots__ = ("__weakref__", "_closed", "_device", "_latch", "name")

    def __init__(self, device: Device, name: str | None = None) -> None:
        self._closed = True  # until it has its place among the device's
        device._take("notifies")
        self._closed = False
        self._device = device
        self._latch = Latch(f"notify {name!r}" if name else "a notify", clears=True)
        self.name = name

    @property
    def device(self) -> Device:
        """The device on which it counts."""
        return self._device

    def reset(self) -> None:
        """Clear it from the host; mirrors aclrtNotifyBatchReset."""
        self._check()
        self._latch.is_set = False

    def close(self) -> None:
        """Give it back; twice is fine. Mirrors aclrtDestroyNotify."""
        if not self._closed:
            self._closed = True
            self._device._give_back("notifies")

    def _check(self) -> None:
        if self._closed:
            raise error(507000, f"{self!r} has been closed")
        self._device._check()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and not sys.is_finalizing():
            self.close()

    def __bool__(self) -> bool:
        return not self._closed

    def __repr__(self) -> str:
        state = "closed" if self._closed else "set" if self._latch.is_set else "not set"
        return f"<Notify{f' {self.name!r}' if self.name else ''}, {state}>"
