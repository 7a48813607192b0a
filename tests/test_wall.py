"""The wall clock under pressure: many threads and loops, fast switching, debug mode, garbage collections."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import sys
import threading
import time

import numpy as np
import pytest
import uvloop

import cann_async as ca
import cann_async.sync as blocking

from .helpers import LIMIT_S, SOC, Hold, boom, copy_kernel, in_threads, numbers, open_device, rejects, script, work

pytestmark = pytest.mark.timeout(90)
LOOPS = (asyncio.new_event_loop, uvloop.new_event_loop)


@pytest.fixture(params=(None, 1e-6), ids=("usual-switching", "fast-switching"))
def switching(request):
    """Run with the usual switch interval and with one that switches threads all the time."""
    before = sys.getswitchinterval()
    if request.param is not None:
        sys.setswitchinterval(request.param)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def device():
    """Open a device for blocking use."""
    with blocking.open_device(clock="wall", soc=SOC) as device:
        yield device


@pytest.mark.usefixtures("switching")
def test_threads_that_launch_on_streams_of_their_own(device):
    """Results are right and in order."""

    def use(index):
        log = []
        with device.create_stream() as stream:
            for i in range(300):
                task = stream.launch(work(1, log.append, i))
                if i % 7 == index % 7:
                    task.result()
        return log

    assert in_threads(8, use) == [list(range(300))] * 8


@pytest.mark.usefixtures("switching")
def test_threads_that_launch_on_one_stream(device):
    """What each has launched runs in its own order, nothing is lost."""
    log = []
    stream = device.create_stream()

    def use(index):
        for i in range(300):
            stream.launch(work(1, log.append, (index, i)))
        stream.synchronize()
        return sum(1 for owner, _ in list(log) if owner == index)

    assert in_threads(6, use) == [300] * 6
    assert len(log) == 1800
    for index in range(6):
        assert [i for owner, i in log if owner == index] == list(range(300))
    stream.close()


@pytest.mark.usefixtures("switching")
def test_everything_is_done_when_synchronize_returns(device):
    """Under a mixture of light and heavy bodies."""
    state = {"ended": 0}

    def light():
        state["ended"] += 1

    def heavy():
        time.sleep(0.0005)
        state["ended"] += 1

    with device.create_stream() as stream:
        for i in range(200):
            stream.launch(work(1, heavy if i % 20 == 0 else light))
            if i % 10 == 9:
                stream.synchronize()
                assert state["ended"] == i + 1
                assert stream.query()


@pytest.mark.usefixtures("switching")
@pytest.mark.parametrize("factory", LOOPS)
def test_launch_and_await_one_by_one(factory):
    """Thousands of times, with other coroutines beside it."""

    async def main():
        async with open_device("wall") as device:
            streams = [device.create_stream() for _ in range(4)]

            async def chain(stream):
                total = 0
                for i in range(500):
                    total += await stream.launch(work(1, lambda i=i: i))
                await stream.close()
                return total

            return await asyncio.gather(*(chain(stream) for stream in streams))

    with asyncio.Runner(loop_factory=factory) as runner:
        assert runner.run(main()) == [500 * 499 // 2] * 4


@pytest.mark.usefixtures("switching")
def test_events_order_streams_of_many_threads(device):
    """A chain of records and waits through all streams: every stage sees the one before."""
    streams = [device.create_stream() for _ in range(4)]
    for _ in range(30):
        x = device.zeros(1000, np.int32)
        seen = []

        @ca.kernel(per_block=False)
        def stage(launch, x, number, seen=seen):
            seen.append((number, int(x[0]), int(x[-1])))
            x += 1

        event = device.create_event()
        for number in range(12):
            stream = streams[number % 4]
            stream.wait(event)
            stream.launch(stage, x, number)
            event = stream.record()
        event.synchronize()
        assert seen == [(i, i, i) for i in range(12)]
    for stream in streams:
        stream.close()


@pytest.mark.usefixtures("switching")
def test_one_task_awaited_by_many_loops_and_threads(device):
    """All wake, again and again."""
    stream = device.create_stream()
    rounds = 100
    barrier = threading.Barrier(4)
    box = []

    def use(index):
        async def main():
            got = []
            for number in range(rounds):
                if index == 0:
                    box.append(stream.launch(work(1, lambda number=number: number)))
                barrier.wait(LIMIT_S)
                got.append(await asyncio.wait_for(box[number], LIMIT_S))
            return got

        if index == 3:
            got = []
            for number in range(rounds):
                barrier.wait(LIMIT_S)
                got.append(box[number].result())
            return got
        with asyncio.Runner(loop_factory=LOOPS[index % 2]) as runner:
            return runner.run(main())

    assert in_threads(4, use) == [list(range(rounds))] * 4
    stream.close()


@pytest.mark.usefixtures("switching")
@pytest.mark.parametrize("factory", LOOPS)
def test_cancelled_awaits_race_with_results(factory):
    """An await ends in exactly one way; a cancellation is never swallowed."""

    async def main():
        rng = random.Random(5)
        async with open_device("wall") as device, device.create_stream() as stream:
            for _ in range(300):
                task = stream.launch(work(1, time.sleep, rng.random() * 0.0004))
                waiting = asyncio.create_task(task.wait())
                await asyncio.sleep(rng.random() * 0.0006)
                cancelled = waiting.cancel()
                (result,) = await asyncio.gather(waiting, return_exceptions=True)
                assert isinstance(result, asyncio.CancelledError) is cancelled
                assert await task is None

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


@pytest.mark.usefixtures("switching")
def test_cancelled_tasks_race_with_the_device(device):
    """`cancel` is True exactly for what never ran."""
    with device.create_stream() as stream:
        for _ in range(50):
            ran = set()
            tasks = [stream.launch(work(1, ran.add, i)) for i in range(20)]
            cancelled = {i for i in (19, 3, 10, 11, 12, 0) if tasks[i].cancel()}
            stream.synchronize()
            assert ran == set(range(20)) - cancelled
            for i, task in enumerate(tasks):
                assert task.cancelled() is (i in cancelled)
                if i in cancelled:
                    with rejects(107023):
                        task.result()


@pytest.mark.usefixtures("switching")
def test_closing_by_force_races_with_the_device(device):
    """Every task ends in one way, nobody hangs, and the device works on."""
    for round_ in range(50):
        stream = device.create_stream()
        tasks = [stream.launch(work(1, lambda: 1)) for _ in range(20)]
        waiter = threading.Thread(target=lambda task=tasks[-1]: task.exception() if task.done() else None)
        waiter.start()
        if round_ % 2:
            time.sleep(0.0002)
        stream.close(force=True)
        waiter.join(LIMIT_S)
        ends = ["dropped" if task.cancelled() else task.result() for task in tasks]
        assert ends == sorted(ends, key=str)  # those that ran came first
    assert device.default_stream.launch(work(1, lambda: 2)).result() == 2


def test_closing_a_runtime_in_full_work_wakes_everybody():
    """Threads and loops that wait, whatever for."""
    for _ in range(20):
        device = blocking.open_device(clock="wall", soc=SOC)
        hold = Hold(device.default_stream)
        stream = device.create_stream()
        stream.wait(hold.task)
        task = stream.launch(work(1))
        ready = threading.Barrier(5)

        def use(index, device=device, task=task, stream=stream, ready=ready):
            async def waiting():
                ready.wait(LIMIT_S)
                await asyncio.wait_for(task, LIMIT_S)

            if index == 4:
                ready.wait(LIMIT_S)
                time.sleep(0.002)
                device.runtime.close(drain=False)
                return
            with pytest.raises(ca.CannError, match="closed"):
                if index == 0:
                    asyncio.run(waiting())
                else:
                    ready.wait(LIMIT_S)
                    (None, task.result, stream.synchronize, device.synchronize)[index]()
            return

        in_threads(5, use)
        hold.let_go()


@pytest.mark.parametrize("factory", LOOPS)
def test_debug_mode_finds_nothing(factory, caplog, capfd):
    """Every awaitable and every blocking call, with the loop in debug mode."""

    async def main():
        loop = asyncio.get_running_loop()
        loop.slow_callback_duration = LIMIT_S  # how long something takes is no matter here
        async with open_device("wall") as device, device.create_stream() as stream:
            hold = Hold(stream)
            tasks = [stream.launch(work(1)) for _ in range(100)]
            event = stream.record()
            called = asyncio.Event()
            tasks[-1].add_done_callback(lambda task: called.set())
            future = tasks[50].future()
            waits = asyncio.gather(*tasks, event, stream.synchronize(), device.synchronize(), future, called.wait())
            await asyncio.sleep(0.01)
            hold.let_go()
            await waits
            buffer = await device.upload(numbers(100_000))
            await stream.launch(copy_kernel, device.empty(100_000), buffer)
            assert (await buffer.get()).sum() == numbers(100_000).sum()
            blocking.wait(stream.synchronize())
            stream.launch(work(1)).result()
            with rejects(507015):
                await stream.launch(boom)
            doomed = device.create_stream()
            late = Hold(doomed)
            waiting = asyncio.create_task(late.task.wait())
            await asyncio.sleep(0.01)
            await doomed.close(force=True)
            late.let_go()
            with rejects(107023):
                await waiting

    with caplog.at_level(logging.DEBUG, "asyncio"), asyncio.Runner(debug=True, loop_factory=factory) as runner:
        runner.run(main())
    text = "\n".join(record.getMessage() for record in caplog.records if record.levelno > logging.DEBUG)
    assert text == ""
    assert capfd.readouterr().err == ""


def test_a_busy_host_does_not_hold_the_device_up():
    """Work that was enqueued gets done while the host computes or sleeps, without any call."""
    with blocking.open_device(clock="wall", soc=SOC) as device, device.create_stream() as stream:
        done = threading.Event()
        for _ in range(10):
            stream.launch(work(1))
        stream.launch(work(1, done.set))
        assert done.wait(LIMIT_S)


def test_an_idle_device_is_woken_again_and_again():
    """After it has gone to sleep for good."""
    with blocking.open_device(clock="wall", soc=SOC) as device, device.create_stream() as stream:
        for _ in range(20):
            done = threading.Event()
            stream.launch(work(1, done.set))
            assert done.wait(LIMIT_S)
            time.sleep(0.005)


def test_an_idle_device_costs_no_time():
    """Its threads sleep."""
    done = script(
        "import time, cann_async.sync as ca\n"
        "d = ca.open_device(clock='wall')\n"
        "k = ca.kernel(lambda block: time.sleep(0.001))\n"
        "for _ in range(10): d.default_stream.launch(k)\n"
        "d.synchronize(); time.sleep(0.2)\n"
        "before = time.process_time(); time.sleep(1); print(time.process_time() - before)\n"
    )
    assert float(done.stdout) < 0.5, done.stderr  # a thread that spins would use all of that second


@pytest.mark.usefixtures("switching")
def test_copies_and_kernels_on_several_streams_give_the_right_data(device):
    """Uploads, kernels and downloads of many batches, of small and large sizes."""
    rng = np.random.default_rng(3)

    @ca.kernel
    def twice(block, x):
        part = block.slice(x.size)
        x[part] *= 2

    def use(index):
        with device.create_stream() as stream:
            for size in (10, 1000, 300_000, 7, 50_000):
                source = rng.integers(0, 1000, size)
                pinned, back = device.malloc_host(size, np.int64), device.malloc_host(size, np.int64)
                pinned[:] = source
                x = device.empty(size, np.int64)
                for _ in range(3):
                    stream.memcpy(x, pinned)
                    stream.launch(twice, x, blocks=4)
                    stream.memcpy(back, x)
                stream.synchronize()
                assert np.array_equal(back, source * 2)
        return True

    assert all(in_threads(4, use))


@pytest.mark.usefixtures("switching")
def test_forgotten_streams_never_deadlock_a_garbage_collection():
    """A collection may run anywhere, also while somebody begins to wait."""
    before = gc.get_threshold()
    with blocking.open_device(clock="wall", soc=SOC) as device:

        def use(index):
            for _ in range(150):
                stream = device.create_stream()
                cycle = [stream]
                cycle.append(cycle)
                task = stream.launch(work(1, time.sleep, 0))
                del stream, cycle
                task.result()
            return True

        gc.set_threshold(1, 1, 1)
        try:
            with pytest.warns(ResourceWarning):
                assert all(in_threads(3, use))
                gc.collect()
        finally:
            gc.set_threshold(*before)
        device.synchronize()
        assert device.runtime.statistics().streams == 1


def test_many_runtimes_one_after_the_other_leave_no_threads():
    """Closing ends them."""
    before = threading.active_count()
    for _ in range(20):
        with blocking.open_device(clock="wall", soc=SOC) as device:
            device.default_stream.launch(work(1, time.sleep, 0.001)).result()

            @ca.kernel
            async def body(block):
                await asyncio.sleep(0)

            device.default_stream.launch(body).result()
    end = time.monotonic() + LIMIT_S
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() <= before
