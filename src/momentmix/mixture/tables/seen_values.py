"""What components know of a column that some of them never see.

| symbol | name here | shape |
|---|---|---|
| probability that the cell is seen | ``seen`` | (r,) |
| parameters of the value where it is seen, NaN where it never is | ``values`` | (r, …) |

A component that never sees a column knows nothing of its values: they are NaN. Its densities there
are those of the other components together (`completed`), so that every row has one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.mixture.checks import real_array
from momentmix.mixture.laws.finite import LEAST_PROBABILITY
from momentmix.mixture.laws.seen import Seen, SeenValue

NEVER_SEEN = 1e-6  # a probability of being seen below it stands for never


def checked_seen(seen: Any, n_components: int) -> Float | None:
    """Probabilities of being seen as an array (r,), or None."""
    if seen is None:
        return None
    array = real_array("seen", seen, 1)
    if array.shape != (n_components,) or not ((array >= 0) & (array <= 1)).all():
        raise InputError(
            f"seen must be {n_components} probabilities from 0 to 1, one for each component; got "
            f"{array.tolist()}."
        )
    if (array < NEVER_SEEN).all():
        raise InputError(
            "a column must be seen in a component; seen is 0 in all of them. Leave the column out."
        )
    return array


def with_unknown(values: Float, seen: Float | None) -> Float:
    """Parameters (r, …), NaN where a component never sees the column; not to be written to."""
    if seen is not None and (seen < NEVER_SEEN).any():
        values = values.copy()
        values[seen < NEVER_SEEN] = np.nan
    values.setflags(write=False)
    return values


def unknown_columns(means: Float, covariances: Float, seen: Float) -> tuple[Float, Float]:
    """Means (r, k) and covariances (r, k, k), NaN in the columns that a component never sees."""
    unknown = seen < NEVER_SEEN
    either = unknown[:, :, None] | unknown[:, None, :]
    tables = np.where(unknown, np.nan, means), np.where(either, np.nan, covariances)
    for table in tables:
        table.setflags(write=False)
    return tables


def completed(values: Float, seen: Float | None) -> Float:
    """Parameters (r, …) with the mean of the components that see the column for NaN."""
    if seen is None or not np.isnan(values).any():
        return values
    unknown = np.isnan(values).reshape(len(values), -1).any(axis=1)
    shares = seen[~unknown] / seen[~unknown].sum()
    full = values.copy()
    full[unknown] = np.tensordot(shares, values[~unknown], 1)
    return full


def checked_unknown(values: Float, seen: Float | None, name: str) -> Float:
    """Parameters with NaN where a component never sees the column; raise for NaN elsewhere."""
    values = with_unknown(values, seen)
    unknown = np.isnan(values).reshape(len(values), -1).any(axis=1)
    if unknown.any() and (seen is None or (seen[unknown] >= NEVER_SEEN).any()):
        i = int(np.argmax(unknown if seen is None else unknown & (seen >= NEVER_SEEN)))
        raise InputError(
            f"{name} may be NaN only in a component that never sees the column (seen 0); component "
            f"{i} has NaN."
        )
    return values


def seen_features(
    law: Seen, seen: Float | None, means: Float, variances: Float
) -> tuple[Float, Float]:
    """Means and variances (r, 2) of the features of values (r, 1) that may be missing."""
    q = np.ones(len(means)) if seen is None else seen
    q = np.clip(q, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    return law.features_of(SeenValue(q, means, variances))
