"""The examples: each runs as a user runs it, and what has a golden output prints exactly that."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage
from skimage import data

import cann_async as ca

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
GOLDEN = sorted(EXAMPLES.glob("*.out"))
PHOTO = EXAMPLES / "photo_pipeline.py"


def run_example(path: Path, *arguments: str, cwd: Path) -> str:
    """Run it in a folder of its own; give what it printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CANN_ASYNC_")}
    package = str(Path(ca.__file__).resolve().parents[1])
    ended = subprocess.run(
        [sys.executable, str(path), *arguments],
        cwd=cwd,
        env={**kept, "PYTHONPATH": package, "PYTHONIOENCODING": "utf-8", "COLUMNS": "80"},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def load(path: Path) -> ModuleType:
    """Import an example as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("golden", GOLDEN, ids=[path.stem for path in GOLDEN])
def test_prints_what_it_should(golden: Path, tmp_path: Path) -> None:
    """Compare with the golden file, to the byte."""
    assert run_example(golden.with_suffix(".py"), cwd=tmp_path) == golden.read_text(encoding="utf-8")


def test_twins_print_the_same() -> None:
    """The asyncio program and the blocking one are the same program."""
    assert (EXAMPLES / "ten_steps.out").read_text() == (EXAMPLES / "ten_steps_blocking.out").read_text()


@pytest.mark.parametrize("clock", ["wall", "virtual"])
def test_photo_pipeline(clock: str, tmp_path: Path) -> None:
    """It writes the original, the blurred picture and the edges, and a trace; SciPy agrees with the pictures."""
    out = run_example(PHOTO, "--clock", clock, "--output", str(tmp_path), cwd=tmp_path)
    assert "check     the same as plain NumPy" in out
    assert f"{clock} clock, 3 streams" in out
    trace = json.loads((tmp_path / "photo.json").read_text())
    kernels = {event["name"] for event in trace["traceEvents"] if event["ph"] == "X"}
    assert {"memcpy h2d", "blur_kernel", "edges_kernel", "memcpy d2h"} <= kernels

    photo, example = data.astronaut(), load(PHOTO)
    with Image.open(tmp_path / "photo.png") as image:
        assert image.size == (3 * 512, 512)
        original, blurred, edges = np.split(np.asarray(image), 3, axis=1)
    assert np.array_equal(original, photo)
    smooth = photo.astype(np.float32)
    for axis in (0, 1):
        smooth = ndimage.correlate1d(smooth, example.TAPS, axis=axis, mode="nearest")
    assert np.abs(blurred - np.rint(smooth)).max() <= 1
    grey = smooth @ example.GREY
    steep = np.hypot(ndimage.sobel(grey, 0), ndimage.sobel(grey, 1))
    bright = np.clip(steep * (255 / np.percentile(steep, 99.5)), 0, 255)
    assert np.abs(bright - edges[:, :, 0])[1:-1, 1:-1].max() <= 2
    expected = np.asarray(example.picture(photo, *example.straight(photo)))
    assert np.array_equal(blurred, expected[:, 512:1024])
    assert np.abs(edges.astype(int) - expected[:, 1024:]).max() <= 1


@pytest.mark.parametrize(("height", "width", "streams"), [(128, 128, 1), (129, 255, 2), (257, 130, 5), (40, 300, 3)])
@pytest.mark.parametrize("clock", ["wall", "virtual"])
def test_photo_of_any_size(clock: ca.runtime.ClockName, height: int, width: int, streams: int) -> None:
    """Tiles that are cut off at the border, and more streams than tiles."""
    example = load(PHOTO)
    photo = np.random.default_rng(1).integers(0, 256, (height, width, 3), np.uint8)

    async def main() -> tuple[np.ndarray, np.ndarray]:
        async with ca.open_device(clock=clock) as device:
            return await example.process(device, photo, streams)

    for got, expected in zip(ca.run(main), example.straight(photo), strict=True):
        assert np.allclose(got, expected, atol=1e-2)


def test_photo_from_a_file(tmp_path: Path) -> None:
    """A grey JPEG works as well."""
    Image.fromarray(data.camera()[:100, :150]).save(tmp_path / "grey.jpg")
    out = run_example(PHOTO, "grey.jpg", "--streams", "2", cwd=tmp_path)
    assert "150 x 100" in out
    assert (tmp_path / "photo.png").exists()
