"""Policy windows on operators: results equal the reference, and bulk evictions are cheap."""

import functools
import math
import random
import warnings
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.engine import Operator
from sash.kernels import InterpretedWarning
from sash.monoids import Max, Sum
from sash.monoids.op_counter import OpCounter
from sash.stores import MemoryStore
from tests.behaviour.differential import compare_with_reference
from tests.behaviour.test_operator import begin, resume
from tests.engine.lookup_cases import SCHEMA, batch
from tests.shared.effort import seldom, share
from tests.shared.queries import KeepLast
from tests.shared.streams import Case, StreamStep

pytestmark = pytest.mark.compiled

NUMBERS = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.int64()), ("f", pa.float64())])


def sums_to(limit: int) -> Callable[[Any, Any], bool]:
    """The window sums to at most `limit`."""
    return lambda t, p: t[0] - p[0] + (0 if p[1] is None else p[1]) > limit


def far_apart(total: Any, prefix: Any) -> bool:
    """Where the greatest value lies more than 4 above the mean, all but the last row goes."""
    if total[0] is None or total[1] is None:
        return False
    return bool(total[0] - total[1] > 4.0 and prefix[2] < total[2])


def refresh(total: Any, _prefix: Any) -> bool:
    """A value of 7 or more empties the window."""
    return total is not None and total >= 7


AFFINE = sash.monoid(
    identity=(1, 0),
    lift=lambda x: (2, x),
    combine=lambda a, b: (a[0] * b[0] % 1009, (a[1] * b[0] + b[1]) % 1009),
    lower=lambda a: a[1],
)

COMPILED = {
    "sum and last": sash.Policy(sums_to(12), (sash.sum("x"), sash.last("x"))),
    "floats": sash.Policy(far_apart, (sash.max("f"), sash.mean("f"), sash.count())),
    "alone": sash.Policy(refresh, sash.last("x")),
    "all of one": sash.Policy(lambda t, p: t[0] - p[0] >= 3, [sash.count("x")]),
    "a monoid of one's own": sash.Policy(
        lambda t, p: t[1] - p[1] >= 4 or t[0][1] % 7 == 3, (AFFINE("x"), sash.count())
    ),
    "an object": sash.Policy(KeepLast(3), sash.count()),
}


def interpreted(window: sash.Policy) -> sash.Policy:
    """The same window by a function that does not compile."""
    return sash.Policy(functools.partial(window.evict), window.over[0] if window.alone else window.over)


def kernel(operator: Any) -> Any:
    return operator.state.backend.engine.assigners[0].policies[0].kernel


def events(chance: random.Random, count: int, first: int) -> pa.RecordBatch:
    values = [chance.choice([None, 0, 1, 2, 3, 5, 9]) for _ in range(count)]
    floats = [chance.choice([None, 0.5, 1.0, 2.25, 9.0, math.nan]) for _ in range(count)]
    times = [first + i + (40 if chance.random() < 0.03 else 0) for i in range(count)]
    keys = [chance.choice("abcde") for _ in range(count)]
    return pa.record_batch(
        [pa.array(keys), pa.array(sorted(times)), pa.array(values, pa.int64()), pa.array(floats, pa.float64())],
        schema=NUMBERS,
    )


def calls(seed: int, rows: int) -> tuple[StreamStep, ...]:
    """Many small calls, with snapshots in between."""
    chance, steps, first = random.Random(seed), [], 0
    while first < rows:
        data = events(chance, chance.randint(1, 10), first)
        steps.append(StreamStep("process", data))
        first = data.column("t")[-1].as_py() + 1
        if chance.random() < 0.15:
            steps.append(StreamStep("snapshot"))
    return (*steps, StreamStep("finish"))


