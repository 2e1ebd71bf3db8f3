import re

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot

import momentmix as mm
from momentmix import displays
from momentmix.displays.rows import thinned
from momentmix.errors import InputError, InputTypeError, MissingDependencyError
from momentmix.html.palette import COLORS
from momentmix.wording import percent


def drawn(r, d, names=None):
    rng = np.random.default_rng(r)
    weights = rng.dirichlet(np.full(r, 5.0))
    return mm.DiagonalMixture(
        weights, 3 * rng.standard_normal((r, d)), 0.5 + rng.random((r, d)), names
    )


@pytest.fixture(scope="module")
def rows():
    return drawn(3, 5).sample(2000, random_state=0)[0]


@pytest.fixture(scope="module")
def model(rows):
    return mm.MomentGaussianMixture(3, random_state=0).fit(rows)


def test_pairs_show_every_component_in_every_pair(model, rows):
    display = displays.PairsDisplay.from_estimator(model, rows)
    assert display.axes_.shape == (5, 5)
    panels = [display.axes_[i, j] for i in range(5) for j in range(i)]
    assert all(len(ax.patches) == 6 for ax in panels)  # two ellipses for each
    assert display.axes_[-1, 0].get_xlabel() == "feature 0"
    ellipse = display.axes_[1, 0].patches[0]
    assert ellipse.width == pytest.approx(2 * np.sqrt(model.covariances_[0, 0]))
    assert display.figure_.get_suptitle() == "Components and rows over pairs of 5 columns"


def test_rings_hold_the_shares_of_rows_that_the_legend_says(rows):
    single = mm.DiagonalMixture([1.0], [[1.0, -2.0]], [[4.0, 0.25]])
    display = displays.PairsDisplay.from_estimator(single)
    texts = [x.get_text() for x in display.axes_[0, -1].get_legend().get_texts()]
    (rings,) = [x for x in texts if "rings" in x]
    shares = [int(x) / 100 for x in re.findall(r"(\d+) %", rings)]
    drawn = single.sample(40_000, random_state=0)[0]
    for ellipse, share in zip(display.axes_[1, 0].patches, shares, strict=True):
        offsets = (drawn - ellipse.center) / (0.5 * np.array([ellipse.width, ellipse.height]))
        inside = (offsets**2).sum(axis=1) <= 1
        # Five standard errors, and the rounding to whole percents.
        bound = 5 * np.sqrt(share * (1 - share) / len(drawn)) + 0.005
        assert abs(inside.mean() - share) < bound


