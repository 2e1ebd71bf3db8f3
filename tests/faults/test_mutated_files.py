"""What is accepted is valid by another reader; what is refused is refused with a typed error."""

import tracemalloc

import pytest
from campaigns import mutated_files
from campaigns.strangers_reader import RefusedError, read_model, read_summary

from momentmix import Mixture, MomentSummary
from momentmix.errors import InputError


def test_every_flip_and_truncation_of_small_files():
    """One summary and one model here; the long run takes all."""
    first = len(mutated_files.small_summaries())
    counts = mutated_files.flips(0, 1, seed=0) + mutated_files.flips(first, first + 1, seed=0)
    assert counts["flipped bits, refused"] > 5000
    assert counts["truncations, refused"] > 700


def test_structured_mutations():
    counts = mutated_files.summary_mutations(0, 1000, seed=0)
    assert counts["mutations"] == 1000
    assert counts["accepted"] > 80
    assert counts["refused"] > 500


def test_refusing_takes_memory_in_proportion_to_the_file():
    files = [mutated_files.mutated_summary(mutated_files.random.Random(i)) for i in range(300)]
    MomentSummary.from_bytes(mutated_files.small_summaries()[0])  # imports, caches
    for data in files:
        tracemalloc.start()
        try:
            MomentSummary.from_bytes(data)
        except InputError:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 40 * len(data) + 2**19


def test_both_readers_understand_the_originals(tmp_path):
    for data in mutated_files.small_summaries():
        header, shards, bounds, sums = read_summary(data)
        summary = MomentSummary.from_bytes(data)
        assert summary.n_rows == sum(header["n_rows"])
        assert summary.shard_ids == tuple(shard.hex() for shard in shards)
        assert header.get("schema") or bounds == [*summary.minimum, *summary.maximum]
        assert summary.sum_weights == sums[()] / 2**96
    for data in mutated_files.small_models():
        (tmp_path / "model.json").write_bytes(data)
        model = Mixture.load(tmp_path / "model.json")
        weights, means, variances, names, blocks = read_model(data)
        joined = model.to_dict().get("blocks", [])
        assert joined == (blocks or [])
        assert model.weights.tolist() == weights
        assert model.means.tolist() == means
        assert model.variances.tolist() == variances
        assert model.feature_names == (None if names is None else tuple(names))
    with pytest.raises(RefusedError):
        read_model(b"{}")
