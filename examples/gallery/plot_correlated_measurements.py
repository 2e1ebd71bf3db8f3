"""
Measurements that are correlated
================================

Measurements of one body are correlated within each species: a long animal is wide and heavy as
well. A diagonal mixture spends components on that. ``blocks="auto"`` finds the columns to
join, from the rows, and leaves the others independent.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.mixture import GaussianMixture

import momentmix as mm

plt.style.use("seaborn-v0_8-colorblind")

# %%
# Simulated shells of three species: three measurements of the size, two of the opening, and three
# that have nothing to do with each other within a species. Half of the shells are kept for a test.

NAMES = ["length", "width", "height", "opening", "lip", "age", "depth", "salt"]
rng = np.random.default_rng(3)
means = np.array([
    [50.0, 30.0, 22.0, 12.0, 3.0, 5.0, 8.0, 33.0],
    [56.0, 35.0, 22.0, 14.0, 3.5, 6.0, 12.0, 33.5],
    [50.0, 34.0, 25.0, 14.0, 3.0, 7.0, 10.0, 34.0],
])  # fmt: skip
deviations = np.array([6.0, 4.0, 3.0, 2.0, 0.6, 2.0, 3.0, 0.6])
covariances = np.empty((3, 8, 8))
for k, (size, opening) in enumerate(((0.9, 0.7), (0.85, -0.5), (0.95, 0.6))):
    correlations = np.eye(8)
    correlations[:3, :3] = size + (1 - size) * np.eye(3)
    correlations[3, 4] = correlations[4, 3] = opening
    covariances[k] = correlations * np.outer(deviations, deviations)
truth = mm.Mixture([0.4, 0.35, 0.25], means, covariances, feature_names=NAMES)
rows, labels = truth.sample(8_000, random_state=0)
frame = pd.DataFrame(rows, columns=NAMES)
train, test = frame[::2], frame[1::2]

# %%
# A diagonal fit of three components, one that finds blocks of columns, and scikit-learn's full
# covariances.


def timed(name, fit):
    start = time.perf_counter()
    model = fit()
    print(f"{name:34s} {time.perf_counter() - start:5.1f} s")
    return model


diagonal = timed("momentmix, diagonal", lambda: mm.fit(train, 3, random_state=0))
joined = timed("momentmix, blocks found", lambda: mm.fit(train, 3, blocks="auto", random_state=0))
em = GaussianMixture(3, n_init=3, init_params="k-means++", random_state=0)
full = timed("scikit-learn, full, k-means++ ×3", lambda: em.fit(train))

# %%
# The certificate of the diagonal fit names the correlated columns. The other fit notes what it
# joined. Full covariances would have 134 parameters.

for finding in diagonal.certificate.findings:
    if finding.kind == "correlated-columns":
        print(finding.text)
print(*joined.notes, sep="\n")
print(joined.certificate)
print(joined.mixture.parameters.n_free, "parameters")

# %%
# The log-density of the held-out shells, less that of the true parameters, and the share of shells
# in the right species.

models = {
    "momentmix, diagonal": diagonal.mixture,
    "momentmix, blocks found": joined.mixture,
    "scikit-learn, full": mm.Mixture(
        full.weights_, full.means_, full.covariances_, feature_names=NAMES
    ),
    "true parameters": truth,
}
best = truth.log_prob(test).mean()
for name, mixture in models.items():
    score = mixture.log_prob(test).mean() - best
    right = (truth.align(mixture).predict(test) == labels[1::2]).mean()
    print(f"{name:26s} {score:+.4f} nats a row, {right:.4f} in the right species")

# %%
# Ellipses at two standard deviations: those of the blocks follow the points.

figure, axes = plt.subplots(1, 2, figsize=(6.4, 3.6), sharey=True, layout="constrained")
angle = np.linspace(0, 2 * np.pi, 100)
circle = 2 * np.stack([np.cos(angle), np.sin(angle)])
for ax, name in zip(axes, list(models)[:2], strict=True):
    mixture, some = truth.align(models[name]), test[::4]
    colors = [f"C{k}" for k in mixture.predict(some)]
    ax.scatter(some["length"], some["width"], s=3, color=colors, alpha=0.4)
    part = mixture.select(["length", "width"])
    for k in range(3):
        ellipse = part.means[k][:, None] + np.linalg.cholesky(part.covariances[k]) @ circle
        ax.plot(*ellipse, color=f"C{k}", linewidth=2.5)
    ax.set(title=name, xlabel="length")
axes[0].set(ylabel="width")
plt.show()

# %%
# What is correlated can be predicted: the mean of the other columns given some of a new shell.

shell = {"length": 58.0, "depth": 9.0}
given = joined.mixture.condition(shell)
mean = given.weights @ given.means
for name, value in zip(given.feature_names, mean, strict=True):
    print(f"{name:8s} {value:6.2f}")
