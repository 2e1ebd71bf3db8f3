"""NumPy rows → windows of rows on a torch device, through page-locked memory.

While a window is summed on the device, a thread fills the other page-locked buffer, which is copied
over on a stream of its own; rows travel in their own dtype and are cast to float64 there.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from numpy.typing import NDArray

from momentmix.errors import InputError, MissingDependencyError

__all__ = ["feed"]

_BYTES = 1 << 28  # of one window


def _torch_device(device: Any) -> tuple[Any, Any]:
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError(
            f"device={device!r} needs torch, which is not installed: pip install momentmix[gpu]"
        ) from error
    try:
        found = torch.device(device)
        torch.empty(1, device=found)
    except (RuntimeError, TypeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"device={device!r} cannot be used by torch here ({reason}). Use device=None for NumPy."
        ) from error
    return torch, found


def feed(rows: NDArray[Any], device: Any, n_bytes: int = _BYTES) -> Iterator[tuple[int, Any]]:
    """Consecutive windows of rows as tensors on a device, each with the number of its first row.

    A window is overwritten after the next but one was asked for.
    """
    torch, found = _torch_device(device)
    window = max(1, n_bytes // max(1, rows.itemsize * rows.shape[1]))
    starts = range(0, len(rows), window)
    if found.type != "cuda":
        for start in starts:
            yield start, torch.from_numpy(rows[start : start + window].copy()).to(found)
        return
    shape = (min(window, len(rows)), rows.shape[1])
    dtype = torch.from_numpy(rows[:0].copy()).dtype
    pinned = [torch.empty(shape, dtype=dtype, pin_memory=True) for _ in starts[:2]]
    there = [torch.empty(shape, dtype=dtype, device=found) for _ in starts[:2]]
    stream = torch.cuda.Stream(found)

    def send(number: int) -> Any:
        part = rows[starts[number] : starts[number] + window]
        here, target = pinned[number % 2][: len(part)], there[number % 2][: len(part)]
        here.numpy()[...] = part
        with torch.cuda.stream(stream):
            target.copy_(here, non_blocking=True)
        stream.synchronize()
        return target

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(send, 0)
        for number, start in enumerate(starts):
            tensor = following.result()
            torch.cuda.synchronize(found)  # the window before is summed: its buffer is free
            if number + 1 < len(starts):
                following = pool.submit(send, number + 1)
            yield start, tensor
