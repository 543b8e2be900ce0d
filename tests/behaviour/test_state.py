"""State that leaves the process or survives an error: snapshots, stores, faults, bounded memory, refusals, costs.

calls      0         1         2         3
clean      ▢         ▢         ▢         ▢         the results of an operator in memory, without a fault
fault      ▢         ✗ ▢       ▢         ▢         the call raises, and has changed nothing: made again, it succeeds
reopened   ▢─▶▢      ▢─▶▢      ▢─▶▢      ▢         another operator continues from the snapshot or the store
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.stores import MemoryStore, PageError
from tests.shared.faults import HOWS, Fault, FaultyStore

SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("t", pa.int64()),
        ("x", pa.int64()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("p", pa.bool_()),
    ]
)


def calls(seed: int, count: int, keys: str = "abcd", rows: int = 6) -> list[pa.RecordBatch]:
    """Batches whose rows are up to 4 behind, with peers and nulls; one batch in six has none."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        some = [
            {
                "k": chance.choice(keys),
                "t": 3 * number + chance.randrange(5),
                "x": chance.choice([None, 1, 2, 5, -3]),
                "f": chance.choice([None, 0.1, 1e16, -1e16, 2.5]),
                "s": chance.choice(["", "é", "long text", None]),
                "p": chance.choice([True, False, False, None]),
            }
            for _ in range(chance.choice([1, 2, rows, rows, rows, 0]))
        ]
        found.append(pa.RecordBatch.from_pylist(some, schema=SCHEMA))
    return found


def keep_three(total: Any, prefix: Any) -> bool:
    return bool(total - prefix >= 3)


QUERIES: dict[str, dict[str, Any]] = {
    "rows": {"windows": {"t": sash.Time(9), "c": sash.Count(4), "d": sash.Time(3, closed="both")}},
    "forget": {"windows": {"c": sash.Count(4), "l": sash.Lifetime(), "s": sash.Session(3)}, "forget": 5},
    "slides": {"windows": {"t": sash.Time(9, every=4), "l": sash.Lifetime(every=sash.Time(4))}},
    "rows by time": {"windows": sash.Count(4, every=sash.Time(4))},
    "closed": {"windows": {"s": sash.Session(4, every="close"), "t": sash.Time(6, every=2)}},
    "counted": {"windows": sash.Count(5, every=2), "forget": 8},
    "marks": {"windows": sash.Punctuation("p")},
    "policy": {"windows": sash.Policy(keep_three, sash.count())},
    "ahead": {"windows": {"t": sash.Time(6, shift=4), "c": sash.Count(3, shift=2), "s": sash.Session(4)}, "forget": 9},
    "before": {"windows": {"t": sash.Time(4, shift=-3), "c": sash.Count(2, shift=-2)}, "emit": "changes"},
    "eager": {"windows": {"t": sash.Time(9), "c": sash.Count(3), "s": sash.Session(4)}, "emit": "eager"},
    "eager slides": {"windows": sash.Time(9, every=4), "emit": "eager"},
    "eager counted": {"windows": sash.Count(4, every=3), "emit": "eager"},
    "changes": {"windows": {"t": sash.Time(9), "c": sash.Count(3)}, "emit": "changes", "forget": 6},
    "changed slides": {"windows": sash.Time(8, every=4), "emit": "changes"},
}
AGGREGATES: dict[str, Any] = {
    "high": sash.max("x"),
    "total": sash.sum("f"),
    "texts": sash.collect("s"),
    "newest": sash.last("s"),
    "n": sash.count("x"),
}


def query_of(name: str, **changes: Any) -> sash.Query:
    arguments = {"by": "k", "on": "t", "lateness": 4, **QUERIES[name]} | changes
    return sash.Query(arguments.pop("windows"), **arguments, **AGGREGATES)


Made = list[list[dict[str, Any]]]


def rows_of(found: pa.RecordBatch) -> list[dict[str, Any]]:
    return found.to_pylist()


def clean(query: sash.Query, batches: Sequence[pa.RecordBatch]) -> Made:
    operator = query.operator(SCHEMA)
    return [*(rows_of(operator.process(one)) for one in batches), rows_of(operator.finish())]


def in_any_order(made: Made) -> list[list[str]]:
    """The results of each call; keys of a call come in any order."""
    return [sorted(map(repr, some)) for some in made]


# ---- from one operator to the next ----


def through_snapshots(query: sash.Query, operator: Any) -> Any:
    return sash.engine.Operator.restore(query, operator.snapshot())


