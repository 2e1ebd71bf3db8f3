"""Remedies of fits that did not pass: tried, offered, applied, and run by the calls they print."""

import html
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix.errors import InputError

LAW = mm.DiagonalMixture(
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


def overdispersed():
    frame, labels, rng = table()
    frame["n"] = rng.negative_binomial(1.5, 1.5 / (1.5 + np.array([2.0, 6.0, 14.0])[labels]))
    options = {"n_components": 3, "families": {"n": "poisson"}}
    return frame, options, {"families": {"n": "negative_binomial"}}


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


def gaps(missing):
    frame, _, rng = table()
    p = 0.9 / (1 + np.exp(-2 * frame["a"]))
    for name in "bcd":
        frame.loc[rng.random(N) < p, name] = np.nan
    return frame, {"n_components": 3, "missing": missing}, {"missing": "mar"}


def gaps_modeled():
    return gaps("model")


def gaps_dropped():
    return gaps("drop")


def constrained():
    frame, labels, _ = table()
    frame["a"] *= np.where(labels == 0, 3.0, 1.0)
    return frame, {"n_components": 3, "constraint": "tied"}, {}


CASES = [
    logarithm, overdispersed, correlated, one_too_many, one_too_few, far_rows,
    logarithm_of_few_rows, gaps_modeled, gaps_dropped, constrained,
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
    if case is constrained:
        del wanted["constraint"]
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


def test_nothing_is_offered_that_a_fit_refuses():
    frame, _, _ = table()
    frame["a"] = np.exp(0.5 * frame["a"])
    options = {"n_components": 3, "constraint": "tied", "random_state": 0}
    result = mm.fit(frame, remedies="try", **options)
    assert any("families" in f.remedy for f in result.certificate.findings)
    for remedy in result.remedies:  # tied covariances have no families
        assert "families" not in remedy.options
        mm.fit(frame, **remedy.options)


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
    with pytest.raises(InputError, match=re.escape('must be "try", "apply" or None; got ') + "'x'"):
        mm.fit(frame, 3, remedies="x")


def test_arrays_and_weights():
    frame, _, _ = logarithm()
    weights = np.random.default_rng(0).uniform(0.5, 1.5, N)
    result = mm.fit(frame.to_numpy(), 3, sample_weight=weights, random_state=0, remedies="try")
    first = result.remedies[0]
    assert first.options["families"] == {0: "log"}
    assert "sample_weight=sample_weight" in first.python
    assert first.shell == ""


def test_remedies_are_applied_one_after_the_other():
    frame, labels, _ = table()
    frame["c"] += 1.2 * (frame["b"] - LAW.means[labels, 1])
    frame["a"] = np.exp(0.5 * frame["a"])
    result = mm.fit(frame, 3, random_state=0, remedies="apply")
    notes = [note for note in result.notes if note.startswith("remedy applied: ")]
    assert len(notes) == 2
    assert any("log(a)" in note for note in notes)
    assert result.mixture.columns[0].transform == "log"
    assert result.joined[0].names == ("b", "c")
    assert result.certificate.verdict in ("passed", "useful")
    assert result.notes[-1].startswith("the call is mm.fit(data, n_components=3, ")
    assert "--families a=log" in result.notes[-1].shell


def test_the_command_tries_applies_and_its_line_runs(momentmix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame, _, _ = logarithm()
    frame.rename(columns={"e": "my column"}).to_csv("the rows.csv", index=False)
    start = ("fit", "the rows.csv", "-r", "3", "-o", "m.json", "--exclude", "d", "--force")
    done = momentmix(*start, "--remedies", "try", "--json")
    first = json.loads(done.out)["remedies"][0]
    assert first["change"] == "log(a)"
    assert momentmix(*start, "--remedies", "try").out.count(first["shell"]) == 1
    program, *arguments = shlex.split(first["shell"])
    assert program == "momentmix"
    assert momentmix(*arguments, "--force").code == 0
    assert mm.Mixture.load("model.json").columns[0].transform == "log"
    done = momentmix(*start, "--remedies", "apply")
    assert "remedy applied: with log(a)" in done.out
    assert mm.Mixture.load("m.json").columns[0].transform == "log"


def test_reports_try_remedies(momentmix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame, options, _ = logarithm()
    frame.to_csv("rows.csv", index=False)
    momentmix("fit", "rows.csv", "-r", "3", "-o", "m.json", "-q")
    done = momentmix("report", "m.json", "-o", "r.html", "--data", "rows.csv")
    assert done.code == 0, done.err
    page = (tmp_path / "r.html").read_text()
    assert "log(a)" in page
    assert "n_components=3, random_state=0, families={&#x27;a&#x27;: &#x27;log&#x27;}" in page
    result = mm.fit(frame, random_state=0, remedies="try", **options)
    mm.report(result, "s.html")
    assert "log(a)" in (tmp_path / "s.html").read_text()
    mm.report(result, "t.html", mm.summarize(frame))
    assert "log(a)" in (tmp_path / "t.html").read_text()


def test_what_a_report_offers_runs_as_it_is_printed(momentmix, tmp_path, monkeypatch):
    # Columns that were left out and gaps that were dropped are options of the offered call, too.
    monkeypatch.chdir(tmp_path)
    frame, labels, _ = table()
    frame["office"] = np.array(["north", "south", "west"])[labels]
    frame.loc[:30, "b"] = np.nan
    frame.to_csv("rows.csv", index=False)
    fitted = ["rows.csv", "--exclude", "office", "--missing", "drop", "-r", "2", "-o", "m.json"]
    momentmix("fit", *fitted)
    momentmix("report", "m.json", "--data", "rows.csv", "-o", "r.html")
    page = re.sub(r"<[^>]*>", "\n", Path("r.html").read_text(encoding="utf-8"))
    lines = [html.unescape(x) for x in page.split("\n") if "Fit again" not in x]
    python = next(x for x in lines if x.startswith("mm.fit("))
    shell = next(x for x in lines if x.startswith("momentmix fit "))
    assert python.startswith("mm.fit('rows.csv', n_components=3")
    assert shell.startswith("momentmix fit rows.csv --n-components 3")
    result = eval(python, {"mm": mm})
    assert result.mixture.feature_names == tuple("abcde")
    momentmix(*shlex.split(shell)[1:])
    assert mm.Mixture.load("model.json").feature_names == tuple("abcde")
    # The same of a result in Python, whatever the rows are given as.
    direct = mm.fit("rows.csv", 2, exclude=["office"], missing="drop", random_state=0)
    for rows in ("rows.csv", frame, mm.open_rows("rows.csv", exclude=["office"], missing="drop")):
        (call,) = set(
            re.findall(r"mm\.fit\([^<]*", html.unescape(mm.report(direct, None, rows).html))
        )
        assert {"n_components=3", "exclude=['office']", "missing='drop')"} <= set(call.split(", "))


def test_rows_that_were_opened_have_no_command():
    frame, _, _ = table()
    result = mm.fit(mm.open_rows(frame), 2, random_state=0, remedies="try")
    assert result.remedies[0].python == "mm.fit(data, n_components=3, random_state=0)"
    assert result.remedies[0].shell == ""


def test_no_remedies_are_promised_for_few_rows():
    rows = np.random.default_rng(0).normal(size=(32, 8)).cumsum(axis=1)
    result = mm.fit(rows, 1, blocks="full", random_state=0)
    assert not result.certificate.passed
    assert result.remedies_in_words == []
    assert "Give this report the rows" not in mm.report(result, None, rows).html
    # Fewer rows than parameters: no errors rather than errors of many deviations.
    assert np.isnan(result.standard_errors.means).all()
    assert "unknown-weights" not in [f.kind for f in result.certificate.findings]


def test_a_report_counts_rows_that_are_in_no_group():
    rows = np.random.default_rng(0).normal(size=(500, 3))
    rows[[5, 90, 400]] = [[90.0, 0, 0], [0, -80.0, 0], [0, 0, 300.0]]
    result = mm.fit(rows, 1, random_state=0)
    assert result.mixture.background is not None
    assert "1 group in 500 rows" in mm.report(result, None, rows).html
