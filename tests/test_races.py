"""What has threads, with a tiny switch interval: nothing is lost, nothing runs twice or out of order, nothing hangs.

ROUNDS in the environment says how often; by default few enough for CI. The time limit of the tests dumps every stack.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import uvloop

import cann_async as ca
import cann_async.sync as blocking

ROUNDS = int(os.environ.get("ROUNDS", "5"))
LOOPS = (asyncio.new_event_loop, uvloop.new_event_loop)
pytestmark = pytest.mark.timeout(60 + 5 * ROUNDS)


@pytest.fixture(autouse=True)
def tiny_switch_interval() -> Iterator[None]:
    """Let threads take turns all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*bodies: Callable[[], object]) -> None:
    """Run functions in threads, and raise what one of them raised."""
    problems: list[BaseException] = []

    def guarded(body: Callable[[], object]) -> None:
        try:
            body()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=guarded, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


@ca.kernel(per_block=False)
def note(launch: ca.Launch, log: list[object], entry: object) -> object:
    """Write an entry down: light."""
    log.append(entry)
    return entry


@ca.kernel(per_block=False)
def note_slowly(launch: ca.Launch, log: list[object], entry: object) -> object:
    """Write an entry down after some work: heavy."""
    np.sin(np.ones(20_000)).sum()
    log.append(entry)
    return entry


@ca.kernel(per_block=False)
async def note_later(launch: ca.Launch, log: list[object], entry: object) -> object:
    """Write an entry down from a coroutine."""
    await asyncio.sleep(0)
    log.append(entry)
    return entry


KERNELS = (note, note, note, note_slowly, note, note_later)


@pytest.mark.parametrize("debug", [False, True])
def test_many_threads_and_loops_on_shared_streams(debug: bool) -> None:
    """Blocking threads and coroutines of several loops enqueue on the same streams and wait in every way."""
    for _ in range(ROUNDS):
        with blocking.open_device(0) as device:
            streams = [device.create_stream(priority=index) for index in range(3)]
            logs: list[list[object]] = [[] for _ in streams]

            def block(me: int) -> None:
                for number in range(40):
                    index = number % 3
                    task = streams[index].launch(KERNELS[number % 6], logs[index], (me, number))
                    if number % 4 == 0:
                        assert task.result() == (me, number)
                    elif number % 4 == 1:
                        streams[index].synchronize()

            async def host(me: int) -> None:
                for number in range(40):
                    index = number % 3
                    task = streams[index].launch(KERNELS[number % 6], logs[index], (me, number))
                    if number % 3 == 0:
                        assert await task == (me, number)
                    elif number % 3 == 1:
                        await streams[index].record()
                    else:
                        assert (await asyncio.gather(task.wait(), task.future())) == [(me, number)] * 2

            def loop(me: int) -> None:
                async def main() -> None:
                    await asyncio.gather(*(host(me * 10 + number) for number in range(3)))

                with asyncio.Runner(loop_factory=LOOPS[me % 2], debug=debug) as runner:
                    runner.run(main())

            together(*(lambda me=me: block(me) for me in range(2)), *(lambda me=me: loop(me) for me in (2, 3)))
            device.synchronize()
            for index, log in enumerate(logs):
                assert len(log) == len(set(log)) == 8 * len(range(index, 40, 3))
                for me in {entry[0] for entry in log}:  # each host's own order is kept
                    own = [number for who, number in log if who == me]
                    assert own == sorted(own)
            for stream in streams:
                stream.close()


def test_cancel_races_with_the_start() -> None:
    """A task that was cancelled has not run, every other one has; who waits gets exactly one of the two."""
    for _ in range(ROUNDS):
        with blocking.open_device(0) as device, device.create_stream() as stream:
            log: list[object] = []
            tasks = [stream.launch(KERNELS[number % 6], log, number) for number in range(120)]
            cancelled: list[int] = []

            def cancel(tasks: list[ca.Task[object]] = tasks, cancelled: list[int] = cancelled) -> None:
                for number in range(119, 0, -3):
                    if tasks[number].cancel():
                        cancelled.append(number)

            def wait(tasks: list[ca.Task[object]] = tasks) -> None:
                for number, task in enumerate(tasks):
                    try:
                        assert task.result() == number
                    except ca.CannError as problem:
                        assert problem.code == 107023
                        assert task.cancelled()

            together(cancel, wait, wait)
            assert log == [number for number in range(120) if number not in cancelled]
            assert [task.cancelled() for task in tasks] == [number in cancelled for number in range(120)]


def test_closing_while_others_wait_and_enqueue() -> None:
    """Everybody who waits or enqueues while the runtime is closed gets a result or an error, and nobody hangs."""
    for _ in range(ROUNDS):
        runtime = blocking.Runtime()
        device = runtime.device(0)
        log: list[object] = []
        ended = []

        def use(me: int, device: blocking.Device = device, log: list[object] = log, ended: list[int] = ended) -> None:
            try:
                for number in range(10_000):
                    device.default_stream.launch(KERNELS[number % 6], log, (me, number)).result()
            except ca.CannError:
                ended.append(me)

        def close(runtime: blocking.Runtime = runtime, log: list[object] = log) -> None:
            while len(log) < 50:
                pass
            runtime.close(drain=False)

        together(close, *(lambda me=me: use(me) for me in range(3)))
        assert sorted(ended) == [0, 1, 2]
        assert len(log) == len(set(log))


def test_callbacks_come_once_and_forgotten_objects_do_no_harm() -> None:
    """Streams and buffers that are dropped with work queued still run it; each callback is called once."""
    for _ in range(ROUNDS):
        with blocking.open_device(0) as device:
            called: list[int] = []
            log: list[object] = []

            def use(
                me: int,
                device: blocking.Device = device,
                called: list[int] = called,
                log: list[object] = log,
            ) -> None:
                for number in range(20):
                    stream = device.create_stream()
                    stream.memcpy(device.empty(100_000, np.uint8), np.ones(100_000, np.uint8))
                    last = stream.launch(KERNELS[number % 6], log, (me, number))
                    last.add_done_callback(lambda task: called.append(task.id))
                    with pytest.warns(ResourceWarning):
                        del stream
                    if number % 5 == 0:
                        last.result()
                last.result()

            use(0)  # pytest.warns is not for several threads at once
            together(
                *(lambda me=me: [device.default_stream.launch(note, log, (me, n)) for n in range(50)] for me in (1, 2))
            )
            device.synchronize()
        assert len(log) == len(set(log)) == 120
        assert len(called) == len(set(called)) == 20
