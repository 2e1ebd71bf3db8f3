"""The contents of a report: the model, facts about the data, pictures, and its title in words."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

import numpy as np

from momentmix.errors import InputError, InputTypeError
from momentmix.findings.finding import FATAL
from momentmix.fitting.inference.certificate import Certificate
from momentmix.fitting.record import FitRecord
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameter_table import Intervals, value_names
from momentmix.mixture.profile import Profile
from momentmix.reporting.data_facts import DataFacts
from momentmix.reporting.pictures import Pictures
from momentmix.wording import cut, listed, percent, plural

_SENTENCES = {
    "passed": "No test speaks against this fit.",
    "untested": "No test rejects this fit, but not everything could be tested.",
}
_SHORTCOMINGS = {  # of a fit that did not pass
    "misfit": "the data contradict the model",
    "imprecise": "the groups are not known precisely enough",
    "unsupported": "fewer groups, or others, describe the data as well",
    "not-reproduced": "other rows do not give all of these groups",
    "not-described": "the model is far from the distribution of the rows",
}
_LETTERS = 60  # of the name of the data in the title
_LAST_DAY = 253402300799  # of the year 9999, in seconds


@dataclass(frozen=True)
class Contents:
    """The contents of a report."""

    mixture: Mixture
    record: FitRecord | None
    profile: Profile  # the components in words, with their names
    facts: DataFacts | None = None  # None if no data were given
    pictures: Pictures = field(default_factory=Pictures)
    day: date = date.min  # of the report
    model_name: str | None = None  # of the file, as that of the data
    data_name: str | None = None
    command: str | None = None  # that made the report

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return value_names(self.mixture)

    @property
    def intervals(self) -> Intervals | None:
        """95 % intervals, if the record of the fit has them."""
        found = None if self.record is None else self.record.intervals
        return None if found is None or np.isnan(found.means[0]).all() else found

    @property
    def n_rows(self) -> int | None:
        """Rows of the data given here or, without any, rows of the fit."""
        if self.facts is not None:
            return self.facts.n_rows
        return None if self.record is None else self.record.n_rows

    @property
    def title(self) -> str:
        """The title: ``3 groups in 60,000 rows of customers.csv``."""
        r, d = self.mixture.n_components, self.mixture.n_features
        title = f"{r} group{plural(r)} in "
        title += f"{d} column{plural(d)}" if self.n_rows is None else f"{self.n_rows:,} rows"
        if self.data_name is not None:
            title += f" of {cut(self.data_name, _LETTERS)}"
        return title

    @property
    def answer(self) -> str:
        """The groups in a sentence."""
        if len(self.profile) == 1:
            return "All rows are one group."
        heaviest = max(self.profile, key=lambda c: c.share)
        lightest = min(self.profile, key=lambda c: c.share)
        return (
            f"The largest group, “{heaviest.name}”, has {percent(heaviest.share)} of the rows; "
            f"the smallest, “{lightest.name}”, has {percent(lightest.share)}."
        )


def verdict(certificate: Certificate) -> str:
    """Return the verdict in one sentence."""
    if certificate.meaning:
        return certificate.meaning
    if certificate.verdict in _SENTENCES:
        return _SENTENCES[certificate.verdict]
    kinds = {finding.kind for finding in certificate.tests}
    against = [words for kind, words in _SHORTCOMINGS.items() if kind in kinds]
    n = sum(finding.severity is FATAL for finding in certificate.findings)
    if n:
        against.append(f"{n} finding{plural(n)} below spoil{'s' if n == 1 else ''} the fit")
    return f"Do not rely on it yet: {listed(against, 4)}."


def day_of(given: date | str | None) -> date:
    """Return the date of a report: the given one, that of SOURCE_DATE_EPOCH, or today (UTC)."""
    if isinstance(given, datetime):
        return given.date()
    if isinstance(given, date):
        return given
    if isinstance(given, str):
        try:
            return date.fromisoformat(given)
        except ValueError:
            raise InputError(
                f"date must be a date such as '2025-01-31'; got {given[:40]!a}."
            ) from None
    if given is not None:
        raise InputTypeError(f"date must be a date or a str; got {type(given).__name__}.")
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not epoch:
        return datetime.now(UTC).date()
    if not (epoch.isascii() and epoch.isdigit() and int(epoch[:20]) <= _LAST_DAY):
        raise InputError(
            "SOURCE_DATE_EPOCH must be seconds since 1970, as 1700000000; got "
            f"{epoch[:40]!a}. Correct or unset it."
        )
    return datetime.fromtimestamp(int(epoch), UTC).date()
