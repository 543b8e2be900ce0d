"""The codec: every value comes back as it was, deterministic, and damage is a ValueError."""

import collections
import contextlib
import datetime as dt
import enum
import fractions
import math
import pickle
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash.stores
from sash.aggregators import Recalc
from sash.stores import codec
from sash.stores.codec import dumps, loads
from tests.shared.discovery import monoids, sample_kinds, sample_rows

zones = st.sampled_from(
    [None, dt.UTC, dt.timezone(dt.timedelta(hours=-3, minutes=-30)), dt.timezone(dt.timedelta(hours=1), "here")]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(1 << 200), 1 << 200)
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.binary(max_size=8)
    | st.dates()
    | st.datetimes(timezones=zones)
    | st.times(timezones=zones)
    | st.timedeltas()
    | st.decimals()
)
keys = st.recursive(
    scalars.filter(lambda x: "nan" not in str(x).lower()),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)
values = st.recursive(
    scalars | keys,
    lambda inner: (
        st.lists(inner, max_size=20)
        | st.lists(inner, max_size=20).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
        | st.sets(keys, max_size=4)
    ),
    max_leaves=20,
)


def same(a, b):
    """Equal, with the same types throughout; NaN equals NaN, and 0.0 is not -0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, Decimal):
        return str(a) == str(b)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same([*a], [*b]) and same([*a.values()], [*b.values()])
    if isinstance(a, dt.datetime | dt.time):
        return repr(a) == repr(b)
    return a == b


@given(values)
def test_round_trip(value):
    data = dumps(value)
    assert type(data) is bytes
    again = loads(data)
    assert same(again, value)
    assert dumps(again) == data


@given(st.lists(st.integers(-(1 << 65), 1 << 65) | st.floats() | st.booleans(), max_size=20).map(tuple))
def test_tuples_of_numbers(value):
    assert same(loads(dumps(value)), value)


@pytest.mark.parametrize("edge", [2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 1 << 10_000, -(1 << 10_000)])
def test_integers_of_any_size(edge):
    for value in (edge, (edge,), (edge, 1.5), [edge]):
        assert same(loads(dumps(value)), value)


needs_zones = pytest.mark.skipif("Europe/Berlin" not in available_timezones(), reason="no time zones on this machine")


@needs_zones
def test_zones():
    berlin = dt.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))
    again = loads(dumps(berlin))
    assert (again, again.fold, again.tzinfo.key, again.utcoffset()) == (
        berlin,
        1,
        "Europe/Berlin",
        dt.timedelta(hours=1),
    )


@needs_zones
def test_a_zone_that_is_not_known():
    odd = dumps(dt.datetime(2024, 1, 1, tzinfo=ZoneInfo("Europe/Berlin"))).replace(b"Europe/Berlin", b"Europe/Atlant")
    with pytest.raises(ValueError, match="the zone 'Europe/Atlant', which this machine does not have"):
        loads(odd)

    class Own(dt.tzinfo):
        pass

    with pytest.raises(TypeError, match=r"a Own, cannot be written.*dump= and load="):
        dumps(dt.time(1, tzinfo=Own()))


@pytest.mark.parametrize(
    "value",
    [
        np.float64(0.1),
        np.float32(0.1),
        np.int8(-3),
        np.uint64(2**64 - 1),
        np.bool_(True),
        np.datetime64("2024-01-01T00:00:00.123", "ns"),
        np.timedelta64(5, "s"),
    ],
)
def test_numpy_scalars_keep_their_type(value):
    again = loads(dumps(value))
    assert again == value
    assert again.dtype == value.dtype
    assert type(again) is type(value)
    assert same(loads(dumps((value, 1))), (value, 1))


def test_sets_do_not_depend_on_their_order():
    words = [f"word{i}" for i in range(50)]
    backwards = words[::-1]
    assert dumps(set(words)) == dumps(set(backwards))
    assert dumps({frozenset(words), 1}) == dumps({1, frozenset(backwards)})
    nested = {(1, frozenset({(2, "x"), (1, "y")})), (1, frozenset({(3, "x")}))}
    backwards = [*nested][::-1]
    assert dumps(nested) == dumps(set(backwards))


def test_the_same_bytes_in_another_process():
    """Python's hashes differ between processes; encoded values do not depend on them."""
    code = "from sash.stores.codec import dumps; print(dumps({frozenset('abc'), 'd', ('e', None)}).hex())"
    source = str(Path(sash.stores.__file__).parents[2])
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": source},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert runs[0].strip() == dumps({frozenset("abc"), "d", ("e", None)}).hex()


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_other_kinds_of_bytes(kind):
    assert loads(kind(dumps((1, "a", b"b")))) == (1, "a", b"b")


