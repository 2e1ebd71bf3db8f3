"""One component less: the pair whose merge costs least, then EM."""

from __future__ import annotations

from momentmix._typing import Float
from momentmix.fitting.em.em import settle
from momentmix.fitting.em.pooling import merges_by_bound
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import Structure, VariancePrior

_MERGES = 6  # pairs whose merge costs least by a bound: the best is among them


def one_less(
    features: Float,
    parameters: Parameters,
    floor: Float | Structure,
    n_steps: int,
    n_merges: int = _MERGES,
    n_threads: int = 1,
    least_gain: float = 0.0,
    target: float | None = None,
) -> Parameters:
    """The best mixture with one component less that EM finds from merged pairs.

    `least_gain` and `target` end the EM steps early, as in `settle`.
    """
    prior = VariancePrior.of_rows(features.shape[1], parameters.n_components - 1, floor)
    start = Parameters.stack(merges_by_bound(parameters, n_merges)).normalized()
    settled, values = settle(features, start, prior, n_steps, n_threads, least_gain, target)
    return settled[int(values.argmax())]
