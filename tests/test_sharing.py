"""Memory bandwidth is shared by what runs at the same time; exact, in virtual time. And what the host takes."""

from __future__ import annotations

import pytest

import cann_async as ca
from cann_async import sync as blocking

from .helpers import SOC, rejects

CHIP = SOC.replace(launch_ns=0, memory_bandwidth=1e9, peak_flops=1e12, ai_cores=8)


def moves(nbytes, seconds=0.0):
    """Make a kernel that moves so many bytes, at one byte per nanosecond alone."""

    @ca.kernel(per_block=False, cost=ca.Cost(bytes=nbytes, flops=seconds * 1e12 / 8))
    def body(launch):
        """Move them."""

    return body


def ends(device, kernels):
    """Launch each on a stream of its own, and give when they ended."""
    streams = [device.create_stream() for _ in kernels]
    tasks = [stream.launch(kernel) for stream, kernel in zip(streams, kernels, strict=True)]
    device.synchronize()
    for stream in streams:
        stream.close()
    return [task.finished_ns for task in tasks]


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        ([moves(1000)], [1000]),
        ([moves(1000), moves(1000)], [2000, 2000]),  # half as fast, both of them
        ([moves(1000), moves(3000)], [2000, 4000]),  # and alone again when one has ended
        ([moves(1000, seconds=1e-5), moves(900)], [10_000, 1000]),  # a tenth is left to who wants no more
        ([moves(500), moves(1000), moves(1500)], [1500, 2500, 3000]),
        ([ca.kernel(per_block=False, cost=ca.Cost(seconds=1e-6))(lambda launch: None), moves(1000)], [1000, 1000]),
    ],
)
def test_bandwidth_is_dealt_out_fairly(kernels, expected):
    """Who wants less than an even share gets it all; work with a set time moves no bytes."""
    with blocking.open_device(clock="virtual", soc=CHIP) as device:
        assert ends(device, kernels) == expected


def test_who_is_given_up_gives_back_its_share():
    """From the instant of the abort."""
    with blocking.open_device(clock="virtual", soc=CHIP) as device:
        first, second = device.create_stream(), device.create_stream()
        task, other = first.launch(moves(1000)), second.launch(moves(1000))
        device.runtime.clock.sleep(1e-6)
        second.abort()
        first.synchronize()
        assert task.finished_ns == 1500
        with rejects(107023):
            other.result()
        first.close()
        second.close()


def test_devices_have_their_own_memory():
    """Nothing is shared between them."""
    with blocking.Runtime(devices=2, clock="virtual", soc=CHIP) as runtime:
        tasks = [runtime.device(number).default_stream.launch(moves(1000)) for number in range(2)]
        for task in tasks:
            task.result()
        assert [task.finished_ns for task in tasks] == [1000, 1000]


@pytest.mark.parametrize("host_time", [False, True])
def test_a_host_bound_program_looks_host_bound(host_time):
    """With host time each launch waits for its call; without, the device works without a gap."""
    chip = CHIP.replace(host_call_ns=3000)
    with blocking.open_device(clock="virtual", soc=chip, host_time=host_time) as device:
        kernel, stream = moves(1000), device.create_stream()
        tasks = [stream.launch(kernel) for _ in range(4)]
        stream.synchronize()
        stream.close()
        starts = [task.started_ns for task in tasks]
        assert starts == ([3000, 6000, 9000, 12000] if host_time else [0, 1000, 2000, 3000])
        waits = device.runtime.timeline.to_numpy("waits")
        assert waits["task"].tolist() == [tasks[-1].id]
        assert waits["ended_ns"].tolist() == [15_000 if host_time else 4000]


@pytest.mark.asyncio
async def test_the_host_takes_its_time_in_a_coroutine(monkeypatch):
    """As asked by the environment."""
    monkeypatch.setenv("CANN_ASYNC_HOST_TIME", "1")
    async with ca.open_device(clock="virtual", soc=CHIP.replace(host_call_ns=3000)) as device:
        task = device.default_stream.launch(moves(1000))
        await task
        assert (task.started_ns, device.runtime.clock.now_ns()) == (3000, 6000)


def test_memory_in_use_is_on_record():
    """From each allocation and each free on."""
    with blocking.open_device(clock="virtual", soc=CHIP) as device:
        buffer = device.malloc(640)
        device.runtime.clock.sleep(1e-6)
        buffer.free()
        rows = device.runtime.timeline.to_numpy("memory")
        assert rows["time_ns"].tolist() == [0, 1000]
        assert rows["used"].tolist() == [640, 0]
        assert device.runtime.timeline.to_numpy()["id"].tolist() == []
        with pytest.raises(ValueError, match="'tasks', 'waits' and 'memory'"):
            device.runtime.timeline.to_numpy("else")
