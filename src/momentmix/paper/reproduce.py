"""Tables of the experiments: the rows, how to run one, and the columns to print."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from momentmix.paper import experiments as ex
from momentmix.parallel import few_threads
from momentmix.progress import row_counter, step

Row = dict[str, Any]


@dataclass(frozen=True)
class RunOptions:
    """Number of instances (None: the default of the table), seed, and rows of data at most."""

    instances: int | None
    seed: int
    most_rows: int = 10**6


@dataclass(frozen=True)
class PaperTable:
    """One experiment: its rows, a function that runs one, and columns to print."""

    title: str
    rows: Callable[[], list[Row]]
    run: Callable[[Row, RunOptions], list[Row]]
    columns: str  # key|title|format of each, separated by commas
    note: str = ""  # printed below the table

    def results(self, rows: list[Row], options: RunOptions) -> Iterator[Row]:
        """Run the rows one by one; one gives one line, or several."""
        for row in rows:
            with few_threads(row["r"] < 1000):
                lines = self.run(row, options)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # resident memory
            yield from (row | line | {"peak_mb": peak} for line in lines)


@cache
def printed() -> dict[str, list[Row]]:
    """Return the figures that the paper prints, by table."""
    text = files("momentmix.paper").joinpath("printed_figures.json").read_text(encoding="utf-8")
    tables: dict[str, list[Row]] = json.loads(text)
    return tables


def format_row(table: PaperTable, row: Row | None) -> str:
    """Format one line; the header for None."""
    cells = []
    for column in table.columns.split(","):
        key, title, form = column.strip().split("|")
        width = max(len(title), 3 if form == "d" else 8)
        value = row.get(key) if row is not None else title
        text = format(value, form) if row is not None and value is not None else str(value or "–")
        cells.append(text.rjust(width))
    return "  ".join(cells)


def _label(row: Row) -> str:
    return f"d={row['d']} m={row['m']} r={row['r']}" + (
        f" ε={row['eps']:g}" if "eps" in row else ""
    )


def _collect(
    experiment: Callable[..., ex.Instance],
    row: Row,
    options: RunOptions,
    default: int,
    *settings: Any,
    key: tuple[int, ...] = (),
) -> list[ex.Instance]:
    """Run the instances of a row; seeds are (d, m, *key, instance)."""
    d, m = row["d"], row["m"]
    total = default if options.instances is None else options.instances
    collected = []
    with step(_label(row)):
        count = row_counter(total, unit="instances")
        for i in range(total):
            rng = ex.generator(options.seed, d, m, *key, i)
            collected.append(experiment(rng, d, m, *settings))
            count(1)
    return collected


def _values(instances: list[ex.Instance], key: str) -> Any:
    return np.array([instance[key] for instance in instances], dtype=float)


def _figures(instances: list[ex.Instance], errors: Any, **others: Any) -> list[Row]:
    """Return what all tables print of their instances, and what one adds."""
    extremes = {"min": errors.min(), "avg": errors.mean(), "max": errors.max()}
    seconds = float(np.median(_values(instances, "seconds")))
    return [{"n": len(instances), **extremes, "seconds": seconds, **others}]


def _run_decomposition(row: Row, options: RunOptions) -> list[Row]:
    default = 20 if row["r"] <= 200 else 3  # large ranks take minutes each
    found = _collect(ex.decomposition, row, options, default)
    return _figures(found, _values(found, "decomp_err"), vec=_values(found, "vec_err").mean())


def _run_approximation(row: Row, options: RunOptions) -> list[Row]:
    default = 2 if row["r"] > 60 else 100  # large ranks take minutes each
    key = (round(-1000 * np.log10(row["eps"])),)
    found = _collect(ex.approximation, row, options, default, row["eps"], key=key)
    errors, n = _values(found, "rel_err"), len(found)
    return _figures(
        found,
        errors,
        se=errors.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan,
        expected=ex.expected_relative_error(row["d"], row["m"]),
        abs=_values(found, "abs_err").mean(),
    )


def _run_gaussian(row: Row, options: RunOptions) -> list[Row]:
    counts = [n for n in ex.ROW_COUNTS if n <= options.most_rows]
    n, d, m = options.instances or 1, row["d"], row["m"]
    with step(_label(row)):
        count = row_counter(n * counts[-1])
        rngs = (ex.generator(options.seed, d, m, i) for i in range(n))
        runs = [ex.gaussian(rng, d, m, counts[-1], count) for rng in rngs]
    lines = []
    for same_count in zip(*runs, strict=True):
        figures = {key: _values(list(same_count), key) for key in same_count[0]}
        lines.append(
            {key: None if np.isnan(x).any() else float(x.mean()) for key, x in figures.items()}
            | {"n": n, "N": same_count[0]["N"]}
        )
    return lines


_PLACE = "d|d|d, m|m|d, r|r|d"
_COST = "seconds|s each|.3g, peak_mb|peak MB|.0f"

TABLES = {
    "decomposition": PaperTable(
        "Table 2: Algorithm 3.4 on exact tensors at capacity, decomp-err, no polish",
        lambda: list(printed()["table_decomposition"]),
        _run_decomposition,
        f"{_PLACE}, n|instances|d, min|min|.1e, avg|average|.1e, max|max|.1e, "
        "decomp_err_avg|printed avg|.1e, decomp_err_max|printed max|.1e, vec|vec-err|.1e, "
        f"vec_err_max_avg|printed vec|.1e, {_COST}",
    ),
    "approximation": PaperTable(
        "Tables 3 and 4: Algorithm 4.1 under noise of norm ε, rel-err; expected √(1 − rd/C(d,m))",
        lambda: printed()["table_approximation_d15"] + printed()["table_approximation_d25"],
        _run_approximation,
        f"{_PLACE}, eps|ε|g, n|instances|d, min|min|.4f, avg|average|.4f, se|std error|.4f, "
        "max|max|.4f, expected|expected|.4f, rel_avg|printed avg|.4f, abs|abs-err|.2e, "
        f"abs_avg|printed abs|.2e, {_COST}",
    ),
    "gaussian": PaperTable(
        "Table 5: accuracy of Algorithm 5.1 on new rows, by the number of rows; means N(0, I)",
        lambda: list(printed()["table_gaussian"]),
        _run_gaussian,
        "m|m|d, r|r|d, N|rows|d, n|instances|d, algorithm|printed 5.1|.4f, paper|Alg. 5.1|.4f, "
        "as_printed|floor 0|.4f, em|printed EM|.4f, em1|EM ×1|.4f, default|mm.fit|.4f, "
        f"bayes|true|.4f, summary_seconds|s sums|.1f, {_COST}",
        "mm.fit: the default method from the same summary. floor 0: variances of zero stay. EM ×1: "
        "one start, the paper's settings, up to 1e5 rows. true: the parameters of the mixture. The "
        "paper states neither its number of rows nor how the means are drawn.",
    ),
}
