"""The moments of a summary are those of its rows: against integers and fractions, in every form.

Cells are whole multiples of a power of two, so that the oracle is exact, whatever the offset.
"""

from fractions import Fraction
from itertools import combinations, combinations_with_replacement

import numpy as np
import pandas as pd
import pytest

import momentmix as mm


def products(d, order, squared_order):
    """Features of each moment, repeated as they are, by the name and place in `Moments`."""

    def colex(members, size):
        return sorted(combinations(members, size), key=lambda chosen: chosen[::-1])

    others = [[i for i in range(d) if i != j] for j in range(d)]
    for t in range(order + 1):
        for place, s in enumerate(colex(range(d), t)):
            yield ("distinct", t, place), s
    for s in range(squared_order + 1):
        for j in range(d):
            for place, c in enumerate(colex(others[j], s)):
                yield ("squared", s, (j, place)), (j, j, *c)
    for p in range(3, 7):
        for j in range(d):
            yield ("powers", p - 3, j), (j,) * p
    for j in range(d):
        for place, k in enumerate(others[j]):
            yield ("cubed", j, place), (j, j, j, k)
    for place, (j, k) in enumerate(colex(range(d), 2)):
        yield ("two_squares", place, ()), (j, j, k, k)


def worst(moments, points, weights, unit):
    """Largest error of all moments, as a part of Σ|z|/Σw; `points` are integers in `unit`s."""
    columns = [np.array(column.tolist(), dtype=object) for column in points.T]
    weights = np.array([int(4 * w) for w in weights.tolist()], dtype=object)
    total, known, found = sum(weights), {(): weights}, []

    def product(s):
        if s not in known:
            known[s] = product(s[:-1]) * columns[s[-1]]
        return known[s]

    for (kind, first, place), s in products(points.shape[1], moments.order, moments.squared_order):
        part = getattr(moments, kind)
        if part is None:
            continue
        scale = Fraction(float(np.prod([unit[j] for j in s]))) / total
        exact, size = (int(sum(x)) * scale for x in (product(s), abs(product(s))))
        error = abs(Fraction(float(part[first][place])) - exact)
        assert size or not error
        found.append(float(error / size) if size else 0.0)
    return max(found)


def checked(summary, values, unit, weights=None, limit=1e-12):
    """Compare the moments of `values`·2^unit about a point near their mean, in their deviations."""
    weights = np.ones(len(values)) if weights is None else weights
    mean = np.average(values.astype(float), axis=0, weights=weights)
    spread = np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weights))
    center = np.rint(mean).astype(np.int64)
    scale = np.exp2(np.ceil(np.log2(np.maximum(spread, 1.0))))
    steps = np.exp2(np.broadcast_to(unit, center.shape).astype(float))
    moments = summary.moments(center * steps, scale * steps)
    assert worst(moments, values - center, weights, 1.0 / scale) <= limit
    assert summary.n_rows == len(values)
    assert summary.sum_weights == weights.sum()


def whole_numbers(n=700, d=4, seed=0):
    return np.random.default_rng(seed).integers(-40, 90, (n, d))


FORMS = {
    "array": lambda x, folder: x.astype(float),
    "integers": lambda x, folder: x,
    "float32": lambda x, folder: x.astype(np.float32),
    "columns first": lambda x, folder: np.asfortranarray(x.astype(float)),
    "frame": lambda x, folder: pd.DataFrame(x, columns=list("abcd")),
    "dict": lambda x, folder: dict(zip("abcd", x.T.astype(float), strict=True)),
    "csv": lambda x, folder: _written(x, folder / "x.csv"),
    "parquet": lambda x, folder: _written(x, folder / "x.parquet"),
    "files": lambda x, folder: [
        _written(part, folder / f"{i}.csv") for i, part in enumerate(np.array_split(x, 3))
    ],
}


def _written(x, path):
    frame = pd.DataFrame(x, columns=list("abcd")).astype(float)
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_every_form_of_rows_has_the_moments_of_its_numbers(form, tmp_path):
    x = whole_numbers()
    checked(mm.summarize(form(x, tmp_path), 4), x, 0, limit=1e-14)


def test_tensors_have_the_moments_of_their_numbers():
    torch = pytest.importorskip("torch")
    x = whole_numbers(40_000)
    checked(mm.summarize(torch.tensor(x, dtype=torch.float64), 4), x, 0, limit=1e-13)


@pytest.mark.parametrize(("d", "order", "squared"), [(1, 1, 0), (2, 2, 1), (3, 2, 0), (5, 5, 4)])
def test_every_layout_holds_the_moments_of_its_rows(d, order, squared):
    x, weights = whole_numbers(300, d), np.random.default_rng(1).integers(0, 9, 300) / 4
    summary = mm.MomentSummary(d, order, squared_order=squared).update(x, weights)
    checked(summary, x[weights > 0], 0, weights[weights > 0], limit=1e-14)


# -- offsets, drifts, scales ----------------------------------------------------------------------

