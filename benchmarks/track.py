"""Shares in groups (`mm.track`): coverage and false alarms.

    python benchmarks/track.py coverage   --first 0 --cases 40 --processes 2   # 300 groups a case
    python benchmarks/track.py unseen     --first 0 --cases 40                 # 50 groups a case
    python benchmarks/track.py unseen     --law "one column" --first 0         # of one kind
    python benchmarks/track.py speed                                           # 1,000 groups a case

One line a case, then summaries by kind of law, of model and of size. A case has a law of its own:
numbers (1 to 15 columns, some joined), yes/no answers, categories, counts, and missing cells, in
turn. The model is the truth, a fit to other rows ("fit"), its file, the fit to all rows of the
groups themselves ("whole"), or a fit of moments alone ("moments").
"""

import argparse
import math
import os
import tempfile
import time
import warnings
from collections import defaultdict
from multiprocessing import get_context

import numpy as np

import momentmix as mm

LAWS = ("numbers", "one column", "two columns", "joined", "yes-no", "mixed", "missing", "wide")
MODELS = ("truth", "fit", "file", "whole", "moments")
SIZES = ("few", "many", "varied")
N_GROUPS, N_UNSEEN = 300, 50
CHOSEN = {"law": None, "model": None}  # those of the command line, for all cases


# -- laws ---------------------------------------------------------------------------------------


def separation(means, deviations):
    """Least distance of two components, in standard deviations along all columns."""
    r = len(means)
    pairs = [(i, k) for i in range(r) for k in range(i)]
    return min(
        float(np.linalg.norm((means[i] - means[k]) / (0.5 * (deviations[i] + deviations[k]))))
        for i, k in pairs
    )


def numbers_law(rng, d, r, apart=2.5):
    """Means and deviations of components whose centers are at least `apart` deviations apart."""
    scale = 1.5
    while True:
        means = scale * rng.standard_normal((r, d))
        deviations = rng.uniform(0.6, 1.4, (r, d))
        if separation(means, deviations) >= apart:
            return means, deviations
        scale *= 1.02


def blocks_of(kind, r, rng):
    """Blocks of columns of a law of r components; units and offsets are arbitrary."""
    names = iter(f"x{j}" for j in range(100))
    if kind in ("numbers", "one column", "two columns", "wide"):
        d = {"numbers": int(rng.integers(3, 9)), "one column": 1, "two columns": 2, "wide": 15}[
            kind
        ]
        means, deviations = numbers_law(rng, d, r)
        offset, unit = 10.0 ** rng.uniform(-2, 6, d), 10.0 ** rng.uniform(-3, 3, d)
        return [
            mm.GaussianBlock.of(
                offset[j] + unit[j] * means[:, j], (unit[j] * deviations[:, j]) ** 2, next(names)
            )
            for j in range(d)
        ]
    if kind == "joined":
        found = []
        for _ in range(3):
            means, deviations = numbers_law(rng, 2, r, 0.5)
            correlation = rng.uniform(-0.8, 0.8, r)
            matrices = np.zeros((r, 2, 2))
            for i, s in enumerate(deviations):
                off = correlation[i] * s[0] * s[1]
                matrices[i] = [[s[0] ** 2, off], [off, s[1] ** 2]]
            found.append(mm.GaussianBlock.of(means, matrices, [next(names), next(names)]))
        return found
    if kind == "yes-no":
        return [
            mm.BernoulliBlock(rng.uniform(0.05, 0.95, r), ("no", "yes"), names=next(names))
            for _ in range(12)
        ]
    seen = (lambda: rng.uniform(0.5, 0.95, r)) if kind == "missing" else (lambda: None)
    means, deviations = numbers_law(rng, 4, r, 1.5)
    found = [
        mm.GaussianBlock.of(means[:, j], deviations[:, j] ** 2, next(names), seen())
        for j in range(4)
    ]
    found += [mm.PoissonBlock(rng.uniform(0.5, 8, r), names=next(names), seen=seen())]
    found += [
        mm.BernoulliBlock(rng.uniform(0.1, 0.9, r), (False, True), names=next(names))
        for _ in range(3)
    ]
    table = rng.dirichlet(np.ones(3), r)
    return [*found, mm.CategoricalBlock(table, ("a", "b", "c"), names=next(names), seen=seen())]


def n_components_of(kind, rng):
    most = {"one column": 2, "two columns": 3, "yes-no": 4}.get(kind, 5)
    return int(rng.integers(2, most + 1))


def chosen_blocks(blocks, components):
    return [block.chosen(components) for block in blocks]


