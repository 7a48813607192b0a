"""Virtual time: exact, the same on every run and loop, and never early."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time

import numpy as np
import pytest
import uvloop

import cann_async as ca
import cann_async.sync as blocking

from .helpers import LIMIT_S, SOC, in_threads, open_device, rejects, work

pytestmark = pytest.mark.timeout(60)
ONE_CORE = SOC.replace(ai_cores=1)


def now(device: ca.Device) -> int:
    """Give the runtime's time."""
    return device.runtime.clock.now_ns()


@pytest.mark.asyncio
async def test_time_stands_still_until_a_host_waits():
    """Launching costs nothing, nor does thinking."""
    async with open_device() as device, device.create_stream() as stream:
        task = stream.launch(work(10))
        time.sleep(0.01)
        assert now(device) == 0
        assert task.started_ns is None
        await task
        assert (task.submitted_ns, task.started_ns, task.finished_ns) == (0, 0, 10_000)
        assert now(device) == 10_000
        assert isinstance(now(device), int)


@pytest.mark.asyncio
async def test_time_moves_no_further_than_what_is_waited_for():
    """The rest stays under way."""
    async with open_device() as device:
        first, second = device.create_stream(), device.create_stream()
        short, long = first.launch(work(10)), second.launch(work(1000))
        await short
        assert now(device) == 10_000
        assert long.finished_ns is None
        third = first.launch(work(5))
        await device.synchronize()
        assert third.submitted_ns == third.started_ns == 10_000
        assert long.finished_ns == 1_000_000


@pytest.mark.asyncio
async def test_times_are_exact_integers():
    """One nanosecond is one, after any number of others and from any start."""
    start = 1_709_591_365 * 10**9
    async with ca.Runtime(clock="virtual", soc=SOC, start_ns=start) as runtime:
        stream = runtime.device().create_stream()
        assert runtime.clock.now_ns() == start
        await stream.launch(work(0.001))
        assert runtime.clock.now_ns() == start + 1
        kernel = work(1)
        for _ in range(10_000):
            last = stream.launch(kernel)
        await last
        assert runtime.clock.now_ns() == start + 1 + 10_000_000
        assert last.finished_ns == start + 1 + 10_000_000
        await stream.close()


@pytest.mark.asyncio
async def test_sleep_is_in_virtual_time():
    """The device goes on meanwhile, and nothing really sleeps."""
    real = time.monotonic()
    async with open_device() as device, device.create_stream() as stream:
        clock = device.runtime.clock
        task = stream.launch(work(150))
        await clock.sleep(100e-6)
        assert (clock.now_ns(), task.done()) == (100_000, False)
        await clock.sleep(100e-6)
        assert (clock.now_ns(), task.done()) == (200_000, True)
        assert task.finished_ns == 150_000
        await clock.sleep(0)
        assert clock.now_ns() == 200_000
        await clock.sleep(3600)
        assert clock.now_ns() == 200_000 + 3600 * 10**9
        for bad in (-1, float("nan"), float("inf")):
            with pytest.raises(ValueError, match="sleep"):
                await clock.sleep(bad)
    assert time.monotonic() - real < LIMIT_S


@pytest.mark.asyncio
async def test_sleepers_wake_in_order_at_their_times():
    """Timers of many hosts and kernels, in one sequence."""
    log = []
    async with open_device() as device, device.create_stream() as stream:
        clock = device.runtime.clock

        async def sleeper(us):
            await clock.sleep(us * 1e-6)
            log.append((us, clock.now_ns()))

        stream.launch(work(25, log.append, "kernel"))
        await asyncio.gather(*(sleeper(us) for us in (30, 10, 20, 10)))
        assert log == [(10, 10_000), (10, 10_000), (20, 20_000), "kernel", (30, 30_000)]


@pytest.mark.asyncio
async def test_asyncio_sleep_is_real_time():
    """It leaves the virtual clock where the device put it."""
    async with open_device() as device:
        await asyncio.sleep(0.01)
        assert now(device) == 0


