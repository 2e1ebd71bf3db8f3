"""`FitResult.suggest`: changes that help on held-out rows, whose calls run as they are printed."""

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix.errors import InputError

LAW = mm.Mixture.diagonal(
    [0.5, 0.3, 0.2],
    [[0.0, 3.0, -3.0, 1.0, 0.0], [2.5, -1.0, 0.0, -2.5, 3.0], [-3.0, 0.0, 2.0, 2.0, -2.0]],
    np.full((3, 5), 0.8),
    list("abcde"),
)
N = 2400


def table(seed=0):
    rows, labels = LAW.sample(N, random_state=seed)
    return pd.DataFrame(rows, columns=list("abcde")), labels, np.random.default_rng(seed)


def logarithm():
    frame, _, _ = table()
    frame["a"] = np.exp(0.5 * frame["a"])
    return frame, {"n_components": 3}, {"families": {"a": "log"}}


def correlated():
    frame, labels, _ = table()
    frame["b"] += 1.2 * (frame["a"] - LAW.means[labels, 0])
    return frame, {"n_components": 3, "families": {"c": "gaussian"}}, {"blocks": [["a", "b"]]}


def one_too_many():
    return table()[0], {"n_components": 4}, {"n_components": 3}


def one_too_few():
    return table()[0], {"n_components": 2}, {"n_components": 3}


def far_rows():
    frame, _, rng = table()
    places = rng.choice(N, 30, replace=False)
    frame.loc[places] = rng.normal(0, 50, (30, 5))
    return frame, {"n_components": 3, "background": False}, {"background": "auto"}


def logarithm_of_few_rows():
    frame, options, change = logarithm()
    return frame[:400], options, change


def gaps_dropped():
    frame, _, rng = table()
    p = 0.9 / (1 + np.exp(-2 * frame["a"]))
    for name in "bcd":
        frame.loc[rng.random(N) < p, name] = np.nan
    return frame, {"n_components": 3, "missing": "drop"}, {"missing": "mar"}


CASES = [
    logarithm, correlated, one_too_many, one_too_few, far_rows,
    logarithm_of_few_rows, gaps_dropped,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_right_change_comes_first_and_its_call_runs(case):
    frame, options, change = case()
    result = mm.fit(frame, random_state=0, **options)
    suggestions = result.suggest(frame)
    first = suggestions[0]
    wanted = {**options, "random_state": 0, **change}
    if case is correlated:
        wanted["blocks"] = "auto"
    assert first.options == wanted
    assert first.gain > 2 * first.error or first.before < 0.75 <= first.reproducibility
    calls = [suggestion.python for suggestion in suggestions]
    assert len(set(calls)) == len(calls)
    assert first.python in str(first)
    again = eval(first.python, {"mm": mm, "data": frame})
    direct = mm.fit(frame, **first.options)
    np.testing.assert_array_equal(again.mixture.weights, direct.mixture.weights)


def test_nothing_is_suggested_for_a_fit_that_passed():
    frame = table()[0]
    result = mm.fit(frame, 3, random_state=0)
    assert result.certificate.verdict == "passed"
    assert result.suggest(frame) == []


@pytest.mark.parametrize("row", [0, 1, 2, 3, 4])  # some are held out, the others fitted
def test_a_single_cell_without_logarithm_is_no_error(row):
    frame, options, _ = logarithm()
    frame = frame[:500].copy()
    frame.loc[row, "a"] = -0.5
    result = mm.fit(frame, random_state=0, **options)
    assert result.certificate.verdict != "passed"
    assert all("a" not in s.options.get("families", {}) for s in result.suggest(frame))


def test_a_summary_and_few_rows_are_refused():
    frame, options, _ = logarithm()
    result = mm.fit(frame, random_state=0, **options)
    with pytest.raises(InputError, match="rows on this machine"):
        result.suggest(mm.summarize(frame))
    with pytest.raises(InputError, match="60 rows at least, got 50"):
        result.suggest(frame[:50])


def test_arrays_and_weights():
    frame, _, _ = logarithm()
    weights = np.random.default_rng(0).integers(1, 3, N)
    result = mm.fit(frame.to_numpy(), 3, sample_weight=weights, random_state=0)
    first = result.suggest(frame.to_numpy(), sample_weight=weights)[0]
    assert first.options == {"n_components": 3, "random_state": 0, "families": {0: "log"}}


def test_an_estimator_knows_its_options():
    frame, _, _ = table()
    model = mm.MomentMixture(2, random_state=0).fit(frame)
    assert model.result_.suggest(frame)[0].options["n_components"] == 3


def test_rows_that_were_opened_from_a_file(tmp_path):
    frame, _, _ = table()
    frame.assign(name="x").to_csv(tmp_path / "t.csv", index=False)
    rows = mm.open_rows(tmp_path / "t.csv", columns=list("abcde"))
    result = mm.fit(rows, 2, random_state=0)
    first = result.suggest(tmp_path / "t.csv")[0]
    assert first.options["columns"] == list("abcde")
    assert mm.fit(tmp_path / "t.csv", **first.options).mixture.n_components == 3
