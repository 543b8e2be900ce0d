"""Queries of every kind, and states that they have written."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import Phase, given, seed, settings

import sash
from sash import Count, Delta, Lifetime, Policy, Punctuation, Session, Time
from sash.engine import Operator
from sash.stores import MemoryStore, PageError
from tests.fuzz.envelopes import State
from tests.shared.queries import AFFINE, FromHigh, KeepLast
from tests.shared.small_state import small_buckets
from tests.shared.streams import Case, StreamStep, cases

SCHEMA = pa.schema(
    [
        *(("k", pa.string()), ("t", pa.int64()), ("i", pa.int64()), ("n", pa.int64()), ("f", pa.float64())),
        *(("s", pa.string()), ("l", pa.list_(pa.int64())), ("g", pa.int64()), ("p", pa.bool_())),
    ]
)

WINDOWS: list[Any] = [
    *(Time(9), Time(12, every=4), Count(3), Count(5, every=2), Session(5), Lifetime(), Delta("g", 6)),
    *(Time(9, every=Count(2)), Count(3, every=Time(4)), Session(5, every="close"), Lifetime(every=Time(4))),
    *(Punctuation("p"), Punctuation("p", every="close"), Policy(KeepLast(4), sash.count())),
    *(Time(10, every=3, closed="right"), Policy(FromHigh(6), (sash.last("n"), sash.count())), Lifetime(every=3)),
    *({"a": Time(4), "b": Count(3)}, {"a": Time(8, every=2), "b": Count(4, every=3)}),
    *(Time(6, shift=-4), Count(3, shift=2), {"a": Time(5, shift=4), "b": Count(3, shift=-2), "c": Session(5)}),
]

LONGEST = sash.monoid(
    identity=(),
    lift=lambda x: (x,),
    combine=lambda a, b: max(a, b, key=len) if a and b and a[-1] > b[0] else a + b,
    lower=len,
    name="longest",
)
"""A user's aggregate that runs interpreted, its state a tuple of any length."""


SKETCHES = 2
"""So many of the last groups are sketches, for windows with `every`."""


def aggregates() -> list[dict[str, Any]]:
    """Groups of aggregates."""
    return [
        {"rows": sash.count(), "total": sash.sum("i"), "top": sash.max("s"), "last": sash.last("s")},
        {"mean": sash.mean("f"), "words": sash.concat("s"), "best": sash.arg_max("i", "l")},
        {"all": sash.collect("i"), "some": sash.collect_distinct("s"), "own": AFFINE("i"), "run": LONGEST("n")},
        {"about": sash.approx_distinct("i", lg_k=5), "middle": sash.approx_quantile("f", k=8)},
        {"often": sash.frequent_items("s", lg_max_k=3), "counts": sash.count_min("s", items=("a",), buckets=3)},
    ]


@dataclass(frozen=True)
class Subject:
    """A query, the calls that made its states, and those that are to follow."""

    case: Case
    done: int
    small: int
    """Elements of a segment: pages are small, so that there are many kinds of them."""


