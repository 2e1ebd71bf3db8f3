"""missing="mar": the likelihood of seen cells, where gaps depend on other cells of their row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import momentmix as mm

FAMILIES = {"plan": "categorical", "smokes": "bernoulli", "visits": "poisson"}
NUMBERS = ["age", "income", "hours", "score"]


def survey(n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Two groups in columns of all families; the older, the more cells are missing."""
    rng = np.random.default_rng(seed)
    label = (rng.random(n) < 0.4).astype(int)
    table = {"age": rng.normal(np.where(label, 52.0, 38.0), 8.0)}
    table |= {name: rng.normal(2.0 * label, 1.0) for name in NUMBERS[1:]}
    table["plan"] = rng.choice(["basic", "gold", "none"], n).astype(object)
    table["plan"] = np.where(rng.random(n) < 0.6, np.where(label, "gold", "basic"), table["plan"])
    table["smokes"] = (rng.random(n) < np.where(label, 0.8, 0.2)).astype(float)
    table["visits"] = rng.poisson(np.where(label, 5.0, 2.0)).astype(float)
    odds = np.exp((table["age"] - 45.0) / 5.0)
    for name in list(table)[1:]:
        gone = rng.random(n) < odds / (1.0 + odds)
        table[name] = np.where(gone, None if name == "plan" else np.nan, table[name])
    return pd.DataFrame(table), label


def accuracy(mixture: mm.Mixture, frame: pd.DataFrame, label: np.ndarray) -> float:
    right = float((mixture.predict(frame) == label).mean())
    return max(right, 1.0 - right)


@pytest.fixture(scope="module")
def fitted():
    frame, label = survey(4000)
    return mm.fit(frame, 2, families=FAMILIES, missing="mar", random_state=0), frame, label


def test_weights_and_means_are_those_of_all_cells(fitted):
    result, frame, label = fitted
    heavy = int(result.mixture.weights.argmax())
    low, high = result.intervals(0.999).weights
    assert low[heavy] < 0.6 < high[heavy]
    means, errors = result.mixture.means[heavy], result.standard_errors.means[heavy]
    truth = {"age": 38.0, "income": 0.0, "hours": 0.0, "score": 0.0, "visits": 2.0}
    for name, value in truth.items():
        place = frame.columns.get_loc(name)
        assert abs(means[place] - value) < 4 * errors[place]
    # Where gaps are part of the model, it gives them to groups of age.
    other = mm.fit(frame, 2, families=FAMILIES, missing="model", random_state=0)
    assert abs(other.mixture.weights.max() - 0.6) > 0.02
    assert accuracy(result.mixture, frame, label) > accuracy(other.mixture, frame, label) + 0.01


def test_the_model_has_no_probabilities_of_gaps(fitted, tmp_path):
    result, frame, _ = fitted
    mixture = result.mixture
    assert all(block.seen is None for block in mixture.blocks)
    assert "seen" not in set(result.to_frame()["parameter"])
    assert np.isnan(result.standard_errors.seen).all()
    assert np.mean(mixture.log_prob(frame)) == pytest.approx(result.log_likelihood, abs=1e-12)
    assert not pd.DataFrame(mixture.sample(50, 0)[0]).isna().any(axis=None)
    result.save(tmp_path / "model.json")
    loaded = mm.Mixture.load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict_proba(frame), mixture.predict_proba(frame))
    assert "missing at random" in result.details()
    assert "missing-at-random" in {f.kind for f in result.certificate.findings}


def test_a_right_fit_passes_on_completed_rows(fitted):
    certificate = fitted[0].certificate
    assert certificate.p_value > 0.01
    assert not certificate.untested
    assert certificate.verdict == "passed"


def test_auto_finds_two_groups_and_one(fitted):
    _, frame, label = fitted
    options = {"families": FAMILIES, "missing": "mar", "random_state": 0, "max_components": 4}
    assert mm.fit(frame[:1500], **options).mixture.n_components == 2
    assert mm.fit(frame[label == 0][:1000], **options).mixture.n_components == 1


def test_joined_columns(fitted):
    frame = fitted[1]
    rng = np.random.default_rng(1)
    numbers = frame[NUMBERS[:3]].copy()
    shared = rng.normal(size=len(frame))
    numbers["income"] += shared
    numbers["hours"] += shared  # correlated within groups: 0.5
    blocks = [["income", "hours"]]
    result = mm.fit(numbers, 2, missing="mar", blocks=blocks, random_state=0)
    heavy = int(result.mixture.weights.argmax())
    covariance = result.mixture.covariances[heavy][1, 2]
    assert abs(covariance - 1.0) < 4 * result.standard_errors.covariances[heavy][1, 2]
    assert np.mean(result.mixture.log_prob(numbers)) == pytest.approx(
        result.log_likelihood, abs=1e-9
    )


