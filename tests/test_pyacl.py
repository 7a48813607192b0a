"""pyACL programs' behaviour: what host programs for Ascend run into, and CANN's samples once more (section 23)."""

from __future__ import annotations

import gc
import os
import queue
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import cann_async as ca
from cann_async import acl

H2D, D2H, D2D = 1, 2, 3
rt, util = acl.rt, acl.util


@ca.kernel(engine="ai_vector", cost=ca.Cost(seconds=1e-4))
def easy(block: ca.Block, x: np.typing.NDArray[np.float32]) -> None:
    """Add one."""
    x[0] += 1


@ca.kernel(engine="ai_vector", cost=ca.Cost(seconds=1e-4))
def short(block: ca.Block, x: np.typing.NDArray[np.float32]) -> None:
    """Double it."""
    x[0] *= 2


@ca.kernel(engine="ai_vector", cost=ca.Cost(seconds=5))
def long(block: ca.Block, x: np.typing.NDArray[np.float32]) -> None:
    """Take a while, then add one."""
    time.sleep(0.05)
    x[0] += 1


@ca.kernel(engine="ai_vector", cost=ca.Cost(seconds=1e-4))
def faulty(block: ca.Block, x: np.typing.NDArray[np.float32]) -> None:
    """Fail."""
    raise RuntimeError("trap")


@ca.kernel(engine="ai_vector")
def add(
    block: ca.Block,
    a: np.typing.NDArray[np.float32],
    b: np.typing.NDArray[np.float32],
    out: np.typing.NDArray[np.float32],
    alpha: np.float32,
    count: int,
) -> None:
    """Make out = a + alpha * b."""
    out[:count] = a[:count] + alpha * b[:count]


class Program:
    """The usual beginning of a program, and shorthands that check codes."""

    def __init__(self) -> None:
        assert acl.init() == 0
        assert rt.set_device(0) == 0
        self.binary = self.ok(rt.binary_load_from_file(__file__, []))
        self.functions: dict[str, int] = {}
        for kernel in (easy, short, long, faulty, add):
            acl.register_kernel(kernel.__name__, kernel)
            self.functions[kernel.__name__] = self.ok(rt.binary_get_function(self.binary, kernel.__name__))

    @staticmethod
    def ok(result: tuple[int, int]) -> int:
        """Give the value, if the code is 0."""
        value, code = result
        assert code == 0
        return value

    def launch(self, name: str, stream: int, *params: bytes, blocks: int = 1) -> None:
        """Launch with arguments that are given as bytes."""
        function = self.functions[name]
        args = self.ok(rt.kernel_args_init(function))
        for param in params:
            self.ok(rt.kernel_args_append(args, util.bytes_to_ptr(param), len(param)))
        assert rt.kernel_args_finalize(args) == 0
        assert rt.launch_kernel_with_config(function, blocks, stream, [], args, 0) == 0

    def upload(self, values: list[float]) -> int:
        """Put numbers into new device memory."""
        data = np.array(values, np.float32).tobytes()
        pointer = self.ok(rt.malloc(len(data), 0))
        assert rt.memcpy(pointer, len(data), util.bytes_to_ptr(data), len(data), H2D) == 0
        return pointer

    def read(self, pointer: int, count: int = 1) -> list[float]:
        """Copy numbers back."""
        data = bytes(4 * count)
        assert rt.memcpy(util.bytes_to_ptr(data), len(data), pointer, len(data), D2H) == 0
        return np.frombuffer(data, np.float32).round(4).tolist()

    def stream(self) -> int:
        """Make a stream."""
        return self.ok(rt.create_stream())


def pointer_bytes(address: int) -> bytes:
    """Give an address as an argument."""
    return np.uint64(address).tobytes()


@pytest.fixture
def program(drop_in: str) -> Program:
    """Begin a program on either clock."""
    return Program()


# -- scenarios from public reports -------------------------------------------------------------------------------------


