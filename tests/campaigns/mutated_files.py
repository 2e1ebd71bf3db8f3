"""Files that were changed with their structure in mind: what is accepted must be valid.

What is accepted must be written again as it was and be readable without an untyped error.
"""

import hashlib
import json
import random
import struct
import sys
from collections import Counter
from copy import deepcopy
from functools import lru_cache, partial
from math import comb
from pathlib import Path

import numpy as np

from campaigns.folders import temporary_folder
from momentmix.errors import InputError, ModelFileError, SummaryFileError
from momentmix.mixture.mixture import Mixture
from momentmix.summary.summarize import summarize
from momentmix.summary.summary import MomentSummary

CALLS = 20  # calls of functions for each byte of a file


# -- the files --------------------------------------------------------------------------------


def _made(d, order, squared, n, **options):
    rng = np.random.default_rng(d * 100 + order)
    rows = rng.standard_normal((n, d)) * 3 + np.arange(d) * 1000
    rows[:, options.pop("zero", [])] = 0.0
    summary = MomentSummary(d, order, None, squared, shard_id="a", **options)
    return summary.update(rows) if n else summary


@lru_cache
def small_summaries():
    """Summaries of every shape that the format has: empty, merged, forgotten, with names …"""
    rng = np.random.default_rng(0)
    merged = _made(2, 2, 1, 9)
    merged += MomentSummary(2, 2, None, 1, shard_id="b").update(np.eye(2))
    forgotten = _made(2, 1, 0, 9).copy()
    forgotten.forget(np.random.default_rng(201).standard_normal((9, 2))[:2] * 3 + [0, 1000])
    weighted = MomentSummary(1, 1, shard_id="w")
    weighted.update(rng.standard_normal((5, 1)) * 1e-30, rng.uniform(0.1, 3, 5))
    named = _made(3, 3, 2, 7, zero=[1]).to_bytes()
    again = MomentSummary(3, 3, ["a", "ü\n", ""], 2, shard_id="n")
    again.update(np.arange(12.0).reshape(4, 3) ** 2)
    empty = [_made(2, 2, 0, 0), _made(1, 1, 0, 0)]
    summaries = [_made(2, 2, 1, 20), _made(1, 1, 0, 5), merged, forgotten, weighted, again]
    rows = rng.standard_normal((2048, 2))
    rows[2000] = 1e50, 1e90
    wild = MomentSummary(2, 2, shard_id="wild").update(rows)
    tables = [s.to_bytes() for s in _tables()]
    return (
        *[s.to_bytes() for s in (*summaries, *empty, wild)],
        named,
        *tables,
    )


def _tables():
    """Summaries with a schema: one shard, and two of which one has no missing cells."""
    rows = np.array([[31.5, 0, 2], [np.nan, 3, 1], [40.0, 1, 2], [33.0, 2, np.nan]])
    options = {"families": {1: "poisson", 2: [1, 2]}, "missing": "model"}
    one = summarize(rows, 2, shard_id="a", **options)
    other = summarize([[38.5, 0, 2], [47.0, 1, 2]], 2, shard_id="b", **options)
    return one, one + other


@lru_cache
def small_models():
    """Models with and without names, joined columns and checksum."""
    found = []
    with temporary_folder() as folder:
        path = Path(folder) / "model.json"
        Mixture.diagonal([1.0], [[0.5]], [[2.0]]).save(path)
        found.append(path.read_bytes())
        mixture = Mixture.diagonal([0.25, 0.75], [[1, -2.5e-300], [3, 4e99]], [[1, 0], [0.1, 7]])
        mixture.save(path)
        found.append(path.read_bytes())
        names = Mixture.diagonal(mixture.weights, mixture.means, mixture.variances, ["x", "é\n"])
        names.save(path)
        found.append(path.read_bytes())
        tilted = [[4.0, 0.0, 0.5], [0.0, 2.0, 0.0], [0.5, 0.0, 0.25]]
        Mixture([1.0], [[1.0, 2.0, 3.0]], [tilted]).save(path)
        found.append(path.read_bytes())
    document = json.loads(found[2])
    del document["sha256"]
    return (*found, json.dumps(document).encode())


# -- judging ----------------------------------------------------------------------------------


