"""What the tests share: a small Soc with round figures, kernels with a set cost, and ways to expect an error."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cann_async as ca

SOC = ca.Soc(
    name="test",
    ai_cores=4,
    vector_cores=4,
    ai_cpus=2,
    memory_bytes=1 << 30,
    memory_bandwidth=1e9,
    h2d_bandwidth=1e9,
    d2h_bandwidth=1e9,
    d2d_bandwidth=1e9,
    copy_latency_ns=0,
    launch_ns=0,
)
"""Four cores; every copied byte takes one nanosecond."""

both = pytest.mark.parametrize("clock", ("wall", "virtual"))
LIMIT_S = 20
"""No test should come near it: it turns a hang into a failure."""


def open_device(clock: str = "virtual", soc: ca.Soc = SOC, **options: Any) -> ca.Device:
    """Open a device of the small Soc."""
    return ca.open_device(clock=clock, soc=soc, **options)


def work(us: float = 0, fn: Callable[..., Any] | None = None, *given: Any, engine: str = "ai_core") -> ca.Kernel:
    """Make a whole-launch kernel that takes `us` microseconds of modelled time and gives what ``fn(*given)`` gives."""

    @ca.kernel(cost=ca.Cost(seconds=us * 1e-6), per_block=False, engine=engine)
    def work_body(launch: ca.Launch, *_: Any) -> Any:
        return fn(*given) if fn is not None else None

    return work_body


@ca.kernel(cost=ca.Cost(seconds=1e-6), per_block=False)
def copy_kernel(launch: ca.Launch, target: Any, source: Any) -> None:
    """Copy as a kernel."""
    target[...] = source


@ca.kernel(cost=ca.Cost(seconds=1e-6), per_block=False)
def boom(launch: ca.Launch, *_: Any) -> None:
    """Fail."""
    raise ZeroDivisionError("boom")


class Hold:
    """Keeps a stream busy: for `us` of virtual time, or on the wall clock until it is let go."""

    def __init__(self, stream: ca.Stream, us: float = 1000, *args: Any, fn: Callable[[], Any] | None = None) -> None:
        self.started = threading.Event()
        self._opened = threading.Event()
        if stream.device.runtime.clock.name == "virtual":
            self._opened.set()

        @ca.kernel(cost=ca.Cost(seconds=us * 1e-6), per_block=False)
        def hold(launch: ca.Launch, *_: Any) -> Any:
            self.started.set()
            if not self._opened.wait(LIMIT_S):
                raise TimeoutError("nobody let go")
            return fn() if fn is not None else None

        self.task: ca.Task[Any] = stream.launch(hold, *args)

    def let_go(self) -> None:
        """Let the kernel end."""
        self._opened.set()


@contextlib.contextmanager
def rejects(code: int, *words: str) -> Iterator[pytest.ExceptionInfo[ca.CannError]]:
    """Expect a CannError of this code, with these words in its text."""
    with pytest.raises(ca.CannError) as caught:
        yield caught
    assert caught.value.code == code, caught.value
    for word in words:
        assert word in str(caught.value)


def script(code: str, *args: str, timeout: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a fresh interpreter that finds the package and the tests where this one did."""
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def environment(**env: str) -> dict[str, str]:
    """Give the environment for a fresh interpreter that finds the same package."""
    home = str(Path(ca.__file__).parent.parent)
    path = os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, **env}


def in_threads(count: int, function: Callable[[int], object]) -> list[Any]:
    """Call ``function(index)`` in so many threads at once and give what each gave; the first error is raised."""
    results: list[Any] = [None] * count
    problems: list[BaseException] = []

    def one(index: int) -> None:
        try:
            results[index] = function(index)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=one, args=(index,), daemon=True) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if problems:
        raise problems[0]
    return results


def numbers(count: int, dtype: Any = np.float32) -> Any:
    """Give the first numbers as an array."""
    return np.arange(count, dtype=dtype)


def resident() -> int:
    """Give the bytes of memory that this process really occupies; Linux only."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
