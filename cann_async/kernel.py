"""Step 1: kernels, and what a launch of one is.

A kernel is a Python function over NumPy views. `Launch` is the work that all launches of one kernel with the same
blocks on the same stream share; the machine runs it (step 4), in place or on a worker, as its measured cost decides.
"""

from __future__ import annotations

import asyncio
import inspect
import operator
from typing import TYPE_CHECKING, Concatenate, Generic, Literal, ParamSpec, TypeVar, cast, final, overload

from ._machine.task import NEVER_LIGHT, Gauge, Work
from .errors import error
from .soc import Cost

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ._machine.engine import Engine
    from ._machine.queue import Queue
    from ._machine.task import Item
    from .device import Device
    from .stream import Stream
    from .task import Task

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
COPY_ENGINES = ("h2d", "d2h", "d2d", "host", "callback")


@final
class Block:
    """One block of a launch: its `index` among `count`, as GetBlockIdx() and GetBlockNum() give them on a device."""

    __slots__ = ("count", "index", "launch")

    def __init__(self, index: int, count: int, launch: Launch) -> None:
        self.index = index
        self.count = count
        self.launch = launch

    def slice(self, n: int) -> slice:
        """Give this block's share of `n` elements; the shares of all blocks are even and cover everything once."""
        index, count = self.index, self.count
        return slice(n * index // count, n * (index + 1) // count)

    def __repr__(self) -> str:
        return f"<Block {self.index} of {self.count} of {self.launch.name!r}>"


class Launch(Work):
    """What the body of a kernel sees of its launch: `.blocks .stream .device .name`."""

    __slots__ = (
        "_all_blocks",
        "_queue",
        "blocks",
        "fixed_bytes",
        "fixed_cost",
        "is_asynchronous",
        "kernel",
        "timeout_ns",
    )

    def __init__(
        self,
        kernel: Kernel[..., object],
        engine: Engine,
        blocks: int,
        name: str,
        queue: Queue,
        cores: int | None,
        timeout_ns: int | None,
    ) -> None:
        limit = engine.capacity if cores is None else min(cores, engine.capacity)
        gauge = kernel.gauges.setdefault(blocks, Gauge())
        if timeout_ns is not None:  # only on a worker it can be given up
            gauge = NEVER_LIGHT
        super().__init__(name, engine, min(blocks, limit), gauge)
        self.timeout_ns = timeout_ns
        self.kernel = kernel
        self._all_blocks = [Block(index, blocks, self) for index in range(blocks)] if kernel.per_block else []
        self.blocks = blocks
        cost = kernel.cost
        self.fixed_cost: int | None = None
        """The `cost` of every item, unless a function says it each time."""
        self.fixed_bytes: int | None = None
        """The memory traffic of every item, if it is not the bytes of the arguments."""
        if kernel.cost_function is None:
            self.fixed_cost = cost.packed() if cost is not None else 0
            if cost is not None and self.fixed_cost >= 0:
                self.fixed_bytes = round(cost.bytes)
        self._queue = queue
        self.is_asynchronous = kernel.is_asynchronous

    @property
    def stream(self) -> Stream | None:
        """The stream it was launched on, unless that has gone."""
        return cast("Stream | None", self._queue.owner() if self._queue.owner is not None else None)

    @property
    def device(self) -> Device | None:
        """The device it runs on, unless its stream has gone."""
        stream = self.stream
        return stream.device if stream is not None else None

    def run(self, item: Item) -> object:
        """Run the body: once per block, or once for the launch."""
        kernel, args = self.kernel, item.args or ()
        if not kernel.per_block:
            return kernel.body(self, *args)
        body = kernel.body
        for block in self._all_blocks:
            body(block, *args)
        return None

    async def run_async(self, item: Item) -> object:
        """Run an ``async def`` body; blocks of one wave run at the same time."""
        kernel, args = self.kernel, item.args or ()
        body = cast("Callable[..., Awaitable[object]]", kernel.body)
        if not kernel.per_block:
            return await body(self, *args)
        for first in range(0, self.blocks, self.cores):
            wave = self._all_blocks[first : first + self.cores]
            await asyncio.gather(*(body(block, *args) for block in wave))
        return None


@final
class Kernel(Generic[P, R_co]):
    """A function that runs on a device; made with `cann_async.kernel`."""

    def __init__(
        self,
        body: Callable[..., object],
        engine: str = "ai_core",
        cost: Cost | Callable[..., Cost] | None = None,
        per_block: bool = True,
    ) -> None:
        if not callable(body):
            raise TypeError(f"a kernel is a function, not {type(body).__name__}")
        if engine in COPY_ENGINES:
            raise ValueError(
                f"engine {engine!r} runs no kernels: they run on 'ai_core', 'ai_vector', 'ai_cpu' or 'dvpp'"
            )
        if cost is not None and not isinstance(cost, Cost) and not callable(cost):
            raise TypeError(f"cost must be a Cost or a function that gives one, not {type(cost).__name__}")
        self.body = body
        self.engine = engine
        self.cost = cost if isinstance(cost, Cost) else None
        self.cost_function = None if cost is None or isinstance(cost, Cost) else cost
        self.per_block = per_block
        self.is_asynchronous = inspect.iscoroutinefunction(body)
        self.gauges: dict[int, Gauge] = {}
        """What is known of its real cost, by the number of blocks."""
        self.__name__: str = getattr(body, "__name__", type(body).__name__)
        self.__doc__ = body.__doc__

    def __getitem__(self, config: tuple[int, Stream] | int) -> Launcher[P, R_co]:
        """Give ``kernel[blocks, stream]``, to be called with the arguments; without a stream the current one."""
        blocks, stream = config if isinstance(config, tuple) else (config, None)
        if stream is None:
            from .context import current_stream  # the context module needs kernels, and this only where it is used

            stream = current_stream()
        return Launcher(self, blocks, stream)

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Refuse: a kernel is launched, not called."""
        raise TypeError(
            f"kernel {self.__name__!r} is launched, not called: stream.launch({self.__name__}, ...) "
            f"or {self.__name__}[blocks, stream](...)"
        )

    def __repr__(self) -> str:
        return f"<Kernel {self.__name__!r} on {self.engine}>"

    def work(
        self,
        queue: Queue,
        engines: dict[str, Engine],
        blocks: int,
        name: str | None,
        cores: int | None,
        timeout_ns: int | None,
        kind: type[Launch] = Launch,
    ) -> Launch:
        """Make what launches with these blocks on this queue share; 107000 if it cannot be launched so."""
        try:
            count = operator.index(blocks)
        except TypeError:
            raise TypeError(f"blocks must be an int, not {type(blocks).__name__}") from None
        if count < 1:
            raise error(107000, f"blocks must be at least 1, not {count}")
        engine = engines.get(self.engine)
        if engine is None:
            raise error(207000, f"this Soc has no engine {self.engine!r}; it has {', '.join(engines)}")
        return kind(self, engine, count, name if name is not None else self.__name__, queue, cores, timeout_ns)


class Launcher(Generic[P, R_co]):
    """``kernel[blocks, stream]``."""

    __slots__ = ("_blocks", "_kernel", "_stream")

    def __init__(self, kernel: Kernel[P, R_co], blocks: int, stream: Stream) -> None:
        self._kernel = kernel
        self._blocks = blocks
        self._stream = stream

    def __call__(self, *args: object) -> Task[R_co]:
        """Launch; see `Stream.launch`."""
        return self._stream.launch(self._kernel, *args, blocks=self._blocks)


LAUNCHER_CODE = Launcher.__call__.__code__
"""A launch names the line of whoever called, not this one."""


class _KernelMaker:
    """`kernel(engine=..., ...)` before it has its function."""

    def __init__(self, engine: str, cost: Cost | Callable[..., Cost] | None, per_block: bool) -> None:
        self._options = (engine, cost, per_block)

    def __call__(self, body: Callable[Concatenate[Block, P], R]) -> Kernel[P, None]:
        return Kernel(body, *self._options)


class _WholeKernelMaker(_KernelMaker):
    def __call__(self, body: Callable[Concatenate[Launch, P], R]) -> Kernel[P, R]:  # type: ignore[override]  # other bodies
        return Kernel(body, *self._options)


@overload
def kernel(body: Callable[Concatenate[Block, P], R], /) -> Kernel[P, None]: ...
@overload
def kernel(
    *, engine: str = ..., cost: Cost | Callable[..., Cost] | None = ..., per_block: Literal[True] = ...
) -> _KernelMaker: ...
@overload
def kernel(
    *, engine: str = ..., cost: Cost | Callable[..., Cost] | None = ..., per_block: Literal[False]
) -> _WholeKernelMaker: ...
def kernel(
    body: Callable[..., object] | None = None,
    /,
    *,
    engine: str = "ai_core",
    cost: Cost | Callable[..., Cost] | None = None,
    per_block: bool = True,
) -> object:
    """Make a function a kernel: ``@kernel`` or ``@kernel(engine=..., cost=..., per_block=...)``.

    The body gets a `Block` (once per block) or, with ``per_block=False``, a `Launch` (once), and then the arguments:
    NumPy views for buffers, everything else as it is. It may be ``async def``. `cost` is a `Cost`, or a function of
    the launch and the arguments (as buffers) that gives one; it decides how long the launch takes in modelled time.
    """
    if body is not None:
        return Kernel(body)
    maker = _KernelMaker if per_block else _WholeKernelMaker
    return maker(engine, cost, per_block)
