"""
Groups in a table of customers
==============================

A bike-sharing service has a table of its customers: numbers, counts, categories, and missing ages.
Which kinds of customers are there, how large are they, and what makes them different?
"""

# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt
import pandas as pd

import momentmix as mm
from momentmix import displays

# %%
# The table is drawn from a known mixture, so that the answer can be checked. The kind of a customer
# is not in it.

truth = mm.Mixture.from_blocks([0.45, 0.3, 0.25], [
    mm.GaussianBlock([41.0, 23.0, 53.0], [50.0, 6.0, 70.0], "age", seen=[0.9, 0.95, 0.7]),
    mm.PoissonBlock([18.0, 10.0, 4.0], names="rides"),
    mm.GaussianBlock([4.2, 2.6, 7.5], [0.8, 0.3, 2.5], "km"),
    mm.GaussianBlock([3.6, 2.7, 3.1], [0.1, 0.1, 0.2], "spent", transforms="log"),
    mm.BernoulliBlock([0.35, 0.15, 0.6], (False, True), names="newsletter"),
    mm.CategoricalBlock([[0.1, 0.3, 0.6], [0.2, 0.7, 0.1], [0.6, 0.2, 0.2]],
                        ("day", "month", "year"), names="plan"),
])  # fmt: skip
table, kind = truth.sample(20_000, random_state=0)
customers = pd.DataFrame(table)
print(customers.head().round(1))

# %%
# One call. The fit chooses the number of groups, ``missing="model"`` takes incomplete rows as they
# are, and ``families`` names what the cells do not tell.

families = {"rides": "poisson", "spent": "log"}
result = mm.fit(customers, missing="model", families=families, random_state=0)
print(result.profile())

# %%
# Columns with what was fitted. Gray bars are the rows; each color is one group.

columns = ["age", "rides", "km", "plan"]
display = displays.ColumnsDisplay.from_estimator(result, customers, columns=columns)

# %%
# Does the model fit the data? The certificate says yes.

print(result.certificate)

# %%
# The share of customers in the right group, by the fit and by the true mixture.

for name, mixture in (("fit", truth.align(result.mixture)), ("truth", truth)):
    print(f"{name}: {(mixture.predict(customers) == kind).mean():.1%} in the right group")

# %%
# Two of the numbers; rings are at one and two standard deviations.

pairs = displays.PairsDisplay.from_estimator(result, customers, features=["age", "km"])
plt.show()