def test_points_are_large_where_rows_are_few_and_spread_evenly_where_they_are_many():
    sizes, alphas = [], []
    for n in (10, 150, 1000, 20_001):
        rows = drawn(3, 4).sample(n, random_state=0)[0]
        display = displays.PairsDisplay.from_estimator(drawn(3, 4), rows, features=[0, 1])
        points = display.axes_[1, 0].collections[0]
        step = -(-n // 5000)
        np.testing.assert_array_equal(display.rows, rows[::step])
        assert len(points.get_offsets()) == len(display.rows) <= 5000
        sizes.append(float(points.get_sizes()[0]))
        alphas.append(points.get_alpha())
    assert sizes == sorted(sizes, reverse=True)
    assert alphas == sorted(alphas, reverse=True)
    assert sizes[1] > 4 * sizes[3]


def test_every_picture_has_a_title_and_explains_its_colors(model, rows):
    shown = [
        displays.PairsDisplay.from_estimator(model, rows, features=[0, 1]),
        displays.ColumnsDisplay.from_estimator(model, rows, [0, 1]),
        displays.MeansDisplay.from_estimator(model),
        displays.WeightsDisplay.from_estimator(model),
        displays.MomentResidualsDisplay.from_estimator(model),
        displays.ChoiceDisplay.from_results([model.result_]),
    ]
    for display in shown:
        titles = [display.figure_.get_suptitle(), *(x.get_title() for x in display.figure_.axes)]
        assert any(titles), display
    names = list(model.mixture_.profile().names)
    pairs, columns, means, weights = (texts_of(display.figure_) for display in shown[:4])
    for text in (pairs, columns, means, weights):
        assert all(f"{k}: " in text for k in range(3))
        assert all(name in text for name in names)


def texts_of(figure):
    """All texts of a figure, joined."""
    return "\n".join(x.get_text() for x in figure.findobj(mpl.text.Text))


def test_texts_have_the_colors_of_the_style(model, rows):
    with pyplot.style.context("dark_background"):
        pairs = displays.PairsDisplay.from_estimator(model, rows, features=[0, 1])
        columns = displays.ColumnsDisplay.from_estimator(model, rows, [0, 1])
        for display in (pairs, columns):
            found = display.figure_.findobj(mpl.text.Text)
            colors = {mpl.colors.to_hex(x.get_color()) for x in found if x.get_text()}
            assert colors == {"#ffffff"}
        line = columns.axes_[0, 0].lines[0]
        assert mpl.colors.to_hex(line.get_color()) == "#ffffff"


def test_pairs_of_many_choose_the_features_that_tell_components_apart():
    mixture = drawn(20, 15)
    means = mixture.means.copy()
    means[:, 7] = 0.0
    mixture = mm.DiagonalMixture(mixture.weights, means, mixture.variances)
    display = displays.PairsDisplay.from_estimator(mixture)
    assert len(display.names) == 4
    assert "feature 7" not in display.names


def test_pairs_of_named_features_and_of_one(model):
    mixture = drawn(3, 4, ("height", "b", "c", "$weight$"))
    display = displays.PairsDisplay.from_estimator(mixture, features=["$weight$", 0])
    assert display.names == [r"\$weight\$", "height"]
    display.figure_.canvas.draw()
    with pytest.raises(InputError, match="no feature named 'z'"):
        displays.PairsDisplay.from_estimator(mixture, features=["z"])
    one = displays.PairsDisplay.from_estimator(mixture, np.zeros((5, 4)), features=[2])
    assert len(one.axes_[0, 0].lines) == 4  # three components, and their sum


def test_means_as_lines_with_intervals_and_as_heat_map(model):
    lines = displays.MeansDisplay.from_estimator(model)
    assert len(lines.ax_.containers) == 3
    assert all(p.has_interval for p in lines.means)
    assert displays.MeansDisplay.from_estimator(model, kind="heat map").ax_.images
    assert not displays.MeansDisplay.from_estimator(drawn(3, 15)).ax_.images
    mixture = drawn(4, 15)
    display = displays.MeansDisplay.from_estimator(mixture)
    assert display.ax_.images
    written = [x.get_text().replace("−", "-") for x in display.ax_.texts]
    assert written == [f"{x:.3g}" for x in mixture.means.ravel()]
    tall = displays.MeansDisplay.from_estimator(drawn(4, 20)).ax_
    assert tall.images[0].get_array().shape == (20, 4)
    assert [x.get_text() for x in tall.get_yticklabels()][:2] == ["feature 0", "feature 1"]
    with pytest.raises(InputError, match="kind must be"):
        displays.MeansDisplay.from_estimator(model, kind="pie")


def test_weights(model):
    display = displays.WeightsDisplay.from_estimator(model.result_)
    assert [bar.get_width() for bar in display.ax_.patches] == model.weights_.tolist()
    colors = [mpl.colors.to_hex(bar.get_facecolor()).upper() for bar in display.ax_.patches]
    assert colors == list(COLORS[:3])
    assert [x.get_text() for x in display.ax_.texts] == list(map(percent, model.weights_))
    assert (display.weights.low < model.weights_).all()
    axes = pyplot.subplots()[1]
    assert displays.WeightsDisplay.from_estimator(model.mixture_, ax=axes).ax_ is axes


def test_residuals_are_small_for_the_right_mixture(model, rows):
    show, mixture = displays.MomentResidualsDisplay.from_estimator, model.mixture_
    display, summary = show(model), mm.summarize(rows, order=4)
    assert (
        set(display.observed) == set(display.fitted) >= {"order 1", "order 4", "order 2, squared"}
    )
    for name, values in display.observed.items():
        assert np.abs(values - display.fitted[name]).max() < 0.3
    by_rows, by_summary = show(mixture, rows=rows), show(mixture, summary)
    assert list(by_rows.observed) == list(by_summary.observed)
    for name, values in by_summary.observed.items():
        np.testing.assert_allclose(by_rows.observed[name], values, atol=1e-12)
    gaps = np.where(rows > 3, np.nan, rows)
    with_gaps = mm.summarize(gaps, missing="model")
    for arguments, keywords, error, message in [
        ((mixture,), {}, InputTypeError, "pass summary="),
        ((mixture, with_gaps), {}, InputError, r"mixture has 5 features, the summary \d+"),
        ((drawn(3, 4), summary), {}, InputError, "4 features, the summary 5"),
        ((mixture, summary), {"rows": rows}, InputError, "of a summary or of rows; pass one"),
        ((mixture,), {"rows": rows[:, :4]}, InputError, "the 5 columns of the model; got 4"),
        ((mixture,), {"rows": rows[:0]}, InputError, "rows must hold at least one row"),
    ]:
        with pytest.raises(error, match=message):
            show(*arguments, **keywords)


def test_choice_of_the_number_of_components(rows):
    display = displays.ChoiceDisplay.from_data(rows, range(1, 5), chosen=3, random_state=0)
    assert display.n_components == [1, 2, 3, 4]
    assert display.passed[:3] == [False, False, True]
    assert display.ax_.lines[0].get_xdata() == [3, 3]
    assert "chosen" in [text.get_text() for text in display.ax_.get_legend().get_texts()]
    plain = displays.ChoiceDisplay.from_data(mm.summarize(rows, 4), [2], random_state=0)
    assert np.isnan(plain.scores).all()
    assert "chosen" not in [text.get_text() for text in plain.ax_.get_legend().get_texts()]
    with pytest.raises(InputError, match="at least one fit"):
        displays.ChoiceDisplay.from_results([])


def test_a_display_of_something_else(rows):
    with pytest.raises(InputTypeError, match="got ndarray"):
        displays.WeightsDisplay.from_estimator(rows)


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch, model):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"pip install momentmix\[plot\]"):
        displays.WeightsDisplay.from_estimator(model)


