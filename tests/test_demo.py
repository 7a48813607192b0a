"""The command line and its demo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cann_async as ca
from cann_async.__main__ import main
from cann_async.demo import overlap
from cann_async.timeline.text import Style

PACKAGE_FOLDER = Path(ca.__file__).resolve().parents[1]


def run_module(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m cann_async`` with the package under test and no settings of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CANN_ASYNC_")}
    return subprocess.run(
        [sys.executable, "-m", "cann_async", *arguments],
        cwd=cwd,
        env={**kept, "PYTHONPATH": str(PACKAGE_FOLDER), "PYTHONIOENCODING": "utf-8", **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Run the demo once, in a folder of its own."""
    folder = tmp_path_factory.mktemp("demo")
    ended = run_module("demo", cwd=folder, COLUMNS="120")
    return SimpleNamespace(folder=folder, code=ended.returncode, out=ended.stdout, err=ended.stderr)


def test_demo_ends_well(shown: SimpleNamespace) -> None:
    """Exit code 0, nothing on stderr, no line wider than the terminal, no colours in a pipe."""
    assert (shown.code, shown.err) == (0, "")
    assert max(map(len, shown.out.splitlines())) <= 120
    assert "\x1b" not in shown.out


def test_demo_shows_the_ten_steps_in_order(shown: SimpleNamespace) -> None:
    """Each with its number and its CANN call."""
    calls = ["aclrtSetDevice", "aclrtCreateStream", "aclrtMallocHost", "aclrtMalloc", "aclrtMemcpyAsync"]
    calls += ["aclrtLaunchKernel", "aclrtSynchronizeStream", "aclrtMemcpy", "aclrtFree", "aclrtResetDevice"]
    steps = [line for line in shown.out.splitlines() if "  aclrt" in line]
    assert [int(line.split()[0]) for line in steps] == list(range(1, 11))
    assert all(f"  {call}" in line for call, line in zip(calls, steps, strict=True))
    assert "z equals x + y in NumPy" in shown.out


def test_demo_compares_on_both_clocks(shown: SimpleNamespace) -> None:
    """The virtual figures are exact, and every result is checked."""
    lines = shown.out.splitlines()
    wall = next(line for line in lines if line.startswith("wall clock  "))
    virtual = next(line for line in lines if line.startswith("virtual clock  "))
    assert " ".join(virtual.split()) == "virtual clock 4.57 ms 1.65 ms 2.77x all equal to NumPy"
    assert wall.endswith("all equal to NumPy")
    assert "bare threads" in shown.out
    assert sum("1 stream: " in line and "3 streams: " in line for line in lines) == 2, "side by side"


def test_demo_saves_the_trace(shown: SimpleNamespace) -> None:
    """Every copy and kernel of the virtual runs is a slice on an engine's track, and none overlap there."""
    trace = json.loads((shown.folder / "cann-async-demo.json").read_text())
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    engines = [event for event in slices if event["args"].get("cores")]
    assert trace["otherData"]["clock"] == "virtual"
    assert len(engines) == 2 * 3 * overlap.BATCHES
    ends: dict[tuple[int, int], float] = {}
    for event in sorted(engines, key=lambda event: event["ts"]):
        track = (event["pid"], event["tid"])
        assert event["ts"] >= ends.get(track, 0) - 1e-6
        ends[track] = event["ts"] + event["dur"]


def test_narrow_ascii_terminal(tmp_path: Path) -> None:
    """Where the encoding has no blocks, and for 80 columns."""
    ended = run_module("demo", "--output", "trace.json", cwd=tmp_path, COLUMNS="80", PYTHONIOENCODING="ascii")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.isascii()
    assert max(map(len, ended.stdout.splitlines())) <= 80
    assert (tmp_path / "trace.json").exists()


def test_virtual_part_is_the_same_every_time(tmp_path: Path) -> None:
    """Two runs save the same bytes."""
    paths = [tmp_path / "1.json", tmp_path / "2.json"]
    for path in paths:
        single, several = ca.run(overlap.measure, "virtual", path)
        assert (single.took_ns, several.took_ns) == (4_568_544, 1_652_188)
        assert not single.wrong + several.wrong
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_wrong_results_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kernel that spoils a pixel: exit code 1, and a text that says where."""

    def spoilt(block: ca.Block, x: Any, y: Any) -> None:
        np.power(x, overlap.GAMMA, out=y)
        y[7, 7] += 1

    monkeypatch.setattr(overlap, "BATCHES", 4)
    monkeypatch.setattr(overlap, "REPEATS", 1)
    monkeypatch.setattr(overlap.gamma, "body", spoilt)
    assert not overlap.show_overlap(tmp_path / "trace.json", 80, Style())
    assert main(["demo", "--output", str(tmp_path / "trace.json")]) == 1
    told = capsys.readouterr()
    assert "WRONG: 4 of 4 batches differ from NumPy (virtual clock, 3 streams)" in told.err
    assert "all equal" not in told.out


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` and `--help` end with 0; without a command it is 2."""
    for arguments, code in ((["--version"], 0), (["--help"], 0), (["demo", "--help"], 0), ([], 2)):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == code
    assert f"cann-async {ca.__version__}" in capsys.readouterr().out


@pytest.mark.parametrize(("path", "says"), [("trace.txt", "cannot write"), ("no/folder/x.json", "no folder")])
def test_output_is_checked_first(path: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A path that cannot be written is refused before anything runs."""
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--output", path])
    assert ended.value.code == 2
    told = capsys.readouterr()
    assert says in told.err
    assert not told.out
