"""Tables as they are: kinds of columns guessed, one line from frame or file to segments."""

import json

import numpy as np
import pandas as pd
import pytest
from campaigns.made_tables import COUNTS, TABLES, names_of

import momentmix as mm
from momentmix.errors import InputError, NoInputError
from momentmix.families.column import Column
from momentmix.mixture.matching import clustering_accuracy

N_ROWS = 6000


@pytest.fixture(scope="module", params=["passengers", "survey"])
def made(request):
    frame, labels, law = TABLES[request.param](N_ROWS, seed=11)
    families = COUNTS[request.param]
    result = mm.fit(frame, 3, families=families, missing="model", random_state=0)
    return frame, labels, law, families, result


def test_one_line_from_a_frame_to_segments(made):
    frame, labels, law, _, result = made
    assert [column.name for column in result.schema.columns] == names_of(law)
    assert [column.family for column in result.schema.columns] == [
        "categorical" if column.levels and isinstance(column.levels[0], str) else column.family
        for column in law.columns
    ]
    best = (law.predict(frame) == labels).mean()
    assert clustering_accuracy(labels, result.mixture.predict(frame)) >= best - 0.005
    assert result.certificate.passed


def _listed(families):
    return ",".join(f"{name}={family}" for name, family in families.items())


def test_summaries_of_shards_by_a_schema_add_up(made, tmp_path, momentmix):
    frame, _, _, families, _ = made
    frame.to_csv(tmp_path / "all.csv", index=False)
    listed = [] if families is None else ["--families", _listed(families)]
    done = momentmix("schema", tmp_path / "all.csv", *listed, "-o", tmp_path / "s.json")
    assert done.code == 0, done.err
    assert "schema written" in done.out
    assert "left out" in done.err
    parts = []
    for k in range(3):
        frame.iloc[k * 2000 : (k + 1) * 2000].to_parquet(tmp_path / f"{k}.parquet", index=False)
        parts.append(tmp_path / f"{k}.mms")
        done = momentmix(
            "summarize", tmp_path / f"{k}.parquet", "--schema", tmp_path / "s.json",
            "--missing", "model", "-o", parts[-1],
        )  # fmt: skip
        assert done.code == 0, done.err
    total = sum(
        (mm.MomentSummary.load(part) for part in parts[1:]), mm.MomentSummary.load(parts[0])
    )
    schema = mm.Schema.load(tmp_path / "s.json")
    whole = mm.summarize(frame, families=schema, missing="model")
    assert total.n_rows == whole.n_rows == N_ROWS
    assert total.schema == whole.schema
    assert total.mean == pytest.approx(whole.mean, rel=1e-14)
    by_command = mm.summarize(tmp_path / "0.parquet", families=schema, missing="model")
    assert by_command.to_bytes() == parts[0].read_bytes()
    piped = (tmp_path / "all.csv").read_bytes()
    options = ("--schema", tmp_path / "s.json", "-o", tmp_path / "piped.mms")
    done = momentmix("summarize", "-", *options, stdin=piped)
    assert done.code == 0, done.err
    assert mm.MomentSummary.load(tmp_path / "piped.mms").mean == pytest.approx(whole.mean, 1e-14)


# -- guesses ----------------------------------------------------------------------------------


def columns_of(table, **options):
    return {c.name: (c.family, c.levels) for c in mm.schema_from(table, **options).columns}


def test_kinds_of_columns_are_guessed():
    rng = np.random.default_rng(0)
    n = 60
    table = {
        "id": np.arange(n),
        "flag": rng.random(n) < 0.5,
        "plan": rng.choice(["gold", "basic"], n),
        "code": rng.permutation([f"c{i}" for i in range(n)]),
        "day": [f"2024-01-{1 + i % 28:02d}" for i in range(n)],
        "when": np.array(["2024-01-01"], dtype="M8[D]").repeat(n),
        "size": rng.standard_normal(n),
        "only": ["x"] * n,
    }
    assert columns_of(table) == {
        "flag": ("bernoulli", (False, True)),
        "plan": ("categorical", ("basic", "gold")),
        "size": ("gaussian", ()),
    }
    result = mm.fit(table, 1, random_state=0)
    notes = "; ".join(result.notes)
    for name, why in {
        "id": "numbers the rows", "code": "names the rows", "day": "dates", "when": "dates",
        "only": "one level",
    }.items():  # fmt: skip
        assert f"column {name!r} left out: " in notes
        assert why in notes
    assert columns_of(table, columns=["id", "size"]) == {
        "id": ("gaussian", ()),
        "size": ("gaussian", ()),
    }
    assert list(columns_of(table, exclude=["flag"])) == ["plan", "size"]
    assert columns_of(table, families={"plan": "bernoulli"})["plan"][0] == "bernoulli"


