"""State that grows and shrinks: keys of thousands of rows beside many small ones, in calls drawn at random.

    key "big"    ▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏     gap     ▏▏▏▏▏▏▏▏▏▏▏▏        bursts: larger than any piece of its state
    small keys     ▏ ▏  ▏   ▏ ▏    ▏                ▏    ▏   ▏          some of them forgotten in the gap
    in between      ✗ ▢     ▢─▶▢      ✗ ▢          ▢─▶▢                 calls that fail and are made again, restores

All results are compared with those of the same query on the whole table, which keeps no state; that path, and the
operator on some thirty rows, are compared with the reference elsewhere: for thousands of rows it would take minutes.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.stores import MemoryStore
from sash.testing import assert_same
from tests.shared.effort import THOROUGH, seldom

pytestmark = pytest.mark.filterwarnings("ignore:.*runs interpreted")

SCHEMA = pa.schema({"k": "string", "t": "int64", "x": "int64", "f": "float64", "g": "int64", "p": "bool"})
GAP = 20_000
"""Longer than any window."""


class Raised(Exception):
    """What a user's function raises when it is told to."""


class Strikes:
    """A user's sum of integers, one of whose calls of `lift` raises if that is asked for."""

    def __init__(self) -> None:
        self.left = 0
        self.sum = sash.monoid(
            identity=0, lift=self.lift, combine=lambda a, b: a + b, returns="int64", exact=True, name="strikes"
        )

    def lift(self, x: int) -> int:
        self.left -= 1
        if self.left == 0:
            raise Raised
        return x


def over_200(total: Any, prefix: Any) -> bool:
    return bool(total - prefix >= 200)


WINDOWS: dict[str, Any] = {
    "rows": {"few": sash.Count(7), "many": sash.Count(300)},
    "rows, shifted": {"before": sash.Count(200, shift=-40), "around": sash.Count(81, shift=40)},
    "rows, slides": sash.Count(300, every=50),
    "rows, slides in time": sash.Count(300, every=sash.Time(200)),
    "time": {"short": sash.Time(20), "long": sash.Time(900), "both": sash.Time(300, closed="both")},
    "time, shifted": {"before": sash.Time(600, shift=-100), "around": sash.Time(80, shift=40)},
    "time, slides": {"wide": sash.Time(900, every=150), "tumbling": sash.Time(150, every=150)},
    "delta": sash.Delta("g", 400),
    "session": sash.Session(9),
    "session, closed": sash.Session(9, every="close"),
    "lifetime": sash.Lifetime(),
    "lifetime, slides": sash.Lifetime(every=sash.Time(500)),
    "punctuation": sash.Punctuation("p"),
    "policy": sash.Policy(over_200, sash.count()),
}
NO_EAGER = ("session, closed", "punctuation", "policy", "rows, shifted", "time, shifted", "rows, slides")
FORGETTING = ("rows", "rows, slides", "lifetime", "policy", "session")
STRUCTURES = (None, None, "TwoStacksLite", "DABALite", "AMTA", "FiBA", "TwoStacks")


@dataclass(frozen=True)
class Part:
    """Some rows: of the large key or of many small ones, after a gap or not; and what happens at their call."""

    rows: int
    keys: int
    gap: int
    spacing: int
    event: str
    strike: int


def parts(largest: int) -> st.SearchStrategy[Part]:
    burst = st.builds(
        Part, rows=st.integers(200, largest), keys=st.just(1), gap=st.sampled_from([0, 0, 300, GAP]),
        spacing=st.sampled_from([1, 1, 0, 2]), event=st.sampled_from(EVENTS), strike=st.integers(1, 200),
    )  # fmt: skip
    small = st.builds(
        Part, rows=st.integers(0, 90), keys=st.sampled_from([3, 60]), gap=st.sampled_from([0, 0, 15, GAP]),
        spacing=st.sampled_from([1, 3]), event=st.sampled_from(EVENTS), strike=st.integers(1, 20),
    )  # fmt: skip
    return st.one_of(burst, small, small)


EVENTS = ("", "", "fail", "fail twice", "snapshot", "reopen", "advance")


@st.composite
def plans(draw: st.DrawFn) -> tuple[list[Part], int]:
    """Parts with a few bursts, of some 3,000 rows of one key at most, and a seed for their values."""
    found = draw(st.lists(parts(1500 if THOROUGH else 450), min_size=4, max_size=9))
    bursts = [number for number, part in enumerate(found) if part.keys == 1][2:]
    return [replace(p, rows=40) if n in bursts else p for n, p in enumerate(found)], draw(st.integers(0, 2**32))


def batch_of(part: Part, start: int, behind: int, chance: random.Random) -> pa.RecordBatch:
    """The rows of a part, from a time on, some of them a little behind."""
    rows = []
    for i in range(part.rows):
        t = start + i * part.spacing - chance.choice([0, 0, 0, behind])
        key = "big" if part.keys == 1 or chance.random() < 0.1 else f"small {chance.randrange(part.keys)}"
        rows.append(
            {
                "k": key,
                "t": t,
                "x": chance.choice([None, 1, 2, 5, -3, chance.randrange(1000)]),
                "f": chance.choice([0.5, 0.25, 2.5, None]),
                "g": t // 2,
                "p": chance.random() < 0.004,
            }
        )
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


