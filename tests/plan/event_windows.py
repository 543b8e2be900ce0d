"""Helpers for the tests of sash.Window: aggregates, their results by definition, and streams of events."""

from datetime import datetime

from hypothesis import strategies as st

import sash
from sash.aggregators import Recalc

START = datetime(2024, 3, 31, 1, 30)
prefer = st.sampled_from(["throughput", "latency"])

AGGREGATES = {
    "n": sash.count(),
    "known": sash.count("x"),
    "total": sash.sum("x"),
    "high": sash.max("x"),
    "who": sash.arg_max("x", "i"),
    "all": sash.collect("x"),
    "before": sash.lag("x", n=2),
    "change": sash.delta("x"),
    "weighted": sash.weighted_mean("x", "i"),
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
