"""The digest of rows: the same however they are cut, another one for every change of a value."""

import numpy as np
import pytest

from momentmix.native import code
from momentmix.tables.formats import digests
from momentmix.tables.formats.digests import RowDigest, fold


def digest(parts):
    made = RowDigest()
    for part in parts:
        made.update(part)
    return made.hexdigest()


@pytest.mark.parametrize("n", [0, 1, 170, 171, 512, 1024, 3000])
def test_it_does_not_depend_on_the_cuts(n):
    rows, rng = np.random.default_rng(n).standard_normal((n, 3)), np.random.default_rng(1)
    whole = digest([rows])
    for _ in range(20):
        cuts = np.sort(rng.integers(0, n + 1, rng.integers(0, 9)))
        assert digest(np.split(rows, cuts)) == whole
    assert digest([np.asfortranarray(rows)]) == whole


def test_reading_it_changes_nothing():
    rows, made = np.random.default_rng(0).standard_normal((700, 3)), RowDigest()
    made.update(rows[:300])
    assert made.hexdigest() == digest([rows[:300]])
    made.update(rows[300:])
    assert made.hexdigest() == digest([rows])


def test_every_change_shows():
    """Single bits, two signs, two equal changes, swapped rows, another length."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((600, 4))
    found = {digest([rows])}
    for _ in range(300):
        changed = rows.copy()
        words = changed.view(np.uint64).reshape(-1)
        i, j = rng.choice(words.size, 2, replace=False)
        kind = rng.integers(4)
        if kind == 0:
            words[i] ^= np.uint64(1) << np.uint64(rng.integers(64))
        elif kind == 1:
            words[[i, j]] ^= np.uint64(1 << 63)
        elif kind == 2:
            bit = np.uint64(1) << np.uint64(rng.integers(64))
            words[[i, j]] ^= bit
        else:
            changed[[i // 4, j // 4]] = changed[[j // 4, i // 4]]
            if i // 4 == j // 4:
                continue
        found.add(digest([changed]))
    assert len(found) > 290
    zeros = {digest([np.zeros((n, 1))]) for n in range(1200)}
    assert len(zeros) == 1200


@pytest.mark.skipif(code is None, reason="momentmix was built without a compiler")
def test_compiled_code_and_numpy_agree(monkeypatch):
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**64, (70, 512), dtype=np.uint64)
    compiled = []
    for name in code.use():
        code.use(name)
        compiled.append(fold(words))
    code.use(code.use()[0])
    monkeypatch.setattr(digests, "code", None)
    for found in compiled:
        assert (found == fold(words)).all()
    exact = [
        sum(
            ((int(x) + int(low)) % 2**32) * (((int(x) >> 32) + int(high)) % 2**32)
            for x, low, high in zip(words[0], *digests._keys()[:, t : t + 512], strict=True)
        )
        % 2**64
        for t in range(4)
    ]
    assert fold(words)[0].tolist() == exact
