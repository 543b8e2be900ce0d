"""Keys, tie-breakers and inputs of every Arrow type."""

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest

import sash
from sash.engine import Operator
from tests.behaviour.differential import compare_with_reference
from tests.behaviour.test_operator import begin, resume
from tests.engine.lookup_cases import query, results
from tests.shared.streams import Case, StreamStep

# ---- columns of every type ----

DAYS = [dt.date(2024, 1, 3), dt.date(2024, 1, 1), dt.date(2024, 1, 3), None]
COLUMNS: dict[str, pa.Array] = {
    "dictionary": pa.array(["b", "a", "b", None]).dictionary_encode(),
    "dictionary of numbers": pa.array([2, 1, 2, None], pa.int32()).dictionary_encode(),
    "large_string": pa.array(["b", "a", "b", None], pa.large_string()),
    "binary": pa.array([b"b", b"a", b"b", None]),
    "fixed_size_binary": pa.array([b"b", b"a", b"b", None], pa.binary(1)),
    "decimal128": pa.array([Decimal("2.50"), Decimal(-1), Decimal("2.5"), None], pa.decimal128(10, 2)),
    "decimal256": pa.array([Decimal("2.50"), Decimal(-1), Decimal("2.5"), None], pa.decimal256(50, 2)),
    "date32": pa.array(DAYS, pa.date32()),
    "date64": pa.array(DAYS, pa.date64()),
    "time32": pa.array([7200, 60, 7200, None], pa.int32()).cast(pa.time32("s")),
    "time64": pa.array([7200, 61, 7200, None], pa.int64()).cast(pa.time64("ns")),
    "duration": pa.array([7200, -60, 7200, None], pa.int64()).cast(pa.duration("ns")),
    "timestamp": pa.array([7201, -61, 7201, None], pa.int64()).cast(pa.timestamp("ns", "Asia/Kathmandu")),
    "uint64": pa.array([2**64 - 1, 1, 2**64 - 1, None], pa.uint64()),
    "int8": pa.array([127, -128, 127, None], pa.int8()),
    "float32": pa.array([0.1, -math.inf, 0.1, None], pa.float32()),
    "bool": pa.array([True, False, True, None]),
    "string_view": pa.array(["b", "a", "b", None], pa.string_view()),
    "binary_view": pa.array([b"b", b"a", b"b", None], pa.binary_view()),
    "decimal32": pa.array([Decimal("2.5"), Decimal(-1), Decimal("2.5"), None], pa.decimal32(5, 2)),
    "decimal64": pa.array([Decimal("2.5"), Decimal(-1), Decimal("2.5"), None], pa.decimal64(10, 2)),
    "float16": pa.array([2.0, -1.0, 2.0, None], pa.float32()).cast(pa.float16()),
    "list": pa.array([[2, None], [], [2, None], None]),
    "struct": pa.array([{"a": 2, "b": "x"}, {"a": 1, "b": None}, {"a": 2, "b": "x"}, None]),
    "map": pa.array([[("a", 2)], [], [("a", 2)], None], pa.map_(pa.string(), pa.int64())),
}
PLAIN = {
    "string_view": pa.string(),
    "binary_view": pa.binary(),
    "decimal32": pa.decimal128(5, 2),
    "decimal64": pa.decimal128(10, 2),
}
"""Results that are chosen among such values are of these types."""
NESTED = ("list", "struct", "map")
every_type = pytest.mark.parametrize("name", COLUMNS)


def typed(name: str) -> list[pa.RecordBatch]:
    """Two batches of two rows; the column `c` is high, low, high, null."""
    whole = pa.record_batch({"c": COLUMNS[name], "t": [1, 1, 1, 1], "x": [1, 2, 3, 4]})
    return [whole.slice(0, 2), whole.slice(2)]


