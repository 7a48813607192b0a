"""What to change about a program: each check finds its fault in one program, and is silent about another."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

import cann_async as ca
import cann_async.sync as blocking
from cann_async.timeline.advice import Finding

from .helpers import SOC, work

pytestmark = pytest.mark.timeout(60)
HOST = SOC.replace(host_call_ns=10_000, name="host")


def advice(program: Callable[[blocking.Device], object], soc: ca.Soc = SOC, **options: object) -> dict[str, Finding]:
    """Run a program on the virtual clock and give what is said of it, by the name of the check."""
    with blocking.open_device(clock="virtual", soc=soc, **options) as device:
        program(device)
        device.synchronize()
        found = device.timeline.advice()
        text = str(found)
        assert all(finding.title in text and finding.evidence[:20] in text for finding in found)
        gains = [finding.gain or 0 for finding in found]
        assert gains == sorted(gains, reverse=True)
        return {finding.name: finding for finding in found}


def streams(device: blocking.Device, count: int, **options: object) -> list[blocking.Stream]:
    """Make streams that end with their device's runtime."""
    made = [device.create_stream(**options) for _ in range(count)]
    made_for.extend(made)
    return made


made_for: list[blocking.Stream] = []


@pytest.fixture(autouse=True)
def _close_streams():
    """Let go of the streams of a test."""
    yield
    while made_for:
        made_for.pop().close(force=True)


def step_by_step(device: blocking.Device) -> None:
    """Enqueue a kernel, wait for it, enqueue the next one."""
    (stream,) = streams(device, 1)
    for _ in range(20):
        stream.launch(work(20), blocks=4)
        stream.synchronize()


def all_at_once(device: blocking.Device) -> None:
    """Enqueue all kernels, then wait."""
    (stream,) = streams(device, 1)
    for _ in range(20):
        stream.launch(work(20), blocks=4)
    stream.synchronize()


def test_keep_the_host_ahead():
    """A host that waits for each kernel leaves the device idle; the expectation is what the better program takes."""
    found = advice(step_by_step, HOST, host_time=True)
    finding = found["keep-ahead"]
    assert "19 times" in finding.evidence
    assert finding.tasks == (2, 3, 4, 5, 6)
    # 20 us of work, then 10 us of the host for the next launch; the wait costs it 10 us while the kernel runs
    assert finding.before_ns == 20 * 30_000 - 10_000
    assert finding.after_ns == 20 * 20_000
    assert advice(all_at_once, HOST, host_time=True) == {}


def test_keep_the_host_ahead_though_hosts_cost_nothing():
    """In virtual time without host time the wait itself is free: the expectation takes the Soc's cost of a call."""
    finding = advice(step_by_step, HOST)["keep-ahead"]
    assert "10.0 us for each call" in finding.change
    assert finding.gain is not None
    assert finding.gain > 1.2
    assert advice(all_at_once, HOST) == {}


def test_one_stream_per_kind_of_engine():
    """Copies and kernels that take turns in one stream; dealt out to streams they overlap."""

    def pipeline(device: blocking.Device, count: int) -> None:
        host = device.malloc_host((12, 40_000), np.uint8)
        lanes = streams(device, count)
        buffers = [device.empty(40_000, np.uint8) for _ in lanes]
        for batch in range(12):
            stream, buffer = lanes[batch % count], buffers[batch % count]
            stream.memcpy(buffer, host[batch])
            stream.launch(work(40), buffer, blocks=4)
            stream.memcpy(host[batch], buffer)

    finding = advice(lambda device: pipeline(device, 1))["stream-per-engine"]
    assert finding.before_ns == 12 * 120_000
    assert finding.after_ns is not None
    # two sets of buffers: while one batch is computed the next is copied in and the last one out
    assert 12 * 40_000 < finding.after_ns < 12 * 80_000
    assert advice(lambda device: pipeline(device, 3)) == {}
    assert "stream-per-engine" not in advice(all_at_once)


