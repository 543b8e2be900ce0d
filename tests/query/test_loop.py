"""sash.Window: every kind of window against its definition, folded by Recalc; then its manners.

The oracle keeps all events and, for the window that ends at the last one, picks those that belong to it by the words
of the definition. Of these Recalc makes the result.
"""

import copy
import math
import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sash
from sash.aggregators import Recalc
from sash.aggregators.catalogue import IN_ORDER
from sash.monoids.algebra import agree
from sash.query.holding import PREFERRED
from sash.testing.discovery import monoids, sample_kinds, sample_rows

AGGREGATES = {
    "n": sash.count(),
    "known": sash.count("x"),
    "total": sash.sum("x"),
    "high": sash.max("x"),
    "who": sash.arg_max("x", "i"),
    "all": sash.collect("x"),
}


def folded(bound, events):
    """The result by definition: Recalc over the events that have a value."""
    window = Recalc(bound.monoid)
    for event in events:
        row = tuple(event[name] for name in bound.columns)
        if all(value is not None or place in bound.monoid.nullable for place, value in enumerate(row)):
            window.insert(*row)
    return window.query() if len(window) else bound.monoid.empty


def results(events):
    return {name: folded(bound, events) for name, bound in AGGREGATES.items()}


@st.composite
def streams(draw, whole=True):
    """Events with times that do not decrease, ties and gaps among them, and a column to measure and one to mark."""
    steps = st.sampled_from([0, 0, 1, 1, 2, 3, 7, 20]) if whole else st.floats(0, 10)
    found, time, place = [], draw(st.integers(-20, 20)), draw(st.integers(-5, 5))
    for i in range(draw(st.integers(1, 40))):
        time, place = time + draw(steps), place + draw(st.integers(0, 4))
        x = draw(st.none() | st.integers(-9, 9))
        found.append({"i": i, "x": x, "t": time, "at": place, "end": draw(st.sampled_from([False, False, True, None]))})
    return found


def check(window, events, belongs, full=lambda n: True, **options):
    """Push all events; after each, compare with those before and it that belong to the window it ends."""
    loop = sash.Window(window, **AGGREGATES, **options)
    for i, event in enumerate(events):
        held = belongs(events[: i + 1])
        wanted = results(held) if full(i + 1) else dict.fromkeys(AGGREGATES)
        assert loop.push(event, event["t"]) == wanted
        assert loop.query() == wanted
        assert len(loop) == len(held)


prefer = st.sampled_from(["throughput", "latency"])


@given(streams(), st.integers(1, 12), st.booleans(), prefer)
def test_count(events, size, full, preferred):
    check(
        sash.Count(size, full=full),
        events,
        lambda seen: seen[-size:],
        (lambda n: n >= size) if full else (lambda n: True),
        prefer=preferred,
    )


BELONGS = {
    "right": lambda t, now, size: now - size < t <= now,
    "left": lambda t, now, size: now - size <= t < now,
    "both": lambda t, now, size: now - size <= t <= now,
    "neither": lambda t, now, size: now - size < t < now,
}


@given(
    st.booleans().flatmap(streams), st.integers(1, 12) | st.floats(0.1, 12), st.sampled_from(sorted(BELONGS)), prefer
)
def test_time(events, size, closed, preferred):
    check(
        sash.Time(size, closed=closed),
        events,
        lambda seen: [event for event in seen if BELONGS[closed](event["t"], seen[-1]["t"], size)],
        prefer=preferred,
    )


@given(streams(), st.integers(1, 12), prefer)
def test_delta(events, size, preferred):
    check(
        sash.Delta("at", size),
        events,
        lambda seen: [event for event in seen if seen[-1]["at"] - event["at"] < size],
        prefer=preferred,
    )


def since_gap(seen, gap):
    start = 0
    for i in range(1, len(seen)):
        if seen[i]["t"] - seen[i - 1]["t"] >= gap:
            start = i
    return seen[start:]


@given(streams(), st.integers(1, 12))
def test_session(events, gap):
    check(sash.Session(gap), events, lambda seen: since_gap(seen, gap))


@given(streams())
def test_punctuation(events):
    def since_mark(seen):
        marks = [i for i, event in enumerate(seen[:-1]) if event["end"]]
        return seen[marks[-1] + 1 :] if marks else seen

    check(sash.Punctuation("end"), events, since_mark)


@given(streams())
def test_lifetime(events):
    check(sash.Lifetime(), events, lambda seen: seen)