@pytest.mark.asyncio
async def test_an_urgent_stream_goes_first_and_nothing_running_is_preempted():
    """0 is the most urgent; at the same priority, what was submitted first."""
    log = []
    async with open_device(soc=ONE_CORE) as device:
        streams = [device.create_stream(priority=priority) for priority in (7, 3, 3, 0)]
        streams[0].launch(work(10, log.append, "running"))
        await device.runtime.clock.sleep(1e-6)
        for i, stream in enumerate(streams):
            for j in range(2):
                stream.launch(work(10, log.append, (i, j)))
        await device.synchronize()
        assert log == ["running", (3, 0), (3, 1), (1, 0), (2, 0), (1, 1), (2, 1), (0, 0), (0, 1)]


@pytest.mark.asyncio
async def test_at_one_instant_completions_come_first_then_waits_then_engines_choose():
    """So a busy urgent stream keeps its engine, and an urgent stream that an event lets go takes it."""
    log = []
    async with open_device(soc=ONE_CORE) as device:
        urgent, lazy, other = (device.create_stream(priority=p) for p in (0, 7, 0))
        urgent.launch(work(10, log.append, "urgent 1"))
        lazy.launch(work(10, log.append, "lazy"))
        urgent.launch(work(10, log.append, "urgent 2"))
        await device.synchronize()
        assert log == ["urgent 1", "urgent 2", "lazy"]

        log.clear()
        urgent.launch(work(10, log.append, "first"))
        event = urgent.record()
        lazy.launch(work(10, log.append, "lazy"))
        other.wait(event)
        other.launch(work(10, log.append, "let go"))
        await device.synchronize()
        assert log == ["first", "let go", "lazy"]


@pytest.mark.asyncio
async def test_two_engines_that_end_at_once_are_both_taken_into_account():
    """A waiter for both starts at that instant, before a less urgent one."""
    log = []
    soc = SOC.replace(ai_cores=1, vector_cores=1)
    async with open_device(soc=soc) as device:
        a, b, urgent, lazy = (device.create_stream(priority=p) for p in (5, 5, 0, 7))
        a.launch(work(10))
        b.launch(work(10, engine="ai_vector"))
        urgent.wait(a)
        urgent.wait(b)
        lazy.launch(work(1, log.append, "lazy"))
        task = urgent.launch(work(1, log.append, "urgent"))
        await device.synchronize()
        assert log == ["urgent", "lazy"]
        assert task.started_ns == 10_000


@pytest.mark.asyncio
async def test_a_wide_launch_is_not_overtaken_by_narrow_ones_behind_it():
    """The most urgent ready one waits for its cores; nobody starves it."""
    async with open_device() as device:
        streams = [device.create_stream() for _ in range(3)]
        narrow = streams[0].launch(work(10))
        wide = streams[1].launch(work(10), blocks=4)
        late = streams[2].launch(work(10))
        await device.synchronize()
        assert [t.started_ns for t in (narrow, wide, late)] == [0, 10_000, 20_000]


@pytest.mark.asyncio
async def test_tasks_without_time_run_at_the_present_instant():
    """Time never goes back."""
    seen = []
    async with open_device() as device, device.create_stream() as stream:
        for us in (0, 0, 5, 0, 3):
            stream.launch(work(us, lambda: seen.append(now(device))))
        await stream.synchronize()
        assert seen == [0, 0, 5_000, 5_000, 8_000]
        assert now(device) == 8_000


@pytest.mark.asyncio
async def test_a_body_runs_at_the_instant_at_which_its_task_ends():
    """Its outputs keep their old bytes until then; its real time does not count."""
    async with open_device() as device, device.create_stream() as stream:
        x = device.zeros(4, np.uint8)

        @ca.kernel(cost=ca.Cost(seconds=1e-6))
        def fill(block, x):
            time.sleep(0.01)
            x[:] = now(device) // 1000

        stream.launch(work(4))
        stream.launch(fill, x)
        reading = asyncio.create_task(x.get())
        assert not (await reading).any()
        assert now(device) == 4  # four bytes
        await stream.synchronize()
        assert now(device) == 5_000
        assert (await x.get() == 5).all()


