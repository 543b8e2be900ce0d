"""Minimum, maximum, how often, what came with them, and how far apart they are."""

import math
from datetime import date
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.monoids.algebra import Kind, Monoid, agree
from sash.monoids.extremes import ArgMax, ArgMin, Max, MaxCount, Min, MinCount, Range
from sash.testing import check_laws
from tests.monoids.test_first_last import FLOATS, INT64, OF_KIND, TEXT, Rows, folds, lawful, one, results

KINDS: list[Kind] = ["bool", "int", "float"]
SINGLE: list[Monoid] = [Min(), Max(), MinCount(), MaxCount()]
PAYLOAD: list[Monoid] = [ArgMin(), ArgMax()]
NAN = math.nan
INF = math.inf
LARGEST = 1.7976931348623157e308
SMALL_FLOATS = st.sampled_from([NAN, INF, -INF, 0.0, -0.0, 1.0])
"""Few values, so that there are ties."""


# ---- laws ----


@pytest.mark.parametrize("monoid", SINGLE, ids=repr)
def test_laws(monoid: Monoid) -> None:
    for values in (FLOATS, SMALL_FLOATS, INT64, TEXT, st.dates(), st.tuples(st.integers(0, 2), TEXT)):
        lawful(monoid, values)()
    for kind in KINDS:
        lawful(monoid.typed(kind), OF_KIND[kind])()
    lawful(monoid.typed("float"), SMALL_FLOATS)()


@pytest.mark.parametrize("monoid", PAYLOAD, ids=repr)
def test_laws_with_payload(monoid: Monoid) -> None:
    lawful(monoid, SMALL_FLOATS, st.none() | TEXT)()
    lawful(monoid, TEXT, FLOATS)()
    for value in KINDS:
        for payload in KINDS:
            lawful(monoid.typed(value, payload), OF_KIND[value], OF_KIND[payload])()
    lawful(monoid.typed("float", "int"), SMALL_FLOATS, INT64)()


def test_laws_of_range() -> None:
    lawful(Range(), FLOATS | INT64 | st.booleans())()
    for kind in KINDS:
        lawful(Range().typed(kind), OF_KIND[kind])()


@pytest.mark.parametrize("monoid", [*SINGLE, *PAYLOAD, Range()], ids=repr)
def test_nothing_gives_null(monoid: Monoid) -> None:
    assert monoid.lower(monoid.identity) is None
    assert monoid.nothing() is None


def test_what_is_declared() -> None:
    assert all(m.commutative and m.exact for m in (*SINGLE, Range()))
    assert all(m.selective and m.exact and not m.commutative for m in PAYLOAD)
    assert Min().selective
    assert Max().selective
    assert not any(m.selective for m in (MinCount(), MaxCount(), Range()))
    assert all(m.inverse is None for m in (*SINGLE, *PAYLOAD, Range()))
    assert [m.name for m in (*SINGLE, *PAYLOAD)] == ["min", "max", "min_count", "max_count", "arg_min", "arg_max"]


@pytest.mark.parametrize("monoid", [*SINGLE, Range()], ids=repr)
def test_unknown_kinds_are_refused(monoid: Monoid) -> None:
    text: Any = "text"
    with pytest.raises(TypeError, match=f"{monoid.name} .*'text'"):
        monoid.typed(text)


def test_a_payload_needs_two_columns() -> None:
    with pytest.raises(TypeError, match="arg_max reads 2"):
        ArgMax().typed("int")


# ---- minimum and maximum ----


@pytest.mark.parametrize(
    ("values", "least", "greatest"),
    [
        ([3, 1, 2], 1, 3),
        ([True, False], False, True),
        ([3.0, NAN, 1.0], NAN, NAN),
        ([NAN, INF, -INF], NAN, NAN),
        ([INF, -INF], -INF, INF),
        ([-INF], -INF, -INF),
        ([INF], INF, INF),
        ([-(2**63)], -(2**63), -(2**63)),
        ([2**63 - 1], 2**63 - 1, 2**63 - 1),
    ],
)
def test_examples(values: list[Any], least: Any, greatest: Any) -> None:
    kinds: dict[type, Kind] = {bool: "bool", int: "int", float: "float"}
    kind = kinds[type(values[0])]
    for m, wanted in ((Min(), least), (Max(), greatest), (Min().typed(kind), least), (Max().typed(kind), greatest)):
        found = results(m, one(values))
        assert agree(found, wanted)
        assert type(found) is type(wanted)


def test_whatever_has_an_order() -> None:
    assert results(Min(), one(["b", "a", ""])) == ""
    assert results(Max(), one([date(2020, 1, 1), date(2021, 1, 1)])) == date(2021, 1, 1)
    assert results(Max(), one([(1, "b"), (1, "a")])) == (1, "b")


def test_of_equals_the_first_stays() -> None:
    first, second = "ab" * 2, "a" + "bab"
    for m in (Min(), Max()):
        assert m.combine(first, second) is first
        assert not m.picks_right(first, second)
        assert type(m.combine(1, 1.0)) is int
        assert math.copysign(1.0, m.combine(-0.0, 0.0)) == -1.0


