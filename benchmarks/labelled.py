"""Groups of labelled tables: adjusted Rand index and number of groups, beside peers in one run.

    python benchmarks/labelled.py                    # defaults of momentmix and of the peers
    python benchmarks/labelled.py --given            # the number of classes is given
    python benchmarks/labelled.py --held-back        # tables that nothing was tuned on
    python benchmarks/labelled.py --orders 5         # columns permuted and reflected: one answer?

Peers: mclust (R), scikit-learn's full covariances by least BIC from 1 to 15 components on
standardized columns, k-means by the largest silhouette from 2 to 15. The tables are scikit-learn's,
those of momentmix, and those of R packages (Debian: r-cran-mass, r-cran-mclust, r-cran-dslabs,
r-cran-modeldata, r-cran-mlbench, r-cran-gclus, r-cran-kohonen, r-cran-hsaur3). Tables of packages
that are not installed are left out and named, and so is mclust.
"""

import argparse
import os
import subprocess
import tempfile
import warnings
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import numpy as np
import pandas as pd
from results import timed
from sklearn import datasets
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

import momentmix as mm

MOST = 15  # groups that a peer may choose
MANY = 5  # classes: tables with fewer are counted apart

# name, R package, expression of a frame, column of the classes
R_TABLES = """
crabs            | MASS      | transform(crabs, class=paste(sp, sex))[,-(1:3)] | class
biopsy           | MASS      | na.omit(biopsy[,-1]) | class
glass            | MASS      | fgl | type
banknote         | mclust    | banknote | Status
diabetes         | mclust    | diabetes | class
thyroid          | mclust    | thyroid | Diagnosis
olive regions    | dslabs    | olive[,-2] | region
olive areas      | dslabs    | olive[,-1] | area
tissue, 10 PCs   | dslabs    | with(tissue_gene_expression, data.frame(prcomp(x)$x[,1:10], y)) | y
oils             | modeldata | oils | class
penguins, no gaps| modeldata | na.omit(penguins[,c(1,3:6)]) | species
"""
R_HELD_BACK = """
vehicle          | mlbench   | Vehicle | Class
vowel            | mlbench   | Vowel[,-1] | Class
ionosphere       | mlbench   | Ionosphere[,-(1:2)] | Class
zoo              | mlbench   | transform(Zoo, legs=factor(legs)) | type
satellite, 10 PCs| mlbench   | with(Satellite, data.frame(prcomp(Satellite[,-37])$x[,1:10], classes)) | classes
wines            | kohonen   | data.frame(wines, class=vintages) | class
scat             | modeldata | na.omit(scat[,c(1,6:19)]) | Species
body             | gclus     | body | Gender
skulls           | HSAUR3    | skulls | epoch
pottery          | HSAUR3    | pottery | kiln
cushings         | MASS      | Cushings | Type
letters A to E   | mlbench   | subset(LetterRecognition, lettr %in% LETTERS[1:5]) | lettr
"""  # noqa: E501


def run_r(script):
    subprocess.run(["Rscript", "-e", script], check=True, capture_output=True)


def from_r(listed, folder):
    """Frames and classes of R's tables by name; packages that are missing are named."""
    frames, path = {}, Path(folder) / "table.csv"
    for line in listed.strip().splitlines():
        name, package, expression, label = (part.strip() for part in line.split("|"))
        load = f"suppressMessages(library({package})); " + (
            f"try(data(list=data(package='{package}')$results[,'Item']), silent=TRUE); "
        )
        try:
            run_r(f"{load} write.csv({expression}, '{path}', row.names=FALSE)")
        except (FileNotFoundError, subprocess.CalledProcessError):
            print(f"{name}: no table, for want of R's package {package}")
            continue
        frame = pd.read_csv(path)
        frames[name] = frame.drop(columns=label), frame[label].astype(str).to_numpy()
    return frames


def tables(held_back, folder):
    if held_back:
        return from_r(R_HELD_BACK, folder)
    frames = {}
    for name in ("iris", "wine", "breast_cancer"):
        rows, labels = getattr(datasets, f"load_{name}")(return_X_y=True, as_frame=True)
        frames[name] = rows, labels.to_numpy()
    rows, labels = datasets.load_digits(return_X_y=True)
    scores = PCA(10, random_state=0).fit_transform(rows)
    frames["digits, 10 PCs"] = pd.DataFrame(scores).add_prefix("pc"), labels
    votes = pd.read_csv(mm.example_table("votes"))
    party = votes.pop(votes.columns[0]).to_numpy()
    return {**frames, "votes": (votes, party), **from_r(R_TABLES, folder)}


# -- answers: labels, verdict ---------------------------------------------------------------------


def of_momentmix(frame, n_components):
    missing = "mar" if frame.isna().any(axis=None) else "error"
    result = mm.fit(frame, n_components or "auto", missing=missing, random_state=0)
    return result.mixture.predict(frame), result.certificate.verdict


