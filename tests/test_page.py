"""The page that `timeline.save("x.html")` writes: what is in it, and what it does in a browser.

The browser is Chromium without a window, as Debian has it; where it is not installed, its tests are skipped.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cann_async as ca
import cann_async.sync as blocking
from cann_async.timeline.saved import unpacked

from .helpers import SOC, copy_kernel, work

HOSTILE = [
    "</script><script>document.title='broken'</script>",
    "<!-- <script>",
    "\"quotes' and \\ backslash",
    "{{ data }} {{ script }}",
    "名前 \u2028\u2029 \x00 \N{ROCKET}",
    "&lt;b&gt;<b>bold</b>",
]
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # a container may have little of it
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--window-size=1400,900",
]
MANY = 100_000


class Parts(HTMLParser):
    """Collects the text of every script and style, and all attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self._open = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the attributes; a script begins."""
        self.attributes += [(tag, name, value) for name, value in attrs]
        self._open = tag == "script"
        if self._open:
            self.scripts.append((dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        """Add to the open script."""
        if self._open:
            attrs, before = self.scripts[-1]
            self.scripts[-1] = (attrs, before + data)

    def handle_endtag(self, tag: str) -> None:
        """Close the script."""
        self._open = False


def pipeline(device: ca.Device | blocking.Device) -> None:
    """Copy in 1000 ns, compute 2000 ns and copy out 1000 ns, each on a stream of its own, twice; then wait."""
    into, compute, out = (device.create_stream(name=name) for name in ("copy in", "compute", "copy out"))
    x = device.empty((1000,), np.uint8)
    host = device.malloc_host((1000,), np.uint8)
    for batch in range(2):
        into.memcpy(x, host)
        compute.wait(into.record(device.create_event(name=f"loaded {batch}")))
        compute.launch(work(2), name=f"kernel {batch}")
        out.wait(compute.record(device.create_event(name=f"computed {batch}")))
        out.memcpy(host, x)
    for stream in (into, compute, out):
        stream.close()


def page(path: Path, fill: Callable[[Any], None], **options: Any) -> Path:
    """Save the page of what a function enqueues on a device of the small Soc, on virtual time."""
    with blocking.open_device(clock="virtual", soc=SOC, **options) as device:
        fill(device)
        device.synchronize()
        return device.runtime.timeline.save(path)


def data(path: Path) -> dict[str, Any]:
    """Read the data of a page, as strictly as JSON is."""
    (found,) = (text for attrs, text in Parts(path.read_text(encoding="utf-8")).scripts if attrs.get("id") == "data")

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(found, parse_constant=refuse)  # type: ignore[no-any-return]


# -- the file ---------------------------------------------------------------------------------------------------------


def test_the_page_has_all_of_every_task(tmp_path):
    """Names, streams and, to the nanosecond, the times of what has run."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        pipeline(device)
        path = device.runtime.timeline.save(tmp_path / "x.html")
        records, start = list(device.runtime.timeline.records), device.runtime.timeline.start_ns
    found = data(path)
    assert (found["clock"], found["socs"]) == ("virtual", ["test"])
    rows = unpacked(found["tasks"], 8).tolist()
    assert len(rows) == len(records) > 10
    for (number, work_number, stream, lane, submitted, started, finished, nbytes), record in zip(
        rows, records, strict=True
    ):
        name, engine, _, cores, of_device, blocks, label = found["works"][work_number]
        assert (number, name, engine, cores, of_device) == (
            record.id,
            record.name,
            record.engine,
            record.cores,
            record.device,
        )
        assert (stream, lane, blocks, label) == (record.stream, record.lane, record.blocks, record.event)
        times = (record.submitted_ns - start, record.started_ns - start, record.finished_ns - start)
        assert (submitted, started, finished) == times
        assert nbytes == (record.waited_for or record.nbytes)
        if stream >= 0:
            assert found["streams"][str(stream)][0] == record.stream_name
    assert len(unpacked(found["hosts"], 4)) == len(device.runtime.timeline.to_numpy("waits"))
    assert len(unpacked(found["memory"], 3)) == len(device.runtime.timeline.to_numpy("memory"))


