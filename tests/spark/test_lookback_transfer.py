"""How tails travel: as rows, or as partials of them, whichever is less. No Spark runs here."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash import Count, Lifetime, Query, Session, Time
from sash.spark.batch.lookback_transfer import LookbackTransfer
from sash.spark.batch.partial_carry import MOST, partial_bytes
from sash.spark.batch.time_ranges import Buckets, Lookback, TimeRange

SCHEMA = pa.schema({"t": pa.int64(), "x": pa.float64()})
TIMES = np.arange(0, 8_000, 100)
LOOK = Buckets(TIMES, TIMES + 99, np.full(80, 100), np.full(80, 100))
"""A row at each time from 0 to 7,999."""


def tails_of(windows: Any, parts: int = 8, **aggregates: Any) -> tuple[LookbackTransfer, list[TimeRange]]:
    bound_query = Query(windows, on="t", **(aggregates or {"high": sash.max("x")})).bind(SCHEMA)
    tails = LookbackTransfer(bound_query, Lookback.of(bound_query), 16)
    (found,) = tails.parted([LOOK], [parts])
    return tails, found


@pytest.mark.parametrize(
    ("windows", "folds", "parts"),
    [
        (Time(3_000, every=100), True, 8),
        ({"a": Time(3_000, every=100), "b": Session(50, every="close")}, True, 1),  # no gap to cut in
        (Time(900, every=100), False, 4),  # as long as a part: no row is in two tails
        (Time(3_000, every=2), False, 1),  # too many slices
        (Time(3_000, every=10), False, 1),  # fewer, but more bytes than the rows
        (Time(3_000), False, 1),  # rows leave one by one
        (Count(3_000), False, 1),
        (Count(3_000, every=Time(100)), False, 1),
        (Session(5), False, 1),
        (Lifetime(), True, 8),
        ({"a": Lifetime(every=Time(100)), "b": Time(300, every=100)}, True, 8),
        ({"a": Lifetime(every=Time(100)), "b": Time(3_000, every=2)}, False, 1),
    ],
)
def test_partials_travel_where_they_are_less(windows: Any, folds: bool, parts: int) -> None:
    tails, found = tails_of(windows)
    assert (tails.folds, len(found)) == (folds and parts > 1, parts)
    if tails.folds:
        assert all(part.tail == part.begin for part in found)


def test_partials_that_may_grow_do_not_travel() -> None:
    bound_query = Query(Time(3_000, every=100), on="t", held=sash.collect("x")).bind(SCHEMA)
    assert partial_bytes(bound_query) is None
    assert not tails_of(Time(3_000, every=100), held=sash.collect("x"))[0].folds


def test_folds_go_as_far_as_windows_reach() -> None:
    tails, found = tails_of(Time(3_000, every=100))
    begins = [part.begin for part in found[1:]]
    for place, last in enumerate(tails.needed(found)):
        end = begins[place] if place < len(begins) else None
        for later, begin in enumerate(begins, 1):
            if later > place:
                assert (later <= last) == (begin - 3_000 <= end)
    assert tails.needed(found)[0] in (3, 4)
    tails, found = tails_of(Lifetime())
    assert tails.needed(found) == [7] * 8
    tails, found = tails_of(Time(900, every=100))
    assert tails.needed(found) == [0, 1, 2, 3]


def test_more_partials_than_a_page_holds_are_never_carried() -> None:
    for every in range(1, 40):
        tails, found = tails_of(Time(3_000, every=every), n=sash.count())
        assert not tails.folds or 3_000 / every + len(found) <= MOST