@given(st.lists(FLOATS, min_size=1))
def test_they_are_those_of_numpy(values: list[float]) -> None:
    for m, wanted in ((Min(), np.min(values)), (Max(), np.max(values))):
        assert agree(results(m, one(values)), float(wanted))
        assert agree(results(m.typed("float"), one(values)), float(wanted))


# ---- how often ----


@pytest.mark.parametrize(
    ("values", "least", "greatest"),
    [
        ([1, 3, 1, 2], 2, 1),
        ([5.0], 1, 1),
        ([-INF, -INF, 0.0], 2, 1),
        ([INF, INF], 2, 2),
        ([NAN, 1.0, NAN, 1.0], 2, 2),
        ([0.0, -0.0], 2, 2),
    ],
)
def test_how_often(values: list[Any], least: int, greatest: int) -> None:
    kind: Kind = "int" if type(values[0]) is int else "float"
    for m, wanted in ((MinCount(), least), (MaxCount(), greatest)):
        assert results(m, one(values)) == results(m.typed(kind), one(values)) == wanted


@given(st.lists(st.integers(0, 3) | st.sampled_from([-(2**63), 2**63 - 1]), min_size=1))
def test_how_often_equals_count(values: list[int]) -> None:
    for m, extreme in ((MinCount(), min(values)), (MaxCount(), max(values))):
        assert results(m, one(values)) == results(m.typed("int"), one(values)) == values.count(extreme)


def test_strings_are_counted() -> None:
    assert results(MaxCount(), one(["b", "a", "b"])) == 2


# ---- what came with them ----


def best(rows: Rows, greatest: bool) -> Any:
    """The payload of the first NaN, else of the first extreme value."""
    for value, payload in rows:
        if value != value:
            return payload
    extreme = (max if greatest else min)(value for value, _ in rows)
    return next(payload for value, payload in rows if value == extreme)


@given(st.lists(st.tuples(SMALL_FLOATS, INT64), min_size=1))
def test_the_payload_of_the_first_extreme(rows: Rows) -> None:
    for m, greatest in ((ArgMin(), False), (ArgMax(), True)):
        for form in (m, m.typed("float", "int")):
            assert {form.lower(state) for state in folds(form, rows)} == {best(rows, greatest)}


@pytest.mark.parametrize("value", [-INF, INF, NAN, 0.0])
def test_no_value_stands_for_nothing(value: float) -> None:
    for m in PAYLOAD:
        for form in (m, m.typed("float", "int")):
            assert results(form, [(value, 7)]) == 7
            assert form.lifted((None, 7)) == form.identity


def test_a_null_payload_is_kept() -> None:
    m = ArgMax()
    assert m.nullable == (1,)
    state = m.combine(m.lifted((3, None)), m.lifted((1, "a")))
    assert m.lower(state) is None
    assert state == (True, 3, None)


def test_operands_are_returned_as_they_are() -> None:
    m = ArgMin()
    a, b = m.lift(1, ["x"]), m.lift(1, ["y"])
    assert m.combine(a, b) is a
    assert m.combine(m.identity, b) is b
    assert m.combine(a, m.identity) is a


# ---- how far apart ----


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([3, 5, 4], 2),
        ([5], 0),
        ([True, False], 1),
        ([1.5, 4.0], 2.5),
        ([1, 2.5], 1.5),
        ([-INF, INF], INF),
        ([INF, INF], NAN),
        ([1.0, NAN], NAN),
        ([LARGEST, -LARGEST], INF),
        ([2**62, -(2**62) + 1], 2**63 - 1),
        ([-(2**63), -1], 2**63 - 1),
        ([2**63 - 1, 0], 2**63 - 1),
    ],
)
def test_examples_of_range(values: list[Any], wanted: Any) -> None:
    kinds: dict[type, Kind] = {bool: "bool", int: "int", float: "float"}
    forms = [Range(), *(Range().typed(kind) for kind in {kinds[type(x)] for x in values})]
    for m in forms if len(forms) == 2 else forms[:1]:
        found = results(m, one(values))
        assert agree(found, wanted)
        assert type(found) is type(wanted)


@pytest.mark.parametrize("values", [[2**62, -(2**62)], [-(2**63), 0], [2**63 - 1, -(2**63)]])
def test_a_range_beyond_64_bits_suggests_a_remedy(values: list[int]) -> None:
    for m in (Range(), Range().typed("int")):
        state = folds(m, one(values))[0]
        with pytest.raises(OverflowError, match=r"the range left.*64-bit integers.*convert the input to float"):
            m.lower(state)


def test_a_range_is_of_numbers() -> None:
    with pytest.raises(TypeError, match=r"not a number: 'a'.*sash\.monoid\("):
        Range().lift("a")
    assert results(Range(), one([np.int8(-100), np.int8(100)])) == 200


@pytest.mark.parametrize(
    ("monoid", "values"),
    [
        (Range(), [2**63 - 1, -(2**63), 0, 1]),
        (Range(), [INF, -INF, NAN, 1.0]),
        (MaxCount(), [INF, -INF, NAN, 1.0, 1.0]),
        (ArgMin(), [(INF, 1), (INF, 2), (NAN, 3), (-0.0, 4), (0.0, 5)]),
    ],
    ids=lambda x: repr(x)[:20],
)
def test_machine_code_agrees(monoid: Monoid, values: list[Any]) -> None:
    report = check_laws(monoid, values)
    assert report.compiled, report.why_not_compiled
