"""The key table against a plain dict: all types, several columns, nulls, releases, growth, shrinking, collisions."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.columns import keys as key_columns
from sash.columns.keys import BytesColumn, WordColumn, key_column
from sash.engine.atomic import all_at_once
from sash.engine.keyed.key_table import SMALLEST, KeyTable
from sash.kernels.loops import key_loops
from tests.interpreted import switch_off

NAN = float("nan")

VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [0, 1, -128, 127, None]),
    (pa.uint8(), [0, 1, 255, None]),
    (pa.int16(), [0, -1, 300, None]),
    (pa.uint16(), [0, 65535, None]),
    (pa.int32(), [0, -1, 2**31 - 1, None]),
    (pa.uint32(), [0, 2**32 - 1, None]),
    (pa.int64(), [0, 1, -1, -(2**63), 2**63 - 1, None]),
    (pa.uint64(), [0, 2**63, 2**64 - 1, None]),
    (pa.bool_(), [True, False, None]),
    (pa.float16(), [0.0, 1.5, -1.5, NAN, None]),
    (pa.float32(), [0.0, 1.5, -1.5, NAN, None]),
    (pa.float64(), [0.0, -0.0, 1.5, -1.5, NAN, float("inf"), None]),
    (pa.date32(), [dt.date(1970, 1, 1), dt.date(1969, 12, 31), None]),
    (pa.date64(), [dt.date(1970, 1, 1), dt.date(2024, 2, 29), None]),
    (pa.time32("ms"), [dt.time(0), dt.time(1, 2, 3), None]),
    (pa.time64("us"), [dt.time(0), dt.time(1, 2, 3, 4), None]),
    (pa.timestamp("us", "UTC"), [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(1970, 1, 1, tzinfo=dt.UTC), None]),
    (pa.duration("us"), [dt.timedelta(0), dt.timedelta(1), None]),
    (pa.string(), ["", "a", "b", "ab", "ä€😀", "x" * 2000, "\0", None]),
    (pa.large_string(), ["", "a", "long " * 20, None]),
    (pa.string_view(), ["", "a", "longer than twelve", None]),
    (pa.binary(), [b"", b"\0", b"\0\0", b"abc", None]),
    (pa.large_binary(), [b"", b"\0", b"abc", None]),
    (pa.binary_view(), [b"", b"abc", b"longer than twelve", None]),
    (pa.binary(3), [b"abc", b"\0\0\0", b"abd", None]),
    (pa.decimal32(5, 2), [Decimal("0.00"), Decimal("-1.50"), None]),
    (pa.decimal128(20, 3), [Decimal("0.000"), Decimal("1.500"), Decimal("-1.500"), None]),
    (pa.decimal256(60, 1), [Decimal("0.0"), Decimal("1.5"), None]),
    (pa.month_day_nano_interval(), [pa.MonthDayNano([1, 2, 3]), pa.MonthDayNano([0, 0, 0]), None]),
    (pa.list_(pa.int64()), [[], [1], [1, 2], [None], None]),
    (pa.list_(pa.int32(), 2), [[1, 2], [2, 1], None]),
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": "x"}, {"a": None, "b": None}, None]),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1)], [], None]),
    (pa.null(), [None]),
]


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    switch_off(monkeypatch)


class Model:
    """A key table and a plain dict, compared at each step."""

    def __init__(self, types: list[pa.DataType]) -> None:
        self.table = KeyTable(types)
        self.types = types
        self.slots: dict[tuple[Any, ...], int] = {}

    def find(self, rows: list[tuple[Any, ...]], insert: bool = True) -> None:
        columns = [_column([row[i] for row in rows], kind) for i, kind in enumerate(self.types)]
        found = self.table.find(columns, len(rows), insert)
        touched, fresh = [], []
        for row, slot in zip(map(_named, rows), found.slots.tolist(), strict=True):
            if row not in self.slots:
                if not insert:
                    assert slot == -1
                    continue
                assert slot not in self.slots.values()
                self.slots[row] = slot
                fresh.append(slot)
            assert slot == self.slots[row]
            touched.append(slot)
        assert found.touched.tolist() == list(dict.fromkeys(touched))
        assert found.fresh.tolist() == fresh
        self.check()

    def release(self, keys: list[tuple[Any, ...]]) -> None:
        self.table.release(np.array([self.slots.pop(key) for key in keys], np.int64))
        self.check()

    def shrink(self) -> None:
        before = self.table.capacity
        found = self.table.shrunk()
        assert (found is not None) == (before > 1024 and 4 * len(self.slots) < before)
        if found is not None:
            all_at_once(found.change)
            moved = found.places
            assert len(moved) == before > self.table.capacity
            assert np.sort(moved[moved >= 0]).tolist() == list(range(len(self.slots)))
            self.slots = {key: int(moved[slot]) for key, slot in self.slots.items()}
            assert -1 not in self.slots.values()
        self.check()

    def check(self) -> None:
        table = self.table
        assert table.count == len(self.slots)
        assert max(self.slots.values(), default=-1) < table.capacity
        wanted = np.array(list(self.slots.values()), np.int64)
        columns = table.keys(wanted)
        assert [column.type for column in columns] == self.types
        for column in columns:
            column.validate(full=True)
        if self.types:
            rows = zip(*(column.to_pylist() for column in columns), strict=True)
            assert [_named(row) for row in rows] == list(self.slots)
        for position, column in table._interned:
            codes = table._matrix()[wanted, 3 + position]
            assert column._used == len(set(codes[codes >= 0].tolist())) == np.count_nonzero(column._uses)


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    column = pa.array(values, kind)
    return key_column(column) if pa.types.is_floating(kind) else column


def _named(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row that a dict takes, where NaN is itself and a value of one type is not that of another."""
    return tuple("NaN" if value != value else value if value is None else str(value + 0.0) if isinstance(value, float)
                 else str(value) for value in row)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "values"), VALUES, ids=lambda part: str(part) if isinstance(part, pa.DataType) else ""
)
def test_every_type(kind: pa.DataType, values: list[Any]) -> None:
    model = Model([kind])
    model.find([(value,) for value in values[::-1]], insert=False)
    model.find([(value,) for value in values + values])
    assert model.table.count == len({_named((value,)) for value in values})
    model.release(list(model.slots)[::2])
    model.find([(value,) for value in values], insert=False)
    model.find([(value,) for value in values])


