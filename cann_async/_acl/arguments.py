"""acl.rt: blocks of arguments for kernels, put together on the host."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..errors import error
from .addresses import Bytes, Region, addresses
from .binding import pyacl
from .functions import Binary, function_of
from .process import current, handles

SLOT = 8
"""Bytes of the place of one parameter."""
MOST = 128
"""So many parameters a block has at most."""
HEADER = 64
"""Bytes of a handle that lies in the program's own memory."""


class Arguments:
    """The bytes of the arguments of a launch; with `embedded` buffers, whose addresses stand in them.

    Made here it is a handle that is filled step by step; made with `data` it is device memory, as it is at the launch.
    """

    def __init__(self, data: Bytes | None = None, owner: Binary | None = None) -> None:
        self._data = data
        self.owner = owner
        """The binary of whose function they are; with it they go."""
        self._parts: list[Bytes] = []
        self._buffers: dict[int, Bytes] = {}
        """Buffers of place holders, by the index of the parameter."""
        self._is_finished = data is not None
        self.embedded: dict[int, Bytes] = {}
        """Copies of these buffers, by their addresses."""

    @property
    def nbytes(self) -> int:
        """How many bytes there are."""
        return self._data.nbytes if self._data is not None else sum(part.nbytes for part in self._parts)

    @property
    def data(self) -> Bytes:
        """The bytes, as they are now."""
        return self._data if self._data is not None else np.concatenate([*self._parts, np.empty(0, np.uint8)])

    def append(self, part: Bytes) -> int:
        """Add a parameter, and give its number; 107000 if there are too many, or it is finished."""
        if len(self._parts) >= MOST:
            raise error(107000, f"a kernel has at most {MOST} parameters")
        if self._is_finished:
            raise error(107000, "the arguments are finished")
        self._parts.append(_padded(part))
        return len(self._parts) - 1

    def update(self, index: int, part: Bytes) -> None:
        """Change a parameter to one of the same size; then the arguments must be finished again."""
        if not 0 <= index < len(self._parts) or self._parts[index].nbytes != _padded(part).nbytes:
            raise error(107000, "there is no such parameter, or it has another size")
        self._parts[index] = _padded(part)
        self._is_finished = False

    def buffer(self, index: int, nbytes: int) -> int:
        """Make the buffer of a place holder, and give its address for the program to fill."""
        if self._is_finished or index in self._buffers or not 0 <= index < len(self._parts):
            raise error(107000, "there is no such place holder, or it has its buffer")
        buffer = current().device.malloc_host(nbytes, np.uint8)
        self._buffers[index] = buffer
        return addresses.add(Region(buffer))

    def finish(self) -> None:
        """Let it be launched."""
        self._is_finished = True

    def taken(self) -> Arguments:
        """Give a copy for one launch; 107000 if it is not finished."""
        if not self._is_finished:
            raise error(107000, "the arguments are not finished", "Call kernel_args_finalize first.")
        parts = list(self._parts)
        embedded = {}
        for index, buffer in self._buffers.items():
            copy = buffer.copy()
            address: int = copy.__array_interface__["data"][0]
            embedded[address] = copy
            parts[index] = np.array([address], np.uint64).view(np.uint8)
        block = Arguments(np.concatenate([*parts, np.empty(0, np.uint8)]))
        block.embedded = embedded
        return block

    def forget(self) -> None:
        """Give the buffers back."""
        for buffer in self._buffers.values():
            start: int = buffer.__array_interface__["data"][0]
            addresses.drop(start, start + buffer.nbytes)
        self._buffers.clear()


def _padded(part: Bytes) -> Bytes:
    padded: npt.NDArray[np.uint8] = np.zeros(-(-part.nbytes // SLOT) * SLOT, np.uint8)
    padded[: part.nbytes] = part
    return padded


def _arguments(handle: int) -> Arguments:
    return handles.get(handle, Arguments, 107000)


@pyacl("rt.kernel_args_init", "k", 0)
def kernel_args_init(func_handle: int) -> int:
    """Begin the arguments of a function. Mirrors aclrtKernelArgsInit."""
    return handles.put(Arguments(owner=function_of(func_handle).binary))


@pyacl("rt.kernel_args_init_by_user_mem", "k,k,k,k")
def kernel_args_init_by_user_mem(func_handle: int, args_handle: int, user_host_mem: int, actual_args_size: int) -> None:
    """Begin them with the program's own memory for the handle. Mirrors aclrtKernelArgsInitByUserMem."""
    binary = function_of(func_handle).binary
    if not args_handle or not user_host_mem:
        raise error(100000, "there is no memory for the arguments")
    handles.put_at(args_handle, Arguments(owner=binary))


@pyacl("rt.kernel_args_get_handle_mem_size", "k", 0)
def kernel_args_get_handle_mem_size(func_handle: int) -> int:
    """Give the bytes of a handle in the program's own memory. Mirrors aclrtKernelArgsGetHandleMemSize."""
    function_of(func_handle)
    return HEADER


@pyacl("rt.kernel_args_get_mem_size", "k,k", 0)
def kernel_args_get_mem_size(func_handle: int, user_args_size: int) -> int:
    """Give the bytes that arguments of this size need. Mirrors aclrtKernelArgsGetMemSize."""
    function_of(func_handle)
    return -(-user_args_size // SLOT) * SLOT


@pyacl("rt.kernel_args_append", "k,k,k", 0)
def kernel_args_append(args_handle: int, param: int, param_size: int) -> int:
    """Add a parameter: bytes that are copied now. Mirrors aclrtKernelArgsAppend."""
    found = _arguments(args_handle)
    return found.append(_given(param, param_size)) + 1


@pyacl("rt.kernel_args_append_place_holder", "k", 0)
def kernel_args_append_place_holder(args_handle: int) -> int:
    """Add a parameter that will point to a buffer among the arguments. Mirrors aclrtKernelArgsAppendPlaceHolder."""
    return _arguments(args_handle).append(np.zeros(SLOT, np.uint8)) + 1


@pyacl("rt.kernel_args_get_place_holder_buffer", "k,k,k", 0)
def kernel_args_get_place_holder_buffer(args_handle: int, param_handle: int, data_size: int) -> int:
    """Give the buffer of a place holder, to be filled. Mirrors aclrtKernelArgsGetPlaceHolderBuffer."""
    found = _arguments(args_handle)
    if not data_size:
        raise error(100000, "the buffer of a place holder has at least one byte")
    return found.buffer(param_handle - 1, data_size)


@pyacl("rt.kernel_args_para_update", "k,k,k,k")
def kernel_args_para_update(args_handle: int, param_handle: int, param: int, param_size: int) -> None:
    """Change a parameter, for another launch. Mirrors aclrtKernelArgsParaUpdate."""
    _arguments(args_handle).update(param_handle - 1, _given(param, param_size))


@pyacl("rt.kernel_args_finalize", "k")
def kernel_args_finalize(args_handle: int) -> None:
    """Finish them, so that they can be launched. Mirrors aclrtKernelArgsFinalize."""
    _arguments(args_handle).finish()


def _given(address: int, nbytes: int) -> Bytes:
    if not address or not nbytes:
        raise error(100000, "there is no parameter")
    view, _ = addresses.view(address, nbytes)
    return view.copy()
