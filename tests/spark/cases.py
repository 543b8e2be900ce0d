"""Queries of every kind and rows for them: the results on Spark equal those of the local host.

The rows have ties, nulls and NaN, a key of one row, a null key and one of many rows. `row` breaks the ties, for a
shuffle has no order of arrival.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

import sash
from sash import Count, Lifetime, Query, Session, Time
from sash.monoids import DirectProduct, Max, Sum
from sash.testing import assert_same
from tests.shared.fixed_queries import PER_ROW, PER_SLIDE, aggregates
from tests.shared.queries import loose

ON = ("t", "row")
FEW: dict[str, Any] = {
    "filled": sash.count("f"),
    "total": sash.sum("i"),
    "high": sash.max("f"),
    "oldest": sash.first("s"),
    "both": DirectProduct(Max(), Sum())("i"),
}
RECENT, RECENT_NUMBERS = sash.ewm_mean("i", halflife="40s"), sash.ewm_mean("i", halflife=0.5, times=True)
COUNTS: dict[str, Any] = {"held": sash.count(), "total": sash.sum("i"), "high": sash.max("f")}
"""Aggregates that do not depend on the order of ties."""

MONEY: dict[str, Any] = {
    "paid": sash.sum("m"), "price": sash.mean("m"), "spread": sash.range("m"), "most": sash.max("m"),
    "took": sash.sum("u"), "each": sash.mean("u"), "slowest": sash.max("u"), "between": sash.range("d"),
    "over": sash.range("day"),
}  # fmt: skip
"""Aggregates of decimals, durations and times."""


DERIVED: dict[str, Any] = {
    "ok": sash.count(where="b"),
    "scaled": sash.sum(sash.expr("i * 2 + n"), where="f is not null"),
    "ratio": sash.max(sash.expr("f / i")),
    "who": sash.arg_max(sash.expr("abs(i)"), "s", where="s <> 'a' or b"),
    "share": sash.sum("i", where="b") / sash.count("i") - 1,
}
"""Aggregates of expressions and under conditions, and a formula."""


def _named(windows: dict[str, Any]) -> dict[str, Any]:
    return {name.replace(" ", "_"): window for name, window in windows.items()}


def _all_of(window: Any) -> Query:
    return Query(window, by="k", on=ON, **aggregates(window))


def _cases() -> dict[str, Query]:
    # every aggregate with some windows, every window with some aggregates: the operator's own tests have all of both
    found = {f"row: {name}": _all_of(PER_ROW[name]) for name in ("count", "time", "lifetime", "policy of two")}
    found |= {f"slide: {name}": _all_of(PER_SLIDE[name]) for name in ("time", "count", "lifetime by time")}
    for by in ((), ("k", "j"), ("j",), ("d",)):
        found[f"all windows of rows, by {by}"] = Query(_named(PER_ROW), by=by, on=ON, **FEW)
        found[f"all windows with every, by {by}"] = Query(_named(PER_SLIDE), by=by, on=ON, **FEW)
    three = {"time": Time(4), "count": Count(3), "session": Session(2)}
    found["rows, changes"] = Query(three["time"], by="k", on=ON, emit="changes", **FEW)
    found["slides, changes"] = Query(Time(6, every=2), by="k", on=ON, emit="changes", **FEW)
    found["forgotten keys"] = Query(three, by=("k", "j"), on=ON, forget=3, **FEW)
    ahead = {"time": Time(4, shift=3), "count": Count(3, shift=1), "before": Count(2, shift=-1)}
    found["windows ahead"] = Query(ahead, by="k", on=ON, **FEW)
    found["ties"] = Query({"time": Time(4), "session": Session(2), "life": Lifetime()}, by="k", on="t", **COUNTS)
    found["floats"] = Query(
        {"a": Time(2.5), "b": Time(1.25, closed="both")}, by="k", on=("tf", "row"), recent=RECENT_NUMBERS, **FEW
    )
    found["timestamps"] = Query({"a": Time("90s"), "b": Session("70s")}, by="k", on=("ts", "row"), recent=RECENT, **FEW)
    found["timestamps, every"] = Query(Time("5m", every="1m"), by=("k", "d"), on=("ts", "row"), recent=RECENT, **FEW)
    found["local times"] = Query(Time("90s"), by="j", on=("d", "row"), last=sash.last("ts"), **FEW)
    own = {"near": sash.max("i").over(2) - sash.mean("i").over(Time(5)), "all": sash.count("f").over(Time(9))}
    found["formulas"] = Query(Time(4), by="k", on=ON, min_periods=2, **DERIVED, **own)
    found["formulas, every"] = Query(Time(6, every=2), by="k", on=ON, min_periods=2, **DERIVED)
    found["own windows, every"] = Query(by="k", on=ON, **{
        name: one.over(Time(6, every=2) if i % 2 else Time(9, every=3)) for i, (name, one) in enumerate(DERIVED.items())
    })  # fmt: skip
    found["dates"] = Query(Time("2d"), by="k", on=("day", "row"), days=sash.collect_distinct("day"), **FEW)
    found["money, row"] = Query(Count(3), by="k", on=ON, **MONEY)
    found["money, slide"] = Query(Time(6, every=2), by="k", on=ON, **MONEY)
    new_york = "America/New_York"
    calendars = {"m": Time("1mo"), "w": Time("1w", closed="both", tz=new_york), "b": Time("2w", shift="-1mo")}
    found["calendar lengths"] = Query(calendars, by="k", on=("day", "row"), **FEW)
    hopping = {"m": Time("2mo", every="1mo"), "w": Time("1w", every="1w", tz=new_york), "c": Count(3, every="1mo")}
    found["calendar slides"] = Query(hopping, by="k", on=("day", "row"), **FEW)
    found["local days"] = Query(Time("1d", every="1d", tz=new_york), by="j", on=("d", "row"), **FEW)
    ordered: dict[str, Any] = {"middle": sash.median("f"), "often": sash.mode("s"), "kinds": sash.count_distinct("s")}
    ranks = {"rank": sash.rank("i", method="dense"), "part": sash.percent_rank("f")}
    found["order statistics"] = Query({"time": Time(4), "count": Count(3)}, by="k", on=ON, **ordered, **ranks)
    found["order statistics, every"] = Query(Time(6, every=2), by="k", on=ON, **ordered)
    return found


CASES = _cases()
"""Every kind of window, every aggregate, and all other options of a query."""


def rows(count: int = 160) -> pa.Table:
    """The rows, in no order."""
    draw = random.Random(7)
    one = [_row(draw, i) for i in range(count)]
    one[count // 2]["k"] = "alone"
    draw.shuffle(one)
    return pa.Table.from_pylist(one, schema=SCHEMA)


SCHEMA = pa.schema(
    {
        "k": pa.string(), "j": pa.float64(), "t": pa.int64(), "tf": pa.float64(), "ts": pa.timestamp("us", "UTC"),
        "day": pa.date32(), "row": pa.int64(), "n": pa.int64(), "i": pa.int64(), "f": pa.float64(), "b": pa.bool_(),
        "s": pa.string(), "p": pa.bool_(), "d": pa.timestamp("us"), "g": pa.int64(),
        "m": pa.decimal128(12, 2), "u": pa.duration("us"),
    }
)  # fmt: skip

_EPOCH = datetime(2024, 2, 29)


def _row(draw: random.Random, i: int) -> dict[str, Any]:
    t = draw.choice([i // 4, i // 4, i // 4 + draw.randrange(4), None if draw.random() < 0.1 else i])
    moment = None if t is None else _EPOCH + timedelta(seconds=30 * t)
    odd = draw.choice([float("nan"), float("inf"), -float("inf"), None])
    return {
        "k": draw.choice(["a", "a", "a", "b", None]),
        "j": draw.choice([0.0, -0.0, 1.5, float("nan"), None]),
        "t": t,
        "tf": odd if t is None else t / 4,
        "ts": moment,
        "day": None if t is None else (_EPOCH + timedelta(days=t)).date(),
        "row": i,
        "n": draw.randrange(10),
        "i": draw.choice([0, 1, 2, 3, -1, -4, None]),
        "f": draw.choice([0.0, 1.0, -1.0, 0.25, 2.5, -3.75, 4.0, float("nan"), None]),
        "b": draw.choice([True, False, None]),
        "s": draw.choice(["a", "b", "", "é", None]),
        "p": draw.random() < 0.2,
        "d": draw.choice([_EPOCH + timedelta(hours=h) for h in (0, 1, -30)] + [None]),
        "g": None if t is None else t // 2,
        "m": draw.choice([*map(Decimal, ("0.10", "-0.25", "19.99", "9999999999.99")), None]),
        "u": draw.choice([timedelta(microseconds=n) for n in (0, 1, -2, 10**9)] + [None]),
    }


def in_one_order(table: pa.Table, query: Query) -> pa.Table:
    """Results in an order that does not depend on the host."""
    names = ["row"] if query.per_row else [*query.by, "window_end", "window_start"]
    names += ["window"] if "window" in table.schema.names else []
    tidy = table
    for name in names:
        if pa.types.is_floating(table.schema.field(name).type):  # -0.0 and 0.0 are one key
            zeroed = [0.0 if value == 0 else value for value in table.column(name).to_pylist()]
            tidy = tidy.set_column(tidy.schema.get_field_index(name), name, pa.chunked_array([zeroed], pa.float64()))
    return tidy.sort_by([(name, "ascending") for name in names])


def check(frame: Any, table: pa.Table, query: Query) -> None:
    """Raises AssertionError if Spark gives other rows than the local host."""
    expected = query.run(table)  # first: it compiles once what each of Spark's workers would compile for itself
    got = query.run(frame)
    assert got.schema.names == expected.schema.names
    mine = got.toArrow()
    assert_same(in_one_order(mine, query), in_one_order(expected, query), loose=loose(query))