@pytest.mark.parametrize("kind", ["relative", "whole"])
def test_weighted_rows(fitted, kind):
    _, frame, label = fitted
    weights = np.where(label == 1, 2.0, 1.0) * (1.0 if kind == "whole" else 0.7)
    options = {"families": FAMILIES, "missing": "mar", "random_state": 0}
    result = mm.fit(frame, 2, sample_weight=weights, **options)
    expected = weights[label == 1].sum() / weights.sum()
    assert np.abs(result.mixture.weights - expected).min() < 0.02


def test_summaries_are_refused(fitted):
    _, frame, _ = fitted
    summary = mm.summarize(frame, 3, families=FAMILIES, missing="model")
    complete = mm.summarize(frame[["age"]].assign(b=frame["age"] ** 2, c=1.0 / frame["age"]), 3)
    for wrong in (
        lambda: mm.summarize(frame, 3, families=FAMILIES, missing="mar"),
        lambda: mm.fit(summary, 2, missing="mar"),
        lambda: mm.fit(complete, 1, missing="mar"),
    ):
        with pytest.raises(mm.InputError, match="moments of seen cells are not those of all"):
            wrong()


def test_dropped_rows_are_compared_with_those_kept(fitted, tmp_path):
    frame = fitted[1][["age", "income", "hours", "plan"]].copy()
    options = {"families": {"plan": "categorical"}, "random_state": 0}
    frame.to_csv(tmp_path / "survey.csv", index=False)
    for data in (frame, mm.open_rows(tmp_path / "survey.csv", missing="drop")):
        certificate = mm.fit(data, 2, missing="drop", **options).certificate
        (finding,) = (f for f in certificate.findings if f.kind == "dropped-differ")
        assert finding.columns[0] == "age"  # on which gaps depend
        kept = frame.dropna()
        apart = frame.drop(kept.index)["age"].mean() - kept["age"].mean()
        assert f"{apart / kept['age'].std(ddof=0):+.2f} deviations" in finding.text
        assert certificate.verdict != "passed"
    rng = np.random.default_rng(2)
    by_chance = frame[["age", "income", "hours"]].fillna(0.0)
    by_chance[rng.random(by_chance.shape) < 0.2] = np.nan
    certificate = mm.fit(by_chance, 2, missing="drop", random_state=0).certificate
    assert "dropped-differ" not in {f.kind for f in certificate.findings}


def test_the_error_names_three_ways(fitted):
    _, frame, _ = fitted
    for wrong in (
        lambda: mm.fit(frame, 2, families=FAMILIES),
        lambda: mm.MomentMixture(2, families=FAMILIES).fit(frame),
        lambda: mm.summarize(frame, 3, families=FAMILIES),
        lambda: mm.MomentGaussianMixture(2).fit(frame[NUMBERS]),
    ):
        with pytest.raises(mm.InputError, match=r'missing="mar".*"model".*"drop"'):
            wrong()


def test_gaussian_estimator(fitted):
    numbers = fitted[1][NUMBERS][:2000]
    model = mm.MomentGaussianMixture(2, missing="mar", random_state=0).fit(numbers)
    result = mm.fit(numbers, 2, missing="mar", random_state=0)
    np.testing.assert_array_equal(model.means_, result.mixture.means)
    assert model.feature_names_in_.tolist() == NUMBERS
    assert model.score(numbers) == pytest.approx(model.lower_bound_, abs=1e-9)
    np.testing.assert_array_equal(model.predict(numbers), result.mixture.predict(numbers))


def test_commands_take_gaps_where_the_fit_did(fitted, tmp_path, momentmix):
    _, frame, _ = fitted
    table, model, page = (str(tmp_path / x) for x in ("rows.csv", "model.json", "page.html"))
    frame[NUMBERS][:500].to_csv(table, index=False)
    assert momentmix("fit", table, "-r", "2", "--missing", "mar", "-o", model).code == 0
    numbers = mm.Mixture.load(model)
    done = momentmix("predict", model, table)
    assert list(map(float, done.out.split()[1:])) == numbers.predict(frame[NUMBERS][:500]).tolist()
    assert momentmix("report", model, "--data", table, "-o", page).code == 0
    whole = str(tmp_path / "whole.json")
    assert momentmix("fit", table, "-r", "2", "--missing", "drop", "-o", whole).code == 0
    labels = momentmix("predict", whole, table).out.split()[1:]
    assert labels.count('""') == frame[NUMBERS][:500].isna().any(axis=1).sum()
