"""Bad rows at every door of Python: an error with problem and cure, and nothing has changed."""

import pickle
import re
import warnings

import numpy as np
import pytest
from scipy import sparse

import momentmix as mm
from momentmix.errors import InputError

GOOD = np.random.default_rng(0).standard_normal((60, 3))
PLACE = r"row 7, column 1"
NOT_FINITE = r"|row 7 holds infinity"
FLOATS = [np.float16, np.float32, np.float64, np.longdouble]


def at(value, dtype=float):
    rows = GOOD.astype(dtype)
    rows[7, 1] = value
    return rows


DEFECTS = {  # numbers, how they spoil the rows, what the message says
    "NaN": (FLOATS, lambda t: at(np.nan, t), PLACE + r" is NaN"),
    "infinite": (FLOATS, lambda t: at(np.inf, t), PLACE + r" is inf" + NOT_FINITE),
    "minus infinite": (FLOATS, lambda t: at(-np.inf, t), PLACE + r" is -inf" + NOT_FINITE),
    "too large": ([np.float64], lambda t: at(1e308, t), PLACE + r" is 1e\+308"),
    "too small": ([np.float64], lambda t: at(-1e308, t), PLACE + r" is -1e\+308"),
    "no rows": ([np.float64, np.int32], lambda t: GOOD[:0].astype(t), r"at least one row|0 sample"),
    "no columns": ([np.float64, np.int8], lambda t: GOOD[:, :0].astype(t), r"column|0 feature"),
    "one dimension": ([np.float32, np.int64], lambda t: GOOD[:, 0].astype(t), r"1 dim|1D|\(60,\)"),
    "no dimension": ([np.float64], lambda t: np.array(5.0), r"0 dim|scalar|\(\)"),
    "three dimensions": ([np.float64], lambda t: GOOD[None], r"3 dim|dim 3|\(1, 60, 3\)"),
    "complex": ([np.complex64, np.complex128], lambda t: GOOD.astype(t), r"[Cc]omplex"),
    "text": (
        ["U3", "S3"],
        lambda t: np.full((9, 3), "x", t),
        r"real numbers|convert string|has one level only",
    ),
    "objects": ([object], lambda t: at("x", t), r"numbers, or text|real numbers|convert string"),
    "lists in it": ([object], lambda t: at([1], t), r"numbers, or text|real numbers|sequence"),
    "times": (["M8[D]", "m8[s]"], lambda t: np.zeros((9, 3), t), r"real numbers.*(date|time)"),
    "sparse": (["csr_array"], lambda t: getattr(sparse, t)(GOOD), r"dense|toarray|obj"),
    "masked": (
        [np.float64, np.int64],
        lambda t: np.ma.masked_where(np.isnan(at(np.nan)), GOOD.astype(t)),
        PLACE + r" is NaN",
    ),
    "ragged": ([list], lambda t: [[1.0, 2.0, 3.0], [1.0]], r"rectangular"),
    "nothing": ([None], lambda t: None, r"real numbers|2D array|NoneType|dimension"),
    "a name": ([str], lambda t: "rows.csv", r"real numbers|convert string|does not exist"),
}
COLUMNS = {
    "too few": ([np.float64, np.int16], lambda t: GOOD[:, :2].astype(t), r"\b2\b.*\b3\b|3.*2"),
    "too many": ([np.float64], lambda t: np.ones((5, 4), t), r"\b4\b.*\b3\b|3.*4"),
}
WEIGHTS = {
    "negative": ([-1.0] + [1.0] * 59, r"not negative; row 0 has -1"),
    "NaN": ([np.nan] + [1.0] * 59, r"finite.*row 0"),
    "masked": (np.ma.masked_less(np.arange(60.0), 1), r"row 0 has nan \(NaN or masked\)"),
    "infinite": ([np.inf] + [1.0] * 59, r"finite.*row 0"),
    "zero": ([0.0] * 60, r"all zero"),
    "too few": ([1.0] * 59, r"\(60,\)"),
    "huge": ([1e30] + [1.0] * 59, r"1e\+30"),
    "tiny": ([1e-30] + [1.0] * 59, r"2\^−40"),
    "in a table": ([[1.0] * 60], r"\(60,\)"),
    "as text": (["1"] * 60, r"real numbers|convert"),
}


def summary(filled=True):
    made = mm.MomentSummary(3, 2, shard_id="a", n_threads=1)
    return made.update(GOOD) if filled else made


def estimator():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mm.MomentGaussianMixture(1, random_state=0).fit(GOOD)


