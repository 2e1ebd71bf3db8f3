"""Bad rows are refused with a message that names place and cure; the summary stays as it was."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.ma import mrecords
from scipy import sparse

from momentmix import MomentSummary, summarize
from momentmix.errors import FitWarning, InputError, InputTypeError


def table(change=None, n=6, d=3):
    rows = np.arange(float(n * d)).reshape(n, d) % 7
    if change:
        row, column, value = change
        rows[row, column] = value
    return rows


def masked(dtype=float, row=4, column=1):
    rows = np.ma.MaskedArray(table().astype(dtype), mask=np.zeros((6, 3), bool))
    rows[row, column] = np.ma.masked
    return rows


# What tests/front_doors/test_bad_rows.py does not give to `update`.
REFUSED = [
    (table((3, 2, 1e308)), InputError, r"2\^1000.*row 3, column 2 is 1e\+308.*Rescale"),
    (np.empty((0, 3)), InputError, r"at least one row.*Skip empty blocks"),
    (np.ones(3), InputError, r"1 dimension\(s\).*reshape\(1, -1\)"),
    (np.ones((2, 3, 1)), InputError, r"3 dimension\(s\).*Flatten"),
    (np.ones((4, 3)) * 1j, InputTypeError, r"complex.*separate columns"),
    (np.full((4, 3), "x"), InputTypeError, "column 0 holds text or other objects"),
    (np.array([[1, 2, None], [3, 4, 5]], object), InputError, "row 0, column 2 is NaN"),
    (np.array([[1, "a", 2]], dtype=object), InputTypeError, "column 1 holds text or other objects"),
    (sparse.eye(3).tocsr(), InputTypeError, r"sparse.*toarray\(\)"),
    (masked(np.float32), InputError, r"row 4, column 1 is NaN\."),
    (masked(bool), InputError, r"row 4, column 1 is NaN\."),
    (list(masked(row=2, column=0)), InputError, r"row 2, column 0 is NaN\."),
    (masked(complex), InputTypeError, r"complex"),
    (masked(object), InputError, "row 4, column 1 is NaN"),
    (np.ma.masked_all(3, dtype=[("a", float), ("b", int)]), InputTypeError, r"dtype \[\('a'"),
    (mrecords.fromarrays([np.ones(4)] * 3, names="a,b,c"), InputTypeError, r"real numbers.*dtype"),
]


@pytest.mark.parametrize(("rows", "error", "message"), REFUSED)
@pytest.mark.parametrize("filled", [False, True])
def test_bad_rows_are_refused_and_change_nothing(rows, error, message, filled):
    summary = MomentSummary(3, 2, shard_id="a")
    twin = MomentSummary(3, 2, shard_id="a")
    if filled:
        summary.update(table())
        twin.update(table())
    with pytest.raises(error, match=message):
        summary.update(rows)
    assert summary.n_rows == twin.n_rows
    assert summary.update(table(n=2000)).to_bytes() == twin.update(table(n=2000)).to_bytes()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_features": 3, "order": 4}, InputError, r"order must be at most n_features=3.*order=4"),
        ({"n_features": 3, "order": 0}, InputError, r"order must be at least 1"),
        ({"n_features": 0, "order": 1}, InputError, r"n_features must be at least 1"),
        ({"n_features": 3, "order": 2.5}, InputTypeError, r"order must be an integer"),
        ({"n_features": 3, "order": 2, "squared_order": 2}, InputError, r"order − 1 = 1.*closed"),
        ({"n_features": 3, "order": 2, "replicates": 0}, TypeError, r"unexpected .*'replicates'"),
        ({"n_features": 3, "order": 2, "n_threads": 0}, InputError, r"n_threads"),
        ({"n_features": 3, "order": 2, "shard_id": 7}, InputTypeError, r"shard_id"),
        ({"n_features": 3, "order": 2, "feature_names": ["a"]}, InputError, r"be 3 different"),
        ({"n_features": 2, "order": 2, "feature_names": ["a", "a"]}, InputError, r"repeated: 'a'"),
        ({"n_features": 2, "order": 2, "feature_names": "ab"}, InputTypeError, r"sequence"),
        ({"n_features": 2, "order": 2, "feature_names": [1, 2]}, InputTypeError, r"strings"),
        ({"n_features": 10**6, "order": 7}, InputError, r"moments and takes .*a quarter.*Use"),
    ],
)
def test_impossible_summaries_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        MomentSummary(**arguments)


def test_empty_summary_has_no_moments():
    empty = MomentSummary(3, 2)
    assert empty.n_rows == 0
    assert empty.sum_weights == 0
    assert empty.effective_rows == 0
    for read in (
        lambda: empty.mean,
        lambda: empty.variance,
        empty.moments,
    ):
        with pytest.raises(InputError, match="holds no rows yet"):
            read()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda s: s.moments(0, 0), r"scale must be positive"),
        (lambda s: s.moments(np.nan), r"shift must be finite"),
        (lambda s: s.moments([1, 2]), r"shift must be a number or have shape \(3,\)"),
        (lambda s: summarize(np.eye(3) * 1e200, 2).moments(1e250, 1), r"overflow float64"),
    ],
)
def test_questions_out_of_range(ask, message):
    with pytest.raises(InputError, match=message):
        ask(summarize(table(), 2))


def test_iterators_are_refused():
    with pytest.raises(InputTypeError, match="an iterator is not"):
        summarize(iter([table()]), 2)


def test_integers_beyond_two_to_the_53_warn():
    rows = np.full((4, 3), 2**60) + np.arange(12).reshape(4, 3)
    for data in (rows, pd.DataFrame(rows, columns=list("abc"))):
        with pytest.warns(FitWarning, match=r"beyond 2\^53"):
            summarize(data, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        summarize(rows >> 10, 2)
