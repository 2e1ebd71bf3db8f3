"""Tables' mixtures given some columns, floors and matching, against brute force."""

import numpy as np
import pandas as pd
import pytest
from unit.mixture.table_truths import (
    NAMES,
    all_families,
    is_missing,
    joint_densities,
    with_gaps,
)

import momentmix as mm
from momentmix.errors import InputError
from momentmix.families.levels import BernoulliBlock
from momentmix.mixture.density import log_sums
from momentmix.mixture.matching import match_components


@pytest.fixture(scope="module")
def mixture():
    return all_families()


def one_row(rows, number=0):
    return {name: column[number : number + 1] for name, column in rows.items()}


# -- parts and conditions -----------------------------------------------------------------------


@pytest.mark.parametrize("columns", [["y"], ["plan", "x"], ["y", "calls", "x"], NAMES[::-1]])
def test_a_part_is_the_marginal_law(mixture, columns):
    rows = with_gaps(mixture.sample(60, random_state=3)[0])
    part = mixture.select(columns)
    assert part.feature_names == tuple(columns)
    own = {name: rows[name] for name in columns}
    found = part.row_density.map_rows(own, log_sums)
    expected = np.log(joint_densities(part, own).sum(axis=1))
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    if part.schema is not None:
        np.testing.assert_array_equal(part.log_prob(own), found)


@pytest.mark.parametrize("known", [["plan"], ["x", "visits"], ["age", "smokes", "y", "member"]])
def test_conditions_are_ratios_of_densities(mixture, known):
    rows = mixture.sample(15, random_state=4)[0]
    whole = mixture.log_prob(rows)
    for number in range(15):
        row = {name: column[number] for name, column in rows.items()}
        values = {name: row[name] for name in known}
        if any(is_missing(value) for value in values.values()):
            continue
        given = mixture.condition(values)
        others = [name for name in NAMES if name not in known]
        assert given.feature_names == tuple(others)
        cells = one_row({name: rows[name] for name in others}, number)
        part = mixture.select(known).log_prob(pd.DataFrame([values])[known])
        assert given.log_prob(cells)[0] + part[0] == pytest.approx(whole[number], rel=1e-9)


def test_missing_values_are_not_known(mixture):
    same = mixture.condition({"age": None, "plan": float("nan"), "calls": pd.NA})
    np.testing.assert_array_equal(same.weights, mixture.weights)
    assert same.feature_names == NAMES
    known = mixture.condition({"smokes": "yes", "age": None})
    np.testing.assert_array_equal(known.weights, mixture.condition({"smokes": "yes"}).weights)
    row = pd.Series({"smokes": "yes", "age": None}, dtype=object)
    np.testing.assert_array_equal(known.weights, mixture.condition(row).weights)


def test_components_are_matched_by_features(mixture):
    order = np.array([2, 0, 1])
    blocks = [block.chosen(order) for block in mixture.blocks]
    other = mm.Mixture.from_blocks(mixture.weights[order], blocks)
    shuffled = other.select(NAMES[::-1])
    assert match_components(mixture, other).tolist() == np.argsort(order).tolist()
    aligned = mixture.align(shuffled)
    np.testing.assert_array_equal(aligned.weights, mixture.weights)
    np.testing.assert_array_equal(aligned.means, mixture.means)
    fewer = mm.Mixture.from_blocks(
        mixture.weights, [b if b.names != ("member",) else BernoulliBlock(
            b.probabilities, ("off", "on"), names="member", seen=b.seen, columns=(7,)
        ) for b in mixture.blocks]
    )  # fmt: skip
    with pytest.raises(InputError, match="levels"):
        mixture.align(fewer)