def group_weights(r, rng):
    """Weights of a group: anywhere, often near 0."""
    w = rng.dirichlet(np.full(r, 1.0))
    if rng.random() < 0.3 and r > 1:
        w[rng.integers(r)] = rng.choice([0.0, 0.005, 0.02])
    return w / w.sum()


def sizes_of(kind, count, rng):
    if kind == "few":
        return np.full(count, 300)
    if kind == "many":
        return np.full(count, 3000)
    return np.exp(rng.uniform(np.log(150), np.log(20_000), count)).astype(int)


def summary_of(table, schema):
    if schema is None:
        return mm.summarize(table)
    return mm.summarize(table, families=schema, missing="model")


def fitted(mixture, n, seed, **options):
    table, _ = mixture.sample(n, random_state=seed)
    return fit_of(mixture, table, seed, **options)


def fit_of(mixture, data, seed, **options):
    """A fit of the right form, from the truth: what is measured here is not the search."""
    joined = [list(block.columns) for block in mixture.blocks if len(block.columns) > 1]
    if mixture.schema is not None and not isinstance(data, mm.MomentSummary):
        options |= {"families": mixture.schema, "missing": "model"}
    return mm.fit(data, mixture.n_components, blocks=joined or None, random_state=seed, **options)


def order_of(model, truth):
    """Components of the truth in the order of the model's."""
    from momentmix.mixture.matching import match_components

    return match_components(model, truth)


# -- cases --------------------------------------------------------------------------------------


def law_of(seed):
    rng = np.random.default_rng([seed, 7])
    kind = CHOSEN["law"] or LAWS[seed % len(LAWS)]
    r = n_components_of(kind, rng)
    return kind, r, blocks_of(kind, r + 1, rng), rng