@given(streams(), st.integers(0, 12), prefer)
def test_policy(events, limit, preferred):
    """The sum of how many there are, at most: gives up the longest prefix, and a start never moves back."""
    events = [event | {"size": abs(event["x"] or 0)} for event in events]
    start = 0

    def kept(seen):
        nonlocal start
        total = sum(event["size"] for event in seen[start:])
        gone = 0
        for stop in range(start + 1, len(seen) + 1):
            if total - sum(event["size"] for event in seen[start:stop]) + seen[stop - 1]["size"] > limit:
                gone = stop - start
        start += gone
        return seen[start:]

    window = sash.Policy(lambda t, p: t[0] - p[0] + p[1] > limit, over=(sash.sum("size"), sash.last("size")))
    check(window, events, kept, prefer=preferred)


def test_policy_of_one_aggregate_and_one_that_gives_up_everything():
    loop = sash.Window(sash.Policy(lambda total, prefix: total >= 10, over=sash.sum("x")), sash.collect("x"))
    assert [loop.push({"x": x}) for x in (4, 5, 3, 1)] == [[4], [4, 5], None, [1]]


@pytest.mark.parametrize(
    "name", [name for name, monoid in monoids().items() if not sash.query.checks.is_sketch(monoid)]
)
def test_every_aggregate_on_every_structure_it_admits(name):
    """Unbound, on values: a window of 5, against Recalc."""
    monoid = monoids()[name]
    rows = sample_rows(sample_kinds(monoid), 40)
    loops = []
    for structure, record in IN_ORDER.items():
        if all(getattr(monoid, need) for need in record.needs):
            loops.append(sash.Window(5, monoid, structure=structure))
        else:
            with pytest.raises(TypeError, match=f"{structure} needs a monoid with the property"):
                sash.Window(5, monoid, structure=structure)
    for i, row in enumerate(rows):
        judge = Recalc(monoid)
        for one in rows[max(0, i - 4) : i + 1]:
            judge.insert(*one)
        for loop in loops:
            found = loop.push(row if len(row) > 1 else row[0])
            assert agree(found, judge.query(), 0.0 if monoid.exact else 1e-9), loop.structures


# ---- times ----

START = datetime(2024, 3, 31, 1, 30)


@pytest.mark.parametrize("zone", [None, UTC, timezone(timedelta(hours=5, minutes=30))])
@pytest.mark.parametrize("size", ["90m", timedelta(minutes=90), sash.windows.Duration.of("90m"), sash.Time("90m")])
def test_datetimes(zone, size):
    loop = sash.Window(size, sash.monoids.Collect())
    start = START.replace(tzinfo=zone)
    assert loop.push(1, start) == [1]
    assert loop.push(2, start + timedelta(minutes=89, seconds=59, microseconds=999_999)) == [1, 2]
    assert loop.push(3, start + timedelta(minutes=90)) == [2, 3]
    assert loop.advance(start + timedelta(minutes=180)) is None


def test_zones_are_one_time():
    """02:30 in Berlin was twice on that night, an hour apart; the clock goes by UTC."""
    try:
        berlin = ZoneInfo("Europe/Berlin")
    except ZoneInfoNotFoundError:
        pytest.skip("no time zones on this machine")
    loop = sash.Window("1h", sash.monoids.Count())
    assert loop.push(0, datetime(2024, 10, 27, 2, 30, tzinfo=berlin)) == 1
    assert loop.push(0, datetime(2024, 10, 27, 2, 15, tzinfo=berlin, fold=1)) == 2
    assert loop.push(0, datetime(2024, 10, 27, 1, 45, tzinfo=UTC)) == 2
    assert loop.push(0, datetime(2024, 10, 27, 3, 15, tzinfo=berlin)) == 2


def test_dates():
    loop = sash.Window("7d", sash.monoids.Count())
    assert [loop.push(0, date(2024, 2, day)) for day in (20, 26, 27, 28)] == [1, 2, 2, 3]
    with pytest.raises(ValueError, match=r"Time\('36h'\) is measured in '36h', no whole number of days"):
        sash.Window("36h", sash.monoids.Count()).push(0, date(2024, 2, 20))