def test_dicts_keep_their_order():
    assert [*loads(dumps({"b": 1, "a": 2}))] == ["b", "a"]


@pytest.mark.parametrize(
    "wrap", [lambda x: [x], lambda x: (x,), lambda x: {"a": x}, lambda x: frozenset({x}), lambda x: (1, [x, 2])]
)
def test_depth_is_no_limit(wrap):
    value = "end" if wrap("") != [""] else []
    for _ in range(20_000):
        value = wrap(value)
    data = dumps(value)
    assert dumps(loads(data)) == data


class Colour(enum.IntEnum):
    RED = 1


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (1j, "builtins.complex"),
        (object(), "builtins.object"),
        (Point(1, 2), "Point"),
        (Colour.RED, "Colour"),
        (collections.OrderedDict(), "collections.OrderedDict"),
        (bytearray(b"1"), "builtins.bytearray"),
        (np.zeros(3), "numpy.ndarray"),
        (np.complex128(1), "numpy.complex128"),
        (fractions.Fraction(1, 2), "fractions.Fraction"),
        (len, "builtins.builtin_function_or_method"),
    ],
)
def test_other_types_are_refused_by_name(value, named):
    with pytest.raises(TypeError, match=rf"{named} cannot be written as state: .*dump= and load="):
        dumps(value)
    for within in ([value], (1, value), {"a": (value,)}):
        with pytest.raises(TypeError, match=rf"{named} \(within a {type(within).__name__}\)"):
            dumps(within)


def test_what_contains_itself():
    loop: list[object] = [1]
    loop.append(({"a": loop},))
    with pytest.raises(ValueError, match="contains itself"):
        dumps(loop)
    twice = [[], [1, ()]]
    assert loads(dumps([twice, twice])) == [twice, twice], "twice is not within itself"


@given(values, st.data())
def test_truncated(value, data):
    whole = dumps(value)
    with pytest.raises(ValueError, match="damaged"):
        loads(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(ValueError, match="damaged"):
        loads(whole + b"_")


@given(values, st.data())
def test_damage_is_a_value_error_or_another_value(value, data):
    """A codec has no checksum, its page has one: what must not happen is any other exception, or a crash."""
    damaged = bytearray(dumps(value))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        loads(bytes(damaged))


@given(st.binary(max_size=60))
def test_noise(data):
    with contextlib.suppress(ValueError):
        loads(data)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "truncated"),
        (b"?", "unknown type"),
        (b"t\xff\xff\xff\xff_", "4294967295 items in 1 bytes"),
        (b"e\2\0\0\0TT", "a set contains an element twice"),
        (b"m\2\0\0\0TTTF", "a dict contains an element twice"),
        (b"m\1\0\0\0l\0\0\0\0T", "unhashable"),
        (b"n\1x", "numbers of kinds"),
        (b"n\0", "numbers of kinds"),
        (b"D\1\0\0\0x", "not a decimal"),
        (b"N\4\0\0\0|O 1", "damaged"),
        (b"y\0\0\0\0", "damaged"),
        (b"s\1\0\0\0\xff", "damaged"),
    ],
)
def test_damage_is_named(data, why):
    with pytest.raises(ValueError, match=why):
        loads(data)


@pytest.mark.parametrize("name", [name for name, monoid in monoids().items() if monoid.dump is None])
def test_the_states_of_our_aggregates(name):
    """States of aggregates without `dump` are written by the codec: identities, elements, aggregates."""
    monoid = monoids()[name]
    window = Recalc(monoid)
    states = [monoid.identity]
    for row in sample_rows(sample_kinds(monoid), 10):
        window.insert(*row[: monoid.arity[1]])
        states.append(window.aggregate())
    for state in [*states, *window]:
        assert same(loads(dumps(state)), state)


def test_no_pickle():
    """Nothing in the stores unpickles, and what pickle wrote is not read."""
    for path in Path(sash.stores.__file__).parent.glob("*.py"):
        text = path.read_text()
        assert not [word for word in ("import pickle", "marshal", "eval(", "exec(") if word in text], path
    with pytest.raises(ValueError, match="damaged"):
        loads(pickle.dumps((1, 2)))
    assert "pickle" not in vars(codec)
