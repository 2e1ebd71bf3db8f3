"""A campaign: numbered cases, what they count, and the counts that all of them must reach."""

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field


def temporary_folder():
    """A temporary folder where flushing costs nothing, if there is such a place and it is writable.

    A kill is a kill on any file system.
    """
    try:
        return tempfile.TemporaryDirectory(dir="/dev/shm")
    except OSError:
        return tempfile.TemporaryDirectory()


@dataclass(frozen=True)
class Campaign:
    """``run(start, stop, seed)`` does the cases start … stop−1 and gives a Counter.

    A case depends on its number and the seed alone, raises where something is wrong, and can so be
    repeated alone. `goals` are counts that the campaign must reach.
    """

    run: Callable[[int, int, int], Counter]
    total: int
    batch: int
    goals: dict[str, int] = field(default_factory=dict)

    @property
    def name(self):
        """That of the function, as pytest shows it."""
        return self.run.__name__

    @property
    def starts(self):
        """First case of each batch."""
        return range(0, self.total, self.batch)


class Counts:
    """Plugin of pytest: adds up what batches counted, in whichever process, and judges the goals.

    A batch reports the property ``campaign``: name, number of batches, goals, counts.
    """

    def __init__(self):
        self.goals, self.left, self.counts = {}, {}, {}

    def pytest_runtest_logreport(self, report):
        """Of every test, in the process that prints."""
        if report.when == "call" and report.passed:
            for name, n_batches, goals, counts in dict(report.user_properties).get("campaign", []):
                self.goals[name] = goals
                self.left[name] = self.left.get(name, n_batches) - 1
                self.counts.setdefault(name, Counter()).update(counts)

    def missed(self):
        """What campaigns promise and did not count, although all their batches ran."""
        return [
            f"{name}: expected at least {goal:,} {what}; counted {self.counts[name][what]:,}"
            for name, goals in self.goals.items()
            for what, goal in goals.items()
            if not self.left[name] and self.counts[name][what] < goal
        ]

    def pytest_sessionfinish(self, session):
        """A goal that is missed is a failure."""
        if session.exitstatus == 0 and self.missed():
            session.exitstatus = 1

    def pytest_terminal_summary(self, terminalreporter):
        """What was counted, a line for each campaign."""
        for name, counts in sorted(self.counts.items()):
            state = f"{self.left[name]} batches left" if self.left[name] else "complete"
            found = ", ".join(f"{n:,} {what}" for what, n in counts.items())
            terminalreporter.write_line(f"{name} ({state}): {found}")
        for line in self.missed():
            terminalreporter.write_line(f"GOAL MISSED {line}")
