"""What is read from a summary in mid-stream: values, versions of one shard, copies."""

import copy
import pickle

import numpy as np
import pytest

from momentmix import MomentGaussianMixture, MomentSummary, fit, paper
from momentmix.errors import InputError, ShardError

ROWS = np.random.default_rng(0).standard_normal((3000, 4)) + np.array([0, 5, 1e6, 0])


def started(shard="a", n=1500, **options):
    return MomentSummary(4, 3, shard_id=shard, **options).update(ROWS[:n])


READS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "to_bytes": MomentSummary.to_bytes,
    "add": lambda s: s + started("b"),
    "added": lambda s: started("b") + s,
    "sum": lambda s: sum([s, started("b")]),
    "in place": lambda s: started("b").__iadd__(s),
    "subtract": lambda s: s - MomentSummary(4, 3),
    "subtracted": lambda s: (s + started("b")) - s,
    "equal": lambda s: s == started("b"),
    "truncate": lambda s: s.truncate(2),
    "select": lambda s: s.select([2, 1, 0]),
    "moments": MomentSummary.moments,
    "fit": lambda s: fit(s, 1),
    "paper": lambda s: paper.fit(s, 1),
    "estimator": lambda s: MomentGaussianMixture(1).fit_summary(s).partial_fit(ROWS),
    "copy filled": lambda s: s.copy().update(ROWS * 3),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_reading_changes_no_later_byte(read):
    """As with the same updates alone, whether rows wait for their block or none do."""
    read_often, alone = (MomentSummary(4, 3, shard_id="a") for _ in range(2))
    for part in np.split(ROWS, [3, 1000, 1024, 2100]):
        for summary in (read_often, alone):
            summary.update(part)
        before = alone.copy().to_bytes()
        read(read_often)
        assert read_often.to_bytes() == before
    assert read_often.to_bytes() == alone.to_bytes() == started(n=3000).to_bytes()
    assert read_often.shard_ids == alone.shard_ids


def test_what_fails_changes_no_later_byte():
    summary = started()
    wrong = [
        lambda: summary.update(np.full((1, 4), np.nan)),
        lambda: summary.forget(ROWS[:5] + 1e9),
        lambda: summary + started(),
        lambda: summary.__iadd__(started()),
        lambda: summary - started("b"),
        lambda: hash(summary),
    ]
    for action in wrong:
        with pytest.raises((InputError, TypeError)):
            action()
    assert summary.update(ROWS[1500:]).to_bytes() == started(n=3000).to_bytes()


# -- copies go on ---------------------------------------------------------------------------------


def test_what_was_pickled_holds_no_rows_and_opens_another_shard():
    summary = started(n=700)  # all wait for their block
    data = pickle.dumps(summary)
    assert ROWS[:1].tobytes() not in data
    twin = pickle.loads(data)
    assert twin == summary
    assert len(twin.update(ROWS[700:]).shard_ids) == 2
    empty = pickle.loads(pickle.dumps(MomentSummary(4, 3, shard_id="a")))
    assert empty.update(ROWS).to_bytes() == started(n=3000).to_bytes()


def test_adding_in_place_closes_the_shard():
    summary = started()
    before = summary
    summary += started("b")
    assert summary is before
    assert summary.to_bytes() == (started() + started("b")).to_bytes()
    with pytest.raises(ShardError, match="in both summaries"):
        summary += started("a", 10)
    assert len(summary.update(ROWS[1500:]).shard_ids) == 3


def test_forgetting_closes_the_shard():
    summary = started()
    summary.forget(ROWS[:5]).update(ROWS[1500:])
    assert summary.n_rows == 2995
    assert len(summary.shard_ids) == 2


# -- two versions of one shard --------------------------------------------------------------------


@pytest.mark.parametrize("others", [[], ["b"], ["b", "c"]])
@pytest.mark.parametrize("loaded", [False, True])
def test_an_early_version_is_not_subtracted_from_a_late_one(others, loaded):
    """The sums that would be left are those of real rows, so that only the version tells."""
    summary = started()
    early = MomentSummary.from_bytes(summary.to_bytes()) if loaded else summary.copy()
    late = sum([started(other) for other in others], start=summary.update(ROWS[1500:]))
    with pytest.raises(ShardError, match=r"3,000 rows in the one .* 1,500") as caught:
        late - early
    assert caught.value.shard_ids == early.shard_ids
    part = late - started(n=3000) if others else late
    assert part.n_rows == (1500 * len(others) or 3000)
    sums = sum([started(other) for other in others], start=early)
    with pytest.raises(ShardError, match=r"1,500 rows in the one to subtract from, 3,000"):
        sums - summary


def test_the_same_shard_made_in_another_way_is_subtracted():
    """With fewer moments the last bits of the sums differ; the shard is the same all the same."""
    constant = ROWS * [1, 1, 1, 0] + [0, 0, 0, 0.1]
    whole = MomentSummary(4, 3, shard_id="a").update(constant) + started("b")
    lower = MomentSummary(4, 2, shard_id="a").update(constant)
    rest = whole.truncate(2) - lower
    assert rest.mean == pytest.approx(started("b").mean, rel=1e-12)


def test_forgetting_leaves_the_version_alone():
    both = started() + started("b")
    both.forget(ROWS[:5])
    assert (both - started("b").forget(ROWS[:5])).n_rows == 1500
    later = started().update(ROWS[1500:])
    with pytest.raises(ShardError, match=r"1,500 rows in the one to subtract from, 3,000"):
        both - later
