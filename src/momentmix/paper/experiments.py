"""The experiments of section 6: one dictionary for each instance.

reproduce.py seeds the generators, collects the instances and adds the printed figures.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from math import comb
from time import perf_counter
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.api import fit as fit_summary
from momentmix.mixture.matching import clustering_accuracy, largest_factor_error
from momentmix.mixture.mixture import Mixture
from momentmix.paper.approximate import best_powers
from momentmix.paper.decompose import decompose
from momentmix.paper.gaussian_mixture import fit, raise_variances
from momentmix.paper.incomplete_tensor import IncompleteSymmetricTensor
from momentmix.paper.ranks import largest_rank
from momentmix.summary.summarize import summarize
from momentmix.summary.summary import MomentSummary

Instance = dict[str, Any]
ROW_COUNTS = (10**4, 10**5, 10**6, 10**7)  # of Table 5; the paper does not say how many it used
EM_ROWS = 10**5  # at most, for EM over rows
_SHARD, _NEW_ROWS = 10**5, 10**5


def generator(seed: int, *key: int) -> np.random.Generator:
    """Return the generator of an instance; a part of a table can be run alone."""
    return np.random.default_rng(np.random.SeedSequence([seed, *key]))


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of `work`, and its seconds."""
    start = perf_counter()
    return work(), perf_counter() - start


def _random_tensor(
    rng: np.random.Generator, rank: int, d: int, order: int
) -> tuple[Float, IncompleteSymmetricTensor]:
    factors = rng.standard_normal((rank, d))  # (r, d)  eq:randomF
    return factors, IncompleteSymmetricTensor.from_factors(factors, order)


def _noise(
    rng: np.random.Generator, like: IncompleteSymmetricTensor, size: float
) -> IncompleteSymmetricTensor:
    """Return a random tensor on Ω_m of Hilbert–Schmidt norm `size`."""
    values = rng.standard_normal(like.values.size)
    raw = IncompleteSymmetricTensor(values, like.n_features, like.order)
    return raw * (size / raw.norm())


def decomposition(rng: np.random.Generator, d: int, order: int) -> Instance:
    """Table 2: Algorithm 3.4 on an exact random tensor at capacity, decomp-err and vec-err-max."""
    rank = largest_rank(d, order)
    factors, tensor = _random_tensor(rng, rank, d, order)
    result, seconds = timed(lambda: decompose(tensor, rank, rng))
    rebuilt = IncompleteSymmetricTensor.from_factors(result.factors, order)
    return {
        "decomp_err": (rebuilt - tensor).norm() / tensor.norm(),
        "vec_err": largest_factor_error(factors, result.factors, order),
        "seconds": seconds,
    }


def approximation(rng: np.random.Generator, d: int, order: int, noise: float) -> Instance:
    """Tables 3 and 4: Algorithm 4.1 under noise of norm `noise`, rel-err and abs-err."""
    rank = largest_rank(d, order)
    exact = _random_tensor(rng, rank, d, order)[1]
    noisy = exact + _noise(rng, exact, noise)
    result, seconds = timed(lambda: best_powers(noisy, rank, rng))
    rebuilt = IncompleteSymmetricTensor.from_factors(result.factors, order)
    return {
        "rel_err": (rebuilt - noisy).norm() / noise,
        "abs_err": (rebuilt - exact).norm(),
        "seconds": seconds,
    }


def expected_relative_error(d: int, order: int) -> float:
    """Share of the noise that no choice of r·d parameters can absorb: sqrt(1 − r·d / C(d, m))."""
    return float(np.sqrt(1 - largest_rank(d, order) * d / comb(d, order)))


def law_of_section_6(
    rng: np.random.Generator, d: int, n_components: int, mean_scale: float = 1.0
) -> Mixture:
    """Random mixture: weights uniform, normalized; means N(0, mean_scale²); σ_ij = |N(0, 1)|.

    The paper does not say how the means are drawn; N(0, I) is the choice here.
    """
    weights = rng.random(n_components)
    return Mixture.diagonal(
        weights / weights.sum(),
        mean_scale * rng.standard_normal((n_components, d)),
        rng.standard_normal((n_components, d)) ** 2,
    )


def gaussian(
    rng: np.random.Generator, d: int, order: int, most_rows: int, count: Callable[[int], Any]
) -> list[Instance]:
    """Table 5: accuracy on new rows by the number of rows, which `count` counts.

    The rows come in shards, each of which is summarized once and added to the summary of those
    before; none is kept, but for the 1e5 of EM.
    """
    r = largest_rank(d, order)
    truth = law_of_section_6(rng, d, r)
    new_rows, labels = truth.sample(_NEW_ROWS, rng)

    def accuracy(mixture: Any) -> float:
        return clustering_accuracy(labels, mixture.predict(new_rows))

    exact = accuracy(truth)
    summary = MomentSummary(d, order, squared_order=max(order - 2, min(2, order - 1)))
    known, lines = np.empty((0, d)), []
    for n_rows in (n for n in ROW_COUNTS if n <= most_rows):
        start = perf_counter()
        while summary.n_rows < n_rows:
            size = min(_SHARD, n_rows - summary.n_rows)
            shard = truth.sample(size, rng)[0]
            summary = summary + summarize(
                shard, order, squared_order=summary.squared_order, progress=False
            )
            known = np.concatenate([known, shard[: EM_ROWS - len(known)]])
            count(size)
        line: Instance = {"N": n_rows, "bayes": exact, "summary_seconds": perf_counter() - start}
        learn = partial(fit, summary, r, order, variance_floor=0.0, random_state=rng)
        found, line["seconds"] = timed(learn)
        printed = found.mixture
        line["paper"] = accuracy(raise_variances(printed, summary, 0.1))
        # Zeros have no density; a variance next to zero attracts no row either.
        line["as_printed"] = accuracy(raise_variances(printed, summary, 1e-9))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            line["default"] = accuracy(fit_summary(summary, r, random_state=rng).mixture)
            line["em1"] = accuracy(_em_from_one_start(known, r, rng)) if n_rows <= EM_ROWS else None
        lines.append(line)
    return lines


def _em_from_one_start(rows: Float, n_components: int, rng: np.random.Generator) -> Any:
    """EM with the settings of the paper's ``fitgmdist``, whose start is k-means++ as well."""
    from sklearn.mixture import GaussianMixture

    return GaussianMixture(
        n_components, covariance_type="diag", init_params="k-means++", n_init=1, max_iter=100,
        reg_covar=1e-3, random_state=int(rng.integers(2**31)),
    ).fit(rows)  # fmt: skip
