"""Does the certificate pass what is right, and nothing else?

    python benchmarks/trust.py structured --jobs 2      # wrong and passed; with rows, beside EM
    python benchmarks/trust.py generic --jobs 2         # good fits that are passed
    python benchmarks/trust.py intervals --jobs 2       # coverage of 95 % intervals

Losses are Bayes accuracy − accuracy on 50,000 fresh rows, best permutation of the labels; nats are
per row, below the truth. Case c of `--first s` is drawn from `default_rng([s, c])`, whatever the
number of cases and jobs. With --verbose there is a line for each case.
"""

import argparse
import os
import time
from collections import Counter
from functools import partial

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy; --jobs inherits it
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import draws
import numpy as np
from draws import GENERIC
from results import accuracies, as_mixture, each, nearest, share, sklearn_fit, within

import momentmix as mm

WORST_LOSS, WORST_NATS = 0.01, 0.02

# Name, distribution, components, least number of features: with fewer, order 4 cannot tell them.
STRUCTURED = (
    ("one column", draws.one_column, 2, 4),
    ("nearly equal means", draws.nearly_equal_means, 2, 4),
    ("equal means", draws.equal_means, 2, 4),
    ("three on a line", draws.means_on_a_line, 3, 5),
    ("four on a line", draws.means_on_a_line, 4, 6),
    ("six in a plane", draws.means_in_a_plane, 6, 9),
    ("two columns", draws.two_columns, 2, 4),
)
# A wrong fit of these assigns rows well all the same; only the likelihood shows it.
JUDGED_BY_LIKELIHOOD = ("two columns",)


# -- distributions and fits -----------------------------------------------------------------------


def log_uniform(rng, low, high):
    return round(np.exp(rng.uniform(np.log(low), np.log(high))))


def structured_draw(case, rng):
    """Name, truth and rows; the families take turns."""
    name, make, r, least = STRUCTURED[case % len(STRUCTURED)]
    truth = make(r, int(rng.integers(least, 16)), rng)
    return name, truth, truth.sample(log_uniform(rng, 5e3, 2e5), rng)[0]


