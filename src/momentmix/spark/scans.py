"""Data frames that are plain scans of Parquet files, which executors can read without the JVM.

The JVM hands rows to Python one by one, which costs more than reading and summing them. So where
the optimized plan of a data frame is a scan of Parquet files and a choice of columns, and nothing
else, tasks get the places of Spark's own partitions (files, and ranges of bytes in them) and read
these with pyarrow. Numbers, rows and order of the partitions are those of Spark, and so are the
bytes of the summaries. Whatever is not known to be such a scan is None here, and its rows come
from Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

from momentmix.spark.splits import FileScan, Split, can_read

_SOURCES = "org.apache.spark.sql.execution.datasources."
_PARQUET = f"{_SOURCES}parquet.ParquetFileFormat"  # not that of Delta, which has classes of its own
_MOST_FILES = 10_000  # asking the JVM for each takes about a millisecond


def plain_scan(rows: Any) -> FileScan | None:
    """The files of a data frame that only chooses columns of Parquet files; else None.

    Parameters
    ----------
    rows : pyspark.sql.DataFrame
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return _scan(rows)
    except (Py4JError, PySparkException, AttributeError, TypeError):
        return None  # a Spark that is built otherwise, or is elsewhere, as with Spark Connect


def _scan(rows: Any) -> FileScan | None:
    query, names = rows._jdf.queryExecution(), list(rows.columns)
    relation = _relation(query.optimizedPlan(), names)
    by_id = rows.sparkSession.conf.get("spark.sql.parquet.fieldId.read.enabled", "false")
    if relation is None or by_id != "false":
        return None
    fields = relation.partitionSchema().fields()
    folders = {field.name(): (i, field.dataType().simpleString()) for i, field in enumerate(fields)}
    in_files = set(relation.dataSchema().fieldNames())
    # A column of folders that files have, too, is a case of its own; "_metadata" is in neither.
    if any((name in folders) == (name in in_files) for name in names):
        return None
    wanted = [folders.get(name) for name in names]
    if None not in wanted:
        return None  # nothing of the files: pyarrow would give no rows
    types = _types(rows)
    can_fold = all(field is None or field[1] in _READ for field in wanted)
    if types is None or not can_fold or not all(map(can_read, types)):
        return None
    partitions = _partitions(query.toRdd().partitions(), wanted)
    if not partitions or not _tiled([split for part in partitions for split in part]):
        return None
    return FileScan(tuple(names), tuple(types), partitions)


def _class(thing: Any) -> str:
    return str(thing.getClass().getName())


def _relation(plan: Any, names: Sequence[str]) -> Any:
    """The relation that a plan scans and chooses columns of; None where it does anything else."""
    output = _items(plan.output())
    if _class(plan).endswith(".logical.Project"):
        kind = "org.apache.spark.sql.catalyst.expressions.AttributeReference"
        if any(_class(x) != kind for x in _items(plan.projectList())):
            return None
        plan = plan.child()
    is_scan = _class(plan) == f"{_SOURCES}LogicalRelation" and not plan.isStreaming()
    if not is_scan or [x.name() for x in output] != list(names):
        return None
    relation = plan.relation()
    if _class(relation) != f"{_SOURCES}HadoopFsRelation" or relation.bucketSpec().isDefined():
        return None
    return relation if _class(relation.fileFormat()) == _PARQUET else None


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]


def _types(rows: Any) -> list[Any] | None:
    """Types of Arrow as Spark sends them; None where some are nested."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import AtomicType, TimestampType

    if not all(isinstance(field.dataType, AtomicType) for field in rows.schema):
        return None
    zone = rows.sparkSession.conf.get("spark.sql.session.timeZone")
    return [
        pa.timestamp("us", zone)
        if isinstance(field.dataType, TimestampType)
        else to_arrow_type(field.dataType)
        for field in rows.schema
    ]


# -- the partitions that Spark has made -------------------------------------------------------


def _partitions(
    parts: Sequence[Any], wanted: Sequence[tuple[int, str] | None]
) -> tuple[tuple[Split, ...], ...] | None:
    """Files and ranges of each partition; None where they are not all files that are near."""
    found, n_files = [], 0
    for part in parts:
        if _class(part) != f"{_SOURCES}FilePartition":
            return None
        files = part.files()
        n_files += len(files)
        if n_files > _MOST_FILES:
            return None
        splits = [_split(file, wanted) for file in files]
        if None in splits:
            return None
        found.append(tuple(split for split in splits if split is not None))
    return tuple(found)


def _split(file: Any, wanted: Sequence[tuple[int, str] | None]) -> Split | None:
    """One file of a partition; None where its path is not of this machine's file system."""
    uri = file.toPath().toUri()
    if uri.getScheme() != "file" or uri.getAuthority():
        return None
    start, size, modified = file.start(), file.fileSize(), file.modificationTime()
    values = file.partitionValues()
    cells = tuple(() if field is None else (_cell(values, *field),) for field in wanted)
    return Split(uri.getPath(), start, start + file.length(), size, modified, cells)


def _cell(row: Any, place: int, kind: str) -> Any:
    return None if row.isNullAt(place) else _READ[kind](row, place)


_READ: dict[str, Any] = {  # cells of folders, by Spark's name of their type
    "string": lambda row, i: str(row.getUTF8String(i).toString()),
    "int": lambda row, i: int(row.getInt(i)),
    "bigint": lambda row, i: int(row.getLong(i)),
    "date": lambda row, i: date(1970, 1, 1) + timedelta(days=row.getInt(i)),
}


def _tiled(splits: Sequence[Split]) -> bool:
    """Whether the ranges of each file cover all of it, once."""
    by_path: dict[str, list[Split]] = {}
    for split in splits:
        by_path.setdefault(split.path, []).append(split)
    for found in by_path.values():
        found.sort(key=lambda split: split.start)
        ends = found[0].start == 0 and found[-1].stop == found[-1].size
        if not ends or any(a.stop != b.start for a, b in pairwise(found)):
            return False
    return True
