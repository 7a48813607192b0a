"""A runtime: one host with its devices and one clock. It works as soon as it is made, before and across loops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import operator
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeAlias, TypeVar

from ._machine.completion import Ended
from ._machine.machine import CLOCKS, FOREVER, Machine
from ._machine.task import DONE, nanoseconds
from .device import Device
from .errors import CannError, error
from .soc import PRESETS, Soc, find
from .timeline import Live, Table, Timeline

if TYPE_CHECKING:
    from types import TracebackType

    from .stream import Stream

ClockName = Literal["wall", "virtual", "paced"]
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])
Hook: TypeAlias = Callable[[str, T], object]
log = logging.getLogger("cann_async")


class RuntimeClock:
    """The time of a runtime: `now_ns()` and `await sleep(seconds)`."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @property
    def name(self) -> str:
        """The name of the clock: wall, virtual or paced."""
        return self._machine.clock.name

    def now_ns(self) -> int:
        """Give the nanoseconds since the runtime was made."""
        return self._machine.now() - self._machine.clock.origin_ns

    async def sleep(self, seconds: float) -> None:
        """Sleep in the runtime's own time; less than 0 is a ValueError.

        On the virtual clock nothing really sleeps, and the device goes on meanwhile; `asyncio.sleep` is real time and
        leaves the virtual clock where it is.
        """
        await self._sleep(seconds)

    async def _sleep(self, seconds: float) -> None:
        if not seconds >= 0 or math.isinf(seconds):
            raise ValueError(f"cannot sleep for {seconds} seconds")
        machine, clock = self._machine, self._machine.clock
        if machine.closed is not None:
            raise machine.closed.error()
        if clock.is_virtual:
            await Ended(machine.timer(seconds * 10**9 if isinstance(seconds, int) else round(seconds * 1e9)))
        else:
            await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Figures of one moment: streams and tasks alive, tasks that have ended, bytes in use per device."""

    streams: int
    pending: int
    recorded: int
    device_bytes: tuple[int, ...]


class Runtime:
    """One host with `devices` devices of one `soc` (a preset's name or a `Soc`) and one `clock`.

    Arguments that are not given come from CANN_ASYNC_DEVICES, CANN_ASYNC_SOC, CANN_ASYNC_CLOCK, CANN_ASYNC_HOST_TIME
    and CANN_ASYNC_LAUNCH_BLOCKING. With `host_time` each call that enqueues or waits takes the host the Soc's
    `host_call_ns` of virtual time, so that a program that is held up by its host shows it; on the other clocks the
    host takes the time that it takes. With `launch_blocking` a launch waits for its end and raises its failure, to
    find the line that failed. ``async with`` only closes it. Mirrors aclInit.
    """

    _device_type: ClassVar[type[Device]] = Device
    _clock_type: ClassVar[type[RuntimeClock]] = RuntimeClock

    def __init__(
        self,
        *,
        devices: int | None = None,
        soc: str | Soc | None = None,
        clock: ClockName | None = None,
        record: bool = True,
        launch_blocking: bool | None = None,
        start_ns: int = 0,
        host_time: bool | None = None,
    ) -> None:
        count = operator.index(devices if devices is not None else device_count())
        if not 1 <= count <= 64:
            raise ValueError(f"a runtime has 1 to 64 devices, not {count}")
        kind = clock if clock is not None else os.environ.get("CANN_ASYNC_CLOCK", "wall")
        if kind not in CLOCKS:
            raise ValueError(f"clock must be {', '.join(map(repr, CLOCKS))}, not {kind!r}")
        if start_ns and kind != "virtual":
            raise ValueError(f"start_ns is for the virtual clock, not for the {kind} clock")
        chip = find(soc if soc is not None else os.environ.get("CANN_ASYNC_SOC", "ascend910b"))
        self._machine = Machine([chip] * count, kind, record=record, start_ns=operator.index(start_ns))
        if launch_blocking is None:
            launch_blocking = os.environ.get("CANN_ASYNC_LAUNCH_BLOCKING", "0") not in ("", "0")
        self._machine.launch_blocking = launch_blocking
        if host_time is None:
            host_time = os.environ.get("CANN_ASYNC_HOST_TIME", "0") not in ("", "0")
        if host_time and kind == "virtual":
            self._machine.host_call_ns = chip.host_call_ns
        self._device_hooks: dict[str, Hook[Device]] = {}
        self._stream_hooks: dict[str, Hook[Stream]] = {}
        self._abort_hooks: dict[str, Hook[Device]] = {}
        self._clock = self._clock_type(self._machine)
        self._live = Live(self._machine, (chip,) * count, start_ns if kind == "virtual" else 0)
        self._timeline = Timeline(self._live)
        self._devices = tuple(self._device_type(self, index, chip) for index in range(count))

    @property
    def devices(self) -> tuple[Device, ...]:
        """All devices."""
        return self._devices

    @property
    def clock(self) -> RuntimeClock:
        """The runtime's time."""
        return self._clock

    @property
    def timeline(self) -> Timeline:
        """What has run, and when."""
        return self._timeline

    @contextlib.contextmanager
    def tracing(self) -> Iterator[Timeline]:
        """Give a timeline of exactly the tasks that are enqueued in the block, by whomever; also of this moment.

        Those that end after the block are in it as soon as they have ended.
        """
        machine, clock = self._machine, self._clock
        first, since, last, until = machine.next_id(), clock.now_ns(), FOREVER, FOREVER

        def take() -> Table:
            return self._live().between(first, last, since, until)

        try:
            yield Timeline(take)
        finally:
            last, until = machine.next_id(), clock.now_ns()

    @contextlib.contextmanager
    def annotate(self, name: str) -> Iterator[None]:
        """Give the host's time in the block a name that shows in timelines; such blocks nest.

        It is only written down when the block ends, and changes nothing else.
        """
        started = self._machine.now()
        try:
            yield
        finally:
            self._machine.records.annotated(str(name), started, self._machine.now())

    def device(self, index: int = 0) -> Device:
        """Give a device by number; 107001 with the range if there is none. Mirrors aclrtSetDevice."""
        number = operator.index(index)
        if not 0 <= number < len(self._devices):
            raise error(107001, f"there is no device {number}: this runtime has 0..{len(self._devices) - 1}")
        device = self._devices[number]
        device._check()
        return device

    @property
    def op_wait_timeout(self) -> float | None:
        """Seconds after which a stream's wait fails (107020), unless it has its own; mirrors aclrtSetOpWaitTimeout."""
        limit = self._machine.op_wait_timeout_ns
        return None if limit is None else limit / 1e9

    @op_wait_timeout.setter
    def op_wait_timeout(self, seconds: float | None) -> None:
        self._machine.op_wait_timeout_ns = nanoseconds(seconds)

    @property
    def op_execute_timeout(self) -> float | None:
        """Seconds after which a kernel launched from now on is killed.

        Mirrors aclrtSetOpExecuteTimeOut[V2], aclrtSetOpExecuteTimeOutWithMs and aclrtGetOpExecuteTimeout.
        """
        limit = self._machine.op_execute_timeout_ns
        return None if limit is None else limit / 1e9

    @op_execute_timeout.setter
    def op_execute_timeout(self, seconds: float | None) -> None:
        self._machine.op_execute_timeout_ns = nanoseconds(seconds)
        for device in self._devices:
            device._forget_launches()

    def on_device_state(self, name: str, fn: Hook[Device] | None) -> None:
        """Call ``fn(state, device)`` around `Device.retain` and `Device.reset`.

        The states are "set_pre", "set_post", "reset_pre", "reset_post". None takes the hook of this name away; a name
        that is taken is 107000. Mirrors aclrtRegDeviceStateCallback.
        """
        _hook(self._device_hooks, name, fn)

    def on_stream_state(self, name: str, fn: Hook[Stream] | None) -> None:
        """Call ``fn(state, stream)`` when a stream has been made ("create_post") or is about to go ("destroy_pre").

        None takes the hook of this name away; a name that is taken is 107000. Mirrors aclrtRegStreamStateCallback.
        """
        _hook(self._stream_hooks, name, fn)

    def on_task_abort(self, name: str, fn: Hook[Device] | None) -> None:
        """Call ``fn(state, device)`` before ("pre") and after ("post") `Device.task_abort`.

        None takes the hook of this name away; a name that is taken is 107000. Mirrors aclrtSetDeviceTaskAbortCallback.
        """
        _hook(self._abort_hooks, name, fn)

    def on_failure(self, name: str, fn: Callable[[CannError], object] | None) -> None:
        """Call ``fn(error)`` for each task that fails, before whoever waits for it goes on.

        The error says which task, on which stream and device. It is called wherever the machine is being driven, so it
        must be quick and wait for nothing; what it raises is logged. Work that is dropped or cancelled has not failed.
        None takes the hook of this name away; a name that is taken is 107000. Mirrors
        aclrtExceptionInfoCallbackRegister, aclrtExceptionInfoCallbackUnregister and aclrtSetExceptionInfoCallback.
        """
        _hook(self._machine.failure_hooks, name, fn)

    def _tell(self, hooks: dict[str, Hook[T]], state: str, what: T) -> None:
        for fn in list(hooks.values()):
            fn(state, what)

    def statistics(self) -> Statistics:
        """Count what is alive."""
        used = []
        for device in self._devices:
            free, total = device._arena.free_and_total() if device._arena is not None else (0, 0)
            used.append(total - free)
        queues = [queue for queue in list(self._machine.queues) if queue.id >= 0]
        return Statistics(
            streams=len(queues),
            pending=sum(queue.pending for queue in queues),
            recorded=len(self._machine.records),
            device_bytes=tuple(used),
        )

    async def close(self, *, drain: bool = True) -> None:
        """Finish what is queued, or drop it without `drain` (whoever waits gets 507007), and end the runtime.

        Whatever is used afterwards says that it has been closed. Failures nobody has seen are logged. Mirrors
        aclFinalize.
        """
        await self._close(drain=drain)

    async def _close(self, *, drain: bool) -> None:
        machine = self._machine
        if machine.closed is not None:
            return
        if drain:
            for last in [queue.last for queue in list(machine.queues)]:
                if last is not None and last.state < DONE:
                    await Ended(last)
        for queue in list(machine.queues):
            for item in queue.failed:
                if isinstance(item.outcome, CannError) and not item.outcome.reported:
                    log.warning("nobody has seen this failure: %s", item.outcome)
        machine.close("the Runtime has been closed")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit(problem)

    async def _exit(self, problem: BaseException | None) -> None:
        await self._close(drain=problem is None)

    def __bool__(self) -> bool:
        return self._machine.closed is None

    def __del__(self) -> None:
        machine: Machine | None = getattr(self, "_machine", None)
        if machine is not None and machine.closed is None and not sys.is_finalizing():
            machine.abandon()

    def __repr__(self) -> str:
        state = f", {self._machine.closed.text}" if self._machine.closed else ""
        return f"<Runtime, {len(self._devices)} x {self._devices[0].soc.name}, {self._machine.clock.name} clock{state}>"


def _hook(hooks: dict[str, F], name: str, fn: F | None) -> None:
    if fn is None:
        hooks.pop(name, None)
    elif name in hooks:
        raise error(107000, f"there is a hook named {name!r} already", "Take it away first: pass None.")
    elif not callable(fn):
        raise TypeError(f"a hook is a function, not {type(fn).__name__}")
    else:
        hooks[name] = fn


def open_device(
    index: int = 0,
    *,
    devices: int | None = None,
    soc: str | Soc | None = None,
    clock: ClockName | None = None,
    record: bool = True,
    host_time: bool | None = None,
) -> Device:
    """Make a runtime and give its device `index`; leaving ``async with`` closes the runtime. Mirrors aclrtSetDevice."""
    return _open(Runtime, index, devices, soc, clock, record, host_time)


def _open(
    kind: type[Runtime],
    index: int,
    devices: int | None,
    soc: str | Soc | None,
    clock: ClockName | None,
    record: bool,
    host_time: bool | None,
) -> Device:
    number = operator.index(index)
    count = devices if devices is not None else max(device_count(), number + 1)
    if not 0 <= number < count:
        raise error(107001, f"there is no device {number}: this runtime has 0..{count - 1}")
    device = kind(devices=count, soc=soc, clock=clock, record=record, host_time=host_time).device(number)
    device._owns_runtime = True
    return device


def device_count() -> int:
    """Give the number of devices a runtime has unless told otherwise: CANN_ASYNC_DEVICES, or 1. Starts nothing.

    Mirrors aclrtGetDeviceCount.
    """
    text = os.environ.get("CANN_ASYNC_DEVICES", "1")
    if not text.isdecimal() or not 1 <= int(text) <= 64:
        raise ValueError(f"CANN_ASYNC_DEVICES must be 1 to 64, not {text!r}")
    return int(text)


def socs() -> tuple[str, ...]:
    """Name the presets. Starts nothing."""
    return tuple(sorted(PRESETS))


def run(main: Callable[..., Awaitable[T]], *args: object) -> T:
    """Run ``main(*args)`` in a new event loop and give its result: asyncio, with uvloop where it is installed."""
    import anyio  # takes a while to import, and only this needs it

    try:
        import uvloop  # noqa: F401  # only whether it is there

        fast = True
    except ImportError:
        fast = False
    return anyio.run(main, *args, backend="asyncio", backend_options={"use_uvloop": fast})
