"""Cubes and Arrow files whose bytes were changed: no crash, one kind of error, no wrong load.

| files | a load must give |
|---|---|
| cubes of this version, "sealed" | nothing, or all where both marks of the seal are lost |
| their copies by other programs | rows of the original, and no others |
| cubes of version 1 | summaries of the original; their keys were not protected |
| rows in Arrow files and streams | a valid summary, though a number may be another one |

A wrong offset in Arrow memory may end the process, so that the cases of a batch run in a child.
"""

import io
import json
import random
import subprocess
import sys
import warnings
from collections import Counter
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import momentmix as mm
from campaigns.folders import temporary_folder
from momentmix.errors import InputError, SummaryFileError

SAVED = Path(__file__).parents[1] / "saved_files"


# -- the files --------------------------------------------------------------------------------


@lru_cache
def cubes():
    """Bytes of cubes by name; the name begins with what a load of a changed one may give."""
    files = {f"sealed.{ending}": f"cube_v2.{ending}" for ending in ("parquet", "arrow")}
    files |= {f"old.{ending}": f"cube_v1.{ending}" for ending in ("parquet", "arrow")}
    found = {name: (SAVED / file).read_bytes() for name, file in files.items()}
    table = pa.parquet.read_table(SAVED / "cube_v2.parquet")  # a copy of other programs
    for name, copied in {"copy": table, "bare copy": table.replace_schema_metadata(None)}.items():
        stream = io.BytesIO()
        pa.parquet.write_table(copied, stream, compression="none")
        found[f"{name}.parquet"] = stream.getvalue()
        found[f"{name}.arrow"] = _arrow(copied, pa.ipc.new_file)
    return found


@lru_cache
def original():
    """What the cubes hold."""
    return mm.SummaryCube.load(SAVED / "cube_v2.parquet")


@lru_cache
def tables():
    """Bytes of Arrow files and streams with text, dictionaries, gaps and numbers of many types."""
    rng = np.random.default_rng(0)
    n = 60
    texts = rng.choice(["north", "south", "eäst", "w"], n).tolist()
    columns = {
        "place": pa.array([None if i % 7 == 3 else text for i, text in enumerate(texts)]),
        "plan": pa.array(rng.choice(["basic", "gold"], n)).dictionary_encode(),
        "x": pa.array(rng.normal(size=n)),
        "n": pa.array(rng.integers(0, 9, n), pa.int32()),
        "flag": pa.array(rng.random(n) < 0.5),
        "day": pa.array(20_000 + rng.integers(0, 5, n), pa.int32()).cast(pa.date32()),
    }
    table, found = pa.table(columns), {}
    for name, opener in {"file": pa.ipc.new_file, "stream": pa.ipc.new_stream}.items():
        found[f"{name}.arrow"] = _arrow(table, opener)
        for packing in ("lz4", "zstd"):
            options = pa.ipc.IpcWriteOptions(compression=packing)
            found[f"{name} {packing}.feather"] = _arrow(table, opener, options=options)
    return found


def _arrow(table, opener, **options):
    stream = io.BytesIO()
    with opener(stream, table.schema, **options) as writer:
        writer.write_table(table, max_chunksize=25)
    return stream.getvalue()


def damaged(data, rng):
    """Bytes with flipped bits, another integer, a stretch lost or zeroed, or the end cut off."""
    broken, way = bytearray(data), rng.randrange(10)
    at = rng.randrange(len(data))
    if way < 5:
        broken[at] ^= 1 << rng.randrange(8)
    elif way == 5:
        for place in rng.choices(range(len(data)), k=rng.choice([2, 3, 8])):
            broken[place] ^= 1 << rng.randrange(8)
    elif way < 8:
        size = rng.choice([2, 4, 8])
        at = min(at, len(data) - size) // size * size
        value = rng.choice([-3, -1, 0, 1, 7, 1000, 2**15, 2**31 - 1, 2**62, rng.randrange(2**63)])
        broken[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, "little")
    elif way == 8:
        stop = at + rng.choice([1, 4, 8, 64])
        broken[at:stop] = bytes(len(broken[at:stop])) if rng.random() < 0.5 else b""
    else:
        del broken[at:]
    return bytes(broken)


# -- judging, in the child --------------------------------------------------------------------


def judge_cube(path, allowed):
    """What became of a load; raises where it may not be so."""
    try:
        cube = mm.SummaryCube.load(path)
    except SummaryFileError as error:
        return _refused(path.name in str(error), error)
    known, packed = ({key: own[key].to_bytes() for key in own} for own in (original(), cube))
    if allowed == "sealed":
        assert b"momentmix seal" not in path.read_bytes(), "a changed file was loaded"
        assert (cube, cube.left_out) == (original(), original().left_out), "another cube"
        return "loaded as it was, since nothing but the seal was lost"
    if allowed == "old":
        assert {*packed.values()} <= {*known.values()}, "another summary"
    else:
        assert cube.key_names == original().key_names, "other names"
        assert packed.items() <= known.items(), "another group"
        assert cube.left_out in (original().left_out, (0, 0)), "other rows left out"
    return "loaded with the rows of the original"


def _refused(is_named, error):
    assert is_named, f"without the name of the file: {error}"
    return "refused"


def judge_table(path, in_groups):
    """What became of a pass for groups, or of one for all rows."""
    try:
        if in_groups:
            found = mm.summarize_by(path, by="place, day", order=1, missing="model").total()
        else:
            found = mm.summarize(path, 1, missing="model")
    except InputError as error:
        return _refused(path.name in str(error) or "at least one row" in str(error), error)
    assert found.n_rows > 0
    assert mm.MomentSummary.from_bytes(found.to_bytes()) == found
    return "loaded as a valid table"


def run_cases(kind, start, stop, seed):
    """Cases in this process; the number of each is printed before it, its result after it."""
    warnings.simplefilter("ignore")
    files = {"cubes": cubes, "tables": tables}[kind]()
    with temporary_folder() as folder:
        for number in range(start, stop):
            print(number, end=" ", flush=True)
            rng = random.Random(f"{seed} {kind} {number}")
            name = rng.choice(list(files))
            data = damaged(files[name], rng)
            path = Path(folder, name)
            path.write_bytes(data)
            if data == files[name]:
                result = "unchanged"
            elif kind == "cubes":
                result = judge_cube(path, name.partition(".")[0].removeprefix("bare "))
            else:
                result = judge_table(path, number % 2 == 0)
            print(json.dumps([name.partition(".")[0], result]), flush=True)


# -- campaigns --------------------------------------------------------------------------------


def child(code):
    """A process that runs code, with momentmix and the campaigns on its path."""
    folders = [str(Path(__file__).parents[1]), str(Path(mm.__file__).parents[1])]
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {folders}\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def in_child(kind, start, stop, seed, before=""):
    """Counts of cases that ran in a child; raises with the case that ended it."""
    done = child(
        f"{before}\nfrom campaigns.damaged_tables import run_cases\n"
        f"run_cases({kind!r}, {start}, {stop}, {seed})"
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, (
        f"case {lines[-1] if lines else 'none'} of {kind}: exit code {done.returncode}\n"
        f"{done.stderr[-2000:]}"
    )
    counts = Counter({"files": len(lines)})
    for line in lines:
        what, result = json.loads(line.partition(" ")[2])
        counts[f"{what}: {result}"] += 1
    return counts


def damaged_cubes(start, stop, seed):
    """A case: the file of a cube, changed."""
    return in_child("cubes", start, stop, seed)


def damaged_arrow_files(start, stop, seed):
    """A case: an Arrow file of rows, changed."""
    return in_child("tables", start, stop, seed)
