"""acl.*: begin and end, versions, errors and messages, numbers of 16 bits, data types."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import cast

import numpy as np

from .. import last_error
from ..errors import error
from .binding import pyacl
from .data_types import bits_of
from .process import at_end, number_of_devices, process

DEEPEST = 10
"""So deep may braces and brackets nest in a configuration."""
LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
SOC_NAMES = {"ascend910b": "Ascend910B2", "ascend310p": "Ascend310P3", "ascend310b": "Ascend310B1"}
VERSION = (1, 17, 0)
"""Of the interface that is answered, aclrtGetVersion."""
log = logging.getLogger("cann_async.acl")


class _Setup:
    users = 0
    """Calls of init since the last end."""
    ended = False
    """Whether it has been ended and not begun again."""
    config: str | None = None
    """What the first init of the process was given."""


setup = _Setup()


@pyacl("init", "[s]")
def init(config_path: str = "") -> None:
    """Begin; with the path of a configuration in JSON, if any. Mirrors aclInit."""
    check_not_forked()
    if setup.users:
        setup.users += 1
        raise error(100002, "acl has been initialised already", "It can be used; finalize it as often, or once.")
    _configure(_read(config_path))
    setup.users, setup.ended = 1, False


@pyacl("finalize")
def finalize() -> None:
    """End, however often it was begun. What is alive can still be given back. Mirrors aclFinalize."""
    if setup.ended:
        raise error(100037, "acl has been finalized already")
    setup.users, setup.ended = 0, True


@pyacl("finalize_reference", "", 0)
def finalize_reference() -> int:
    """Take back one init, and end with the last one; give how many are left. Mirrors aclFinalizeReference."""
    if not setup.users:
        raise error(100037, "acl has been finalized already, or was never initialised")
    setup.users -= 1
    setup.ended = not setup.users
    return setup.users


def check_not_forked() -> None:
    """Raise 507033 in the child of a fork: the runtime's threads did not come along."""
    if process.runtime is not None and process.runtime._machine.closed is not None:
        raise process.runtime._machine.closed.error()


def _read(path: str) -> str:
    if not path:
        return "{}"
    try:
        return Path(path).read_text("utf-8") or "{}"
    except (OSError, UnicodeError) as problem:
        raise error(100003, f"cannot read the configuration {path!r}: {problem}") from problem


def _configure(config_text: str) -> None:
    if setup.config is not None and setup.config != config_text:
        raise error(100000, "this process has been configured otherwise before")
    if any(_depth(config_text, *pair) > DEEPEST for pair in ("{}", "[]")):
        raise error(100006, f"the configuration nests deeper than {DEEPEST}")
    try:
        config = json.loads(config_text)
    except ValueError as problem:
        raise error(100006, f"the configuration is no JSON: {problem}") from problem
    if not isinstance(config, dict):
        raise error(100006, "the configuration must be an object")
    default = _part(config, "defaultDevice").get("default_device")
    if default is not None:
        text = str(default)
        if not text.isdecimal() or int(text) >= number_of_devices():
            raise error(107001, f"there is no default device {text!r}")
        process.default_device = int(text)
    scope = config.get("err_msg_mode", "0")
    if scope not in ("0", "1"):
        raise error(100006, f"err_msg_mode is '0' (thread) or '1' (process), not {scope!r}")
    last_error.set_message_scope("process" if scope == "1" else "thread")
    setup.config = config_text


def _part(config: dict[str, object], key: str) -> dict[str, object]:
    part = config.get(key, {})
    if not isinstance(part, dict):
        raise error(100006, f"{key} in the configuration must be an object")
    return cast("dict[str, object]", part)


def _depth(text: str, opening: str, closing: str) -> int:
    depth = deepest = 0
    for character in text:
        depth += (character == opening) - (character == closing)
        deepest = max(deepest, depth)
    return deepest


@pyacl("get_version", "", 0, 0, 0)
def get_version() -> tuple[int, int, int]:
    """Give the version of the interface: major, minor, patch. Mirrors aclrtGetVersion."""
    return VERSION


@pyacl("get_soc_name", has_code=False)
def get_soc_name() -> str:
    """Name the chip, without starting anything on it. Mirrors aclrtGetSocName."""
    if process.runtime is not None:
        name = process.runtime.devices[0].soc.name
    else:
        chip = process.soc if process.soc is not None else os.environ.get("CANN_ASYNC_SOC", "ascend910b")
        name = chip if isinstance(chip, str) else chip.name
    return SOC_NAMES.get(name, name)


@pyacl("get_recent_err_msg", has_code=False)
def get_recent_err_msg() -> str | None:
    """Give this thread's recent messages and forget them, None if there are none. Mirrors aclGetRecentErrMsg."""
    return last_error.recent_error_message(of="thread")


@pyacl("rt.get_last_error", "i", has_code=False)
def get_last_error(level: int) -> int:
    """Give this thread's last error and forget it; a level other than 0 is 100000. Mirrors aclrtGetLastError."""
    return last_error.get_last_error(of="thread") if level == 0 else 100000


@pyacl("rt.peek_at_last_error", "i", has_code=False)
def peek_at_last_error(level: int) -> int:
    """Give this thread's last error and keep it; a level other than 0 is 100000. Mirrors aclrtPeekAtLastError."""
    return last_error.peek_last_error(of="thread") if level == 0 else 100000


@pyacl("app_log", "i,s", has_code=False)
def app_log(log_level: int, message: str) -> None:
    """Log a line of the program, 0 (debug) to 3 (error), to the logger "cann_async.acl". As aclAppLog."""
    if 0 <= log_level < len(LEVELS):
        log.log(LEVELS[log_level], "%s", message)


@pyacl("data_type_size", "i", has_code=False)
def data_type_size(data_type: int) -> int:
    """Give the bytes of an element, 0 of an unknown type. Mirrors aclDataTypeSize."""
    return bits_of(data_type) // 8


@pyacl("float_to_float16", "f", has_code=False)
def float_to_float16(value: float) -> int:
    """Give the bits of the nearest half. Mirrors aclFloatToFloat16."""
    with np.errstate(over="ignore"):
        return int(np.float32(value).astype(np.float16).view(np.uint16))


@pyacl("float16_to_float", "H", has_code=False)
def float16_to_float(value: int) -> float:
    """Give the number that a half's bits are. Mirrors aclFloat16ToFloat."""
    return float(np.uint16(value).view(np.float16))


@pyacl("rt.get_run_mode", "", 0)
def get_run_mode() -> int:
    """Say that the program runs on the host (1). Mirrors aclrtGetRunMode."""
    return 1


_options: dict[int, int] = {}


@pyacl("rt.set_sys_param_opt", "i,l")
def set_sys_param_opt(opt: int, value: int) -> None:
    """Set a process-wide option, 0 or 1; nothing here depends on one. Mirrors aclrtSetSysParamOpt."""
    check_option(opt)
    _options[opt] = value


@pyacl("rt.get_sys_param_opt", "i", 0)
def get_sys_param_opt(opt: int) -> int:
    """Give a process-wide option. Mirrors aclrtGetSysParamOpt."""
    check_option(opt)
    return _options.get(opt, 0)


def check_option(opt: int) -> None:
    """Refuse an unknown option: 107000."""
    if not 0 <= opt <= 3:
        raise error(107000, f"there is no option {opt}")


@at_end
def _end() -> None:
    """Begin anew."""
    setup.users, setup.ended, setup.config = 0, False, None
    _options.clear()
    last_error.set_message_scope("thread")
