"""Rows of many groups → a cube, in one pass.

    python benchmarks/cube.py --rows 1e7 --groups 5000 --features 8
    python benchmarks/cube.py --rows 4e5 --groups 1e5 --features 6 --repeat 1
    python benchmarks/cube.py --rows 2e5 --groups 1000 --features 6 --track

Prints rows a second, peak memory, and the times to merge the cube and to save, read and merge it,
after the sum of the cube was compared with the summary of all rows.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import momentmix as mm


def write(path, n_rows, n_groups, n_features, seed):
    rng = np.random.default_rng(seed)
    names = [f"x{j}" for j in range(n_features)]
    writer = None
    for start in range(0, n_rows, 1 << 20):
        n = min(1 << 20, n_rows - start)
        columns = {name: rng.normal(j, 1 + j, n) for j, name in enumerate(names)}
        table = pa.table({**columns, "group": rng.integers(0, n_groups, n)})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def check(cube, path):
    """The sum of the cube has the moments of all rows, and the same bytes in another order."""
    total = cube.total()
    whole = mm.summarize(path, exclude=["group"])
    assert total.n_rows == whole.n_rows
    for order in (1, 2, 3, 4):
        a, b = total.moments().distinct[order], whole.moments().distinct[order]
        assert np.allclose(a, b, rtol=1e-9, atol=1e-12), order
    keys = np.random.default_rng(0).permutation(len(cube))[:200]
    summaries = [cube[key] for key in np.array(list(cube), dtype=object)[keys].ravel().tolist()]
    one = sum(summaries[1:], summaries[0]).to_bytes()
    assert sum(summaries[-2::-1], summaries[-1]).to_bytes() == one


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--groups", type=float, default=5000)
    parser.add_argument("--features", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--track", action="store_true", help="follow a fit of 3 components as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.parquet")
        n_rows = int(options.rows)
        write(path, n_rows, int(options.groups), options.features, options.seed)
        times = []
        for _ in range(options.repeat):
            start = time.perf_counter()
            cube = mm.summarize_by(path, by="group", progress=False)
            times.append(time.perf_counter() - start)
        start = time.perf_counter()
        total = cube.total()
        merged = time.perf_counter() - start
        if options.track:
            model = mm.fit(total, 3, random_state=0)
            start = time.perf_counter()
            mm.track(model, cube)
            print(f"shares of 3 components in all groups: {time.perf_counter() - start:.2f} s")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        file = Path(folder, "cube.parquet")
        start = time.perf_counter()
        cube.save(file)
        loaded = mm.SummaryCube.load(file)
        loaded.total()
        read = time.perf_counter() - start
        assert loaded == cube
        check(cube, path)
        size = file.stat().st_size / 1e6
    print(
        f"{n_rows:.1e} rows x {options.features}, {len(cube)} groups: best {min(times):.2f} s, "
        f"{n_rows / min(times):.3g} rows/s, peak {peak:.0f} MB; merged in {merged:.2f} s; file "
        f"{size:.1f} MB, saved, read and merged in {read:.2f} s"
    )


if __name__ == "__main__":
    main()
