"""Decimals, durations and times in operators, compared with the reference: compiled and not, and at their limits."""

import random
import warnings
from datetime import timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash import Count, Lifetime, Policy, Query, Time
from sash.engine import Operator
from sash.stores import MemoryStore
from tests.behaviour.differential import compare_with_reference
from tests.behaviour.test_operator import begin, resume
from tests.shared.streams import Case, StreamStep

TYPES: dict[str, pa.DataType] = {
    "decimal128(9, 2)": pa.decimal128(9, 2),
    "decimal128(34, 10)": pa.decimal128(34, 10),
    "decimal256(50, 5)": pa.decimal256(50, 5),
    "duration[s]": pa.duration("s"),
    "duration[ns]": pa.duration("ns"),
    "timestamp[ns, tz]": pa.timestamp("ns", "America/New_York"),
    "timestamp[ms]": pa.timestamp("ms"),
    "date32": pa.date32(),
    "date64": pa.date64(),
    "time32": pa.time32("s"),
    "time64": pa.time64("ns"),
}
EXACT = Context(prec=80)


def values(kind: pa.DataType, count: int) -> pa.Array:
    """Some values, and nulls, of a type."""
    draw = random.Random(str(kind))
    if pa.types.is_decimal(kind):
        most = 10**kind.precision
        drawn = [EXACT.scaleb(Decimal(draw.randrange(1 - most, most)), -kind.scale) for _ in range(count)]
        return pa.array([None if draw.random() < 0.1 else x for x in drawn], kind)
    day = 86_400_000 if pa.types.is_date64(kind) else 1
    numbers = [None if draw.random() < 0.1 else day * draw.randrange(0, 20_000) for _ in range(count)]
    return pa.array(numbers, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)


def aggregates(kind: pa.DataType) -> dict[str, Any]:
    """The aggregates of a column of this type."""
    found: dict[str, Any] = {"range": sash.range("x"), "high": sash.max("x"), "first": sash.first("x")}
    found |= {"n": sash.count("x"), "where": sash.arg_min("x", "t")}
    if pa.types.is_decimal(kind) or pa.types.is_duration(kind):
        found["total"] = sash.sum("x")
    if "total" in found or pa.types.is_timestamp(kind):
        found["mean"] = sash.mean("x")
    return found


def case(query: Query, kind: pa.DataType, count: int = 30) -> Case:
    keys = random.Random(1).choices("ab", k=count)
    rows = pa.record_batch({"k": keys, "t": list(range(count)), "x": values(kind, count)})
    cuts = [rows.slice(at, 7) for at in range(0, count, 7)]
    steps = [step for cut in cuts for step in (StreamStep("process", cut), StreamStep("snapshot"))]
    return Case(query, rows.schema, "rows", (*steps, StreamStep("finish")))


@pytest.mark.usefixtures("kernels", "interpreted_trees")
@pytest.mark.parametrize("emit", ["final", "changes", "eager"])
@pytest.mark.parametrize("window", [Count(3), Time(6, every=2), Lifetime()], ids=repr)
@pytest.mark.parametrize("name", TYPES)
def test_compared_with_the_reference(name: str, window: Any, emit: Any) -> None:
    query = Query(window, by="k", on="t", lateness=2, emit=emit, **aggregates(TYPES[name]))
    compare_with_reference(case(query, TYPES[name]), begin, resume)


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["decimal128(34, 10)", "duration[s]"])
def test_compiled_compared_with_the_reference(name: str) -> None:
    asked = {key: one for key, one in aggregates(TYPES[name]).items() if key in ("total", "mean", "range")}
    query = Query(Count(3), by="k", on="t", lateness=2, **asked)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that they run interpreted
        compare_with_reference(case(query, TYPES[name]), begin, resume)


def test_result_types_are_those_of_spark() -> None:
    query = Query(2, s=sash.sum("x"), m=sash.mean("x"), r=sash.range("x"), hi=sash.max("x"))
    for given, total, mean in (((9, 2), (19, 2), (13, 6)), ((38, 0), (38, 0), (38, 4)), ((38, 36), (38, 36), (38, 38))):
        found = query.bind(pa.schema([("x", pa.decimal128(*given))])).aggregates
        assert [one.result for one in found[:2]] == [pa.decimal128(*total), pa.decimal128(*mean)]
        assert found[2].result == pa.decimal128(min(given[0] + 1, 38), given[1])
        assert found[3].result == pa.decimal128(*given)
    wide = query.bind(pa.schema([("x", pa.decimal256(70, 3))])).aggregates
    assert [one.result for one in wide[:3]] == [pa.decimal256(76, 3), pa.decimal256(74, 7), pa.decimal256(71, 3)]


@pytest.mark.parametrize("window", [Count(2), Time(4, every=2)], ids=repr)
@pytest.mark.parametrize(
    ("kind", "value", "aggregate"),
    [
        (pa.decimal128(38, 0), Decimal(10**38 - 1), sash.sum("x")),
        (pa.decimal128(38, 0), Decimal(10**38 - 1), sash.mean("x")),
        (pa.decimal256(76, 0), Decimal(10**76 - 1), sash.sum("x")),
        (pa.duration("ns"), 2**62, sash.sum("x")),
    ],
    ids=str,
)
def test_overflow_names_the_column(window: Any, kind: pa.DataType, value: Any, aggregate: Any) -> None:
    table = pa.table({"t": [1, 2, 3], "x": pa.array([value] * 3, kind)})
    with pytest.raises(
        OverflowError,
        match=r"the aggregate 'a' failed with .* cast the column .*, in the column 'x'; options=.* goes on without it",
    ):
        sash.rolling(table, window, on="t", a=aggregate)


def test_state_survives_a_store() -> None:
    rows = pa.record_batch({"x": pa.array([Decimal("0.10"), Decimal("0.20"), None, Decimal("0.05")]), "t": range(4)})
    rows = rows.append_column("u", pa.array([timedelta(seconds=n) for n in range(4)], pa.duration("ms")))
    query = Query(Count(3), s=sash.sum("x"), m=sash.mean("x"), each=sash.mean("u"))
    store, found = MemoryStore(), []
    for at in range(4):
        found += Operator(query, rows.schema, store=store).process(rows.slice(at, 1)).to_pylist()
    assert [row["s"] for row in found] == [Decimal(x) for x in ("0.10", "0.30", "0.30", "0.25")]
    assert [str(row["m"]) for row in found] == ["0.100000", "0.150000", "0.150000", "0.125000"]
    assert [row["each"] / timedelta(milliseconds=1) for row in found] == [0, 500, 1000, 2000]


def test_a_policy_sees_decimals() -> None:
    spent = Policy(lambda total, prefix: total - prefix > 3, sash.sum("x"))
    table = pa.table({"x": pa.array([Decimal("1.10"), Decimal("2.25"), Decimal(1)])})
    assert Query(spent, n=sash.count()).run(table)["n"].to_pylist() == [1, 2, 2]


@pytest.mark.parametrize("aggregate", [sash.var("x"), sash.product("x"), sash.sum_of_squares("x")], ids=repr)
def test_what_decimals_lack_is_refused(aggregate: Any) -> None:
    with pytest.raises(TypeError, match=r"reads numbers; the column 'x' is of type decimal128\(3, 1\): cast it to flo"):
        Query(2, a=aggregate).bind(pa.schema([("x", pa.decimal128(3, 1))]))