def test_a_new_thread_has_no_context(program):
    """Scenario 1: 107002 until set_context."""
    context, _ = rt.get_context()
    seen = []

    def work() -> None:
        seen.append(rt.malloc(64, 0))
        seen.append(rt.peek_at_last_error(0))
        seen.append(rt.set_context(context))
        seen.append(rt.malloc(64, 0)[1])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(0, 107002), 107002, 0, 0]
    assert rt.peek_at_last_error(0) == 0  # the other thread's is not this one's


def test_a_stream_of_another_context_is_refused(drop_in):
    """Scenario 2: 107003, and the stream stays valid."""
    acl.configure(clock=drop_in, devices=2)
    one, _ = rt.create_context(0)
    stream, _ = rt.create_stream()
    other, _ = rt.create_context(1)
    assert rt.destroy_stream(stream) == 107003
    assert rt.synchronize_stream(stream) == 0  # waiting is allowed from everywhere
    assert rt.set_context(one) == 0
    assert rt.destroy_stream(stream) == 0
    assert rt.destroy_stream(stream) == 507000
    assert [rt.destroy_context(one), rt.destroy_context(one), rt.destroy_context(other)] == [0, 107002, 0]
    assert rt.get_context() == (0, 107002)


def test_the_direction_of_a_queued_copy(program):
    """Scenario 3: put right where both ends are known, 107000 where they are not."""
    host = program.ok(rt.malloc_host(64))
    device = program.ok(rt.malloc(64, 0))
    stream = program.stream()
    assert rt.memcpy_async(device, 64, host, 64, D2D, stream) == 0
    plain = bytes(64)
    pointer = util.bytes_to_ptr(plain)
    assert rt.memcpy_async(pointer, 64, device, 64, H2D, stream) == 107000
    assert rt.memcpy_async(pointer, 64, device, 64, D2H, stream) == 0
    assert rt.memcpy_async(host, 64, pointer, 64, 0, stream) == 207000
    assert rt.synchronize_stream(stream) == 0


def test_strict_directions(drop_in):
    """Scenario 3: the releases of the reports."""
    acl.configure(clock=drop_in, strict=True)
    program = Program()
    host, device = program.ok(rt.malloc_host(64)), program.ok(rt.malloc(64, 0))
    assert rt.memcpy_async(device, 64, host, 64, D2D, 0) == 107000
    assert rt.memcpy_async(device, 64, host, 64, H2D, 0) == 0
    assert rt.memcpy(device, 64, host, 64, D2D) == 0  # the blocking copy does not look


def test_callbacks_need_a_subscription(program):
    """Scenario 4: 107015 without one."""
    stream = program.stream()
    assert rt.launch_callback(lambda given: None, None, 0, stream) == 107015
    assert rt.subscribe_report(threading.get_ident(), stream) == 0
    assert rt.subscribe_report(threading.get_ident(), stream) == 107011
    assert rt.launch_callback(lambda given: None, None, 2, stream) == 100000
    seen: list[object] = []
    assert rt.launch_callback(seen.append, [7], 0, stream) == 0
    rt.stream_query(stream)
    assert rt.process_report(5000) == 0
    assert seen == [[7]]
    assert rt.unsubscribe_report(threading.get_ident(), stream) == 0
    assert rt.unsubscribe_report(threading.get_ident(), stream) == 107012


def test_callbacks_that_make_callbacks_reach_the_thread_on_either_clock(program):
    """Though the only other thread waits for something that is not the machine's."""
    context, _ = rt.get_context()
    stream, seen, done = program.stream(), [], threading.Event()

    def reports() -> None:
        rt.set_context(context)
        while not done.is_set():
            rt.process_report(50)

    def nest(left: int) -> None:
        seen.append(left)
        if not left or rt.launch_callback(nest, left - 1, 0, stream):
            done.set()

    thread = threading.Thread(target=reports)
    thread.start()
    assert rt.subscribe_report(thread.ident, stream) == 0
    assert rt.launch_callback(nest, 9, 0, stream) == 0
    assert done.wait(20)
    thread.join()
    assert seen == list(range(9, -1, -1))


