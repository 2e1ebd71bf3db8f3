"""Whole fits, the solver and one EM pass against other libraries, in one run.

    python benchmarks/peers.py fit              # 1e5 × 15, r = 6
    python benchmarks/peers.py fit --full       # 1e6 × 15, r = 6 and r = 20: the record
    python benchmarks/peers.py solver           # d = 15: r = 6, 8, 20; with --full d = 40 as well
    python benchmarks/peers.py em-pass          # an EM pass against scikit-learn's iteration

An answer is checked before its time is printed: a fit by its log-likelihood on fresh rows, which
may lie 0.005 nats below the best of all at most, and by its accuracy against the truth; a pass by
its sums against scikit-learn's. A line that fails says so. Peers that are not installed
are listed as such; none is a dependency (``pip install gmmx stepmix pomegranate`` brings them).

``--json FILE`` writes the figures with the versions of everything that was timed. Peers run in
processes of their own, one after the other, so that peak memory is each one's own.
"""

import argparse
import functools
import importlib.metadata
import itertools
import json
import multiprocessing
import os
import platform
import resource
import time
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", str(os.cpu_count()))

import laws
import numpy as np
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

import momentmix as mm
from momentmix.capacity import choose_order
from momentmix.fitting.data import summarized
from momentmix.fitting.em import em
from momentmix.mixture.gaussian import m_step
from momentmix.mixture.matching import largest_factor_error
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import VariancePrior
from momentmix.tables.rows import ArrayRows

ALLOWANCE = 0.005  # nats a row below the best
N_FRESH = 200_000  # rows that no fit has seen: likelihood of its own rows rewards overfitting


def draw(r, d, n, seed):
    rng = np.random.default_rng([seed, r, d])
    truth = laws.separated(r, d, rng)
    return truth, truth.sample(n, rng)[0]


# -- the fits: each gives weights, means, variances ---------------------------------------------


def ours(rows, r):
    m = mm.fit(rows, r, random_state=0).mixture
    return m.weights, m.means, m.variances


def from_summary(rows, r):
    return ours(mm.summarize(rows), r)


def sklearn(init_params, n_init, max_iter):
    def fit(rows, r):
        model = GaussianMixture(
            r, covariance_type="diag", init_params=init_params, n_init=n_init, max_iter=max_iter,
            random_state=0,
        ).fit(rows)  # fmt: skip
        return model.weights_, model.means_, model.covariances_

    return fit


def stepmix(rows, r):
    from stepmix.stepmix import StepMix

    model = StepMix(
        r, measurement="gaussian_diag", random_state=0, max_iter=100, progress_bar=0, verbose=0
    ).fit(rows)
    found = model.get_parameters()
    measured = found["measurement"]
    return found["weights"], measured["means"], measured["covariances"]


def gmmx(rows, r):
    from gmmx import EMFitter, GaussianMixtureModelJax

    single = rows.astype(np.float32)  # it takes nothing else
    start = GaussianMixtureModelJax.from_k_means(
        single, n_components=r, covariance_type="diag", n_init=1, random_state=0
    )
    twin = EMFitter(max_iter=100, tol=1e-3, reg_covar=1e-6).fit(single, start).gmm.to_sklearn()
    return twin.weights_, twin.means_, twin.covariances_


def pomegranate(rows, r):
    import torch
    from pomegranate.distributions import Normal
    from pomegranate.gmm import GeneralMixtureModel
    from sklearn.cluster import kmeans_plusplus

    # Its own k-means start holds every row against every center at once; seeds are handed in.
    seeds, _ = kmeans_plusplus(rows, r, random_state=0)
    spread = torch.tensor(rows.var(axis=0), dtype=torch.float32)
    parts = [
        Normal(torch.tensor(s, dtype=torch.float32), spread.clone(), covariance_type="diag")
        for s in seeds
    ]
    model = GeneralMixtureModel(parts, tol=1e-3 * len(rows), max_iter=100)
    model.fit(torch.tensor(rows, dtype=torch.float32))
    return (
        model.priors.numpy(),
        np.array([part.means.numpy() for part in model.distributions]),
        np.array([part.covs.numpy() for part in model.distributions]),
    )


FITS = {
    "momentmix": ("momentmix", ours),
    "momentmix, a summary": ("momentmix", from_summary),
    "scikit-learn, default ×1": ("scikit-learn", sklearn("kmeans", 1, 100)),
    "scikit-learn, k-means++ ×10": ("scikit-learn", sklearn("k-means++", 10, 500)),
    "scikit-learn, random ×10": ("scikit-learn", sklearn("random", 10, 500)),
    "gmmx": ("gmmx", gmmx),
    "StepMix": ("stepmix", stepmix),
    "pomegranate": ("pomegranate", pomegranate),
}


