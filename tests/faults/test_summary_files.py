"""Files that are broken, foreign or impossible are refused with a typed error, cheaply."""

import hashlib
import json
import os
import pickle
import struct
from itertools import takewhile

import numpy as np
import pytest

from momentmix import Mixture, MomentSummary
from momentmix.errors import InputError, SummaryFileError


def small(seed=0, **options):
    rows = np.random.default_rng(seed).standard_normal((20, 2)) * 3 + 1
    return MomentSummary(2, 2, shard_id="a", **options).update(rows)


DATA = small().to_bytes()
MAGIC, VERSION = DATA[:8], DATA[8]
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


CHANGED, IMPOSSIBLE = "checksum does not match", "impossible contents"
FOREIGN = [
    (b"", r"empty"),
    (DATA[:9], r"at least 16 bytes, found 9"),
    (DATA[:100], CHANGED),
    (DATA[:-1], CHANGED),
    (DATA + b"\0", CHANGED),
    (pickle.dumps({"a": 1}), r"pickle.*never loads"),
    (b"PK\x03\x04" + bytes(50), r"zip archive"),
    (b'{"format": "momentmix.Mixture"}', r"Mixture\.load"),
    (b"\x93NUMPY\x01\x00" + bytes(50), r"starts with b'\\x93NUMPY"),
    (rebuilt(version=6), r"version 6; this momentmix reads version 8"),
    (struct.pack("<8sII", MAGIC, VERSION, 2**32 - 1) + bytes(99), CHANGED),
    (rebuilt(header=b'{"order":1,"order":2}'), IMPOSSIBLE),
    (rebuilt(header=b'{"order":NaN}'), IMPOSSIBLE),
    (rebuilt(header=b"[" * 100_000), IMPOSSIBLE),
    (rebuilt(header=b"\xff\xfe{}"), IMPOSSIBLE),
    (rebuilt(header=b"[]"), IMPOSSIBLE),
    (rebuilt({"more": 1}), IMPOSSIBLE),
    (rebuilt(header=json.dumps(HEADER).encode()), IMPOSSIBLE),
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


SECTIONS = {"S0": 1, "S1": 2, "S2": 1, "T0": 2, "T1": 2, "P3": 2, "P4": 2, "P5": 2, "P6": 2}
SECTIONS |= {"C": 2, "Q": 1}


def digits_of(value, n_digits):
    """The digits of a value, from −2^31 to 2^31 − 1 each."""
    digits = []
    for _ in range(n_digits):
        digits.append((value + (1 << 31)) % (1 << 32) - (1 << 31))
        value = (value - digits[-1]) >> 32
    return digits


def test_impossible_contents_are_refused():
    body, n = DATA[16 + LENGTH : -32], sum(SECTIONS.values())
    digits = np.frombuffer(body, "<i4").reshape(HEADER["n_digits"], n)

    def with_integer(name, value):
        changed = digits.copy()
        place = sum(SECTIONS[other] for other in takewhile(lambda x: x != name, SECTIONS))
        changed[:, place] = digits_of(value, len(digits))
        return changed.tobytes()

    top = 1 << (32 * len(digits) - 3)
    with pytest.raises(SummaryFileError, match="negative variance"):
        MomentSummary.from_bytes(rebuilt(body=with_integer("T0", -top)))
    with pytest.raises(SummaryFileError, match="no weight"):
        MomentSummary.from_bytes(rebuilt(body=with_integer("S0", -top)))
    with pytest.raises(SummaryFileError, match="negative variance"):
        MomentSummary.from_bytes(rebuilt(body=with_integer("T0", 1 << 60)))
    near = {"minimum": small().mean[0] - 0.1, "maximum": small().mean[0] + 0.1}
    tight = {name: [end, HEADER[name][1]] for name, end in near.items()}
    with pytest.raises(SummaryFileError, match="variance too large for the bounds"):
        MomentSummary.from_bytes(rebuilt(tight))
    with pytest.raises(SummaryFileError, match="mean outside the bounds"):
        MomentSummary.from_bytes(rebuilt({"origins": ["99", "0"]}))
    with pytest.raises(SummaryFileError, match="mean outside the bounds"):
        MomentSummary.from_bytes(rebuilt({"origins": ["9" * 999, "0"]}))
    with pytest.raises(SummaryFileError, match="does not fit the sum of weights"):
        MomentSummary.from_bytes(rebuilt({"weight_squares": str(2**96)}))
    for bound in (np.nan, np.inf, 1e308):
        with pytest.raises(SummaryFileError, match="minimum above maximum, or not finite"):
            MomentSummary.from_bytes(rebuilt({"minimum": [bound, 0.0]}))
    more = body + bytes(4 * n)
    with pytest.raises(SummaryFileError, match="not in the form"):
        MomentSummary.from_bytes(rebuilt({"n_digits": len(digits) + 1}, body=more))


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
        Mixture.load(path)


def test_a_file_replaced_while_open_is_read_whole(tmp_path):
    path = tmp_path / "s.mms"
    small().save(path)
    with open(path, "rb") as old:
        small(seed=1).save(path)
        assert old.read() == DATA
    assert MomentSummary.load(path) == small(seed=1)


def test_a_summary_without_rows_has_no_bounds():
    data = MomentSummary(2, 2).to_bytes()
    for bounds in (b"[0.0,0.0]", b"[]", b"[NaN,NaN]"):
        body = data[:-32].replace(b'"maximum":null', b'"maximum":' + bounds)
        body = body[:12] + struct.pack("<I", body.index(b"}", 16 + 20) + 1 - 16) + body[16:]
        with pytest.raises(SummaryFileError, match=IMPOSSIBLE):
            MomentSummary.from_bytes(body + hashlib.sha256(body).digest())
