"""Rows that need fresh processes: how much memory a queued task takes, and how long the import takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from harness import Peer, Sides, UnavailableError, row

QUEUED = 1_000_000
BUDGET = 400
LEFT: tuple[list[float], list[float]] = ([], [])
"""Figures of runs, the most and afterwards, that no row has taken yet: a run takes seconds."""

QUEUE_A_MILLION = f"""
import gc, json
from pathlib import Path
import cann_async.sync as ca

def kilobytes(what):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1])

@ca.kernel
def empty(block):
    pass

soc = ca.Soc(queue_depth={QUEUED} + 1)
with ca.open_device(0, clock="virtual", soc=soc) as device, device.create_stream() as stream:
    for _ in range(1000):
        stream.launch(empty)
    stream.synchronize()
    gc.collect()
    before = kilobytes("VmRSS")
    for _ in range({QUEUED}):
        stream.launch(empty)
    assert stream.pending == {QUEUED}, stream.pending
    stream.synchronize()
    gc.collect()
    most, after = kilobytes("VmHWM"), kilobytes("VmRSS")
    print(json.dumps([(size - before) * 1024 / {QUEUED} for size in (most, after)]))
"""

IMPORT = """
import time
{first}
start = time.perf_counter()
import {module}
print((time.perf_counter() - start) * 1e3)
"""


def _run(code: str, bytecode: str | None = None) -> str:
    """Run code in a fresh interpreter and give what it prints; `bytecode` keeps compiled modules."""
    env = dict(os.environ)
    if bytecode is not None:
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        env["PYTHONPYCACHEPREFIX"] = bytecode
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True, env=env)
    return done.stdout


def _bytes_each(moment: int) -> float:
    """Give one moment's figure, of a run that the other moment's row has not used up, if there is one."""
    if not LEFT[moment]:
        for figures, figure in zip(LEFT, json.loads(_run(QUEUE_A_MILLION)), strict=True):
            figures.append(figure)
    return LEFT[moment].pop()


def _memory(moment: int) -> Sides:
    if not Path("/proc/self/status").exists():
        raise UnavailableError("resident memory is read from /proc, which only Linux has")
    return Sides(lambda: _bytes_each(moment), Peer("the budget", lambda: float(BUDGET)))


@row("memory of a task, most, with its record", 1.0, "B", warm=False)
def memory_most(stack: ExitStack) -> Sides:
    """The most that is resident while a million tasks are queued, run and recorded."""
    return _memory(0)


@row("memory of a task that has run", 1.0, "B", warm=False)
def memory_after(stack: ExitStack) -> Sides:
    """What stays of a million tasks once they have run: their records, and what the allocator keeps."""
    return _memory(1)


@row("import cann_async on top of numpy", 1.0, "ms")
def import_time(stack: ExitStack) -> Sides:
    """Import the package where NumPy is there already, against the import of NumPy; each in a fresh process.

    Both come compiled, as from an installed wheel: the first repetition, which is not counted, compiles them.
    """
    bytecode = stack.enter_context(tempfile.TemporaryDirectory())
    return Sides(
        lambda: float(_run(IMPORT.format(first="import numpy", module="cann_async"), bytecode)),
        Peer("import numpy", lambda: float(_run(IMPORT.format(first="", module="numpy"), bytecode))),
    )