def attempt(load, kind, place):
    """What was loaded or the message of the refusal, and the number of calls that this took.

    Any other error is a failure. Calls and returns of functions are counted, and not the time,
    which depends on the machine.
    """
    n = 0

    def count(*_):
        nonlocal n
        n += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        found, refusal = load(), None
    except kind as error:
        found, refusal = None, str(error)
    except Exception as error:
        raise AssertionError(f"{place}: untyped {type(error).__name__}: {error}") from error
    finally:
        sys.setprofile(before)
    return found, refusal, n


def loaded(data, load, kind, place):
    """What `load` gives, None where it refuses; raises if that costs too much or says too much."""
    found, refusal, n_calls = attempt(load, kind, place)
    assert n_calls < CALLS * len(data) + 5000, f"{place}: {n_calls} calls for {len(data)} bytes"
    assert len(refusal or "") < 1000, f"{place}: a message of {len(refusal)} characters"
    return found


def judge_summary(data, deep, place):
    """Count one summary; raises if what is accepted is not as written, or a reading fails."""
    summary = loaded(data, partial(MomentSummary.from_bytes, data), SummaryFileError, place)
    if summary is None:
        return "refused"
    again = summary.to_bytes()
    assert again == data, f"{place}: accepted but not canonical"
    use_summary(summary, deep)
    return "accepted"


def use_summary(summary, deep):
    """Read everything that a summary tells; only typed errors are allowed."""
    repr(summary)
    for name in ("minimum", "maximum", "sum_weights", "effective_rows"):
        assert not np.isnan(getattr(summary, name)).any(), name
    if not summary.n_rows:
        return
    assert np.isfinite(summary.mean).all()
    assert (summary.variance >= 0).all()
    if deep:
        try:
            moments = summary.moments()
            assert all(np.isfinite(x).all() for x in moments.distinct + moments.squared)
            summary.truncate(1, 0) + MomentSummary(summary.n_features, 1)
        except InputError:
            pass


def judge_model(data, path, place):
    """Count one model."""
    path.write_bytes(data)
    model = loaded(data, partial(Mixture.load, path), ModelFileError, place)
    if model is None:
        return "refused"
    repr(model)
    return "accepted"


# -- mutations of summaries -------------------------------------------------------------------

INTEGERS = [0, 1, -1, 2, 3, 7, 95, 96, 255, 4096, 4097, 10**6, 2**31, 2**62, 2**63, 2**64, 10**40]
STRANGE = [None, True, False, 0.5, 1e308, "", "0", "1", "-0", "00", "1e3", " 1", "9" * 400, [], {}]
STRANGE += [[0], [None], ["0"], "\ud800", "é", "\x00", ["a", "a"], {"a": 1}, -0.0, 1.0, [[]]]
DOUBLES = [0.0, -0.0, 1.0, -1.0, 5e-324, 1e-308, 1e300, -1e300, 1.8e308, -1.8e308]
DOUBLES += [float("nan"), float("inf"), float("-inf"), 2.0**1000, 2.0**1001, 1e9, -1e9]


class Pieces:
    """A summary file taken apart: header, and sections of integers."""

    def __init__(self, data):
        self.version, length = struct.unpack("<II", data[8:16])
        self.magic, self.extra = data[:8], b""
        self.header, at = json.loads(data[16 : 16 + length]), 16 + length
        counts = read_lengths(self.header)
        self.sections = []
        width = self.header["width"]
        for count in counts:
            raw = [data[at + width * i : at + width * (i + 1)] for i in range(count)]
            self.sections.append([int.from_bytes(x, "little", signed=True) for x in raw])
            at += width * count
        self.width = None  # as narrow as can be

    def pack(self):
        """The file again, with a checksum that is right."""
        narrow = max((_bytes(v) for values in self.sections for v in values), default=1)
        width = self.width or narrow
        if self.width is None and isinstance(self.header.get("width"), int):
            self.header["width"] = narrow
        raw = json.dumps(self.header, sort_keys=True, separators=(",", ":")).encode()
        body = b"".join(_packed(v, width) for values in self.sections for v in values)
        data = struct.pack("<8sII", self.magic, self.version, len(raw)) + raw + body + self.extra
        return data + hashlib.sha256(data).digest()


def _bytes(v):
    return (v if v >= 0 else ~v).bit_length() // 8 + 1


def _packed(v, width):
    return (v & ((1 << 8 * width) - 1)).to_bytes(width, "little")


