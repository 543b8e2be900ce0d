"""Keys, texts and decimals of every type over many calls: found again, released, ordered, restored.

calls    a b   c a   …   d   a       keys come, are released when no window holds their rows, and come again
text     "a" "z", then "zy", "zyy"   each value between two others, in the order that the column has
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.stores import MemoryStore

NAN = float("nan")
VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [0, 1, -128, 127]),
    (pa.uint8(), [0, 1, 255]),
    (pa.int16(), [0, -1, 300]),
    (pa.uint16(), [0, 65535]),
    (pa.int32(), [0, -1, 2**31 - 1]),
    (pa.uint32(), [0, 2**32 - 1]),
    (pa.int64(), [0, 1, -1, -(2**63), 2**63 - 1]),
    (pa.uint64(), [0, 2**63, 2**64 - 1]),
    (pa.bool_(), [True, False]),
    (pa.float16(), [0.0, 1.5, -1.5, NAN]),
    (pa.float32(), [0.0, 1.5, -1.5, NAN]),
    (pa.float64(), [0.0, -0.0, 1.5, -1.5, NAN, float("inf")]),
    (pa.date32(), [dt.date(1970, 1, 1), dt.date(1969, 12, 31)]),
    (pa.date64(), [dt.date(1970, 1, 1), dt.date(2024, 2, 29)]),
    (pa.time32("ms"), [dt.time(0), dt.time(1, 2, 3)]),
    (pa.time64("us"), [dt.time(0), dt.time(1, 2, 3, 4)]),
    (pa.timestamp("us", "UTC"), [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(1970, 1, 1, tzinfo=dt.UTC)]),
    (pa.duration("us"), [dt.timedelta(0), dt.timedelta(1)]),
    (pa.string(), ["", "a", "b", "ab", "ä€😀", "x" * 2000, "\0"]),
    (pa.large_string(), ["", "a", "long " * 20]),
    (pa.string_view(), ["", "a", "longer than twelve"]),
    (pa.binary(), [b"", b"\0", b"\0\0", b"abc"]),
    (pa.large_binary(), [b"", b"\0", b"abc"]),
    (pa.binary_view(), [b"", b"abc", b"longer than twelve"]),
    (pa.binary(3), [b"abc", b"\0\0\0", b"abd"]),
    (pa.decimal32(5, 2), [Decimal("0.00"), Decimal("-1.50")]),
    (pa.decimal128(20, 3), [Decimal("0.000"), Decimal("1.500"), Decimal("-1.500")]),
    (pa.decimal256(60, 1), [Decimal("0.0"), Decimal("1.5")]),
    (pa.month_day_nano_interval(), [pa.MonthDayNano([1, 2, 3]), pa.MonthDayNano([0, 0, 0])]),
    (pa.list_(pa.int64()), [[], [1], [1, 2], [None]]),
    (pa.list_(pa.month_day_nano_interval()), [[], [pa.MonthDayNano([1, 2, 3]), None], [pa.MonthDayNano([0, 0, 0])]]),
    (pa.list_(pa.int32(), 2), [[1, 2], [2, 1]]),
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": "x"}, {"a": None, "b": None}]),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1)], []]),
    (pa.null(), []),
]


def named(value: Any) -> Any:
    """A value that a dict takes, where NaN is itself, zero has no sign, and UTC is that of any module."""
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return "NaN" if value != value else str(value + 0.0) if isinstance(value, float) else repr(value)


def come_and_go(kinds: dict[str, pa.DataType], draw: Any, calls: int, rows: int) -> None:
    """Count the rows of each key and slide, in calls of which some go on from a snapshot or from a store."""
    chance, seen, found = random.Random(repr(kinds)), Counter[Any](), Counter[Any]()
    query = sash.Query(sash.Time(4, every=4), by=[*kinds], on="t", lateness=0, n=sash.count())
    schema = pa.schema([*kinds.items(), ("t", pa.int64())])
    store = MemoryStore()
    operator = query.operator(schema)
    for number in range(calls):
        some = [(*draw(chance), 2 * number + chance.randrange(2)) for _ in range(rows)]
        some.sort(key=lambda row: row[-1])
        seen.update((*map(named, row[:-1]), row[-1] // 4 * 4) for row in some)
        columns = [pa.array(list(values), f.type) for values, f in zip(zip(*some, strict=True), schema, strict=True)]
        result = operator.process(pa.RecordBatch.from_arrays(columns, schema=schema))
        held = {(*map(named, row[:-1]), row[-1] // 4) for row in some}
        assert operator.metrics.keys <= 2 * rows + len(held), "keys without rows in a window stay"
        assert [result.schema.field(name).type for name in kinds] == [*kinds.values()]
        result.validate(full=True)
        collect(found, result, kinds)
        if number % 5 == 2:
            operator = sash.engine.Operator.restore(query, operator.snapshot())
        if number == calls // 2:
            moved = query.operator(schema, store=store)
            before = seen
            seen = Counter()
            collect(found, operator.finish(), kinds)
            assert found == before
            found.clear()
            operator = moved
    collect(found, operator.finish(), kinds)
    assert found == seen


def collect(found: Counter[Any], result: pa.RecordBatch, kinds: dict[str, pa.DataType]) -> None:
    columns = [result[name].to_pylist() for name in (*kinds, "window_start", "n")]
    for *key, start, n in zip(*columns, strict=True):
        place = (*map(named, key), start)
        assert place not in found, "a slide of a key has two results"
        found[place] = n


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(kind) for kind, _ in VALUES])
def test_keys_of_every_type_come_and_go(kind: pa.DataType, values: list[Any]) -> None:
    """Alone, and beside a column of text; a key may be null."""
    come_and_go({"a": kind}, lambda chance: (chance.choice([*values, None]),), 12, 5)
    come_and_go({"a": kind, "b": pa.string()}, lambda c: (c.choice([*values, None]), c.choice(["", "x", None])), 8, 9)


def test_many_keys_come_and_go() -> None:
    """Tables grow and shrink, and keys that differ in high bits only are told apart."""
    come_and_go({"a": pa.int64()}, lambda chance: (chance.randrange(900) << 50,), 30, 150)
    come_and_go(
        {"a": pa.string(), "b": pa.int32(), "c": pa.float64()},
        lambda chance: (f"{chance.randrange(300)} " + "x" * 50, chance.choice([None, 1, 2]), chance.randrange(2) / 2),
        30, 120,
    )  # fmt: skip


def test_keys_in_slices_of_a_column() -> None:
    for kind, values in VALUES:
        column = pa.array([[*values, None][i % (len(values) + 1)] for i in range(40)], kind)
        operator = sash.Query(sash.Lifetime(), by="k", n=sash.count()).operator(pa.schema({"k": kind}))
        found, counts = [], Counter[Any]()
        for start, stop in [(0, 1), (1, 1), (1, 5), (5, 36), (36, 40)]:
            found += operator.process(pa.record_batch({"k": column[start:stop]}))["n"].to_pylist()
        right = []
        for value in map(named, column.to_pylist()):
            counts[value] += 1
            right.append(counts[value])
        assert found == right, kind


def test_memory_of_keys_is_released() -> None:
    """Each call has other keys, whose text is long; a lookup of unknown keys leaves nothing."""
    query = sash.Query(sash.Time(4), by="k", on="t", lateness=0, last=sash.last("x"), n=sash.count())
    operator, sizes = query.operator(pa.schema({"k": "string", "t": "int64", "x": "int64"}), mode="given"), []
    for number in range(40):
        names = [f"{number} {i} " + "x" * 500 for i in range(200)]
        operator.process({"k": names, "t": [10 * number] * 200, "x": [*range(200)]})
        operator.advance(10 * number + 1)
        assert operator.lookup({"k": names})["last"].to_pylist() == [*range(200)]
        before = operator.metrics.state_bytes
        assert operator.lookup({"k": [f"unknown {i}" for i in range(500)]})["n"].to_pylist() == [0] * 500
        assert operator.metrics.state_bytes == before
        sizes.append(before)
    assert max(sizes[20:]) <= 1.5 * max(sizes[:20])


# ---- values that aggregates choose among ----

ORDERED: list[tuple[pa.DataType, Any]] = [
    (pa.string(), lambda c: "".join(c.choices("abé€", k=c.randrange(4)))),
    (pa.large_string(), lambda c: "".join(c.choices("aé\uffff😀", k=c.randrange(4)))),
    (pa.binary(), lambda c: c.randbytes(c.randrange(3))),
    (pa.binary(2), lambda c: c.randbytes(2)),
    (pa.decimal128(10, 2), lambda c: Decimal(c.randrange(-500, 500)).scaleb(-2)),
    (pa.uint64(), lambda c: c.choice([c.randrange(9), 2**63, 2**64 - 1])),
]


def chosen_in_windows(kind: pa.DataType, calls: list[list[Any]], window: int) -> None:
    """The extremes and ends of the last values, by their definition, in calls of which some fail."""
    query = sash.Query(
        window, by="k", low=sash.min("x"), high=sash.max("x"), newest=sash.last("x"), oldest=sash.first("x"),
        n=sash.sum("y"),
    )  # fmt: skip
    schema = pa.schema([("k", pa.string()), ("x", kind), ("y", pa.int64())])
    operator, rows = query.operator(schema), list[Any]()
    for number, values in enumerate(calls):
        given = {"k": ["a"] * len(values), "x": pa.array(values, kind), "y": [0] * len(values)}
        if number % 4 == 1:
            with pytest.raises(OverflowError, match="the aggregate 'n' failed"):
                operator.process({"k": ["a"] * 3, "x": pa.array(values[:1] * 3, kind), "y": [2**62] * 3})
        found = operator.process(pa.record_batch(given, schema=schema)).to_pylist()
        for row, value in zip(found, values, strict=True):
            rows.append(value)
            held = [one for one in rows[-window:] if one is not None]
            right = (min(held), max(held), held[-1], held[0]) if held else (None,) * 4
            assert (row["low"], row["high"], row["newest"], row["oldest"]) == right
        if number % 7 == 3:
            operator = sash.engine.Operator.restore(query, operator.snapshot())


@pytest.mark.compiled
@pytest.mark.parametrize(("kind", "draw"), ORDERED, ids=[str(kind) for kind, _ in ORDERED])
def test_values_of_every_ordered_type(kind: pa.DataType, draw: Any) -> None:
    chance = random.Random(str(kind))
    calls = [
        [None if chance.random() < 0.2 else draw(chance) for _ in range(chance.choice([1, 3, 40]))] for _ in range(40)
    ]
    chosen_in_windows(kind, calls, 30)


@pytest.mark.compiled
def test_texts_between_their_neighbours() -> None:
    """Each new value lies between the two that are nearest, so that the room between them is used up."""
    calls = [["a", "z"], *([("b" if i % 2 else "a") * (250 - i)] for i in range(200))]
    chosen_in_windows(pa.string(), calls, 180)
    calls = [[f"{5000 + i}", f"{4999 - i}"] for i in range(150)]
    chosen_in_windows(pa.string(), calls, 100)