@pytest.mark.parametrize("block", [0, 1])
def test_callbacks_come_though_the_program_waits_in_a_queue_of_its_own(program, block):
    """As decoders do with their frames: the thread that processes reports lets time go on."""
    context, _ = rt.get_context()
    stream, x = program.stream(), program.upload([0])
    calls: queue.Queue[int] = queue.Queue()
    ends = threading.Event()

    def loop(given: list[int]) -> None:
        rt.set_context(given[0])
        while not ends.is_set():
            rt.process_report(10)

    thread, _ = util.start_thread(loop, [context])
    assert rt.subscribe_report(thread, stream) == 0
    for number in range(3):
        program.launch("easy", stream, pointer_bytes(x))
        assert rt.launch_callback(calls.put, number, block, stream) == 0
    assert [calls.get(timeout=20) for _ in range(3)] == [0, 1, 2]
    assert rt.synchronize_stream(stream) == 0
    assert program.read(x) == [3]
    ends.set()
    assert util.stop_thread(thread) == 0


def test_one_thread_may_launch_callbacks_and_process_them(program):
    """Without asking for anything in between."""
    stream, seen = program.stream(), []
    assert rt.subscribe_report(threading.get_ident(), stream) == 0
    device = program.ok(rt.malloc(1 << 20, 0))
    for number in range(3):
        assert rt.memset_async(device, 1 << 20, 0, 1 << 20, stream) == 0
        assert rt.launch_callback(seen.append, number, 1, stream) == 0
    while len(seen) < 3:
        assert rt.process_report(5000) == 0
    assert seen == [0, 1, 2]
    assert rt.synchronize_stream(stream) == 0


def test_a_timed_wait_ends_though_nobody_calls_what_is_due(program):
    """The subscribed thread does something else; when it comes back, its callback is still there."""
    stream, seen, serve = program.stream(), [], threading.Event()
    context, _ = rt.get_context()

    def reports() -> None:
        rt.set_context(context)
        serve.wait(20)
        seen.append(rt.process_report(5000))

    thread = threading.Thread(target=reports)
    thread.start()
    assert rt.subscribe_report(thread.ident, stream) == 0
    assert rt.launch_callback(seen.append, "called", 1, stream) == 0
    assert rt.synchronize_stream_with_timeout(stream, 20) == 507046
    assert seen == []
    serve.set()
    assert rt.synchronize_stream(stream) == 0
    thread.join()
    assert seen == ["called", 0]


def test_the_level_of_the_last_error_is_zero(program):
    """Any other is 100000, as in CANN."""
    assert rt.get_last_error(1) == rt.peek_at_last_error(1) == 100000


def test_a_finalizer_frees_in_the_middle_of_an_allocation(program):
    """A garbage collection may come anywhere."""
    freed = []

    class Owner:
        def __init__(self) -> None:
            self.device = program.ok(rt.malloc(64, 0))
            self.host = program.ok(rt.malloc_host(64))
            self.circle = self

        def __del__(self) -> None:
            freed.append((rt.free(self.device), rt.free_host(self.host), rt.malloc(32, 0)[1]))

    before = gc.get_threshold()
    gc.freeze()  # else each collection looks at all that the other tests have left
    try:
        for number in range(300):
            gc.set_threshold(1 + number % 37, 1, 1)
            Owner()
        gc.collect()
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
    assert len(freed) == 300
    assert {codes[:2] for codes in freed} == {(0, 0)}
    assert {codes[2] for codes in freed} <= {0, 207001}  # in the middle of an allocation there is no other


def test_process_report_misuse(program):
    """Scenario 5: 100000, 107012, 507012."""
    stream = program.stream()
    assert rt.process_report(0) == 100000
    assert rt.process_report(-2) == 100000
    assert rt.process_report(10) == 107012
    rt.subscribe_report(threading.get_ident(), stream)
    assert rt.process_report(10) == 507012


def test_init_and_finalize_twice(drop_in):
    """Scenario 6: 100002 and 100037, and again from the start."""
    assert [acl.init(), acl.init(), acl.finalize(), acl.finalize(), acl.init()] == [0, 100002, 0, 100037, 0]
    assert acl.init("") == 100002
    assert acl.finalize_reference() == (1, 0)
    assert acl.finalize_reference() == (0, 0)
    assert acl.finalize_reference() == (0, 100037)


