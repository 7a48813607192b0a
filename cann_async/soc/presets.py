"""Three chips by name: cores, memory and peaks are of the order published for each class; the rest is assumed."""

from __future__ import annotations

from .model import GIB, Soc

PRESETS: dict[str, Soc] = {
    "ascend910b": Soc(name="ascend910b"),
    "ascend310p": Soc(
        name="ascend310p",
        ai_cores=8,
        vector_cores=8,
        ai_cpus=7,
        dvpp_channels=4,
        memory_bytes=24 * GIB,
        memory_bandwidth=204.8e9,
        peak_flops=70e12,
        vector_flops=2.2e12,
        h2d_bandwidth=12e9,
        d2h_bandwidth=12e9,
        d2d_bandwidth=80e9,
        max_streams=1024,
        max_events=1023,
        has_infinity=False,
    ),
    "ascend310b": Soc(
        name="ascend310b",
        ai_cores=1,
        vector_cores=1,
        ai_cpus=4,
        dvpp_channels=2,
        memory_bytes=8 * GIB,
        memory_bandwidth=51.2e9,
        peak_flops=10e12,
        vector_flops=0.3e12,
        h2d_bandwidth=8e9,
        d2h_bandwidth=8e9,
        d2d_bandwidth=20e9,
        max_streams=512,
        has_infinity=False,
    ),
}


def find(soc: str | Soc) -> Soc:
    """Give the Soc itself or the preset of that name; an unknown name is a ValueError that lists the known ones."""
    if isinstance(soc, Soc):
        return soc
    if not isinstance(soc, str):
        raise TypeError(f"soc must be a preset's name or a Soc, not {type(soc).__name__}")
    try:
        return PRESETS[soc]
    except KeyError:
        raise ValueError(f"unknown soc {soc!r}; there are {', '.join(sorted(PRESETS))}") from None
