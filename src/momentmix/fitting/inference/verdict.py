"""The verdict of a certificate: one rule over one list of reasons.

docs/reading-a-result.md has the same table, which a test compares.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

Verdict = Literal["passed", "useful", "not passed", "untested"]

WORST_FIRST: tuple[Verdict, ...] = ("not passed", "untested", "useful", "passed")


class Limit(NamedTuple):
    """The best verdict of a fit that a reason speaks against."""

    confirmed: Verdict  # other rows give every group, and the mixture describes them
    otherwise: Verdict


OF_GROUPS = Limit("not passed", "not passed")  # against the groups themselves
# Against the exact density. Whether parameters are precise enough to sort rows, and whether one row
# matters, halves of the rows show.
OF_DENSITY = Limit("useful", "not passed")
NOT_TESTED = Limit("useful", "untested")
OF_ROWS = Limit("untested", "untested")  # rows that depend on each other are no sample of others
REASONS = {
    "not-reproduced": OF_GROUPS,
    "not-described": OF_GROUPS,
    "unsupported": OF_GROUPS,
    "spurious-components": OF_GROUPS,
    "unknown-weights": OF_GROUPS,
    "over-capacity": OF_GROUPS,
    "row-number": OF_GROUPS,
    "dispersion": OF_GROUPS,
    "missing-groups": OF_GROUPS,
    "continuum": OF_DENSITY,
    "misfit": OF_DENSITY,
    "imprecise": OF_DENSITY,
    "not-converged": OF_DENSITY,
    "better-number": OF_DENSITY,
    "column-shape": OF_DENSITY,
    "outlier-rows": OF_DENSITY,
    "outlier-influence": OF_DENSITY,
    "too-few-rows": OF_DENSITY,
    "dropped-differ": OF_DENSITY,
    "shared-gaps": OF_DENSITY,
    "selected-values": OF_DENSITY,
    "ordered-rows": OF_ROWS,
    "untested": NOT_TESTED,
}


def verdict_of(kinds: Iterable[str], is_confirmed: bool) -> Verdict:
    """Return the worst verdict that a reason allows, "passed" where there is none.

    Parameters
    ----------
    kinds : iterable of str
        Of the reasons, keys of `REASONS`; any other, as a file may have, counts as the worst.
    is_confirmed : bool
        Whether other rows give every group, and the mixture describes them at least roughly.
    """
    limits = (REASONS.get(kind, OF_GROUPS) for kind in kinds)
    verdicts = (limit.confirmed if is_confirmed else limit.otherwise for limit in limits)
    return min(verdicts, key=WORST_FIRST.index, default="passed")
