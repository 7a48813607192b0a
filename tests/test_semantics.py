"""Failure modes, aborts, timeouts, notifies, values, latches, callbacks, limits and resets, on both clocks."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import numpy as np
import pytest

import cann_async as ca
import cann_async.sync as blocking

from .helpers import SOC, both, rejects, work

pytestmark = pytest.mark.timeout(60)


@ca.kernel(per_block=False, engine="ai_vector", cost=ca.Cost(seconds=1e-6))
def boom(launch):
    """Fail as the samples' ErrorOP."""
    raise ZeroDivisionError("boom")


@ca.kernel(per_block=False, cost=ca.Cost(seconds=1e-6))
def increment(launch, x):
    """Do as EasyOP."""
    x += 1


def sleepy(gate):
    """Make a kernel that lasts ten virtual seconds, or until the gate opens."""

    @ca.kernel(per_block=False, cost=ca.Cost(seconds=10))
    def body(launch):
        gate.wait(20)

    return body


@pytest.fixture
def gate(request):
    """Opens at the end of the test, and at once on the virtual clock, where nothing runs at its side."""
    event = threading.Event()
    if request.getfixturevalue("clock") == "virtual":
        event.set()
    yield event
    event.set()


# -- failure modes ----------------------------------------------------------------------------------------------------


@both
@pytest.mark.asyncio
async def test_continue_runs_the_next_task_and_reports_once(clock):
    """The failure-mode sample: 507035, value 2."""
    async with ca.open_device(soc=SOC, clock=clock) as device, device.create_stream() as stream:
        x = await device.upload(np.zeros(1, np.int32))
        stream.launch(increment, x)
        stream.launch(boom)
        stream.launch(increment, x)
        with rejects(507035):
            await stream.synchronize()
        await stream.synchronize()
        assert (await x.get()).tolist() == [2]
        assert stream.failure_mode == "continue"


@both
@pytest.mark.asyncio
async def test_stop_ends_the_whole_context_for_good(clock):
    """The sample again: 507035, value 1; every call says it, every time; single copies still work."""
    async with ca.Runtime(soc=SOC, clock=clock) as runtime:
        device = runtime.device()
        context = device.create_context()
        stream, other = context.create_stream(failure_mode="stop"), context.create_stream()
        bystander = device.create_stream()
        x = await device.upload(np.zeros(1, np.int32))
        assert other.failure_mode == "stop"
        event = context.create_event()
        stream.launch(increment, x)
        stream.launch(boom)
        dropped = stream.launch(increment, x)
        stream.record(event)
        for _ in range(2):
            with rejects(507035):
                await stream.synchronize()
        for call in (
            stream.query,
            lambda: stream.launch(increment, x),
            lambda: other.launch(increment, x),
            other.record,
            event.query,
            context.create_stream().record,
        ):
            with rejects(507035, "stopped"):
                call()
        for wait in (other.synchronize, context.synchronize, event.synchronize, dropped.wait):
            with rejects(507035):
                await wait()
        assert dropped.cancelled()
        with rejects(207000):
            bystander.set_failure_mode("stop")
            bystander.set_failure_mode("continue")
        assert (await x.get()).tolist() == [1]
        await stream.close()
        await context.destroy()
        await bystander.launch(increment, x)
        assert (await x.get()).tolist() == [2]


@both
@pytest.mark.asyncio
async def test_task_abort_makes_a_stopped_context_work_again(clock, gate):
    """Who waits gets 107022; the device goes on."""
    async with ca.open_device(soc=SOC, clock=clock) as device:
        stream = device.create_stream(failure_mode="stop")
        with rejects(507035):
            stream.launch(boom)
            await stream.synchronize()
        other = device.create_context().create_stream()
        running, queued = other.launch(sleepy(gate)), other.launch(work(1))
        waiter = asyncio.create_task(other.synchronize())
        await asyncio.sleep(0)
        await device.task_abort()
        for one in (running.wait(), queued.wait(), waiter):
            with rejects(107022):
                await one
        await stream.launch(work(1))
        await other.launch(work(1))
        await stream.close()


def test_a_failure_mode_is_checked():
    """Neither of the two is 107000, at the call."""
    with blocking.open_device(soc=SOC) as device:
        with rejects(107000, "failure_mode"):
            device.create_stream(failure_mode="halt")
        with rejects(107000):
            device.default_stream.set_failure_mode("halt")
        device.default_stream.set_failure_mode("continue")


# -- aborts -----------------------------------------------------------------------------------------------------------


