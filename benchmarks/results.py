"""How answers are judged, timed and counted, and the peers that several measurements have."""

import time
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from draws import diagonal
from scipy.optimize import linear_sum_assignment
from sklearn.mixture import GaussianMixture

# -- runs -----------------------------------------------------------------------------------------


def each(work, cases, jobs):
    """Results in the order of the cases."""
    if jobs == 1:
        yield from map(work, cases)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(work, cases)


def best_of(repeats, *works):
    """Least seconds of each piece of work, in turns, and their last results."""
    least, answers = [np.inf] * len(works), [None] * len(works)
    for _ in range(repeats):
        for i, work in enumerate(works):
            start = time.perf_counter()
            answers[i] = work()
            least[i] = min(least[i], time.perf_counter() - start)
    return least, answers


def timed(work):
    """The result, and its seconds."""
    (seconds,), (answer,) = best_of(1, work)
    return answer, seconds


def share(count, total):
    return f"{count} of {total} ({count / total:.1%})" if total else "0 of 0"


def number(text):
    """A whole number as 1e6 is written."""
    return int(float(text))


# -- answers --------------------------------------------------------------------------------------


def matched(labels, predicted, r):
    """Share of rows that are labelled rightly, and the component of each label; −1 is never."""
    table = np.zeros((r, r))
    kept = predicted >= 0
    np.add.at(table, (labels[kept], predicted[kept]), 1)
    rows, columns = linear_sum_assignment(-table)
    return table[rows, columns].sum() / labels.size, columns


def nearest(truth, found):
    """Position in `found` of each row of `truth`, all of them as near as they can be."""
    return linear_sum_assignment(((truth[:, None] - found) ** 2).sum(axis=2))[1]


def accuracies(mixture, truth, n_test=50000, seed=10**6):
    """(Bayes accuracy, accuracy of the mixture, nats per row below the truth) on fresh rows."""
    rows, labels = truth.sample(n_test, random_state=seed)
    size = max(truth.n_components, mixture.n_components)
    bayes = (truth.predict(rows) == labels).mean()
    lost = truth.log_prob(rows).mean() - mixture.log_prob(rows).mean()
    return bayes, matched(labels, mixture.predict(rows), size)[0], lost


def within(ends, truth):
    """Which values lie in their intervals."""
    return (ends[0] <= truth) & (truth <= ends[1])


# -- scikit-learn ---------------------------------------------------------------------------------


def sklearn_fit(rows, r, covariance_type="diag", n_init=10, max_iter=500, reg_covar=1e-6, seed=0):
    """EM from k-means++ seeds, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GaussianMixture(
            r, covariance_type=covariance_type, init_params="k-means++", n_init=n_init,
            max_iter=max_iter, reg_covar=reg_covar, random_state=seed,
        ).fit(rows)  # fmt: skip


def as_mixture(model, floor=1e-6):
    """A diagonal fit of scikit-learn as a mixture."""
    variances = np.maximum(model.covariances_, floor)
    return diagonal(model.weights_ / model.weights_.sum(), model.means_, variances)
