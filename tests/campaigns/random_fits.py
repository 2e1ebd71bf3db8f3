"""Default fits of random tables: nothing is raised but what the table deserves.

A table is made from its seed alone: components, columns of any family, gaps, rare levels, constant
and duplicated columns, whole numbers. Every such table is sound: with rows a fit may not refuse it.
From a summary it may refuse numbers of components that moments do not identify.
"""

import warnings
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

import momentmix as mm
from momentmix.errors import CapacityError, FitWarning

FEWEST_ROWS, MOST_ROWS = 20, 50_000


@dataclass
class Columns:
    """Columns that are drawn one by one, given the component of each row."""

    rng: np.random.Generator
    labels: np.ndarray
    n_components: int
    values: dict = field(default_factory=dict)
    families: dict = field(default_factory=dict)

    def spread(self):
        """A number for each row, which depends on its component."""
        return 2.0 * self.rng.standard_normal(self.n_components)[self.labels]

    def gaussian(self):
        unit, noise = 10.0 ** self.rng.uniform(-3, 3), self.rng.standard_normal(self.labels.size)
        return unit * (self.spread() + noise + self.rng.choice([0.0, 100.0])), None

    def log(self):
        return np.exp(self.spread() + self.rng.standard_normal(self.labels.size)), "log"

    def log1p(self):
        counts = self.rng.poisson(np.exp(self.spread()))
        return counts.astype(float), "log1p"

    def poisson(self):
        return self.rng.poisson(np.exp(self.spread() / 2 + 0.5)), "poisson"

    def bernoulli(self):
        most = self.rng.choice([1.0, 0.02])
        p = self.rng.uniform(0, most, self.n_components)
        return self.rng.random(self.labels.size) < p[self.labels], None

    def categorical(self):
        n_levels = int(self.rng.integers(2, 9))
        evenness = self.rng.choice([0.05, 0.3, 2.0])  # the smaller, the rarer are some levels
        steps = self.rng.dirichlet(np.full(n_levels, evenness), self.n_components).cumsum(axis=1)
        draws = self.rng.random(self.labels.size)
        numbers = np.minimum((draws[:, None] > steps[self.labels]).sum(axis=1), n_levels - 1)
        numbers[self.rng.integers(numbers.size)] = n_levels - 1  # a level of one row, at least
        return np.array([f"level {k}" for k in range(n_levels)])[numbers], "categorical"

    def whole(self):
        top = int(self.rng.integers(2, 12))
        return np.clip(
            np.rint(self.spread() + self.rng.normal(size=self.labels.size)), 0, top
        ), None

    def constant(self):
        value = self.rng.choice(np.array([0.0, 1.0, 0.1, -3e5]))
        return np.full(self.labels.size, value), "gaussian"

    def same_level(self):
        return np.full(self.labels.size, "always"), None

    def duplicate(self):
        name = self.rng.choice(list(self.values)) if self.values else None
        return self.gaussian() if name is None else (self.values[name], self.families.get(name))

    def add(self, name):
        """A column of some kind."""
        kinds = [self.gaussian, self.log, self.log1p, self.poisson, self.bernoulli]
        kinds += [self.categorical, self.whole, self.constant, self.same_level, self.duplicate]
        shares = np.array([8, 2, 2, 3, 4, 5, 3, 1, 1, 1.0])
        values, family = kinds[self.rng.choice(len(kinds), p=shares / shares.sum())]()
        self.values[name] = values
        if family is not None:
            self.families[name] = family


def random_table(rng, most_columns=30, most_rows=MOST_ROWS, most_components=12):
    """A table, its families, and how many components its law has."""
    n = int(FEWEST_ROWS * (most_rows / FEWEST_ROWS) ** (rng.random() ** 2))
    r, d = int(rng.integers(1, most_components + 1)), int(rng.integers(1, most_columns + 1))
    labels = rng.choice(r, size=n, p=rng.dirichlet(np.full(r, 3.0)))
    columns = Columns(rng, labels, r)
    for j in range(d):
        columns.add(f"x{j}")
    if all(len(set(values.tolist())) < 2 for values in columns.values.values()):
        columns.values["x0"], _ = columns.gaussian()  # something has to vary
    frame = pd.DataFrame(columns.values)
    if rng.random() < 0.4:
        for name in frame:
            if rng.random() < 0.5:
                gaps = rng.random(n) < rng.choice([0.01, 0.1, 0.5])
                gaps[rng.integers(n)] = False  # a column without any cell is no sound one
                is_number = frame[name].dtype.kind in "if"
                frame[name] = frame[name].astype(float if is_number else object).mask(gaps)
    families = dict(columns.families)
    for name in frame:
        if frame[name].nunique() < 2 and families.get(name) == "categorical":
            del families[name]  # the levels that it may have would have to be given
    return frame, families, r


def check_result(result, frame):
    """All numbers are finite, and the result can be shown; where there were rows, they have one."""
    p = result.mixture.parameters
    for values in (p.weights, p.means, p.variances):
        assert np.isfinite(values).all()
    assert abs(p.weights.sum() - 1) < 1e-9
    for show in (str, repr):
        assert show(result)
    assert np.isfinite(result.mixture.log_prob(frame)).all()
    assert len(result.mixture.predict(frame)) == len(frame)


def random_fits(start, stop, seed):
    """A case: a default fit of a random table, from its rows or from their summary."""
    counts = Counter()
    for number in range(start, stop):
        counts += Counter({"random fits": 1, random_fit(seed, number): 1})
    return counts


def random_fit(seed, number):
    """What came of one case."""
    rng = np.random.default_rng([seed, 31, number])
    from_summary, wanted_auto = number % 4 == 3, rng.random() < 0.25
    # Moments of 30 columns, most of them levels, take minutes.
    frame, families, r = random_table(rng, 10 if from_summary else 30)
    wanted = "auto" if wanted_auto else r
    options = {"families": families, "missing": "model" if frame.isna().any(axis=None) else "error"}
    place = f"case {number}: {frame.shape}, {r} components, {wanted}, summary={from_summary}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", FitWarning)
        try:
            data = mm.summarize(frame, **options) if from_summary else frame
            given = {} if from_summary else options
            result = mm.fit(data, wanted, random_state=number, **given)
            check_result(result, frame)
        except Exception as error:
            if from_summary and isinstance(error, CapacityError):
                return "refused: moments do not identify so many components"
            raise AssertionError(f"{place}: {type(error).__name__}: {error}") from error
    return "summaries fitted" if from_summary else "tables fitted"
