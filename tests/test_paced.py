"""The paced clock: modelled time in real time."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest

import cann_async as ca
from cann_async import sync as blocking

from .helpers import rejects


@ca.kernel(per_block=False, cost=ca.Cost(seconds=0.002))
def short(launch: ca.Launch) -> int:
    """Take two modelled milliseconds."""
    return 7


@ca.kernel(per_block=False, cost=ca.Cost(seconds=60))
def long(launch: ca.Launch) -> None:
    """Take a modelled minute."""


@pytest.mark.asyncio
async def test_lateness_never_adds_up():
    """Tasks of one stream end exactly their modelled time apart, and not before the real time has come."""
    async with ca.open_device(clock="paced") as device, device.create_stream() as stream:
        notify = device.create_notify()
        stream.wait_notify(notify)
        tasks = [stream.launch(short) for _ in range(5)]
        device.default_stream.record_notify(notify)  # only now, when all of them are there
        assert await tasks[-1] == 7
        ends = [task.finished_ns for task in tasks]
        assert [after - before for before, after in itertools.pairwise(ends)] == [2_000_000] * 4
        assert device.runtime.clock.now_ns() >= ends[-1]


@pytest.mark.asyncio
async def test_an_asynchronous_body_may_take_longer_than_modelled():
    """The loop of the host goes on meanwhile."""

    @ca.kernel(per_block=False, cost=ca.Cost(seconds=0.001))
    async def slow(launch: ca.Launch) -> int:
        await asyncio.sleep(0.005)
        return 8

    async with ca.open_device(clock="paced") as device, device.create_stream() as stream:
        assert await stream.launch(slow) == 8


def test_a_blocking_host_waits_in_real_time():
    """With timers, and with work that is given up."""
    with blocking.open_device(clock="paced") as device, device.create_stream() as stream:
        began = time.monotonic()
        task = stream.launch(long)
        with rejects(507046):
            stream.synchronize(timeout=0.01)
        assert not task.done()
        stream.abort()
        with rejects(107023):
            task.result()
        assert stream.launch(short).result() == 7
        device.runtime.clock.sleep(0.001)
        assert time.monotonic() - began < 30


def test_events_carry_the_time_of_the_device():
    """And not that at which the host looks."""
    with blocking.open_device(clock="paced") as device, device.create_stream() as stream:
        notify = device.create_notify()
        stream.wait_notify(notify)
        start = stream.record()
        stream.launch(short)
        end = stream.record()
        device.default_stream.record_notify(notify)
        end.synchronize()
        assert end - start == 2.0
