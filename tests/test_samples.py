"""CANN's own example programs, through the blocking twin, on both clocks; each test says which and gives its values."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import cann_async.sync as ca

from .helpers import SOC, both, rejects

pytestmark = pytest.mark.timeout(60)
LONG_S = 2.0
"""How long LongOP takes in virtual time; on the wall clock a gate holds it."""


@ca.kernel(per_block=False)
def easy_op(launch, x):
    """x += 1."""
    x += 1


@ca.kernel(per_block=False)
def short_op(launch, x):
    """x *= 2."""
    x *= 2


@ca.kernel(engine="ai_vector", per_block=False)
def error_op(launch, x):
    """Trap."""
    raise RuntimeError("trap")


@ca.kernel
def add(block, self, other, alpha, out):
    """Do as aclnnAdd: out = self + alpha * other."""
    part = block.slice(self.size)
    out[part] = self[part] + alpha * other[part]


def long_op(clock, gate=None):
    """Make LongOP: it takes long, then x += 1."""

    @ca.kernel(per_block=False, cost=ca.Cost(seconds=LONG_S))
    def body(launch, x):
        if clock == "wall" and gate is not None:
            gate.wait(30)
        x += 1

    return body


def run_add(device, stream, self, other, alpha):
    """Copy in, add, copy out, as the quick start does."""
    given = [np.asarray(values, np.float32) for values in (self, other)]
    a, b = (device.empty(values.shape, np.float32) for values in given)
    out = device.empty(given[0].shape, np.float32)
    for buffer, values in zip((a, b), given, strict=True):
        device.memcpy(buffer, values)
    stream.launch(add, a, b, alpha, out, blocks=4)
    stream.synchronize()
    result = np.empty(given[0].shape, np.float32)
    device.memcpy(result, out)
    return [round(float(value), 4) for value in result]


@both
def test_quickstart_hello_cann(clock):
    """1..8 + 1 * 0.5..4: 1.5 3.0 ... 12.0."""
    with ca.open_device(soc=SOC, clock=clock) as device, device.create_stream() as stream:
        expected = [1.5, 3.0, 4.5, 6.0, 7.5, 9.0, 10.5, 12.0]
        assert run_add(device, stream, range(1, 9), np.arange(0.5, 4.5, 0.5), 1) == expected


@both
def test_device_normal(clock):
    """Alpha 1.2; stream, then device synchronize."""
    with ca.open_device(soc=SOC, clock=clock) as device, device.create_stream() as stream:
        found = run_add(device, stream, range(8), [1, 1, 1, 2, 2, 2, 3, 3], 1.2)
        device.synchronize()
        assert found == [1.2, 2.2, 3.2, 5.4, 6.4, 7.4, 9.6, 10.6]


@both
def test_device_multi_thread(clock):
    """Every thread its own stream, one vector core: dst[i] = 2 * i."""

    @ca.kernel(engine="ai_vector")
    def double(block, dst):
        part = block.slice(dst.size)
        dst[part] = 2 * np.arange(dst.size)[part]

    found = {}
    with ca.Runtime(soc=SOC, clock=clock, devices=2) as runtime:

        def thread(number):
            device = runtime.device(number % 2)
            device.retain()
            with ca.use(device), device.create_stream() as stream:
                stream.set_core_limit("ai_vector", 1)
                assert stream.core_limit("ai_vector") == 1
                dst = device.zeros(16, np.int32)
                stream.launch(double, dst, blocks=8)
                stream.synchronize()
                stream.set_core_limit("ai_vector", None)
                found[number] = dst.get().tolist(), stream.core_limit("ai_vector")

        threads = [threading.Thread(target=thread, args=(number,)) for number in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert found == dict.fromkeys(range(4), ([2 * i for i in range(16)], SOC.vector_cores))


@both
def test_device_p2p(clock):
    """A byte set on device 0 arrives on the host by way of device 1: 103."""
    with ca.Runtime(soc=SOC, clock=clock, devices=2) as runtime:
        first, second = runtime.devices
        assert first.can_access_peer(second)
        source, target = first.malloc(64), second.malloc(64)
        first.memset(source, 103)
        with rejects(107000, "peer"):
            second.memcpy(target, source)
        first.enable_peer_access(second)
        second.enable_peer_access(first)
        second.memcpy(target, source)
        host = second.malloc_host(64)
        second.memcpy(host, target)
        assert host.tolist() == [103] * 64
        second.synchronize()
        first.disable_peer_access(second)
        second.disable_peer_access(first)
        for device in runtime.devices:
            device.reset()


@both
def test_context_query(clock):
    """Current is what was set; it has a default stream; the cores are the hardware's."""
    with ca.open_device(soc=SOC, clock=clock) as device:
        context = device.create_context()
        with ca.use(context):
            assert ca.current_stream() is context.default_stream
            assert ca.current_device() is device
            assert ca.current_stream().core_limit("ai_core") == SOC.ai_cores
            assert ca.current_stream().core_limit("ai_vector") == SOC.vector_cores
        context.destroy()


