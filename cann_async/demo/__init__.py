"""``cann-async demo``: the ten steps of a CANN program, and then what several streams are good for.

`steps` runs the ten steps one by one, `overlap` the same work on one and on three streams; both check their results
against NumPy. They use only what `cann_async` makes public.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from ..runtime import run
from ..timeline.text import Style
from .overlap import show_overlap
from .steps import ten_steps


def demo(output: Path) -> int:
    """Run it all, save the trace, and give the exit code: 1 if any result differs from NumPy's."""
    added = run(ten_steps)
    print("\n")
    piped = show_overlap(output, shutil.get_terminal_size().columns, Style.of(sys.stdout))
    return 0 if added and piped else 1
