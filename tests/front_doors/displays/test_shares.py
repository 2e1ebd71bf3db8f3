"""The picture of shares over groups."""

import warnings
from datetime import date, timedelta

import numpy as np
import pytest

import momentmix as mm
from momentmix.displays import SharesDisplay
from momentmix.html.palette import component_color

MODEL = mm.Mixture.diagonal([0.5, 0.5], [[0.0] * 3, [4.0] * 3], np.ones((2, 3)))


def summary(share, seed, shift=0.0):
    law = mm.Mixture.diagonal([1 - share, share], MODEL.means + shift, MODEL.variances)
    return mm.summarize(law.sample(500, random_state=seed)[0])


@pytest.fixture(scope="module")
def tracking():
    """Two regions and six weeks; one group does not fit."""
    days = [date(2026, 1, 5) + timedelta(7 * week) for week in range(6)]
    cube = {
        (region, day): summary(0.2 + 0.06 * k, k, 2.0 * (region == "US" and k == 2))
        for region in ("EU", "US")
        for k, day in enumerate(days)
    }
    return mm.track(MODEL, mm.SummaryCube(["region", "day"], cube))


def test_lines_have_the_colors_and_shares_of_components(tracking):
    display = SharesDisplay.from_tracking(tracking)
    eu, us = display.axes_.flat
    assert (eu.get_title(), us.get_title()) == ("EU", "US")
    shares = [line for line in eu.lines if len(line.get_xdata()) == 6]
    assert [line.get_color() for line in shares] == [component_color(c) for c in range(2)]
    assert shares[1].get_ydata() == pytest.approx(tracking.weights[:6, 1])
    marks = [[line for line in ax.lines if line.get_marker() == "x"] for ax in (eu, us)]
    assert [len(crosses) for crosses in marks] == [0, 1]
    texts = [text.get_text() for text in display.figure_.legends[0].get_texts()]
    names = [f"{c} {name}" for c, name in enumerate(tracking.names)]
    assert texts == [*names, "components do not fit"]


def test_groups_without_order_are_dots():
    tracking = mm.track(MODEL, {name: summary(0.3, k) for k, name in enumerate(["EU", "US"])})
    ax = SharesDisplay.from_tracking(tracking).ax_
    assert [text.get_text() for text in ax.get_xticklabels()] == ["EU", "US"]
    for c, drawn in enumerate(ax.containers):
        assert drawn.lines[0].get_ydata() == pytest.approx(tracking.weights[:, c])


def test_one_date_has_dots_and_times_that_are_texts_stand_in_their_order():
    ax = SharesDisplay.from_tracking(mm.track(MODEL, {date(2026, 1, 5): summary(0.3, 0)})).ax_
    assert [label.get_text() for label in ax.get_xticklabels()] == ["2026-01-05"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax.figure.canvas.draw()
    cube = {f"week {k}": summary(0.4, k) for k in (10, 9, 8)}
    ax = SharesDisplay.from_tracking(mm.track(MODEL, cube)).ax_
    assert [text.get_text() for text in ax.get_xticklabels()] == ["week 8", "week 9", "week 10"]
    assert ax.lines[0].get_xdata().tolist() == [0.0, 1.0, 2.0]


def test_pictures_of_other_things_are_refused():
    with pytest.raises(mm.errors.InputTypeError, match=r"needs what mm\.track gives"):
        SharesDisplay.from_tracking({})
