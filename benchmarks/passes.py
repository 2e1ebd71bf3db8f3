"""Time and memory of what users call: of one checkout, or of two side by side.

    python benchmarks/passes.py                              # all tasks of this checkout
    python benchmarks/passes.py fit-rows --before FOLDER     # some of them, beside another

Every task runs in a process of its own, the checkouts in turn, so that both meet the same noise of
the machine. A task checks its answer before it prints a time. The table has the best time and the
peak of memory. Files are written before the clock starts; a command is timed as a whole process.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]

HEAD = """
import json, os, resource, subprocess, sys, tempfile, time
import numpy as np
import momentmix as mm

def drawn(r, d, n, seed=0, spread=1.5):
    rng = np.random.default_rng(seed)
    means = spread * rng.standard_normal((r, d))
    diagonal = getattr(mm.Mixture, "diagonal", None) or mm.DiagonalMixture
    truth = diagonal(rng.dirichlet(np.full(r, 5.0)), means, 0.5 + rng.random((r, d)))
    return (truth, *truth.sample(n, random_state=1))

def best(work, n):
    seconds = []
    for _ in range(n):
        start = time.perf_counter()
        answer = work()
        seconds.append(time.perf_counter() - start)
    return min(seconds), answer

def agreement(labels, predicted):
    from scipy.optimize import linear_sum_assignment
    table = np.histogram2d(labels, predicted, bins=max(labels.max(), predicted.max()) + 1)[0]
    return -table[linear_sum_assignment(-table)].sum() / -len(labels)

def write(path, n, d):
    "A file of n rows, by blocks; the process that reads it has its own peak of memory."
    import pyarrow as pa, pyarrow.csv, pyarrow.parquet as pq
    rng, writer = np.random.default_rng(0), None
    if path.endswith("npy"):
        return np.save(path, rng.standard_normal((n, d)))
    for _ in range(0, n, 100_000):
        size = min(n, 100_000)
        table = pa.table({f"x{i}": rng.standard_normal(size) for i in range(d)})
        if writer is None:
            make = pq.ParquetWriter if path.endswith("parquet") else pa.csv.CSVWriter
            writer = make(path, table.schema)
        writer.write_table(table)
    writer.close()

def command(*arguments):
    "Peak of memory in MB of a process of the command, by a small process between."
    code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, \
stdout=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)"
    line = [sys.executable, "-S", "-c", code, sys.executable, "-m", "momentmix", *arguments]
    return float(subprocess.run(line, check=True, capture_output=True, text=True).stdout)

def done(seconds, ok, peak=None):
    peak = peak or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([seconds, peak, bool(ok)]))
"""

SUMMARIZE = """
_, rows, _ = drawn(6, {d}, {n})
seconds, s = best(lambda: mm.summarize(rows, order={order}), {repeats})
done(seconds, s.n_rows == {n} and np.allclose(s.mean, rows.mean(axis=0)))
"""
FIT = """
truth, rows, labels = drawn({r}, {d}, {n})
data = mm.summarize(rows, order={order}) if {order} else rows
seconds, result = best(lambda: mm.fit(data, {r}, random_state=0), {repeats})
right = (truth.predict(rows) == labels).mean()
done(seconds, agreement(labels, result.mixture.predict(rows)) > right - 0.02)
"""
PREDICT = """
truth, rows, _ = drawn(6, 15, 1_000_000)
seconds, answer = best(lambda: truth.{what}(rows), 5)
done(seconds, np.allclose(answer[:100], truth.{what}(rows[:100])))
"""
FILE = """
with tempfile.TemporaryDirectory() as folder:
    path, output = os.path.join(folder, "rows.{ending}"), os.path.join(folder, "s.mms")
    write(path, {n}, {d})
    def work():
        if os.path.exists(output):
            os.remove(output)
        return command("summarize", path, "-o", output)
    seconds, peak = best(work, {repeats})
    done(seconds, mm.MomentSummary.load(output).n_rows == {n}, peak)
"""
YES_NO = """
rng = np.random.default_rng(0)
names = [f"b{j}" for j in range(20)]
probabilities, shares = rng.uniform(0.1, 0.9, (4, 20)), rng.dirichlet(np.full(4, 5.0))
labels = rng.choice(4, 20_000, p=shares)
table = dict(zip(names, (rng.random((20_000, 20)) < probabilities[labels]).astype(int).T))
s = mm.summarize(table, order=4, families=dict.fromkeys(names, "bernoulli"))
seconds, result = best(lambda: mm.fit(s, 4, random_state=0), 2)
done(seconds, result.certificate.passed)
"""
FAMILIES = """
rng = np.random.default_rng(1)
labels = (rng.random({n}) < 0.7).astype(int)
edges = np.array([[0.6, 0.9], [0.2, 0.5]])[labels]
table = dict(
    x=rng.normal(2.0 * labels, np.sqrt(1.0 + labels)),
    k=rng.poisson(1.0 + 3.0 * labels),
    b=(rng.random({n}) < 0.2 + 0.5 * labels).astype(int),
    c=np.array(["u", "v", "w"])[(rng.random(({n}, 1)) > edges).sum(axis=1)],
)
if {missing}:
    is_missing = np.random.default_rng(2).random({n}) < 0.1
    table = {{**table, "x": np.where(is_missing, np.nan, table["x"])}}
