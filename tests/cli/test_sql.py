"""`sash.sql` against DuckDB, on every kind of frame, and what it refuses."""

from __future__ import annotations

import random
import re
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sash

CHANCE = np.random.default_rng(5)
ROWS = 50
EVENTS = pa.table(
    {
        "id": pa.array(range(ROWS)),
        "k": pa.array(CHANCE.choice(["a", "b", "c"], ROWS).tolist()),
        "t": pa.array(np.sort(CHANCE.integers(0, 60, ROWS))),
        "ts": pa.array((np.sort(CHANCE.integers(0, 3600, ROWS)) * 1_000_000).astype("datetime64[us]")),
        "x": pa.array([None if CHANCE.random() < 0.1 else round(float(v), 2) for v in CHANCE.normal(size=ROWS)]),
        "y": pa.array([None if CHANCE.random() < 0.1 else int(v) for v in CHANCE.integers(-3, 9, ROWS)]),
        "flag": pa.array((CHANCE.random(ROWS) < 0.5).tolist()),
        "s": pa.array(CHANCE.choice(["p", "q", "rr"], ROWS).tolist()),
    }
)

AGGREGATES = [
    "count(*)", "count(x)", "count(DISTINCT y)", "sum(x)", "sum(y)", "avg(x)", "avg(y)", "min(x)", "max(y)", "min(s)",
    "stddev(x)", "stddev_pop(x)", "variance(x)", "var_pop(y)", "median(x)", "quantile_cont(x, 0.25)", "sum(x * y)",
    "quantile_disc(x, 0.75)", "max(x) - min(x)", "sum(y) / count(*)", "bool_or(flag)", "bool_and(flag)", "corr(x, y)",
    "covar_samp(x, y)", "covar_pop(x, y)", "regr_slope(x, y)", "regr_intercept(x, y)", "sum(abs(y))", "skewness(x)",
    "first_value(x IGNORE NULLS)", "last_value(y IGNORE NULLS)", "product(x)", "count(x + y)", "kurtosis(x)",
]  # fmt: skip
FRAMES = [
    "PARTITION BY k ORDER BY t, id ROWS BETWEEN 4 PRECEDING AND CURRENT ROW",
    "PARTITION BY k ORDER BY t, id ROWS BETWEEN 5 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW",
    "ORDER BY id ROWS BETWEEN 7 PRECEDING AND 2 PRECEDING",
    "PARTITION BY s ORDER BY t, id ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING",
    "ORDER BY t, id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "ORDER BY t, id ROWS 3 PRECEDING",
    "PARTITION BY k ORDER BY t RANGE BETWEEN 9 PRECEDING AND CURRENT ROW",
    "PARTITION BY k ORDER BY t RANGE BETWEEN 9 PRECEDING AND CURRENT ROW EXCLUDE GROUP",
    "ORDER BY ts RANGE BETWEEN INTERVAL '5' MINUTE PRECEDING AND CURRENT ROW",
    "PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL 90 SECOND PRECEDING AND INTERVAL 30 SECOND PRECEDING",
    "ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND INTERVAL '2' MINUTE FOLLOWING",
    "PARTITION BY k ORDER BY t",
]  # fmt: skip


def statement(draw: random.Random) -> str:
    """A statement of one to three columns over one window, some with conditions."""
    frame = draw.choice(FRAMES)
    named = draw.random() < 0.3
    over = "w" if named else f"({frame})"
    columns = ["id"]
    for i in range(draw.randint(1, 3)):
        chosen = draw.choice(AGGREGATES)
        parts = chosen.split(" ") if any(f" {sign} " in chosen for sign in "-/") else [chosen]
        condition = draw.choice(["", "", " FILTER (WHERE y > 2)", " FILTER (WHERE x IS NOT NULL AND s <> 'p')"])
        if "IGNORE" in chosen:
            condition = ""
        made = " ".join(part if part in "-/" else f"{part}{condition} OVER {over}" for part in parts)
        columns.append(f"{made} AS c{i}")
    where = draw.choice(["", "", " WHERE y > -2", " WHERE s IN ('p', 'q') OR x > 0"])
    window = f" WINDOW w AS ({frame})" if named else ""
    return f"SELECT {', '.join(columns)} FROM events{where}{window}"