def version_of(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


# -- whole fits ---------------------------------------------------------------------------------


def peak_mb(reset=False):
    """Most memory that this process has held, in MB; since the last reset where that is offered."""
    try:
        if reset:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
        with open("/proc/self/status") as file:
            line = next(line for line in file if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    except OSError:  # not Linux: the rows' own making then counts as well
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _child(pipe, name, r, d, n, seed):
    truth, rows = draw(r, d, n, seed)
    before = peak_mb(reset=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wall, core = time.perf_counter(), time.process_time()
            parts = FITS[name][1](rows, r)
            wall, core = time.perf_counter() - wall, time.process_time() - core
        peak = peak_mb()
        weights, means, variances = (np.asarray(x, dtype=float) for x in parts)
        mixture = laws.diagonal(
            weights / weights.sum(), means.reshape(r, d),
            np.maximum(variances.reshape(r, d), 1e-6 * rows.var(axis=0)),
        )  # fmt: skip
        bayes, accuracy, _ = laws.accuracies(mixture, truth)
        pipe.send(
            {
                "seconds": wall, "core_seconds": core,
                "peak_mb_beside_rows": peak - before,
                "log_likelihood": float(mixture.log_prob(truth.sample(N_FRESH, 999)[0]).mean()),
                "accuracy": float(accuracy), "bayes": float(bayes),
            }
        )  # fmt: skip
    except Exception as error:
        pipe.send({"failed": f"{type(error).__name__}: {error}"})


def run_alone(name, r, d, n, seed, limit):
    """The figures of one fit in a process of its own; no longer than `limit` seconds."""
    context = multiprocessing.get_context("spawn")
    ear, mouth = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(mouth, name, r, d, n, seed))
    child.start()
    mouth.close()
    try:
        if not ear.poll(limit):
            return {"failed": f"not done after {limit} s"}
        return ear.recv()
    except EOFError:
        return {"failed": "the process died"}
    finally:
        child.kill()
        child.join()


def fit(a):
    sizes = [(6, 10**6), (20, 10**6)] if a.full else [(a.r, a.n)]
    tables = []
    for r, n in sizes:
        print(f"\n{n:.0e} × {a.d}, r = {r}, law separated, seed {a.seed}")
        rows = {}
        for name, (package, _) in FITS.items():
            if a.only and a.only not in name and not name.startswith("momentmix"):
                continue
            if version_of(package) is None:
                rows[name] = {"failed": "not installed"}
            else:
                rows[name] = run_alone(name, r, a.d, n, a.seed, a.limit)
        tables.append({"r": r, "d": a.d, "n": n, "seed": a.seed, "fits": rows})
        report(rows)
    return {"whole_fits": tables}


def report(rows):
    done = {name: x for name, x in rows.items() if "failed" not in x}
    best = max((x["log_likelihood"] for x in done.values()), default=np.nan)
    reference = done.get("momentmix", {}).get("seconds", np.nan)
    print(f"{'':28} {'seconds':>8} {'ratio':>7} {'core s':>7} {'MB':>6} {'log-lik.':>10} accuracy")
    for name, x in rows.items():
        if "failed" in x:
            print(f"{name:28} {x['failed'][:90]}")
            continue
        x["ratio_to_momentmix"] = x["seconds"] / reference
        x["below_best"] = best - x["log_likelihood"]
        x["answer_holds"] = x["below_best"] <= ALLOWANCE
        remark = "" if x["answer_holds"] else f"  {x['below_best']:.3f} nats below the best"
        print(
            f"{name:28} {x['seconds']:8.2f} {x['ratio_to_momentmix']:7.1f} {x['core_seconds']:7.2f}"
            f" {x['peak_mb_beside_rows']:6.0f} {x['log_likelihood']:10.4f} {x['accuracy']:.4f} of "
            f"{x['bayes']:.4f}{remark}"
        )
    if "momentmix" in done and not done["momentmix"]["answer_holds"]:
        print("OUR ANSWER DOES NOT HOLD: its time above counts for nothing")


# -- the solver ---------------------------------------------------------------------------------

SOLVER = {(6, 15): 0.5, (8, 15): 0.5, (20, 15): 2.0, (40, 40): 20.0, (100, 40): None}


def solver(a):
    """Everything between the summary and the parameters, certificate included."""
    found = []
    for (r, d), goal in SOLVER.items():
        if d > 15 and not a.full:
            continue
        n = 200_000 if r == 100 else 100_000
        truth, rows = draw(r, d, n, a.seed)
        summary = mm.MomentSummary(d, choose_order(d, r, None)).update(rows)
        best = np.inf
        for _ in range(1 if d > 15 else 3):
            wall, core = time.perf_counter(), time.process_time()
            result = mm.fit(summary, r, random_state=0)
            wall, core = time.perf_counter() - wall, time.process_time() - core
            if wall < best:
                best, best_core = wall, core
        bayes, accuracy, _ = laws.accuracies(result.mixture, truth)
        holds = bayes - accuracy <= 0.05
        stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in result.stages)
        wanted = "no goal" if goal is None else f"goal {goal} s"
        print(
            f"d={d} r={r} order {result.order} N={n}: {best:.2f} s ({best_core:.2f} core s; "
            f"{wanted}); loss {bayes - accuracy:.4f}, certificate "
            f"{'passed' if result.certificate.passed else 'NOT passed'}; {stages}"
            + ("" if holds else "  THE ANSWER DOES NOT HOLD"),
            flush=True,
        )
        found.append(
            {
                "d": d, "r": r, "order": result.order, "n": n, "seconds": best, "goal": goal,
                "core_seconds": best_core, "loss": bayes - accuracy, "answer_holds": bool(holds),
                "certificate_passed": result.certificate.passed,
            }
        )  # fmt: skip
    return {"solver": found}


# -- tensors ------------------------------------------------------------------------------------

TENSORS = [(10, 3, 4), (12, 4, 6), (15, 3, 6), (25, 6, 50), (30, 5, 91)]
DENSE = 10**6  # entries of the whole tensor, which tensorly needs


def noisy_tensor(d, order, r, seed):
    """Gaussian factors, the tensor with 1 percent of noise, and where it is small the whole one."""
    rng = np.random.default_rng([seed, d, order, r])
    factors = rng.standard_normal((r, d))
    whole = None
    if d**order <= DENSE:
        whole = sum(functools.reduce(np.multiply.outer, [q] * order) for q in factors)
        noise = rng.standard_normal(whole.shape)
        axes = list(itertools.permutations(range(order)))
        noise = sum(noise.transpose(a) for a in axes)
        whole = whole + 0.01 * np.linalg.norm(whole) / np.linalg.norm(noise) * noise
        return factors, mm.IncompleteSymmetricTensor.from_dense(whole), whole
    exact = mm.IncompleteSymmetricTensor.from_factors(factors, order)
    noise = mm.IncompleteSymmetricTensor(rng.standard_normal(exact.values.size), d, order)
    return factors, exact + 0.01 * exact.norm() / noise.norm() * noise, None


def tensorly_factors(whole, r, seed):
    """Unit factors of tensorly's CP, which knows nothing of symmetry, times their weights' root."""
    from tensorly.decomposition import parafac

    weights, parts = parafac(
        whole, r, n_iter_max=500, tol=1e-10, init="random", random_state=seed,
        normalize_factors=True,
    )  # fmt: skip
    signs = [np.sign((part * parts[0]).sum(axis=0)) for part in parts]
    mean = sum(sign * part for sign, part in zip(signs, parts, strict=True))
    mean *= np.prod(signs, axis=0) / np.linalg.norm(mean, axis=0)
    return (np.asarray(weights) ** (1.0 / whole.ndim) * mean).T


def tensors(a):
    """Factors of tensors with noise of 1 percent, against tensorly's on the whole tensor."""
    found = []
    for d, order, r in TENSORS:
        factors, tensor, whole = noisy_tensor(d, order, r, a.seed)
        wall, core = time.perf_counter(), time.process_time()
        answer = mm.approximate(tensor, r, random_state=0)
        wall, core = time.perf_counter() - wall, time.process_time() - core
        error = largest_factor_error(factors, answer.factors, order)
        theirs = np.nan
        if whole is not None and version_of("tensorly") is not None:
            peers = (tensorly_factors(whole, r, seed) for seed in range(5))
            theirs = min(largest_factor_error(factors, peer, order) for peer in peers)
        holds = answer.converged and error < 0.3 and not error > 3 * theirs
        print(
            f"({d}, {order}, {r}): {wall:.2f} s ({core:.2f} core s), residual "
            f"{answer.residual:.4f}, error {error:.4f}, tensorly's best of 5 {theirs:.4f}"
            + ("" if holds else "  THE ANSWER DOES NOT HOLD"),
            flush=True,
        )
        found.append(
            {
                "d": d, "order": order, "r": r, "seconds": wall, "core_seconds": core,
                "error": error, "tensorly_error": theirs, "answer_holds": bool(holds),
            }
        )  # fmt: skip
    return {"tensors": found}


# -- one pass -----------------------------------------------------------------------------------


def em_pass(a):
    """One EM pass against one iteration of scikit-learn on as many threads, best of several."""
    found = []
    n = 10**6 if a.full else 200_000
    for r in (6, 20):
        truth, rows = draw(r, a.d, n, a.seed)
        for threads in sorted({1, os.cpu_count() or 1}):
            with threadpool_limits(threads):
                times, holds = _both_passes(truth, rows, threads, a.repeats)
            best = {name: min(x) for name, x in times.items()}
            ratio = best["ours"] / best["theirs"]
            core_ratio = best["ours core"] / best["theirs core"]
            text = (
                f"{best['ours'] * 1e9 / n:.0f} ns a row against {best['theirs'] * 1e9 / n:.0f}: "
                f"ratio {ratio:.3f} (core seconds {core_ratio:.3f})"
            )
            if not holds:
                text = "THE SUMS DIFFER FROM SCIKIT-LEARN'S"
            print(f"{n:.0e} × {a.d}, r={r}, {threads} thread(s): {text}", flush=True)
            found.append(
                {
                    "r": r, "d": a.d, "n": n, "threads": threads, "ratio": ratio,
                    "core_ratio": core_ratio, "answer_holds": bool(holds),
                    "ns_per_row": best["ours"] * 1e9 / n,
                }
            )  # fmt: skip
    return {"em_pass": found}


def _both_passes(truth, rows, threads, repeats):
    """Seconds of both, in turn, and whether their steps agree."""
    moments, _ = summarized(rows, 3, threads)
    standard = moments.standardize(truth)
    start = Parameters(standard.weights, standard.means, standard.variances)
    times = {"ours": [], "theirs": [], "ours core": [], "theirs core": []}
    for _ in range(repeats):
        wall, core = time.perf_counter(), time.process_time()
        done = em.em_pass(ArrayRows(rows), moments, start, threads)
        times["ours"].append(time.perf_counter() - wall)
        times["ours core"].append(time.process_time() - core)
        model = GaussianMixture(truth.n_components, covariance_type="diag", reg_covar=0.0)
        model.weights_, model.means_ = truth.weights, truth.means
        model.covariances_ = truth.variances
        model.precisions_cholesky_ = 1.0 / np.sqrt(truth.variances)
        wall, core = time.perf_counter(), time.process_time()
        value, log_shares = model._e_step(rows)
        model._m_step(rows, log_shares)
        times["theirs"].append(time.perf_counter() - wall)
        times["theirs core"].append(time.process_time() - core)
    step = m_step(done.statistics, VariancePrior(0.0))
    units = np.log(moments.scale).sum()
    holds = (
        np.abs(step.weights - model.weights_).max() < 1e-9
        and np.abs(step.means * moments.scale + moments.shift - model.means_).max() < 1e-6
        and abs(done.log_likelihood / len(rows) - units - value) < 1e-6
    )
    return times, holds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    sub = parser.add_subparsers(required=True)
    for command in (fit, solver, tensors, em_pass):
        p = sub.add_parser(command.__name__.replace("_", "-"), help=command.__doc__)
        p.set_defaults(run=command)
        p.add_argument("--full", action="store_true", help="the sizes of the record")
        p.add_argument("--seed", type=int, default=0)
        p.add_argument("-d", type=int, default=15)
        p.add_argument("--json", help="write the figures to this file")
        if command is fit:
            p.add_argument("-r", type=int, default=6)
            p.add_argument("-n", type=lambda s: int(float(s)), default=100_000)
            p.add_argument("--limit", type=float, default=900, help="seconds for each fit")
            p.add_argument("--only", default="", help="peers whose name holds this")
        if command is em_pass:
            p.add_argument("--repeats", type=int, default=5)
    a = parser.parse_args()
    figures = a.run(a)
    if a.json:
        packages = ("momentmix", "numpy", "scipy", "scikit-learn", "gmmx", "jax", "stepmix")
        versions = {p: version_of(p) for p in (*packages, "pomegranate", "torch")}
        figures["versions"] = {"python": platform.python_version(), **versions}
        figures["machine"] = {"system": platform.system(), "processor": platform.machine(),
                              "cores": os.cpu_count()}  # fmt: skip
        with open(a.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