def test_a_failure_appears_at_the_synchronize(program):
    """Scenario 7: launches give 0, the first synchronize the code, the next one 0."""
    stream, x = program.stream(), pointer_bytes(program.upload([0]))
    program.launch("faulty", stream, x)
    program.launch("easy", stream, x)
    program.launch("faulty", stream, x)
    assert rt.synchronize_stream(stream) == 507035
    assert rt.synchronize_stream(stream) == 0
    assert rt.get_last_error(0) == 507035
    assert rt.peek_at_last_error(0) == 0
    assert "faulty" in acl.get_recent_err_msg()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_gets_errors(program):
    """Scenario 8: an error at the first call, no hang, and the parent goes on."""
    pointer = program.upload([1])
    child = os.fork()
    if not child:
        good = rt.malloc(64, 0)[1] and acl.init() and rt.memcpy(pointer, 4, pointer + 8, 4, 3) and rt.set_device(0)
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert program.read(pointer) == [1]


def test_sizes_of_copies(program):
    """Scenario 9: in CANN's order of checks."""
    device, host = program.ok(rt.malloc(64, 0)), bytes(128)
    pointer = util.bytes_to_ptr(host)
    assert rt.memcpy(device, 64, pointer, 128, H2D) == 107000
    assert rt.memcpy(device, 64, pointer, 0, 99) == 0
    assert rt.memcpy(0, 64, 0, 0, 99) == 0
    assert rt.memcpy(device, 64, 0, 64, H2D) == 100000
    assert rt.memcpy(device, 64, pointer, 64, 5) == 100000
    assert rt.memcpy(device, 0, pointer, 64, H2D) == 107000
    assert rt.memcpy(device, 128, pointer, 128, H2D) == 107000  # more than there is, padding and all
    assert rt.memcpy(device, 64, device, 64, D2D) == 0
    assert rt.memset(device, 64, 1, 65) == 107000
    assert rt.memset(device, 64, 0, 0) == 0


def test_frees(program):
    """NULL is 100000; twice, a middle, or the wrong kind of memory is 107000."""
    device, host = program.ok(rt.malloc(64, 0)), program.ok(rt.malloc_host(64))
    assert [rt.free(0), rt.free_host(0), rt.malloc(0, 0), rt.malloc_host(0)] == [
        100000,
        100000,
        (0, 100000),
        (0, 100000),
    ]
    assert [rt.free(device + 8), rt.free(host), rt.free_host(device)] == [107000] * 3
    assert [rt.free(device), rt.free(device), rt.free_host(host), rt.free_host(host)] == [0, 107000, 0, 107000]
    assert rt.memcpy(device, 8, host, 8, 1) == 107000  # stale, and no crash


# -- the samples of section 23 -----------------------------------------------------------------------------------------


def test_quick_start(program):
    """The add of hello_cann."""
    a, b = program.upload([1, 2, 3, 4, 5, 6, 7, 8]), program.upload([0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4])
    out, stream = program.upload([0] * 8), program.stream()
    given = [*map(pointer_bytes, (a, b, out)), np.float32(1).tobytes(), np.int64(8).tobytes()]
    program.launch("add", stream, *given)
    assert rt.synchronize_stream(stream) == 0
    assert program.read(out, 8) == [1.5, 3, 4.5, 6, 7.5, 9, 10.5, 12]
    assert [rt.free(a), rt.free(b), rt.free(out), rt.destroy_stream(stream), rt.reset_device_force(0)] == [0] * 5
    assert acl.finalize() == 0