def read_lengths(header):
    """Number of integers in each section, from the layout of the description."""
    d, m, q = header["n_features"], header["order"], header["squared_order"]
    found = [comb(d, t) for t in range(m + 1)] + [d * comb(d - 1, s) for s in range(q + 1)]
    return found + [d] * 4 + ([d * (d - 1), comb(d, 2)] if q else [])


def _value(rng):
    chance = rng.random()
    if chance < 0.5:
        return rng.choice(INTEGERS) * rng.choice([1, 1, -1])
    return deepcopy(rng.choice(STRANGE)) if chance < 0.9 else rng.randrange(-(2**70), 2**70)


def _near(old, rng):
    """A number next to an old one, in the form that the header has for it."""
    steps = [1, -1, 2, -5, 1 << 20, -(10**30)]
    if isinstance(old, str) and old.lstrip("-").isdigit():
        return str(int(old) + rng.choice(steps))
    return old + rng.choice(steps[:4]) if type(old) is int else _value(rng)


def _header_value(p, rng):
    """Another value of a key, or in a list of one."""
    key = rng.choice(list(p.header))
    holder, place = p.header, key
    if isinstance(p.header[key], list) and p.header[key] and rng.random() < 0.7:
        holder, place = p.header[key], rng.randrange(len(p.header[key]))
    holder[place] = rng.choice([_value, lambda rng: _near(holder[place], rng)])(rng)


def _header_shape(p, rng):
    """A key or an entry more or less."""
    key = rng.choice(list(p.header))
    way = rng.randrange(4)
    if way == 0:
        del p.header[key]
    elif way == 1:
        p.header[rng.choice(["extra", "", "Order", "order "])] = _value(rng)
    elif isinstance(p.header[key], list):
        p.header[key] = p.header[key][:-1] if way == 2 else p.header[key] * 2


def _integer(p, rng):
    """Another sum."""
    values = rng.choice(p.sections)
    if values:
        place = rng.randrange(len(values))
        old = values[place]
        flipped = old ^ (1 << rng.randrange(max(8, old.bit_length() + 8)))
        others = [-old, 0, flipped, rng.choice(values), rng.randrange(-(2**200), 2**200)]
        others += [old * rng.choice([2, 3, 1000, 2**600])]
        others += [old + rng.choice([1, -1, 2**20, -(2**20), 2**90, -(2**90)])] * 2
        values[place] = rng.choice(others)


def _section(p, rng):
    """All sums of a section, or the high ones, by a factor or lost."""
    place, factor = rng.randrange(len(p.sections)), rng.choice([-1, 0, 2, 3, 10**6])
    p.sections[place] = [v * factor for v in p.sections[place]]
    if rng.random() < 0.2:
        p.sections = p.sections[: -rng.choice([2, 4, 6])]


def _repeated_rows(p, rng):
    """All rows as often again: valid, if everything is multiplied."""
    factor = rng.choice([2, 3, 1000, 2**40])
    p.sections = [[v * factor for v in values] for values in p.sections]
    if rng.random() < 0.9 and type(p.header.get("n_rows")) is int:
        p.header["n_rows"] *= factor
    if rng.random() < 0.9 and str(p.header.get("weight_squares")).isdigit():
        p.header["weight_squares"] = str(int(p.header["weight_squares"]) * factor)


def _bound(p, rng):
    ends = p.header.get(rng.choice(["minimum", "maximum"]))
    if isinstance(ends, list) and ends:
        place = rng.randrange(len(ends))
        old = ends[place]
        near = [old + 1, old - 1, old * 2, old * (1 + 1e-16), -old] if type(old) is float else [0]
        ends[place] = rng.choice(DOUBLES) if rng.random() < 0.5 else rng.choice(near)


def _shards(p, rng):
    """Other shards, counts of their rows, or digests of what was forgotten."""
    shards, forgotten = p.header.get("shards"), p.header.get("forgotten")
    if not (isinstance(shards, dict) and isinstance(forgotten, dict)):
        return
    some = rng.choice([*shards, rng.randbytes(16).hex(), rng.randbytes(15).hex(), "A" * 32, ""])
    way = rng.randrange(4)
    if way == 0:
        shards[some] = rng.choice([0, 1, 2, 9, 2**63, -1, _value(rng)])
    elif way == 1:
        shards.pop(some, None)
    elif way == 2:
        forgotten[some] = rng.choice([f"{rng.getrandbits(128):x}", "0", "01", "A", _value(rng)])
    elif shards:
        p.header["shards"] = dict.fromkeys(shards, rng.choice([1, 20, 40]))


