"""Tables as they are: accuracy of one line on made tables, and what encoding costs.

    python benchmarks/tables.py accuracy --first 500 --seeds 10
    python benchmarks/tables.py encoding --rows 1000000 --repeat 5
    python benchmarks/tables.py formats --rows 1000000 --repeat 3

`accuracy`: random laws of text, yes/no, counts and numbers, with gaps, an id and a date; the loss
of accuracy against the true parameters, for the frame and for its CSV and Parquet files, which must
give the same model. `encoding`: the pass over a table with text against the pass over its features
as numbers, in memory and from Parquet; the sums are compared before a time is printed. `formats`:
seconds for a summary of 10 columns, four of them text, from each format.
"""

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import momentmix as mm
from momentmix.mixture.matching import clustering_accuracy


def made(seed, n_rows):
    """A table of a random law: frame, components, law, families of its counts."""
    rng = np.random.default_rng(seed)
    r = int(rng.integers(2, 5))
    weights = rng.dirichlet(np.full(r, 8.0))
    blocks, counts = [], {}
    for i in range(int(rng.integers(2, 5))):
        seen = rng.uniform(0.6, 1.0, r) if rng.random() < 0.5 else None
        means, scale = rng.normal(0, 1.5, r), 10.0 ** rng.integers(-2, 4)
        variances = rng.uniform(0.5, 1.5, r) * scale**2
        blocks.append(mm.GaussianBlock(means * scale, variances, f"x{i}", seen=seen))
    for i in range(int(rng.integers(1, 4))):
        k = int(rng.integers(2, 7))
        levels = tuple(sorted(f"level {j}" for j in range(k)))
        seen = rng.uniform(0.7, 1.0, r) if rng.random() < 0.5 else None
        chances = rng.dirichlet(np.full(k, 0.8), r)
        blocks.append(mm.CategoricalBlock(chances, levels, names=f"text {i}", seen=seen))
    blocks += [
        mm.BernoulliBlock(rng.uniform(0.05, 0.95, r), (False, True), names=f"yes{i}")
        for i in range(int(rng.integers(1, 4)))
    ]
    for i in range(int(rng.integers(0, 3))):
        blocks.append(mm.PoissonBlock(rng.uniform(0.5, 9.0, r), names=f"count{i}"))
        counts[f"count{i}"] = "poisson"
    law = mm.Mixture.from_blocks(weights, blocks)
    columns, labels = law.sample(n_rows, seed)
    frame = pd.DataFrame(columns)
    for name in frame:
        if name.startswith("yes"):
            frame[name] = frame[name].astype(bool)
        if name.startswith("count"):
            frame[name] = frame[name].astype(int)
    frame.insert(0, "row_id", rng.permutation(n_rows) + 1)
    days = pd.to_timedelta(rng.integers(0, 900, n_rows), "D")
    frame.insert(int(rng.integers(0, frame.shape[1])), "day", pd.Timestamp("2023-01-01") + days)
    return frame, labels, law, counts


def accuracy(options):
    print("seed  rows  r  columns  accuracy of truth  lost  certificate  CSV and Parquet alike")
    worst, n_good, n_alike = 0.0, 0, 0
    for seed in range(options.first, options.first + options.seeds):
        frame, labels, law, counts = made(seed, options.rows)
        best = float((law.predict(frame) == labels).mean())
        result = mm.fit(frame, law.n_components, missing="model", families=counts, random_state=0)
        names = [column.name for column in result.mixture.columns]
        assert names == [column.name for column in law.columns], names
        lost = best - clustering_accuracy(labels, result.mixture.predict(frame))
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / "t.csv", Path(folder) / "t.parquet"]
            frame.to_csv(paths[0], index=False)
            frame.to_parquet(paths[1], index=False)
            fits = [
                mm.fit(p, law.n_components, missing="model", families=counts, random_state=0)
                for p in paths
            ]
        alike = all(f.mixture.to_dict() == result.mixture.to_dict() for f in fits)
        worst, n_good, n_alike = max(worst, lost), n_good + (lost <= 0.005), n_alike + alike
        print(
            f"{seed:4}  {len(frame):5}  {law.n_components}  {len(names):7}  {best:17.4f}  "
            f"{lost:+.4f}  {result.certificate.verdict:11}  {alike}"
        )
    print(
        f"lost at most 0.005 in {n_good} of {options.seeds}, at most {worst:.4f}; the same model "
        f"from CSV and Parquet in {n_alike} of {options.seeds}"
    )


