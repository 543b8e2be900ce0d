"""One aggregate of a query with emit="eager": the states of rows by row number, and a tree of them in each slot.

rows' columns ──▶ lift ──▶ states by row number ──▶ trees by slot ──▶ results of ranges
                                  │                     ▲
                                  └── built again from the rows after a failure, a move or a relabelling
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.aggregators.base import require
from sash.engine.aggregate_batch import Aggregate, is_exact
from sash.engine.arrow_arrays import array
from sash.engine.eager_log import BatchColumns
from sash.engine.input_encoding import CODED, non_null, numbers, objects
from sash.engine.plain_arrays import everyone, word_type, words_of
from sash.engine.value_compare import differ
from sash.engine.value_dictionary import PlaceLog, RankLabels
from sash.kernels.jit.code_fingerprint import NotKeyed
from sash.kernels.jit.compile import NotCompiled, machine_code
from sash.kernels.jit.numba_struct import AFTER
from sash.kernels.jit.state_layout import DTYPES, NotColumnar
from sash.kernels.loops import eager_changes
from sash.kernels.loops.aggregate_kernel import AggregateError
from sash.kernels.loops.eager_changes import CARRIES, FIRST_LEAF, LAST_LEAF
from sash.kernels.loops.eager_trees import BUILT, LabelTree, turn_trees
from sash.kernels.loops.eager_windows import ON, RANGE
from sash.kernels.loops.live_kernel import call_loop
from sash.kernels.loops.runner import Interpreted, specify, warn_once
from sash.monoids.algebra import Kind, Monoid
from sash.plan.bound_query import AggregateSpec

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
States = tuple[NDArray[Any], ...]

_NONE, _NOBODY = np.zeros(0, np.int64), np.zeros(0, np.bool_)
NO_ROWS = (_NONE, _NONE)
NO_RANGES = (np.zeros((0, RANGE), np.int64), 0, 0, False, False)
NO_CUTS = ((_NONE, _NONE, _NONE, _NONE, _NOBODY), NO_ROWS)


FEW_ANSWERS = 256
"""Ranges up to which the room for answers is used again: to make it takes 5 µs."""


class TreeFailed(AggregateError):
    """A monoid raised: at what place of which phase (see `eager_trees`)."""

    def __init__(self, phase: int, place: int, error: Exception) -> None:
        super().__init__(place, error)
        self.phase = phase


class TreeWork:
    """What one call wants of an aggregate's trees; see `turn_trees`."""

    __slots__ = ("built", "emptied", "inserted", "lifted", "removed", "shorter")

    def __init__(self, emptied: Ints = _NONE, built: tuple[Ints, Ints] = NO_ROWS) -> None:
        self.emptied, self.built = emptied, built
        self.lifted: Any = None
        self.removed, self.inserted = NO_ROWS, NO_ROWS
        self.shorter: Any = NO_CUTS


class EagerKernel:
    """The loops of an aggregate over trees: compiled where it can be, else on Python objects."""

    def __init__(self, monoid: Monoid, kinds: tuple[Kind, ...] | None, warn: bool) -> None:
        self.why_interpreted = ""
        self.kinds: tuple[Kind, ...] = ()
        self.spec: Any
        try:
            if kinds is None:
                raise NotColumnar(monoid.interpreted_only or "its input is a column of Python objects")
            self.kinds, self.spec = kinds, specify(LabelTree, monoid, kinds)
            self.monoid, self.layouts = self.spec.monoid, self.spec.layouts
            self._compile()
        except (NotColumnar, NotKeyed, NotCompiled) as error:
            self.why_interpreted = str(error)
            require(LabelTree, monoid)
            self.monoid, self.spec = monoid, Interpreted(LabelTree, monoid)
            if warn:
                warn_once(monoid, self.why_interpreted)

    def _compile(self) -> None:
        """Compile the loop, so that it does not fail half-way through the data."""
        heads, states = np.zeros((0, 5), np.int64), self.nothing(0)
        trees = EagerTrees(self)
        given = (trees.storage, *trees.fields, heads, states, _NOBODY)
        self.turn(given, (_NONE, states, _NOBODY), TreeWork(), NO_RANGES, RangeResults.room(self, 0))

    @property
    def compiled(self) -> bool:
        """Does it run compiled?"""
        return not self.why_interpreted

    @property
    def leaves(self) -> tuple[Kind, ...]:
        """The kinds of a state's arrays; none interpreted, where it is one array of objects."""
        return tuple(self.layouts.state.leaves) if self.compiled else ()

    def nothing(self, length: int) -> States:
        """Room for states."""
        return tuple(self.layouts.state.allocate(length)) if self.compiled else (np.empty(length, object),)

    def nobody(self) -> Any:
        """No rows to lift."""
        columns: Any = tuple(np.zeros(0, DTYPES[kind]) for kind in self.kinds) if self.compiled else []
        return columns, _NOBODY, _NONE

    def turn(self, trees: Any, rows: Any, work: TreeWork, ranges: Any, found: RangeResults) -> None:
        """Run the loop over trees. Raises TreeFailed."""
        lifted = self.nobody() if work.lifted is None else work.lifted
        progress = np.zeros(2, np.int64)
        changes = (work.emptied, work.built, work.removed, work.inserted)
        out = (found.out, found.valid, found.presence, found.first, found.last, progress)
        arguments = (self.spec, trees, rows, lifted, changes, ranges, work.shorter, out)
        code: Any = self._code
        if code is None:
            code = turn_trees
            if self.compiled:
                code = machine_code(code, self.spec.compiled_as, arguments)
            self._code = code
        try:
            code(*arguments)
        except Exception as error:
            phase, place = progress.tolist()
            raise TreeFailed(phase, place, error) from error

    _code: Any = None


