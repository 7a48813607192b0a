"""Overflow detection: whether a kernel has computed numbers that are too large, as far as NumPy can tell.

`OverflowTasks` is the part of `Stream` that switches it on and asks. While it is on, launches are `Watched` (step 4):
in their bodies NumPy reports floating-point overflows, invalid operations and divisions by zero. What does not go
through NumPy's own arithmetic is not seen. The numbers stay as NumPy has made them: nothing is clipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from ._machine.task import RUNNING, Work
from .errors import error
from .kernel import Launch
from .memory import Array, Buffer
from .task import Task

if TYPE_CHECKING:
    from ._machine.task import Item
    from .device import Device

STATUS_BYTES = 64


class Overflow:
    """Whether it has happened on a device."""

    __slots__ = ("happened",)

    def __init__(self) -> None:
        self.happened = False

    def watch(self, item: Item) -> np.errstate:
        """Have NumPy report what it sees in the body; one that was killed and computes on is no longer heard."""

        def note(kind: str, flags: int) -> None:
            if item.state == RUNNING:
                self.happened = True

        return np.errstate(over="call", invalid="call", divide="call", call=note)


class Watched(Launch):
    """A launch in which overflows are noticed."""

    __slots__ = ("overflow",)

    overflow: Overflow

    def run(self, item: Item) -> object:
        """Run the body and let NumPy report."""
        with self.overflow.watch(item):
            return super().run(item)

    async def run_async(self, item: Item) -> object:
        """Run an ``async def`` body; what NumPy reports belongs to its own context."""
        with self.overflow.watch(item):
            return await super().run_async(item)


class OverflowTasks:
    """What a `Stream` does about overflows."""

    __slots__ = ()

    if TYPE_CHECKING:
        _device: Device
        _saturates: bool
        _is_watched: bool

        def _check(self) -> None: ...
        def _watch(self, on: bool) -> None: ...
        def _work(
            self, key: str, kind: type[Work], engine: str | None, name: str | None = None, label: str | None = None
        ) -> Work: ...
        def _enqueue(
            self, work: Work, args: tuple[object, ...], nbytes: int, cost: int = -1, up: int = 2
        ) -> Task[object]: ...

    @property
    def overflow_switch(self) -> bool:
        """Whether kernels launched from now on are watched. Mirrors aclrtGetStreamOverflowSwitch."""
        return self._is_watched

    def set_overflow_switch(self, on: bool) -> None:
        """Watch the kernels that are launched from now on, or no longer; mirrors aclrtSetStreamOverflowSwitch.

        A stream that was made outside saturation mode (`Device.set_saturation_mode`) is 207000. Watching costs some
        microseconds per launch.
        """
        self._check()
        if on and not self._saturates:
            raise error(
                207000,
                f"{self!r} was made in the mode in which overflows become infinite and are not reported",
                "Call device.set_saturation_mode(True), then create the stream.",
            )
        self._watch(bool(on))

    def get_overflow_status(self, buf: Buffer) -> Task[None]:
        """Write whether an overflow has happened on the device, when the stream gets there.

        64 bytes of a buffer become zero but for the first 32-bit word, which is 1 if one has. Less than 64 contiguous
        bytes are 107000. Mirrors aclrtGetOverflowStatus.
        """
        self._check()
        array = self._device._check_fill(buf, 0)
        if array.nbytes < STATUS_BYTES or not array.flags.c_contiguous:
            raise error(107000, f"{buf!r} does not begin with {STATUS_BYTES} contiguous bytes")
        words = array.reshape(-1).view(np.uint8)[:STATUS_BYTES].view(np.uint32)
        work = self._work("overflow status", ReadOverflow, None)
        return cast("Task[None]", self._enqueue(work, (words, self._device._overflow), STATUS_BYTES))

    def reset_overflow_status(self) -> Task[None]:
        """Forget, when the stream gets there, that there was an overflow; mirrors aclrtResetOverflowStatus."""
        self._check()
        work = self._work("reset overflow", ForgetOverflow, None)
        return cast("Task[None]", self._enqueue(work, (self._device._overflow,), 0))


class ReadOverflow(Work):
    """``args`` are sixteen words of device memory and the `Overflow`."""

    __slots__ = ()

    def arrive(self, item: Item) -> bool:
        """Write the status."""
        words, overflow = cast("tuple[Array, Overflow]", item.args)
        words[...] = 0
        words[0] = overflow.happened
        item.queue.machine.memory_changed()
        return True


class ForgetOverflow(Work):
    """``args`` is the `Overflow`."""

    __slots__ = ()

    def arrive(self, item: Item) -> bool:
        """Clear it."""
        (overflow,) = cast("tuple[Overflow]", item.args)
        overflow.happened = False
        return True