def test_limits_of_time():
    for size, times in {
        "52w": (datetime.min, datetime.max),
        sash.Time(2**62): (-(2**63), 2**63 - 1),
        sash.Time(1e308): (-1.7e308, 1.7e308),
    }.items():
        loop = sash.Window(size, sash.monoids.Count())
        assert [loop.push(0, time) for time in times] == [1, 1]
    loop = sash.Window(sash.Time(2.0), sash.monoids.Count())
    assert [loop.push(0, 2**62 + i) for i in range(4)] == [1, 2, 2, 2], "no time is rounded"


def test_numbers_of_numpy():
    loop = sash.Window(sash.Time(2), sash.monoids.Sum())
    assert loop.push(1, np.int32(5)) == 1
    assert loop.push(1, np.float32(6.5)) == 2
    assert loop.push(np.int64(1), np.int64(8)) == 2


class Finer(datetime):
    """A datetime with nanoseconds, as that of pandas is."""

    nanosecond = 0


def test_datetimes_with_nanoseconds():
    loop = sash.Window("2ns", sash.monoids.Count())
    counts = []
    for n in range(3):
        time = Finer(2024, 1, 1)
        time.nanosecond = n
        counts.append(loop.push(0, time))
    assert counts == [1, 2, 2]


def test_timestamps_of_pandas():
    pandas = pytest.importorskip("pandas")
    loop = sash.Window("2ns", sash.monoids.Count())
    first = pandas.Timestamp("2024-01-01T00:00:00.000000001")
    assert [loop.push(0, first + pandas.Timedelta(n, "ns")) for n in (0, 1, 2)] == [1, 2, 2]
    with pytest.raises(ValueError, match="NaT is no time"):
        loop.push(0, pandas.NaT)


def refused(error, match, window, aggregate, *pushes):
    """The last push is refused, and the window is as it was before."""
    loop = sash.Window(window, aggregate)
    *good, bad = pushes
    for push in good:
        loop.push(*push)
    before, held = loop.query(), len(loop)
    with pytest.raises(error, match=match):
        loop.push(*bad)
    assert (loop.query(), len(loop)) == (before, held)


def test_times_that_are_refused():
    count = sash.monoids.Count()
    refused(
        ValueError, r"time=4 is behind 5, the last one: .*Sort them.*lateness=", sash.Time(9), count, (0, 5), (0, 4)
    )
    refused(ValueError, "time=4 is behind 5", 3, count, (0, 5), (0, 4))
    refused(ValueError, "time=4 is behind 5", sash.Session(3), count, (0, 5), (0, 4))
    refused(TypeError, r"Time\('1h'\) is measured in time: push\(x, time\)", "1h", count, (0,))
    refused(TypeError, r"Session\(3\) is measured in time: push\(x, time\)", sash.Session(3), count, (0, 1), (0,))
    refused(ValueError, "time=nan is no place", sash.Time(9), count, (0, 5), (0, math.nan))
    refused(ValueError, "time=inf is no place", sash.Time(9), count, (0, math.inf))
    refused(TypeError, "time is a number, a datetime or a date; got '5', a str", sash.Time(9), count, (0, "5"))
    refused(TypeError, "time is a number, a datetime or a date; got True", sash.Time(9), count, (0, True))
    refused(TypeError, r"Time\('1h'\) is measured in '1h', a duration, and time=5 is a number", "1h", count, (0, 5))
    refused(TypeError, r"Time\(9\) is measured in 9, a number, .*one of datetimes", sash.Time(9), count, (0, START))
    refused(
        TypeError,
        "is one of datetimes with a time zone, and those before are datetimes without",
        "1h",
        count,
        (0, START),
        (0, START.replace(tzinfo=UTC)),
    )
    refused(TypeError, "is one of dates, and those before are numbers", 3, count, (0, 5), (0, date(2024, 1, 1)))


def test_equal_times_are_in_order():
    loop = sash.Window(sash.Time(5), sash.monoids.Collect())
    assert [loop.push(x, 7) for x in (1, 2, 3)] == [[1], [1, 2], [1, 2, 3]]


# ---- without an event ----


def test_advance():
    loop = sash.Window(sash.Time(10), n=sash.count(), high=sash.max("x"))
    loop.push({"x": 5}, 0)
    loop.push({"x": 3}, 4)
    assert loop.advance(9) == {"n": 2, "high": 5}
    assert loop.advance(10) == {"n": 1, "high": 3}
    assert loop.advance(14) == loop.query() == {"n": 0, "high": None}
    assert len(loop) == 0
    with pytest.raises(ValueError, match="time=13 is behind 14"):
        loop.push({"x": 1}, 13)
    assert loop.push({"x": 1}, 14) == {"n": 1, "high": 1}
    with pytest.raises(TypeError, match=r"advance\(time\) takes a time"):
        loop.advance(None)


