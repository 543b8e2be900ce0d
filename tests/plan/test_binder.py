"""Binding: durations in units, the schemas of results, and columns that are not there or do not fit."""

from typing import Any

import pyarrow as pa
import pytest

import sash
from sash import Query
from sash.windows import Count, Delta, Lifetime, Policy, Punctuation, Session, Time

SCHEMA = pa.schema(
    [
        ("symbol", pa.string()),
        ("ts", pa.timestamp("ms", "UTC")),
        ("seq", pa.int64()),
        ("price", pa.float64()),
        ("trader", pa.string()),
        ("km", pa.float32()),
        ("end", pa.bool_()),
        ("tags", pa.list_(pa.string())),
    ]
)
TS = SCHEMA.field("ts").type


def evicts(total: Any, prefix: Any) -> bool:
    return bool(total - prefix > 10)


# ---- windows ----


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_durations_are_in_units_of_their_column(unit: str) -> None:
    """On times in any unit the results are those on seconds."""
    seconds = [0, 1, 3, 4, 4, 9, 10, 75, 76, 140]
    data = {"x": range(10), "end": [i == 4 for i in range(10)], "u": pa.array(seconds, pa.timestamp("s"))}
    for windows in (
        {"t": Time("4s"), "both": Time("4s", closed="both"), "s": Session("5s"), "d": Delta("u", "3s"),
         "moved": Time("4s", shift="-1s"), "p": Punctuation("end"), "l": Lifetime(), "c": Count(3)},
        {"t": Time("1m", every="10s", offset="-1s"), "s": Session("5s", every="close"), "l": Lifetime(every="1m")},
        {"c": Count(3, every="1m"), "t": Time("8s", every=2)},
    ):  # fmt: skip
        found = []
        for kind in (pa.timestamp("s"), pa.timestamp(unit)):
            table = pa.table(data | {"t": pa.array(seconds, pa.timestamp("s")).cast(kind)})
            if "d" in windows:
                table = table.set_column(2, "u", table["u"].cast(kind))
            query = Query(windows, on="t", lateness="2s", held=sash.collect("x"))
            operator = query.operator(table.schema)
            made = (query.run(table), pa.Table.from_batches([operator.process(table), operator.finish()]))
            found += [
                rows.select([name for name in rows.column_names if name.startswith("held")]).to_pydict()
                for rows in made
            ]
        assert found[0] == found[1] == found[2] == found[3]


def test_resolving_is_done_once() -> None:
    q = Query(5, n=sash.count())
    assert q.bind(SCHEMA) is q.bind(SCHEMA.with_metadata({"made": "elsewhere"}))
    assert q.bind(SCHEMA) is not q.bind(pa.schema([("x", pa.int8())]))


# ---- the schemas of results ----


def names(query: Query, mode: str = "rows") -> list[str]:
    return query.bind(SCHEMA).output(mode).names


def test_the_modes() -> None:
    with pytest.raises(ValueError, match=r"mode= must be one of 'rows', 'given', 'sorted'; got 'batch'"):
        names(Query(5, n=sash.count()), "batch")


def test_results_per_row() -> None:
    q = Query("1h", on="ts", high=sash.max("price"), n=sash.count())
    assert names(q) == [*SCHEMA.names, "high", "n"]
    assert q.bind(SCHEMA).output("rows").types == [*SCHEMA.types, pa.float64(), pa.int64()]
    q = Query({"1h": "1h", "1k": 1000}, on="ts", high=sash.max("price"), n=sash.count())
    assert names(q) == [*SCHEMA.names, "high_1h", "n_1h", "high_1k", "n_1k"]


def test_late_rows_are_flagged_where_there_are_any() -> None:
    q = Query("1h", on="ts", lateness="1s", late="flag", n=sash.count())
    assert names(q, "rows") == names(q, "given") == [*SCHEMA.names, "n", "_late"]
    assert names(q, "sorted") == [*SCHEMA.names, "n"]
    assert q.bind(SCHEMA).output("rows").field("_late").type == pa.bool_()


