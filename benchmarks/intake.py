"""The intake of two checkouts: the same models from 60 tables, and answers to malformed files.

    git worktree add ../before v0.1
    python benchmarks/intake.py models ../before .
    python benchmarks/intake.py malformed ../before .

models: tables of random laws with text, gaps, counts, ids and dates, and tables of scikit-learn,
each as a frame, CSV or Parquet file. Both checkouts fit them in processes of their own; a line for
each table gives the largest difference of weights, means and variances, relative to their size.

malformed: files that are truncated, ragged, of mixed encodings and so on. An answer is an
`InputError`, which must name the file, or moments; it is compared with that of the other checkout.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from sklearn import datasets

# -- tables -------------------------------------------------------------------------------------


def drawn(seed):
    """A frame of a random law of two or three components, and keywords of its fit."""
    rng = np.random.default_rng(seed)
    n, r = int(rng.integers(150, 1500)), int(rng.integers(2, 4))
    label = rng.integers(0, r, n)
    columns = {}
    if rng.random() < 0.3:
        columns["id"] = np.arange(n)
    for j in range(int(rng.integers(1, 5))):
        columns[f"x{j}"] = rng.normal(3 * rng.standard_normal(r)[label], 1)
    if rng.random() < 0.6:
        columns["visits"] = rng.poisson(rng.uniform(1, 12, r)[label])
    for j in range(int(rng.integers(0, 3))):
        levels = np.array(["north", "south", "east", "west"][: int(rng.integers(2, 5))])
        shares = rng.dirichlet(np.ones(len(levels)), r)
        columns[f"t{j}"] = [levels[rng.choice(len(levels), p=shares[k])] for k in label]
    if rng.random() < 0.4:
        columns["member"] = rng.random(n) < rng.uniform(0.1, 0.9, r)[label]
    if rng.random() < 0.4:
        days = pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D")
        columns["day"] = days
    if rng.random() < 0.3:
        columns["income"] = np.exp(rng.normal(10 + label, 0.4))
    frame, options = pd.DataFrame(columns), {"n_components": r}
    if "income" in frame and rng.random() < 0.7:
        options["families"] = {"income": "log"}
    if "visits" in frame and rng.random() < 0.7:
        options["families"] = {**options.get("families", {}), "visits": "poisson"}
    if rng.random() < 0.6:
        for name in frame.columns:
            if name not in ("id", "day", "member") and rng.random() < 0.5:
                frame.loc[rng.random(n) < 0.08, name] = None
        options["missing"] = str(rng.choice(["model", "drop"]))
    return frame, options


def known():
    """Frames that everybody has, and keywords."""
    iris = datasets.load_iris(as_frame=True).frame
    iris["species"] = np.array(["setosa", "versicolor", "virginica"])[iris.pop("target")]
    yield iris, {"n_components": 3}
    yield iris.drop(columns="species"), {"n_components": 3, "blocks": "full"}
    wine = datasets.load_wine(as_frame=True).frame
    yield wine, {"n_components": 3, "families": {"target": "categorical"}}
    cancer = datasets.load_breast_cancer(as_frame=True).frame.iloc[:, :8]
    yield cancer, {"n_components": 2}
    diabetes = datasets.load_diabetes(as_frame=True).frame
    yield diabetes, {"n_components": 2, "families": {"sex": "gaussian"}}


def written(folder):
    """Write all tables in turn as CSV, Parquet and pickled frames; the list of fits."""
    rng, jobs = np.random.default_rng(1), []
    tables = [*known(), *(drawn(seed) for seed in range(55))]
    for i, (frame, options) in enumerate(tables):
        ending = ("csv", "parquet", "pickle")[i % 3]
        path = str(Path(folder, f"{i:02}.{ending}"))
        if ending == "csv":
            frame.to_csv(path, index=False, na_rep=str(rng.choice(["", "NA"])))
        elif ending == "parquet":
            frame.to_parquet(path, index=False)
        else:
            frame.to_pickle(path)
        jobs.append([path, options])
    return jobs


FIT = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, pandas as pd
import momentmix as mm
for path, options in json.load(open(sys.argv[1])):
    data = pd.read_pickle(path) if path.endswith("pickle") else path
    try:
        result = mm.fit(data, random_state=0, **options)
    except mm.MomentmixError as error:
        print(json.dumps(["error", str(error)]), flush=True)
        continue
    m = result.mixture
    parts = [m.parameters.weights, m.parameters.means.ravel(), m.parameters.variances.ravel()]
    names = [list(map(str, m.feature_names or ())), sorted(result.notes)]
    verdict = result.certificate.verdict
    print(json.dumps([[p.tolist() for p in parts], names, verdict]), flush=True)
"""


