"""All time-ordered structures: inserts and evictions, nulls, and copies."""

import copy
import datetime as dt
import pickle
import weakref
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sash
from sash.aggregators import AugmentedBTree, FiBA
from sash.monoids import ArgMax, Collect, Count, Covariance, Max, Sum
from tests.aggregators.btree_cases import STRUCTURES, letters, window_of
from tests.conformance.machines import JOIN

every = pytest.mark.parametrize("structure", STRUCTURES)


# ---- what is asked of a window ----


@every
def test_the_empty_window(structure: Any) -> None:
    window = structure(Sum())
    assert (len(window), bool(window), list(window)) == (0, False, [])
    assert (window.query(), window.query(1, 2), window.oldest, window.youngest) == (None, None, None, None)
    assert structure(Count()).query() == 0
    window.evict(3)
    window.evict_through(3)
    window.insert_many([], [])
    window.check_invariants()
    with pytest.raises(IndexError, match=rf"evict\(\) from an empty {structure.__name__}"):
        window.evict()


@every
def test_repr_and_the_unlowered_aggregate(structure: Any) -> None:
    window = window_of(structure, Collect(), [(2, "b"), (1, "a")])
    assert repr(window) == f"<{structure.__name__} of Collect(): 2 elements, aggregate ('a', 'b')>"
    assert (window.aggregate(), window.query()) == (("a", "b"), ["a", "b"])


@every
def test_ranges_are_closed_and_may_be_open(structure: Any) -> None:
    window = letters(structure)
    assert window.query(2, 5) == "cdef"
    assert window.query(to_time=2) == "abc"
    assert window.query(from_time=23) == "xyz"
    assert window.query(2.5, 5.5) == "def"
    assert window.query(5, 2) == ""
    assert window.query(2.2, 2.8) == ""
    assert window.query(-9, -1) == window.query(30, 40) == ""
    assert window.query(-9, 99) == window.query()


@every
def test_any_ordered_time(structure: Any) -> None:
    day = dt.date(2024, 1, 1)
    for times in (
        "cabed",
        [day + dt.timedelta(days=i) for i in (2, 0, 1, 4, 3)],
        [(1, 2), (0, 9), (1, 0), (2, 2), (2, 1)],
        [Fraction(2, 3), 0.5, 0, Decimal(3), 10**30],
        np.array([3, 1, 2, 5, 4], "M8[D]"),
    ):
        window = window_of(structure, Collect(), ((t, i) for i, t in enumerate(times)))
        window.check_invariants()
        assert window.query() == sorted(range(5), key=lambda i: times[i])
        assert (window.oldest, window.youngest) == (min(times), max(times))


# ---- nulls, and several inputs ----


@every
def test_a_null_is_an_element_that_no_aggregate_sees(structure: Any) -> None:
    window = window_of(structure, Sum(), [(1, None), (2, 3), (2, None), (3, None)])
    assert (len(window), window.query(), window.query(3)) == (3, 3, None)


@every
def test_several_inputs_one_by_one_or_as_a_tuple(structure: Any) -> None:
    apart, together, many, tuples = (structure(ArgMax()) for _ in range(4))
    rows = [(1, "a"), (3, "b"), (2, "c")]
    for time, row in enumerate(rows):
        apart.insert(time, *row)
        together.insert(time, row)
    many.insert_many(range(3), *zip(*rows, strict=True))
    tuples.insert_many(range(3), rows)
    assert {window.query() for window in (apart, together, many, tuples)} == {"b"}
    window = window_of(structure, Covariance(), enumerate([(1.0, 2.0), (None, 9.0), (2.0, 4.0)]))
    assert (len(window), window.query()) == (3, 1.0)


@every
def test_the_wrong_number_of_inputs_changes_nothing(structure: Any) -> None:
    window = structure(ArgMax())
    for row in [(1,), (1, 2, 3)]:
        with pytest.raises(TypeError, match="lift"):
            window.insert(1, *row)
    with pytest.raises(TypeError, match="lift"):
        window.insert_many([1, 2], [1, 2])
    assert len(window) == 0


@every
def test_rows_without_inputs(structure: Any) -> None:
    window = structure(Count())
    window.insert(1)
    window.insert_many([3, 2])
    assert window.query() == 3


# ---- many at once ----


@every
@pytest.mark.parametrize("min_arity", [2, 3, 4])
def test_insert_many_is_insert_repeatedly(structure: Any, min_arity: int) -> None:
    for length in (1, 2, 7, 50, 300):
        one, many = (window_of(structure, JOIN, [(i * 3, "-") for i in range(60)], min_arity) for _ in range(2))
        times = [i * 37 % 211 for i in range(length)]
        values = [chr(97 + i % 26) for i in range(length)]
        many.insert_many(times, values)
        for time, value in zip(times, values, strict=True):
            one.insert(time, value)
        many.check_invariants()
        assert (list(one), one.query()) == (list(many), many.query())


@every
def test_insert_many_takes_arrays_and_iterators(structure: Any) -> None:
    window = structure(Sum())
    window.insert_many(np.array([3, 1, 3]), np.array([1, 2, 3]))
    window.insert_many(iter([2]), (x for x in [10]))
    assert [window.query(t, t) for t, _ in window] == [2, 10, 4]
    assert all(type(time) is int for time, _ in window)


