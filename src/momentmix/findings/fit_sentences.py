"""The catalog of findings about fits: sentences for statisticians, actions for everybody.

Templates are filled by `str.format` with the numbers of the finding by name; ``{code}``, its
remedy; ``{columns}``, ``{names}`` (without the noun), ``{each[0]}``, ``{column}`` and ``{other}``
(the first two, without quotes) and ``{components}``; ``{component}``, a "group" for everybody; and
``{n:it|them}``, which chooses by the number of columns or, where there are none, of components.
Integers among the numbers choose in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from momentmix.findings.finding import Finding

Variants = Callable[["Finding"], str]
UNTESTED = "untested"  # a model that no test applies to


@dataclass(frozen=True)
class Entry:
    """The sentences of one kind of finding; a function chooses among variants of a template."""

    text: str | Variants  # in the words of statistics
    action: str | Variants = "Read this finding."  # in plain words, as all that follow
    why: str = ""


def _correlated(f: Finding) -> str:
    cure = "them and fit to the rows, since moments need three blocks"
    if f.remedy.get("blocks") == "auto":
        cure = "the columns that belong together"
    elif not f.numbers["needs_rows"]:
        cure = "them"
    return f"columns correlated within components: {{pairs}}. Join {cure}: {{code}}"


def _outlier_influence(f: Finding) -> str:
    text = "column {names} has a value {deviations:.3g} standard deviations from its mean"
    if "influence" not in f.numbers:
        return text + "; check it."
    text += "; that one row moves third moments by {influence:.2g} times their noise. "
    is_fatal = f.severity.value == "fatal"
    cure = "The fit is about this row. Correct it or leave it out." if is_fatal else "Check it."
    return text + cure


def _outlier_rows(f: Finding) -> str:
    if not f.numbers["outliers"]:
        return (
            "{n_rows} rows lie alone and far from all others; these are too many for a background, "
            "and they spoil the fit. Correct them, or transform heavy-tailed columns."
        )
    which = "{n_rows} {n_rows:row|rows} far from all others, "
    rows = ": {outliers}; rows are counted from 0. "
    if not f.remedy:
        return (
            f"{which}in no group{rows}The background takes {{n_rows:it|them}}; check for typing "
            "errors and codes for missing values."
        )
    return (
        f"{which}part of the fit, which {{n_rows:it|they}} may spoil{rows}Correct "
        "{n_rows:it|them}, leave {n_rows:it|them} out, or use {code}."
    )


def _dispersion(f: Finding) -> str:
    more, cure = "less", "Check that it is a count, or take the column as gaussian."
    if f.numbers["ratio"] > 1:
        more = "more"
        cure = "Cut it into levels, as 0, 1 to 2, 3 or more, or ask for more components."
        if f.remedy:
            cure = "Take it as a count with a variance of its own: {code}."
    return (
        f"within components, {{names}} varies {more} than {{law}}: its variance is about "
        f"{{ratio:.2g}} times that of the fit. {cure}"
    )


def _discrete(f: Finding) -> str:
    n, grid = f.numbers["n_values"], f.numbers["grid"]
    count = "two" if n == 2 else "only {n_values}"
    on_grid = ", multiples of {grid:.6g}" if grid > 0 and n > 2 else ""
    cure = "Name {n:its family|their families}, {code}, or leave" if f.remedy else "Leave"
    cure += " {n:it|them} out."
    return (
        f"{{columns}} {{n:has|have}} {count} different values{on_grid}: a count, a code or a "
        "coarse grade is not Gaussian within components, and a component can shrink to one value. "
        + cure
    )


def _duplicate_rows(f: Finding) -> str:
    copies, compared = f.numbers["copies"], f.numbers["compared"]
    among = " of {compared} that were compared" if compared < f.numbers["n_rows"] else ""
    return (
        f"{{copies}} rows{among} ({copies / compared:.0%}) are copies of another row; the test and "
        "the standard errors take them for independent observations. Keep one of each."
    )


_FEWER_AVERAGES = (
    "Give the rows in place of a summary, or more columns.",
    "There are too few averages to compare, so that a misfit could not be seen.",
)

# fmt: off
FITS: dict[str, Entry] = {
    # -- the number of components, and rows beside it
    "over-capacity": Entry(
        lambda f: "not identified from these moments: order {order} with {n_features} features "
        "tells at most {capacity} {capacity:component|components} apart, {asked} were asked."
        + " The answer rests on the rows alone." * bool(f.numbers["from_rows"]),
        "Give more columns.",
        "There are too few columns to tell so many groups apart by averages alone.",
    ),
    "capacity-margin": Entry(
        "{asked} components are the most that order {order} with {n_features} features identifies; "
        "a higher order leaves a margin.",
        "Summarize with a higher order.",
        "This is the largest number of groups that these columns can tell apart.",
    ),
    "too-few-rows": Entry(
        "too few rows: {n_rows:.0f} rows for {n_parameters} parameters. Use at least {least} rows, "
        "or fewer components.",
        "Collect more rows.",
        "There are too few rows to describe so many groups.",
    ),
    "spurious-components": Entry(
        "{components} {n:holds|hold} fewer rows than a component of {n_features} features needs, "
        "or almost no variance: a maximum of the likelihood that fits these rows alone. Use fewer "
        "components.",
        "Do not read anything into the smallest groups.",
        "{components} {n:has|have} only a handful of rows.",
    ),
    "cut": Entry(
        "the mixture has a gap between {components}, and the rows show none there: they are parts "
        "of one cloud. Use fewer components, or join columns.",
        "Do not take {components} for groups of their own.",
        "{components} are parts of one cloud of rows.",
    ),
    "light-components": Entry(
        "{components} {n:holds|hold} few rows: means and variances are rough.",
        "Read small groups with care.",
        "{components} {n:has|have} few rows, so that the numbers are rough.",
    ),
    "conditioning": Entry(
        lambda f: "the parameters are barely determined by the moments"
        + " (condition number {condition_number:.1g})" * bool(f.numbers["condition_number"])
        + "; some components may be interchangeable. Use fewer components, a higher order, or more "
        "rows.",
        "Collect more rows.",
        "Some groups are so alike that the data hardly tell them apart.",
    ),
    # -- columns
    "empty-level": Entry(
        "{levels}: the same in all rows, as of a level that nobody has; components give it a "
        "probability of nearly 0. Leave the level out, or join it with another.",
        "Leave out values that no row has: {columns}.",
        "A category that nobody has says nothing about the groups.",
    ),
    "constant-column": Entry(
        "{columns} {n:holds|hold} one value only; {n:it takes|they take} no part in the fit and "
        "{n:gets|get} the variance floor. Leave {n:it|them} out.",
        "Leave out {columns}.",
        "All rows have the same value there.",
    ),
    "duplicate-columns": Entry(
        "columns {each[0]} and {each[1]} are copies of each other up to shift and scale: they "
        "count twice. Keep one.",
        "Keep only one of {columns}.",
        "They are copies of each other, and would count twice.",
    ),
    "row-number": Entry(
        "{columns}: values grow evenly from row to row, as row numbers and time stamps do. They "
        "are no measurement; leave them out.",
        "Leave out {columns}.",
        "The values grow evenly from row to row: a row number or a time, not a measurement.",
    ),
    "discrete-column": Entry(
        _discrete,
        "Say what {columns} {n:is|are}, or leave {n:it|them} out.",
        "There are few different values, and the model takes them for measurements.",
    ),
    "repeated-value": Entry(
        "column {names} is {value:.6g} in {share:.0%} of the rows and varies in the others: a "
        "component can shrink to that value. If it stands for a missing value, drop such rows; "
        "else fit the other rows apart.",
        "Check the value that repeats in {columns}.",
        "If it stands for “missing”, leave such rows out or mark the cells as missing.",
    ),
    "rounded-column": Entry(
        lambda f: "column {names} is rounded to multiples of {grid:.6g}, which is {width:.2g} "
        "deviations of the narrowest component: variances are too large by a twelfth of its "
        "square. " + ("If it counts something, take it as counts; else add uniform noise of that "
        "width." if f.numbers["is_whole"] else "Use unrounded values, or add uniform noise of that "
        "width."),
        "Use values of {columns} that are not rounded, if there are any.",
        "They are rounded so coarsely that it blurs the groups.",
    ),
    "variance-floor": Entry(
        lambda f: "{count} {count:variance|variances} at the floor ({floor:.1g} of the feature's "
        "variance), in {columns}." if "count" in f.numbers else
        "a variance of {columns} is at the floor ({floor:.1g} of the column's): a component holds "
        "one of the values that repeat there.",
        "Look at {columns}.",
        "In some group nearly all rows have the same value there.",
    ),
    "skewed-column": Entry(
        "{columns} {n:is|are} skewed to the right, and some components differ in nothing but "
        "{n:its|their} values: fewer components describe {n:its logarithm|their logarithms} as "
        "well. Try logarithms, {code}.",
        "Look at the largest values of {columns}.",
        "A few values are far larger than the others, and some groups differ in nothing else: with "
        "logarithms fewer groups will do.",
    ),
    "column-shape": Entry(
        lambda f: "{columns} {n:does|do} not follow the fitted mixture: not Gaussian within "
        "components, or a component is missing. "
        + ("Try logarithms, {code}, or leave out" if f.remedy else "Transform or leave out")
        + " such columns, or ask for more components.",
        "Look at {columns}.",
        "Within a group the values do not follow the shape that the model expects.",
    ),
    "heavy-tails": Entry(
        lambda f: "column {names} has heavy tails: {n_far} of {n_rows} rows lie where the mixture "
        "expects one in 50,000. Transform or trim the column." if "n_far" in f.numbers else
        "{columns}: the fourth moment is larger than the mixture's, as that of heavy tails or of a "
        "small component that was missed. Transform or trim such columns.",
        "Look at the extreme values of {columns}.",
        "There are more extreme values than the model expects.",
    ),
    "independent-column": Entry(
        "{columns} is not Gaussian and does not depend on the other columns: components that "
        "describe it are missing elsewhere. Leave it out, or fit it alone.",
        "Leave out {columns}, or fit {n:it|them} alone.",
        "It has a shape of its own that is unrelated to the other columns.",
    ),
    "zeros": Entry(
        "column {names} is 0 in {share:.0%} of the rows and in {wanted:.0%} by the mixture: more "
        "zeros than {law} has. Ask for more components, or cut it into levels, as 0, 1 to 2, 3 or "
        "more.",
        "Cut {columns} into levels.",
        "Some rows are 0 for a reason of their own.",
    ),
    "dispersion": Entry(
        _dispersion,
        "Look at the counts of {columns}.",
        "The counts vary more or less within a group than counts of independent events do.",
    ),
    "no-information": Entry(
        "{columns}: about the same in all components, so that {n:it says|they say} next to nothing "
        "about them. Leaving the {n:column|columns} out changes little.",
        "You may leave out {columns}.",
        "The values are about the same in all groups.",
    ),
    # -- several columns
    "correlated-columns": Entry(
        _correlated,
        "Look at the columns that move together: {columns}.",
        "Within a group one rises or falls with the other, which the model does not allow for.",
    ),
    "dependent-columns": Entry(
        "columns depend on each other within components: {pairs}. Ask for more components, or keep "
        "one column of each pair.",
        "Keep only one of {columns}.",
        "Within a group one depends on the other, which the model does not allow for.",
    ),
    "constraint": Entry(
        "the rows reject {constraint} covariances: without the constraint EM gains {gain:.2g} nats "
        "a row, and BIC asks for {price:.2g}. Use {code}, or leave the constraint out.",
        "Allow the groups to have different spreads.",
        "The rows do not agree with the restriction that was asked for (covariance_type).",
    ),
    # -- missing cells
    "shared-gaps": Entry(
        lambda f: ("gaps depend on gaps or values of other columns within components: {pairs}. Ask "
        "for more components." if "pairs" in f.numbers else
        "{columns} have gaps in the same rows as another of them; the model takes gaps of "
        "different columns for independent within components.")
        + " If gaps depend on what is seen of their row, fit the rows with {code}.",
        "Say that cells are missing at random, if gaps depend on what is seen of their row.",
        "The model takes gaps of different columns for independent, and these are not.",
    ),
    "missing-by-component": Entry(
        "whether a cell is missing depends on the component, in {columns} ({worst} is seen in "
        "{low:.0%} to {high:.0%} of the rows of a component); the model allows for it.",
        "Nothing to do: cells of {columns} are missing more often in some groups.",
        "The model allows for it. Dropping such rows would change the shares of the groups.",
    ),
    "dropped-differ": Entry(
        "rows with missing cells were left out, and their means differ from those of rows that "
        "were kept, in {columns}: weights and means of the fit are not those of all rows. Use "
        "{code}, which keeps them.",
        "Keep rows with gaps: they differ from the others in {columns}.",
        "Without such rows, the shares of the groups are not those of all rows.",
    ),
    "missing-at-random": Entry(
        "cells of {columns} are missing at random (assumed): whether a cell is missing may depend "
        "on other cells of its row that are seen, and not on the component itself. The test of the "
        "moments leaves these columns out.",
        "Nothing to do, unless gaps of {columns} say something of the group by themselves.",
        "The fit uses the cells that are seen. Gaps tell groups apart in no other way.",
    ),
    "never-seen": Entry(
        "{names} is missing in all rows of {count} {count:component|components}: nothing is known "
        "of it there, and its parameters are NaN. Leave the column out if that is not meant.",
        "Leave out {columns}, unless such rows cannot have a value.",
        "In some group the cell is always missing, so that nothing is known of it there.",
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
        "Keep one of each of the rows that are copies.",
        "Copies are counted as if they were separate observations.",
    ),
    "ordered-rows": Entry(
        "neighboring rows are alike within components, in {columns} (serial correlation "
        "{correlation:.2f} in {worst}): rows in the order of time, or sorted by a group. The test "
        "and the standard errors take rows for independent; thin the rows, or remove the trend "
        "first.",
        "Use every few rows only, or remove the trend first: {columns}.",
        "Neighboring rows are alike, as in a time series, so that there is less information than "
        "the number of rows suggests.",
    ),
    # -- rows that are given to a report
    "dropped-rows": Entry(
        "{count:,} {count:row|rows} with missing or infinite values {count:was|were} left out.",
        "Know that {count:,} {count:row was|rows were} left out.",
        "Cells are missing or infinite there.",
    ),
    "unexpected-missing": Entry(
        "{count:,} {count:row has|rows have} a missing cell in a column that had none when the "
        "model was fitted. Their components are known, but moments and pictures are without them.",
        "Look at the missing cells of {count:,} {count:row|rows}.",
        "They are in columns that had none when the model was fitted. The groups of such rows are "
        "known, but the pictures are without them.",
    ),
    "improbable-rows": Entry(
        "{share:.1%} of the rows are less probable than all but {expected:.1%} of rows drawn from "
        "the model: these data are not, or no longer, what was fitted.",
        "Look at the least probable rows: momentmix score finds them.",
        "{share:.1%} of the rows are rarer than nearly all rows that the model would give: it does "
        "not fit them, or they have changed.",
    ),
    # -- what the tests of a certificate say
    "no-power": Entry(
        "the test says nothing: a statistic of {statistic:.3g} on {degrees_of_freedom} degrees of "
        "freedom is far below chance, as where a few extreme rows carry the moments. Trim or "
        "transform heavy-tailed columns.",
        "Cut off extreme values, or take logarithms.",
        "A few extreme rows dominate all averages, so that the test cannot see a misfit.",
    ),
    "misfit": Entry(
        lambda f: "the moments do not fit" + " ({groups})" * bool(f.numbers["groups"])
        + ": corrected p-value {p_value}, effect size {effect_size:.2g}. Too few components, or "
        "columns that are correlated within components, are the usual causes.",
        "Look at the columns where the thin line leaves the gray.",
        "Averages of the data differ from those of the model by more than chance. Too few groups, "
        "or columns that move together within a group, are the usual causes.",
    ),
    "imprecise": Entry(
        lambda f: "too imprecise: the parameters' errors cost about {loss:.3f} of accuracy. Use "
        + ("more rows or fewer components." if f.numbers["after_rows"] else
        "more rows, fewer components, or EM passes over the rows."),
        "Collect more rows.",
        "The groups overlap so much that the rows do not fix where one ends.",
    ),
    "unknown-weights": Entry(
        "the data do not determine the {n:weight|weights} of {components}: {n:its|their} standard "
        "{n:error is|errors are} above 0.5, more than that of any share. Use fewer components or "
        "more rows.",
        "Collect more rows.",
        "The data do not show how large the groups are.",
    ),
    "unsupported": Entry(
        "not supported: {reason}",
        lambda f: "Ask for fewer groups: {fewer} in place of {asked}." if f.numbers["fewer"]
        else "Fit again.",
        "Fewer groups, or others, describe the data as well.",
    ),
    "nothing-to-test": Entry(
        "nothing to test: there are no more moment conditions than parameters. Fewer components, "
        "more features or a higher order leave some; so does a summary made by this version, where "
        "that of an earlier one was fitted.",
        *_FEWER_AVERAGES,
    ),
    "support-unknown": Entry("{reason}", *_FEWER_AVERAGES),
    UNTESTED: Entry(
        "no test: joined columns with missing cells, and columns whose cells are missing at "
        "random, are fitted by the likelihood alone, and the moments of what is seen do not test "
        "it. Compare log_prob of rows that were left out.",
        "Check the model on rows that were not used for the fit.",
        "Such columns with missing cells have no test.",
    ),
}
# fmt: on
