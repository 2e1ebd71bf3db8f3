"""Draw missing.png: four reasons why cells are missing; python docs/pictures/missing.py."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

plt.style.use("seaborn-v0_8-colorblind")
rng = np.random.default_rng(3)
n = 220
group = (rng.random(n) < 0.45).astype(int)
age = rng.normal(np.array([35.0, 58.0])[group], 8.0)
income = rng.normal(np.array([2.2, 4.2])[group], 0.7)


def chance(odds):
    """Return probabilities of log-odds."""
    return 1.0 / (1.0 + np.exp(-odds))


REASONS = {
    "by chance (MCAR)\n'drop', 'mar', 'model'": np.full(n, 0.45),
    "by observed cells (MAR)\n'mar'": chance((age - 48.0) / 3.5),
    "by the group\n'model'": np.where(group == 1, 0.75, 0.1),
    "by the value itself (MNAR)\nnone": chance(4.0 * (income - 3.5)),
}
figure, axes = plt.subplots(1, 4, figsize=(10, 3.1), sharey=True, layout="constrained")
for axis, (title, probability) in zip(axes, REASONS.items(), strict=True):
    gone = rng.random(n) < probability
    for g, color in enumerate(("C0", "C2")):
        own = group == g
        axis.plot(age[own & ~gone], income[own & ~gone], "o", color=color, ms=3.5)
        axis.plot(
            age[own & gone], income[own & gone], "o", mec=color, mfc="none", ms=3.5, alpha=0.5
        )
    axis.set_title(title, fontsize=9)
    axis.set_xlabel("age, always observed")
axes[0].set_ylabel("income, observed (filled) or not")
figure.savefig(Path(__file__).with_name("missing.png"), dpi=110)
