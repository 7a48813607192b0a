"""Virtual memory: reserve, map, use, unmap, release."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import cann_async as ca
from cann_async import sync

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="virtual memory is had from Linux"),
]
CLOCKS = pytest.mark.parametrize("clock", ["wall", "virtual"])
MIB = 1 << 20
PIECE = 2 * MIB


@ca.kernel
def add_one(block: ca.Block, x: np.ndarray) -> None:
    """Add 1 to each element."""
    x += 1


def _refused(function, *args):
    """Call it and give the code that it is refused with."""
    with pytest.raises(ca.UsageError) as refused:
        function(*args)
    return refused.value.code


@CLOCKS
@pytest.mark.asyncio
async def test_a_buffer_over_two_pieces_is_a_buffer_like_any_other(clock):
    """Copies and kernels work on it, and it has the addresses of the range."""
    async with ca.open_device(0, clock=clock) as device, device.create_stream() as stream:
        assert device.allocation_granularity() == PIECE
        addresses = device.reserve_memory(3 * PIECE)
        for place in (0, PIECE):
            addresses.map(device.malloc_physical(PIECE), place)
        x = addresses.buffer((PIECE // 4 + 8,), np.float32, offset=PIECE // 2)
        assert x.address == addresses.address + PIECE // 2
        host = device.malloc_host(x.shape, x.dtype)
        host[:] = 122
        stream.memcpy(x, host)
        stream.launch(add_one, x)
        await stream.synchronize()
        assert (await x.get() == 123).all()
        assert (await addresses.buffer((1,), np.float32, offset=PIECE // 2).get() == 123).all()


@pytest.mark.asyncio
async def test_memory_keeps_its_bytes_without_an_address():
    """Unmapped and mapped elsewhere it is the same memory, and mapped twice it is seen twice."""
    async with ca.open_device(0, clock="virtual") as device:
        addresses, memory = device.reserve_memory(2 * PIECE), device.malloc_physical(PIECE)
        addresses.map(memory)
        await device.memset(addresses.buffer(PIECE), 7)
        addresses.unmap()
        addresses.map(memory, PIECE)
        assert (await addresses.buffer(100, offset=PIECE).get() == 7).all()
        addresses.map(memory, 0)
        await device.memset(addresses.buffer(8), 9)
        assert (await addresses.buffer(9, offset=PIECE).get()).tolist() == [9] * 8 + [7]


@pytest.mark.asyncio
async def test_it_counts_among_the_memory_of_the_device():
    """Until it is freed and mapped nowhere; more than there is is 207001."""
    async with ca.open_device(0, clock="virtual", soc=ca.Soc(memory_bytes=16 * MIB)) as device:
        memory, addresses = device.malloc_physical(4 * MIB), device.reserve_memory(4 * MIB)
        assert device.memory_info() == (12 * MIB, 16 * MIB)
        with pytest.raises(ca.ResourceError) as short:
            device.malloc_physical(14 * MIB)
        assert short.value.code == 207001
        addresses.map(memory)
        memory.free()
        assert _refused(memory.free) == 107000
        assert _refused(addresses.map, memory, 0) == 107000
        assert device.memory_info()[0] == 12 * MIB
        addresses.unmap()
        assert device.memory_info()[0] == 16 * MIB


@pytest.mark.asyncio
async def test_what_does_not_fit_is_refused_and_changes_nothing():
    """107000, each time."""
    async with ca.open_device(0, clock="virtual", devices=2) as device:
        for wrong in (0, -PIECE, PIECE + 1, 4096):
            assert _refused(device.malloc_physical, wrong) == 107000
            assert _refused(device.reserve_memory, wrong) == 107000
        memory, addresses = device.malloc_physical(2 * PIECE), device.reserve_memory(4 * PIECE)
        foreign = device.runtime.device(1).malloc_physical(PIECE)
        for what, offset in ((memory, 3 * PIECE), (memory, -PIECE), (memory, 64), (foreign, 0)):
            assert _refused(addresses.map, what, offset) == 107000
        assert _refused(addresses.unmap) == 107000
        addresses.map(memory, PIECE)
        for offset in (0, PIECE, 2 * PIECE):
            assert _refused(addresses.map, memory, offset) == 107000
        for shape, dtype, offset in ((1, np.uint8, 0), (2 * PIECE + 1, np.uint8, PIECE), (1, np.float32, PIECE + 1)):
            assert _refused(addresses.buffer, shape, dtype, offset) == 107000
        assert _refused(addresses.release) == 107000
        addresses.unmap(PIECE)
        addresses.release()
        assert _refused(addresses.release) == 107000
        assert _refused(addresses.map, memory) == 107000


@CLOCKS
@pytest.mark.asyncio
async def test_queued_work_keeps_what_it_uses(clock):
    """An unmap makes buffers stale at once, and takes the pages from under no kernel."""
    async with ca.open_device(0, clock=clock) as device, device.create_stream() as stream:
        addresses, memory = device.reserve_memory(PIECE), device.malloc_physical(PIECE)
        addresses.map(memory)
        x = addresses.buffer(PIECE)
        await device.memset(x, 1)
        gate = device.create_event(kind="sync latch")
        stream.wait(gate)
        stream.launch(add_one, x)
        part = x[:10]
        addresses.unmap()
        for stale in (x, part):
            assert _refused(stream.launch, add_one, stale) == 107000
        assert _refused(addresses.map, memory) == 107000  # still used
        async with device.create_stream() as other:
            other.record(gate)
            await stream.synchronize()
        addresses.map(memory)
        assert (await addresses.buffer(16).get() == 2).all()


@CLOCKS
@pytest.mark.asyncio
async def test_a_reset_makes_it_all_stale(clock):
    """Errors, and no crash."""
    async with ca.open_device(0, clock=clock) as device:
        addresses, memory = device.reserve_memory(PIECE), device.malloc_physical(PIECE)
        addresses.map(memory)
        x = addresses.buffer(16)
        await device.reset()
        assert _refused(lambda: x.address) == 107000
        assert _refused(addresses.buffer, 16) == 107000
        assert _refused(memory.free) == 107000
        assert _refused(addresses.unmap) == 107000


IMPORTER = """
import sys
from cann_async import CannError, sync
with sync.open_device(0, clock="virtual") as device:
    try:
        memory = device.import_physical(input())
    except CannError as refused:
        sys.exit(f"refused with {refused.code}")
    addresses = device.reserve_memory(memory.nbytes)
    addresses.map(memory)
    x = addresses.buffer(4)
    print(x.get().tolist())
    device.memset(x, 45)
