"""Sections of the report on groups of rows and on what changed."""

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix.findings.finding import WARNING, found, sentences

LAW = mm.DiagonalMixture(
    [0.5, 0.5], [[0.0] * 4, [4.0] * 4], np.ones((2, 4)), ["flow", "heat", "load", "noise"]
)


def week(number, share, n=600):
    law = mm.DiagonalMixture([1 - share, share], LAW.means, LAW.variances, LAW.feature_names)
    rows, _ = law.sample(n, random_state=number)
    day = pd.Timestamp("2026-01-05") + pd.Timedelta(7 * number, "D")
    return pd.DataFrame(rows, columns=list(LAW.feature_names)).assign(day=day.date())


@pytest.fixture(scope="module")
def frame():
    return pd.concat([week(i, 0.3 + 0.04 * i) for i in range(8)])


@pytest.fixture(scope="module")
def made(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("changes")
    cube = mm.summarize_by(frame, by="week(day)")
    result = mm.fit(cube.total(), 2, random_state=0)
    first, last = (cube[key] for key in (min(cube), max(cube)))
    tracking, comparison = mm.track(result, cube), mm.compare(first, last)
    path = folder / "report.html"
    mm.report(result, path, last, tracking=tracking, comparison=comparison, date="2026-03-01")
    cube.save(folder / "cube.parquet")
    first.save(folder / "first.mms")
    last.save(folder / "last.mms")
    result.save(folder / "model.json")
    return folder, path.read_text(encoding="utf-8"), tracking, comparison


def test_the_sections_say_what_track_and_compare_say(made):
    _, page, tracking, comparison = made
    assert "How do the shares differ between groups of rows?" in page
    assert "What changed?" in page
    assert tracking.sentences()
    assert any("rose" in text for text in tracking.sentences())
    for text in tracking.sentences():  # components are groups on the page
        said = text.replace("of component", "of group")
        assert said.replace('"', "&quot;").replace("'", "&#x27;") in page
    for text in comparison.sentences()[:3]:
        assert f"<li>{text}</li>" in page
    assert comparison.differs()
    assert {change.column for change in comparison.named()} & {"flow", "heat"}
    assert page.count("<img") >= 6


def test_sentences_have_the_words_of_the_page():
    findings = [
        found(WARNING, "more-groups-misfit", more=4),
        found(WARNING, "group-misfit", ["flow"], moves=[("mean", "flow", "up")], group="EU"),
        found(WARNING, "share-trend", components=[1], name="hot", series="", first=0.02,
              second=0.09, effect=0.07),
    ]  # fmt: skip
    assert sentences(findings) == [
        "in 4 more groups the components do not fit",
        "in EU flow is higher than the components allow",
        "the share of component 1 (hot) rose from 2.0 to 9.0 %",
    ]
    assert sentences(findings, for_report=True) == [
        "in 4 more groups the model does not fit",
        "in EU flow is higher than the model allows",
        "the share of group 1 (hot) rose from 2.0 to 9.0 %",
    ]
