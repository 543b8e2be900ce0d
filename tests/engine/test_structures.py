"""The engine runs the plan: which structures, states that aggregates share, one structure for several sizes."""

import random
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash import Count, Options, Query, Time
from sash import monoids as m
from sash.aggregators.catalogue import CATALOGUE, IN_ORDER
from sash.engine import Operator
from sash.plan import planner
from sash.testing.compare import as_rows, assert_same
from tests.behaviour.differential import compare_with_reference
from tests.shared.effort import THOROUGH, in_turn
from tests.shared.fixed_queries import PER_ROW, PER_SLIDE, stream
from tests.shared.streams import Case, StreamStep, split

WINDOWS = {f"row: {name}": window for name, window in PER_ROW.items()} | {
    f"slide: {name}": window for name, window in PER_SLIDE.items()
}
SUMS = {"total": sash.sum("i"), "average": sash.mean("i"), "known": sash.count("i"), "rows": sash.count()}
MIXED = {
    **SUMS,
    "high": sash.max("f"),
    "who": sash.arg_max("f", "d"),
    "spread": sash.var("f"),
    "deviation": sash.std("f", ddof=0),
}
SELECTED = {"high": sash.max("f"), "low": sash.min("i"), "who": sash.arg_max("f", "d"), "begin": sash.first("s")}
ORDERED = {
    "middle": sash.median("f"),
    "high": sash.quantile("s", q=0.9, interpolation="higher"),
    "n": sash.count_distinct("i"),
}
FITTING = {
    (): MIXED,
    ("inverse",): SUMS,
    ("selective",): SELECTED,
    ("order_statistic",): ORDERED,
    ("most_frequent",): {"common": sash.mode("i"), "text": sash.mode("s")},
}
"""Aggregates by the needs of a structure."""
CHOSEN: dict[str, tuple[Options, dict[str, Any]]] = {
    "throughput": (Options(), MIXED),
    "latency": (Options(prefer="latency"), MIXED),
    **{name: (Options(structure=name), FITTING[record.needs]) for name, record in CATALOGUE.items()},
}
"""Options, and aggregates that have what these need."""


def begin(query: Query, schema: pa.Schema, mode: str) -> Operator:
    operator = Operator(query, schema, mode=mode)
    assert as_planned(operator)
    return operator


def resume(query: Query, snapshot: bytes) -> Operator:
    operator = Operator.restore(query, snapshot)
    assert as_planned(operator)
    return operator


def as_planned(operator: Operator) -> bool:
    """Do the live structures have the names in the plan?"""
    plan = operator.state.plan
    spans, parts = plan.bound_query.windows, plan.bound_query.aggregates
    said = {(spans[w].name, parts[p].name): choice.structure for (w, p), choice in plan.choices.items()}
    assert operator.structures == said
    return True


def steps() -> tuple[StreamStep, ...]:
    pieces = [StreamStep("process", piece) for piece in split(stream(), [5, 6])]
    return (pieces[0], StreamStep("snapshot"), *pieces[1:], StreamStep("finish"))


def play(windows: Any, aggregates: Any, **arguments: Any) -> None:
    query = Query(windows, by="k", on="t", lateness=6, **arguments, **aggregates)
    compare_with_reference(Case(query, stream().schema, "rows", steps()), begin, resume)


# ---- the structures that the plan names ----


@pytest.mark.usefixtures("interpreted_kernels")
@pytest.mark.parametrize("chosen", ["throughput", "latency", "FiBA"])
@pytest.mark.parametrize("window", WINDOWS)
def test_the_engine_runs_the_plan(window: str, chosen: str) -> None:
    options, aggregates = CHOSEN[chosen]
    play(WINDOWS[window], aggregates, options=options)


@pytest.mark.usefixtures("interpreted_kernels")
@pytest.mark.parametrize(("chosen", "slide"), in_turn(CHOSEN, ["row", "every"]))
def test_all_windows_at_once(slide: str, chosen: str) -> None:
    options, aggregates = CHOSEN[chosen]
    windows = {"row": PER_ROW, "every": PER_SLIDE}[slide]
    play({name.replace(" ", "_"): window for name, window in windows.items()}, aggregates, options=options)


