"""The blocking twin: scripts, threads, running loops; interrupts, the end of the interpreter, forks."""

from __future__ import annotations

import asyncio
import inspect
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import cann_async as native
import cann_async.sync as ca

from .helpers import SOC, Hold, boom, both, environment, in_threads, numbers, rejects, script, work

pytestmark = pytest.mark.timeout(90)


@ca.kernel
def add(block, x, y, z):
    """Add this block's share."""
    part = block.slice(x.size)
    np.add(x[part], y[part], out=z[part])


def ten_steps(device):
    """Run the whole model once and give the sum."""
    with device.create_stream() as stream:
        host = device.malloc_host(4096, np.float32)
        host[:] = 1
        x, y, z = (device.empty(4096) for _ in range(3))
        assert device.memcpy(x, host) is None
        stream.memcpy(y, host)
        event = stream.record()
        stream.launch(add, x, y, z, blocks=8)
        event.synchronize()
        stream.synchronize()
        device.memcpy(host, z)
        assert (host == 2).all()
        return float(z.get().sum())


@both
def test_a_script_without_a_loop(clock):
    """Every step, blocking where it waits."""
    with ca.open_device(clock=clock, soc=SOC) as device:
        assert ten_steps(device) == 8192
        device.synchronize()
    assert not device


@both
def test_threads_without_a_loop(clock):
    """Several at once on one device."""
    with ca.open_device(clock=clock, soc=SOC) as device:
        assert in_threads(6, lambda index: ten_steps(device)) == [8192] * 6


@both
@pytest.mark.asyncio
async def test_inside_a_running_loop(clock):
    """As in a notebook cell: no nest_asyncio, and `await` of the same objects beside it."""
    with ca.open_device(clock=clock, soc=SOC) as device, device.create_stream() as stream:
        assert ten_steps(device) == 8192
        buffer = device.upload(numbers(4, np.int32))
        task = stream.launch(work(10, lambda: "both"))
        assert await task == task.result() == "both"
        event = stream.record()
        await event
        event.synchronize()
        assert buffer.get().tolist() == [0, 1, 2, 3]
    assert "nest_asyncio" not in sys.modules


@both
@pytest.mark.asyncio
async def test_native_objects_can_be_waited_for_blocking(clock):
    """`wait` takes what would be awaited; and what waits for something else is refused."""
    async with native.open_device(clock=clock, soc=SOC) as device:
        stream = device.default_stream
        assert ca.wait(stream.launch(work(5, lambda: 7))) == 7
        ca.wait(stream.synchronize())
        ca.wait(stream.record())
        assert ca.wait(device.upload([1, 2])).shape == (2,)
        with pytest.raises(RuntimeError, match="machine"):
            ca.wait(asyncio.sleep(1))
        with rejects(507015):
            ca.wait(stream.launch(boom))


@both
def test_result_blocks_in_any_thread(clock):
    """And raises the task's own error."""
    with ca.open_device(clock=clock, soc=SOC) as device, device.create_stream() as stream:
        hold = Hold(stream, fn=lambda: 5)
        bad = stream.launch(boom)

        def wait(index):
            if index == 3:
                time.sleep(0.01)
                hold.let_go()
            with rejects(507015, "boom"):
                bad.result()
            return hold.task.result()

        assert in_threads(4, wait) == [5] * 4


@both
def test_failures_and_misuse_are_the_same_as_in_the_native_api(clock):
    """The same codes, once."""
    with ca.open_device(clock=clock, soc=SOC) as device, device.create_stream() as stream:
        stream.launch(boom)
        with rejects(507015):
            stream.synchronize()
        stream.synchronize()
        with rejects(107000):
            device.memcpy(device.malloc(8), bytes(9))
        with rejects(107003):
            stream.wait(device.create_context().create_event())
        with pytest.raises(KeyError), device.create_stream():
            raise KeyError


@both
def test_closing(clock):
    """Streams, contexts, runtimes; with force and without."""
    with ca.Runtime(clock=clock, soc=SOC) as runtime:
        device = runtime.device()
        context = device.create_context()
        stream = context.create_stream()
        task = stream.launch(work(1, lambda: 1))
        stream.close()
        assert task.done()
        other = context.create_stream()
        hold = Hold(other)
        other.close(force=True)
        hold.let_go()
        with rejects(107023):
            hold.task.result()
        context.default_stream.launch(work(1))
        context.synchronize()
        context.destroy()
    runtime.close()
    with rejects(507007, "closed"):
        device.synchronize()


