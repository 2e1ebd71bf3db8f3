"""Split starts: one of them points where the truth lies, and none moves the whole."""

from dataclasses import replace

import numpy as np
import pytest
from fitting_helpers import exact_moments, random_mixture

from momentmix import Mixture
from momentmix.fitting.moments.fit import one_component
from momentmix.fitting.moments.splits import split_starts

D = 6


def one_column():
    means = np.zeros((2, D))
    means[1, 2] = 5.0
    return Mixture.diagonal([0.4, 0.6], means, np.tile(np.linspace(0.5, 1.5, D), (2, 1)))


def on_a_line():
    direction = np.array([1.0, -2.0, 0.5, 1.5, 0.0, -1.0])
    means = np.outer([-1.0, 1.0], direction)
    return Mixture.diagonal([0.3, 0.7], means, np.ones((2, D)))


def equal_means():
    wide = np.array([4.0, 1.0, 3.0, 0.5, 1.0, 2.0])
    return Mixture.diagonal([0.5, 0.5], np.ones((2, D)), np.array([np.ones(D), wide]))


def cosine(a, b):
    return abs(a @ b) / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-300)


def starts_from_one(truth):
    moments = exact_moments(truth, 4)
    starts = split_starts(moments, one_component(moments))
    return truth.parameters.standardized(moments.shift, moments.scale), starts


@pytest.mark.parametrize("law", [one_column, on_a_line])
def test_one_start_is_along_the_difference_of_the_means(law):
    truth, starts = starts_from_one(law())
    direction = truth.means[1] - truth.means[0]
    found = [cosine(start.means[1] - start.means[0], direction) for start in starts]
    assert max(found) > 0.95  # 18 degrees
    assert min(found) < 0.5  # control: not every start is


def test_one_start_is_along_the_difference_of_the_variances():
    truth, starts = starts_from_one(equal_means())
    direction = truth.variances[1] - truth.variances[0]
    changes = [start.variances[1] - start.variances[0] for start in starts]
    found = [cosine(change, direction) for change in changes]
    assert max(found) > 0.9
    assert min(found) < 0.5
    best = starts[int(np.argmax(found))]
    np.testing.assert_allclose(best.means[0], best.means[1])


@pytest.mark.parametrize("r", [1, 3, 6])
def test_starts_have_one_component_more_and_the_same_mean(r):
    truth = random_mixture(r + 1, D, seed=r)
    moments = exact_moments(truth, 4)
    parent = random_mixture(r, D, seed=9).parameters.standardized(moments.shift, moments.scale)
    starts = split_starts(moments, parent)
    # Two directions of each kind and three shares, for the four heaviest components.
    assert len(starts) == min(r, 4) * 2 * 2 * 3
    heaviest = set(np.argsort(-parent.weights)[:4].tolist())
    split = set()
    for start in starts:
        assert start.n_components == r + 1
        assert start.weights.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(
            start.weights @ start.means, parent.weights @ parent.means, atol=1e-12
        )
        assert (start.variances > 0).all()
        assert (start.weights > 0).all()
        # All components but one are as they were, and the halves have its weight and mean.
        kept = [c for c in range(r) if (start.means[: r - 1] == parent.means[c]).all(1).any()]
        (c,) = set(range(r)) - set(kept)
        split.add(c)
        rest = np.delete(np.arange(r), c)
        for name in ("weights", "means", "variances"):
            np.testing.assert_array_equal(getattr(start, name)[:-2], getattr(parent, name)[rest])
        halves = start[-2:]
        assert halves.weights.sum() == pytest.approx(parent.weights[c])
        middle = halves.weights @ halves.means / halves.weights.sum()
        np.testing.assert_allclose(middle, parent.means[c], atol=1e-12)
        assert not np.allclose(start.means[-1], start.means[-2]) or not np.allclose(
            start.variances[-1], start.variances[-2]
        )
    assert split == heaviest


@pytest.mark.parametrize("name", ["powers", "cubed", "two_squares"])
def test_moments_that_are_not_known_give_no_starts(name):
    moments = exact_moments(one_column(), 4)
    parent = one_component(moments)
    assert split_starts(moments, parent)
    assert split_starts(replace(moments, **{name: None}), parent) == []
    values = getattr(moments, name).copy()
    values.flat[D if name == "powers" else 0] = np.nan  # of the powers z⁴, which splits rest on
    assert split_starts(replace(moments, **{name: values}), parent) == []
    powers = moments.powers.copy()
    powers[2:] = np.nan  # z⁵ and z⁶, as where they overflow: splits do not use them
    assert len(split_starts(replace(moments, powers=powers), parent)) == 12
