"""What makes a function one of pyACL: positional arguments read as CPython's units say, and codes instead of errors.

`pyacl` decorates each function of this package and puts it into `FUNCTIONS`, from which `cann_async.acl` makes the
modules. The implementations beneath are ordinary functions: they take what has been read, give values, and raise
`CannError`.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, TypeVar

from .. import last_error
from ..errors import CannError

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., object]")
FUNCTIONS: dict[str, dict[str, Callable[..., object]]] = {}
"""By module ("", "rt", "util", ...) and name: what a program calls."""
UNITS: dict[str, str] = {}
"""How each function reads its arguments; a unit in brackets is optional."""
_64_BITS = (1 << 64) - 1


class _Unfit(Exception):  # noqa: N818  # it never gets out
    """An argument is not of the unit."""


def _unsigned(value: object) -> int:
    """Read an int, whatever its size, modulo 2**64; an integer of NumPy is none."""
    if type(value) is int:  # a bool is one, too, but not a NumPy integer
        return value & _64_BITS
    if isinstance(value, int):
        return int(value) & _64_BITS
    raise _Unfit


def _index(bits: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        try:
            return operator.index(value) & ((1 << bits) - 1)  # type: ignore[arg-type]  # that is the question
        except TypeError:
            raise _Unfit from None

    return read


def _signed(bits: int) -> Callable[[object], int]:
    limit = 1 << (bits - 1)

    def read(value: object) -> int:
        try:
            number = value if type(value) is int else operator.index(value)  # type: ignore[arg-type]  # the question
        except TypeError:
            raise _Unfit from None
        if not -limit <= number < limit:
            raise _Unfit
        return number

    return read


def _float(value: object) -> float:
    try:
        if not isinstance(value, str | bytes | bytearray):
            return float(value)  # type: ignore[arg-type]  # that is the question
    except (TypeError, OverflowError, ValueError):
        pass
    raise _Unfit


def _text(value: object) -> str:
    if isinstance(value, str) and "\0" not in value:
        return value
    raise _Unfit


def _any(value: object) -> object:
    return value


def _instance(kind: type) -> Callable[[object], object]:
    def read(value: object) -> object:
        if isinstance(value, kind):
            return value
        raise _Unfit

    return read


def _callable(value: object) -> object:
    if callable(value):
        return value
    raise _Unfit


def _callable_or_none(value: object) -> object:
    return None if value is None else _callable(value)


def _dicts(value: object) -> object:
    if isinstance(value, list) and all(isinstance(one, dict) for one in value):
        return value
    raise _Unfit


READERS: dict[str, Callable[[object], object]] = {
    "k": _unsigned,
    "K": _unsigned,
    "I": _index(32),
    "H": _index(16),
    "i": _signed(32),
    "l": _signed(64),
    "f": _float,
    "s": _text,
    "O": _any,
    "O(callable)": _callable,
    "O(callable or None)": _callable_or_none,
    "O(list)": _instance(list),
    "O(dict)": _instance(dict),
    "O(tuple)": _instance(tuple),
    "O(list of dict)": _dicts,
}


IN_PLACE = {
    "k": "{0} & 0xFFFF_FFFF_FFFF_FFFF if {0}.__class__ is int else {1}({0})",
    "K": "{0} & 0xFFFF_FFFF_FFFF_FFFF if {0}.__class__ is int else {1}({0})",
    "i": "{0} if {0}.__class__ is int and -0x8000_0000 <= {0} < 0x8000_0000 else {1}({0})",
}
"""The common case of a unit, without a call."""


def _compile(units: str) -> Callable[..., tuple[object, ...]]:
    """Make the function that reads all arguments; made of one expression it takes half the time of a loop.

    It raises a TypeError for a wrong number of arguments, and `_Unfit`.
    """
    parameters: list[str] = []
    values: list[str] = []
    names: dict[str, object] = {"absent": object()}
    for index, unit in enumerate(units.split(",") if units else ()):
        bare = unit.strip("[]")
        names[f"read_{index}"] = READERS[bare]
        value = IN_PLACE.get(bare, "{1}({0})").format(f"a{index}", f"read_{index}")
        parameters.append(f"a{index}" if bare == unit else f"a{index}=absent")
        values.append(value if bare == unit else f"*(() if a{index} is absent else ({value},))")
    source = f"lambda {', '.join(parameters)}: ({', '.join([*values, ''])})"
    reader: Callable[..., tuple[object, ...]] = eval(source, names)
    return reader


def pyacl(
    name: str, units: str = "", *failed: object, has_code: bool = True, called: str | None = None
) -> Callable[[F], F]:
    """Make a function ``acl.<name>`` of pyACL.

    `units` say how its arguments are read, as "k,i,[O(dict)]". It gives its values and the code 0, or only the code if
    there are none; when it raises a `CannError`, `failed` stand for the values. Without a code (`has_code`) the first
    of `failed` is all that a failure gives. A wrong number or kind of arguments is a TypeError with pyACL's text,
    which names the function `called`.
    """
    read = _compile(units)
    text = f"acl.{called or name} args parse failed"
    on_failure: object = failed[0] if not has_code and failed else None

    def decorate(function: F) -> F:
        def code_only(*args: object) -> object:
            try:
                values = read(*args)
            except (TypeError, _Unfit):
                raise TypeError(text) from None
            try:
                function(*values)
            except CannError as problem:
                return last_error.note(problem, of="thread")
            return 0

        def value(*args: object) -> object:
            try:
                values = read(*args)
            except (TypeError, _Unfit):
                raise TypeError(text) from None
            try:
                return function(*values), 0
            except CannError as problem:
                return *failed, last_error.note(problem, of="thread")

        def several_values(*args: object) -> object:
            try:
                values = read(*args)
            except (TypeError, _Unfit):
                raise TypeError(text) from None
            try:
                found: tuple[object, ...] = function(*values)  # type: ignore[assignment]  # several, so a tuple
            except CannError as problem:
                return *failed, last_error.note(problem, of="thread")
            return *found, 0

        def bare(*args: object) -> object:
            try:
                values = read(*args)
            except (TypeError, _Unfit):
                raise TypeError(text) from None
            try:
                return function(*values)
            except CannError as problem:
                last_error.note(problem, of="thread")
                return on_failure

        call = bare if not has_code else (code_only, value)[len(failed)] if len(failed) < 2 else several_values
        module, _, last = name.rpartition(".")
        call.__name__ = call.__qualname__ = last
        call.__module__ = f"acl.{module}" if module else "acl"
        call.__doc__ = function.__doc__
        FUNCTIONS.setdefault(module, {})[last] = call
        UNITS[f"acl.{name}"] = units
        return function

    return decorate
