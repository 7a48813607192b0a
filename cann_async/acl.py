"""pyACL on the simulated NPU: existing blocking programs run unchanged, without an NPU.

    cann-async run program.py            # `import acl` gives these modules

or, in a program or a notebook:

    import cann_async.acl
    cann_async.acl.install()
    import acl

`acl`, `acl.rt`, `acl.util` and `acl.media` have functions only, as pyACL has. `register_kernel` says what a program's
launches run; `runtime` gives the runtime beneath, with its timeline.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from ._acl import (
    allocation,  # noqa: F401  # each module puts its functions into the table
    arguments,  # noqa: F401
    callbacks,  # noqa: F401
    contexts,  # noqa: F401
    copies,  # noqa: F401
    devices,  # noqa: F401
    events,  # noqa: F401
    kernels,  # noqa: F401
    limits,  # noqa: F401
    pointers,  # noqa: F401
    setup,  # noqa: F401
    shared,  # noqa: F401
    stream_memory,  # noqa: F401
    streams,  # noqa: F401
    virtual,  # noqa: F401
)
from ._acl.binding import FUNCTIONS
from ._acl.kernels import register_kernel as register_kernel
from ._acl.process import configure as configure
from ._acl.process import runtime as runtime


def install() -> None:
    """Let ``import acl`` give these modules; ImportError if a real pyACL is there."""
    if "acl" in sys.modules:
        if sys.modules["acl"] is not _root:
            raise ImportError("another module named acl has been imported already")
        return
    if find_spec("acl") is not None:
        raise ImportError("a real pyACL can be imported: this one would hide it")
    sys.modules["acl"] = _root
    for name, module in _parts.items():
        sys.modules[f"acl.{name}"] = module


def _module(name: str, functions: dict[str, object]) -> ModuleType:
    module = ModuleType(name, f"{name} of pyACL, on a simulated NPU.")
    module.__dict__.update(functions)
    module.__spec__ = ModuleSpec(name, None, is_package=name == "acl")
    module.__path__ = []
    return module


_root = _module("acl", dict(FUNCTIONS[""]))
_parts = {name: _module(f"acl.{name}", dict(functions)) for name, functions in FUNCTIONS.items() if name}
_root.__dict__.update(_parts)
for _name, _part in _parts.items():
    sys.modules[f"{__name__}.{_name}"] = _part
globals().update(FUNCTIONS[""] | _parts)


def __dir__() -> list[str]:
    return sorted([*FUNCTIONS[""], *_parts, "configure", "install", "register_kernel", "runtime"])
