"""
A quarter of the cells is missing
=================================

With twelve columns and a quarter of the cells missing, two or three of a hundred rows are complete.
Dropping the others wastes nearly all of the data, and imputing cells invents data.
``missing="model"`` fits all rows as they are. The moments of the observed cells are enough: the fit
below needs a summary only.
"""

# sphinx_gallery_thumbnail_number = 2
import time

import matplotlib.pyplot as plt
import numpy as np

import momentmix as mm

plt.style.use("seaborn-v0_8-colorblind")

# %%
# Three components. In each of them every column has a probability of being observed, between one
# half and one.

rng = np.random.default_rng(11)
means = 1.5 * rng.standard_normal((3, 12))
variances = rng.uniform(0.5, 1.5, (3, 12))
seen = rng.uniform(0.5, 1.0, (3, 12))
blocks = [mm.GaussianBlock(means[:, j], variances[:, j], seen=seen[:, j]) for j in range(12)]
truth = mm.Mixture.from_blocks([0.5, 0.3, 0.2], blocks)
rows, labels = truth.sample(20_000, random_state=0)
complete = ~np.isnan(rows).any(axis=1)
print(f"{np.isnan(rows).mean():.1%} of the cells are missing; {complete.mean():.1%} of the rows")
print("have none, and these hold other shares of the components:")
print("all rows     ", (np.bincount(labels) / len(labels)).round(3))
print("complete rows", (np.bincount(labels[complete]) / complete.sum()).round(3))

# %%
# Both fits are from moments alone.


def from_moments(missing):
    start = time.perf_counter()
    summary = mm.summarize(rows, order=4, missing=missing)
    result = mm.fit(summary, 3, random_state=0)
    print(f'missing="{missing}": {summary.n_rows} rows, {time.perf_counter() - start:.1f} s')
    return result


results = {kind: from_moments(kind) for kind in ("model", "drop")}
print(results["model"].certificate)

# %%
# Means with 95 % intervals, as differences from the truth.

figure, axes = plt.subplots(3, 1, figsize=(7.5, 6.5), sharex=True, layout="constrained")
for color, (kind, result) in zip(("C0", "C2"), results.items(), strict=True):
    order = [int(np.argmin(((result.mixture.means - m) ** 2).sum(axis=1))) for m in means]
    low, high = (end[order] for end in result.intervals().means)
    found = result.mixture.means[order]
    inside = (low <= means) & (means <= high)
    error = np.sqrt(((found - means) ** 2).mean())
    print(f"{kind:6s} {error:.4f} root mean square error of the means; {inside.sum()} of 36 inside")
    place = np.arange(12) + (0.15 if kind == "drop" else -0.15)
    for k, ax in enumerate(axes):
        ends = np.abs(np.stack([low[k], high[k]]) - found[k])
        label = f'missing="{kind}"'
        ax.errorbar(place, found[k] - means[k], ends, fmt="o", ms=3, color=color, label=label)
for k, ax in enumerate(axes):
    ax.axhline(0, color="0.3", linewidth=1)
    ax.set(ylabel=f"component {k}")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
axes[0].set_title("estimated minus true mean, 95 % intervals")
axes[-1].set(xlabel="column")
axes[-1].set_xticks(range(12))

# %%
# The estimated probabilities of observed cells, against the truth, with intervals.

model = results["model"]
order = [int(np.argmin(((model.mixture.means - m) ** 2).sum(axis=1))) for m in means]
low, high = (end[order] for end in model.intervals().seen)
found = np.stack([block.seen for block in model.mixture.blocks], axis=1)[order]
figure, ax = plt.subplots(figsize=(6, 4.2), layout="constrained")
ax.axline((0.5, 0.5), slope=1, color="0.3", linewidth=1)
for k in range(3):
    ends = np.stack([found[k] - low[k], high[k] - found[k]])
    ax.errorbar(seen[k], found[k], ends, fmt="o", ms=4, color=f"C{k}", label=f"component {k}")
ax.set(xlabel="true probability of being observed", ylabel="estimated from moments")
ax.legend()
plt.show()

# %%
# Incomplete rows are put into components as they are.

match = np.argsort(order)
for name, labels_found in (
    ("moments alone", match[model.mixture.predict(rows)]),
    ("true parameters", truth.predict(rows)),
):
    print(f"{name:16s} {(labels_found == labels).mean():.4f} of the rows in the right component")