@both
@pytest.mark.asyncio
async def test_case_lif_3_abort_never_hangs(clock, gate):
    """LIF-3: whoever waits gets an error, so does who depends on it; the stream works; a default stream is 107000."""
    async with ca.open_device(soc=SOC, clock=clock) as device:
        s1, s2, event = device.create_stream(), device.create_stream(), device.create_event()
        s1.launch(sleepy(gate))
        h = s1.launch(work(1))
        event.record(s1)
        s2.wait(event)
        h2 = s2.launch(work(1))
        waiter = asyncio.create_task(s1.synchronize())
        await asyncio.sleep(0)
        await s1.abort()
        for one in (h.wait(), waiter, s2.synchronize(), h2.wait()):
            with rejects(107023):
                await asyncio.wait_for(one, 5)
        await s1.synchronize()
        await s2.synchronize()
        if clock == "virtual":
            assert device.runtime.clock.now_ns() == 0  # the kernel of ten seconds was killed
        await s1.launch(work(1))
        await s2.launch(work(1))
        with rejects(107000, "default"):
            await device.default_stream.abort()
        await s1.close()
        await s2.close()


@both
@pytest.mark.asyncio
async def test_abort_frees_the_cores_of_what_it_kills(clock, gate):
    """On a chip with one core the next kernel starts at once, and what the killed one gives is thrown away."""
    soc = SOC.replace(ai_cores=1)
    async with ca.open_device(soc=soc, clock=clock) as device:
        s1, s2 = device.create_stream(), device.create_stream()
        killed = s1.launch(sleepy(gate))
        while clock == "wall" and killed.started_ns is None:
            await asyncio.sleep(0)
        later = s2.launch(work(1, lambda: 7))
        await s1.abort()
        assert await asyncio.wait_for(later.wait(), 10) == 7
        gate.set()
        await s1.launch(work(1))
        with rejects(107023):
            await killed
        assert killed.cancelled()
        await s1.close()
        await s2.close()


@both
@pytest.mark.asyncio
async def test_abort_stops_an_asynchronous_kernel(clock):
    """At its next await."""
    seen = []

    @ca.kernel(per_block=False, cost=ca.Cost(seconds=1e-6))
    async def forever(launch, clock):
        seen.append("begun")
        try:
            await clock.sleep(3600)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async with ca.open_device(soc=SOC, clock=clock) as device, device.create_stream() as stream:
        other = device.create_stream()
        task = stream.launch(forever, device.runtime.clock)
        while not seen:
            await other.launch(work(1))
            await asyncio.sleep(0)
        await stream.abort()
        with rejects(107023):
            await task
        await stream.launch(work(1))
        for _ in range(2000):
            if len(seen) == 2:
                break
            await asyncio.sleep(0.001)
        assert seen == ["begun", "cancelled"]
        await other.close()


# -- timeouts ---------------------------------------------------------------------------------------------------------


@both
@pytest.mark.asyncio
async def test_host_waits_time_out_and_the_work_goes_on(clock, gate):
    """507046 for streams, contexts, devices and tasks; 507047 for events; exactly at the deadline in virtual time."""
    async with ca.open_device(soc=SOC, clock=clock) as device, device.create_stream() as stream:
        task = stream.launch(sleepy(gate))
        event = stream.record()
        waits = [stream.synchronize, device.synchronize, stream.context.synchronize]
        for count, wait in enumerate(waits, 1):
            with rejects(507046) as caught:
                await wait(timeout=0.01)
            assert isinstance(caught.value, TimeoutError)
            if clock == "virtual":
                assert device.runtime.clock.now_ns() == count * 10_000_000
        with rejects(507047):
            await event.synchronize(timeout=0.01)
        with rejects(507046):
            task.result(timeout=0.01)
        with rejects(507046):
            await stream.synchronize(timeout=0)
        for wrong in (-1, float("nan")):
            for wait in (stream.synchronize, event.synchronize, device.synchronize):
                with rejects(107000):
                    await wait(timeout=wrong)
        gate.set()
        await stream.synchronize(timeout=60)
        assert task.done()
        assert event.query()
        if clock == "virtual":
            assert device.runtime.clock.now_ns() == 10_000_000_000


@pytest.mark.asyncio
async def test_at_the_deadline_itself_the_work_wins():
    """Ten seconds are enough for ten seconds."""
    async with ca.open_device(soc=SOC, clock="virtual") as device, device.create_stream() as stream:
        stream.launch(work(10_000_000))
        await stream.synchronize(timeout=10)
        task = stream.launch(work(1_000_000), timeout=1)
        await task
        assert device.runtime.clock.now_ns() == 11_000_000_000


