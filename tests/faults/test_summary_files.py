"""Files that are broken, foreign or impossible are refused with a typed error, cheaply."""

import hashlib
import json
import os
import pickle
import struct
import sys
import tracemalloc

import numpy as np
import pytest

from momentmix import DiagonalMixture, MomentSummary
from momentmix.errors import InputError, SummaryFileError
from momentmix.summary.file import MAGIC, VERSION


def small(seed=0, **options):
    rows = np.random.default_rng(seed).standard_normal((20, 2)) * 3 + 1
    return MomentSummary(2, 2, shard_id="a", replicates=0, **options).update(rows)


DATA = small().to_bytes()
LENGTH = struct.unpack("<I", DATA[12:16])[0]
HEADER = json.loads(DATA[16 : 16 + LENGTH])


def rebuilt(changes=None, body=None, header=None, version=VERSION):
    """The small file with another header or body and a checksum that is right."""
    document = {**HEADER, **(changes or {})}
    raw = header or json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    middle = DATA[16 + LENGTH : -32] if body is None else body
    data = struct.pack("<8sII", MAGIC, version, len(raw)) + raw + middle
    return data + hashlib.sha256(data).digest()


def test_the_small_file_is_sound():
    assert rebuilt() == DATA
    assert MomentSummary.from_bytes(DATA) == small()


def test_save_and_load(tmp_path):
    path = tmp_path / "s.mms"
    summary = small(feature_names=["a\n", "b"])
    summary.save(path)
    loaded = MomentSummary.load(path)
    assert loaded == summary
    assert loaded.feature_names == ("a\n", "b")
    assert loaded.to_bytes() == path.read_bytes()
    assert os.listdir(tmp_path) == ["s.mms"]
    loaded.update(np.ones((3, 2)))
    loaded.save(path)
    assert MomentSummary.load(path).n_rows == 23
    link = tmp_path / "link"
    link.symlink_to(path)
    summary.save(link)
    assert link.is_symlink()
    assert MomentSummary.load(path).n_rows == 20


def test_every_truncation_is_refused():
    for length in range(len(DATA)):
        with pytest.raises(SummaryFileError):
            MomentSummary.from_bytes(DATA[:length])


def test_every_flipped_bit_is_refused():
    for byte in range(len(DATA)):
        for bit in range(8):
            broken = bytearray(DATA)
            broken[byte] ^= 1 << bit
            with pytest.raises(SummaryFileError):
                MomentSummary.from_bytes(bytes(broken))


