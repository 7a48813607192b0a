"""Devices: contexts, limits, peers, and how their work is waited for, aborted and reset. Memory: device_memory.py."""

from __future__ import annotations

import operator
import weakref
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from ._machine.completion import Ended
from ._machine.machine import FOREVER
from ._machine.queue import Queue, Refusal
from ._machine.task import nanoseconds
from .context import Context, _raise_failures
from .device_memory import DeviceMemory
from .errors import error, one_line
from .kernel import COPY_ENGINES
from .overflow import Overflow
from .soc.model import FOREVER_S, Cost
from .stream import Stream, _all_ended
from .timeline import Timeline

if TYPE_CHECKING:
    from types import TracebackType

    from .event import Event
    from .kernel import Launch
    from .notify import Notify
    from .runtime import Runtime
    from .soc import Soc

LIMITS = {"events": (207007, "max_events"), "notifies": (207009, "max_notifies")}


class Device(DeviceMemory):
    """One NPU of a runtime. Made by `open_device` (then leaving the block closes its runtime) or `Runtime.device`."""

    _context_type: ClassVar[type[Context]] = Context

    def __init__(self, runtime: Runtime, index: int, soc: Soc) -> None:
        super().__init__()
        self._runtime = runtime
        self._machine = runtime._machine
        self._index = index
        self._soc = soc
        self._engines = self._machine.engines[index]
        self._peers: set[int] = set()
        self._owns_runtime = False
        self._lost: Refusal | None = None
        self._live = {"streams": 0, "events": 0, "notifies": 0}
        self._core_limits: dict[str, int] = {}
        self._contexts: weakref.WeakSet[Context] = weakref.WeakSet()
        self._users = 0
        self._saturates = not soc.has_infinity
        self._overflow = Overflow()
        self._default_context = self._context_type(self, is_default=True)

    # -- streams and events -------------------------------------------------------------------------------------------

    @property
    def index(self) -> int:
        """The device's number in its runtime."""
        return self._index

    @property
    def soc(self) -> Soc:
        """What kind of chip it is: name, cores, memory, speeds. Mirrors aclrtGetSocName and aclrtGetDeviceInfo."""
        return self._soc

    @property
    def runtime(self) -> Runtime:
        """The runtime it belongs to."""
        return self._runtime

    @property
    def timeline(self) -> Timeline:
        """What has run on this device, and when; of a runtime with one device the same as `Runtime.timeline`."""
        runtime = self._runtime
        if len(runtime.devices) == 1:
            return runtime.timeline
        return Timeline(lambda: runtime._live().of_device(self._index))

    @property
    def default_context(self) -> Context:
        """The context that comes with the device."""
        return self._default_context

    @property
    def default_stream(self) -> Stream:
        """The default stream of the default context."""
        return self._default_context.default_stream

    def create_context(self) -> Context:
        """Make another context with its own default stream; mirrors aclrtCreateContext."""
        self._check()
        return self._context_type(self)

    def create_stream(self, priority: int = 0, name: str | None = None, failure_mode: str = "continue") -> Stream:
        """Make a stream in the default context; see `Context.create_stream`."""
        return self._default_context.create_stream(priority, name, failure_mode)

    def create_event(
        self,
        timing: bool = True,
        name: str | None = None,
        kind: Literal["snapshot", "latch", "sync latch"] = "snapshot",
    ) -> Event:
        """Make an event in the default context; see `Context.create_event`."""
        return self._default_context.create_event(timing, name, kind)

    def create_notify(self, name: str | None = None) -> Notify:
        """Make a notify; see `Context.create_notify`."""
        return self._default_context.create_notify(name)

    # -- overflows and failures ---------------------------------------------------------------------------------------

    @property
    def saturation_mode(self) -> bool:
        """Whether streams made from now on report overflows (saturation mode). Mirrors aclrtGetDeviceSatMode."""
        return self._saturates

    def set_saturation_mode(self, on: bool) -> None:
        """Let streams made from now on report overflows; mirrors aclrtSetDeviceSatMode.

        Off (INFNAN mode) is 207000 on a chip that always saturates. What kernels compute is not clipped in either mode.
        """
        self._check()
        if not on and not self._soc.has_infinity:
            raise error(207000, f"a {self._soc.name} always saturates")
        self._saturates = bool(on)

    # -- limits and health --------------------------------------------------------------------------------------------

    @property
    def streams_available(self) -> int:
        """How many streams can still be made; mirrors aclrtGetStreamAvailableNum."""
        return max(self._soc.max_streams - self._live["streams"], 0)

    @property
    def events_available(self) -> int:
        """How many events can still be made; mirrors aclrtGetEventAvailNum."""
        return max(self._soc.max_events - self._live["events"], 0)

    @property
    def notifies_available(self) -> int:
        """How many notifies can still be made."""
        return max(self._soc.max_notifies - self._live["notifies"], 0)

    @property
    def health(self) -> str:
        """Say "ok", or "lost" when nothing on it can be used until it is reset; mirrors aclrtQueryDeviceStatus."""
        return "ok" if self._lost is None else "lost"

    def set_core_limit(self, engine: str, cores: int | None) -> None:
        """Let later launches use at most so many cores of an engine ("ai_core", "ai_vector", ...); None: all.

        A stream's own limit goes before it. Less than 1, or an engine without cores, is 107000. Mirrors
        aclrtSetDeviceResLimit and aclrtResetDeviceResLimit.
        """
        self._check()
        self._check_core_limit(engine, cores)
        if cores is None:
            self._core_limits.pop(engine, None)
        else:
            self._core_limits[engine] = cores
        self._forget_launches()

    def core_limit(self, engine: str) -> int:
        """Give how many cores of an engine a launch may use; mirrors aclrtGetDeviceResLimit."""
        self._check_core_limit(engine, None)
        return min(self._core_limits.get(engine, FOREVER), self._engines[engine].capacity)

    # -- peers --------------------------------------------------------------------------------------------------------

    def can_access_peer(self, peer: Device) -> bool:
        """Say whether copies with the other device are possible; mirrors aclrtDeviceCanAccessPeer."""
        self._check_other(peer)
        return peer._machine is self._machine

    def enable_peer_access(self, peer: Device) -> None:
        """Allow copies between this device's streams and the peer's memory; mirrors aclrtDeviceEnablePeerAccess."""
        if not self.can_access_peer(peer):
            raise error(207000, "devices of different runtimes cannot reach each other")
        self._peers.add(peer.index)

    def disable_peer_access(self, peer: Device) -> None:
        """Forbid them again; 107000 if they were not allowed. Mirrors aclrtDeviceDisablePeerAccess."""
        self._check_other(peer)
        if peer.index not in self._peers:
            raise error(107000, f"peer access from npu:{self.index} to npu:{peer.index} is not enabled")
        self._peers.discard(peer.index)

    # -- wait and end -------------------------------------------------------------------------------------------------

    async def synchronize(self, timeout: float | None = None) -> None:
        """Wait for everything enqueued so far on every stream of the device; raises the first failure not yet seen.

        Not done within `timeout` seconds is 507046 (`SyncTimeout`). Mirrors aclrtSynchronizeDevice[WithTimeout].
        """
        await self._synchronize(timeout)

    async def _synchronize(self, timeout: float | None = None) -> None:
        limit = nanoseconds(timeout)
        self._check()
        queues = self._queues()
        await _all_ended([queue.last for queue in queues if queue.last is not None], limit, self)
        self._check()
        self._trim_pools()
        for queue in queues:
            if queue.domain.failure is not None:
                raise queue.domain.failure.error()
        _raise_failures(queues)

    async def task_abort(self) -> None:
        """Kill what runs on the device and drop what is queued; mirrors aclrtDeviceTaskAbort.

        Whoever waits for any of it gets 107022. Contexts that a failure has stopped work again. Make events anew. A
        hook of `Runtime.on_task_abort` that raises is 107035: one before the abort prevents it.
        """
        await self._task_abort()

    async def _task_abort(self) -> None:
        self._check()
        self._tell_of_abort("pre")
        queues = self._queues()
        busy = Refusal(107022, f"{self!r} is aborting its tasks")
        for queue in queues:
            if queue.domain.failure is not None and queue.closed is queue.domain.failure:
                queue.closed = None
            queue.closed = queue.closed or busy
        for queue in queues:
            queue.domain.failure = None
        self._machine.drop(queues, error(107022, f"the tasks of {self!r} were aborted"))
        for queue in queues:
            if queue.closed is busy:
                queue.closed = None
        self._tell_of_abort("post")

    def _tell_of_abort(self, state: str) -> None:
        try:
            self._runtime._tell(self._runtime._abort_hooks, state, self)
        except Exception as problem:
            raise error(107035, f"a hook of the task abort of {self!r} failed: {one_line(problem)}") from problem

    async def reset(self) -> None:
        """Begin anew: kill and drop all work (507007 for who waits), and give back all that was made on the device.

        Its streams, events, notifies and buffers are stale afterwards (an error, never a crash); the default context
        and its stream are new ones. Mirrors aclrtResetDeviceForce.
        """
        await self._reset()

    async def _reset(self) -> None:
        if self._machine.closed is not None:
            raise self._machine.closed.error()
        tell = self._runtime._tell
        tell(self._runtime._device_hooks, "reset_pre", self)
        gone = Refusal(507007, f"npu:{self._index} has been reset", "Make streams, events and buffers anew.")
        queues = self._queues()
        for queue in queues:
            queue.closed = gone
        self._machine.drop(queues, gone.error())
        for context in list(self._contexts):
            context._closed = gone
            for queue in list(context._queues):
                context._release_queue(queue)
        for queue in queues:  # those of single copies
            self._machine.queues.pop(queue, None)
        self._peers.clear()
        self._core_limits.clear()
        self._forget_memory()
        self._lost = None
        self._users = 0
        self._default_context = self._context_type(self, is_default=True)
        tell(self._runtime._device_hooks, "reset_post", self)

    def retain(self) -> int:
        """Count one user more, and give the number of them; mirrors how aclrtSetDevice counts."""
        self._check()
        tell = self._runtime._tell
        tell(self._runtime._device_hooks, "set_pre", self)
        self._users += 1
        tell(self._runtime._device_hooks, "set_post", self)
        return self._users

    async def release(self) -> int:
        """Count one user less; the last one waits for the default context's work and resets the device.

        While contexts that somebody has made are alive, only the default context ends, and memory stays.
        Without any user it is 507007. Mirrors aclrtResetDevice.
        """
        return await self._release()

    async def _release(self) -> int:
        if not self._users:
            raise error(507007, f"{self!r} has no user: it was never set, or has been reset")
        self._users -= 1
        if not self._users:
            lasts = [queue.last for queue in self._default_context._queues if queue.last is not None]
            for last in lasts:
                await Ended(last)
            if any(context and not context._is_default for context in list(self._contexts)):
                self._renew_default_context()
            else:
                await self._reset()
        return self._users

    def _renew_default_context(self) -> None:
        """End the default context alone: who has made others, perhaps in another thread, still uses the device."""
        tell = self._runtime._tell
        tell(self._runtime._device_hooks, "reset_pre", self)
        context = self._default_context
        gone = Refusal(507007, f"the default context of npu:{self._index} has been reset", "Make its streams anew.")
        queues = list(context._queues)
        for queue in queues:
            queue.closed = gone
        self._machine.drop(queues, gone.error())
        context._closed = gone
        for queue in queues:
            context._release_queue(queue)
        self._default_context = self._context_type(self, is_default=True)
        tell(self._runtime._device_hooks, "reset_post", self)

    async def close(self) -> None:
        """Close the runtime of a device made by `open_device`; any other device waits for its work."""
        await self._exit(None)

    async def _exit(self, problem: BaseException | None) -> None:
        if self._owns_runtime:
            await self._runtime._close(drain=problem is None)
        elif problem is None and self._machine.closed is None:
            await self._synchronize()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit(problem)

    def __repr__(self) -> str:
        state = f", {self._machine.closed.text}" if self._machine.closed else ""
        return f"<Device npu:{self._index} {self._soc.name}, {self._machine.clock.name} clock{state}>"

    def __bool__(self) -> bool:
        return self._machine.closed is None and self._lost is None

    # -- within the package -------------------------------------------------------------------------------------------

    def _check(self) -> None:
        refusal = self._machine.closed or self._lost
        if refusal is not None:
            raise refusal.error()

    def _queues(self) -> list[Queue]:
        return [queue for queue in list(self._machine.queues) if queue.device == self._index]

    def _forget_launches(self) -> None:
        """Have later launches look at limits and timeouts again."""
        for queue in self._queues():
            owner = queue.owner() if queue.owner is not None else None
            if isinstance(owner, Stream):
                owner._launches.clear()

    def _check_core_limit(self, engine: str, cores: int | None) -> None:
        if engine not in self._engines or engine in COPY_ENGINES:
            raise error(107000, f"{engine!r} is no engine with cores")
        if cores is not None and operator.index(cores) < 1:
            raise error(107000, f"a launch needs at least 1 core, not {cores}")

    def _take(self, what: str) -> None:
        """Count an event or a notify that is about to be made."""
        code, limit = LIMITS[what]
        most: int = getattr(self._soc, limit)
        if self._live[what] >= most:
            raise error(code, f"{self!r} has {most} {what}, and {self._live[what]} are alive", "Close one first.")
        self._live[what] += 1

    def _give_back(self, what: str) -> None:
        self._live[what] -= 1

    def _check_other(self, peer: Device) -> None:
        self._check()
        if not isinstance(peer, Device):
            raise TypeError(f"a peer is a Device, not {type(peer).__name__}")
        if peer is self:
            raise error(100000, "a device is no peer of itself")

    def _check_peer(self, other: Device) -> None:
        if other._machine is not self._machine:
            raise error(107000, "the buffer belongs to a device of another runtime")
        if other.index not in self._peers:
            raise error(
                107000,
                f"npu:{self.index} may not reach memory of npu:{other.index}",
                "Allow it first: device.enable_peer_access(peer).",
            )

    def _price(self, work: Launch, args: tuple[object, ...], nbytes: int) -> tuple[int, int]:
        """Ask a cost function; give the bytes of memory traffic and the `cost` of the item."""
        function = work.kernel.cost_function
        assert function is not None
        cost = function(work, *args)
        if not isinstance(cost, Cost):
            raise TypeError(f"the cost function of {work.kernel!r} gave {type(cost).__name__}, not a Cost")
        seconds = cost.seconds
        if seconds is not None and 0 <= seconds < FOREVER_S:  # as `packed` does, without the call
            return nbytes, ~round(seconds * 1e9)
        packed = cost.packed()
        return nbytes if packed < 0 else round(cost.bytes), packed
