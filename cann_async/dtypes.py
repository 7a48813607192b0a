"""Which NumPy dtypes may live in device memory: numbers, in the machine's byte order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

KINDS = "biufc"


def device_dtype(dtype: npt.DTypeLike) -> np.dtype[np.generic]:
    """Give the dtype as the device keeps it (native byte order); TypeError that names it if it is not one of numbers.

    Extension dtypes such as ml_dtypes' bfloat16 are numbers, too: NumPy sees them as void without fields.
    """
    found: np.dtype[np.generic] = np.dtype(dtype)
    if found.kind in KINDS:
        return found.newbyteorder("=") if not found.isnative else found
    if found.kind == "V" and found.fields is None and found.subdtype is None and found.type is not np.void:
        return found
    raise TypeError(
        f"dtype {found} cannot live in device memory: only numbers can ({'bool, int, uint, float, complex'})"
    )