def test_counts_and_flags_that_nobody_names_give_segments_all_the_same(tmp_path):
    # As Gaussian columns of any variance they gave components of one value: 0.3 of accuracy lost.
    frame, labels, law = TABLES["passengers"](N_ROWS, seed=12)
    best = (law.predict(frame) == labels).mean()
    flags = frame.assign(survived=frame["survived"].astype(int))
    result = mm.fit(flags, 3, missing="model", random_state=0)
    columns = [column.name for column in result.schema.columns]
    families = {column.name: column.family for column in result.schema.columns}
    assert families["relatives"] in ("poisson", "negative_binomial")
    assert families["survived"] == "gaussian"
    least = min(0.25, 0.9 * flags["survived"].var(ddof=0))
    assert result.mixture.variances[:, columns.index("survived")].min() >= least - 1e-9
    named = {x for f in result.certificate.findings for x in f.columns}
    assert "survived" in named
    assert clustering_accuracy(labels, result.mixture.predict(flags)) >= best - 0.01
    flags.to_csv(tmp_path / "t.csv", index=False)
    again = mm.fit(tmp_path / "t.csv", 3, missing="model", random_state=0)
    assert again.mixture.to_dict() == result.mixture.to_dict()


@pytest.mark.parametrize("name", ["user_id", "ID", "customerId", "Unnamed: 0", "uuid"])
def test_names_of_ids(name):
    numbers = np.random.default_rng(1).permutation(50) * 7 + 1000
    assert list(columns_of({name: numbers, "x": np.linspace(0, 1, 50) ** 2})) == ["x"]
    assert list(columns_of({"price": numbers, "x": np.linspace(0, 1, 50) ** 2})) == ["price", "x"]


# -- weights and reading ----------------------------------------------------------------------


def test_weights_with_families_stand_for_rows(made):
    frame, _, _, families, _ = made
    frame = frame.iloc[:1500]
    times = np.random.default_rng(0).integers(0, 3, len(frame))
    weighted = mm.fit(
        frame, 2, families=families, missing="model", sample_weight=times, random_state=0
    )
    kept = frame.loc[frame.index.repeat(times)]
    exclude = [c for c in frame if c not in [k.name for k in weighted.schema.columns]]
    again = mm.fit(kept, 2, families=families, missing="model", exclude=exclude, random_state=0)
    assert weighted.mixture.to_dict() == again.mixture.to_dict()


def test_keywords_of_reading(tmp_path):
    path = tmp_path / "t.csv"
    lines = [f"{i};{1000 + i},5;{'?' if i == 3 else i * i};{'ab'[i % 2]}" for i in range(40)]
    path.write_text("n;x;y;g\n" + "\n".join(lines) + "\n")
    options = {"delimiter": ";", "decimal": ",", "na_values": ["?"], "exclude": ["n"]}
    summary = mm.summarize(path, missing="drop", **options)
    assert summary.n_rows == 39
    assert [c.name for c in summary.schema.columns] == ["x", "y", "g"]
    result = mm.fit(path, 1, missing="drop", random_state=0, **options)
    assert result.mixture.means[0, 0] == pytest.approx(summary.mean[0])
    with pytest.raises(TypeError, match=r"fit has no keyword 'colums'.*'columns'"):
        mm.fit(path, 1, colums=["x"])
    with pytest.raises(InputError, match=r"na_values= \(.*\) is for files"):
        mm.fit(np.zeros((9, 2)), 1, na_values=["?"])
    with pytest.raises(
        InputError, match=r"exclude= \(.*\) is for tables; the rows are opened already"
    ):
        mm.fit(mm.open_rows(path, delimiter=";", decimal=","), 1, exclude=["n"])


