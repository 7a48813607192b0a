"""Blur a photograph and find its edges on an NPU: in tiles, over several streams.

    python examples/photo_pipeline.py [photo.jpg] [--streams 3] [--clock virtual] [--output .]

Every tile is copied to the device with a halo (the pixels around it that a filter needs), blurred there, and copied
back, each tile on the next stream in turn. The edges of a tile need the blurred pixels of its neighbours, which other
streams compute: there a stream waits for events of the others. At the end the picture is compared with plain NumPy,
and photo.png (original, blurred, edges) and photo.json (the timeline, for https://ui.perfetto.dev) are written.

Needs Pillow, and scikit-image for its photograph if you give none.
"""

import argparse
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
from PIL import Image

import cann_async as ca

TILE = 128
SIGMA = 2.5
RADIUS = 7
TAPS = np.exp(-0.5 * (np.arange(-RADIUS, RADIUS + 1) / SIGMA) ** 2)
TAPS = (TAPS / TAPS.sum()).astype(np.float32)
GREY = np.array([0.299, 0.587, 0.114], np.float32)


# -- what is computed: plain NumPy. A filter gives fewer pixels than it gets: it needs a halo around them ------------


def gaussian_blur(pixels):
    """Blur (height, width, 3): first along the columns, then along the rows. RADIUS pixels go on every side."""
    height, width = pixels.shape[0] - 2 * RADIUS, pixels.shape[1] - 2 * RADIUS
    columns = sum(tap * pixels[k : k + height] for k, tap in enumerate(TAPS))
    return sum(tap * columns[:, k : k + width] for k, tap in enumerate(TAPS))


def sobel(pixels):
    """Give the steepness of the brightness, from (height, width, 3) to (height - 2, width - 2)."""
    grey = pixels @ GREY
    across = grey[:, 2:] - grey[:, :-2]
    down = grey[2:] - grey[:-2]
    across = across[:-2] + 2 * across[1:-1] + across[2:]
    down = down[:, :-2] + 2 * down[:, 1:-1] + down[:, 2:]
    return np.hypot(across, down)


# -- the same as kernels: a body sees NumPy views of device memory and computes its block's rows ---------------------


def blur_cost(launch, photo, blurred):
    return ca.Cost(flops=2 * 2 * len(TAPS) * blurred.size, bytes=photo.nbytes + blurred.nbytes)


@ca.kernel(engine="ai_vector", cost=blur_cost)
def blur_kernel(block, photo, blurred):
    rows = block.slice(len(blurred))
    blurred[rows] = gaussian_blur(photo[rows.start : rows.stop + 2 * RADIUS].astype(np.float32))


@ca.kernel(engine="ai_vector", cost=lambda launch, blurred, edges: ca.Cost(flops=20 * edges.size, bytes=blurred.nbytes))
def edges_kernel(block, blurred, edges):
    rows = block.slice(len(edges))
    edges[rows] = sobel(blurred[rows.start : rows.stop + 2])


# -- the pipeline ----------------------------------------------------------------------------------------------------


