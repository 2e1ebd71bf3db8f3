import re

import matplotlib as mpl
import numpy as np
import pytest

import momentmix as mm
from momentmix import displays
from momentmix.errors import InputError, InputTypeError, MissingDependencyError


def drawn(r, d, names=None):
    rng = np.random.default_rng(r)
    weights = rng.dirichlet(np.full(r, 5.0))
    return mm.Mixture.diagonal(
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
    assert display.axes_.shape == (2, 3)
    assert all(len(ax.patches) == 6 for ax in display.axes_.flat)  # two ellipses for each
    x = display.pairs[0][0]
    assert display.ax_.get_xlabel() == f"feature {x}"
    ellipse = display.ax_.patches[0]
    assert ellipse.width == pytest.approx(2 * np.sqrt(model.covariances_[0, x]))
    assert display.figure_.get_suptitle() == "Components and rows over pairs of columns"


def test_rings_hold_the_shares_of_rows_that_the_legend_says(rows):
    single = mm.Mixture.diagonal([1.0], [[1.0, -2.0]], [[4.0, 0.25]])
    display = displays.PairsDisplay.from_estimator(single)
    texts = [x.get_text() for x in display.figure_.legends[0].get_texts()]
    (rings,) = [x for x in texts if "rings" in x]
    shares = [int(x) / 100 for x in re.findall(r"(\d+) %", rings)]
    drawn = single.sample(40_000, random_state=0)[0]
    for ellipse, share in zip(display.ax_.patches, shares, strict=True):
        offsets = (drawn - ellipse.center) / (0.5 * np.array([ellipse.width, ellipse.height]))
        inside = (offsets**2).sum(axis=1) <= 1
        # Five standard errors, and the rounding to whole percents.
        bound = 5 * np.sqrt(share * (1 - share) / len(drawn)) + 0.005
        assert abs(inside.mean() - share) < bound


def test_every_picture_has_a_title_and_explains_its_colors(model, rows):
    shown = [
        displays.PairsDisplay.from_estimator(model, rows, features=[0, 1]),
        displays.ColumnsDisplay.from_estimator(model, rows, [0, 1]),
        displays.MeansDisplay.from_estimator(model),
    ]
    for display in shown:
        titles = [display.figure_.get_suptitle(), *(x.get_title() for x in display.figure_.axes)]
        assert any(titles), display
    names = list(model.mixture_.profile().names)
    for text in (texts_of(display.figure_) for display in shown):
        assert all(f"{k}: " in text for k in range(3))
        assert all(name in text for name in names)


def texts_of(figure):
    """All texts of a figure, joined."""
    return "\n".join(x.get_text() for x in figure.findobj(mpl.text.Text))


def test_pairs_of_named_features_and_of_one(model):
    mixture = drawn(3, 4, ("height", "b", "c", "$weight$"))
    display = displays.PairsDisplay.from_estimator(mixture, features=["$weight$", 0])
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == (r"\$weight\$", "height")
    display.figure_.canvas.draw()
    with pytest.raises(InputError, match="no feature named 'z'"):
        displays.PairsDisplay.from_estimator(mixture, features=["z"])


def test_means_as_heat_map(model):
    assert len(displays.MeansDisplay.from_estimator(model).rows) == 5
    mixture = drawn(4, 15)
    display = displays.MeansDisplay.from_estimator(mixture)
    written = [x.get_text().replace("−", "-") for x in display.ax_.texts]
    assert written == [f"{x:.3g}" for x in mixture.means.T.ravel()]
    center = mixture.weights @ mixture.means
    spread = np.sqrt(mixture.weights @ (mixture.variances + (mixture.means - center) ** 2))
    image = display.ax_.images[0].get_array()
    np.testing.assert_allclose(image, ((mixture.means - center) / spread).T)
    labels = [x.get_text() for x in display.ax_.get_yticklabels()]
    assert labels[:2] == ["feature 0", "feature 1"]


def test_a_result_draws_each_kind(model, rows):
    result = model.result_
    for kind, data, expected in [
        (None, None, displays.MeansDisplay),
        ("means", None, displays.MeansDisplay),
        ("columns", rows, displays.ColumnsDisplay),
        ("pairs", rows, displays.PairsDisplay),
    ]:
        assert type(result.plot(kind, data)) is expected
    with pytest.raises(InputError, match='kind must be "means"'):
        result.plot("weights")
    with pytest.raises(InputError, match="there is nothing to draw"):
        result.plot("trials")


def test_a_display_of_something_else(rows):
    with pytest.raises(InputTypeError, match="got ndarray"):
        displays.MeansDisplay.from_estimator(rows)


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch, model):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"pip install momentmix\[plot\]"):
        displays.MeansDisplay.from_estimator(model)