def expected(text: str, events: pa.Table = EVENTS) -> list[dict[str, Any]]:
    with duckdb.connect() as connection:
        connection.register("events", events)
        return connection.sql(f"SELECT * FROM ({text}) ORDER BY ALL").to_arrow_table().to_pylist()


def assert_rows(found: list[dict[str, Any]], wanted: list[dict[str, Any]], text: str) -> None:
    assert len(found) == len(wanted), text
    for one, other in zip(found, wanted, strict=True):
        assert one.keys() == other.keys(), text
        for name, value in one.items():
            known = other[name]
            if isinstance(value, float) and isinstance(known, int | float):
                # moments of constant values are 0 or undefined: others round
                same = np.isclose(value, known, rtol=1e-9, atol=1e-9) or (np.isnan(value) and np.isnan(known))
            elif isinstance(known, float) and np.isnan(known):
                same = value is None  # DuckDB divides by a deviation of zero
            else:
                same = value == known
            assert same, f"{text}\n{name}: {value!r}, of DuckDB {known!r}, in {one}"


@pytest.mark.usefixtures("interpreted_kernels", "column_aggregates")
@pytest.mark.parametrize("seed", range(20))
def test_statements_give_the_results_of_duckdb(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(10):
        text = statement(draw)
        found = sash.sql(text, events=EVENTS).sort_by("id").to_pylist()
        assert_rows(found, expected(text), text)


def test_several_partitions_in_one_statement() -> None:
    text = """SELECT *, y * 2 AS twice, count(*) OVER (PARTITION BY k ORDER BY id ROWS 3 PRECEDING) AS a,
        lag(y, 2) OVER (PARTITION BY s ORDER BY t, id) AS b, row_number() OVER (ORDER BY id) AS c,
        (x - avg(x) OVER (ORDER BY id ROWS 9 PRECEDING)) / 2 AS d FROM events"""
    assert_rows(sash.sql(text, events=EVENTS).sort_by("id").to_pylist(), expected(text), text)


def test_a_result_may_have_the_name_of_a_column() -> None:
    text = "SELECT id, max(x) OVER (ORDER BY id ROWS 2 PRECEDING) AS x, x AS was FROM events"
    assert_rows(sash.sql(text, events=EVENTS).to_pylist(), expected(text), text)


def test_names_without_as() -> None:
    text = "SELECT max(x) OVER w, count(*) FILTER (WHERE y > 1) OVER w FROM events WINDOW w AS (ORDER BY id)"
    assert sash.sql(text, events=EVENTS).column_names == ["max_x", "count"]


@pytest.mark.parametrize("kind", ["pandas", "polars", "lazy", "numpy", "batch", "duckdb"])
def test_every_kind_of_frame(kind: str) -> None:
    plain = EVENTS.select(["id", "k", "t"]).append_column("x", EVENTS["x"].fill_null(0.5))
    frame: Any = {
        "pandas": plain.to_pandas,
        "polars": lambda: pl.from_arrow(plain),
        "lazy": lambda: pl.from_arrow(plain).lazy(),  # type: ignore[union-attr]
        "numpy": lambda: {name: plain[name].to_numpy() for name in plain.column_names},
        "batch": lambda: plain.combine_chunks().to_batches()[0],
        "duckdb": lambda: duckdb.from_arrow(plain),
    }[kind]()
    text = "SELECT id AS i, max(x) OVER (PARTITION BY k ORDER BY t RANGE 9 PRECEDING) AS high FROM events WHERE x > -1"
    result = sash.sql(text, events=frame)
    kinds = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "lazy": pl.DataFrame, "numpy": dict}
    assert isinstance(result, kinds.get(kind, pa.RecordBatch if kind == "batch" else pa.Table))
    found = {"pandas": lambda: pa.Table.from_pandas(result, preserve_index=False), "numpy": lambda: pa.table(result)}
    table = found.get(kind, lambda: pa.table(result))()
    assert_rows(table.sort_by("i").to_pylist(), expected(text, plain), text)


# ---- GROUP BY ----

SLIDES = {
    "TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' MINUTES))": (600, 600),
    "TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '15' MINUTE))": (900, 300),
    "TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '7' MINUTE, INTERVAL '15' MINUTE))": (900, 420),
    "TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '9' MINUTE, INTERVAL '2' MINUTE))": (120, 540),
    "TABLE(HOP(DATA => TABLE events, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '15' MINUTE, "
    "SLIDE => INTERVAL '5' MINUTE))": (900, 300),
}


