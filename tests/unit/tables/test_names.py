"""Names of features: what is taken for names."""

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix.errors import InputError, InputTypeError
from momentmix.tables.names import check_feature_names, feature_number


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
    for call in (mixture.log_prob, mixture.schema.encode):
        with pytest.raises(InputError, match="must differ from each other; repeated: 'a'"):
            call(twice)
    other = pd.concat([frame, twice[["a"]]], axis=1).set_axis(["a", "b", "p", "z", "z"], axis=1)
    np.testing.assert_array_equal(mixture.log_prob(other), mixture.log_prob(frame))


def test_times_in_a_container_of_another_library_are_refused():
    class Times:
        dtype, shape, ndim = np.dtype("datetime64[s]"), (4, 2), 2

        def __len__(self):
            return 4

        def __array__(self, dtype=None, copy=None):
            return np.ones((4, 2)).astype(dtype or "datetime64[s]")

    with pytest.raises(InputTypeError, match="Convert times to numbers"):
        mm.MomentGaussianMixture(1).fit(Times())


def test_a_large_number_and_infinity_far_apart():
    rows = np.ones((20_000, 2))
    rows[3, 0], rows[15_000, 1] = 1e200, np.inf
    with pytest.raises(InputError, match=r"column 0 reaches 1e\+200"):
        mm.fit(rows, 1)
