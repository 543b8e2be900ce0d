"""Drawn OVER clauses: what `sash.sql` accepts gives the rows of DuckDB, and what it refuses is refused in one line.

Keywords are in any case; frames, orders and names are right or wrong. Left out are two differences: `array_agg` and
`arg_max` of a null (docs/differences.md), and rows whose first order key is null, which are in no window.
"""

from __future__ import annotations

import datetime
import math
import random
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sash

AGGREGATES = [
    "count(*)", "COUNT()", "Count(x)", "sum(x)", "Sum(y)", "avg(x)", "min(x)", "max(s)", "median(x)", "bool_or(flag)",
    "count(Distinct x)", "sum(x + u)", "sum(events.x)", "sum(x) Filter (Where u > 0)", "quantile_cont(x, 0.5)",
]  # fmt: skip
IN_ORDER = [
    "row_number()", "ROW_NUMBER()", "lag(x)", "Lag(x, 2)", "first_value(x ignore nulls)", "last_value(x IGNORE NULLS)",
    "any_value(x)", "nth_value(x, 2 IGNORE NULLS)", "arg_max(id, x)", "string_agg(s, '-')",
]  # fmt: skip
"""Their order matters: peers get an `id`."""
WRONG = [
    "max(x, 2)", "sum(Distinct x)", "lag(x, 1, 0)", "row_number(order by x)", "rank()", "first_value(x)", "lead(x)",
    "max(x order by y)", "lag(x ignore nulls)", "first_value(x respect nulls)", "sum()", "ntile(2)", "sum(zz)",
    "row_number() filter (where u > 0)", "lag(x) filter (where u > 0)", "sum(X)", "sum(other.x)", "max(*)", "lag()",
    "array_agg(x limit 2)", "string_agg(x, y)", "quantile_cont(x, [0.5])", "count(x, y)", "nth_value(x)",
]  # fmt: skip
ORDERS = ["t", "t", "ts", "t, u", "t, u", "t, s", "t, f", "t, flag", "t, u, s", "f, t", "u, t", "x", "t, t", "id"]
KEYS = ["k", "k", "k, s", "s", "u", "k, k", "flag", "events.k"]


def events_of(draw: random.Random) -> pa.Table:
    """A small table with many equal times, and with nulls and NaN."""
    rows = draw.choice([0, 1, 5, 30])

    def column(values: list[Any], nulls: float, kind: Any) -> pa.Array:
        return pa.array([None if draw.random() < nulls else draw.choice(values) for _ in range(rows)], kind)

    start = datetime.datetime(2024, 1, 25)
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "k": column(["a", "b"], 0, pa.string()),
            "s": column(["p", "q", "rr"], draw.choice([0, 0.2]), pa.string()),
            "t": column([*range(6)], 0, pa.int64()),
            "u": column([0, 1, 2], draw.choice([0, 0.2]), pa.int64()),
            "f": column([0.0, -0.0, 0.5, math.nan], 0.1, pa.float64()),
            "flag": column([True, False], 0, pa.bool_()),
            "ts": column([start + datetime.timedelta(days=day) for day in range(10)], 0, pa.timestamp("us")),
            "x": column([*range(9)], 0.1, pa.int64()),
            "y": column([0.5, 1.25, -3.0], 0.1, pa.float64()),
        }
    )