@pytest.mark.parametrize("source", SLIDES)
def test_hopping_windows_are_those_of_a_join(source: str) -> None:
    size, every = SLIDES[source]
    text = f"""SELECT k, window_start, window_end AS e, sum(y) AS s, count(*) FILTER (WHERE x > 0) AS n,
        max(x) - min(x) AS r FROM {source} GROUP BY k, window_start, window_end"""
    joined = f"""SELECT k, s0 AS window_start, s0 + INTERVAL {size} SECOND AS e, sum(y)::BIGINT AS s,
        count(*) FILTER (WHERE x > 0) AS n, max(x) - min(x) AS r FROM events
        JOIN (SELECT make_timestamp(i * {every} * 1000000) AS s0 FROM range(-10, 40) r(i))
        ON ts >= s0 AND ts < s0 + INTERVAL {size} SECOND GROUP BY k, s0"""
    found = sash.sql(text, events=EVENTS).sort_by([("k", "ascending"), ("window_start", "ascending")]).to_pylist()
    assert_rows(found, expected(joined), text)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("window(ts, '10 minutes')", "TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' MINUTES)"),
        (
            "window(ts, '15 minutes', '5 minutes', '1 minute')",
            "HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '5' MINUTES, INTERVAL '15' MINUTES, INTERVAL '1' MINUTE)",
        ),
        (
            "window(ts, '10 minutes', '3 minutes', '1 minute')",
            "HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '3' MINUTES, INTERVAL '10' MINUTES, INTERVAL '1' MINUTE)",
        ),
        (
            "session_window(ts, '2 minutes')",
            "SESSION(TABLE events PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' MINUTES)",
        ),
        (
            "session_window(ts, '2 minutes')",
            "Session(DATA => table events partition by \"k\", TIMECOL => descriptor(ts), gap => interval '2' minutes)",
        ),
    ],
)
def test_the_windows_of_spark_are_those_of_flink(ours: str, theirs: str) -> None:
    name = ours.partition("(")[0]
    one = sash.sql(
        f"SELECT k, {name}.start AS a, {name}.end AS b, count(*) AS n FROM events GROUP BY k, {ours}", events=EVENTS
    )
    text = f"SELECT k, window_start AS a, window_end AS b, count(*) AS n FROM TABLE({theirs})"
    assert one.equals(sash.sql(f"{text} GROUP BY k, window_start, window_end", events=EVENTS))
    assert one.num_rows > 3
    first = f"SELECT {name}.start AS a, {name}.end AS b, count() AS n FROM events GROUP BY {ours}, k"
    assert sash.sql(first, events=EVENTS).equals(one.drop_columns("k"))


def test_cumulating_windows_grow_by_steps() -> None:
    text = """SELECT window_start, window_end, count(*) AS n FROM TABLE(
        CUMULATE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' MINUTES, INTERVAL '30' MINUTES))
        GROUP BY window_start, window_end"""
    found = {(r["window_start"], r["window_end"]): r["n"] for r in sash.sql(text, events=EVENTS).to_pylist()}
    start = np.datetime64("1970-01-01")
    seconds = EVENTS["ts"].to_numpy().astype("datetime64[s]").astype(int)
    wanted = {}
    for first in (0, 1800):
        for end in (first + 600, first + 1200, first + 1800):
            n = int(((seconds >= first) & (seconds < end)).sum())
            if n:
                wanted[
                    (start + first * np.timedelta64(1, "s")).item(), (start + end * np.timedelta64(1, "s")).item()
                ] = n
    assert {(a, b): n for (a, b), n in found.items()} == {
        (pd.Timestamp(a).to_pydatetime(), pd.Timestamp(b).to_pydatetime()): n for (a, b), n in wanted.items()
    }


