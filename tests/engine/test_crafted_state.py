"""Crafted state: everything that compiled loops rely on is checked when a page is read.

a page ──▶ one number of it changed, checksum repaired ──▶ PageError that names the page; the operator is as it was
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash import Count, Lifetime, Policy, Session, Time
from sash.stores import MemoryStore, PageError
from tests.engine.crafted_pages import SCHEMA, crafted, query, rows, stored
from tests.fuzz.envelopes import unwrapped
from tests.shared.queries import KeepLast
from tests.shared.small_state import small_buckets

pytestmark = pytest.mark.compiled


def put(value: Any, at: int = 0) -> Callable[[list[Any]], list[Any]]:
    """Change one value."""
    return lambda values: [*values[:at], value, *values[at + 1 :]]


def last(change: Callable[[Any], Any]) -> Callable[[list[Any]], list[Any]]:
    """Change the last value."""
    return lambda values: [*values[:-1], change(values[-1])]


def refuse(asked: sash.Query, store: MemoryStore, page: str, said: str) -> None:
    """Every call that needs the page is refused by its name, also when it is repeated, and so is a reader."""
    named = f"page '{page}' is damaged: .*{said}"
    operator = asked.operator(SCHEMA, store=store)
    for _ in range(2):
        with pytest.raises(PageError, match=named):
            operator.process(rows(60, 8))
        assert operator.metrics.rows_in == 60
    reader = asked.reader(store)
    for looking in (operator, reader, reader):
        with pytest.raises(PageError, match=named):
            looking.lookup({"k": ["a", "b", "c"]})


BUCKET = "b0000000000000000"
FRONT, BACK, BEGIN, START = (f"a0.heads.{i}" for i in (2, 3, 4, 5))
KEYS_BATCH, ELEMENTS, EMITTED = range(3)
HUGE = 2**62 + 1

HEADS: dict[str, tuple[Any, int, str, Any, str]] = {
    "a front below all": (Time(9), KEYS_BATCH, FRONT, put(-1), "not in order"),
    "a front behind the back": (Time(9), KEYS_BATCH, FRONT, put(10**6), "not in order"),
    "a back without elements": (Time(9), KEYS_BATCH, BACK, put(10**12), "number of its elements differs"),
    "a back beyond integers": (Time(9), KEYS_BATCH, BACK, put(2**63 - 1), "not in order"),
    "a life behind the front": (Time(9), KEYS_BATCH, BEGIN, put(10**6), "not in order"),
    "a start behind the back": (Time(9), KEYS_BATCH, START, put(10**6), "outside of its ring"),
    "a start below all": (Time(9), KEYS_BATCH, START, put(-5), "outside of its ring"),
    "a start that is gone": (Time(9), KEYS_BATCH, START, put(0), "before the first element"),
    "an end behind the back": (Time(9, shift=-5), KEYS_BATCH, "a0.heads.6", put(10**6), "ends outside of its ring"),
    "an end before the start": (Time(9, shift=-5), KEYS_BATCH, "a0.heads.6", put(0), "ends outside of its ring"),
    "a row that waits behind all": (
        Count(3, shift=2),
        KEYS_BATCH,
        "a0.heads.6",
        put(10**6),
        "rows that wait are missing",
    ),
    "a row that waits before all": (Count(3, shift=2), KEYS_BATCH, "a0.heads.6", put(-1), "rows that wait are missing"),
    "another life to wait in": (Count(3, shift=2), KEYS_BATCH, "a0.heads.7", put(5), "rows that wait are missing"),
    "a row that does not wait": (
        Count(3, shift=2),
        ELEMENTS,
        "waits",
        last(lambda _: False),
        "rows that wait for later rows are missing",
    ),
    "a row of nowhere": (Count(3, shift=2), ELEMENTS, "arrival", last(lambda _: None), "without their counts"),
    "no rows": (Time(9), KEYS_BATCH, "keys.0", put(0), "number of rows"),
    "rows below none": (Time(9), KEYS_BATCH, "keys.0", put(-3), "number of rows"),
    "values below none": (Time(9), KEYS_BATCH, "a0.0.totals.0", put(-1), "number of values"),
    "a key twice": (Time(9), KEYS_BATCH, "k0", put("b"), "twice"),
    "a tail of nobody": (Time(9), KEYS_BATCH, "tail0.0", last(lambda _: 20), "without a number|outside of its ring"),
    "a tail below all": (Time(9), KEYS_BATCH, "tail0.0", put(-1), "outside of its ring"),
    "a number that never was": (Time(9), KEYS_BATCH, "number.0", put(3), "unknown number"),
    "falling times": (Time(9), ELEMENTS, "time", put(10**6), "later than the last row|decrease"),
    "too many values": (Time(12, every=4), ELEMENTS, "a0.0.n", put(10**6), "later than the last row"),
    "a count below none": (Time(12, every=4), ELEMENTS, "a0.0.n", put(-(10**6)), "is negative"),
    "a count that is gone": (
        Count(30),
        KEYS_BATCH,
        FRONT,
        last(lambda x: x + 1),
        "number of its elements differs|before the first element",
    ),
    "a pane with another slide": (Time(12, every=4), ELEMENTS, "first.0", put(-(2**60)), "does not match its edge"),
    "a pane far away": (Time(12, every=4), ELEMENTS, "low", last(lambda _: 2**63 - 1), "too near to the limits"),
    "an edge that is not the last": (Time(12, every=4), KEYS_BATCH, "a0.low.0", put(8), "another edge"),
    "a slide beyond all times": (Time(12, every=4), KEYS_BATCH, "a0.heads.7", put(2**61), "outside of the range"),
    "a window that ends nowhere": (Time(12, every=4), KEYS_BATCH, "a0.heads.6", put(10**6), "ends outside"),
    "a pane before the first row": (Count(30, every=4), ELEMENTS, "low", put(-4), "before the first row"),
    "a slide of a count": (Count(3, every=Time(4)), KEYS_BATCH, "a0.heads.6", put(2**62 - 1), "outside of the range"),
    "a slide of rows that are gone": (Count(3, every=Time(4)), KEYS_BATCH, "a0.heads.7", put(10**6), "outside of its"),
    "neither open nor closed": (Session(5), KEYS_BATCH, "a0.heads.0", put(2), "neither open nor closed"),
    "a slide of a lifetime": (Lifetime(every=Time(4)), KEYS_BATCH, "a0.heads.2", put(2**61), "outside of the range"),
    "a base of the future": (Lifetime(), KEYS_BATCH, "a0.0.base.0", put(10**6), "after the last value"),
    "a policy's start": (Policy(KeepLast(3), sash.count()), KEYS_BATCH, START, put(HUGE), "outside of its ring"),
    "a state that is none": (Time(9), ELEMENTS, "a0.2.state", put(b"t\xff\xff\xff\xff"), "damaged"),
}


@pytest.mark.parametrize("case", HEADS)
def test_slots_that_cannot_be(case: str) -> None:
    window, batch, column, change, said = HEADS[case]
    asked = query(window)
    store = stored(asked)
    store.pages[BUCKET] = crafted(asked, store.pages[BUCKET], batch, column, change)
    refuse(asked, store, BUCKET, said)


SEGMENTS: dict[str, tuple[int, str, Any, str]] = {
    "a range that falls": (0, "start", put(10**6), "impossible"),
    "a range beyond all": (0, "stop", put(2**62), "impossible range|that of its ranges"),
    "a range of another length": (0, "stop", put(1), "that of its ranges|impossible"),
    "a key twice": (0, "key", lambda keys: [keys[0]] * len(keys), "twice"),
    "a number that is missing": (0, "start", put(None), "missing"),
    "falling times": (1, "time", put(10**6), "later than the last row|decrease"),
    "a state that is none": (1, "a0.2.state", put(b"t\xff\xff\xff\xff"), "damaged"),
}


def segments(store: MemoryStore) -> list[str]:
    """The names of the segments, in their order."""
    names = [name for name in store.pages if name[0] == "s"]
    return sorted(names, key=lambda name: int(name.split(".")[-1]))


@pytest.mark.parametrize("case", SEGMENTS)
def test_segments_that_cannot_be(case: str) -> None:
    batch, column, change, said = SEGMENTS[case]
    asked = query(Time(100))
    with small_buckets(10_000, 30):
        store = stored(asked)
        page = segments(store)[0]
        store.pages[page] = crafted(asked, store.pages[page], batch, column, change)
        refuse(asked, store, page, said)


def test_segments_that_do_not_follow_each_other() -> None:
    """A range that was moved, one of an unknown key, and one that its bucket has, too."""
    asked = query(Time(100))
    moved = lambda by: lambda values: [value + by for value in values]  # noqa: E731
    with small_buckets(10_000, 2):
        pages = stored(asked).pages
        first, *_, newest = segments(MemoryStore(dict(pages)))
        for page, by in ((first, 1), (newest, 1), (first, 900)):
            store = MemoryStore(dict(pages))
            for column in ("start", "stop"):
                store.pages[page] = crafted(asked, store.pages[page], 0, column, moved(by))
            refuse(asked, store, page, "does not begin|in its bucket, too")
        store = MemoryStore(dict(pages))
        store.pages[newest] = crafted(asked, store.pages[newest], 0, "key", moved(1000))
        refuse(asked, store, BUCKET, "number of its elements differs")


LAYOUTS: dict[str, Any] = {
    "a column of the future": lambda layout: [len(layout) - 1, *layout[1:]],
    "a column that is not stored": lambda layout: [*layout[:-2], "0", len(layout) - 2],
    "a column of another type": lambda layout: [*layout[:-1], 0],
    "a constant text": lambda layout: ["0", *layout[1:]],
    "too few columns": lambda layout: layout[:-1],
    "no column": lambda layout: ["0"] * len(layout),
    "no layout at all": lambda _: "x",
    "a constant beyond integers": lambda layout: [*layout[:1], str(2**63), *layout[2:]],
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_layouts_that_cannot_be(case: str) -> None:
    asked = query(Time(9))
    store = stored(asked)
    page = unwrapped(store.pages[BUCKET])
    keys, *rest = page.meta["columns"]
    store.pages[BUCKET] = page.with_meta(page.meta | {"columns": [LAYOUTS[case](keys), *rest]}).wrapped()
    refuse(asked, store, BUCKET, "layout|neither stored nor equal|field 'columns'")


@pytest.mark.parametrize("segments", [[[0, 5]], [[5, 0]], [], [[0, 0], [0, 0]]])
def test_segments_that_are_not_there(segments: Any) -> None:
    asked = query(Time(9))
    store = stored(asked)
    page = unwrapped(store.pages[BUCKET])
    marks = ["0" * 16] * len(segments)
    store.pages[BUCKET] = page.with_meta(page.meta | {"segments": segments, "marks": marks}).wrapped()
    operator = asked.operator(SCHEMA, store=store)
    with pytest.raises(PageError, match=r"s0{16}\.0\.0' is missing|impossible range of segments|of another query"):
        operator.process(rows(60, 8))


def test_what_was_emitted_of_a_key_that_is_not_there() -> None:
    asked = query(Time(9), emit="changes")
    store = stored(asked)
    store.pages[BUCKET] = crafted(asked, store.pages[BUCKET], EMITTED, "key", last(lambda _: 70_000))
    refuse(asked, store, BUCKET, "not in it")


DIRECTORIES: dict[str, tuple[int, str, Any, str]] = {
    "buckets out of order": (0, "start", put(5), "least hash"),
    "fewer keys than none": (0, "keys", put(-1), "number of keys"),
    "a page that never was": (1, "page", put(10**6), "never written"),
    "a page twice": (1, "page", lambda values: [values[0]] * len(values), "twice"),
    "times out of order": (1, "low", put(10**6), "impossible"),
    "a number that is missing": (1, "rows", put(None), "missing"),
}


@pytest.mark.parametrize("case", DIRECTORIES)
def test_headers_that_cannot_be(case: str) -> None:
    batch, column, change, said = DIRECTORIES[case]
    asked = query(Time(9), lateness=50)
    store = stored(asked)
    store.pages["header"] = crafted(asked, store.pages["header"], batch, column, change)
    with pytest.raises(PageError, match=f"page 'header' is damaged: .*{said}"):
        asked.operator(SCHEMA, store=store)


def test_a_bucket_with_another_number_of_keys() -> None:
    asked = query(Time(9))
    store = stored(asked)
    store.pages["header"] = crafted(asked, store.pages["header"], 0, "keys", put(10))
    refuse(asked, store, BUCKET, "by the header 10")


@pytest.mark.parametrize(
    ("column", "change", "said"),
    [
        ("t", put(None), "without a time"),
        ("t", put(10**6), "not in order"),
        ("_arrival", put(None), "without an arrival number"),
        ("t", put(-(10**6)), "not those of the header"),
    ],
)
def test_rows_that_wait(column: str, change: Any, said: str) -> None:
    asked = query(Time(9), lateness=50)
    store = stored(asked)
    store.pages["q0"] = crafted(asked, store.pages["q0"], 0, column, change)
    operator = asked.operator(SCHEMA, store=store)
    for _ in range(2):
        with pytest.raises(PageError, match=f"page 'q0' is damaged: .*{said}"):
            operator.finish()


EAGER: dict[str, tuple[Any, int, str, Any, str]] = {
    "a row of no key": (Time(9), 1, "key", put(900), "not in it"),
    "a row before all keys": (Time(9), 1, "key", put(-1), "not in it"),
    "a row that never came": (Time(9), 1, "arrival", put(10**6), "impossible arrival"),
    "more rows than there are": (Time(9), 0, "kept", put(10**6), "fewer rows"),
    "fewer rows than none": (Time(9), 0, "kept", put(-1), "impossible"),
    "rows that have passed": (Time(9), 0, "passed", put(HUGE), "impossible"),
    "a time beyond all slides": (Time(12, every=4), 1, "time", put(2**63 - 1), "too near to the limits"),
    "a slide of no key": (Time(12, every=4), 3, "key", put(900), "not in it"),
    "a slide that ends at no row": (Count(5, every=2), 3, "number", last(lambda _: 10**9), "missing row"),
    "a key twice": (Time(9), 0, "key:k", put("b"), "twice"),
}


@pytest.mark.usefixtures("interpreted_trees")
@pytest.mark.parametrize("case", EAGER)
def test_pages_of_eager_operators(case: str) -> None:
    window, batch, column, change, said = EAGER[case]
    asked = query(window, emit="eager")
    store = stored(asked, calls=1)
    store.pages["e0"] = crafted(asked, store.pages["e0"], batch, column, change)
    with pytest.raises(PageError, match=f"page 'e0' is damaged: .*{said}"):
        asked.operator(SCHEMA, store=store)


# ---- all or nothing ----


@pytest.mark.parametrize("emit", ["final", "changes"])
def test_a_page_that_is_refused_leaves_everything_as_it_was(emit: str) -> None:
    """Of several buckets one is damaged: the others are loaded, the call fails, and works when the page is back."""
    asked = query(Time(30), emit=emit)
    with small_buckets(1, 1000):
        store, undisturbed = stored(asked), stored(asked)
    expected = asked.operator(SCHEMA, store=undisturbed).process(rows(60, 20))
    buckets = sorted(name for name in store.pages if name[0] == "b")
    assert len(buckets) > 1
    for name in buckets:
        tried = MemoryStore(dict(store.pages))
        operator = asked.operator(SCHEMA, store=tried)
        tried.pages[name] = crafted(asked, store.pages[name], KEYS_BATCH, FRONT, put(-1))
        for _ in range(2):
            with pytest.raises(PageError, match=name):
                operator.process(rows(60, 20))
            with pytest.raises(PageError, match=name):
                operator.lookup({"k": ["a", "b", "c"]})
        tried.pages[name] = store.pages[name]
        assert operator.process(rows(60, 20)).equals(expected)


def test_what_was_emitted_is_remembered_when_a_call_fails_after_it_was_loaded() -> None:
    """A call loads what was emitted of a key and fails; the next one still knows, and emits no change."""
    asked = sash.Query(sash.Delta("t", 100), by="k", emit="changes", top=sash.max("s"))
    store = MemoryStore()
    assert asked.operator(SCHEMA, store=store).process(rows(0, 3))["top"].to_pylist() == ["w0", "w1", "w2"]
    operator = asked.operator(SCHEMA, store=store)
    falling = pa.concat_batches([rows(3, 1), rows(1, 1)])
    with pytest.raises(ValueError, match="must not decrease"):
        operator.process(falling)
    assert operator.process(rows(4, 1))["top"].to_pylist() == []
