"""Files of earlier releases load; a reader written from their description understands them.

``summary_v1.mms`` was written once and must never change. Its rows are small integers, so that its
sums are exact on every machine:  ROWS with weights WEIGHTS in the shard "part 1", one row of
ones in the shard "part 2". ``model_v1.json`` was written once, too; its numbers are those of MODEL.
The stranger's reader uses nothing of momentmix.
"""

import hashlib
from fractions import Fraction
from math import prod
from pathlib import Path

import numpy as np
from campaigns.strangers_reader import read_model, read_summary

from momentmix import DiagonalMixture, MomentSummary

FILE = Path(__file__).parent / "summary_v1.mms"
MODEL_FILE = Path(__file__).parent / "model_v1.json"
MODEL = {
    "weights": [0.25, 0.1, 0.65],
    "means": [[0.0, -1.5e300], [1 / 3, 2.0**-1074], [1e22, 7.0]],
    "variances": [[1.0, 0.0], [0.1, 1e-300], [2.5, 12345678.9]],
    "feature_names": ["length", "δ\n"],
}
ROWS = np.array([[4, 0, -3, 0], [8, 2, 5, 0], [12, -7, 1, 0], [9, 1, 1, 0]], dtype=float)
WEIGHTS = [1, 2, 1, 0.5]


def remade():
    names = ["height", "width", "δ", "empty\n"]
    parts = [
        MomentSummary(4, 4, names, replicates=2, shard_id="part 1").update(ROWS, WEIGHTS),
        MomentSummary(4, 4, names, replicates=2, shard_id="part 2").update(
            np.ones((1, 4)) * [1, 1, 1, 0]
        ),
    ]
    return parts[0] + parts[1]


def test_the_first_format_loads():
    summary = MomentSummary.load(FILE)
    assert summary == remade()
    assert summary.feature_names == ("height", "width", "δ", "empty\n")
    assert summary.n_rows == 5
    assert summary.sum_weights == 5.5
    assert summary.minimum.tolist() == [1.0, -7.0, -3.0, 0.0]
    assert summary.mean[0] == (4 + 16 + 12 + 4.5 + 1) / 5.5


def test_writing_it_again_gives_the_same_bytes():
    assert MomentSummary.load(FILE).to_bytes() == FILE.read_bytes()
    assert remade().to_bytes() == FILE.read_bytes()


def test_a_stranger_can_read_it():
    header, shards, bounds, sums = read_summary(FILE.read_bytes())
    expected = sorted(
        hashlib.sha256(b"momentmix shard\0" + name).digest()[:16] for name in (b"part 1", b"part 2")
    )
    assert shards == expected
    units = [Fraction(2) ** (e or 0) for e in header["exponents"]]
    shifts = [int(k) for k in header["shifts"]]
    rows = [*zip(WEIGHTS, ROWS.tolist(), strict=True), (1, [1, 1, 1, 0])]
    for (j, members), value in sums.items():
        exact = Fraction(0)
        for weight, row in rows:
            z = [Fraction(y) / u - k for y, u, k in zip(row, units, shifts, strict=True)]
            exact += (
                Fraction(weight) * prod(z[i] for i in members) * (1 if j is None else z[j] ** 2)
            )
        assert Fraction(value, 2**96) == exact
    assert header["exponents"][3] is None
    assert bounds == [1, -7, -3, 0, 12, 2, 5, 0]
    assert Fraction(int(header["weight_squares"]), 2**96) == Fraction(29, 4)


def test_the_first_model_format_loads():
    model = DiagonalMixture.load(MODEL_FILE)
    for name in ("weights", "means", "variances"):
        assert getattr(model, name).tolist() == MODEL[name]
    assert model.feature_names == tuple(MODEL["feature_names"])


def test_writing_the_model_again_gives_the_same_bytes(tmp_path):
    DiagonalMixture.load(MODEL_FILE).save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == MODEL_FILE.read_bytes()
    DiagonalMixture(**MODEL).save(tmp_path / "made.json")
    assert (tmp_path / "made.json").read_bytes() == MODEL_FILE.read_bytes()


def test_a_stranger_can_read_the_model():
    assert read_model(MODEL_FILE.read_bytes()) == tuple(MODEL.values())


def test_a_model_without_checksum_loads(tmp_path):
    """Written by hand, or before there was one."""
    text = MODEL_FILE.read_text(encoding="ascii")
    at = text.index(',\n "sha256"')
    path = tmp_path / "by-hand.json"
    path.write_text(text[:at] + "\n}\n", encoding="ascii")
    assert DiagonalMixture.load(path).weights.tolist() == MODEL["weights"]
