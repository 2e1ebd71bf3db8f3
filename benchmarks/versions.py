"""Two checkouts side by side: the time and the memory of what users call, in one run.

    git worktree add ../before v0.1
    python benchmarks/versions.py ../before .            all tasks
    python benchmarks/versions.py ../before . fit-rows   some of them

Every task runs in a process of its own, the two checkouts in turn, so that both meet the same
noise of the machine. A task checks its answer before it prints a time. The table gives the best
time of each checkout, the peak of its memory, and the ratios new / old.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HEAD = """
import json, resource, sys, time, tempfile, os
import numpy as np
import momentmix as mm

def law(r, d, seed=0, spread=1.5):
    rng = np.random.default_rng(seed)
    means = spread * rng.standard_normal((r, d))
    diagonal = getattr(mm.Mixture, "diagonal", None) or mm.DiagonalMixture
    return diagonal(rng.dirichlet(np.full(r, 5.0)), means, 0.5 + rng.random((r, d)))

def best(work, n):
    seconds = []
    for _ in range(n):
        start = time.perf_counter()
        answer = work()
        seconds.append(time.perf_counter() - start)
    return min(seconds), answer

def done(seconds, ok):
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([seconds, peak, bool(ok)]))
"""

SUMMARIZE = """
rows = law(6, {d}).sample({n}, random_state=1)[0]
seconds, s = best(lambda: mm.summarize(rows, order={order}), {repeats})
done(seconds, s.n_rows == {n} and np.allclose(s.mean, rows.mean(axis=0)))
"""
FIT = """
truth = law({r}, {d})
rows, labels = truth.sample({n}, random_state=1)
data = mm.summarize(rows, order={order}) if {summary} else rows
seconds, result = best(lambda: mm.fit(data, {r}, random_state=0), {repeats})
wrong = (truth.predict(rows) != labels).mean()
from momentmix.{matching} import clustering_accuracy
accuracy = clustering_accuracy(labels, result.mixture.predict(rows))
done(seconds, accuracy > 1 - wrong - 0.02)
"""
PREDICT = """
truth = law(6, 15)
rows, labels = truth.sample(1_000_000, random_state=1)
seconds, found = best(lambda: truth.{what}(rows), 5)
few = truth.{what}(rows[:100])
done(seconds, np.allclose(found[:100], few))
"""
FILES = """
from momentmix.cli import main
rows = law(6, 15).sample({n}, random_state=1)[0]
folder = tempfile.mkdtemp()
path = os.path.join(folder, "rows.{ending}")
if "{ending}" == "parquet":
    import pyarrow as pa, pyarrow.parquet as pq
    pq.write_table(pa.table({{f"x{{i}}": rows[:, i] for i in range(15)}}), path)
elif "{ending}" == "npy":
    np.save(path, rows)
else:
    head = ",".join(f"x{{i}}" for i in range(15))
    np.savetxt(path, rows, delimiter=",", header=head, comments="")
def work():
    import subprocess
    command = [sys.executable, "-c", "from momentmix.cli import main; main()", "summarize", path]
    subprocess.run([*command, "-o", path + ".mms"], check=True, capture_output=True)
    return mm.MomentSummary.load(path + ".mms")
seconds, s = best(work, 3)
done(seconds, s.n_rows == {n})
import shutil; shutil.rmtree(folder)
"""
DECOMPOSE = """
from momentmix.{matching} import largest_factor_error
rng = np.random.default_rng(0)
vectors = rng.standard_normal(({r}, {d})) + {imaginary} * rng.standard_normal(({r}, {d}))
tensor = mm.IncompleteSymmetricTensor.from_factors(vectors, {order})
seconds, found = best(lambda: mm.decompose(tensor, {r}, random_state=0), {repeats})
error = largest_factor_error(vectors, found.factors, {order})
done(seconds, found.diagnostics.residual < 1e-6 and error < 1e-5)
"""
TABLES = """
import pandas as pd
folder = tempfile.mkdtemp()
path = os.path.join(folder, "rows.{ending}")
rng = np.random.default_rng(0)
n, n_texts = {n}, {texts}
table = {{f"x{{i}}": rng.standard_normal(n) for i in range({d})}}
labels = np.array(["north", "south", "east", "west", "elsewhere"])
table |= {{f"t{{i}}": labels[rng.integers(0, 5, n)] for i in range(n_texts)}}
frame = pd.DataFrame(table)
del table
if "{ending}" == "parquet":
    frame.to_parquet(path, index=False)
elif "{ending}" == "csv":
    import pyarrow as pa, pyarrow.csv
    pa.csv.write_csv(pa.Table.from_pandas(frame, preserve_index=False), path)
elif "{ending}" == "npy":
    np.save(path, frame.to_numpy())
elif "{ending}" == "polars":
    import polars
    path = polars.from_pandas(frame)