N = 6000
RNG = np.random.default_rng(2)
NORMAL = np.rint(RNG.standard_normal((N, 3)) * 2**20).astype(np.int64)
TIME = np.arange(N)[:, None]
STRANGE = {
    "offset of 1e9": NORMAL + 10**9 * 2**20,
    "drift of 1e6 deviations": NORMAL + TIME * (10**6 * 2**20 // N),
    "sorted": np.sort(NORMAL, axis=0),
    "a step late": NORMAL + (TIME > 1024) * 60 * 2**20,
    "constant at first": np.where(TIME < 1500, 7 * 2**20 + 1, NORMAL),
    "zero at first": np.where(TIME < 1500, 0, NORMAL),
    "outlier at first": np.where(TIME == 3, 2**52, NORMAL),
    "outlier late": np.where(TIME == 4000, 2**52, NORMAL),
    "narrow at first": np.where(TIME < 1500, NORMAL >> 15, NORMAL),
    "mostly zero": NORMAL * (RNG.random((N, 3)) < 0.01),
    "heavy tails": np.rint(2**20 * RNG.standard_cauchy((N, 3))).astype(np.int64),
}


@pytest.mark.parametrize("values", STRANGE.values(), ids=STRANGE.keys())
@pytest.mark.parametrize("weighted", [False, True])
def test_moments_keep_their_digits_wherever_the_rows_lie(values, weighted):
    """Those of all rows, and of the half that is left where the other one is subtracted."""
    weights = RNG.integers(1, 5, N) / 2 if weighted else np.ones(N)
    half, unit = 2048, np.array([-20, 30, -90])
    rows = np.ldexp(values.astype(float), unit)
    first, rest = (
        mm.MomentSummary(3, 3, shard_id=name).update(rows[part], weights[part])
        for name, part in (("first", slice(half)), ("rest", slice(half, N)))
    )
    checked(mm.MomentSummary(3, 3).update(rows, weights), values, unit, weights)
    checked(first + rest, values, unit, weights)
    checked((first + rest) - first, values[half:], unit, weights[half:])
    assert (first + rest) - first == rest


@pytest.mark.parametrize("cuts", [[], [1, 300], [150]])
def test_means_and_variances_are_those_of_fractions(cuts):
    """In columns of sizes a world apart, whole and as a sum of parts."""
    rng, n = np.random.default_rng(11), 400
    steps = np.where(np.arange(n) < 300, 1e-100, 1e100)
    columns = 10.0 ** rng.uniform(-250, 0, n), rng.standard_normal(n) * steps
    columns += (
        np.full(n, 0.1),
        rng.standard_normal(n) + 1e8,
        np.where(np.arange(n) < 300, 7.0, 1e-9),
    )
    rows = np.column_stack(columns)
    summary = sum(
        mm.MomentSummary(5, 3, shard_id=str(i)).update(part)
        for i, part in enumerate(np.split(rows, cuts))
    )
    for j, column in enumerate(rows.T):
        exact = [Fraction(x) for x in column.tolist()]
        mean = sum(exact) / n
        variance = sum((x - mean) ** 2 for x in exact) / n
        size = float(sum(map(abs, exact)) / n)
        assert abs(Fraction(float(summary.mean[j])) - mean) <= 1e-15 * size
        assert summary.variance[j] == pytest.approx(float(variance), rel=1e-12, abs=0)
    assert mm.MomentSummary.from_bytes(summary.to_bytes()) == summary


# -- families and missing cells -------------------------------------------------------------------

FAMILIES = {1: "poisson", 2: [0, 1, 2], 3: "bernoulli"}


def table(n=400, offset=0.0, seed=3):
    rng = np.random.default_rng(seed)
    columns = rng.integers(-8, 9, n) / 2 + offset, rng.integers(0, 6, n), rng.integers(0, 3, n)
    rows = np.column_stack([*columns, rng.integers(0, 2, n), rng.integers(-5, 5, n)]).astype(float)
    rows[rng.random(rows.shape) < 0.2] = np.nan
    return rows


@pytest.mark.parametrize("offset", [0.0, 100.0, -(2.0**30)])
def test_features_of_families_and_missing_cells(offset):
    rows = table(offset=offset)
    summary = mm.summarize(rows, 3, families=FAMILIES, missing="model")
    features = np.rint(4 * summary.schema.encode(rows)).astype(np.int64)
    moments = summary.moments(0.0, 0.25)
    assert worst(moments, features, np.ones(len(rows)), np.ones(features.shape[1])) <= 1e-14


def test_missing_cells_that_are_dropped():
    rows = table()
    kept = rows[~np.isnan(rows).any(axis=1)]
    dropped = mm.summarize(rows, 3, families=FAMILIES, missing="drop")
    features = np.rint(2 * dropped.schema.encode(kept)).astype(np.int64)
    moments = dropped.moments(0.0, 0.5)
    assert worst(moments, features, np.ones(len(kept)), np.ones(features.shape[1])) <= 1e-14
    assert dropped.n_rows == len(kept)


# -- the oracle -----------------------------------------------------------------------------------


def test_a_moment_that_is_off_is_noticed():
    """Negative control: one unit in the last row of 700."""
    x = whole_numbers()
    other = x.copy()
    other[-1, 0] += 1
    with pytest.raises(AssertionError):
        checked(mm.summarize(other, 4), x, 0)


def test_the_oracle_names_all_products_once():
    named = [tuple(sorted(s)) for _, s in products(4, 4, 2)]
    assert len(named) == len(set(named))
    for degree in range(5):
        every = set(combinations_with_replacement(range(4), degree))
        assert every <= set(named)