def through_the_store(query: sash.Query, operator: Any) -> Any:
    return query.operator(SCHEMA, store=operator.store)


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("way", [through_snapshots, through_the_store])
def test_another_operator_continues_after_each_call(name: str, way: Callable[[sash.Query, Any], Any]) -> None:
    query, batches = query_of(name), calls(1, 14)
    operator = query.operator(SCHEMA, store=None if way is through_snapshots else MemoryStore())
    found = []
    for number, one in enumerate([*batches, None]):
        found.append(rows_of(operator.finish() if one is None else operator.process(one, offset=number)))
        before = operator.metrics, operator.watermark, operator.late_rows()
        if one is not None:
            operator = way(query, operator)
            assert operator.offset == number
            after = operator.metrics
            for counter in ("rows_in", "rows_out", "late", "untimed", "keys"):
                assert getattr(after, counter) == getattr(before[0], counter), counter
            assert after.elements >= before[0].elements, "rows that have left a page may count while others are there"
            assert operator.watermark == before[1]
    assert in_any_order(found) == in_any_order(clean(query, batches))


@pytest.mark.parametrize("name", ["rows", "slides", "changes", "eager"])
def test_large_keys_and_many_keys_in_a_store(name: str) -> None:
    """Buckets are split, elements go to segments, buffered rows to pages of their own; then all is read again."""
    query = query_of(name, lateness=40)
    chance = random.Random(3)
    keys = [f"{number:03d}" + "k" * 2000 for number in range(90)]
    operator, store, alone = query.operator(SCHEMA, store=MemoryStore()), None, query.operator(SCHEMA)
    for number in range(6):
        some = [
            {"k": key, "t": number * 10, "x": number, "f": 0.5, "s": "y", "p": None} for key in keys[number % 2 :: 2]
        ]
        some += [
            {"k": keys[0], "t": number * 10 + chance.randrange(9), "x": i, "f": 1.5, "s": "z" * 300, "p": None}
            for i in range(20)
        ]
        one = pa.RecordBatch.from_pylist(some, schema=SCHEMA)
        assert in_any_order([rows_of(operator.process(one))]) == in_any_order([rows_of(alone.process(one))])
        if number % 3 == 2:
            operator = query.operator(SCHEMA, store=operator.store)
    asked = {"k": keys[:7]}
    assert operator.lookup(asked).to_pylist() == alone.lookup(asked).to_pylist()
    store = operator.store
    reader = query.reader(store)
    assert reader.lookup(asked).to_pylist() == alone.lookup(asked).to_pylist()
    last = query.operator(SCHEMA, store=store)
    assert in_any_order([rows_of(last.finish())]) == in_any_order([rows_of(alone.finish())])
    if name != "eager":
        assert query.operator(SCHEMA, store=store).metrics.keys == 0


def test_a_long_window_goes_to_segments_and_only_new_elements_are_written() -> None:
    query = sash.Query(sash.Count(3000), by="k", on="t", lateness=0, total=sash.sum("x"), high=sash.max("x"))
    store = WrittenStore()
    operator, alone = query.operator(SCHEMA, store=store), query.operator(SCHEMA)
    sent = []
    for number in range(60):
        rows = [
            {"k": "a", "t": number * 100 + i, "x": (i * 7919) % 101, "f": 0.0, "s": "", "p": None} for i in range(100)
        ]
        one = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
        store.sent = 0
        assert operator.process(one).equals(alone.process(one))
        sent.append(store.sent)
        if number % 20 == 19:
            operator = query.operator(SCHEMA, store=store)
    assert sum(sent[-20:]) / 20 < 60_000, "each call writes the whole window"
    assert len(store.pages) < 40, "segments that no window needs stay in the store"


def test_eager_pages_are_merged_and_rows_that_were_taken_back_stay_away() -> None:
    schema = pa.schema([*SCHEMA, ("gone", pa.bool_())])
    query = sash.Query(
        {"t": sash.Time(12), "c": sash.Count(3)}, by="k", on="t", lateness=6, emit="eager", retract="gone",
        texts=sash.collect("x"), n=sash.count(),
    )  # fmt: skip
    store, chance = MemoryStore(), random.Random(17)
    operator, alone = query.operator(schema, store=store), query.operator(schema)
    sizes = []
    for number in range(90):
        rows = [
            {
                "k": chance.choice("ab"),
                "t": 2 * number + chance.randrange(4),
                "x": number,
                "gone": chance.random() < 0.2,
            }
            for _ in range(4)
        ]
        one = pa.RecordBatch.from_pylist(rows, schema=schema)
        assert in_any_order([rows_of(operator.process(one))]) == in_any_order([rows_of(alone.process(one))])
        sizes.append(sum(map(len, dict(store.items()).values())))
        if number % 19 == 18:
            operator = query.operator(schema, store=store)
            assert operator.metrics.elements == alone.metrics.elements
    assert max(sizes[45:]) < 2 * max(sizes[:45]), "pages of rows that have left stay"
    keys = {"k": ["a", "b"]}
    assert operator.lookup(keys).to_pylist() == alone.lookup(keys).to_pylist()


class WrittenStore(MemoryStore):
    """Counts the bytes of pages that are written, and the pages that are read."""

    sent = read = 0

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self.sent += sum(map(len, pages.values()))
        super().put_many(pages)

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        self.read += len(ids)
        return super().get_many(ids)


