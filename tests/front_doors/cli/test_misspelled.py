"""Names that are almost right: the error asks whether another was meant."""

import numpy as np
import pandas as pd
import pytest

import momentmix as mm

FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 3)), columns=["loans", "age", "x"])
MIXTURE = mm.Mixture([1.0], [[0.0, 0.0]], [np.eye(2)], feature_names=["loans", "age"])


@pytest.mark.parametrize(
    ("call", "error", "meant"),
    [
        (lambda: mm.fit(FRAME, 1, columns=["lones"]), mm.InputError, "loans"),
        (lambda: mm.fit(FRAME, 1, exclude=["Age"]), mm.InputError, "age"),
        (lambda: mm.fit(FRAME, 1, families={"loan": "poisson"}), mm.InputError, "loans"),
        (lambda: mm.fit(FRAME, 1, blocks=[["loan", "x"]]), mm.InputError, "loans"),
        (lambda: mm.fit(FRAME, 1, familys={}), TypeError, "families"),
        (lambda: mm.schema_from(FRAME, exlude=["x"]), TypeError, "exclude"),
        (lambda: mm.summarize_by(FRAME, "agee"), mm.InputError, "age"),
        (lambda: MIXTURE.condition({"agee": 1.0}), mm.InputError, "age"),
    ],
)
def test_a_similar_name_is_asked_for(call, error, meant):
    with pytest.raises(error, match=rf"\. Did you mean '{meant}'\?$"):
        call()


def test_nothing_is_asked_where_nothing_is_similar():
    with pytest.raises(mm.InputError, match=r"there are 'loans', 'age', 'x'\.$"):
        mm.fit(FRAME, 1, columns=["zzz"])
