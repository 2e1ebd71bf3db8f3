"""The rows or the summary that a report shows beside the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from momentmix._typing import Float
from momentmix.displays.rows import encoded_rows, matching_summary, thinned
from momentmix.errors import InputError
from momentmix.mixture.mixture import Mixture
from momentmix.summary.summary import MomentSummary

_MOST_SHOWN = 4000  # rows in the pictures; more points hide one another and make the file large


@dataclass(frozen=True)
class DataFacts:
    """The data of a report."""

    n_rows: int
    shown: Any  # for pictures: rows as an array or a dict of columns, or a summary
    n_shown: int = 0  # rows; 0 of a summary


def gather(mixture: Mixture, data: Any) -> DataFacts:
    """Return the data, from one pass over rows, as `open_rows` takes them, or from a summary."""
    if isinstance(data, MomentSummary):
        data = matching_summary(mixture, data)
        if not data.n_rows:
            raise InputError("the summary holds no rows; give one that does.")
        return DataFacts(data.n_rows, data)
    n_rows = 0

    def blocks() -> Iterator[Float]:
        nonlocal n_rows
        for features, left_out in encoded_rows(mixture, data):
            n_rows += len(features)
            # Pictures are without rows that have a missing cell in a column that had none.
            yield features if left_out is None else features[~left_out.any(axis=1)]

    shown = thinned(blocks(), _MOST_SHOWN)
    if not len(shown):
        raise InputError(
            "every row has a missing cell in a column that had none when the model was fitted. "
            "Give other rows, or a summary."
        )
    rows = shown if mixture.schema is None else mixture.schema.decode(shown)
    return DataFacts(n_rows, rows, len(shown))