@both
@pytest.mark.asyncio
async def test_a_stream_waits_so_long_and_no_longer(clock):
    """107020, seen by synchronize; the next task runs."""
    async with ca.open_device(soc=SOC, clock=clock) as device:
        s1, s2, notify = device.create_stream(), device.create_stream(), device.create_notify()
        s1.wait_notify(notify)
        event = s1.record()
        waiting = s2.wait(event, timeout=0.02)
        after = s2.launch(work(1, lambda: "ran"))
        assert await after == "ran"
        with rejects(107020):
            await waiting
        with rejects(107020):
            s2.wait_notify(notify, timeout=0.01)
            await s2.synchronize()
        if clock == "virtual":
            assert waiting.finished_ns == 20_000_000
        device.runtime.op_wait_timeout = 0.01
        with rejects(107020):
            await s2.wait(event)
        device.runtime.op_wait_timeout = None
        s2.record_notify(notify)
        await s1.synchronize()
        await s2.wait(event, timeout=5)
        for stream in (s1, s2):
            await stream.close()


@both
def test_timers_that_nobody_needs_any_more_are_forgotten(clock):
    """However long the timeouts are."""
    with blocking.open_device(soc=SOC, clock=clock) as device, device.create_stream() as stream:
        for _ in range(6):
            for _ in range(1000):
                stream.launch(work(1), timeout=1000)
            stream.synchronize(timeout=1000)
        clock_of = device._machine.clock
        assert len(clock_of.timers if clock == "wall" else clock_of._due) < 3000


@pytest.mark.parametrize(("engine", "code"), [("ai_core", 507014), ("ai_vector", 507034), ("ai_cpu", 507017)])
@both
@pytest.mark.asyncio
async def test_a_kernel_that_takes_too_long_is_killed(clock, engine, code, gate):
    """Its engine is free, its stream goes on, its late result is thrown away."""

    @ca.kernel(engine=engine, per_block=False, cost=ca.Cost(seconds=10))
    def slow(launch, x):
        gate.wait(20)
        x += 100

    async with ca.open_device(soc=SOC.replace(ai_cores=1, vector_cores=1, ai_cpus=1), clock=clock) as device:
        stream = device.create_stream()
        x, y = device.zeros(1, np.int32), device.zeros(1, np.int32)
        killed = stream.launch(slow, y, timeout=0.01)
        stream.launch(increment, x)
        with rejects(code, "0.01 s") as caught:
            await killed
        assert "test_semantics.py" in caught.value.launched_at
        await stream.synchronize()
        assert (await x.get()).tolist() == [1]
        if clock == "virtual":
            assert killed.finished_ns == 10_000_000
            assert (await y.get()).tolist() == [0]
        y.free()  # while the body may still look at it
        device.runtime.op_execute_timeout = 0.02
        z = device.zeros(1, np.int32)
        with rejects(code):
            await stream.launch(slow, z)
        device.runtime.op_execute_timeout = None
        gate.set()
        await stream.launch(slow, z)
        await stream.close()


# -- notifies, values, latches ----------------------------------------------------------------------------------------


@both
@pytest.mark.asyncio
async def test_a_notify_is_one_bit_for_one_wait(clock):
    """Two records before a wait are one; a wait always waits."""
    async with ca.Runtime(soc=SOC, clock=clock, devices=2) as runtime:
        s1, s2 = runtime.device(0).create_stream(), runtime.device(1).create_stream()
        notify = runtime.device().create_notify("go")
        await s1.record_notify(notify)
        await s1.record_notify(notify)
        await s2.wait_notify(notify)
        waiting = s2.wait_notify(notify)
        await s1.launch(work(1))
        assert not waiting.done()
        await s1.record_notify(notify)
        await waiting
        assert repr(notify) == "<Notify 'go', not set>"
        await s1.record_notify(notify)
        notify.reset()
        with rejects(107020):
            await s2.wait_notify(notify, timeout=0.001)
        notify.close()
        notify.close()
        with rejects(507000, "closed"):
            s1.record_notify(notify)
        for stream in (s1, s2):
            await stream.close()


@both
@pytest.mark.asyncio
async def test_two_who_wait_for_one_notify_take_turns(clock):
    """First come, first served; each needs a record of its own."""
    async with ca.open_device(soc=SOC, clock=clock) as device:
        streams = [device.create_stream() for _ in range(3)]
        notify = device.create_notify()
        first, second = streams[0].wait_notify(notify), streams[1].wait_notify(notify)
        await streams[2].record_notify(notify)
        await first
        assert not second.done()
        await streams[2].record_notify(notify)
        await second
        for stream in streams:
            await stream.close()