# ---- what is refused ----


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELEC 3", "this is not SQL at line 1"),
        ("DROP TABLE events", "give a SELECT statement; this is DROP"),
        ("SELECT 1; SELECT 2", "give one SELECT statement; there are 2"),
        ("SELECT x FROM events", "the statement has no window"),
        ("SELECT max(x) OVER (ORDER BY t)", "there is no FROM"),
        ("SELECT max(x) OVER (ORDER BY t) FROM other", r"FROM other: no such table was passed; there are events"),
        (
            "SELECT max(x) OVER (ORDER BY t) FROM events JOIN b ON true",
            "JOIN is not about windows: use your own engine",
        ),
        ("SELECT max(x) OVER (ORDER BY t) FROM events ORDER BY t", "ORDER BY is not about windows"),
        ("SELECT DISTINCT max(x) OVER (ORDER BY t) FROM events", "DISTINCT is not about windows"),
        ("WITH a AS (SELECT 1) SELECT max(x) OVER (ORDER BY t) FROM a", "WITH is not about windows"),
        ("SELECT max(x) OVER (ORDER BY t) FROM (SELECT * FROM events)", "FROM takes the name of a table"),
        ("SELECT max(x) OVER (PARTITION BY k) FROM events", "is the whole partition, which does not slide"),
        ("SELECT max(x) OVER (ORDER BY t DESC) FROM events", "leave out DESC"),
        ("SELECT max(x) OVER (ORDER BY t + 1) FROM events", r"ORDER BY t \+ 1: name a column"),
        ("SELECT max(x) OVER v FROM events WINDOW w AS (ORDER BY t)", r"OVER v: there is no such window"),
        ("SELECT rank() OVER (ORDER BY t) FROM events", r"the function rank\(\) is not supported over windows"),
        (
            "SELECT first_value(x) OVER (ORDER BY t) FROM events",
            r"aggregates skip nulls, so write FIRST_VALUE\(… IGNORE",
        ),
        ("SELECT coalesce(max(x) OVER (ORDER BY t), 0) FROM events", r"only \+ - \* / and parentheses are supported"),
        ("SELECT max(x) OVER (ORDER BY t GROUPS 2 PRECEDING) FROM events", "frames are ROWS or RANGE, not GROUPS"),
        (
            "SELECT max(x) OVER (ORDER BY t ROWS BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING) FROM events",
            "a window ends at most a fixed length after its row",
        ),
        (
            "SELECT max(x) OVER (ORDER BY t RANGE BETWEEN 9 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW) FROM events",
            "write EXCLUDE GROUP",
        ),
        ("SELECT k, sum(x) FROM events GROUP BY k", "GROUP BY has no window"),
        (
            "SELECT s, sum(x) FROM events GROUP BY k, window(ts, '1 minute')",
            "'s' is neither aggregated nor in GROUP BY",
        ),
        ("SELECT k, window FROM events GROUP BY k, window(ts, '1 minute')", "'window' is neither aggregated"),
        ("SELECT k FROM events GROUP BY k, window(ts, '1 minute')", "the statement has no aggregate"),
        (
            "SELECT max(x) OVER (ORDER BY t) FROM events GROUP BY k, window(ts, '1 minute')",
            "OVER and GROUP BY cannot be combined",
        ),
        (
            "SELECT max(x) OVER w AS a, min(x) OVER w AS a FROM events WINDOW w AS (ORDER BY t)",
            "two columns are named 'a'",
        ),
        ("SELECT *, max(x) OVER (ORDER BY t) AS x FROM events", "two columns are named 'x'"),
        ("SELECT max(x) OVER (ORDER BY t) AS a FROM events WHERE y", "it must be true or false"),
        (
            "SELECT max(z) OVER (ORDER BY t) AS a FROM events",
            r"a=max\('z'\).*names the column 'z', which does not exist",
        ),
        ("SELECT quantile_cont(x, y) OVER (ORDER BY t) FROM events", "must be a number; got y"),
        ("SELECT max(x, 2) OVER (ORDER BY t) FROM events", r"2 is not supported in MAX\(x, 2\)"),
        ("SELECT arg_max(x, y, 3) OVER (ORDER BY t) FROM events", r"3 is not supported in ARG_MAX\(x, y, 3\)"),
        ("SELECT row_number(ORDER BY x) OVER (ORDER BY t) FROM events", "ORDER BY x is not supported in ROW_NUMBER"),
        ("SELECT row_number() FILTER (WHERE flag) OVER (ORDER BY t) FROM events", "FILTER is for aggregates"),
        ("SELECT lag(x) FILTER (WHERE flag) OVER (ORDER BY t) FROM events", "FILTER is for aggregates"),
        ("SELECT max(x ORDER BY y) OVER (ORDER BY t) FROM events", "ORDER BY is not supported in this function"),
        ("SELECT quantile_cont(x) OVER (ORDER BY t) FROM events", "must be a number; got none"),
        ("SELECT sum(DISTINCT x) OVER (ORDER BY t) FROM events", "DISTINCT is not supported in this function"),
        ("SELECT max(x) OVER (ORDER BY t NULLS FIRST) FROM events", "NULLS FIRST is not supported: rows whose order"),
        ("SELECT max(x) OVER (ORDER BY t nulls last) FROM events", "NULLS LAST is not supported"),
        ("SELECT * EXCLUDE (x), max(x) OVER (ORDER BY t) FROM events", r"x is not supported in \* EXCLUDE"),
        ("SELECT max(x) OVER (ORDER BY t) FROM events TABLESAMPLE 3", "TABLESAMPLE .* is not supported"),
        ("SELECT max(x) OVER (ORDER BY t) FROM events e(a)", "a is not supported in e"),
        ("SELECT max(x) OVER (ORDER BY t) FROM main.events", "main is not supported in main.events"),
        ("SELECT other.id, max(x) OVER (ORDER BY t) FROM events", "SELECT other.id: FROM has no table 'other'"),
        ("SELECT max(x) OVER (ORDER BY t) FROM events WHERE y BETWEEN SYMMETRIC 1 AND 2", "SYMMETRIC is not supported"),
        ("SELECT sum(round(x, 1, 2)) OVER (ORDER BY t) FROM events", r"2 is not supported in ROUND\(x, 1, 2\)"),
        (
            "SELECT max(x) OVER (ORDER BY t ROWS BETWEEN CURRENT ROW AND unbounded following) FROM events",
            "fixed length",
        ),
        (
            "SELECT max(x) OVER (ORDER BY t, id RANGE 2 PRECEDING) FROM events",
            "RANGE with a distance needs one column in ORDER BY, to measure it: leave out id, or write ROWS",
        ),
        ("SELECT max(x) OVER (ORDER BY t ROWS INTERVAL '1' DAY PRECEDING) FROM events", "ROWS counts rows"),
        (
            "SELECT max(x) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND 3 FOLLOWING) FROM events",
            "both bounds must be intervals, or both numbers",
        ),
        ("SELECT max(x) OVER (ORDER BY t ROWS BETWEEN 1 PRECEDING AND UNBOUNDED PRECEDING) FROM events", "has no rows"),
        ("SELECT max(x) OVER (w PARTITION BY k) FROM events WINDOW w AS (ORDER BY t)", "PARTITION BY cannot replace"),
        ("SELECT max(x) OVER (w ORDER BY id) FROM events WINDOW w AS (ORDER BY t)", "ORDER BY cannot replace that of"),
        ("SELECT max(x) OVER v FROM events WINDOW w AS (v), v AS (w)", "refers to itself"),
        ("SELECT max(x) OVER w FROM events WINDOW w AS (ORDER BY t), w AS (ORDER BY id)", "WINDOW has two windows w"),
        ("SELECT k, sum(x) FROM events GROUP BY ROLLUP (k), window(ts, '1 minute')", "GROUP BY ROLLUP"),
        ("SELECT sum(x) FROM events GROUP BY window(ts + INTERVAL '1' HOUR, '1 minute')", "name a column; compute it"),
        (
            "SELECT k, sum(x) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY k",
            "GROUP BY without window_start and window_end joins the rows of all windows",
        ),
        (
            "SELECT sum(x) FROM TABLE(SESSION(TABLE events, DESCRIPTOR(ts), 3)) GROUP BY k, window_start, window_end",
            r"the sessions have other keys than GROUP BY: write SESSION\(TABLE events PARTITION BY k, …\)",
        ),
        (
            "SELECT sum(x) FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), GAP => 3)) GROUP BY window_start, window_end",
            "gap is not an argument of HOP; the arguments are data, timecol, slide, size, offset",
        ),
        (
            "SELECT sum(x) FROM TABLE(SLIDE(TABLE events, DESCRIPTOR(ts), 3)) GROUP BY k",
            "there are TUMBLE, HOP, SESSION",
        ),
        (
            "SELECT max(x) OVER (ORDER BY t ROWS BETWEEN CURRENT ROW AND 0 PRECEDING) FROM events",
            "0 PRECEDING\\) must begin before it ends",
        ),
        (
            "SELECT max(x) OVER (ORDER BY t ROWS BETWEEN 0 FOLLOWING AND CURRENT ROW) FROM events",
            "must begin before it ends",
        ),
        ("SELECT max(x) OVER (ORDER BY t ROWS BETWEEN 1 PRECEDING) FROM events", "ROWS BETWEEN a start AND an end"),
        ("SELECT max(x) OVER (ORDER BY t rows 1 preceding and current row) FROM events", "or ROWS and a start alone"),
        ("SELECT max(x) OVER (ORDER BY t RANGE CURRENT ROW AND 1 FOLLOWING) FROM events", "or RANGE and a start alone"),
        ("SELECT max(x) OVER (ORDER BY t ROWS BETWEEN 1 AND 2) FROM events", "has PRECEDING or FOLLOWING"),
        ("SELECT max(x) OVER (ORDER BY t ROWS UNBOUNDED) FROM events", "has PRECEDING or FOLLOWING"),
        ("SELECT max(x) OVER (ORDER BY t ROWS) FROM events", "has PRECEDING or FOLLOWING"),
        ("SELECT max(x) OVER (ORDER BY t) + 1 / 0 FROM events", "1 / 0 is not a finite number"),
        (
            "SELECT 1 + 1, sum(x) FROM events GROUP BY window(ts, '1 minute')",
            r"SELECT 1 \+ 1: a number is no aggregate",
        ),
        ("SELECT sum(x) > 1 FROM events GROUP BY window(ts, '1 minute')", r"^SUM\(x\) > 1 is no aggregate: write one"),
        ("SELECT max(x) - window_end FROM events GROUP BY window(ts, '1 minute')", "^window_end is no aggregate"),
        ("SELECT sum(x), NULL FROM events GROUP BY window(ts, '1 minute')", "^NULL is no aggregate: write one"),
        ("SELECT id, , max(x) OVER (ORDER BY t) FROM events", "this is not SQL at line 1, column 12: nothing at ','"),
        ("SELECT , max(x) OVER (ORDER BY t) FROM events", "nothing at ','"),
        ("SELECT max(x) OVER (PARTITION BY , k ORDER BY t) FROM events", "nothing at ','"),
        ("SELECT max(x) OVER (ORDER BY t) AS, id FROM events", "nothing at 'AS'"),
        ("SELECT max(x) OVER (ORDER BY t) AS FROM events", "nothing at 'AS'"),
        (
            "SELECT max(x) OVER (ORDER BY t) FROM events WHERE",
            "this is not SQL at line 1, column 49: Required keyword: 'this'$",
        ),
        (
            "SELECT max(x) OVER (ORDER BY t)" + " + max(x) OVER (ORDER BY t)" * 400 + " FROM events",
            "a formula has at most 150 operations",
        ),
        ("SELECT max(x) OVER (ORDER BY t) FROM events WHERE " + "(" * 400 + "x" + ")" * 400, "nested too deep"),
    ],
)
def test_what_is_refused_is_named(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as found:
        sash.sql(text, events=EVENTS)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT X, sum(x) OVER (ORDER BY t) AS s FROM events", "SELECT names 'X': did you mean 'x'?"),
        ("SELECT X + 1 AS z, sum(x) OVER (ORDER BY t) AS s FROM events", "SELECT names 'X': did you mean 'x'?"),
        (
            "SELECT sum(X) OVER (ORDER BY t) AS s FROM events",
            "s=sum('X').over(Lifetime()) names 'X': did you mean 'x'?",
        ),
        (
            "SELECT sum(x) FILTER (WHERE Y) OVER (ORDER BY t) AS s FROM events",
            "s=sum('x', where='Y').over(Lifetime()) names 'Y': did you mean 'y'?",
        ),
        ("SELECT sum(x) OVER (PARTITION BY K ORDER BY t) FROM events", "PARTITION BY names 'K': did you mean 'k'?"),
        ("SELECT sum(x) OVER (ORDER BY T) AS s FROM events", "ORDER BY names 'T': did you mean 't'?"),
        ("SELECT sum(x) OVER (ORDER BY t) FROM events WHERE X > 1", "WHERE names 'X': did you mean 'x'?"),
        (
            "SELECT sum(x) OVER (PARTITION BY k ORDER BY t) AS s, max(s) OVER (ORDER BY t) AS m FROM events",
            "m=max('s').over(Lifetime()) names 's'.",
        ),
        (
            "SELECT sum(x) OVER (ORDER BY y) AS s, max(x) FILTER (WHERE s > 1) OVER (ORDER BY t) AS m FROM events",
            "m=max('x', where='s > 1').over(Lifetime()) names 's'.",
        ),
        ('SELECT sum(z) OVER (ORDER BY t) AS "my sum" FROM events', "my sum=sum('z').over(Lifetime()) names 'z'."),
        ("SELECT sum(z) OVER (ORDER BY t) AS x FROM events", "x_=sum('z').over(Lifetime()) names 'z'."),
        ("SELECT sum(x) OVER (ORDER BY t) FROM events WHERE events.zzz > 1", "WHERE names 'zzz'."),
        (
            'SELECT sum(x) OVER (ORDER BY t) FROM events WHERE k = "q!"',
            "WHERE names 'q!': texts take single quotes: k = 'q!'.",
        ),
        ("SELECT K, sum(x) AS s FROM events GROUP BY K, window(t, 3)", "GROUP BY names 'K': did you mean 'k'?"),
        ("SELECT sum(x) AS s FROM events GROUP BY window(T, 3)", "window names 'T': did you mean 't'?"),
        (
            "SELECT sum(x) OVER v FROM events WINDOW v AS (ORDER BY t), w AS (ORDER BY T)",
            "ORDER BY names 'T': did you mean 't'?",
        ),
    ],
)
def test_a_name_that_does_not_exist_is_the_same_error_on_every_host(text: str, said: str) -> None:
    plain = EVENTS.select(["k", "t", "x", "y"])
    start, name, hint = said.partition(re.search(r"names '(.+?)'", said)[0])  # type: ignore[index]
    name = name.replace("names", "names the column")
    wanted = f"{start}{name}, which does not exist{hint} The columns are 'k', 't', 'x', 'y'"
    hosts = {
        "arrow": plain,
        "pandas": plain.to_pandas(),
        "polars": pl.from_arrow(plain),
        "lazy": pl.from_arrow(plain).lazy(),  # type: ignore[union-attr]
        "numpy": {name: plain[name].to_numpy() for name in plain.column_names},
        "duckdb": duckdb.from_arrow(plain),
    }
    for host, frame in hosts.items():
        with pytest.raises(KeyError) as found:
            sash.sql(text, events=frame)
        assert str(found.value).removesuffix(", 'index'") == wanted, host


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id, sash_sql_1, sum(x) OVER (ORDER BY t) AS s, x + 1 AS sash_sql_1_ FROM events",
        'SELECT id, "*", sum("*") OVER (ORDER BY t, id) AS s, peers FROM events',
        "SELECT id, sum(peers) OVER (PARTITION BY x ORDER BY t, id) AS peers_, max(x) OVER (ORDER BY id) m FROM events",
        "SELECT id, max(id) OVER (ORDER BY t) AS id_, min(id) OVER (PARTITION BY x ORDER BY t) AS x FROM events",
        'SELECT id, sum(x) OVER (ORDER BY t) AS "by", max(x) OVER (ORDER BY id) AS window_start, x AS "on" FROM events',
    ],
)
def test_no_column_is_taken_for_another(text: str) -> None:
    columns = {
        "id": [0, 1, 2],
        "t": [1, 1, 2],
        "x": [1, 2, 4],
        "peers": [7, 8, 9],
        "sash_sql_1": [5, 3, 4],
        "*": [2] * 3,
    }
    table = pa.table(columns)
    for frame in (table, pl.from_arrow(table), table.to_pandas()):
        found = pa.table(sash.sql(text, events=frame))
        assert_rows(found.to_pylist(), expected(text, table), text)


