"""acl.rt: binaries, functions and launches. What runs are kernels of Python that are registered by name.

A program loads a binary and asks for a function by its name, as on a device; what stands in the binary does not matter.
The arguments are one block of bytes with a slot of 8 bytes for each parameter, read when the kernel runs. The kernel's
annotations say what is in a slot: an ``NDArray[np.float32]`` is a pointer, of which the body sees the memory up to the
end of its allocation; ``int``, ``float``, ``bool`` and the scalar types of NumPy are values. Without an annotation a
pointer to known memory is seen as bytes, and anything else as an int.
"""

from __future__ import annotations

import inspect
import typing
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..errors import CannError, error
from ..kernel import Kernel
from ..soc import Cost
from .addresses import addresses
from .arguments import SLOT, Arguments
from .binding import pyacl
from .functions import Binary, Function, function_of
from .process import current, enqueued, handles, stream_of

TIMEOUT_S, TIMEOUT_US = 7, 8
"""Attributes of a launch."""
LARGEST_GRID = 1 << 16
REGISTRY: dict[str, Kernel[..., Any]] = {}


def register_kernel(name: str, kernel: Kernel[..., Any]) -> None:
    """Let programs find a kernel under a name; a name that is taken is taken over."""
    if not isinstance(kernel, Kernel):
        raise TypeError(f"a kernel is made with @cann_async.kernel, not {type(kernel).__name__}")
    REGISTRY[name] = kernel


class Blob:
    """A block of data from which a binary can be loaded."""


def _parameters(kernel: Kernel[..., Any]) -> list[Any]:
    """Give the annotation of each parameter but the first, which is the block or the launch."""
    names = [
        one.name
        for one in inspect.signature(kernel.body).parameters.values()
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ][1:]
    try:
        hints = typing.get_type_hints(kernel.body)
    except (NameError, TypeError):  # names that only a type checker knows
        hints = {}
    return [hints.get(name) for name in names]


def _adapted(kernel: Kernel[..., Any], parameters: list[Any]) -> Kernel[..., Any]:
    """Make the kernel that takes a block of arguments and reads it when it runs."""
    body = kernel.body
    if kernel.is_asynchronous:

        async def run(where: object, block: Arguments) -> object:
            return await body(where, *read(block, parameters))  # type: ignore[misc]  # a coroutine function's

    else:

        def run(where: object, block: Arguments) -> object:  # type: ignore[misc]  # the other kind of body
            return body(where, *read(block, parameters))

    run.__name__ = kernel.__name__

    def cost(launch: object, block: Arguments) -> Cost:
        values: list[Any] = []
        try:
            values = read(block, parameters)
        except CannError:  # the arguments are yet to be copied there
            return kernel.cost or Cost()
        if kernel.cost_function is not None:
            return kernel.cost_function(launch, *values)
        return kernel.cost or Cost(bytes=sum(one.nbytes for one in values if isinstance(one, np.ndarray)))

    return Kernel(run, kernel.engine, kernel.cost or cost, kernel.per_block)


def read(block: Arguments, parameters: list[Any]) -> list[Any]:
    """Read the values of the parameters; 107000 if the block has too few bytes."""
    if block.nbytes < SLOT * len(parameters):
        raise error(107000, f"{len(parameters)} parameters need {SLOT * len(parameters)} bytes, not {block.nbytes}")
    data = block.data
    return [_value(data[SLOT * n : SLOT * (n + 1)], kind, block) for n, kind in enumerate(parameters)]


