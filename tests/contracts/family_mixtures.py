"""Mixtures of every family, with and without missing cells, by their seeds."""

import numpy as np

import momentmix as mm

PLANS = ("basic", "gold", "silver", "none")


def blocks_of(family, rng, r, name, seen):
    """One block of random parameters; joined numbers have two columns."""
    if family == "joined":
        roots = rng.standard_normal((r, 3, 4))
        names = [f"{name}{j}" for j in range(3)]
        seen = None if seen is None else np.stack([seen, np.ones(r), 0.9 * seen], axis=1)
        means = 3 * rng.standard_normal((r, 3))
        return mm.GaussianBlock(means, roots @ roots.swapaxes(1, 2), names, seen)
    if family in ("gaussian", "log", "log1p"):
        transform = "" if family == "gaussian" else family
        means, variances = rng.standard_normal(r), rng.uniform(0.2, 2.0, r)
        return mm.GaussianBlock(means, variances, name, seen, transform)
    if family == "bernoulli":
        return mm.BernoulliBlock(rng.uniform(0.05, 0.95, r), ("no", "yes"), names=name, seen=seen)
    if family == "categorical":
        table = rng.dirichlet(np.ones(len(PLANS)), r)
        return mm.CategoricalBlock(table, PLANS, names=name, seen=seen)
    if family == "poisson":
        return mm.PoissonBlock(rng.uniform(0.3, 60.0, r), names=name, seen=seen)
    sizes = np.exp(rng.uniform(-2.0, 5.0, r))
    return mm.NegativeBinomialBlock(rng.uniform(0.3, 400.0, r), sizes, names=name, seen=seen)


FAMILIES = (
    "gaussian", "log", "log1p", "joined", "bernoulli", "categorical", "poisson",
    "negative_binomial",
)  # fmt: skip


def mixture_of(families, seed, r=3, missing=False):
    """A mixture with a block of each family; with `missing`, of probabilities of being observed."""
    rng = np.random.default_rng(seed)
    blocks = []
    for number, family in enumerate(families):
        seen = rng.uniform(0.3, 0.95, r) if missing else None
        blocks.append(blocks_of(family, rng, r, f"c{number}", seen))
    return mm.Mixture.from_blocks(rng.dirichlet(np.full(r, 5.0)), blocks)


def with_missing(table, seed, share=0.25):
    """The table with cells missing, in every column."""
    rng, found = np.random.default_rng(seed), {}
    for name, column in table.items():
        is_text = column.dtype == object
        column = column.astype(object if is_text else float)
        column[rng.random(len(column)) < share] = None if is_text else np.nan
        found[name] = column
    return found


def cases():
    """Name, mixture and seed; of names with "gaps", a quarter of the cells will be missing."""
    for number, family in enumerate((*FAMILIES, "all")):
        chosen = FAMILIES if family == "all" else (family,)
        for missing in (False, True):
            for gaps in (False, True):
                seed = 8 * number + 4 * missing + 2 * gaps
                kind = f"{'modeled' if missing else 'complete'}-{'gaps' if gaps else 'rows'}"
                yield f"{family}-{kind}", mixture_of(chosen, seed, missing=missing), seed


def rows_of(name, mixture, seed):
    """A table of rows for a case."""
    table, _ = mixture.sample(30, random_state=seed + 1)
    if not isinstance(table, dict):  # a mixture of numbers alone
        table = dict(zip(mixture.feature_names, table.T, strict=True))
    return with_missing(table, seed) if name.endswith("gaps") else table
