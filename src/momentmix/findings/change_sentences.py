"""Sentences of `track`, about groups of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from momentmix.findings.fit_sentences import Entry, Variants
from momentmix.wording import numbers_apart, percent

if TYPE_CHECKING:
    from momentmix.findings.finding import Finding


def _in_percent(f: Finding) -> str:
    shares = [f.numbers["first"], f.numbers["second"]]
    texts = [percent(x) for x in shares]
    if texts[0] == texts[1]:
        texts = [f"{x} %" for x in numbers_apart(*(100 * x for x in shares))]
    verb = "rose" if shares[1] > shares[0] else "fell"
    return f"{verb} from {texts[0].removesuffix(' %')} to {texts[1]}"


# -- groups of rows -------------------------------------------------------------------------------


def _component_share(f: Finding) -> str:
    return f"the share of {{component}} {f.components[0]} ({{name}}) "


def _trend(f: Finding) -> str:
    return f"{'{series}: ' * bool(f.numbers['series'])}{_component_share(f)}{_in_percent(f)}"


def _difference(f: Finding) -> str:
    low, high = (percent(f.numbers[name]) for name in ("first", "second"))
    return f"{_component_share(f)}differs: from {low} ({{low}}) to {high} ({{high}})"


# The sentence of each kind.
_SENTENCES: dict[str, str | Variants] = {
    "share-trend": _trend,
    "share-difference": _difference,
    "most-groups-misfit": "the components do not fit {n_groups:,} of {tested:,} groups that were "
    "tested: look first at the certificate of the model, whether it fits its own rows",
    "group-misfit": "in {group} the components do not fit",
    "more-groups-misfit": "in {more:,} more groups the components do not fit",
}
CHANGES = {kind: Entry(said) for kind, said in _SENTENCES.items()}
