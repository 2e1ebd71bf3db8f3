"""
Why one run of EM is not enough
===============================

EM improves a start step by step, and stops where no small step helps. With eight components in
fifteen features many starts end at a poor answer: one component covers two groups, and two others
share a third. A fit from moments needs no start.
"""

# sphinx_gallery_thumbnail_number = 2
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.mixture import GaussianMixture

import momentmix as mm

plt.style.use("seaborn-v0_8-colorblind")

rng = np.random.default_rng(4)
weights = rng.uniform(size=8)
truth = mm.DiagonalMixture(
    weights / weights.sum(), rng.standard_normal((8, 15)), rng.standard_normal((8, 15)) ** 2 + 1e-3
)
rows, labels = truth.sample(5_000, random_state=0)

# %%
# Six single runs of scikit-learn's EM from each kind of start, one fit from moments alone, and one
# default fit, compared by the share of rows that they assign to the right component.

starts = ("kmeans", "k-means++", "random")
options = {"covariance_type": "diag", "max_iter": 100, "tol": 1e-3}
runs = {
    start: [
        GaussianMixture(8, init_params=start, random_state=seed, **options).fit(rows)
        for seed in range(6)
    ]
    for start in starts
}
moments_only = mm.fit(mm.summarize(rows), 8, random_state=0)
default = mm.fit(rows, 8, random_state=0)


def accuracy(mixture):
    """Share of rows in the right component, components in the order of the truth."""
    return (truth.align(mixture).predict(rows) == labels).mean()


def mixture_of(run):
    return mm.DiagonalMixture(run.weights_, run.means_, run.covariances_)


best = accuracy(truth)
figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for i, start in enumerate(starts):
    found = [accuracy(mixture_of(run)) for run in runs[start]]
    ax.scatter(found, i + np.linspace(-0.2, 0.2, 6), s=22, color="C2", alpha=0.8)
    good = sum(value > best - 0.01 for value in found)
    print(f"EM from {start:10s} {good} of 6 runs within 0.01 of the true parameters' accuracy")
for i, (name, result) in enumerate((("moments alone", moments_only), ("default", default))):
    value = accuracy(result.mixture)
    ax.scatter(value, 3 + i, s=40, color=("C0", "C1")[i])
    print(f"{name:18s} {value:.4f}, true parameters {best:.4f}")
ax.axvline(best, color="0.3", linewidth=1)
names = [
    *(f"EM from {start}, one run" for start in starts),
    "momentmix, moments alone",
    "momentmix",
]
ax.set_yticks(range(5), names)
ax.set(xlabel="rows in the right component (line: true parameters)", ylim=(-0.5, 4.5))

# %%
# A poor run covers two components by one. The pictures show the two features that separate these
# components best. Dark points: their rows. Blue: the fitted components that contain them, at two
# standard deviations.

stuck = min(runs["kmeans"], key=lambda run: run.score(rows))
homes = stuck.predict(truth.means)
first, second = max(
    combinations(range(8), 2),
    key=lambda p: (homes[p[0]] == homes[p[1]]) * truth.weights[list(p)].min(),
)
distance = (truth.means[first] - truth.means[second]) ** 2
pair = np.argsort(-distance / (truth.variances[first] + truth.variances[second] + 0.1))[:2]
pictures = {
    "a stuck EM run": (stuck.means_, stuck.covariances_),
    "momentmix": (default.mixture.means, default.mixture.variances),
}
figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharex=True, sharey=True, layout="constrained")
angle = np.linspace(0, 2 * np.pi, 100)
for ax, (name, (means, variances)) in zip(axes, pictures.items(), strict=True):
    mine = np.isin(labels, [first, second])
    ax.scatter(*rows[~mine][::8][:, pair].T, s=2, color="0.88")
    ax.scatter(*rows[mine][::4][:, pair].T, s=3, color="0.6")
    held = mm.DiagonalMixture(np.full(8, 1 / 8), means, variances).predict(
        truth.means[[first, second]]
    )
    for k in range(8):
        (x, y), (width, height) = means[k, pair], 2 * np.sqrt(variances[k, pair])
        style = {"color": "C0", "linewidth": 2} if k in held else {"color": "0.75"}
        ax.plot(x + width * np.cos(angle), y + height * np.sin(angle), **style)
    ax.scatter(*truth.means[[first, second]][:, pair].T, marker="+", s=150, color="black", zorder=3)
    ax.set(title=name, xlabel=f"feature {pair[0]}", ylabel=f"feature {pair[1]}")
center, spread = rows[mine][:, pair].mean(axis=0), rows[mine][:, pair].std(axis=0)
axes[0].set(
    xlim=center[0] + np.array([-4, 4]) * spread[0], ylim=center[1] + np.array([-4, 4]) * spread[1]
)
plt.show()
