"""acl.rt: choosing a device, what is known of it, its limits and its peers."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

from ..errors import CannError, error
from .binding import pyacl
from .limits import host_timeout
from .process import current, device_of, handles, here, number_of_devices, runtime

if TYPE_CHECKING:
    from .. import sync

LONGEST_ABORT_MS = 36 * 60 * 1000
LAST_MEM_ATTR = 17
MOST_UCE = 20
UNKNOWN = 0xFFFF_FFFF


# -- choosing one ----------------------------------------------------------------------------------------------------


@pyacl("rt.set_device", "i")
def set_device(device_id: int) -> None:
    """Count one user more of a device, and make its default context current here. Mirrors aclrtSetDevice."""
    chosen = device_of(device_id)
    chosen.retain()
    here.context = chosen.default_context


@pyacl("rt.reset_device", "i")
def reset_device(device_id: int) -> None:
    """Count one user less; the last one gives all back. Mirrors aclrtResetDevice."""
    _end_of(device_of(device_id), force=False)


@pyacl("rt.reset_device_force", "i")
def reset_device_force(device_id: int) -> None:
    """Give all back, however many users there are; without any it is 507007. Mirrors aclrtResetDeviceForce."""
    _end_of(device_of(device_id), force=True)


def _end_of(chosen: sync.Device, *, force: bool) -> None:
    before = list(chosen._contexts)
    if force and not chosen._users:
        raise error(507007, f"{chosen!r} has no user: it was never set, or has been reset")
    if force:
        chosen.reset()
    else:
        chosen.release()
    for context in before:
        if context._closed is not None:
            handles.forget(context)  # type: ignore[arg-type]  # a device of the blocking twin has contexts of it


@pyacl("rt.get_device", "", 0)
def get_device() -> int:
    """Give the device of the current context. Mirrors aclrtGetDevice."""
    return current().device.index


@pyacl("rt.get_device_count", "", 0)
def get_device_count() -> int:
    """Give the number of devices, without starting anything. Mirrors aclrtGetDeviceCount."""
    return number_of_devices()


@pyacl("rt.set_ts_device", "i")
def set_ts_device(ts_id: int) -> None:
    """Choose a task scheduler: 0 (AI Core) or 1 (vector); both are the same one. Mirrors aclrtSetTsDevice."""
    if ts_id not in (0, 1):
        raise error(107000, f"there is no task scheduler {ts_id}")


@pyacl("rt.synchronize_device")
def synchronize_device() -> None:
    """Wait for every stream of the current context. Mirrors aclrtSynchronizeDevice."""
    current().synchronize()


@pyacl("rt.synchronize_device_with_timeout", "i")
def synchronize_device_with_timeout(timeout: int) -> None:
    """Wait so many milliseconds at most, -1 for ever. Mirrors aclrtSynchronizeDeviceWithTimeout."""
    seconds = host_timeout(timeout)
    current().synchronize(seconds)


@pyacl("rt.device_task_abort", "i,I")
def device_task_abort(device_id: int, timeout: int) -> None:
    """Kill what runs on the device and drop what is queued. Mirrors aclrtDeviceTaskAbort."""
    if timeout > LONGEST_ABORT_MS:
        raise error(107000, f"an abort takes at most {LONGEST_ABORT_MS} ms, not {timeout}")
    device_of(device_id).task_abort()


# -- what is known of it -----------------------------------------------------------------------------------------------


@pyacl("rt.query_device_status", "i", 0)
def query_device_status(device_id: int) -> int:
    """Say whether it works: 0, or 1 if it is lost. Mirrors aclrtQueryDeviceStatus."""
    _check_number(device_id)
    return int(runtime().devices[device_id].health != "ok")


@pyacl("rt.get_device_info", "I,I", 0)
def get_device_info(device_id: int, attr: int) -> int:
    """Give a figure of a device, by its number in aclrtDevAttr; one that a simulator has not is 207000."""
    soc = device_of(device_id).soc
    values = {
        1: soc.ai_cpus,
        101: soc.ai_cores,
        102: soc.ai_cores,
        201: soc.vector_cores,
        301: soc.memory_bytes,
        402: device_id,
        501: 1,
    }
    if attr in values:
        return values[attr]
    if attr in (*range(202, 213), 302, 401, *range(403, 410), 601):
        raise error(207000, f"a simulated device has no figure for attribute {attr}")
    raise error(107000, f"there is no attribute {attr} of a device")


@pyacl("rt.get_device_capability", "i,I", 0)
def get_device_capability(device_id: int, feature_type: int) -> int:
    """Say whether a device has a feature, 1, or not, 0. Mirrors aclrtGetDeviceCapability."""
    device_of(device_id)
    if feature_type not in (1, 21):
        raise error(107000, f"there is no feature {feature_type}")
    return 0


@pyacl("rt.get_device_utilization_rate", "i", {})
def get_device_utilization_rate(device_id: int) -> dict[str, int]:
    """Give the percentages of now, -1 for what is not known: memory. Mirrors aclrtGetDeviceUtilizationRate."""
    engines = device_of(device_id)._engines
    names = {"cube_utilization": "ai_core", "vector_utilization": "ai_vector", "aicpu_utilization": "ai_cpu"}
    busy = {key: round(100 * (1 - engines[name].free / engines[name].capacity)) for key, name in names.items()}
    return {**busy, "memory_utilization": -1, "utilization_extend": 0}


@pyacl("rt.get_mem_info", "i", 0, 0)
def get_mem_info(attr: int) -> tuple[int, int]:
    """Give free and total bytes of the current device; every kind of memory is the same. Mirrors aclrtGetMemInfo."""
    context = current()
    if not 0 <= attr <= LAST_MEM_ATTR:
        raise error(107016, f"there is no kind of memory {attr}")
    return context.device.memory_info()


@pyacl("rt.device_get_stream_priority_range", "", 0, 0)
def device_get_stream_priority_range() -> tuple[int, int]:
    """Give the least urgent priority and the most urgent one. Mirrors aclrtDeviceGetStreamPriorityRange."""
    current()
    return 7, 0


@pyacl("rt.device_get_uuid", "i", {})
def device_get_uuid(device_id: int) -> dict[str, bytes]:
    """Give a number that stays the same for this device on this host. Mirrors aclrtDeviceGetUuid."""
    device_of(device_id)
    return {"bytes": uuid.uuid5(uuid.NAMESPACE_DNS, f"npu-{device_id}.{os.uname().nodename}").bytes}


@pyacl("rt.device_get_bare_tgid", "", 0)
def device_get_bare_tgid() -> int:
    """Give the number of this process. Mirrors aclrtDeviceGetBareTgid."""
    return os.getpid()


@pyacl("rt.get_devices_topo", "I,I", 0)
def get_devices_topo(device_id: int, other_device_id: int) -> int:
    """Say how two devices are connected, a bit: 1 << 3 (PCIe). Mirrors aclrtGetDevicesTopo."""
    device_of(device_id)
    device_of(other_device_id)
    if device_id == other_device_id:
        raise error(107000, "a device is not connected with itself")
    return 1 << 3


def _same_number(name: str, doc: str) -> None:
    def translate(number: int) -> int:
        _check_number(number)
        return number

    translate.__doc__ = doc
    pyacl(f"rt.{name}", "i", 0)(translate)


_same_number("get_logic_dev_id_by_user_dev_id", "Give the same number. Mirrors aclrtGetLogicDevIdByUserDevId.")
_same_number("get_user_dev_id_by_logic_dev_id", "Give the same number. Mirrors aclrtGetUserDevIdByLogicDevId.")
_same_number("get_logic_dev_id_by_phy_dev_id", "Give the same number. Mirrors aclrtGetLogicDevIdByPhyDevId.")
_same_number("get_phy_dev_id_by_logic_dev_id", "Give the same number. Mirrors aclrtGetPhyDevIdByLogicDevId.")


def _check_number(number: int) -> None:
    if not 0 <= number < number_of_devices():
        raise error(107001, f"there is no device {number}: there are 0..{number_of_devices() - 1}")


@pyacl("rt.get_mem_uce_info", "i,I", [])
def get_mem_uce_info(device_id: int, array_size: int) -> list[dict[str, int]]:
    """List places of memory with errors that cannot be corrected; a simulated one has none."""
    device_of(device_id)
    if not 0 < array_size <= MOST_UCE:
        raise error(107000, f"room is for 1 to {MOST_UCE} places, not {array_size}")
    return []


@pyacl("rt.mem_uce_repair", "i,O(list of dict)")
def mem_uce_repair(device_id: int, info: list[dict[str, int]]) -> None:
    """Repair such places. There can be none, so any that is named is 107000. Mirrors aclrtMemUceRepair."""
    device_of(device_id)
    if len(info) > MOST_UCE:
        raise error(107000, f"at most {MOST_UCE} places are repaired at once, not {len(info)}")
    if info:
        raise error(107000, "this memory has no such error")


# -- peers -------------------------------------------------------------------------------------------------------------


@pyacl("rt.device_can_access_peer", "i,i", 0)
def device_can_access_peer(device_id: int, peer_device_id: int) -> int:
    """Say whether copies between two devices are possible: 1. Mirrors aclrtDeviceCanAccessPeer."""
    return int(device_of(device_id).can_access_peer(device_of(peer_device_id)))


@pyacl("rt.device_enable_peer_access", "i,I")
def device_enable_peer_access(peer_device_id: int, flags: int) -> None:
    """Allow copies from the current device to a peer. Mirrors aclrtDeviceEnablePeerAccess."""
    if flags:
        raise error(200006, f"flags must be 0, not {flags}")
    current().device.enable_peer_access(device_of(peer_device_id))


@pyacl("rt.device_disable_peer_access", "i")
def device_disable_peer_access(peer_device_id: int) -> None:
    """Forbid them again. Mirrors aclrtDeviceDisablePeerAccess."""
    current().device.disable_peer_access(device_of(peer_device_id))


@pyacl("rt.device_peer_access_status", "i,i", 0)
def device_peer_access_status(device_id: int, peer_device_id: int) -> int:
    """Say whether they are allowed, 1, or not, 0. Mirrors aclrtDevicePeerAccessStatus."""
    one, other = device_of(device_id), device_of(peer_device_id)
    if one is other:
        raise error(100000, "a device is no peer of itself")
    return int(other.index in one._peers)


# -- groups: of the CPUs of a device that runs programs itself, which this one does not --------------------------------


def _no_groups() -> CannError:
    return error(207000, "only a device on which the program itself runs has groups", "Leave the group alone.")


@pyacl("rt.create_group_info", has_code=False)
def create_group_info() -> int:
    """Make a place for what is known of groups. Mirrors aclrtCreateGroupInfo."""
    return handles.put(_Groups())


@pyacl("rt.destroy_group_info", "k")
def destroy_group_info(group_info: int) -> None:
    """Give it back. Mirrors aclrtDestroyGroupInfo."""
    handles.get(group_info, _Groups, 107000)
    handles.pop(group_info)


@pyacl("rt.set_group", "I")
def set_group(group_id: int) -> None:
    """Answer as chips without groups do: 207000. Mirrors aclrtSetGroup."""
    raise _no_groups()


@pyacl("rt.get_group_count", "I", 0)
def get_group_count(count: int) -> int:
    """Answer as chips without groups do: 207000. Mirrors aclrtGetGroupCount."""
    raise _no_groups()


@pyacl("rt.get_all_group_info", "k")
def get_all_group_info(group_info: int) -> None:
    """Answer as chips without groups do: 207000. Mirrors aclrtGetAllGroupInfo."""
    raise _no_groups()


@pyacl("rt.get_group_info_detail", "k,i,i", [])
def get_group_info_detail(group_info: int, group_id: int, attr: int) -> list[int]:
    """Answer as chips without groups do: 207000. Mirrors aclrtGetGroupInfoDetail."""
    raise _no_groups()


class _Groups:
    """Nothing is known of groups."""
