"""Tables, sentences and pictures of many groups: nothing that does not fit is hidden."""

import numpy as np
import pytest

from momentmix.displays import SharesDisplay
from momentmix.monitoring.tracking import Tracking


def made(n, bad=(), *, keys=None, is_ordered=False, shares=None, errors=None):
    """A tracking of two components; groups `bad` do not fit, the first of them least."""
    rng = np.random.default_rng(0)
    keys = [(f"g{i:03}",) for i in range(n)] if keys is None else keys
    share = 0.3 + 0.01 * rng.standard_normal(n) if shares is None else np.asarray(shares)
    error = np.full(n, 0.01) if errors is None else np.asarray(errors)
    weights, errors = np.stack([share, 1 - share], 1), np.stack([error, error], 1)
    fits, sizes = np.ones(n, dtype=bool), np.full(n, 0.01)
    for rank, g in enumerate(bad):
        fits[g], sizes[g] = False, 0.1 * (1 + rank)
    names = tuple(f"k{i}" for i in range(len(keys[0])))
    low, high = weights - 2 * errors, weights + 2 * errors
    return Tracking(
        names, keys, np.full(n, 900), weights, low, high, np.where(fits, 0.5, 1e-9), fits, sizes,
        ("few", "many"), 0.95, is_ordered, errors,
    )  # fmt: skip


def test_a_long_table_is_cut_in_the_middle_and_names_what_does_not_fit():
    lines = str(made(200, bad=[100, 120, 7])).split("\n")
    assert lines[0] == (
        "the components do not fit 3 of 200 groups, largest misfit first: k0 g007; k0 g120; k0 g100"
    )
    table = lines[2 : 2 + 62]
    assert table[0].startswith("k0 ")
    assert [line.split()[0] for line in (table[1], table[30], table[32], table[61])] == [
        "g000", "g029", "g170", "g199",
    ]  # fmt: skip
    assert table[31] == "… 140 more groups; to_frame() has all"
    html = made(200, bad=[100])._repr_html_()
    assert "the components do not fit 1 of 200 groups: k0 g100" in html
    assert html.count("<tr>") == 62
    assert "140 more groups in to_frame()" in html


def test_many_misfits_are_counted():
    lines = str(made(40, bad=range(14))).split("\n")
    assert lines[0].endswith("k0 g004; and 4 more")
    said = made(40, bad=range(14)).sentences()
    assert said[0] == "in k0 g013 the components do not fit"
    assert said[-1] == "in 6 more groups the components do not fit"


def test_most_groups_that_do_not_fit_point_to_the_model():
    said = made(20, bad=range(11)).sentences()
    assert said[0].startswith("the components do not fit 11 of 20 groups that were tested: look")
    assert "certificate" in said[0]
    assert not any("certificate" in text for text in made(20, bad=range(10)).sentences())


def test_extremes_are_those_of_groups_that_are_sure():
    shares, errors = np.full(30, 0.30), np.full(30, 0.01)
    shares[3], shares[5] = 0.22, 0.41
    shares[7], shares[9], errors[7], errors[9] = 0.02, 0.77, 0.3, 0.3  # groups of few rows
    said = made(30, shares=shares, errors=errors).sentences()
    assert said[0] == "the share of component 0 (few) differs: from 22 % (g003) to 41 % (g005)"
    assert said[1] == "the share of component 1 (many) differs: from 59 % (g005) to 78 % (g003)"


def test_extremes_of_groups_that_are_all_unsure_are_the_least_likely_ones():
    shares = 0.3 + 0.1 * np.array([-1.0, 1.0] * 40)
    errors = np.full(80, 0.075)
    shares[11], errors[11] = 0.95, 0.9
    shares[20], errors[20] = 0.3, 0.001  # surely in the middle
    (first, *_) = made(80, shares=shares, errors=errors).sentences()
    assert first == "the share of component 0 (few) differs: from 20 % (g000) to 40 % (g001)"


def test_pictures_of_many_groups_show_those_that_do_not_fit():
    display = SharesDisplay.from_tracking(made(200, bad=[150, 90]))
    labels = [label.get_text() for label in display.axes_[0].get_yticklabels()]
    assert len(labels) == 60
    assert labels[-2:] == ["g090  ×", "g150  ×"]
    assert labels[0] == "g000"
    assert display.figure_.get_suptitle() == (
        "60 of 200 groups: the largest misfits, and the first others"
    )
    assert SharesDisplay.from_tracking(made(99)).figure_.get_suptitle() == (
        "60 of 99 groups: the first"
    )


def test_pictures_of_many_series_show_those_that_do_not_fit():
    keys = [(f"s{i:02}", week) for i in range(20) for week in range(3)]
    display = SharesDisplay.from_tracking(made(60, bad=[3 * 17 + 1], keys=keys, is_ordered=True))
    titles = [ax.get_title(loc=loc) for ax in display.axes_.flat for loc in ("left", "center")]
    assert [title for title in titles if title] == [*(f"s{i:02}" for i in range(11)), "s17"]


@pytest.mark.parametrize(("n", "labeled"), [(4, [2, 3]), (5, [2, 3, 4]), (6, [3, 4, 5])])
def test_panels_without_one_below_have_labels(n, labeled):
    keys = [(f"s{i}", week) for i in range(n) for week in range(3)]
    display = SharesDisplay.from_tracking(made(3 * n, keys=keys, is_ordered=True))
    shown = [ax for ax in display.axes_ if ax.get_visible()]
    labels = [ax.xaxis.get_tick_params()["labelbottom"] for ax in shown]
    found = [i for i, is_labeled in enumerate(labels) if is_labeled]
    assert found == labeled
    assert [i for i, ax in enumerate(shown) if ax.get_xlabel()] == labeled
