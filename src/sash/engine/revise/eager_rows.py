"""The rows of all slots, for emit="eager": ordered by slot, with their attributes by row number.

    slot ──▶ block: times and row numbers, in order        row number ──▶ label, arrival, revision, tie-breakers,
                                                                          Delta values, the row's columns

The numbers of dropped rows are reused. Blocks are powers of two.

The columns of rows that an eager engine retains, and their tie-breakers as integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.columns.arrow_arrays import null_mask, validity, word_type, words_of
from sash.columns.batch_columns import BatchColumns
from sash.columns.input_encoding import numbers
from sash.engine.atomic import all_at_once, attributes
from sash.engine.intake.reorder_buffer import TimedRows
from sash.engine.keyed.chunk_log import CodeMapping, RowLog
from sash.engine.keyed.rank_labels import RankLabels
from sash.engine.keyed.value_encoder import is_wasteful
from sash.engine.revise.eager_rules import WindowTables
from sash.kernels.loops import eager_loops as eager_order
from sash.kernels.loops.array_types import Flags, Ints, Numbers, longer
from sash.kernels.loops.eager_windows import CAPACITY, COUNT, HEAD, OFFSET, PASSED, START, STRIDE
from sash.kernels.loops.loop_cache import call_loop, prepare_loop
from sash.plan.bound_query import BoundQuery

# --- Eager columns ---


class RowColumns:
    """The columns of rows by row number: those of a fixed width as arrays, the others in a log.

    >>> rows = RowColumns(pa.schema([("x", pa.int32()), ("s", pa.string())]))
    >>> rows.grow(4)
    >>> batch = pa.record_batch([pa.array([7, None], pa.int32()), ["a", "b"]], names=["x", "s"])
    >>> rows.set(np.array([3, 1]), BatchColumns(batch), {})
    >>> [column.to_pylist() for column in rows.take(np.array([1, 3]))]
    [[None, 7], ['b', 'a']]
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.fixed = {field.name: np.zeros(0, width) for field in schema if (width := _width(field.type)) is not None}
        self.valid: dict[str, Flags] = {}
        """The validity of fixed-width columns that have had a null."""
        self.log = RowLog(pa.schema([field for field in schema if field.name not in self.fixed]))
        self.code = np.zeros(0, np.int64)
        self._types = [(field.name, field.type) for field in schema]  # a schema creates its fields at each access

    def grow(self, length: int) -> None:
        """Reserve space for this many row numbers."""
        self.code = longer(self.code, length)
        self.valid = {name: longer(flags, length) for name, flags in self.valid.items()}
        self.fixed = {name: longer(values, length) for name, values in self.fixed.items()}

    def set(self, rids: Ints, columns: BatchColumns, known: Mapping[str, NDArray[Any]]) -> None:
        """Store the columns of rows; `known` are those without nulls that are arrays already."""
        if not len(rids):
            return
        for name, values in self.fixed.items():
            if name in known and name not in self.valid:
                values[rids] = known[name]
                continue
            column = columns.column(name)
            values[rids] = words_of(column, values.dtype)
            if column.null_count or name in self.valid:
                if name not in self.valid:
                    self.valid[name] = np.ones(len(values), np.bool_)
                flags = validity(column)
                self.valid[name][rids] = True if flags is None else flags
        if len(self.log.schema):
            self.code[rids] = self.log.append(columns.table.select(self.log.schema.names))

    def take(self, rids: Ints) -> list[pa.Array]:
        """The columns of some rows."""
        logged = iter(self.log.take(self.code[rids]).columns if len(self.log.schema) else ())
        found = []
        for name, kind in self._types:
            values = self.fixed.get(name)
            if values is None:
                found.append(next(logged))
                continue
            flags = self.valid.get(name)
            mask = None if flags is None else null_mask(flags[rids])
            found.append(pa.Array.from_buffers(kind, len(rids), [mask, pa.py_buffer(values[rids])]))
        return found

    def batch(self, rids: Ints) -> pa.RecordBatch:
        """Some rows as a batch."""
        return pa.RecordBatch.from_arrays(self.take(rids), schema=self.schema)

    def compact(self, rows: int, live: Callable[[], Ints]) -> None:
        """Drop rows from the log that are not retained, if most are not; `rows` is the number of those that are."""
        if is_wasteful(len(self.log), rows):
            retained, log, codes = live(), RowLog(self.log.schema), self.code.copy()
            codes[retained] = log.append(self.log.take(codes[retained]))
            all_at_once(attributes(self, log=log, code=codes))

    @property
    def nbytes(self) -> int:
        """The memory of the columns."""
        arrays = (*self.fixed.values(), *self.valid.values(), self.code)
        return sum(part.nbytes for part in arrays) + self.log.nbytes