@pytest.mark.parametrize("how", ("task", "event", "stream"))
def test_polling_ends(how):
    """Asking again and again lets time go on, one thing at a time."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        stream, other = device.create_stream(), device.create_stream()
        task = stream.launch(work(10))
        event, later = stream.record(), other.launch(work(1000))
        ask = {"task": task.done, "event": event.query, "stream": stream.query}[how]
        turns = 0
        while not ask():
            turns += 1
            assert turns < 100_000
        assert now(device) == 10_000
        assert later.finished_ns is None


@pytest.mark.asyncio
async def test_polling_with_sleeps_ends():
    """Also on a loop that does other things."""
    async with open_device() as device, device.create_stream() as stream:
        stream.launch(work(10))
        event = stream.record()
        while not event.query():
            await asyncio.sleep(0)
        assert now(device) == 10_000


@pytest.mark.asyncio
async def test_a_question_that_is_not_repeated_moves_nothing():
    """It only brings the present instant up to date."""
    async with open_device() as device, device.create_stream() as stream:
        free, slow = stream.launch(work(0)), stream.launch(work(1))
        for _ in range(10):
            assert free.done()
            assert not slow.done()
        assert now(device) == 0


def waiting_for_each_other(device):
    """Make two asynchronous kernels that wait for each other's stream."""
    first, second = device.create_stream(name="one"), device.create_stream(name="two")
    tasks = []

    @ca.kernel(cost=ca.Cost(seconds=1e-6), per_block=False)
    async def body(launch, other):
        await tasks[other]

    tasks.append(first.launch(body, 1))
    tasks.append(second.launch(body, 0))
    return first, second, tasks


@pytest.mark.asyncio
async def test_a_deadlock_is_an_error_for_everybody_who_waits():
    """At once, without a timeout; it lists the streams; the rest of the device works on."""
    async with open_device() as device:
        first, second, tasks = waiting_for_each_other(device)
        waits = [first.synchronize(), device.synchronize(), tasks[1].wait()]
        problems = await asyncio.wait_for(asyncio.gather(*waits, return_exceptions=True), LIMIT_S)
        assert {type(problem) for problem in problems} <= {ca.DeadlockError, ca.ExecutionError}
        assert any(isinstance(problem, ca.DeadlockError) for problem in problems)
        text = next(str(problem) for problem in problems if isinstance(problem, ca.DeadlockError))
        assert "deadlock" in text
        assert f"stream {first.id}" in text
        assert f"stream {second.id}" in text
        assert await device.default_stream.launch(work(1, lambda: "works")) == "works"


@pytest.mark.asyncio
async def test_a_deadlock_draws_the_circle():
    """Each stream says what it waits for, on which stream that stands, and behind what."""
    async with open_device() as device:
        first, second, third = (device.create_stream() for _ in range(3))
        event, go, never = device.create_event(name="e"), device.create_notify("go"), device.create_notify("never")
        first.wait_notify(go)
        event.record(first)
        second.wait(event)
        second.record_notify(go)
        third.wait_notify(never)
        with pytest.raises(ca.DeadlockError) as caught:
            await first.synchronize()
        for stream in (first, second, third):
            await stream.close(force=True)
        for line in (
            f"stream {first.id} waits for notify 'go', recorded on stream {second.id} behind a wait for event 'e'",
            f"stream {second.id} waits for event 'e', recorded on stream {first.id} behind a wait for notify 'go'",
            f"stream {third.id} waits for notify 'never', which nobody will record",
        ):
            assert line in str(caught.value)


