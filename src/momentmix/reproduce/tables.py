"""Tables of the experiments: the rows, how to run one, and the columns to print."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentmix.capacity import largest_rank
from momentmix.parallel import few_threads
from momentmix.progress import counting
from momentmix.reproduce import experiments as ex

Row = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """Number of instances (None: the default of the table), seed, and law of the means."""

    instances: int | None
    seed: int
    n_rows: int = 10_000
    mean_scale: float = 50.0


@dataclass(frozen=True)
class Table:
    """One experiment: its rows, a function that runs one, and columns as (key, title, format)."""

    title: str
    rows: Callable[[], list[Row]]
    run: Callable[[Row, Options], Row]
    columns: tuple[tuple[str, str, str], ...]

    def results(self, rows: list[Row], options: Options) -> Iterator[Row]:
        """Run the rows one by one."""
        for row in rows:
            with few_threads(row["r"] < 1000):
                result = row | self.run(row, options)
            yield result | {"peak_mb": ex.peak_memory()}


def format_row(table: Table, row: Row | None) -> str:
    """One printed line; the header for None."""
    cells = []
    for key, title, form in table.columns:
        width = max(len(title), 3 if form == "d" else 8)
        value = row.get(key) if row is not None else title
        text = format(value, form) if row is not None and value is not None else str(value or "–")
        cells.append(text.rjust(width))
    return "  ".join(cells)


def _collect(instances: Iterator[ex.Instance], total: int, row: Row) -> list[ex.Instance]:
    label = f"d={row['d']} m={row['m']} r={row['r']}"
    if "eps" in row:
        label += f" ε={row['eps']:g}"
    collected = []
    with counting(label, total, "instances") as count:
        for instance in instances:
            collected.append(instance)
            count(1)
    return collected


def _values(instances: list[ex.Instance], key: str) -> Any:
    return np.array([instance[key] for instance in instances], dtype=float)


def _count(options: Options, default: int) -> int:
    return default if options.instances is None else options.instances


def _extremes(errors: Any) -> Row:
    return {"min": errors.min(), "avg": errors.mean(), "max": errors.max()}


def _median_seconds(instances: list[ex.Instance]) -> float:
    return float(np.median(_values(instances, "seconds")))


# -- Table 2 ---------------------------------------------------------------------------------------


def _run_decomposition(row: Row, options: Options) -> Row:
    d, m, r = row["d"], row["m"], row["r"]
    count = _count(options, 20 if r <= 200 else 3)  # large ranks take minutes each
    instances = _collect(ex.decomposition(d, m, count, options.seed), count, row)
    return _extremes(_values(instances, "decomp_err")) | {
        "n": count,
        "vec": _values(instances, "vec_err").mean(),
        "seconds": _median_seconds(instances),
    }


def _rows_decomposition() -> list[Row]:
    return list(ex.printed()["table_decomposition"])


# -- Tables 3 and 4 --------------------------------------------------------------------------------


def _run_approximation(row: Row, options: Options) -> Row:
    d, m, r, eps = row["d"], row["m"], row["r"], row["eps"]
    count = _count(options, 2 if r > 60 else 100)  # large ranks take minutes each
    instances = _collect(ex.approximation(d, m, eps, count, options.seed), count, row)
    errors = _values(instances, "rel_err")
    return _extremes(errors) | {
        "n": count,
        "se": errors.std(ddof=1) / np.sqrt(count) if count > 1 else np.nan,
        "expected": ex.expected_relative_error(d, m),
        "abs": _values(instances, "abs_err").mean(),
        "seconds": _median_seconds(instances),
    }


def _rows_approximation() -> list[Row]:
    return ex.printed()["table_approximation_d15"] + ex.printed()["table_approximation_d25"]


# -- Table 5 ---------------------------------------------------------------------------------------


def _run_gaussian(row: Row, options: Options) -> Row:
    count = _count(options, 20)
    steps = ex.gaussian(row["d"], row["m"], options.n_rows, options.mean_scale, count, options.seed)
    instances = _collect(steps, count, row)
    figures = {key: float(_values(instances, key).mean()) for key in instances[0]}
    return figures | {"n": count, "N": options.n_rows, "mean_scale": options.mean_scale}


def _rows_gaussian() -> list[Row]:
    return list(ex.printed()["table_gaussian"])


# -- Theorems 4.2 and 5.2, and exact recovery ------------------------------------------------------


def _rows_stability() -> list[Row]:
    ranks = {m: largest_rank(15, m) for m in (3, 4, 5, 6)}
    full = [{"d": 15, "m": m, "r": r, "part": "capacity"} for m, r in ranks.items()]
    half = [{"d": 15, "m": m, "r": r // 2, "part": "half"} for m, r in ranks.items()]
    return full + half


def _run_stability(row: Row, options: Options) -> Row:
    d, m, r = row["d"], row["m"], row["r"]
    count = _count(options, 10)
    factors = _collect(ex.stability(d, m, r, count, options.seed), count, row)
    parameters = _collect(ex.parameter_stability(d, m, r, count, options.seed), count, row)
    last = ex.RELATIVE_NOISE.index(1e-4 if row["part"] == "capacity" else 1e-3) + 1
    figures: Row = {"n": count}
    for name, table in [
        ("factors", _values(factors, "ratios")),
        *((key, _values(parameters, key)) for key in ("weights", "means", "variances")),
    ]:
        medians = np.median(table, axis=0)  # over instances, one for each noise level
        middle = np.median(medians[:last])
        figures[name] = float(middle)
        figures[f"{name}_spread"] = float(
            max(medians[:last].max() / middle, middle / medians[:last].min())
        )
        own = np.median(table[:, :last], axis=1, keepdims=True)  # of each instance
        worst = np.maximum(table[:, :last] / own, own / table[:, :last]).max(axis=1)
        figures[f"{name}_within"] = int((worst <= 3).sum())
        figures[f"{name}_at_1e-2"] = float(medians[-1] / middle)
        figures[f"{name}_ratios"] = table.tolist()
    return figures


def _rows_recovery() -> list[Row]:
    return [{"d": 15, "m": m, "r": largest_rank(15, m)} for m in (3, 4, 5, 6)]


def _run_recovery(row: Row, options: Options) -> Row:
    d, m = row["d"], row["m"]
    count = _count(options, 100)
    instances = _collect(ex.recovery(d, m, count, options.seed), count, row)
    worst = np.max([_values(instances, key) for key in ("weights", "means", "variances")], axis=0)
    return {
        "n": count,
        "good": int((worst <= 1e-8).sum()),
        "median": float(np.median(worst)),
        "max": float(worst.max()),
        "seconds": _median_seconds(instances),
    }


_PLACE = (("d", "d", "d"), ("m", "m", "d"), ("r", "r", "d"))
_COST = (("seconds", "s each", ".3g"), ("peak_mb", "peak MB", ".0f"))

TABLES = {
    "decomposition": Table(
        "Table 2: Algorithm 3.4 on exact tensors at capacity, decomp-err, no polish",
        _rows_decomposition,
        _run_decomposition,
        (
            *_PLACE,
            ("n", "instances", "d"),
            ("min", "min", ".1e"),
            ("avg", "average", ".1e"),
            ("max", "max", ".1e"),
            ("decomp_err_avg", "printed avg", ".1e"),
            ("decomp_err_max", "printed max", ".1e"),
            ("vec", "vec-err", ".1e"),
            ("vec_err_max_avg", "printed vec", ".1e"),
            *_COST,
        ),
    ),
    "approximation": Table(
        "Tables 3 and 4: Algorithm 4.1 under noise of norm ε, rel-err; expected √(1 − rd/C(d,m))",
        _rows_approximation,
        _run_approximation,
        (
            *_PLACE,
            ("eps", "ε", "g"),
            ("n", "instances", "d"),
            ("min", "min", ".4f"),
            ("avg", "average", ".4f"),
            ("se", "std error", ".4f"),
            ("max", "max", ".4f"),
            ("expected", "expected", ".4f"),
            ("rel_avg", "printed avg", ".4f"),
            ("abs", "abs-err", ".2e"),
            ("abs_avg", "printed abs", ".2e"),
            *_COST,
        ),
    ),
    "gaussian": Table(
        "Table 5: accuracy of Algorithm 5.1 on samples, beside scikit-learn's EM (k-means++)",
        _rows_gaussian,
        _run_gaussian,
        (
            *_PLACE,
            ("n", "instances", "d"),
            ("N", "rows", "d"),
            ("mean_scale", "means ×", "g"),
            ("bayes", "Bayes", ".4f"),
            ("paper", "Alg. 5.1", ".4f"),
            ("algorithm", "printed 5.1", ".4f"),
            ("em1", "EM ×1", ".4f"),
            ("em10", "EM ×10", ".4f"),
            ("em", "printed EM", ".4f"),
            ("seconds", "s each", ".2f"),
            ("em10_seconds", "EM ×10 s", ".2f"),
            ("peak_mb", "peak MB", ".0f"),
        ),
    ),
    "stability": Table(
        "Theorems 4.2 and 5.2: relative error over relative noise 1e-8…1e-4 (half capacity: 1e-3); "
        "median, largest factor off it over noise levels, instances within a factor 3, at 1e-2",
        _rows_stability,
        _run_stability,
        (
            *_PLACE,
            ("n", "instances", "d"),
            *(
                (f"{name}{end}", title if not end else shown, form)
                for name, title in [
                    ("factors", "factors"),
                    ("weights", "weights"),
                    ("means", "means"),
                    ("variances", "variances"),
                ]
                for end, shown, form in [
                    ("", "", ".3g"),
                    ("_spread", "off by ×", ".2f"),
                    ("_within", "within 3", "d"),
                    ("_at_1e-2", "at 1e-2 ×", ".2f"),
                ]
            ),
        ),
    ),
    "recovery": Table(
        "Parameters from exact moments at capacity: instances with all errors ≤ 1e-8",
        _rows_recovery,
        _run_recovery,
        (
            *_PLACE,
            ("n", "instances", "d"),
            ("good", "≤ 1e-8", "d"),
            ("median", "median", ".1e"),
            ("max", "max", ".1e"),
            *_COST,
        ),
    ),
}
