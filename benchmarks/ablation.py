"""What each step of a fit brings: fits with the step left out, beside the whole fit, in pairs.

    python benchmarks/ablation.py --jobs 16 --seconds 300
    python benchmarks/ablation.py --jobs 2 --cases 20 --only "summary"

Each line has the mean change of the nats a row on fresh rows against the whole fit, with its
standard error (above 0: worse without the step), the cases that change by more than 0.01, the
loss of accuracy, and the seconds of a fit. Every case runs in a process of its own.
"""

import argparse
import os
import time
import warnings
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy; --jobs inherits it
os.environ.setdefault("OMP_NUM_THREADS", "1")

import blocks
import numpy as np
import small_data
import trust

import momentmix as mm
from momentmix.fitting.em import search
from momentmix.fitting.moment import moment_fit
from momentmix.fitting.robust import answers, joining

CLEAR = 0.01  # nats a row


def leave_out(step):
    """Replace a step of the fit by nothing, in this process."""
    if step == "splits":  # further partitions in their place
        moments = moment_fit._MomentSearch
        moments.add_splits = lambda s: s.add(s.from_partitions().parameters)
    elif step == "moment start":
        answers.begin_moment_answer = lambda *arguments: lambda: None
    elif step == "pool":
        search.reduce_pool = lambda features, pool, r, prior: pool[np.argsort(-pool.weights)[:r]]
    elif step == "validation":
        joining.BlockSearch.validate = lambda s: None


# -- tasks: rows of a law or a table, fresh rows, and a fit ----------------------------------------


def summary(seed):
    """Structured laws from a summary."""
    _, truth, rows = trust.structured_law(seed, np.random.default_rng([7, seed]))
    data = mm.summarize(rows[:60_000], order=4 + seed % 2)
    return data, truth, truth.n_components, {}


def rows(seed):
    """Structured and generic laws from rows."""
    law = trust.structured_law if seed % 2 else trust.generic_law
    _, truth, data = law(seed, np.random.default_rng([7, seed]))
    return data[:60_000], truth, truth.n_components, {}


def joined_summary(seed):
    """Laws of joined columns from a summary."""
    sizes, r = blocks.SHAPES[seed % len(blocks.SHAPES)]
    rng = np.random.default_rng([16, seed, r, len(sizes)])
    truth, groups = blocks.block_law(sizes, r, rng)
    return mm.summarize(truth.sample(50_000, rng)[0], order=4), truth, r, {"blocks": groups}


def joined_auto_summary(seed):
    """Blocks and number of components from a summary."""
    shapes = [((2, 2, 1, 1, 1), 3), ((3, 2, 1, 1, 1, 1), 2), ((2, 1, 1, 1, 1, 1), 4), ((1,) * 8, 3)]
    sizes, r = shapes[seed % 4]
    rng = np.random.default_rng([26, seed])
    truth, _ = blocks.block_law(sizes, r, rng, 2.0, least=0.3)
    data = mm.summarize(truth.sample(40_000, rng)[0], order=4)
    return data, truth, "auto", {"blocks": "auto"}


def few_rows(seed):
    """Laws of 100 to 500 rows."""
    data, fresh, r, _ = small_data.draw_case(seed + 1000)
    return data, fresh, r, {}


def tables(seed, **options):
    """Halves of known tables."""
    known = list(blocks.small_tables())
    train, test = blocks.halves(known[seed % len(known)][1], np.random.default_rng([20, seed]))
    return train, test, (2, 3, 5, 8)[seed // len(known) % 4], options


def joined_tables(seed):
    """Halves of known tables, blocks to be found."""
    return tables(seed, blocks="auto")


TASKS = {
    summary: ["splits"],
    rows: ["pool", "moment start"],
    joined_summary: ["splits"],
    joined_auto_summary: ["splits"],
    few_rows: ["pool"],
    tables: ["pool"],
    joined_tables: ["validation"],
}


def run(task, step, seed):
    """Nats a row of fresh rows (below the truth, where it is known), loss of accuracy, seconds."""
    data, truth, r, options = task(seed)
    leave_out(step)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mixture = mm.fit(data, r, random_state=0, n_threads=1, **options).mixture
    seconds = time.perf_counter() - start
    if isinstance(truth, np.ndarray):
        return -float(mixture.log_prob(truth).mean()), np.nan, seconds
    found = trust.losses(mixture, truth)
    return found["nats"], found["loss"], seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=96, help="of each task")
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin no case after these")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help="tasks whose name holds this")
    a = parser.parse_args()
    chosen = {t: ["", *steps] for t, steps in TASKS.items() if a.only in t.__name__}
    end, found = time.monotonic() + a.seconds, defaultdict(dict)
    # Patches must not outlive a case.
    pool = ProcessPoolExecutor(a.jobs, get_context("spawn"), max_tasks_per_child=1)
    with pool:
        for seed in range(a.cases):
            if time.monotonic() > end:
                break
            jobs = {pool.submit(run, t, s, seed): (t, s) for t in chosen for s in chosen[t]}
            for job in as_completed(jobs):
                task, step = jobs[job]
                found[task, step][seed] = job.result()
    for task, steps in chosen.items():
        whole = np.array([found[task, ""][seed] for seed in sorted(found[task, ""])])
        print(f"{task.__doc__} {len(whole)} cases")
        for step in steps:
            values = np.array([found[task, step][seed] for seed in sorted(found[task, step])])
            change = values[:, 0] - whole[:, 0]
            error = change.std(ddof=1) / len(change) ** 0.5
            print(
                f"  {'without ' + step if step else 'whole fit':24} nats {change.mean():+.4f} ± "
                f"{error:.4f}, worse {(change > CLEAR).sum()}, better {(change < -CLEAR).sum()}, "
                f"loss {values[:, 1].mean():.4f}, {values[:, 2].mean():.2f} s"
            )


if __name__ == "__main__":
    main()