@pytest.mark.compiled  # states of objects have no columns
@pytest.mark.parametrize(
    "values",
    [[-0.0] * 3, [0.0] * 3, [math.nan] * 3, [0.0, -0.0, 0.0], [1.5, -0.0, 1.5], [math.inf] * 3, [5e-324] * 3],
    ids=repr,
)
def test_values_that_repeat_come_back_with_all_their_bits(values: list[float]) -> None:
    made = {"a": sash.first("f"), "b": sash.last("f"), "c": sash.max("f"), "d": sash.min("f"), "n": sash.count("x")}
    query = sash.Query({"c": 3, "s": sash.Session(9)}, by="k", on="t", lateness=0, **made)
    schema = pa.schema({"k": "string", "t": "int64", "f": "float64", "x": "int64"})
    for first in (-(2**63), 0, 2**63 - 9):
        operator = query.operator(schema, mode="given", store=MemoryStore())
        operator.process({"k": ["a"] * 3, "t": [first, first + 1, first + 2], "f": values, "x": [2**63 - 1] * 3})
        operator.advance(first + 3)
        right = repr(operator.lookup({"k": ["a"]}).to_pylist())
        assert repr(sash.engine.Operator.restore(query, operator.snapshot()).lookup({"k": ["a"]}).to_pylist()) == right
        assert (
            repr(query.operator(schema, mode="given", store=operator.store).lookup({"k": ["a"]}).to_pylist()) == right
        )


@pytest.mark.compiled
def test_states_that_repeat_take_no_room() -> None:
    sizes = []
    for made in (
        {"a": sash.max("f")},
        {"a": sash.max("f"), "b": sash.sum("f"), "c": sash.min("f"), "d": sash.last("f")},
    ):
        operator = sash.Query(2000, lateness=0, on="t", **made).operator(pa.schema({"t": "int64", "f": "float64"}))
        operator.process({"t": [*range(2000)], "f": [i * 7919 % 1009 / 7 for i in range(2000)]})
        sizes.append(len(operator.snapshot()))
    assert sizes[1] < 1.3 * sizes[0]


# ---- faults ----


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("how", HOWS)
def test_a_store_that_fails_in_any_operation(name: str, how: str) -> None:
    """The call raises; made again it gives its results, and so do the rest, also from what the store has."""
    query, batches = query_of(name), [*calls(4, 6), None]
    right = in_any_order(clean(query, batches[:-1]))
    at, torn = 1 + HOWS.index(how), 0
    while True:
        store = FaultyStore(MemoryStore(), at, how, seed=at)
        operator, found = None, []
        left = None
        while len(found) < len(batches):
            one = batches[len(found)]
            try:
                operator = operator or query.operator(SCHEMA, store=store)
                offset = operator.offset
                found.append(rows_of(operator.finish() if one is None else operator.process(one, offset=len(found))))
            except Fault:
                assert left is None
                left = store.pages.copy(), len(found)
                if operator is not None:
                    assert operator.offset == offset, "a call that raised has moved on"
            else:
                if len(found) == 3:
                    operator = None
        assert in_any_order(found) == right, (how, at)
        last = query.operator(SCHEMA, store=store.pages)
        assert last.watermark == math.inf
        if "eager" not in name:
            assert last.metrics.keys == 0
        if left is None:
            break
        torn += continues(query, batches, right, *left)
        at += 7
    assert torn == 0 or how == "torn"


def continues(query: sash.Query, batches: list[Any], right: list[list[str]], store: MemoryStore, done: int) -> bool:
    """Continue from what a store has after a fault. Returns whether it was refused as torn."""
    try:
        operator = query.operator(SCHEMA, store=store)
        reached = -1 if operator.offset is None else operator.offset
        ended = operator.watermark is not None and operator.watermark == float("inf")
        assert ended or reached in (done - 1, done), "a call is lost"
        if ended:
            return False
        for number in range(reached + 1, len(batches)):
            one = batches[number]
            found = operator.finish() if one is None else operator.process(one, offset=number)
            assert in_any_order([rows_of(found)]) == right[number : number + 1]
    except PageError:
        return True
    return False


class Struck(Exception):
    """What the functions of `striking` raise."""


