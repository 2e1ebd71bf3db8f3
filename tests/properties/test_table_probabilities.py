"""Laws of probability for mixtures of any few columns of levels, counts and missing cells."""

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import momentmix as mm
from momentmix import BernoulliBlock, CategoricalBlock


@st.composite
def discrete_mixtures(draw):
    """A mixture of up to four columns of levels, and all rows that it may have."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    r, blocks, cells = draw(st.integers(1, 3)), [], []
    for n_levels in draw(st.lists(st.integers(2, 4), min_size=1, max_size=4)):
        has_missing = draw(st.booleans())
        seen = rng.uniform(0.05, 0.95, r) if has_missing else None
        table = 0.9 * rng.dirichlet(np.ones(n_levels), r) + 0.1 / n_levels
        levels = tuple(range(n_levels))
        if n_levels == 2:
            blocks.append(BernoulliBlock(table[:, 1], levels, seen=seen))
        else:
            blocks.append(CategoricalBlock(table, levels, seen=seen))
        cells.append([*levels, *([np.nan] if has_missing else [])])
    mixture = mm.Mixture.from_blocks(rng.dirichlet(np.ones(r)), blocks)
    return mixture, np.array(list(product(*cells)), dtype=float)


@settings(max_examples=20, deadline=None)
@given(discrete_mixtures())
def test_all_rows_together_have_probability_1(case):
    mixture, rows = case
    assert abs(np.exp(mixture.log_prob(rows)).sum() - 1) < 1e-12


@settings(max_examples=20, deadline=None)
@given(discrete_mixtures(), st.data())
def test_marginals_are_sums(case, data):
    mixture, rows = case
    d = mixture.n_columns
    kept = sorted(data.draw(st.sets(st.integers(0, d - 1), min_size=1)))
    chosen = data.draw(st.integers(0, len(rows) - 1))
    same = (rows[:, kept] == rows[chosen, kept]) | np.isnan(rows[:, kept] + rows[chosen, kept])
    same &= np.isnan(rows[:, kept]) == np.isnan(rows[chosen, kept])
    total = np.exp(mixture.log_prob(rows[same.all(axis=1)])).sum()
    part = np.exp(mixture.select(kept).log_prob(rows[chosen, kept][None]))[0]
    np.testing.assert_allclose(part, total, rtol=1e-9)
    # Cells of columns without `seen` may be left out in the row instead.
    columns = mixture.schema.columns
    row, free = rows[chosen].copy(), [j for j in range(d) if not columns[j].has_missing]
    row[free] = np.nan
    others = [j for j in range(d) if j not in free]
    expected = 0.0 if not others else mixture.select(others).log_prob(row[None, others])[0]
    np.testing.assert_allclose(mixture.log_prob(row[None])[0], expected, rtol=1e-9, atol=1e-12)