def test_refusals_allocate_little(tmp_path):
    rows = np.random.default_rng(0).standard_normal((300, 12))
    path = tmp_path / "s.mms"
    MomentSummary(12, 6, shard_id="a").update(rows).save(path)
    data, rng = path.read_bytes(), np.random.default_rng(1)
    for _ in range(40):
        broken = bytearray(data)
        broken[rng.integers(len(data))] ^= 1 << rng.integers(8)
        path.write_bytes(broken)
        tracemalloc.start()
        with pytest.raises(SummaryFileError):
            MomentSummary.load(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= 2 * len(data) + 64 * 2**20
        assert peak <= 2 * len(data) + 2**20


FOREIGN = [
    (b"", r"empty"),
    (DATA[:9], r"at least 16 bytes, found 9"),
    (DATA[:100], r"header claims|truncated"),
    (DATA[:-1], rf"expected {len(DATA)} bytes, found {len(DATA) - 1}.*truncated"),
    (DATA + b"\0", rf"expected {len(DATA)} bytes, found {len(DATA) + 1}.*foreign"),
    (pickle.dumps({"a": 1}), r"pickle.*never loads"),
    (b"PK\x03\x04" + bytes(50), r"zip archive"),
    (b'{"format": "momentmix.DiagonalMixture"}', r"DiagonalMixture\.load"),
    (b"\x93NUMPY\x01\x00" + bytes(50), r"starts with b'\\x93NUMPY"),
    (rebuilt(version=2), r"version 2.*newer release"),
    (struct.pack("<8sII", MAGIC, VERSION, 2**32 - 1) + bytes(99), r"header claims 4294967295"),
    (rebuilt(header=b'{"order":1,"order":2}'), r"a key occurs twice"),
    (rebuilt(header=b'{"order":NaN}'), r"NaN is not a number"),
    (rebuilt(header=b"[" * 100_000), r"header cannot be read"),
    (rebuilt(header=b"\xff\xfe{}"), r"header cannot be read"),
    (rebuilt(header=b"[]"), r"keys of a summary"),
    (rebuilt({"more": 1}), r"keys of a summary"),
    (rebuilt(header=json.dumps(HEADER).encode()), r"canonical form"),
]


@pytest.mark.parametrize(("data", "message"), FOREIGN)
def test_foreign_bytes_are_named(data, message, tmp_path):
    with pytest.raises(SummaryFileError, match=message):
        MomentSummary.from_bytes(data)
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(SummaryFileError, match=message) as caught:
        MomentSummary.load(path)
    assert str(path) in str(caught.value)


IMPOSSIBLE = [
    ({"n_features": 10**6, "order": 7}, r"1000000 units and shifts"),
    ({"n_features": -1}, r"n_features must be a positive integer"),
    ({"n_features": True}, r"n_features must be a positive integer"),
    ({"order": 3}, r"order must be at most n_features"),
    ({"order": 2**70}, r"order must be a positive integer"),
    ({"squared_order": 2}, r"closed"),
    ({"replicates": 1}, r"replicates"),
    ({"replicates": 2}, r"one row count for each group"),
    ({"n_rows": [-20]}, r"row counts"),
    ({"n_rows": [0]}, r"shards without rows"),
    ({"n_rows": [1.5]}, r"row counts"),
    ({"n_shards": 0}, r"expected \d+ bytes"),
    ({"n_shards": 2**61}, r"expected \d+ bytes"),
    ({"exponents": [1024, 0]}, r"scale out of range"),
    ({"exponents": [0.5, 0]}, r"scale out of range"),
    ({"exponents": [None, 0]}, r"all zero"),
    ({"exponents": 3}, r"must be a list"),
    ({"shifts": ["1", "x"]}, r"decimal integers"),
    ({"shifts": ["01", "0"]}, r"decimal integers"),
    ({"shifts": ["9" * 5000, "0"]}, r"decimal integers"),
    ({"shifts": [1, 2]}, r"decimal integers"),
    ({"weight_squares": "0"}, r"no weight"),
    ({"weight_squares": None}, r"weight_squares"),
    ({"exact_bounds": 1}, r"true or false"),
    ({"quantum_bits": 64}, r"quantum_bits"),
    ({"widths": HEADER["widths"][:-1]}, r"one width"),
    ({"widths": [0] * len(HEADER["widths"])}, r"width out of range"),
    ({"widths": [10**9] * len(HEADER["widths"])}, r"width out of range"),
    ({"feature_names": ["a"]}, r"2 different feature names"),
    ({"feature_names": ["a", "a"]}, r"2 different feature names"),
    ({"feature_names": ["a", 1]}, r"strings"),
    ({"n_forgotten": -1}, r"n_forgotten"),
]


@pytest.mark.parametrize(("d", "order"), [(150_000, 150_000), (150_000, 75_000), (300, 150)])
def test_sums_beyond_counting_are_refused_at_once(d, order):
    """C(150000, 75000) has 45,000 digits; a loader that counts on pays for every order."""
    header = HEADER | {"n_features": d, "order": order, "exponents": [0] * d, "shifts": ["0"] * d}
    data, lines = rebuilt(header), 0

    def count(frame, event, argument):
        nonlocal lines
        lines += event == "line"
        return count if "momentmix" in frame.f_globals["__name__"] else None

    before = sys.gettrace()
    sys.settrace(count)
    try:
        with pytest.raises(SummaryFileError, match="more sums than"):
            MomentSummary.from_bytes(data)
    finally:
        sys.settrace(before)
    assert 20 < lines < 300


@pytest.mark.parametrize(("changes", "message"), IMPOSSIBLE)
def test_impossible_headers_are_refused(changes, message):
    with pytest.raises(SummaryFileError, match=message):
        MomentSummary.from_bytes(rebuilt(changes))


def places():
    """Where the shard id, the bounds and each section start in the body."""
    starts, at = {"shards": 0, "bounds": 16}, 16 + 32
    sizes = {"S0": 1, "S1": 2, "S2": 1, "T0": 2, "T1": 2}
    for (name, count), width in zip(
        [("S0", 1), ("S1", 2), ("S2", 1), ("T0", 2), ("T1", 2)], HEADER["widths"], strict=True
    ):
        starts[name] = at
        at += count * width
    assert sum(sizes.values()) == 8
    return starts


def test_impossible_contents_are_refused():
    body, start, widths = DATA[16 + LENGTH : -32], places(), HEADER["widths"]

    def with_integer(name, width, value):
        raw = value.to_bytes(width, "little", signed=True)
        return body[: start[name]] + raw + body[start[name] + width :]

    top = 1 << (8 * widths[3] - 2)
    with pytest.raises(SummaryFileError, match="negative variance"):
        MomentSummary.from_bytes(rebuilt(body=with_integer("T0", widths[3], -top)))
    with pytest.raises(SummaryFileError, match="no weight"):
        MomentSummary.from_bytes(
            rebuilt(body=with_integer("S0", widths[0], -(1 << (8 * widths[0] - 2))))
        )
    with pytest.raises(SummaryFileError, match="negative variance"):
        MomentSummary.from_bytes(rebuilt(body=with_integer("T0", widths[3], 1 << 60)))
    near = [struct.pack("<d", small().mean[0] + off) for off in (-0.1, 0.1)]
    tight = body[:16] + near[0] + body[24:32] + near[1] + body[40:]
    with pytest.raises(SummaryFileError, match="variance too large for the bounds"):
        MomentSummary.from_bytes(rebuilt(body=tight))
    with pytest.raises(SummaryFileError, match="mean outside the bounds"):
        MomentSummary.from_bytes(rebuilt({"shifts": ["99", "0"]}))
    with pytest.raises(SummaryFileError, match="shift out of range"):
        MomentSummary.from_bytes(rebuilt({"shifts": ["9" * 999, "0"]}))
    with pytest.raises(SummaryFileError, match="does not fit the sum of weights"):
        MomentSummary.from_bytes(rebuilt({"weight_squares": str(2**96)}))
    for bound in (np.nan, np.inf, 1e308):
        raw = body[:16] + struct.pack("<d", bound) + body[24:]
        with pytest.raises(SummaryFileError, match="minimum above maximum, or not finite"):
            MomentSummary.from_bytes(rebuilt(body=raw))
    wide = body[: start["T1"]] + b"".join(
        int.from_bytes(body[i : i + widths[4]], "little", signed=True).to_bytes(
            widths[4] + 1, "little", signed=True
        )
        for i in range(start["T1"], len(body), widths[4])
    )
    with pytest.raises(SummaryFileError, match="narrow"):
        MomentSummary.from_bytes(rebuilt({"widths": [*widths[:4], widths[4] + 1]}, body=wide))


def test_unsorted_shards_are_refused():
    other = MomentSummary(2, 2, shard_id="b", replicates=0).update(np.eye(2))
    data = (small() + other).to_bytes()
    length = struct.unpack("<I", data[12:16])[0]
    start = 16 + length
    ids = data[start : start + 32]
    for swapped in (ids[16:] + ids[:16], ids[:16] * 2):
        body = data[:start] + swapped + data[start + 32 : -32]
        with pytest.raises(SummaryFileError, match="sorted and different"):
            MomentSummary.from_bytes(body + hashlib.sha256(body).digest())


def test_places_that_are_no_files(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (tmp_path, fifo, "/dev/null"):
        with pytest.raises(SummaryFileError, match="not a regular file"):
            MomentSummary.load(path)
    with pytest.raises(SummaryFileError, match="does not exist"):
        MomentSummary.load(tmp_path / "absent")
    with pytest.raises(IsADirectoryError, match="is a directory"):
        small().save(tmp_path)
    with pytest.raises(FileNotFoundError):
        small().save(tmp_path / "absent" / "file")


def test_a_summary_is_no_model(tmp_path):
    path = tmp_path / "s.mms"
    small().save(path)
    with pytest.raises(InputError, match="not a momentmix model"):
        DiagonalMixture.load(path)


def test_a_file_replaced_while_open_is_read_whole(tmp_path):
    path = tmp_path / "s.mms"
    small().save(path)
    with open(path, "rb") as old:
        small(seed=1).save(path)
        assert old.read() == DATA
    assert MomentSummary.load(path) == small(seed=1)