def test_names_cannot_break_out_of_the_data(tmp_path):
    """Whatever kernels, streams, events and annotations are called: two scripts, and the names are whole."""

    def fill(device):
        for name in HOSTILE:
            with device.runtime.annotate(name), device.create_stream(name=name) as stream:
                stream.launch(work(1), name=name)
                stream.record(device.create_event(name=name))

    path = page(tmp_path / "x.html", fill)
    assert len(Parts(path.read_text(encoding="utf-8")).scripts) == 2
    found = data(path)
    assert {row[0] for row in found["works"]} >= set(HOSTILE)
    assert {row[6] for row in found["works"]} >= set(HOSTILE)
    assert {row[0] for row in found["streams"].values()} >= set(HOSTILE)
    assert [row[0] for row in found["spans"]] == HOSTILE


def test_the_page_is_alone(tmp_path):
    """It names no address, loads nothing, and forbids the browser to try."""
    path = page(tmp_path / "x.html", pipeline)
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"https?:|//[\w-]+\.\w", text.replace("xmlns=", ""))
    assert not [found for found in Parts(text).attributes if found[1] in ("src", "href", "action", "data")]
    assert not re.search(r"@import|url\(|\bfetch\(|XMLHttpRequest|\bimport\(|WebSocket", text)
    assert "default-src 'none'" in text


def test_the_same_program_gives_the_same_page(tmp_path):
    """To the byte, on virtual time."""
    first, second = (page(tmp_path / name, pipeline).read_bytes() for name in ("a.html", "b.html"))
    assert first == second


