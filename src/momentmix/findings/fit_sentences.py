"""The catalog of findings about fits: a sentence that says what was found, and a piece of advice.

Templates are filled by `str.format` with the numbers of the finding by name; ``{columns}``,
``{names}`` (without the noun) and ``{components}``; and ``{n:it|them}``, which chooses by the
number of columns or, where there are none, of components. Integers among the numbers choose in the
same way. Reports say "group" in place of "component".
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """The sentence of one kind of finding, and what to do."""

    text: str
    advice: str


# fmt: off
FITS: dict[str, Entry] = {
    # -- the number of components
    "over-capacity": Entry(
        "not identified from these moments: order {order} with {n_features} features tells at most "
        "{capacity} {capacity:component|components} apart, and there are {asked}.",
        "Use a higher order, fewer components, or the rows.",
    ),
    "too-few-rows": Entry(
        "too few rows: {n_rows:.0f} for {n_parameters} parameters, which need {least} at least.",
        "Collect more rows, or use fewer columns or components.",
    ),
    "spurious-components": Entry(
        "{components} {n:holds|hold} fewer rows than a component of {n_features} features needs, "
        "or almost no variance: a maximum of the likelihood that fits these rows alone.",
        "Do not read anything into the smallest components.",
    ),
    "continuum": Entry(
        "segments of a continuum: the rows show no gap that parts {components} from the others.",
        "Do not take {components} for groups of their own.",
    ),
    "better-number": Entry(
        "far better with another number: {better} {better:component has|components have} a BIC "
        "lower by {gain:,.0f}, {nats:.2g} nats a row.",
        "Try {better} {better:component|components}.",
    ),
    "not-converged": Entry(
        "not converged after {max_passes} {max_passes:pass|passes} of EM over the rows.",
        "Allow more passes over the rows: max_passes=500 (--max-passes 500).",
    ),
    # -- columns
    "constant-column": Entry(
        "{columns} {n:holds|hold} one value only; {n:it takes|they take} no part in the fit and "
        "{n:gets|get} the variance floor.",
        "Do without {columns}.",
    ),
    "duplicate-columns": Entry(
        "columns {pairs} are copies of each other up to shift and scale: they count twice.",
        "Keep one of {columns}.",
    ),
    "row-number": Entry(
        "{columns}: values grow evenly from row to row, as row numbers and time stamps do, "
        "and no measurements.",
        "Do without {columns}.",
    ),
    "discrete-column": Entry(
        "{columns} {n:repeats|repeat} values: a count, a code, a coarse grade or a value that "
        "stands for a missing one is not Gaussian within components, and a component can shrink "
        "to it.",
        "Name the family of {columns}, or see what the value means that repeats.",
    ),
    "column-shape": Entry(
        "{columns} {n:does|do} not follow the fitted mixture: not Gaussian within components, or a "
        "component is missing.",
        "Look at {columns}; a logarithm helps where a column is skewed to the right.",
    ),
    "dispersion": Entry(
        "within components, the variance of {columns} is not that of {n:its|their} family.",
        "Take counts that vary more as negative_binomial.",
    ),
    "correlated-columns": Entry(
        "columns correlated within components: {pairs}.",
        'Try another number of components, or join numbers: blocks="auto" (--blocks auto).',
    ),
    # -- missing cells
    "shared-gaps": Entry(
        "cells are not missing by the component alone, since gaps depend on gaps or values of "
        "other columns within components: {pairs}; weights and means are biased, or the components "
        "themselves are wrong.",
        'Take cells of {columns} as missing at random: missing="mar" (--missing mar).',
    ),
    "missing-groups": Entry(
        "{components} {n:differs|differ} from the others in nothing but missing cells: the "
        "observed values are those of a mixture of the others, as where a page was skipped.",
        'Take the cells as missing at random: missing="mar" (--missing mar).',
    ),
    "selected-values": Entry(
        "observed cells of {columns} are skewed within components, as where a cell is missing "
        "because of its own value; means and weights are then biased, and no other way to treat "
        "missing cells cures it.",
        "See whether large or small values of {columns} are the ones that are missing.",
    ),
    "dropped-differ": Entry(
        "rows with missing cells were left out, and their means differ from those of rows that "
        "were kept, in {columns}: weights and means of the fit are not those of all rows.",
        'Keep such rows: missing="mar" (--missing mar).',
    ),
    "missing-at-random": Entry(
        "cells of {columns} are taken as missing at random: by what is seen of their row, and not "
        "by the component itself; the test takes draws in their place.",
        "Nothing to do, unless gaps of {columns} say something of the component by themselves.",
    ),
    "never-seen": Entry(
        "{columns} {n:is|are} missing in all rows of some component: nothing is known of "
        "{n:it|them} there, and {n:its|their} parameters are NaN.",
        "See whether such rows can have a value of {columns}.",
    ),
    # -- rows
    "outlier-influence": Entry(
        "column {names} has a value {deviations:.3g} standard deviations from its mean; that one "
        "row moves the fit.",
        "Check the largest and smallest values of {columns}.",
    ),
    "outlier-rows": Entry(
        "{n_rows} {n_rows:row lies|rows lie} alone and far from all others, {where}{outliers}.",
        "Check these rows: typing errors and codes for missing values are the usual cause.",
    ),
    "duplicate-rows": Entry(
        "{copies} of {compared} rows are copies of another row; the test and the standard errors "
        "take them for independent observations.",
        "Check the rows that are copies.",
    ),
    "ordered-rows": Entry(
        "neighboring rows {words} within components, by the serial correlation of {columns}, as in "
        "rows in the order of time, in pairs, or sorted by a group; the test and the standard "
        "errors take rows for independent.",
        "See how the rows are ordered: neighbors {words} in {columns}.",
    ),
    # -- what the tests of a certificate say
    "misfit": Entry(
        "the moments do not fit ({groups}): corrected p-value {p_value}, effect size "
        "{effect_size:.2g}.",
        "See which columns differ from the fit: too few components, or columns that move together "
        "within a component, are the usual causes.",
    ),
    "imprecise": Entry(
        "too imprecise: the parameters' errors cost about {loss:.3f} of accuracy.",
        "Collect more rows.",
    ),
    "unknown-weights": Entry(
        "the data do not determine the {n:weight|weights} of {components}: {n:its|their} standard "
        "{n:error is|errors are} as large as that of an unknown share.",
        "Collect more rows, or use fewer components.",
    ),
    "unsupported": Entry(
        "not supported: {reason}",
        "Do not rely on the number of components.",
    ),
    "not-reproduced": Entry(
        "not reproduced: {reason}",
        "Do not take {components} for groups of their own.",
    ),
    "not-described": Entry(
        "not described: {reason}",
        "See which columns differ from the fit.",
    ),
    "untested": Entry(
        "no test: {reason}",
        "Check the model on rows that were not used for the fit.",
    ),
}
# fmt: on
