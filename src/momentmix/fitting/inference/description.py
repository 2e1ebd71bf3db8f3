"""How well a mixture describes rows that it was not fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import nan
from typing import Literal

Level = Literal["exact", "close", "rough", "poor", "unknown"]


@dataclass(frozen=True)
class Description:
    """How close a mixture is to the distribution of the rows.

    Attributes
    ----------
    level : {"exact", "close", "rough", "poor", "unknown"}
        "exact": the test does not reject the mixture. "unknown": there are no rows to compare with.
    distance : float
        The largest of the distances; NaN where it is unknown.
    columns : mapping of str or int to float
        Distance between the fitted and the observed distribution of each column, by name.
    """

    level: Level = "unknown"
    distance: float = nan
    columns: Mapping[str | int, float] = field(default_factory=dict)