def generic_draw(case, rng):
    """Name, truth and rows; no more components than order 4 tells apart."""
    name = list(GENERIC)[case % len(GENERIC)]
    d = int(rng.integers(6, 16))
    truth = GENERIC[name](int(rng.integers(2, min(8, d // 2 + 1) + 1)), d, rng)
    return name, truth, truth.sample(log_uniform(rng, 2e4, 1e5), rng)[0]


def fitted(data, n_components, **options):
    """The fit, None if it was refused, and what is recorded of it."""
    start = time.perf_counter()
    try:
        fit = mm.fit(data, n_components, random_state=0, n_threads=1, **options)
    except mm.MomentmixError:
        return None, {"verdict": "refused"}
    certificate = fit.certificate
    return fit, {
        "verdict": certificate.verdict,
        "n_components": fit.mixture.n_components,
        "seconds": time.perf_counter() - start,
    }


def losses(mixture, truth):
    bayes, accuracy, nats = accuracies(mixture, truth)
    return {"loss": float(bayes - accuracy), "nats": float(nats)}


def judged(data, truth):
    """Record of a fit with as many components as the truth has, losses included."""
    fit, record = fitted(data, truth.n_components)
    return record if fit is None else record | losses(fit.mixture, truth)


def is_wrong(kind, record):
    if record["verdict"] == "refused":
        return False  # no answer is no wrong answer
    by_likelihood = kind in JUDGED_BY_LIKELIHOOD and record["nats"] > WORST_NATS
    return record["loss"] > WORST_LOSS or by_likelihood


def is_good(record):
    return record["verdict"] != "refused" and record["loss"] <= WORST_LOSS


def passed(record):
    return record["verdict"] == "passed"


def verdicts(records):
    counts = Counter(record["verdict"] for record in records)
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


def named(case, kind, truth, rows):
    r, d = truth.means.shape
    return {"case": case, "kind": kind, "r": r, "d": d, "n": len(rows)}


# -- structured and generic distributions ---------------------------------------------------------


def structured(case, a):
    """Structured distributions: wrong fits that are passed; with rows, how often as right as EM."""
    kind, truth, rows = structured_draw(case, np.random.default_rng([a.first, case]))
    result = named(case, kind, truth, rows)
    result["summary"] = judged(mm.summarize(rows, order=a.order), truth)
    if not a.summary_only:
        result["rows"] = judged(rows, truth)
    if not a.no_peer:
        result["em"] = losses(as_mixture(sklearn_fit(rows, truth.n_components)), truth)
    return result


def structured_counts(results, a):
    for kind in dict.fromkeys(x["kind"] for x in results):
        some = [x for x in results if x["kind"] == kind]
        yield f"{kind:>18}: {_wrong_text(some, 'summary')}"
    for data, text in (("summary", "from a summary"), ("rows", "with rows")):
        records = [x[data] for x in results if data in x]
        if records:
            yield f"{text}: {_wrong_text(results, data)}; {verdicts(records)}"
    if not a.no_peer:
        right = [x for x in results if x["em"]["loss"] <= WORST_LOSS]
        yield f"EM k-means++ ×10 within {WORST_LOSS} of Bayes: {share(len(right), len(results))}"
        if not a.summary_only:
            ours = sum(is_good(x["rows"]) for x in right)
            yield f"with rows within {WORST_LOSS} where EM is: {share(ours, len(right))}"


def _wrong_text(results, data):
    wrong = [x[data] for x in results if is_wrong(x["kind"], x[data])]
    n_passed = sum(map(passed, wrong))
    return f"{n_passed} wrong and passed, {len(wrong)} wrong of {len(results)}"


def generic(case, a):
    """Generic distributions: share of the good fits that are passed."""
    kind, truth, rows = generic_draw(case, np.random.default_rng([a.first, case]))
    result = named(case, kind, truth, rows)
    result["summary"] = judged(mm.summarize(rows, order=a.order), truth)
    if not a.summary_only:
        result["rows"] = judged(rows, truth)
    return result


def generic_counts(results, a):
    for data in ("summary",) if a.summary_only else ("summary", "rows"):
        records = [x[data] for x in results]
        good = [record for record in records if is_good(record)]
        bad = [record for record in records if not is_good(record)]
        yield (
            f"from {data}: good fits passed {share(sum(map(passed, good)), len(good))}; bad fits "
            f"passed {sum(map(passed, bad))} of {len(bad)}; {verdicts(records)}"
        )


# -- intervals ------------------------------------------------------------------------------------


def intervals(case, a):
    """Coverage of the 95 % intervals of fits that are passed, components of 500 rows or more."""
    kind, truth, rows = generic_draw(case, np.random.default_rng([a.first, case]))
    result = named(case, kind, truth, rows)
    for data, given in (("rows", rows), ("summary", mm.summarize(rows, order=a.order))):
        fit, record = fitted(given, truth.n_components)
        if fit is not None and passed(record):
            record["inside"] = covered(fit, truth, rows)
        result[data] = record
    return result


def covered(fit, truth, rows):
    """Which weights, means and variances lie in their intervals; components of 500 rows."""
    order, ends = nearest(truth.means, fit.mixture.means), fit.intervals()
    heavy = truth.weights * len(rows) >= 500
    above_floor = truth.variances > 2e-6 * rows.var(axis=0)
    inside = {}
    for name in ("weights", "means", "variances"):
        low, high = (end[order][heavy] for end in getattr(ends, name))
        hits = within((low, high), getattr(truth, name)[heavy])
        inside[name] = hits[above_floor[heavy]] if name == "variances" else hits.ravel()
    return inside


def intervals_counts(results, a):
    for data in ("rows", "summary"):
        some = [x[data]["inside"] for x in results if "inside" in x[data]]
        if not some:
            yield f"from {data}: no fit passed"
            continue
        hits = {name: np.concatenate([x[name] for x in some]) for name in some[0]}
        hits["all"] = np.concatenate(list(hits.values()))
        text = ", ".join(f"{name} {x.mean():.3f}" for name, x in hits.items())
        yield f"from {data}: coverage {text}; {len(some)} fits passed of {len(results)}"


# -- running --------------------------------------------------------------------------------------


def line_of(result):
    head = f"{result['case']:>4} {result['kind']:>18} r={result['r']} d={result['d']:<2} "
    parts = [head + f"N={result['n']:<6}"]
    for name in ("summary", "rows", "em"):
        if name in result:
            record = result[name]
            shown = ("verdict", "n_components", "loss", "nats")
            parts.append(f"{name} " + ", ".join(f"{record[k]:.4}" if isinstance(record[k], float)
                         else f"{record[k]}" for k in shown if k in record))  # fmt: skip
    return " | ".join(parts)


def attempt(command, a, case):
    """The result of a case, or the error that it ended with: one case does not end the others."""
    try:
        return COMMANDS[command][0](case, a)
    except Exception as error:
        return {"case": case, "error": f"{type(error).__name__}: {error}"}


COMMANDS = {
    "structured": (structured, structured_counts, 60),
    "generic": (generic, generic_counts, 150),
    "intervals": (intervals, intervals_counts, 60),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    sub = parser.add_subparsers(required=True, dest="command")
    for name, (command, _, _) in COMMANDS.items():
        p = sub.add_parser(name, help=command.__doc__.replace("%", "%%"))
        p.add_argument("--cases", type=int, help="by default those of the figure")
        p.add_argument("--first", type=int, default=0, help="seed of all cases")
        p.add_argument("--jobs", type=int, default=1, help="processes, of one thread each")
        p.add_argument("--order", type=int, default=4, help="of the summaries")
        p.add_argument("--verbose", "-v", action="store_true", help="a line for each case")
        if name == "structured":
            p.add_argument("--no-peer", action="store_true", help="leave EM k-means++ ×10 out")
        if name in ("structured", "generic"):
            p.add_argument("--summary-only", action="store_true", help="no fits of rows")
    a = parser.parse_args()
    _, count, n_cases = COMMANDS[a.command]
    results, n_errors = [], 0
    for result in each(partial(attempt, a.command, a), range(a.cases or n_cases), a.jobs):
        if "error" in result:
            n_errors += 1
            print(f"case {result['case']} ended with {result['error']}", flush=True)
            continue
        results.append(result)
        if a.verbose:
            print(line_of(result), flush=True)
    for line in count(results, a):
        print(line, flush=True)
    if n_errors:
        print(f"{n_errors} cases ended with an error and are not counted above")


if __name__ == "__main__":
    main()