def striking(strikes: list[int], where: str) -> Any:
    """A sum of numbers as text, one of whose functions raises when its count of calls reaches `strikes[0]`."""

    def may_raise(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def function(*given: Any) -> Any:
            if name == where:
                strikes[0] -= 1
                if strikes[0] == 0:
                    raise Struck
            return work(*given)

        return function

    return sash.monoid(
        identity="0",
        lift=may_raise("lift", str),
        combine=may_raise("combine", lambda a, b: str(int(a) + int(b))),
        lower=may_raise("lower", int),
        returns="int64",
        exact=True,
        name=f"striking {where}",
    )


@pytest.mark.filterwarnings("ignore:.*runs interpreted")
@pytest.mark.parametrize("stored", [False, True], ids=["memory", "store"])
@pytest.mark.parametrize("where", ["lift", "combine", "lower"])
@pytest.mark.parametrize("name", QUERIES)
def test_a_function_that_raises_in_the_middle_of_a_call(name: str, where: str, stored: bool) -> None:
    strikes, batches = [0], [one for one in calls(5, 9) if one.num_rows]
    struck = striking(strikes, where)
    arguments = {"by": "k", "on": "t", "lateness": 4, **QUERIES[name]}
    query = sash.Query(arguments.pop("windows"), **arguments, sum=struck("x"), texts=sash.collect("s"), n=sash.count())
    right = in_any_order(clean(query, batches))
    operator = query.operator(SCHEMA, store=MemoryStore() if stored else None)
    found, failed, chance = [], 0, random.Random(name)
    for one in [*batches, None]:
        before = operator.snapshot(), operator.metrics.rows_in, operator.metrics.keys, operator.due
        strikes[0] = chance.choice([1, 2, 3, 5])
        try:
            found.append(rows_of(operator.finish() if one is None else operator.process(one)))
        except Exception as error:
            failed += 1
            assert "the aggregate 'sum' failed with Struck" in str(error)  # noqa: PT017 (not each call fails)
            strikes[0] = 0
            if not stored:
                assert operator.snapshot() == before[0], "a call that failed has changed the state"
            assert (operator.metrics.rows_in, operator.metrics.keys, operator.due) == before[1:]
            found.append(rows_of(operator.finish() if one is None else operator.process(one)))
        strikes[0] = 0
    assert failed
    assert in_any_order(found) == right


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    "late": (lambda op: op.process(of([("a", 90, 1), ("a", 2, 1)])), ValueError),
    "a sum": (lambda op: op.process(of([("a", 61, 2**62), ("a", 62, 2**62), ("b", 99, 1)])), OverflowError),
    "a column": (lambda op: op.process(of([("a", 61, 1)]).drop_columns(["x"])), ValueError),
    "a type": (lambda op: op.process(of([("a", 61, 1)]).set_column(2, "x", pa.array([1], pa.int32()))), ValueError),
    "no batch": (lambda op: op.process([1, 2, 3]), TypeError),
    "no time": (lambda op: op.advance("tomorrow"), TypeError),
}


def of(rows: list[tuple[str, int, int]]) -> pa.RecordBatch:
    keys, times, values = zip(*rows, strict=True)
    return pa.record_batch({"k": keys, "t": times, "x": values})


@pytest.mark.parametrize("why", REFUSED)
@pytest.mark.parametrize("window", [sash.Time(30), sash.Count(30), sash.Time(30, every=7)], ids=repr)
def test_a_call_that_is_refused_changes_no_page_no_counter_and_no_late_row(window: Any, why: str) -> None:
    query = sash.Query(window, by="k", on="t", lateness=9, late="error", total=sash.sum("x"), high=sash.max("x"))
    call, error = REFUSED[why]
    first, after = (of([("ab"[i % 3 == 0], i, i % 11) for i in range(at, at + 60)]) for at in (0, 60))
    operator, unharmed = query.operator(first.schema, store=MemoryStore()), query.operator(first.schema)
    operator.process(first)
    unharmed.process(first)
    pages, metrics = dict(operator.store.pages), operator.metrics
    for _ in range(2):
        with pytest.raises(error):
            call(operator)
        assert operator.store.pages == pages
        assert operator.metrics == metrics
    assert operator.late_rows().num_rows == 0
    assert operator.process(after).equals(unharmed.process(after))


# ---- memory ----


@pytest.mark.parametrize("memory", [1, 30_000])
@pytest.mark.parametrize("name", [name for name in QUERIES if "eager" not in name])
def test_bounded_memory_changes_no_result(name: str, memory: int) -> None:
    query, batches = query_of(name), calls(6, 15, "abcdefghij")
    bounded = query.rewritten(options=sash.Options(memory=memory))
    store = WrittenStore()
    operator, free = bounded.operator(SCHEMA, store=store), query.operator(SCHEMA)
    for one in [*batches, None]:
        mine, other = (op.finish() if one is None else op.process(one) for op in (operator, free))
        assert in_any_order([rows_of(mine)]) == in_any_order([rows_of(other)])
        assert operator.metrics.keys == free.metrics.keys
        if one is not None:
            keys = {"k": ["a", "zz", "b", "j"]}
            assert operator.lookup(keys).to_pylist() == free.lookup(keys).to_pylist()
    assert store.read > len(batches) or memory > 1, "nothing ever left memory"


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", ["rows", "changes"])
def test_bounded_memory_with_a_store_that_fails(name: str, how: str) -> None:
    """Keys whose pages may be older than they are stay in memory until they are written again."""
    query, batches = query_of(name), calls(16, 8, "abcdefgh")
    bounded, right = query.rewritten(options=sash.Options(memory=1)), in_any_order(clean(query, batches))
    for at in range(2, 60, 5):
        store = FaultyStore(MemoryStore(), at, how, seed=at)
        operator, found = None, []
        for one in [*batches, None]:
            for attempt in range(2):
                try:
                    operator = operator or bounded.operator(SCHEMA, store=store)
                    found.append(rows_of(operator.finish() if one is None else operator.process(one)))
                    break
                except Fault:
                    assert attempt == 0
        assert in_any_order(found) == right, at