@both
@pytest.mark.parametrize(
    ("op", "value", "found", "passes"),
    [
        ("ge", 5, 5, True),
        ("ge", 5, 4, False),
        ("ge", 2**64 - 1, 3, True),
        ("eq", 5, 5, True),
        ("eq", 5, 6, False),
        ("and", 6, 2, True),
        ("and", 6, 1, False),
        ("nor", 1, 0, True),
        ("nor", 2**64 - 1, 1, False),
    ],
)
@pytest.mark.asyncio
async def test_a_stream_waits_for_a_value(clock, op, value, found, passes):
    """The four conditions of aclrtValueWait on what write_value has written."""
    async with ca.open_device(soc=SOC, clock=clock) as device:
        s1, s2 = device.create_stream(), device.create_stream()
        flag = device.zeros(1, np.uint64)
        await s1.write_value(flag, found)
        if passes:
            await s2.wait_value(flag, value, op, timeout=5)
        else:
            with rejects(107020):
                await s2.wait_value(flag, value, op, timeout=0.001)
        for stream in (s1, s2):
            await stream.close()


@both
@pytest.mark.asyncio
async def test_kernels_copies_and_memsets_release_who_waits_for_a_value(clock):
    """Whoever writes there."""

    @ca.kernel(per_block=False, cost=ca.Cost(seconds=1e-6))
    def store(launch, flag):
        flag[0] = 1

    async with ca.open_device(soc=SOC, clock=clock) as device:
        s1, s2 = device.create_stream(), device.create_stream()
        for write in (
            lambda flag: s1.launch(store, flag),
            lambda flag: s1.memcpy(flag, np.ones(1, np.uint64)),
            lambda flag: s1.memset(flag, 1),
            lambda flag: device.memcpy(flag, np.ones(1, np.uint64)),
        ):
            flag = device.zeros(1, np.uint64)
            waiting = s2.wait_value(flag, 1)
            await s1.launch(work(1))
            assert not waiting.done()
            await write(flag)
            await asyncio.wait_for(waiting.wait(), 10)
        buf = device.malloc(64)
        for wrong in (lambda: s1.write_value(buf[4:], 1), lambda: s1.wait_value(buf[:4], 1)):
            with rejects(107000, "8"):
                wrong()
        with rejects(107000):
            s1.write_value(buf, 1 << 64)
        with rejects(107000):
            s1.wait_value(buf, 1, "xor")
        for stream in (s1, s2):
            await stream.close()


@pytest.mark.asyncio
async def test_kernels_on_workers_release_who_waits_for_a_value():
    """Also when they arrive just as the time of the host that drives is up; a new kernel runs on a worker."""
    async with ca.open_device(soc=SOC, clock="wall") as device:
        s1, s2 = device.create_stream(), device.create_stream()
        for _ in range(500):
            flag = device.zeros(1, np.uint64)
            waiting = s2.wait_value(flag, 1)

            @ca.kernel(per_block=False)
            def store(launch, flag):
                flag[0] = 1

            await s1.launch(store, flag)
            await asyncio.wait_for(waiting.wait(), 10)
        for stream in (s1, s2):
            await stream.close()


@pytest.mark.asyncio
async def test_waiting_for_what_nobody_writes_is_a_deadlock():
    """At once, with what is waited for."""
    async with ca.open_device(soc=SOC, clock="virtual") as device:
        stream, flag, notify = device.create_stream(), device.zeros(1, np.uint64), device.create_notify("go")
        with pytest.raises(ca.DeadlockError, match="memory that is ge 1"):
            await stream.wait_value(flag, 1)
        await stream.abort()
        with pytest.raises(ca.DeadlockError, match="notify 'go'"):
            await stream.wait_notify(notify)
        await stream.close(force=True)


KINDS = ["snapshot", "latch", "sync latch"]