else:
    path = frame
mean = frame["x0"].mean()
if "{ending}" != "pandas":
    del frame
seconds, s = best(lambda: {call}, {repeats})
found = s.mean if hasattr(s, "mean") else s.shift  # of a summary, or of moments of a fit
done(seconds, s.n_rows == n and abs(found[0] - mean) < 1e-9)
import shutil; shutil.rmtree(folder)
"""
PAGES = """
import matplotlib; matplotlib.use("Agg")
import matplotlib.pyplot
import pandas as pd
from momentmix import displays
truth = law(4, 10)
rows = truth.sample(20_000, random_state=0)[0]
frame = pd.DataFrame(rows, columns=[f"x{{i}}" for i in range(10)])
result = mm.fit(frame, 4, random_state=0)
folder = tempfile.mkdtemp()
path = os.path.join(folder, "page.{ending}")
def work():
    if "{ending}" == "html":
        mm.report(result, path, frame)
    else:
        displays.{display}.from_estimator(result, frame).figure_.savefig(path)
        matplotlib.pyplot.close("all")
    return os.path.getsize(path)
seconds, size = best(work, 4)
done(seconds, 20_000 < size < 1_000_000)
import shutil; shutil.rmtree(folder)
"""
IMPORT = """
import subprocess
def work():
    subprocess.run([sys.executable, "-c", "import momentmix as mm; mm.fit"], check=True)
    return True
seconds, ok = best(work, 5)
done(seconds, ok)
"""

YES_NO = """
rng = np.random.default_rng(0)
names = [f"b{{j}}" for j in range(20)]
blocks = [mm.BernoulliBlock(rng.uniform(0.1, 0.9, 4), names=name) for name in names]
truth = mm.Mixture.from_blocks(rng.dirichlet(np.full(4, 5.0)), blocks)
table = truth.sample(20_000, random_state=1)[0]
s = mm.summarize(table, order=4, families=dict.fromkeys(names, "bernoulli"))
seconds, result = best(lambda: mm.fit(s, 4, random_state=0), 2)
done(seconds, result.certificate.passed)
""".format()

FAMILIES = """
truth = mm.Mixture.from_blocks([0.3, 0.7], [
    mm.GaussianBlock([0.0, 2.0], [1.0, 2.0], "x"),
    mm.PoissonBlock([1.0, 4.0], names="k"),
    mm.BernoulliBlock([0.2, 0.7], names="b"),
    mm.CategoricalBlock([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]], ("u", "v", "w"), names="c"),
])
table, labels = truth.sample({n}, random_state=1)
if {gaps}:
    gap = np.random.default_rng(2).random({n}) < 0.1
    table = {{**table, "x": np.where(gap, np.nan, table["x"])}}
