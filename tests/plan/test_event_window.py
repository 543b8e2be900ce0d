"""sash.Window: every kind of window against its definition, folded by Recalc; then its errors and properties.

The oracle keeps all events and, for the window that ends at the last one, picks those that belong to it by the words
of the definition. Of these Recalc makes the result.
"""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.aggregators import Recalc
from sash.aggregators.catalogue import IN_ORDER
from sash.monoids.algebra import agree
from tests.plan.event_windows import AGGREGATES, START, prefer, results, streams
from tests.shared.discovery import monoids, sample_kinds, sample_rows


def check(window, events, belongs, full=lambda _n: True, **options):
    """Push all events; after each, compare with those before and it that belong to the window it ends."""
    loop = sash.Window(window, **AGGREGATES, **options)
    for i, event in enumerate(events):
        held = belongs(events[: i + 1])
        wanted = results(held) if full(i + 1) else dict.fromkeys(AGGREGATES)
        assert loop.push(event, event["t"]) == wanted
        assert loop.query() == wanted
        assert len(loop) == len(held)


@given(streams(), st.integers(1, 12), st.booleans(), prefer)
def test_count(events, size, full, preferred):
    check(
        sash.Count(size, full=full),
        events,
        lambda seen: seen[-size:],
        (lambda n: n >= size) if full else (lambda _n: True),
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


def since_gap(seen, gap):
    starts = [i for i in range(1, len(seen)) if seen[i]["t"] - seen[i - 1]["t"] > gap]
    return seen[starts[-1] if starts else 0 :]


def since_mark(seen, _):
    marks = [i for i, event in enumerate(seen[:-1]) if event["end"]]
    return seen[marks[-1] + 1 :] if marks else seen


OTHERS = {
    "delta": (lambda n: sash.Delta("at", n), lambda seen, n: [e for e in seen if seen[-1]["at"] - e["at"] < n]),
    "session": (sash.Session, since_gap),
    "punctuation": (lambda _: sash.Punctuation("end"), since_mark),
    "lifetime": (lambda _: sash.Lifetime(), lambda seen, _: seen),
}


@pytest.mark.parametrize("name", OTHERS)
@given(streams(), st.integers(1, 12), prefer)
def test_other_windows(name, events, size, preferred):
    window, belongs = OTHERS[name]
    check(window(size), events, lambda seen: belongs(seen, size), prefer=preferred)


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
    loop = sash.Window(sash.Policy(lambda total, _prefix: total >= 10, over=sash.sum("x")), sash.collect("x"))
    assert [loop.push({"x": x}) for x in (4, 5, 3, 1)] == [[4], [4, 5], None, [1]]


@pytest.mark.parametrize(
    "name", [name for name, monoid in monoids().items() if not sash.plan.validation.is_sketch(monoid)]
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
        recalc = Recalc(monoid)
        for one in rows[max(0, i - 4) : i + 1]:
            recalc.insert(*one)
        for loop in loops:
            found = loop.push(row if len(row) > 1 else row[0])
            assert agree(found, recalc.query(), 0.0 if monoid.exact else 1e-9), loop.structures


# ---- without an event ----


def test_advance():
    loop = sash.Window(sash.Time(10), n=sash.count(), high=sash.max("x"))
    loop.push({"x": 5}, 0)
    loop.push({"x": 3}, 4)
    assert loop.advance(9) == {"n": 2, "high": 5}
    assert loop.advance(10) == {"n": 1, "high": 3}
    assert loop.advance(14) == loop.query() == {"n": 0, "high": None}
    assert len(loop) == 0
    with pytest.raises(ValueError, match="time=13 is before 14"):
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
    assert loop.push("b", 10) == ["a", "b"]
    assert loop.advance(20) == ["a", "b"]
    assert loop.advance(21) is None
    assert loop.push("c", 21) == ["c"], "the session of b is over"
    assert loop.push("d", 31) == ["c", "d"], "to advance is no event: c is the previous one"


@pytest.mark.parametrize("window", [3, sash.Lifetime(), sash.Delta("x", 5), sash.Punctuation("end")])
def test_advance_changes_nothing_where_time_does_not_count(window):
    loop = sash.Window(window, sash.sum("x"))
    loop.push({"x": 1, "end": False}, 1)
    assert loop.advance(10**9) == 1
    with pytest.raises(ValueError, match="is before"):
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
    with pytest.raises(ValueError, match=r"km=9 is before 10.*Delta\('km', 5\) must not decrease"):
        loop.push({"km": 9})
    with pytest.raises(TypeError, match="km must be a number, a datetime or a date; got None"):
        loop.push({"km": None})
    assert loop.push({"km": 10}) == 2


def test_a_delta_of_times():
    loop = sash.Window(sash.Delta("at", "1h"), sash.count())
    assert [loop.push({"at": START + timedelta(minutes=m)}) for m in (0, 59, 60)] == [1, 2, 2]


def test_a_mark_is_true_or_false():
    loop = sash.Window(sash.Punctuation("end"), sash.count())
    with pytest.raises(TypeError, match=r"column 'end' of Punctuation.* must be True or False; got 1, a int"):
        loop.push({"end": 1})
    assert [loop.push({"end": mark}) for mark in (False, np.bool_(True), None, True, False)] == [1, 2, 1, 2, 1]
    assert loop.query() == 1