@both
@pytest.mark.parametrize(
    ("kind", "before", "wait_before", "wait_status"),
    [("snapshot", True, "passes", 207000), ("latch", False, 107000, True), ("sync latch", False, "waits", True)],
)
@pytest.mark.asyncio
async def test_the_event_families(clock, kind, before, wait_before, wait_status):
    """The table of what each call does before and after a record."""
    async with ca.open_device(soc=SOC, clock=clock) as device:
        s1, s2 = device.create_stream(), device.create_stream()
        event = device.create_event(kind=kind)
        assert event.query() is True
        assert event.query_status() is before
        await event.synchronize()
        with rejects(507000, "never recorded"):
            _ = event.timestamp_ns
        if wait_before == 107000:
            with rejects(107000, "never recorded"):
                s2.wait(event)
        elif wait_before == "passes":
            await s2.wait(event)
        else:
            waiting = s2.wait(event)
            await s1.launch(work(1))
            assert not waiting.done()
            assert event.query_wait_status() is False
            event.record(s1)
            await waiting
        if wait_status == 207000:
            with rejects(207000):
                event.query_wait_status()
        else:
            assert event.query_wait_status() is True
        event.record(s1)
        await event
        assert event.query_status() is True
        first = event.timestamp_ns
        await s1.launch(work(1))
        event.record(s1)
        await event
        assert event.timestamp_ns > first
        await s2.wait(event)
        if kind == "snapshot":
            event.reset()
            assert not event.recorded
            await s2.wait(event)
        else:
            with rejects(107000, "stream"):
                event.reset()
            event.reset(s2)
            held = s2.wait(event)
            await s1.launch(work(1))
            assert not held.done()
            event.record(s1)
            await held
        for stream in (s1, s2):
            await stream.close()


@both
@pytest.mark.asyncio
async def test_the_multi_stream_sample(clock):
    """LongOP, record, wait, reset, ShortOP, record: (0 + 1) * 2."""

    @ca.kernel(per_block=False, cost=ca.Cost(seconds=1e-6))
    def double(launch, x):
        x *= 2

    for kind in ("latch", "sync latch", "snapshot"):
        async with ca.open_device(soc=SOC, clock=clock) as device:
            s1, s2 = device.create_stream(failure_mode="stop"), device.create_stream(failure_mode="stop")
            event, x = device.create_event(kind=kind), device.zeros(1, np.int32)
            s1.launch(increment, x)
            event.record(s1)
            s2.wait(event)
            event.reset(s2)
            s2.launch(double, x)
            event.record(s2)
            await event
            assert (await x.get()).tolist() == [2]
            await s1.close()
            await s2.close()


# -- callbacks --------------------------------------------------------------------------------------------------------

tag: contextvars.ContextVar[str] = contextvars.ContextVar("tag", default="none")


@both
@pytest.mark.asyncio
async def test_a_callback_runs_in_its_place_in_the_stream(clock):
    """What comes before it is done, what comes after it is not begun; its result is the task's."""
    async with ca.open_device(soc=SOC, clock=clock) as device, device.create_stream() as stream:
        order = []
        stream.launch(work(1, lambda: order.append("kernel")))
        called = stream.call(lambda a, b: order.append("callback") or a + b, 1, 2)
        stream.launch(work(1, lambda: order.append("next")))
        await stream.synchronize()
        assert order == ["kernel", "callback", "next"]
        assert await called == 3
        assert called.name == "<lambda>"
        with pytest.raises(TypeError):
            stream.call(5)


@both
@pytest.mark.asyncio
async def test_what_a_callback_raises_is_its_failure(clock):
    """507000-family with the cause; the next task runs."""

    def bad():
        raise KeyError("why")

    async def worse():
        raise ValueError("why not")

    async with ca.open_device(soc=SOC, clock=clock) as device, device.create_stream() as stream:
        for function, kind in ((bad, KeyError), (worse, ValueError)):
            task = stream.call(function)
            after = stream.launch(work(1, lambda: 1))
            with pytest.raises(ca.ExecutionError) as caught:
                await task
            assert type(caught.value.__cause__) is kind
            assert await after == 1


@both
@pytest.mark.asyncio
async def test_case_cb_1_waiting_in_a_callback_raises_at_once(clock):
    """CB-1: every way to wait; enqueueing is fine."""
    async with ca.open_device(soc=SOC, clock=clock) as device:
        stream, other, seen = device.create_stream(), device.create_stream(), {}
        buffer = device.zeros(4)
        busy = other.launch(work(1))

        def blocks():
            for name, wait in (
                ("sync", lambda: blocking.wait(stream.synchronize())),
                ("result", lambda: stream.launch(work(1)).result()),
                ("get", lambda: blocking.wait(buffer.get())),
            ):
                try:
                    wait()
                except ca.CannError as problem:
                    seen[name] = str(problem)
            seen["task"] = other.launch(work(1, lambda: "ran"))

        async def awaits():
            for name, wait in (("await", stream.synchronize), ("event", other.record().synchronize)):
                try:
                    await wait()
                except ca.CannError as problem:
                    seen[name] = str(problem)

        await busy
        stream.call(blocks)
        stream.call(awaits)
        await asyncio.wait_for(stream.synchronize(), 10)
        assert await seen.pop("task") == "ran"
        assert set(seen) == {"sync", "result", "get", "await", "event"}
        assert all("callback" in text for text in seen.values())
        await asyncio.wait_for(stream.close(), 10)
        await other.close()


