"""The contract of all structures: insert and evict, nulls, copies, and error messages."""

import copy
import math
import pickle
import weakref
from typing import Any

import pytest

import sash
from sash.aggregators import DABA, InOrder, Recalc
from sash.aggregators.catalogue import IN_ORDER, sequential
from sash.aggregators.in_order import INSERT
from sash.monoids.algebra import Monoid
from sash.monoids.by_place import Last
from sash.monoids.collect import Collect
from sash.monoids.extremes import ArgMax, Max
from sash.monoids.regression import Covariance
from sash.monoids.sums import Count, Sum
from tests.conformance.machines import JOIN, admits, fitting
from tests.shared.workloads import WORKLOADS

STRUCTURES = [record.cls for record in IN_ORDER.values()]
every = pytest.mark.parametrize("structure", STRUCTURES)


def those_that_admit(*monoids: Monoid) -> pytest.MarkDecorator:
    admitted = [structure for structure in STRUCTURES if all(admits(structure, monoid) for monoid in monoids)]
    return pytest.mark.parametrize("structure", admitted)


invertible = those_that_admit(Collect(), Sum(), Count())


def window_of(structure: type[InOrder], monoid: Any, values: Any) -> InOrder:
    window = structure(monoid)
    for value in values:
        window.insert(value)
    return window


# ---- what is asked of a window ----


@invertible
def test_repr_shows_size_and_aggregate(structure: type[InOrder]) -> None:
    window = window_of(structure, Collect(), (3, 1, 2))
    window.evict()
    assert repr(window) == f"<{structure.__name__} of Collect(): 2 elements, aggregate (1, 2)>"


@invertible
def test_repr_of_the_empty_window(structure: type[InOrder]) -> None:
    assert repr(structure(Collect())) == f"<{structure.__name__} of Collect(): 0 elements, aggregate ()>"


@invertible
def test_the_empty_window_gives_what_is_declared(structure: type[InOrder]) -> None:
    assert structure(Count()).query() == 0
    assert structure(Sum()).query() is None
    assert not structure(Sum())


@invertible
def test_lower_is_asked_where_nothing_is_declared(structure: type[InOrder]) -> None:
    total = sash.monoid(identity=0, combine=lambda a, b: a + b, inverse=lambda t, a: t - a, lower=str)
    assert structure(total).query() == "0"


@invertible
def test_the_unlowered_aggregate(structure: type[InOrder]) -> None:
    window = window_of(structure, Collect(), "ab")
    assert (window.aggregate(), window.query()) == (("a", "b"), ["a", "b"])


def test_query_last_answers_for_the_youngest() -> None:
    window = window_of(Recalc, JOIN, "abcd")
    window.evict()
    assert isinstance(window, Recalc)
    assert [window.query_last(n) for n in range(4)] == ["", "d", "cd", "bcd"]
    for n in (-1, 4):
        with pytest.raises(ValueError, match=rf"query_last\({n}\): the window has 3 elements"):
            window.query_last(n)


# ---- nulls ----


@invertible
def test_a_null_is_an_element_that_no_aggregate_sees(structure: type[InOrder]) -> None:
    window = window_of(structure, Sum(), (None, 3, None))
    assert (len(window), window.query()) == (3, 3)
    window.evict()
    assert (len(window), window.query()) == (2, 3)
    window.evict()
    assert (len(window), window.query()) == (1, None)
    window.check_invariants()


@invertible
def test_only_rows_without_a_null_are_counted(structure: type[InOrder]) -> None:
    window = structure(Count())
    window.insert()
    window.insert(None)
    window.insert(1, None)
    window.insert(1, 2)
    assert (len(window), window.query()) == (4, 2)


@those_that_admit(ArgMax())
def test_a_null_payload_is_kept(structure: type[InOrder]) -> None:
    window = window_of(structure, ArgMax(), [(1, "a"), (9, None), (None, "b")])
    assert (len(window), window.query()) == (3, None)
    assert window.aggregate() == (True, 9, None)