def compare_models(checkouts):
    """Fit all tables by both checkouts."""
    with tempfile.TemporaryDirectory() as folder:
        jobs = written(folder)
        answers = answers_of(FIT, jobs, folder, checkouts)
    equal = 0
    for (path, options), old, new in zip(jobs, *answers, strict=True):
        if "error" in (old[0], new[0]):
            difference = 0.0 if old == new else np.inf
        else:
            pairs = zip(old[0], new[0], strict=True)
            difference = max(_difference(np.array(a), np.array(b)) for a, b in pairs)
            if old[1:] != new[1:]:
                difference = max(difference, 1.0)
        equal += difference < 1e-9
        print(f"{Path(path).name:12} {difference:9.2e}  {json.dumps(options)[:90]}")
        if difference >= 1e-9:
            print(f"    old: {str(old[-2:])[:300]}\n    new: {str(new[-2:])[:300]}")
    print(f"{equal} of {len(jobs)} models are the same up to rounding")


def _difference(a, b):
    if a.shape != b.shape:
        return np.inf
    return float((np.abs(a - b) / (np.abs(a) + 1e-3)).max(initial=0.0))


def answers_of(code, jobs, folder, checkouts):
    """What each checkout prints for the jobs, line by line; "crash" where its process ends."""
    asked = Path(folder, "jobs.json")
    found = []
    for checkout in checkouts:
        env, answers = {**os.environ, "PYTHONPATH": str(checkout / "src")}, []
        while len(answers) < len(jobs):
            asked.write_text(json.dumps(jobs[len(answers) :]))
            command = [sys.executable, "-W", "ignore", "-c", code, str(asked)]
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
            answers += [json.loads(line) for line in done.stdout.splitlines()]
            if done.returncode > 0:
                raise RuntimeError(done.stderr[-3000:])
            if done.returncode:
                answers.append(["traceback", f"crash: signal {-done.returncode}"])
        found.append(answers)
    return found


# -- malformed files ----------------------------------------------------------------------------


