"""Each column alone: bars of the rows, curves and bars of the components."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import momentmix as mm
from momentmix.displays import ColumnsDisplay, PairsDisplay


@pytest.fixture(scope="module")
def truth():
    blocks = [
        mm.GaussianBlock([30.0, 60.0], [25.0, 100.0], "age", seen=[0.5, 0.9]),
        mm.GaussianBlock([2.0, 5.0], [0.5, 1.0], "income"),
        mm.PoissonBlock([1.0, 6.0], names="visits"),
        mm.BernoulliBlock([0.75, 0.25], ("no", "yes"), names="member"),
        mm.CategoricalBlock(
            [[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]], ("basic", "gold", "silver"), names="plan",
            seen=[0.8, 0.6],
        ),
    ]  # fmt: skip
    return mm.Mixture.from_blocks([0.4, 0.6], blocks)


@pytest.fixture(scope="module")
def rows(truth):
    return truth.sample(3000, random_state=5)[0]


@pytest.fixture(scope="module")
def display(truth, rows):
    return ColumnsDisplay.from_estimator(truth, rows)


def test_numbers_have_a_histogram_and_curves_in_shares_of_rows(display, rows):
    ax = display.axes_[0, 1]
    assert ax.get_title(loc="left") == "income"
    heights, edges, _ = ax.patches[0].get_data()
    expected = np.histogram(rows["income"], edges)[0] / 3000
    np.testing.assert_allclose(heights, expected, atol=1e-12)
    total, first, second = (line.get_ydata() for line in ax.lines)
    grid = ax.lines[0].get_xdata()
    np.testing.assert_allclose(total, first + second)
    density = 0.4 * stats.norm(2.0, 0.5**0.5).pdf(grid)
    np.testing.assert_allclose(first, (edges[1] - edges[0]) * density)


def test_counts_are_bars_at_integers(display, rows):
    ax = display.axes_[0, 2]
    heights, edges, _ = ax.patches[0].get_data()
    centers, heights = edges.reshape(-1, 2).mean(axis=1), heights[::2]  # between bars are gaps
    np.testing.assert_allclose(centers, np.arange(len(centers)), atol=1e-12)
    counts = np.bincount(rows["visits"].astype(int), minlength=len(centers))
    np.testing.assert_allclose(heights, counts[: len(centers)] / 3000)
    expected = 0.4 * stats.poisson(1.0).pmf(np.arange(len(centers)))
    np.testing.assert_allclose(ax.lines[1].get_ydata(), expected)


def test_levels_are_bars_where_the_cell_is_seen(display, rows, truth):
    ax = display.axes_[1, 1]
    assert [x.get_text() for x in ax.get_yticklabels()] == ["basic", "gold", "silver"]
    widths = np.array([bar.get_width() for bar in ax.patches]).reshape(3, 3)
    seen = [x for x in rows["plan"] if x is not None]
    shares = [seen.count(level) / len(seen) for level in ("basic", "gold", "silver")]
    np.testing.assert_allclose(widths[0], shares)
    present = truth.weights * [0.8, 0.6]
    expected = (present / present.sum())[:, None] * np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])
    np.testing.assert_allclose(widths[1:], expected)
    share = 1 - len(seen) / 3000
    assert ax.get_title(loc="right") == f"{100 * share:.0f} % missing"
    answers = display.axes_[1, 0]
    assert [x.get_text() for x in answers.get_yticklabels()] == ["no", "yes"]
    assert answers.get_title(loc="right") == ""


def test_many_levels_share_the_last_bar():
    table = np.linspace(1, 20, 20)
    mixture = mm.Mixture.from_blocks(
        [1.0], [mm.CategoricalBlock([table / table.sum()], tuple(f"l{i:02d}" for i in range(20)))]
    )
    ax = ColumnsDisplay.from_estimator(mixture).axes_[0, 0]
    labels = [x.get_text() for x in ax.get_yticklabels()]
    assert labels == [f"l{i:02d}" for i in range(9, 20)] + ["9 others"]
    assert ax.patches[-1].get_width() == pytest.approx(table[:9].sum() / table.sum())


def test_rounded_numbers_give_no_comb():
    values = np.round(np.random.default_rng(0).normal(5.0, 0.8, 400), 1)
    mixture = mm.Mixture.diagonal([1.0], [[5.0]], [[0.64]])
    edges = ColumnsDisplay.from_estimator(mixture, values[:, None]).marginals[0].edges
    steps = np.round((edges[1:] - edges[:-1]) / 0.1, 6)
    assert (steps == np.round(steps)).all()
    assert np.abs(np.round(edges / 0.05) % 2).min() == 1  # between two values that occur


def test_axes_keep_to_what_the_column_can_hold():
    law = mm.Mixture.diagonal([0.5, 0.5], [[1.0], [3.0]], [[1.0], [1.0]], ["paid"])
    paid = np.abs(law.sample(500, random_state=0)[0])
    assert ColumnsDisplay.from_estimator(law, paid).ax_.get_xlim()[0] == 0.0
    free = ColumnsDisplay.from_estimator(law).ax_
    assert free.get_xlim()[0] < 0  # nothing says that no value is negative
    same = ColumnsDisplay.from_estimator(law, np.full((50, 1), 2.0)).ax_
    assert same.get_ylim()[1] <= 1.0
    result = mm.fit(paid, 1, random_state=0)
    assert type(result.plot()) is ColumnsDisplay


@pytest.mark.parametrize("form", ["array", "frame", "file"])
def test_numbers_with_missing_cells_are_drawn_where_they_are_observed(form, tmp_path):
    truth = mm.Mixture.diagonal([0.4, 0.6], [[-2.0] * 3, [2.0] * 3], np.ones((2, 3)))
    rows, _ = truth.sample(300, random_state=0)
    rows[::10, 0] = np.nan
    data = rows if form == "array" else pd.DataFrame(rows, columns=["a", "b", "c"])
    result = mm.fit(data, 2, missing="mar", random_state=0)
    if form == "file":
        data.to_csv(tmp_path / "rows.csv", index=False)
        data = str(tmp_path / "rows.csv")
    marginals = ColumnsDisplay.from_estimator(result, data).marginals
    assert [marginals[j].missing for j in range(3)] == pytest.approx([0.1, 0.0, 0.0])
    pairs = PairsDisplay.from_estimator(result, data)
    assert np.isnan(pairs.rows).sum(axis=0).tolist() == [30, 0, 0]
    np.testing.assert_array_equal(pairs.labels, result.mixture.predict(data))