def test_arguments_in_device_memory_are_read_when_the_kernel_runs(program):
    """A program may copy them there on the same stream."""
    stream, x = program.stream(), program.upload([4])
    block = program.ok(rt.malloc(8, 0))
    pinned = program.ok(rt.malloc_host(8))
    util.ptr_to_numpy(pinned, (1,), 8)[0] = x
    assert rt.memcpy_async(block, 8, pinned, 8, H2D, stream) == 0
    assert rt.launch_kernel(program.functions["short"], 1, block, 8, stream) == 0
    assert rt.synchronize_stream(stream) == 0
    assert program.read(x) == [8]
    assert rt.launch_kernel(program.functions["short"], 0, block, 8, stream) == 107000
    assert rt.launch_kernel(7, 1, block, 8, stream) == 107017
    assert rt.binary_get_function(program.binary, "nothing")[1] == 507000
    assert rt.binary_load_from_file("/nowhere/at/all.o", [])[1] == 107000


def test_place_holders(program):
    """The content of the embedded buffer is taken over at the launch."""
    function, stream = program.functions["short"], program.stream()
    args = program.ok(rt.kernel_args_init(function))
    holder = program.ok(rt.kernel_args_append_place_holder(args))
    buffer = program.ok(rt.kernel_args_get_place_holder_buffer(args, holder, 4))
    util.ptr_to_numpy(buffer, (1,), 11)[0] = 3
    assert rt.launch_kernel_with_config(function, 1, stream, [], args, 0) == 107000  # not finished
    assert rt.kernel_args_finalize(args) == 0
    assert rt.launch_kernel_with_config(function, 1, stream, [{"id": 7, "value": 100}], args, 0) == 0
    assert rt.synchronize_stream(stream) == 0
    assert util.ptr_to_numpy(buffer, (1,), 11)[0] == 3
    assert rt.launch_kernel_with_config(function, 0, stream, [], args, 0) == 100000
    assert rt.binary_unload(program.binary) == 0
    assert rt.kernel_args_finalize(args) == 107000


def test_more_tasks_than_a_queue_holds(program):
    """simple_stream: 3000 launches on one stream."""
    stream, x = program.stream(), program.upload([2])
    function = program.functions["easy"]
    args = program.ok(rt.kernel_args_init(function))
    given = pointer_bytes(x)
    program.ok(rt.kernel_args_append(args, util.bytes_to_ptr(given), 8))
    rt.kernel_args_finalize(args)
    for _ in range(3000):
        assert rt.launch_kernel_with_config(function, 1, stream, [], args, 0) == 0
    assert rt.synchronize_stream(stream) == 0
    assert rt.stream_query(stream) == (0, 0)
    assert program.read(x) == [3002]


def test_stop_and_continue(program):
    """stream_with_failure_mode: 507035 in both, but only a stopped context drops what follows, for good."""
    stream, x = program.stream(), program.upload([0])
    given = pointer_bytes(x)
    for name in ("easy", "faulty", "easy"):
        program.launch(name, stream, given)
    assert rt.synchronize_stream(stream) == 507035
    assert program.read(x) == [2]
    y = program.upload([0])
    assert rt.set_stream_failure_mode(stream, 1) == 0
    assert rt.set_stream_failure_mode(stream, 0) == 207000
    for name in ("easy", "faulty", "easy"):
        function = program.functions[name]
        args = program.ok(rt.kernel_args_init(function))
        program.ok(rt.kernel_args_append(args, util.bytes_to_ptr(pointer_bytes(y)), 8))
        rt.kernel_args_finalize(args)
        rt.launch_kernel_with_config(function, 1, stream, [], args, 0)
    assert rt.synchronize_stream(stream) == 507035
    assert rt.synchronize_stream(stream) == 507035  # sticky
    assert program.read(y) == [1]


def test_events_between_streams(program):
    """multi_stream: (0 + 1) * 2, and timeouts of the host leave the work running."""
    one, two, x = program.stream(), program.stream(), program.upload([0])
    given = pointer_bytes(x)
    event = program.ok(rt.create_event_with_flag(1))
    program.launch("long", one, given)
    assert rt.record_event(event, one) == 0
    assert rt.stream_wait_event(two, event) == 0
    assert rt.reset_event(event, two) == 0
    program.launch("short", two, given)
    assert rt.record_event(event, two) == 0
    assert rt.synchronize_event(event) == 0
    assert program.read(x) == [2]
    program.launch("long", one, given)
    late = program.ok(rt.create_event_ex_with_flag(1))
    rt.record_event(late, one)
    assert rt.synchronize_event_with_timeout(late, 1) == 507047
    assert rt.synchronize_stream_with_timeout(one, 1) == 507046
    assert rt.synchronize_stream_with_timeout(one, 0) == 107000
    assert rt.synchronize_stream_with_timeout(one, -1) == 0
    assert program.read(x) == [3]


