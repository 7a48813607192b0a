"""What a chip is and how long work takes on it: the model by itself, files, presets, and the tables of docs/soc.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cann_async.soc import PRESETS, Cost, Soc, find
from cann_async.soc.model import DTYPES

PAGE = (Path(__file__).parent.parent / "docs" / "soc.md").read_text(encoding="utf-8")
COPY = 512 << 20


def matmul(chip: str, n: int, dtype: str) -> float:
    """Give the TFLOPS at which the model multiplies two square matrices."""
    soc, operations = PRESETS[chip], 2 * n**3
    cost = Cost(operations, 3 * n * n * (4 if dtype == "float32" else 2), dtype=dtype)
    return operations / soc.launch_time_ns(cost, "ai_core", soc.ai_cores, soc.ai_cores) / 1e3


def launch_and_wait(chip: str) -> float:
    """Give the microseconds of a small launch and a synchronize, one after the other."""
    soc = PRESETS[chip]
    return (2 * soc.host_call_ns + soc.launch_time_ns(Cost(1024, 4096), "ai_vector", 1, 1)) / 1e3


def copy(engine: str) -> float:
    """Give the GB/s of a large copy."""
    return COPY / PRESETS["ascend910b"].copy_time_ns(engine, COPY)


def memory(chip: str) -> float:
    """Give the TB/s that a launch reaches which only moves bytes."""
    soc = PRESETS[chip]
    return COPY / soc.launch_time_ns(Cost(0, COPY), "ai_vector", soc.vector_cores, soc.vector_cores) / 1e3


MEASURED = {
    "matmul, n = 1024, float16": matmul("ascend910b2", 1024, "float16"),
    "matmul, n = 2048, float16": matmul("ascend910b2", 2048, "float16"),
    "matmul, n = 4096, float16": matmul("ascend910b2", 4096, "float16"),
    "matmul, n = 8192, float16": matmul("ascend910b2", 8192, "float16"),
    "matmul, n = 10240, float16": matmul("ascend910b2", 10240, "float16"),
    "matmul, n = 4096, bfloat16": matmul("ascend910b2", 4096, "bfloat16"),
    "matmul, n = 1024, float32": matmul("ascend910b2", 1024, "float32"),
    "matmul, n = 4096, float32": matmul("ascend910b2", 4096, "float32"),
    "matmul's loads, N = 4096": memory("ascend910b"),
    "matmul's loads, N = 16384": memory("ascend910b"),
    "scan, share of the bandwidth": 100 * memory("ascend910b4") / PRESETS["ascend910b4"].memory_bandwidth * 1e12,
    "copy to the device": copy("h2d"),
    "copy to the host": copy("d2h"),
    "copy within the device": copy("d2d"),
    "enqueue, eager add": PRESETS["ascend910b2"].host_call_ns / 1e3,
    "enqueue, C launcher": PRESETS["ascend910b2"].host_call_ns / 1e3,
    "launch and synchronize, 910B3": launch_and_wait("ascend910b3"),
    "launch and synchronize, 310P": launch_and_wait("ascend310p"),
}
"""What the model gives for each row of the page, in the unit of the row."""


def rows(heading: str) -> list[list[str]]:
    """Give the cells of the one table under a heading of the page."""
    part = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def verdict(measured: str, model: float) -> str:
    """Say how far off the model is, as the page says it."""
    low, *high = (float(number) for number in re.findall(r"[\d.]+", measured))
    if not high:
        return f"{model / low:.2f}x"
    return "below" if model < low else "above" if model > high[0] else "inside"


def test_the_page_says_what_the_model_gives() -> None:
    """Every row of the table of measurements holds the model's own figure, and how far off it is."""
    table = rows("Against public measurements")
    assert [row[0] for row in table] == list(MEASURED)
    for what, measured, model, off, source in table:
        unit = measured.split()[-1]
        assert model == f"{MEASURED[what]:.3g} {unit}", what
        assert off == verdict(measured, MEASURED[what]), what
        assert f"\n[{source.strip('[]')}]: http" in PAGE, what