def _numbers(frame):
    """Standardized numbers, levels as indicators; missing cells by means."""
    columns = pd.get_dummies(frame, dtype=float)
    return StandardScaler().fit_transform(columns.fillna(columns.mean()))


def of_full_covariances(frame, n_components):
    rows = _numbers(frame)
    fits = [
        GaussianMixture(r, n_init=3, reg_covar=1e-4, random_state=0).fit(rows)
        for r in ([n_components] if n_components else range(1, min(MOST, len(rows) // 10) + 1))
    ]
    return min(fits, key=lambda fit: fit.bic(rows)).predict(rows), ""


def of_k_means(frame, n_components):
    rows = _numbers(frame)
    fits = [
        KMeans(r, n_init=10, random_state=0).fit_predict(rows)
        for r in ([n_components] if n_components else range(2, MOST + 1))
    ]
    return max(fits, key=lambda k: silhouette_score(rows, k) if len(fits) > 1 else 0), ""


def of_mclust(frame, n_components):
    """Mclust with its defaults, on numbers; raises where R or the package is missing."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "x.csv", Path(folder) / "y.csv"
        pd.DataFrame(_numbers(frame)).to_csv(source, index=False)
        groups = f", G={n_components}" if n_components else ""
        run_r(
            "suppressMessages(library(mclust)); set.seed(1); "
            f"fit <- Mclust(as.matrix(read.csv('{source}')), verbose=FALSE{groups}); "
            f"write.csv(fit$classification, '{target}', row.names=FALSE)"
        )
        return pd.read_csv(target).iloc[:, 0].to_numpy(), ""


METHODS = {
    "momentmix": of_momentmix,
    "mclust": of_mclust,
    "full, BIC": of_full_covariances,
    "k-means": of_k_means,
}


# -- tables of figures ----------------------------------------------------------------------------


def compare(frames, given, methods):
    """Print a line for each table, and means over all tables, those of few classes and of many."""
    print(f"{'table':<20} {'rows':>6} {'classes':>7}", *(f"{m:>26}" for m in methods))
    scores = {method: [] for method in methods}
    for name, (frame, labels) in frames.items():
        truth, cells = len(set(labels)), []
        for method in methods:
            fit = METHODS[method]
            try:
                (predicted, verdict), seconds = timed(lambda: fit(frame, truth if given else None))  # noqa: B023
            except (FileNotFoundError, subprocess.CalledProcessError) as error:
                cells.append(f"{type(error).__name__:>26}")
                continue
            n, index = len(set(predicted[predicted >= 0])), adjusted_rand_score(labels, predicted)
            scores[method].append((truth, index, n == truth))
            cells.append(f"{n:>3} {index:6.3f} {verdict:>10} {seconds:4.1f}")
        print(f"{name:<20} {len(frame):>6} {truth:>7}", *cells, flush=True)
    for title, wanted in (
        ("mean of all", lambda r: True),
        (f"fewer than {MANY} classes", lambda r: r < MANY),
        (f"{MANY} classes and more", lambda r: r >= MANY),
    ):
        cells = []
        for method in methods:
            part = [s for s in scores[method] if wanted(s[0])]
            mean = np.mean([s[1] for s in part]) if part else np.nan
            cells.append(f"{mean:10.3f} ({sum(s[2] for s in part)} of {len(part)} right)")
        print(f"{title:<35}", *(f"{cell:>26}" for cell in cells))


def in_other_orders(frames, given, n_orders):
    """Print whether the groups stay the same when columns change their order and signs."""
    rng = np.random.default_rng(0)
    for name, (frame, labels) in frames.items():
        n = len(set(labels)) if given else None
        answers = [of_momentmix(frame, n)[0]]
        numbers = frame.select_dtypes(float).columns
        for _ in range(n_orders):
            signs = rng.choice([-1.0, 1.0], len(numbers))
            other = frame.assign(**{c: frame[c] * s for c, s in zip(numbers, signs, strict=True)})
            answers.append(of_momentmix(other[rng.permutation(frame.columns)], n)[0])
        least = min(adjusted_rand_score(answers[0], answer) for answer in answers[1:])
        sizes = [len(set(answer[answer >= 0])) for answer in answers]
        print(f"{name:<20} groups {sizes}, least agreement {least:.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--given", action="store_true", help="the number of classes is given")
    parser.add_argument("--held-back", action="store_true", help="tables nothing was tuned on")
    parser.add_argument("--orders", type=int, help="orders and signs of columns to try")
    parser.add_argument("--only", nargs="+", help="names of tables")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        frames = tables(a.held_back, folder)
    frames = {k: v for k, v in frames.items() if not a.only or k in a.only}
    if a.orders:
        in_other_orders(frames, a.given, a.orders)
    else:
        compare(frames, a.given, a.methods)


if __name__ == "__main__":
    main()