@both
def test_simple_stream(clock):
    """Default stream, created stream, then 3000 tasks: 1, 2, 3002, and nothing is pending."""
    with ca.open_device(soc=SOC, clock=clock) as device:
        x = device.zeros(1, np.int32)
        device.default_stream.launch(easy_op, x)
        device.default_stream.synchronize()
        assert x.get().tolist() == [1]
        with device.create_stream(failure_mode="stop") as stream:
            stream.launch(easy_op, x)
            stream.synchronize()
            assert x.get().tolist() == [2]
            for _ in range(3000):
                stream.launch(easy_op, x)
            stream.synchronize()
            assert stream.query()
            assert x.get().tolist() == [3002]


@both
def test_stream_with_failure_mode(clock):
    """Continue: 507035 and 2; stop: 507035 and 1; abort works, synchronize still says 507035; hooks are told."""
    with ca.Runtime(soc=SOC, clock=clock) as runtime:
        told = []
        runtime.on_stream_state("sample", lambda state, stream: told.append(state))
        device = runtime.device()
        context = device.create_context()
        stream, x = context.create_stream(), device.zeros(1, np.int32)
        for mode, value in (("continue", 2), ("stop", 1)):
            stream.set_failure_mode(mode)
            device.memset(x, 0)
            for kernel in (easy_op, error_op, easy_op):
                stream.launch(kernel, x)
            with rejects(507035):
                stream.synchronize()
            assert x.get().tolist() == [value]
        with rejects(507035):
            stream.abort()
        with rejects(507035):
            stream.synchronize()
        stream.close()
        context.destroy()
        assert told == ["create_post", "destroy_pre"]


@both
def test_multi_stream(clock):
    """By event, by stream and by notify: (0 + 1) * 2; waiting for LongOP with a limit: 507047, 507046."""
    gate = threading.Event()
    with ca.open_device(soc=SOC, clock=clock) as device:
        s1, s2, event = device.create_stream(), device.create_stream(), device.create_event(kind="latch")
        long, notify = long_op(clock), device.create_notify()
        x = device.zeros(1, np.int32)
        s1.launch(long, x)
        event.record(s1)
        s2.wait(event)
        event.reset(s2)
        s2.launch(short_op, x)
        event.record(s2)
        event.synchronize()
        assert x.get().tolist() == [2]

        device.memset(x, 0)
        s1.launch(long, x)
        s1.synchronize()
        s2.launch(short_op, x)
        s2.synchronize()
        assert x.get().tolist() == [2]

        device.memset(x, 0)
        s1.launch(long, x)
        s1.record_notify(notify)
        s2.wait_notify(notify)
        s2.launch(short_op, x)
        s2.synchronize()
        assert x.get().tolist() == [2]

        s1.launch(long_op(clock, gate), x)
        event.record(s1)
        limit = 1 if clock == "virtual" else 0.01
        with rejects(507047):
            event.synchronize(timeout=limit)
        with rejects(507046):
            s1.synchronize(timeout=limit / 2)
        gate.set()
        for stream in (s1, s2):
            stream.close()


@both
def test_stream_config_query(clock):
    """An id, priority 0."""
    with ca.open_device(soc=SOC, clock=clock) as device, device.create_stream() as stream:
        assert stream.id >= 0
        assert stream.priority == 0


@both
def test_event_status(clock):
    """Not complete before the record and while LongOP runs, complete afterwards; value 1."""
    gate = threading.Event()
    with ca.open_device(soc=SOC, clock=clock) as device, device.create_stream() as stream:
        event, x = device.create_event(kind="latch"), device.zeros(1, np.int32)
        assert event.query_status() is False
        stream.launch(long_op(clock, gate), x)
        event.record(stream)
        assert event.query_status() is False
        gate.set()
        event.synchronize()
        assert event.query_status() is True
        assert x.get().tolist() == [1]


@both
def test_event_timestamp(clock):
    """Twice the same events without a reset: timestamps grow, LongOP takes longer than ShortOP."""
    gate = threading.Event()
    with ca.open_device(soc=SOC, clock=clock) as device, device.create_stream() as stream:
        start, end = device.create_event(kind="latch"), device.create_event(kind="latch")
        x, taken = device.zeros(1, np.int32), []
        threading.Timer(0.2, gate.set).start()
        for kernel, value in ((short_op, 0), (long_op(clock, gate), 1)):
            start.record(stream)
            stream.launch(kernel, x)
            end.record(stream)
            stream.synchronize()
            assert x.get().tolist() == [value]
            assert end.timestamp_ns > start.timestamp_ns
            taken.append(start.elapsed_time(end))
        assert 0 < taken[0] < taken[1]