# What takes rows: how it is made, how rows and weights are given to it.
DOORS = {
    "update": (summary, lambda s, x, w=None: s.update(x, w)),
    "update of an empty one": (lambda: summary(False), lambda s, x, w=None: s.update(x, w)),
    "forget": (summary, lambda s, x, w=None: s.forget(x, w)),
    "summarize": (lambda: None, lambda _, x, w=None: mm.summarize(x, 2, w)),
    "fit": (lambda: None, lambda _, x: mm.fit(x, 2, random_state=0)),
    "estimator.fit": (estimator, lambda e, x, w=None: e.fit(x, sample_weight=w)),
    "partial_fit": (estimator, lambda e, x, w=None: e.partial_fit(x, sample_weight=w)),
    "predict": (estimator, lambda e, x: e.predict(x)),
    "predict_proba": (estimator, lambda e, x: e.predict_proba(x)),
    "score_samples": (estimator, lambda e, x: e.score_samples(x)),
    "score": (estimator, lambda e, x: e.score(x)),
    "bic": (estimator, lambda e, x: e.bic(x)),
    "mixture.predict": (lambda: estimator().mixture_, lambda m, x: m.predict(x)),
}
WEIGHTED = ["update", "update of an empty one", "forget", "summarize", "estimator.fit"]
WEIGHTED += ["partial_fit"]
TAKES_ANY_COLUMNS = {"summarize", "fit", "estimator.fit"}
# A mixture judges numbers, not containers, and leaves missing cells out of the density.
MIXTURE_TAKES = {"too large", "too small", "no rows", "NaN", "masked"}


def state_of(thing):
    """All that a summary or an estimator holds."""
    if isinstance(thing, mm.MomentSummary):
        return thing.copy().to_bytes()
    if isinstance(thing, mm.MomentGaussianMixture):
        values = {**thing.__getstate__(), "summary_": state_of(thing.summary_)}
        return [(name, pickle.dumps(values[name])) for name in sorted(values)]
    return pickle.dumps(thing.to_dict() if isinstance(thing, mm.Mixture) else thing)


def check_refused(thing, use, pattern):
    """A typed error with problem and cure, and the same state."""
    before = state_of(thing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((mm.MomentmixError, ValueError, TypeError)) as error:
            use()
    assert re.search(pattern, str(error.value), re.DOTALL), error.value
    assert state_of(thing) == before, "the state has changed"


@pytest.mark.parametrize("name", DOORS)
def test_bad_rows(name):
    make, use = DOORS[name]
    thing, n_cases = make(), 0
    for defect, (kinds, spoilt, pattern) in {**DEFECTS, **COLUMNS}.items():
        if defect in COLUMNS and name in TAKES_ANY_COLUMNS:
            continue
        if defect in MIXTURE_TAKES and name == "mixture.predict":
            continue
        for kind in kinds:
            check_refused(thing, lambda s=spoilt, k=kind: use(thing, s(k)), pattern)
            n_cases += 1
    assert n_cases > 20


@pytest.mark.parametrize("name", WEIGHTED)
def test_bad_weights(name):
    make, use = DOORS[name]
    thing = make()
    for weights, pattern in WEIGHTS.values():
        check_refused(thing, lambda w=weights: use(thing, GOOD, w), pattern)


def test_negative_control_a_door_that_changes_state_is_noticed():
    thing = summary()

    def careless():
        thing.update(GOOD)
        raise ValueError("row 7 is NaN")

    with pytest.raises(AssertionError, match="state has changed"):
        check_refused(thing, careless, "NaN")


def test_a_fit_that_fails_leaves_the_estimator_as_it_was():
    model = estimator()
    model.n_components = 4
    check_refused(model, lambda: model.fit(GOOD[:3]), "needs at least that many rows")
    assert model.predict(GOOD[:2]).tolist() == [0, 0]


@pytest.mark.parametrize("shapes", [[3, 4], [(3, 2), (4, 2)], [(3, 2), (3, 4)]])
def test_arrays_of_unequal_lengths_are_no_table(shapes):
    ragged = [np.zeros(shape) for shape in shapes]
    for call in (
        lambda: mm.fit(ragged, 1),
        lambda: mm.MomentGaussianMixture().fit(ragged),
        lambda: mm.MomentGaussianMixture().partial_fit(ragged),
        lambda: mm.MomentMixture().fit(ragged),
        lambda: estimator().mixture_.predict(ragged),
    ):
        with pytest.raises(InputError, match="rectangular"):
            call()
