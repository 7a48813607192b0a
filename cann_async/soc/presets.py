"""Chips by name. Every figure has its source here, or is called assumed; docs/soc.md has the addresses.

Three kinds of figures are public. CANN's runtime ships a configuration for each chip ("config" below: cores, clocks,
memory, AI CPUs). MindStudio's tables give peaks of the matrix units, which are cores x clock x 8192 float16 operations
(a cube does 16 x 16 x 16 multiply-adds in a clock). Product pages and reports of users give the rest. Figures that are
advertised (376 and 313 TFLOPS for 910B2 and 910B3) are those peaks and the vector units' together.

Assumed everywhere: bandwidths and latencies of copies, `launch_ns` and `dvpp_channels`. A copy within the device moves
at half the memory bandwidth, since each byte is read and written (on 310P and 310B a little less).
"""

from __future__ import annotations

from .model import GIB, Soc

CUBE = 2 * 16**3
"""Operations of one matrix unit in a clock, float16: config, `cube_m_size` and its like."""
VECTOR = 2 * 128
"""Operations of one vector core in a clock, float16: config, `vec_calc_size`, times two for multiply-add."""


def _a2(name: str, ai_cores: int, ghz: float, memory_gib: int = 64, bandwidth: float = 1.6e12) -> Soc:
    """Give a variant of 910B: two vector cores to a matrix core, peaks from the clock.

    int8 is twice float16 (config: K is 32). float32 is a quarter in the matrix units, of which a user measured 96 %
    (docs/soc.md), and half in the vector units: assumed.
    """
    cube = round(ai_cores * CUBE * ghz * 1e9)
    vector = round(2 * ai_cores * VECTOR * ghz * 1e9)
    return Soc(
        name=name,
        ai_cores=ai_cores,
        vector_cores=2 * ai_cores,
        memory_bytes=memory_gib * GIB,
        memory_bandwidth=bandwidth,
        d2d_bandwidth=bandwidth / 2,
        peak_flops=cube,
        peak_flops_fp32=cube / 4,
        peak_ops_int8=2 * cube,
        vector_flops=vector,
        vector_flops_fp32=vector / 2,
    )


ASCEND910B = Soc(name="ascend910b")
"""A training card of the 910B class, no particular one: 24 cores (config, 910B2) with the 313 TFLOPS of a 910B3.

6 AI CPUs, 64 GiB: config. 1.6 TB/s: public notes on kernels for this class. Peaks of other types: as in `_a2`, rounded.
Limits of streams, events, notifies and queues: CANN's documentation. `host_call_ns`: between two public measurements.
"""

ASCEND910B1 = _a2("ascend910b1", 25, 1.85)
"""378.9 TFLOPS float16: MindStudio, which is 25 cores at 1.85 GHz (config; it lists 24 cores). 64 GiB: config."""

ASCEND910B2 = _a2("ascend910b2", 24, 1.8)
"""24 cores, 1.8 GHz, 64 GiB: config. 353.9 TFLOPS float16: MindStudio, and the same from the clock."""

ASCEND910B3 = _a2("ascend910b3", 20, 1.8)
"""20 cores, 1.8 GHz, 64 GiB: config. 294.9 TFLOPS float16: MindStudio, and the same from the clock."""

ASCEND910B4 = _a2("ascend910b4", 20, 1.65, memory_gib=32, bandwidth=0.8e12)
"""20 cores, 32 GiB: config. 270 TFLOPS float16: MindStudio, which is 1.65 GHz (config: 1.5). 0.8 TB/s: assumed."""

ASCEND310P = Soc(
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
    peak_flops_fp32=1.1e12,
    peak_ops_int8=140e12,
    vector_flops_fp32=1.1e12,
    host_call_ns=35_000,
)
"""An inference card with one 310P.

8 AI cores, 7 AI CPUs, 24 GB, and 70 TFLOPS float16 from 1.06 GHz: config (310P3; it lists 7 vector cores, 8 are ours).
140 TOPS int8 and 204 GB/s: half of the card with two, as the press gives it. Vector units: assumed as 8 at 1.06 GHz.
The matrix units know no float32 (config), so that runs on the vector units. Streams, events: CANN's documentation.
`host_call_ns`: fitted to one public measurement of a launch with its synchronize.
"""

ASCEND310B = Soc(
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
    peak_flops_fp32=2.5e12,
    peak_ops_int8=20e12,
    vector_flops_fp32=0.15e12,
    host_call_ns=35_000,
)
"""An edge module with a 310B1.

1 core, 4 AI CPUs, 10 TFLOPS float16 and 20 TOPS int8 from 1.224 GHz: config. Streams: CANN's documentation. Assumed:
8 GiB, 51.2 GB/s (LPDDR4X on 128 bits), float32, vector units as one at 1.224 GHz, `host_call_ns` as on the 310P.
"""

ASCEND310B4 = ASCEND310B.replace(
    name="ascend310b4",
    memory_bytes=4 * GIB,
    memory_bandwidth=25.6e9,
    d2d_bandwidth=10e9,
    peak_flops=4e12,
    peak_flops_fp32=1e12,
    peak_ops_int8=8e12,
    vector_flops=0.128e12,
    vector_flops_fp32=0.064e12,
)
"""The 310B4 of the Atlas 200I DK A2 developer kit.

1 core at 0.5 GHz, 4 TFLOPS float16, 8 TOPS int8, 4 GB of LPDDR4X at 3200 Mbit/s on 64 bits, which is 25.6 GB/s: its
product page. The rest is assumed in proportion to the 310B1.
"""

PRESETS: dict[str, Soc] = {
    soc.name: soc
    for soc in (
        ASCEND910B,
        ASCEND910B1,
        ASCEND910B2,
        ASCEND910B3,
        ASCEND910B4,
        ASCEND310P,
        ASCEND310B,
        ASCEND310B4,
    )
}


def find(soc: str | Soc) -> Soc:
    """Give the Soc itself, the preset of that name, or what a file ending in ``.toml`` describes.

    An unknown name is a ValueError that lists the known ones; `Soc.load` says what is wrong with a file.
    """
    if isinstance(soc, Soc):
        return soc
    if not isinstance(soc, str):
        raise TypeError(f"soc must be a preset's name or a Soc, not {type(soc).__name__}")
    return Soc.load(soc) if soc.endswith(".toml") else preset(soc)


def preset(name: str) -> Soc:
    """Give the preset of that name; an unknown name is a ValueError that lists the known ones."""
    try:
        return PRESETS[name]
    except KeyError:
        raise ValueError(f"unknown soc {name!r}; there are {', '.join(sorted(PRESETS))}") from None