def test_advance_lets_in_what_waits():
    """closed='left': an event enters the windows that end after it."""
    loop = sash.Window(sash.Time(10, closed="left"), sash.monoids.Collect())
    assert loop.push("a", 5) is None
    assert loop.push("b", 5) is None
    assert loop.advance(5) is None
    assert loop.advance(6) == ["a", "b"]
    assert loop.push("c", 15) == ["a", "b"]
    assert loop.push("d", 16) == ["c"]


def test_advance_ends_a_session():
    loop = sash.Window(sash.Session(10), sash.monoids.Collect())
    loop.push("a", 0)
    assert loop.push("b", 9) == ["a", "b"]
    assert loop.advance(18) == ["a", "b"]
    assert loop.advance(19) is None
    assert loop.push("c", 19) == ["c"], "the session of b is over"
    assert loop.push("d", 28) == ["c", "d"], "to advance is no event: c is the previous one"


@pytest.mark.parametrize("window", [3, sash.Lifetime(), sash.Delta("x", 5), sash.Punctuation("end")])
def test_advance_changes_nothing_where_time_does_not_count(window):
    loop = sash.Window(window, sash.sum("x"))
    loop.push({"x": 1, "end": False}, 1)
    assert loop.advance(10**9) == 1
    with pytest.raises(ValueError, match="behind"):
        loop.push({"x": 1, "end": False}, 2)


# ---- events ----


def test_values_tuples_and_columns():
    assert sash.Window(3, sash.monoids.ArgMax()).push((5, "ada")) == "ada"
    assert sash.Window(3, sash.arg_max("x", "who")).push({"x": 5, "who": "ada"}) == "ada"
    assert sash.Window(3, sash.count()).push("anything") == 1
    assert sash.Window(3, a=sash.monoids.Max(), b=sash.monoids.Min()).push(5) == {"a": 5, "b": 5}
    assert sash.Window(3, sash.monoids.Concat()).push("text") == "text"


def test_nulls_are_missing():
    loop = sash.Window(2, top=sash.monoids.Max(), n=sash.monoids.Count(), who=sash.monoids.Last())
    assert loop.push(None) == {"top": None, "n": 0, "who": None}
    assert loop.push(3) == {"top": 3, "n": 1, "who": 3}
    assert loop.push(None) == {"top": 3, "n": 1, "who": 3}
    assert loop.push(None) == {"top": None, "n": 0, "who": None}
    assert len(loop) == 2, "they are events all the same"


def test_lower_is_never_asked_about_nothing():
    """An average whose `lower` divides by the number of values, and that declares no `empty`."""
    mean = sash.monoid(
        identity=(0, 0),
        lift=lambda x: (1, x),
        combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lower=lambda a: a[1] / a[0],
    )
    loop = sash.Window(sash.Time(5, closed="neither"), mean)
    assert [loop.push(x, t) for x, t in ((4, 0), (None, 1), (6, 2), (None, 9))] == [None, 4, 4, None]
    assert loop.query() is None


def test_columns_that_are_missing():
    loop = sash.Window(3, high=sash.max("price"))
    with pytest.raises(KeyError, match=r"max\('price'\) reads the column 'price', and the event has 'prize', 'n'"):
        loop.push({"prize": 1, "n": 2})
    with pytest.raises(
        TypeError, match=r"max\('price'\) reads the column 'price': push a dict of columns.*got 5, a int"
    ):
        loop.push(5)
    with pytest.raises(KeyError, match=r"Delta\('km', 5\) reads the column 'km'"):
        sash.Window(sash.Delta("km", 5), sash.count()).push({"x": 1})
    assert len(loop) == 0


def test_a_column_that_decreases():
    loop = sash.Window(sash.Delta("km", 5), sash.count())
    loop.push({"km": 10})
    with pytest.raises(ValueError, match=r"km=9 is behind 10.*Delta\('km', 5\) must not decrease"):
        loop.push({"km": 9})
    with pytest.raises(TypeError, match="km is a number, a datetime or a date; got None"):
        loop.push({"km": None})
    assert loop.push({"km": 10}) == 2


def test_a_delta_of_times():
    loop = sash.Window(sash.Delta("at", "1h"), sash.count())
    assert [loop.push({"at": START + timedelta(minutes=m)}) for m in (0, 59, 60)] == [1, 2, 2]


