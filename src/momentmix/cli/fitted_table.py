"""A fitted mixture as a table of text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from momentmix.errors import printable

if TYPE_CHECKING:
    from momentmix.fitting.result import FitResult
    from momentmix.mixture.mixture import Mixture


_WIDTH = 14
_MOST_PAIRS = 3  # of a block, the largest correlations first


def fitted_table(mixture: Mixture, result: FitResult | None = None) -> list[str]:
    """Lines with weight, means, standard deviations and correlations of every component.

    With a result that has standard errors, each number is followed by ± half the width of its 95 %
    interval.
    """
    from momentmix.displays.style import full_names_of

    errors = None if result is None or result.uncertainty is None else result.standard_errors
    names = full_names_of(mixture)
    width = max(12, min(_WIDTH + 10, max(len(printable(name)) for name in names)))
    lines = [f"{'component':>9}  {'':<{width}}  {'mean':>24}  {'standard deviation':>24}"]
    deviations = mixture.variances**0.5
    for i in range(mixture.n_components):
        weight = _with_error(mixture.weights[i], None if errors is None else errors.weights[i])
        lines.append(f"{i:>9}  weight {weight}")
        for j, name in enumerate(names):
            mean_error = deviation_error = None
            if errors is not None:
                mean_error = errors.means[i, j]
                deviation_error = errors.variances[i, j] / (2 * max(deviations[i, j], 1e-300))
            mean = _with_error(mixture.means[i, j], mean_error)
            deviation = _with_error(deviations[i, j], deviation_error)
            label = printable(name)
            label = label if len(label) <= width else label[: width - 1] + "…"
            lines.append(f"{'':>9}  {label:<{width}}  {mean:>24}  {deviation:>24}")
        lines += [f"{'':>9}  {line}" for line in _correlations(mixture, names, i)]
    return lines


def _correlations(mixture: Mixture, names: Sequence[str], component: int) -> list[str]:
    """A line for each block of several columns: its largest correlations in a component."""
    lines = []
    for block in mixture.blocks:
        found = block.correlations[component]
        pairs = sorted(combinations(range(len(block.columns)), 2), key=lambda p: -abs(found[p]))
        listed = [
            f"{printable(names[block.columns[a]])}, {printable(names[block.columns[b]])} "
            f"{found[a, b]:+.2f}"
            for a, b in pairs[:_MOST_PAIRS]
        ]
        more = f"; {len(pairs) - _MOST_PAIRS} more" * (len(pairs) > _MOST_PAIRS)
        if listed:
            lines.append(f"correlations {'; '.join(listed)}{more}")
    return lines


def _with_error(value: float, error: float | None) -> str:
    if error is None or error != error:
        return f"{value:.5g}"
    return f"{value:.5g} ± {1.96 * error:.2g}"
