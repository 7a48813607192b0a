"""acl.rt: what kernels.py makes and arguments.py needs: loaded binaries, and their functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..kernel import Kernel
from .process import handles


class Binary:
    """What was loaded."""


@dataclass(eq=False)
class Function:
    """A kernel as a program launches it: `adapted` takes one block of arguments."""

    name: str
    kernel: Kernel[..., Any]
    binary: Binary
    adapted: Kernel[..., Any]


def function_of(handle: int) -> Function:
    """Give a function; 107017 if the handle is stale."""
    return handles.get(handle, Function, 107017)