def test_blocking_sleep_is_in_the_runtimes_own_time():
    """Nothing really sleeps on the virtual clock."""
    start = time.monotonic()
    with ca.Runtime(clock="virtual", soc=SOC) as runtime:
        runtime.clock.sleep(3600)
        assert runtime.clock.now_ns() == 3600 * 10**9
        with pytest.raises(ValueError, match="-1"):
            runtime.clock.sleep(-1)
    assert time.monotonic() - start < 60
    with ca.Runtime(clock="wall") as runtime:
        runtime.clock.sleep(0.01)
        assert runtime.clock.now_ns() >= 10_000_000


def test_the_twin_has_the_same_names():
    """Also the same methods with the same parameters."""
    public = {name for name in vars(native) if name[0].isupper() or name in ("kernel", "open_device", "use", "socs")}
    assert public <= set(vars(ca)), public - set(vars(ca))
    for name in ("Runtime", "Device", "Context", "Stream", "Event", "Buffer"):
        ours, theirs = getattr(native, name), getattr(ca, name)
        assert issubclass(theirs, ours)
        for method, function in inspect.getmembers(ours, inspect.isfunction):
            if not method.startswith("_") and getattr(theirs, method) is not function:
                there = inspect.signature(getattr(theirs, method))
                if list(there.parameters) != ["self", "args", "kwargs"]:
                    assert list(there.parameters) == list(inspect.signature(function).parameters), (name, method)
    assert list(inspect.signature(ca.open_device).parameters) == list(inspect.signature(native.open_device).parameters)


INTERRUPTED = """
import signal, sys, threading, time
import cann_async.sync as ca
clock, how = sys.argv[1:]
gate = threading.Event()
@ca.kernel(per_block=False, cost=ca.Cost(seconds=1))
def hold(launch):
    gate.wait(60)
@ca.kernel(per_block=False, cost=ca.Cost(seconds=1))
def alive(launch):
    return "alive"
device = ca.open_device(clock=clock)
stream = device.create_stream()
task = stream.launch(hold)
def later():
    time.sleep(0.3)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    time.sleep(0.1)
    if clock == "virtual": gate.set()
threading.Thread(target=later, daemon=True).start()
try:
    {"task": task.result, "stream": stream.synchronize, "device": device.synchronize}[how]()
except KeyboardInterrupt:
    print("interrupted", flush=True)
gate.set()
print(stream.launch(alive).result(), task.done(), signal.getsignal(signal.SIGINT) is signal.default_int_handler)
device.close()
"""


@pytest.mark.parametrize("how", ("task", "stream", "device"))
@both
def test_ctrl_c_gets_through_a_blocking_wait_and_leaves_the_machine_usable(clock, how):
    """In the main thread, also while it drives the device itself."""
    done = script(INTERRUPTED, clock, how)
    assert done.stdout.split() == ["interrupted", "alive", "True", "True"], done.stderr
    assert done.stderr == ""


