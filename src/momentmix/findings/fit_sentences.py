"""The catalog of findings about fits: sentences for statisticians, actions for everybody.

Templates are filled by `str.format` with the numbers of the finding by name; ``{columns}``,
``{names}`` (without the noun), ``{column}`` and ``{other}`` (the first two, without
quotes) and ``{components}``; ``{component}``, a "group" for everybody; and ``{n:it|them}``, which
chooses by the number of columns or, where there are none, of components. Integers among the numbers
choose in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from momentmix.wording import percent, short_number

if TYPE_CHECKING:
    from momentmix.findings.finding import Finding

Variants = Callable[["Finding"], str]
UNTESTED = "untested"  # a model that no test applies to


@dataclass(frozen=True)
class Entry:
    """The sentences of one kind of finding; a function chooses among variants of a template.

    They say what was found. What helps is tried, or on the page about findings.
    """

    text: str | Variants  # in the words of statistics
    action: str | Variants = "Read this finding."  # in plain words, as all that follow
    why: str | Variants = ""
    # Of each column, in parentheses after it; findings of such a kind are printed as one.
    aside: str | Variants = ""


def _outlier_influence(f: Finding) -> str:
    text = "column {names} has a value {deviations:.3g} standard deviations from its mean"
    times = short_number(float(f"{f.numbers['influence']:.2g}"), 1.0)
    text += f"; that one row moves third moments by {times} times their noise"
    return text + (", and the fit is about this row." if f.severity.value == "fatal" else ".")


def _outlier_rows(f: Finding) -> str:
    if not f.numbers["outliers"]:
        return (
            "{n_rows} rows lie alone and far from all others; these are too many for a background, "
            "and they spoil the fit."
        )
    where = "part of the fit, which {n_rows:it|they} may spoil" if f.remedy else "in no group"
    return (
        f"{{n_rows}} {{n_rows:row|rows}} far from all others, {where}: {{outliers}}; rows are "
        "counted from 0."
    )


def _discrete(f: Finding) -> str:
    n, grid = f.numbers["n_values"], f.numbers["grid"]
    return "{n_values} values" + (", multiples of {grid:.6g}" if grid > 0 and n > 2 else "")


def _duplicate_rows(f: Finding) -> str:
    copies, compared = f.numbers["copies"], f.numbers["compared"]
    among = " of {compared} that were compared" if compared < f.numbers["n_rows"] else ""
    return (
        f"{{copies}} rows{among} ({percent(copies / compared)}) are copies of another row; the "
        "test and the standard errors take them for independent observations."
    )


def _neighbors(f: Finding) -> str:
    return "are alike" if f.numbers.get("is_alike", True) else "differ more than by chance"


_FEWER_AVERAGES = (
    "Know that this fit could not be tested.",
    "There are too few averages to compare, so that a misfit could not be seen.",
)

# fmt: off
FITS: dict[str, Entry] = {
    # -- the number of components, and rows beside it
    "over-capacity": Entry(
        "not identified from these moments: order {order} with {n_features} features tells at most "
        "{capacity} {capacity:component|components} apart, and there are {asked}.",
        "Do not rely on so many groups.",
        "There are too few columns to tell so many groups apart by averages alone.",
    ),
    "too-few-rows": Entry(
        "too few rows: {n_rows:.0f} for {n_parameters} parameters, which need {least} at least.",
        "Collect more rows.",
        "There are too few rows for so many columns and groups.",
    ),
    "spurious-components": Entry(
        "{components} {n:holds|hold} fewer rows than a component of {n_features} features needs, "
        "or almost no variance: a maximum of the likelihood that fits these rows alone.",
        "Do not read anything into the smallest groups.",
        "{components} {n:has|have} only a handful of rows.",
    ),
    "cut": Entry(
        "the mixture has a gap between {components}, and the rows show none there: they are parts "
        "of one cloud.",
        "Do not take {components} for groups of their own.",
        "{components} are parts of one cloud of rows.",
    ),
    # -- columns
    "constant-column": Entry(
        "{columns} {n:holds|hold} one value only; {n:it takes|they take} no part in the fit and "
        "{n:gets|get} the variance floor.",
        "Do without {columns}.",
        "All rows have the same value there.",
    ),
    "duplicate-columns": Entry(
        "columns {pairs} are copies of each other up to shift and scale: they count twice.",
        "See which of {columns} is needed.",
        "They are copies of each other, and count twice.",
    ),
    "row-number": Entry(
        "{columns}: values grow evenly from row to row, as row numbers and time stamps do, "
        "and no measurements.",
        "Do without {columns}.",
        "The values grow evenly from row to row: a row number or a time, not a measurement.",
    ),
    "discrete-column": Entry(
        "{columns} {n:has|have} few different values: a count, a code or a coarse grade is not "
        "Gaussian within components, and a component can shrink to one value.",
        "See what {columns} {n:means|mean}.",
        "There are few different values, and the model takes them for measurements.",
        _discrete,
    ),
    "repeated-value": Entry(
        "{columns} {n:repeats|repeat} one value and {n:varies|vary} in the other rows: a component "
        "can shrink to that value.",
        "Check the value that repeats in {columns}.",
        "It may stand for “missing”.",
        "{value:.6g} in {share:.0%} of the rows",
    ),
    "skewed-column": Entry(
        "{columns} {n:is|are} skewed to the right, and some components differ in nothing but "
        "{n:its|their} values: fewer components describe {n:its logarithm|their logarithms} as "
        "well.",
        "Look at the largest values of {columns}.",
        "A few values are far larger than the others, and some groups differ in nothing else.",
    ),
    "column-shape": Entry(
        "{columns} {n:does|do} not follow the fitted mixture: not Gaussian within components, or a "
        "component is missing.",
        "Look at {columns}.",
        "Within a group the values do not follow the shape that the model expects.",
    ),
    "heavy-tails": Entry(
        lambda f: "{columns} {n:has|have} heavy tails: the mixture expects one row in 50,000 so "
        "far out." if "n_far" in f.numbers else
        "{columns}: the fourth moment is larger than the mixture's, as that of heavy tails or of a "
        "small component that was missed.",
        "Look at the extreme values of {columns}.",
        "There are more extreme values than the model expects.",
        lambda f: "{n_far} of {n_rows} rows far out" if "n_far" in f.numbers else "",
    ),
    "independent-column": Entry(
        "{columns} {n:is|are} not Gaussian and {n:depends|depend} on no other column: components "
        "that describe {n:it|them} are missing elsewhere.",
        "Look at {columns} alone.",
        "{n:It has a shape of its own that is|They have shapes of their own that are} unrelated to "
        "the other columns.",
    ),
    "dispersion": Entry(
        "within components, the variance of {columns} is not that of {n:its|their} family.",
        "Look at the counts of {columns}.",
        "The counts vary more or less within a group than counts of independent events do.",
        "{ratio:.2g} times that of {law}",
    ),
    # -- several columns
    "correlated-columns": Entry(
        "columns correlated within components: {pairs}.",
        "Look at the columns that move together: {columns}.",
        "Within a group one rises or falls with the other, which the model does not allow for.",
    ),
    # -- missing cells
    "shared-gaps": Entry(
        "cells are not missing by the component alone, since gaps depend on gaps or values of "
        "other columns within components: {pairs}; weights and means are biased, or the components "
        "themselves are wrong.",
        "See why cells of {columns} are missing, and fit them as missing at random.",
        "The model takes gaps of a column for independent of all others within a group, and these "
        "are not.",
    ),
    "missing-groups": Entry(
        "{components} {n:differs|differ} from the others in nothing but missing cells: the "
        "observed values are those of a mixture of the others, as where a page was skipped.",
        "Do not take {components} for {n:a group|groups}: fit the cells as missing at random.",
        "{components} {n:has|have} other missing cells, and the same values.",
    ),
    "selected-values": Entry(
        "observed cells of {columns} are skewed within components, as where a cell is missing "
        "because of its own value; means and weights are then biased, and no other way to treat "
        "missing cells cures it.",
        "See whether large or small values of {columns} are the ones that are missing.",
        "Then the averages of the cells that are there are not those of all.",
    ),
    "dropped-differ": Entry(
        "rows with missing cells were left out, and their means differ from those of rows that "
        "were kept, in {columns}: weights and means of the fit are not those of all rows.",
        "Know that rows with gaps differ from the others in {columns}.",
        "Without such rows, the shares of the groups are not those of all rows.",
    ),
    "missing-at-random": Entry(
        "cells of {columns} are taken as missing at random: by what is seen of their row, and not "
        "by the component itself; the test of the moments leaves these columns out.",
        "Nothing to do, unless gaps of {columns} say something of the group by themselves.",
        "The fit uses the cells that are seen. Gaps tell groups apart in no other way.",
    ),
    "never-seen": Entry(
        "{columns} {n:is|are} missing in all rows of some component: nothing is known of "
        "{n:it|them} there, and {n:its|their} parameters are NaN.",
        "See whether such rows can have a value of {columns}.",
        "In some group the cell is always missing, so that nothing is known of it there.",
        "{count} {count:component|components}",
    ),
    # -- rows
    "outlier-influence": Entry(
        _outlier_influence,
        "Check the largest and smallest values of {columns}.",
        "One row lies so far from the others that it changes the answer.",
    ),
    "outlier-rows": Entry(
        _outlier_rows,
        "Check the rows that lie far from all others.",
        "Typing errors and codes for missing values such as -999 are the usual cause.",
    ),
    "duplicate-rows": Entry(
        _duplicate_rows,
        "Check the rows that are copies.",
        "Copies are counted as if they were separate observations.",
    ),
    "ordered-rows": Entry(
        lambda f: f"neighboring rows {_neighbors(f)} within components, by the serial correlation "
        "of {columns}, as in rows in the order of time, in pairs, or sorted by a group; the test "
        "and the standard errors take rows for independent.",
        lambda f: f"See how the rows are ordered: neighbors {_neighbors(f)} in {{columns}}.",
        "Rows in the order of time, in pairs, or sorted by a group are not independent, and "
        "intervals take them for independent.",
    ),
    # -- what the tests of a certificate say
    "no-power": Entry(
        "the test says nothing: a statistic of {statistic:.3g} on {degrees_of_freedom} degrees of "
        "freedom is far below chance, as where a few extreme rows carry the moments.",
        "Look at the most extreme values.",
        "A few extreme rows dominate all averages, so that the test cannot see a misfit.",
    ),
    "misfit": Entry(
        lambda f: "the moments do not fit" + " ({groups})" * bool(f.numbers["groups"])
        + ": corrected p-value {p_value}, effect size {effect_size:.2g}.",
        "Look at the columns where the thin line leaves the gray.",
        "Averages of the data differ from those of the model by more than chance. Too few groups, "
        "or columns that move together within a group, are the usual causes.",
    ),
    "imprecise": Entry(
        "too imprecise: the parameters' errors cost about {loss:.3f} of accuracy.",
        "Collect more rows.",
        lambda f: f"The borders of the groups are uncertain: with exact parameters about "
        f"{percent(f.numbers['loss'])} more of the rows would be in the right group.",
    ),
    "unknown-weights": Entry(
        "the data do not determine the {n:weight|weights} of {components}: {n:its|their} standard "
        "{n:error is|errors are} above 0.5, more than that of any share.",
        "Collect more rows.",
        "The data do not show how large the groups are.",
    ),
    "unsupported": Entry(
        "not supported: {reason}",
        "Do not rely on the number of groups.",
        "Fewer groups, or others, describe the data as well.",
    ),
    "not-reproduced": Entry(
        "not reproduced: {reason}",
        "Do not take {components} for groups of their own.",
        "Halves of the rows do not give {n:it|them}.",
    ),
    "not-described": Entry(
        "not described: {reason}",
        "Look at the columns where the thin line leaves the gray.",
        "The model is far from the distribution of the rows.",
    ),
    "not-converged": Entry(
        "not converged after {max_passes} {max_passes:pass|passes} of EM over the rows.",
        "Allow more passes over the rows.",
        "The fit was stopped before it came to rest.",
    ),
    "better-number": Entry(
        "far better with another number: {better} {better:component has|components have} a BIC "
        "lower by {gain:,.0f}, {nats:.2g} nats a row.",
        "Try {better} {better:group|groups}.",
        "Another number of groups describes the rows far better.",
    ),
    "nothing-to-test": Entry(
        "nothing to test: there are no more moment conditions than parameters.",
        *_FEWER_AVERAGES,
    ),
    "support-unknown": Entry("{reason}", *_FEWER_AVERAGES),
    UNTESTED: Entry(
        "no test: joined columns with missing cells, and columns whose cells are missing at "
        "random, are fitted by the likelihood alone, and the moments of what is seen do not test "
        "it.",
        "Check the model on rows that were not used for the fit.",
        "Such columns with missing cells have no test.",
    ),
}
# fmt: on