@pytest.mark.parametrize("emit", ["final", "changes"])
def test_keys_that_are_used_stay_in_memory_and_others_leave(emit: Any) -> None:
    query = sash.Query(3, by="k", emit=emit, total=sash.sum("x"), options=sash.Options(memory=400_000))
    store = WrittenStore()
    operator = query.operator(pa.schema({"k": "int64", "x": "int64"}), store=store)
    read = 0
    for number in range(60):
        operator.process({"k": [*range(4), *range(20 * number + 4, 20 * number + 24)], "x": [1] * 24})
        store.read = 0
        operator.process({"k": [0, 1, 2, 3], "x": [1] * 4})
        read += store.read
    assert read == 0, "keys of every call were not in memory"
    store.read = 0
    operator.lookup({"k": [10, 110, 210]})
    assert 0 < store.read < 20, "keys of long ago were in memory, or all were read"


# ---- what is refused ----

BASE: dict[str, Any] = {
    "windows": sash.Time(8, every=2),
    "by": "k",
    "on": "t",
    "lateness": 4,
    "forget": None,
    "min_periods": 0,
    "high": sash.max("x"),
}
OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "size": ({"windows": sash.Time(9, every=2)}, "window 8 → 9"),
    "every": ({"windows": sash.Time(8, every=4)}, "window Time(8, every=2) → Time(8, every=4)"),
    "offset": ({"windows": sash.Time(8, every=2, offset=1)}, "window Time(8, every=2) → Time(8, every=2, offset=1)"),
    "closed": (
        {"windows": sash.Time(8, every=2, closed="right")},
        "window Time(8, every=2) → Time(8, every=2, closed=right)",
    ),
    "kind": ({"windows": sash.Count(8, every=2)}, "window Time(8, every=2) → Count(8, every=2)"),
    "name": (
        {"windows": {"w": sash.Time(8, every=2)}},
        "window Time(8, every=2) removed; window 'w': Time(8, every=2) added",
    ),
    "by": ({"by": ("k", "s")}, "by: k → k, s"),
    "on": ({"on": ["t", "x"]}, "on: t → t, x"),
    "lateness": ({"lateness": 5}, "lateness: 4 → 5"),
    "forget": ({"forget": 50}, "forget: none → 50"),
    "min_periods": ({"min_periods": 2}, "min_periods: none → 2"),
    "aggregate": ({"high": sash.min("x")}, "aggregate high: max('x') → min('x')"),
    "column": ({"high": sash.max("t")}, "aggregate high: max('x') → max('t')"),
    "parameter": (
        {"high": sash.quantile("x", q=0.25)},
        "aggregate high: max('x') → quantile('x') with q=0.25, interpolation=linear",
    ),
    "condition": ({"high": sash.max("x", where="f > 0")}, "aggregate high: max('x') → max('x', where='f > 0')"),
    "formula": ({"high": sash.max("x") + 1}, "aggregate high: max('x') → max('x') + 1"),
    "more": ({"n": sash.count()}, "aggregate n=count() added"),
}
SHIFTS: dict[str, tuple[Any, Any]] = {
    "shift": (sash.Time(8), sash.Time(8, shift=-2)),
    "closed per row": (sash.Time(8), sash.Time(8, closed="left")),
    "full": (sash.Count(8), sash.Count(8, full=True)),
    "slide in time": (sash.Count(8, every=sash.Time(2)), sash.Count(8, every=sash.Time(4))),
    "column": (sash.Delta("t", 4), sash.Delta("x", 4)),
    "gap": (sash.Session(4), sash.Session(5)),
    "months": (sash.Time("1mo"), sash.Time("2mo")),
    "zone": (sash.Time("1d", every="1d", tz="Asia/Tokyo"), sash.Time("1d", every="1d", tz="Europe/Paris")),
    "start": (sash.Time("1mo", every="2mo"), sash.Time("1mo", every="2mo", align="start")),
    "parameter": (sash.Policy(keep_three, sash.count()), sash.Policy(keep_three, sash.count("x"))),
    "quantile": (sash.Lifetime(), sash.Session(4)),
}


def refuses(one: sash.Query, other: sash.Query, schema: pa.Schema, rows: Any, changed: str = "") -> None:
    operator = one.operator(schema, store=MemoryStore())
    operator.process(rows)
    sash.engine.Operator.restore(one, operator.snapshot())
    assert one.fingerprint(schema) != other.fingerprint(schema)
    for what, opened in (
        ("the snapshot", lambda: sash.engine.Operator.restore(other, operator.snapshot())),
        ("page 'header'", lambda: other.operator(schema, store=operator.store)),
        ("page 'root'", lambda: other.operator(store=operator.store)),
    ):
        said = f"{what} was written by another query: {changed}" + (". Use that" if changed else "")
        with pytest.raises(PageError, match=re.escape(said)):
            opened()


