"""A reader by someone who has read docs/file-format.md and docs/model-file.md alone.

It raises ``RefusedError`` for every file that deviates from the description, so that what momentmix
accepts can be judged by another.
"""

import hashlib
import json
import re
import struct
from fractions import Fraction
from itertools import combinations, pairwise
from math import comb, inf, isfinite, sqrt

KEYS = ["exact_bounds", "exponents", "feature_names", "n_features", "n_forgotten", "n_rows"]
KEYS += ["n_shards", "order", "quantum_bits", "replicates", "shifts", "squared_order"]
KEYS += ["weight_squares", "widths"]
KEYS_OF_VERSION = {1: KEYS, 2: sorted([*KEYS, "high", "reach"])}
KEYS_OF_VERSION[3] = KEYS_OF_VERSION[4] = sorted([*KEYS, "high", "reach", "schema"])
COLUMN_KEYS = ["center", "family", "has_missing", "levels", "name"]
MODEL_KEYS = ["format", "version", "weights", "means", "variances", "feature_names"]
MODEL_KEYS += ["fit", "sha256"]


class RefusedError(Exception):
    """The file is not what the description says."""


def need(condition):
    if not condition:
        raise RefusedError


def parsed(text):
    def unique(pairs):
        need(len(dict(pairs)) == len(pairs))
        return dict(pairs)

    def no_constant(_):
        raise RefusedError

    try:
        return json.loads(text.decode(), object_pairs_hook=unique, parse_constant=no_constant)
    except (ValueError, RecursionError):
        raise RefusedError from None


def whole(value, low, high):
    return type(value) is int and low <= value <= high


def listed(value, length, check):
    need(isinstance(value, list) and len(value) == length and all(check(one) for one in value))


def decimal(value):
    return isinstance(value, str) and len(value) <= 1000 and re.fullmatch("0|-?[1-9][0-9]*", value)


def check_names(names, d):
    if names is not None:
        listed(names, d, lambda name: isinstance(name, str))
        need(len(set(names)) == d)
        need(not any("\ud800" <= c <= "\udfff" for name in names for c in name))


# -- summaries --------------------------------------------------------------------------------


