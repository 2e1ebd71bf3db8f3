"""From shards to summaries, their sum, a fitted model, a picture and a report.

Readings of three kinds of machine come in shards, as CSV files. Each shard is read once; after that
only its summary, a small file, is needed.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np

import momentmix as mm
from momentmix.cli.fitted_table import fitted_table
from momentmix.errors import MissingDependencyError
from momentmix.mixture.matching import clustering_accuracy, match_components

FEATURES = (
    "temperature", "pressure", "flow", "vibration", "current", "voltage", "humidity", "noise",
)  # fmt: skip
FOLDER = Path("demo-output")
SHARDS = 4


def make_shards() -> tuple[mm.DiagonalMixture, np.ndarray, np.ndarray]:
    """Draw 60,000 readings and write them as four shards."""
    rng = np.random.default_rng(20)
    level = np.array([60.0, 3.2, 110.0, 0.8, 14.0, 230.0, 45.0, 62.0])
    spread = np.array([6.0, 0.3, 9.0, 0.1, 1.5, 4.0, 5.0, 3.0])
    truth = mm.DiagonalMixture(
        [0.6, 0.25, 0.15],
        level + 2.0 * spread * rng.standard_normal((3, 8)),
        spread**2 * (0.5 + rng.random((3, 8))),
        FEATURES,
    )
    rows, labels = truth.sample(60_000, random_state=1)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    for i, part in enumerate(np.array_split(rows, SHARDS)):
        np.savetxt(
            FOLDER / f"readings-{i}.csv", part, delimiter=",", header=",".join(FEATURES),
            comments="", fmt="%.17g",
        )  # fmt: skip
    return truth, rows, labels


def summarize_shards() -> mm.MomentSummary:
    """Summarize each shard in one pass, as different machines would, and add the summaries."""
    for i in range(SHARDS):
        source = mm.open_rows(FOLDER / f"readings-{i}.csv")
        summary = mm.MomentSummary(
            source.n_features, order=4, feature_names=source.feature_names,
            shard_id=source.shard_id(0, 0),
        )  # fmt: skip
        for block in source.blocks():
            summary.update(block)
        summary.save(FOLDER / f"readings-{i}.mms")
        size = (FOLDER / f"readings-{i}.mms").stat().st_size / 1000
        print(f"shard {i}: {summary.n_rows:,} rows → summary of {size:.0f} kB")
    merged = sum(mm.MomentSummary.load(FOLDER / f"readings-{i}.mms") for i in range(SHARDS))
    assert isinstance(merged, mm.MomentSummary)
    merged.save(FOLDER / "all.mms")
    print(f"merged:  {merged.n_rows:,} rows\n")
    return merged


def draw_pictures(mixture: mm.DiagonalMixture, rows: np.ndarray) -> str:
    """Draw pairs of features and write the report, if matplotlib is installed."""
    from momentmix import displays

    try:
        import matplotlib

        matplotlib.use("Agg")
        display = displays.PairsDisplay.from_estimator(mixture, rows[::20], features=range(4))
    except (ImportError, MissingDependencyError):
        return "no pictures: matplotlib is not installed (pip install momentmix[plot])"
    display.figure_.savefig(FOLDER / "picture.png", dpi=120)
    mm.report(FOLDER / "model.json", FOLDER / "report.html", rows)
    return f"picture  {FOLDER / 'picture.png'}\nreport   {FOLDER / 'report.html'}"


def main() -> None:
    """Run all steps, and compare the fit with the true mixture."""
    truth, rows, labels = make_shards()
    summary = summarize_shards()
    result = mm.fit(summary, n_components=3, random_state=0)
    print(result, "\n")
    mixture = result.mixture  # with the feature names of the files
    order = match_components(truth, mixture)
    print("From moments alone, with 95 % intervals:\n")
    print(*fitted_table(mixture, result), "", sep="\n")
    errors = result.standard_errors
    inside = np.abs(mixture.means[order] - truth.means) < 1.96 * errors.means[order]
    print(f"True means inside their intervals: {inside.sum()} of {inside.size} (95 % expected)")
    accuracy = clustering_accuracy(labels, mixture.predict(rows))
    best = clustering_accuracy(labels, truth.predict(rows))
    print(f"Rows assigned to the right component: {accuracy:.4f} (true parameters: {best:.4f})\n")
    result.save(FOLDER / "model.json", command="make demo", seed=0)
    print(f"summary  {FOLDER / 'all.mms'}")
    print(f"model    {FOLDER / 'model.json'}")
    print(draw_pictures(mixture, rows))
    if not result.certificate.passed:
        sys.exit(4)


if __name__ == "__main__":
    main()
