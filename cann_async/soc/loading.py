"""A Soc from a TOML file: read, and checked field by field before the `Soc` itself checks ranges."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .model import Soc
from .presets import preset

if TYPE_CHECKING:
    import os

KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "a string"),
    "bool": ((bool,), "true or false"),
    "int": ((int,), "a whole number"),
    "int | None": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
}
"""What a field of that type may be in a file, and how to say so."""


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Give every field of the Soc that the file describes; its name is the file's unless it says another."""
    path = Path(path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return dataclasses.asdict(described({"name": path.stem, **table}))
    except ValueError as error:  # those of TOML and of UTF-8 as well
        raise ValueError(f"{path}: {error}") from error


def described(table: dict[str, Any]) -> Soc:
    """Give the Soc that a table describes, on top of the preset that is its base."""
    base = table.pop("base", None)
    if base is not None and not isinstance(base, str):
        raise ValueError(f"base must be the name of a preset, not {base!r}")
    return (Soc() if base is None else preset(base)).replace(**checked(table))


def checked(table: dict[str, Any]) -> dict[str, Any]:
    """Give the table back if every key is a field of a Soc and every value is of its type; else a ValueError."""
    types = {field.name: str(field.type) for field in dataclasses.fields(Soc)}
    for name, value in table.items():
        if name not in types:
            raise ValueError(f"unknown field {name!r}; a Soc has {', '.join(types)}, and a file may have a base")
        kinds, said = KINDS[types[name]]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise ValueError(f"{name} must be {said}, not {value!r}")
    return table
