"""The paced clock: modelled time in real time."""

from __future__ import annotations

import asyncio
import itertools

import pytest

import cann_async as ca


@ca.kernel(per_block=False, cost=ca.Cost(seconds=0.002))
def short(launch: ca.Launch) -> int:
    """Take two modelled milliseconds."""
    return 7


@pytest.mark.asyncio
async def test_lateness_never_adds_up():
    """Tasks of one stream end exactly their modelled time apart, and not before the real time has come."""
    async with ca.open_device(clock="paced") as device, device.create_stream() as stream:
        tasks = [stream.launch(short) for _ in range(5)]
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