def test_eager_results_have_a_row_and_a_revision() -> None:
    q = Query("1h", on="ts", lateness="1s", late="flag", emit="eager", n=sash.count())
    assert names(q) == [*SCHEMA.names, "n", "_late", "_row", "_revision"]
    q = Query(Time("1h", every="1m"), on="ts", emit="eager", n=sash.count())
    assert names(q) == ["window_start", "window_end", "n", "_row", "_revision"]
    assert q.bind(SCHEMA).output("rows").types[-2:] == [pa.int64(), pa.int64()]


def test_results_per_slide() -> None:
    q = Query(Time("1h", every="1m"), by=["symbol", "tags"], on="ts", high=sash.max("price"))
    output = q.bind(SCHEMA).output("rows")
    assert output.names == ["symbol", "tags", "window_start", "window_end", "high"]
    assert output.types == [pa.string(), pa.list_(pa.string()), TS, TS, pa.float64()]
    q = Query({"a": Time("1h", every="1m"), "b": Session("1m", every="close")}, by="symbol", on="ts", n=sash.count())
    output = q.bind(SCHEMA).output("rows")
    assert output.names == ["symbol", "window", "window_start", "window_end", "n"]
    assert output.field("window").type == pa.string()
    output = Query(Count(5, every=5), n=sash.count()).bind(SCHEMA).output("rows")
    assert (output.names, output.types) == (["window_start", "window_end", "n"], [pa.int64()] * 3)


def test_a_slide_may_reuse_the_name_of_a_column() -> None:
    """Only those of `by` are kept."""
    assert names(Query(Count(5, every=5), by="symbol", price=sash.max("price")))[-1] == "price"


# ---- what is refused ----


@pytest.mark.parametrize(
    ("query", "says"),
    [
        (
            Query(5, high=sash.max("prise")),
            r"high=max\('prise'\) names the column 'prise', which does not exist: did you mean 'price'\?",
        ),
        (
            Query(5, high=sash.max("zzz")),
            r"the column 'zzz', which does not exist. The columns are 'symbol', 'ts', 'seq'",
        ),
        (Query(5, by="Symbol", n=sash.count()), r"by= names the column 'Symbol', .*did you mean 'symbol'\?"),
        (Query("1h", on="tz", n=sash.count()), r"on= names the column 'tz', .*did you mean 'ts'\?"),
        (Query("1h", on=["ts", "sec"], n=sash.count()), r"on= names the column 'sec', .*did you mean 'seq'\?"),
        (Query(Delta("kmh", 5), n=sash.count()), r"column= of Delta names the column 'kmh', .*did you mean 'km'\?"),
        (
            Query({"w": Punctuation("ends")}, n=sash.count()),
            r"column= of Punctuation, the window 'w', names the column 'ends'",
        ),
        (Query(Policy(evicts, sash.sum("y")), n=sash.count()), r"over=sum\('y'\) of Policy names the column 'y'"),
    ],
    ids=str,
)
def test_unknown_columns(query: Query, says: str) -> None:
    for error in (KeyError, ValueError):
        with pytest.raises(error, match=says):
            query.bind(SCHEMA)


def test_an_unknown_column_of_an_empty_schema() -> None:
    with pytest.raises(KeyError, match="There are no columns"):
        Query(5, high=sash.max("x")).bind(pa.schema([]))
    with pytest.raises(KeyError, match=r"'c0', .*, 'c11', …$"):
        Query(5, high=sash.max("x")).bind(pa.schema([(f"c{i}", pa.int64()) for i in range(20)]))