def test_a_mark_is_true_or_false():
    loop = sash.Window(sash.Punctuation("end"), sash.count())
    with pytest.raises(TypeError, match=r"column 'end' of Punctuation.* is True or False; got 1, a int"):
        loop.push({"end": 1})
    assert [loop.push({"end": mark}) for mark in (False, np.bool_(True), None, True, False)] == [1, 2, 1, 2, 1]
    assert loop.query() == 1


# ---- what is refused when it is made ----


@pytest.mark.parametrize(
    "window",
    [
        sash.Count(10, every=5),
        sash.Time("1h", every="1m"),
        sash.Time("1h", every=10),
        sash.Session("1h", every="close"),
        sash.Punctuation("end", every="close"),
        sash.Lifetime(every=10),
    ],
)
def test_every_is_refused(window):
    with pytest.raises(ValueError, match=r"every=.*a Window answers at each event.*sash\.Query"):
        sash.Window(window, sash.count())


def test_what_is_no_window():
    with pytest.raises(TypeError, match=r"the window is a window such as sash\.Time\('1h'\)"):
        sash.Window(1.5, sash.count())
    with pytest.raises(TypeError, match="a Window is one window"):
        sash.Window({"a": 5}, sash.count())
    with pytest.raises(ValueError, match="at least 1"):
        sash.Window(0, sash.count())
    with pytest.raises(ValueError, match="above zero"):
        sash.Window("0s", sash.count())


def test_what_is_no_aggregate():
    with pytest.raises(TypeError, match="a Window needs an aggregate"):
        sash.Window(5)
    with pytest.raises(TypeError, match=r"give one aggregate, or several by name, not both: count\(\) and high="):
        sash.Window(5, sash.count(), high=sash.max("x"))
    with pytest.raises(TypeError, match=r"high= is a monoid such as .*got 'x', a str"):
        sash.Window(5, high="x")
    with pytest.raises(TypeError, match=r"the aggregate of a Window is a monoid .*got <class"):
        sash.Window(5, sash.monoids.Max)
    for name in ("prefer", "structure"):
        with pytest.raises(TypeError, match=f"an aggregate cannot be named '{name}'"):
            sash.Window(5, **{name: sash.max("x")})


def test_sketches_serve_windows_that_are_folded():
    pytest.importorskip("datasketches")
    with pytest.raises(ValueError, match=r"keeps a sketch, and Count\(5\) would need one for each event"):
        sash.Window(5, sash.approx_distinct("x"))
    loop = sash.Window(sash.Lifetime(), sash.approx_distinct("x"))
    assert [round(loop.push({"x": x})) for x in "aab"] == [1, 1, 2]


# ---- structures ----


def test_which_structure():
    both = {"total": sash.sum("x"), "high": sash.max("x")}
    assert sash.Window(5, **both).structures == {"total": "SubtractOnEvict", "high": "TwoStacksLite"}
    assert sash.Window(5, **both, prefer="latency").structures == {"total": "SubtractOnEvict", "high": "DABALite"}
    assert sash.Window(5, **both, structure="FlatFAT").structures == {"total": "FlatFAT", "high": "FlatFAT"}
    assert sash.Window(5, sash.max("x"), structure=sash.aggregators.DABA).structures == {"": "DABA"}
    assert sash.Window(sash.Lifetime(), **both).structures == dict.fromkeys(both, "running fold")
    rough = sash.monoid(identity=0.0, combine=lambda a, b: a + b, inverse=lambda a, b: a - b)
    assert sash.Window(5, rough).structures == {"": "TwoStacksLite"}, "an inverse that is not exact would drift"


def test_latency_means_constant_cost():
    assert all(IN_ORDER[name].constant for name in PREFERRED["latency"])
    with pytest.raises(ValueError, match=r"structure='TwoStacks' has steps that are not of constant cost"):
        sash.Window(5, sash.max("x"), prefer="latency", structure="TwoStacks")


def test_structures_that_do_not_fit():
    with pytest.raises(TypeError, match="SubtractOnEvict needs a monoid with the property 'inverse', which Max"):
        sash.Window(5, sash.max("x"), structure="SubtractOnEvict")
    with pytest.raises(TypeError, match="SlickDequeNonInv needs a monoid with the property 'selective'"):
        sash.Window(sash.Lifetime(), sash.sum("x"), structure="SlickDequeNonInv")
    with pytest.raises(ValueError, match=r"structure= is one of Recalc, .*; got 'Tree'"):
        sash.Window(5, sash.max("x"), structure="Tree")
    with pytest.raises(ValueError, match="prefer= is 'throughput' or 'latency'; got 'speed'"):
        sash.Window(5, sash.max("x"), prefer="speed")