class EagerTrees:
    """The trees of all slots: their pools, and a row of fields a slot. Interpreted, a dict of them."""

    def __init__(self, kernel: EagerKernel) -> None:
        self.kernel = kernel
        width, floats = kernel.spec.widths if kernel.compiled else (AFTER + 1, 0)
        self.fields = np.full((0, width), -1, np.int64), np.zeros((0, floats))
        self.storage: Any = kernel.spec.arena(0) if kernel.compiled else {}

    def grow(self, slots: int, arena: int) -> None:
        """Make room for slots, and for rows in their blocks."""
        ints, floats = self.fields
        if slots > len(ints):
            more = np.full((slots, ints.shape[1]), -1, np.int64), np.zeros((slots, floats.shape[1]))
            more[0][: len(ints)], more[1][: len(floats)] = ints, floats
            self.fields = more
        if self.kernel.compiled:
            made = self.kernel.spec.arena(arena)
            for new, old in zip(made, self.storage, strict=True):
                for leaf, before in zip(new, old, strict=True):
                    leaf[: len(before)] = before
            self.storage = made

    def reset(self, slots: Ints | None) -> None:
        """Let the trees of these slots (None: all) be built again from their rows before they are next used."""
        self.fields[0][slice(None) if slots is None else slots, BUILT] = -1
        if not self.kernel.compiled:
            for slot in list(self.storage) if slots is None else slots.tolist():
                self.storage.pop(slot, None)

    @property
    def nbytes(self) -> int:
        """The memory of the trees; of interpreted ones only what NumPy holds."""
        own = sum(part.nbytes for part in self.fields)
        return own + (sum(leaf.nbytes for pool in self.storage for leaf in pool) if self.kernel.compiled else 0)


class LabelRanges:
    """Ranges of labels to be answered, the first `split` of them before a change; columns as in `eager_windows`."""

    __slots__ = ("split", "table")

    def __init__(self, table: Ints, split: int) -> None:
        self.table, self.split = table, split

    def __len__(self) -> int:
        return len(self.table)


@dataclass(slots=True)
class RangeResults:
    """What an aggregate says of ranges: results, which are valid, and what it sees in each (see `turn_trees`)."""

    out: Any
    valid: Flags
    presence: Ints
    first: Ints
    last: Ints

    @staticmethod
    def room(kernel: EagerKernel, count: int) -> RangeResults:
        """Room for answers."""
        out: Any = kernel.layouts.result.allocate(count) if kernel.compiled else [None] * count
        presence, first, last = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
        return RangeResults(out, np.empty(count, np.bool_), presence, first, last)


