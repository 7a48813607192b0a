"""One chip as data, and the model of how long work takes on it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

GIB = 1 << 30
FOREVER_S = 1e9
MOST = 1e18
"""Thirty years: longer is a mistake."""


@dataclass(slots=True)
class Cost:
    """What one launch costs: `seconds` if given, else the roofline over `flops` and `bytes` of memory traffic.

    Not frozen, because cost functions make one per launch and a frozen dataclass takes three times as long to make.
    """

    flops: float = 0
    bytes: float = 0
    seconds: float | None = None

    def packed(self) -> int:
        """Give what a task keeps of it besides the bytes: ``~nanoseconds``, or the operations; a ValueError if absurd."""
        seconds = self.seconds
        if seconds is not None:
            if not 0 <= seconds < FOREVER_S:
                raise ValueError(f"a launch cannot take {seconds} seconds")
            return ~round(seconds * 1e9)
        if not (0 <= self.flops < MOST and 0 <= self.bytes < MOST):
            raise ValueError(f"a launch cannot cost that: {self}")
        return round(self.flops)


@dataclass(frozen=True, slots=True)
class Soc:
    """One chip: how many of each engine, how much memory, how fast. Bandwidths are bytes per second.

    The defaults are the `ascend910b` preset's. `replace(...)` gives a changed copy.
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
    """Of all AI cores together, half precision."""
    vector_flops: float = 19e12
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

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if (
                field.name != "name"
                and not value > 0
                and field.name not in ("copy_latency_ns", "launch_ns", "has_infinity")
            ):
                raise ValueError(f"Soc.{field.name} must be more than 0, not {value!r}")

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

    def service(self, engine: str, nbytes: int, cost: int, blocks: int, cores: int) -> tuple[int, int]:
        """Model a task by what its record keeps: nanoseconds alone on the chip, and the bytes it moves in memory."""
        if engine in ("ai_core", "ai_vector", "ai_cpu", "dvpp"):
            return self.launch_time_ns(Cost(cost, nbytes), engine, blocks, cores), nbytes
        moved = nbytes + cost
        return self.copy_time_ns(engine, moved), 2 * moved if engine == "d2d" else moved

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
        peak = self.peak_flops if engine == "ai_core" else self.vector_flops
        waves = -(-blocks // cores)
        compute = flops / (peak * cores / total) * (waves * cores / blocks)
        return round(max(compute, nbytes / self.memory_bandwidth) * 1e9) + self.launch_ns

    def copy_time_ns(self, engine: str, nbytes: int) -> int:
        """Model a copy: latency plus bytes over bandwidth, rounded up; an empty copy takes no time."""
        if nbytes == 0 or engine == "host":
            return 0
        bandwidth = {"h2d": self.h2d_bandwidth, "d2h": self.d2h_bandwidth, "d2d": self.d2d_bandwidth}[engine]
        return self.copy_latency_ns + -int(-nbytes * 1e9 // bandwidth)
