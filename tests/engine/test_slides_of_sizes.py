"""Windows of equal slides and different sizes: slides are found together, with the results of each window alone."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.engine.keyed import pane_assigner
from sash.kernels.loops.window_loops import due_slides
from sash.stores import PageError

pytestmark = pytest.mark.usefixtures("interpreted_kernels")

SIZES = (2, 4, 5, 12, 30)


def several(every: Any = 2, sizes: tuple[int, ...] = SIZES, **more: Any) -> sash.Queries:
    made = {"high": sash.max("x"), "total": sash.sum("x"), "n": sash.count("x")}
    common: dict[str, Any] = {"by": "k", "on": "t", **more}
    return sash.Queries(**{f"s{n}": sash.Query(sash.Time(n, every=every), **common, **made) for n in sizes})


def batches(gap: int, kind: Any = np.int64) -> list[pa.RecordBatch]:
    """Rows of few keys with gaps, so that short windows lack slides that longer ones have."""
    random = np.random.default_rng(gap)
    t = np.cumsum(random.choice([0, 1, 2, gap], 80, p=[0.3, 0.4, 0.2, 0.1])).astype(kind)
    x = pa.array(random.integers(-9, 9, 80), mask=random.random(80) < 0.2)
    rows = pa.record_batch({"k": random.choice(["a", "b", "c"], 80), "t": t, "x": x})
    return [rows.slice(0, 30), rows.slice(30, 1), rows.slice(31)]


def run_steps(operator: Any, given: list[pa.RecordBatch]) -> list[Any]:
    return [*map(operator.process, given), operator.finish()]


def as_rows(found: list[pa.RecordBatch]) -> list[list[Any]]:
    """The results of each call; the order of keys that end together is that of their slots."""
    return [sorted(one.to_pylist(), key=lambda row: (row["window_end"], row["k"])) for one in found]


@pytest.mark.parametrize("more", [{}, {"lateness": 3}, {"forget": 9}, {"min_periods": 2}], ids=repr)
@pytest.mark.parametrize(("gap", "kind"), [(3, np.int64), (40, np.int64), (40, np.float64)])
def test_as_alone(gap: int, kind: Any, more: dict[str, Any]) -> None:
    queries = several(**more)
    found = run_steps(queries.operator(), batches(gap, kind))
    for name, query in queries.queries.items():
        alone = run_steps(query.operator(), batches(gap, kind))
        assert as_rows([one[name] for one in found]) == as_rows(alone)


def test_by_the_calendar() -> None:
    month: dict[str, Any] = {"by": "k", "on": "t", "high": sash.max("x")}
    days = pa.array([day * 86_400 for day in (0, 40, 45, 200)], pa.timestamp("s"))
    rows = pa.record_batch({"k": ["a"] * 4, "t": days, "x": [1, 2, 3, 4]})
    queries = sash.Queries(**{f"m{n}": sash.Query(sash.Time(f"{n}mo", every="1mo"), **month) for n in (1, 2, 3)})
    found = run_steps(queries.operator(), [rows])
    for name, query in queries.queries.items():
        assert as_rows([one[name] for one in found]) == as_rows(run_steps(query.operator(), [rows]))


def test_slides_are_found_once_for_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    run = pane_assigner.call_loop

    def counted(kernel: Any, meaning: Any, arguments: Any) -> Any:
        if kernel is due_slides:
            calls.append(len(arguments[6]))
        return run(kernel, meaning, arguments)

    monkeypatch.setattr(pane_assigner, "call_loop", counted)
    operator = sash.Queries(**several().queries, other=several(every=3).queries["s12"]).operator()
    operator.process(batches(3)[0].slice(0, 12))
    assert sorted(calls) == [1, len(SIZES)]


def test_equal_slides_have_their_keys_and_ends_in_common() -> None:
    found = several(sizes=(20, 30)).operator().process(batches(3)[0])
    first, second = found["s20"], found["s30"]
    for name in ("k", "window_end"):
        assert first[name].buffers()[-1].address == second[name].buffers()[-1].address
    assert first["window_start"].to_pylist() != second["window_start"].to_pylist()


def test_more_slides_than_there_is_room_for() -> None:
    """A call finds slides for which its arrays are too short: it continues where they were full."""
    queries = several(every=1, sizes=(3, 50, 400))
    given = [pa.record_batch({"k": ["a", "b", "a"], "t": [0, 1, 7], "x": [5, 6, 3]})]
    given.append(pa.record_batch({"k": ["b"], "t": [1_000], "x": [1]}))
    found = run_steps(queries.operator(), given)
    assert sum(one["s400"].num_rows for one in found) > 800
    for name, query in queries.queries.items():
        assert as_rows([one[name] for one in found]) == as_rows(run_steps(query.operator(), given))


def test_a_longest_window_that_lacks_slides_of_others() -> None:
    """No query makes such state: it is refused, and the operator does not change."""
    operator: Any = several().operator()
    *first, last = batches(3)
    for batch in first:
        operator.process(batch)
    engine = operator.states[0].backend.engine
    (assigner,) = engine.assigners
    _, _, number = assigner.columns(assigner.of_slide[0][0])
    assigner.arena.heads[engine.live, number] += 3
    with pytest.raises(PageError, match="a slide that a longer one of the same slides has not"):
        operator.process(last)
    assigner.arena.heads[engine.live, number] -= 3
    assert operator.process(last) == run_steps(several().operator(), [*first, last])[2]