async def process(device, photo, stream_count):
    """Give the blurred photograph and its edges, computed on the device."""
    height, width, _ = photo.shape
    # Pixels beyond the border repeat it: RADIUS for the blur, and one more for the edges.
    halo = RADIUS + 1
    source = device.malloc_host((height + 2 * halo, width + 2 * halo, 3), np.uint8)  # pinned: copies need not stage it
    source[:] = np.pad(photo, ((halo, halo), (halo, halo), (0, 0)), mode="edge")
    host_blurred = device.malloc_host((height + 2, width + 2, 3), np.float32)
    host_edges = device.malloc_host((height, width), np.float32)
    blurred = device.empty(host_blurred.shape, np.float32)  # the whole picture stays on the device
    edges = device.empty(host_edges.shape, np.float32)

    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(device.create_stream()) for _ in range(stream_count)]
        # One buffer per stream for the tile that it works on: a stream does one thing after the other.
        buffers = [device.empty((TILE + 2 + 2 * RADIUS, TILE + 2 + 2 * RADIUS, 3), np.uint8) for _ in streams]
        tiles = [(top, left) for top in range(0, height, TILE) for left in range(0, width, TILE)]
        is_blurred = {}

        for number, (top, left) in enumerate(tiles):
            stream, buffer = streams[number % stream_count], buffers[number % stream_count]
            # The blurred picture is two pixels larger than the photograph; the last tiles get them.
            bottom = top + TILE if top + TILE < height else height + 2
            right = left + TILE if left + TILE < width else width + 2
            tile = buffer[: bottom - top + 2 * RADIUS, : right - left + 2 * RADIUS]
            here = np.s_[top:bottom, left:right]
            stream.memcpy(tile, source[top : bottom + 2 * RADIUS, left : right + 2 * RADIUS])
            stream.launch(blur_kernel, tile, blurred[here], blocks=8)
            is_blurred[top, left] = stream.record()
            stream.memcpy(host_blurred[here], blurred[here])

        for number, (top, left) in enumerate(tiles):
            stream = streams[number % stream_count]
            bottom, right = min(top + TILE, height), min(left + TILE, width)
            for neighbour in ((top, left), (top, left + TILE), (top + TILE, left), (top + TILE, left + TILE)):
                if neighbour in is_blurred:
                    stream.wait(is_blurred[neighbour])  # the stream waits, this coroutine goes on
            here = np.s_[top:bottom, left:right]
            stream.launch(edges_kernel, blurred[top : bottom + 2, left : right + 2], edges[here], blocks=4)
            stream.memcpy(host_edges[here], edges[here])

        # So far everything was only queued. Now wait for it.
        await device.synchronize()
    return host_blurred[1:-1, 1:-1], host_edges


def straight(photo):
    """Compute the same without a device, for comparison."""
    halo = RADIUS + 1
    padded = np.pad(photo, ((halo, halo), (halo, halo), (0, 0)), mode="edge").astype(np.float32)
    blurred = gaussian_blur(padded)
    return blurred[1:-1, 1:-1], sobel(blurred)


def picture(photo, blurred, edges):
    """Put original, blurred and edges next to each other."""
    bright = np.clip(edges * (255 / np.percentile(edges, 99.5)), 0, 255)
    parts = [photo, np.rint(blurred), np.repeat(bright[:, :, None], 3, axis=2)]
    return Image.fromarray(np.concatenate(parts, axis=1).astype(np.uint8))


def load(path):
    """Read a photograph as (height, width, 3) of uint8."""
    if path is not None:
        return np.asarray(Image.open(path).convert("RGB"))
    from skimage import data  # brings a few photographs along

    return data.astronaut()


def report(device, photo, stream_count):
    """Print what ran, and how much of it at the same time."""
    tasks = [task for task in device.timeline.records if task.engine]
    took = max(task.finished_ns for task in tasks) - min(task.started_ns for task in tasks)
    busy = sum(task.duration_ns for task in tasks)
    height, width, _ = photo.shape
    print(f"photo     {width} x {height}, tiles of {TILE} x {TILE} with a halo of {RADIUS}")
    print(f"device    {device.soc.name}, {device.runtime.clock.name} clock, {stream_count} streams")
    print(f"tasks     {len(tasks)} copies and kernels, {busy / 1e6:.3f} ms of work in {took / 1e6:.3f} ms")
    print(f"overlap   {busy / took:.2f} engines busy on average")


async def main(arguments):
    photo = load(arguments.photo)
    async with ca.open_device(0, clock=arguments.clock) as device:
        blurred, edges = await process(device, photo, arguments.streams)
        report(device, photo, arguments.streams)
        device.timeline.show()
        device.timeline.save(arguments.output / "photo.json")

    expected_blurred, expected_edges = straight(photo)
    same = np.allclose(blurred, expected_blurred, atol=1e-3) and np.allclose(edges, expected_edges, atol=1e-2)
    print(f"check     {'the same as' if same else 'DIFFERENT FROM'} plain NumPy")
    picture(photo, blurred, edges).save(arguments.output / "photo.png")
    print(f"written   {arguments.output / 'photo.png'} and {arguments.output / 'photo.json'}")
    return 0 if same else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Blur a photograph and find its edges on a simulated NPU.")
    parser.add_argument("photo", nargs="?", type=Path, help="default: a photograph that scikit-image brings along")
    parser.add_argument("--clock", choices=["wall", "virtual"], default="virtual")
    parser.add_argument("--streams", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path(), metavar="FOLDER", help="default: the working folder")
    raise SystemExit(ca.run(main, parser.parse_args()))
