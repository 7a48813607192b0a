"""Which writer makes which file. An exporter is a function of a table and a path; adding one is a line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .table import Table

WRITERS = {
    "chrome": ((".json", ".json.gz"), "chrome", "write_chrome"),
    "perfetto": ((".pftrace",), "perfetto", "write_perfetto"),
    "msprof": ((), "msprof", "write_msprof"),
    "svg": ((".svg",), "svg", "write_svg"),
    "html": ((".html",), "page", "write_page"),
}
"""By format: its suffixes, its module here, and the function in it."""


def writer(path: Path, format: str | None = None) -> Callable[[Table, Path], None]:
    """Find the writer by format, or by what the path ends in; a ValueError that lists them if there is none."""
    for name, (suffixes, module, function) in WRITERS.items():
        ends = path.name.endswith(suffixes)
        if format in (name, *(suffix.lstrip(".") for suffix in suffixes)) or (format is None and ends):
            found = getattr(import_module(f".{module}", __package__), function)
            return cast("Callable[[Table, Path], None]", found)
    known = ", ".join(f"{' '.join(suffixes) or 'a folder'} ({name})" for name, (suffixes, _, _) in WRITERS.items())
    raise ValueError(f"cannot write {format or path.name!r}; there are {known}")
