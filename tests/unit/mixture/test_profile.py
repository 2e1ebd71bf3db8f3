"""What makes components different, in words: against numbers worked out by hand."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import momentmix as mm
from momentmix.errors import InputError

MACHINES = mm.Mixture.diagonal(
    [0.5, 0.25, 0.25],
    [[126.0, 60.0], [109.0, 54.0], [126.0, 54.0]],
    [[9.0, 4.0]] * 3,
    ["flow", "temperature"],
)


def test_means_are_compared_with_those_of_all_others_together():
    first, second, _ = MACHINES.profile()
    # Others of component 1: (0.5·126 + 0.25·126) / 0.75 = 126, (0.5·60 + 0.25·54) / 0.75 = 58.
    said = "flow low (109 against 126), temperature low (54 against 58)"
    assert str(second) == f"25 % of rows; {said}"
    flow = second.traits[0]
    # A cut halfway, 117.5, has 8.5 of 3 deviations on either side.
    assert flow.sentence == "flow below 117.5"
    assert flow.sorted_rightly == pytest.approx(norm.cdf(8.5 / 3), abs=0.005)
    assert (flow.value, flow.others, flow.what, flow.column) == (109.0, 126.0, "low", "flow")
    assert first.name == "high temperature"
    assert first.share == 0.5
    assert [p.component for p in MACHINES.profile()] == [0, 1, 2]


def test_a_mean_between_the_others_is_medium():
    mixture = mm.Mixture.diagonal([1 / 3] * 3, [[0.0], [5.0], [10.0]], np.ones((3, 1)), ["a"])
    assert [p.traits[0].what for p in mixture.profile()] == ["low", "medium", "high"]
    assert str(mixture.profile()[1]) == "33 % of rows; a medium (5, others 0 to 10)"


def test_spread_is_told_where_means_are_equal():
    mixture = mm.Mixture.diagonal([0.5, 0.5], [[0.0], [0.0]], [[1.0], [9.0]], ["a"])
    first, second = (p.traits[0] for p in mixture.profile())
    # Densities are equal at ±1.57, the root of 9 ln(9) / 8.
    assert first.text == "a between -1.5 and 1.5 (86 % of its rows)"
    end = np.sqrt(9 * np.log(9) / 8)
    best = norm.cdf(end) - norm.cdf(end / 3) + 0.5
    assert first.sorted_rightly == pytest.approx(best, abs=0.005)
    # One cut sorts the wide component: half as well.
    assert second.sorted_rightly == pytest.approx(0.5 * (best + 0.5), abs=0.005)


def test_tails_of_wide_laws_are_no_reason_for_an_interval():
    # Below 0 there are rows of the second by its law alone: sizes of small and of large schools.
    mixture = mm.Mixture.diagonal([0.5, 0.5], [[500.0], [5000.0]], [[300.0**2], [4000.0**2]], ["a"])
    first, second = (p.traits[0] for p in mixture.profile())
    assert (first.what, first.text) == ("low", "a low (500 against 5,000)")
    assert first.sentence.startswith("a below 1,")
    assert second.text == "a high (5,000 against 500)"
    # Few rows far above all others, by a law that is as wide below them.
    mixture = mm.Mixture.diagonal([0.9, 0.1], [[20.0], [1200.0]], [[50.0**2], [1800.0**2]], ["a"])
    first, second = (p.traits[0] for p in mixture.profile())
    assert (first.text, second.text) == ("a low (20 against 1,200)", "a high (1,200 against 20)")


def table():
    return mm.Mixture.from_blocks(
        [0.5, 0.5],
        [
            mm.GaussianBlock([30.0, 50.0], [25.0, 25.0], "age", seen=[0.9, 0.4]),
            mm.CategoricalBlock([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]], ("a", "b", "c"), names="plan"),
            mm.BernoulliBlock([0.8, 0.1], (False, True), names="member"),
            mm.PoissonBlock([1.0, 9.0], names="visits"),
        ],
    )


def is_true(sentence, values):
    """Whether a sentence such as "age above 41.5" is true of each cell; None is a missing one."""
    words = sentence.replace(",", "").split()[1:]
    known = np.array([value is not None and value == value for value in values])
    if words[-1] == "missing":
        return known if "not" in words else ~known
    if words[0] == "is":
        label = {"yes": "True", "no": "False"}.get(words[-1], words[-1])
        return known & ((np.array([str(x) for x in values]) == label) != ("not" in words))
    numbers = np.array(values, dtype=float)
    if words[0] in ("above", "below"):
        sign = 1 if words[0] == "above" else -1
        return known & (sign * numbers > sign * float(words[1]))
    inside = (numbers >= float(words[1])) & (numbers <= float(words[3]))
    return known & (inside if words[0] == "between" else ~inside)


WIDE = mm.Mixture.from_blocks(
    [0.3, 0.3, 0.2, 0.2],
    [
        mm.GaussianBlock([1.0, 2.0, 3.0, 4.0], [0.2] * 4, "spend", transforms="log"),
        mm.GaussianBlock([40.0, 41.0, 40.0, 60.0], [1.0, 400.0, 100.0, 9.0], "age"),
        mm.NegativeBinomialBlock([2.0, 9.0, 30.0, 4.0], [1.0, 5.0, 9.0, 1.0], names="calls"),
        mm.GaussianBlock([0.0, 1.0, 2.0, 3.0], [0.5] * 4, "rate", seen=[1.0, 0.5, 0.9, 0.2]),
        mm.CategoricalBlock(
            [[0.6, 0.3, 0.1], [0.3, 0.3, 0.4], [0.0, 0.5, 0.5], [0.5, 0.5, 0.0]],
            ("north", "south", "east"), names="place",
        ),
    ],
)  # fmt: skip


@pytest.mark.parametrize("law", [table(), WIDE], ids=["two", "four"])
def test_sentences_are_true_of_as_many_rows_as_they_say(law):
    rows, labels = law.sample(8000, random_state=0)
    columns = {name: list(pd.Series(rows[name]).astype(object)) for name in law.feature_names}
    sorts = {"mostly", "rarely"}
    for component in law.profile():
        own = labels == component.component
        for trait in component.traits:
            found = is_true(trait.sentence, columns[trait.column])
            assert found[own].mean() == pytest.approx(trait.true, abs=2 / np.sqrt(own.sum()))
            rightly = 0.5 * (found[own].mean() + 1 - found[~own].mean())
            error = 0.25 * np.sqrt(1 / own.sum() + 1 / (~own).sum())
            assert rightly == pytest.approx(trait.sorted_rightly, abs=4 * error + 0.002)
            assert trait.sorted_rightly >= 0.55
            sorts.add(trait.what)
    assert sorts >= {"low", "high", "level", "missing"}


def test_the_best_trait_is_the_one_that_sorts_most_rows():
    """A group of 98 % third class is named by it, though its few children are far more than."""
    table = [
        mm.CategoricalBlock(
            [[0.9, 0.1, 0.0], [0.0, 0.02, 0.98]], ("1st", "2nd", "3rd"), names="class"
        ),
        mm.CategoricalBlock([[0.99, 0.01], [0.83, 0.17]], ("adult", "child"), names="age"),
        mm.BernoulliBlock([0.0, 1.0], (0, 1), names="sick"),
    ]
    first, second = mm.Mixture.from_blocks([0.7, 0.3], table[:2]).profile()
    assert (first.name, second.name) == ("class: 1st", "class: 3rd")
    assert [t.column for t in second.traits] == ["class", "age"]


def test_a_component_that_never_sees_a_column_says_so():
    block = mm.GaussianBlock([35.0, 40.0], [64.0, 81.0], "age", seen=[0.9, 0.0])
    profile = mm.Mixture.from_blocks([0.6, 0.4], [block]).profile()
    assert [p.name for p in profile] == ["age known", "age missing"]


def test_a_result_leaves_out_what_chance_explains():
    law = mm.Mixture.diagonal([0.5, 0.5], [[0.0] * 4, [9.0, 9.0, 9.0, 0.0]], np.ones((2, 4)))
    rows, _ = law.sample(60, random_state=0)
    result = mm.fit(rows, 2, random_state=0)
    told = {t.column for p in result.profile() for t in p.traits if t.what != "spread"}
    assert told == {"feature 0", "feature 1", "feature 2"}
    shifted = mm.Mixture.diagonal([0.5, 0.5], [[0.0] * 4, [9.0, 9.0, 9.0, 0.5]], np.ones((2, 4)))
    assert "feature 3" in {t.column for p in shifted.profile() for t in p.traits}


def test_a_result_says_how_well_other_rows_give_each_component_again():
    law = mm.Mixture.diagonal([0.5, 0.5], [[0.0] * 4, [9.0] * 4], np.ones((2, 4)))
    result = mm.fit(law.sample(200, random_state=0)[0], 2, random_state=0)
    known = replace(result.certificate, reproducibility=np.array([0.962, np.nan]))
    first, second = profile = replace(result, certificate=known).profile()
    assert (first.reproducibility, first.found_again) == (0.962, "found again in other rows: 96 %")
    share = r"\d+ % of rows \(\d+ to \d+ %\), found again in other rows: 96 %, clearly apart; fea"
    assert re.match(share, str(first))
    assert (first.low, first.high) == tuple(x[0] for x in result.intervals().weights)
    assert (first.nearest, first.nearest_name) == (1, second.name)
    assert first.apart == result.separation[0, 1]
    assert np.isnan(second.reproducibility)
    assert "found again" not in str(second)
    assert "found again in other rows: 96 %" in profile._repr_html_()
    assert "nan" not in str(profile) + profile._repr_html_()
    assert profile.to_frame()["reproducibility"][0] == 0.962
    one = mm.fit(law.sample(50, random_state=0)[0], 1, random_state=0)
    assert one.reproducibility.tolist() == [1.0]
    assert str(one.profile()) == "0  all rows: 100 % of rows"


def test_names_differ_whatever_the_components():
    rng = np.random.default_rng(0)
    mixture = mm.Mixture.diagonal(
        np.full(30, 1 / 30), rng.integers(0, 2, (30, 2)) * 9.0, np.ones((30, 2))
    )
    names = mixture.profile().names
    assert len(set(names)) == 30


def test_names_can_be_given():
    profile = MACHINES.profile(["day", "night", "idle"])
    assert profile.names == ["day", "night", "idle"]
    assert str(profile).splitlines()[1].startswith("1  night: 25 % of rows; flow low")
    with pytest.raises(InputError, match="must be 3, one for each; got 2"):
        MACHINES.profile(["a", "b"])
    with pytest.raises(InputError, match="must differ"):
        MACHINES.profile(["a", "a", "b"])
    for wrong in ("abc", [1, 2, 3]):
        with pytest.raises(InputError, match="must be a sequence of strings"):
            MACHINES.profile(wrong)


def test_a_profile_is_a_sequence_a_table_and_html():
    profile = MACHINES.profile()
    assert len(profile) == 3
    assert profile[1] in profile
    frame = profile.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == sum(len(p.traits) for p in profile)
    assert frame.loc[0, "sorted_rightly"] == profile[0].traits[0].sorted_rightly
    html = profile._repr_html_()
    assert "flow low (109 against 126)" in html
    hostile = MACHINES.with_feature_names(["<script>alert(1)</script>", "\x1b[31m"])
    html = hostile.profile()._repr_html_()
    assert "<script>" not in html
    assert "\x1b" not in html + str(hostile.profile())
