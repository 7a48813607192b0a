"""The folder for MindStudio Insight, against the form that msprof gives it."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

import cann_async.sync as blocking

from .helpers import SOC, work
from .test_timeline import pipeline

pytestmark = pytest.mark.timeout(30)
COLUMNS = {
    "op_summary": "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us),"
    "Task Duration(us),Task Wait Time(us),Block Dim,Mix Block Dim,HF32 Eligible,Input Shapes,Input Data Types,"
    "Input Formats,Output Shapes,Output Data Types,Output Formats,Context ID",
    "op_statistic": "Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)",
    "api_statistic": "Device_id,Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance",
    "task_time": "Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)",
}
HARDWARE = {"Model Id", "Task Type", "Physic Stream Id", "Task Id", "Batch Id", "Subtask Id", "connection_id"}
HOST = {"Thread Id", "Mode", "level", "id", "item_id", "connection_id"}
ROWS = ["Computing", "Communication", "Communication(Not Overlapped)", "Free"]


def save(device, path: Path) -> tuple[list[dict], dict[str, list[dict[str, str]]]]:
    """Save the folder, and give the events and the tables in it."""
    assert device.runtime.timeline.save(path, format="msprof") == path
    (profile,) = path.iterdir()
    assert profile.name.startswith("PROF_")
    (output,) = profile.iterdir()
    assert output.name == "mindstudio_profiler_output"
    names = {re.fullmatch(r"([a-z_]+)_(\d{14})\.(json|csv)", file.name).groups(): file for file in output.iterdir()}
    assert {(name, kind) for name, _, kind in names} == {("msprof", "json"), *((name, "csv") for name in COLUMNS)}
    files = {name: file for (name, _, _), file in names.items()}
    events = json.loads(files["msprof"].read_text(encoding="utf-8"))
    tables = {}
    for name, columns in COLUMNS.items():
        with files[name].open(encoding="utf-8", newline="") as file:
            assert file.readline().rstrip("\n") == columns
            file.seek(0)
            tables[name] = list(csv.DictReader(file))
    return events, tables


def test_the_layers_and_what_they_are_called(tmp_path):
    """Processes by msprof's formula, with names, labels and places; rows named after streams and threads."""
    with blocking.open_device(clock="virtual", soc=SOC, devices=2) as device:
        pipeline(device)
        device.runtime.device(1).default_stream.launch(work(1)).result()
        events, _ = save(device, tmp_path / "out")
        streams = {(r.device, r.stream) for r in device.runtime.timeline.records if r.stream >= 0}
    about: dict[int, dict[str, object]] = {}
    for e in events:
        if e["ph"] == "M" and e["name"].startswith("process_"):
            about.setdefault(e["pid"], {})[e["name"]] = next(iter(e["args"].values()))
    layers = {("CANN", "CPU", 7, 31)}
    layers |= {(n, "NPU", i, d) for n, i in (("Ascend Hardware", 14), ("Overlap Analysis", 18)) for d in (0, 1)}
    assert {
        (1 << 10 | index << 5 | device): {
            "process_name": name, "process_labels": label, "process_sort_index": index,
        }
        for name, label, index, device in layers
    } == about  # fmt: skip
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    ranked = {(e["pid"], e["tid"]): e["args"]["sort_index"] for e in events if e["name"] == "thread_sort_index"}
    assert {key: tid for key in named for tid in key[1:]} == ranked
    assert {(pid & 31, tid) for (pid, tid), name in named.items() if name == f"Stream {tid}"} == streams
    assert {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"} <= set(named)


def test_the_slices_of_streams_and_of_the_host(tmp_path):
    """Every task once, with msprof's keys and types; a start is a string of microseconds, a duration a number."""
    start = 1_709_591_365 * 10**9 + 7
    with blocking.Runtime(clock="virtual", soc=SOC, start_ns=start) as runtime:
        pipeline(runtime.device())
        events, tables = save(runtime.device(), tmp_path / "out")
        records = {r.id: r for r in runtime.timeline.records if r.stream >= 0}
    slices = [e for e in events if e["ph"] == "X"]
    assert all(isinstance(e["ts"], str) and re.fullmatch(r"\d+\.\d{3}", e["ts"]) for e in slices)
    assert all(isinstance(e["dur"], int | float) for e in slices)
    hardware = [e for e in slices if e["pid"] >> 5 & 31 == 14]
    assert all(set(e["args"]) == HARDWARE for e in hardware)
    assert {e["args"]["connection_id"] for e in hardware} == set(records)
    assert len(hardware) == len(records) == len(tables["task_time"])
    for e in hardware:
        r = records[e["args"]["connection_id"]]
        assert (e["name"], e["tid"], e["args"]["Physic Stream Id"]) == (r.name, r.stream, r.stream)
        assert (int(e["ts"].replace(".", "")), round(e["dur"] * 1000)) == (r.started_ns, r.duration_ns)
    assert {e["args"]["Task Type"] for e in hardware} == {
        "AI_CORE", "MEMCPY_ASYNC", "SDMA", "EVENT_RECORD", "EVENT_WAIT",
    }  # fmt: skip
    host = [e for e in slices if e["pid"] >> 5 & 31 == 7]
    assert all(set(e["args"]) == HOST for e in host)
    assert {e["name"] for e in host} == {"Node@launch", "AscendCL@wait"}
    (profile,) = (tmp_path / "out").iterdir()
    assert "20240304222925" in profile.name  # the runtime's clock, not the computer's


def test_arrows_go_from_the_host_to_the_device(tmp_path):
    """In pairs, with an id that is made of device, stream, task of 16 bits and batch."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        stream = device.create_stream()
        for _ in range(70_000):
            stream.record()
        stream.launch(work(1))
        stream.close()
        events, _ = save(device, tmp_path / "out")
        task = next(r for r in device.timeline.records if r.engine and r.stream == stream.id)
    assert task.id > 0xFFFF
    source, target = (next(e for e in events if e["ph"] == phase) for phase in "sf")
    expected = str(task.stream << 64 | (task.id & 0xFFFF) << 48 | (task.id >> 16) << 32 | 4294967295)
    assert source["id"] == target["id"] == expected
    assert source["name"] == target["name"] == f"HostToDevice{expected}"
    assert source["cat"] == target["cat"] == "HostToDevice"
    assert (target["bp"], target["tid"]) == ("e", task.stream)
    (slice_,) = [
        e for e in events if e["ph"] == "X" and e["args"].get("connection_id") == task.id and e["tid"] == task.stream
    ]
    assert (slice_["args"]["Task Id"], slice_["args"]["Batch Id"]) == (task.id & 0xFFFF, task.id >> 16)


def test_the_overlap_of_computing_and_copying(tmp_path):
    """Unions of intervals: of what computes, of what copies, of what only copies, and the rest."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        pipeline(device)
        events, _ = save(device, tmp_path / "out")
        (figures,) = device.timeline.summary().overlap
        records = [r for r in device.timeline.records if r.duration_ns and r.engine]
        low, high = (f(getattr(r, n) for r in device.timeline.records) for f, n in (
            (min, "submitted_ns"), (max, "finished_ns")))  # fmt: skip
    busy, moving = np.zeros(high - low, bool), np.zeros(high - low, bool)
    for r in records:
        (moving if r.engine in {"h2d", "d2h", "d2d"} else busy)[r.started_ns - low : r.finished_ns - low] = True
    drawn = {name: np.zeros(high - low, bool) for name in ROWS}
    for e in events:
        if e["ph"] == "X" and e["pid"] >> 5 & 31 == 18:
            first = int(e["ts"].replace(".", "")) - low
            assert not drawn[e["name"]][first : first + round(e["dur"] * 1000)].any()
            drawn[e["name"]][first : first + round(e["dur"] * 1000)] = True
    expected = dict(zip(ROWS, (busy, moving, moving & ~busy, ~(moving | busy)), strict=True))
    for name in ROWS:
        assert (drawn[name] == expected[name]).all(), name
    assert [int(drawn[name].sum()) for name in ROWS] == [value for _, value in figures.items()]


def test_the_tables(tmp_path):
    """Operators one by one and by kind, what the host did, and every task."""
    with blocking.open_device(clock="virtual", soc=SOC) as device, device.create_stream() as stream:
        stream.launch(work(1), name="a")
        stream.launch(work(3), name="a", blocks=3)
        stream.launch(work(12), name='b, "quoted"')
        stream.synchronize()
        _, tables = save(device, tmp_path / "out")
    summary = tables["op_summary"]
    assert [(row["Op Name"], row["Task Duration(us)"], row["Block Dim"]) for row in summary] == [
        ("a", "1", "1"), ("a", "3", "3"), ('b, "quoted"', "12", "1"),
    ]  # fmt: skip
    assert {row["Task Type"] for row in summary} == {"AI_CORE"}
    assert {row["Task Wait Time(us)"] for row in summary} == {"0"}
    assert [list(row.values()) for row in tables["op_statistic"]] == [
        ["0", 'b, "quoted"', "AI_CORE", "1", "12", "12", "12.0", "12", "75.0"],
        ["0", "a", "AI_CORE", "2", "4", "1", "2.0", "3", "25.0"],
    ]
    assert {(row["Device_id"], row["Level"], row["API Name"]) for row in tables["api_statistic"]} == {
        ("host", "acl", "wait"), ("host", "node", "launch"),
    }  # fmt: skip
    assert [(row["kernel_type"], row["task_time(us)"]) for row in tables["task_time"]] == [
        ("AI_CORE", "1"), ("AI_CORE", "3"), ("AI_CORE", "12"),
    ]  # fmt: skip


def test_the_same_program_gives_the_same_folder(tmp_path):
    """To the byte, on the virtual clock; saving again replaces what was there."""
    for name in ("a", "b", "b"):
        with blocking.open_device(clock="virtual", soc=SOC) as device:
            pipeline(device)
            save(device, tmp_path / name)
    files = {p.relative_to(tmp_path / "a"): p.read_bytes() for p in (tmp_path / "a").rglob("*") if p.is_file()}
    assert len(files) == 5
    assert files == {p.relative_to(tmp_path / "b"): p.read_bytes() for p in (tmp_path / "b").rglob("*") if p.is_file()}


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    """Also one that has an earlier timeline beside it; and a file is no folder."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        save(device, tmp_path / "out")
        for name in ("out/notes.txt", "other/notes.txt"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("mine")
        before = sorted(tmp_path.rglob("*"))
        for name in ("out", "other", "other/notes.txt"):
            with pytest.raises(ValueError, match="folder"):
                device.timeline.save(tmp_path / name, format="msprof")
        assert sorted(tmp_path.rglob("*")) == before


def test_an_empty_timeline_and_any_name(tmp_path):
    """A folder without tasks, and names that cannot be encoded."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        _, tables = save(device, tmp_path / "empty")
        assert not tables["task_time"]
        device.default_stream.launch(work(1), name="\ud800\n,").result()
        _, tables = save(device, tmp_path / "out")
        assert [row["kernel_name"] for row in tables["task_time"]] == ["?\n,"]