def test_types_do_not_depend_on_the_rows_that_where_leaves() -> None:
    columns: dict[str, list[Any]] = {"t": [1, 2, 3], "u": [None, None, 4], "s": [None, "a", "b"], "x": [1, 2, 2.5]}
    text = """SELECT sum(x) OVER w AS x, max(s) OVER w AS s, sum(u) OVER w AS u FROM events WHERE t < 2
        WINDOW w AS (ORDER BY """
    for order in ("t)", "t, u)", "u, t)"):
        wanted = {"x": [1.0], "s": [None], "u": [None]} if order != "u, t)" else {"x": [None], "s": [None], "u": [None]}
        found = sash.sql(text + order, events=columns)
        assert found == wanted
        assert isinstance(found["x"][0], float | None)
        objects = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
        assert sash.sql(text + order, events=objects)["x"].isna().tolist() == [wanted["x"] == [None]]


def test_comments_belong_to_no_name_and_no_message() -> None:
    text = "SELECT max(x /* of all */) OVER w -- OVER (\n, id FROM events WINDOW w AS (ORDER BY id)"
    assert sash.sql(text, events=EVENTS).column_names == ["max_x", "id"]
    for over in ("/* OVER ( */ OVER", "FILTER (WHERE s <> ' OVER ') OVER"):
        with pytest.raises(ValueError, match=r"^\(ORDER BY t ROWS BETWEEN 2 FOLLOWING AND 1 FOLLOWING\) has no rows$"):
            sash.sql(
                f"SELECT max(x) {over} (ORDER BY t ROWS BETWEEN 2 FOLLOWING AND 1 FOLLOWING) FROM events", events=EVENTS
            )


