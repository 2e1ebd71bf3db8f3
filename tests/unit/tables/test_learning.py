"""Files and other sources as features: found in a pass, read in blocks."""

import numpy as np
import pytest
from unit.tables.table_files import write

import momentmix as mm
from momentmix.errors import InputError
from momentmix.tables.learning import learn

FAMILIES = {"visits": "poisson", "plan": "categorical"}
NAMES = ("age", "visits", "plan", "x")


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    table = np.column_stack(
        [
            rng.normal(40, 9, 3000).round(2),
            rng.poisson(3, 3000),
            rng.integers(1, 4, 3000),
            rng.standard_normal(3000).round(3),
        ]
    )
    table[1500:][rng.random((1500, 4)) < 0.1] = np.nan  # none in the first blocks
    table[:, 3] = np.nan_to_num(table[:, 3])
    return table


@pytest.mark.parametrize("kind", ["npy", "csv", "parquet"])
def test_files_with_missing_cells(rows, tmp_path, kind):
    families = {1: "poisson", 2: "categorical"} if kind == "npy" else FAMILIES
    source = mm.open_rows(write(tmp_path / f"table.{kind}", rows, NAMES, 700)).changed(
        block_rows=512
    )
    encoded = learn(source, families, "model")
    expected = learn(mm.open_rows(rows), {1: "poisson", 2: "categorical"}, "model")
    assert [c.has_missing for c in encoded.schema.columns] == [True, True, True, False]
    assert encoded.schema.columns[2].levels == (1, 2, 3)
    assert encoded.schema.feature_names == encoded.feature_names
    features = np.concatenate(list(encoded.blocks()))
    assert (features[:, 1:] == expected.read_within(np.inf)[0][:, 1:]).all()
    assert encoded.n_rows == len(features) == 3000
    summary = mm.summarize(source, 2, families=families, missing="model")
    assert summary.schema == encoded.schema
    assert summary.mean == pytest.approx(features.mean(axis=0), abs=1e-12)


def test_what_a_file_cannot_be_summarized_as(rows, tmp_path):
    source = mm.open_rows(write(tmp_path / "table.csv", rows, NAMES))
    with pytest.raises(InputError, match="sample_weight needs a single array"):
        mm.summarize(source, 2, np.ones(3000))
    with pytest.raises(InputError, match="integers from 0"):
        mm.summarize(source, 2, families={"x": "poisson"}, missing="model")
    rows[7, 0] = np.inf
    np.save(tmp_path / "wild.npy", rows)
    with pytest.raises(InputError, match=r"row 7, column 0 is inf"):
        mm.summarize(mm.open_rows(tmp_path / "wild.npy"), 2, missing="model")


@pytest.mark.parametrize("kind", ["npy", "csv", "parquet"])
def test_a_schema_that_knows_of_missing_cells_takes_them(rows, tmp_path, kind):
    """From files as from memory, and read once; other columns must have none."""
    schema = mm.schema_from(dict(zip(NAMES, rows.T, strict=True)), FAMILIES, "model")
    path = write(tmp_path / f"table.{kind}", rows, NAMES, 700)
    summary = mm.summarize(path, 2, families=schema)
    assert summary.schema == schema
    assert summary.mean == pytest.approx(schema.encode(rows).mean(axis=0), abs=1e-12)
    rows[2000, 3] = np.nan
    path = write(tmp_path / f"table.{kind}", rows, NAMES, 700)
    place = {"npy": "row 2000, column 3", "csv": "line 2002, column 'x'"}.get(kind, "column 'x'")
    with pytest.raises(InputError, match=f"{place}, is missing or NaN. Say why"):
        mm.summarize(path, 2, families=schema)
    rows[2000, 3], rows[1999, 0] = 0.0, np.inf
    with pytest.raises(InputError, match=r"column .* is inf"):
        mm.summarize(write(tmp_path / f"table.{kind}", rows, NAMES, 700), 2, families=schema)


def test_a_stream_by_a_schema_is_read_once(rows, tmp_path):
    path = write(tmp_path / "table.csv", rows, NAMES)
    schema = mm.schema_from(dict(zip(NAMES, rows.T, strict=True)), FAMILIES, "model")
    with path.open("rb") as stream:
        summary = mm.summarize(stream, 2, families=schema)
    assert (summary.mean == mm.summarize(path, 2, families=schema).mean).all()


def test_numbers_without_missing_cells_stay_as_they_are(rows):
    source = mm.open_rows(rows[:1000])
    assert learn(source).schema is None
    a = mm.summarize(source, 2, shard_id="a")
    assert a.to_bytes() == mm.summarize(rows[:1000], 2, shard_id="a").to_bytes()


@pytest.mark.parametrize("asked", ["list", "schema"])
def test_numbers_of_a_file_that_are_levels_of_text(tmp_path, asked):
    path, families = tmp_path / "codes.csv", {"code": ["1", "2", "3"]}
    rng = np.random.default_rng(0)
    codes, x = rng.integers(1, 4, 300), rng.standard_normal(300)
    lines = [f"{code},{value},{'ab'[code % 2]}" for code, value in zip(codes, x, strict=True)]
    path.write_text("\n".join(["code,x,t", *lines]))
    if asked == "schema":
        families = mm.schema_from(path, families)
    options = {"families": families, "missing": "model", "random_state": 0}
    frame = {"code": codes.astype(str), "x": x, "t": [line[-1] for line in lines]}
    found, expected = (mm.fit(data, 1, **options).mixture for data in (path, frame))
    np.testing.assert_array_equal(found.parameters.means, expected.parameters.means)