@invertible
def test_nan_is_a_value(structure: type[InOrder]) -> None:
    window = window_of(structure, Sum(), (math.nan, 1.0))
    assert math.isnan(window.query())
    window.evict()
    assert window.query() == 1.0


# ---- several inputs ----


@those_that_admit(ArgMax())
def test_several_inputs_one_by_one_or_as_a_tuple(structure: type[InOrder]) -> None:
    apart, together = structure(ArgMax()), structure(ArgMax())
    for row in [(1, "a"), (3, "b"), (2, "c")]:
        apart.insert(*row)
        together.insert(row)
    assert apart.query() == together.query() == "b"


@those_that_admit(Covariance())
def test_a_null_among_several_inputs(structure: type[InOrder]) -> None:
    window = window_of(structure, Covariance(), [(1.0, 2.0), (None, 9.0), (9.0, None), (2.0, 4.0)])
    assert (len(window), window.query()) == (4, 1.0)


@invertible
def test_a_tuple_is_one_value_to_an_aggregate_of_one_input(structure: type[InOrder]) -> None:
    assert window_of(structure, Collect(), [(1, 2), (3,)]).query() == [(1, 2), (3,)]


@those_that_admit(ArgMax())
def test_the_wrong_number_of_inputs(structure: type[InOrder]) -> None:
    for row in [(1,), (1, 2, 3)]:
        window = structure(ArgMax())
        with pytest.raises(TypeError, match="lift"):
            window.insert(*row)
        assert len(window) == 0


@invertible
def test_a_value_that_is_refused_changes_nothing(structure: type[InOrder]) -> None:
    window = window_of(structure, Sum(), (1, 2))
    with pytest.raises(TypeError):
        window.insert("three")
    window.check_invariants()
    assert (len(window), window.query()) == (2, 3)


# ---- copies ----


@invertible
@pytest.mark.parametrize(
    "twin_of", [lambda w: w.copy(), copy.copy, copy.deepcopy, lambda w: pickle.loads(pickle.dumps(w))]
)
def test_a_twin_goes_its_own_way(structure: type[InOrder], twin_of: Any) -> None:
    window = window_of(structure, Collect(), range(300))
    for _ in range(150):
        window.evict()
    twin = twin_of(window)
    window.insert("x")
    for _ in range(100):
        window.evict()
    for either in (window, twin):
        either.check_invariants()
    assert twin.query() == list(range(150, 300))
    assert window.query() == [*range(250, 300), "x"]
    assert type(twin) is structure


# ---- what is released ----


class Thing:
    """An object that can be watched."""


def evicted_and_held(watched: list[weakref.ref[Thing]], window: InOrder) -> int:
    return sum(thing() is not None for thing in watched[: len(watched) - len(window)])


