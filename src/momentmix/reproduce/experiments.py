"""The experiments of section 6 and of the stability theorems, one dictionary per instance.

Seeds depend on the row and the instance only, so that each part of a table can be run alone.
tables.py collects the instances of a row and adds the figures that the paper prints.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import comb
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.capacity.ranks import largest_rank
from momentmix.errors import MomentmixError
from momentmix.fitting.api import fit
from momentmix.fitting.paper import learn_mixture
from momentmix.mixture.matching import clustering_accuracy, largest_factor_error, parameter_errors
from momentmix.mixture.mixture import DiagonalMixture
from momentmix.tensor.approximate import approximate
from momentmix.tensor.decompose import decompose
from momentmix.tensor.incomplete_tensor import IncompleteSymmetricTensor

Instance = dict[str, Any]
RELATIVE_NOISE = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)


@cache
def printed() -> dict[str, list[dict[str, Any]]]:
    """The figures that the paper prints, by table."""
    text = files("momentmix.reproduce").joinpath("printed_figures.json").read_text(encoding="utf-8")
    tables: dict[str, list[dict[str, Any]]] = json.loads(text)
    return tables


def peak_memory() -> float:
    """Largest resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _generator(seed: int, *key: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence([seed, *key]))


def _random_factors(rng: np.random.Generator, rank: int, d: int) -> NDArray[np.float64]:
    return rng.standard_normal((rank, d))  # (r, d)  eq:randomF


def _noise(
    rng: np.random.Generator, like: IncompleteSymmetricTensor, size: float
) -> IncompleteSymmetricTensor:
    """A random tensor on Ω_m of Hilbert–Schmidt norm `size`."""
    values = rng.standard_normal(like.values.size)
    raw = IncompleteSymmetricTensor(values, like.n_features, like.order)
    return raw * (size / raw.norm())


# -- Table 2 ---------------------------------------------------------------------------------------


def decomposition(d: int, order: int, instances: int, seed: int) -> Iterator[Instance]:
    """Algorithm 3.4 on exact random tensors at capacity: decomp-err and vec-err-max."""
    rank = largest_rank(d, order)
    for i in range(instances):
        rng = _generator(seed, d, order, i)
        factors = _random_factors(rng, rank, d)
        tensor = IncompleteSymmetricTensor.from_factors(factors, order)
        start = perf_counter()
        result = decompose(tensor, rank, rng)
        seconds = perf_counter() - start
        rebuilt = IncompleteSymmetricTensor.from_factors(result.factors, order)
        yield {
            "decomp_err": (rebuilt - tensor).norm() / tensor.norm(),
            "vec_err": largest_factor_error(factors, result.factors, order),
            "seconds": seconds,
        }


# -- Tables 3 and 4 --------------------------------------------------------------------------------


def approximation(
    d: int, order: int, noise: float, instances: int, seed: int
) -> Iterator[Instance]:
    """Algorithm 4.1 on random tensors with noise of norm `noise`: rel-err and abs-err."""
    rank = largest_rank(d, order)
    for i in range(instances):
        rng = _generator(seed, d, order, round(-1000 * np.log10(noise)), i)
        exact = IncompleteSymmetricTensor.from_factors(_random_factors(rng, rank, d), order)
        noisy = exact + _noise(rng, exact, noise)
        start = perf_counter()
        result = approximate(noisy, rank, rng)
        seconds = perf_counter() - start
        rebuilt = IncompleteSymmetricTensor.from_factors(result.factors, order)
        yield {
            "rel_err": (rebuilt - noisy).norm() / noise,
            "abs_err": (rebuilt - exact).norm(),
            "seconds": seconds,
        }


def expected_relative_error(d: int, order: int) -> float:
    """Share of the noise that no choice of r·d parameters can absorb: sqrt(1 − r·d / C(d, m))."""
    return float(np.sqrt(1 - largest_rank(d, order) * d / comb(d, order)))


# -- Table 5 ---------------------------------------------------------------------------------------


def law_of_section_6(
    rng: np.random.Generator, d: int, n_components: int, mean_scale: float
) -> DiagonalMixture:
    """Random mixture: weights uniform, normalized; means N(0, mean_scale²); σ_ij = |N(0, 1)|."""
    weights = rng.random(n_components)
    return DiagonalMixture(
        weights / weights.sum(),
        mean_scale * rng.standard_normal((n_components, d)),
        rng.standard_normal((n_components, d)) ** 2,
    )


