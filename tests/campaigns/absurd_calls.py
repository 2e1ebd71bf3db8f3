"""Call every function of the compiled module with absurd arguments, in a process of its own.

Valid arguments are those of calls that a few fits and summaries make; each call changes some of
them: sizes, dtypes, strides, lengths, contents, memory that must not be written. A call may raise
one of `EXPECTED` and nothing else; memory beside its arrays and read-only arrays must not change.

    python absurd_calls.py SEED N_CALLS FILE

The file holds the call that is under way: after a crash, the one that crashed.
"""

import os
import sys
import warnings

import numpy as np

import momentmix as mm
from momentmix.native import code

EXPECTED = (BufferError, MemoryError, OverflowError, TypeError, ValueError)
MOST_BASES = 3  # calls of each function with other shapes
# AddressSanitizer watches what is beside an array; without it, numbers beside it that must stay.
MARGIN = 0 if "asan" in os.environ.get("LD_PRELOAD", "") else 64
SIZES = [0, 1, 2, 3, 7, 255, 2**31, 2**32, 2**53, 2**60, 2**61 + 1, 2**62, 2**63 - 1, 2**64]
SIZES += [-size for size in SIZES if size] + [-(2**63)]


def functions():
    return {name: value for name, value in vars(code).items() if callable(value) and name[0] != "_"}