def test_paths_of_summaries_are_fitted(tmp_path):
    rows = np.random.default_rng(0).standard_normal((500, 4))
    for k in range(2):
        mm.summarize(rows[k::2], 4).save(tmp_path / f"{k}.mms")
    paths = [tmp_path / "0.mms", tmp_path / "1.mms"]
    result = mm.fit(paths, 1, random_state=0)
    assert result.mixture.means[0] == pytest.approx(rows.mean(axis=0), abs=1e-12)
    np.save(tmp_path / "x.npy", rows)
    with pytest.raises(InputError, match="give summaries or data files, not both"):
        mm.fit([*paths, tmp_path / "x.npy"], 1)


# -- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_category_of_thousands_of_levels(tmp_path, kind):
    frame = pd.DataFrame({"t": [f"a{i % 1500}" for i in range(4500)], "x": np.arange(4500.0) ** 2})
    path = tmp_path / f"t.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path, index=False)
    with pytest.raises(InputError, match=r"'t' has more than 1000 levels.*exclude="):
        mm.fit(path, 2, families={"t": "categorical"})
    with pytest.raises(InputError, match=r"'t' has more than 1000 levels"):
        mm.fit(frame, 2, families={"t": "categorical"})


def test_a_level_named_like_a_missing_value(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("g,x\n" + "".join(f"{'NA' if i % 3 else 'EU'},{i * i}\n" for i in range(60)))
    with pytest.raises(InputError, match="has one level only"):
        mm.fit(path, 1, families={"g": "categorical"}, missing="drop")
    schema = mm.Schema((Column("g", "categorical", ("EU", "NA")), Column("x")))
    with pytest.raises(
        InputError, match=r"level 'NA' of column 'g' reads as a missing cell.*na_values"
    ):
        mm.fit(path, 1, families=schema)
    result = mm.fit(path, 1, families=schema, na_values=["-"], random_state=0)
    assert result.mixture.level_probabilities("g")["NA"] == pytest.approx([2 / 3], abs=0.02)


def test_a_schema_of_other_columns(tmp_path, momentmix):
    schema = mm.schema_from({"a": [1.0, 2.5], "g": ["x", "y"]})
    schema.save(tmp_path / "s.json")
    pd.DataFrame({"b": [1.0, 2.0], "g": ["x", "y"]}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match=r"those of the schema.*'a' is missing"):
        mm.fit(tmp_path / "t.csv", 1, families=schema)
    done = momentmix(
        "summarize", tmp_path / "t.csv", "--schema", tmp_path / "s.json", "-o", tmp_path / "x.mms"
    )
    assert done.code == 1
    assert "'a' is missing" in done.err
    assert not (tmp_path / "x.mms").exists()
    done = momentmix(
        "summarize", tmp_path / "t.csv", "--schema", tmp_path / "s.json", "--families", "a=poisson",
        "-o", tmp_path / "x.mms",
    )  # fmt: skip
    assert done.code == 2


def test_schema_files(tmp_path):
    schema = mm.schema_from(
        {
            "a": [1.0, None, 2.5],
            "g": ["x", "y", "x"],
            "b": [True, False, True],
            "w": [1.0, 9.0, 3.0],
        },
        {"w": "log"},
        missing="model",
    )
    path = tmp_path / "s.json"
    schema.save(path)
    assert mm.Schema.load(path) == schema
    document = json.loads(path.read_text())
    assert document["columns"][3] == {"name": "w", "family": "gaussian", "transform": "log"}
    document["columns"][3] = {"name": "w", "family": "log"}  # as in families=
    path.write_text(json.dumps(document))
    assert mm.Schema.load(path) == schema
    document["columns"][1]["levels"] = ["x", "y", "z"]
    path.write_text(json.dumps(document))
    assert mm.Schema.load(path).columns[1].levels == ("x", "y", "z")
    for change, problem in [
        ({"version": 7}, "version 7"),
        ({"format": "x"}, 'no "format"'),
        ({"columns": [{"name": "a", "famly": "gaussian"}]}, "unknown keys: 'famly'"),
    ]:
        path.write_text(json.dumps({**document, **change}))
        with pytest.raises(InputError, match=problem):
            mm.Schema.load(path)
    path.write_text("{")
    with pytest.raises(InputError, match="is not a schema"):
        mm.Schema.load(path)
    with pytest.raises(NoInputError, match="does not exist"):
        mm.Schema.load(tmp_path / "none.json")
