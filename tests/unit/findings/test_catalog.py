"""Every kind of finding has its sentences: for statisticians, and for everybody."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

import momentmix as mm
from momentmix.errors import read_more
from momentmix.findings.finding import CATALOG, FATAL, WARNING, found, together
from momentmix.findings.fit_sentences import FITS

SOURCE = Path(mm.__file__).parent
PAIRS = {"pairs": [["'a'", "the gaps of 'b'", 0.5], ["'a'", "'c'", None]]}
SIZE = {"order": 3, "n_features": 4, "capacity": 1, "asked": 2}
LOGS = {"families": {"b": "log"}}
# Numbers and remedies of each kind that needs some; several where it has variants.
NUMBERS = {
    "over-capacity": [SIZE],
    "too-few-rows": [{"n_rows": 9.0, "n_parameters": 8, "least": 16}],
    "spurious-components": [{"n_features": 3, "asides": ["5 rows", "7 rows"]}],
    "cut": [{}],
    "discrete-column": [
        {"n_values": 2, "grid": 1.0},
        {"n_values": 5, "grid": 0.5, "remedy": {"families": {"a": "bernoulli"}}},
    ],
    "repeated-value": [{"value": -9.0, "share": 0.2}],
    "skewed-column": [{"remedy": LOGS}],
    "column-shape": [{"asides": ["flat", "skewed"]}, {"asides": ["flat", "x"], "remedy": LOGS}],
    "heavy-tails": [{}, {"n_far": 3, "n_rows": 90}],
    "independent-column": [{"asides": ["flat", "flat"]}],
    "dispersion": [
        {"ratio": 0.5, "law": "a count"},
        {"ratio": 1.5, "law": "a count"},
        {"ratio": 1.5, "law": "a count", "remedy": {"families": {"a": "negative_binomial"}}},
    ],
    "correlated-columns": [
        {**PAIRS, "remedy": {"blocks": "auto"}},
        {**PAIRS, "remedy": {"blocks": [["a", "b"]]}},
    ],
    "shared-gaps": [{"remedy": {"missing": "mar"}, **PAIRS}],
    "missing-groups": [{"remedy": {"missing": "mar"}}],
    "selected-values": [{"asides": ["skewness -0.30"] * 2}],
    "dropped-differ": [{"asides": ["+0.3 deviations"] * 2, "remedy": {"missing": "mar"}}],
    "never-seen": [{"count": 1}],
    "outlier-influence": [{"deviations": 20.0, "influence": 11.0}],
    "duplicate-columns": [PAIRS],
    "outlier-rows": [
        {"n_rows": 40, "outliers": []},
        *(
            {"n_rows": 7, "outliers": [[k, 1e6, "a"] for k in range(7)], **remedy}
            for remedy in ({}, {"remedy": {"background": "auto"}})
        ),
    ],
    "duplicate-rows": [{"copies": 9, "compared": 90, "n_rows": n} for n in (90, 900)],
    "ordered-rows": [{"is_alike": x, "asides": ["0.40"] * 2} for x in (True, False)],
    "no-power": [{"statistic": 3.0, "degrees_of_freedom": 90}],
    "misfit": [{"groups": g, "p_value": "0.001", "effect_size": 0.1} for g in ("", "pairs")],
    "imprecise": [{"loss": 0.1}],
    "unsupported": [{"reason": "why", "asked": r, "fewer": r - 1} for r in (1, 2)],
    "support-unknown": [{"reason": "why"}],
    "untested": [{}],
    "not-reproduced": [{"reason": "why"}],
    "not-described": [{"reason": "why"}],
    "not-converged": [{"max_passes": 1}],
    "better-number": [{"better": 3, "gain": 1234.5, "nats": 0.1}],
}
CASES = [
    pytest.param(found(severity, kind, ["a", "b"], [0, 2], **numbers), id=f"{kind} {k}")
    for kind in FITS
    for k, numbers in enumerate(NUMBERS.get(kind, [{}]))
    for severity in (WARNING, FATAL)
]


@pytest.mark.parametrize("finding", CASES)
def test_every_kind_has_sentences_for_statisticians_and_everybody(finding):
    entry = finding.entry
    everybody = [finding.in_plain_words(x) for x in (entry.action, entry.why)]
    assert not re.search(r"[.:] [A-Z]", finding.text), "several sentences"
    for text in (finding.text, *everybody):
        assert "{" not in text
        assert "|" not in text
        assert "  " not in text
    remedies = [f"{name}=" for name in finding.remedy]
    for advice in (*remedies, "Use ", "Try ", "Ask for", "Leave out", "Keep"):
        assert advice not in finding.text, "not tried"
    (one,) = together([finding, replace(finding, columns=("c",))] if entry.aside else [finding])
    assert one.text.startswith(finding.text[:7].removesuffix("s"))
    assert everybody[0][0].isupper()
    assert everybody[0].endswith(".")
    assert "component" not in " ".join(everybody)
    assert str(finding) == f"[{finding.severity.value}] {finding.text}"


def kinds_found():
    """Kinds that the package finds: the second argument of `found`, where it is a text."""
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "found":
                kind = call.args[1]
                if isinstance(kind, ast.Constant):
                    yield kind.value


def test_every_kind_that_is_found_is_in_the_catalog():
    kinds = set(kinds_found())
    assert len(kinds) > 30
    assert kinds <= CATALOG.keys()


def test_a_kind_without_sentences_is_refused():
    with pytest.raises(KeyError, match="no-such-kind"):
        found(WARNING, "no-such-kind")


@pytest.mark.parametrize("folder", ["findings", "reporting"])
def test_no_regular_expression_reads_a_sentence(folder):
    reading = [
        path.name
        for path in SOURCE.joinpath(folder).glob("*.py")
        if "import re\n" in path.read_text(encoding="utf-8")
    ]
    assert reading == ["svg.py"] * (folder == "reporting")  # which reads pictures


def test_numbers_choose_words():
    one = found(WARNING, "constant-column", [3]).text
    assert one.startswith("column 3 holds one value only; it takes no part")
    many = found(WARNING, "constant-column", list("abcdefghij")).text
    assert "'h' and 2 more hold one value only; they take" in many


def test_findings_that_have_one_sentence_are_one():
    laws = {"a": "log", "b": "poisson", "c": "log"}
    each = [
        found(WARNING, "dispersion", [x], (), {"families": {x: law}}, ratio=2.0 + k, law="a count")
        for k, (x, law) in enumerate(laws.items())
    ]
    other = found(WARNING, "constant-column", ["d"])
    first, second, third = together([each[0], other, *each[1:], replace(each[0], severity=FATAL)])
    assert (first.columns, first.remedy) == (("a", "b", "c"), {"families": laws})
    assert "'a' (2 times that of a count), 'b' (3 times" in first.text
    assert second is other
    assert third.severity is FATAL


def test_warnings_point_to_sections_that_exist():
    page = SOURCE.parents[1] / "docs" / "troubleshooting.md"
    titles = [line[3:] for line in page.read_text().splitlines() if line.startswith("## ")]
    anchors = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
    told = "".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    named = set(re.findall(r"read_more\(['\"]([\w-]+)['\"]\)", told))
    assert len(named) >= 2
    assert named <= anchors
    assert str(mm.FitWarning(read_more("warnings"))).endswith("docs/troubleshooting.md#warnings")
