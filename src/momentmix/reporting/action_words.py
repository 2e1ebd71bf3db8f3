"""What to do about each finding, in plain words."""

from __future__ import annotations

from momentmix.fitting.inference.certificate import UNTESTED

# Name of a finding → what to do, and why. {columns} and {groups} are filled in from its text.
WORDS: dict[str, tuple[str, str]] = {
    "over-capacity": (
        "Ask for fewer groups, or give more columns.",
        "There are too few columns to tell so many groups apart by averages alone.",
    ),
    "capacity-margin": (
        "Ask for fewer groups, or summarize with a higher order.",
        "This is the largest number of groups that these columns can tell apart.",
    ),
    "too-few-rows": (
        "Collect more rows, or ask for fewer groups.",
        "There are too few rows to describe so many groups.",
    ),
    "empty-level": (
        "Leave out values that no row has: {columns}.",
        "A category that nobody has says nothing about the groups.",
    ),
    "constant-column": (
        "Leave out {columns}.",
        "All rows have the same value there.",
    ),
    "duplicate-columns": (
        "Keep only one of {columns}.",
        "They are copies of each other, and would count twice.",
    ),
    "shared-gaps": (
        "Leave out rows with gaps in {columns}, if they are few.",
        "The model takes gaps of different columns for independent, and these are not.",
    ),
    "skewed-column": (
        "Take logarithms of {columns}.",
        "A few values are far larger than the others, and some groups differ in nothing else: "
        "with logarithms fewer groups will do.",
    ),
    "column-shape": (
        "Look at {columns}: take logarithms, leave out, or ask for more groups.",
        "Within a group the values do not follow the shape that the model expects.",
    ),
    "correlated-columns": (
        "Join columns that move together: {columns}.",
        "Within a group one rises or falls with the other, which the model does not allow for.",
    ),
    "dependent-columns": (
        "Ask for more groups, or keep only one of {columns}.",
        "Within a group one depends on the other, which the model does not allow for.",
    ),
    "outlier-influence": (
        "Check the largest and smallest values of {columns}.",
        "One row lies so far from the others that it changes the answer.",
    ),
    "outlier-rows": (
        "Check the rows that lie far from all others.",
        "Typing errors and codes for missing values such as -999 are the usual cause.",
    ),
    "heavy-tails": (
        "Take logarithms of {columns}, or cut off extreme values.",
        "There are more extreme values than the model expects.",
    ),
    "no-power": (
        "Cut off extreme values, or take logarithms.",
        "A few extreme rows dominate all averages, so that the test cannot see a misfit.",
    ),
    "conditioning": (
        "Ask for fewer groups, or collect more rows.",
        "Some groups are so alike that the data hardly tell them apart.",
    ),
    "spurious-components": (
        "Ask for fewer groups.",
        "{groups}: only a handful of rows.",
    ),
    "light-components": (
        "Read small groups with care, or ask for fewer.",
        "{groups}: few rows, so that the numbers are rough.",
    ),
    "variance-floor": (
        "Look at {columns}.",
        "In some group nearly all rows have the same value there.",
    ),
    "dispersion": (
        "Cut {columns} into levels, or ask for more groups.",
        "The counts vary more or less within a group than counts of independent events do.",
    ),
    "missing-by-component": (
        "Nothing to do: cells of {columns} are missing more often in some groups.",
        "The model allows for it. Dropping such rows would change the shares of the groups.",
    ),
    "never-seen": (
        "Leave out {columns}, unless such rows cannot have a value.",
        "In some group the cell is always missing, so that nothing is known of it there.",
    ),
    "no-information": (
        "You may leave out {columns}.",
        "The values are about the same in all groups.",
    ),
    "duplicate-rows": (
        "Keep one of each of the rows that are copies.",
        "Copies are counted as if they were separate observations.",
    ),
    "ordered-rows": (
        "Use every few rows only, or remove the trend first: {columns}.",
        "Neighboring rows are alike, as in a time series, so that there is less information than "
        "the number of rows suggests.",
    ),
    "row-number": (
        "Leave out {columns}.",
        "The values grow evenly from row to row: a row number or a time, not a measurement.",
    ),
    "discrete-column": (
        "Say what {columns} is, or leave it out.",
        "There are few different values, and the model takes them for measurements.",
    ),
    "repeated-value": (
        "Check the value that repeats in {columns}.",
        "If it stands for “missing”, leave such rows out or mark the cells as missing.",
    ),
    "rounded-column": (
        "Use values of {columns} that are not rounded, if there are any.",
        "They are rounded so coarsely that it blurs the groups.",
    ),
    "count-column": (
        "Take {columns} as counts, if something is counted there.",
        "The values are whole numbers from 0 on, and the model takes them for measurements.",
    ),
    "independent-column": (
        "Leave out {columns}, or fit it alone.",
        "It has a shape of its own that is unrelated to the other columns.",
    ),
    "constraint": (
        "Allow the groups to have different spreads.",
        "The rows do not agree with the restriction that was asked for (covariance_type).",
    ),
    UNTESTED: (
        "Check the model on rows that were not used for the fit.",
        "Joined columns with missing cells have no test.",
    ),
}

# What to do where another number of groups is no advice: others say so, or the opposite.
NO_NUMBER: dict[str, str] = {
    "over-capacity": "Give more columns.",
    "capacity-margin": "Summarize with a higher order.",
    "too-few-rows": "Collect more rows.",
    "conditioning": "Collect more rows.",
    "light-components": "Read small groups with care.",
    "spurious-components": "Do not read anything into the smallest groups.",
    "column-shape": "Look at {columns}: take logarithms, or leave out.",
    "dependent-columns": "Keep only one of {columns}.",
    "dispersion": "Cut {columns} into levels.",
}
# Findings that ask for more groups; the others of these ask for fewer.
ASK_FOR_MORE = frozenset({"column-shape", "dependent-columns", "dispersion"})
