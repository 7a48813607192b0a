"""Step 1: tasks on memory: copies, fills, reductions, random numbers.

`MemoryTasks` is the part of `Stream` that enqueues them. Every method checks the call, enqueues one task and returns
it. The works below say what the engine does then (step 4).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from ._machine.arena import is_pinned
from ._machine.record import PAGEABLE
from ._machine.task import Work
from .errors import CannError, MismatchError, error
from .memory import Array, Buffer, Copy, Fill, Operand, bytes_of, check_copy
from .task import Task

if TYPE_CHECKING:
    from ._machine.machine import Machine
    from ._machine.task import Item
    from .device import Device

WIDEST, HIGHEST = 5_000_000, 5_242_880
"""Of a two-dimensional copy, in bytes and in rows."""
OPERATIONS = {"sum": np.add, "max": np.maximum, "min": np.minimum}
DISTRIBUTIONS = ("uniform", "normal", "truncated_normal", "dropout")
TRUNCATED_AT = 2.0
"""A truncated normal distribution keeps what is within so many standard deviations."""


class MemoryTasks:
    """What a `Stream` enqueues on memory."""

    __slots__ = ()

    if TYPE_CHECKING:
        _device: Device
        _machine: Machine

        def _check(self) -> None: ...
        def _work(
            self, key: str, kind: type[Work], engine: str | None, name: str | None = None, label: str | None = None
        ) -> Work: ...
        def _enqueue(
            self, work: Work, args: tuple[object, ...], nbytes: int, cost: int = -1, up: int = 2
        ) -> Task[object]: ...

    def memcpy(self, dst: Operand, src: Operand, nbytes: int | None = None, kind: int | None = None) -> Task[None]:
        """Copy in stream order; mirrors aclrtMemcpyAsync. The direction follows from the operands.

        Shapes and dtypes must agree, or one side is raw bytes of the same size, or `nbytes` says how many raw bytes
        to copy. A pinned source is read when the copy runs, any other host source is staged before this returns.
        107000 if sizes, or `kind` and the operands, do not fit; 207000 from host to host.
        """
        engine, target, source = check_copy(self._device, dst, src, nbytes, kind)
        if engine == "host":
            raise error(207000, "a copy from host to host cannot be queued", "Use device.memcpy, or NumPy.")
        arrays = (target, _staged(src, source))
        return self._enqueue_copy(engine, arrays, source.nbytes, label=pageable(engine, *arrays))

    def memcpy2d(
        self, dst: Operand, src: Operand, width: int, height: int, dst_pitch: int, src_pitch: int
    ) -> Task[None]:
        """Copy `height` rows of `width` bytes, `pitch` bytes apart on either side; mirrors aclrtMemcpy2dAsync.

        What lies between the rows is not touched. A width beyond a pitch is 100000, and so is host to host; too little
        memory on a side, or more than 5,000,000 bytes or 5,242,880 rows, is 107000. No bytes at all is fine.
        """
        engine, target, source = check_copy_2d(self._device, dst, src, width, height, (dst_pitch, src_pitch))
        arrays = (target, _staged(src, source))
        return self._enqueue_copy(engine, arrays, source.nbytes, label=pageable(engine, *arrays))

    def memcpy_batch(self, pairs: Sequence[tuple[Operand, Operand]]) -> Task[None]:
        """Copy many (destination, source) pairs of one direction as one task; mirrors aclrtMemcpyBatchAsync.

        Into the device, or out of it, else 107000, and so is what `memcpy` refuses, with the index of the pair; then
        nothing is enqueued. The order within the batch is not defined: pairs must not overlap.
        """
        engine, checked = check_batch(self._device, pairs)
        copies = tuple(
            (target, _staged(src, source)) for (target, source), (_, src) in zip(checked, pairs, strict=True)
        )
        nbytes = sum(source.nbytes for _, source in copies)
        work = self._work("memcpy batch", BatchCopy, engine if nbytes else None, f"memcpy batch {engine}")
        return cast("Task[None]", self._enqueue(work, copies, nbytes, 0))

    def memset(self, buf: Buffer, value: int) -> Task[None]:
        """Set every byte of a buffer to `value` (0 to 255), in stream order; mirrors aclrtMemsetAsync."""
        return self._enqueue_fill(self._device._check_fill(buf, value), value)

    def memset_d32(self, buf: Buffer, value: int) -> Task[None]:
        """Set every 32-bit word of a buffer to `value`; mirrors aclrtMemsetD32Async.

        A buffer whose address or size is no multiple of 4 bytes is 100000, a value that is not of 32 bits 107000.
        """
        return self._enqueue_words(check_words(self._device, buf, value), value)

    def reduce(self, dst: Buffer, src: Buffer, op: str = "sum") -> Task[None]:
        """Make dst = dst op src, element by element; mirrors aclrtReduceAsync.

        `op` is "sum", "max" or "min", else 107000. Shapes and dtypes must agree, and be of real numbers.
        """
        if op not in OPERATIONS:
            raise error(107000, f"op must be {', '.join(map(repr, OPERATIONS))}, not {op!r}")
        engine, target, source = check_copy(self._device, dst, src, None, None)
        if engine != "d2d" or target.dtype != source.dtype or target.shape != source.shape:
            raise MismatchError(107000, "a reduction takes two buffers of the same shape and dtype")
        if target.dtype.kind not in "iuf":
            raise error(107000, f"a reduction takes real numbers, not {target.dtype}")
        work = self._work(f"reduce {op}", Reduce, "d2d" if target.nbytes else None)
        return cast("Task[None]", self._enqueue(work, (target, source, op), target.nbytes, target.nbytes))

    def random(
        self,
        buf: Buffer,
        distribution: str = "uniform",
        *,
        seed: int = 0,
        offset: int = 0,
        low: float = 0.0,
        high: float = 1.0,
        mean: float = 0.0,
        stddev: float = 1.0,
        ratio: float = 0.5,
    ) -> Task[None]:
        """Fill a buffer with random numbers, the same for the same `seed` and `offset`; mirrors aclrtRandomNumAsync.

        "uniform" lies in [low, high), "normal" and "truncated_normal" (within two deviations) have `mean` and `stddev`,
        "dropout" sets each bit of a buffer of uint8 with probability 1 - `ratio`. Integers are only uniform. What does
        not fit is 107000.
        """
        array = self._device._check_fill(buf, 0)
        parameters = _parameters(array, distribution, low, high, (mean, stddev), ratio)
        work = self._work(f"random {distribution}", Random, "ai_cpu" if array.nbytes else None)
        args = (array, distribution, operator.index(seed), operator.index(offset), parameters)
        return cast("Task[None]", self._enqueue(work, args, array.nbytes, 0))

    def _enqueue_copy(
        self, engine: str, arrays: tuple[object, ...], nbytes: int, up: int = 3, label: str | None = None
    ) -> Task[None]:
        work = self._work("memcpy", Copy, engine if nbytes else None, f"memcpy {engine}", label)
        return cast("Task[None]", self._enqueue(work, arrays, nbytes, 0, up))

    def _enqueue_fill(self, array: Array, value: int, up: int = 3) -> Task[None]:
        work = self._work("memset", Fill, "d2d" if array.nbytes else None)
        return cast("Task[None]", self._enqueue(work, (array, value), array.nbytes, 0, up))

    def _enqueue_words(self, words: Array, value: int, up: int = 3) -> Task[None]:
        work = self._work("memset d32", FillWords, "d2d" if words.nbytes else None)
        return cast("Task[None]", self._enqueue(work, (words, value % (1 << 32)), words.nbytes, 0, up))


def _staged(src: Operand, source: Array) -> Array:
    """Give what a queued copy reads: device memory and pinned arrays when it runs, any other host memory now."""
    return source if isinstance(src, Buffer) or is_pinned(source) else source.copy()


def pageable(engine: str, target: Array, source: Array) -> str | None:
    """Give what the record of a queued copy says of its host memory: "pageable", or nothing if it is pinned."""
    if engine == "d2d" or is_pinned(source if engine == "h2d" else target):
        return None
    return PAGEABLE


def check_copy_2d(
    device: Device, dst: Operand, src: Operand, width: int, height: int, pitches: tuple[int, int]
) -> tuple[str, Array, Array]:
    """Check a two-dimensional copy and give its engine and the rows of both sides."""
    wide, high = operator.index(width), operator.index(height)
    engine, target, source = check_copy(device, dst, src, 0, None)
    if engine == "host":
        raise error(100000, "a two-dimensional copy is not from host to host")
    if not (0 <= wide <= WIDEST and 0 <= high <= HIGHEST):
        raise error(107000, f"a copy of {high} rows of {wide} bytes is out of range")
    sides = []
    for operand, view, given, what in ((dst, target, pitches[0], "dst"), (src, source, pitches[1], "src")):
        pitch = operator.index(given)
        if wide > pitch:
            raise error(100000, f"the pitch of {what} is {pitch}, less than the width of {wide} bytes")
        whole = operand._array if isinstance(operand, Buffer) else cast("Array", view.base if high else view)
        raw = bytes_of(whole, whole.nbytes, what) if wide and high else view
        needed = (high - 1) * pitch + wide if wide and high else 0
        if needed > raw.nbytes:
            raise error(107000, f"{what} has {raw.nbytes} bytes, {high} rows {pitch} bytes apart need {needed}")
        rows = np.lib.stride_tricks.as_strided(raw, (high, wide), (pitch, 1)) if needed else np.empty((0, 0), np.uint8)
        sides.append(rows)
    return engine, sides[0], sides[1]


def check_batch(device: Device, pairs: Sequence[tuple[Operand, Operand]]) -> tuple[str, list[tuple[Array, Array]]]:
    """Check a batch of copies and give its engine and the arrays."""
    checked, engines = [], set()
    for index, (dst, src) in enumerate(pairs):
        try:
            engine, target, source = check_copy(device, dst, src, None, None)
        except CannError as problem:
            raise error(problem.code, f"pair {index} of the batch: {problem.detail}", problem.hint) from problem
        engines.add(engine)
        if engine not in ("h2d", "d2h") or len(engines) > 1:
            raise error(107000, f"pair {index} of the batch has direction {engine}; all go into the device, or all out")
        checked.append((target, source))
    if not checked:
        raise error(100000, "the batch is empty")
    return engines.pop(), checked


def check_words(device: Device, buf: Buffer, value: int) -> Array:
    """Check a fill of 32-bit words and give the words."""
    array = device._check_fill(buf, 0)
    if array.nbytes and (buf.address % 4 or array.nbytes % 4 or not array.flags.c_contiguous):
        raise error(100000, f"{buf!r} is not made of contiguous 32-bit words")
    if not -(1 << 31) <= operator.index(value) < 1 << 32:
        raise error(107000, f"{value} does not fit in 32 bits")
    return array.reshape(-1).view(np.uint8).view(np.uint32)


def _parameters(
    array: Array, distribution: str, low: float, high: float, normal: tuple[float, float], ratio: float
) -> tuple[float, ...]:
    if distribution not in DISTRIBUTIONS:
        raise error(107000, f"the distribution must be {', '.join(map(repr, DISTRIBUTIONS))}, not {distribution!r}")
    if distribution == "dropout":
        if array.dtype != np.uint8 or not 0 <= ratio <= 1:
            raise error(107000, "a dropout mask needs a buffer of uint8, and a ratio of 0 to 1")
        return (ratio,)
    if array.dtype.kind not in ("iuf" if distribution == "uniform" else "f"):
        raise error(107000, f"{distribution} numbers are not {array.dtype}")
    if distribution == "uniform":
        if not low < high:
            raise error(107000, f"there is nothing between {low} and {high}")
        return (low, high)
    if not normal[1] >= 0:
        raise error(107000, f"a standard deviation is not {normal[1]}")
    return normal


class FillWords(Copy):
    """memset of 32-bit words: ``args`` are the words and the value."""

    __slots__ = ()

    def run(self, item: Item) -> object:
        """Fill every word."""
        words, value = cast("tuple[Array, int]", item.args)
        words[...] = value
        return None


class BatchCopy(Copy):
    """Many copies as one: ``args`` are pairs of destination and source."""

    __slots__ = ()

    def run(self, item: Item) -> object:
        """Copy them all."""
        for target, source in cast("tuple[tuple[Array, Array], ...]", item.args):
            np.copyto(target, source)
        return None


class Reduce(Copy):
    """``args`` are the target, the source and the operation."""

    __slots__ = ()

    def run(self, item: Item) -> object:
        """Combine them in place."""
        target, source, op = cast("tuple[Array, Array, str]", item.args)
        OPERATIONS[op](target, source, out=target)
        return None


class Random(Copy):
    """``args`` are the array, the distribution, seed, offset and parameters."""

    __slots__ = ()

    def run(self, item: Item) -> object:
        """Draw from a counter-based generator, so that the numbers depend on nothing but seed and offset."""
        assert item.args is not None
        array, distribution, seed, offset, parameters = cast(
            "tuple[Array, str, int, int, tuple[float, ...]]", item.args
        )
        draw = np.random.Generator(np.random.Philox(key=seed % (1 << 128), counter=offset % (1 << 256)))
        shape = array.shape
        if distribution == "dropout":
            bits = draw.random((array.size, 8)) >= parameters[0]
            array[...] = np.packbits(bits, axis=1).reshape(shape)
        elif distribution == "uniform" and array.dtype.kind in "iu":
            array[...] = draw.integers(int(parameters[0]), int(parameters[1]), shape, dtype=array.dtype)
        elif distribution == "uniform":
            array[...] = draw.uniform(parameters[0], parameters[1], shape)
        else:
            numbers = draw.standard_normal(shape)
            while distribution == "truncated_normal" and (far := np.abs(numbers) > TRUNCATED_AT).any():
                numbers[far] = draw.standard_normal(int(far.sum()))
            array[...] = parameters[0] + parameters[1] * numbers
        return None
