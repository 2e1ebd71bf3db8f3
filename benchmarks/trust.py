"""Does the certificate pass what is right, and nothing else? Structured laws, "auto", shapes.

Each sub-command prints a summary, with --verbose a line per case. Losses are Bayes accuracy −
accuracy on 50,000 fresh rows, best permutation of the labels; nats are per row, below the truth.

    python benchmarks/trust.py structured --jobs 2      # wrong and passed; with rows, beside EM
    python benchmarks/trust.py generic --jobs 2         # good fits that are passed
    python benchmarks/trust.py auto --jobs 2 --peer     # number of components, beside BIC
    python benchmarks/trust.py shape --jobs 2           # a column that is not Gaussian is named
    python benchmarks/trust.py intervals --jobs 2       # coverage of 95 % intervals

Case c of `--first s` is drawn from `default_rng([s, c])`, whatever the number of cases and jobs.
"""

import argparse
import json
import os
import time
import warnings
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from itertools import combinations
from multiprocessing import get_context

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy; --jobs inherits it
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import laws
import numpy as np
from laws import LAWS, sklearn_best
from sklearn.mixture import GaussianMixture

import momentmix as mm
from momentmix.tables.rows import ArrayRows

WORST_LOSS, WORST_NATS = 0.01, 0.02
NO_ANSWER = ("refused", "failed")

# Name, law, components, least number of features: with fewer, order 4 cannot tell so many apart.
STRUCTURED = (
    ("one column", laws.one_column, 2, 4),
    ("nearly equal means", laws.nearly_equal_means, 2, 4),
    ("equal means", laws.equal_means, 2, 4),
    ("three on a line", laws.means_on_a_line, 3, 5),
    ("four on a line", laws.means_on_a_line, 4, 6),
    ("six in a plane", laws.means_in_a_plane, 6, 9),
    ("two columns", laws.two_columns, 2, 4),
)
# A wrong fit of these assigns rows well all the same; only the likelihood shows it.
JUDGED_BY_LIKELIHOOD = ("two columns",)
SHAPES = ("exponential", "uniform", "bimodal", "row number")
CONTROLS = ("normal", "no column")
EXTRA = "extra_column"  # a name that no sentence holds by chance


# -- laws and fits ------------------------------------------------------------------------------


def log_uniform(rng, low, high):
    return round(np.exp(rng.uniform(np.log(low), np.log(high))))


def structured_law(case, rng):
    """Name, truth and rows; the families take turns."""
    name, law, r, least = STRUCTURED[case % len(STRUCTURED)]
    truth = law(r, int(rng.integers(least, 16)), rng)
    return name, truth, truth.sample(log_uniform(rng, 5e3, 2e5), rng)[0]


