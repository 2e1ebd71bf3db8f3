"""
A year of weeks: groups and drift
=================================

One pass makes a cube: one summary for each week. From this small file, and without the rows, a
model is fitted, the shares of its segments are tracked through the year, and two quarters are
compared. The year has a drift (one segment grows) and a surprise (a new kind of order in week 40).
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import momentmix as mm
from momentmix.displays import SharesDisplay

plt.style.use("seaborn-v0_8-colorblind")

WEEKS, ROWS, SURPRISE = 52, 2_000, 40
NAMES = ["amount", "items", "minutes", "distance", "discount"]
MEANS = [[20, 2, 8, 5, 1], [60, 5, 3, 9, 4], [35, 3, 15, 20, 2]]
VARIANCES = [[36, 1, 4, 4, 1], [100, 2, 1, 6, 1], [50, 1, 9, 16, 1]]


def orders(week):
    """The rows of one week: the second segment grows from 15 to 30 %."""
    grown = 0.15 + 0.15 * week / (WEEKS - 1)
    truth = mm.Mixture.diagonal([0.8 - grown, grown, 0.2], MEANS, VARIANCES)
    rows, _ = truth.sample(ROWS, random_state=week)
    if week == SURPRISE - 1:  # weeks count from 1, places from 0
        rng = np.random.default_rng(week)
        rows[: ROWS // 10] = rng.normal([90, 1, 20, 12, 0], [8, 0.5, 3, 2, 0.5], (ROWS // 10, 5))
    day = pd.Timestamp("2025-01-06") + pd.Timedelta(weeks=week)
    return pd.DataFrame(rows, columns=NAMES).assign(day=day)


# %%
# One pass. The key is not a feature. The cube could be saved as one Parquet file.

year = pd.concat([orders(week) for week in range(WEEKS)], ignore_index=True)
cube = mm.summarize_by(year, by="week(day)")
print(cube)

# %%
# The model is fitted to the first half of the year, from the cube.

half = cube.where(week=lambda day: day.month <= 6)
result = mm.fit(half.total(), 3, random_state=0)
print(result.profile())
print("verdict:", result.certificate.verdict)

# %%
# The shares of its components in each week, with 95 % intervals. A cross marks weeks that no shares
# of these components explain: a tenth of the orders of that week was of a new kind. The component
# that is nearest to them jumps.

tracking = mm.track(result, cube)
print(tracking.verdict())
SharesDisplay.from_tracking(tracking)
plt.show()

# sphinx_gallery_thumbnail_number = 1

# %%
# The first and the last quarter differ. These are the changes of at least a tenth of a standard
# deviation.

first = cube.where(week=slice("2025-01-06", "2025-03-31")).total()
last = cube.where(week=slice("2025-10-06", "2025-12-29")).total()
for change in mm.compare(first, last, least_effect=0.1).named:
    print(f"{change.what} of {change.column}: {change.effect:+.2f}")