@pytest.mark.parametrize(
    ("kind", "values"), VALUES, ids=lambda part: str(part) if isinstance(part, pa.DataType) else ""
)
def test_slices(kind: pa.DataType, values: list[Any]) -> None:
    given = _column([values[i % len(values)] for i in range(40)], kind)
    table = KeyTable([kind])
    slots = table.find([given], 40).slots
    for start, stop in [(0, 1), (3, 5), (9, 40), (17, 18), (40, 40)]:
        assert table.find([given[start:stop]], stop - start).slots.tolist() == slots[start:stop].tolist()


@st.composite
def scripts(draw: st.DrawFn) -> tuple[list[pa.DataType], list[Any]]:
    kinds = draw(st.lists(st.sampled_from(VALUES), max_size=4))
    row = st.tuples(*(st.sampled_from(values) for _, values in kinds))
    step = st.one_of(
        st.tuples(st.just("find"), st.lists(row, max_size=30)),
        st.tuples(st.just("look"), st.lists(row, max_size=10)),
        st.tuples(st.just("release"), st.randoms(use_true_random=False)),
    )
    return [kind for kind, _ in kinds], draw(st.lists(step, max_size=12))


def _play(script: tuple[list[pa.DataType], list[Any]]) -> None:
    model = Model(script[0])
    for action, what in script[1]:
        if action == "release":
            model.release([key for key in list(model.slots) if what.random() < 0.5])
        else:
            model.find(what, insert=action == "find")


