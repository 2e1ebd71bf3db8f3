"""Run everything, part by part; what has passed on the same source is not run again.

    python tests/campaigns/run.py                 all parts
    python tests/campaigns/run.py merge-trees …   some parts
    python tests/campaigns/run.py --list          the parts and where they stand
    python tests/campaigns/run.py --fresh         forget where they stand

The state of each part is a file in .test-all/: an interrupted part goes on after its last batch, a
failed one at the batch that failed, and a part whose sources have changed starts again. Several
parts run in processes of their own, which are this command with the name of one part.
"""

import argparse
import faulthandler
import fcntl
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).parents[1]))

from campaigns.part import PACKAGE, ROOT, Part, digest

STATE = ROOT / ".test-all"
# The longest first, so that two at a time end together.
MODULES = ["mutated_files", "merge_trees", "wrong_models", "resuming", "offsets", "reshifts"]
MODULES += ["saving", "forgetting", "many_rows", "bad_input"]
LIMIT = 3600  # seconds of a batch, on any machine; then it hangs


# -- the parts --------------------------------------------------------------------------------


def all_parts():
    """Every part by name: the tests first, then the campaigns."""
    parts = [*_test_parts()]
    for name in MODULES:
        parts += __import__(f"campaigns.{name}", fromlist=["PARTS"]).PARTS
    return {part.name: part for part in parts}


def _test_parts():
    tests = ROOT / "tests"
    files = [*PACKAGE.rglob("*.py"), *tests.rglob("*.py"), ROOT / "pyproject.toml"]
    sources = digest(files)
    marked = [
        path.relative_to(ROOT)
        for path in sorted(tests.rglob("test_*.py"))
        if "mark.long" in path.read_text(encoding="utf-8")
    ]
    chosen = [("tests", ["-m", "not long"])]
    chosen += [(f"tests:{path.stem}", ["-m", "long", str(path)]) for path in marked]
    for name, arguments in chosen:
        yield Part(name, _pytest(name, arguments), 1, 1, sources)


def _pytest(name, arguments):
    """A campaign of one case: a run of pytest; counts the tests that passed."""

    def run(start, stop, seed):
        report = STATE / f"{_file_name(name)}.xml"
        command = [sys.executable, "-m", "pytest", *arguments, f"--junitxml={report}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
        suite = next(ElementTree.parse(report).iter("testsuite"))
        return Counter({"tests passed": int(suite.get("tests")) - int(suite.get("skipped"))})

    return run


# -- where they stand -------------------------------------------------------------------------


def _file_name(name):
    return re.sub(r"\W+", "-", name)


def _path(part):
    return STATE / f"{_file_name(part.name)}.json"


def standing(part, seed):
    """What is known of a part: nothing if its sources or the seed have changed."""
    fresh = {"next": 0, "counts": {}, "seconds": 0.0, "error": None}
    fresh |= {"part": part.name, "sources": part.sources, "seed": seed, "total": part.total}
    path = _path(part)
    if not path.exists():
        return fresh
    found = json.loads(path.read_text(encoding="utf-8"))
    same = all(found[key] == fresh[key] for key in ("sources", "seed", "total"))
    return found if same else fresh


def _store(part, state):
    temporary = _path(part).with_suffix(".tmp")
    temporary.write_text(json.dumps(state, indent=1), encoding="utf-8")
    os.replace(temporary, _path(part))


@cache
def _commit():
    """Of the code that this process has imported: asked once, at the beginning."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def passed(part, state):
    """Whether all cases ran and the counts are what was promised."""
    reached = all(state["counts"].get(what, 0) >= goal for what, goal in part.goals.items())
    return state["next"] >= part.total and not state["error"] and reached


# -- running ----------------------------------------------------------------------------------


def run_part(name, seed):
    """Run the rest of a part, batch by batch; gives its state."""
    _commit()
    part = all_parts()[name]
    STATE.mkdir(exist_ok=True)
    with open(_path(part).with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another runner may be at it
        state = standing(part, seed)
        state["error"] = None
        while state["next"] < part.total and not state["error"]:
            _batch(part, state, seed)
            _store(part, state)
        missed = [
            f"{what} ≥ {n}" for what, n in part.goals.items() if state["counts"].get(what, 0) < n
        ]
        if missed and not state["error"]:
            state["error"] = f"counts not reached: {', '.join(missed)}"
            _store(part, state)
    return state


def _batch(part, state, seed):
    start, stop = state["next"], min(state["next"] + part.batch, part.total)
    begin = time.monotonic()
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    try:
        counts = part.run(start, stop, seed)
    except Exception as error:
        state["error"] = f"cases {start} … {stop - 1}: {type(error).__name__}: {error}"
        return
    finally:
        faulthandler.cancel_dump_traceback_later()
    state["counts"] = dict(Counter(state["counts"]) + counts)
    state["seconds"] += time.monotonic() - begin
    state["next"], state["commit"] = stop, _commit()


def table(parts, seed):
    """Lines of the accumulated counts."""
    rows = [("part", "state", "cases", "seconds", "commit", "counts")]
    for part in parts:
        state = standing(part, seed)
        what = "passed" if passed(part, state) else "FAILED" if state["error"] else "open"
        counts = ", ".join(f"{n:,} {name}" for name, n in state["counts"].items())
        cases = f"{state['next']:,} of {part.total:,}"
        rows.append(
            (part.name, what, cases, f"{state['seconds']:.0f}", state.get("commit", ""), counts)
        )
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    for row in rows:
        yield "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]])


def _run_apart(part, options):
    """Run a part in a process of its own, and say how it ended."""
    command = [sys.executable, __file__, part.name, "--seed", str(options.seed)]
    campaign = not part.name.startswith("tests")  # a campaign has its share of the cores
    threads = {"OPENBLAS_NUM_THREADS": "1"} if campaign and options.jobs > 1 else {}
    env = {**os.environ, **threads}
    done = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=False)
    state = standing(part, options.seed)
    how = "passed" if passed(part, state) else state["error"] or f"status {done.returncode}"
    print(f"{part.name}: {how} ({state['seconds']:.0f} s)", flush=True)


def main():
    """Command line; the exit status is 0 if every chosen part has passed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="names of parts; all by default")
    parser.add_argument("--list", action="store_true", help="say where the parts stand")
    parser.add_argument("--fresh", action="store_true", help="forget where the parts stand")
    parser.add_argument("--jobs", type=int, default=1, help="parts at a time")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other cases")
    options = parser.parse_args()
    parts = all_parts()
    unknown = sorted(set(options.parts) - set(parts))
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(parts)}")
    chosen = [parts[name] for name in options.parts or parts]
    if options.fresh:
        for part in chosen:
            _path(part).unlink(missing_ok=True)
    todo = [part for part in chosen if not passed(part, standing(part, options.seed))]
    if not options.list and len(chosen) == 1 and todo:
        run_part(todo[0].name, options.seed)
    elif not options.list:
        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(lambda part: _run_apart(part, options), todo))
    print("\n".join(table(chosen, options.seed)))
    done = all(passed(part, standing(part, options.seed)) for part in chosen)
    sys.exit(0 if done or options.list else 1)


if __name__ == "__main__":
    main()
