"""Names of features: what is taken for names, and where warnings about columns point."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import momentmix as mm
from momentmix.errors import FitWarning, InputError, InputTypeError
from momentmix.tables.names import check_feature_names, feature_number

LARGE = np.array([[2**60 + 1, 3], [5, 7], [1, 2], [9, 4]])


@pytest.mark.parametrize("names", ["ab", {"a", "b"}, frozenset("ab"), {"a": 1, "b": 2}, 3])
def test_names_without_an_order_are_refused(names):
    with pytest.raises(InputTypeError, match="must be a sequence of strings"):
        check_feature_names(names)


def test_names_in_an_order_are_taken():
    for names in (("a", "b"), pd.Index(["a", "b"]), iter("ab")):
        assert check_feature_names(names, 2) == ("a", "b")
    words = r"4 different strings, one for each feature; got 1 name\."
    with pytest.raises(InputError, match=words):
        check_feature_names(["a"], 4)


def test_features_by_number_or_name():
    assert [feature_number(f, ("x", "y")) for f in (0, "y", "x")] == [0, 1, 0]
    with pytest.raises(InputError, match="no feature named 'z'; there are 'x', 'y'"):
        feature_number("z", ("x", "y"))
    with pytest.raises(InputError, match="have no names"):
        feature_number("z", None)


def test_columns_that_share_the_name_of_a_feature_are_refused():
    frame = pd.DataFrame({"a": [1.5, 0.5, 2.0], "b": [0, 1, 1], "p": list("xyx")})
    mixture = mm.fit(frame, 1, families={"b": "bernoulli"}).mixture
    twice = frame.assign(q=1.0).rename(columns={"q": "a"})
    for call in (mixture.score_samples, mixture.schema.encode):
        with pytest.raises(InputError, match="must differ from each other; repeated: 'a'"):
            call(twice)
    other = pd.concat([frame, twice[["a"]]], axis=1).set_axis(["a", "b", "p", "z", "z"], axis=1)
    np.testing.assert_array_equal(mixture.score_samples(other), mixture.score_samples(frame))


@pytest.mark.parametrize(
    "call",
    [
        lambda rows: mm.summarize(rows, order=2),
        lambda rows: mm.MomentSummary(2, 2).update(rows),
        lambda rows: mm.fit(rows, 1),
        lambda rows: mm.MomentGaussianMixture(1).fit(rows),
        lambda rows: mm.MomentGaussianMixture(1).partial_fit(rows),
    ],
)
@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame, lambda x: pl.DataFrame(x, ["a", "b"])])
def test_warnings_point_at_the_line_that_passed_the_rows(call, form):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(form(LARGE))
    wanted = [w for w in caught if issubclass(w.category, FitWarning)]
    assert {w.filename for w in wanted} == {__file__}


def test_times_in_a_container_of_another_library_are_refused():
    class Times:
        dtype, shape, ndim = np.dtype("datetime64[s]"), (4, 2), 2

        def __len__(self):
            return 4

        def __array__(self, dtype=None, copy=None):
            return LARGE.astype("datetime64[s]") if dtype is None else LARGE.astype(dtype)

    with pytest.raises(InputTypeError, match="Convert times to numbers"):
        mm.MomentGaussianMixture(1).fit(Times())


def test_a_large_number_and_infinity_far_apart():
    rows = np.ones((20_000, 2))
    rows[3, 0], rows[15_000, 1] = 1e200, np.inf
    with pytest.raises(InputError, match=r"column 0 reaches 1e\+200"):
        mm.fit(rows, 1)
