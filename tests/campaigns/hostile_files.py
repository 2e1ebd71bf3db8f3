"""Files that were changed with their structure in mind, and what may become of them.

A changed file is refused with a typed error, or what it says is valid: a summary that is written
again byte by byte, a model that is whole and can be used.
"""

import hashlib
import json
import random
import struct
import warnings
from collections import Counter
from functools import lru_cache
from pathlib import Path

import numpy as np

import momentmix as mm
from campaigns.folders import temporary_folder
from momentmix.errors import MomentmixError, SummaryFileError
from momentmix.fitting.record import load_fit

# Values as JSON has them: of other types, out of range, and too long.
NASTY = [
    "1" + "0" * 400, "-1" + "0" * 400, "1" + "0" * 5000, str(2**63), "-1", "0", "1.5", "-0.0",
    "1e308", "-1e308", "1e-308", "5e-324", "1e999", "NaN", "Infinity", "true", "null", '""', '"x"',
    '"01"', '"\\ud800"', '"\\u001b[31m"', "[]", "[[]]", "[1]", "{}", '{"a": 1}',
    "[" * 900 + "]" * 900,
]  # fmt: skip
MARK = "@"


# -- the files ------------------------------------------------------------------------------------


@lru_cache
def summaries():
    """Bytes of summaries: empty, merged, forgotten, weighted, with names, with a schema."""
    rng = np.random.default_rng(0)
    rows = 3 * rng.standard_normal((20, 2)) + [0, 1000]
    one = mm.MomentSummary(2, 2, shard_id="a").update(rows)
    merged = one + mm.MomentSummary(2, 2, shard_id="b").update(np.eye(2))
    weighted = mm.MomentSummary(1, 1, shard_id="w")
    weighted.update(rng.standard_normal((5, 1)) * 1e-30, rng.uniform(0.1, 3, 5))
    named = mm.MomentSummary(3, 3, ["a", "ü\n", ""], 2, shard_id="n").update(np.eye(3)[[0, 1, 1]])
    table = [[31.5, 0, 2], [np.nan, 3, 1], [40.0, 1, 2], [33.0, 2, np.nan]]
    options = {"families": {1: "poisson", 2: [1, 2]}, "missing": "model"}
    found = [one, mm.MomentSummary(2, 2), merged, one.copy().forget(rows[:3]) or one, weighted]
    found += [named, mm.summarize(np.array(table), 2, shard_id="t", **options)]
    return tuple(summary.to_bytes() for summary in found)


@lru_cache
def models():
    """Texts of models without their checksums: a fit, and one of every family."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 3)) + 4.0 * rng.integers(0, 2, (300, 1))
    blocks = [
        mm.GaussianBlock([1.0, 9.0], [1.0, 4.0], "a", seen=[0.5, 1.0]),
        mm.GaussianBlock(np.zeros((2, 2)), [np.eye(2) + 0.5] * 2, ("b", "c")),
        mm.BernoulliBlock([0.25, 0.5], ("no", "yes"), names="d"),
        mm.CategoricalBlock(
            [[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]], (1, 2, 3), names="e", seen=[0.9, 0.1]
        ),
        mm.PoissonBlock([1.0, 5.0], names="f"),
    ]
    fit = mm.fit(dict(zip("abc", rows.T, strict=True)), 2, random_state=0)
    found = []
    with temporary_folder() as folder:
        for model in (fit, mm.Mixture.from_blocks([0.25, 0.75], blocks)):
            path = Path(folder) / "model.json"
            model.save(path)
            document = json.loads(path.read_text())
            del document["sha256"]
            found.append(json.dumps(document))
    return tuple(found)


# -- changes --------------------------------------------------------------------------------------


def header_of(data):
    """The text of a summary's header, and where it ends."""
    stop = 16 + struct.unpack("<I", data[12:16])[0]
    return data[16:stop].decode(), stop


def rebuilt(data, header=None, body=None):
    """A summary with another header or body, and a checksum that is right."""
    old, stop = header_of(data)
    raw = (old if header is None else header).encode("utf-8", "surrogatepass")
    raw = data[:12] + struct.pack("<I", len(raw)) + raw + (data[stop:-32] if body is None else body)
    return raw + hashlib.sha256(raw).digest()