def _width(kind: pa.DataType) -> str | None:
    """The storage type of a fixed-width column; None for other columns."""
    fixed = pa.types.is_primitive(kind) and not pa.types.is_boolean(kind) and kind.bit_width in (8, 16, 32, 64)
    return f"i{kind.bit_width // 8}" if fixed and not pa.types.is_decimal(kind) else None


class TieCodes:
    """Encode tie-breakers as two integers each, in the order of their values: NaN after all numbers, nulls last.

    >>> ties = TieCodes([pa.float64(), pa.string()])
    >>> codes = ties.encode([pa.array([None, -0.5, float("nan"), 2.0]), pa.array(["b", None, "a", "a"])])
    >>> np.lexsort(codes.T[::-1]).tolist()
    [1, 3, 2, 0]
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.types = tuple(types)
        self.labels = {k: RankLabels(kind) for k, kind in enumerate(self.types) if not _is_number(kind)}
        self.relabelled: dict[int, CodeMapping] = {}
        """By column of codes: the mapping by which the last `encode` has changed older codes."""

    def encode(self, columns: Sequence[pa.Array]) -> Ints:
        """The codes of rows, two columns for each tie-breaker."""
        found = np.zeros((len(columns[0]) if columns else 0, 2 * len(self.types)), np.int64)
        self.relabelled = {}
        for k, column in enumerate(columns):
            if k in self.labels:
                codes = self.labels[k].encode(column)
                if self.labels[k].relabelled is not None:
                    self.relabelled[2 * k + 1] = self.labels[k].relabelled  # type: ignore[assignment]
            else:
                values = numbers(column.cast(pa.float64()) if pa.types.is_floating(column.type) else column)
                codes = _ordered(values)
                if values.dtype.kind == "f":
                    found[np.isnan(values), 2 * k] = 1
                    codes[np.isnan(values)] = 0
            found[:, 2 * k + 1] = codes
            if column.null_count:
                nulls = column.is_null().to_numpy(zero_copy_only=False)
                found[nulls, 2 * k], found[nulls, 2 * k + 1] = 2, 0
        return found

    def compact(self, rows: int, live: Callable[[], Ints]) -> dict[int, CodeMapping]:
        """Drop labels that no row has, if most are unused. Returns the mapping of codes, by column."""
        found: dict[int, CodeMapping] = {}
        for k, labels in self.labels.items():
            if is_wasteful(len(labels), rows):
                found[2 * k + 1] = labels.compact(live()[:, 2 * k + 1])
        return found

    @property
    def nbytes(self) -> int:
        """The memory of the labels."""
        return sum(labels.nbytes for labels in self.labels.values())


def _is_number(kind: pa.DataType) -> bool:
    fixed = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return bool(fixed or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind)))


def _ordered(values: NDArray[Any]) -> Ints:
    """Numbers as integers in the same order."""
    if values.dtype.kind == "f":
        bits = (values + 0.0).view(np.int64)
        return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    if values.dtype == np.uint64:
        return (values ^ np.uint64(1 << 63)).view(np.int64)
    return values.astype(np.int64)


# --- Eager rows ---

BLOCK = 8
"""Rows of the smallest block."""


@dataclass(slots=True)
class NewRows:
    """Rows of a call, sorted by slot and order: slots, times, row numbers, and their places in the batch."""

    slots: Ints
    time: Numbers
    rids: Ints
    source: Ints

    def __len__(self) -> int:
        return len(self.slots)

    def taken(self, chosen: Flags) -> NewRows:
        """The chosen ones of these rows."""
        return NewRows(self.slots[chosen], self.time[chosen], self.rids[chosen], self.source[chosen])


class RowFollower(Protocol):
    """Has arrays by row number or by slot, which grow with those of the rows."""

    def grow_rows(self, rows: int, /) -> None:
        """Reserve space for this many row numbers."""

    def grow_slots(self, slots: int, arena: int, /) -> None:
        """Reserve space for slots and for rows in their blocks."""


class OrderedRows:
    """The rows of all slots."""

    def __init__(self, bound_query: BoundQuery, rules: WindowTables, schema: pa.Schema) -> None:
        self.bound_query, self.rules, self.numbers = bound_query, rules, rules.numbers
        self.kind = self.numbers.str
        axis = bound_query.time
        is_word = axis is not None and axis.kind == "int" and word_type(axis.type) == np.int64
        self.time_name = axis.column if axis is not None and is_word else ""
        """The column that holds the times in the type of the loops."""
        self.heads = np.zeros((0, HEAD), np.int64)
        self.time, self.rids = np.zeros(0, self.numbers), np.zeros(0, np.int64)
        self.breaks = np.zeros((0, len(rules.gaps)), np.int64)
        self.top = 0
        self.free_blocks: dict[int, list[int]] = {}
        self.ties = TieCodes([schema.field(name).type for name in bound_query.ties])
        self.labels, self.arrival, self.revision, self.slot_of = (np.zeros(0, np.int64) for _ in range(4))
        self.times = np.zeros(0, self.numbers)
        self.tie_codes = np.zeros((0, 2 * len(bound_query.ties)), np.int64)
        self.delta_ints = np.zeros((0, rules.ints + len(rules.calendars)), np.int64)
        self.delta_floats = np.zeros((0, len(rules.measured) - rules.ints))
        self.axes = {str(w.column): w.axis for w in bound_query.windows if w.rule.measured}
        names = schema.names if bound_query.per_row else list(bound_query.ties)
        self.columns = RowColumns(pa.schema([schema.field(name) for name in dict.fromkeys(names)]))
        self.free, self.free_count, self.numbered = np.zeros(0, np.int64), 0, 0
        self.followers: list[RowFollower] = []

    def add_followers(self, *followers: RowFollower) -> None:
        """Let the arrays of these grow with those of the rows."""
        self.followers += followers

    def remove_follower(self, follower: RowFollower) -> None:
        """Let the arrays of a follower grow no more."""
        self.followers.remove(follower)

    # ---- loops ----

    @property
    def lists(self) -> tuple[NDArray[Any], ...]:
        """The arrays of ordered rows that the loops take."""
        return self.time, self.rids, self.breaks, self.labels, self.delta_ints, self.delta_floats

    @property
    def deltas(self) -> dict[str, NDArray[Any]]:
        """The values of the columns that windows are measured on, by row number."""
        found = self.rules.measured.items()
        return {name: (self.delta_floats if of_floats else self.delta_ints)[:, at] for name, (of_floats, at) in found}

    def run(self, kernel: Any, *arguments: Any) -> Any:
        """Run a loop over the ordered rows."""
        return call_loop(kernel, self.kind, arguments)

    def prepare(self, kernel: Any, *arguments: Any) -> None:
        """Load or compile a loop over the ordered rows."""
        prepare_loop(kernel, self.kind, arguments)

    # ---- stored rows ----

    def load(self, rids: Ints, arrival: Ints, revision: Ints, deltas: Mapping[str, NDArray[Any]]) -> None:
        """Load attributes of rows by number; `deltas` has the values of each column that a window is measured on."""
        self.arrival[rids], self.revision[rids] = arrival, revision
        for name, values in self.deltas.items():
            values[rids] = deltas[name]

    def load_columns(self, rids: Ints, logged: pa.RecordBatch) -> None:
        """Load the columns of rows by number, and their tie-breakers."""
        self.columns.set(rids, BatchColumns(logged), {})
        if self.bound_query.ties:
            self.tie_codes[rids] = self.tie_code([logged.column(name) for name in self.bound_query.ties])

    def load_places(self, rids: Ints, slots: Ints, time: Numbers) -> None:
        """Load the slots and times of rows by number."""
        self.set_times(rids, time)
        self.slot_of[rids] = slots

    def load_order(self, rows: NewRows) -> None:
        """Append rows to slots without any, in their order, with labels at equal distances."""
        self.labels[rows.rids] = STRIDE // 2**16 * (np.arange(len(rows)) + 1)
        self.insert(rows, np.zeros(len(rows), np.int64))

    def load_passed(self, slots: Ints, passed: Ints) -> None:
        """Load how many rows of each slot have been dropped."""
        self.heads[slots, PASSED] = passed

    # ---- row numbers ----

    def number(self, given: TimedRows, columns: BatchColumns, slots: Ints, touched: Ints) -> tuple[NewRows, Ints]:
        """Number rows, and store their attributes; also returns the numbers in the order of arrival."""
        count = len(given)
        rids = self.fresh_numbers(count)
        self.arrival[rids] = given.arrival
        self.revision[rids] = -1
        self.slot_of[rids] = slots
        codes = None
        if self.bound_query.ties:
            codes = self.tie_codes[rids] = self.tie_code([columns.column(name) for name in self.bound_query.ties])
        for name, values in self.deltas.items():
            values[rids] = self.axes[name].numbers(columns.column(name))[0]  # type: ignore[union-attr]
        time = np.ascontiguousarray(given.time, self.numbers)
        self.set_times(rids, time)
        self.columns.set(rids, columns, {self.time_name: time})
        if count == 1:
            return NewRows(slots, time, rids, _FIRST), rids
        order = np.arange(count)
        if codes is not None or len(touched) > 1 or not (time[1:] >= time[:-1]).all():
            parts = () if codes is None else tuple(codes[:, k] for k in reversed(range(codes.shape[1])))
            order = np.lexsort((given.arrival, *parts, time, slots))
        return NewRows(slots[order], time[order], rids[order], order), rids

    def set_times(self, rids: Ints, time: Numbers) -> None:
        """Set the times of rows, and the starts of their windows of calendar lengths."""
        self.times[rids] = time
        for own in self.rules.calendars:
            self.delta_ints[rids, own.calendar] = own.rule.origins(time)[0] + (not own.rule.closed_start)

    def set_revisions(self, rids: Ints, revisions: Ints | int) -> None:
        """Set the revisions of rows."""
        self.revision[rids] = revisions

    def tie_code(self, columns: Sequence[pa.Array]) -> Ints:
        """Encode tie-breakers; this may change the codes of other rows."""
        codes = self.ties.encode(columns)
        for k, mapped in self.ties.relabelled.items():
            self.tie_codes[:, k] = mapped(self.tie_codes[:, k])
        return codes

    def fresh_numbers(self, count: int) -> Ints:
        """Allocate row numbers; they are in use once the call has succeeded."""
        if count == 1 and not self.free_count and self.numbered < len(self.labels):
            self.numbered += 1
            return np.array([self.numbered - 1])
        reused = min(count, self.free_count)
        found = self.free[self.free_count - reused : self.free_count]
        self.free_count -= reused
        if reused < count:
            first, self.numbered = self.numbered, self.numbered + count - reused
            found = np.concatenate([found, np.arange(first, self.numbered)])
            if self.numbered > len(self.labels):
                self._grow_numbers(max(2 * len(self.labels), self.numbered, 64))
        return found.copy()

    def _grow_numbers(self, length: int) -> None:
        for follower in self.followers:
            follower.grow_rows(length)
        self.columns.grow(length)
        for name in ("delta_ints", "delta_floats", "tie_codes", "arrival", "revision", "slot_of", "times", "labels"):
            setattr(self, name, longer(getattr(self, name), length))

    def mark(self) -> tuple[int, int]:
        """Return how many numbers are free, and how many were given out, for `rollback`."""
        return self.free_count, self.numbered

    def rollback(self, mark: tuple[int, int]) -> None:
        """Free the numbers that a failed call has allocated."""
        self.free_count, self.numbered = mark

    def release(self, rids: Ints) -> None:
        """Free the numbers of dropped rows."""
        need = self.free_count + len(rids)
        if need > len(self.free):
            self.free = longer(self.free, max(2 * len(self.free), need, 64))
        self.free[self.free_count : need] = rids
        self.free_count = need

    @property
    def live(self) -> Ints:
        """The numbers of all rows that are retained."""
        counts = self.heads[:, COUNT]
        slots = np.flatnonzero(counts)
        return self.first_rids(slots, counts[slots])

    def first_rids(self, slots: Ints, counts: Ints) -> Ints:
        """The numbers of the first rows of slots."""
        found = np.empty(int(counts.sum()), np.int64)
        self.run(eager_order.gather_rids, slots, counts, self.heads, self.rids, found)
        return found

    # ---- blocks ----

    def reserve(self, capacity: int, slots: Ints, more: Ints, moving: Callable[[Ints], None]) -> None:
        """Reserve space for `more` rows in each of these slots, of `capacity` in all; `moving` gets slots that move.

        Every slot gets a block, even for no rows: its trees lie at the place of the block, and those of a slot without
        one would overlap the first block. May be interrupted anywhere: arrays grow before the lengths that describe
        them.
        """
        if capacity > len(self.heads):
            self._grow_followers(capacity, len(self.time))
            self.heads = longer(self.heads, capacity)
        if len(slots) == 1:  # the usual case of a small call
            _, capacity, start, count, _ = self.heads[slots.item(0)].tolist()
            if capacity and start + count + more.item(0) <= capacity:
                return
        head = self.heads[slots]
        full = (head[:, START] + head[:, COUNT] + more > head[:, CAPACITY]) | (head[:, CAPACITY] == 0)
        if not full.any():
            return
        moved, needed = slots[full], np.maximum(head[full, COUNT] + more[full], 1)
        sizes = head[full, CAPACITY].copy()
        # at least half of a block is free after a move, so that moves are rare
        too_small = 2 * needed > sizes
        sizes[too_small] = np.maximum(BLOCK, 1 << np.ceil(np.log2(2 * needed[too_small])).astype(np.int64))
        offsets = head[full, OFFSET].copy()
        offsets[too_small] = self._blocks(sizes[too_small])
        moving(moved[too_small])
        self.run(eager_order.move_rows, moved, offsets, sizes, self.heads, self.lists)
        for offset, size in head[full][too_small][:, :2].tolist():
            if size:
                self.free_blocks.setdefault(size, []).append(offset)

    def _blocks(self, sizes: Ints) -> Ints:
        found = np.empty(len(sizes), np.int64)
        for i, size in enumerate(sizes.tolist()):
            free = self.free_blocks.get(size)
            if free:
                found[i] = free.pop()
            else:
                found[i] = self.top
                self.top += size
        if self.top > len(self.time):
            length = max(2 * len(self.time), self.top, 64)
            self._grow_followers(len(self.heads), length)
            self.rids, self.breaks = longer(self.rids, length), longer(self.breaks, length)
            self.time = longer(self.time, length)
        return found

    def _grow_followers(self, slots: int, arena: int) -> None:
        for follower in self.followers:
            follower.grow_slots(slots, arena)

    def clear(self, slots: Ints) -> None:
        """Free the blocks and rows of expired slots."""
        slots = slots[self.heads[slots, CAPACITY] > 0]
        self.release(self.first_rids(slots, self.heads[slots, COUNT]))
        for offset, size in self.heads[slots, :2].tolist():
            self.free_blocks.setdefault(size, []).append(offset)
        self.heads[slots] = 0

    # ---- places ----

    def at(self, slots: Ints, index: Ints) -> Ints:
        """The row numbers at indices of slots."""
        found: Ints = self.rids[self.heads[slots, OFFSET] + self.heads[slots, START] + index]
        return found

    def time_at(self, slots: Ints, index: Ints) -> Numbers:
        """The times at indices of slots."""
        found: Numbers = self.time[self.heads[slots, OFFSET] + self.heads[slots, START] + index]
        return found

    def locate(self, rows: NewRows, reset_trees: Callable[[Ints], None]) -> Ints:
        """Find the indices of new rows, and assign their labels; calls `reset_trees` for slots that are relabelled."""
        places = np.empty(len(rows), np.int64)
        given = (rows.slots, rows.time, rows.rids)
        while True:
            full = self.run(eager_order.place_rows, given, self.heads, self.lists, self.tie_codes, self.arrival, places)
            if full < 0:
                return places
            slot = np.array([full])
            reset_trees(slot)
            self.run(eager_order.relabel_rows, slot, self.heads, self.lists)

    def insert(self, rows: NewRows, places: Ints) -> None:
        """Insert new rows at their places."""
        given = (rows.slots, places, rows.time, rows.rids)
        self.run(eager_order.insert_rows, *given, self.heads, self.lists, self.rules.gaps)

    def drop_first(self, slots: Ints, counts: Ints) -> None:
        """Remove the first rows of slots from their order."""
        for column, sign in ((START, 1), (COUNT, -1), (PASSED, 1)):
            self.heads[slots, column] += sign * counts

    def order_of(self, slot: int) -> tuple[Numbers, Ints]:
        """A copy of a slot's times and row numbers, in order, for `restore_order`."""
        first = int(self.heads[slot, OFFSET] + self.heads[slot, START])
        mine = slice(first, first + int(self.heads[slot, COUNT]))
        return self.time[mine].copy(), self.rids[mine].copy()

    def restore_heads(self, slots: Ints, heads: Ints) -> None:
        """Restore saved heads of slots; a block that has moved stays where it is."""
        self.heads[slots, START:] = heads[:, START:]

    def restore_order(self, slot: int, time: Numbers, rids: Ints) -> None:
        """Restore the order of a slot's rows, after its head."""
        first = int(self.heads[slot, OFFSET] + self.heads[slot, START])
        self.time[first : first + len(time)], self.rids[first : first + len(time)] = time, rids
        self.run(eager_order.count_breaks, self.heads, self.lists, self.rules.gaps, slot, 0)

    def compact(self) -> None:
        """Drop columns and tie-breakers of rows that are not retained, if most are not."""
        retained = self.numbered - self.free_count
        self.columns.compact(retained, lambda: self.live)
        for k, mapped in self.ties.compact(retained, lambda: self.tie_codes[self.live]).items():
            self.tie_codes[:, k] = mapped(self.tie_codes[:, k])

    @property
    def nbytes(self) -> int:
        """The memory of the rows."""
        arrays: Sequence[NDArray[Any]] = (
            *(self.heads, self.time, self.rids, self.breaks, self.labels, self.arrival, self.revision),
            *(self.slot_of, self.times),
            *(self.tie_codes, self.free, self.delta_ints, self.delta_floats),
        )
        return sum(part.nbytes for part in arrays) + self.columns.nbytes + self.ties.nbytes


_FIRST = np.zeros(1, np.int64)
