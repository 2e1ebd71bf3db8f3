"""NumPy rows → windows of rows on a torch device, through page-locked memory.

While a window is summed on the device, threads fill the other page-locked buffer, which is copied
over on a stream of its own. float32 rows travel as such and are cast to float64 there.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError, needed

_BYTES = 1 << 28  # of one window
_COPIERS = 8  # threads that fill a buffer: one alone is slower than the way to the device


def _torch_device(device: Any) -> tuple[Any, Any]:
    torch = needed("torch", f"device={device!r} needs torch", "momentmix[gpu]")
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
    """Yield windows of rows as tensors on a device, with the numbers of their first rows."""
    # A window is overwritten after the next but one was requested.
    torch, found = _torch_device(device)
    kept = rows.dtype if rows.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    window = max(1, min(len(rows), n_bytes // (kept.itemsize * rows.shape[1])))
    starts = range(0, len(rows), window)
    locked = found.type == "cuda"
    shape, dtype = (window, rows.shape[1]), getattr(torch, kept.name)
    here = [torch.empty(shape, dtype=dtype, pin_memory=locked) for _ in starts[:2]]
    there = [torch.empty(shape, dtype=dtype, device=found) for _ in starts[:2]]
    stream = torch.cuda.Stream(found) if locked else None

    def send(number: int, pool: ThreadPoolExecutor) -> Any:
        part = rows[starts[number] : starts[number] + window]
        buffer, n = here[number % 2].numpy(), len(part)
        cuts = [slice(n * i // _COPIERS, n * (i + 1) // _COPIERS) for i in range(_COPIERS)]
        list(pool.map(lambda cut: np.copyto(buffer[cut], part[cut]), cuts))
        with torch.cuda.stream(stream):
            target = there[number % 2][:n].copy_(here[number % 2][:n], non_blocking=True)
        if stream is not None:
            stream.synchronize()
        return target

    with ThreadPoolExecutor(1) as sender, ThreadPoolExecutor(_COPIERS) as copiers:
        following = sender.submit(send, 0, copiers)
        for number, start in enumerate(starts):
            tensor = following.result()
            if locked:
                torch.cuda.synchronize(found)  # the window before is summed: its buffer is free
            if number + 1 < len(starts):
                following = sender.submit(send, number + 1, copiers)
            yield start, tensor