def positions(value, n_entries=3, place=()):
    """Where every object, list and leaf of a document stands; the first entries of each list."""
    yield place
    keys = list(value) if isinstance(value, dict) else []
    keys = [*range(len(value))][:n_entries] if isinstance(value, list) else keys
    for key in keys:
        yield from positions(value[key], n_entries, (*place, key))


def replaced(text, place, value):
    """A document with another value at a place, as text; nothing where the value is None."""
    document = json.loads(text)
    holder = document
    for key in place[:-1]:
        holder = holder[key]
    if not place:
        return value or "{}"
    if value is None:
        del holder[place[-1]]
    else:
        holder[place[-1]] = MARK
    compact = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return compact if value is None else compact.replace(f'"{MARK}"', value)


def near(text, place, rng):
    """A value like the one that is there: another sign, one more, twice, or longer."""
    value = json.loads(text)
    for key in place:
        value = value[key]
    if isinstance(value, str) and value.lstrip("-").isdigit():
        return f'"{int(value) + rng.choice([1, -1, 1 << 20, -(10**30)])}"'
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return json.dumps(rng.choice([value + 1, value - 1, -value, 2 * value, 1000 * value]))
    if isinstance(value, list):
        return json.dumps(rng.choice([value[:-1], value * 2, value[::-1]]))
    return rng.choice(NASTY)


def changed_text(text, rng):
    """A document with one value changed, lost, or a stretch of its characters replaced."""
    way = rng.random()
    if way < 0.1:
        at = rng.randrange(len(text))
        fragment = rng.choice([" ", ",", "[", "}", '"', "1e5", "NaN", "\x00", '"more":1,'])
        return text[:at] + fragment + text[at + rng.choice([0, 1, 5]) :]
    place = rng.choice(list(positions(json.loads(text))))
    if way < 0.2:
        return replaced(text, place, None)
    return replaced(text, place, near(text, place, rng) if way < 0.6 else rng.choice(NASTY))


def changed_summary(rng):
    """A summary file with another header or other sums, and a checksum that is right."""
    data = rng.choice(summaries())
    text, stop = header_of(data)
    if rng.random() < 0.7:
        return rebuilt(data, changed_text(text, rng))
    body = bytearray(data[stop:-32])
    if body:
        for at in rng.choices(range(len(body)), k=rng.choice([1, 1, 3])):
            body[at] ^= 1 << rng.randrange(8)
    if rng.random() < 0.2:
        body = body[: -rng.randrange(1, 40)]
    return rebuilt(data, body=bytes(body))


# -- judging --------------------------------------------------------------------------------------


def judge_summary(data):
    try:
        summary = mm.MomentSummary.from_bytes(data)
    except SummaryFileError as error:
        message = str(error)
        assert len(message) < 1000
        return "refused"
    assert summary.to_bytes() == data, "accepted but not canonical"
    repr(summary)
    for name in ("minimum", "maximum", "sum_weights", "effective_rows"):
        assert not np.isnan(getattr(summary, name)).any(), name
    if summary.n_rows:
        assert np.isfinite(summary.mean).all()
        assert (summary.variance >= 0).all()
    return "accepted"


def judge_model(text, path):
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        alone = mm.Mixture.load(path)
    except MomentmixError:
        alone = None
    try:
        mixture = load_fit(path)[0]
    except MomentmixError as error:
        message = str(error)
        assert message.isprintable()
        assert str(path) in message
        assert len(message) < 900
        return "refused"
    assert alone is not None
    json.dumps(mixture.to_dict(), allow_nan=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            drawn = mixture.sample(5, 0)[0]
            logs, labels = mixture.log_prob(drawn), mixture.predict(drawn)
        except MomentmixError:  # numbers beyond what densities can be computed of
            return "accepted"
    assert not np.isnan(logs).any()
    assert set(labels) <= {-1, 0, 1}
    return "accepted"


# -- the campaign ---------------------------------------------------------------------------------


def hostile_files(start, stop, seed):
    """A case: a summary and a model, each with one change."""
    counts = Counter()
    with temporary_folder() as folder:
        for number in range(start, stop):
            rng = random.Random(f"{seed} hostile {number}")
            try:
                counts["summary", judge_summary(changed_summary(rng))] += 1
                text = changed_text(rng.choice(models()), rng)
                counts["model", judge_model(text, Path(folder) / "model.json")] += 1
            except Exception as error:
                raise AssertionError(f"case {number}: {type(error).__name__}: {error}") from error
    return counts
