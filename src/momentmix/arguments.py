"""Checks of arguments that every stage has."""

from __future__ import annotations

import numpy as np

from momentmix.errors import InputError, InputTypeError


def check_count(name: str, value: object, smallest: int) -> int:
    """Return `value` as an int; raise an error that names it and its bound where it is not one."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise InputTypeError(f"{name} must be an integer ≥ {smallest}; got {value!r}.")
    if value < smallest:
        raise InputError(f"{name} must be at least {smallest}; got {value}.")
    if int(value) >= 1 << 63:  # may be too long to print
        raise InputError(f"{name} must be below 2^63; got {int(value).bit_length()} bits.")
    return int(value)