@pytest.mark.asyncio
async def test_case_cb_4_what_waits_for_a_callback_and_what_does_not():
    """CB-4: with block the next task waits, also for a coroutine; without it does not, but synchronize does."""
    async with ca.open_device(soc=SOC, clock="virtual") as device, device.create_stream() as stream:
        order = []

        async def slow():
            await device.runtime.clock.sleep(500e-6)
            order.append("cb")

        stream.call(slow, block=True)
        h1 = stream.launch(work(1))
        called = stream.call(slow, block=False)
        h2 = stream.launch(work(1))
        await stream.synchronize()
        assert h1.started_ns >= 500_000
        assert h2.started_ns == h1.finished_ns
        assert order == ["cb", "cb"]
        assert called.done()


@both
@pytest.mark.asyncio
async def test_case_cb_5_callbacks_have_the_context_of_who_enqueued_them(clock):
    """CB-5: a copy, so what they set stays with them."""
    async with ca.open_device(soc=SOC, clock=clock) as device, device.create_stream() as stream:
        seen = []

        def callback():
            seen.append(tag.get())
            tag.set("leak")

        async def coroutine():
            callback()

        async def user(name):
            tag.set(name)
            stream.call(callback)
            await device.runtime.clock.sleep(1e-6)
            stream.call(coroutine)

        await asyncio.gather(user("A"), user("B"))
        await stream.synchronize()
        assert sorted(seen) == ["A", "A", "B", "B"]
        assert tag.get() == "none"


@both
@pytest.mark.asyncio
async def test_a_coroutine_callback_runs_on_the_loop_that_enqueued_it(clock):
    """So it can use what belongs to that loop."""
    async with ca.open_device(soc=SOC, clock=clock) as device, device.create_stream() as stream:
        queue = asyncio.Queue()

        async def put(value):
            await queue.put((value, asyncio.get_running_loop()))

        stream.call(put, 1)
        stream.call(put, 2, block=False)
        assert await queue.get() == (1, asyncio.get_running_loop())
        await stream.synchronize()
        assert queue.get_nowait()[0] == 2


@both
def test_callbacks_without_a_loop(clock):
    """A coroutine function runs on a loop of the runtime's own; callbacks that do not block keep their order."""
    with blocking.open_device(soc=SOC, clock=clock) as device, device.create_stream() as stream:
        seen = []

        async def coroutine(value):
            await asyncio.sleep(0)
            seen.append(value)

        for value in range(6):
            stream.call(coroutine if value % 2 else seen.append, value, block=value % 3 == 0)
        stream.synchronize()
        assert seen == list(range(6))


@both
@pytest.mark.asyncio
async def test_blocking_the_loop_that_a_callback_needs_is_an_error(clock):
    """Instead of a hang."""
    async with ca.open_device(soc=SOC, clock=clock) as device, device.create_stream() as stream:
        seen = []

        async def coroutine():
            seen.append(1)

        task = stream.call(coroutine)
        with rejects(107000, "event loop of this thread"):
            task.result()
        await stream.synchronize()
        assert seen == [1]


@both
def test_subscribed_threads_call_what_is_due(clock):
    """The older way: codes, order, and that it may allocate and copy."""
    with blocking.open_device(soc=SOC, clock=clock) as device, device.create_stream() as stream:
        reports, queue, machine = device._machine.reports, stream._queue, device._machine
        order, found = [], []
        ready, stop = threading.Event(), threading.Event()

        def serve():
            reports.subscribe(threading.get_ident(), queue)
            ready.set()
            while not stop.is_set():
                try:
                    reports.process(0.05)
                except ca.CannError as problem:
                    found.append(problem.code)
            reports.unsubscribe(threading.get_ident(), queue)

        with rejects(107015):
            reports.place(queue)
        with rejects(107012):
            reports.process(0.01)
        thread = threading.Thread(target=serve)
        thread.start()
        ready.wait()
        with rejects(107011):
            reports.subscribe(threading.get_ident(), queue)

        def callback(value):
            order.append((value, threading.get_ident() == thread.ident))
            device.memcpy(device.zeros(4, np.int32), np.ones(4, np.int32))

        for value in range(5):
            stream._call_subscribed(callback, (value,), True)
            stream.launch(work(1, lambda value=value: order.append(value)))
        stream.synchronize()
        stop.set()
        thread.join()
        assert order == [x for value in range(5) for x in ((value, True), value)]
        assert set(found) <= {507012}
        assert machine.bodies.active == 0


