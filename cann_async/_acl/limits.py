"""acl.rt: how overflows end, how many cores launches may use, how long kernels and waits may take."""

from __future__ import annotations

from ..errors import error
from .binding import pyacl
from .process import current, device_of, here, runtime, stream_of

RES_ENGINES = ("ai_core", "ai_vector")
"""By CANN's numbers of limited resources: cube cores, vector cores."""
INTERVAL_US = 4_294_967
"""Timeouts of kernels are multiples of this: 2**32 ns."""
STEPS = 254
"""So many times the interval is the longest one, and what holds unless it is set."""


@pyacl("rt.set_device_sat_mode", "i")
def set_device_sat_mode(mode: int) -> None:
    """Let overflows saturate (0) or become infinite (1) on streams made later. Mirrors aclrtSetDeviceSatMode."""
    chosen = current().device
    if mode not in (0, 1):
        raise error(107000, f"the mode is 0 (saturation) or 1 (INFNAN), not {mode}")
    chosen.set_saturation_mode(mode == 0)


@pyacl("rt.get_device_sat_mode", "", 0)
def get_device_sat_mode() -> int:
    """Give the mode: 0 (saturation) or 1 (INFNAN). Mirrors aclrtGetDeviceSatMode."""
    return int(not current().device.saturation_mode)


def _engine(kind: int) -> str:
    if not 0 <= kind < len(RES_ENGINES):
        raise error(107000, f"the type is 0 (cube cores) or 1 (vector cores), not {kind}")
    return RES_ENGINES[kind]


@pyacl("rt.set_device_res_limit", "i,I,I")
def set_device_res_limit(device_id: int, type: int, value: int) -> None:
    """Let launches use at most so many cores. Mirrors aclrtSetDeviceResLimit."""
    device_of(device_id).set_core_limit(_engine(type), value)


@pyacl("rt.get_device_res_limit", "i,I", 0)
def get_device_res_limit(device_id: int, type: int) -> int:
    """Give how many cores launches may use. Mirrors aclrtGetDeviceResLimit."""
    return device_of(device_id).core_limit(_engine(type))


@pyacl("rt.reset_device_res_limit", "i")
def reset_device_res_limit(device_id: int) -> None:
    """Let launches use all cores again. Mirrors aclrtResetDeviceResLimit."""
    for engine in RES_ENGINES:
        device_of(device_id).set_core_limit(engine, None)


@pyacl("rt.set_stream_res_limit", "k,i,I")
def set_stream_res_limit(stream: int, type: int, value: int) -> None:
    """Let launches of a stream use at most so many cores. Mirrors aclrtSetStreamResLimit."""
    stream_of(stream).set_core_limit(_engine(type), value)


@pyacl("rt.get_stream_res_limit", "k,i", 0)
def get_stream_res_limit(stream: int, type: int) -> int:
    """Give how many cores launches of a stream may use. Mirrors aclrtGetStreamResLimit."""
    return stream_of(stream).core_limit(_engine(type))


@pyacl("rt.reset_stream_res_limit", "k")
def reset_stream_res_limit(stream: int) -> None:
    """Let a stream use what its device allows. Mirrors aclrtResetStreamResLimit."""
    for engine in RES_ENGINES:
        stream_of(stream).set_core_limit(engine, None)


@pyacl("rt.use_stream_res_in_current_thread", "k")
def use_stream_res_in_current_thread(stream: int) -> None:
    """Let this thread go by a stream's limits. Mirrors aclrtUseStreamResInCurrentThread."""
    here.adopted = stream_of(stream)


@pyacl("rt.unuse_stream_res_in_current_thread", "k")
def unuse_stream_res_in_current_thread(stream: int) -> None:
    """Let this thread go by the device's limits again. Mirrors aclrtUnuseStreamResInCurrentThread."""
    if here.adopted is None or here.adopted is not stream_of(stream):
        raise error(107000, "this thread does not go by the limits of this stream")
    here.adopted = None


@pyacl("rt.get_res_in_current_thread", "i", 0)
def get_res_in_current_thread(type: int) -> int:
    """Give how many cores launches of this thread may use. Mirrors aclrtGetResInCurrentThread."""
    context = current()
    if here.adopted:
        return here.adopted.core_limit(_engine(type))
    return context.device.core_limit(_engine(type))


def host_timeout(milliseconds: int) -> float | None:
    """Read a timeout of the host: -1 is for ever, 0 and less are 107000."""
    if milliseconds == -1:
        return None
    if milliseconds <= 0:
        raise error(107000, f"a timeout is -1 (for ever) or more than 0 milliseconds, not {milliseconds}")
    return milliseconds / 1000


@pyacl("rt.set_op_wait_timeout", "I")
def set_op_wait_timeout(timeout: int) -> None:
    """Let waits of streams fail after so many seconds, 0: never. Mirrors aclrtSetOpWaitTimeout."""
    runtime().op_wait_timeout = timeout or None


@pyacl("rt.set_op_execute_time_out", "I", called="rt.set_op_execute_timeout")
def set_op_execute_time_out(timeout: int) -> None:
    """Let kernels be killed after seconds; see `set_op_execute_timeout_v2`. Mirrors aclrtSetOpExecuteTimeOut."""
    _set_execute_timeout(timeout * 1_000_000)


@pyacl("rt.set_op_execute_timeout_v2", "K", 0)
def set_op_execute_timeout_v2(timeout: int) -> int:
    """Let kernels be killed after so many microseconds; give what it has become. Mirrors aclrtSetOpExecuteTimeOutV2.

    It becomes the next multiple of `get_op_timeout_interval`, at most 254 times that. With 0, or unless it is set, it
    is the longest one; a simulated kernel is then not killed at all.
    """
    return _set_execute_timeout(timeout)


def _set_execute_timeout(microseconds: int) -> int:
    steps = min(-(-microseconds // INTERVAL_US), STEPS) if microseconds else STEPS
    runtime().op_execute_timeout = steps * INTERVAL_US / 1e6 if microseconds else None
    return steps * INTERVAL_US


@pyacl("rt.get_op_execute_timeout", "", 0)
def get_op_execute_timeout() -> int:
    """Give the milliseconds after which kernels are killed. Mirrors aclrtGetOpExecuteTimeout."""
    limit = runtime().op_execute_timeout
    return STEPS * INTERVAL_US // 1000 if limit is None else int(limit * 1000)


@pyacl("rt.get_op_timeout_interval", "", 0)
def get_op_timeout_interval() -> int:
    """Give the microseconds of which timeouts of kernels are multiples. Mirrors aclrtGetOpTimeOutInterval."""
    return INTERVAL_US
