"""Memory is released when the state shrinks: after a burst of keys or rows, and in a steady churn of keys.

keys     │      ▁████▁                      a burst
bytes    │▁▁▁▁▁▁▁████▁▁▁▁▁▁▁▁▁▁▁            as a fresh operator has that never saw it
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.engine import Operator
from sash.stores import MemoryStore
from tests.shared.effort import THOROUGH, in_turn

pytestmark = pytest.mark.compiled

BURST = 60_000 if THOROUGH else 16_000
LIVE = 100


def batch(keys: Any, time: Any, text: bool = False) -> pa.RecordBatch:
    """A row for each key, at one time or at one each."""
    keys = np.asarray(keys)
    return pa.record_batch(
        {
            "k": pa.array([f"key {key}" for key in keys.tolist()] if text else keys),
            "t": pa.array(np.broadcast_to(np.asarray(time, np.int64), keys.shape).copy()),
            "x": pa.array(keys.astype(np.float64)),
            "s": pa.array([f"value {key}" for key in keys.tolist()]),
        }
    )


def keep_three(total: Any, prefix: Any) -> bool:
    return bool(total - prefix >= 3)


QUERIES: dict[str, dict[str, Any]] = {
    "time": {"windows": sash.Time(10)},
    "sizes": {"windows": {"5": sash.Time(5), "10": sash.Time(10)}},
    "count": {"windows": sash.Count(5), "forget": 10},
    "policy": {"windows": sash.Policy(keep_three, sash.count()), "forget": 10},
    "slides": {"windows": sash.Time(10, every=2)},
    "counted": {"windows": sash.Count(4, every=2), "forget": 10},
    "session": {"windows": sash.Session(10, every="close")},
    "lifetime": {"windows": sash.Lifetime(), "forget": 10},
    "changes": {"windows": sash.Time(10), "emit": "changes", "forget": 10},
}


def operator_of(name: str, text: bool) -> Operator:
    arguments = dict(QUERIES[name])
    aggregates = {"high": sash.max("x"), "total": sash.sum("x"), "newest": sash.last("s"), "most": sash.max("s")}
    if name == "policy":  # each is compiled for a structure of its own
        aggregates = {"newest": sash.last("s")}
    query = sash.Query(arguments.pop("windows"), by="k", on="t", lateness=0, **arguments, **aggregates)
    return query.operator(batch([0], 0, text).schema)


def state_bytes(operator: Operator) -> int:
    """The operator's `state_bytes`, which must equal the bytes of its parts."""
    engine, backend = operator.state.backend.engine, operator.state.backend
    aggregates = [aggregate for group in engine.groups for aggregate in group.aggregates]
    parts = engine.table.nbytes + engine.keys.nbytes + backend.buffer.nbytes
    parts += sum(column.nbytes for assigner in engine.arena_assigners for column in assigner.arena.columns.values())
    parts += sum(aggregate.nbytes for aggregate in aggregates)
    parts += sum(
        policy.structures.nbytes
        for assigner in engine.assigners
        for policy in getattr(assigner, "policies", {}).values()
    )
    parts += 0 if backend.emitter is None else backend.emitter.nbytes
    assert operator.metrics.state_bytes == parts
    return parts


@pytest.mark.parametrize("text", [False, True], ids=["numbers", "text"])
@pytest.mark.parametrize("name", QUERIES)
def test_memory_returns_after_a_burst_of_keys(name: str, text: bool) -> None:
    operator, fresh = operator_of(name, text), operator_of(name, text)
    burst = BURST if name != "policy" else 6_000
    operator.process(batch(range(burst), 1, text))
    for time in (2, 3, 4):
        for one in (operator, fresh):
            one.process(batch(range(LIVE), time, text))
    assert operator.metrics.keys == burst
    most = state_bytes(operator)
    for time in range(100, 120):
        for one in (operator, fresh):
            one.process(batch(range(LIVE), time, text))
    assert operator.metrics.keys == fresh.metrics.keys == LIVE
    assert state_bytes(fresh) < most / 5
    assert state_bytes(operator) < 1.5 * state_bytes(fresh)


EAGER: dict[str, dict[str, Any]] = {
    "time": {"windows": sash.Time(10)},
    "count": {"windows": sash.Count(5), "forget": 10},
    "slides": {"windows": sash.Time(10, every=2)},
    "lifetime": {"windows": sash.Lifetime(), "forget": 10},
}


@pytest.mark.parametrize(("name", "stored"), in_turn(EAGER, [False, True]))
def test_memory_of_an_eager_operator_returns(name: str, stored: bool) -> None:
    """Memory shrinks after a burst of keys; results equal those of an operator without the burst."""
    arguments = dict(EAGER[name])
    windows = arguments.pop("windows")
    made = []
    for _ in range(2):
        options = sash.Options(store=MemoryStore() if stored else None)
        aggregates = {"high": sash.max("k"), "newest": sash.last("s")}  # trees that other tests compile, too
        query = sash.Query(
            windows, by="k", on="t", lateness=5, emit="eager", options=options, **arguments, **aggregates
        )
        made.append(query.operator(batch([0], 0).schema))
    operator, fresh = made
    operator.process(batch(range(LIVE, 15_000), 1))
    most = operator.state.backend.engine.nbytes
    for time in range(2, 60, 3):
        found, expected = (one.process(batch(range(LIVE), time)) for one in made)
        columns = [column for column in expected.schema.names if column != "_row"]
        rows = [row for row in found.select(columns).to_pylist() if row["k"] < LIVE]
        assert rows == expected.select(columns).to_pylist()
    assert operator.metrics.keys == fresh.metrics.keys == LIVE
    assert fresh.state.backend.engine.nbytes < most / 5
    assert operator.state.backend.engine.nbytes < 2 * fresh.state.backend.engine.nbytes
    lasting = [one.process(batch(range(5), 58)) for one in made]  # late rows of keys that have rows
    assert lasting[0].num_rows == lasting[1].num_rows


@pytest.mark.parametrize("name", QUERIES)
def test_freed_slots_and_rings_are_used_again(name: str) -> None:
    """Each call adds and expires many keys: memory does not grow after the first rounds."""
    operator = operator_of(name, text=True)
    many = 1000 if name != "policy" else 200
    sizes, keys = [], []
    for time in range(60):
        operator.process(batch(range(many * time, many * time + many), time, text=True))
        sizes.append(state_bytes(operator))
        keys.append(operator.metrics.keys)
    assert max(keys) <= 12 * many
    assert max(sizes[20:]) < 1.5 * max(sizes[:20])


@pytest.mark.parametrize("name", ["time", "slides", "changes", "sizes"])
def test_a_ring_shrinks_after_a_burst_of_rows(name: str) -> None:
    operator, fresh = operator_of(name, text=False), operator_of(name, text=False)
    rows = np.sort(np.random.default_rng(1).integers(1, 9, BURST))
    operator.process(batch(np.zeros(BURST, np.int64), rows))
    for time in range(10, 60, 2):
        for one in (operator, fresh):
            one.process(batch([0, 1], time))
    assert state_bytes(operator) < 1.5 * state_bytes(fresh)