@every_type
def test_tie_breakers_of_every_type(name: str) -> None:
    """Tie-breakers order rows by value, with nulls last."""
    asked = sash.Query(5, on=["t", "c"], held=sash.collect("x"))
    if name in NESTED:
        with pytest.raises(TypeError, match=r"on= names the tie-breaker 'c' of type .*, which has no order"):
            asked.operator(typed(name)[0].schema)
        return
    assert results(asked, typed(name)).column("held").to_pylist()[-1] == [2, 1, 3, 4]


@every_type
def test_inputs_of_every_type(name: str) -> None:
    """`max` chooses by value, `first` by place, of whatever type; the result is of the column's type."""
    kind = PLAIN.get(name, COLUMNS[name].type)
    for window in (5, sash.Time(5, every=5)):
        ordered = sash.Query(window, on="t", found=sash.max("c"))
        if name in NESTED:
            with pytest.raises(TypeError, match=r"found=max\('c'\) reads values with an order: .*'c' is of type"):
                ordered.operator(typed(name)[0].schema)
        else:
            column = results(ordered, typed(name)).column("found").combine_chunks()
            assert (column.type, column[len(column) - 1].as_py()) == (kind, COLUMNS[name][0].as_py())
        earliest = sash.Query(window, on="t", found=sash.first("c"))
        column = results(earliest, typed(name)).column("found").combine_chunks()
        assert (column.type, column[len(column) - 1].as_py()) == (kind, COLUMNS[name][0].as_py())


def test_dictionaries_that_change_between_batches() -> None:
    batches = [
        pa.record_batch({"c": pa.array(words).dictionary_encode(), "t": times, "x": [1] * len(words)})
        for words, times in ((["b", "a"], [5, 1]), (["a", "c", "b"], [5, 6, 1]), (["z"], [0]))
    ]
    asked = sash.Query(5, by="c", on="t", lateness=0, total=sash.sum("x"), high=sash.max("c"))
    operator = asked.operator()
    found = []
    for one in batches:
        found += operator.process(one).to_pylist()
        operator = Operator.restore(asked, operator.snapshot())
    late = operator.late_rows()
    assert late.schema.field("c").type == batches[0].schema.field("c").type
    assert late["c"].to_pylist() == ["a", "b", "z"]
    found += operator.finish().to_pylist()
    assert [(row["c"], row["total"], row["high"]) for row in found] == [("b", 1, "b"), ("a", 1, "a"), ("c", 1, "c")]


@pytest.mark.parametrize("index", [pa.int8(), pa.int64()], ids=str)
@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("us"), pa.float64()], ids=str)
def test_times_in_a_dictionary(kind: pa.DataType, index: pa.DataType) -> None:
    """The indices of a dictionary have the width of times, or another one: neither are the times."""
    size = "3us" if pa.types.is_timestamp(kind) else 3
    times = pa.array([400, 401, 404, 405]).cast(kind)
    asked = sash.Query(sash.Time(size), on="t", total=sash.sum("x"))
    encoded = times.dictionary_encode().cast(pa.dictionary(index, kind))
    found = results(asked, [pa.record_batch({"t": encoded, "x": [1, 2, 4, 8]})])
    assert found.column("total").to_pylist() == [1, 3, 4, 12]


def test_slices_of_a_larger_batch() -> None:
    """Batches that begin somewhere inside of their buffers, as readers give them."""
    whole = pa.record_batch({
        "k": ["z", "a", "b", None, "a", "b"], "t": [9, 1, 2, 3, 4, 5], "x": [99, 1, None, 3, 4, 5],
        "b": [True, False, None, True, False, True],
    })  # fmt: skip
    asked = query(3, by=["k", "b"], high=sash.max("x"), low=sash.min("k"), any=sash.any("b"), total=sash.sum("x"))
    for mode in ("rows", "given"):
        steps = [StreamStep("process", whole.slice(1, 2)), StreamStep("process", whole.slice(3)), StreamStep("finish")]
        compare_with_reference(Case(asked, whole.schema, mode, tuple(steps)), begin, resume)
