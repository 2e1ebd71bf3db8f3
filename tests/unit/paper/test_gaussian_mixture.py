import numpy as np
import pytest
from fitting_helpers import ExactMoments
from unit.mixture.table_truths import parameter_errors

import momentmix as mm
from momentmix import Mixture, largest_rank, paper
from momentmix.errors import FitWarning
from momentmix.index_sets import sets_without
from momentmix.mixture.matching import clustering_accuracy
from momentmix.paper.experiments import law_of_section_6
from momentmix.paper.gaussian_mixture import learn_mixture, weight_order


@pytest.mark.parametrize("order", [3, 4, 5, 6])
def test_exact_moments_in_parameters_out(order):
    r = largest_rank(15, order)
    for seed in range(3):
        truth = law_of_section_6(np.random.default_rng(seed), 15, r, 1.0)
        errors = parameter_errors(truth, learn_mixture(ExactMoments(truth), r, order, seed).mixture)
        assert max(errors.values()) < 1e-8


@pytest.mark.parametrize(("order", "r"), [(4, 5), (4, 8), (6, 20), (6, 7)])
def test_signs_at_even_order_come_from_an_odd_one(order, r):
    """With the signs left open half of the means would be turned round."""
    truth = law_of_section_6(np.random.default_rng(3), 15, r, 1.0)
    found = learn_mixture(ExactMoments(truth), r, order, 0).mixture
    assert parameter_errors(truth, found)["means"] < 1e-8


class PerturbedMoments(ExactMoments):
    """Each array of moments with a random relative error of 1e-8 to 1e-5."""

    level = 0.0

    def _perturbed(self, exact, *key):
        noise = np.random.default_rng(key).standard_normal(exact.size)
        return exact + self.level * np.linalg.norm(exact) / np.linalg.norm(noise) * noise

    def moment_tensor(self, order):
        values = self._perturbed(super().moment_tensor(order).values, order)
        return mm.IncompleteSymmetricTensor(values, self.n_features, order)

    def squared_moments(self, feature, order):
        return self._perturbed(super().squared_moments(feature, order), order, feature, 1)


@pytest.mark.parametrize(("order", "share"), [(3, 1.0), (4, 0.5), (5, 1.0), (6, 0.5)])
def test_parameter_errors_are_proportional_to_moment_errors(order, share):
    """Theorem 5.2."""
    r = int(share * largest_rank(15, order))
    truth = law_of_section_6(np.random.default_rng(11), 15, r, 1.0)
    ratios = {"weights": [], "means": [], "variances": []}
    for level in (1e-8, 1e-7, 1e-6, 1e-5):
        moments = PerturbedMoments(truth)
        moments.level = level
        found = learn_mixture(moments, r, order, 0).mixture
        for name, error in parameter_errors(truth, found).items():
            ratios[name].append(error / level)
    for values in ratios.values():
        middle = np.median(values)
        assert max(values) < 3 * middle
        assert min(values) > middle / 3


def test_weight_order_is_the_smallest_with_enough_entries():
    assert weight_order(15, 15) == 1
    assert weight_order(15, 16) == 2
    assert weight_order(15, 16, odd=True) == 3


def test_a_true_variance_of_zero_stays_zero():
    rng = np.random.default_rng(5)
    variances = rng.random((3, 10))
    variances[1, 4] = 0.0
    truth = Mixture.diagonal([0.2, 0.3, 0.5], rng.standard_normal((3, 10)), variances)
    found = learn_mixture(ExactMoments(truth), 3, 3, 0).mixture
    assert parameter_errors(truth, found)["variances"] < 1e-8
    assert (found.variances >= 0).all()


def test_variances_stay_as_printed_without_a_floor():
    truth = law_of_section_6(np.random.default_rng(7), 15, 8, 1.0)
    rows, _ = truth.sample(3000, random_state=0)
    raised, printed = (
        paper.fit(rows, 8, 4, variance_floor=floor, random_state=0).mixture for floor in (0.1, 0.0)
    )
    assert raised.means.tolist() == printed.means.tolist()
    changed = printed.variances != raised.variances
    assert (printed.variances[changed] < raised.variances[changed]).all()
    assert (printed.variances == 0).any()
    with pytest.raises(mm.InputError, match="has no density there"):
        printed.predict(rows)


def test_a_summary_and_its_rows_give_the_same_answer():
    truth = law_of_section_6(np.random.default_rng(7), 10, 3, 5.0)
    rows, _ = truth.sample(3000, random_state=0)
    summary = mm.summarize(rows, order=4, squared_order=2)
    whole = paper.fit(rows, 3, 4, random_state=0).mixture
    assert paper.fit(summary, 3, 4, random_state=0).mixture.means.tolist() == (whole.means.tolist())


def test_a_summary_without_the_squares_is_refused():
    rows = np.random.default_rng(0).standard_normal((100, 15))
    summary = mm.summarize(rows, order=5)
    with pytest.raises(mm.InputError, match="squared_order=3"):
        paper.fit(summary, 10, 5)


def test_hopeless_offsets_are_warned_of():
    truth = law_of_section_6(np.random.default_rng(7), 10, 2, 5.0)
    rows, _ = truth.sample(3000, random_state=0)
    with pytest.warns(FitWarning, match="column 4 lies .* from zero"):
        paper.fit(rows + 1e4 * (np.arange(10) == 4), 2, 3, random_state=0)


def test_a_factor_without_weight_spoils_no_variances():
    """Its mean is thousands in one coordinate, where the floor of variances was lost with it."""
    rng = np.random.default_rng(np.random.SeedSequence([5, 15, 4, 0]))
    truth = law_of_section_6(rng, 15, 8)
    rows, labels = truth.sample(20_000, rng)
    summary = mm.summarize(truth.sample(100_000, rng)[0], 4, squared_order=2)
    found = paper.fit(summary, 8, 4, random_state=5).mixture
    assert found.weights.min() < 1e-5
    assert clustering_accuracy(labels, found.predict(rows)) > 0.99


def test_squared_moments_agree_with_direct_sums():
    rng = np.random.default_rng(0)
    mixture = Mixture.diagonal(
        [0.2, 0.5, 0.3], 3 * rng.standard_normal((3, 4)), 0.1 + rng.random((3, 4))
    )
    for j in range(4):
        for order in (0, 1, 2):
            expected = [
                sum(
                    w * (m[j] ** 2 + v[j]) * np.prod(m[list(i)])
                    for w, m, v in zip(
                        mixture.weights, mixture.means, mixture.variances, strict=True
                    )
                )
                for i in sets_without(4, order, j)
            ]
            np.testing.assert_allclose(ExactMoments(mixture).squared_moments(j, order), expected)
