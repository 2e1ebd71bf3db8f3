"""The verdicts where users meet them: exit codes, pages, pictures, warnings."""

import html
import json
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

import momentmix as mm
from momentmix import displays
from momentmix.errors import InputError
from momentmix.fitting.inference.description import Description
from momentmix.fitting.outcome import Trial

TRIED = (
    Trial(1, 0.0, -9.0, 9000.5, False),
    Trial(2, 0.3, -8.0, 8000.25, True),
    Trial(3, float("nan"), -8.0, 8100.0, False),
)


def clusters(n_components, n_features, n_rows=3000):
    """Rows of components 20 deviations apart."""
    means = np.tile(20.0 * np.arange(n_components)[:, None], n_features)
    weights = np.full(n_components, 1 / n_components)
    return mm.Mixture.diagonal(weights, means, np.ones_like(means)).sample(n_rows, random_state=0)[
        0
    ]


@pytest.fixture(scope="module")
def results():
    """A fit of each verdict.

    One column has six moments up to order 6, fewer than the parameters of three components.
    """
    rows = clusters(2, 4)
    return {
        "passed": mm.fit(rows, 2, random_state=0),
        "not passed": mm.fit(rows, 1, random_state=0),
        "untested": changed(mm.fit(clusters(3, 1), 3, random_state=0), description=Description()),
    }


@pytest.fixture(scope="module")
def useful(results):
    """A fit whose groups serve, though the test rejects it."""
    c = results["passed"].certificate
    return changed(
        results["passed"],
        test=replace(c.test, p_value=1e-9, effect_size=0.1),
        findings=[],
        reproducibility=np.array([0.97, 0.914]),
        separation=np.array([[np.nan, 0.88], [0.88, np.nan]]),
        description=Description("rough", 0.08, {"x<": 0.08}),
    )


def changed(result, *, tried=(), **certificate):
    """The result with another certificate, or with trials."""
    return replace(result, certificate=replace(result.certificate, **certificate), tried=tried)


# -- the command ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "r", "word"),
    [
        ((2, 4), 2, "passed"),
        ((2, 4), 1, "not passed"),
        ((3, 1), 3, "useful"),
    ],
)
def test_commands_show_the_verdict(momentmix, tmp_path, monkeypatch, size, r, word):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(clusters(*size)).rename(columns="x{}".format).to_csv("rows.csv", index=False)
    done = momentmix("fit", "rows.csv", "-r", r, "-o", "m.json")
    assert done.code == 0
    shown = word.upper() if word == "not passed" else word
    assert done.out.splitlines()[0].endswith(
        f"columns: {shown}" if size[1] > 1 else f"column: {shown}"
    )
    assert done.err == ""
    done = momentmix("fit", "rows.csv", "-r", r, "-o", "strict.json", "--strict", "--json")
    assert done.code == (4 if word == "not passed" else 0)
    found = json.loads(done.out)["certificate"]
    assert (found["verdict"], found["passed"]) == (word, word == "passed")
    assert bool(found["reasons"]) == (word == "not passed")
    assert bool(found["untested"]) == (word == "useful")
    assert momentmix("report", "m.json", "-o", "r.html").code == 0
    assert f"Certificate: {word}." in (tmp_path / "r.html").read_text()