# ---- copies, and accidents ----


def more_than_three(total, prefix):
    return total - prefix >= 3


WINDOWS = [
    sash.Count(3),
    sash.Time(5),
    sash.Time(5, closed="left"),
    sash.Delta("at", 4),
    sash.Session(3),
    sash.Punctuation("end"),
    sash.Lifetime(),
    sash.Policy(more_than_three, over=sash.count()),
]


def pickled(window):
    return pickle.loads(pickle.dumps(window))


@pytest.mark.parametrize("twice", [copy.copy, copy.deepcopy, lambda loop: loop.copy(), pickled])
@pytest.mark.parametrize("window", WINDOWS, ids=repr)
@given(events=streams(), preferred=prefer)
@settings(max_examples=10)
@example(events=[{"i": i, "x": i, "t": i, "at": i, "end": False} for i in range(20)], preferred="latency")
def test_a_copy_goes_its_own_way(window, twice, events, preferred):
    loop = sash.Window(window, **AGGREGATES, prefer=preferred)
    half = len(events) // 2
    for event in events[:half]:
        loop.push(event, event["t"])
    twin = twice(loop)
    before = loop.query()
    later = [twin.push(event, event["t"]) for event in events[half:]]
    assert loop.query() == before
    assert [loop.push(event, event["t"]) for event in events[half:]] == later
    assert len(loop) == len(twin)


@pytest.mark.parametrize("window", WINDOWS, ids=repr)
def test_clear(window):
    loop = sash.Window(window, **AGGREGATES)
    event = {"i": 0, "x": 5, "at": 100, "end": True}
    loop.push(event, 1000)
    loop.clear()
    assert loop.query() == {name: bound.monoid.empty for name, bound in AGGREGATES.items()}
    assert len(loop) == 0
    loop.push(event | {"at": 1}, 1)
    assert loop.advance(2)["n"] == 1, "neither the time nor the column is remembered"


def test_a_combine_that_raises_leaves_no_wrong_answers():
    def careful(a, b):
        if a == 13 or b == 13:
            raise RuntimeError("bad luck")
        return a + b

    loop = sash.Window(2, total=sash.monoid(identity=0, combine=careful), high=sash.monoids.Max())
    loop.push(1)
    with pytest.raises(RuntimeError, match=r"^bad luck$"):
        loop.push(13)
    for step in (lambda: loop.push(1), loop.query, lambda: loop.advance(5)):
        with pytest.raises(RuntimeError, match="half-way through a change that raised RuntimeError: bad luck; clear"):
            step()
    loop.clear()
    assert loop.push(1) == {"total": 1, "high": 1}


def test_a_lift_that_raises_changes_nothing():
    loop = sash.Window(2, high=sash.monoids.Max(), inverse=sash.monoid(identity=0, lift=lambda x: 1 / x, combine=max))
    loop.push(2)
    with pytest.raises(ZeroDivisionError):
        loop.push(0)
    assert loop.query() == {"high": 2, "inverse": 0.5}
    assert loop.push(4) == {"high": 4, "inverse": 0.5}


def test_a_policy_that_raises():
    loop = sash.Window(sash.Policy(lambda total, prefix: 1 / (total - 2) > 5, over=sash.count()), sash.count())
    loop.push({})
    with pytest.raises(ZeroDivisionError):
        loop.push({})
    with pytest.raises(RuntimeError, match="half-way"):
        loop.query()


def test_repr():
    loop = sash.Window("1h", high=sash.max("price"))
    assert repr(loop) == "<Window(Time('1h'), high=max('price')): 0 events>"
    loop.push({"price": 1}, START)
    assert repr(loop) == "<Window(Time('1h'), high=max('price')): 1 event>"
    assert repr(sash.Window(3, sash.monoids.Sum())) == "<Window(Count(3), Sum()): 0 events>"
    assert loop, "an empty window is a window still"


def test_memory_follows_the_window():
    loop = sash.Window(sash.Time(10), sash.monoids.Max())
    for t in range(5_000):
        loop.push(t, t)
    assert len(loop) == 10
    assert len(loop._movement.times) == 10
