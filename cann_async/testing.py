"""Faults on purpose, so that a program's ways out can be tested.

Kernels and copies fail, dawdle or hang, devices are lost, memory is short:

    with ca.testing.faults(runtime) as faults:
        faults.fail("add", code=507035, nth=3)     # the third kernel named add
        faults.hang("memcpy h2d")
        ...

Rules count from when they are made, and end with the block.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from ._machine.queue import Refusal
from ._machine.task import Gauge, Work
from .errors import ExecutionError, ResourceError, error
from .kernel import Kernel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextvars import Context

    from ._machine.task import Item
    from .device import Device
    from .memory import Buffer
    from .runtime import Runtime

What = Kernel[..., object] | str | None
SMALLEST = 64


@dataclass
class Rule:
    """What happens to the `nth` and the `count` - 1 following tasks that match; `seen` have come so far."""

    what: What
    kind: str
    nth: int
    count: int
    code: int = 0
    seconds: float = 0.0
    seen: int = 0

    def takes(self, item: Item) -> bool:
        """Say whether it is this task's turn."""
        name, what = item.work.name, self.what
        if isinstance(what, Kernel):
            if getattr(item.work, "kernel", None) is not what:
                return False
        elif what is not None and name != what and not name.startswith(f"{what} "):
            return False
        self.seen += 1
        return self.nth <= self.seen < self.nth + self.count


class Faults:
    """The faults of one runtime; made by `faults`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._machine = runtime._machine
        self._rules: list[Rule] = []
        self._ballast: list[Buffer] = []

    def fail(self, what: What = None, *, code: int = 507015, nth: int = 1, count: int = 1) -> Self:
        """Have a task fail with `code`: a kernel, or a name ("add", "memcpy", "memcpy h2d", "memset"), or any."""
        return self._add(Rule(what, "fail", nth, count, code=code))

    def delay(self, what: What = None, *, seconds: float, nth: int = 1, count: int = 1) -> Self:
        """Have a task take so much longer, in the runtime's own time; see `fail`."""
        return self._add(Rule(what, "delay", nth, count, seconds=seconds))

    def hang(self, what: What = None, *, nth: int = 1, count: int = 1) -> Self:
        """Have a task never end; only a timeout, an abort or a reset gets rid of it; see `fail`."""
        return self._add(Rule(what, "hang", nth, count))

    def lose(self, device: Device, code: int = 507010) -> None:
        """Lose a device: all its work is dropped with `code`, and so is every call until `Device.reset`."""
        refusal = Refusal(code, f"npu:{device.index} has been lost", "Reset the device.")
        device._lost = refusal
        queues = device._queues()
        for queue in queues:
            queue.closed = queue.closed or refusal
        self._machine.drop(queues, refusal.error())

    def fail_to_open(self, device: Device) -> None:
        """Have `Runtime.device` fail with 507033 for this device, until it is reset."""
        self.lose(device, 507033)
        device._lost = Refusal(507033, f"npu:{device.index} could not be opened: a fault was injected")

    def shrink_memory(self, device: Device, free: int) -> None:
        """Leave only about `free` bytes of device memory, as if others used the rest."""
        piece = device.memory_info()[0]
        while piece >= SMALLEST and device.memory_info()[0] > free:
            piece = min(piece, device.memory_info()[0] - free)
            try:
                self._ballast.append(device.malloc(max(piece, 1)))
            except ResourceError:  # fragmented: smaller pieces fit
                piece //= 2

    def clear(self) -> None:
        """Let nothing more happen, and give the memory back; lost devices stay lost until they are reset."""
        self._rules.clear()
        for buffer in self._ballast:
            if buffer:
                buffer.free()
        self._ballast.clear()

    def _add(self, rule: Rule) -> Self:
        if rule.nth < 1 or rule.count < 1:
            raise error(107000, f"nth and count are 1 or more, not {rule.nth} and {rule.count}")
        if not rule.seconds >= 0:
            raise error(107000, f"a delay is 0 or more seconds, not {rule.seconds}")
        self._rules.append(rule)
        return self

    def _happen(self, item: Item) -> bool:
        """Do to a task that is about to start what is due; True if it is to hang."""
        for rule in self._rules:
            if not rule.takes(item):
                continue
            if rule.kind == "hang":
                return True
            if rule.kind == "delay" and self._machine.clock.modelled:
                longer = round(rule.seconds * 1e9)
                if item.cost < 0:
                    item.cost -= longer
                else:
                    engine = item.work.engine
                    assert engine is not None
                    item.cost = ~(engine.time_ns(item)[0] + longer)
            else:
                item.work = Faulty(item.work, rule)
        return False


class Faulty(Work):
    """Work with a fault: it fails, or on the wall clock it dawdles first."""

    def __init__(self, work: Work, rule: Rule) -> None:
        super().__init__(work.name, work.engine, work.cores, Gauge())
        self._work = work
        self._rule = rule
        self.is_asynchronous = work.is_asynchronous
        self.place = work.place
        self.timeout_ns = work.timeout_ns

    def context(self, item: Item) -> Context:
        """Give the context that the work wants."""
        return self._work.context(item)

    def run(self, item: Item) -> object:
        """Fail, or take time and do it."""
        self._fail(item)
        time.sleep(self._rule.seconds)
        return self._work.run(item)

    async def run_async(self, item: Item) -> object:
        """Fail, or take time and do it."""
        self._fail(item)
        await asyncio.sleep(self._rule.seconds)
        return await self._work.run_async(item)

    def _fail(self, item: Item) -> None:
        if self._rule.kind == "fail":
            raise ExecutionError(self._rule.code, f"a fault was injected into task {item.id}")


@contextlib.contextmanager
def faults(runtime: Runtime) -> Iterator[Faults]:
    """Let faults happen to the tasks of a runtime that start within the block."""
    machine = runtime._machine
    if machine.faults is not None:
        raise error(107000, "faults are being injected into this runtime already")
    made = Faults(runtime)
    machine.faults = made._happen
    machine.clock.is_watchful = True
    try:
        yield made
    finally:
        machine.faults = None
        made.clear()
