"""One chip as data, and the model of how long work takes on it."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import os

GIB = 1 << 30
FOREVER_S = 1e9
"""Thirty years: longer is a mistake."""
MOST = 1e18
"""Operations or bytes: more is a mistake. Packed they still fit into 64 bits."""
DTYPES = ("float16", "bfloat16", "float32", "int8")
CODES = {name: code for code, name in enumerate(DTYPES)}
LAUNCHED = ("ai_core", "ai_vector", "ai_cpu", "dvpp")
"""The engines that run launches; the others copy."""


def unknown_dtype(dtype: object) -> ValueError:
    """Make the error for a dtype that no peak is known for."""
    return ValueError(f"unknown dtype {dtype!r}; a cost knows {', '.join(DTYPES)}")


@dataclass(slots=True)
class Cost:
    """What one launch costs: `seconds` if given, else the roofline over `flops` and `bytes` of memory traffic.

    `dtype` is what it computes in and so which peak it can reach: float16, bfloat16, float32 or int8.

    Not frozen, because cost functions make one per launch and a frozen dataclass takes three times as long to make.
    """

    flops: float = 0
    bytes: float = 0
    seconds: float | None = None
    dtype: str = "float16"

    def packed(self) -> int:
        """Give what a task keeps of it besides the bytes: ``~nanoseconds``, or the operations and the dtype.

        Operations stand above the two bits of the dtype's place in `DTYPES`. What is absurd is a ValueError.
        """
        seconds = self.seconds
        if seconds is not None:
            if not 0 <= seconds < FOREVER_S:
                raise ValueError(f"a launch cannot take {seconds} seconds")
            return ~round(seconds * 1e9)
        if not (0 <= self.flops < MOST and 0 <= self.bytes < MOST):
            raise ValueError(f"a launch cannot cost that: {self}")
        code = CODES.get(self.dtype)
        if code is None:
            raise unknown_dtype(self.dtype)
        return round(self.flops) << 2 | code


@dataclass(frozen=True, slots=True)
class Soc:
    """One chip: how many of each engine, how much memory, how fast. Bandwidths are bytes per second.

    The defaults are the `ascend910b` preset's. `replace(...)` gives a changed copy, `load(path)` reads one from a file.
    docs/soc.md says where the figures come from and how far off they are.
    """

    name: str = "custom"
    ai_cores: int = 24
    vector_cores: int = 48
    ai_cpus: int = 6
    dvpp_channels: int = 4
    copy_engines: int = 1
    """Engines per direction: host to device, device to host, device to device."""
    memory_bytes: int = 64 * GIB
    memory_bandwidth: float = 1.6e12
    peak_flops: float = 313e12
    """Of all AI cores together, half precision (float16 and bfloat16)."""
    vector_flops: float = 19e12
    """Of all vector cores together, half precision and int8. AI CPUs and DVPP count as these, too."""
    h2d_bandwidth: float = 24e9
    d2h_bandwidth: float = 24e9
    d2d_bandwidth: float = 0.8e12
    copy_latency_ns: int = 5_000
    launch_ns: int = 3_000
    """What the device spends on one launch besides the kernel's own work."""
    queue_depth: int = 2013
    max_streams: int = 1984
    max_events: int = 65536
    max_notifies: int = 8192
    has_infinity: bool = True
    """Whether overflows can become infinite (INFNAN mode); a chip without it always saturates."""
    peak_flops_fp32: float = 78e12
    peak_ops_int8: float = 626e12
    vector_flops_fp32: float = 9.5e12
    h2d_latency_ns: int | None = None
    """Of one copy from host to device; None is `copy_latency_ns`. The next two likewise."""
    d2h_latency_ns: int | None = None
    d2d_latency_ns: int | None = None
    host_call_ns: int = 10_000
    """What one call of the API costs the host, in a runtime with `host_time`."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            name, value = field.name, getattr(self, field.name)
            if name in ("name", "has_infinity") or (value is None and field.default is None):
                continue
            if name.endswith("_ns"):
                if not 0 <= value < math.inf:
                    raise ValueError(f"Soc.{name} must be 0 or more, not {value!r}")
            elif not 0 < value < math.inf:
                raise ValueError(f"Soc.{name} must be more than 0 and finite, not {value!r}")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a Soc from a TOML file: any of its fields, and ``base`` as the preset that gives the others.

        Bandwidths are bytes per second, as here. Raises a ValueError that names the file and the field: unknown, of
        the wrong type, or out of range; an OSError if there is no such file.
        """
        from .loading import read

        return cls(**read(path))

    def replace(self, **changes: object) -> Soc:
        """Give a copy with some fields changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]  # checked by the dataclass itself

    def engines(self) -> dict[str, int]:
        """Name every engine and how much runs on it at once (cores, channels or lanes)."""
        return {
            "ai_core": self.ai_cores,
            "ai_vector": self.vector_cores,
            "ai_cpu": self.ai_cpus,
            "dvpp": self.dvpp_channels,
            "h2d": self.copy_engines,
            "d2h": self.copy_engines,
            "d2d": self.copy_engines,
            "host": 1,
        }

    def peak(self, engine: str, dtype: str) -> float:
        """Give the operations per second of all cores of an engine together; an unknown dtype is a ValueError."""
        if dtype not in CODES:
            raise unknown_dtype(dtype)
        if engine != "ai_core":
            return self.vector_flops_fp32 if dtype == "float32" else self.vector_flops
        if dtype == "float32":
            return self.peak_flops_fp32
        return self.peak_ops_int8 if dtype == "int8" else self.peak_flops

    def service(self, engine: str, nbytes: int, cost: int, blocks: int, cores: int) -> tuple[int, int]:
        """Model a task by what its record keeps: nanoseconds alone on the chip, and the bytes it moves in memory."""
        if engine in LAUNCHED:
            whole = Cost(cost >> 2, nbytes, dtype=DTYPES[cost & 3])
            return self.launch_time_ns(whole, engine, blocks, cores), nbytes
        moved = nbytes + cost
        return self.copy_time_ns(engine, moved), 2 * moved if engine == "d2d" else 0  # a link is slow beside the memory

    def launch_time_ns(self, cost: Cost, engine: str, blocks: int, cores: int) -> int:
        """Model one launch of `blocks` blocks on `cores` of the engine's cores; integer nanoseconds.

        `seconds` is taken as it is. Else the roofline: the cores in use bring their share of the peak, the last wave
        may be part empty, memory bandwidth is the chip's, and every launch pays `launch_ns`.
        """
        seconds = cost.seconds
        if seconds is not None:
            if not 0 <= seconds < FOREVER_S:
                raise ValueError(f"a launch cannot take {seconds} seconds")
            return round(seconds * 1e9)
        flops, nbytes = cost.flops, cost.bytes
        if not (flops >= 0 and nbytes >= 0):
            raise ValueError(f"a launch cannot cost less than nothing: {cost}")
        total = self.engines()[engine]
        waves = -(-blocks // cores)
        compute = flops / (self.peak(engine, cost.dtype) * cores / total) * (waves * cores / blocks)
        return round(max(compute, nbytes / self.memory_bandwidth) * 1e9) + self.launch_ns

    def copy_time_ns(self, engine: str, nbytes: int) -> int:
        """Model a copy: latency plus bytes over bandwidth, rounded up; an empty copy takes no time."""
        if nbytes == 0 or engine == "host":
            return 0
        bandwidth, latency = {
            "h2d": (self.h2d_bandwidth, self.h2d_latency_ns),
            "d2h": (self.d2h_bandwidth, self.d2h_latency_ns),
            "d2d": (self.d2d_bandwidth, self.d2d_latency_ns),
        }[engine]
        return (self.copy_latency_ns if latency is None else latency) + -int(-nbytes * 1e9 // bandwidth)
