"""How time and peak memory of a fit without EM passes grow: rows, features, components, order.

Every case runs in a process of its own, so that its peak memory is its own. Rows come from a file
that is read again and again into one buffer; reading is not counted. A time is printed only where
the mixture found is as likely as the truth on fresh rows, up to 0.1 nats a row.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import laws
import numpy as np

BLOCK = 65_536
WORST_LOSS = 0.1
AXES = {
    "rows": ("N, rows", "n_rows"),
    "features": ("d, features", "n_features"),
    "components": ("r, components", "n_components"),
    "order": ("m, order", "order"),
}


@dataclass(frozen=True)
class Case:
    """One fit."""

    n_rows: int = 1_000_000
    n_features: int = 15
    n_components: int = 6
    order: int = 4
    threads: int = 2

    def mixture(self):
        """The truth; it does not depend on rows and order."""
        rng = np.random.default_rng(1)
        return laws.shared_coordinates(self.n_components, self.n_features, rng)


def cases(full: bool, threads: int) -> dict[str, list[Case]]:
    """What is varied, one thing at a time."""
    sizes = {
        "n_rows": [10**k for k in range(4, 9)] if full else [10_000, 30_000, 100_000, 300_000],
        "n_features": [11, 15, 21, 30, 40] if full else [11, 15, 21],
        "n_components": [2, 3, 4, 6, 8, 10] if full else [2, 4, 6],
        "order": [3, 4, 5, 6, 7] if full else [3, 4, 5],
    }
    base = {"threads": threads} if full else {"threads": threads, "n_rows": 100_000}
    return {
        axis: [Case(**(base | {field: size})) for size in sizes[field]]
        for axis, (_, field) in AXES.items()
    }


def peak_bytes() -> int:
    """Peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(case: Case, path: Path) -> dict[str, float]:
    """Add the rows of a file, over and over, and fit; in a process of its own."""
    from momentmix import MomentSummary, fit

    buffer = np.empty((BLOCK, case.n_features))
    summary = MomentSummary(case.n_features, case.order, n_threads=case.threads, shard_id="growth")
    before, adding, cores, left = peak_bytes(), 0.0, 0.0, case.n_rows
    with path.open("rb", buffering=0) as file:
        while left:
            n_read = file.readinto(buffer[: min(BLOCK, left)]) // buffer[0].nbytes
            if not n_read:
                file.seek(0)
                continue
            start, used = time.perf_counter(), time.process_time()
            summary.update(buffer[:n_read])
            adding += time.perf_counter() - start
            cores += time.process_time() - used
            left -= n_read
    added, start = peak_bytes(), time.perf_counter()
    result = fit(summary, case.n_components, random_state=0)
    fitting, peak = time.perf_counter() - start, peak_bytes()
    _, _, loss = laws.accuracies(result.mixture, case.mixture())
    if summary.n_rows != case.n_rows:
        raise SystemExit(f"{summary.n_rows} rows counted, not {case.n_rows}")
    return {
        "adding_s": adding,
        "adding_core_s": cores,
        "fitting_s": fitting,
        "peak_bytes": peak,
        "peak_adding_bytes": added,
        "start_bytes": before,
        "summary_bytes": len(summary.to_bytes()),
        "loss_nats": float(loss),
    }


def write_rows(case: Case, path: Path, n_rows: int) -> None:
    """A file of rows of the truth, block by block."""
    mixture, left, seed = case.mixture(), n_rows, 0
    with path.open("wb") as file:
        while left:
            rows, _ = mixture.sample(min(BLOCK, left), random_state=seed)
            file.write(np.ascontiguousarray(rows))
            left, seed = left - len(rows), seed + 1


def machine() -> dict[str, object]:
    """Versions and processor; nothing that names the computer."""
    import scipy

    import momentmix

    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), model)
    versions = {"momentmix": momentmix.__version__, "numpy": np.__version__}
    versions |= {"scipy": scipy.__version__, "python": platform.python_version()}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "versions": versions,
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": memory,
        "system": platform.system(),
    }


