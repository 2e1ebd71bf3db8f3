"""`mm.fit` with families and missing cells: answers, and errors with the cure."""

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix.mixture.matching import clustering_accuracy

KINDS = {"visits": "poisson", "yes": "bernoulli", "plan": "categorical"}


def table(n=3000, seed=0):
    """Two groups: three numbers, a count, a yes/no answer and a category, and the group."""
    rng = np.random.default_rng(seed)
    group = (rng.random(n) < 0.4).astype(int)
    y = rng.normal(2.0 * group[:, None], 1.0, (n, 3))
    y[:, 1] += 0.8 * (y[:, 0] - 2.0 * group)
    frame = pd.DataFrame(y, columns=["a", "b", "c"])
    frame["visits"] = rng.poisson(np.array([1.0, 6.0])[group])
    frame["yes"] = (rng.random(n) < np.array([0.2, 0.8])[group]).astype(int)
    chance = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])[group]
    codes = (rng.random(n)[:, None] > np.cumsum(chance, axis=1)[:, :-1]).sum(axis=1)
    frame["plan"] = np.array(["basic", "gold", "silver"])[codes]
    return frame, group


@pytest.fixture(scope="module")
def drawn():
    return table()


def test_families_blocks_and_missing_cells_together(drawn):
    frame, group = drawn
    frame = frame.copy()
    frame.loc[np.random.default_rng(1).random(len(frame)) < 0.2, "c"] = np.nan
    asked = {"families": KINDS, "missing": "model", "blocks": [["a", "b"]], "random_state": 0}
    result = mm.fit(frame, 2, **asked)
    mixture = result.mixture
    assert clustering_accuracy(group, mixture.predict(frame)) > 0.95
    joined = next(block for block in mixture.blocks if len(block.columns) > 1)
    assert joined.columns == (0, 1)
    assert joined.correlations[:, 0, 1] == pytest.approx(0.62, abs=0.06)  # 0.8 / √1.64
    low, high = (end[:, 3] for end in result.intervals().means)
    rates = np.array([1.0, 6.0])
    order = np.argsort(mixture.means[:, 3])
    assert (low[order] < rates).all()
    assert (rates < high[order]).all()
    assert mixture.log_prob(frame).mean() == pytest.approx(result.log_likelihood, abs=1e-6)
    assert result.certificate.verdict == "passed"


def test_a_summary_has_the_families_that_it_was_made_with(drawn):
    frame, group = drawn
    numbers = frame[["a", "c", "visits", "yes"]]
    kinds = {"visits": "poisson", "yes": "bernoulli"}
    summary = mm.summarize(numbers, 4, families=kinds)
    mixture = mm.fit(summary, 2, random_state=0).mixture
    assert clustering_accuracy(group, mixture.predict(numbers)) > 0.93
    with pytest.raises(mm.InputError, match="holds the families of its columns"):
        mm.fit(summary, 2, families={"a": "poisson"})


def test_rows_with_missing_cells_may_be_dropped(drawn):
    frame = drawn[0].copy()
    frame.loc[:99, "a"] = np.nan
    result = mm.fit(frame, 2, families=KINDS, missing="drop", random_state=0)
    assert result.n_rows == len(frame) - 100
    assert any("100 rows with missing cells left out" in note for note in result.notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"families": {"a": "poisson", "plan": "categorical"}}, "counts must be integers"),
        ({"families": KINDS, "missing": "ignore"}, "missing must be"),
        ({"families": KINDS, "blocks": [["a", "plan"]]}, "must be gaussian"),
        ({"families": KINDS, "blocks": [["a", "b"], ["b", "c"]]}, "overlap"),
    ],
)
def test_wrong_calls_are_refused_with_the_cure(drawn, options, message):
    with pytest.raises(mm.InputError, match=message):
        mm.fit(drawn[0], 2, **options)