def test_a_model_without_a_record_or_with_a_damaged_one(momentmix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = clusters(2, 2, 50)
    np.save("rows.npy", rows)
    result = mm.fit(rows, 1, random_state=0)
    result.mixture.save("bare.json")
    assert momentmix("report", "bare.json", "-o", "r.html").code == 0
    result.save("m.json")
    document = json.loads((tmp_path / "m.json").read_text())
    document["fit"]["version"] = 99
    del document["sha256"]
    (tmp_path / "m.json").write_text(json.dumps(document))
    assert momentmix("predict", "m.json", "rows.npy").code == 0
    done = momentmix("report", "m.json", "-o", "s.html")
    assert "m.json: the record of the fit is damaged: fit has version 99" in done.err


# -- the page ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "banner", "kind"),
    [
        ("passed", "✓ Passed", "good"),
        ("not passed", "✗ Not passed", "bad"),
        ("untested", "? Not tested", "plain"),
    ],
)
def test_the_page_shows_the_verdict(results, tmp_path, word, banner, kind):
    mm.report(results[word], tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert f'<p class="verdict {kind}"><strong>{banner}</strong>' in text
    for reason in (*results[word].certificate.reasons, *results[word].certificate.untested):
        reason = reason.replace("component", "group")
        assert html.escape(reason[reason.rfind(")") + 2 :]) in text
    assert ("Nothing needs to be changed" in text) == (word == "passed")
    assert ('<p class="first"><a href="#next">First:</a> <strong>' in text) == (kind == "bad")
    assert "what was tried" not in text
    assert "o test: there are no more" in text or word != "untested"


def test_the_page_of_a_useful_fit(useful, tmp_path):
    mm.report(useful, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert '<p class="verdict good"><strong>✓ Useful</strong> You can use these groups' in text
    assert "Needed" not in text
    first_screen = text[: text.index("<main")]
    for answer in useful.certificate.answers:
        assert answer.question in first_screen
        assert answer.short in first_screen
    assert text.count("<li>found again in other rows: 97 %</li>") == 1
    assert text.count("<li>found again in other rows: 91 %</li>") == 1
    assert '<li>nearest to <span class="chip c1">1</span>' in text


def test_the_page_has_a_table_of_what_was_tried(results, tmp_path):
    tried = (*TRIED[:1], replace(TRIED[1], reproducibility=(0.9, 0.8)), TRIED[2])
    changed(results["passed"], tried=tried).save(tmp_path / "m.json")
    mm.report(tmp_path / "m.json", tmp_path / "r.html", date="2025-01-31")
    text = (tmp_path / "r.html").read_text()
    assert '<details id="tried"><summary>Number of components: what was tried</summary>' in text
    assert "<td>8000.2</td><td>80 %</td>" in text
    assert "<td></td><td>-8</td><td>8100.0</td>" in text


# -- pictures ---------------------------------------------------------------------------------


def test_picture_of_what_was_tried(results):
    result = changed(results["passed"], tried=TRIED)
    display = displays.TrialsDisplay.from_estimator(result)
    assert display.figure_ is display.ax_.figure
    left, right = display.figure_.axes
    assert left.lines[-1].get_ydata().tolist() == [9000.5, 8000.25, 8100.0]
    assert left.lines[0].get_xdata()[0] == 2  # the chosen one
    assert right.lines[-1].get_ydata()[:2].tolist() == [1e-16, 0.3]
    labels = [text.get_text() for text in left.get_legend().get_texts()]
    assert labels == ["chosen", "BIC, lower is better", "p-value (dotted: 0.01)"]
    axes = pyplot.subplots()[1]
    estimator = SimpleNamespace(result_=result)
    assert displays.TrialsDisplay.from_estimator(estimator, ax=axes).ax_ is axes
    from_summary = [replace(t, bic=float("nan"), log_likelihood=float("nan")) for t in TRIED]
    assert len(displays.TrialsDisplay(from_summary).plot().figure_.axes) == 1
    for nothing in (results["passed"], None):
        with pytest.raises(InputError, match=r'only a fit with n_components="auto" tries several'):
            displays.TrialsDisplay.from_estimator(nothing)


# -- the estimator ----------------------------------------------------------------------------


def test_the_estimator_warns_once_at_the_callers_line_where_the_certificate_does_not_pass():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = mm.MomentGaussianMixture(1).fit(clusters(2, 4))
        model.predict(clusters(2, 4))
    with pytest.warns(mm.FitWarning, match=r"pass: .*print certificate_") as seen:
        reasons = model.certificate_.reasons
    assert [w.filename for w in seen] == [__file__]
    assert any(reason.startswith("the moments do not fit") for reason in reasons)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.result_.certificate is model.certificate_
        assert model.standard_errors_.means.shape == (1, 4)
