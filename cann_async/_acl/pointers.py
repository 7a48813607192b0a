"""acl and acl.util: data buffers, and the ways between Python's objects and pointers."""

from __future__ import annotations

import ctypes
import threading
import warnings
from collections import deque
from typing import cast

import numpy as np
import numpy.typing as npt

from ..errors import error
from .addresses import addresses
from .binding import FUNCTIONS, UNITS, pyacl
from .process import handles

NPY_TYPES: dict[int, type[np.generic]] = {np.dtype(code).num: np.dtype(code).type for code in "?bBhHiIlLqQefdgFDG"}


class _Recent(threading.local):
    """What this thread has last asked pointers of.

    ``memcpy(..., bytes_to_ptr(x.tobytes()), ...)`` must work, though nobody keeps the bytes: here Python code runs
    between the two, and would overwrite them.
    """

    def __init__(self) -> None:
        self.kept: deque[object] = deque(maxlen=2)


_recent = _Recent()


class DataBuffer:
    """A pointer and a size; it owns nothing."""

    def __init__(self, data: int, size: int) -> None:
        self.data = data
        self.size = size


def _buffer(handle: int) -> DataBuffer:
    return handles.get(handle, DataBuffer, 100000)


@pyacl("create_data_buffer", "k,k", 0, has_code=False)
def create_data_buffer(data: int, size: int) -> int:
    """Put a pointer and a size together. As aclCreateDataBuffer."""
    return handles.put(DataBuffer(data, size))


@pyacl("destroy_data_buffer", "k")
def destroy_data_buffer(data_buffer: int) -> None:
    """Forget them; the memory stays. As aclDestroyDataBuffer."""
    _buffer(data_buffer)
    handles.pop(data_buffer)


@pyacl("update_data_buffer", "k,k,k")
def update_data_buffer(data_buffer: int, new_data: int, new_size: int) -> None:
    """Put another pointer and size in. As aclUpdateDataBuffer."""
    found = _buffer(data_buffer)
    found.data, found.size = new_data, new_size


@pyacl("get_data_buffer_addr", "k", 0, has_code=False)
def get_data_buffer_addr(data_buffer: int) -> int:
    """Give the pointer. As aclGetDataBufferAddr."""
    return _buffer(data_buffer).data


@pyacl("get_data_buffer_size", "k", 0, has_code=False)
def get_data_buffer_size(data_buffer: int) -> int:
    """Give the size, of which only 32 bits remain. As aclGetDataBufferSize."""
    return _buffer(data_buffer).size & 0xFFFF_FFFF


@pyacl("get_data_buffer_size_v2", "k", 0, has_code=False)
def get_data_buffer_size_v2(data_buffer: int) -> int:
    """Give the size. As aclGetDataBufferSizeV2."""
    return _buffer(data_buffer).size


# -- pointers ----------------------------------------------------------------------------------------------------------


def _one(args: tuple[object, ...], name: str) -> object:
    if len(args) != 1:
        raise TypeError(f"acl.util.{name} args parse failed")
    return args[0]


def bytes_to_ptr(*args: object) -> int:
    """Give the address of the bytes themselves: it is good as long as they are, and copies can overwrite them."""
    data = _one(args, "bytes_to_ptr")
    if not isinstance(data, bytes):
        raise ValueError("needs an byte as argument")  # noqa: TRY004  # so it is there
    _recent.kept.append(data)
    return cast("int", ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value)


def numpy_to_ptr(*args: object) -> int:
    """Give the address of an array's data; the array must live on. Deprecated there, with a warning, and so here."""
    array = _one(args, "numpy_to_ptr")
    _deprecated("numpy_to_ptr", "bytes_to_ptr")
    if not isinstance(array, np.ndarray):
        raise ValueError("needs an ndarray as argument")  # noqa: TRY004  # so it is there
    if not array.flags.c_contiguous:
        warnings.warn("the ndarray is not contiguous", RuntimeWarning, stacklevel=2)
    return _address(array)


def numpy_contiguous_to_ptr(*args: object) -> tuple[int, npt.NDArray[np.generic]]:
    """Give the address of a contiguous array with the same elements, and that array, which must live on."""
    array = _one(args, "numpy_contiguous_to_ptr")
    _deprecated("numpy_contiguous_to_ptr", "bytes_to_ptr")
    if not isinstance(array, np.ndarray):
        raise ValueError("needs an ndarray as argument")  # noqa: TRY004  # so it is there
    contiguous = np.ascontiguousarray(array)
    return _address(contiguous), contiguous


def _deprecated(name: str, better: str) -> None:
    warnings.warn(f"acl.util.{name} is deprecated, use acl.util.{better}", DeprecationWarning, stacklevel=3)


def _address(array: npt.NDArray[np.generic]) -> int:
    _recent.kept.append(array)
    return cast("int", array.__array_interface__["data"][0])


for _function, _units in ((bytes_to_ptr, "O(bytes)"), (numpy_to_ptr, "O"), (numpy_contiguous_to_ptr, "O")):
    _function.__qualname__, _function.__module__ = _function.__name__, "acl.util"
    FUNCTIONS.setdefault("util", {})[_function.__name__] = _function
    UNITS[f"acl.util.{_function.__name__}"] = _units


@pyacl("util.ptr_to_bytes", "k,k", None, has_code=False)
def ptr_to_bytes(ptr: int, size: int) -> bytes:
    """Copy memory of the host or the device into new bytes."""
    if not ptr:
        raise error(100000, "the pointer is NULL")
    view, _ = addresses.view(ptr, size)
    return view.tobytes()


@pyacl("util.ptr_to_numpy", "k,O(tuple),i", None, has_code=False)
def ptr_to_numpy(ptr: int, shape: tuple[int, ...], npy_type: int) -> npt.NDArray[np.generic]:
    """Give memory as an array: the memory itself, which must live on. `npy_type` is NumPy's number of the dtype."""
    kind = NPY_TYPES.get(npy_type)
    if kind is None:
        raise error(100000, f"{npy_type} is no number of a dtype of NumPy")
    if not ptr:
        raise error(100000, "the pointer is NULL")
    dtype = np.dtype(kind)
    count = 1
    for length in shape:
        count *= length
    view, _ = addresses.view(ptr, count * dtype.itemsize)
    return view.view(dtype).reshape(shape)