@pytest.mark.parametrize(
    ("query", "error", "says"),
    [
        (
            Query("1h", on="trader", n=sash.count()),
            TypeError,
            r"on= names the column 'trader' of type string; it must be",
        ),
        (
            Query(Time(5), on="ts", n=sash.count()),
            TypeError,
            r"size= of Time is 5, and the column 'ts' is of type timestamp",
        ),
        (
            Query("1h", on="seq", n=sash.count()),
            TypeError,
            r"size= of Time is the duration '1h', and the column 'seq' is of",
        ),
        (
            Query({"w": "1us"}, on="ts", n=sash.count()),
            ValueError,
            r"size= of Time, the window 'w', is '1us', not a whole num",
        ),
        (
            Query(Time("1h", every="1us"), on="ts", n=sash.count()),
            ValueError,
            r"every= of Time is '1us', not a whole number",
        ),
        (
            Query(Time("1h", every="1m", offset="1us"), on="ts", n=sash.count()),
            ValueError,
            r"offset= of Time is '1us', no",
        ),
        (
            Query(Session("1us"), on="ts", n=sash.count()),
            ValueError,
            r"gap= of Session is '1us', not a whole number of ms",
        ),
        (
            Query("1h", on="ts", lateness="1us", n=sash.count()),
            ValueError,
            r"lateness= is '1us', not a whole number of ms",
        ),
        (
            Query("1h", on="ts", lateness=5, n=sash.count()),
            TypeError,
            r"lateness= is 5, and the column 'ts' .*a duration",
        ),
        (Query(5, on="ts", forget=5, n=sash.count()), TypeError, r"forget= is 5, and the column 'ts'"),
        (
            Query(5, on="seq", ahead=5, n=sash.count()),
            TypeError,
            r"ahead= compares times with the clock, and the column 'seq'",
        ),
        (
            Query("1h", on=["ts", "tags"], n=sash.count()),
            TypeError,
            r"on= names the tie-breaker 'tags' of type list.*no order",
        ),
        (
            Query(Delta("trader", 5), n=sash.count()),
            TypeError,
            r"column= of Delta names the column 'trader' of type string",
        ),
        (
            Query(Punctuation("km"), n=sash.count()),
            TypeError,
            r"column= of Punctuation names 'km' of type float; it must be ",
        ),
        (
            Query(5, s=sash.sum("trader")),
            TypeError,
            r"s=sum\('trader'\) reads numbers; the column 'trader' is of type string",
        ),
        (
            Query(5, s=sash.sum("ts")),
            TypeError,
            r"s=sum\('ts'\) reads numbers; .* is ordered but not a number: cast it",
        ),
        (
            Query(Policy(evicts, sash.sum("tags")), n=sash.count()),
            TypeError,
            r"over=sum\('tags'\) of Policy reads numbers",
        ),
        (
            Query(5, price=sash.count()),
            ValueError,
            r"the results would have two columns 'price', because each row keeps its",
        ),
    ],
    ids=str,
)
def test_columns_that_do_not_fit(query: Query, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        query.bind(SCHEMA)


def test_names_that_the_results_need() -> None:
    def schema(name: str) -> pa.Schema:
        return pa.schema([("ts", pa.timestamp("us")), (name, pa.int64())])

    flagged = Query("1h", on="ts", late="flag", n=sash.count())
    eager = Query("1h", on="ts", emit="eager", n=sash.count())
    for query, name in ((flagged, "_late"), (eager, "_row"), (eager, "_revision")):
        with pytest.raises(ValueError, match=f"the results would have two columns '{name}'"):
            query.bind(schema(name))
    assert Query("1h", on="ts", n=sash.count()).bind(schema("window")).output("rows").names == ["ts", "window", "n"]
    assert Query({"h": 5}, n=sash.count()).bind(schema("n")).output("rows").names == ["ts", "n", "n_h"]
    with pytest.raises(ValueError, match="two columns 'n_h'"):
        Query({"h": 5}, n=sash.count()).bind(schema("n_h"))


def test_a_column_that_is_there_twice() -> None:
    with pytest.raises(ValueError, match=r"the data has the column 'x' twice: rename one"):
        Query(5, n=sash.count()).bind(pa.schema([("x", pa.int64()), ("x", pa.int64())]))
