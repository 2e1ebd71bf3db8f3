"""Facts about data that a report shows beside the model, from one pass over the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.displays.rows import (
    HIGHEST_ORDER,
    add_rows,
    empty_summary,
    encoded_rows,
    matching_summary,
    opened,
    thinned,
)
from momentmix.errors import InputError
from momentmix.findings.finding import WARNING, Finding, found
from momentmix.fitting.data import moments_of
from momentmix.fitting.inference.findings import copies_of
from momentmix.mixture.density import log_sums, posteriors
from momentmix.mixture.mixture import Mixture
from momentmix.summary.column_facts import schema_of
from momentmix.summary.summary import MomentSummary

_MOST_SHOWN = 4000  # rows in the pictures; more points hide one another and make the file large
_MOST_MOMENTS = 10_000  # of one order in the residuals; more take long, and show no more
_RARE = 1e-3  # share of the model's own rows that counts as improbable
_N_DRAWN = 20_000  # rows drawn to find that quantile: 20 lie below it
_FAR = 8.0  # standard deviations; a Gaussian column practically never has such a value
_MOST_LISTED = 8  # findings of one kind
_TYPICAL = 3  # rows of a group that are named
SURE, MOSTLY = 0.9, 0.5  # probabilities from which on the group of a row is certain, or likely


@dataclass(frozen=True)
class DataFacts:
    """Facts about the data of a report."""

    summary: MomentSummary  # of orders up to 4
    n_rows: int = 0  # all, with those that have no density
    shown: Any = None  # rows for pictures: an array, or a dict of columns; None of a summary
    n_shown: int = 0
    counts: NDArray[np.int64] | None = None  # rows in each component; None without a density
    # Of the rows of each component, (r, 3): how many are certain, mostly, and unclear.
    certainty: NDArray[np.int64] | None = None
    typical: Sequence[Sequence[int]] = ()  # places of the most probable rows of each component
    log_likelihood: float | None = None  # mean over the rows
    rare: float = 0.0  # share of rows less probable than 99.9 % of rows drawn from the model
    n_dropped: int = 0  # rows with missing values
    # Rows with a missing cell in a column that had none; summary and pictures are without them.
    n_unexpected: int = 0

    def findings(self, names: list[str]) -> list[Finding]:
        """Return findings about unusual columns and rows; `names` are the names of the columns."""
        s = self.summary
        column_of = range(s.n_features) if s.schema is None else s.schema.column_of
        names = [names[j] for j in column_of]
        findings = []
        if self.n_dropped:
            findings.append(found(WARNING, "dropped-rows", count=self.n_dropped))
        if self.n_unexpected:
            findings.append(found(WARNING, "unexpected-missing", count=self.n_unexpected))
        parts = () if s.schema is None else s.schema.feature_parts
        no_value = {j for j, part in enumerate(parts) if part.is_seen or part.level is not None}
        constant = [names[j] for j in np.flatnonzero(s.deviation == 0) if j not in no_value]
        if constant:
            findings.append(found(WARNING, "constant-column", constant))
        moments = moments_of(s)
        copies = copies_of(moments.of_table(s.schema))[0][:_MOST_LISTED]
        findings += [found(WARNING, "duplicate-columns", [names[i], names[k]]) for i, k in copies]
        scale = np.where(s.deviation > 0, s.deviation, np.inf)
        farthest = np.maximum(s.mean - s.minimum, s.maximum - s.mean) / scale
        columns = [schema_of(s).columns[j] for j in column_of]
        is_number = [column.model.joins and not column.has_missing for column in columns]
        far = np.flatnonzero((farthest > _FAR) & is_number)
        far = far[np.argsort(-farthest[far], kind="stable")]
        if far.size:
            asides, own = [f"{farthest[j]:.3g}" for j in far], [names[j] for j in far]
            findings.append(found(WARNING, "outlier-influence", own, asides=asides))
        if self.rare > 10 * _RARE:
            findings.append(found(WARNING, "improbable-rows", share=self.rare, expected=_RARE))
        return findings


def gather(mixture: Mixture, data: Any) -> DataFacts:
    """Return facts from one pass over rows, as `open_rows` takes them, or from a summary."""
    if isinstance(data, MomentSummary):
        data = matching_summary(mixture, data)
        if not data.n_rows:
            raise InputError("the summary holds no rows; give one that does.")
        order = min(data.order, _order(data.n_features))
        return DataFacts(data.truncate(order, min(data.squared_order, max(order - 2, 0))))
    source, schema = opened(mixture, data), mixture.schema
    n_features = mixture.n_features if schema is None else schema.n_features
    summary = empty_summary(mixture, _order(n_features))
    density = mixture.table_density() if mixture.has_density else None
    rare_below = _rare_below(mixture) if density else 0.0
    tally = _Tally(mixture.n_components)
    total, n_rare, n_rows = 0.0, 0, 0

    def blocks() -> Iterator[Float]:
        nonlocal total, n_rare, n_rows
        for encoded in encoded_rows(mixture, source):
            if density is not None:
                scores = density.map_encoded(encoded, log_sums)
                total += float(scores.sum())
                n_rare += int((scores < rare_below).sum())
                tally.add(density.map_encoded(encoded, posteriors), scores, n_rows)
            n_rows += len(encoded.features)
            yield add_rows(summary, encoded)

    shown = thinned(blocks(), _MOST_SHOWN)
    if not len(shown):
        raise InputError(
            "every row has a missing cell in a column that had none when the model was fitted. "
            "Give other rows, or a summary."
        )
    n_dropped = int(getattr(source, "n_dropped", 0))
    return DataFacts(
        summary,
        n_rows,
        shown if schema is None else schema.decode(shown),
        len(shown),
        tally.certainty.sum(axis=1) if density else None,
        tally.certainty if density else None,
        tally.typical if not n_dropped else (),  # places are those of all rows
        total / n_rows if density else None,
        n_rare / n_rows,
        n_dropped,
        n_rows - summary.n_rows if source.missing != "mar" else 0,
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


def _order(n_features: int) -> int:
    """Return the highest order of the moments of a report: 4, or less where these are many."""
    order = min(HIGHEST_ORDER, n_features)
    while order > 2 and comb(n_features, order) > _MOST_MOMENTS:
        order -= 1
    return order


def _rare_below(mixture: Mixture) -> float:
    """Return the log-density that 99.9 % of rows drawn from the model exceed."""
    drawn = mixture.sample(_N_DRAWN, random_state=0)[0]
    return float(np.quantile(mixture.log_prob(drawn), _RARE))
