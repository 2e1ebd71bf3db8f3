"""Tables as people have them, drawn from laws that are known: ids, dates, text, gaps, counts."""

import numpy as np
import pandas as pd

import momentmix as mm
from momentmix.families.column import Column


def passengers(n_rows, seed):
    """A list of passengers: name, class, sex, age with gaps, relatives, fare, port, survival."""
    law = mm.Mixture.from_blocks(
        [0.35, 0.4, 0.25],
        [
            mm.BernoulliBlock([0.15, 0.55, 0.8], (False, True), names="survived"),
            mm.CategoricalBlock(
                [[0.05, 0.15, 0.8], [0.2, 0.6, 0.2], [0.75, 0.2, 0.05]],
                ("first", "second", "third"),
                names="class",
            ),
            mm.BernoulliBlock([0.85, 0.45, 0.35], ("female", "male"), names="sex"),
            mm.GaussianBlock([24.0, 33.0, 45.0], [36.0, 49.0, 64.0], "age", seen=[0.7, 0.9, 0.95]),
            mm.PoissonBlock([0.4, 3.0, 0.8], names="relatives"),
            mm.GaussianBlock([2.1, 2.9, 4.0], [0.09, 0.09, 0.16], "log_fare"),
            mm.CategoricalBlock(
                [[0.2, 0.1, 0.7], [0.3, 0.3, 0.4], [0.6, 0.1, 0.3]],
                ("C", "Q", "S"),
                names="port",
                seen=[0.97, 0.99, 0.95],
            ),
        ],
    )
    columns, labels = law.sample(n_rows, seed)
    frame = pd.DataFrame(columns)
    frame["relatives"] = frame["relatives"].astype(int)
    frame["survived"] = frame["survived"].astype(bool)
    frame.insert(0, "passenger_id", np.arange(1, n_rows + 1))
    frame.insert(2, "name", [f"Passenger, No. {i}" for i in range(n_rows)])
    return frame, labels, law


def survey(n_rows, seed):
    """Answers of a survey: a code of the respondent, a date, yes/no and graded questions."""
    rng = np.random.default_rng(seed)
    blocks = [
        mm.BernoulliBlock(rng.uniform(0.1, 0.9, 3), (False, True), names=f"agrees_{i}", seen=seen)
        for i, seen in enumerate([None, [0.9, 0.8, 0.95], None, None, None, None])
    ]
    blocks += [
        mm.CategoricalBlock(
            rng.dirichlet(np.full(4, 0.6), 3),
            ("never", "often", "rarely", "sometimes"),
            names=f"how_often_{i}",
            seen=[0.85, 0.95, 0.9] if i == 0 else None,
        )
        for i in range(5)
    ]
    law = mm.Mixture.from_blocks([0.3, 0.45, 0.25], blocks)
    columns, labels = law.sample(n_rows, seed)
    frame = pd.DataFrame(columns)
    for name in frame:
        if name.startswith("agrees") and not frame[name].isna().any():
            frame[name] = frame[name].astype(bool)
    frame["how_often_1"] = frame["how_often_1"].astype("category")
    frame.insert(0, "respondent", [f"r{i:06d}" for i in rng.permutation(n_rows)])
    days = pd.to_timedelta(rng.integers(0, 90, n_rows), "D")
    frame.insert(1, "answered", (pd.Timestamp("2024-03-01") + days).strftime("%Y-%m-%d"))
    return frame, labels, law


def customers(n_rows, seed):
    """Customers: id, first order, country and plan as text, amounts, visits, gaps."""
    law = mm.Mixture.from_blocks(
        [0.5, 0.3, 0.2],
        [
            mm.CategoricalBlock(
                [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7]],
                ("AT", "CH", "DE"),
                names="country",
            ),
            mm.CategoricalBlock(
                [[0.8, 0.15, 0.05], [0.2, 0.6, 0.2], [0.05, 0.25, 0.7]],
                ("basic", "gold", "silver"),
                names="plan",
                seen=[0.9, 0.95, 0.85],
            ),
            mm.GaussianBlock([20.0, 60.0, 140.0], [100.0, 225.0, 900.0], "basket"),
            mm.PoissonBlock([1.5, 4.0, 9.0], names="visits"),
            mm.BernoulliBlock([0.2, 0.5, 0.9], (False, True), names="newsletter"),
            mm.GaussianBlock([35.0, 45.0, 41.0], [81.0, 100.0, 64.0], "age", seen=[0.6, 0.8, 0.9]),
        ],
    )
    columns, labels = law.sample(n_rows, seed)
    frame = pd.DataFrame(columns)
    rng = np.random.default_rng(seed)
    frame["visits"] = frame["visits"].astype(int)
    frame["newsletter"] = frame["newsletter"].astype(bool)
    frame.insert(0, "customer_id", rng.permutation(n_rows) + 100_000)
    first = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1500, n_rows), "D")
    frame.insert(1, "first_order", first)
    return frame, labels, law


TABLES = {"passengers": passengers, "survey": survey, "customers": customers}
COUNTS = {
    "passengers": {"relatives": "poisson"},
    "survey": None,
    "customers": {"visits": "poisson"},
}


def names_of(law):
    """Names of the columns of a law."""
    return [column.name for column in law.columns if isinstance(column, Column)]
