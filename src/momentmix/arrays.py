"""Arrays of other libraries (torch, CuPy, JAX, …) through the array API standard.

An array that is not NumPy's is used on its own device, by the functions of its own library. No such
library is imported here: an array gives its own. torch and CuPy differ from the standard in places;
`array_api_compat` (extra ``gpu``) hides that.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.errors import InputError, InputTypeError, MissingDependencyError

_NEED_COMPAT = ("torch", "cupy")  # libraries whose arrays need `array_api_compat`
_LEAST_BYTES = 1 << 28  # 256 MiB for temporaries: little on any device, enough for large blocks


def _library(array: Any) -> str:
    return type(array).__module__.partition(".")[0]


def is_foreign(array: Any) -> bool:
    """Whether this is an array of a library other than NumPy that follows the array API."""
    if isinstance(array, np.ndarray | np.generic | list | tuple):
        return False
    if _library(array) in _NEED_COMPAT:
        return hasattr(array, "ndim") and hasattr(array, "shape")
    return hasattr(array, "__array_namespace__")


def is_plain_array(data: Any) -> bool:
    """Whether this is an array of numbers of any library, whose columns need no guess."""
    if is_foreign(data):
        return True
    return isinstance(data, np.ndarray) and data.dtype.kind in "fiub" and data.ndim == 2


def namespace(array: Any) -> Any:
    """The functions of the array API for this array: NumPy itself, or those of its library."""
    if not is_foreign(array):
        return np
    if _library(array) not in _NEED_COMPAT:
        return array.__array_namespace__()
    try:
        from array_api_compat import array_namespace
    except ImportError as error:
        raise MissingDependencyError(
            f"rows of {_library(array)} need array-api-compat, which is not installed. Run pip "
            "install momentmix[gpu], or pass the rows as a NumPy array."
        ) from error
    return array_namespace(array)


def device_of(array: Any) -> Any:
    """The device of the array, as its library represents it."""
    device = array.device
    return device() if callable(device) else device


def is_cuda_tensor(array: Any) -> bool:
    """Whether this is a torch tensor on an NVIDIA device."""
    return _library(array) == "torch" and bool(array.is_cuda)


def dtype_name(array: Any) -> str:
    """The dtype as NumPy would call it: torch.float32 → float32."""
    name = getattr(array.dtype, "name", None) or str(array.dtype)
    return str(name).rpartition(".")[2]


def check_real(array: Any, where: str = "the array") -> None:
    """Raise unless an array of any library holds real numbers; `where` names it in messages."""
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


def as_float64(array: Any, xp: Any) -> Any:
    """The array as float64 of its library; the array itself where it is that already."""
    if dtype_name(array) == "float64":
        return array
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # JAX warns that it truncates; an error follows below
            result = xp.astype(array, xp.float64)
    except (TypeError, ValueError, RuntimeError) as error:  # a device without float64
        raise InputError(
            f"rows on {device_of(array)} cannot be cast to float64: {error}. Pass them as a NumPy "
            "array."
        ) from error
    if dtype_name(result) != "float64":
        raise InputError(
            f"moments need float64, and {_library(array)} computes in {dtype_name(result)} here. "
            'Call jax.config.update("jax_enable_x64", True) before the rows are made, or pass '
            "them as a NumPy array."
        )
    return result


def on_device_of(values: NDArray[Any], array: Any, xp: Any) -> Any:
    """NumPy values as an array of the same library and device as `array`."""
    values = np.require(values, requirements=["C", "W"])  # torch warns of read-only memory
    return xp.asarray(values, device=device_of(array))


def to_numpy(array: Any) -> NDArray[Any]:
    """A copy on the host, or a view where the memory is shared."""
    if _library(array) == "torch":
        return np.asarray(array.detach().cpu())
    if hasattr(array, "get") and _library(array) == "cupy":
        return np.asarray(array.get())
    if hasattr(array, "__array__") and not hasattr(array, "_array"):
        return np.asarray(array)
    return np.from_dlpack(array)


def to_numpy_later(array: Any) -> Callable[[], NDArray[Any]]:
    """Return a function that gives the copy on the host.

    A torch tensor on an NVIDIA device is copied as soon as it is computed, and the call waits for
    nothing that the device was asked for after that.
    """
    if not is_cuda_tensor(array):
        return lambda: to_numpy(array)
    import torch

    copy = array.detach().to("cpu", non_blocking=True)  # to page-locked memory
    arrived = torch.cuda.current_stream(array.device).record_event()

    def wait() -> NDArray[Any]:
        arrived.synchronize()
        return np.asarray(copy)

    return wait


def free_bytes(array: Any) -> int:
    """Memory for temporaries beside this array: an eighth of what is free on its device."""
    if is_cuda_tensor(array):
        import torch

        return max(_LEAST_BYTES, int(torch.cuda.mem_get_info(array.device)[0]) // 8)
    if _library(array) == "cupy":
        return max(_LEAST_BYTES, int(array.device.mem_info[0]) // 8)
    return _LEAST_BYTES


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
        return np.asarray(rows)
    rows = np.ma.asarray(rows)  # of a list, np.asarray would forget the masks
    if rows.dtype.kind in "VMm" or not np.ma.is_masked(rows):  # fields and times: no NaN
        return np.asarray(rows.data)
    if rows.dtype.kind in "iub":
        rows = rows.astype(np.float64)
    return np.asarray(rows.filled(np.nan))


def real_array(
    name: str, values: Any, ndim: int | None = None, *, allow_nan: bool = False
) -> Float:
    """Numbers as a new array that cannot be written to."""
    array = np.array(plain_array(values), dtype=np.float64)
    if ndim is not None and array.ndim != ndim:
        raise InputError(f"{name} must have {ndim} dimension(s); got {array.ndim}.")
    if not np.isfinite(array).all() and not (allow_nan and not np.isinf(array).any()):
        held = "infinity" if allow_nan else "NaN or infinity"
        raise InputError(f"{name} must be finite; it holds {held}.")
    array.setflags(write=False)
    return array


def physical_memory() -> int:
    """Bytes of physical memory; 8 GiB where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 8 << 30


def weight_squares(blocks: Float, weights: Float | None) -> Float:
    """Σ w² of each block."""
    if weights is None:
        return np.full(len(blocks), float(blocks.shape[1]))
    return np.asarray(np.vecdot(weights, weights))


def readable(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array, or a copy if it is not aligned: compiled code refuses such numbers."""
    return array if array.flags.aligned else array.copy()