def _value(slot: npt.NDArray[np.uint8], kind: Any, block: Arguments) -> Any:
    if kind is bool:
        return bool(slot[0])
    if kind is int:
        return int(slot.view(np.int64)[0])
    if kind is float:
        return float(slot.view(np.float64)[0])
    if isinstance(kind, type) and issubclass(kind, np.generic):
        return slot[: np.dtype(kind).itemsize].view(kind)[0]
    address = int(slot.view(np.uint64)[0])
    embedded = block.embedded.get(address)
    if kind is None and embedded is None and addresses.find(address) is None:
        return address
    memory = embedded if embedded is not None else cast("Any", addresses.buffer(address)._array)
    dtype = _dtype(kind)
    return memory[: memory.nbytes // dtype.itemsize * dtype.itemsize].view(dtype)


def _dtype(kind: Any) -> np.dtype[np.generic]:
    """Read the dtype from ``NDArray[np.float32]``; bytes without one."""
    for part in typing.get_args(kind):
        for element in typing.get_args(part) or (part,):
            if isinstance(element, type) and issubclass(element, np.generic) and element is not np.generic:
                return np.dtype(element)
    return np.dtype(np.uint8)


# -- binaries and functions --------------------------------------------------------------------------------------------


@pyacl("rt.create_binary", "k,k", 0, has_code=False)
def create_binary(data: int, data_len: int) -> int:
    """Describe a block of data as a binary. Mirrors aclrtCreateBinary."""
    if not data or not data_len:
        raise error(100000, "there is no data")
    return handles.put(Blob())


@pyacl("rt.destroy_binary", "k")
def destroy_binary(binary: int) -> None:
    """Forget it. Mirrors aclrtDestroyBinary."""
    handles.get(binary, Blob, 107000)
    handles.pop(binary)


@pyacl("rt.binary_load", "k", 0)
def binary_load(binary: int) -> int:
    """Load a binary that `create_binary` has described. Mirrors aclrtBinaryLoad."""
    handles.get(binary, Blob, 107000)
    return handles.put(Binary())


@pyacl("rt.binary_load_from_file", "s,O(list)", 0)
def binary_load_from_file(bin_path: str, options: list[object]) -> int:
    """Load a file; one that is not there is 107000. Mirrors aclrtBinaryLoadFromFile."""
    if not bin_path:
        raise error(100000, "there is no path")
    if not Path(bin_path).is_file():
        raise error(107000, f"there is no file {bin_path!r}")
    return handles.put(Binary())


@pyacl("rt.binary_load_from_data", "k,k,O(list)", 0)
def binary_load_from_data(data: int, length: int, options: list[object]) -> int:
    """Load a block of data. Mirrors aclrtBinaryLoadFromData."""
    if not data or not length:
        raise error(100000, "there is no data")
    return handles.put(Binary())


@pyacl("rt.binary_unload", "k")
def binary_unload(bin_handle: int) -> None:
    """Forget a binary and its functions. Mirrors aclrtBinaryUnLoad."""
    found = handles.get(bin_handle, Binary, 107000)
    handles.pop(bin_handle)
    handles.forget_if(lambda thing: isinstance(thing, Function) and thing.binary is found)
    for arguments in handles.forget_if(lambda thing: isinstance(thing, Arguments) and thing.owner is found):
        cast("Arguments", arguments).forget()


@pyacl("rt.binary_get_function", "k,s", 0)
def binary_get_function(bin_handle: int, kernel_name: str) -> int:
    """Give the kernel that is registered under a name; without one it is 507000. Mirrors aclrtBinaryGetFunction."""
    return _function_of(bin_handle, kernel_name)


@pyacl("rt.register_cpu_func", "k,s,s", 0)
def register_cpu_func(bin_handle: int, func_name: str, kernel_name: str) -> int:
    """Give the kernel that is registered under either name. Mirrors aclrtRegisterCpuFunc."""
    return _function_of(bin_handle, kernel_name if kernel_name in REGISTRY else func_name)


def _function_of(bin_handle: int, name: str) -> int:
    binary = handles.get(bin_handle, Binary, 107000)
    current()
    kernel = REGISTRY.get(name)
    if kernel is None:
        known = ", ".join(map(repr, sorted(REGISTRY))) or "none"
        raise error(
            507000,
            f"no kernel is registered as {name!r}; there are: {known}",
            "Register it: cann_async.acl.register_kernel(name, kernel), or cann-async run --kernels module.",
        )
    return handles.put(Function(name, kernel, binary, _adapted(kernel, _parameters(kernel))))


@pyacl("rt.get_function_name", "k,I", "")
def get_function_name(func_handle: int, max_len: int) -> str:
    """Give the name of a function, which must be shorter than `max_len`. Mirrors aclrtGetFunctionName."""
    name = function_of(func_handle).name
    if len(name.encode()) >= max_len:
        raise error(107000, f"{max_len} bytes are too few for the name {name!r}")
    return name


@pyacl("rt.get_function_addr", "k", 0, 0)
def get_function_addr(func_handle: int) -> tuple[int, int]:
    """Give addresses for cube and vector cores; the one that it does not run on is 0. Mirrors aclrtGetFunctionAddr."""
    function = function_of(func_handle)
    return (0, func_handle) if function.kernel.engine == "ai_vector" else (func_handle, 0)


# -- launches ----------------------------------------------------------------------------------------------------------


@pyacl("rt.launch_kernel", "k,I,k,k,k")
def launch_kernel(func_handle: int, block_dim: int, args_data: int, args_size: int, stream: int) -> None:
    """Launch; the arguments are in device memory, and read when the kernel runs. Mirrors aclrtLaunchKernel."""
    if not args_data:
        raise error(100000, "there are no arguments")
    function = function_of(func_handle)
    if not block_dim:
        raise error(107000, "a launch needs at least one block")
    found = stream_of(stream)
    memory = cast("npt.NDArray[np.uint8]", addresses.buffer(args_data, args_size)._array)
    enqueued(found.launch(function.adapted, Arguments(memory), blocks=block_dim, name=function.name))


@pyacl("rt.launch_kernel_with_config", "k,I,k,O(list),k,k")
def launch_kernel_with_config(
    func_handle: int, block_dim: int, stream: int, cfg: list[dict[str, int]], args_handle: int, reserve: int
) -> None:
    """Launch; the arguments are those of a finished handle, taken over at the call.

    `cfg` lists attributes, ``{"id": number, "value": value}``: 7 and 8 are a timeout in seconds and microseconds, the
    others change nothing. Mirrors aclrtLaunchKernelWithConfig.
    """
    if reserve or not block_dim:
        raise error(100000, "reserve must be NULL" if reserve else "a launch needs at least one block")
    function = function_of(func_handle)
    block = handles.get(args_handle, Arguments, 107000).taken()
    timeout = None
    for attribute in cfg:
        if not isinstance(attribute, dict) or not {"id", "value"} <= attribute.keys():
            raise error(107000, f"an attribute of a launch is a dict of id and value, not {attribute!r}")
        if attribute["id"] in (TIMEOUT_S, TIMEOUT_US):
            timeout = attribute["value"] / (1 if attribute["id"] == TIMEOUT_S else 1e6)
    found = stream_of(stream)
    enqueued(found.launch(function.adapted, block, blocks=block_dim, name=function.name, timeout=timeout or None))
