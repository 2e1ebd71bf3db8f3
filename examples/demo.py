"""Fit a mixture from one pass over seeded data and print it beside the truth."""

import numpy as np

import momentmix as mm
from momentmix.core.matching import clustering_accuracy, match_components


def main() -> None:
    """Draw rows, fit, compare."""
    rng = np.random.default_rng(20)
    truth = mm.DiagonalMixture(
        [0.15, 0.25, 0.6], 4 * rng.standard_normal((3, 8)), 0.5 + rng.random((3, 8))
    )
    rows, labels = truth.sample(50_000, random_state=1)
    result = mm.fit(rows, n_components=3, random_state=0)
    print(result, "\n")
    found, order = result.mixture, match_components(truth, result.mixture)
    print("component   parameter        true   estimated       error")
    for i, j in enumerate(order):
        lines = [("weight", truth.weights[i], found.weights[j])]
        lines += [(f"mean {k}", truth.means[i, k], found.means[j, k]) for k in range(3)]
        lines += [(f"variance {k}", truth.variances[i, k], found.variances[j, k]) for k in range(3)]
        for name, true, estimate in lines:
            print(f"{i:>9}   {name:<12} {true:>8.4f}   {estimate:>9.4f}   {estimate - true:>+9.4f}")
    accuracy = clustering_accuracy(labels, found.predict(rows))
    best = clustering_accuracy(labels, truth.predict(rows))
    print(f"\nRows put into the right component: {accuracy:.4f} (true parameters: {best:.4f})")


if __name__ == "__main__":
    main()