# -- limits, resets, back-pressure ------------------------------------------------------------------------------------


def test_case_res_1_limits_can_be_read_and_say_what_is_alive():
    """RES-1: for streams, events and notifies; a slot is free as soon as close() returns."""
    soc = SOC.replace(max_streams=8, max_events=3, max_notifies=2)
    with blocking.open_device(soc=soc) as device:
        streams = [device.create_stream() for _ in range(device.streams_available)]
        with rejects(207008, "8"):
            device.create_stream()
        assert device.streams_available == 0
        streams.pop().close()
        assert device.streams_available == 1
        streams.append(device.create_stream())
        events = [device.create_event() for _ in range(3)]
        with rejects(207007, "3"):
            device.create_event(kind="latch")
        with rejects(207007):
            streams[0].record()
        assert streams[0].pending == 0
        events.pop()
        assert device.events_available == 1
        events[0].close()
        events[0].close()
        assert device.events_available == 2
        notifies = [device.create_notify() for _ in range(2)]
        with rejects(207009, "2"):
            device.create_notify()
        notifies.pop()
        assert device.notifies_available == 1
        for stream in streams:
            stream.close()


@both
@pytest.mark.asyncio
async def test_case_lif_10_a_reset_leaves_nothing_behind(clock, gate):
    """LIF-10: handles are stale, who waits gets an error, and everything new works at once."""
    async with ca.Runtime(soc=SOC, clock=clock) as runtime:
        device = runtime.device()
        buffer, stream, event = await device.upload(np.arange(4)), device.create_stream(), device.create_event()
        notify, context = device.create_notify(), device.create_context()
        pending = stream.launch(sleepy(gate))
        stream.record(event)
        old, other = device.default_stream, device.create_stream()
        await device.reset()
        with rejects(507007, "reset"):
            await pending
        for stale in (
            lambda: stream.launch(work(1)),
            lambda: old.launch(work(1)),
            lambda: device.default_stream.memcpy(buffer, np.arange(4)),
            lambda: other.memcpy(buffer, np.arange(4)),
            lambda: device.default_stream.record(event),
            context.create_stream,
            stream.query,
        ):
            with pytest.raises(ca.CannError):
                stale()
        with rejects(507007):
            await event
        assert device.default_stream is not old
        assert device.memory_info()[0] == device.memory_info()[1]
        fresh = await device.upload(np.arange(4))
        await device.memcpy(fresh[:1], np.array([9]))
        assert (await fresh.get()).tolist() == [9, 1, 2, 3]
        async with device.create_stream() as again:
            await again.launch(work(1))
        notify.close()


@pytest.mark.asyncio
async def test_the_last_user_of_a_device_resets_it():
    """Every set counts, a reset takes one away, and one too many is 507007; hooks hear of it."""
    async with ca.Runtime(soc=SOC) as runtime:
        device, told = runtime.device(), []
        runtime.on_device_state("test", lambda state, which: told.append(state))
        with rejects(107000, "test"):
            runtime.on_device_state("test", print)
        assert [device.retain(), device.retain()] == [1, 2]
        stream = device.create_stream()
        assert await device.release() == 1
        await stream.launch(work(1))
        assert await device.release() == 0
        with rejects(507007):
            stream.record()
        with rejects(507007):
            await device.release()
        assert told == ["set_pre", "set_post", "set_pre", "set_post", "reset_pre", "reset_post"]
        runtime.on_device_state("test", None)
        device.retain()
        assert len(told) == 6


@pytest.mark.asyncio
async def test_hooks_hear_of_streams():
    """When one has been made and when one is about to go."""
    async with ca.Runtime(soc=SOC) as runtime:
        told = []
        runtime.on_stream_state("mine", lambda state, stream: told.append((state, stream.id)))
        stream = runtime.device().create_stream()
        await stream.close()
        assert told == [("create_post", stream.id), ("destroy_pre", stream.id)]


