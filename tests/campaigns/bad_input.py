"""Bad input at every door: a typed error that names problem and cure, and nothing has changed.

A case is a door, a defect and a kind of number. Doors of Python are tried in this process with the
hash of their state before and after; the command is run on a file, with its exit code, its output
and the folder before and after.
"""

import contextlib
import hashlib
import io
import os
import pickle
import re
import signal
import tempfile
import warnings
from collections import Counter
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
from scipy import sparse

from campaigns.campaign import Campaign
from momentmix.cli import main
from momentmix.errors import MomentmixError
from momentmix.estimators.gaussian import MomentGaussianMixture
from momentmix.fitting.api import fit
from momentmix.mixture.mixture import DiagonalMixture
from momentmix.summary.summarize import summarize
from momentmix.summary.summary import MomentSummary

GOOD = np.random.default_rng(0).standard_normal((60, 3))

# -- defects: how the rows are spoilt, and what the message must say ---------------------------


def at(value, dtype=float):
    rows = GOOD.astype(dtype)
    rows[7, 1] = value
    return rows


PLACE = r"row 7, column 1"
NOT_FINITE = r"|row 7 holds infinity"
FLOATS = [np.float16, np.float32, np.float64, np.longdouble]
DEFECTS = {
    "NaN": (FLOATS, lambda t: at(np.nan, t), PLACE + r" is NaN"),
    "infinite": (FLOATS, lambda t: at(np.inf, t), PLACE + r" is inf" + NOT_FINITE),
    "minus infinite": (
        FLOATS,
        lambda t: at(-np.inf, t),
        PLACE + r" is -inf" + NOT_FINITE,
    ),
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
    "sparse": (
        ["csr_array", "coo_array"],
        lambda t: getattr(sparse, t)(GOOD),
        r"dense|toarray|obj",
    ),
    "masked": (
        [np.float64, np.int64],
        lambda t: np.ma.masked_where(np.isnan(at(np.nan)), GOOD.astype(t)),
        PLACE + r" is NaN",
    ),
    "ragged": ([list], lambda t: [[1.0, 2.0, 3.0], [1.0]], r"rectangular|inhomogeneous|sequence"),
    "nothing": ([None], lambda t: None, r"real numbers|2D array|NoneType|dimension"),
    "a name": ([str], lambda t: "rows.csv", r"real numbers|convert string|does not exist"),
}
COLUMNS = {
    "too few columns": (
        [np.float64, np.int16],
        lambda t: GOOD[:, :2].astype(t),
        r"\b2\b.*\b3\b|3.*2",
    ),
    "too many columns": ([np.float64], lambda t: np.ones((5, 4), t), r"\b4\b.*\b3\b|3.*4"),
}
WEIGHTS = {
    "negative weight": ([-1.0] + [1.0] * 59, r"not negative; row 0 has -1"),
    "NaN weight": ([np.nan] + [1.0] * 59, r"finite.*row 0"),
    "infinite weight": ([np.inf] + [1.0] * 59, r"finite.*row 0"),
    "zero weights": ([0.0] * 60, r"all zero"),
    "too few weights": ([1.0] * 59, r"\(60,\)"),
    "huge weight": ([1e30] + [1.0] * 59, r"1e\+30"),
    "tiny weight": ([1e-30] + [1.0] * 59, r"2\^−40"),
    "weights in a table": ([[1.0] * 60], r"\(60,\)"),
    "weights as text": (["1"] * 60, r"real numbers|convert"),
}


# -- doors of Python --------------------------------------------------------------------------


@lru_cache
def _estimator():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pickle.dumps(MomentGaussianMixture(1, order=3, random_state=0).fit(GOOD))


def _summary(filled=True):
    made = MomentSummary(3, 2, shard_id="a", n_threads=1)
    return made.update(GOOD) if filled else made


class Door:
    """Something that takes rows: how it is opened, used, and what of it must not change."""

    def __init__(self, make, use, weights=False, knows_columns=True):
        self.make, self.use = make, use
        self.weights, self.knows_columns = weights, knows_columns