@pytest.mark.parametrize("name", OTHERS)
def test_state_of_another_query_is_refused(name: str) -> None:
    arguments, changed = OTHERS[name]
    refuses(sash.Query(**BASE), sash.Query(**(BASE | arguments)), SCHEMA, calls(7, 1, rows=1)[0], changed)


def test_state_of_other_periods_is_refused() -> None:
    one, other = (sash.Query(**(BASE | {"min_periods": least})) for least in (2, 3))
    refuses(one, other, SCHEMA, calls(7, 1, rows=1)[0])


@pytest.mark.parametrize("name", SHIFTS)
def test_state_of_another_window_is_refused(name: str) -> None:
    times = pa.timestamp("s") if name in ("months", "zone", "start") else pa.int64()
    schema = pa.schema([("k", pa.string()), ("t", times), ("x", pa.int64())])
    rows = pa.RecordBatch.from_arrays([["a"], pa.array([86_400 * 40]).cast(times), [1]], schema=schema)
    one, other = (
        sash.Query(window, by="k", on="t", lateness=0 if times == pa.int64() else "0s", n=sash.count())
        for window in SHIFTS[name]
    )
    refuses(one, other, schema, rows)


def test_what_does_not_change_the_meaning_of_state_is_accepted() -> None:
    one = sash.Query(**BASE)
    operator = one.operator(SCHEMA)
    operator.process(calls(7, 3)[1])
    for changes in ({"late": "error"}, {"emit": "changes"}, {"options": sash.Options(prefer="latency")}):
        other = one.rewritten(**changes)
        assert other.fingerprint(SCHEMA) == one.fingerprint(SCHEMA)
        sash.engine.Operator.restore(other, operator.snapshot())
    with pytest.raises(PageError, match="needs the rows"):
        sash.engine.Operator.restore(one.rewritten(emit="eager"), operator.snapshot())
    eager = one.rewritten(emit="eager").operator(SCHEMA)
    eager.process(calls(7, 3)[1])
    with pytest.raises(PageError, match="open it with emit='eager'"):
        sash.engine.Operator.restore(one, eager.snapshot())


@pytest.mark.parametrize("name", ["rows", "slides", "eager"])
def test_truncated_damaged_and_mixed_pages_are_refused(name: str) -> None:
    query, batches = query_of(name, lateness=9), [one for one in calls(8, 9) if one.num_rows]
    operator = query.operator(SCHEMA, store=MemoryStore())
    history = []
    for one in batches:
        operator.process(one)
        history.append(dict(operator.store.items()))
    snapshot, chance = operator.snapshot(), random.Random(9)
    for length in [*range(60), *range(60, len(snapshot), 4999), len(snapshot) - 1]:
        with pytest.raises(PageError, match="the snapshot is truncated"):
            sash.engine.Operator.restore(query, snapshot[:length])
    with pytest.raises(PageError, match="the snapshot is damaged"):
        sash.engine.Operator.restore(query, snapshot + b"\0")
    for _ in range(40):
        damaged = bytearray(snapshot)
        damaged[chance.randrange(len(snapshot))] ^= 1 << chance.randrange(8)
        with pytest.raises(PageError, match=r"the snapshot (is|has|was)"):
            sash.engine.Operator.restore(query, bytes(damaged))
    pages = history[-1]

    def opened(changed: Mapping[str, bytes]) -> None:
        again = query.operator(SCHEMA, store=MemoryStore(dict(changed)))
        again.finish()

    opened(pages)
    for page in pages:
        if page != "root":
            with pytest.raises(PageError, match=r"missing|incomplete"):
                opened({one: data for one, data in pages.items() if one != page})
        older = [old[page] for old in history[:-1] if old.get(page, pages[page]) != pages[page]]
        if page not in ("header", "root") and older:
            with pytest.raises(PageError, match="not of the call"):
                opened(pages | {page: older[-1]})
    kinds: dict[str, list[str]] = {}
    for page in pages:
        kinds.setdefault(page[0], []).append(page)
    for same in kinds.values():
        if len(same) > 1 and same[0][0] in "bqse":
            with pytest.raises(PageError, match=re.escape("pages were mixed up")):
                opened(pages | {same[0]: pages[same[1]]})


LARGE: dict[str, dict[str, Any]] = {
    "rows": {"windows": {"time": sash.Time(5000), "count": sash.Count(700)}, "lateness": 300},
    "slides": {"windows": sash.Time(600, every=100), "lateness": 300},
    "eager": {"windows": sash.Time(500), "lateness": 300, "emit": "eager"},
}
KINDS = {"rows": {"b", "q", "s"}, "slides": {"b", "q"}, "eager": {"e"}}


def large(name: str) -> sash.Query:
    arguments = LARGE[name]
    return sash.Query(**arguments, by="k", on="t", high=sash.max("x"), n=sash.count())


