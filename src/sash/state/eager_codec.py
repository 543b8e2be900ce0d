"""Encode the state of an eager engine as Arrow batches: some of it for a page of a store, all of it for a snapshot.

    keys       the by columns, rows retained and dropped, last time; for each window with a base: its start, its states
    rows       time, arrival, revision, the row's columns, Delta values; for each aggregate: is it non-null, its state
    revisions  for older rows: arrival and revision; GONE for a retracted row
    slides     a batch for each window with `every`: key, name, number and revision of emitted slides

Pages are read in the order in which they were written; later records replace earlier ones. Rows need no order: it
follows from their times, tie-breakers and arrival, and the key has the number of retained rows. States are stored as
values, not as codes; those of interpreted aggregates by their monoid's `dump`, or our codec. Labels and trees are not
stored: they are rebuilt from the rows.

Validate the pages of an eager engine, each before it is loaded, and all of them together afterwards.

Compiled loops follow row numbers and indices without bounds checks, and find slides by counting from a time. So the
checks require: each key occurs once, rows and slides name keys of their page, ends of slides fit into 64 bits, a key
has the number of rows that its page states, and slides by rows end at existing rows. A failed check is a ValueError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import array
from sash.columns.input_encoding import numbers
from sash.columns.row_errors import RowLimits
from sash.columns.time_numbers import Watermark, earliest
from sash.engine.revise.eager_aggregate import EagerAggregate, subset
from sash.engine.revise.eager_engine import EagerEngine
from sash.engine.revise.eager_rows import NewRows
from sash.engine.revise.eager_slides import VANISHED, RowRecords, TimeRecords
from sash.engine.revise.eager_state import expiry
from sash.kernels.loops.array_types import NO_INTS, Flags, Ints, Numbers, States
from sash.kernels.loops.eager_windows import COUNT, PASSED
from sash.state.page_checks import LARGEST, require, require_entries, required_numbers
from sash.stores.envelope import decoding

# --- Eager checks ---


class EagerChecks:
    """The checks of one engine's pages."""

    def __init__(self, engine: EagerEngine) -> None:
        self.engine, self.state = engine, engine.state
        self.limits = RowLimits(engine.bound_query)

    def page(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Raises ValueError for an invalid page."""
        keys, rows, revisions, *slides = batches
        self._check_keys(keys)
        self._check_rows(rows, keys.num_rows)
        for name in ("arrival", "revision"):
            required_numbers(revisions, name)
        for batch in slides:
            for name in batch.schema.names:
                required_numbers(batch, name)
            require_entries(required_numbers(batch, "key"), keys.num_rows)

    def _check_keys(self, keys: pa.RecordBatch) -> None:
        for name in ("kept", "passed"):
            counts = required_numbers(keys, name)
            require((counts >= 0) & (counts < LARGEST), f"a key has an impossible number of rows {name}")
        self._check_key_times(keys, "last")
        for a in range(self.state.rules.anchors):
            required_numbers(keys, f"anchored{a}")
            self._check_key_times(keys, f"begin{a}")
            for p in range(len(self.state.aggregates)):
                required_numbers(keys, f"base{a}:{p}")

    def _check_rows(self, rows: pa.RecordBatch, keys: int) -> None:
        require_entries(required_numbers(rows, "key"), keys)
        self._check_times(required_numbers(rows, "time"))
        arrival, revision = required_numbers(rows, "arrival"), required_numbers(rows, "revision")
        require((arrival >= 0) & (arrival < self.engine.arrived), "it has an impossible arrival number")
        require((revision >= -2) & (revision < LARGEST), "a row has an impossible revision")
        for name in self.state.rows.deltas:
            values = required_numbers(rows, f"delta:{name}")
            require(values.dtype.kind != "f" or np.isfinite(values), f"column {name!r} has a value that is not finite")
        for p in range(len(self.state.aggregates)):
            required_numbers(rows, f"state:{p}")

    def _check_key_times(self, keys: pa.RecordBatch, name: str) -> None:
        """Check times of keys. A key whose rows were all retracted in the same call has the least time of the type."""
        time = required_numbers(keys, name)
        has_none = time == earliest(time.dtype)
        require(~has_none | (required_numbers(keys, "kept") == 0), f"a key with rows has no time {name!r}")
        self._check_times(time[~has_none])

    def _check_times(self, time: Numbers) -> None:
        if time.dtype.kind == "f":
            require(np.isfinite(time), "a time is not finite")
        if self.engine.bound_query.time is not None:
            self.limits.require_times(time)

    def loaded(self, slots: Ints, retained: Ints, records: Sequence[TimeRecords | RowRecords]) -> None:
        """Raises ValueError unless all pages together have all rows of each key, and the rows at which slides end."""
        heads = self.state.rows.heads
        require(heads[slots, COUNT] == retained[slots], "a key has fewer rows than its page says")
        for own, record in zip(self.state.rules.windows, records, strict=False):
            if isinstance(record, RowRecords):
                for slot, (first, ends, revisions) in record.slots.items():
                    rows = int(heads[slot, PASSED] + heads[slot, COUNT])
                    existing = ends[ends != VANISHED]
                    require(0 <= first < LARGEST and len(ends) == len(revisions), "a slide has no number")
                    require(ends[: len(existing)] == existing, "slides that vanished come before others")
                    require((existing >= 1) & (existing <= rows // own.every), "a slide ends at a missing row")
                    require(existing[1:] > existing[:-1], "slides are not in the order of their rows")
                    require((revisions >= -1) & (revisions < LARGEST), "a slide has an impossible revision")


# --- Eager codec ---

GONE = -2
"""The revision of a retracted row."""


@dataclass
class EagerShare:
    """Some of the state, for a page: sorted slots, their rows, older rows, and by window records of emitted slides."""

    slots: Ints
    rids: Ints
    of: Ints
    """The slots of the rows."""
    revised: Ints = field(default_factory=lambda: NO_INTS)
    gone: Ints = field(default_factory=lambda: NO_INTS)
    slides: list[Ints] = field(default_factory=list)
    """By window rows of (slot, name, revision) or (slot, name, number, revision), of these slots."""


class EagerCodec:
    """The layout of an engine's state in batches."""

    def __init__(self, engine: EagerEngine) -> None:
        self.engine, self.state = engine, engine.state
        self.checks = EagerChecks(engine)
        self.records: Sequence[TimeRecords | RowRecords] = engine.results.records
        self.schemas = [
            batch.schema for batch in self.encode(EagerShare(NO_INTS, NO_INTS, NO_INTS, slides=self.no_slides()))
        ]

    def no_slides(self) -> list[Ints]:
        """An empty table of slides for each window."""
        return [np.zeros((0, records.width), np.int64) for records in self.records]

    def everything(self) -> EagerShare:
        """The whole state."""
        slots = np.flatnonzero(self.state.alive)
        counts = self.state.rows.heads[slots, COUNT]
        slides = [records.dump() for records in self.records]
        return EagerShare(slots, self.state.rows.first_rids(slots, counts), np.repeat(slots, counts), slides=slides)

    # ---- out ----

    def encode(self, share: EagerShare) -> list[pa.RecordBatch]:
        """Encode some of the state as batches."""
        rows = self.state.rows
        arrival = np.concatenate([rows.arrival[share.revised], rows.arrival[share.gone]])
        revision = np.concatenate([rows.revision[share.revised], np.full(len(share.gone), GONE)])
        revisions = pa.RecordBatch.from_pydict({"arrival": array(arrival), "revision": array(revision)})
        slides = [self._slides(table, share.slots) for table in share.slides]
        return [self._keys(share.slots), self._rows(share), revisions, *slides]

    def _keys(self, slots: Ints) -> pa.RecordBatch:
        state = self.state
        columns: dict[str, pa.Array] = {
            f"key:{name}": column for name, column in zip(state.bound_query.by, state.keys.keys(slots), strict=True)
        }
        columns["kept"] = array(state.rows.heads[slots, COUNT])
        columns["passed"] = array(state.rows.heads[slots, PASSED])
        columns["last"] = array(state.last[slots])
        for a in range(state.rules.anchors):
            columns[f"anchored{a}"] = array(state.anchored[slots, a])
            columns[f"begin{a}"] = array(state.begins[slots, a])
            at = slots * state.rules.anchors + a
            for p, aggregate in enumerate(state.aggregates):
                trees = aggregate.trees
                _put(columns, f"base{a}:{p}", aggregate, trees.base_non_null[at], subset(trees.bases, at))
        return pa.RecordBatch.from_pydict(columns)

    def _rows(self, share: EagerShare) -> pa.RecordBatch:
        rows, rids = self.state.rows, share.rids
        columns: dict[str, pa.Array] = {
            "key": array(share.slots.searchsorted(share.of)),
            "time": array(rows.times[rids]),
        }
        columns["arrival"], columns["revision"] = array(rows.arrival[rids]), array(rows.revision[rids])
        columns |= {f"row:{n}": c for n, c in zip(rows.columns.schema.names, rows.columns.take(rids), strict=True)}
        columns |= {f"delta:{name}": array(values[rids]) for name, values in rows.deltas.items()}
        for p, aggregate in enumerate(self.state.aggregates):
            _put(columns, f"state:{p}", aggregate, aggregate.non_null[rids], subset(aggregate.states, rids))
        return pa.RecordBatch.from_pydict(columns)

    def _slides(self, table: Ints, slots: Ints) -> pa.RecordBatch:
        names = ("name", "revision") if table.shape[1] == 3 else ("name", "number", "revision")
        columns = {"key": array(slots.searchsorted(table[:, 0]))}
        columns |= {name: array(np.ascontiguousarray(table[:, 1 + i])) for i, name in enumerate(names)}
        return pa.RecordBatch.from_pydict(columns)

    # ---- in ----

    def load(self, pages: Mapping[str, Sequence[pa.RecordBatch]], now: Watermark) -> list[Ints]:
        """Load pages, by their names, into a new engine of the same query.

        Returns the row numbers of each page's retained rows. Raises PageError for an invalid page; then the engine must
        be discarded.
        """
        names = [f"page {name!r}" for name in pages]
        for name, page in zip(names, pages.values(), strict=True):
            with decoding(name):
                self.checks.page(page)
        return self._load(names, list(pages.values()), now)

    def _load(self, names: list[str], pages: list[Sequence[pa.RecordBatch]], now: Watermark) -> list[Ints]:
        state = self.state
        slots = [self._find(name, page[0]) for name, page in zip(names, pages, strict=True)]
        every = np.unique(np.concatenate(slots)) if slots else NO_INTS
        state.reserve(every, np.zeros(len(every), np.int64))
        retained = np.zeros(len(state.alive), np.int64)
        for name, page, of in zip(names, pages, slots, strict=True):
            with decoding(name):
                retained[of] = numbers(page[0].column("kept"))
                self._load_keys(page[0], of)
        has_time = self.engine.bound_query.time is not None
        if has_time and now is not None and len(every):  # old pages may have keys that have expired since
            when, ever = expiry(state, every)
            gone = ever & (when <= now)
            state.release(every[gone])
            every = every[~gone]
        rids = self._load_rows(names, pages, slots, retained)
        state.ensure_timers(every)
        with decoding(f"the state in {', '.join(names)}"):
            self._load_slides(pages, slots)
            self.checks.loaded(every, retained, self.records)
        return rids

    def _find(self, name: str, keys: pa.RecordBatch) -> Ints:
        with decoding(name):
            slots = self._slots(keys, insert=True)
            require(len(np.unique(slots)) == len(slots), "it has a key twice")
        return slots

    def slots_of(self, keys: pa.RecordBatch) -> Ints:
        """The slots of keys that were loaded; -1 of those that have expired."""
        found = self._slots(keys, insert=False)
        return np.where((found >= 0) & self.state.alive[found], found, -1)

    def _slots(self, keys: pa.RecordBatch, insert: bool) -> Ints:
        columns = [keys.column(f"key:{name}") for name in self.state.bound_query.by]
        return self.state.keys.find(columns, keys.num_rows, insert).slots

    def _load_keys(self, keys: pa.RecordBatch, slots: Ints) -> None:
        state = self.state
        state.rows.load_passed(slots, numbers(keys.column("passed")))
        state.load_keys(slots, numbers(keys.column("last")))
        for a in range(state.rules.anchors):
            state.load_anchors(a, slots, numbers(keys.column(f"anchored{a}")), numbers(keys.column(f"begin{a}")))
            at = slots * state.rules.anchors + a
            for p, aggregate in enumerate(state.aggregates):
                aggregate.load_bases(at, *_stored(aggregate, keys, f"base{a}:{p}"))

    def _load_rows(
        self, names: list[str], pages: Sequence[Sequence[pa.RecordBatch]], slots: Sequence[Ints], retained: Ints
    ) -> list[Ints]:
        state, rows = self.state, self.state.rows
        counts = [page[1].num_rows for page in pages]
        total = sum(counts)
        if not total:
            return [NO_INTS for _ in pages]
        rids = rows.fresh_numbers(total)
        of, time = np.empty(total, np.int64), np.empty(total, rows.numbers)
        at = 0
        for name, page, mine, count in zip(names, pages, slots, counts, strict=True):
            here = slice(at, at + count)
            of[here] = mine[numbers(page[1].column("key"))]
            time[here] = numbers(page[1].column("time"))
            with decoding(name):
                self._load_columns(page[1], rids[here])
            at += count
        rows.load_places(rids, of, time)
        revised = _later_revisions(pages)
        arrival = rows.arrival[rids]
        for i in np.flatnonzero(np.isin(arrival, np.fromiter(revised, np.int64, len(revised)))).tolist():
            rows.set_revisions(rids[i : i + 1], revised[int(arrival[i])])
        existing = np.flatnonzero(state.alive[of] & (rows.revision[rids] != GONE))
        codes = rows.tie_codes[rids[existing]]
        parts = tuple(codes[:, k] for k in reversed(range(codes.shape[1])))
        order = existing[np.lexsort((arrival[existing], *parts, time[existing], of[existing]))]
        held = np.bincount(of[order], minlength=len(state.alive))
        remaining = np.cumsum(held)[of[order]] - np.arange(
            len(order)
        )  # how many rows of its key follow, including itself
        order = order[remaining <= retained[of[order]]]
        touched, more = np.unique(of[order], return_counts=True)
        state.reserve(touched, more)
        rows.load_order(NewRows(of[order], time[order], rids[order], order))
        is_retained = np.zeros(total, np.bool_)
        is_retained[order] = True
        rows.release(rids[~is_retained])
        edges = np.cumsum([0, *counts])
        return [rids[a:b][is_retained[a:b]] for a, b in pairwise(edges.tolist())]

    def _load_columns(self, batch: pa.RecordBatch, rids: Ints) -> None:
        """Load the columns of rows, in any order."""
        state, rows = self.state, self.state.rows
        deltas = {name: numbers(batch.column(f"delta:{name}")) for name in rows.deltas}
        rows.load(rids, numbers(batch.column("arrival")), numbers(batch.column("revision")), deltas)
        if len(rows.columns.schema) and len(rids):
            columns = [batch.column(f"row:{name}") for name in rows.columns.schema.names]
            rows.load_columns(rids, pa.RecordBatch.from_arrays(columns, schema=rows.columns.schema))
        for p, aggregate in enumerate(state.aggregates):
            aggregate.load_rows(rids, *_stored(aggregate, batch, f"state:{p}"))

    def _load_slides(self, pages: Sequence[Sequence[pa.RecordBatch]], slots: Sequence[Ints]) -> None:
        for w, records in enumerate(self.records):
            for page, mine in zip(pages, slots, strict=True):
                batch = page[3 + w]
                columns = [mine[numbers(batch.column("key"))], *(numbers(column) for column in batch.columns[1:])]
                records.load(np.stack(columns, 1).tolist() if batch.num_rows else [])
            records.clear(np.flatnonzero(~self.state.alive))
            records.commit()


def _later_revisions(pages: Sequence[Sequence[pa.RecordBatch]]) -> Mapping[int, int]:
    """The last revision of each row that was revised after it was written, by arrival."""
    found: dict[int, int] = {}
    for page in pages:
        for arrival in numbers(page[1].column("arrival")).tolist():
            found.pop(arrival, None)  # the row was written again
        found.update(zip(*(numbers(column).tolist() for column in page[2].columns), strict=True))
    return found


def _put(columns: dict[str, pa.Array], name: str, aggregate: EagerAggregate, non_null: Flags, states: States) -> None:
    """Add the columns of states; where a state is null they may hold any value."""
    columns[name] = array(non_null)
    if not aggregate.kernel.compiled:
        blank = np.empty(len(non_null), object)
        blank[non_null] = states[0][non_null]
        states = (blank,)
    for i, column in enumerate(aggregate.values.store(states)):
        columns[f"{name}:{i}"] = column


def _stored(aggregate: EagerAggregate, batch: pa.RecordBatch, name: str) -> tuple[Flags, list[pa.Array]]:
    """Which stored states are not null, and their columns."""
    columns = [batch.column(f"{name}:{i}") for i in range(len(aggregate.states))]
    return numbers(batch.column(name)), columns