def test_findings_of_families():
    rng = np.random.default_rng(3)
    n = 6000
    group = (rng.random(n) < 0.5).astype(int)
    frame = pd.DataFrame(rng.normal(3.0 * group[:, None], 1.0, (n, 3)), columns=list("abc"))
    spread = rng.gamma(2.0, 0.5, n)
    frame["calls"] = rng.poisson(np.array([2.0, 8.0])[group] * spread)
    frame["coin"] = (rng.random(n) < 0.5).astype(int)
    frame.loc[rng.random(n) < np.array([0.05, 0.4])[group], "a"] = np.nan
    kinds = {"calls": "poisson", "coin": "bernoulli"}
    found = mm.fit(frame, 2, families=kinds, missing="model", random_state=0).certificate
    names = {finding.kind for finding in found.findings}
    assert "dispersion" in names
    assert found.verdict == "useful"  # the test rejects Poisson counts; the groups are found again
    assert any("moments do not fit" in reason for reason in found.reasons)
    # A control: counts that are Poisson, cells that are missing at random, a coin that tells.
    frame["calls"] = rng.poisson(np.array([2.0, 8.0])[group])
    frame["coin"] = (rng.random(n) < np.array([0.2, 0.8])[group]).astype(int)
    frame["a"] = rng.normal(3.0 * group, 1.0)
    frame.loc[rng.random(n) < 0.2, "a"] = np.nan
    found = mm.fit(frame, 2, families=kinds, missing="model", random_state=0).certificate
    assert "dispersion" not in {finding.kind for finding in found.findings}
    assert found.verdict == "passed"


def test_a_level_that_nobody_has(drawn):
    frame, _ = drawn
    levels = {**KINDS, "plan": ["basic", "gold", "silver", "platinum"]}
    result = mm.fit(frame, 2, families=levels, random_state=0)
    plan = next(block for block in result.mixture.blocks if block.family == "categorical")
    assert plan.by_level["platinum"] == pytest.approx(0.0, abs=1e-6)
    assert np.isfinite(result.mixture.log_prob(frame)).all()


def test_rows_that_agree_where_a_cell_is_missing_are_no_copies():
    rng = np.random.default_rng(5)
    n = 3000
    group = (rng.random(n) < 0.4).astype(int)
    frame = pd.DataFrame({"a": rng.normal(4.0 * group, 1.0)})
    frame["calls"] = rng.poisson(np.array([1.0, 6.0])[group])
    frame["yes"] = (rng.random(n) < np.array([0.2, 0.8])[group]).astype(int)
    frame.loc[rng.random(n) < 0.3, "a"] = np.nan
    kinds = {"calls": "poisson", "yes": "bernoulli"}
    asked = {"families": kinds, "missing": "model", "random_state": 0}
    found = mm.fit(frame, 2, **asked).certificate.findings
    assert "duplicate-rows" not in {finding.kind for finding in found}
    # A control: rows that are there twice.
    twice = pd.concat([frame, frame.iloc[:600]], ignore_index=True)
    found = mm.fit(twice, 2, **asked).certificate.findings
    assert "duplicate-rows" in {finding.kind for finding in found}


def test_a_component_that_never_sees_a_column():
    rng = np.random.default_rng(7)
    n = 4000
    group = (rng.random(n) < 0.4).astype(int)
    frame = pd.DataFrame(rng.normal(4.0 * group[:, None], 1.0, (n, 4)), columns=list("abcd"))
    frame["plan"] = np.where(rng.random(n) < 0.5, "basic", "gold")
    frame.loc[group == 1, ["d", "plan"]] = None
    kinds = {"plan": "bernoulli"}
    result = mm.fit(frame, 2, families=kinds, missing="model", random_state=0)
    means = result.mixture.means  # the heaviest component first
    assert np.isnan(means[1, 3:]).all()
    assert np.isfinite(means[0]).all()
    named = [f.columns for f in result.certificate.findings if f.kind == "never-seen"]
    assert named == [("d", "plan")]
    assert clustering_accuracy(group, result.mixture.predict(frame)) > 0.99
    assert np.isfinite(result.mixture.log_prob(frame)).all()
    # A control: one cell that is seen.
    frame.loc[np.flatnonzero(group)[:3], ["d"]] = 4.0
    frame.loc[np.flatnonzero(group)[:3], ["plan"]] = "gold"
    again = mm.fit(frame, 2, families=kinds, missing="model", random_state=0)
    assert "never-seen" not in {f.kind for f in again.certificate.findings}