@pytest.mark.parametrize("n_rows", [1, 99, 100, 101, 5000])
def test_thinned_rows_of_a_stream_are_spread_evenly(n_rows):
    rows = np.arange(float(n_rows))[:, None]
    found = thinned(iter(np.array_split(rows, min(n_rows, 13))), 100)[:, 0]
    assert min(n_rows, 50) <= len(found) <= 100
    assert found[0] == 0
    assert len(set(np.diff(found))) <= 1
    with pytest.raises(InputError, match="no rows"):
        thinned(iter([]), 5)


def test_residuals_of_a_table_leave_out_cells_that_are_missing_for_the_first_time():
    rng = np.random.default_rng(0)
    table = {"x": rng.standard_normal(300), "y": rng.standard_normal(300)}
    table |= {"plan": rng.choice(["a", "b", "c"], 300)}
    mixture = mm.fit(table, 1, families={"plan": "categorical"}, random_state=0).mixture
    whole = {name: column[5:] for name, column in table.items()}
    table["x"][:5] = np.nan
    found = displays.MomentResidualsDisplay.from_estimator(mixture, rows=table)
    expected = displays.MomentResidualsDisplay.from_estimator(mixture, rows=whole)
    for name, values in expected.observed.items():
        np.testing.assert_allclose(found.observed[name], values, atol=1e-12)
    table["x"][:] = np.nan
    with pytest.raises(InputError, match="there are no rows without missing cells"):
        displays.MomentResidualsDisplay.from_estimator(mixture, rows=table)