@every
@pytest.mark.parametrize("min_arity", [2, 3, 4])
def test_evict_through_every_time(structure: Any, min_arity: int) -> None:
    for count in (1, 2, 5, 17, 60):
        full = window_of(structure, JOIN, [(2 * i, chr(200 + i)) for i in range(count)], min_arity)
        for time in range(-1, 2 * count + 1):
            window = full.copy()
            window.evict_through(time)
            window.check_invariants()
            assert window.query() == "".join(chr(200 + i) for i in range(count) if 2 * i > time)
            window.insert(time, "x")
            window.insert(2 * count + 1, "y")
            window.evict()
            window.check_invariants()
            assert len(window) == sum(2 * i > time for i in range(count)) + 1


# ---- copies, and what is released ----


@every
@pytest.mark.parametrize(
    "twin_of", [lambda w: w.copy(), copy.copy, copy.deepcopy, lambda w: pickle.loads(pickle.dumps(w))]
)
def test_a_twin_goes_its_own_way(structure: Any, twin_of: Any) -> None:
    window = window_of(structure, Collect(), ((i * 7 % 300, i * 7 % 300) for i in range(300)), 3)
    window.evict_through(99)
    twin = twin_of(window)
    window.insert(500, "x")
    for _ in range(100):
        window.evict()
    for either in (window, twin):
        either.check_invariants()
    assert twin.query() == list(range(100, 300))
    assert window.query() == [*range(200, 300), "x"]
    assert (type(twin), twin.min_arity) == (structure, 3)


class Thing:
    """An object that can be watched."""


THINGS = sash.monoid(identity=(), lift=lambda x: (x,), combine=lambda a, b: a[:1] or b[:1])
"""Keeps the first of the things it has seen, and no other."""


@every
def test_what_leaves_is_released(structure: Any) -> None:
    window = structure(THINGS, 2)
    watched = []
    for time in range(200):
        thing = Thing()
        watched.append(weakref.ref(thing))
        window.insert(time, thing)
    del thing
    for time in range(0, 200, 3):
        window.evict(time)
    for _ in range(30):
        window.evict()
    left = {time for time, _ in window}
    assert {time for time, ref in enumerate(watched) if ref() is not None} == left
    window.evict_through(150)
    assert len(window) == sum(time > 150 for time in left)
    assert {time for time, ref in enumerate(watched) if ref() is not None} == {t for t in left if t > 150}
    window.clear()
    assert all(ref() is None for ref in watched)


@every
def test_memory_follows_the_window_down_after_bulk_eviction(structure: Any) -> None:
    """A few nodes are released per operation, or all by `len`."""
    window = letters(structure, 2000)
    nodes = len(window.links.rows)
    window.evict_through(1989)
    assert len(window.links.rows) > nodes - 20
    for i in range(nodes):
        window.insert(3000 + i, "x")
        window.evict()
    assert len(window.links.rows) < 20
    window = letters(structure, 2000)
    window.evict_through(1989)
    assert len(window) == 10
    assert len(window.links.rows) < 20


# ---- check_invariants can fail ----


def spoilt(structure: Any, spoil: Any) -> str:
    window = letters(structure, 60)
    window.evict_through(40)
    window.check_invariants()
    spoil(window)
    with pytest.raises(AssertionError, match=f"^{structure.__name__}: ") as error:
        window.check_invariants()
    return str(error.value)


def test_whatever_is_stored_twice_is_checked() -> None:
    from sash.aggregators.btree import ARITY, CHILD, FLAGS, PARENT

    def put(field: str, *key: int, value: Any) -> Any:
        return lambda w: getattr(w, field).__setitem__(key if len(key) > 1 else key[0], value)

    window = letters(FiBA, 60)
    window.evict_through(40)
    middle = window.links[window.root, CHILD + 1]
    for structure in STRUCTURES:
        assert "the aggregate of node" in spoilt(structure, lambda w: w.aggs.__setitem__(w.root, "wrong"))
        assert "the aggregate of node" in spoilt(structure, lambda w: w.aggs.__setitem__(w.left, "wrong"))
        assert "not in order" in spoilt(structure, lambda w: w.times.__setitem__((w.left, 0), 1000))
        assert "entries are counted" in spoilt(structure, lambda w: setattr(w, "held", w.held + 1))
        assert "finger" in spoilt(structure, lambda w: setattr(w, "left", w.right))
        assert "finger" in spoilt(structure, lambda w: setattr(w, "right", w.root))
        assert "flags" in spoilt(structure, lambda w: w.links.__setitem__((w.root, FLAGS), w.links[w.root, FLAGS] | 1))
        assert "neither in the tree nor free" in spoilt(structure, lambda w: setattr(w, "free_head", -1))
        assert "neither in the tree nor free" in spoilt(structure, lambda w: w.links.open(10**6, 12))
    assert "own share" in spoilt(FiBA, lambda w: w.own.__setitem__(w.left, "wrong"))
    assert "parent" in spoilt(FiBA, put("links", middle, PARENT, value=middle))
    assert "arity" in spoilt(FiBA, put("links", window.root, ARITY, value=1))


def test_the_baseline_is_no_finger_tree() -> None:
    assert AugmentedBTree(Max()).search_start(5) == AugmentedBTree(Max()).root
