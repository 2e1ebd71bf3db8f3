"""A result, its record, and its parameters as a frame."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fitting_helpers import random_mixture
from scipy import stats

import momentmix as mm
from momentmix.errors import InputError
from momentmix.fitting.record import load_fit


@pytest.fixture(scope="module")
def result():
    rows, _ = random_mixture(2, 4, seed=0, spread=3.0).sample(800, random_state=0)
    return mm.fit(rows, 2, random_state=0)


def test_a_file_gives_the_result_again(tmp_path):
    rows, _ = random_mixture(2, 4, seed=0, spread=3.0).sample(800, random_state=0)
    result = mm.fit(rows, 2, random_state=np.int64(7))
    result.save(tmp_path / "m", command="by hand")
    mixture, again = load_fit(tmp_path / "m")
    np.testing.assert_array_equal(again.mixture.means, mixture.means)
    assert again.to_dict() == result.to_dict("by hand")
    assert (again.command, again.seed, type(again.seed)) == ("by hand", 7, int)
    assert (str(again), again.bic) == (str(result), result.bic)
    pd.testing.assert_frame_equal(again.to_frame(), result.to_frame())
    with pytest.raises(InputError, match="a saved fit has intervals of"):
        again.intervals(0.9)
    with pytest.raises(AttributeError):
        result.mixture = None


def test_a_summary_of_gaussian_columns_is_one_of_numbers(tmp_path):
    rows, _ = random_mixture(2, 4, seed=0, spread=3.0).sample(800, random_state=0)
    summary = mm.summarize(rows, families={0: "gaussian"})
    mm.fit(summary, 2, random_state=0).save(tmp_path / "m")
    assert load_fit(tmp_path / "m")[1].standard_errors.levels is None


# -- parameters as a frame ----------------------------------------------------------------------

ENDS = ["low", "high"]


@pytest.fixture(scope="module")
def of_families():
    blocks = [
        mm.GaussianBlock([38.0, 60.0], [60.0, 90.0], "age", seen=[0.95, 0.6]),
        mm.PoissonBlock([1.0, 6.0], names="visits"),
        mm.BernoulliBlock([0.2, 0.7], ("no", "yes"), names="smokes"),
        mm.CategoricalBlock([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], ("a", "b", "c"), names="plan"),
    ]
    rows, _ = mm.Mixture.from_blocks([0.6, 0.4], blocks).sample(3000, random_state=0)
    families = {"visits": "poisson", "smokes": "bernoulli", "plan": "categorical"}
    return mm.fit(rows, 2, families=families, missing="model", random_state=0)


def rows_of(frame, column, parameter):
    own = frame["column"].isna() if column is None else frame["column"] == column
    return frame[own & (frame["parameter"] == parameter)]


def test_a_frame_holds_errors_and_intervals_of_the_columns(result):
    frame, errors, ends = result.to_frame(), result.standard_errors, result.intervals()
    for j in range(4):
        mean, variance = rows_of(frame, j, "mean"), rows_of(frame, j, "variance")
        np.testing.assert_array_equal(mean["estimate"], result.mixture.means[:, j])
        np.testing.assert_array_equal(mean["standard_error"], errors.means[:, j])
        np.testing.assert_array_equal(variance["standard_error"], errors.variances[:, j])
        np.testing.assert_array_equal(variance[ENDS].T, [end[:, j] for end in ends.variances])
    np.testing.assert_array_equal(rows_of(frame, None, "weight")[ENDS].T, ends.weights)
    assert len(frame) == 2 * 9


def test_a_frame_of_families(of_families):
    frame, ends = of_families.to_frame(), of_families.intervals()
    errors = of_families.standard_errors
    assert frame[["estimate", "standard_error", *ENDS]].notna().all(axis=None)
    assert (frame["low"] < frame["estimate"]).all()
    assert (frame["estimate"] < frame["high"]).all()
    plan = rows_of(frame, "plan", "probability")
    assert plan["level"].tolist() == ["a", "b", "c"] * 2
    np.testing.assert_array_equal(plan["standard_error"], errors.levels["plan"].ravel())
    np.testing.assert_array_equal(plan[ENDS].T, [end.ravel() for end in ends.levels["plan"]])
    smokes = rows_of(frame, "smokes", "probability")
    assert smokes["level"].tolist() == ["yes", "yes"]
    np.testing.assert_array_equal(smokes[ENDS].T, [end[:, 2] for end in ends.means])
    seen = rows_of(frame, "age", "seen")
    np.testing.assert_array_equal(seen[ENDS].T, [end[:, 0] for end in ends.seen])
    assert not len(rows_of(frame, "visits", "seen"))


@pytest.mark.parametrize("level", [0.5, 0.9, 0.999])
def test_widths_of_intervals_are_quantiles(of_families, level):
    """In standard errors: of means plain, of rates in logarithms, of probabilities in log-odds."""
    frame, z = of_families.to_frame(level), stats.norm.isf((1 - level) / 2)
    mean = rows_of(frame, "age", "mean")
    np.testing.assert_allclose((mean["high"] - mean["low"]) / 2, z * mean["standard_error"])
    rate = rows_of(frame, "visits", "rate")
    np.testing.assert_allclose(
        np.log(rate["high"] / rate["low"]) / 2, z * rate["standard_error"] / rate["estimate"]
    )
    plan = rows_of(frame, "plan", "probability")
    p = plan["estimate"]
    odds = np.log(plan[ENDS] / (1 - plan[ENDS]))
    np.testing.assert_allclose(
        (odds["high"] - odds["low"]) / 2, z * plan["standard_error"] / (p * (1 - p))
    )


def test_covariances_of_joined_columns_have_intervals():
    covariance = np.array([[1.0, 0.6, 0.0], [0.6, 1.0, 0.0], [0.0, 0.0, 1.0]])
    truth = mm.Mixture([0.5, 0.5], [[0.0] * 3, [6.0] * 3], [covariance, np.eye(3)])
    rows, _ = truth.sample(2000, random_state=1)
    result = mm.fit(rows, 2, blocks=[[0, 1]], random_state=0)
    found = rows_of(result.to_frame(), "0, 1", "covariance")
    np.testing.assert_array_equal(found["estimate"], result.mixture.covariances[:, 0, 1])
    np.testing.assert_array_equal(found["low"], result.intervals().covariances[0][:, 0, 1])
    in_order = found.iloc[np.argsort(result.mixture.means[:, 0])]
    errors = (in_order["estimate"] - [0.6, 0.0]) / in_order["standard_error"]
    assert errors.abs().max() < 4


def test_no_intervals_and_bad_levels(result):
    without = replace(result, uncertainty=None)
    assert without.to_frame()[["standard_error", *ENDS]].isna().all(axis=None)
    with pytest.raises(InputError, match="no standard errors"):
        _ = without.standard_errors
    for level in (0, 1, 95, "0.95", True, float("nan")):
        for use in (result.to_frame, result.intervals, without.to_frame):
            with pytest.raises(InputError, match=r"level must be a number between 0 and 1.*got"):
                use(level)


def test_bic_and_labels_of_a_result(tmp_path):
    law = mm.Mixture.diagonal([0.4, 0.6], [[0.0] * 3, [4.0] * 3], np.ones((2, 3)))
    rows, labels = law.sample(1000, 0)
    wide = np.column_stack([rows, np.full(1000, 7.0)])  # a constant column has no parameters
    result = mm.fit(wide, 2, random_state=0)
    own = result.mixture.log_prob(wide).sum()
    assert result.bic == pytest.approx((1 + 2 * 2 * 3) * np.log(1000) - 2 * own, rel=1e-9)
    np.save(tmp_path / "rows.npy", wide)
    predicted = result.predict(wide)
    np.testing.assert_array_equal(predicted, result.predict(tmp_path / "rows.npy"))
    agreement = (predicted == labels).mean()
    assert max(agreement, 1 - agreement) > 0.99
    assert mm.fit(mm.summarize(rows, 3), 2, random_state=0).bic is None