def test_named_arguments_have_any_order() -> None:
    wanted = sash.sql(
        "SELECT k, window_start, count(*) AS n FROM TABLE(HOP(TABLE events PARTITION BY k, DESCRIPTOR(ts), INTERVAL "
        "'3' MINUTES, INTERVAL '10' MINUTES)) GROUP BY k, window_start, window_end",
        events=EVENTS,
    )
    arguments = [
        "SIZE => INTERVAL '10' MINUTES",
        "TIMECOL => DESCRIPTOR(ts)",
        "SLIDE => INTERVAL '3' MINUTES",
        "DATA => TABLE events PARTITION BY k",
    ]
    for first in range(4):
        given = ", ".join(arguments[first:] + arguments[:first])
        text = f"SELECT k, window_start, count(*) AS n FROM TABLE(HOP({given})) GROUP BY k, window_start, window_end"
        assert sash.sql(text, events=EVENTS).equals(wanted)


def test_a_level_of_the_index_is_a_column() -> None:
    frame = pd.DataFrame({"x": [1, 2, 4]}, index=pd.Index([1, 2, 2], name="t"))
    text = "SELECT t AS at, sum(x) OVER (ORDER BY t) AS s FROM events WHERE t > 1"
    assert sash.sql(text, events=frame).to_dict("list") == {"at": [2, 2], "s": [6, 6]}