def test_notifies_between_streams(program):
    """multi_stream, notify part."""
    one, two, x = program.stream(), program.stream(), program.upload([0])
    notify = program.ok(rt.create_notify(0))
    program.launch("long", one, pointer_bytes(x))
    assert rt.record_notify(notify, one) == 0
    assert rt.wait_and_reset_notify(notify, two, 0) == 0
    program.launch("short", two, pointer_bytes(x))
    assert rt.synchronize_stream(two) == 0
    assert program.read(x) == [2]
    assert rt.notify_batch_reset([notify]) == 0
    assert rt.destroy_notify(notify) == 0
    assert rt.destroy_notify(notify) == 507000


def test_event_status(program):
    """event_status and event_timestamp, with the three ways to ask."""
    stream, x = program.stream(), program.upload([0])
    event = program.ok(rt.create_event())
    assert [rt.query_event_status(event), rt.query_event(event)] == [(0, 0), (0, 0)]
    assert rt.event_elapsed_time(event, event) == (0.0, 507000)
    program.launch("long", stream, pointer_bytes(x))
    rt.record_event(event, stream)
    assert rt.query_event(event) == (1, 0)
    assert rt.event_get_timestamp(event) == (0, 107006)
    assert rt.synchronize_event(event) == 0
    assert [rt.query_event_status(event), rt.query_event(event)] == [(1, 0), (0, 0)]
    end = program.ok(rt.create_event())
    program.launch("long", stream, pointer_bytes(x))
    rt.record_event(end, stream)
    rt.synchronize_stream(stream)
    elapsed, code = rt.event_elapsed_time(event, end)
    assert code == 0
    assert elapsed > 1
    assert rt.event_elapsed_time(end, event)[0] == -elapsed
    snapshot = program.ok(rt.create_event_ex_with_flag(0))
    assert [rt.query_event_status(snapshot), rt.query_event(snapshot)] == [(1, 0), (1, 207000)]
    assert rt.create_event_with_flag(0) == (0, 107000)
    assert rt.stream_wait_event(stream, program.ok(rt.create_event())) == 107000
    untimed = program.ok(rt.create_event_ex_with_flag(2))
    assert rt.stream_wait_event(stream, untimed) == 207000


def test_values_release_a_waiting_thread(program):
    """multistream_sync_memory: thread A waits for a value, thread B marks, then writes."""
    context, _ = rt.get_context()
    word = program.ok(rt.malloc(8, 0))
    rt.memset(word, 8, 0, 8)
    marks: list[object] = []

    def wait() -> None:
        rt.set_context(context)
        stream, _ = rt.create_stream()
        rt.value_wait(word, 1, 1, stream)
        marks.append(rt.synchronize_stream(stream))
        marks.append(list(marks))

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.05)
    marks.append(123)
    stream = program.stream()
    assert rt.value_write(word, 1, 0, stream) == 0
    thread.join(20)
    assert not thread.is_alive()
    assert marks[:2] == [123, 0]
    assert rt.value_wait(word, 1, 4, stream) == 107000
    assert rt.value_write(word + 4, 1, 0, stream) == 107000


def test_reduction(program):
    """reduce_task: 2 4 6 8."""
    a, b = program.upload([1, 2, 3, 4]), program.upload([1, 2, 3, 4])
    assert rt.reduce_async(a, b, 16, 10, 0, 0, 0) == 0
    assert rt.synchronize_stream(0) == 0
    assert program.read(a, 4) == [2, 4, 6, 8]
    assert rt.reduce_async(a, b, 16, 9, 0, 0, 0) == 107000