def malformed(folder):
    """Write malformed files of all kinds; their paths."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.standard_normal((60, 3)).round(3), columns=["a", "b", "c"])
    frame["t"] = np.array(["x", "y"])[rng.integers(0, 2, 60)]
    text = frame.to_csv(index=False)
    lines = text.splitlines()
    files = {}

    def late(place, change):
        copy = list(lines)
        copy[place] = change(copy[place])
        return "\n".join(copy) + "\n"

    for place in (1, 2, 15, 30, 45, 60):
        files[f"word-{place}.csv"] = late(place, lambda x: "abc," + x.split(",", 1)[1])
        files[f"short-{place}.csv"] = late(place, lambda x: x.rsplit(",", 1)[0])
        files[f"long-{place}.csv"] = late(place, lambda x: x + ",9")
        files[f"header-{place}.csv"] = late(place, lambda x: lines[0] + "\n" + x)
        files[f"quote-{place}.csv"] = late(place, lambda x: '"' + x)
        files[f"inside-{place}.csv"] = late(place, lambda x: x.replace(",", ',"1,5",', 1))
        files[f"hex-{place}.csv"] = late(place, lambda x: "0x10," + x.split(",", 1)[1])
        files[f"underscore-{place}.csv"] = late(place, lambda x: "1_000," + x.split(",", 1)[1])
        files[f"thousands-{place}.csv"] = late(place, lambda x: '"1,000",' + x.split(",", 1)[1])
        files[f"infinite-{place}.csv"] = late(place, lambda x: "inf," + x.split(",", 1)[1])
        files[f"empty-{place}.csv"] = late(place, lambda x: "," + x.split(",", 1)[1])
        files[f"huge-{place}.csv"] = late(place, lambda x: "1e400," + x.split(",", 1)[1])
        files[f"nul-{place}.csv"] = late(place, lambda x: "1\0," + x.split(",", 1)[1])
        files[f"digits-{place}.csv"] = late(place, lambda x: "\u0661\u0662," + x.split(",", 1)[1])
        files[f"decimal-{place}.csv"] = late(place, lambda x: x.replace(".", ","))
        files[f"latin-{place}.csv"] = late(place, lambda x: x[:-1] + "\xe9").encode("latin-1")
        files[f"blank-{place}.csv"] = late(place, lambda x: "\n\n" + x)
        files[f"spaces-{place}.csv"] = late(place, lambda x: "   " + x)
        files[f"cr-{place}.csv"] = late(place, lambda x: x + "\r")
    files |= {
        "nothing.csv": "", "newline.csv": "\n\n", "header.csv": lines[0] + "\n",
        "bare-header.csv": lines[0], "twice.csv": text.replace("a,b,c", "a,a,c", 1),
        "utf16.csv": text.encode("utf-16"), "bom.csv": b"\xef\xbb\xbf" + text.encode(),
        "semicolons.csv": text.replace(",", ";"), "tabs.csv": text.replace(",", "\t"),
        "crs.csv": text.replace("\n", "\r"), "crlf.csv": text.replace("\n", "\r\n"),
        "nulls.csv": "a,b\n" + ",\n" * 30, "one-column.csv": "a\n1\n\n2\n" * 9,
        "no-end.csv": text[:-1], "cut.csv": text[: len(text) // 2],
        "names.csv": "1,2,3\n" + "4.5,5.5,6.5\n" * 20, "not.csv.gz": text, "html.csv": "<html>\n",
        "json.csv": '{"a": 1}\n', "long-line.csv": "a,b\n1," + "9" * 100_000 + "\n",
        "trailing.csv": text.replace("\n", ",\n"), "comment.csv": "# made by hand\n" + text,
    }  # fmt: skip
    rows = [json.dumps(row) for row in frame.to_dict("records")]
    for place in (0, 20, 59):
        for name, line in {
            "array": "[1, 2]", "null": "null", "broken": '{"a": 1', "text": '{"a": "x"}',
            "new": '{"a": 1, "z": 2}', "twice": '{"a": 1, "a": 2}', "nested": '{"a": {"b": 1}}',
            "deep": '{"a": ' + "[" * 300 + "]" * 300 + "}", "bytes": '{"t": "\udcff"}',
            "nan": '{"a": NaN}', "bool": '{"a": true}',
        }.items():  # fmt: skip
            copy = [*rows[:place], line, *rows[place + 1 :]]
            body = "\n".join(copy).encode("utf-8", "surrogateescape")
            files[f"{name}-{place}.jsonl"] = body
    files["nothing.jsonl"] = ""
    path = Path(folder)
    table = pa.Table.from_pandas(frame)
    odd = {
        "nested": pa.array([[1.0]] * 60), "struct": pa.array([{"u": 1}] * 60),
        "decimal": pa.array([1] * 60, pa.int32()).cast(pa.decimal128(20, 2)), "nulls": pa.nulls(60),
        "none": pa.nulls(60, pa.float64()), "bytes": pa.array([b"x"] * 60),
        "times": pa.array([1] * 60, pa.timestamp("us")),
        "span": pa.array([1] * 60, pa.duration("s")),
        "large": pa.array([2**60] * 60), "inf": pa.array([np.inf] * 60),
    }  # fmt: skip
    for name, column in odd.items():
        one = table.append_column("odd", column)
        pa.parquet.write_table(one, path / f"{name}.parquet")
        with pa.ipc.new_file(str(path / f"{name}.arrow"), one.schema) as writer:
            writer.write_table(one)
    twice = table.append_column("a", table.column("b"))
    pa.parquet.write_table(twice, path / "twice.parquet")
    pa.parquet.write_table(table.slice(0, 0), path / "no-rows.parquet")
    pa.parquet.write_table(table.select([]), path / "no-columns.parquet")
    whole = (path / "none.parquet").read_bytes()
    arrow = (path / "none.arrow").read_bytes()
    np.save(path / "good.npy", frame[["a", "b"]].to_numpy())
    npy = (path / "good.npy").read_bytes()
    for part in (0, 3, 50, 99):
        files[f"cut-{part}.parquet"] = whole[: len(whole) * part // 100]
        files[f"cut-{part}.arrow"] = arrow[: len(arrow) * part // 100]
        files[f"cut-{part}.npy"] = npy[: len(npy) * part // 100]
    files |= {"text.parquet": text, "text.arrow": text, "text.npy": text, "text.xlsx": text}
    for name, body in files.items():
        data = body if isinstance(body, bytes) else body.encode()
        (path / name).write_bytes(data)
    return sorted(str(file) for file in path.iterdir() if file.name != "jobs.json")


READ = """
import json, sys, warnings
warnings.simplefilter("ignore")
import momentmix as mm
for path in json.load(open(sys.argv[1])):
    try:
        s = mm.summarize(path, 2)
        answer = [s.n_rows, list(s.feature_names or ()), s.mean.tolist()]
    except mm.MomentmixError as error:
        answer = ["error", str(error)]
    except Exception as error:
        answer = ["traceback", repr(error)]
    print(json.dumps(answer), flush=True)
"""


def compare_malformed(checkouts):
    """Read malformed files by both checkouts."""
    with tempfile.TemporaryDirectory() as folder:
        files = malformed(folder)
        answers = answers_of(READ, files, folder, checkouts)
    counts = dict.fromkeys(("error", "read", "traceback", "unnamed", "differ"), 0)
    for path, old, new in zip(files, *answers, strict=True):
        name = Path(path).name
        kind = new[0] if new[0] in ("error", "traceback") else "read"
        counts[kind] += 1
        if kind == "error" and name not in new[1]:
            counts["unnamed"] += 1
            print(f"unnamed  {name}: {new[1]}")
        if kind == "traceback":
            print(f"traceback {name}: {new[1]}")
        kinds = ["error" if answer[0] == "error" else answer for answer in (old, new)]
        if json.dumps(kinds[0]) != json.dumps(kinds[1]):
            counts["differ"] += 1
            print(f"differs  {name}\n    old: {str(old)[:200]}\n    new: {str(new)[:200]}")
    print(f"{len(files)} files: {counts}")


def main():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["models", "malformed"])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    options = parser.parse_args()
    checkouts = [options.old.resolve(), options.new.resolve()]
    {"models": compare_models, "malformed": compare_malformed}[options.what](checkouts)


if __name__ == "__main__":
    main()