def test_a_page_can_be_asked_for_by_format(tmp_path):
    """The suffix then may be anything."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        device.runtime.timeline.save(tmp_path / "page", format="html")
    assert data(tmp_path / "page")["tasks"] == []


# -- in a browser -----------------------------------------------------------------------------------------------------


class Browser:
    """A Chromium that can be asked what it shows."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, path: Path) -> Browser:
        """Open a page and wait until it is drawn."""
        self.driver.get(path.as_uri())
        self.settle()
        return self

    def settle(self) -> None:
        """Wait until what has changed is drawn; what has gone wrong in the page is an error here."""
        failed = self.driver.execute_async_script(
            "const done = arguments[0];"
            "cannTimeline.ready.then(() => requestAnimationFrame(() => requestAnimationFrame(() => done(null))),"
            "                        (error) => done(String(error.stack)));"
        )
        assert failed is None

    def __call__(self, expression: str, *given: Any) -> Any:
        """Evaluate JavaScript, then wait until what it has changed is drawn."""
        found = self.driver.execute_script(f"return {expression}", *given)
        self.settle()
        return found

    def errors(self) -> list[Any]:
        """Give what the page has complained about since the last time; that these tests read pixels is no fault."""
        return [entry for entry in self.driver.get_log("browser") if entry["source"] != "rendering"]

    def text(self, name: str) -> str:
        """Give the text that an element shows."""
        return str(self.driver.find_element("id", name).text)

    def task(self, name: str) -> int:
        """Find the first task with this name by way of the page's own search."""
        (first, *_) = self(f"(cannTimeline.find({json.dumps(name)}), cannTimeline.matches)")
        self("cannTimeline.find('')")
        return int(first)

    def at(self, task: int) -> tuple[float, float]:
        """Where the middle of a task is."""
        found = self("cannTimeline.position(arguments[0])", task)
        return found["x"], found["y"]

    def pointer(self, *steps: tuple[str, Any], shift: bool = False) -> None:
        """Move, press, release or turn the wheel, one after the other."""
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
        from selenium.webdriver.common.keys import Keys

        actions = ActionChains(self.driver, duration=20)
        pointer = actions.w3c_actions.pointer_action
        if shift:
            actions.key_down(Keys.SHIFT)
        for what, given in steps:
            if what == "move":
                pointer.move_to_location(round(given[0]), round(given[1]))
                actions.w3c_actions.key_action.pause()
            elif what == "down":
                actions.click_and_hold()
            elif what == "up":
                actions.release()
            elif what == "wheel":
                x, y, turn = given
                actions.scroll_from_origin(ScrollOrigin.from_viewport(round(x), round(y)), 0, turn)
        if shift:
            actions.key_up(Keys.SHIFT)
        actions.perform()
        self.settle()

    def keys(self, *keys: str) -> None:
        """Type."""
        self.driver.switch_to.active_element.send_keys(*keys)
        self.settle()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for all tests; it has no network and needs none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium drives the browser")
    program, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("needs Chromium and its driver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    for flag in FLAGS:
        options.add_argument(flag)
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # With both paths given, selenium looks for nothing and downloads nothing.
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))
    yield Browser(browser)
    browser.quit()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the pipeline."""
    return page(tmp_path_factory.mktemp("page") / "pipeline.html", pipeline)


@pytest.fixture
def browser(chromium: Browser, saved: Path) -> Iterator[Browser]:
    """The pipeline in the browser; nothing may have gone wrong in the page when the test ends."""
    chromium.open(saved)
    yield chromium
    assert chromium.errors() == []


def test_the_page_opens_with_facts_and_rows(browser):
    """It says how many tasks, how long, which clock, which chip, and has a row for every stream."""
    facts = browser.text("facts").replace("\n", " ")
    assert re.search(r"Tasks 1\d Total time 6 µs Clock virtual Soc test", facts)
    rows = [(row["label"], row["note"]) for row in browser("cannTimeline.rows") if row["type"] == "lane"]
    assert [note for label, note in rows if label.startswith("stream")] == ["copy in", "compute", "copy out"]
    assert "kernel 0" in browser.text("panel")
    assert browser("performance.getEntriesByType('resource').length") == 0
    assert {"ai_core", "copy in (h2d)", "copy out (d2h)", "wait", "record"} <= set(browser.text("legend").split("\n"))


def test_something_is_drawn(browser):
    """The canvas has the colour of the AI cores where the kernel is, and not where it is not."""
    x, y = browser.at(browser.task("kernel 0"))
    look = (
        "((canvas, x, y) => [...canvas.getContext('2d').getImageData("
        "x - canvas.getBoundingClientRect().left, y - canvas.getBoundingClientRect().top, 1, 1).data])"
        "(document.getElementById('canvas'), arguments[0], arguments[1])"
    )
    assert browser(look, x + 30, y + 8)[:3] == [0, 0x72, 0xB2]
    assert browser(look, x, y + 500)[:3] != [0, 0x72, 0xB2]


def test_hovering_shows_all_of_a_task(browser):
    """Its name, id, device, stream, engine, cores, blocks and times."""
    task = browser.task("kernel 0")
    browser.pointer(("move", browser.at(task)))
    shown = browser.text("tip")
    assert shown.startswith("kernel 0")
    words = shown.split("\n")[1:]
    lines = dict(zip(words[::2], words[1::2], strict=True))
    assert lines["Task"] == str(task)
    assert (lines["Device"], lines["Stream"]) == ("npu:0, test", "stream 2 (compute)")
    assert (lines["Engine"], lines["Cores"], lines["Blocks"]) == ("ai_core, lane 0", "1 of 4", "1")
    assert (lines["Started"], lines["Finished"], lines["Duration"]) == ("1.000 µs", "3.000 µs", "2.000 µs")
    assert lines["Queued for"] == "1.000 µs"


def test_hovering_over_a_copy_shows_its_bytes(browser):
    """As they are."""
    browser.pointer(("move", browser.at(browser.task("memcpy h2d"))))
    assert "1000" in browser.text("tip").replace("\u202f", "")


def test_a_click_selects_and_says_who_waited_for_whom(browser):
    """A wait says for which task, and its button leads there; the record says who waited for it."""
    waits = browser("(cannTimeline.find('computed 0'), cannTimeline.matches)")
    browser("cannTimeline.find('')")
    browser.pointer(("move", browser.at(waits[0])), ("down", None), ("up", None))
    chosen = browser("cannTimeline.selected")
    assert (chosen["Name"], chosen["Event"], chosen["Stream"]) == ("wait", "computed 0", "stream 3 (copy out)")
    assert "record of computed 0, on stream 2 (compute)" in chosen["Waited for"]
    assert "computed 0" in browser.text("panel")
    browser.driver.find_element("xpath", "//aside//button[contains(., 'waited for task')]").click()
    assert browser("cannTimeline.selected")["Name"] == "record"
    assert f"task {waits[0]} waited for it" in browser.text("panel")
    browser.driver.find_element("xpath", "//aside//button[contains(., 'waited for it')]").click()
    assert browser("cannTimeline.selected")["Name"] == "wait"


def test_arrow_keys_go_along_a_row(browser):
    """To the task after the selected one and back, and Esc selects nothing."""
    from selenium.webdriver.common.keys import Keys

    first, second = (browser.task(f"kernel {number}") for number in range(2))
    browser("cannTimeline.select(arguments[0])", first)
    names = [browser("cannTimeline.selected")["Task"]]
    for key in (Keys.ARROW_RIGHT, Keys.ARROW_LEFT):
        browser.keys(key)
        names.append(browser("cannTimeline.selected")["Task"])
    assert names == [str(first), str(second), str(first)]
    browser.keys(Keys.ESCAPE)
    assert browser("cannTimeline.selected") is None


def test_search_finds_counts_and_goes_on(browser):
    """Typed after a slash: how many, how long together; Enter selects one after the other, and around."""
    from selenium.webdriver.common.keys import Keys

    browser.keys("/")
    browser.keys("KERNEL")
    assert browser.text("found") == "2, 4 µs"
    assert len(browser("cannTimeline.matches")) == 2
    names = []
    for _ in range(3):
        browser.keys(Keys.ENTER)
        names.append(browser("cannTimeline.selected")["Name"])
    assert names == ["kernel 0", "kernel 1", "kernel 0"]
    assert browser.text("found") == "1 of 2, 4 µs"
    browser.keys("!")
    assert browser.text("found") == "none"
    browser.keys(Keys.ESCAPE)
    assert (browser("cannTimeline.matches"), browser.text("found")) == ([], "")


def test_the_wheel_zooms_at_the_pointer(browser):
    """What is under the pointer stays there, and everything else comes closer."""
    x, y = browser.at(browser.task("kernel 0"))
    before = browser("cannTimeline.view")
    browser.pointer(("wheel", (x, y, -400)))
    after = browser("cannTimeline.view")
    assert after["end"] - after["start"] < 0.7 * (before["end"] - before["start"])
    assert browser.at(browser.task("kernel 0"))[0] == pytest.approx(x, abs=1.5)


def test_dragging_pans_and_a_double_click_shows_everything(browser):
    """A drag by half the canvas moves the view and changes no scale."""
    x, y = browser.at(browser.task("kernel 0"))
    before = browser("cannTimeline.view")
    browser.pointer(("move", (x, y + 200)), ("down", None), ("move", (x - 150, y + 200)), ("up", None))
    after = browser("cannTimeline.view")
    assert after["start"] > before["start"]
    assert after["end"] - after["start"] == pytest.approx(before["end"] - before["start"])
    browser.pointer(("move", (x, y + 200)), *[("down", None), ("up", None)] * 2)
    assert browser("cannTimeline.view") == before


def test_keys_zoom_pan_and_fit(browser):
    """w and s, a and d, f."""
    fitted = browser("cannTimeline.view")
    browser.keys("w")
    closer = browser("cannTimeline.view")
    assert fitted["start"] < closer["start"] < closer["end"] < fitted["end"]
    browser.keys("d")
    assert browser("cannTimeline.view")["start"] > closer["start"]
    browser.keys("a")
    assert browser("cannTimeline.view")["start"] == pytest.approx(closer["start"])
    browser.keys("s")
    assert browser("cannTimeline.view")["end"] == pytest.approx(fitted["end"])
    browser.keys("w", "w", "f")
    assert browser("cannTimeline.view") == fitted


def test_the_overview_moves_the_view(browser):
    """Pressing near its end looks there, at the same scale."""
    browser("cannTimeline.zoom(0.2)")
    before = browser("cannTimeline.view")
    box = browser.driver.find_element("id", "canvas").rect
    browser.pointer(("move", (box["x"] + box["width"] - 30, box["y"] + 10)), ("down", None), ("up", None))
    after = browser("cannTimeline.view")
    assert after["start"] > before["end"]
    assert after["end"] - after["start"] == pytest.approx(before["end"] - before["start"])


def test_a_group_closes_and_opens(browser):
    """A click on a device hides its rows, and another one brings them back."""
    (group,) = (row for row in browser("cannTimeline.rows") if row["label"] == "npu:0")
    box = browser.driver.find_element("id", "canvas").rect
    place = (box["x"] + 60, box["y"] + group["y"] + group["height"] / 2)
    shown = []
    for _ in range(2):
        browser.pointer(("move", place), ("down", None), ("up", None))
        shown.append([row["y"] is not None for row in browser("cannTimeline.rows") if row["type"] == "chart"])
    assert shown == [[False, False], [True, True]]


def test_measuring_tells_nanoseconds(browser):
    """With Shift held from the beginning of one kernel to the end of the next: 4000 ns, and who was busy meanwhile."""
    kernels = [browser.task(f"kernel {number}") for number in range(2)]
    left, right = (browser.at(task) for task in kernels)
    view = browser("cannTimeline.view")
    half = (right[0] - left[0]) / 2  # a kernel takes as long as from its middle to the next one's
    assert view["end"] > view["start"]
    begin, end = (left[0] - half + 2, left[1]), (right[0] + half - 2, right[1])
    browser.pointer(("move", begin), ("down", None), ("move", left), ("move", end), ("up", None), shift=True)
    assert browser("cannTimeline.measured") == {"start": 1000, "end": 5000}
    shown = browser.text("panel").replace("\n", " ")
    assert "4 µs" in shown
    assert "stream 2 compute 4 µs 100.0 %" in shown
    assert "stream 1 copy in 1 µs 25.0 %" in shown


def test_the_views_switch(browser):
    """Engines have a row for every lane, and the button says which view it is."""
    buttons = browser.driver.find_elements("css selector", "#views button")
    assert [button.text for button in buttons] == ["Streams", "Engines"]
    buttons[1].click()
    assert [button.get_attribute("aria-pressed") for button in buttons] == ["false", "true"]
    rows = [row["label"] for row in browser("cannTimeline.rows") if row["type"] == "lane" and row["device"] == 0]
    assert rows == ["ai_core 0", "h2d 0", "d2h 0"]
    buttons[0].click()
    assert browser("cannTimeline.view.name") == "streams"


def test_every_control_has_a_name(browser):
    """For who hears the page instead of seeing it."""
    controls = browser.driver.find_elements("css selector", "button, input, canvas, aside")
    assert len(controls) > 8
    assert all(control.accessible_name for control in controls)


def test_hostile_names_are_shown_as_they_are(chromium, tmp_path):
    """As text, in the tooltip, the panel and the search."""

    def fill(device):
        for name in HOSTILE:
            with device.create_stream(name=name) as stream:
                stream.launch(work(1), name=name)

    chromium.open(page(tmp_path / "x.html", fill))
    assert chromium.driver.title.startswith("Timeline: ")
    for name in HOSTILE:
        (task,) = chromium("(cannTimeline.find(arguments[0]), cannTimeline.matches)", name)
        chromium("cannTimeline.select(arguments[0])", task)
        assert chromium("cannTimeline.selected")["Name"] == name
        assert chromium("document.querySelector('#panel .name span:last-child').textContent") == name
    assert chromium.errors() == []


def test_an_empty_timeline_says_so(chromium, tmp_path):
    """In words, without rows."""
    chromium.open(page(tmp_path / "x.html", lambda device: None))
    assert "Nothing has run" in chromium.text("notice")
    assert not chromium.driver.find_element("id", "main").is_displayed()
    assert chromium.errors() == []


def test_several_devices_and_tasks_without_a_stream(chromium, tmp_path):
    """Each device is a group of rows, with the copies that are in no stream on a row of their own."""
    with blocking.open_device(clock="virtual", soc=SOC, devices=2) as device:
        for each in device.runtime.devices:
            x = each.upload(np.zeros(100, np.uint8))
            with each.create_stream() as stream:
                stream.launch(copy_kernel, x, x)
        chromium.open(device.runtime.timeline.save(tmp_path / "x.html"))
    rows = chromium("cannTimeline.rows")
    assert [row["label"] for row in rows if row["type"] == "group"] == ["host", "npu:0", "npu:1"]
    assert chromium.errors() == []


def test_long_runs_keep_every_nanosecond(chromium, tmp_path):
    """A kernel of one nanosecond after eleven days."""

    def fill(device):
        with device.create_stream() as stream:
            stream.launch(work(1e12))
            stream.launch(work(0.001), name="short")

    chromium.open(page(tmp_path / "x.html", fill))
    chromium("cannTimeline.select(arguments[0])", chromium.task("short"))
    assert chromium("cannTimeline.selected")["Finished"].replace("\u202f", "") == "1000000.000000001 s"
    assert chromium.errors() == []


def test_many_tasks_are_drawn(chromium, tmp_path):
    """A hundred thousand: every row has colour, at every zoom, in both views."""

    def fill(device):
        streams = [device.create_stream() for _ in range(4)]
        kernels = [work(1 + number) for number in range(5)]
        for number in range(MANY):
            streams[number % 4].launch(kernels[number % 5], name=f"kernel {number % 5}")
            if number % 4000 == 3999:
                device.synchronize()
        for stream in streams:
            stream.close()

    chromium.open(page(tmp_path / "x.html", fill))
    assert chromium.text("facts").replace("\u202f", "").startswith(f"Tasks\n{MANY}")
    coloured = (
        "(() => { const canvas = document.getElementById('canvas'); cannTimeline.draw();"
        "return cannTimeline.rows.filter((row) => row.type === 'lane' && row.device === 0).map((row) => {"
        "const pixels = canvas.getContext('2d').getImageData(180, row.y, canvas.width - 200, row.height).data;"
        "return pixels.some((_, at) => at % 4 === 0 && pixels[at] === 0 && pixels[at + 1] === 0x72); }); })()"
    )
    for view in ("streams", "engines"):
        for zoom in (1, 0.1, 0.001):
            chromium(
                "(cannTimeline.show(arguments[0]), cannTimeline.fit(), cannTimeline.zoom(arguments[1]))", view, zoom
            )
            assert chromium(coloured) == [True] * 4
    assert chromium.errors() == []


def test_waits_of_a_thread_that_overlap_are_one(chromium, tmp_path):
    """Coroutines on one loop wait at the same time; the row of their thread says when it waited."""

    async def main() -> Path:
        async with ca.open_device(clock="virtual", soc=SOC) as device:

            async def one() -> None:
                async with device.create_stream() as stream:
                    await stream.launch(work(1))

            await asyncio.gather(*(one() for _ in range(20)))
            return device.runtime.timeline.save(tmp_path / "x.html")

    chromium.open(asyncio.run(main()))
    waits = [row for row in chromium("cannTimeline.rows") if row["note"] == "waits"]
    assert [row["slices"] for row in waits] == [1]
    assert chromium.errors() == []