def large_calls() -> list[pa.RecordBatch]:
    """Rows of many keys with long text, and of one key with many rows."""
    chance = random.Random(8)
    found = []
    for number in range(8):
        rows = [
            {"k": "hot" if i % 2 else f"{chance.randrange(150):03}" + "k" * 2000, "t": 250 * number + i // 2, "x": i}
            for i in range(500)
        ]
        found.append(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
    return found


def after_each_call(name: str) -> list[dict[str, bytes]]:
    store, found = MemoryStore(), []
    operator = large(name).operator(SCHEMA, store=store)
    for one in large_calls():
        operator.process(one)
        found.append(dict(store.items()))
    return found


def kind_of(page: str) -> str:
    return page if page in ("header", "root") else page[0]


@pytest.mark.parametrize("name", LARGE)
def test_pages_that_are_not_where_they_belong_are_refused(name: str) -> None:
    """One in the place of another, an older one, or none are refused by name."""
    *earlier, pages = after_each_call(name)

    def opened(made: dict[str, bytes]) -> None:
        operator = large(name).operator(SCHEMA, store=MemoryStore(made))
        operator.process(large_calls()[-1])
        operator.finish()

    def refused(changed: Mapping[str, bytes | None], says: str) -> None:
        with pytest.raises(PageError, match=says):
            opened({one: data for one, data in (pages | changed).items() if data is not None})

    opened({**pages})

    kinds: dict[str, list[str]] = {}
    for page in sorted(pages):
        kinds.setdefault(kind_of(page), []).append(page)
    assert {kind for kind, some in kinds.items() if len(some) > 1} >= KINDS[name]
    for one, other, *_ in (some for some in kinds.values() if len(some) > 1):
        refused({one: pages[other], other: pages[one]}, "pages were mixed up")
        refused({one: None}, "missing|incomplete")
    refused({"header": None}, "page 'header' is missing")
    stale = {kind_of(page): (page, old[page]) for old in earlier for page in old if pages.get(page, b"") != old[page]}
    for page, data in stale.values():
        if page in pages:
            refused({page: data}, "is not of the call that the header lists|is missing from the store")
    assert {"header", "b"} <= {*stale} or name == "eager"


def test_a_segment_of_a_write_that_never_was_is_refused() -> None:
    """Two writes are torn: the first leaves a segment behind, the second all but its own segment of that name."""

    class Picky(MemoryStore):
        def put_many(self, pages: Mapping[str, bytes]) -> None:
            super().put_many({name: page for name, page in pages.items() if self.takes(name)})
            if len(pages) > sum(map(self.takes, pages)):
                raise OSError("the machine has stopped")

        def takes(self, _name: str) -> bool:
            return True

    def process(start: int, value: int) -> None:
        rows = [{"k": "a", "t": start + i, "x": value * i * 7919 % 1009} for i in range(1500)]
        one = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
        large("rows").operator(SCHEMA, store=store).process(one)

    store = Picky()
    process(0, 1)
    process(1600, 1)
    first = {*store.pages}
    store.takes = lambda name: name[0] == "s"  # type: ignore[method-assign]
    with pytest.raises(OSError, match="the machine has stopped"):
        process(3200, 2)
    assert {*store.pages} > first
    store.takes = lambda name: name[0] != "s"  # type: ignore[method-assign]
    with pytest.raises(OSError, match="the machine has stopped"):
        process(3200, 3)
    with pytest.raises(PageError, match=r"'s0{16}\.0\.\d+' .* is not of the call that their bucket lists"):
        process(4800, 4)


# ---- costs that users see ----


def test_state_of_keys_that_nothing_needs_is_released() -> None:
    for window in (sash.Time(5), sash.Session(5), sash.Time(6, every=3), sash.Time(6, shift=2)):
        query = sash.Query(window, by="k", on="t", lateness=0, high=sash.max("x"), total=sash.sum("f"))
        for store in (None, MemoryStore()):
            operator = query.operator(SCHEMA, store=store)
            for number in range(30):
                row = {"k": f"key {number}", "t": 10 * number, "x": 1, "f": 1.0, "s": "", "p": None}
                operator.process(pa.RecordBatch.from_pylist([row], schema=SCHEMA))
            assert operator.metrics.keys <= 2, window
            assert operator.metrics.elements <= 4
            if store is not None:
                assert len(store.pages) <= 6
    for window in (sash.Time(5), sash.Session(3, every="close"), sash.Time(4, every=2), sash.Lifetime()):
        query = sash.Query(window, by="k", on="t", lateness=0, emit="changes", forget=10, n=sash.count())
        operator = query.operator(SCHEMA)
        operator.process(calls(7, 2)[1])
        operator.advance(100)
        operator.advance(101)
        assert operator.metrics.keys == 0, window
    forgotten = sash.Query(sash.Count(4), by="k", on="t", lateness=0, forget=15, high=sash.max("x")).operator(SCHEMA)
    for number in range(30):
        row = {"k": f"key {number}", "t": 10 * number, "x": 1, "f": 1.0, "s": "", "p": None}
        forgotten.process(pa.RecordBatch.from_pylist([row], schema=SCHEMA))
    assert forgotten.metrics.keys == 1, "the last row waits for the watermark"


@pytest.mark.parametrize("emit", ["final", "eager"])
def test_when_a_key_leaves(emit: Any) -> None:
    """A row at t is in windows up to t + 5, and a later row has one that begins after it."""
    query = sash.Query(sash.Time(5), by="k", on="t", lateness=0, emit=emit, high=sash.max("x"))
    operator = query.operator(SCHEMA, mode="given")
    row = {"k": "a", "t": 10, "x": 1, "f": 1.0, "s": "", "p": None}
    operator.process(pa.RecordBatch.from_pylist([row], schema=SCHEMA))
    kept = []
    for now in (11, 14, 15, 16):
        operator.advance(now)
        kept.append(operator.metrics.keys)
    assert kept == ([1, 1, 0, 0] if emit == "final" else [1, 1, 1, 0])
    forgetful = sash.Query(sash.Count(9), by="k", on="t", lateness=0, emit=emit, forget=5, n=sash.count())
    operator = forgetful.operator(SCHEMA, mode="given")
    operator.process(pa.RecordBatch.from_pylist([row], schema=SCHEMA))
    found = []
    for now in (11, 15, 16):
        operator.advance(now)
        found.append((operator.metrics.keys, operator.lookup({"k": ["a"]}, at=now)["n"].to_pylist()[0]))
    assert found == [(1, 1), (1, 1), (0, 0)]


@pytest.mark.parametrize("emit", ["final", "eager"])
def test_elements_that_no_window_needs_are_evicted(emit: Any) -> None:
    query = sash.Query(sash.Time(20), by="k", on="t", lateness=0, emit=emit, high=sash.max("x"))
    operator = query.operator(SCHEMA)
    for number in range(40):
        rows = [{"k": "a", "t": 10 * number + i, "x": i, "f": 1.0, "s": "", "p": None} for i in range(10)]
        operator.process(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
    assert 20 <= operator.metrics.elements <= (22 if emit == "final" else 60)


def test_windows_that_end_at_a_row_share_their_elements() -> None:
    windows = {"t": sash.Time(20), "left": sash.Time(20, closed="left"), "c": sash.Count(20), "d": sash.Delta("t", 15)}
    held = []
    for some in (windows, {"t": sash.Time(20, closed="both")}):
        operator = sash.Query(some, by="k", on="t", lateness=0, high=sash.max("x")).operator(SCHEMA)
        rows = [{"k": "a", "t": i, "x": i, "f": 1.0, "s": "", "p": None} for i in range(200)]
        operator.process(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
        held.append(operator.metrics.elements)
    assert held[0] <= held[1] + 1


def test_a_row_at_a_float_is_due_at_the_next_float() -> None:
    for time in (0.0, -5e-324, 1.5, -(2.0**60)):
        operator = sash.Query(sash.Time(1.0), on="t", lateness=1.0, n=sash.count()).operator(
            pa.schema({"t": "float64"}), mode="given"
        )
        operator.process({"t": [time]})
        assert operator.due == math.nextafter(time, math.inf)
        assert operator.advance(time).num_rows == 0
        assert operator.advance(operator.due).num_rows == 1


@pytest.mark.parametrize("window", [sash.Session(5, every="close"), sash.Time(4, every=4)], ids=repr)
def test_calls_when_something_is_due_give_all_there_is(window: Any) -> None:
    given: dict[str, list[Any]] = {"k": ["a", "b", "a", "c"], "t": [1, 2, 30, 33]}
    query = sash.Query(window, by="k", on="t", lateness=1, n=sash.count())
    operator = query.operator(pa.table(given).schema, mode="given")
    assert operator.due is None
    operator.process(given)
    ends, made = [], 0
    while operator.due is not None and operator.due < 1000:
        before = operator.due
        ends += operator.advance(before)["window_end"].to_pylist()
        assert operator.due is None or operator.due > before
        made += 1
    assert sorted(ends) == sorted(query.run(pa.table(given))["window_end"].to_pylist())
    assert made < 20


def test_when_something_is_due() -> None:
    """`due` is the least watermark that makes a result final, or releases a row; None if there is none."""
    row = {"k": "a", "t": 10, "x": 1, "f": 1.0, "s": "", "p": None}
    one = pa.RecordBatch.from_pylist([row], schema=SCHEMA)
    for window, first in (
        (sash.Time(5, every=4), 12),
        (sash.Session(5, every="close"), 16),
        (sash.Time(4, shift=3), 14),
    ):
        query = sash.Query(window, by="k", on="t", lateness=3, high=sash.max("x"))
        operator = query.operator(SCHEMA, mode="given")
        operator.process(one)
        assert operator.due == 11, "the row leaves the reorder buffer when the watermark is above it"
        assert operator.advance(11).num_rows == 0
        assert operator.due == first
        assert operator.advance(first - 1).num_rows == 0
        assert operator.advance(first).num_rows == 1