def test_callbacks_in_order(program):
    """simple_callback: each in the report thread, in order, and a blocking one holds the stream up."""
    context, _ = rt.get_context()
    stream, x = program.stream(), program.upload([0])
    calls: list[object] = []
    ends = threading.Event()

    def loop(given: list[int]) -> None:
        rt.set_context(given[0])
        while not ends.is_set():
            rt.process_report(50)

    def look(given: list[int]) -> None:
        host, _ = rt.malloc_host(4)  # a callback may allocate and copy
        rt.memcpy(host, 4, given[0], 4, D2H)
        calls.append((float(util.ptr_to_numpy(host, (1,), 11)[0]), threading.get_ident()))
        rt.free_host(host)

    thread, _ = util.start_thread(loop, [context])
    assert rt.subscribe_report(thread, stream) == 0
    for _ in range(5):
        program.launch("easy", stream, pointer_bytes(x))
        assert rt.launch_callback(look, [x], 1, stream) == 0
    assert rt.launch_callback(lambda given: 1 / 0, None, 1, stream) == 0  # logged, and swallowed
    assert rt.synchronize_stream(stream) == 0
    assert calls == [(float(n), thread) for n in range(1, 6)]
    assert rt.unsubscribe_report(thread, stream) == 0
    ends.set()
    assert util.stop_thread(thread) == 0


def test_word_of_failures(program):
    """callback_exception: the task, the stream, the device and the code."""
    stream, x = program.stream(), program.upload([0])
    heard: list[tuple[int, ...]] = []

    def hear(info: int) -> None:
        heard.append(
            (
                rt.get_task_id_from_exception_info(info),
                rt.get_stream_id_from_exception_info(info),
                rt.get_device_id_from_exception_info(info),
                rt.get_error_code_from_exception_info(info),
            )
        )

    assert rt.set_exception_info_callback(hear) == 0
    program.launch("faulty", stream, pointer_bytes(x))
    task, _ = rt.get_thread_last_task_id()
    assert rt.synchronize_stream(stream) == 507035
    assert heard == [(task, rt.stream_get_id(stream)[0], 0, 507035)]
    assert rt.set_exception_info_callback() == 0
    program.launch("faulty", stream, pointer_bytes(x))
    rt.synchronize_stream(stream)
    assert len(heard) == 1
    assert rt.get_task_id_from_exception_info(0) == 0xFFFFFFFF


def test_peers(drop_in):
    """device_P2P: a byte of one device arrives by way of the other."""
    acl.configure(clock=drop_in, devices=2)
    assert acl.init() == 0
    assert rt.set_device(0) == 0
    assert rt.device_can_access_peer(0, 1) == (1, 0)
    assert rt.device_can_access_peer(0, 0) == (0, 100000)
    one, _ = rt.malloc(64, 3)
    assert rt.memset(one, 64, 103, 64) == 0
    assert rt.set_device(1) == 0
    two, _ = rt.malloc(64, 3)
    assert rt.memcpy(two, 64, one, 64, D2D) == 107000
    assert rt.device_enable_peer_access(0, 1) == 200006
    assert rt.device_enable_peer_access(0, 0) == 0
    assert rt.set_device(0) == 0
    assert rt.device_enable_peer_access(1, 0) == 0
    assert rt.device_peer_access_status(0, 1) == (1, 0)
    assert rt.memcpy(two, 64, one, 64, D2D) == 0
    host, _ = rt.malloc_host(64)
    assert rt.memcpy(host, 64, two, 64, D2H) == 0
    assert util.ptr_to_bytes(host, 1) == bytes([103])
    assert [rt.device_disable_peer_access(1), rt.device_disable_peer_access(1)] == [0, 107000]
    assert [rt.reset_device_force(0), rt.reset_device_force(0), rt.reset_device(1)] == [0, 507007, 0]