def _container(p, rng):
    way = rng.randrange(5)
    if way == 0:
        p.version = rng.choice([0, 1, 7, 9, 2**31])
    elif way == 1:
        p.magic = bytes([p.magic[0] ^ (1 << rng.randrange(8))]) + p.magic[1:]
    elif way == 2:
        p.extra = rng.randbytes(rng.randrange(1, 40))
    else:
        narrow = max((_bytes(v) for values in p.sections for v in values), default=1)
        p.width = p.header["width"] = max(1, narrow + rng.choice([1, -1, 8]))


MUTATIONS = [_header_value] * 5 + [_header_shape] + [_integer] * 3 + [_bound] * 2
MUTATIONS += [_section, _repeated_rows] + [_shards] * 2 + [_container]


def mutated_summary(rng):
    """A changed summary file; now and then its text instead of its pieces."""
    data = rng.choice(small_summaries())
    if rng.random() < 0.1:  # with something put in, taken out or replaced in the header
        length = struct.unpack("<I", data[12:16])[0]
        raw = edited(data[16 : 16 + length], rng)
        body = data[:12] + struct.pack("<I", len(raw)) + raw + data[16 + length : -32]
        return body + hashlib.sha256(body).digest()
    pieces = Pieces(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        rng.choice(MUTATIONS)(pieces, rng)
    return pieces.pack()


FRAGMENTS = [b" ", b"\n", b",", b"[", b"]", b"{", b"}", b'"', b"0", b"-", b"1e5", b"NaN", b"null"]
FRAGMENTS += [b"Infinity", b"true", b"\\u0000", b"\xff", b"\xc3\xa9", b"[" * 2000, b"9" * 5000]
FRAGMENTS += [b'"order":1,', b'"sha256":"",', b'"weights":[1.0],', b"/**/", b"\x00", b"1.0", b"\t"]


def edited(text, rng):
    """Text with something put in, taken out or replaced."""
    at, fragment = rng.randrange(len(text) + 1), rng.choice(FRAGMENTS)
    way = rng.randrange(3)
    if way == 0:
        return text[:at] + fragment + text[at:]
    stop = at + rng.choice([1, 1, 2, 5, 30])
    return text[:at] + (fragment if way == 1 else b"") + text[stop:]


# -- campaigns --------------------------------------------------------------------------------


def summary_mutations(start, stop, seed):
    """A case: a summary changed with its structure in mind, the checksum right."""
    counts = Counter()
    for number in range(start, stop):
        rng = random.Random(f"{seed} summary {number}")
        counts[judge_summary(mutated_summary(rng), number % 16 == 0, f"case {number}")] += 1
    return counts + Counter({"mutations": stop - start})


def flips(start, stop, seed):
    """A case: one small file, every single bit of it flipped, and every length it can be cut to."""
    counts = Counter()
    files = [("summary", data) for data in small_summaries()]
    files += [("model", data) for data in small_models()]
    with temporary_folder() as tmp:
        for number in range(start, stop):
            kind, data = files[number]
            for place in range(8 * len(data)):
                broken = bytearray(data)
                broken[place // 8] ^= 1 << place % 8
                counts[f"flipped bits, {_judged(kind, bytes(broken), tmp, place)}"] += 1
            for length in range(len(data)):
                counts[f"truncations, {_judged(kind, data[:length], tmp, length)}"] += 1
    return counts


def _judged(kind, data, folder, place):
    """A summary must be refused; a model may pass if it says the same as before."""
    if kind == "summary":
        result = judge_summary(data, False, place)
        assert result == "refused", f"accepted: {place}"
        return result
    path = Path(folder) / "model.json"
    result = judge_model(data, path, place)
    if result == "refused":
        return result
    known = [_values(original) for original in small_models()[:4]]
    mended = "sha256" not in json.loads(data)  # the name of the checksum was hit, or it has none
    assert mended or _values(data) in known, f"accepted: {place}"
    return "harmless"


def _values(data):
    return json.dumps(json.loads(data, parse_int=float), sort_keys=True)