@pytest.mark.parametrize("forget", [None, 30])
@pytest.mark.parametrize(
    ("name", "how"),
    [
        seldom(name, how, unless=how == "interpreted" or name not in ("alone", "all of one"))
        for name in COMPILED
        for how in ("compiled", "interpreted")
    ],
)
def test_small_calls_give_what_the_reference_gives(name: str, how: str, forget: int | None) -> None:
    window = COMPILED[name] if how == "compiled" else interpreted(COMPILED[name])
    query = sash.Query(
        window, by="k", on="t", lateness=0, forget=forget, n=sash.count(), total=sash.sum("x"), high=sash.max("f")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error" if how == "compiled" else "ignore")
        assert kernel(query.operator(NUMBERS)).compiled == (how == "compiled")
        for seed in range(share(5)):
            compare_with_reference(Case(query, NUMBERS, "rows", calls(seed, 160)), begin, resume)


@pytest.mark.parametrize("name", ["sum and last", "an object"])
def test_one_large_call_of_many_keys(name: str) -> None:
    """A call with this many rows is processed slot by slot."""
    query = sash.Query(COMPILED[name], by="k", on="t", n=sash.count(), total=sash.sum("x"))
    data = events(random.Random(7), 5000, 0)
    large, small = query.operator(NUMBERS), query.operator(NUMBERS)
    found = pa.Table.from_batches([large.process(data), large.finish()])
    pieces = pa.Table.from_batches([*(small.process(data.slice(i, 50)) for i in range(0, 5000, 50)), small.finish()])
    names = ["k", "t", "n", "total"]
    assert found.num_rows == 5000
    assert found.select(names).equals(pieces.select(names))


# ---- what compiles ----


def test_captured_values_are_part_of_what_a_policy_means() -> None:
    data = batch(*(("a", t, 1) for t in range(20)))
    for limit in (5, 12):  # one of them is in COMPILED
        window = sash.Policy(sums_to(limit), (sash.sum("x"), sash.last("x")))
        operator = sash.Query(window, by="k", on="t", n=sash.count()).operator(SCHEMA)
        assert kernel(operator).compiled
        found = pa.Table.from_batches([operator.process(data), operator.finish()])
        assert max(found["n"].to_pylist()) == limit


def test_attributes_of_an_object_are_part_of_it_too() -> None:
    data = batch(*(("a", t, 1) for t in range(9)))
    for size in (3, 20):
        operator = sash.Query(sash.Policy(KeepLast(size), sash.count()), by="k", on="t", n=sash.count()).operator(
            SCHEMA
        )
        assert kernel(operator).compiled
        found = pa.Table.from_batches([operator.process(data), operator.finish()])
        assert max(found["n"].to_pylist()) == min(size, 9)


def unsupported(total: Any, _prefix: Any) -> bool:
    return "3" in f"{total:>5}"


def test_what_does_not_compile_is_reported_once() -> None:
    query = sash.Query(sash.Policy(unsupported, sash.sum("x")), by="k", on="t", n=sash.count())
    with pytest.warns(InterpretedWarning, match=r"Policy\(unsupported, over=sum\('x'\)\) runs interpreted: "):
        operator = query.operator(SCHEMA)
    assert not kernel(operator).compiled
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        query.operator(SCHEMA)


def test_values_that_are_no_numbers_are_seen_as_they_are() -> None:
    """Our own aggregates of text run on codes elsewhere; nothing of the user's is to blame, so nothing is said."""
    query = sash.Query(sash.Policy(lambda t, _: t == "z", sash.max("k")), n=sash.count())
    operator = query.operator(SCHEMA)
    assert not kernel(operator).compiled
    found = operator.process(batch(("a", 1, 1), ("b", 2, 1), ("z", 3, 1), ("a", 4, 1)))
    assert found.column("n").to_pylist() == [1, 2, 0, 1]


def test_a_sum_beyond_64_bits_is_an_error_that_names_the_row() -> None:
    window = sash.Policy(sums_to(2**62), (sash.sum("x"), sash.last("x")))
    operator = sash.Query(window, n=sash.count()).operator(SCHEMA)
    operator.process(batch(("a", 1, 2**62)))
    with pytest.raises(OverflowError, match=r"the policy failed with OverflowError: .* at row \{'k': 'a', 't': 2"):
        operator.process(batch(("a", 2, 2**62)))
    assert operator.process(batch(("a", 2, 1))).column("n").to_pylist() == [1]


# ---- all or nothing ----


def unlucky(total: Any, prefix: Any) -> bool:
    if total[0] == 13:
        raise ValueError("unlucky")
    return bool(total[1] - prefix[1] >= 3)


@pytest.mark.parametrize("how", ["compiled", "interpreted"])
@pytest.mark.parametrize("store", [False, True])
def test_a_policy_that_raises_leaves_the_operator_as_it_was(how: str, store: bool) -> None:
    window = sash.Policy(unlucky, (sash.last("x"), sash.count()))
    if how == "interpreted":
        window = interpreted(window)
    query = sash.Query(window, by="k", n=sash.count(), total=sash.sum("x"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pages = MemoryStore() if store else None
        operator, twin = query.operator(SCHEMA, store=pages), query.operator(SCHEMA)
    assert kernel(operator).compiled == (how == "compiled")
    first = batch(*(("ab"[t % 2], t, t) for t in range(8)))
    for one in (operator, twin):
        one.process(first)
    with pytest.raises(
        ValueError, match=r"the policy failed with ValueError: unlucky; at row \{'k': 'b', 't': 10, 'x': 13"
    ):
        operator.process(batch(("a", 8, 50), ("b", 9, 60), ("b", 10, 13), ("a", 11, 1), ("c", 11, 1)))
    assert operator.metrics.keys == twin.metrics.keys
    again = Operator.restore(query, operator.snapshot())
    more = batch(("a", 8, 5), ("b", 9, 6), ("c", 9, 6), ("b", 10, 7))
    expected = twin.process(more)
    assert operator.process(more).equals(expected)
    assert again.process(more).equals(expected)


# ---- costs, counted in calls of ⊕ ----


def counting(evicts: Callable[[Any, Any], bool], monoid: OpCounter) -> Any:
    query = sash.Query(sash.Policy(evicts, monoid("x")), n=sash.count())
    return query.operator(SCHEMA)


@pytest.mark.parametrize("size", [100, 1000, 5000])
@pytest.mark.parametrize("leave", [0.01, 0.3, 0.5, 0.9, 0.999, 1.0])
def test_any_number_leaves_in_logarithmically_many_combines(size: int, leave: float) -> None:
    """The window is a count, which the row with the value 1,000,000 cuts to a part of its size."""
    monoid = OpCounter(Sum())
    part = 1_000_000 + round(size * leave)
    operator = counting(lambda t, p: t >= 1_000_000 and p <= part - 1_000_000, monoid)
    operator.process(batch(*(("a", t, 1) for t in range(size))))
    monoid.taken()
    operator.process(batch(("a", size, 1_000_000)))
    assert monoid.taken() <= 6 * math.log2(size) + 6
    operator.process(batch(("a", size + 1, -1_000_000)))
    assert monoid.taken() <= 3 * math.log2(size) + 6


@pytest.mark.parametrize("size", [1000, 5000])
@pytest.mark.parametrize("leave", [0.01, 0.3, 0.49, 0.9, 1.0])
@pytest.mark.parametrize("of", [Max(), Sum()])
def test_the_aggregates_of_the_window_follow_as_cheaply(of: Any, leave: float, size: int) -> None:
    monoid, part = OpCounter(of), round(size * leave)
    window = sash.Policy(lambda t, p: t[1] == 7 and p[0] <= part, (sash.count(), sash.last("x")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        operator = sash.Query(interpreted(window), n=monoid("x")).operator(SCHEMA)
    operator.process(batch(*(("a", t, 1) for t in range(size))))
    monoid.taken()
    operator.process(batch(("a", size, 7)))
    assert monoid.taken() <= 4 * math.log2(size) + 6


def test_an_insert_takes_a_few_combines_on_average() -> None:
    monoid, rows = OpCounter(Sum()), 3000
    operator = counting(lambda t, p: t - p >= 500, monoid)
    for first in range(0, rows, 10):
        operator.process(batch(*(("a", t, 1) for t in range(first, first + 10))))
    assert monoid.taken() <= 8 * rows


def test_one_row_does_not_pay_for_those_that_are_held() -> None:
    monoid = OpCounter(Max())
    operator = counting(lambda _t, _p: False, monoid)
    operator.process(batch(*(("a", t, t % 97) for t in range(4000))))
    for t in range(4000, 4064):
        monoid.taken()
        operator.process(batch(("a", t, 5)))
        assert monoid.taken() <= 3 * math.log2(4000)


@pytest.mark.parametrize(("structure", "most"), [("AMTA", 60), ("LogMTA", 60), ("TwoStacksLite", 60), ("DABALite", 60)])
def test_a_burst_that_ends_leaves_at_once(structure: str, most: int) -> None:
    """Rows of a Time window leave together when time jumps: all of them for next to nothing, and most of them so
    where the structure evicts in bulk.
    """
    monoid = OpCounter(Max())
    options = sash.Options(structure=structure)
    operator = sash.Query(sash.Time(10_000), on="t", high=monoid("x"), options=options).operator(SCHEMA)
    operator.process(batch(*(("a", t, t % 97) for t in range(3000))))
    monoid.taken()
    operator.process(batch(("a", 50_000, 1), ("a", 50_001, 1)))
    assert monoid.taken() <= most
    if structure in ("AMTA", "LogMTA"):
        operator = sash.Query(sash.Time(10_000), on="t", high=monoid("x"), options=options).operator(SCHEMA)
        operator.process(batch(*(("a", t, t % 97) for t in range(3000))))
        monoid.taken()
        operator.process(batch(("a", 12_000, 1), ("a", 12_001, 1)))
        assert monoid.taken() <= most


@pytest.mark.parametrize(("structure", "first"), [("AMTA", 2001), ("LogMTA", 2001), ("TwoStacksLite", 0)])
def test_compiled_structures_take_the_same_way(structure: str, first: int) -> None:
    """The position of a structure's first element: it increases where elements are evicted in bulk, and is 0 in a
    structure that has started again.
    """
    options = sash.Options(structure=structure)
    operator = sash.Query(sash.Time(10_000), on="t", high=sash.max("x"), options=options).operator(SCHEMA)
    aggregate = operator.state.backend.engine.groups[0].aggregates[0]
    ((_, place),) = aggregate.windows[0].spec.compiled_as.state.saved["F"]
    operator.process(batch(*(("a", t, t % 97) for t in range(3000))))
    operator.process(batch(("a", 12_000, 1), ("a", 12_001, 1)))
    assert aggregate.windows[0].fields.scalars[0][0, place] == first
    operator.process(batch(("a", 50_000, 1), ("a", 50_001, 1)))
    assert aggregate.windows[0].fields.scalars[0][0, place] == 0
