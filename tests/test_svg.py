"""Pictures of timelines: what notebooks show."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET

import pytest

import cann_async.sync as blocking

from .helpers import SOC, work
from .test_timeline import GOLDEN, pipeline

pytestmark = pytest.mark.timeout(30)
SVG = "{http://www.w3.org/2000/svg}"


def picture(device) -> str:
    """Give what a notebook shows."""
    return device.runtime.timeline._repr_mimebundle_()["image/svg+xml"]


def texts(svg: str) -> list[str]:
    """Give what can be read in the picture itself, row by row, without what is shown under the mouse."""
    return ["".join((t.text or "", *(child.tail or "" for child in t))) for t in ET.fromstring(svg).iter(f"{SVG}text")]


def titles(svg: str) -> list[str]:
    """Give what the picture shows under the mouse."""
    return [t.text or "" for t in ET.fromstring(svg).iter(f"{SVG}title")]


def test_the_golden_picture(tmp_path):
    """The picture of a small program is, byte for byte, the one in `golden/`; UPDATE_GOLDEN=1 writes it anew."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        pipeline(device)
        path = device.timeline.save(tmp_path / "pipeline.svg")
        assert path.read_text(encoding="utf-8") == picture(device)
    golden = GOLDEN / "pipeline.svg"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_bytes(path.read_bytes())
    assert path.read_bytes() == golden.read_bytes()


def test_what_a_picture_says():
    """Rows in the way of the data, round times, names in the slices, how busy each row was, a legend."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        pipeline(device)
        svg = picture(device)
    read = texts(svg)
    rows = [text for text in read if text in {"lane 0", "lane 1", "h2d", "ai_core", "d2d", "d2h"}]
    assert rows == ["lane 0", "lane 1", "h2d", "ai_core", "d2d", "d2h"]
    assert [text for text in read if text.endswith("%")] == ["87%", "75%", "50%", "50%", "12%", "50%"]
    assert [text for text in read if re.fullmatch(r"\d+( us)?", text)] == ["0", *(f"{n} us" for n in range(1, 8))]
    assert {"copy in", "kernel", "copy out", "copy", "wait"} < set(read)
    assert {"memcpy h2d", "copy 3", "memset", "14 tasks in 8.00 us", "virtual clock"} < set(read)
    assert any(re.fullmatch(r"copy 3\ntask \d+\n5.000 us to 6.000 us\n1.00 us", title) for title in titles(svg))
    assert "prefers-color-scheme:dark" in svg


def test_pictures_on_one_page_do_not_disturb_each_other():
    """No ids, no scripts, and every class begins with what is only this picture's."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        pipeline(device)
        first = picture(device)
        device.default_stream.launch(work(1)).result()
        second = picture(device)
    marks = []
    for svg in (first, second):
        root = ET.fromstring(svg)
        mark = root.get("class")
        marks.append(mark)
        assert all(e.get("class", mark).startswith(mark) and e.get("id") is None for e in root.iter())
        style = root.find(f"{SVG}style").text
        assert all(name.startswith(mark) for name in re.findall(r"\.([a-z][\w-]*)", style))
        assert "<script" not in svg
        assert "href" not in svg
    assert marks[0] != marks[1]


def test_an_empty_timeline_says_so(tmp_path):
    """A small picture, as a file as well."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        assert texts(picture(device)) == ["nothing has run"]
        assert "nothing has run" in device.timeline.save(tmp_path / "x", format="svg").read_text()
        device.default_stream.record()
        device.synchronize()
        assert texts(picture(device)) == ["nothing has run"]  # a record takes no time


HOSTILE = [
    "</text><script>alert(1)</script>",
    "\"&<>'",
    "\x00\x1b[31m\x08\uffff",
    "\ud800 alone",
    "名" * 50,
    "",
    "x" * 9999,
]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_any_name_can_be_drawn(name, tmp_path):
    """It is escaped, and shortened; what XML forbids is replaced."""
    with blocking.open_device(clock="virtual", soc=SOC) as device, device.create_stream(name=name) as stream:
        stream.launch(work(3), name=name)
        stream.synchronize()
        svg = device.timeline.save(tmp_path / "x.svg").read_text(encoding="utf-8")
    assert len(svg) < 6000
    assert "<script" not in svg
    expected = re.sub("[\x00\x08\x1b\ud800\uffff]", "\ufffd", name)
    if 0 < len(name) < 50:
        assert any(title.startswith(expected) for title in titles(svg))


def test_a_picture_stays_small_however_much_has_run():
    """Tasks that are too narrow are drawn as one, and say how many they are; rows beyond forty are counted."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        streams = [device.create_stream() for _ in range(45)]
        for stream in streams:
            for _ in range(200):
                stream.launch(work(0.5, engine="ai_cpu"))
            stream.launch(work(200))
        for stream in streams:
            stream.close()
        svg = picture(device)
    assert svg.count("<rect") <= 2000
    assert "and 11 more rows" in texts(svg)
    merged = [re.match(r"([\d,]+) tasks, mostly kernel", title) for title in titles(svg)]
    alone = sum("\ntask " in title for title in titles(svg))
    assert sum(int(found[1].replace(",", "")) for found in merged if found) + alone == 40 * 201


def test_several_devices_are_told_apart():
    """Rows say whose they are, and a row with one stream's name twice says which."""
    with blocking.open_device(clock="virtual", soc=SOC, devices=2) as first:
        for device in (first, first.runtime.device(1)):
            with device.create_stream(name="main") as stream:
                stream.launch(work(1))
        read = texts(picture(first))
    assert [text for text in read if text.startswith("npu:")] == [
        "npu:0 main", "npu:1 main", "npu:0 ai_core", "npu:1 ai_core",
    ]  # fmt: skip


def test_a_notebook_gets_what_it_asks_for():
    """A picture and a line of text, or one of them."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        show = device.timeline._repr_mimebundle_
        assert set(show()) == {"text/plain", "image/svg+xml"}
        assert show(include=["text/plain"]) == {"text/plain": repr(device.timeline)}
        assert set(show(exclude={"text/plain"})) == {"image/svg+xml"}
