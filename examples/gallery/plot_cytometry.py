"""
A rare population among 300,000 cells
=====================================

Simulated readings of a flow cytometer: nine markers and six populations, one of which contains
three cells in a thousand. One pass computes the summary; the fit must find the rare population in
it.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import momentmix as mm

plt.style.use("seaborn-v0_8-colorblind")

MARKERS = ["FSC", "SSC", "CD3", "CD4", "CD8", "CD19", "CD14", "CD16", "CD56"]
POPULATIONS = ["T helper", "T cytotoxic", "B", "monocyte", "NK", "rare"]
low, mid, high = 1.0, 2.2, 3.6  # log10 of the signal
means = np.array(
    [
        [4.6, 4.0, high, high, low, low, low, low, low],
        [4.6, 4.0, high, low, high, low, low, low, low],
        [4.6, 4.0, low, low, low, high, low, low, low],
        [5.0, 4.7, low, mid, low, low, high, low, low],
        [4.6, 4.1, low, low, mid, low, low, high, high],
        [4.8, 4.3, high, low, low, low, low, mid, high],
    ]
)
weights = np.array([0.42, 0.24, 0.12, 0.127, 0.09, 0.003])
rng = np.random.default_rng(0)
truth = mm.DiagonalMixture(weights, means, rng.uniform(0.15, 0.45, means.shape) ** 2, MARKERS)
cells, labels = truth.sample(300_000, random_state=0)

# %%
# Fit with an unknown number of populations.

start = time.perf_counter()
result = mm.fit(cells, "auto", random_state=0)
print(f"{result.mixture.n_components} components in {time.perf_counter() - start:.1f} s")
print(result.certificate)

# %%
# Shares with their 95 % intervals, beside the true ones.

if result.mixture.n_components == truth.n_components:
    order = np.argsort(truth.predict(result.mixture.means))  # that of the truth
    low_end, high_end = result.intervals().weights
    for k, name in enumerate(POPULATIONS):
        i = order[k]
        print(
            f"{name:12s} true {weights[k]:.4f}  found {result.mixture.weights[i]:.4f} "
            f"({low_end[i]:.4f} … {high_end[i]:.4f})"
        )
    accuracy = (truth.align(result.mixture).predict(cells) == labels).mean()
    print(f"cells in the right population: {accuracy:.4f}")

# %%
# Two of the markers, cells colored by component.

found = result.mixture.predict(cells[::60])
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for ax, (x, y) in zip(axes, ((2, 5), (2, 8)), strict=True):
    ax.scatter(cells[::60, x], cells[::60, y], s=3, c=[f"C{k}" for k in found])
    ax.set(xlabel=f"log10 {MARKERS[x]}", ylabel=f"log10 {MARKERS[y]}")
rare = result.mixture.means[result.mixture.weights.argmin()]
axes[1].annotate(
    "rare", rare[[2, 8]], xytext=(18, 22), textcoords="offset points", fontsize=9,
    arrowprops={"arrowstyle": "->"},
)  # fmt: skip
plt.show()