def test_untidy_ends(drop_in):
    """reset_device before destroy_context, streams that nobody destroys, destroy_context after finalize."""
    assert rt.set_device(0) == 0  # before init
    assert acl.init() == 0
    context, _ = rt.create_context(0)
    stream, _ = rt.create_stream()
    assert rt.reset_device(0) == 0
    assert rt.malloc(64, 0)[1] == 0  # the explicit context survives
    assert acl.finalize() == 0
    assert rt.destroy_context(context) == 0
    assert rt.destroy_stream(stream) in (107002, 507000)
    assert rt.malloc(64, 0) == (0, 107002)


def test_virtual_memory(program):
    """Reserve, allocate, map; copies reach over pieces that lie side by side."""
    prop = {"location": {"id": 0, "type": 1}}
    unit, code = rt.mem_get_allocation_granularity(prop, 0)
    assert code == 0
    base = program.ok(rt.reserve_mem_address(2 * unit, 0, 0, 0))
    pieces = [program.ok(rt.malloc_physical(unit, prop, 0)) for _ in range(2)]
    for index, piece in enumerate(pieces):
        assert rt.map_mem(base + index * unit, unit, 0, piece, 0) == 0
    assert rt.memset(base, 2 * unit, 5, 2 * unit) == 0
    assert util.ptr_to_bytes(base + unit - 2, 4) == bytes([5]) * 4
    assert rt.release_mem_address(base) == 107000
    assert [rt.unmap_mem(base), rt.unmap_mem(base + unit), rt.unmap_mem(base)] == [0, 0, 107000]
    assert rt.release_mem_address(base) == 0
    assert [rt.free_physical(piece) for piece in pieces] == [0, 0]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sharing memory needs Linux")
def test_memory_and_notifies_of_other_processes(program):
    """The importer reads 123, writes, and records a notify for which only this process can wait."""
    pointer = program.ok(rt.malloc(64, 0))
    rt.memset(pointer, 64, 123, 64)
    key, code = rt.ipc_mem_get_export_key(pointer, 64, 65, 0)
    assert code == 0
    notify = program.ok(rt.create_notify(0))
    notify_key, code = rt.notify_get_export_key(notify, 65, 0)
    assert code == 0
    child = """
import os, sys
from cann_async import acl
acl.rt.set_device(0)
print(acl.rt.ipc_mem_import_by_key(sys.argv[1], 0)[1], os.getpid(), flush=True)
input()
p, code = acl.rt.ipc_mem_import_by_key(sys.argv[1], 0)
print(code, acl.util.ptr_to_bytes(p, 64)[63])
acl.rt.memset(p, 64, 45, 64)
n, code = acl.rt.notify_import_by_key(sys.argv[2], 0)
print(code, acl.rt.wait_and_reset_notify(n, 0, 0), acl.rt.record_notify(n, 0), acl.rt.synchronize_stream(0))
print(acl.rt.ipc_mem_close(sys.argv[1]), acl.rt.memset(p, 64, 1, 64))
"""
    with subprocess.Popen(
        [sys.executable, "-c", child, key, notify_key], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        refused, pid = process.stdout.readline().split()
        assert refused == "107000"
        assert rt.ipc_mem_set_import_pid(key, [int(pid)]) == 0
        assert rt.notify_set_import_pid(notify_key, [int(pid)]) == 0
        assert rt.wait_and_reset_notify(notify, 0, 0) == 0
        out, _ = process.communicate("\n", timeout=30)
    assert out.split("\n")[:3] == ["0 123", "0 107000 0 0", "0 107000"]
    assert rt.synchronize_stream(0) == 0
    assert util.ptr_to_bytes(pointer, 64) == bytes([45]) * 64
    assert rt.ipc_mem_close(key) == 0
    assert util.ptr_to_bytes(pointer, 64) == bytes([45]) * 64
    assert rt.ipc_mem_import_by_key(key, 0) == (0, 107000)


def test_inside_a_running_loop(program):
    """As in a cell of a notebook: a blocking call holds the loop up, as any C call would."""
    import asyncio

    async def cell() -> list[float]:
        x, stream = program.upload([1]), program.stream()
        program.launch("short", stream, pointer_bytes(x))
        assert rt.synchronize_stream(stream) == 0
        return program.read(x)

    assert asyncio.run(cell()) == [2]
