"""``cann-async run``: a pyACL program as `__main__`, with `acl` installed before it begins."""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import sys
import tokenize
from collections.abc import Sequence
from importlib.abc import InspectLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING

from . import acl
from .soc import find

if TYPE_CHECKING:
    from .runtime import ClockName


def launch(
    program: str,
    arguments: Sequence[str],
    *,
    is_module: bool = False,
    kernels: Sequence[str] = (),
    trace: Path | None = None,
    clock: ClockName | None = None,
    soc: str | None = None,
    devices: int | None = None,
    strict: bool = False,
) -> int:
    """Run a program, or with `is_module` a module, as Python itself would; give 2 if there is none."""
    sys.path.insert(0, str(Path.cwd() if is_module else Path(program).resolve().parent))
    try:
        if soc is not None:
            find(soc)
        if devices is not None and not 1 <= devices <= 64:
            raise ValueError(f"there are 1 to 64 devices, not {devices}")  # noqa: TRY301  # as the others here
        main, code = _module(program) if is_module else _script(program)
        acl.install()
    except (ValueError, ImportError, OSError) as problem:
        sys.stderr.write(f"cann-async: {problem}\n")
        return 2
    acl.configure(clock=clock, soc=soc, devices=devices, strict=strict)
    sys.argv[:] = [str(main.__file__) if is_module else program, *arguments]
    for name in kernels:
        importlib.import_module(name)
    if trace is not None:
        atexit.register(lambda: acl.runtime().timeline.save(trace))
    sys.modules["__main__"] = main  # to stay: what ends with the interpreter still looks at its globals
    exec(code, main.__dict__)
    return 0


def _script(program: str) -> tuple[ModuleType, CodeType]:
    path = Path(program)
    main = ModuleType("__main__")
    main.__file__ = program
    with tokenize.open(path) as text:  # it reads the encoding from the first lines
        source = text.read()
    return main, compile(source, program, "exec", dont_inherit=True)


def _module(name: str) -> tuple[ModuleType, CodeType]:
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    loader = spec.loader if spec is not None else None
    code = loader.get_code(spec.name) if spec is not None and isinstance(loader, InspectLoader) else None
    if spec is None or code is None:
        raise ValueError(f"there is no module {name!r} to run")
    main = importlib.util.module_from_spec(spec)
    main.__name__ = "__main__"
    return main, code
