"""Every kind of finding has a sentence and a piece of advice."""

import ast
import re
from pathlib import Path

import pytest

import momentmix as mm
from momentmix.errors import read_more
from momentmix.findings.finding import CATALOG, WARNING, found
from momentmix.findings.fit_sentences import FITS

SOURCE = Path(mm.__file__).parent
PAIRS = {"pairs": [["'a'", "the gaps of 'b'", 0.5], ["'a'", "'c'", None]]}
# Numbers of each kind that needs some.
NUMBERS = {
    "over-capacity": {"order": 3, "n_features": 4, "capacity": 1, "asked": 2},
    "too-few-rows": {"n_rows": 9.0, "n_parameters": 8, "least": 16},
    "spurious-components": {"n_features": 3, "asides": ["5 rows", "7 rows"]},
    "discrete-column": {"asides": ["5 values", "-9 in 20 % of the rows"]},
    "column-shape": {"asides": ["flat", "skewed"]},
    "dispersion": {"asides": ["0.5 times that of a count"] * 2},
    "correlated-columns": PAIRS,
    "shared-gaps": PAIRS,
    "selected-values": {"asides": ["skewness -0.30"] * 2},
    "dropped-differ": {"asides": ["+0.3 deviations"] * 2},
    "outlier-influence": {"deviations": 20.0, "influence": 11.0},
    "duplicate-columns": PAIRS,
    "outlier-rows": {"n_rows": 7, "outliers": [[k, 1e6, "a"] for k in range(7)], "where": "here"},
    "duplicate-rows": {"copies": 9, "compared": 90},
    "ordered-rows": {"words": "are alike", "asides": ["0.40"] * 2},
    "misfit": {"groups": "pairs", "p_value": "0.001", "effect_size": 0.1},
    "imprecise": {"loss": 0.1},
    "unsupported": {"reason": "why."},
    "untested": {"reason": "why."},
    "not-reproduced": {"reason": "why."},
    "not-described": {"reason": "why."},
    "not-converged": {"max_passes": 1},
    "better-number": {"better": 3, "gain": 1234.5, "nats": 0.1},
}


@pytest.mark.parametrize("kind", FITS)
def test_every_kind_has_a_sentence_and_a_piece_of_advice(kind):
    finding = found(WARNING, kind, ["a", "b"], [0, 2], **NUMBERS.get(kind, {}))
    assert not re.search(r"[.] [A-Z]", finding.text), "several sentences"
    for text in (finding.text, finding.advice):
        assert text.endswith(".")
        assert "{" not in text
        assert "|" not in text
        assert "  " not in text
    assert finding.advice[0].isupper()
    assert str(finding) == f"[warning] {finding.text}"


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
    assert len(FITS) <= 30
    assert kinds >= FITS.keys() - {
        "untested",
        "correlated-columns",
        "shared-gaps",
        "duplicate-columns",
    }
    assert kinds <= CATALOG.keys()


def test_warnings_point_to_sections_that_exist():
    page = SOURCE.parents[1] / "docs" / "troubleshooting.md"
    titles = [line[3:] for line in page.read_text().splitlines() if line.startswith("## ")]
    anchors = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
    told = "".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    named = set(re.findall(r"read_more\(['\"]([\w-]+)['\"]\)", told))
    assert len(named) >= 2
    assert named <= anchors
    assert str(mm.FitWarning(read_more("warnings"))).endswith("docs/troubleshooting.md#warnings")
