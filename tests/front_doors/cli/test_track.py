"""``momentmix track`` and the picture of shares."""

import csv
import json
import warnings
from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix.displays import SharesDisplay
from momentmix.html.palette import component_color

NAMES = ["flow", "temperature", "pressure"]
MEANS = np.array([[100.0, 20.0, 5.0], [120.0, 30.0, 8.0]])
VARIANCES = np.array([[16.0, 4.0, 0.3]] * 2)


def frame_of(share, n, seed):
    mixture = mm.Mixture.diagonal([1 - share, share], MEANS, VARIANCES)
    return pd.DataFrame(mixture.sample(n, random_state=seed)[0], columns=NAMES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, a cube in which all is well, and one in which it is not."""
    folder = tmp_path_factory.mktemp("track")
    mm.fit(frame_of(0.4, 4000, 99), 2, random_state=0).save(folder / "model.json")
    frames = []
    for week in range(6):
        for region, share in (("EU", 0.2 + 0.06 * week), ("US", 0.4)):
            frame = frame_of(share, 500, 10 * week + (region == "US"))
            frames.append(frame.assign(region=region, day=date(2026, 1, 5) + timedelta(7 * week)))
    good = pd.concat(frames)
    mm.summarize_by(good, by=["region", "day"]).save(folder / "good.parquet")
    odd = good.copy()
    place = np.flatnonzero((odd["region"] == "US") & (odd["day"] == date(2026, 1, 19)))[:100]
    odd.iloc[place, 0] = 160.0 + 3 * np.random.default_rng(0).standard_normal(100)
    mm.summarize_by(odd, by=["region", "day"]).save(folder / "odd.parquet")
    return folder


@pytest.fixture(scope="module")
def tracking(folder):
    return mm.track(folder / "model.json", folder / "good.parquet")


@pytest.fixture(scope="module")
def odd(folder):
    return mm.track(folder / "model.json", folder / "odd.parquet")


def test_the_command_prints_what_the_function_gives(momentmix, folder, tracking):
    done = momentmix("track", folder / "model.json", folder / "good.parquet")
    assert done.code == 0
    assert done.out.rstrip() == str(tracking).rstrip()
    assert done.out.startswith("the components fit all of 12 groups.\n")
    document = json.loads(
        momentmix("track", folder / "model.json", folder / "good.parquet", "--json").out
    )
    assert document == json.loads(json.dumps(tracking.to_dict()))
    assert document["groups"][0]["key"] == {"region": "EU", "day": "2026-01-05"}


def test_strict_tells_of_groups_that_do_not_fit(momentmix, folder):
    model = folder / "model.json"
    assert momentmix("track", model, folder / "good.parquet", "--strict").code == 0
    assert momentmix("track", model, folder / "odd.parquet").code == 0
    done = momentmix("track", model, folder / "odd.parquet", "--strict")
    assert done.code == 4
    assert "the components do not fit 1 of 12 groups: US, 2026-01-19." in done.out


def test_outputs_by_their_ending(momentmix, folder, tmp_path):
    files = (folder / "model.json", folder / "odd.parquet")
    for ending in ("csv", "png"):
        out = tmp_path / f"shares.{ending}"
        done = momentmix("track", *files, "-o", out)
        assert done.code == 0
        assert done.out.rstrip().endswith(f"written to {out}")
    with open(tmp_path / "shares.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    assert rows[0]["region"] == "EU"
    assert float(rows[0]["weight_0"]) + float(rows[0]["weight_1"]) == pytest.approx(1.0)
    assert (tmp_path / "shares.png").read_bytes()[:4] == b"\x89PNG"
    assert momentmix("track", *files, "-o", tmp_path / "shares.csv").code == 1
    assert momentmix("track", *files, "-o", tmp_path / "shares.csv", "--force").code == 0


def test_some_groups_and_other_levels(momentmix, folder):
    files = (folder / "model.json", folder / "good.parquet", "--json")
    whole = json.loads(momentmix("track", *files, "--where", "region=EU").out)
    assert {g["key"]["region"] for g in whole["groups"]} == {"EU"}
    merged = json.loads(momentmix("track", *files, "--rollup", "region", "--level", "0.5").out)
    assert [g["n_rows"] for g in merged["groups"]] == [3000, 3000]
    assert merged["level"] == 0.5


def test_bad_input(momentmix, folder, tmp_path):
    model, cube = folder / "model.json", folder / "good.parquet"
    assert momentmix("track", model, tmp_path / "none.parquet").code == 1
    assert momentmix("track", tmp_path / "none.json", cube).code == 1
    done = momentmix("track", model, cube, "-o", tmp_path / "shares.txt")
    assert done.code == 2
    assert "--output must end in .csv" in done.err
    frame_of(0.4, 50, 0).to_csv(tmp_path / "rows.csv", index=False)
    done = momentmix("track", model, tmp_path / "rows.csv")
    assert done.code == 1
    assert "is no cube; make one with `momentmix summarize DATA --by KEY" in done.err


# -- the picture --------------------------------------------------------------------------------


def test_lines_have_the_colors_and_shares_of_components(odd):
    display = SharesDisplay.from_tracking(odd)
    eu, us = display.axes_[:2]
    assert (eu.get_title(), us.get_title()) == ("EU", "US")
    shares = [line for line in eu.lines if len(line.get_xdata()) == 6]
    assert [line.get_color() for line in shares] == [component_color(c) for c in range(2)]
    assert shares[1].get_ydata() == pytest.approx(odd.weights[:6, 1])
    marks = [line for line in us.lines if line.get_marker() == "x"]
    assert len(marks) == 1
    assert len(marks[0].get_xdata()) == 1
    assert not [line for line in eu.lines if line.get_marker() == "x"]
    texts = [text.get_text() for text in display.figure_.legends[0].get_texts()]
    assert texts == [f"{c} {name}" for c, name in enumerate(odd.names)] + ["components do not fit"]


def test_groups_without_order_are_dots(folder):
    cube = mm.SummaryCube.load(folder / "odd.parquet").rollup("region")
    tracking = mm.track(folder / "model.json", cube)
    display = SharesDisplay.from_tracking(tracking)
    (ax,) = display.axes_
    assert [text.get_text().split()[0] for text in ax.get_yticklabels()] == ["EU", "US"]
    for c, drawn in enumerate(ax.containers):
        assert drawn.lines[0].get_xdata() == pytest.approx(tracking.weights[:, c])


def test_a_picture_of_one_date_has_dots_and_no_warnings():
    mixture = mm.Mixture.diagonal([0.5, 0.5], [[0.0] * 3, [4.0] * 3], np.ones((2, 3)))
    summary = mm.summarize(mixture.sample(500, random_state=0)[0])
    (ax,) = SharesDisplay.from_tracking(mm.track(mixture, {date(2026, 1, 5): summary})).axes_
    assert [label.get_text() for label in ax.get_yticklabels()] == ["2026-01-05"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax.figure.canvas.draw()


def test_times_that_are_texts_stand_in_their_order():
    mixture = mm.Mixture.diagonal([0.6, 0.4], MEANS, VARIANCES, NAMES)
    cube = {f"week {k}": mm.summarize(frame_of(0.4, 300, k)) for k in (10, 9, 8)}
    (ax,) = SharesDisplay.from_tracking(mm.track(mixture, cube)).axes_
    assert [text.get_text() for text in ax.get_xticklabels()] == ["week 8", "week 9", "week 10"]
    assert ax.lines[0].get_xdata().tolist() == [0.0, 1.0, 2.0]


def test_pictures_of_other_things_are_refused():
    with pytest.raises(mm.errors.InputTypeError, match=r"needs what mm\.track gives"):
        SharesDisplay.from_tracking({})


def test_the_shell_says_where_all_groups_are(momentmix, tmp_path):
    model = mm.Mixture.diagonal([0.5, 0.5], [[-3.0, 0.0], [3.0, 1.0]], np.ones((2, 2)))
    model.save(tmp_path / "model.json")
    groups = {(i,): mm.summarize(model.sample(60, random_state=i)[0]) for i in range(70)}
    mm.SummaryCube(["g"], groups).save(tmp_path / "cube.parquet")
    done = momentmix("track", tmp_path / "model.json", tmp_path / "cube.parquet")
    assert done.code == 0, done.err
    assert "… 10 more groups; --json prints all, and -o shares.csv writes them" in done.out
    assert "to_frame" not in done.out