@both
@pytest.mark.parametrize("queued", [False, True])
def test_memory_copies(clock, queued):
    """Host to host, in, out, and within the device, at once and on a stream: 123 arrives."""
    with ca.open_device(soc=SOC, clock=clock) as device, device.create_stream() as stream:
        source, target = device.malloc_host(64), device.malloc_host(64)
        source[:] = 123
        x, y = device.malloc(64), device.malloc(64)
        copy = stream.memcpy if queued else device.memcpy
        if queued:
            with rejects(207000):
                copy(target, source)
        else:
            copy(target, source)
            assert target.tolist() == [123] * 64
            target[:] = 0
        for dst, src in ((x, source), (y, x), (target, y)):
            copy(dst, src)
        stream.synchronize()
        assert target.tolist() == [123] * 64


@both
def test_multistream_sync_memory(clock):
    """Thread A waits for a value on its stream; B publishes a marker, then writes the value."""
    with ca.open_device(soc=SOC, clock=clock) as device:
        flag, marker, seen = device.zeros(1, np.uint64), [], []
        a, b = device.create_stream(), device.create_stream()
        a.wait_value(flag, 1, "eq")
        done = a.record()

        def thread_a():
            done.synchronize()
            seen.extend(marker)

        def thread_b():
            marker.append(123)
            b.write_value(flag, 1)
            b.synchronize()

        threads = [threading.Thread(target=thread) for thread in (thread_b, thread_a)]
        for thread in threads:
            thread.start()
            if clock == "virtual":  # before that nothing can ever happen, and virtual time says so
                thread.join()
        for thread in threads:
            thread.join()
        assert seen == [123]
        a.close()
        b.close()


@both
def test_simple_callback(clock):
    """Before, kernel, host function, five more, in order, in the thread that processes; values 520."""
    with ca.open_device(soc=SOC, clock=clock) as device, device.create_stream(failure_mode="stop") as stream:
        reports, order, codes = device._machine.reports, [], set()
        ready, stop = threading.Event(), threading.Event()

        def process():
            me = threading.get_ident()
            reports.subscribe(me, stream._queue)
            ready.set()
            while not stop.is_set():
                try:
                    reports.process(0.1)
                except ca.CannError as problem:
                    codes.add(problem.code)
            reports.unsubscribe(me, stream._queue)

        thread = threading.Thread(target=process)
        thread.start()
        ready.wait()
        x = device.zeros(1, np.int32)

        def callback(name, data):
            order.append((name, data, threading.get_ident() == thread.ident))

        stream._call_subscribed(callback, ("before", 520), True)
        stream.launch(easy_op, x)
        stream.call(callback, "host func", 520)
        for number in range(5):
            stream._call_subscribed(callback, (number, 520), True)
        stream.synchronize()
        stop.set()
        thread.join()
        assert codes <= {507012}  # nothing came within the time
        names = ["before", "host func", 0, 1, 2, 3, 4]
        assert order == [(name, 520, name != "host func") for name in names]
        assert x.get().tolist() == [1]


@both
def test_callback_hostfunc(clock):
    """The host function sees what the kernel has done."""
    with ca.open_device(soc=SOC, clock=clock) as device, device.create_stream() as stream:
        x, seen = device.zeros(1, np.int32), []
        host = device.malloc_host(1, np.int32)
        stream.launch(easy_op, x)
        stream.memcpy(host, x)
        stream.call(lambda: seen.append(int(host[0])))
        stream.synchronize()
        assert seen == [1]


@both
def test_callback_exception(clock):
    """In stop mode a callback behind the failure does not run; the error names task, stream and device; value 1."""
    with ca.open_device(soc=SOC, clock=clock) as device:
        context = device.create_context()
        stream, x, seen = context.create_stream(failure_mode="stop"), device.zeros(1, np.int32), []
        stream.launch(easy_op, x)
        failing = stream.launch(error_op, x)
        stream.call(lambda: seen.append(1))
        with rejects(507035):
            stream.synchronize()
        with rejects(507035) as caught:
            failing.result()
        assert (caught.value.task_id, caught.value.stream_id, caught.value.device_id) == (failing.id, stream.id, 0)
        assert not seen
        assert x.get().tolist() == [1]
        context.destroy()


@both
def test_launch_kernel_with_reslimit(clock):
    """A limit of 8 cores, 8 blocks: "Hello World" 8 times."""
    said = []

    @ca.kernel
    def hello(block):
        said.append("Hello World")

    with ca.open_device(soc=SOC.replace(ai_cores=24), clock=clock) as device, device.create_stream() as stream:
        device.set_core_limit("ai_core", 8)
        stream.launch(hello, blocks=device.core_limit("ai_core"))
        stream.synchronize()
        assert said == ["Hello World"] * 8
