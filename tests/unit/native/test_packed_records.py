"""Arrays that are not aligned, such as views of packed records, give what their copies give."""

import numpy as np
import pytest

import momentmix as mm

N = 300


def records(values, kind):
    """A view whose numbers are at no multiple of their size, or whose rows are not."""
    if kind == "shifted":  # as in a file with a header of odd length
        view = np.zeros(values.nbytes + 1, np.uint8)[1:].view(values.dtype).reshape(values.shape)
    else:
        view = np.zeros(len(values), [("id", kind), ("v", values.dtype, values.shape[1:])])["v"]
    view[...] = values
    assert not view.flags.aligned
    return view


def case(kind, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((N, 3)) + 5.0 * (np.arange(N) < N // 3)[:, None]
    weights = rng.integers(1, 4, N).astype(float)
    return rows, records(rows, kind), weights, records(weights, kind)


KINDS = pytest.mark.parametrize("kind", ["i1", "shifted"])


@KINDS
def test_fit_and_predict(kind):
    rows, packed, *_ = case(kind)
    expected, found = (mm.fit(x, 2, random_state=0) for x in (rows, packed))
    for name in ("weights", "means"):
        assert (getattr(found.mixture, name) == getattr(expected.mixture, name)).all()
    mixture = expected.mixture
    for name in ("predict", "predict_proba", "log_prob"):
        for some in (slice(None), slice(0, 1), slice(None, None, -2)):
            first, second = (getattr(mixture, name)(x[some]) for x in (rows, packed))
            assert (first == second).all()


@KINDS
def test_summaries(kind):
    rows, packed, weights, packed_weights = case(kind)
    for w, packed_w in ((None, None), (weights, packed_weights)):
        expected = mm.summarize(rows, 3, w, shard_id="a")
        found = mm.summarize(packed, 3, packed_w, shard_id="a")
        assert found.to_bytes() == expected.to_bytes()
        part = slice(0, 7)
        expected.forget(rows[part], None if w is None else w[part])
        found.forget(packed[part], None if w is None else packed_w[part])
        assert found.to_bytes() == expected.to_bytes()
