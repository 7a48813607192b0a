"""``cann-async trace`` and ``cann-async info``: what a saved trace says, and what is simulated. They only print."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from . import __version__
from .runtime import device_count, socs
from .soc import Soc, find
from .timeline import Timeline
from .timeline.text import columns

UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"))


def trace(file: Path, action: str, other: Path | None, format: str | None, soc: str | None) -> int:
    """Read a trace, replay it on another Soc if one is named, do what was asked, and give the exit code."""
    try:
        timeline = _load(file, soc)
        if action == "compare" and other is not None:
            print(timeline.compare(_load(other, None)))
        elif action == "convert" and other is not None:
            print(f"written: {timeline.save(other, format)}")
        elif action == "show":
            timeline.show()
        else:
            print(_say(timeline, action))
    except (OSError, ValueError, ImportError) as problem:
        print(f"cann-async trace: {problem}", file=sys.stderr)
        return 1
    return 0


def _load(file: Path, soc: str | None) -> Timeline:
    timeline = Timeline.load(file)
    return timeline if soc is None else timeline.replay(soc)


def _say(timeline: Timeline, action: str) -> str:
    if action == "advice":
        return str(timeline.advice())
    if action == "path":
        return str(timeline.critical_path())
    if action == "gaps":
        return str(timeline.gaps())
    if action == "summary":
        return str(timeline.summary())
    return f"{timeline.summary()}\n\n{timeline.advice()}"


def info(soc: str | None) -> int:
    """Print a table of the devices that a runtime would have, and of the presets; give the exit code."""
    try:
        name = soc if soc is not None else os.environ.get("CANN_ASYNC_SOC", "ascend910b")
        chip, count = find(name), device_count()
    except (OSError, ValueError) as problem:
        print(f"cann-async info: {problem}", file=sys.stderr)
        return 1
    clock = os.environ.get("CANN_ASYNC_CLOCK", "wall")
    print(f"cann-async {__version__}: {count} simulated device{'s' * (count > 1)}, {clock} clock\n")
    print(_table([(f"npu:{index}", chip) for index in range(count)], "device"))
    print("\nSoc presets (CANN_ASYNC_SOC, or soc= when a runtime is made):\n")
    print(_table([(each, find(each)) for each in socs()], "preset"))
    return 0


def _table(chips: list[tuple[str, Soc]], head: str) -> str:
    rows = [
        [
            label,
            chip.name,
            f"{chip.ai_cores} + {chip.vector_cores}",
            chip.ai_cpus,
            chip.dvpp_channels,
            _size(chip.memory_bytes),
            f"{chip.memory_bandwidth / 1e9:.0f} GB/s",
            f"{chip.peak_flops / 1e12:.0f} TFLOPS",
            f"{chip.h2d_bandwidth / 1e9:.0f} / {chip.d2h_bandwidth / 1e9:.0f} GB/s",
        ]
        for label, chip in chips
    ]
    heads = [head, "Soc", "cube + vector", "AI CPUs", "DVPP", "memory", "bandwidth", "half", "copy in / out"]
    if head == "preset":  # its label is the Soc's name
        heads, rows = heads[1:], [row[1:] for row in rows]
    return columns(heads, rows, (0, 1) if head == "device" else (0,))


def _size(nbytes: int) -> str:
    scale, unit = next((pair for pair in UNITS if nbytes >= pair[0]), UNITS[-1])
    return f"{nbytes / scale:g} {unit}"
