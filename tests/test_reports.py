"""The commands `trace` and `info`: run as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import cann_async as ca
import cann_async.sync as blocking
from cann_async.__main__ import main

from .helpers import SOC, work


@pytest.fixture
def traces(tmp_path: Path) -> tuple[Path, Path]:
    """Save the same work on one stream and on three."""
    saved = []
    for count in (1, 3):
        with blocking.open_device(clock="virtual", soc=SOC) as device:
            lanes = [device.create_stream(name=f"lane {i}") for i in range(count)]
            host, buffers = device.malloc_host((6, 40_000), np.uint8), device.empty((count, 40_000), np.uint8)
            for batch in range(6):
                lane = batch % count
                lanes[lane].memcpy(buffers[lane], host[batch])
                lanes[lane].launch(work(40), name="compute", blocks=4)
                lanes[lane].memcpy(host[batch], buffers[lane])
            for lane in lanes:
                lane.close()
            saved.append(device.timeline.save(tmp_path / f"{count}.json"))
    return saved[0], saved[1]


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ([], ["18 tasks in 720 us", "Communication not overlapped", "stream-per-engine"]),
        (["summary"], ["18 tasks in 720 us"]),
        (["advice"], ["stream-per-engine", "expected: 720 us"]),
        (["path"], ["critical path: 720 us"]),
        (["gaps"], ["compute -> compute"]),
        (["show"], ["lane 0", "copy in"]),
    ],
)
def test_a_trace_says_what_is_in_it(traces, capsys, action, words):
    """Each action prints its part; without one it is the summary and the advice."""
    assert main(["trace", str(traces[0]), *action]) == 0
    out = capsys.readouterr().out
    for word in words:
        assert word in out


def test_two_traces_side_by_side(traces, capsys):
    """The first is before, the second after."""
    assert main(["trace", str(traces[0]), "compare", str(traces[1])]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["total", "720", "us", "320", "us", "2.25x"]


@pytest.mark.parametrize("name", ["t.json", "t.json.gz", "t.html", "t.svg", "t.pftrace"])
def test_a_trace_is_converted(traces, tmp_path, capsys, name):
    """By the suffix of the output."""
    if name.endswith("pftrace"):
        pytest.importorskip("perfetto", reason="needs the extra cann-async[perfetto]")
    assert main(["trace", str(traces[0]), "convert", str(tmp_path / name)]) == 0
    assert str(tmp_path / name) in capsys.readouterr().out
    assert (tmp_path / name).stat().st_size > 0
    if ".json" in name:
        assert len(ca.Timeline.load(tmp_path / name)) == 18


def test_a_trace_is_converted_for_msprof(traces, tmp_path):
    """Into a folder, by its format."""
    assert main(["trace", str(traces[0]), "convert", str(tmp_path / "prof"), "--format", "msprof"]) == 0
    (found,) = (tmp_path / "prof").rglob("msprof_*.json")
    assert json.loads(found.read_text())


def test_a_trace_on_another_soc(traces, capsys):
    """It is replayed first."""
    assert main(["trace", "--soc", "ascend310b", str(traces[0]), "summary"]) == 0
    assert "18 tasks in 720 us" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["missing.json"], "missing.json"),
        (["{trace}", "convert", "{folder}/x.papyrus"], "cannot write"),
        (["{trace}", "convert", "{folder}/none/x.html"], "none"),
        (["{trace}", "compare", "{folder}/3.txt"], "3.txt"),
        (["--soc", "ascend9000", "{trace}"], "ascend9000"),
    ],
)
def test_what_cannot_be_done_is_said(traces, tmp_path, capsys, arguments, says):
    """In one line on stderr, with exit code 1."""
    filled = [argument.format(trace=traces[0], folder=tmp_path) for argument in arguments]
    assert main(["trace", *filled]) == 1
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_info_shows_the_devices_and_the_presets(capsys, monkeypatch):
    """As a runtime would have them; it starts none."""
    monkeypatch.setenv("CANN_ASYNC_DEVICES", "2")
    monkeypatch.setenv("CANN_ASYNC_SOC", "ascend310p")
    assert main(["info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "2 simulated devices" in lines[0]
    assert [line.split()[:2] for line in lines if line.startswith("npu:")] == [
        ["npu:0", "ascend310p"],
        ["npu:1", "ascend310p"],
    ]
    assert {line.split()[0] for line in lines[6:] if line.startswith("ascend")} == set(ca.socs())
    assert max(map(len, lines)) <= 110


@pytest.mark.parametrize(("name", "value"), [("CANN_ASYNC_SOC", "ascend9000"), ("CANN_ASYNC_DEVICES", "many")])
def test_info_says_what_is_wrong(capsys, monkeypatch, name, value):
    """With the setting's own words."""
    monkeypatch.setenv(name, value)
    assert main(["info"]) == 1
    assert value in capsys.readouterr().err
