"""From the files of four offices to summaries, their sum, groups, a picture and a report.

Four offices of a bike-sharing service list their customers: numbers, counts, categories, an id, and
missing ages. Each file is summarized in one pass, and the sum of the summaries is fitted without
the rows. A fit of the rows follows, which can say whether other rows would give these groups.
"""

from __future__ import annotations

import csv
import importlib.util
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import momentmix as mm

FOLDER = Path("demo-output")
CUSTOMERS = FOLDER / "customers"
N_CUSTOMERS = 100_000
GROUPS = ("commuters", "students", "leisure riders", "visitors")
OFFICES = ("center", "north", "south", "west")
PLANS = ("day", "month", "year")
# What a column is, where it cannot be seen from its cells: rides are counts, the logarithm of the
# amount is Gaussian, and no office has seen the names of the others.
FAMILIES = {"rides": "poisson", "spent": "log", "newsletter": "bernoulli", "office": OFFICES}
BLOCKS = [["km", "minutes"]]  # long rides take long, in every group
MODEL, NORTH = "demo-output/model.json", "demo-output/customers/north.csv"
NEXT = {
    f"momentmix predict {MODEL} {NORTH} --keep customer -o groups.csv": "a group for each customer",
    "momentmix fit demo-output/all.mms -r 3 --blocks km,minutes --strict -o three.json": (
        "one group too few: the certificate does not pass"
    ),
    "momentmix merge demo-output/all.mms --minus demo-output/summaries/west.mms -o rest.mms": (
        "an office leaves: its customers are taken out, exactly"
    ),
}


def true_mixture() -> mm.Mixture:
    """The mixture that customers are drawn from: four groups, in the order of `GROUPS`."""
    deviations = np.array([[0.9, 3.5], [0.5, 2.5], [1.6, 8.0], [1.1, 7.0]])  # of km and minutes
    covariances = deviations[:, :, None] * deviations[:, None, :]
    covariances[:, [0, 1], [1, 0]] *= np.array([0.8, 0.7, 0.6, 0.4])[:, None]  # correlations
    return mm.Mixture.from_blocks(
        [0.4, 0.3, 0.2, 0.1],
        [
            mm.GaussianBlock(
                [41.0, 23.5, 53.0, 33.0], [50.0, 6.0, 70.0, 36.0], "age",
                seen=[0.9, 0.95, 0.8, 0.45],
            ),
            mm.PoissonBlock([18.0, 10.0, 5.0, 2.5], names="rides"),
            mm.GaussianBlock(
                [[4.2, 17.0], [2.6, 13.0], [7.5, 38.0], [5.0, 32.0]], covariances,
                ["km", "minutes"],
            ),
            mm.GaussianBlock(
                [3.6, 2.7, 3.1, 3.3], [0.08, 0.12, 0.15, 0.2], "spent", transforms="log"
            ),
            mm.BernoulliBlock([0.35, 0.15, 0.6, 0.05], ("no", "yes"), names="newsletter"),
            mm.CategoricalBlock(
                [[0.05, 0.35, 0.6], [0.2, 0.7, 0.1], [0.45, 0.3, 0.25], [0.94, 0.05, 0.01]],
                PLANS, names="plan",
            ),
            mm.CategoricalBlock(
                [[0.2, 0.3, 0.3, 0.2], [0.45, 0.15, 0.15, 0.25],
                 [0.2, 0.3, 0.25, 0.25], [0.6, 0.1, 0.2, 0.1]],
                OFFICES, names="office",
            ),
        ],
    )  # fmt: skip


# -- the steps --------------------------------------------------------------------------------