def test_the_page_has_every_preset() -> None:
    """The table of presets holds their figures, in their order."""
    table = rows("Presets")
    assert [row[0] for row in table] == [f"`{name}`" for name in PRESETS]
    for row, soc in zip(table, PRESETS.values(), strict=True):
        peaks = (soc.peak_flops, soc.peak_flops_fp32, soc.peak_ops_int8, soc.vector_flops, soc.vector_flops_fp32)
        assert row[1] == f"{soc.ai_cores} + {soc.vector_cores}"
        assert row[2] == f"{soc.memory_bytes >> 30} GiB"
        assert row[3] == f"{soc.memory_bandwidth / 1e9:g}"
        assert row[4:9] == [f"{peak / 1e12:.3g}" for peak in peaks]
        assert row[9] == f"{soc.host_call_ns / 1e3:g}"


def test_the_default_soc_is_the_910b() -> None:
    """A Soc without arguments is the preset, but for its name."""
    assert Soc(name="ascend910b") == PRESETS["ascend910b"]


@pytest.mark.parametrize(
    ("chip", "peak", "bandwidth", "ns"),
    (
        ("ascend910b", 313e12, 1.6e12, 46_002),
        ("ascend310p", 70e12, 204.8e9, 195_282),
        ("ascend310b", 10e12, 51.2e9, 1_348_972),
    ),
)
def test_times_of_half_precision_are_as_ever(chip: str, peak: float, bandwidth: float, ns: int) -> None:
    """What launches took before a cost had a dtype they take now."""
    soc = PRESETS[chip]
    assert (soc.peak_flops, soc.memory_bandwidth) == (peak, bandwidth)
    cost = Cost(2 * 1888**3, 1 << 20)
    assert soc.launch_time_ns(cost, "ai_core", soc.ai_cores, soc.ai_cores) == ns
    assert soc.service("ai_core", 1 << 20, cost.packed(), soc.ai_cores, soc.ai_cores) == (ns, 1 << 20)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_dtype_chooses_the_peak(dtype: str) -> None:
    """On the AI cores each has its own, on the others float32 has; a packed cost keeps it."""
    soc = Soc(
        peak_flops=4e12,
        peak_flops_fp32=1e12,
        peak_ops_int8=8e12,
        vector_flops=2e12,
        vector_flops_fp32=0.5e12,
        launch_ns=0,
    )
    core = {"float32": 1e12, "int8": 8e12}.get(dtype, 4e12)
    vector = {"float32": 0.5e12}.get(dtype, 2e12)
    assert soc.peak("ai_core", dtype) == core
    for engine in ("ai_vector", "ai_cpu", "dvpp"):
        assert soc.peak(engine, dtype) == vector
    cost = Cost(10**9, 7, dtype=dtype)
    for engine, peak, cores in (("ai_core", core, soc.ai_cores), ("ai_vector", vector, soc.vector_cores)):
        ns = round(1e18 / peak)
        assert soc.launch_time_ns(cost, engine, cores, cores) == ns
        assert soc.service(engine, 7, cost.packed(), cores, cores) == (ns, 7)


def test_an_unknown_dtype_is_named() -> None:
    """So are those that are known; also where a cost is packed."""
    for attempt in (
        lambda: Cost(1, dtype="float64").packed(),
        lambda: Soc().peak("ai_core", "float64"),
        lambda: Soc().launch_time_ns(Cost(1, dtype="float64"), "ai_core", 1, 1),
    ):
        with pytest.raises(ValueError, match=r"unknown dtype 'float64'; a cost knows float16, .*int8"):
            attempt()


def test_a_packed_cost_fits_into_64_bits() -> None:
    """The most operations that a launch may cost, and a fixed time, which has no dtype."""
    assert Cost().packed() == 0
    assert 0 < Cost(0.99e18, dtype="int8").packed() < 1 << 63
    assert Cost(seconds=1e-6, dtype="int8").packed() == ~1000
    with pytest.raises(ValueError, match="cannot cost that"):
        Cost(1e18).packed()


