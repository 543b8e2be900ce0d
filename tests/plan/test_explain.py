"""explain(): the plan as text."""

import math
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash import Options, Query
from sash.plan.explain import default_schema, most_panes
from sash.plan.planner import DEQUE_SIZES
from sash.windows import Count, Delta, Lifetime, Policy, Punctuation, Session, Time

SCHEMA = pa.schema(
    [
        ("symbol", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
        ("seq", pa.int64()),
        ("price", pa.float64()),
        ("trader", pa.string()),
        ("end", pa.bool_()),
    ]
)


def evicts(total: Any, prefix: Any) -> bool:
    return bool(total - prefix > 10)


def section(text: str, title: str) -> list[str]:
    """The lines of a section, without their indent."""
    lines = text.partition(f"\n\n{title}\n")[2].partition("\n\n")[0].splitlines()
    return [line.removeprefix("  ") for line in lines]


def explained(windows: Any, title: str, schema: pa.Schema | None = SCHEMA, **keywords: Any) -> list[str]:
    said = {"on": "ts", "high": sash.max("price")} | keywords
    return section(
        Query(windows, **{name: value for name, value in said.items() if value is not None}).explain(schema), title
    )


# ---- as a whole ----


def test_one_window_per_row() -> None:
    query = Query(
        "1h", by="symbol", on="ts", high=sash.max("price"), n=sash.count(), who=sash.arg_max("price", "trader")
    )
    assert query.explain(SCHEMA) == dedent(
        """\
        Query(Time('1h'), by='symbol', on='ts', high=max('price'), n=count(), who=arg_max('price', 'trader'))

        windows
          Time('1h')  at each row:  (t - 1h, t], rows of equal time together

        results
          one row for each input row, keyed by symbol
          high  max('price')                double
          n     count()                     int64
          who   arg_max('price', 'trader')  string
          final: each result is emitted once, when it is final

        order
          ts, then the order of arrival
          no lateness=: rows must be in order, an earlier one is an error (frames are sorted first)

        shared
          Time('1h'): single rows

        structures
          high  TwoStacksLite    no exact inverse; measured the fastest of those that need none
          n     SubtractOnEvict  an exact inverse: the oldest comes off the total
          who   TwoStacksLite    no exact inverse; measured the fastest of those that need none
          costs in ⊕ per insert, evict, query; n elements in the window
            TwoStacksLite:    1, 1, 1; at worst 1, n, 1; space n + 1
            SubtractOnEvict:  1, 1, 0; at worst 1, 1, 0; space n
          on frames and sorted batches: whole-column kernels for high, n, who

        ties
          rows of a key with equal ts have no fixed order on Spark; it affects
            who=arg_max('price', 'trader')
          the same on every host where ts is unique for a key; else add a tie-breaker to on=

        state
          Time('1h'): each key holds the rows of the last 1h, each with ts, price, trader
        """
    )


def test_several_windows_per_slide_without_a_schema() -> None:
    windows = {"d": Time("24h", every="1m"), "w": Time("7d", every="1m"), "s": Session("10m", every="close")}
    query = Query(windows, by="symbol", on="ts", lateness="10s", high=sash.max("price"), total=sash.sum("price"))
    assert query.explain() == f"{query!r}\n" + dedent(
        """\
        (no schema was given; assumed: symbol string, price double, ts timestamp[us])

        windows
          d  Time('1d', every='1m')         every 1m:        [end - 1d, end), rows of equal time together
          w  Time('7d', every='1m')         every 1m:        [end - 7d, end), rows of equal time together
          s  Session('10m', every='close')  when it closes:  rows at most 10m apart

        results
          one row per key and slide, keyed by symbol
          high   max('price')  double
          total  sum('price')  double
          final: each result is emitted once, when it is final

        order
          ts, then the order of arrival
          rows at most 10s behind the latest time; late rows are counted and dropped

        shared
          d, w: panes, kept once for 2 windows
          s: a running partial

        structures
          d  high   TwoStacksLite  no exact inverse; measured the fastest of those that need none
          d  total  TwoStacksLite  no exact inverse; measured the fastest of those that need none
          w  high   TwoStacksLite  no exact inverse; measured the fastest of those that need none
          w  total  TwoStacksLite  no exact inverse; measured the fastest of those that need none
          s  high   running fold   the window only grows until it restarts
          s  total  running fold   the window only grows until it restarts
          costs in ⊕ per insert, evict, query; n elements in the window
            TwoStacksLite:  1, 1, 1; at worst 1, n, 1; space n + 1
            running fold:   1, –, 0; at worst 1, –, 0; space 1

        ties
          none: no result depends on the order of rows of equal time

        state
          d, w: each key holds at most 10,080 partials of 2 aggregates
          s: each key holds one partial of 2 aggregates
          rows of the last 10s wait in the reorder buffer
        """
    )


# ---- its sections ----


def test_one_deque_for_many_sizes() -> None:
    windows = {f"w{n}": f"{n}h" for n in range(1, DEQUE_SIZES + 1)}
    names = ", ".join(windows)
    assert explained(windows, "shared") == [
        f"{names}: single rows, kept once for {DEQUE_SIZES} windows",
        f"  high: one SlickDequeNonInv for {names}",
    ]
    why = f"it selects a value: one deque answers all {DEQUE_SIZES} sizes"
    assert explained(windows, "structures")[0] == f"high  SlickDequeNonInv  {why}"


def test_states_that_aggregates_share() -> None:
    made = {"total": sash.sum("price"), "average": sash.mean("price"), "n": sash.count("price"), "rows": sash.count()}
    assert explained("1h", "shared", high=None, **made) == [
        "Time('1h'): single rows",
        "average: one state, shared with total and n",
    ]
    assert explained("1h", "structures", high=None, **made)[:4] == [
        "total    TwoStacksLite    lowered from the state of average",
        "average  TwoStacksLite    no exact inverse; measured the fastest of those that need none",
        "n        TwoStacksLite    the values that average counts",
        "rows     SubtractOnEvict  an exact inverse: the oldest comes off the total",
    ]
    assert explained(Time("1h", every="1m"), "state", high=None, **made)[0].endswith("of 2 aggregates")


def test_eager_names_what_runs() -> None:
    assert (
        explained("1h", "structures", emit="eager")[0]
        == "high  FiBA  a row is inserted at its time at once, in any order of arrival"
    )
    forced = explained("1h", "structures", options=Options(structure="FiBA"))
    assert forced[0] == "high  FiBA  asked for by Options(structure=…)"
    assert forced[2] == "  FiBA:  6, 9, 2; at worst 16 log n + 16, 16 log n + 16, 2; space 4n + 10"


@pytest.mark.parametrize(
    ("window", "line"),
    [
        (
            Time("1h", closed="both"),
            "Time('1h', closed='both')  at each row:  [t - 1h, t], rows of equal time together",
        ),
        (
            Time("1h", every=100),
            "Time('1h', every=Count(100))  every 100 rows:  (t - 1h, t], rows of equal time together",
        ),
        (
            Time(60, every=5, offset=2),
            "Time(60, every=5, offset=2)  every 5, shifted by 2:  [end - 60, end), rows of equal time together",
        ),
        (
            Time(7, every=3, align="start"),
            "Time(7, every=3, align='start')  every 3, aligned by start:  [end - 7, end), rows of equal time together",
        ),
        (Count(1000), "Count(1000)  at each row:  the last 1,000 rows"),
        (Count(1, every=1), "Count(1, every=1)  every row:  the last 1 row"),
        (Count(5, full=True), "Count(5, full=True)  at each row:  the last 5 rows; null until there are as many"),
        (Count(5, every="1m"), "Count(5, every='1m')  every 1m:  the last 5 rows"),
        (Delta("seq", 5), "Delta('seq', 5)  at each row:  rows less than 5 behind in 'seq'"),
        (Session("10m"), "Session('10m')  at each row:  rows at most 10m apart"),
        (Punctuation("end"), "Punctuation('end')  at each row:  rows up to one with 'end' true"),
        (Lifetime(every="1h"), "Lifetime(every='1h')  every 1h:  all rows since the key's start"),
        (
            Policy(evicts, sash.sum("seq")),
            "Policy(evicts, over=sum('seq'))  at each row:  rows that evicts does not evict, by sum('seq')",
        ),
    ],
    ids=repr,
)
def test_what_windows_hold(window: Any, line: str) -> None:
    time = {"on": "seq"} if isinstance(window, Time) and window.size in (7, 60) else {}
    assert explained(window, "windows", **time) == [line]


def test_when_results_leave() -> None:
    assert explained("1h", "results", emit="changes")[-1] == (
        "changes: each result is emitted once, when it is final, if it differs from the key's last"
    )
    eager = "results are emitted at once, and revised by later rows"
    assert explained("1h", "results", emit="eager")[-1] == f"eager: {eager}"
    assert explained("1h", "results")[0] == "one row for each input row, no keys"


def test_order_and_lateness() -> None:
    lines = explained("1h", "order", on=["ts", "seq"], lateness="0s", late="flag", forget="30d", ahead="1m")
    assert lines == [
        "ts, then seq, then the order of arrival",
        "rows at most 0s behind the latest time; late rows pass with _late true",
        "a key without rows for more than 30d expires",
        "times more than 1m ahead of the clock count as missing",
    ]
    assert explained(5, "order", on=None) == ["arrival: there is no on="]
    assert explained("1h", "order", lateness="1s", late="error")[1].endswith("late rows raise an error")


def test_what_ties_may_change() -> None:
    windows = {
        "a": 100,
        "b": Time("1h"),
        "c": Delta("seq", 5),
        "d": Policy(evicts, sash.sum("price")),
        "e": Punctuation("end"),
    }
    assert explained(windows, "ties", on=["ts", "seq"], last=sash.last("price")) == [
        "rows of a key with equal (ts, seq) have no fixed order on Spark; it affects",
        "  a (a Count window)",
        "  c (a Delta window)",
        "  d (a Policy window)",
        "  e (a Punctuation window)",
        "  last=last('price')",
        "the same on every host where (ts, seq) is unique for a key; else add a tie-breaker to on=",
    ]
    assert explained(5, "ties", on=None) == [
        "the order is that of arrival, which a Spark shuffle does not keep; it affects",
        "  Count(5) (a Count window)",
    ]


@pytest.mark.parametrize("name", ["first", "last", "collect", "concat", "arg_min", "arg_max", "m4", "collect_distinct"])
def test_aggregates_that_ties_may_change(name: str) -> None:
    columns = ("price", "trader") if name.startswith("arg") else ("trader",)
    bound = getattr(sash, name)(*columns)
    assert f"  one={bound!r}" in explained("1h", "ties", one=bound)


def test_what_a_key_keeps() -> None:
    (line,) = explained({"a": 100, "b": 5, "c": Time("1h"), "d": Delta("seq", 5)}, "state")
    held = "the last 100 rows; the rows of the last 1h; rows less than 5 behind in 'seq', each with ts, seq, price"
    assert line == f"a, b, c, d: each key holds {held}"
    assert explained(Time("1d", every="1s"), "state") == [
        "Time('1d', every='1s'): each key holds at most 86,400 partials of 1 aggregate"
    ]
    assert explained(Count(10, every=5), "state", on=None) == [
        "Count(10, every=5): each key holds at most 2 partials of 1 aggregate"
    ]
    assert explained(5, "state", on=None, high=None, n=sash.count()) == [
        "Count(5): each key holds the last 5 rows, each with only its position"
    ]


@pytest.mark.parametrize(
    "queries",
    [
        [(4, 2)],
        [(5, 2)],
        [(7, 4)],
        [(3, 5)],
        [(6, 2), (8, 4)],
        [(4, 2), (6, 3)],
        [(10, 4), (9, 6)],
        [(86400, 60), (3600, 1)],
    ],
)
def test_panes_are_not_understated(queries: list[tuple[int, int]]) -> None:
    windows: list[Any] = [SimpleNamespace(size=size, every=every, offset=0, grid=None) for size, every in queries]
    whole = math.lcm(*(every for _, every in queries))  # after which all windows begin and end as before
    ends = [(size, end) for size, every in queries for end in range(0, whole, every)]
    cuts = {at % whole for size, end in ends for at in (end, end - size)}
    most = max(sum(at % whole in cuts for at in range(end - size + 1, end + 1)) for size, end in ends)
    found = most_panes(windows)
    assert most <= found <= most + len(queries)


def test_structures() -> None:
    lines = explained(10, "structures", options=Options(prefer="latency"))
    assert (
        lines[0]
        == "high  DABALite  no single step depends on the window's size (insert 3, evict 2, query 1 ⊕ at worst)"
    )
    lines = explained("1h", "structures", options=Options(structure="FlatFAT"))
    assert lines[0] == "high  FlatFAT  asked for by Options(structure=…)"
    assert lines[2] == "  FlatFAT:  0, 0, log n; at worst 0, 0, n; space 2·2^⌈log2 n⌉, up to 8n after it shrank"
    same = explained({"a": "1h", "b": 10}, "structures")
    assert len(same) == 4, "what is chosen alike for all windows is said once"
    assert same[3] == "on frames and sorted batches: whole-column kernels for high"


def test_a_query_that_does_not_fit_raises_as_elsewhere() -> None:
    with pytest.raises(KeyError, match="did you mean 'price'"):
        Query(5, high=sash.max("prise")).explain(SCHEMA)
    with pytest.raises(TypeError, match="the property 'inverse'"):
        Query(5, options=Options(structure="SubtractOnEvict"), high=sash.max("x")).explain()


# ---- without a schema ----


@pytest.mark.parametrize(
    ("query", "types"),
    [
        (Query(5, n=sash.count()), ""),
        (Query(5, by=["a", "b"], n=sash.count("x")), "a string, b string, x double"),
        (Query("1h", on="t", n=sash.count()), "t timestamp[us]"),
        (Query("1ns", on="t", n=sash.count()), "t timestamp[ns]"),
        (Query(Time(5), on="t", n=sash.count()), "t int64"),
        (Query(Time(2.5), on="t", n=sash.count()), "t double"),
        (Query(5, on="t", lateness="1s", n=sash.count()), "t timestamp[us]"),
        (Query(Lifetime(every="1h"), on=["t", "seq"], n=sash.count()), "seq int64, t timestamp[us]"),
        (Query(5, n=sash.concat("s"), a=sash.any("b"), j=sash.bit_or("i")), "s string, b bool, i int64"),
        (Query(5, a=sash.max("x"), b=sash.concat("x")), "x string"),
        (Query(5, a=sash.max("x"), b=sash.bit_or("x"), c=sash.count("x")), "x int64"),
        (Query(Delta("d", 5), n=sash.count()), "d double"),
        (Query(Delta("d", "5s"), n=sash.count()), "d timestamp[us]"),
        (Query(Punctuation("p"), n=sash.count()), "p bool"),
        (Query(Policy(evicts, sash.sum("x")), n=sash.count()), "x double"),
        (Query(Session("1m"), on="t", n=sash.count()), "t timestamp[us]"),
    ],
    ids=repr,
)
def test_assumed_types(query: Query, types: str) -> None:
    assert ", ".join(f"{field.name} {field.type}" for field in default_schema(query)) == types
    assert f"(no schema was given; assumed: {types or 'no columns are read'})" in query.explain()


@pytest.mark.parametrize(
    ("window", "hinted"),
    [
        (sash.Time("1d", every="1d"), True),
        (sash.Time("7d", every="1d"), True),
        (sash.Time("1mo", every="1mo"), True),
        (sash.Lifetime(every="1d"), True),
        (sash.Time("1d", every="1d", tz="Asia/Tokyo"), False),
        (sash.Lifetime(every=sash.Time("1d", tz="Asia/Tokyo")), False),
        (sash.Time("1d", every="1d", offset="6h"), False),
        (sash.Time("1d", every="1h"), False),
        (sash.Time("1d"), False),
        (3, False),
    ],
    ids=repr,
)
def test_days_of_utc_are_pointed_out_for_a_column_in_another_zone(window: Any, hinted: bool) -> None:
    query = sash.Query(window, on="ts", n=sash.count())
    for zone in ("Europe/Berlin", "UTC", None):
        text = str(query.explain(pa.schema([("ts", pa.timestamp("us", zone))])))
        hint = "is cut at midnight in UTC, and 'ts' is in Europe/Berlin: with tz='Europe/Berlin' the window is cut"
        assert (hint in text) == (hinted and zone == "Europe/Berlin")
