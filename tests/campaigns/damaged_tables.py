"""Cubes whose bytes were changed: no crash, one kind of error, no wrong load.

A load of a changed cube, or of a changed copy by another program, must give groups of the original
and no others.

A wrong offset in Arrow memory may end the process, so that the cases of a batch run in a child.
"""

import datetime as dt
import io
import json
import random
import subprocess
import sys
import warnings
from collections import Counter
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

import momentmix as mm
from campaigns.folders import temporary_folder
from momentmix.errors import SummaryFileError

ROWS = {
    "region": ["EU", "US", None, "EU", "δ\n"],
    "store": [1, 2, 2, 1, -3],
    "new": [True, False, True, True, False],
    "day": [dt.date(2026, 1, 5)] * 3 + [dt.date(1969, 12, 31)] * 2,
    "ts": [dt.datetime(2026, 1, 5, 8, 30)] * 3 + [dt.datetime(2026, 1, 12, 9, 10)] * 2,
    "x": [4.0, 8.0, 12.0, 9.0, 1.0],
    "y": [0.0, 2.0, -7.0, 1.0, 1.0],
}


# -- the files --------------------------------------------------------------------------------


@lru_cache
def cubes():
    """Bytes of cubes by name."""
    found = {"cube.parquet": cube_file()}
    table = pa.parquet.read_table(io.BytesIO(cube_file()))  # a copy of other programs
    for name, copied in {"copy": table, "bare copy": table.replace_schema_metadata(None)}.items():
        stream = io.BytesIO()
        pa.parquet.write_table(copied, stream, compression="none")
        found[f"{name}.parquet"] = stream.getvalue()
    return found


@lru_cache
def original():
    """What the cubes hold."""
    return mm.summarize_by(ROWS, by="region, store, new, day, hour(ts)")


@lru_cache
def cube_file():
    """The bytes of the file of a cube."""
    with temporary_folder() as folder:
        path = Path(folder, "cube.parquet")
        original().save(path)
        return path.read_bytes()


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


def judge_cube(path):
    """What became of a load; raises where it may not be so."""
    try:
        cube = mm.SummaryCube.load(path)
    except SummaryFileError as error:
        return "refused" if path.name in str(error) else f"refused without its name: {error}"
    known, packed = ({key: own[key].to_bytes() for key in own} for own in (original(), cube))
    assert cube.key_names == original().key_names, "other names"
    assert packed.items() <= known.items(), "another group"
    return "loaded with the rows of the original"


def run_cases(start, stop, seed):
    """Cases in this process; the number of each is printed before it, its result after it."""
    warnings.simplefilter("ignore")
    files = cubes()
    with temporary_folder() as folder:
        for number in range(start, stop):
            print(number, end=" ", flush=True)
            rng = random.Random(f"{seed} cubes {number}")
            name = rng.choice(list(files))
            data = damaged(files[name], rng)
            path = Path(folder, name)
            path.write_bytes(data)
            result = "unchanged" if data == files[name] else judge_cube(path)
            print(json.dumps([name.partition(".")[0], result]), flush=True)


# -- campaigns --------------------------------------------------------------------------------


def child(code):
    """A process that runs code, with momentmix and the campaigns on its path."""
    folders = [str(Path(__file__).parents[1]), str(Path(mm.__file__).parents[1])]
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {folders}\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def damaged_cubes(start, stop, seed):
    """A case: the file of a cube, changed. The cases run in a child; raises with the last one."""
    done = child(
        f"from campaigns.damaged_tables import run_cases\nrun_cases({start}, {stop}, {seed})"
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, (
        f"case {lines[-1] if lines else 'none'}: exit code {done.returncode}\n{done.stderr[-2000:]}"
    )
    counts = Counter({"files": len(lines)})
    for line in lines:
        what, result = json.loads(line.partition(" ")[2])
        assert "without its name" not in result, line
        counts[f"{what}: {result}"] += 1
    return counts
