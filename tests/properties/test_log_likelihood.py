"""The log-likelihood of a fit is the mean of `log_prob` over the rows that it used."""

import numpy as np
import pandas as pd
import pytest
from campaigns.random_fits import random_table
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import momentmix as mm

pytestmark = pytest.mark.filterwarnings("ignore::momentmix.errors.FitWarning")


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    way=st.sampled_from(["model", "drop", "whole weights", "weights", "one pass"]),
    n_components=st.integers(1, 3),
)
def test_it_is_the_mean_of_log_prob(seed, way, n_components):
    rng = np.random.default_rng(seed)
    frame, families, _ = random_table(rng, 6, 400, 3)
    complete = ~frame.isna().any(axis=1).to_numpy()
    used, weights, options = np.ones(len(frame), dtype=bool), None, {}
    missing = "model" if frame.isna().any(axis=None) else "error"
    if way == "drop":
        assume(complete.sum() > 10 and frame[complete].nunique().max() > 1)
        assume(not any(frame.loc[complete, name].nunique() < 2 for name in families))
        missing, used = "drop", complete
    elif way == "whole weights":
        weights = rng.integers(0, 4, len(frame)).astype(float)
    elif way == "weights":
        weights = rng.uniform(0.1, 3.0, len(frame))
    elif way == "one pass":
        options = {"max_passes": 1}
    result = mm.fit(
        frame, n_components, families=families, missing=missing, sample_weight=weights,
        random_state=0, **options,
    )  # fmt: skip
    values = result.mixture.log_prob(frame[used])
    expected = np.average(values, weights=None if weights is None else weights[used])
    np.testing.assert_allclose(result.log_likelihood, expected, rtol=1e-9, atol=1e-9)


def test_constant_columns_and_gaps_count_as_in_log_prob():
    rng = np.random.default_rng(1)
    n, z = 300, rng.integers(2, size=300)
    frame = pd.DataFrame(
        {
            "a": 4.0 * z + rng.normal(size=n),
            "b": rng.normal(size=n) - 3.0 * z,
            "flag": np.where(rng.random(n) < 0.6, 1.0, np.nan),  # constant where seen
            "always": 7.0,
            "answer": np.where(rng.random(n) < 0.3, "yes", None),
        }
    )
    families = {"answer": ["no", "yes"]}
    result = mm.fit(frame, 2, missing="model", families=families, random_state=0)
    mean = result.mixture.log_prob(frame).mean()
    assert result.log_likelihood == pytest.approx(mean, abs=1e-9)
    assert result.log_likelihoods[-1] == pytest.approx(mean, abs=1e-4)  # of the last pass


def test_joined_columns_with_gaps_and_far_rows():
    rng = np.random.default_rng(2)
    z = rng.integers(2, size=400)
    rows = rng.normal(size=(400, 3)) @ [[1, 0.8, 0], [0, 1, 0], [0, 0, 1.0]] + 5.0 * z[:, None]
    rows[rng.random(400) < 0.2, 1] = np.nan
    result = mm.fit(rows, 2, blocks=[[0, 1]], missing="model", random_state=0)
    assert result.log_likelihood == pytest.approx(result.mixture.log_prob(rows).mean(), abs=1e-9)
    full = np.nan_to_num(rows)
    full[17] = 1e6  # the background takes it
    result = mm.fit(full, 2, random_state=0)
    assert result.mixture.predict(full)[17] == -1
    assert result.log_likelihood == pytest.approx(result.mixture.log_prob(full).mean(), abs=1e-9)