"""


def _import(key: str, allowing: ca.PhysicalMemory | None = None) -> tuple[str, str]:
    """Start a process that imports, let it in, and give what it has said and complained of."""
    command = [sys.executable, "-c", IMPORTER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as importer:
        if allowing is not None:
            allowing.allow([importer.pid])
        said, complained = importer.communicate(f"{key}\n", timeout=60)
    return said.strip(), complained.strip()


@pytest.mark.timeout(120)
def test_another_process_reads_and_writes_exported_memory():
    """The sample of sharing without a list of processes: the importer reads 123."""
    with sync.open_device(0, clock="virtual") as device:
        memory, addresses = device.malloc_physical(PIECE), device.reserve_memory(PIECE)
        addresses.map(memory)
        x = addresses.buffer(4)
        device.memset(x, 123)
        key = memory.export(check_pids=False)
        assert _refused(memory.export) == 107000
        assert _refused(device.import_physical, key) == 107000  # in the exporting process
        assert _refused(device.import_physical, "nothing") == 107000
        assert _import(key) == ("[123, 123, 123, 123]", "")
        assert x.get().tolist() == [45] * 4


@pytest.mark.timeout(120)
def test_only_processes_of_the_list_may_import():
    """The sample with a list of processes."""
    with sync.open_device(0, clock="virtual") as device:
        memory = device.malloc_physical(PIECE)
        assert _refused(memory.allow, [1]) == 107000
        key = memory.export()
        assert _import(key) == ("", "refused with 107000")
        assert _import(key, allowing=memory) == ("[0, 0, 0, 0]", "")
        memory.free()
        assert _import(key) == ("", "refused with 107000")


def test_the_blocking_twin_has_buffers_of_its_own():
    """They block."""
    with sync.open_device(0, clock="virtual") as device:
        addresses = device.reserve_memory(PIECE)
        addresses.map(device.malloc_physical(PIECE))
        x = addresses.buffer(4)
        device.memset(x, 3)
        assert isinstance(x, sync.Buffer)
        assert x.get().tolist() == [3] * 4