def generic_law(case, rng, least_weight=0.0, one=False):
    """Name, truth and rows; no more components than order 4 tells apart, from one where `one`."""
    name = list(LAWS)[case % len(LAWS)]
    d = int(rng.integers(6, 16))
    least = 1 if one and name != "light" else 2
    r = int(rng.integers(least, min(8, d // 2 + 1) + 1))
    truth = LAWS[name](r, d, rng)
    while truth.weights.min() < min(least_weight, 0.02 if name == "light" else 1):
        truth = LAWS[name](r, d, rng)
    return name, truth, truth.sample(log_uniform(rng, 2e4, 1e5), rng)[0]


def fitted(data, n_components, **options):
    """The fit, None if it was refused, and what is recorded of it."""
    start = time.perf_counter()
    try:
        fit = mm.fit(data, n_components, random_state=0, n_threads=1, **options)
    except mm.MomentmixError as error:
        return None, {"verdict": "refused", "reasons": [str(error)]}
    certificate = fit.certificate
    return fit, {
        "verdict": certificate.verdict,
        "reasons": list(certificate.reasons),
        "findings": [finding.text for finding in certificate.findings],
        "p_value": float(certificate.p_value),
        "predicted_loss": float(certificate.predicted_loss),
        "n_components": fit.mixture.n_components,
        "seconds": time.perf_counter() - start,
    }


def losses(mixture, truth):
    bayes, accuracy, nats = laws.accuracies(mixture, truth)
    return {"bayes": float(bayes), "loss": float(bayes - accuracy), "nats": float(nats)}


def judged(data, truth, **options):
    """Record of a fit with as many components as the truth has, losses included."""
    fit, record = fitted(data, truth.n_components, **options)
    return record if fit is None else record | losses(fit.mixture, truth)


def is_wrong(law, record):
    if record["verdict"] in NO_ANSWER:
        return False  # no answer is no wrong answer
    by_likelihood = law in JUDGED_BY_LIKELIHOOD and record["nats"] > WORST_NATS
    return record["loss"] > WORST_LOSS or by_likelihood


def is_good(record):
    return record["verdict"] not in NO_ANSWER and record["loss"] <= WORST_LOSS


def passed(record):
    return record["verdict"] == "passed"


def verdicts(records):
    return ", ".join(f"{count} {name}" for name, count in Counter(
        record["verdict"] for record in records).most_common())  # fmt: skip


def share(count, total):
    return f"{count} of {total} ({100 * count / total:.1f} %)" if total else "0 of 0"


def text_of(record):
    if "loss" not in record:
        return f"{record['verdict']} {record['reasons'][0][:60]}"
    text = f"loss {record['loss']:+.4f} nats {record['nats']:+.4f}"
    if "verdict" in record:
        text += (
            f" {record['verdict']} p {record['p_value']:.2g} predicted "
            f"{record['predicted_loss']:.3f} {record['seconds']:.1f} s"
        )
    return text


def named(case, law, truth, rows):
    r, d = truth.means.shape
    return {"case": case, "law": law, "r": r, "d": d, "n": len(rows)}


# -- structured and generic laws ----------------------------------------------------------------


def structured(case, a):
    """60 structured laws: wrong fits that are passed; with rows, how often as right as EM."""
    law, truth, rows = structured_law(case, np.random.default_rng([a.first, case]))
    result = named(case, law, truth, rows)
    result["summary"] = judged(mm.summarize(rows, order=a.order), truth)
    if not a.summary_only:
        result["rows"] = judged(rows, truth)
    if not a.no_peer:
        peer, seconds = sklearn_best(rows, truth.n_components, 1e-6, 0)
        result["em"] = losses(peer, truth) | {"seconds": seconds}
    result["wrong_and_passed"] = [
        name for name in ("summary", "rows")
        if name in result and is_wrong(law, result[name]) and passed(result[name])
    ]  # fmt: skip
    return result


def structured_summary(results, a):
    by_law = defaultdict(list)
    for x in results:
        by_law[x["law"]].append(x)
    for law, group in by_law.items():
        yield f"{law:>18}: {_wrong_text(group, 'summary')}"
    yield f"from a summary: {_wrong_text(results, 'summary')}; {_verdict_text(results, 'summary')}"
    if not a.summary_only:
        yield f"with rows: {_wrong_text(results, 'rows')}; {_verdict_text(results, 'rows')}"
        good = sum(is_good(x["rows"]) for x in results)
        yield f"with rows within {WORST_LOSS} of Bayes: {share(good, len(results))}"
    if not a.no_peer:
        right = [x for x in results if x["em"]["loss"] <= WORST_LOSS]
        yield f"EM k-means++ ×10 within {WORST_LOSS} of Bayes: {share(len(right), len(results))}"
        if not a.summary_only:
            ours = sum(is_good(x["rows"]) for x in right)
            yield f"with rows within {WORST_LOSS} where EM is: {share(ours, len(right))}"


def _wrong_text(results, data):
    wrong = [x for x in results if is_wrong(x["law"], x[data])]
    return (
        f"{sum(passed(x[data]) for x in wrong)} wrong and passed, {len(wrong)} wrong "
        f"of {len(results)}"
    )


def _verdict_text(results, data):
    return verdicts([x[data] for x in results])


def generic(case, a):
    """150 generic laws: share of the good fits that are passed."""
    law, truth, rows = generic_law(case, np.random.default_rng([a.first, case]))
    result = named(case, law, truth, rows)
    result["summary"] = judged(mm.summarize(rows, order=a.order), truth)
    if not a.summary_only:
        result["rows"] = judged(rows, truth)
    return result


def generic_summary(results, a):
    for data in ("summary",) if a.summary_only else ("summary", "rows"):
        good = [x[data] for x in results if is_good(x[data])]
        bad = [x[data] for x in results if not is_good(x[data])]
        yield (
            f"from {data}: good fits passed {share(sum(map(passed, good)), len(good))}; bad fits "
            f"passed {sum(map(passed, bad))} of {len(bad)}; {_verdict_text(results, data)}"
        )


# -- the number of components -------------------------------------------------------------------

AUTO = {"structured rows": 40, "generic rows": 60, "generic summary": 60}


def auto(case, a):
    """40 structured laws with rows, 60 generic ones with rows, 60 from a summary."""
    group, number = case
    rng = np.random.default_rng([a.first, number])
    if group == "structured rows":
        law, truth, rows = structured_law(number, rng)
    else:
        law, truth, rows = generic_law(number, rng, least_weight=0.05, one=True)
    data = mm.summarize(rows, order=a.order) if group.endswith("summary") else rows
    fit, record = fitted(data, "auto")
    result = named(number, law, truth, rows) | {"group": group, "fit": record}
    if fit is not None:
        record |= losses(fit.mixture, truth)
    result["supported"] = bool(rows_support(truth, rows))
    if a.peer:
        result["bic"] = least_bic(rows)
    return result


def rows_support(truth, rows):
    """Whether BIC prefers the true number to one component fewer, each at its best.

    EM starts at the truth, and at the truth with two components merged: the three pairs that cost
    the least likelihood. No method can be asked for a number that the rows do not support.
    """
    if truth.n_components == 1:
        return True
    fewer = [merged(truth, i, j) for i, j in combinations(range(truth.n_components), 2)]
    fewer.sort(key=lambda mixture: -mixture.log_prob(rows[:5000]).mean())
    return bic_from(truth, rows) < min(bic_from(mixture, rows) for mixture in fewer[:3])


def merged(truth, i, j):
    """The mixture with component j in component i: same mean and variances of the two together."""
    weights, means, variances = (x.copy() for x in (truth.weights, truth.means, truth.variances))
    weights[i] += weights[j]
    share_of_j = truth.weights[j] / weights[i]
    means[i] += share_of_j * (means[j] - means[i])
    gap = truth.means[j] - truth.means[i]
    variances[i] += share_of_j * (variances[j] - variances[i])
    variances[i] += share_of_j * (1 - share_of_j) * gap**2
    kept = np.arange(truth.n_components) != j
    return laws.diagonal(weights[kept], means[kept], variances[kept])


def bic_from(start, rows):
    """BIC after EM from a mixture."""
    model = GaussianMixture(
        start.n_components, covariance_type="diag", max_iter=200, means_init=start.means,
        weights_init=start.weights.clip(0.0, 1.0), precisions_init=1 / start.variances,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(rows).bic(rows)


def least_bic(rows, most=10):
    """The number of components of least BIC, EM from k-means++ ×3."""
    n, d = rows.shape
    best = {}
    for r in range(1, most + 1):
        mixture, _ = sklearn_best(rows, r, 1e-6, 0, n_init=3)
        n_parameters = r * (2 * d + 1) - 1
        best[r] = n_parameters * np.log(n) - 2 * n * mixture.log_prob(rows).mean()
    return min(best, key=best.get)


def auto_is_right(result):
    return result["fit"].get("n_components") == result["r"]


def auto_summary(results, a):
    for group in AUTO:
        some = [x for x in results if x["group"] == group]
        if not some:
            continue
        wrong = [x for x in some if not auto_is_right(x)]
        found = ", ".join(f"{x['r']}→{x['fit'].get('n_components', '-')}" for x in wrong)
        yield (
            f"{group}: right {share(len(some) - len(wrong), len(some))}; of the wrong ones passed "
            f"{sum(passed(x['fit']) for x in wrong)} of {len(wrong)}"
            + (f" ({found})" if wrong else "")
        )
        supported = [x for x in some if x["supported"]]
        right = sum(map(auto_is_right, supported))
        yield f"{group}: right where the rows support the number {share(right, len(supported))}"
        if a.peer:
            right = sum(x["bic"] == x["r"] for x in some)
            yield f"{group}: least BIC right {share(right, len(some))}"


# -- a column of another shape ------------------------------------------------------------------


def extra_column(kind, n, rng):
    if kind == "exponential":
        return rng.exponential(size=n)
    if kind == "uniform":
        return rng.uniform(size=n)
    if kind == "bimodal":
        return rng.normal(size=n) + 6 * rng.integers(2, size=n)
    return rng.normal(size=n) if kind == "normal" else np.arange(n, dtype=float)


def shape(case, a):
    """100 columns that are not Gaussian, and controls: named, and the fit is not passed?"""
    kinds = SHAPES + CONTROLS
    kind = kinds[case % len(kinds)]
    rng = np.random.default_rng([a.first, case])
    d, r = int(rng.integers(6, 13)), int(rng.integers(2, 5))
    law = ("separated", "shared")[int(rng.integers(2))]
    truth = LAWS[law](r, d, rng)
    rows, _ = truth.sample(a.rows, rng)
    names = tuple(f"x{j}" for j in range(d))
    if kind != "no column":
        place = int(rng.integers(d + 1))
        rows = np.insert(rows, place, extra_column(kind, len(rows), rng), axis=1)
        names = (*names[:place], EXTRA, *names[place:])
    result = named(case, law, truth, rows) | {"kind": kind}
    source = ArrayRows(rows, feature_names=names)
    for data, given in (
        ("rows", source), ("summary", mm.summarize(rows, order=a.order, feature_names=names)),
    ):  # fmt: skip
        _, record = fitted(given, r)
        sentences = record["reasons"] + record.get("findings", [])
        record["names_extra"] = any(EXTRA in sentence for sentence in sentences)
        record["named"] = record["names_extra"] and not passed(record)
        result[data] = record
    return result


def shape_summary(results, a):
    for data in ("rows", "summary"):
        counted = [x[data] for x in results if x["kind"] in SHAPES]
        yield f"from {data}: named {share(sum(x['named'] for x in counted), len(counted))}"
        for kind in SHAPES + CONTROLS:
            some = [x[data] for x in results if x["kind"] == kind]
            count = sum(x["names_extra"] for x in some)
            text = f"control, {kind}" if kind in CONTROLS else kind
            yield f"    {text:>18}: named in {count} of {len(some)}; {verdicts(some)}"


# -- intervals ----------------------------------------------------------------------------------


def intervals(case, a):
    """Coverage of the 95 % intervals of fits that are passed, components of 500 rows or more."""
    law, truth, rows = generic_law(case, np.random.default_rng([a.first, case]))
    result = named(case, law, truth, rows)
    for data, given in (("rows", rows), ("summary", mm.summarize(rows, order=a.order))):
        fit, record = fitted(given, truth.n_components)
        result[data] = record
        if fit is not None and passed(record):
            record["inside"] = laws.covered(fit, truth, rows)
    return result


def intervals_summary(results, a):
    for data in ("rows", "summary"):
        some = [x[data]["inside"] for x in results if "inside" in x[data]]
        if not some:
            yield f"from {data}: no fit passed"
            continue
        total = {name: np.sum([x[name] for x in some], axis=0) for name in some[0]}
        total["all"] = sum(total.values())
        text = ", ".join(f"{name} {inside / size:.3f}" for name, (inside, size) in total.items())
        yield f"from {data}: coverage {text}; {len(some)} fits passed of {len(results)}"


# -- running ------------------------------------------------------------------------------------


def line_of(result):
    head = f"{result['case']:>4} {result['law']:>18} r={result['r']} d={result['d']:<2} "
    head += f"N={result['n']:<6}"
    parts = [result[key] for key in ("group", "kind") if key in result]
    for name in ("summary", "rows", "em", "fit"):
        if name not in result:
            continue
        record = result[name]
        text = f"{name}: "
        if "inside" in record:
            text += ", ".join(f"{k} {i}/{n}" for k, (i, n) in record["inside"].items())
        elif "named" in record:
            text += ("named" if record["named"] else "NOT named") + f" {record['verdict']}"
        elif "loss" in record or record["verdict"] in NO_ANSWER:
            text += text_of(record)
        else:
            text += record["verdict"]
        parts.append(text)
    if "fit" in result:
        parts.append(f"found {result['fit'].get('n_components', '-')}")
        if not result["supported"]:
            parts.append("not supported by the rows")
    if "bic" in result:
        parts.append(f"BIC {result['bic']}")
    if result.get("wrong_and_passed"):
        parts.append(f"<-- wrong and passed ({', '.join(result['wrong_and_passed'])})")
    return head + " | " + " | ".join(parts)


def attempt(command, a, case):
    """The result of a case, or the error that it ended with: one case does not end the others."""
    try:
        return COMMANDS[command][0](case, a)
    except Exception as error:
        return {"case": case, "error": f"{type(error).__name__}: {error}"}


def run_all(work, cases, jobs):
    """Results as they come."""
    if jobs == 1:
        yield from map(work, cases)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(work, case) for case in cases]):
            yield future.result()


COMMANDS = {
    "structured": (structured, structured_summary, 60),
    "generic": (generic, generic_summary, 150),
    "auto": (auto, auto_summary, None),
    "shape": (shape, shape_summary, 150),
    "intervals": (intervals, intervals_summary, 60),
}


def cases_of(a):
    if a.command != "auto":
        return list(range(a.cases or COMMANDS[a.command][2]))
    groups = {g: n for g, n in AUTO.items() if a.only in g}
    return [(group, case) for group, n in groups.items() for case in range(a.cases or n)]


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    sub = parser.add_subparsers(required=True, dest="command")
    for name, (command, _, _) in COMMANDS.items():
        p = sub.add_parser(name, help=command.__doc__.replace("%", "%%"))
        p.add_argument("--cases", type=int, help="in each group; by default those of the figure")
        p.add_argument("--first", type=int, default=0, help="seed of all cases")
        p.add_argument("--jobs", type=int, default=1, help="processes, of one thread each")
        p.add_argument("--order", type=int, default=4, help="of the summaries")
        p.add_argument("--verbose", "-v", action="store_true", help="a line for each case")
        p.add_argument("--json", help="write all cases to this file")
        if name == "structured":
            p.add_argument("--no-peer", action="store_true", help="leave EM k-means++ ×10 out")
        if name in ("structured", "generic"):
            p.add_argument("--summary-only", action="store_true", help="no fits of rows")
        if name == "auto":
            p.add_argument("--peer", action="store_true", help="BIC over r = 1…10 as well: slow")
            p.add_argument("--only", default="", help="groups whose name contains this")
        if name == "shape":
            p.add_argument("--rows", type=lambda s: int(float(s)), default=20_000)
    return parser.parse_args()


def main():
    a = options()
    results, errors = [], []
    for result in run_all(partial(attempt, a.command, a), cases_of(a), a.jobs):
        if "error" in result:
            errors.append(result)
            print(f"case {result['case']} ended with {result['error']}", flush=True)
            continue
        results.append(result)
        if a.verbose:
            print(line_of(result), flush=True)
    results.sort(key=lambda x: (x.get("group", ""), x["case"]))
    for line in COMMANDS[a.command][1](results, a):
        print(line, flush=True)
    if errors:
        print(f"{len(errors)} cases ended with an error and are not counted above")
    if a.json:
        with open(a.json, "w", encoding="utf-8") as file:
            json.dump({"options": vars(a), "cases": results, "errors": errors}, file, indent=1)


if __name__ == "__main__":
    main()
