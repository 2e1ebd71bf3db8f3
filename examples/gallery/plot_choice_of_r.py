"""
How many components?
====================

Any number of components can be fitted to one summary, without reading the rows again. From the
right number on, chance explains the misfit of the moments; above it, one component less would do.
"""

import matplotlib.pyplot as plt
import numpy as np

import momentmix as mm
from momentmix import displays

rng = np.random.default_rng(8)
truth = mm.DiagonalMixture(
    [0.4, 0.3, 0.2, 0.1], 1.5 * rng.standard_normal((4, 9)), rng.uniform(0.5, 1.5, (4, 9))
)
rows, _ = truth.sample(20_000, random_state=0)
summary = mm.summarize(rows, order=4)

# %%
# The certificate of every number from 1 to 6; the truth is 4.

results = [mm.fit(summary, r, random_state=0) for r in range(1, 7)]
display = displays.ChoiceDisplay.from_results(results)
for result in results:
    c = result.certificate
    print(
        f"r = {result.mixture.n_components}: p-value {c.p_value:8.2g}, effect size "
        f"{c.effect_size:.4f}, predicted loss {c.predicted_loss:.3f}: {c.verdict}"
    )

# %%
# ``n_components="auto"`` chooses by itself: the largest number that other rows would give again, or
# from a summary the smallest number that the moments accept.

automatic = mm.fit(summary, "auto", random_state=0)
print("automatic choice:", automatic.mixture.n_components)
plt.show()
