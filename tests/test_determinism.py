"""The same program gives the same saved timeline, byte for byte: on every run, loop, hash seed and Python version.

Every run is a process of its own. DETERMINISM_RUNS in the environment says how many there are for each loop.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .helpers import environment

SCRIPT = Path(__file__).with_name("determinism_program.py")
GOLDEN = Path(__file__).parent / "golden" / "determinism.txt"
LOOPS = ("asyncio", "uvloop", "none")
RUNS = int(os.environ.get("DETERMINISM_RUNS", "10"))


def runs(program: str, loops: tuple[str, ...], count: int, python: str = sys.executable) -> set[str]:
    """Run a program so often on every loop, every time with another hash seed; give all that was printed."""

    def once(job: tuple[int, str]) -> str:
        seed, loop = job
        done = subprocess.run(
            [python, str(SCRIPT), program, loop],
            env=environment(PYTHONHASHSEED=str(seed)),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert not done.stderr, done.stderr
        return done.stdout

    jobs = [(seed, loop) for seed in range(count) for loop in loops]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return set(pool.map(once, jobs))


def same(printed: set[str], program: str) -> None:
    """All runs printed one thing, and it is what the golden file has: so every Python that runs this gives the same."""
    assert len(printed) == 1
    golden = GOLDEN.with_name(f"determinism_{program}.txt")
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(*printed, encoding="utf-8")
    assert printed == {golden.read_text(encoding="utf-8")}


@pytest.mark.timeout(60 + 30 * RUNS)
def test_one_host_on_every_loop_and_without_one() -> None:
    """Ten runs each, and ten hash seeds: one timeline."""
    same(runs("one", LOOPS, RUNS), "one")


@pytest.mark.timeout(60 + 30 * RUNS)
def test_two_hundred_hosts_that_pass_work_on() -> None:
    """Ten runs each on asyncio and uvloop: one timeline."""
    same(runs("many", LOOPS[:2], RUNS), "many")
