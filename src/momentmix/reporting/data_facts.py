"""Facts about data that a report shows beside the model, from one pass over the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.displays.rows import (
    encoded_rows,
    matching_summary,
    opened,
    thinned,
)
from momentmix.errors import InputError
from momentmix.mixture.density import log_sums, posteriors
from momentmix.mixture.mixture import Mixture
from momentmix.summary.summary import MomentSummary

_MOST_SHOWN = 4000  # rows in the pictures; more points hide one another and make the file large
_TYPICAL = 3  # rows of a group that are named
SURE, MOSTLY = 0.9, 0.5  # probabilities from which on the group of a row is certain, or likely


@dataclass(frozen=True)
class DataFacts:
    """Facts about the data of a report."""

    n_rows: int  # all, with those that have no density
    summary: MomentSummary | None = None  # where data are one
    shown: Any = None  # rows for pictures: an array, or a dict of columns; None of a summary
    n_shown: int = 0
    counts: NDArray[np.int64] | None = None  # rows in each component; None without a density
    # Of the rows of each component, (r, 3): how many are certain, mostly, and unclear.
    certainty: NDArray[np.int64] | None = None
    typical: Sequence[Sequence[int]] = ()  # places of the most probable rows of each component
    log_likelihood: float | None = None  # mean over the rows


def gather(mixture: Mixture, data: Any) -> DataFacts:
    """Return facts from one pass over rows, as `open_rows` takes them, or from a summary."""
    if isinstance(data, MomentSummary):
        data = matching_summary(mixture, data)
        if not data.n_rows:
            raise InputError("the summary holds no rows; give one that does.")
        return DataFacts(data.n_rows, data)
    source, schema = opened(mixture, data), mixture.schema
    density = mixture.table_density() if mixture.has_density else None
    tally = _Tally(mixture.n_components)
    total, n_rows = 0.0, 0

    def blocks() -> Iterator[Float]:
        nonlocal total, n_rows
        for encoded in encoded_rows(mixture, source):
            features, left_out = encoded
            if density is not None:
                scores = density.map_encoded(encoded, log_sums)
                total += float(scores.sum())
                tally.add(density.map_encoded(encoded, posteriors), scores, n_rows)
            n_rows += len(features)
            # Pictures are without rows that have a missing cell in a column that had none.
            yield features if left_out is None else features[~left_out.any(axis=1)]

    shown = thinned(blocks(), _MOST_SHOWN)
    if not len(shown):
        raise InputError(
            "every row has a missing cell in a column that had none when the model was fitted. "
            "Give other rows, or a summary."
        )
    return DataFacts(
        n_rows,
        None,
        shown if schema is None else schema.decode(shown),
        len(shown),
        tally.certainty.sum(axis=1) if density else None,
        tally.certainty if density else None,
        () if getattr(source, "n_dropped", 0) else tally.typical,  # places are those of all rows
        total / n_rows if density else None,
    )


class _Tally:
    """How sure the components of rows are, and which rows are most probable in each."""

    def __init__(self, n_components: int) -> None:
        self.certainty = np.zeros((n_components, 3), dtype=np.int64)
        self._best: list[list[tuple[float, int]]] = [[] for _ in range(n_components)]

    @property
    def typical(self) -> list[list[int]]:
        """Places of the most probable rows of each component, the most probable first."""
        return [[-place for _, place in best] for best in self._best]

    def add(self, shares: Float, scores: Float, first: int) -> None:
        """Add rows, from place `first` on: probabilities (n, r) and log-densities (n,)."""
        shares = np.nan_to_num(shares)
        labels, top = shares.argmax(axis=1), shares.max(axis=1)
        labels[top < np.maximum(1.0 - shares.sum(axis=1), 1e-300)] = -1  # the background
        class_of = (top <= SURE).astype(int) + (top < MOSTLY)
        with np.errstate(divide="ignore"):
            joint = np.log(top) + scores
        for i, best in enumerate(self._best):
            own = np.flatnonzero(labels == i)
            self.certainty[i] += np.bincount(class_of[own], minlength=3)
            first_ones = own[np.argsort(-joint[own], kind="stable")[:_TYPICAL]]
            best += zip(joint[first_ones].tolist(), (-first - first_ones).tolist(), strict=True)
            best[:] = sorted(best, reverse=True)[:_TYPICAL]