class EagerAggregate:
    """One aggregate over the rows of all slots. `anchors`: how many windows of the query have bases."""

    def __init__(self, part: AggregateSpec, anchors: int) -> None:
        self.part, self.anchors = part, anchors
        self.encoder = Aggregate(part, EagerKernel)
        self.kernel: EagerKernel = self.encoder.kernel
        self.exact = is_exact(part)
        self.carries = any(self.encoder.forms[j] == "place" for j in self.encoder.result_of.values())
        """Do results hold codes of which two may stand for equal values?"""
        self.trees = EagerTrees(self.kernel)
        self.states, self.seen = self.kernel.nothing(0), _NOBODY
        self.bases, self.base_seen = self.kernel.nothing(0), _NOBODY
        self.dictionaries: dict[int, Any] = {
            j: (PlaceLog if form == "place" else RankLabels)(kind)
            for j, (form, kind) in enumerate(zip(self.encoder.forms, self.encoder.types, strict=False))
            if form in CODED
        }
        self.words = [word_type(kind) for kind in self.encoder.types]
        self._result = self._plain_result()

    def _plain_result(self) -> pa.DataType | None:
        """The type of results that are one 64-bit number each, as the loops have them; None for others."""
        if not self.kernel.compiled or self.encoder.result_of or isinstance(self.kernel.layouts.result.shape, tuple):
            return None
        (leaf,) = self.kernel.layouts.result.allocate(0)
        kind = self.part.result
        return kind if kind in (pa.int64(), pa.float64()) and word_type(kind) == leaf.dtype else None

    # ---- room ----

    def grow_rows(self, rows: int) -> None:
        """Make room for so many row numbers."""
        if rows > len(self.seen):
            self.states, self.seen = _longer(self.kernel, self.states, self.seen, rows)

    def grow_slots(self, slots: int, arena: int) -> None:
        """Make room for slots and for rows in their blocks."""
        self.trees.grow(slots, arena)
        if slots * self.anchors > len(self.base_seen):
            self.bases, self.base_seen = _longer(self.kernel, self.bases, self.base_seen, slots * self.anchors)

    # ---- rows in ----

    def inputs(self, given_columns: BatchColumns, rids: Ints) -> Any:
        """The inputs of rows, that are to have these numbers, as the loop lifts them. Codes of values may change."""
        encoder, count = self.encoder, len(rids)
        columns = [given_columns[name] for name in self.part.columns]
        own = everyone(count)
        if any(column.null_count for column in columns):
            own = non_null(columns, self.part.monoid.nullable, count)
        if not self.kernel.compiled:
            given = [objects(column, encoder.ours) for column in columns] or [[None] * count]
            return list(zip(*given, strict=True)), own, rids
        if encoder.forms == ("presence",):
            return (np.zeros(count, np.bool_),), own, rids
        encoded = []
        for j, (column, kind) in enumerate(zip(columns, self.kernel.kinds, strict=True)):
            values = self.encoded(j, column)
            encoded.append(values if values.dtype == DTYPES[kind] else values.astype(DTYPES[kind]))
        return tuple(encoded), own, rids

    def encoded(self, j: int, column: pa.Array) -> NDArray[Any]:
        """The values of an input as numbers: as they are, or codes."""
        if j not in self.dictionaries:
            word = self.words[j]
            return numbers(column) if word is None else words_of(column, word)
        dictionary = self.dictionaries[j]
        codes: Ints = dictionary.encode(column)
        if isinstance(dictionary, RankLabels) and dictionary.relabelled is not None:
            self.recode(j, dictionary.relabelled)
        return codes

    # ---- trees ----

    def missing(self, slots: Ints) -> Ints:
        """Those of some slots whose trees are not there."""
        built = self.trees.fields[0]
        if len(slots) == 1:
            return slots if built.item(slots.item(0), BUILT) < 0 else _NONE
        found: Ints = slots[built[slots, BUILT] < 0]
        return found

    def turn(self, work: TreeWork, heads: Ints, labels: Ints, ranges: LabelRanges | None = None) -> RangeResults:
        """Let the trees do what a call wants of them, and answer ranges. Raises TreeFailed."""
        kernel = self.kernel
        found = self._room(0 if ranges is None else len(ranges))
        given: Any = NO_RANGES
        if ranges is not None:
            given = (ranges.table, ranges.split, len(ranges), self.exact, not self.exact)
        bases, states = (self.bases, self.states) if kernel.compiled else (self.bases[0], self.states[0])
        trees = (self.trees.storage, *self.trees.fields, heads, bases, self.base_seen)
        kernel.turn(trees, (labels, states, self.seen), work, given, found)
        return found

    def _room(self, count: int) -> RangeResults:
        """Room for answers, which hold until the next call; small calls share it."""
        if count > FEW_ANSWERS or not self.kernel.compiled:
            return RangeResults.room(self.kernel, count)
        if self._answers is None:
            self._answers = RangeResults.room(self.kernel, FEW_ANSWERS)
        return self._answers

    _answers: RangeResults | None = None

    # ---- results ----

    def column(self, found: RangeResults, ranges: LabelRanges, places: Ints) -> pa.Array:
        """Some results as a column."""
        valid = found.valid[places]
        if self._result is not None and valid.all():  # numbers as they are: in a third of the time
            data = pa.py_buffer(found.out[0][places])
            return pa.Array.from_buffers(self._result, len(places), [None, data])
        if isinstance(found.out, list):
            leaves: Any = [found.out[i] for i in places.tolist()]
        else:
            leaves = tuple(leaf[places] for leaf in found.out)
        empty = valid  # of no use where there is a result
        if self.part.monoid.empty is not None:
            empty = (ranges.table[places, ON] > 0) & (found.presence[places] == 0)
        return self.encoder.column(leaves, valid, empty, self.dictionaries)

    def compare(self, found: RangeResults, ranges: LabelRanges, pairs: Ints, changed: Flags, moved: Any) -> None:
        """Say which results have changed, by pairs of places: exact ones by value, others by what the aggregate sees.

        `moved`: the rows that came and those that went, as slots and numbers; and the labels of all rows.
        """
        if not len(pairs):
            return
        table = ranges.table
        if not self.exact:
            entered, left, labels = moved
            told = (found.presence, found.first, found.last)
            came, went = self._summed(entered), self._summed(left)
            arguments: Any = (pairs, table, told, came, went, labels, self.seen, changed)
            call_loop(eager_changes.compare_inputs, "", arguments)
            return
        if not self.kernel.compiled:
            self._compare_columns(found, ranges, pairs, changed)
            return
        alike = np.empty(len(pairs), np.bool_)
        doubtful, last = 0, len(found.out) - 1
        for i, leaf in enumerate(found.out):
            step = FIRST_LEAF * (i == 0) | LAST_LEAF * (i == last) | CARRIES * self.carries
            arguments = (pairs, table, leaf, found.valid, found.presence, step, alike, changed)
            doubtful = call_loop(eager_changes.compare_values, leaf.dtype.str, arguments)
        if doubtful:
            self._compare_columns(found, ranges, pairs[~alike], changed)

    def _summed(self, rows: tuple[Ints, Ints]) -> tuple[Ints, Ints, Ints]:
        slots, rids = rows
        sums = np.zeros(len(rids) + 1, np.int64)
        if len(rids):
            call_loop(eager_changes.count_seen, "", (rids, self.seen, sums))
        return slots, rids, sums

    def _compare_columns(self, found: RangeResults, ranges: LabelRanges, pairs: Ints, changed: Flags) -> None:
        new, old = (self.column(found, ranges, np.ascontiguousarray(pairs[:, side])) for side in range(2))
        changed[pairs[differ(new, old), 2]] = True

    # ---- dictionaries ----

    def recode(self, j: int, mapped: Callable[[Ints], Ints]) -> None:
        """Codes of an input have changed: change those of every state, and build all trees again."""
        for i, of in self.encoder.state_of.items():
            if of == j:
                for leaf in (self.states[i], self.bases[i]):
                    leaf[:] = mapped(leaf)
        self.trees.reset(None)

    def compact(self, rows: int, live: Callable[[], Ints]) -> None:
        """Drop values from the dictionaries that no state of the rows kept, and no base, holds, where most are not."""
        for j, dictionary in self.dictionaries.items():
            if len(dictionary) > 4096 and len(dictionary) > 4 * (rows + len(self.base_seen)):
                held, kept = [i for i, of in self.encoder.state_of.items() if of == j], live()
                used = [self.states[i][kept] for i in held] + [self.bases[i][self.base_seen] for i in held]
                self.recode(j, dictionary.compact(np.concatenate(used)))

    @property
    def nbytes(self) -> int:
        """The memory of states, trees and dictionaries."""
        own = sum(leaf.nbytes for leaf in (*self.states, *self.bases)) + self.seen.nbytes + self.base_seen.nbytes
        return own + self.trees.nbytes + sum(dictionary.nbytes for dictionary in self.dictionaries.values())


def _longer(kernel: EagerKernel, states: States, flags: Flags, length: int) -> tuple[States, Flags]:
    made, more = kernel.nothing(length), np.zeros(length, np.bool_)
    for new, old in zip(made, states, strict=True):
        new[: len(old)] = old
    more[: len(flags)] = flags
    return made, more


def subset(states: States, places: Ints) -> States:
    """The states at some places."""
    return tuple(leaf[places] for leaf in states)


def stored(aggregate: EagerAggregate, states: States) -> Sequence[pa.Array]:
    """States as columns to keep, values in place of codes."""
    from sash.stores import codec

    encoder = aggregate.encoder
    if not aggregate.kernel.compiled:
        dump = aggregate.part.monoid.dump or codec.dumps
        return [pa.array([None if s is None else dump(s) for s in states[0].tolist()], pa.binary())]
    found = []
    for i, leaf in enumerate(states):
        j = encoder.state_of.get(i)
        found.append(array(np.ascontiguousarray(leaf)) if j is None else aggregate.dictionaries[j].decode(leaf))
    return found