def test_a_deadlock_is_an_error_for_blocked_threads_too():
    """In a script."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        first, _second, _ = waiting_for_each_other(device)
        with rejects(107020, "deadlock"):
            first.synchronize()
        assert device.default_stream.launch(work(1, lambda: "works")).result() == "works"


# -- hosts that pass work on to each other: time never moves while one can go on ----------------------


async def by_queue(done):
    """Pass a result on through five queues."""
    queues = [asyncio.Queue() for _ in range(5)]

    async def pass_on(source, target):
        await target.put(await source.get())

    passing = [asyncio.ensure_future(pass_on(a, b)) for a, b in itertools.pairwise(queues)]
    first = asyncio.ensure_future(queues[-1].get())
    await queues[0].put(await done)
    result = await first
    await asyncio.gather(*passing)
    return result


async def by_event(done):
    """Pass it on through five events."""
    events, box = [asyncio.Event() for _ in range(5)], []

    async def pass_on(source, target):
        await source.wait()
        target.set()

    passing = [asyncio.ensure_future(pass_on(a, b)) for a, b in itertools.pairwise(events)]
    box.append(await done)
    events[0].set()
    await events[-1].wait()
    await asyncio.gather(*passing)
    return box[0]


async def by_lock(done):
    """Pass it on by a lock that five want, and a condition."""
    lock, condition, results = asyncio.Lock(), asyncio.Condition(), []

    async def want(i):
        async with lock:
            await asyncio.sleep(0)
            results.append(i)
        async with condition:
            condition.notify_all()

    result = await done
    wanting = [asyncio.ensure_future(want(i)) for i in range(5)]
    async with condition:
        await condition.wait_for(lambda: len(results) == 5)
    await asyncio.gather(*wanting)
    return result


async def by_gather(done, depth=5):
    """Pass it on through five nested gathers."""
    if depth == 0:
        return await done
    return (await asyncio.gather(by_gather(done, depth - 1), asyncio.sleep(0)))[0]


async def by_wait_for(done, depth=5):
    """Pass it on through five nested timeouts and shields."""
    if depth == 0:
        return await done
    return await asyncio.wait_for(asyncio.shield(by_wait_for(done, depth - 1)), LIMIT_S)


async def by_group(done, depth=5):
    """Pass it on through five nested task groups."""
    if depth == 0:
        return await done
    async with asyncio.TaskGroup() as group:
        task = group.create_task(by_group(done, depth - 1))
    return task.result()


async def by_future(done, depth=5):
    """Pass it on through futures and their callbacks."""
    future = done.future()
    for _ in range(depth):
        following = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda ended, following=following: following.set_result(ended.result()))
        future = following
    return await future


async def by_callback(done, depth=5):
    """Pass it on from a done callback by `call_soon`."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def later(left):
        if left:
            loop.call_soon(later, left - 1)
        else:
            future.set_result(done.result())

    done.add_done_callback(lambda task: later(depth))
    waiting = done.wait()
    await asyncio.gather(waiting, future)
    return future.result()


WAYS = (by_queue, by_event, by_lock, by_gather, by_wait_for, by_group, by_future, by_callback)


async def relay(device: ca.Device, ways, decoys: int = 3) -> list[int | None]:
    """Launch one task after the other, each when the result of the one before has been passed on; give their times.

    Decoys end shortly after each: if time moved while a host can still go on, the next launch would come late.
    """
    stream, beside = device.create_stream(), [device.create_stream() for _ in range(decoys)]
    waiting, tasks = [], []
    for i, way in enumerate(ways):
        for j, other in enumerate(beside):
            waiting.append(asyncio.ensure_future(other.launch(work(10 + 0.001 * (j + 1))).wait()))
        tasks.append(stream.launch(work(10, lambda i=i: i)))
        assert await way(tasks[-1]) == i
    await asyncio.gather(*waiting)
    for each in (stream, *beside):
        await each.close()
    return [task.submitted_ns for task in tasks]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.asyncio
async def test_time_never_moves_while_a_host_can_go_on(way):
    """However a result is passed on, the next launch comes at the instant of the result."""
    async with open_device() as device:
        assert await relay(device, [way] * 5) == [0, 10_000, 20_000, 30_000, 40_000]


@pytest.mark.asyncio
async def test_hosts_in_parallel_pass_work_on_at_exact_times():
    """Twenty chains at once, of all kinds."""
    soc = SOC.replace(ai_cores=1000)
    async with open_device(soc=soc) as device:
        chains = [relay(device, [WAYS[(i + j) % len(WAYS)] for j in range(5)]) for i in range(20)]
        assert await asyncio.gather(*chains) == [[0, 10_000, 20_000, 30_000, 40_000]] * 20


def rows(device: ca.Device) -> list[tuple[object, ...]]:
    """Give the timeline as rows."""
    return [
        (r.name, r.stream, r.engine, r.lane, r.submitted_ns, r.started_ns, r.finished_ns)
        for r in device.runtime.timeline.records
    ]


def launch_all(device):
    """Enqueue copies, kernels, records and waits on streams of several priorities."""
    streams = [device.create_stream(priority=p) for p in (0, 3, 7)]
    x = device.empty(500, np.uint8)
    for i in range(30):
        stream = streams[i % 3]
        stream.memcpy(x, np.zeros(500, np.uint8))
        stream.launch(work(i % 7), x, blocks=1 + i % 5)
        event = stream.record()
        streams[(i + 1) % 3].wait(event)
    return streams