def run_all(axes: dict[str, list[Case]], file_rows: int) -> dict[str, list[dict[str, float]]]:
    """Measure every case once, each in its own process; prints a line for each."""
    done: dict[Case, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for axis, chosen in axes.items():
            click.echo(
                f"{axis:<10}  N   d   r  m    adding  µs/row (cores)       fit      peak  loss"
            )
            for case in chosen:
                if case not in done:
                    done[case] = run_one(case, Path(folder), file_rows)
                click.echo(line(case, done[case]))
    return {axis: [asdict(c) | done[c] for c in chosen] for axis, chosen in axes.items()}


def run_one(case: Case, folder: Path, file_rows: int) -> dict[str, float]:
    """Measure a case in a process of its own."""
    path = folder / f"{case.n_features}-{case.n_components}"
    if not path.exists():
        for old in folder.iterdir():
            old.unlink()
        write_rows(case, path, file_rows)
    command = [sys.executable, __file__, "--one", json.dumps(asdict(case)), "--rows-file", path]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output)


def line(case: Case, found: dict[str, float]) -> str:
    """One case as text; no times where the answer was wrong."""
    text = f"{case.n_rows:14,d} {case.n_features:3d} {case.n_components:3d} {case.order:2d}"
    if not found["loss_nats"] < WORST_LOSS:
        return f"{text}  wrong: {found['loss_nats']:.3f} nats a row below the truth"
    wall, cores = (found[name] / case.n_rows * 1e6 for name in ("adding_s", "adding_core_s"))
    return (
        f"{text} {found['adding_s']:8.3f}s {wall:7.3f} {cores:7.3f} {found['fitting_s']:9.2f}s "
        f"{found['peak_bytes'] / 2**20:6.0f} MB {found['loss_nats']:8.4f}"
    )


def draw(results: dict[str, list[dict[str, float]]], path: Path) -> None:
    """Time above, peak memory below, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(2, 4, figsize=(12, 5.6), sharey="row", layout="constrained")
    for column, (axis, (label, field)) in enumerate(AXES.items()):
        right = [x for x in results[axis] if x["loss_nats"] < WORST_LOSS]
        sizes = [x[field] for x in right]
        above, below = panels[:, column]
        for name, text, marker in (("adding_s", "moments", "o"), ("fitting_s", "fit", "s")):
            above.loglog(sizes, [x[name] for x in right], marker=marker, label=text)
        below.loglog(sizes, [x["peak_bytes"] / 2**20 for x in right], marker="o", color="C2")
        below.set_xlabel(label)
        for panel in (above, below):
            panel.grid(visible=True, which="major", alpha=0.3)
            if field != "n_rows":
                panel.set_xticks(sizes, [str(size) for size in sizes])
                panel.xaxis.minorticks_off()
    panels[0, 0].set_ylabel("seconds")
    panels[0, 0].legend()
    highest = max(x["peak_bytes"] for chosen in results.values() for x in chosen) / 2**20
    panels[1, 0].set(ylim=(50, max(1000, 1.5 * highest)), ylabel="peak memory of the process, MB")
    panels[1, 0].yaxis.set_major_formatter("{x:,.0f}")
    panels[1, 0].yaxis.set_minor_formatter("")
    base = results["features"][0]
    figure.suptitle(
        f"Fits without EM passes; unless varied N = {base['n_rows']:,}, d = 15, r = 6, order 4; "
        f"{base['threads']} threads"
    )
    figure.savefig(path, dpi=150)


@click.command()
@click.option("--full", is_flag=True, help="The record: up to 1e8 rows, 40 features, order 7.")
@click.option("--threads", default=2, help="Threads that add rows.")
@click.option("--only", type=click.Choice(list(AXES)), help="Vary this alone; no plot.")
@click.option("--plot", default="growth.png", type=click.Path(path_type=Path))
@click.option("--json", "json_path", default="growth.json", type=click.Path(path_type=Path))
@click.option("--one", hidden=True)
@click.option("--rows-file", hidden=True, type=click.Path(path_type=Path))
def main(
    full: bool,
    threads: int,
    only: str | None,
    plot: Path,
    json_path: Path,
    one: str | None,
    rows_file: Path,
) -> None:
    """Time and peak memory of fits of summaries over N, d, r and the order."""
    if one is not None:
        click.echo(json.dumps(measure(Case(**json.loads(one)), rows_file)))
        return
    axes = cases(full, threads)
    chosen = axes if only is None else {only: axes[only]}
    results = run_all(chosen, 1_000_000 if full else 100_000)
    json_path.write_text(json.dumps({"machine": machine(), "results": results}, indent=1) + "\n")
    if only is None:
        draw(results, plot)


if __name__ == "__main__":
    main()