# ---- peers over several columns ----


@pytest.mark.parametrize(
    "frame", ["", " RANGE UNBOUNDED PRECEDING", " range between unbounded preceding and Current Row"]
)
@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars", "numpy"])
def test_peers_are_equal_in_all_columns_of_order_by(kind: str, frame: str) -> None:
    columns = {"k": ["u"] * 4, "a": [1, 1, 1, 2], "b": [1, 2, 2, 1], "x": [1, 2, 4, 8]}
    hosts: dict[str, Any] = {
        "arrow": pa.table(columns),
        "pandas": pd.DataFrame(columns),
        "polars": pl.DataFrame(columns),
        "numpy": {name: np.array(values) for name, values in columns.items()},
    }
    text = f"SELECT *, sum(x) OVER (PARTITION BY k ORDER BY a, b{frame}) AS s FROM events"
    found = sash.sql(text, events=hosts[kind])
    assert list(found.keys() if kind == "numpy" else pa.table(found).column_names) == ["k", "a", "b", "x", "s"]
    assert pa.array(found["s"]).to_pylist() == [1, 7, 7, 15]


def test_a_statement_is_text() -> None:
    with pytest.raises(TypeError, match=r"takes a statement as text; got 3"):
        sash.sql(3, events=EVENTS)  # type: ignore[arg-type]


@pytest.mark.parametrize("condition", ["x > 100", "x > 2", "s = 'w'"])
def test_a_condition_does_not_change_the_types_of_lists(condition: str) -> None:
    """The rows that are left, none or whole numbers alone, do not show what the columns hold."""
    data = {"k": ["a", "a", "b"], "t": [1, 2, 3], "x": [1.5, 3.0, 4.0], "s": ["u", "v", None]}
    statement = f"SELECT k, sum(x) OVER w AS y, max(s) OVER w AS s FROM r WHERE {condition} WINDOW w AS (ORDER BY t)"
    found = sash.sql(statement, r=data)
    wanted = sash.sql(statement, r=pa.table(data)).to_pydict()
    assert found == wanted
    assert all(type(values) is list for values in found.values())
    assert repr(found["y"]) == repr(wanted["y"])
