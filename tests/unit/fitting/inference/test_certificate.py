"""The verdicts: what each rests on, in words and in the record of a fit."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import momentmix as mm
from momentmix.findings.finding import CATALOG, Severity, found
from momentmix.fitting.inference.certificate import Certificate, Support
from momentmix.fitting.inference.description import Description
from momentmix.fitting.inference.over_identification import ConditionGroup, OverIdentification
from momentmix.fitting.inference.verdict import REASONS
from momentmix.fitting.outcome import Trial
from momentmix.fitting.record import load_fit, result_of
from momentmix.fitting.result import FitResult

NAN = float("nan")
MIXTURE = mm.Mixture.diagonal([0.5, 0.5], [[-2.0], [2.0]], [[1.0], [1.0]])
FATAL = found(Severity.FATAL, "constant-column", ["a"])
WARNING = found(Severity.WARNING, "constant-column", ["b"])


def outcome(p_value=0.4, effect=0.01, groups=()):
    return OverIdentification(100.0, 100, p_value, effect, groups=tuple(groups))


UNTESTABLE = OverIdentification(0.0, 0, NAN, NAN)


def certificate(test=None, loss=0.001, findings=(), r=2, support=None):
    return Certificate(test or outcome(), loss, list(findings), r, support, after_rows=True)


def support(supported):
    return Support(2, supported, "words on support")


@pytest.mark.parametrize(
    ("given", "verdict", "words"),
    [
        ({}, "passed", None),
        ({"findings": [WARNING]}, "passed", None),
        ({"test": outcome(1e-9, 1e-4)}, "passed", None),  # a negligible effect
        ({"loss": NAN}, "passed", None),
        ({"support": support(True)}, "passed", None),
        ({"test": UNTESTABLE, "r": 1}, "untested", "no test: there are no more moment"),
        ({"test": UNTESTABLE}, "untested", "no test: there are no more moment"),
        ({"test": UNTESTABLE, "findings": [WARNING]}, "untested", "more moment conditions than"),
        ({"support": support(None)}, "untested", "words on support"),
        ({"findings": [FATAL]}, "not passed", "holds one value only"),
        (
            {"test": outcome(1e-9, 0.1)},
            "not passed",
            "do not fit (all together)",
        ),
        ({"loss": 0.02}, "not passed", "too imprecise"),
        ({"support": support(False)}, "not passed", "not supported: words on support"),
        ({"test": UNTESTABLE, "findings": [FATAL]}, "not passed", "holds one value only"),
        ({"test": UNTESTABLE, "loss": 0.02}, "not passed", "too imprecise"),
        ({"support": support(None), "loss": 0.02}, "not passed", "too imprecise"),
    ],
)
def test_each_verdict(given, verdict, words):
    c = certificate(**given)
    assert c.verdict == verdict
    assert c.passed is (verdict == "passed")
    assert bool(c.reasons) == (verdict == "not passed")
    if verdict == "passed":
        assert c.untested == []
    if words is not None:
        assert any(words in text for text in (c.reasons or c.untested))
        assert words in str(c)
    shown = verdict if c.passed else verdict.upper()
    assert str(c).splitlines()[1] == f"  verdict              {shown}"


# -- the verdict "useful", and three answers ----------------------------------------------------

ROUGH = Description("rough", 0.08, {"age": 0.03, "gain": 0.08})
APART = np.array([[NAN, 0.9, 0.8], [0.9, NAN, 0.7], [0.8, 0.7, NAN]])


def with_groups(again=(0.96, 0.92, 0.81), separation=APART, description=ROUGH, **changes):
    """A certificate of three components that other rows give again, with a rejected test."""
    c = certificate(**{"test": outcome(1e-9, 0.1), "r": 3, **changes})
    numbers = {"reproducibility": np.array(again), "separation": separation}
    return replace(c, **numbers, description=description)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "useful"),
        ({"test": UNTESTABLE}, "useful"),
        ({"loss": 0.04}, "useful"),
        ({"test": outcome()}, "passed"),
        ({"test": outcome(), "again": (0.96, 0.92, 0.74)}, "not passed"),
        ({"test": UNTESTABLE, "again": (0.5, 0.5, 0.0)}, "not passed"),
        ({"test": outcome(), "again": (NAN, NAN, NAN)}, "passed"),  # unknown is no failure
        ({"test": outcome(), "description": Description("poor", 0.4)}, "not passed"),
        ({"again": (0.96, 0.92, 0.74)}, "not passed"),
        ({"again": (0.96, 0.92, NAN)}, "not passed"),
        ({"loss": 0.06}, "useful"),  # halves of the rows show how precise borders are
        ({"loss": NAN}, "useful"),  # rows are few
        ({"findings": [FATAL]}, "not passed"),
        ({"support": support(False)}, "not passed"),
        ({"description": Description("poor", 0.3)}, "not passed"),
        ({"test": UNTESTABLE, "description": Description()}, "untested"),
    ],
)
def test_groups_that_other_rows_give_again_are_useful(changes, verdict):
    c = with_groups(**changes)
    assert c.verdict == verdict
    assert c.passed is (verdict == "passed")
    sentence = "The groups can be used, as an approximation of the rows."
    assert (sentence in str(c)) == (sentence in c._repr_html_()) == (verdict == "useful")
    head = "Reasons why it is useful and not passed:"
    is_explained = verdict == "useful" and bool(c.reasons)
    assert (head in str(c)) == (head in c._repr_html_()) == is_explained
    assert replace(c, after_rows=False).verdict in ("passed", "not passed", "untested")


def shallow(**depths):
    """Valleys of three components; p01=0.2 is that between 0 and 1."""
    separation = APART.copy()
    for pair, depth in depths.items():
        i, j = int(pair[1]), int(pair[2])
        separation[i, j] = separation[j, i] = depth
    return separation


@pytest.mark.parametrize(
    ("changes", "place", "answer"),
    [
        ({}, 0, "Yes: the least reproducible group is found again in 81 % of its rows."),
        (
            {"again": (0.9, 0.3, 0.8)}, 0,
            "Partly: group 1 is found again in 30 % of its rows, below 75 %.",
        ),
        (
            {"again": (0.5, 0.3, 0.6)}, 0,
            "No: group 1 is found again in 30 % of its rows, below 75 %, and 2 more as well.",
        ),
        ({"again": (NAN, 0.9, 0.9)}, 0, "Unknown: it was not measured."),
        ({}, 1, "Yes: even groups 1 and 2 are clearly apart (0.70)."),
        ({"separation": shallow(p02=0.2)}, 1, "Mostly: groups 0 and 2 overlap (0.20)."),
        (
            {"separation": shallow(p12=0.0)}, 1,
            "Partly: groups 1 and 2 have no gap: a cut through a continuum (0.00).",
        ),
        (
            {"separation": shallow(p01=0.0, p12=0.01)}, 1,
            "No: groups 0 and 1 have no gap: a cut through a continuum (0.00), like 1 other pair.",
        ),
        ({"separation": np.full((3, 3), NAN)}, 1, "Unknown: it was not measured."),
        ({}, 2, "Roughly: the largest distance of a column is 0.08 (gain)."),
        (
            {"description": Description("poor", 0.31, {0: 0.31})}, 2,
            "No: the largest distance of a column is 0.31 (column 0).",
        ),
        (
            {"description": Description("close", 0.05, {"a": 0.03})}, 2,
            "Closely: the largest distance, 0.05, is along the widest direction of the rows.",
        ),
        (
            {"description": Description("exact", 0.02, {"a": 0.02})}, 2,
            "Yes: no test rejects it; the largest distance of a column is 0.02 (a).",
        ),
        (
            {"description": Description("exact", 0.004, {"a": 0.004})}, 2,
            "Yes: no test rejects it; no column is further from the rows than chance explains.",
        ),
        (
            {"description": Description("rough")}, 2,
            "Roughly: the misfit of the moments is 0.1 deviations of one row.",
        ),
        ({"description": Description()}, 2, "Unknown: it was not measured."),
    ],
)  # fmt: skip
def test_three_questions_are_answered(changes, place, answer):
    c = with_groups(**changes)
    assert str(c.answers[place]) == answer
    questions = [answer.question for answer in c.answers]
    assert questions == [
        "Would other rows give these groups?",
        "Are they apart?",
        "Does the mixture describe the rows?",
    ]
    for text in (str(c), c._repr_html_()):
        assert answer in text
        assert all(question in text for question in questions)
        assert "nan" not in text.lower()


def test_without_rows_or_with_one_component_the_answers_say_why():
    from_moments = replace(certificate(), after_rows=False)
    assert [str(answer) for answer in from_moments.answers] == [
        "Unknown: a fit from moments has no rows to split.",
        "Unknown: it was not measured.",
        "Unknown: there are no rows to compare with.",
    ]
    one = certificate(r=1)
    assert str(one.answers[0]) == "Yes: there is one group only."
    assert str(one.answers[1]) == "Does not apply: there is one group only."


# -- groups of conditions ---------------------------------------------------------------------


def group(name, p_value):
    return ConditionGroup(name, 50.0, 5, p_value)


@pytest.mark.parametrize(
    ("p_values", "rejected"),
    [
        ((0.2, 0.5, 0.9), []),
        ((0.011, 0.5, 0.9), []),
        ((0.009, 0.5, 0.9), ["a"]),
        ((0.009, 0.003, 0.9), ["b", "a"]),
        ((1e-9, 0.0, 1e-30), ["b", "c", "a"]),
        ((NAN, 0.004, 0.5), ["b"]),  # what was not computed does not count
        ((), []),
    ],
)
def test_which_groups_are_rejected(p_values, rejected):
    groups = [group(name, p) for name, p in zip("abc", p_values, strict=False)]
    assert [g.name for g in outcome(groups=groups).rejected_groups] == rejected


def test_rejected_groups_are_listed():
    groups = [group("pairs", 0.5), group("shape of column 3\x1b[31m", 1e-12)]
    c = certificate(outcome(1e-11, 0.1, groups))
    assert "the moments do not fit (shape of column 3" in c.reasons[0]
    text = str(c)
    assert r"over-identification  shape of column 3\x1b[31m: 50.0 on 5 d.o.f." in text
    assert "pairs" not in text
    many = [group(f"shape of column {j}", 1e-9) for j in range(20)]
    c = certificate(outcome(1e-8, 0.1, many))
    assert "(shape of column 0, shape of column 1, shape of column 2, 17 more)" in c.reasons[0]
    assert str(c).count("50.0 on 5 d.o.f.") == 1


# -- what "auto" tried, and the record --------------------------------------------------------

TRIED = (
    Trial(1, 0.0, -3.0, 6010.5, False),
    Trial(2, 0.4, -2.5, 5031.25, True),
    Trial(3, NAN, -2.49, 5042.0, False),
)


def result_with(c, tried=()):
    return FitResult(
        mixture=MIXTURE, moments=None,  # needed for standard errors only
        n_rows=1000, order=3, winner="k-means", n_passes=4, converged=True, certificate=c,
        tried=tried,
    )  # fmt: skip


def saved(tmp_path, c, tried=()):
    path = tmp_path / "model.json"
    result_with(c, tried).save(path)
    return path


@pytest.mark.parametrize("supported", [True, False, None])
def test_the_record_keeps_verdict_support_groups_and_trials(tmp_path, supported):
    groups = (group("pairs", 0.5), ConditionGroup('shape of "a\x1b"', 9.5, 2, NAN))
    c = certificate(outcome(groups=groups), support=Support(2, supported, "why\n"))
    path = saved(tmp_path, c, TRIED)
    record = load_fit(path)[1]
    assert record.certificate.verdict == c.verdict
    assert record.certificate.support == c.support
    assert record.certificate.test.groups[0] == groups[0]
    assert record.certificate.test.groups[1][:3] == groups[1][:3]
    assert np.isnan(record.certificate.test.groups[1].p_value)
    assert record.tried[:2] == TRIED[:2]
    assert np.isnan(record.tried[2].p_value)
    assert str(record.certificate) == str(c)
    assert record.to_dict() == result_with(c, TRIED).to_dict()
    fit = json.loads(path.read_text())["fit"]
    assert fit["certificate"]["verdict"] == c.verdict
    assert fit["tried"][2]["p_value"] is None


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("certificate", "verdict"), "passed", "says verdict='passed', its numbers say 'untested'"),
        (("certificate", "verdict"), 3, r"certificate\.verdict must be a string"),
        (("certificate", "support"), 3, r"certificate\.support must be an object"),
        (("certificate", "support"), {}, "support lacks n_components, supported, text"),
        (("certificate", "groups"), 3, r"certificate\.groups must be a list"),
        (("certificate", "groups"), [{"name": "x"}], "groups lacks degrees_of_freedom"),
        (("tried",), [{}], "tried lacks bic, chosen"),
        (("tried",), {}, r"fit\.tried must be a list"),
        (("version",), 6, "fit has version 6; this momentmix reads version 11"),
    ],
)
def test_damaged_fields_are_refused(place, value, message):
    document = result_with(certificate(UNTESTABLE), TRIED).to_dict()
    holder = document
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    with pytest.raises(ValueError, match=message):
        result_of(document, MIXTURE)


# -- fits -------------------------------------------------------------------------------------


def one_column(r, n=3000):
    """One column of r components: more than two have more parameters than any six moments."""
    truth = mm.Mixture.diagonal(np.full(r, 1 / r), 20.0 * np.arange(r)[:, None], np.ones((r, 1)))
    return truth.sample(n, random_state=0)[0]


def test_three_components_of_one_column_cannot_be_tested():
    c = mm.fit(one_column(3), 3, random_state=0).certificate
    assert c.verdict == "useful"  # they are 20 deviations apart: other rows give them again
    assert c.reasons == []
    assert "no test: there are no more moment" in c.untested[0]
    lost = replace(c, reproducibility=np.array([1.0, 1.0, 0.7]))
    assert lost.verdict == "not passed"
    assert "group 2 is found again in 70 %" in lost.reasons[0]
    assert replace(lost, predicted_loss=0.5).verdict == "not passed"


# -- the one list of reasons ------------------------------------------------------------------


def test_the_page_has_the_list_of_reasons():
    page = (Path(__file__).parents[4] / "docs" / "reading-a-result.md").read_text("utf-8")
    table = page.split("| reasons | groups confirmed | else |\n", 1)[1].split("\n\n", 1)[0]
    said = {}
    for line in table.splitlines()[1:]:
        kinds, *verdicts = (cell.strip() for cell in line.strip("|").split("|"))
        said |= {kind.strip("` "): tuple(verdicts) for kind in kinds.split(",")}
    assert said == REASONS
    assert set(REASONS) <= set(CATALOG)