def customers(n_rows):
    """Six numbers and four columns of text."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, n_rows)
    columns = {f"x{j}": rng.standard_normal(n_rows) + j * kind for j in range(6)}
    for j in range(4):
        levels = np.array([f"level {i}" for i in range(2 + j)])
        columns[f"text{j}"] = levels[(kind + rng.integers(0, 2 + j, n_rows)) % (2 + j)]
    return pd.DataFrame(columns)


def best_of(repeat, *works):
    """Least seconds of each work, in turn, so that a busy moment hits all of them."""
    least = [np.inf] * len(works)
    for _ in range(repeat):
        for i, work in enumerate(works):
            begin = time.perf_counter()
            work()
            least[i] = min(least[i], time.perf_counter() - begin)
    return least


def encoding(options):
    frame = customers(options.rows)
    schema = mm.schema_from(frame)
    features = schema.encode(frame)
    names = [f"f{j}" for j in range(features.shape[1])]
    numbers = pd.DataFrame(features, columns=names)
    category = frame.assign(**{c: frame[c].astype("category") for c in frame if c[0] == "t"})
    with tempfile.TemporaryDirectory() as folder:
        table, plain = f"{folder}/table.parquet", f"{folder}/numbers.parquet"
        frame.to_parquet(table, index=False)
        numbers.to_parquet(plain, index=False)
        sums = [mm.summarize(x) for x in (frame, category, numbers, features, table, plain)]
        assert all((s.mean == sums[0].mean).all() for s in sums)
        assert all((s.variance == sums[0].variance).all() for s in sums)
        works = [
            lambda x=x: mm.summarize(x) for x in (frame, category, numbers, features, table, plain)
        ]
        text, coded, plain_frame, array, file, plain_file = best_of(options.repeat, *works)
    print(f"{len(frame):,} rows of 10 columns, 4 of them text: {len(names)} features, order 4")
    print(f"text in a frame        {text:.2f} s  {text / array - 1:+.0%} against its features")
    print(f"categories in a frame  {coded:.2f} s  {coded / array - 1:+.0%}")
    print(f"features in a frame    {plain_frame:.2f} s")
    print(f"features in an array   {array:.2f} s")
    print(f"text in Parquet        {file:.2f} s  {file / plain_file - 1:+.0%} against its features")
    print(f"features in Parquet    {plain_file:.2f} s")


def formats(options):
    frame = customers(options.rows)
    expected = mm.summarize(frame)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"t.{kind}" for kind in ("parquet", "feather", "csv")]
        frame.to_parquet(paths[0], index=False)
        frame.to_feather(paths[1])
        frame.to_csv(paths[2], index=False)
        for path in paths:
            found = mm.summarize(path)
            assert found.schema == expected.schema
            assert (found.mean == expected.mean).all()
            (seconds,) = best_of(options.repeat, lambda path=path: mm.summarize(path))
            print(f"{path.suffix[1:]:8} {seconds:.2f} s  {len(frame) / seconds:.3g} rows/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["accuracy", "encoding", "formats"])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    options.rows = options.rows or (8000 if options.what == "accuracy" else 1_000_000)
    warnings.simplefilter("ignore")
    {"accuracy": accuracy, "encoding": encoding, "formats": formats}[options.what](options)


if __name__ == "__main__":
    main()