def make_shards() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Draw the customers, write a file an office and the schema; returns table and groups."""
    table, groups = true_mixture().sample(N_CUSTOMERS, random_state=4)
    digits = {"age": 1, "km": 2, "minutes": 1, "spent": 2}
    columns: dict[str, np.ndarray] = {
        "customer": np.array([f"C{i:06d}" for i in range(N_CUSTOMERS)]),
        **{name: np.round(cells, digits[name]) if name in digits else cells
           for name, cells in table.items()},
    }  # fmt: skip
    columns["rides"] = columns["rides"].astype(int)
    shutil.rmtree(FOLDER, ignore_errors=True)
    CUSTOMERS.mkdir(parents=True)
    for number, office in enumerate(OFFICES):
        here = columns["office"] == office
        part = {name: cells[here] for name, cells in columns.items()}
        is_parquet = number >= 2 and importlib.util.find_spec("pyarrow") is not None
        (write_parquet if is_parquet else write_csv)(CUSTOMERS / office, part)
    schema = mm.schema_from(CUSTOMERS / "center.csv", FAMILIES, missing="model")
    schema.save(FOLDER / "schema.json")  # one for all offices, so that their summaries can be added
    return columns, groups


def write_csv(path: Path, table: dict[str, np.ndarray]) -> None:
    """Write a table as CSV; missing cells are empty."""
    cells = [
        ["" if cell != cell else cell for cell in column.tolist()] for column in table.values()
    ]
    with open(path.with_suffix(".csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table)
        writer.writerows(zip(*cells, strict=True))


def write_parquet(path: Path, table: dict[str, np.ndarray]) -> None:
    """Write a table as Parquet; missing cells are null."""
    import pyarrow
    from pyarrow import parquet

    columns = {name: pyarrow.array(cells, from_pandas=True) for name, cells in table.items()}
    parquet.write_table(pyarrow.table(columns), path.with_suffix(".parquet"))


def summarize_shards() -> mm.MomentSummary:
    """Summarize each file in one pass, as each office would, and add the summaries."""
    schema = mm.Schema.load(FOLDER / "schema.json")
    parts = []
    (FOLDER / "summaries").mkdir()
    for file in sorted(CUSTOMERS.iterdir()):
        part = mm.summarize(file, families=schema)
        target = FOLDER / "summaries" / f"{file.stem}.mms"
        part.save(target)
        read = f"{file.name:14} {part.n_rows:,} rows, {kilobytes(file):>8}"
        tell(f"{read}  →  summaries/{target.name:10} {kilobytes(target)}")
        parts.append(part)
    first, second, third, fourth = parts
    merged = first + second + third + fourth
    backward = fourth + (third + (second + first))
    same = "the same" if merged.to_bytes() == backward.to_bytes() else "OTHER"
    merged.save(FOLDER / "all.mms")
    tell(f"Sum: {merged.n_rows:,} rows; added in another order it has {same} bytes")
    return merged


def fit_summary(summary: mm.MomentSummary) -> mm.FitResult:
    """Find four groups from the summary alone, and say whether to believe them."""
    result = mm.fit(summary, len(GROUPS), blocks=BLOCKS, random_state=0)
    certificate = result.certificate
    tell(f"Does the model fit the data? {certificate.verdict} (p-value {certificate.p_value:.2f})")
    return result


def fit_rows(start: mm.Mixture) -> mm.FitResult:
    """Fit the rows of all files from there, and save the model."""
    schema = mm.Schema.load(FOLDER / "schema.json")
    result = mm.fit(
        CUSTOMERS, len(GROUPS), families=schema, blocks=BLOCKS, start=start, random_state=0
    )
    result.save(FOLDER / "model.json", command="make demo")
    tell(f"Verdict: {result.certificate.verdict}")
    for answer in result.certificate.answers:
        tell(f"{answer.question} {answer}")
    for line in str(result.profile()).splitlines():
        tell(textwrap.fill(line, 92, subsequent_indent="      "))
    return result


def show_groups(result: mm.FitResult, columns: dict[str, np.ndarray], groups: np.ndarray) -> None:
    """Print the groups beside those that the customers were drawn from."""
    truth, found = true_mixture(), result.mixture  # both in the order of the weights
    tell(f"{'':16}{'share':>17}{'age':>17}{'rides':>17}{'km':>17}")
    for k, group in enumerate(GROUPS):
        cells = [f"{found.weights[k]:.3f} (true {truth.weights[k]:g})"]
        cells += [f"{found.means[k, j]:.1f} (true {truth.means[k, j]:g})" for j in (0, 1, 2)]
        tell(f"{group:16}" + "".join(f"{cell:>17}" for cell in cells))
    inside = np.abs(found.means - truth.means) < 1.96 * result.standard_errors.means
    n_means = np.count_nonzero(~np.isnan(truth.means))  # categories have none
    tell(f"True means inside their 95 % intervals: {inside.sum()} of {n_means}")
    right = (found.predict(columns) == groups).mean()
    best = (truth.predict(columns) == groups).mean()
    tell(f"Customers put into the right group: {right:.2%} (by the true parameters: {best:.2%})")


def draw(result: mm.FitResult, columns: dict[str, np.ndarray]) -> None:
    """Draw pairs of columns and write the report, if matplotlib is installed."""
    if importlib.util.find_spec("matplotlib") is None:
        tell("left out: matplotlib is not installed (pip install momentmix[plot])")
        return
    import matplotlib

    from momentmix import displays

    matplotlib.use("Agg")
    some = {name: cells[::20] for name, cells in columns.items()}
    shown = ["age", "rides", "km", "minutes"]
    display = displays.PairsDisplay.from_estimator(result, some, features=shown)
    display.figure_.savefig(FOLDER / "picture.png", dpi=120)
    mm.report(FOLDER / "model.json", FOLDER / "report.html", CUSTOMERS)


# -- the output -------------------------------------------------------------------------------


def tell(line: str) -> None:
    """Print a line below the title of a step."""
    print(f"   {line}", flush=True)


def kilobytes(file: Path) -> str:
    """The size of a file, for people."""
    return f"{file.stat().st_size / 1000:,.0f} kB"


def show_head(columns: dict[str, np.ndarray], n_rows: int = 4) -> None:
    """Print the first rows of a table."""
    texts = [[name, *map(str, cells[:n_rows])] for name, cells in columns.items()]
    texts = [["–" if text == "nan" else text for text in column] for column in texts]
    widths = [max(map(len, column)) for column in texts]
    for line in zip(*texts, strict=True):
        tell("  ".join(f"{text:>{width}}" for text, width in zip(line, widths, strict=True)))


@contextmanager
def step(number: int, title: str) -> Iterator[None]:
    """Print what is done, and how long it took."""
    print(f"{number}. {title}", flush=True)
    start = time.perf_counter()
    yield
    tell(f"[{time.perf_counter() - start:.1f} s]\n")


def show_end() -> None:
    """Print what to open, and what to try next."""
    print("Open")
    for name, what in (("report.html", "the groups for readers without Python"),
                       ("picture.png", "pairs of columns, with the groups")):  # fmt: skip
        if (FOLDER / name).exists():
            tell(f"{FOLDER / name}   {what}")
    print("\nTry next")
    if sys.prefix != sys.base_prefix:
        tell(f". {os.path.relpath(sys.prefix)}/bin/activate")
    for command, what in NEXT.items():
        tell(f"{command}\n      # {what}")


def main() -> None:
    """Run all steps."""
    print(f"{N_CUSTOMERS:,} customers of a bike-sharing service, in the files of four offices\n")
    with step(1, f"Draw the customers from four known groups and write {CUSTOMERS}/"):
        columns, groups = make_shards()
        show_head(columns)
    with step(2, "Summarize each file in one pass, as sums of products; add the summaries"):
        summary = summarize_shards()
    with step(3, "Find four groups from the sum alone, without the rows"):
        moments = fit_summary(summary)
        show_groups(moments, columns, groups)
    with step(4, "Fit the rows, from there on"):
        result = fit_rows(moments.mixture)
        show_groups(result, columns, groups)
    with step(5, "Draw a picture and write the report"):
        draw(result, columns)
    show_end()
    if not result.certificate.passed:
        sys.exit(4)


if __name__ == "__main__":
    main()
