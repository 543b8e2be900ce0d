"""State that grows and shrinks: no call copies a window or the keys, and what leaves is freed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.aggregators.catalogue import CATALOGUE
from sash.engine.keyed import arena as arenas
from sash.engine.keyed.arena import SlotStructures
from sash.kernels.loops.ring_loops import CHUNK
from sash.testing import assert_same

pytestmark = pytest.mark.compiled

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("x", pa.float64())])
IN_SLOTS = ("DABALite", "DABA", "TwoStacksLite", "AMTA", "LogMTA", "BInt", "FlatFIT", "FiBA")
KEEP = ("DABALite", "DABA", "ABA", "TwoStacksLite", "AMTA", "LogMTA", "BInt")
"""The structures that no growth of a window rebuilds, beyond a chunk of elements."""


def rows(first: int, count: int, keys: int = 1, gap: int = 0) -> pa.RecordBatch:
    chance = np.random.default_rng(first)
    times = np.arange(first, first + count) + gap
    return pa.record_batch([chance.integers(0, keys, count), times, chance.random(count).round(2)], schema=SCHEMA)


def compare_with_columns(query: sash.Query, batches: list[pa.RecordBatch]) -> None:
    """The operator's results are those of the same rows as a frame."""
    operator = query.operator(SCHEMA)
    found = [*(operator.process(batch) for batch in batches), operator.finish()]
    expected = query.run(pa.Table.from_batches(batches))
    order = [("k", "ascending"), ("t", "ascending")]
    assert_same(pa.Table.from_batches(found).sort_by(order), expected.sort_by(order))


@pytest.mark.parametrize("structure", [name for name, one in CATALOGUE.items() if not one.comparisons])
def test_every_structure_is_compiled(structure: str) -> None:
    """FiBA and AugmentedBTree ran interpreted: a constant of their class was unknown to the compiler."""
    needs_inverse = "inverse" in CATALOGUE[structure].needs
    aggregate = sash.sum("t") if needs_inverse else sash.max("x")
    query = sash.Query(sash.Time(300), by="k", on="t", y=aggregate, options=sash.Options(structure=structure))
    operator = query.operator(SCHEMA)
    operator.process(rows(0, 10))
    assert operator.state.backend.is_compiled(0)


@pytest.mark.parametrize("structure", IN_SLOTS)
def test_windows_beyond_a_chunk(structure: str) -> None:
    """One key grows past several doublings beside small ones; all rows leave, then parts; then it grows again."""
    query = sash.Query(sash.Time(3000), by="k", on="t", y=sash.max("x"), options=sash.Options(structure=structure))
    batches, at = [], 0
    for count, gap in ((700, 0), (2500, 0), (10, 1500), (900, 2990), (2000, 10_000), (3000, 0), (5, 2900), (300, 0)):
        at += gap
        batches.append(rows(at, count, keys=1 + 2 * (at % 2)))
        at += count
    compare_with_columns(query, batches)


@pytest.mark.parametrize("structure", KEEP)
def test_no_call_copies_a_window(structure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copied, lost = [0], [0]
    copy, reset = arenas.copy_rings, SlotStructures.reset

    def counted_copy(values: Any, moves: Any, target: Any) -> None:
        copied[0] = max(copied[0], int((moves[:, 6] - moves[:, 5]).sum()))
        copy(values, moves, target)

    def counted_reset(self: SlotStructures, slots: Any) -> None:
        lost[0] += len(slots)
        reset(self, slots)

    monkeypatch.setattr(arenas, "copy_rings", counted_copy)
    monkeypatch.setattr(SlotStructures, "reset", counted_reset)
    options = sash.Options(structure=structure)
    operator = sash.Query(sash.Count(20_000), on="t", y=sash.max("x"), options=options).operator(SCHEMA)
    for first in range(0, 2 * CHUNK, 64):
        operator.process(rows(first, 64))
    lost[0] = 0
    for first in range(2 * CHUNK, 64 * CHUNK, 64):  # the directory doubles five times
        operator.process(rows(first, 64))
    assert copied[0] <= CHUNK
    assert lost[0] == 0


def test_no_call_moves_all_keys() -> None:
    """Each new key moves some entries of the last table, so that a call costs by its own rows; keys leave meanwhile."""
    query = sash.Query(sash.Time(4000), by="k", on="t", lateness=0, n=sash.count(), y=sash.max("x"))
    operator, found, given = query.operator(SCHEMA), [], []
    chance = np.random.default_rng(3)
    table, sizes = operator.state.backend.engine.keys, []
    for first in range(0, 40_000, 500):
        batch = rows(first, 500)
        keys = np.where(chance.random(500) < 0.7, np.arange(first, first + 500), chance.integers(0, first + 500, 500))
        given.append(batch.set_column(0, SCHEMA.field(0), pa.array(keys)))
        found.append(operator.process(given[-1]))
        sizes.append((len(table._table), len(table._old)))
    assert any(old for _, old in sizes), "no table was moved step by step"
    found.append(operator.finish())
    order = [("t", "ascending")]
    assert_same(pa.Table.from_batches(found).sort_by(order), query.run(pa.Table.from_batches(given)).sort_by(order))


def test_a_gap_frees_the_chunks() -> None:
    operator = sash.Query(sash.Time(100_000), on="t", y=sash.max("x")).operator(SCHEMA)
    operator.process(rows(0, 10))
    small = operator.metrics.state_bytes
    for first in range(10, 90_010, 10_000):
        operator.process(rows(first, 10_000))
    assert operator.metrics.state_bytes > 20 * small
    for first in range(1_000_000, 1_000_040, 2):
        operator.process(rows(first, 2))
    assert operator.metrics.state_bytes < 4 * small


def test_many_keys_of_few_rows_take_small_blocks() -> None:
    """A row of 10 in the window takes at most twice its place, its queue and its time."""
    operator = sash.Query(sash.Count(10), by="k", on="t", y=sash.max("x")).operator(SCHEMA)
    keys = np.repeat(np.arange(2000), 10)
    times = np.arange(len(keys))
    operator.process(pa.record_batch([keys, times, times.astype(float)], schema=SCHEMA))
    (assigner,) = operator.state.backend.engine.arena_assigners
    assert assigner.arena.held == 16 * 2000


@pytest.mark.parametrize("window", [sash.Time(60), sash.Time(60, shift=-1000), sash.Count(20)], ids=repr)
@pytest.mark.parametrize("structure", ["FlatFIT", "SlickDequeNonInv"])
def test_a_structure_of_many_sizes_on_one_window(structure: str, window: sash.windows.WindowKind) -> None:
    """Large calls are processed key by key: results of several sizes are in that order, and so were those of one."""
    query = sash.Query(window, by="k", on="t", y=sash.max("x"), options=sash.Options(structure=structure))
    compare_with_columns(query, [rows(0, 300, keys=3), rows(300, 6000, keys=3), rows(6300, 2000, keys=3)])