def subject(number: int, rng: Random) -> Subject:
    """The subject of a round: from the lists above, or now and then what Hypothesis draws."""
    case = drawn(number) if number % 4 == 3 else listed(rng)
    return Subject(case, max(1, len(case.steps) * 2 // 3), rng.choice([2, 4, 4096]))


def listed(rng: Random) -> Case:
    """A query of the lists above, and rows for it."""
    window = rng.choice(WINDOWS)
    every = list(window.values()) if isinstance(window, dict) else [window]
    slides = all(one.slide != "row" or isinstance(one, Lifetime) for one in every)
    group = rng.choice(aggregates() if slides else aggregates()[:-SKETCHES])
    emits = ["final", "changes", "eager"]
    shifted = any(isinstance(one, Count | Time) and one.shift for one in every)
    if shifted or any(isinstance(one, Policy | Punctuation) or one.slide == "close" for one in every):
        emits.remove("eager")
    emit = rng.choice(emits)
    mode = rng.choice(["rows", "given"] if emit == "eager" else ["rows", "rows", "given", "sorted"])
    arguments: dict[str, Any] = {"by": rng.choice(["k", "k", (), "l"]), "on": "t", "emit": emit}
    if mode == "rows":
        arguments["lateness"] = rng.choice([0, 5, 30])
    if emit != "eager" and rng.random() < 0.2:
        arguments["forget"] = 12
    query = sash.Query(window, **arguments, **group)
    return Case(query, SCHEMA, mode, steps(query, mode, rng))


def steps(query: sash.Query, mode: str, rng: Random) -> tuple[StreamStep, ...]:
    """Calls with random rows."""
    rows, now, growth = [], 0, 0
    for _ in range(rng.choice([12, 40, 40, 120])):
        now += rng.choice([0, 0, 1, 1, 2, 15])
        growth += rng.choice([0, 1, 3])
        time = now if mode == "sorted" else now - rng.choice([0, 0, 0, 1, 3])
        rows.append(
            {
                "k": rng.choice(["a", "b", "c", "dd", None]),
                "t": time,
                "i": rng.choice([0, 1, -4, 9, None]),
                "n": rng.randrange(9),
                "f": rng.choice([0.5, -1.0, 2.25, None]),
                "p": rng.random() < 0.2,
                "s": rng.choice(["a", "b", "é", "", None, "long text"]),
                "g": time,
                "l": rng.choice([[], [1], [2, None], None]),
            }
        )
    if mode == "sorted":
        rows.sort(key=lambda row: (repr([row[name] for name in query.by]), row["t"]))
    size = rng.choice([3, 10, 25])
    found: list[StreamStep] = []
    for at in range(0, len(rows), size):
        found.append(StreamStep("process", pa.RecordBatch.from_pylist(rows[at : at + size], schema=SCHEMA)))
        if mode == "given":
            found.append(StreamStep("advance", rows[at]["t"] - 2))
    return (*found, StreamStep("finish"))


def drawn(number: int) -> Case:
    """A case that Hypothesis draws, the same for the same number."""
    found: list[Case] = []

    @seed(number)
    @settings(max_examples=12, database=None, phases=[Phase.generate], deadline=None, suppress_health_check=[])
    @given(cases(max_rows=30, lates=("drop",)))
    def collect(case: Case) -> None:
        found.append(case)

    collect()
    return max(found, key=lambda case: len(case.steps))


@contextmanager
def small_pages(size: int) -> Iterator[None]:
    """Within, pages are small, so that states have many of them."""
    with warnings.catch_warnings(), small_buckets(512 * size, size, size, 4 if size < 9 else 16):
        warnings.simplefilter("ignore")
        yield


def states(of: Subject) -> list[tuple[State, bool]]:
    """States of a query on its way: a snapshot and a store, before the last call and after it; is it a snapshot?"""
    found: list[tuple[State, bool]] = []
    with small_pages(of.small):
        for is_snapshot in (True, False):
            store = None if is_snapshot else MemoryStore()
            operator = Operator(of.case.query, of.case.schema, mode=of.case.mode, store=store, clock=lambda: 0.0)
            for i, step in enumerate(of.case.steps[: of.done]):
                call(operator, step)
                if i >= of.done - 2:
                    if is_snapshot:
                        found.append((State.of_snapshot(operator.snapshot()), True))
                    elif store is not None and store.pages:
                        found.append((State(dict(store.pages)), False))
    return found


def call(operator: Operator, step: StreamStep) -> Any:
    """Do one call; a row that is refused is none."""
    try:
        if step.call == "process":
            return operator.process(step.argument)
        if step.call == "advance":
            return operator.advance(step.argument)
        if step.call == "finish":
            return operator.finish()
    except PageError:
        raise
    except (ValueError, OverflowError):  # late rows, and what the case has for it
        return None
    return None
