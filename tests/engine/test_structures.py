"""What runs is what the plan says: which structures, states that aggregates share, one structure for several sizes."""

from typing import Any

import pyarrow as pa
import pytest

import sash
from sash import Count, Options, Query, Time
from sash.aggregators.catalogue import CATALOGUE
from sash.engine import Operator
from sash.kernels import live_lane, lowering_lane
from sash.kernels.machine import NotCompiled
from sash.query import planner
from sash.testing.compare import as_rows, assert_same
from sash.testing.streams import Case, Step, split
from tests.engine.duel import duel
from tests.engine.fixed import PER_ROW, PER_SLIDE, stream

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
CHOSEN: dict[str, tuple[Options, dict[str, Any]]] = {
    "throughput": (Options(), MIXED),
    "latency": (Options(prefer="latency"), MIXED),
    **{
        name: (Options(structure=name), {(): MIXED, ("inverse",): SUMS, ("selective",): SELECTED}[record.needs])
        for name, record in CATALOGUE.items()
    },
}
"""Options, and aggregates that have what these need."""


@pytest.fixture
def _interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Structures as objects: to compile every structure for every aggregate would take many minutes."""

    def refuse(*_: Any) -> Any:
        raise NotCompiled("the test says so")

    monkeypatch.setattr(live_lane.LiveLane, "_compile", refuse)
    monkeypatch.setattr(lowering_lane, "machine_code", refuse)


def begin(query: Query, schema: pa.Schema, mode: str) -> Operator:
    operator = Operator(query, schema, mode=mode)
    assert as_planned(operator)
    return operator


def resume(query: Query, snapshot: bytes) -> Operator:
    operator = Operator.restore(query, snapshot)
    assert as_planned(operator)
    return operator


def as_planned(operator: Operator) -> bool:
    """Do the structures that are alive have the names that the plan gives?"""
    plan = operator.plan
    spans, parts = plan.resolved.spans, plan.resolved.parts
    said = {(spans[w].name, parts[p].name): choice.structure for (w, p), choice in plan.choices.items()}
    assert operator.structures == said
    return True


def steps() -> tuple[Step, ...]:
    pieces = [Step("process", piece) for piece in split(stream(), [5, 6])]
    return (pieces[0], Step("snapshot"), *pieces[1:], Step("finish"))


def play(windows: Any, aggregates: Any, **arguments: Any) -> None:
    query = Query(windows, by="k", on="t", lateness=6, **arguments, **aggregates)
    duel(Case(query, stream().schema, "rows", steps()), begin, resume)


# ---- the structures that the plan names ----


@pytest.mark.usefixtures("_interpreted")
@pytest.mark.parametrize("chosen", ["throughput", "latency", "FiBA"])
@pytest.mark.parametrize("window", WINDOWS)
def test_what_runs_is_what_the_plan_says(window: str, chosen: str) -> None:
    options, aggregates = CHOSEN[chosen]
    play(WINDOWS[window], aggregates, options=options)


@pytest.mark.usefixtures("_interpreted")
@pytest.mark.parametrize("chosen", CHOSEN)
@pytest.mark.parametrize("windows", [PER_ROW, PER_SLIDE], ids=["row", "slide"])
def test_all_windows_at_once(windows: dict[str, Any], chosen: str) -> None:
    options, aggregates = CHOSEN[chosen]
    play({name.replace(" ", "_"): window for name, window in windows.items()}, aggregates, options=options)


@pytest.mark.parametrize("windows", [PER_ROW, PER_SLIDE], ids=["row", "slide"])
def test_all_windows_compiled(windows: dict[str, Any]) -> None:
    play({name.replace(" ", "_"): window for name, window in windows.items()}, MIXED)


def test_a_tree_compiled_in_its_slot() -> None:
    play({"a": Count(3), "b": Time(4)}, {"high": sash.max("f")}, options=Options(structure="FiBA"))


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


@pytest.mark.parametrize("emit", ["final", "changes"])
def test_eager_runs_fiba_and_nothing_else(emit: str) -> None:
    operator = Query(
        3, emit="eager", high=sash.max("f"), rows=sash.count(), options=Options(structure="FiBA")
    ).operator(stream(timed=False).schema)
    assert as_planned(operator)
    assert {*operator.structures.values()} == {"FiBA"}
    with pytest.raises(ValueError, match=r"Options\(structure='DABA'\) cannot serve emit='eager'.*FiBA serves it"):
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


@pytest.mark.parametrize("emit", ["final", "changes"])
@pytest.mark.parametrize("windows", MANY)
def test_one_deque_for_several_sizes(windows: str, emit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "DEQUE_SIZES", 2)
    play(MANY[windows], {"high": sash.max("f"), "known": sash.count("f"), "who": sash.arg_max("f", "d")}, emit=emit)
    plan = Query(MANY[windows], on="t", high=sash.max("f")).plan(stream().schema)
    assert {choice.structure for choice in plan.choices.values()} == {"SlickDequeNonInv"}


@pytest.mark.parametrize("every", [None, 50])
def test_one_deque_for_several_sizes_of_many_rows(every: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls large enough that rows are taken slot by slot, and results go back to their rows."""
    rows = 12_000
    data = pa.record_batch(
        {
            "t": list(range(rows)),
            "k": [i * i % 7 for i in range(rows)],
            "f": [(i * 7919) % 1009 / 8 for i in range(rows)],
        }
    )
    windows = {f"w{size}": Time(size, every=every) for size in (300, 50, 1000)}
    found = []
    for sizes in (2, 100):
        monkeypatch.setattr(planner, "DEQUE_SIZES", sizes)
        query = Query(
            windows, by="k", on="t", high=sash.max("f"), n=sash.count("f"), total=sash.sum("t"), m=sash.mean("t")
        )
        operator = query.operator(data.schema)
        found.append(
            as_rows([operator.process(data.slice(0, 6000)), operator.process(data.slice(6000)), operator.finish()])
        )
    assert found[0] == found[1]


def test_policies_never_share_a_structure() -> None:
    windows = {"a": PER_ROW["policy of one"], "b": PER_ROW["policy of two"]}
    play(windows, {"high": sash.max("f")}, options=Options(structure="SlickDequeNonInv"))
