"""Files as inputs: which are the same, which have changed, and how many are open."""

import os

import numpy as np
import pytest
from unit.tables.table_files import KINDS, write

from momentmix import MomentSummary, open_rows
from momentmix.errors import InputError
from momentmix.summary.summarize import summarize_parts

# -- which are the same -----------------------------------------------------------------------


def shards_of(paths, **options):
    source = open_rows(paths, **options)

    def new_shard(shard_id=None):
        return MomentSummary(source.n_features, 2, source.feature_names, shard_id=shard_id)

    return summarize_parts(source, new_shard)


def files_that_agree_in_samples(folder, n_rows=200_000):
    """Two NPY files of the same size that differ in one value, far from every sampled window."""
    values = np.zeros((n_rows, 3))
    np.save(folder / "one.npy", values)
    values[n_rows // 30, 1] = 1e-3
    np.save(folder / "two.npy", values)
    return [folder / "one.npy", folder / "two.npy"]


def test_files_that_agree_in_samples_are_different(tmp_path):
    paths = files_that_agree_in_samples(tmp_path)
    both = shards_of(paths)
    assert both.n_rows == 400_000
    one, two = (shards_of(path) for path in paths)
    assert not set(one.shard_ids) & set(two.shard_ids)
    assert (one + two).to_bytes() == both.to_bytes()
    assert both - two == one
    assert sum(len(block) for block in open_rows(paths).blocks()) == 400_000


def test_files_that_differ_in_a_column_that_is_not_read_are_different(tmp_path, rows):
    one = write(tmp_path / "a.csv", rows)
    rows[:, 2] += 1
    two = write(tmp_path / "b.csv", rows)
    assert shards_of([one, two], columns=["a", "b"]).n_rows == 2000


# -- which have changed -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["truncated", "emptied", "longer", "touched"])
def test_a_file_that_changes_while_it_is_read(tmp_path, rows, kind, how):
    path = write(tmp_path / f"x.{kind}", np.tile(rows, (30, 1)))
    blocks = open_rows(path).changed(block_rows=64).blocks()
    assert len(next(blocks)) == 64
    size = path.stat().st_size
    if how == "longer":
        with path.open("ab") as file:
            file.write(b"1,2,3\n")
    elif how == "touched":
        os.utime(path, ns=(1, 1))
    else:
        os.truncate(path, size // 2 if how == "truncated" else 0)
    with pytest.raises(InputError, match=r"changed while it was being read"):
        list(blocks)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_changes_between_passes(tmp_path, rows, kind):
    path = write(tmp_path / f"x.{kind}", rows)
    source = open_rows(path)
    assert len(source.read_within(np.inf)[0]) == 1000
    write(path, rows[:500])
    with pytest.raises(InputError, match=r"changed while it was being read"):
        source.read_within(np.inf)[0]


# -- many files -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_open_only_while_they_are_read(tmp_path, rows, kind):
    for i in range(40):
        write(tmp_path / f"{i}.{kind}", rows[:5] + i)
    before = len(os.listdir("/proc/self/fd"))
    source = open_rows(tmp_path)
    assert len(os.listdir("/proc/self/fd")) <= before + 4  # pyarrow's threads may hold some
    for block in source.blocks():
        assert len(block) == 5
        assert len(os.listdir("/proc/self/fd")) <= before + 6


# -- in memory or not -------------------------------------------------------------------------