def _estimators():
    return pickle.loads(_estimator())


DOORS = {
    "update": Door(_summary, lambda s, x, w=None: s.update(x, w), True),
    "update of an empty one": Door(
        lambda: _summary(False), lambda s, x, w=None: s.update(x, w), True
    ),
    "forget": Door(_summary, lambda s, x, w=None: s.forget(x, w), True),
    "summarize": Door(lambda: None, lambda _, x, w=None: summarize(x, 2, w), True, False),
    "fit": Door(lambda: None, lambda _, x: fit(x, 2, random_state=0), False, False),
    "estimator.fit": Door(_estimators, lambda e, x, w=None: e.fit(x, sample_weight=w), True, False),
    "partial_fit": Door(_estimators, lambda e, x, w=None: e.partial_fit(x, sample_weight=w), True),
    "predict": Door(_estimators, lambda e, x: e.predict(x)),
    "predict_proba": Door(_estimators, lambda e, x: e.predict_proba(x)),
    "score_samples": Door(_estimators, lambda e, x: e.score_samples(x)),
    "score": Door(_estimators, lambda e, x: e.score(x)),
    "bic": Door(_estimators, lambda e, x: e.bic(x)),
    "mixture.predict": Door(lambda: _estimators().mixture_, lambda m, x: m.predict(x)),
}
# What a mixture, the value behind the models, takes: it judges numbers, not containers, and leaves
# missing cells out of the density.
MIXTURE_TAKES = {"too large", "too small", "no rows", "NaN", "masked"}


def state_of(thing):
    """A hash of all that a summary or an estimator holds; leaves an open shard open."""
    if isinstance(thing, MomentSummary):
        closed, shard = thing._closed, thing._open
        data = [closed.shards, closed.n_rows, [a.tolist() for a in closed.sums], thing._names]
        if shard is not None:
            waiting = shard.waiting[: shard.n_waiting].tobytes()
            data += [shard.shard_id, shard.n_rows, waiting, shard.minimum.tobytes()]
        return hashlib.sha256(repr(data).encode()).hexdigest()
    if isinstance(thing, MomentGaussianMixture):
        values = {k: v for k, v in vars(thing).items() if k != "summary_"}
        parts = [pickle.dumps(values[k]) for k in sorted(values)] + [repr(sorted(values)).encode()]
        parts.append(state_of(thing.summary_).encode() if "summary_" in vars(thing) else b"")
        return hashlib.sha256(b"".join(parts)).hexdigest()
    return hashlib.sha256(pickle.dumps(thing)).hexdigest()


