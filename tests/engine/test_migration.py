"""Migrated state continues as if the new query had seen all rows: random queries and changes, compared with that."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash import Count, Delta, Lifetime, Policy, Punctuation, Query, Session, Time
from sash.engine import Operator
from sash.stores import MemoryStore
from sash.testing import assert_same
from tests.shared.effort import share

pytestmark = pytest.mark.compiled  # what state keeps depends on its layout

KINDS = {"k": "string", "t": "int64", "g": "int64", "p": "bool", "n": "int32", "x": "float64", "s": "string"}
SCHEMA = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in KINDS.items()])


def keep_last(total: Any, prefix: Any) -> Any:
    """A policy: three rows stay."""
    return total - prefix >= 3


AT_ROWS: tuple[Any, ...] = (
    Time,
    Count,
    lambda n: Delta("g", n),
    lambda n: Time(n, closed="both"),
    lambda n: Count(n, shift=-1),
    lambda n: Time(n, shift=-2),
    lambda n: Count(n, full=True),
)
"""Windows over single rows, by their sizes."""

GROWING: tuple[Any, ...] = (Session(3), Lifetime(), Punctuation("p"), Policy(keep_last, sash.count()))
"""Windows at rows that are kept as they are."""

AT_SLIDES: tuple[Any, ...] = (
    lambda n: Time(4 * n, every=4),
    lambda n: Time(4 * n, every=4, closed="right"),
    lambda n: Time(3 * n, every=3, offset=1),
    lambda n: Time(3 * n + 1, every=3, align="start"),
    lambda n: Count(2 * n, every=2),
    lambda n: Count(3 * n, every=3),
    lambda n: Count(n, every=Time(5)),
    lambda n: Time(n, every=Count(3)),
)
CLOSING: tuple[Any, ...] = (
    Session(3, every="close"),
    Lifetime(every=4),
    Lifetime(every=Time(6)),
    Punctuation("p", every="close"),
)

KEPT: dict[str, Any] = {
    "high": sash.max("x"),
    "total": sash.sum("x"),
    "mean": sash.mean("x"),
    "spread": sash.var("x"),
    "items": sash.sum("n"),
    "oldest": sash.first("n"),
    "name": sash.last("s"),
    "rows": sash.count(),
    "double": sash.max(sash.expr("n % 5"), where="x > 0"),
}
LIFTED: dict[str, tuple[Any, set[str]]] = {
    "low": (sash.min("x"), {"high", "total", "mean", "spread"}),
    "last": (sash.last("x"), {"high", "total", "mean", "spread"}),
    "most": (sash.max("n"), {"items", "oldest"}),
    "first_name": (sash.min("s"), {"name"}),
    "all_rows": (sash.count(), set()),
    "newest": (sash.max("t"), set()),
    "squares": (sash.sum(sash.expr("n * 3")), {"items", "oldest"}),
    "scaled": (sash.sum(sash.expr("x * 2"), where="n > 0"), {"high", "total", "mean", "spread", "items", "oldest"}),
}
"""Aggregates that follow from rows of any one of others (of both columns, where there are two)."""


class Change:
    """A query, and one that its state is migrated to."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = Random(seed)
        self.emit = draw.choice(["final", "final", "final", "changes"])
        at_rows = draw.random() < 0.6
        self.sized = list(AT_ROWS if at_rows else AT_SLIDES)
        whole = draw.sample(GROWING if at_rows else CLOSING, draw.choice([0, 0, 1, 2]))
        self.windows: dict[str, Any] = {}
        self.shorter: dict[str, Any] = {}
        for i, make in enumerate(draw.sample(self.sized, draw.randint(0 if whole else 1, 3))):
            size = draw.randint(1, 6)
            self.windows[f"w{i}"] = make(size)
            if draw.random() < 0.8:
                self.shorter[f"v{i}"] = make(size if self.emit == "changes" else draw.randint(1, size))
            if draw.random() < 0.3 and self.emit == "final":
                self.shorter[f"u{i}"] = make(draw.randint(1, size))
        for i, window in enumerate(whole):
            self.windows[f"g{i}"] = window
            if draw.random() < 0.6:
                self.shorter[f"g{i}"] = window
        self.shorter = self.shorter or dict(self.windows)
        names = draw.sample(list(KEPT), draw.randint(1, 4))
        self.aggregates = {name: KEPT[name] for name in names}
        self.changed = {name: KEPT[name] for name in draw.sample(names, draw.randint(1, len(names)))}
        if self.emit == "final":
            self._add(at_rows and not any(name in self.shorter for name in ("g0", "g1")))

    def _add(self, of_rows: bool) -> None:
        draw, x, n = self.draw, {"high", "total", "mean", "spread"}, {"items", "oldest"}
        if "total" in self.aggregates and draw.random() < 0.5:
            self.changed |= {"average": sash.mean("x"), "values": sash.count("x")}
        if "mean" in self.aggregates and draw.random() < 0.5:
            self.changed |= {"sum_of": sash.sum("x")}
        if "spread" in self.aggregates and draw.random() < 0.5:
            self.changed |= {"deviation": sash.std("x")}
        if "items" in self.aggregates and draw.random() < 0.5:
            self.changed |= {"average_n": sash.mean("n")}
        if not of_rows:
            return
        for name, (aggregate, needs) in LIFTED.items():
            kept = {*self.aggregates}
            enough = kept & x and kept & n if name == "scaled" else not needs or kept & needs
            if enough and draw.random() < 0.5:
                self.changed[name] = aggregate

    def queries(self) -> tuple[Query, Query]:
        said: dict[str, Any] = {"by": "k", "on": "t", "lateness": 3, "emit": self.emit}
        if self.draw.random() < 0.2:
            said["forget"] = 9
        if self.draw.random() < 0.2:
            said["min_periods"] = 2
        return Query(self.windows, **said, **self.aggregates), Query(self.shorter, **said, **self.changed)

    def batches(self) -> list[pa.RecordBatch]:
        draw, found = self.draw, []
        for i in range(6):
            rows = []
            for j in range(draw.randint(1, 9)):
                at = 4 * i + draw.randint(-3, 4) + (12 if i == 4 else 0)
                row: dict[str, Any] = {"k": draw.choice(["a", "a", "b", None]), "t": at, "g": 3 * i + j // 3}
                row |= {"p": draw.random() < 0.3, "n": draw.choice([None, -7, 0, 3, 2**31 - 1])}
                row |= {"x": draw.choice([None, 0.1, -2.5, 1e16, -1e16, -0.0, 7.0]), "s": draw.choice(["", "u", None])}
                rows.append(row)
            found.append(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
        return found


def compare(got: pa.RecordBatch, expected: pa.RecordBatch) -> None:
    by = ["k", *(["window"] if "window" in expected.schema.names else [])]
    assert got.schema == expected.schema
    assert_same(got, expected, by=by)


def without_delta_errors(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Rows in order of time have a column g that never decreases."""
    table = pa.Table.from_batches(batches).sort_by("t")
    places = {at: i // 2 for i, at in enumerate(table.column("t").to_pylist())}
    return [batch.set_column(2, "g", pa.array([places[t] for t in batch.column("t").to_pylist()])) for batch in batches]


@pytest.mark.parametrize("seed", range(share(12)))
def test_migrated_state_continues_as_the_new_query(seed: int) -> None:
    change = Change(seed)
    old, new = change.queries()
    batches = without_delta_errors(change.batches())
    before, reference = old.operator(SCHEMA), new.operator(SCHEMA)
    store = MemoryStore()
    stored = old.operator(SCHEMA, store=store)
    half = change.draw.randint(1, 5)
    for batch in batches[:half]:
        before.process(batch)
        stored.process(batch)
        reference.process(batch)
    after = Operator.restore(new, new.migrate(before.snapshot(), from_query=old))
    assert new.migrate(store, from_query=old) is store
    reopened = new.operator(store=store)
    for operator in (after, reopened):
        assert operator.watermark == reference.watermark
        if change.emit == "final":
            keys = {"k": ["a", "b", None]}
            compare(operator.lookup(keys), reference.lookup(keys))
    for batch in batches[half:]:
        expected = reference.process(batch)
        compare(after.process(batch), expected)
        compare(reopened.process(batch), expected)
        after = Operator.restore(new, after.snapshot())  # its checks find positions and edges that cannot be
    expected = reference.finish()
    compare(after.finish(), expected)
    compare(reopened.finish(), expected)
    assert_same(after.late_rows(), reference.late_rows())


@pytest.mark.parametrize("windows", [(Time(8, every=4), Time(6, every=3)), (Count(8, every=4), Count(6, every=3))])
def test_panes_have_the_edges_of_the_windows_that_are_left(windows: tuple[Any, Any]) -> None:
    said: dict[str, Any] = {"by": "k", "on": "t", "lateness": 0, "total": sash.sum("n")}
    old, new = Query({"a": windows[0], "b": windows[1]}, **said), Query({"a": windows[0]}, **said)
    rows = [dict.fromkeys(KINDS) | {"k": "a", "t": t, "n": t} for t in range(20)]
    before, reference = old.operator(SCHEMA), new.operator(SCHEMA)
    for operator in (before, reference):
        operator.process(pa.RecordBatch.from_pylist(rows[:8], schema=SCHEMA))
    after = Operator.restore(new, new.migrate(before.snapshot(), from_query=old))
    for some in (rows[8:9], rows[9:]):
        batch = pa.RecordBatch.from_pylist(some, schema=SCHEMA)
        compare(after.process(batch), reference.process(batch))
        after = Operator.restore(new, after.snapshot())
    compare(after.finish(), reference.finish())
