"""`MomentMixture`: tables of mixed columns behind the interface of scikit-learn."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import momentmix as mm
from momentmix.mixture.matching import clustering_accuracy

FAMILIES = {"visits": "poisson", "member": "bernoulli", "plan": "categorical"}


def customers(n=4000, seed=0, gaps=0.1):
    """Three groups of customers, and which group each is of."""
    rng = np.random.default_rng(seed)
    label = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    plans = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])[label]
    plan = (rng.random(n)[:, None] > np.cumsum(plans, axis=1)[:, :-1]).sum(axis=1)
    age = rng.normal(np.array([25.0, 45.0, 65.0])[label], 5.0)
    age[rng.random(n) < gaps] = np.nan
    frame = pd.DataFrame(
        {
            "age": age,
            "visits": rng.poisson(np.array([1.0, 4.0, 9.0])[label]),
            "member": rng.random(n) < np.array([0.2, 0.6, 0.9])[label],
            "plan": np.array(["basic", "gold", "silver"])[plan],
        }
    )
    return frame, label


@pytest.fixture(scope="module")
def fitted():
    frame, label = customers()
    return (
        mm.MomentMixture(3, families=FAMILIES, missing="model", random_state=0).fit(frame),
        frame,
        label,
    )


def test_a_frame_of_all_families(fitted):
    model, frame, label = fitted
    assert model.feature_names_in_.tolist() == list(frame)
    assert model.n_features_in_ == 4
    assert model.means_.shape == (3, 4)
    assert clustering_accuracy(label, model.predict(frame)) > 0.97
    # A control: groups drawn anew are not found.
    assert (
        clustering_accuracy(np.random.default_rng(1).permutation(label), model.predict(frame)) < 0.6
    )
    assert model.score(frame) == pytest.approx(model.lower_bound_, abs=1e-6)
    shares = model.predict_proba(frame)
    assert shares.sum(axis=1) == pytest.approx(1.0)
    plans = next(block for block in model.mixture_.blocks if block.family == "categorical")
    assert plans.by_level["basic"][0] == pytest.approx(0.8, abs=0.05)
    assert model.certificate_.verdict == "passed"


def test_draws_and_criteria(fitted):
    model, frame, _ = fitted
    rows, label = model.sample(50)
    assert set(rows) == set(frame)
    assert len(rows["plan"]) == len(label) == 50
    # Weights 2, and for each component: age 3, visits 1, member 1, plan 2.
    assert model.bic(frame) - model.aic(frame) == pytest.approx(23 * (np.log(len(frame)) - 2))


def test_parts_and_summaries_give_the_same_model():
    frame, _ = customers(6000, seed=3)
    levels = {**FAMILIES, "plan": ["basic", "gold", "silver"]}
    whole = mm.summarize(frame, 4, families=levels, missing="model")
    model = mm.MomentMixture(3, families=levels, missing="model", random_state=0)
    parts = clone(model)
    for start in range(0, 6000, 2000):
        parts.partial_fit(frame.iloc[start : start + 2000])
    at_once = clone(model).fit_summary(whole)
    assert parts.fit_summary().means_ == pytest.approx(at_once.means_, nan_ok=True)
    assert at_once.feature_names_in_.tolist() == list(frame)


def test_a_cell_that_is_missing_for_the_first_time_is_left_out():
    rng = np.random.default_rng(5)
    rows = rng.normal(4.0 * (rng.random((500, 1)) < 0.4), 1.0, (500, 4))
    gaps = rows.copy()
    gaps[:, 1] = np.nan
    model = mm.MomentMixture(2, missing="model", random_state=0).fit(rows)
    others = model.mixture_.select([0, 2, 3])
    assert model.score_samples(gaps) == pytest.approx(others.log_prob(rows[:, [0, 2, 3]]))
    model.set_params(missing="error")
    with pytest.raises(mm.InputError, match="row 0, column 1, is missing"):
        model.predict(gaps)


def test_the_first_part_says_what_columns_are():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "t": np.arange(900),  # numbers the rows, in the first part alone
            "x": rng.standard_normal(900),
            "plan": rng.choice(["a", "b", "c"], 900),
            "y": rng.standard_normal(900),
        }
    )
    frame.loc[[400, 700], "y"] = np.nan  # as another order of moments would not hold
    model = mm.MomentMixture(2, missing="model", random_state=0)
    parts = [frame.iloc[:300], frame.iloc[300:310, ::-1], frame.iloc[310:]]
    for part in parts:
        model.partial_fit(part)
    whole = mm.summarize(frame, missing="model")
    assert model.summary_.feature_names == whole.feature_names
    assert model.summary_.n_rows == 900
    assert model.summary_.mean == pytest.approx(whole.mean, rel=1e-12, abs=1e-12)
    with pytest.raises(mm.InputError, match=r"'plan'. must hold its levels, 'a', 'b', 'c'"):
        model.partial_fit(frame.iloc[:5].assign(plan="new"))
    assert model.summary_.n_rows == 900
