"""
The last ten days: a sliding window
===================================

Rows arrive day by day and the mixture drifts. The window of the last ten days is a sum of ten
summaries: every day the new day is added and the oldest one subtracted. Both are exact, so that
after a thousand days the window still equals the sum of its ten days, bit for bit.
"""

import matplotlib.pyplot as plt
import numpy as np

import momentmix as mm

plt.style.use("seaborn-v0_8-colorblind")

DAYS, WINDOW, ROWS = 40, 10, 3_000
rng = np.random.default_rng(5)
start = 2.0 * rng.standard_normal((3, 6))
drift = np.zeros((3, 6))
drift[0, 0], drift[1, 1] = 3.0, -2.0


def law(day):
    """The mixture of one day: two means move, and a component grows."""
    grown = 0.1 + 0.3 * day / DAYS
    weights = np.array([0.5 * (1 - grown), 0.5 * (1 - grown), grown])
    return mm.DiagonalMixture(weights, start + drift * day / DAYS, np.ones((3, 6)))


# %%
# One summary a day, named by its day so that it cannot be added twice.

days = []
for day in range(DAYS):
    summary = mm.MomentSummary(6, order=4, shard_id=f"day {day}")
    days.append(summary.update(law(day).sample(ROWS, random_state=day)[0]))

window = days[0]
fits = {}
for day in range(1, DAYS):
    window = window + days[day]
    if day >= WINDOW:
        window = window - days[day - WINDOW]
    if day >= WINDOW - 1:
        fits[day] = mm.fit(window, 3, random_state=0)

fresh = sum(days[-WINDOW + 1 :], days[-WINDOW])
print("window equals the sum of its days:", window == fresh)
print(f"fits: {len(fits)}, passed: {sum(f.certificate.passed for f in fits.values())}")

# %%
# A window shows the average of its days and is drawn at the middle of them. The drift within a
# window is too small to be detected from its rows.

figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for day, result in fits.items():
    middle = day - (WINDOW - 1) / 2
    order = np.argsort(law(middle).predict(result.mixture.means))  # that of the truth
    low, high = result.intervals().weights
    for k in range(3):
        i = order[k]
        axes[0].plot(middle, result.mixture.means[i, 0], "o", ms=4, color=f"C{k}")
        axes[1].plot(middle, result.mixture.weights[i], "o", ms=4, color=f"C{k}")
        axes[1].plot([middle] * 2, [low[i], high[i]], color=f"C{k}", alpha=0.4)
for k in range(3):
    axes[0].plot([law(d).means[k, 0] for d in range(DAYS)], color=f"C{k}", linewidth=1)
    axes[1].plot([law(d).weights[k] for d in range(DAYS)], color=f"C{k}", linewidth=1)
axes[0].set(xlabel="day", ylabel="mean of feature 0", title="lines: truth, points: window")
axes[1].set(xlabel="day", ylabel="weight", title="bars: 95 % intervals")
plt.show()