@pytest.mark.asyncio
async def test_core_limits_make_waves():
    """A stream's limit goes before the device's; the modelled time and the record show the cores."""
    soc = SOC.replace(ai_cores=8, launch_ns=0, peak_flops=8e9)
    cost = ca.Cost(flops=8000)

    @ca.kernel(cost=cost)
    def body(block):
        pass

    async with ca.open_device(soc=soc, clock="virtual") as device, device.create_stream() as stream:
        for limit, cores in ((None, 8), (4, 4), (2, 2)):
            device.set_core_limit("ai_core", limit)
            assert device.core_limit("ai_core") == stream.core_limit("ai_core") == cores
            task = stream.launch(body, blocks=8)
            await task
            assert task.finished_ns - task.started_ns == 1000 * 8 // cores
        stream.set_core_limit("ai_core", 8)
        assert stream.core_limit("ai_core") == 8
        task = stream.launch(body, blocks=8)
        await task
        assert task.finished_ns - task.started_ns == 1000
        for engine, cores in (("h2d", 1), ("nothing", 1), ("ai_core", 0)):
            with rejects(107000):
                stream.set_core_limit(engine, cores)
            with rejects(107000):
                device.set_core_limit(engine, cores)


@both
def test_the_sample_of_3000_tasks_blocks_at_a_full_queue(clock):
    """3002 afterwards, and never more pending than the queue holds."""
    with (
        blocking.open_device(soc=SOC.replace(queue_depth=100), clock=clock) as device,
        device.create_stream() as stream,
    ):
        x, most = device.zeros(1, np.int32), 0
        for _ in range(3000):
            stream.launch(increment, x)
            most = max(most, stream.pending)
        assert most <= 101
        stream.synchronize()
        assert stream.query()
        assert x.get().tolist() == [3000]


def test_an_abort_wakes_who_waits_for_room():
    """With 107023, and nothing is enqueued."""
    gate = threading.Event()
    with blocking.open_device(soc=SOC.replace(queue_depth=4), clock="wall") as device, device.create_stream() as stream:
        held = stream.launch(sleepy(gate))
        while not held.state:
            pass  # until it is no longer in the queue
        for _ in range(4):
            stream.launch(work(1))
        found, begun = [], threading.Event()

        def enqueue():
            begun.set()
            try:
                stream.launch(work(1))
            except ca.CannError as problem:
                found.append(problem.code)

        thread = threading.Thread(target=enqueue)
        thread.start()
        begun.wait()
        while thread.is_alive() and not device._machine.waiting:
            pass  # until it blocks
        stream.abort()
        thread.join()
        gate.set()
        assert found == [107023]
        assert stream.pending == 0


@both
@pytest.mark.asyncio
async def test_drain_lets_a_host_keep_pace(clock):
    """The native API takes any number; drain() waits until the queue has room."""
    async with ca.open_device(soc=SOC.replace(queue_depth=10), clock=clock) as device, device.create_stream() as stream:
        x = device.zeros(1, np.int32)
        for _ in range(50):
            stream.launch(increment, x)
        assert stream.pending > 10 or clock == "wall"
        await stream.drain()
        assert stream.pending < 10
        await stream.synchronize()
        assert (await x.get()).tolist() == [50]


@both
@pytest.mark.asyncio
async def test_launch_blocking_raises_at_the_line_that_launches(clock):
    """ERR-4: and copies are done when they return."""
    async with ca.Runtime(soc=SOC, clock=clock, launch_blocking=True) as runtime:
        device = runtime.device()
        stream = device.create_stream()
        with rejects(507035) as caught:
            stream.launch(boom)
        assert caught.value.task.name == "boom"
        task = stream.launch(work(1, lambda: 1))
        assert task.done()
        x = device.zeros(4, np.int32)
        assert stream.memset(x, 1).done()
        await stream.close()


@both
@pytest.mark.asyncio
async def test_the_last_release_leaves_contexts_of_others_alone(clock):
    """A worker's set and reset of the device end the default context, and not the one that the main thread has made."""
    async with ca.Runtime(soc=SOC, clock=clock) as runtime:
        device = runtime.device()
        context = device.create_context()
        kept, buffer = context.create_stream(), device.malloc(64)
        device.retain()
        default = device.default_stream
        assert await device.release() == 0
        with pytest.raises(ca.CannError) as ended:
            default.record()
        assert ended.value.code == 507007
        kept.memset(buffer, 5)
        await kept.synchronize()
        assert (await buffer.get() == 5).all()
        assert device.default_stream.query()
        await context.destroy()
        device.retain()
        assert await device.release() == 0
        with pytest.raises(ca.UsageError):
            buffer.free()  # nobody was left: this time all was reset
