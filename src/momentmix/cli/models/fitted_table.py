"""A fitted mixture as a table of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from momentmix.errors import printable
from momentmix.wording import cleared, cut

if TYPE_CHECKING:
    from momentmix.fitting.result import FitResult
    from momentmix.mixture.mixture import Mixture
    from momentmix.mixture.parameter_table import Parameter

_LEAST_WIDTH, _MOST_WIDTH = 12, 32  # of names
_MOST_PAIRS = 8  # correlations of one component; the model file has all of them
_NEVER_SEEN = "never seen"


def fitted_table(mixture: Mixture, result: FitResult | None = None) -> list[str]:
    """Lines with the parameters of every component, ± half of 95 % intervals where known."""
    from momentmix.mixture.parameter_table import ParameterTable, numeric_columns

    table = ParameterTable(mixture)
    if result is not None and result.uncertainty is not None:
        table = ParameterTable(mixture, result.standard_errors, result.intervals())
    numbers = [(table.mean(j), table.deviation(j)) for j in numeric_columns(mixture)]
    probabilities, weights = table.probabilities(), table.weights()
    pairs, n_pairs = table.correlations(_MOST_PAIRS), mixture.parameters.blocks.n_pairs
    labels = [printable(x) for x in (*table.labels, *(p.label for p in probabilities))]
    width = max(_LEAST_WIDTH, min(_MOST_WIDTH, max(map(len, labels))))
    lines = [f"{'component':>9}  {'':<{width}}  {'mean':>24}  {'standard deviation':>24}"]
    if table.errors is not None and not np.isnan(table.errors.means).all():
        ends_too = ", (low … high) a whole one" if probabilities else ""
        lines.insert(0, f"± is half of a 95 % interval{ends_too}.")

    def line(p: Parameter, text: str) -> str:
        return f"{'':>9}  {cut(printable(p.label), width):<{width}}  {text}"

    for i in range(mixture.n_components):
        lines.append(f"{i:>9}  weight {_with_error(weights, i)}")
        for mean, deviation in numbers:
            texts = _with_error(mean, i), _with_error(deviation, i)
            is_seen = texts[0] != _NEVER_SEEN
            both = f"{texts[0]:>24}  {texts[1]:>24}" if is_seen else f"{_NEVER_SEEN:>24}"
            lines.append(line(mean, both))
        lines += [line(p, _probability(p, i)) for p in probabilities]
        for p, correlations in pairs:
            lines.append(f"{'':>9}  correlation {correlations[i]:.3g} of {printable(p.label)}")
    if n_pairs > len(pairs):
        lines.append(f"{'':>9}  {n_pairs - len(pairs)} more correlations of each component")
    return lines


def _probability(p: Parameter, i: int) -> str:
    """A probability, with its interval where it has one."""
    if p.estimate[i] != p.estimate[i]:
        return _NEVER_SEEN
    ends = "" if p.low[i] != p.low[i] else f" ({p.low[i]:.4f} … {p.high[i]:.4f})"
    return f"probability {p.estimate[i]:.4f}{ends}"


def _with_error(p: Parameter, i: int) -> str:
    """A number ± half of its interval."""
    value, error = cleared(p.estimate.tolist())[i], p.standard_error[i]
    if value != value:
        return _NEVER_SEEN
    return f"{value:.5g}" if error != error else f"{value:.5g} ± {1.96 * error:.2g}"
