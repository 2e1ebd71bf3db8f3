"""A fitted mixture as a table of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from momentmix.errors import printable

if TYPE_CHECKING:
    from momentmix.displays.probabilities import Probabilities
    from momentmix.fitting.result import FitResult
    from momentmix.mixture.mixture import Mixture


_LEAST_WIDTH, _MOST_WIDTH = 12, 32  # of names
_MOST_PAIRS = 8  # correlations of one component; the model file has all of them


def fitted_table(mixture: Mixture, result: FitResult | None = None) -> list[str]:
    """Lines with weight, means and standard deviations of every component.

    Levels, and cells that may be missing, have their probabilities, with 95 % intervals. Joined
    columns have their strongest correlations as well. With a result that has standard
    errors, each number is followed by ± half the width of its 95 % interval.
    """
    from momentmix.displays.probabilities import all_probabilities
    from momentmix.displays.style import strongest_pairs, value_names_of
    from momentmix.mixture.overall import numeric_columns

    errors = None if result is None or result.uncertainty is None else result.standard_errors
    names = value_names_of(mixture)
    ends = None if result is None or result.uncertainty is None else result.intervals()
    groups = all_probabilities(mixture, ends)
    labels = [*names, *(label for group in groups for label in group.full_labels)]
    longest = max(len(printable(label)) for label in labels)
    width = max(_LEAST_WIDTH, min(_MOST_WIDTH, longest))
    lines = [f"{'component':>9}  {'':<{width}}  {'mean':>24}  {'standard deviation':>24}"]
    if errors is not None:
        ends_too = ", (low … high) a whole one" if groups else ""
        lines.insert(0, f"± is half of a 95 % interval{ends_too}.")
    deviations, pairs = mixture.variances**0.5, mixture.parameters.blocks.pairs
    shown = strongest_pairs(mixture, _MOST_PAIRS)
    column_of = range(len(names)) if mixture.schema is None else mixture.schema.column_of
    for i in range(mixture.n_components):
        weight = _with_error(mixture.weights[i], None if errors is None else errors.weights[i])
        lines.append(f"{i:>9}  weight {weight}")
        for j in numeric_columns(mixture):
            name = names[j]
            mean_error = deviation_error = None
            if errors is not None:
                mean_error = errors.means[i, j]
                deviation_error = errors.variances[i, j] / (2 * max(deviations[i, j], 1e-300))
            if mixture.means[i, j] != mixture.means[i, j]:
                lines.append(f"{'':>9}  {printable(name):<{width}}  {'never seen':>24}")
                continue
            mean = _with_error(mixture.means[i, j], mean_error)
            deviation = _with_error(deviations[i, j], deviation_error)
            label = _label(name, width)
            lines.append(f"{'':>9}  {label:<{width}}  {mean:>24}  {deviation:>24}")
        lines += _probability_lines(groups, i, width)
        for place in shown:
            label = ", ".join(printable(names[column_of[j]]) for j in pairs[place])
            correlation = mixture.parameters.correlations[i, place]
            lines.append(f"{'':>9}  correlation {correlation:.3g} of {label}")
    if len(shown) < len(pairs):
        lines.append(f"{'':>9}  {len(pairs) - len(shown)} more correlations of each component")
    return lines


def _label(name: str, width: int) -> str:
    label = printable(name)
    return label if len(label) <= width else label[: width - 1] + "…"


def _probability_lines(groups: list[Probabilities], component: int, width: int) -> list[str]:
    """Probabilities of levels and of cells being seen, with intervals where there are any."""
    lines = []
    for group in groups:
        for k, label in enumerate(group.full_labels):
            value, text = group.values[component, k], "never seen"
            if value == value:
                text = f"probability {value:.4f}"
                if group.low is not None and group.high is not None:
                    ends = group.low[component, k], group.high[component, k]
                    text += f" ({ends[0]:.4f} … {ends[1]:.4f})"
            lines.append(f"{'':>9}  {_label(label, width):<{width}}  {text}")
    return lines


def _with_error(value: float, error: float | None) -> str:
    if error is None or error != error:
        return f"{value:.5g}"
    return f"{value:.5g} ± {1.96 * error:.2g}"
