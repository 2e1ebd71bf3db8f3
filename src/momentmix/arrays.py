"""Rows as NumPy arrays, or as tensors of torch, which stay on their device.

torch is not imported here: a tensor brings it. Code for both kinds calls, as ``xp``, what NumPy and
torch have under one name.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.errors import InputError, InputTypeError

_LEAST_BYTES = 1 << 28  # 256 MiB for temporaries: little on any device, enough for large blocks


def is_tensor(array: Any) -> bool:
    """Whether this is a tensor of torch."""
    return type(array).__module__.partition(".")[0] == "torch" and hasattr(array, "is_cuda")


def is_plain_array(data: Any) -> bool:
    """Whether this is an array or a tensor of numbers, whose columns need no guess."""
    if is_tensor(data):
        return True
    return isinstance(data, np.ndarray) and data.dtype.kind in "fiub" and data.ndim == 2


def namespace(array: Any) -> Any:
    """The module whose functions take this array: torch or NumPy."""
    return sys.modules["torch"] if is_tensor(array) else np


def is_cuda_tensor(array: Any) -> bool:
    """Whether this is a tensor on an NVIDIA device."""
    return is_tensor(array) and bool(array.is_cuda)


def dtype_name(array: Any) -> str:
    """The dtype as NumPy would call it: torch.float32 → float32."""
    return str(getattr(array.dtype, "name", array.dtype)).rpartition(".")[2]


def check_real(array: Any, where: str = "the array") -> None:
    """Raise unless an array or tensor holds real numbers; `where` names it in messages."""
    name = dtype_name(array)
    if name.startswith("complex"):
        raise InputTypeError(
            f"rows must be real numbers; {where} is complex ({name}). Pass the real and the "
            "imaginary part as separate columns."
        )
    if not name.startswith(("float", "bfloat", "int", "uint", "bool")):
        cure = "Convert it to float64, or encode it as numbers first."
        if name.startswith(("datetime", "timedelta")):
            cure = "Convert times to numbers in a unit of your choice first, e.g. divide "
            cure += "differences by np.timedelta64(1, 's')."
        raise InputTypeError(f"rows must be real numbers; {where} has dtype {array.dtype}. {cure}")


def as_float64(array: Any) -> Any:
    """The array or tensor in float64; itself where it is that already."""
    if not is_tensor(array):
        return np.asarray(array, dtype=np.float64)
    try:
        return array.double()
    except (TypeError, RuntimeError) as error:  # a device without float64
        raise InputError(
            f"rows on {array.device} cannot be cast to float64: {error}. Pass them as a NumPy "
            "array."
        ) from error


def on_device_of(values: NDArray[Any], array: Any, xp: Any) -> Any:
    """NumPy values as an array or tensor on the device of `array`."""
    values = np.require(values, requirements=["C", "W"])  # torch warns of read-only memory
    return values if xp is np else xp.asarray(values, device=array.device)


def take(array: Any, places: Any, axis: int) -> Any:
    """Entries at places along an axis; of a tensor by a tensor on its device."""
    return array.index_select(axis, places) if is_tensor(array) else np.take(array, places, axis)


def to_numpy(array: Any) -> NDArray[Any]:
    """A copy on the host, or a view where the memory is shared."""
    return np.asarray(array.detach().cpu() if is_tensor(array) else array)


def free_bytes(array: Any) -> int:
    """Memory for temporaries beside this array: an eighth of what is free on its device."""
    if not is_cuda_tensor(array):
        return _LEAST_BYTES
    free, _ = namespace(array).cuda.mem_get_info(array.device)
    return max(_LEAST_BYTES, int(free) // 8)


def has_mask(rows: Any) -> bool:
    """Whether this is a masked array, or a list that holds some."""
    if "numpy.ma" not in sys.modules:  # importing it takes long, and no one has made such an array
        return False
    if isinstance(rows, list | tuple):
        return any(isinstance(row, np.ma.MaskedArray) for row in rows)
    return isinstance(rows, np.ma.MaskedArray)


def plain_array(rows: Any) -> NDArray[Any]:
    """Return `rows` as a NumPy array, with NaN where a masked array hides a number."""
    if not has_mask(rows):
        try:
            return np.asarray(rows)
        except ValueError as error:
            text = f"lists must form a rectangular array, all rows of one length: {error}"
            raise InputError(text) from error
    rows = np.ma.asarray(rows)  # of a list, np.asarray would forget the masks
    if rows.dtype.kind in "VMm" or not np.ma.is_masked(rows):  # fields and times: no NaN
        return np.asarray(rows.data)
    if rows.dtype.kind in "iub":
        rows = rows.astype(np.float64)
    return np.asarray(rows.filled(np.nan))


def real_array(name: str, values: Any, ndim: int | None = None) -> Float:
    """Numbers as a new array that cannot be written to."""
    array = np.array(plain_array(values), dtype=np.float64)
    if ndim is not None and array.ndim != ndim:
        raise InputError(f"{name} must have {ndim} dimension(s); got {array.ndim}.")
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite; it holds NaN or infinity.")
    array.setflags(write=False)
    return array


def physical_memory() -> int:
    """Bytes of physical memory; 8 GiB where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 8 << 30


def readable(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array, or a copy if it is not aligned: compiled code refuses such numbers."""
    return array if array.flags.aligned else array.copy()