def test_a_second_ctrl_c_interrupts_a_kernel_that_runs_in_place():
    """The first is kept back until the device is in one piece; whoever insists gets out."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            (
                "import time, sys\n"
                "import cann_async.sync as ca\n"
                "@ca.kernel(cost=ca.Cost(seconds=1))\n"
                "def stuck(block):\n"
                "    print('in', flush=True)\n"
                "    end = time.monotonic() + 60\n"
                "    while time.monotonic() < end: time.sleep(0.01)\n"
                "device = ca.open_device(clock='virtual')\n"
                "task = device.default_stream.launch(stuck)\n"
                "try: task.result()\n"
                "except BaseException as e: print(type(e).__name__, flush=True)\n"
            ),
        ],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "in\n"
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline().strip() in ("KeyboardInterrupt", "ExecutionError")
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


ENDINGS = {
    "nothing is closed": "",
    "a queue is full": "for _ in range(1000): stream.launch(kernel)\n",
    "a kernel runs": "stream.launch(slow); time.sleep(0.05)\n",
    "an async kernel runs": "stream.launch(slow_async); time.sleep(0.05)\n",
    "a thread waits": "threading.Thread(target=lambda: stream.launch(slow).result(), daemon=True).start()\n"
    "time.sleep(0.05)\n",
    "atexit uses it": "atexit.register(lambda: print(stream.launch(kernel).result()))\n",
    "atexit uses it first": "def last():\n"
    "    print(ca.open_device(clock=clock).default_stream.launch(kernel).result())\n"
    "atexit.register(last)\n",
    "atexit closes it": "stream.launch(kernel); atexit.register(device.close)\n",
    "__del__ uses it": "class Last:\n"
    "    def __del__(self):\n"
    "        try: stream.launch(kernel).result()\n"
    "        except ca.CannError: pass\n"
    "last = Last(); stream.launch(kernel)\n",
    "__del__ at the very end": "class Last:\n"
    "    def __del__(self, ca=ca, stream=stream, kernel=kernel):\n"
    "        try: stream.launch(kernel).result()\n"
    "        except ca.CannError: pass\n"
    "sys.last = Last(); sys.last.me = sys.last\n",
    "an error ends it": "stream.launch(slow); time.sleep(0.05); sys.exit(0)\n",
}
PROLOGUE = """
import asyncio, atexit, sys, threading, time
import cann_async.sync as ca
clock = sys.argv[1]
@ca.kernel(per_block=False, cost=ca.Cost(seconds=1e-5))
def kernel(launch): return "done"
@ca.kernel(cost=ca.Cost(seconds=1e-5))
def slow(block): time.sleep(60 if clock == "wall" else 0)
@ca.kernel(cost=ca.Cost(seconds=1e-5))
async def slow_async(block): await asyncio.sleep(60 if clock == "wall" else 0)
device = ca.open_device(clock=clock)
stream = device.default_stream
"""


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.replace(" ", "-"))
@both
def test_the_interpreter_ends_without_a_hang_or_a_word(clock, ending):
    """Whatever is queued or running."""
    done = script(PROLOGUE + ENDINGS[ending], clock, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    if ending.startswith("atexit uses"):
        assert done.stdout == "done\n"


FORK = """
import multiprocessing, os, sys, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of fork in a process with threads
import cann_async.sync as ca
clock, used, method = sys.argv[1:]
@ca.kernel(per_block=False, cost=ca.Cost(seconds=1e-5))
def kernel(launch): return "ran"
def child(pipe):
    try: pipe.send(ca.open_device(clock=clock).default_stream.launch(kernel).result())
    except ca.CannError as problem: pipe.send(f"{problem.code} {problem}")
def old(pipe):
    try: pipe.send(stream.launch(kernel).result())
    except ca.CannError as problem: pipe.send(f"{problem.code} {problem}")
def run(target):
    mine, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs,))
    process.start()
    print(mine.recv() if mine.poll(30) else "hang")
    process.join(30)
if __name__ == "__main__":
    context = multiprocessing.get_context(method)
    if used == "used":
        device = ca.open_device(clock=clock)
        stream = device.create_stream()
        stream.launch(kernel).result()
        if method == "fork": run(old)
    run(child)
    if used == "used": print(stream.launch(kernel).result()); device.close()
"""


def forked(tmp_path, *args):
    """Run the program above from a file: spawn needs one."""
    path = tmp_path / "forking.py"
    path.write_text(FORK)
    done = subprocess.run(
        [sys.executable, str(path), *args], env=environment(), capture_output=True, text=True, timeout=80, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.skipif(not hasattr(signal, "pthread_kill") or sys.platform == "win32", reason="needs fork")
@both
def test_a_forked_child_of_a_process_that_has_used_it_gets_an_error(clock, tmp_path):
    """It says fork and spawn, at once; the parent goes on."""
    old, new, parent = forked(tmp_path, clock, "used", "fork")
    for text in (old, new):
        assert "fork" in text
        assert "spawn" in text
    assert new.startswith("507033")
    assert parent == "ran"


@both
def test_spawn_works_and_so_does_fork_after_a_mere_import(clock, tmp_path):
    """Nothing is started by importing."""
    assert forked(tmp_path, clock, "used", "spawn") == ["ran", "ran"]
    assert forked(tmp_path, clock, "unused", "fork") == ["ran"]


def test_importing_starts_nothing():
    """No thread, no loop, no memory; and `sync` brings in nothing heavy."""
    done = script(
        "import threading, sys, numpy\n"
        "before = set(sys.modules)\n"
        "import cann_async, cann_async.sync\n"
        "print(threading.active_count(), 'uvloop' in sys.modules, 'anyio' in sys.modules)\n"
    )
    assert done.stdout.split() == ["1", "False", "False"], done.stderr
