"""What a report says to do: every finding has an action with its columns and groups."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import momentmix as mm
from momentmix.fitting.inference.certificate import Certificate
from momentmix.fitting.inference.findings import Finding, Severity
from momentmix.fitting.inference.over_identification import OverIdentification
from momentmix.fitting.inference.support import Support
from momentmix.html.palette import COLORS, ink_on
from momentmix.reporting.action_words import NO_NUMBER, WORDS
from momentmix.reporting.actions import actions, columns_in, groups_in
from momentmix.reporting.separation import by_separation, pairs_by_separation
from momentmix.reporting.svg import adapted
from momentmix.reporting.tables import number_cells

SOURCES = Path(mm.__file__).parent / "fitting"
PLAIN = mm.DiagonalMixture([0.6, 0.4], [[0.0] * 3] * 2, [[1.0] * 3] * 2, ["a", "b c", "it's"])
TABLE = mm.Mixture.from_blocks(
    [0.5, 0.5],
    [
        mm.GaussianBlock.of([1.0, 2.0], [1.0, 1.0], "age", seen=[0.5, 0.9]),
        mm.CategoricalBlock([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2]], ("x", "y", "z"), names="plan"),
    ],
)


def certificate(*findings, p=0.4, effect=0.0, loss=0.001, support=None):
    test = OverIdentification(100.0, 100, p, effect, False, 2.0, [])
    return Certificate(test, loss, list(findings), 2, support)


def finding(name, text, severity=Severity.WARNING):
    return Finding(name, severity, text)


def test_every_finding_has_an_action():
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))
    names = set(re.findall(r'\b(?:fatal|warning|note|severity|how)\(\s*"([a-z-]+)"', text))
    assert len(names) >= 25
    assert names <= set(WORDS)


@pytest.mark.parametrize(
    ("mixture", "text", "names"),
    [
        (PLAIN, "column 'b c' holds one value only", ["b c"]),
        (
            PLAIN,
            "columns correlated within components: \"it's\" and 'a' (about +0.4)",
            ["it's", "a"],
        ),
        (PLAIN, "columns 2, 0 hold one value only", ["it's", "a"]),
        (PLAIN, "columns 0 and 1 are copies of each other", ["a", "b c"]),
        (TABLE, "in columns 'age seen', 'plan=y' ('age' is seen in 62%)", ["age", "plan"]),
        (TABLE, "too few rows: 3 rows for 9 parameters", []),
    ],
)
def test_columns_of_a_finding(mixture, text, names):
    assert columns_in(text, mixture) == names


def test_groups_of_a_finding():
    assert groups_in("components 1 (50 rows), 12 (45 rows) hold few rows: means are rough") == [
        1,
        12,
    ]
    assert groups_in("component 0 (7 rows), 3 (9 rows), …") == [0, 3]
    assert groups_in("2 components fit the moments too") == []


def test_actions_name_columns_and_the_needed_ones_come_first():
    found = actions(
        certificate(
            finding("rounded-column", "column 'a' is rounded to multiples of 1"),
            finding("no-information", "column 'a': about the same", Severity.NOTE),
            finding("rounded-column", "column 'b c' is rounded to multiples of 2"),
            finding("row-number", 'column "it\'s": values grow evenly', Severity.FATAL),
            finding("light-components", "component 1 (9 rows) holds few rows"),
        ),
        PLAIN,
    )
    assert [action.text for action in found] == [
        "Leave out “it's”.",
        "Use values of “a”, “b c” that are not rounded, if there are any.",
        "Read small groups with care, or ask for fewer.",
        "You may leave out “a”.",
    ]
    assert found[2].why.startswith("Group 1: few rows")
    assert "multiples of 1" in found[1].details
    assert "multiples of 2" in found[1].details


def test_causes_of_a_misfit_are_needed_and_carry_their_code():
    join = "columns correlated within components: 'a' and 'b c' (about +0.8). Join them: "
    joined = finding("correlated-columns", join + "blocks=[['a', 'b c']]")
    counts = finding("discrete-column", "column 'a' has two values. As in families={…: 'poisson'}")
    found = actions(certificate(joined, counts, p=1e-9, effect=0.1), PLAIN)
    assert [action.severity for action in found] == [Severity.FATAL] * 3
    assert found[0].code == "blocks=[['a', 'b c']]"
    assert found[1].code == "families={'a': 'poisson'}"
    assert found[2].text.startswith("Then fit again")
    (alone,) = actions(certificate(p=1e-9, effect=0.1), PLAIN)
    assert alone.text == "Ask for more groups."
    assert actions(certificate(joined), PLAIN)[0].severity is Severity.WARNING


SKEW = "column 'b c' is skewed to the right. Try logarithms, families={'b c': 'log'} (--families x)"


def test_logarithms_come_first_and_the_number_of_groups_is_left_open():
    skewed = finding("skewed-column", SKEW)
    few = finding("light-components", "component 1 (9 rows) holds few rows")
    found = actions(certificate(few, skewed, p=1e-9, effect=0.1, loss=0.05), PLAIN)
    assert [action.text for action in found] == [
        "Take logarithms of “b c”.",
        "Then fit again: the number of groups may change.",
        "Read small groups with care.",
    ]
    assert found[0].severity is Severity.FATAL
    assert found[0].code == "families={'b c': 'log'} (--families x)"
    assert "overlap so much" in found[1].why
    assert actions(certificate(skewed), PLAIN)[0].severity is Severity.WARNING
    shape = "columns 'a' (flat), 'b c' (skewed to the right) do not follow. families={'b c': 'log'}"
    found = actions(certificate(finding("column-shape", shape, Severity.FATAL), few), PLAIN)
    assert found[0].text == "Take logarithms of “b c”. Transform “a” otherwise, or leave out."


@pytest.mark.parametrize("name", [None, *NO_NUMBER])
@pytest.mark.parametrize("support", [None, Support(2, False, "one would do")])
@pytest.mark.parametrize("loss", [0.001, 0.05])
def test_actions_never_ask_for_more_groups_and_for_fewer(name, support, loss):
    more = finding("dependent-columns", "columns depend on each other: 'a' and 'b c'")
    found = [more] if name is None else [more, finding(name, "column 'a'", Severity.FATAL)]
    for case in (
        certificate(*found, p=1e-9, effect=0.1, loss=loss, support=support),
        certificate(*found, loss=loss, support=support),
    ):
        texts = " ".join(action.text for action in actions(case, PLAIN))
        assert not ("more groups" in texts and "fewer" in texts), texts


def test_actions_of_the_other_tests():
    few = certificate(loss=0.05, support=Support(2, False, "one would do"))
    texts = [action.text for action in actions(few, PLAIN)]
    assert "Ask for fewer groups: 1 in place of 2." in texts
    assert "Collect more rows, or ask for fewer groups." in texts
    untested = certificate(support=Support(2, None, "cannot tell"))
    untested = replace(untested, test=replace(untested.test, degrees_of_freedom=0))
    assert {a.severity for a in actions(untested, PLAIN)} == {Severity.WARNING}
    assert actions(certificate(), PLAIN) == []


# -- numbers, colors and pictures -------------------------------------------------------------


def test_decimal_points_are_aligned():
    low, high = np.array([1.0, np.nan, 99.0, 1e12]), np.array([2.0, np.nan, 101.0, 3e12])
    cells = number_cells(np.array([1.5, np.nan, 100.0, 2e12]), low, high)
    assert [cell.text for cell in cells] == ["1.50", "never seen", "100", "2.00e+12"]
    assert [cell.digits_after for cell in cells] == [0, 0, 2, 0]
    assert [cell.aside for cell in cells][:3] == ["1.00 … 2.00", "", "99.0 … 101"]


def contrast(first, second):
    def luminance(color):
        parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
        return np.dot([0.2126, 0.7152, 0.0722], linear)

    low, high = sorted([luminance(first), luminance(second)])
    return (high + 0.05) / (low + 0.05)


def test_numbers_on_every_color_can_be_read():
    for color in COLORS:
        assert contrast(color, ink_on(color)) >= 4.5, color


def test_grays_of_a_picture_follow_the_scheme_and_colors_stay():
    svg = (
        '<?xml version="1.0"?><svg width="9pt"><metadata>x</metadata>\n <path d="M 0.123 4.0 \n'
        'L 1 2 " style="stroke: #1b1b1b; fill: #0072b2"/> <text style="font: 10px \'X\'; fill: '
        '#000001">a b</text></svg>'
    )
    found = adapted(svg)
    assert "metadata" not in found
    assert 'd="M 0.1 4 L 1 2"' in found
    assert "stroke: var(--g1b); fill: #0072b2" in found
    assert "fill: #000001" in found  # written on something that does not change
    assert ">a b</text>" in found
    assert re.search(r"prefers-color-scheme:dark\)\{svg\{--g1b:#e8e8e8;\}\}", found)


def test_columns_and_pairs_that_separate_come_first():
    means = [[0.0, 0.0, 5.0, 0.0], [0.0, 9.0, 0.0, 0.0], [0.0, 0.0, -5.0, 0.3]]
    m = mm.DiagonalMixture([0.4, 0.3, 0.3], means, np.ones((3, 4)))
    assert by_separation(m)[:2] == [2, 1]  # variances between of 17.25 and 17.01
    assert pairs_by_separation(m, 6) == [(2, 1)]  # the others do not separate
    one = mm.DiagonalMixture([1.0], [[0.0, 1.0]], [[1.0, 1.0]])
    assert by_separation(one) == [0, 1]
    assert pairs_by_separation(one, 6) == []
