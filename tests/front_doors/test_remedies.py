"""Remedies of fits that did not pass: tried, offered, applied, and run by the calls they print."""

import re

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
def test_the_right_remedy_comes_first_and_its_call_runs(case):
    frame, options, change = case()
    result = mm.fit(frame, random_state=0, remedies="try", **options)
    assert not result.certificate.passed
    first = result.remedies[0]
    wanted = {**options, "random_state": 0, **change}
    if case is correlated:
        assert first.options.pop("blocks") in ("auto", wanted.pop("blocks"))
    assert first.options == wanted
    assert first.gain > 2 * first.error or first.before < 0.75 <= first.reproducibility
    assert str(first) in str(result)
    assert first.python in str(result)
    calls = [remedy.python for remedy in result.remedies]
    assert len(set(calls)) == len(calls)
    again = eval(first.python, {"mm": mm, "data": frame})
    direct = mm.fit(frame, **first.options)
    np.testing.assert_array_equal(again.mixture.weights, direct.mixture.weights)


def test_a_sound_fit_has_no_remedies():
    result = mm.fit(table()[0], 3, random_state=0, remedies="try")
    assert result.certificate.passed
    assert result.remedies == []
    assert "What to do" not in str(result)
    assert mm.fit(table()[0], 3, random_state=0).remedies is None


@pytest.mark.parametrize("place", [0, 1, 2, 3, 4])  # 0 and 4 are left out, the others fitted
def test_a_single_cell_without_logarithm_is_no_error(place):
    frame, options, _ = logarithm()
    frame = frame[:500].copy()
    frame.loc[place, "a"] = -0.5
    result = mm.fit(frame, random_state=0, remedies="try", **options)
    assert not result.certificate.passed
    assert all("a" not in r.options.get("families", {}) for r in result.remedies)


def test_summaries_and_few_rows_have_none():
    frame, options, _ = logarithm()
    summary = mm.summarize(frame)
    for data in (summary, frame[:50]):
        result = mm.fit(data, random_state=0, remedies="try", **options)
        assert result.remedies is None
        assert str(result).count("emedies") == 1  # the note; no way to try them
    with pytest.raises(InputError, match=re.escape('must be "try" or None; got ') + "'x'"):
        mm.fit(frame, 3, remedies="x")


def test_arrays_and_weights():
    frame, _, _ = logarithm()
    weights = np.random.default_rng(0).uniform(0.5, 1.5, N)
    result = mm.fit(frame.to_numpy(), 3, sample_weight=weights, random_state=0, remedies="try")
    first = result.remedies[0]
    assert first.options["families"] == {0: "log"}
    assert "sample_weight=sample_weight" in first.python


def test_reports_show_remedies_that_were_tried():
    frame, options, _ = logarithm()
    result = mm.fit(frame, random_state=0, remedies="try", **options)
    assert "log(a)" in mm.report(result).html
    assert "log(a)" in mm.report(result, None, mm.summarize(frame)).html


def test_rows_that_were_opened_have_no_name():
    frame, _, _ = table()
    result = mm.fit(mm.open_rows(frame), 2, random_state=0, remedies="try")
    assert result.remedies[0].python == "mm.fit(data, n_components=3, random_state=0)"


def test_no_remedies_are_promised_for_few_rows():
    rows = np.random.default_rng(0).normal(size=(32, 8)).cumsum(axis=1)
    result = mm.fit(rows, 1, blocks="full", random_state=0)
    assert not result.certificate.passed
    assert result.remedies_in_words == []
    # Fewer rows than parameters: no errors rather than errors of many deviations.
    assert np.isnan(result.standard_errors.means).all()
    assert "unknown-weights" not in [f.kind for f in result.certificate.findings]


def test_a_report_counts_rows_that_are_in_no_group():
    rows = np.random.default_rng(0).normal(size=(500, 3))
    rows[[5, 90, 400]] = [[90.0, 0, 0], [0, -80.0, 0], [0, 0, 300.0]]
    result = mm.fit(rows, 1, random_state=0)
    assert result.mixture.background is not None
    assert "1 group in 500 rows" in mm.report(result, None, rows).html