def check_header(raw, version):
    """The header as a dictionary, and its sections as (kind, size, groups)."""
    h = parsed(raw)
    need(isinstance(h, dict) and sorted(h) == KEYS_OF_VERSION[version])
    need(json.dumps(h, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode() == raw)
    d, m, q, g = (h[key] for key in ("n_features", "order", "squared_order", "replicates"))
    need(whole(d, 1, 2**62) and whole(m, 1, d) and whole(q, 0, m - 1))
    need(whole(g, 0, 4096) and g != 1)
    need(type(h["exact_bounds"]) is bool and whole(h["quantum_bits"], 96, 96))
    need(whole(h["n_shards"], 0, 2**62) and whole(h["n_forgotten"], 0, 2**62))
    listed(h["exponents"], d, lambda e: e is None or whole(e, -1022, 1023))
    listed(h["shifts"], d, decimal)
    if version == 1:
        h |= {"high": 0, "reach": [6] * d}
    complete = d > 1 and q >= 1 and (m >= 4 or d < 4)
    need(whole(h["high"], 0, 2 if complete else 1))
    listed(h["reach"], d, lambda r: whole(r, 2 if h["high"] else 6, 6))
    need(decimal(h["weight_squares"]))
    listed(h["n_rows"], max(g, 1), lambda n: whole(n, 0, 2**62))
    need(sum(h["n_rows"]) <= 2**62)
    check_names(h["feature_names"], d)
    low = [("S", t) for t in range(min(3, m) + 1)] + [("T", s) for s in range(min(1, q) + 1)]
    high = [("S", t) for t in range(4, m + 1)] + [("T", s) for s in range(2, q + 1)]
    high += [("P", p) for p in (3, 4, 5, 6)] if h["high"] else []
    high += [("C", 1), ("Q", 2)] if h["high"] == 2 else []
    listed(h["widths"], len(low + high), lambda width: whole(width, 1, 4096))
    return h, [(*x, max(g, 1) if x in low else 1) for x in low + high]


def is_transform(column):
    """Whether a column may have the transform that it has."""
    return column["family"] == "gaussian" and column["transform"] in ("log", "log1p")


def length_of(kind, size, d):
    """Number of sums of a section."""
    if kind == "S":
        return comb(d, size)
    return {"T": d * comb(d - 1, size), "P": d, "C": d * (d - 1), "Q": comb(d, 2)}[kind]


def read_summary(data):
    """Header, shard ids, bounds, and the integer sums {factors of the product: total}."""
    need(len(data) >= 48)
    magic, version, length = struct.unpack("<8sII", data[:16])
    need(magic == bytes.fromhex("894D4D530D0A1A0A") and version in (1, 2, 3, 4))
    need(length <= min(2**22, len(data) - 48))
    h, sections = check_header(data[16 : 16 + length], version)
    d, at = h["n_features"], 16 + length
    sizes = [length_of(*x, d) * g * w for (*x, g), w in zip(sections, h["widths"], strict=True)]
    mark = 16 + 8 * d if version > 1 else 0
    origin = 32 if version == 4 else 0
    lost = mark if version == 4 and h["n_forgotten"] else 0
    by_shard = 16 + mark + origin + lost
    need(len(data) == at + by_shard * h["n_shards"] + 16 * d + sum(sizes) + 32)
    need(hashlib.sha256(data[:-32]).digest() == data[-32:])
    shards = [data[at + 16 * i : at + 16 * (i + 1)] for i in range(h["n_shards"])]
    need(all(one < other for one, other in pairwise(shards)))
    at += 16 * len(shards)
    at += (mark + origin + lost) * len(shards)
    bounds = list(struct.unpack(f"<{2 * d}d", data[at : at + 16 * d]))
    at += 16 * d
    sums = {}
    for (kind, size, n_groups), width in zip(sections, h["widths"], strict=True):
        keys, values = names_of(kind, size, d), []
        for key in keys * n_groups:
            values.append(int.from_bytes(data[at : at + width], "little", signed=True))
            sums[key] = sums.get(key, 0) + values[-1]
            at += width
        need(width == max((v if v >= 0 else -v - 1).bit_length() for v in values) // 8 + 1)
        for key, value in zip(keys, values, strict=False):
            if kind in "PCQ" and min(h["reach"][i] for i in key) < len(key):
                need(not value)
    return h, shards, bounds, sums


def names_of(kind, size, d):
    """The sums of a section in their order, each by its factors."""

    def colex(members):
        return sorted(combinations(members, size), key=lambda chosen: chosen[::-1])

    if kind == "S":
        return colex(range(d))
    if kind == "P":
        return [(j,) * size for j in range(d)]
    if kind == "Q":
        return [(j, j, k, k) for j, k in colex(range(d))]
    own = 2 if kind == "T" else 3
    return [(j,) * own + c for j in range(d) for c in colex([i for i in range(d) if i != j])]


# -- models -----------------------------------------------------------------------------------


def read_model(data):
    """Weights, means, variances, names and blocks of a model."""
    need(len(data) <= 2**30)
    m = parsed(data)
    need(isinstance(m, dict) and m.get("format") == "momentmix.DiagonalMixture")
    need(type(m.get("version")) is int and m["version"] in (1, 2, 3))
    if m["version"] == 3:
        return read_table_model(m)
    need(("blocks" in m) == (m["version"] == 2))
    need(set(m) <= {*MODEL_KEYS, "blocks"} and isinstance(m.get("fit", {}), dict))
    r = check_weights(m.get("weights"))
    for key, low in (("means", -inf), ("variances", 0)):
        listed(m.get(key), r, lambda row: isinstance(row, list))
        for row in m[key]:
            listed(row, len(m["means"][0]), lambda x, low=low: number(x) and x >= low)
    need(m["means"][0])
    check_names(m.get("feature_names"), len(m["means"][0]))
    if m["version"] == 2:
        check_blocks(m)
    need("sha256" not in m or m["sha256"] == checksum(m))
    return m["weights"], m["means"], m["variances"], m.get("feature_names"), m.get("blocks")


def check_weights(weights):
    """Number of components."""
    need(isinstance(weights, list) and weights)
    listed(weights, len(weights), lambda w: number(w) and w >= 0)
    need(abs(sum(Fraction(w) for w in weights) - 1) <= Fraction(1, 10**9))
    return len(weights)


PARAMETERS = {"gaussian": ["means", "covariances"], "poisson": ["rates"]}
PARAMETERS |= {"bernoulli": ["probabilities"], "categorical": ["probabilities"]}


def read_table_model(m):
    """Weights, columns of the schema, and blocks of a model of version 3."""
    need(set(m) <= {"format", "version", "weights", "schema", "blocks", "fit", "sha256"})
    need(isinstance(m.get("fit", {}), dict))
    r, columns = check_weights(m.get("weights")), check_columns(m.get("schema"))
    need(isinstance(m.get("blocks"), list) and all(isinstance(b, dict) for b in m["blocks"]))
    places = []
    for block in m["blocks"]:
        need(isinstance(block.get("family"), str) and block["family"] in PARAMETERS)
        keys = PARAMETERS[block["family"]]
        need(set(block) == {"columns", "family", *keys, "seen"})
        own = block["columns"]
        need(isinstance(own, list) and own and all(whole(j, 0, len(columns) - 1) for j in own))
        need(all(a < b for a, b in pairwise(own)))
        places.append(own)
        check_family(block, [columns[j] for j in own], r)
    in_blocks = sorted(j for own in places for j in own)
    need(places == sorted(places) and in_blocks == list(range(len(columns))))
    need("sha256" not in m or m["sha256"] == table_checksum(m, columns))
    return m["weights"], columns, m["blocks"]


def check_columns(schema):
    """The columns of a schema."""
    need(isinstance(schema, dict) and set(schema) == {"columns"})
    columns = schema["columns"]
    need(isinstance(columns, list) and columns)
    for c in columns:
        need(isinstance(c, dict))
        need(sorted({*c} - {"transform", "other"}) == COLUMN_KEYS)
        need("transform" not in c or is_transform(c))
        need("other" not in c or c["other"] in c["levels"])
        need(isinstance(c["family"], str) and c["family"] in PARAMETERS)
        need(type(c["has_missing"]) is bool and number(c["center"]))
        need(not c["center"] or (c["family"] == "gaussian" and c["has_missing"]))
        levels = c["levels"]
        need(isinstance(levels, list) and len(set(map(repr, levels))) == len(levels))
        strings = all(isinstance(x, str) for x in levels)
        need(strings or all(type(x) in (int, bool) and abs(x) <= 2**53 for x in levels))
        need(len(set(levels)) == len(levels))
        if strings:
            check_names(levels, len(levels))
        sizes = {"bernoulli": (2, 2), "categorical": (2, inf)}.get(c["family"], (0, 0))
        need(sizes[0] <= len(levels) <= sizes[1])
    names = [c["name"] for c in columns]
    if names != [None] * len(names):
        check_names(names, len(names))
    need(any(c["family"] != "gaussian" or c["has_missing"] or "transform" in c for c in columns))
    return columns


def check_family(block, columns, r):
    """The numbers of a block, null where a component never sees the column."""
    family, k, seen = block["family"], len(columns), block["seen"]
    need(all(c["family"] == family for c in columns))
    need(all(c["has_missing"] == (seen is not None) for c in columns))
    need(k == 1 or (family == "gaussian" and seen is None))
    if seen is not None:
        listed(seen, r, lambda q: number(q) and 0 <= q <= 1)
        need(any(q >= 1e-6 for q in seen))
    for i in range(r):
        never = seen is not None and seen[i] < 1e-6
        for key in PARAMETERS[family]:
            listed(block[key], r, lambda x: True)
            value = block[key][i]
            if never:
                need(value in (None, [None] * len(columns[0]["levels"]), [None], [[None]]))
            elif key == "rates":
                need(number(value) and 0 <= value <= 2**53)
            elif family == "bernoulli":
                need(number(value) and 0 <= value <= 1)
            elif family == "categorical":
                listed(value, len(columns[0]["levels"]), lambda p: number(p) and p >= 0)
                need(abs(sum(value) - 1) <= 1e-9)
            elif key == "means":
                listed(value, k, number)
            else:
                listed(value, k, lambda row: isinstance(row, list))
                for row in value:
                    listed(row, k, number)
                need(all(value[a][b] == value[b][a] for a in range(k) for b in range(k)))
                variances = [float(value[a][a]) for a in range(k)]
                need(min(variances) >= 0)
                check_correlations(value, variances)


def table_checksum(m, columns):
    """Of weights, columns, centers and the numbers of the blocks; null is NaN."""

    def compact(value):
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    def numbers(rows):
        data = b"".join(
            bytes.fromhex("000000000000f87f") if x is None else struct.pack("<d", x)
            for row in rows
            for x in row
        )
        return struct.pack("<QQ", len(rows), len(rows[0])) + data

    data = numbers([m["weights"]])
    data += compact([{k: v for k, v in c.items() if k != "center"} for c in columns])
    data += numbers([[c["center"] for c in columns]])
    for block in m["blocks"]:
        data += compact([block["columns"], block["family"]])
        for key in (*PARAMETERS[block["family"]], "seen"):
            table = block[key]
            if key == "covariances":
                table = [[x for row in matrix for x in row] for matrix in table]
            if table is not None:
                data += numbers(table if isinstance(table[0], list) else [table])
    if "fit" in m:
        data += compact(m["fit"])
    return hashlib.sha256(data).hexdigest()


def check_blocks(m):
    """Blocks of columns that do not overlap, each with a covariance for every component."""
    r, d, seen = len(m["weights"]), len(m["means"][0]), set()
    need(isinstance(m["blocks"], list) and m["blocks"])
    for block in m["blocks"]:
        need(isinstance(block, dict) and set(block) == {"columns", "family", "covariances"})
        columns, tables = block["columns"], block["covariances"]
        need(isinstance(columns, list) and len(columns) >= 2 and block["family"] == "gaussian")
        need(all(whole(j, 0, d - 1) for j in columns))
        need(all(a < b for a, b in pairwise(columns)) and not seen & set(columns))
        seen |= set(columns)
        k = len(columns)
        listed(tables, r, lambda table: isinstance(table, list))
        for i, table in enumerate(tables):
            listed(table, k, lambda row: isinstance(row, list))
            for row in table:
                listed(row, k, number)
            need(all(table[a][b] == table[b][a] for a in range(k) for b in range(k)))
            variances = [float(m["variances"][i][j]) for j in columns]
            need([float(table[a][a]) for a in range(k)] == variances)
            check_correlations(table, variances)


def check_correlations(table, variances):
    """No eigenvalue below −1e-9: then the correlations plus 1e-9 on the diagonal have roots."""
    k = len(table)
    known = [[0.0] * k for _ in range(k)]
    for a in range(k):
        for b in range(k):
            if table[a][b]:
                need(variances[a] > 0 and variances[b] > 0)
                known[a][b] = table[a][b] / sqrt(variances[a]) / sqrt(variances[b])
        known[a][a] += 1e-9
    for step in range(k):  # elimination; all pivots of a positive definite matrix are positive
        need(known[step][step] > 0)
        for a in range(step + 1, k):
            factor = known[a][step] / known[step][step]
            known[a] = [x - factor * y for x, y in zip(known[a], known[step], strict=True)]


def checksum(m):
    """Of the numbers as doubles with their counts, of the names, of the record of the fit."""
    data = b""
    for table in ([m["weights"]], m["means"], m["variances"]):
        data += struct.pack("<QQ", len(table), len(table[0]))
        data += b"".join(struct.pack("<d", x) for row in table for x in row)
    for block in m.get("blocks", []):
        data += json.dumps([block["columns"], block["family"]], separators=(",", ":")).encode()
        k = len(block["columns"])
        data += struct.pack("<QQ", len(block["covariances"]), k * k)
        numbers = [x for table in block["covariances"] for row in table for x in row]
        data += b"".join(struct.pack("<d", x) for x in numbers)
    text = json.dumps(m.get("feature_names"), separators=(",", ":"))
    if "fit" in m:
        text += json.dumps(m["fit"], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(data + text.encode()).hexdigest()


def number(value):
    """A finite double."""
    if type(value) is int:
        return abs(value) < 2**1024 - 2**970  # rounds to a finite double
    return type(value) is float and isfinite(value)