options = dict(families={{"k": "poisson", "b": "bernoulli"}}, missing="model", random_state=0)
seconds, result = best(lambda: mm.fit(table, 2, **options), {repeats})
done(seconds, agreement(labels, result.mixture.predict(table)) > 0.85)
"""
CUBE = """
import pandas as pd
_, rows, _ = drawn(3, 6, 200_000)
rows = pd.DataFrame(rows, columns=list("abcdef"))
rows["store"] = np.random.default_rng(0).integers(0, 5000, len(rows))
seconds, cube = best(lambda: mm.summarize_by(rows, "store"), 1)
done(seconds, cube.n_rows == len(rows))
"""
REPORT = """
import pandas as pd
_, rows, _ = drawn(4, 10, 20_000)
frame = pd.DataFrame(rows, columns=[f"x{i}" for i in range(10)])
result = mm.fit(frame, 4, random_state=0)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "page.html")
    seconds, _ = best(lambda: mm.report(result, path, frame), 3)
    done(seconds, 20_000 < os.path.getsize(path) < 1_000_000)
"""
START = """
work = lambda: subprocess.run([sys.executable, *{arguments}], check=True, capture_output=True)
seconds, _ = best(work, 9)
done(seconds, True)
"""


def fit_of(r, d, n, repeats=2, order=0):
    """A fit of rows, or of a summary of this order."""
    return FIT.format(r=r, d=d, n=n, order=order, repeats=repeats)


def file_of(ending, n, d=15, repeats=2):
    return FILE.format(ending=ending, n=n, d=d, repeats=repeats)


TASKS = {
    "summarize-15-4": SUMMARIZE.format(d=15, n=2_000_000, order=4, repeats=3),
    "summarize-15-6": SUMMARIZE.format(d=15, n=300_000, order=6, repeats=2),
    "summarize-30-4": SUMMARIZE.format(d=30, n=100_000, order=4, repeats=4),
    "fit-rows": fit_of(6, 15, 200_000),
    "fit-few-rows": fit_of(3, 7, 2_000, 4),
    "fit-summary": fit_of(6, 15, 100_000, order=4),
    "summary-8-15": fit_of(8, 15, 200_000, order=5),
    "summary-20-15": fit_of(20, 15, 200_000, order=5),
    "summary-yes-no": YES_NO,
    "fit-families": FAMILIES.format(n=100_000, missing=False, repeats=3),
    "fit-gaps": FAMILIES.format(n=20_000, missing=True, repeats=3),
    "predict": PREDICT.format(what="predict"),
    "log-prob": PREDICT.format(what="log_prob"),
    "parquet-1e7": file_of("parquet", 10_000_000),
    "npy-1e7": file_of("npy", 10_000_000),
    "csv-1e6": file_of("csv", 1_000_000),
    "csv-tiny": file_of("csv", 200, repeats=5),
    "npy-tiny": file_of("npy", 200, repeats=5),
    "cube-5000": CUBE,
    "report": REPORT,
    "import": START.format(arguments=["-c", "import momentmix"]),
    "python": START.format(arguments=["-c", "pass"]),
}


def run(checkout, task):
    """Seconds and megabytes of one run of a task; raises where the answer is wrong."""
    bytecode = str(Path(tempfile.gettempdir(), "momentmix-bytecode"))  # as after an installation
    env = os.environ | {"PYTHONPATH": str(checkout / "src"), "PYTHONPYCACHEPREFIX": bytecode}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-W", "ignore", "-c", HEAD + task]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    seconds, megabytes, is_right = json.loads(done.stdout.splitlines()[-1])
    if not is_right:
        raise RuntimeError(f"{checkout}: wrong answer")
    return seconds, megabytes


def in_turns(checkouts, task, rounds):
    """Least seconds and megabytes of each checkout."""
    runs = {checkout: [] for checkout in checkouts}
    for k in range(rounds):
        for checkout in checkouts[:: 1 if k % 2 else -1]:
            runs[checkout].append(run(checkout, task))
    return [tuple(map(min, zip(*runs[checkout], strict=True))) for checkout in checkouts]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", help=f"some of {', '.join(TASKS)}")
    parser.add_argument("--before", type=Path, help="another checkout")
    parser.add_argument("--rounds", type=int, default=3)
    a = parser.parse_args()
    checkouts = [a.before.resolve(), HERE] if a.before else [HERE]
    for name in a.tasks or TASKS:
        start = time.perf_counter()
        pairs = in_turns(checkouts, TASKS[name], a.rounds)
        text = "; ".join(f"{seconds:.3f} s, {peak:.0f} MB" for seconds, peak in pairs)
        if len(pairs) > 1:
            text += "; {:.2f} × the time, {:.2f} × the memory".format(
                *(now / before for before, now in zip(*pairs, strict=True))
            )
        print(f"{name:16} {text}  ({time.perf_counter() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