@pytest.mark.compiled
@pytest.mark.parametrize(("windows", "part"), [(PER_ROW, 0), (PER_SLIDE, 1)], ids=["row", "slide"])
def test_all_windows_compiled(windows: dict[str, Any], part: int) -> None:
    """Under `make test` rows and slides have half of the aggregates each: a kernel takes a second to compile."""
    aggregates = MIXED if THOROUGH else dict([*MIXED.items()][part::2])
    play({name.replace(" ", "_"): window for name, window in windows.items()}, aggregates)


@pytest.mark.compiled
def test_a_tree_compiled_in_its_slot() -> None:
    play({"a": Count(3), "b": Time(4)}, {"high": sash.max("f")}, options=Options(structure="FiBA"))


@pytest.mark.compiled
def test_a_tree_compiled_on_many_rows() -> None:
    """More rows than a node has, that leave one by one and in bulk, over blocks that move."""
    rows = 3000
    data = pa.record_batch(
        {"t": [i + 400 * (i // 700) for i in range(rows)], "f": [(i * 7919) % 1009 / 1.0 for i in range(rows)]}
    )
    found = []
    for structure in ("FiBA", "TwoStacksLite"):
        windows = {"a": Count(200), "b": Time(300), "c": Time(40)}
        operator = Query(windows, on="t", options=Options(structure=structure), high=sash.max("f")).operator(
            data.schema
        )
        found.append([operator.process(data.slice(at, 250)) for at in range(0, rows, 250)] + [operator.finish()])
    assert_same(found[0], found[1])


def lift(x: Any) -> Any:
    return (x % 7 + 1, float(x % 11))


def compose(a: Any, b: Any) -> Any:
    return (a[0] * b[0] % 1009, (a[1] * b[0] + b[1]) % 1009.0)


def lower(a: Any) -> Any:
    return a[1] * 1024.0 + a[0]


AFFINE = sash.monoid(identity=(1, 0.0), lift=lift, combine=compose, lower=lower, exact=True, name="affine")
"""Maps one after the other: their order tells, and a state has an integer and a float."""

TELLING = {
    (): AFFINE("x"),
    ("inverse",): sash.sum("x"),
    ("selective",): sash.arg_max("x", "y"),
    ("order_statistic",): sash.quantile("x", q=0.7, interpolation="lower"),
    ("most_frequent",): sash.mode("x"),
}
"""By the needs of a structure, the aggregate that tells most of it."""


@pytest.mark.compiled
@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=pytest.mark.all_compiled if at % 3 else ()) for at, one in enumerate(IN_ORDER)],
)
def test_every_structure_compiled_for_many_keys(name: str) -> None:
    """Windows of keys grow and move, keys that are forgotten leave their place to others, a snapshot goes on."""
    chance = random.Random(name)
    query = Query(
        {"c": Count(40), "t": Time(60)}, by="k", on="t", lateness=0, forget=90,
        options=Options(structure=name), found=TELLING[IN_ORDER[name].needs],
    )  # fmt: skip
    pieces = []
    for number in range(14):
        rows = chance.choice([1, 20, 150])
        keys = [chance.randrange(3 * (number // 4), 3 * (number // 4) + 5) for _ in range(rows)]
        times = sorted(chance.randrange(40 * number, 40 * number + 40) for _ in range(rows))
        values = [chance.randrange(50) for _ in range(rows)]
        pieces.append(pa.record_batch({"k": keys, "t": times, "x": values, "y": values[::-1]}))
    steps = [StreamStep("process", one) for one in pieces]
    steps[9:9] = [StreamStep("snapshot")]
    compare_with_reference(Case(query, pieces[0].schema, "rows", (*steps, StreamStep("finish"))), begin, resume)


@pytest.mark.usefixtures("interpreted_kernels")
@pytest.mark.parametrize("name", [name for name, one in IN_ORDER.items() if not one.needs and name != "Recalc"])
def test_a_structure_lives_from_call_to_call(name: str) -> None:
    """Only new elements are combined: nothing is built again from the elements of the window."""
    combined = []

    def combine(a: str, b: str) -> str:
        combined.append(1)
        return (a + b)[-9:]

    text = sash.monoid(identity="", combine=combine, returns="string", name="tail")
    operator = Query(400, options=Options(structure=name), tail=text("s")).operator(pa.schema({"s": "string"}))
    letters = [chr(97 + i % 23) for i in range(430)]
    operator.process({"s": letters[:400]})
    for at in range(400, 420):
        operator.process({"s": letters[at : at + 1]})
    combined.clear()
    for at in range(420, 430):
        found = operator.process({"s": letters[at : at + 1]})["tail"].to_pylist()
        assert found == ["".join(letters[at - 8 : at + 1])]
    assert len(combined) <= 10 * 25


@pytest.mark.usefixtures("interpreted_trees")
@pytest.mark.parametrize("emit", ["final", "changes"])
def test_eager_runs_fiba_and_nothing_else(emit: str) -> None:
    operator = Query(
        3, emit="eager", high=sash.max("f"), rows=sash.count(), options=Options(structure="FiBA")
    ).operator(stream(timed=False).schema)
    assert as_planned(operator)
    assert {*operator.structures.values()} == {"FiBA"}
    with pytest.raises(ValueError, match=r"Options\(structure='DABA'\) does not support emit='eager'.*use 'FiBA'"):
        Query(3, emit="eager", high=sash.max("f"), options=Options(structure="DABA"))
    assert Query(3, emit=emit, high=sash.max("f"), options=Options(structure="DABA"))


def test_structures_need_a_schema() -> None:
    with pytest.raises(ValueError, match=r"structures\(\) before the first batch"):
        _ = Query(3, n=sash.count()).operator().structures


# ---- one structure for several sizes ----

MANY = {
    "rows": {f"w{size}": Count(size) for size in (5, 1, 3, 7, 2)},
    "full": {f"w{size}": Count(size, full=size % 2 == 0) for size in (4, 1, 3, 6)},
    "time": {f"w{size}": Time(size) for size in (5, 1, 3, 7, 2)},
    "left": {f"w{size}": Time(size, closed="left") for size in (5, 1, 3)},
    "slides": {f"w{size}": Time(size, every=2) for size in (2, 6, 4, 1)},
    "counted": {f"w{size}": Count(size, every=2) for size in (2, 6, 3)},
    "by rows": {f"w{size}": Time(size, every=Count(2)) for size in (2, 6, 3)},
    "two kinds": {"a": Count(2), "b": Time(4), "c": Count(5), "d": Time(2)},
}


@pytest.fixture
def _from_two_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One structure for several sizes, however few."""
    for name in ("DEQUE_SIZES", "PANE_SIZES", "INDEX_SIZES"):
        monkeypatch.setattr(planner, name, 2)


@pytest.mark.usefixtures("_from_two_sizes")
@pytest.mark.parametrize("emit", ["final", "changes"])
@pytest.mark.parametrize("windows", MANY)
def test_one_structure_for_several_sizes(windows: str, emit: str) -> None:
    made = {"high": sash.max("f"), "known": sash.count("f"), "who": sash.arg_max("f", "d"), "total": sash.sum("f")}
    play(MANY[windows], made, emit=emit)
    plan = Query(MANY[windows], on="t", high=sash.max("f"), total=sash.sum("f")).plan(stream().schema)
    assert {choice.structure for choice in plan.choices.values()} == {"SlickDequeNonInv", "FlatFIT"}


@pytest.mark.parametrize("every", [None, 50])
def test_one_structure_for_several_sizes_of_many_rows(every: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls large enough that rows are taken slot by slot, and results go back to their rows."""
    rows = 12_000
    halves = [(i * 7919) % 1009 / 2 if i % 5 else None for i in range(rows)]
    data = pa.record_batch({"t": list(range(rows)), "k": [i * i % 7 for i in range(rows)], "f": halves})
    windows = {f"w{size}": Time(size, every=every) for size in (300, 50, 1000)}
    made = {"high": sash.max("f"), "known": sash.count("f"), "total": sash.sum("f"), "m": sash.mean("f")}
    made |= {"latest": sash.max("t"), "ids": sash.sum("t")}
    found = []
    for sizes in (2, 100):
        for name in ("DEQUE_SIZES", "PANE_SIZES", "INDEX_SIZES"):
            monkeypatch.setattr(planner, name, sizes)
        operator = Query(windows, by="k", on="t", **made).operator(data.schema)
        pieces = data.slice(0, 6000), data.slice(6000)
        found.append(as_rows([*map(operator.process, pieces), operator.finish()]))
    assert found[0] == found[1], "halves add up without rounding, however they are folded"


def test_policies_never_share_a_structure() -> None:
    windows = {"a": PER_ROW["policy of one"], "b": PER_ROW["policy of two"]}
    play(windows, {"high": sash.max("f")}, options=Options(structure="SlickDequeNonInv"))


# ---- states that several aggregates share ----


def combines(**aggregates: Any) -> int:
    """The number of calls of ⊕ for some rows, over all aggregates."""
    calls = 0

    def counted(combine: Any) -> Any:
        def call(self: Any, a: Any, b: Any) -> Any:
            nonlocal calls
            calls += 1
            return combine(self, a, b)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for cls in (m.Mean.__mro__[1], m.Var, m.Covariance.__mro__[1], m.Count):
            patch.setattr(cls, "combine", counted(cls.combine))
        query = Query(3, by="k", **aggregates)
        operator = query.operator(stream(timed=False).schema)
        calls = 0  # what a state looks like was found by trying
        operator.process(stream(timed=False))
        operator.finish()
    return calls


@pytest.mark.usefixtures("interpreted_kernels")
@pytest.mark.parametrize(
    ("keeper", "more"),
    [
        (sash.mean("f"), {"total": sash.sum("f"), "known": sash.count("f"), "again": sash.mean("f")}),
        (sash.var("f"), {"std": sash.std("f"), "of_all": sash.std("f", ddof=0), "known": sash.count("f")}),
        (sash.covariance("f", "i"), {"slope": sash.slope("f", "i"), "r": sash.correlation("f", "i")}),
    ],
    ids=["mean", "var", "covariance"],
)
def test_what_is_lowered_from_another_state_costs_no_combine(keeper: Any, more: dict[str, Any]) -> None:
    alone = combines(a=keeper)
    assert alone > 10
    assert combines(a=keeper, **more) == alone


@pytest.mark.parametrize("windows", ["rows", "slides", "lifetime"])
def test_the_aggregate_that_fails_is_named(windows: str) -> None:
    """A sum that is lowered from the state of a mean leaves the range of integers; the mean does not."""
    window = {"rows": Count(2), "slides": Count(2, every=2), "lifetime": sash.Lifetime()}[windows]
    operator = Query(window, by="k", average=sash.mean("i"), total=sash.sum("i")).operator()
    data = pa.record_batch({"k": ["a", "b", "a", "b"], "i": [1, 2**62, 2, 2**62]})
    with pytest.raises(OverflowError, match=r"the aggregate 'total' failed .*64-bit.* at .*k'?(=|: )'b'"):
        operator.process(data)
    assert operator.process(data.slice(0, 3)).num_rows == (1 if windows == "slides" else 3), "as if nothing had been"


def test_the_row_that_fails_is_named_where_rows_are_taken_slot_by_slot() -> None:
    rows = 10_000
    huge = [2**62 if i in (7001, 7004) else 1 for i in range(rows)]
    data = pa.record_batch({"k": [i % 3 for i in range(rows)], "i": huge, "at": list(range(rows))})
    operator = Query(2, by="k", average=sash.mean("i"), total=sash.sum("i")).operator()
    with pytest.raises(OverflowError, match=r"the aggregate 'total' failed .* at row .*'at': 7004"):
        operator.process(data)