choice = dict(families={{"k": "poisson", "b": "bernoulli"}}, missing="model", random_state=0)
seconds, result = best(lambda: mm.fit(table, 2, **choice), {repeats})
found = result.mixture.predict(table)
done(seconds, max((found == labels).mean(), (found != labels).mean()) > 0.85)
"""
WIDE = """
rng = np.random.default_rng(0)
rows = rng.normal(size=({n}, {d}))
rows[: {n} // 2] += 1.0
seconds, result = best(lambda: mm.fit(rows, {r}, random_state=0), 1)
found = result.mixture.predict(rows)
group = np.arange({n}) < {n} // 2
done(seconds, {r} == 1 or (found == group).all() or (found != group).all())
"""
CUBE = """
import pandas as pd
truth = law(3, 6)
rows = pd.DataFrame(truth.sample(200_000, random_state=0)[0], columns=list("abcdef"))
rows["store"] = np.random.default_rng(0).integers(0, {groups}, len(rows))
cube = mm.summarize_by(rows, "store")
seconds, found = best(lambda: {call}, 1)
done(seconds, cube.n_rows == len(rows))
"""


def fit_of(r, d, n, repeats, order=None):
    """A fit of rows, or of a summary of this order."""
    return FIT.format(
        r=r, d=d, n=n, summary=order is not None, order=order, repeats=repeats,
        matching="{matching}",
    )  # fmt: skip


TASKS = {
    "summarize-15-4": SUMMARIZE.format(d=15, n=2_000_000, order=4, repeats=3),
    "summarize-15-6": SUMMARIZE.format(d=15, n=300_000, order=6, repeats=2),
    "summarize-30-4": SUMMARIZE.format(d=30, n=100_000, order=4, repeats=4),
    "summarize-few": SUMMARIZE.format(d=7, n=2_000, order=4, repeats=20),
    "fit-rows": fit_of(6, 15, 200_000, 2),
    "fit-few-rows": fit_of(3, 7, 2_000, 4),
    "fit-summary": fit_of(6, 15, 100_000, 2, order=4),
    "summary-8-15": fit_of(8, 15, 200_000, 2, order=5),
    "summary-15-15": fit_of(15, 15, 200_000, 2, order=5),
    "summary-20-15": fit_of(20, 15, 200_000, 2, order=5),
    "summary-yes-no": YES_NO,
    "fit-families": FAMILIES.format(n=100_000, gaps=False, repeats=3),
    "fit-gaps": FAMILIES.format(n=20_000, gaps=True, repeats=3),
    "predict": PREDICT.format(what="predict"),
    "log-prob": PREDICT.format(what="log_prob"),
    "predict-proba": PREDICT.format(what="predict_proba"),
    "file-parquet": FILES.format(ending="parquet", n=500_000),
    "file-npy": FILES.format(ending="npy", n=500_000),
    "file-csv": FILES.format(ending="csv", n=100_000),
    "parquet-1e7": TABLES.format(
        ending="parquet", n=10_000_000, d=15, texts=0, call="mm.summarize(path, 2)", repeats=2
    ),
    "parquet-text": TABLES.format(
        ending="parquet", n=1_000_000, d=6, texts=4, call="mm.summarize(path, 2)", repeats=3
    ),
    "csv-1e6": TABLES.format(
        ending="csv", n=1_000_000, d=15, texts=0, call="mm.summarize(path, 2)", repeats=2
    ),
    "csv-text": TABLES.format(
        ending="csv", n=500_000, d=6, texts=4, call="mm.summarize(path, 2)", repeats=2
    ),
    "npy-5e6": TABLES.format(
        ending="npy", n=5_000_000, d=15, texts=0, call="mm.summarize(path, 2)", repeats=3
    ),
    **{
        f"{library}-{kind}": TABLES.format(
            ending=library, n=1_000_000, d=d, texts=texts, call="mm.summarize(path, 2)", repeats=4
        )
        for library in ("pandas", "polars")
        for kind, d, texts in (("numbers", 15, 0), ("text", 6, 4))
    },
    "fit-csv-text": TABLES.format(
        ending="csv",
        n=50_000,
        d=6,
        texts=4,
        repeats=2,
        call="mm.fit(path, 2, random_state=0, max_passes=3).moments",
    ),
    "decompose-25-6-84": DECOMPOSE.format(
        d=25, order=6, r=84, imaginary=1j, repeats=2, matching="{matching}"
    ),
    "decompose-40-7-969": DECOMPOSE.format(
        d=40, order=7, r=969, imaginary=0, repeats=1, matching="{matching}"
    ),
    "report": PAGES.format(ending="html", display="ColumnsDisplay"),
    "plot-columns": PAGES.format(ending="png", display="ColumnsDisplay"),
    "plot-pairs": PAGES.format(ending="png", display="PairsDisplay"),
    **{
        f"wide-{n}x{d}-{r}": WIDE.format(n=n, d=d, r=r)
        for n, d in ((200, 1000), (50, 2000))
        for r in (1, 2)
    },
    "cube-5000": CUBE.format(groups=5000, call='mm.summarize_by(rows, "store")'),
    "cube-total-5000": CUBE.format(groups=5000, call="cube.total()"),
    "track-1000": CUBE.format(groups=1000, call="mm.track(truth, cube)"),
    "import": IMPORT,
}


def module(checkout, name):
    """Dotted name of a module, wherever the checkout has it."""
    source = checkout / "src" / "momentmix"
    path = next(source.rglob(f"{name}.py"))
    return ".".join(path.relative_to(source).with_suffix("").parts)


def run(checkout, task):
    """Seconds and megabytes of one run of a task; raises where the answer is wrong."""
    code = HEAD + task.replace("{matching}", module(checkout, "matching"))
    env = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    seconds, megabytes, right = json.loads(done.stdout.splitlines()[-1])
    if not right:
        raise RuntimeError(f"{checkout}: wrong answer")
    return seconds, megabytes


def main():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("tasks", nargs="*", help=f"of {', '.join(TASKS)}")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_intermixed_args()
    checkouts = [options.old.resolve(), options.new.resolve()]
    print(f"{'task':20}{'old s':>9}{'new s':>9}{'ratio':>8}{'old MB':>9}{'new MB':>9}{'ratio':>8}")
    for name in options.tasks or TASKS:
        runs = {c: [] for c in checkouts}
        for number in range(options.rounds):
            for checkout in checkouts[:: 1 if number % 2 else -1]:
                runs[checkout].append(run(checkout, TASKS[name]))
        (a, x), (b, y) = ([min(column) for column in zip(*runs[c], strict=True)] for c in checkouts)
        print(f"{name:20}{a:9.3f}{b:9.3f}{b / a:8.2f}{x:9.0f}{y:9.0f}{y / x:8.2f}", flush=True)


if __name__ == "__main__":
    main()