def test_directions_have_their_own_latency() -> None:
    """Where it is not given it is that of all copies; 0 is a latency, too. Bytes moved are as they were."""
    soc = Soc(h2d_bandwidth=1e9, d2h_bandwidth=1e9, d2d_bandwidth=1e9, copy_latency_ns=500)
    own = soc.replace(h2d_latency_ns=0, d2d_latency_ns=70)
    assert [soc.copy_time_ns(engine, 9) for engine in ("h2d", "d2h", "d2d")] == [509, 509, 509]
    assert [own.copy_time_ns(engine, 9) for engine in ("h2d", "d2h", "d2d")] == [9, 509, 79]
    assert own.service("d2d", 4, 5, 1, 1) == (79, 18)
    assert own.copy_time_ns("h2d", 0) == own.copy_time_ns("host", 9) == 0


@pytest.mark.parametrize("field", ("peak_flops_fp32", "peak_ops_int8", "vector_flops_fp32", "ai_cores", "queue_depth"))
def test_nothing_comes_without_speed(field: str) -> None:
    """What has to be more than 0 says so, and infinity is no speed."""
    for bad in (0, -1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=rf"Soc\.{field} must be more than 0"):
            Soc().replace(**{field: bad})


@pytest.mark.parametrize("field", ("copy_latency_ns", "d2h_latency_ns", "launch_ns", "host_call_ns"))
def test_times_may_be_0_but_not_less(field: str) -> None:
    """An overhead can be left out."""
    assert getattr(Soc().replace(**{field: 0}), field) == 0
    with pytest.raises(ValueError, match=rf"Soc\.{field} must be 0 or more, not -1"):
        Soc().replace(**{field: -1})


def test_a_file_describes_a_chip(tmp_path: Path) -> None:
    """Fields stand on a base, or on the defaults; the name is the file's unless it says another."""
    path = tmp_path / "half.toml"
    path.write_text('base = "ascend910b3"\nai_cores = 10\nmemory_bandwidth = 800_000_000_000\nh2d_latency_ns = 7\n')
    soc = PRESETS["ascend910b3"].replace(name="half", ai_cores=10, memory_bandwidth=800_000_000_000, h2d_latency_ns=7)
    assert Soc.load(path) == find(str(path)) == soc
    path.write_text('name = "mine"\nhas_infinity = false')
    assert find(str(path)) == Soc(name="mine", has_infinity=False)


@pytest.mark.parametrize(
    ("text", "said"),
    (
        ("ai_coers = 8", "unknown field 'ai_coers'; a Soc has name, ai_cores, "),
        ('ai_cores = "8"', "ai_cores must be a whole number, not '8'"),
        ("ai_cores = 8.0", "ai_cores must be a whole number, not 8.0"),
        ("ai_cores = true", "ai_cores must be a whole number, not True"),
        ("h2d_latency_ns = 0.5", "h2d_latency_ns must be a whole number, not 0.5"),
        ('peak_flops = "fast"', "peak_flops must be a number, not 'fast'"),
        ("has_infinity = 1", "has_infinity must be true or false, not 1"),
        ("name = 1", "name must be a string, not 1"),
        ("ai_cores = 0", "Soc.ai_cores must be more than 0"),
        ("peak_flops = inf", "Soc.peak_flops must be more than 0 and finite, not inf"),
        ("[memory]", "unknown field 'memory'"),
        ('base = "ascend999"', "unknown soc 'ascend999'; there are ascend310b, "),
        ("base = 1", "base must be the name of a preset, not 1"),
        ("ai_cores =", "Invalid value"),
    ),
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str, said: str) -> None:
    """By file and field, whatever it is."""
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(said)) as raised:
        Soc.load(path)
    assert str(raised.value).startswith(f"{path}: ")


def test_a_file_that_is_not_there() -> None:
    """It is looked for because of how its name ends; other names are presets."""
    with pytest.raises(FileNotFoundError, match=r"nowhere\.toml"):
        find("nowhere.toml")
    with pytest.raises(ValueError, match=r"unknown soc 'nowhere'; there are ascend310b, .*ascend910b4"):
        find("nowhere")