class Run:
    """An operator, and all rows that it has got."""

    def __init__(self, name: str, emit: Any, structure: Any, is_stored: bool) -> None:
        self.strikes, self.behind = Strikes(), 4
        aggregates: dict[str, Any] = {
            "high": sash.max("x"),
            "total": sash.sum("f"),
            "newest": sash.last("x"),
            "n": sash.count("x"),
            "struck": self.strikes.sum("x"),
        }
        self.query = sash.Query(
            WINDOWS[name], by="k", on="t", lateness=self.behind, emit=emit, options=sash.Options(structure=structure),
            forget=6000 if name in FORGETTING else None, **aggregates,
        )  # fmt: skip
        self.engine: Any = self.query.operator(SCHEMA, store=MemoryStore() if is_stored else None)
        self.batches: list[pa.RecordBatch] = []
        self.found: list[pa.RecordBatch] = []

    def process(self, batch: pa.RecordBatch, fails: int, strike: int) -> None:
        """A call that may fail some times, which changes nothing, and is made again."""
        self.batches.append(batch)
        for _ in range(fails):
            before = self.engine.metrics
            self.strikes.left = strike
            try:
                self.found.append(self.engine.process(batch))
            except Exception:
                self.strikes.left = 0
                after = self.engine.metrics
                assert (after.rows_in, after.keys, after.elements) == (before.rows_in, before.keys, before.elements)
            else:
                self.strikes.left = 0  # it has lifted fewer rows
                return
        self.found.append(self.engine.process(batch))

    def go_on(self, how: str) -> None:
        """With another operator, from a snapshot or from the store."""
        if how == "reopen" and self.engine.store is not None:
            self.engine = self.query.operator(SCHEMA, store=self.engine.store)
        elif how in ("snapshot", "reopen") and self.engine.store is None:
            self.engine = sash.engine.Operator.restore(self.query, self.engine.snapshot())

    def last_revisions(self) -> list[dict[str, Any]]:
        """The results, of each the last revision."""
        newest: dict[Any, dict[str, Any]] = {}
        for number, row in enumerate(row for batch in self.found for row in batch.to_pylist()):
            row.pop("_revision", None)
            newest[row.pop("_row", number)] = row
        return list(newest.values())

    def run(self, plan: tuple[list[Part], int]) -> None:
        parts, seed = plan
        chance, at = random.Random(seed), 0
        for part in parts:
            at += part.gap
            batch = batch_of(part, at, self.behind, chance)
            at += part.rows * part.spacing
            self.process(batch, {"fail": 1, "fail twice": 2}.get(part.event, 0), part.strike)
            if part.event == "advance":
                self.found.append(self.engine.advance(at - self.behind))
            self.go_on(part.event)
        self.found.append(self.engine.finish())
        assert self.engine.metrics.late == 0
        whole = self.query.rewritten(emit="final").run(pa.Table.from_batches(self.batches, SCHEMA)).to_pylist()
        assert_same(self.last_revisions(), whole, ordered=False)


CASES = [(name, "final") for name in WINDOWS] + [
    seldom(name, "eager", unless=name in ("time", "session"), id=f"{name}-eager")
    for name in WINDOWS
    if name not in NO_EAGER
]


@pytest.mark.parametrize(("name", "emit"), CASES)
def test_keys_that_grow_and_shrink(name: str, emit: str) -> None:
    structures = STRUCTURES if emit == "final" else (None, "FiBA")

    @given(plans(), st.sampled_from(structures), st.booleans())
    def agrees(plan: Any, structure: Any, is_stored: bool) -> None:
        Run(name, emit, structure, is_stored).run(plan)

    agrees()


# ---- memory ----


@pytest.mark.parametrize("is_burst_of_keys", [False, True], ids=["one key", "many keys"])
@pytest.mark.parametrize("structure", [None, "DABALite", "AMTA"])
def test_memory_returns_after_a_burst(structure: Any, is_burst_of_keys: bool) -> None:
    """Of rows of one key, or of keys: what a quiet stream keeps does not tell that it has been."""
    query = sash.Query(
        sash.Time(100), by="k", on="t", lateness=0, options=sash.Options(structure=structure), high=sash.max("x"),
        total=sash.sum("f"),
    )  # fmt: skip
    sizes = []
    for burst in (0, 6000):
        operator, at = query.operator(SCHEMA), 0
        for number in range(60):
            keys = [f"key {i if is_burst_of_keys else 0}" for i in range(burst)] if number == 20 else []
            rows = [(key, at) for key in keys] + [(f"quiet {i}", at + i // 4) for i in range(40)]
            columns = {"k": [key for key, _ in rows], "t": [t for _, t in rows], "x": [1] * len(rows)}
            operator.process(columns | {"f": [0.5] * len(rows), "g": [0] * len(rows), "p": [False] * len(rows)})
            at += 50
        sizes.append(operator.metrics.state_bytes)
        assert operator.metrics.elements < 200
        assert operator.metrics.keys <= 41
    assert sizes[1] <= 2 * sizes[0] + 65_536, sizes