@every
@pytest.mark.parametrize("queried", [False, True])
@pytest.mark.parametrize("monoid", [Collect(), Last()], ids=["collect", "last"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_what_was_evicted_is_released(structure: type[InOrder], monoid: Monoid, workload: str, queried: bool) -> None:
    if not admits(structure, monoid):
        return
    window = structure(monoid)
    watched: list[weakref.ref[Thing]] = []
    for operation in WORKLOADS[workload](150):
        if operation == INSERT:
            thing = Thing()
            watched.append(weakref.ref(thing))
            window.insert(thing)
            del thing
        else:
            window.evict()
        assert evicted_and_held(watched, window) == 0
        if queried:
            window.query()
    while len(window):
        window.evict()
        assert evicted_and_held(watched, window) == 0


@invertible
def test_what_was_cleared_is_released(structure: type[InOrder]) -> None:
    thing = Thing()
    window = window_of(structure, Collect(), [thing] * 10)
    watched = weakref.ref(thing)
    del thing
    window.query()
    window.clear()
    assert watched() is None


# ---- errors ----


@every
def test_evict_from_the_empty_window(structure: type[InOrder]) -> None:
    window = structure(fitting(structure))
    with pytest.raises(IndexError, match=rf"evict\(\) from an empty {structure.__name__}"):
        window.evict()
    window.insert(1)
    window.evict()
    with pytest.raises(IndexError, match=structure.__name__):
        window.evict()
    assert len(window) == 0


@invertible
def test_a_lower_that_fails_on_the_empty_window(structure: type[InOrder]) -> None:
    mean = sash.monoid(
        identity=(0, 0),
        lift=lambda x: (1, x),
        combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
        inverse=lambda t, a: (t[0] - a[0], t[1] - a[1]),
        lower=lambda a: a[1] / a[0],
        name="my mean",
    )
    window = structure(mean)
    with pytest.raises(ValueError, match=r"'my mean'.* failed with ZeroDivisionError: .*empty=") as caught:
        window.query()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    window.insert(3)
    assert window.query() == 3.0


@every
@pytest.mark.parametrize("argument", [max, Max, 3, None, "max", Max()("price")])
def test_what_is_no_monoid(structure: type[InOrder], argument: Any) -> None:
    with pytest.raises(TypeError, match=rf"{structure.__name__} is built from a monoid, such as .*; got"):
        structure(argument)


@every
def test_a_missing_property_is_named(structure: type[InOrder]) -> None:
    bare = sash.monoid(identity=0, combine=lambda a, b: a + b, name="bare")
    for need in structure.needs:
        with pytest.raises(TypeError, match=rf"{structure.__name__} needs .*'{need}', which monoid\('bare'\)"):
            structure(bare)
    if not structure.needs:
        structure(bare)


def test_what_is_overwritten_is_not_iterated() -> None:
    for record in IN_ORDER.values():
        monoid = fitting(record.cls)
        window = window_of(record.cls, monoid, (3, 1))
        if sequential(record.name).keeps_elements:
            assert list(window) == [window.monoid.lift(3), window.monoid.lift(1)]
        else:
            with pytest.raises(TypeError, match=f"{record.name} .* cannot be iterated"):
                iter(window)


@pytest.mark.parametrize(
    ("monoid", "columns", "said"),
    [
        (Max(), ("a", "b"), r"max takes 1 column \(x\); got 2: 'a', 'b'"),
        (ArgMax(), ("a",), r"arg_max takes 2 columns \(value, payload\); got 1: 'a'"),
        (Count(), (None,), r"count takes the names of columns, .*; got None"),
        (ArgMax(), (None, "a"), r"arg_max takes the names of columns, .*; got None"),
        (Max(), (3,), r"max takes the names of columns, or expressions made with sash.expr; got 3, a int: write max"),
    ],
)
def test_bound_to_the_wrong_columns(monoid: Any, columns: tuple[Any, ...], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        monoid(*columns)


def test_an_aggregate_without_its_column_is_one_of_an_array() -> None:
    """Only `sash.rolling` takes arrays: everything else refuses it as it refuses a wrong number of columns."""
    assert repr(Max()()) == repr(Max()(None)) == "max()"
    for refuses in (
        lambda: sash.Query(2, high=Max()()),
        lambda: sash.Query(2, spread=sash.max("x") - Max()()),
        lambda: sash.Window(2, Max()()),
        lambda: sash.Window(2, high=1 + Max()()),
        lambda: sash.Policy(lambda total, prefix: total > prefix, over=[Max()()]),
        lambda: sash.as_of({"t": [1]}, {"t": [1]}, 2, on="t", high=Max()()),
    ):
        with pytest.raises(TypeError, match=r"^max takes 1 column \(x\); got 0: none$"):
            refuses()


def test_count_is_bound_to_any_number_of_columns() -> None:
    assert [repr(Count()(*columns)) for columns in ((), ("a",), ("a", "b"))] == [
        "count()", "count('a')", "count('a', 'b')"
    ]  # fmt: skip


def test_a_window_is_not_changed_by_looking_at_it() -> None:
    window = window_of(DABA, Collect(), "abc")
    for look in (repr, len, list, lambda w: w.query(), lambda w: w.check_invariants()):
        look(window)
    assert window.query() == ["a", "b", "c"]
