"""Data types by CANN's numbers (aclDataType)."""

from __future__ import annotations

import numpy as np

from ..errors import error

NUMPY: dict[int, type[np.generic]] = {
    0: np.float32,
    1: np.float16,
    2: np.int8,
    3: np.int32,
    4: np.uint8,
    6: np.int16,
    7: np.uint16,
    8: np.uint32,
    9: np.int64,
    10: np.uint64,
    11: np.float64,
    12: np.bool_,
    16: np.complex64,
    17: np.complex128,
}
OTHERS = {27: 16, 29: 4, 30: 1, 33: 32, 34: 8, 35: 8, 36: 8, 37: 8, 38: 6, 39: 6, 40: 4, 41: 4}
"""Bits of those that NumPy has not: BF16 and smaller ones."""


def bits_of(number: int) -> int:
    """Give the bits of an element, 0 of an unknown type."""
    kind = NUMPY.get(number)
    return np.dtype(kind).itemsize * 8 if kind is not None else OTHERS.get(number, 0)


def dtype_of(number: int) -> np.dtype[np.generic]:
    """Give NumPy's dtype; 107000 if there is no such type, 207000 if NumPy cannot calculate with it."""
    kind = NUMPY.get(number)
    if kind is not None:
        return np.dtype(kind)
    if number in OTHERS:
        raise error(207000, f"NumPy cannot calculate with data type {number}")
    raise error(107000, f"there is no data type {number}")