def test_the_same_timeline_on_asyncio_uvloop_and_without_a_loop():
    """And on every run."""

    async def main():
        async with open_device() as device:
            for stream in launch_all(device):
                await stream.close()
            return rows(device)

    def no_loop():
        with blocking.open_device(clock="virtual", soc=SOC) as device:
            for stream in launch_all(device):
                stream.close()
            return rows(device)

    timelines = [no_loop() for _ in range(3)]
    for factory in (asyncio.new_event_loop, uvloop.new_event_loop) * 3:
        with asyncio.Runner(loop_factory=factory) as runner:
            timelines.append(runner.run(main()))
    assert all(timeline == timelines[0] for timeline in timelines)
    assert len(timelines[0]) == 120


def test_the_relay_gives_the_same_timeline_on_every_loop():
    """With hosts that pass results on in every way."""
    timelines = []
    for factory in (asyncio.new_event_loop, uvloop.new_event_loop) * 3:

        async def main():
            async with open_device() as device:
                await asyncio.gather(*(relay(device, WAYS) for _ in range(5)))
                return rows(device)

        with asyncio.Runner(loop_factory=factory) as runner:
            timelines.append(runner.run(main()))
    assert all(timeline == timelines[0] for timeline in timelines)


def test_several_threads_that_wait_on_virtual_time():
    """Time moves while any of them waits; all get their results and nothing hangs."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:

        def use(index):
            with device.create_stream() as stream:
                for i in range(50):
                    assert stream.launch(work(1, lambda i=i: i)).result() == i
            return True

        assert all(in_threads(6, use))
        assert now(device) >= 50_000


def test_a_thread_and_a_loop_wait_together():
    """For each other's work."""
    with blocking.open_device(clock="virtual", soc=SOC) as device:
        first, second = device.create_stream(), device.create_stream()
        second.wait(first.launch(work(100)))
        task = second.launch(work(1, lambda: "after"))
        results = []
        thread = threading.Thread(target=lambda: results.append(task.result()), daemon=True)

        async def main():
            thread.start()
            return await task

        assert asyncio.run(main()) == "after"
        thread.join(LIMIT_S)
        assert results == ["after"]
        assert now(device) == 101_000


@pytest.mark.asyncio
async def test_work_done_in_threads_of_the_host_comes_back_in_its_own_time():
    """`to_thread` is real time; what it enqueues counts from then on."""
    async with open_device() as device, device.create_stream() as stream:
        await stream.launch(work(10))
        task = await asyncio.to_thread(stream.launch, work(10, lambda: "from a thread"))
        assert await task == "from a thread"
        assert now(device) == 20_000


@pytest.mark.asyncio
async def test_async_bodies_take_their_modelled_time_and_wait_in_virtual_time():
    """Virtual time stands still while one of them can go on."""
    async with open_device() as device:
        first, second = device.create_stream(), device.create_stream()

        @ca.kernel(cost=ca.Cost(seconds=10e-6), per_block=False)
        async def outer(launch):
            await asyncio.sleep(0.005)
            inner = second.launch(work(7))
            await inner
            await asyncio.sleep(0)
            return inner.submitted_ns, inner.finished_ns

        task = first.launch(outer)
        assert await task == (10_000, 17_000)
        assert task.finished_ns == 17_000
        assert now(device) == 17_000


def test_cancelling_a_ready_head_lets_the_streams_behind_it_go_on():
    """A record behind it answers a wait while the engine is choosing: that news is settled, and time goes on."""
    soc = ca.Soc(ai_cores=1, vector_cores=1, launch_ns=0)
    with blocking.Runtime(clock="virtual", soc=soc) as runtime:
        device = runtime.device()
        busy, cancelled, waiting, other = (device.create_stream() for _ in range(4))

        def launch(stream, nanoseconds, engine="ai_core"):
            return stream.launch(ca.kernel(engine=engine, cost=ca.Cost(seconds=nanoseconds * 1e-9))(lambda block: None))

        launch(busy, 5)
        launch(other, 5, "ai_vector")
        launch(other, 1, "ai_vector")
        runtime.clock.sleep(1e-9)
        head = launch(cancelled, 1)
        waiting.wait(cancelled.record())
        launch(waiting, 1, "ai_cpu")
        runtime.clock.sleep(1e-9)
        assert head.cancel()
        device.synchronize()
        assert runtime.clock.now_ns() == 6