def use_the_library():
    """Call functions of the library that need all functions of the module."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((80, 3)) + 4.0 * (np.arange(80) < 40)[:, None]
    long = mm.summarize(rng.standard_normal((5000, 3)), 3, n_threads=2)
    weighted = mm.summarize(1.0 + 5.0 * rng.standard_normal((3000, 3)), 3, np.full(3000, 2.0))
    mm.MomentSummary.from_bytes((long + weighted).to_bytes())
    mm.summarize(rows, 3).forget(rows[:5])
    table = {f"x{j}": rows[:, j] for j in range(3)}
    table["count"], table["level"] = rng.poisson(3.0, 80), rng.choice(["a", "b", "c"], 80)
    for name in ("number", "times"):
        table[name] = np.where(rng.random(80) < 0.3, np.nan, rng.poisson(5.0, 80))
    families = {"count": "poisson", "times": "poisson", "number": "gaussian"}
    mm.fit(table, 2, families=families, missing="model", random_state=0)
    mixture = mm.fit(rows, 2, blocks=[[0, 1]], random_state=0).mixture
    for method in (mixture.predict, mixture.predict_proba, mixture.log_prob):
        method(rows)
    code.use(code.use()[0])


def copied(value):
    if isinstance(value, tuple):
        return tuple(map(copied, value))
    return np.array(value) if isinstance(value, np.ndarray) else value


def shape_of(value):
    if isinstance(value, tuple):
        return tuple(map(shape_of, value))
    return value.shape if isinstance(value, np.ndarray) else type(value)


def chosen(keys):
    """Some of many, from all over."""
    return keys[:: max(1, len(keys) // MOST_BASES)][:MOST_BASES]


def recorded():
    """Arguments of calls that the library makes, for each function of the module."""
    own, calls = functions(), {name: {} for name in functions()}

    def recorder(name):
        def call(*arguments):
            calls[name].setdefault(str(shape_of(arguments)), copied(arguments))
            return own[name](*arguments)

        return call

    for name in own:
        setattr(code, name, recorder(name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        use_the_library()
    for name, function in own.items():
        setattr(code, name, function)
    # Threads call in any order: the same ones in every run.
    bases = {name: [found[key] for key in chosen(sorted(found))] for name, found in calls.items()}
    missing = sorted(name for name, found in bases.items() if not found)
    assert not missing, f"functions without valid arguments: {missing}; see use_the_library"
    return bases


# -- changes of one argument --------------------------------------------------------------------


def misaligned(x):
    memory = np.zeros(x.nbytes + 1, dtype=np.uint8)
    view = memory[1:].view(x.dtype).reshape(x.shape)
    view[...] = x
    return view


def packed_records(x):
    records = np.zeros(x.shape, dtype=[("id", "i4"), ("v", x.dtype)])
    records["v"] = x
    return records["v"]


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


def with_value(value):
    def change(x, rng):
        x = x.copy()
        if x.size and x.dtype.kind in "iuf":
            limits = None if x.dtype.kind == "f" else np.iinfo(x.dtype)
            number = value if limits is None else min(max(int(value), limits.min), limits.max)
            x.flat[rng.integers(x.size)] = number
        return x

    return change


def swapped(x):
    return x.astype(x.dtype.newbyteorder())


OF_ARRAYS = [
    *(
        lambda x, rng, f=f: f(x)
        for f in (
            misaligned, packed_records, read_only, swapped,
            lambda x: x[:0], lambda x: x.ravel()[:0], lambda x: x.ravel()[:-1],
            lambda x: x.ravel()[1:], lambda x: x.ravel()[: x.size // 2], np.ravel, np.transpose,
            lambda x: x[None], lambda x: x[..., None], lambda x: x[::-1], lambda x: x[::2],
            lambda x: np.repeat(x, 2, axis=-1)[..., ::2], np.asfortranarray,
            lambda x: np.broadcast_to(x.flat[0] if x.size else x.dtype.type(0), x.shape),
            lambda x: np.concatenate([x.ravel()] * 3), lambda x: np.array(x.flat[0]),
            lambda x: x.tobytes(), lambda x: bytearray(x.tobytes()), lambda x: memoryview(x),
            lambda x: x.tolist(), lambda x: None, lambda x: "text", lambda x: 3,
            lambda x: x * 0, lambda x: x - 1, lambda x: x + 1,
        )
    ),
    *(
        lambda x, rng, dtype=dtype: x.astype(dtype)
        for dtype in ("f4", "f8", "i8", "u8", "i4", "i1", "?", "c16", "O", "U4", "M8[s]", "V8")
    ),
    *(with_value(v) for v in (0, -1, 1, 2, 65, 1e308, -1e308, 2**31, 2**62, 2**63 - 1, -(2**63))),
]  # fmt: skip
OF_FLOATS_IN_ARRAYS = [with_value(v) for v in (np.nan, np.inf, -np.inf, 5e-324)]


def changes_of(value):
    """Functions (value, rng) → another value."""
    if isinstance(value, np.ndarray):
        return OF_ARRAYS + (OF_FLOATS_IN_ARRAYS if value.dtype.kind == "f" else [])
    others = [None, "text", "avx2", b"12345678", np.zeros(3), np.zeros(0), (), 1.5]
    if isinstance(value, int):
        others += [*SIZES, value - 1, value + 1, 2 * value]
    if isinstance(value, float):
        others += [0.0, -1.0, np.nan, np.inf, -np.inf, 1e308]
    return [lambda _, rng, x=x: x for x in others]


def places_of(arguments):
    """Where each argument is, those in tuples too."""
    for i, value in enumerate(arguments):
        yield (i,)
        if isinstance(value, tuple):
            yield from ((i, *rest) for rest in places_of(value))


def value_at(arguments, place):
    return arguments if not place else value_at(arguments[place[0]], place[1:])


def with_change(arguments, place, change):
    if not place:
        return change(arguments)
    i, *rest = place
    return (*arguments[:i], with_change(arguments[i], rest, change), *arguments[i + 1 :])


def changed(arguments, place, which, rng):
    """The arguments with one of the changes at a place; as they are where it does not suit."""
    changes = changes_of(value_at(arguments, place))

    def change(value):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # casts
            try:
                return changes[which % len(changes)](value, rng)
            except Exception:  # no cast, or no such view
                return value

    return with_change(arguments, place, change)


# -- calls --------------------------------------------------------------------------------------


def guarded(value, memories):
    """Arrays in memory whose other numbers can be checked."""
    if isinstance(value, tuple):
        return tuple(guarded(x, memories) for x in value)
    if not isinstance(value, np.ndarray) or not value.flags.carray or value.dtype.kind not in "fiu":
        return value
    memory = np.full(value.nbytes + 16 * MARGIN, 0x5A, dtype=np.uint8)
    inside = slice(8 * MARGIN, 8 * MARGIN + value.nbytes)
    memories.append((memory, inside))
    view = memory[inside].view(value.dtype).reshape(value.shape)
    view[...] = value
    return view


def arrays_in(value):
    if isinstance(value, tuple):
        for x in value:
            yield from arrays_in(x)
    elif isinstance(value, np.ndarray):
        yield value


class Caller:
    """Make calls, and count those that were refused."""

    def __init__(self, file):
        self.file, self.n_calls, self.n_refused = file, 0, 0

    def __call__(self, name, arguments, label):
        self.file.seek(0)
        self.file.write(f"{name}, {label}".ljust(200) + "\n")
        self.file.flush()
        memories = []
        arguments = guarded(arguments, memories)
        kept = [(x, x.tobytes()) for x in arrays_in(arguments) if not x.flags.writeable]
        self.n_calls += 1
        try:
            getattr(code, name)(*arguments)
        except EXPECTED:
            self.n_refused += 1
        for memory, inside in memories:
            outside = np.concatenate([memory[: inside.start], memory[inside.stop :]])
            assert (outside == 0x5A).all(), "numbers beside an array were written"
        assert all(x.tobytes() == before for x, before in kept), "a read-only array was written"


def main():
    seed, n_random = (int(argument) for argument in sys.argv[1:3])
    bases = recorded()
    with open(sys.argv[3], "w", encoding="utf-8") as file:
        call = Caller(file)
        for instructions in code.use():
            rng = np.random.default_rng(seed)
            for name, found in bases.items():
                for n, arguments in enumerate(found):
                    code.use(instructions)
                    refused = call.n_refused
                    call(name, arguments, f"valid call {n}")
                    assert call.n_refused == refused, f"a valid call of {name} was refused"
                    call(name, arguments[:-1], "one fewer")
                    call(name, (*arguments, 0), "one more")
                    for place in places_of(arguments):
                        for which in range(len(changes_of(value_at(arguments, place)))):
                            other = changed(copied(arguments), place, which, rng)
                            call(name, other, f"valid call {n}, {place}, change {which}")
            names = list(bases)
            for i in range(n_random):
                code.use(instructions)
                name = names[rng.integers(len(names))]
                arguments = copied(bases[name][rng.integers(len(bases[name]))])
                for _ in range(rng.integers(2, 5)):
                    places = list(places_of(arguments))
                    if places:
                        place = places[rng.integers(len(places))]
                        arguments = changed(arguments, place, int(rng.integers(1 << 30)), rng)
                call(name, arguments, f"instructions {instructions}, random call {i}")
    print(len(bases), call.n_calls, call.n_refused)


if __name__ == "__main__":
    main()