def test_one_stream_per_thread():
    """Two threads that feed one stream stand behind each other; on streams of their own they do not."""

    def program(device: blocking.Device, count: int) -> None:
        lanes, both_live = streams(device, count), threading.Barrier(2)

        def feed(number: int) -> None:
            both_live.wait(10)
            for _ in range(10):
                lanes[number % count].launch(work(50), blocks=2)
            both_live.wait(10)

        threads = [threading.Thread(target=feed, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for lane in lanes:
            lane.synchronize()

    finding = advice(lambda device: program(device, 1))["stream-per-thread"]
    assert (finding.before_ns, finding.after_ns) == (1_000_000, 500_000)
    assert "2 threads enqueued 20 tasks" in finding.evidence
    assert "stream-per-thread" not in advice(lambda device: program(device, 2))


def test_more_threads_when_one_cannot_feed_the_device():
    """Kernels that are over before the host has enqueued the next one."""

    def program(device: blocking.Device, us: float) -> None:
        (stream,) = streams(device, 1)
        for _ in range(30):
            stream.launch(work(us), blocks=4)
        stream.synchronize()

    finding = advice(lambda device: program(device, 2), HOST, host_time=True)["more-threads"]
    assert finding.gain == pytest.approx(2, abs=0.1)
    assert "79%" in finding.evidence
    assert advice(lambda device: program(device, 20), HOST, host_time=True) == {}


def test_kernels_that_do_not_fill_the_cores():
    """One block on four cores; with four, or merged, it is faster."""
    small = ca.kernel(cost=ca.Cost(flops=1e9), per_block=False)(lambda launch: None)

    def program(device: blocking.Device, blocks: int) -> None:
        (stream,) = streams(device, 1)
        for _ in range(10):
            stream.launch(small, blocks=blocks)

    soc = SOC.replace(peak_flops=4e12, launch_ns=1000)
    finding = advice(lambda device: program(device, 1), soc)["fill-cores"]
    assert "as many blocks as there are cores" in finding.change
    assert (finding.before_ns, finding.after_ns) == (10 * 1_001_000, 10 * 251_000)
    assert advice(lambda device: program(device, 4), soc) == {}

    def tiny(device: blocking.Device) -> None:
        (stream,) = streams(device, 1)
        for _ in range(10):
            stream.launch(tick)

    tick = ca.kernel(cost=ca.Cost(flops=1), per_block=False)(lambda launch: None)
    finding = advice(tiny, soc)["fill-cores"]
    assert "merge those" in finding.change
    assert finding.gain is not None
    assert finding.gain > 5


def test_pageable_copies():
    """Queued copies of ordinary arrays hold the host up on an NPU; pinned ones do not."""

    def program(device: blocking.Device, pinned: bool) -> None:
        copies, kernels = streams(device, 2)
        host = device.malloc_host(50_000, np.uint8) if pinned else np.zeros(50_000, np.uint8)
        buffer = device.empty(50_000, np.uint8)
        for _ in range(6):
            copies.memcpy(buffer, host)
            kernels.launch(work(50), blocks=4)

    finding = advice(lambda device: program(device, pinned=False))["pageable"]
    assert "6 queued copies of 300000 bytes" in finding.evidence
    assert (finding.before_ns, finding.after_ns) == (350_000, 300_000)
    assert advice(lambda device: program(device, pinned=True)) == {}


def test_needless_synchronisation():
    """A host that waits between kernels of two streams for nothing keeps them from overlapping."""

    def program(device: blocking.Device, waits: bool) -> None:
        lanes = streams(device, 2)
        for i in range(10):
            lanes[i % 2].launch(work(100), blocks=2)
            if waits:
                lanes[i % 2].synchronize()

    finding = advice(lambda device: program(device, waits=True))["synchronize"]
    assert "9 times" in finding.evidence
    assert finding.gain is not None
    assert finding.gain > 1.5
    assert advice(lambda device: program(device, waits=False)) == {}


def test_waits_for_data_are_not_needless():
    """Who copies out and waits wants the data."""

    def program(device: blocking.Device) -> None:
        (stream,) = streams(device, 1)
        host, buffer = device.malloc_host(10, np.uint8), device.zeros(10, np.uint8)
        for _ in range(5):
            stream.launch(work(100), buffer, blocks=4)
            stream.memcpy(host, buffer)
            stream.synchronize()

    assert "synchronize" not in advice(program)


def test_starvation_by_priority():
    """A task of a low priority that others overtake again and again; with equal priorities it waits for its turn."""

    def program(device: blocking.Device, low: int) -> None:
        urgent = streams(device, 2, priority=0)
        (patient,) = streams(device, 1, priority=low)
        for _ in range(20):
            for stream in urgent:
                stream.launch(work(100), blocks=4)
        patient.launch(work(10), blocks=4, name="poor")

    finding = advice(lambda device: program(device, 5))["starvation"]
    assert finding.before_ns == 4_000_000
    assert finding.after_ns == 200_000
    assert "(poor)" in finding.evidence
    assert finding.tasks == (41,)
    assert advice(lambda device: program(device, 0)) == {}


def test_advice_on_measured_times():
    """On the wall clock the tasks have taken what they took; a wait for each of them is seen all the same."""

    @ca.kernel(per_block=False)
    def spin(launch: ca.Launch) -> None:
        sum(range(20_000))

    with blocking.open_device(clock="wall", soc=SOC) as device, device.create_stream() as stream:
        for _ in range(20):
            stream.launch(spin)
            stream.synchronize()
        names = [finding.name for finding in device.timeline.advice()]
        assert "synchronize" in names
        assert "fill-cores" not in names