class Statements:
    """Draws statements: most are right, some have one mistake."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.order: list[str] = []

    def said(self, words: str) -> str:
        """Words in some case."""
        return self.draw.choice([words.upper(), words.lower(), words.title(), words])

    def statement(self) -> str:
        """A statement over the table `events`."""
        draw = self.draw
        mistake = draw.choice(["", "", "", "frame", "aggregate", "order", "other"])
        aggregate = draw.choice(WRONG if mistake == "aggregate" else AGGREGATES + IN_ORDER)
        unit = draw.choice(["rows", "range", ""])
        self.order = draw.choice(ORDERS).split(", ")
        if unit == "rows" or aggregate in IN_ORDER:
            self.order.append("id")
        if unit == "range" and mistake != "frame":
            self.order = [draw.choice(["t", "ts"])]
            aggregate = aggregate if aggregate not in IN_ORDER else "sum(x)"
        order = f"{self.said('order by')} {', '.join(self.order)}"
        if mistake == "order":
            order += draw.choice([" desc", " nulls last", " NULLS FIRST", " desc Nulls First", " + 1", ", zz", ", T"])
        frame = f" {self.wrong_frame() if mistake == 'frame' else self.frame(unit)}" if unit else ""
        keys = f"{self.said('partition by')} {draw.choice(KEYS)} " if draw.random() < 0.6 else ""
        name, window = draw.choice(
            [
                (f"({keys}{order}{frame})", ""),
                ("W", f" window w as ({keys}{order}{frame})"),
                (f"(w{frame})", f" WINDOW w AS ({keys}{order})"),
                ("v", f" window w as ({keys}), V as (w {order}{frame})"),
            ]
        )
        source, where, items = (
            "events",
            draw.choice(["", "", " where u > 0", " WHERE x is not null And s <> 'p'"]),
            "id",
        )
        if mistake == "other":
            where, source, items, window = draw.choice(
                [
                    (" where X > 1", source, items, window),
                    (' where s = "p"', source, items, window),
                    (" where x", source, items, window),
                    ("", "events e(a)", items, window),
                    ("", "events tablesample 50%", items, window),
                    ("", "main.events", items, window),
                    ("", source, "* exclude (x)", window),
                    ("", source, "ID", window),
                    ("", source, "other.id", window),
                    ("", source, items, f"{window} order by id"),
                    ("", source, items, f"{window} limit 3"),
                ]
            )
        return f"select {items}, {aggregate} {self.said('over')} {name} as c from {source}{where}{window}"

    def frame(self, unit: str) -> str:
        """A frame that is supported."""
        draw = self.draw
        days = unit == "range" and self.order == ["ts"]
        length = draw.choice(["interval '1' day", "INTERVAL 2 Days", "interval '36 hours'"] if days else "123")
        before, after, row = f"{length} {self.said('preceding')}", f"{length} {self.said('following')}", "current row"
        ends = [(before, row), (before, row), (before, after), (row, after), ("unbounded preceding", row)]
        start, end = draw.choice(ends)
        text = f"{self.said(unit)} {self.said('between')} {start} {self.said('and')} {self.said(end)}"
        if end == row and draw.random() < 0.4:
            text = f"{self.said(unit)} {start}"
        if (start, end) == (before, row):
            text += draw.choice(
                ["", " exclude no others", " exclude current row" if unit == "rows" else " Exclude Group"]
            )
        return text

    def wrong_frame(self) -> str:
        """A frame of any bounds, most of which SQL, or sash, refuses."""
        draw = self.draw
        bounds = ["current row", "unbounded preceding", "unbounded FOLLOWING"]
        bounds += [
            f"{n} {side}"
            for n in ("0", "2", "1.5", "-1", "x", "'1'", "interval '1' day")
            for side in ("PRECEDING", "following")
        ]
        first, last = draw.choice(bounds), draw.choice(bounds)
        text = f"{self.said(draw.choice(['rows', 'range', 'groups']))} between {first} and {last}"
        return text + draw.choice(["", "", " exclude current row", " exclude group", " exclude ties"])


def plain(value: Any) -> Any:
    """A value that can be compared: floats are rounded, NaN equals itself."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else round(value, 9) + 0.0
    return value


def rows_of(table: pa.Table, untimed: set[int]) -> list[str]:
    rows = [
        {name: plain(value) for name, value in row.items()} for row in table.to_pylist() if row["id"] not in untimed
    ]
    return sorted(repr([*map(str, row.values())]) for row in rows)


INTERNAL = ("NoneType", "has no attribute", "unpack", "unsupported operand", "not supported between", "\n")
"""What an error says that nobody has written for users."""


def result_of(text: str, events: pa.Table) -> pa.Table | None:
    """The result of a statement; None if it is refused, in one line of our own."""
    try:
        return sash.sql(text, events=events)
    except (TypeError, ValueError) as error:
        said, package = str(error), type(error).__module__.partition(".")[0]
    assert package in ("sash", "builtins"), (text, package, said)
    assert said, text
    assert not any(word in said for word in INTERNAL), (text, said)
    return None


@pytest.mark.usefixtures("interpreted_kernels", "column_aggregates")
@pytest.mark.parametrize("seed", range(12))
def test_drawn_statements_give_the_rows_of_duckdb_or_are_refused(seed: int) -> None:
    statements, seen = Statements(seed), Counter[str]()
    for _ in range(40):
        text, events = statements.statement(), events_of(statements.draw)
        found = result_of(text, events)
        if found is None:
            seen["refused"] += 1
            continue
        first = events[statements.order[0]].to_pylist()
        untimed = {i for i, value in enumerate(first) if value is None or value != value}
        if untimed and "following" in text.lower():
            continue  # SQL has these rows in windows that reach forward
        with duckdb.connect() as connection:
            connection.register("events", events)
            wanted = connection.sql(text).to_arrow_table()
        assert rows_of(found, untimed) == rows_of(wanted, untimed), text
        seen["compared"] += 1
    assert min(seen["compared"], seen["refused"]) >= 8, seen