@given(scripts())
def test_random_sequences(script: Any) -> None:
    _play(script)


@pytest.mark.usefixtures("interpreted")
def test_random_sequences_interpreted() -> None:
    given(scripts())(_play)()


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("bits", [0, 1, 3])
def test_every_hash_collides(monkeypatch: pytest.MonkeyPatch, bits: int) -> None:
    monkeypatch.setattr(key_loops, "mixed", lambda h: h & bits)
    given(scripts())(_play)()
    _churn([pa.int64(), pa.string()], lambda i: (i % 7, str(i % 91)), 150, 40)


def test_compiled_hashes_are_those_of_python() -> None:
    words = np.random.default_rng(5).integers(-(2**63), 2**63 - 1, 300)
    table = KeyTable([pa.int64(), pa.int64(), pa.int64()])
    slots = table.find([pa.array(words[i::3]) for i in range(3)], 100).slots
    expected = [key_loops.key_hash(words.tolist(), 3 * i, 3, 0) for i in range(100)]
    assert table._matrix()[slots, 0].tolist() == expected
    assert min(expected) >= 0


def test_keys_that_share_low_bits_of_the_hash() -> None:
    """All of them begin at one place of the table, so probing and deletion cross the longest runs, and its end."""
    last = 4 * SMALLEST - 1
    shared = [i for i in range(60_000) if key_loops.key_hash([i], 0, 1, 0) & last in (last, last - 1)]
    assert len(shared) > 200
    model = Model([pa.int64()])
    rng = np.random.default_rng(3)
    for size in (SMALLEST // 2, SMALLEST, len(shared)):
        model.find([(key,) for key in shared[:size]])
        model.release([key for key in list(model.slots) if rng.random() < 0.6])
        model.find([(key,) for key in shared], insert=False)


def _churn(types: list[pa.DataType], key: Any, rounds: int, rows: int) -> Model:
    """Many calls with keys that come and go."""
    model, rng = Model(types), np.random.default_rng(11)
    for _ in range(rounds):
        model.find([key(int(i)) for i in rng.integers(0, 10_000, rows)])
        if rng.random() < 0.5:
            model.release([key for key in list(model.slots) if rng.random() < 0.4])
    return model


def test_long_sequences() -> None:
    _churn([pa.int64()], lambda i: (i if i % 50 else None,), 200, 60)
    _churn([pa.string(), pa.int32(), pa.float64()], lambda i: (str(i % 300), i % 3 or None, i % 2 / 2), 150, 50)


def test_growth_and_shrinking() -> None:
    model = Model([pa.int64(), pa.string()])
    for first in range(0, 6000, 1500):
        model.find([(i, f"name {i}") for i in range(first, first + 1500)])
    assert model.table.capacity == 8192
    large = model.table.nbytes
    model.shrink()
    model.release(list(model.slots)[:-100])
    model.shrink()
    assert model.table.capacity == 256
    assert model.table.nbytes < large / 20
    model.shrink()
    model.find([(i, f"name {i}") for i in range(5800, 6300)])
    model.release(list(model.slots))
    model.shrink()
    model.find([(1, "again")])


def test_interned_bytes_are_reclaimed() -> None:
    model = Model([pa.string(), pa.binary(4)])
    for turn in range(12):
        model.find([(f"{turn} {i} " + "x" * 50, bytes([turn, i % 256, i // 256, 0])) for i in range(500)])
        model.release(list(model.slots)[:-30])
        assert all(len(column) <= 2 * key_columns.LARGEST_WASTE for _, column in model.table._interned)
    model.find([("new", b"1234"), (None, None)])
    assert model.table.nbytes < 2_000_000


def test_a_dead_value_comes_back_with_its_code() -> None:
    column = BytesColumn(pa.string())
    codes = column.encode(pa.array(["a", "b"]), True)
    column.use(codes, 1)
    column.use(codes[:1], -1)
    assert column._used == 1
    assert column.encode(pa.array(["a", "c"]), False).tolist() == [0, -2]
    renamed, change = column.rebuilt()
    assert column.encode(pa.array(["a", "b"]), False).tolist() == [0, 1], "nothing has changed yet"
    all_at_once(change)
    assert renamed.tolist() == [-1, 0]
    assert column.encode(pa.array(["b", "a", None]), True).tolist() == [0, 1, -1]


def test_looking_changes_nothing() -> None:
    table = KeyTable([pa.string(), pa.int64()])
    table.find([pa.array(["a"]), pa.array([1])], 1)
    before = table.nbytes, table.count, len(table._interned[0][1])
    names = [f"unknown {i}" for i in range(500)]
    found = table.find([pa.array([*names, "a"]), pa.array([1] * 501)], 501, insert=False)
    assert found.slots.tolist() == [-1] * 500 + [0]
    assert (found.touched.tolist(), found.fresh.tolist()) == ([0], [])
    assert (table.nbytes, table.count, len(table._interned[0][1])) == before


def test_without_columns() -> None:
    table = KeyTable(())
    assert table.find([], 2, insert=False).slots.tolist() == [-1, -1]
    assert table.find([], 0).fresh.tolist() == []
    for _ in range(3):
        first, second = table.find([], 3), table.find([], 1)
        assert (first.slots.tolist(), first.touched.tolist(), first.fresh.tolist()) == ([0, 0, 0], [0], [0])
        assert (second.slots.tolist(), second.touched.tolist(), second.fresh.tolist()) == ([0], [0], [])
        assert (table.count, table.capacity, table.keys(np.array([0]))) == (1, 1, [])
        table.release(np.array([0]))
        assert table.count == 0


def test_more_columns_than_null_bits() -> None:
    model = Model([pa.int16(), pa.bool_()] * 65 + [pa.null(), pa.string()])
    for i in range(132):
        model.find([tuple(None if j == i else 1 if j % 2 == 0 else False for j in range(130)) + (None, "a")])  # noqa: RUF005
    assert len(model.slots) == 131


def test_released_twice_and_out_of_range() -> None:
    table = KeyTable([pa.int64()])
    table.find([pa.array([5, 6, 7])], 3)
    table.release(np.array([1, 1, 1]))
    table.release(np.array([1]))
    assert (table.count, table.find([pa.array([8, 9])], 2).slots.tolist()) == (2, [1, 3])
    for bad in (-1, 4, 10**9):
        with pytest.raises(IndexError):
            table.release(np.array([0, bad]))
    assert table.count == 4
    table.release(np.array([2]))
    with pytest.raises(IndexError):
        table.keys(np.array([0, 2]))


def test_wrong_columns() -> None:
    table = KeyTable([pa.int64()])
    with pytest.raises(TypeError, match=r"int64.*int32"):
        table.find([pa.array([1], pa.int32())], 1)
    with pytest.raises(ValueError, match="1 values for 2 rows"):
        table.find([pa.array([1])], 2)
    with pytest.raises(ValueError, match="1 columns; got 0"):
        table.find([], 2)


def test_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    table = KeyTable([pa.int64()])
    table.find([pa.array([-1])], 1)

    def full(*_: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(table, "_resize", full)
        with pytest.raises(MemoryError):
            table.find([pa.array(range(1000))], 1000)
    assert table.count == 1
    assert table.find([pa.array([-1, 0])], 2).fresh.tolist() != [0]
    assert table.find([pa.array(range(-1, 1000))], 1001).slots[0] == 0


def test_words_are_not_copied() -> None:
    column = pa.array([1, 2, 3])
    words, valid = WordColumn(pa.int64()).encode(column)
    assert valid is None
    assert words.ctypes.data == column.buffers()[1].address