def gaussian(
    d: int,
    order: int,
    n_rows: int,
    mean_scale: float,
    instances: int,
    seed: int,
    *,
    em: bool = True,
) -> Iterator[Instance]:
    """Accuracy of Algorithm 5.1, of scikit-learn's EM and of the true parameters on samples."""
    r = largest_rank(d, order)
    for i in range(instances):
        rng = _generator(seed, d, order, n_rows, i)
        truth = law_of_section_6(rng, d, r, mean_scale)
        rows, labels = truth.sample(n_rows, rng)
        start = perf_counter()
        fitted = fit(rows, r, order, method="paper", random_state=rng).mixture
        result = {
            "paper": clustering_accuracy(labels, fitted.predict(rows)),
            "seconds": perf_counter() - start,
            "bayes": clustering_accuracy(labels, truth.predict(rows)),
        }
        for starts in (1, 10) if em else ():
            result |= _scikit_learn_em(rows, labels, r, starts, i)
        yield result


def _scikit_learn_em(rows: Any, labels: Any, n_components: int, starts: int, seed: int) -> Instance:
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    begin = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = GaussianMixture(
            n_components,
            covariance_type="diag",
            init_params="k-means++",
            n_init=starts,
            max_iter=500,
            random_state=seed,
        ).fit(rows)
    return {
        f"em{starts}": clustering_accuracy(labels, model.predict(rows)),
        f"em{starts}_seconds": perf_counter() - begin,
    }


# -- Theorems 4.2 and 5.2 --------------------------------------------------------------------------


def stability(d: int, order: int, rank: int, instances: int, seed: int) -> Iterator[Instance]:
    """Theorem 4.2: max_i ‖q*_i − q_i‖/‖q_i‖ over ε/‖F‖, for each relative noise level."""
    for i in range(instances):
        rng = _generator(seed, d, order, rank, i)
        factors = _random_factors(rng, rank, d)
        exact = IncompleteSymmetricTensor.from_factors(factors, order)
        direction = _noise(rng, exact, exact.norm())  # one direction, scaled: the response is O(ε)
        ratios = []
        for level in RELATIVE_NOISE:
            result = approximate(exact + level * direction, rank, rng)
            ratios.append(largest_factor_error(factors, result.factors, order) / level)
        yield {"ratios": ratios}


@dataclass(frozen=True)
class PerturbedMoments:
    """Exact moments of a mixture, each tensor with random relative error of one size."""

    mixture: DiagonalMixture
    level: float
    seed: int

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return self.mixture.n_features

    def moment_tensor(self, order: int) -> IncompleteSymmetricTensor:
        """Perturbed E[y_I] on Ω_order."""
        exact = self.mixture.moment_tensor(order)
        rng = _generator(self.seed, order)
        return exact + _noise(rng, exact, self.level * exact.norm())

    def squared_moments(self, feature: int, order: int) -> NDArray[np.float64]:
        """Perturbed E[y_j² y_I]."""
        exact = self.mixture.squared_moments(feature, order)
        noise = _generator(self.seed, order, feature, 1).standard_normal(exact.size)
        return np.asarray(
            exact + noise * self.level * np.linalg.norm(exact) / np.linalg.norm(noise)
        )


def parameter_stability(
    d: int, order: int, n_components: int, instances: int, seed: int
) -> Iterator[Instance]:
    """Theorem 5.2: relative errors of the parameters over the relative error of the moments."""
    for i in range(instances):
        rng = _generator(seed, d, order, n_components, i, 2)
        truth = law_of_section_6(rng, d, n_components, 1.0)
        ratios: dict[str, list[float]] = {"weights": [], "means": [], "variances": []}
        direction = int(rng.integers(2**31))
        for level in RELATIVE_NOISE:
            moments = PerturbedMoments(truth, level, direction)
            try:
                errors = parameter_errors(
                    truth, learn_mixture(moments, n_components, order, rng).mixture
                )
            except MomentmixError:
                errors = dict.fromkeys(ratios, np.inf)
            for name, error in errors.items():
                ratios[name].append(error / level)
        yield ratios


def recovery(d: int, order: int, instances: int, seed: int) -> Iterator[Instance]:
    """Parameters from exact moments at capacity: the largest relative errors."""
    r = largest_rank(d, order)
    for i in range(instances):
        rng = _generator(seed, d, order, i, 1)
        truth = law_of_section_6(rng, d, r, 1.0)
        start = perf_counter()
        mixture = learn_mixture(truth, r, order, rng).mixture
        yield parameter_errors(truth, mixture) | {"seconds": perf_counter() - start}
