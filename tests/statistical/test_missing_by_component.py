"""missing="model": the certificate tests that the component alone explains what is missing."""

import numpy as np
import pytest
from scipy.stats import binom

import momentmix as mm

KINDS = {"shared-gaps", "missing-groups", "selected-values"}


def groups(rng, n, d, gap):
    label = (rng.random(n) < 0.4).astype(int)
    return rng.normal(size=(n, d)) + gap * label[:, None] * rng.choice([-1, 1], d), label


def of_component(seed):
    """Gaps by the group alone, whatever else: rare, common, or all cells of some columns."""
    rng = np.random.default_rng(seed)
    n, d = int(np.exp(rng.uniform(np.log(400), np.log(3000)))), int(rng.integers(3, 9))
    rows, label = groups(rng, n, d, 2.0)
    width = int(rng.integers(2, d + 1))
    shares = rng.uniform(0.0, rng.choice([0.05, 0.5]), (2, width))
    if seed % 3 == 0 and width < d:
        shares[1] = 1.0
    rows[:, :width][rng.random((n, width)) < shares[label]] = np.nan
    return rows, label


def by_value(seed, n):
    """Large values are missing, of two columns that are correlated with others within groups."""
    rng = np.random.default_rng(seed)
    rows, label = groups(rng, n, 5, 2.5)
    rows += rng.normal(size=(n, 1))
    odds = np.exp(2 * (rows - rows.mean(axis=0) - 0.5))
    gone = rng.random(rows.shape) < odds / (1 + odds)
    gone[:, 2:] = False
    return rows, gone, label


def by_other_value(seed, n):
    """Cells of two columns are missing where a third one is large in its group."""
    rng = np.random.default_rng(seed)
    rows, label = groups(rng, n, 5, 2.5)
    middle = np.array([rows[label == i].mean(axis=0) for i in (0, 1)])[label]
    gone = rng.random(rows.shape) < 1 / (1 + np.exp(-2 * (rows - middle)[:, [2]]))
    gone[:, 2:] = False
    return rows, gone, label


def by_page(seed, n):
    """Three columns are missing together, whatever the group."""
    rng = np.random.default_rng(seed)
    rows, label = groups(rng, n, 6, 1.5)
    gone = rng.random(rows.shape) < 0.05
    gone |= rng.random((n, 1)) < 0.3
    gone[:, :3] = False
    return rows, gone, label


def by_own_value(seed, n):
    """Large values are missing, of one column of a table without correlations within groups."""
    rng = np.random.default_rng(seed)
    rows, label = groups(rng, n, 4, 3.0)
    middle = np.array([rows[label == i].mean(axis=0) for i in (0, 1)])[label]
    odds = np.exp(4 * (rows - middle - 0.3))
    gone = rng.random(rows.shape) < odds / (1 + odds)
    gone[:, 1:] = False
    return rows, gone, label


def fitted(rows, n_components=2):
    result = mm.fit(rows, n_components, missing="model", random_state=0)
    return result, {f.kind for f in result.certificate.findings} & KINDS


def shuffled(gone, label, seed):
    """The gaps of each column in other rows of the same group, so that the model holds."""
    rng, found = np.random.default_rng(seed), gone.copy()
    for i in (0, 1):
        found[label == i] = rng.permuted(found[label == i], axis=0)
    return found


def test_false_alarms_are_rare_where_the_component_explains_what_is_missing():
    n_tables = 20
    alarms = [seed for seed in range(n_tables) if fitted(of_component(seed)[0])[1]]
    assert len(alarms) <= binom.ppf(0.99, n_tables, 0.01), alarms


@pytest.mark.parametrize("n", [500, 2000])
def test_selection_by_value_shows_in_correlated_columns(n):
    """No control: the model is wrong in the correlations as well, whatever the gaps."""
    for seed in range(2):
        rows, gone, _ = by_value(seed, n)
        result, found = fitted(np.where(gone, np.nan, rows))
        assert "shared-gaps" in found
        assert not result.certificate.passed


@pytest.mark.parametrize(
    ("law", "n", "n_components", "kinds"),
    [
        (by_other_value, 500, 2, {"shared-gaps"}),
        (by_page, 500, 2, {"missing-groups"}),
        (by_page, 2000, "auto", {"missing-groups"}),
        (by_own_value, 3000, 2, {"selected-values"}),
    ],
)
def test_gaps_that_do_not_depend_on_the_component_alone(law, n, n_components, kinds):
    for seed in range(2):
        rows, gone, label = law(seed, n)
        result, found = fitted(np.where(gone, np.nan, rows), n_components)
        assert kinds <= found
        is_page = "missing-groups" in kinds
        assert result.certificate.verdict == ("not passed" if is_page else "useful")
        # Negative control: as many gaps in each group.
        assert not fitted(np.where(shuffled(gone, label, seed), np.nan, rows))[1]


def test_a_page_is_no_group():
    """EM takes the skipped page for a component, in which both groups are mixed."""
    rows, gone, label = by_page(0, 2000)
    rows = np.where(gone, np.nan, rows)
    result, _ = fitted(rows)
    predicted = result.mixture.predict(rows)
    assert 0.4 < (predicted == label).mean() < 0.6
    (finding,) = (f for f in result.certificate.findings if f.kind == "missing-groups")
    skipped = gone[:, 3:].all(axis=1)
    assert (np.isin(predicted, finding.components) == skipped).mean() > 0.98
    better = mm.fit(rows, 2, missing="mar", random_state=0)
    right = (better.mixture.predict(rows) == label).mean()
    assert max(right, 1 - right) > 0.85