def _refused(place, thing, use, pattern, counts):
    """Use a door with something bad: a typed error with problem and cure, and the same state."""
    before = state_of(thing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            use()
        except (MomentmixError, ValueError, TypeError) as error:
            text = str(error)
        except Exception as error:
            raise AssertionError(f"{place}: untyped {type(error).__name__}: {error}") from error
        else:
            raise AssertionError(f"{place}: accepted")
    assert re.search(pattern, text, re.DOTALL), f"{place}: {text}"
    assert state_of(thing) == before, f"{place}: the state has changed"
    counts["bad inputs"] += 1


def python_cases():
    """(place, door, use of it, pattern) for every door and defect."""
    for (name, door), (defect, (kinds, make, pattern)) in product(
        DOORS.items(), {**DEFECTS, **COLUMNS}.items()
    ):
        if defect in COLUMNS and not door.knows_columns:
            continue
        if name == "mixture.predict" and defect in MIXTURE_TAKES:
            continue
        for kind in kinds:
            place = f"{name}, {defect}, {getattr(kind, '__name__', kind)}"
            yield place, door, lambda t, d=door, m=make, k=kind: d.use(t, m(k)), pattern
    for (name, door), (defect, (weights, pattern)) in product(DOORS.items(), WEIGHTS.items()):
        if door.weights:
            place = f"{name}, {defect}"
            yield place, door, lambda t, d=door, w=weights: d.use(t, GOOD, w), pattern


def python_doors(start, stop, seed):
    """A case: one door, one defect, one kind of number."""
    counts = Counter()
    for place, door, use, pattern in list(python_cases())[start:stop]:
        thing = door.make()
        _refused(place, thing, lambda thing=thing, use=use: use(thing), pattern, counts)
    return counts


# -- doors of the command ---------------------------------------------------------------------


def _npy(make):
    def write(path):
        np.save(f"{path}.npy", make())
        return f"{path}.npy"

    return write


def _csv(text):
    def write(path):
        Path(f"{path}.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
        return f"{path}.csv"

    return write


def _parquet(make):
    def write(path):
        import pyarrow as pa
        import pyarrow.parquet

        pa.parquet.write_table(pa.table(make(pa)), f"{path}.parquet")
        return f"{path}.parquet"

    return write


def _cell(value):
    lines = [["1", "2", "3.5"] for _ in range(8)]
    lines[5][1] = value
    return "a,b,c\n" + "".join(",".join(line) + "\n" for line in lines)


def _with(value):
    return {"a": [1.0, 2.0], "b": [value, 1.0], "c": [0.0, 4.0]}


BAD_FILES = {
    **{
        f"NPY NaN {np.dtype(t).name}": (_npy(lambda t=t: at(np.nan, t)), "missing or NaN")
        for t in FLOATS[:3]
    },
    **{
        f"NPY inf {np.dtype(t).name}": (_npy(lambda t=t: at(-np.inf, t)), "is -inf")
        for t in FLOATS[:3]
    },
    "NPY 1e308": (_npy(lambda: at(1e308)), "1e+308"),
    "NPY no rows": (_npy(lambda: GOOD[:0]), "no rows"),
    "NPY no columns": (_npy(lambda: GOOD[:, :0]), "at least one"),
    "NPY 1-D": (_npy(lambda: GOOD[:, 0]), "1 dimension"),
    "NPY 3-D": (_npy(lambda: GOOD[None]), "3 dimension"),
    "NPY complex": (_npy(lambda: GOOD + 0j), "complex128"),
    "NPY text": (_npy(lambda: GOOD.astype("U9")), "real numbers"),
    "NPY times": (_npy(lambda: np.zeros((3, 3), "M8[D]")), "real numbers"),
    "NPY records": (_npy(lambda: np.zeros(3, [("a", float)])), "real numbers"),
    "NPY objects": (_npy(lambda: np.array([[{}]], dtype=object)), "never unpickles"),
    **{
        f"CSV {value!r}": (_csv(_cell(value)), "line 7")
        for value in ("x", "1.2.3", "1e", "0x1F", "1_000", "--1", "1 2", "true", "€", "1e400")
    },
    **{
        f"CSV missing {value!r}": (_csv(_cell(value)), "line 7")
        for value in ("", "NA", "nan", "NaN", "null", "inf", "-inf", "Infinity")
    },
    "CSV ragged short": (_csv("a,b\n1,2\n3\n"), "line 3"),
    "CSV ragged long": (_csv("a,b\n1,2\n3,4,5\n"), "line 3"),
    "CSV header again": (_csv("a,b\n1,2\na,b\n"), "repeats the header"),
    "CSV decimal commas": (_csv("a;b\n1,5;2,5\n"), "--decimal ,"),
    "CSV UTF-16": (_csv("a,b\n1,2\n".encode("utf-16")), "UTF-16"),
    "CSV open quote": (_csv('a,b\n1,"2\n3,4\n'), "quote"),
    "CSV empty": (_csv(""), "is empty"),
    "CSV header only": (_csv("a,b\n"), "no rows"),
    "CSV NUL": (_csv(b"a,b\n1,\x002\n"), "binary"),
    "CSV bad UTF-8": (_csv(b"a,b\n1,\xff\xfe2\n"), "line 2"),
    "CSV same names": (_csv("a,a\n1,2\n"), "'a'"),
    "Parquet missing": (_parquet(lambda pa: _with(None)), "missing"),
    "Parquet NaN": (_parquet(lambda pa: _with(float("nan"))), "missing or NaN"),
    "Parquet text": (
        _parquet(lambda pa: {"x": [f"a{i % 60}" for i in range(600)], "y": [1.0, 2.0] * 300}),
        "text with 60 different levels",
    ),
    "Parquet nested": (_parquet(lambda pa: {"x": [[1.0]], "y": [1.0]}), "'x' (list<"),
    "Parquet struct": (_parquet(lambda pa: {"x": [{"a": 1}], "y": [1.0]}), "'x' (struct<"),
    "Parquet decimal": (_parquet(lambda pa: {"x": pa.array([1], pa.decimal128(5))}), "decimal128"),
    "Parquet nulls": (_parquet(lambda pa: {"x": pa.nulls(2)}), "'x' (null)"),
    "Parquet time": (
        _parquet(lambda pa: {"x": pa.array([0], pa.timestamp("s"))}),
        "left out: dates",
    ),
    "Parquet no rows": (_parquet(lambda pa: {"x": pa.array([], pa.float64())}), "no rows"),
}
COMMANDS = {
    "summarize": ["summarize", "{file}", "-o", "out.mms"],
    "fit": ["fit", "{file}", "-r", "1", "-o", "out.json"],
    "predict": ["predict", "model.json", "{file}", "-o", "out.csv"],
    "score": ["score", "model.json", "{file}"],
}


def command(arguments):
    """Run the command in this process: exit code and what it wrote to standard error."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    show, handler = warnings.showwarning, signal.getsignal(signal.SIGTERM)
    try:
        stderr, ignoring = contextlib.redirect_stderr(err), warnings.catch_warnings()
        with contextlib.redirect_stdout(out), stderr, ignoring:
            warnings.filterwarnings("ignore", "the rows have feature names, the mixture has")
            main(arguments)
    except SystemExit as stop:
        return stop.code, err.getvalue()
    finally:
        warnings.showwarning = show
        signal.signal(signal.SIGTERM, handler)
    raise AssertionError("the command did not leave with a code")


def folder_state():
    """Names and contents of the files here."""
    return {name: hashlib.sha256(Path(name).read_bytes()).hexdigest() for name in os.listdir()}


def command_cases():
    """(place, arguments, writer of the file, words of the message)."""
    for (name, arguments), (defect, (write, words)) in product(COMMANDS.items(), BAD_FILES.items()):
        if name in ("predict", "score") and words == "no rows":
            continue  # no rows, no labels
        yield f"{name}, {defect}", arguments, write, words


def command_doors(start, stop, seed):
    """A case: a command on a bad file leaves with 65, a message, and no other file."""
    counts, here = Counter(), os.getcwd()
    for place, arguments, write, words in list(command_cases())[start:stop]:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                model = DiagonalMixture([1.0], np.zeros((1, 3)), np.ones((1, 3)))
                model.save("model.json")
                file = write("bad")
                before = folder_state()
                code, text = command([a.format(file=file) for a in arguments])
                assert code == 65, f"{place}: exit code {code}: {text}"
                same = arguments[0] in ("summarize", "fit")
                # Against a model of three features the count of columns may be the first complaint.
                counted = not same and "must have the 3 columns of the model" in text
                empty = words == "no rows" and "at least one row" in text
                assert words in text or counted or empty, f"{place}: {text}"
                assert text.startswith("momentmix: "), f"{place}: {text}"
                assert "Traceback" not in text
                assert len(text) < 2000, f"{place}: {len(text)} characters"
                assert folder_state() == before, f"{place}: {sorted(os.listdir())}"
            finally:
                os.chdir(here)
        counts["bad inputs"] += 1
    return counts


CAMPAIGNS = [
    Campaign(python_doors, len(list(python_cases())), 50, {"bad inputs": 300}),
    Campaign(command_doors, len(list(command_cases())), 20, {"bad inputs": 150}),
]