def model_of(kind, truth, cube, n_total, seed):
    """The model that is tracked, and options."""
    if kind == "truth":
        return truth, {"model_rows": math.inf}
    if kind == "whole":
        total = sum(cube.values())
        return fit_of(truth, total, seed), {}
    if kind == "moments":
        table, _ = truth.sample(max(n_total, 20_000), random_state=seed + 10_000)
        schema = truth.schema
        missing = "error" if schema is None else "model"
        summary = mm.summarize(table, families=schema, missing=missing)
        return fit_of(truth, summary, seed + 10_000), {}
    result = fitted(truth, 10_000, seed + 10_000)
    if kind == "fit":
        return result, {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.json")
        result.save(path)
        return _Saved(path), {}


class _Saved:
    """A model file that is read at once, since its folder goes."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.content = file.read()

    def tracked(self, cube):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.json")
            with open(path, "wb") as file:
                file.write(self.content)
            return mm.track(path, cube), mm.Mixture.load(path)


def tracked_by(model, cube, **options):
    if isinstance(model, _Saved):
        return model.tracked(cube)
    mixture = getattr(model, "mixture", model)
    return mm.track(model, cube, **options), mixture


def coverage(seed):
    kind, r, blocks, rng = law_of(seed)
    own = chosen_blocks(blocks, list(range(r)))
    truth = mm.Mixture.from_blocks(rng.dirichlet(np.full(r, 4.0)), own)
    size = SIZES[seed // len(LAWS) % len(SIZES)]
    model_kind = CHOSEN["model"] or MODELS[(seed + seed // len(LAWS)) % len(MODELS)]
    n_rows = sizes_of(size, N_GROUPS, rng)
    wanted, cube = [], {}
    for g, n in enumerate(n_rows):
        w = group_weights(r, rng)
        table, _ = mm.Mixture.from_blocks(w, own).sample(
            int(n), random_state=int(rng.integers(2**31))
        )
        wanted.append(w)
        cube[g] = summary_of(table, truth.schema)
    try:
        model, options = model_of(model_kind, truth, cube, int(n_rows.sum()), seed)
    except mm.MomentmixError as error:
        return kind, model_kind, size, None, f"no model: {str(error)[:60]}"
    tracking, mixture = tracked_by(model, cube, **options)
    wanted = np.array(wanted)[:, order_of(mixture, truth)]
    covered = (tracking.low <= wanted) & (wanted <= tracking.high)
    small = wanted < 0.03
    figures = {
        "covered": covered.mean(),
        "near 0": covered[small].mean() if small.any() else math.nan,
        "width": (tracking.high - tracking.low).mean(),
        "p<5%": np.nanmean(tracking.p_value < 0.05),
        "p<1%": np.nanmean(tracking.p_value < 0.01),
        "flagged": (~tracking.fits).mean(),
    }
    return kind, model_kind, size, figures, f"r={r} d={truth.n_columns}"


def unseen(seed):
    kind, r, blocks, rng = law_of(seed)
    own = chosen_blocks(blocks, list(range(r)))
    truth = mm.Mixture.from_blocks(rng.dirichlet(np.full(r, 4.0)), own)
    model_kind = CHOSEN["model"] or ("truth", "fit", "file")[seed // len(LAWS) % 3]
    cube, clean = {}, {}
    for g in range(N_UNSEEN):
        n = int(rng.choice([2000, 4000, 10_000]))
        share = rng.uniform(0.1, 0.3)
        w = np.append((1 - share) * rng.dirichlet(np.full(r, 2.0)), share)
        table, _ = mm.Mixture.from_blocks(w, blocks).sample(
            n, random_state=int(rng.integers(2**31))
        )
        cube[g] = summary_of(table, truth.schema)
        table, _ = truth.sample(n, random_state=int(rng.integers(2**31)))
        clean[g] = summary_of(table, truth.schema)
    model, options = model_of(model_kind, truth, cube, 100_000, seed)
    new, _ = tracked_by(model, cube, **options)
    old, _ = tracked_by(model, clean, **options)
    figures = {
        "flagged": (~new.fits).mean(),
        "false p<1%": np.nanmean(old.p_value < 0.01),
        "false flags": (~old.fits).mean(),
    }
    return kind, model_kind, "2,000+", figures, f"r={r}+1 d={truth.n_columns}"


N_SPEED = 1000


def speed(seed):
    """Groups of 2,000 rows; the model is a fit to 10,000 others."""
    kind = ("numbers", "joined", "mixed")[seed % 3]
    rng = np.random.default_rng(seed)
    if kind == "numbers":
        means, deviations = numbers_law(rng, 8, 4)
        blocks = [
            mm.GaussianBlock.of(means[:, j], deviations[:, j] ** 2, f"x{j}") for j in range(8)
        ]
    else:
        blocks = blocks_of(kind, 4, rng)
    truth = mm.Mixture.from_blocks(np.full(4, 0.25), blocks)
    model = fitted(truth, 10_000, seed)
    groups = {}
    for g in range(N_SPEED):
        table, _ = truth.sample(2000, random_state=g)
        groups[(g,)] = summary_of(table, truth.schema).to_bytes()
    cube = mm.SummaryCube(["g"], groups)
    started = time.perf_counter()
    tracking = mm.track(model, cube)
    seconds = time.perf_counter() - started
    assert abs(tracking.weights.mean(axis=0) - 0.25).max() < 0.02
    figures = {"milliseconds a group": 1000 * seconds / N_SPEED}
    return kind, "fit", "2,000", figures, f"r=4 d={truth.n_columns}"


CASES = {case.__name__: case for case in (coverage, unseen, speed)}


def run(job):
    name, seed, chosen = job
    CHOSEN.update(chosen)
    warnings.simplefilter("ignore")
    return seed, *CASES[name](seed)


def line_of(figures):
    return "  ".join(f"{name} {value:.3f}" for name, value in figures.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=CASES)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", type=int, default=8)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--law", choices=LAWS, help="of all cases; in turn by default")
    parser.add_argument("--model", choices=MODELS, help="of all cases; in turn by default")
    options = parser.parse_args()
    count = 3 if options.what == "speed" else options.cases
    chosen = {"law": options.law, "model": options.model}
    jobs = [(options.what, seed, chosen) for seed in range(options.first, options.first + count)]
    by_kind = defaultdict(list)
    with get_context("spawn").Pool(options.processes) as pool:
        for seed, law, model, size, figures, facts in pool.imap(run, jobs):
            text = facts if figures is None else f"{line_of(figures)}  {facts}"
            print(f"{seed:>5}  {law:<12} {model:<9} {size:<7} {text}", flush=True)
            if figures is not None:
                for key in ("all", law, model, size):
                    by_kind[key].append(figures)
    for key, found in by_kind.items():
        names = found[0]
        means = {name: float(np.nanmean([case[name] for case in found])) for name in names}
        print(f"{'mean':>5}  {key:<30} {line_of(means)}  ({len(found)} cases)")
    if options.what == "coverage" and by_kind:
        own = np.array([case["covered"] for case in by_kind["all"]])
        inside = int(((own >= 0.92) & (own <= 0.98)).sum())
        print(
            f"in {inside} of {len(own)} cases within 92 to 98 %; {own.min():.3f} to {own.max():.3f}"
        )


if __name__ == "__main__":
    main()
