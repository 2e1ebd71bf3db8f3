"""
Four small real data sets
=========================

Real data are rarely exactly a mixture of Gaussians with independent columns. The fit is still a
description of the data, and the certificate says where the model is wrong.
"""

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

import momentmix as mm
from momentmix import displays

plt.style.use("seaborn-v0_8-colorblind")

digits = load_digits()
sets = {
    "iris": (load_iris().data, load_iris().target, 3),
    "wine": (load_wine().data, load_wine().target, 3),
    "breast cancer,\n10 principal axes": (
        PCA(10, random_state=0).fit_transform(
            StandardScaler().fit_transform(load_breast_cancer().data)
        ),
        load_breast_cancer().target,
        2,
    ),
    "digits,\n15 principal axes": (
        PCA(15, random_state=0).fit_transform(digits.data), digits.target, 10,
    ),
}  # fmt: skip

# %%
# Each is fitted with as many components as it has classes, by momentmix and by scikit-learn's EM
# with ten starts; the classes are used only to compare the results.

scores = []
for name, (data, target, r) in sets.items():
    data = StandardScaler().fit_transform(data)
    result = mm.fit(data, r, random_state=0)
    em = GaussianMixture(
        r,
        covariance_type="diag",
        n_init=10,
        init_params="k-means++",
        reg_covar=1e-3,
        random_state=0,
    ).fit(data)
    scores.append(
        (
            adjusted_rand_score(target, result.mixture.predict(data)),
            adjusted_rand_score(target, em.predict(data)),
        )
    )
    c = result.certificate
    print(f"{name.replace(chr(10), ' ')} ({len(data)} rows, r = {r}): certificate {c.verdict}")
    print(f"    log-likelihood per row {result.log_likelihood:.3f}, EM ×10 {em.score(data):.3f}")
    for reason in c.reasons + c.untested:
        print(f"    - {reason}")

figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
place = np.arange(len(sets))
values = np.array(scores)
ax.bar(place - 0.2, values[:, 0], 0.38, color="C0", label="momentmix")
ax.bar(place + 0.2, values[:, 1], 0.38, color="C2", label="EM, k-means++ ×10")
ax.set_xticks(place, sets)
ax.set(ylabel="agreement with the classes\n(adjusted Rand index)")
ax.legend()

# %%
# Iris has four measurements of each flower, which are correlated within a species: a long petal is
# wide as well. ``blocks="auto"`` joins such columns, and the ellipses follow the points.

iris = load_iris(as_frame=True).data
joined = mm.fit(iris, 3, blocks="auto", random_state=0)
for block in joined.joined:
    print(block)
display = displays.PairsDisplay.from_estimator(joined, iris)
plt.show()
