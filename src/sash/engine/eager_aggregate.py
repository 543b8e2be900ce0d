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

from sash.aggregators.window import require
from sash.engine.aggregate_batch import Measure
from sash.engine.arrow_arrays import array
from sash.engine.eager_log import BatchColumns
from sash.engine.input_encoding import CODED, numbers, objects, seen
from sash.engine.plain_arrays import everyone, word_type, words_of
from sash.engine.value_compare import differ
from sash.engine.value_dictionary import PlaceLog, RankLabels
from sash.kernels import eager_changes
from sash.kernels.eager_changes import CARRIES, FIRST_LEAF, LAST_LEAF
from sash.kernels.eager_trees import BUILT, LabelTree, turn_trees
from sash.kernels.eager_windows import ON, RANGE
from sash.kernels.fingerprint import NotKeyed
from sash.kernels.lane import Failed
from sash.kernels.layout import DTYPES, NotColumnar
from sash.kernels.live_lane import call_loop
from sash.kernels.machine import NotCompiled, machine_code
from sash.kernels.run import Interpreted, specify, warn_once
from sash.kernels.state import AFTER
from sash.monoids.algebra import Kind, Monoid
from sash.query.resolved import Part

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
States = tuple[NDArray[Any], ...]

_NONE, _NOBODY = np.zeros(0, np.int64), np.zeros(0, np.bool_)
NO_ROWS = (_NONE, _NONE)
NO_RANGES = (np.zeros((0, RANGE), np.int64), 0, 0, False, False)
NO_CUTS = ((_NONE, _NONE, _NONE, _NONE, _NOBODY), NO_ROWS)


FEW_ANSWERS = 256
"""Ranges up to which the room for answers is used again: to make it takes 5 µs."""


class TreeFailed(Failed):
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


class EagerLane:
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
        self.turn(given, (_NONE, states, _NOBODY), TreeWork(), NO_RANGES, Answers.room(self, 0))

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

    def turn(self, trees: Any, rows: Any, work: TreeWork, ranges: Any, found: Answers) -> None:
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

    def __init__(self, lane: EagerLane) -> None:
        self.lane = lane
        width, floats = lane.spec.widths if lane.compiled else (AFTER + 1, 0)
        self.fields = np.full((0, width), -1, np.int64), np.zeros((0, floats))
        self.storage: Any = lane.spec.arena(0) if lane.compiled else {}

    def grow(self, slots: int, arena: int) -> None:
        """Make room for slots, and for rows in their blocks."""
        ints, floats = self.fields
        if slots > len(ints):
            more = np.full((slots, ints.shape[1]), -1, np.int64), np.zeros((slots, floats.shape[1]))
            more[0][: len(ints)], more[1][: len(floats)] = ints, floats
            self.fields = more
        if self.lane.compiled:
            made = self.lane.spec.arena(arena)
            for new, old in zip(made, self.storage, strict=True):
                for leaf, before in zip(new, old, strict=True):
                    leaf[: len(before)] = before
            self.storage = made

    def reset(self, slots: Ints | None) -> None:
        """Let the trees of these slots (None: all) be built again from their rows before they are next used."""
        self.fields[0][slice(None) if slots is None else slots, BUILT] = -1
        if not self.lane.compiled:
            for slot in list(self.storage) if slots is None else slots.tolist():
                self.storage.pop(slot, None)

    @property
    def nbytes(self) -> int:
        """The memory of the trees; of interpreted ones only what NumPy holds."""
        own = sum(part.nbytes for part in self.fields)
        return own + (sum(leaf.nbytes for pool in self.storage for leaf in pool) if self.lane.compiled else 0)


class Ranges:
    """Ranges of labels to be answered, the first `split` of them before a change; columns as in `eager_windows`."""

    __slots__ = ("split", "table")

    def __init__(self, table: Ints, split: int) -> None:
        self.table, self.split = table, split

    def __len__(self) -> int:
        return len(self.table)


@dataclass(slots=True)
class Answers:
    """What an aggregate says of ranges: results, which are valid, and what it sees in each (see `turn_trees`)."""

    out: Any
    valid: Flags
    presence: Ints
    first: Ints
    last: Ints

    @staticmethod
    def room(lane: EagerLane, count: int) -> Answers:
        """Room for answers."""
        out: Any = lane.layouts.result.allocate(count) if lane.compiled else [None] * count
        presence, first, last = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
        return Answers(out, np.empty(count, np.bool_), presence, first, last)


class EagerAggregate:
    """One aggregate over the rows of all slots. `anchors`: how many windows of the query have bases."""

    def __init__(self, part: Part, anchors: int) -> None:
        self.part, self.anchors = part, anchors
        self.measure = Measure(part, EagerLane)
        self.lane: EagerLane = self.measure.lane
        self.exact = is_exact(part)
        self.carries = any(self.measure.forms[j] == "place" for j in self.measure.result_of.values())
        """Do results hold codes of which two may stand for equal values?"""
        self.trees = EagerTrees(self.lane)
        self.states, self.seen = self.lane.nothing(0), _NOBODY
        self.bases, self.base_seen = self.lane.nothing(0), _NOBODY
        self.dictionaries: dict[int, Any] = {
            j: (PlaceLog if form == "place" else RankLabels)(kind)
            for j, (form, kind) in enumerate(zip(self.measure.forms, self.measure.types, strict=False))
            if form in CODED
        }
        self.words = [word_type(kind) for kind in self.measure.types]
        self._result = self._plain_result()

    def _plain_result(self) -> pa.DataType | None:
        """The type of results that are one 64-bit number each, as the loops have them; None for others."""
        if not self.lane.compiled or self.measure.result_of or isinstance(self.lane.layouts.result.shape, tuple):
            return None
        (leaf,) = self.lane.layouts.result.allocate(0)
        kind = self.part.result
        return kind if kind in (pa.int64(), pa.float64()) and word_type(kind) == leaf.dtype else None

    # ---- room ----

    def grow_rows(self, rows: int) -> None:
        """Make room for so many row numbers."""
        if rows > len(self.seen):
            self.states, self.seen = _longer(self.lane, self.states, self.seen, rows)

    def grow_slots(self, slots: int, arena: int) -> None:
        """Make room for slots and for rows in their blocks."""
        self.trees.grow(slots, arena)
        if slots * self.anchors > len(self.base_seen):
            self.bases, self.base_seen = _longer(self.lane, self.bases, self.base_seen, slots * self.anchors)

    # ---- rows in ----

    def inputs(self, given_columns: BatchColumns, rids: Ints) -> Any:
        """The inputs of rows, that are to have these numbers, as the loop lifts them. Codes of values may change."""
        measure, count = self.measure, len(rids)
        columns = [given_columns[name] for name in self.part.columns]
        own = everyone(count)
        if any(column.null_count for column in columns):
            own = seen(columns, self.part.monoid.nullable, count)
        if not self.lane.compiled:
            given = [objects(column, measure.ours) for column in columns] or [[None] * count]
            return list(zip(*given, strict=True)), own, rids
        if measure.forms == ("presence",):
            return (np.zeros(count, np.bool_),), own, rids
        encoded = []
        for j, (column, kind) in enumerate(zip(columns, self.lane.kinds, strict=True)):
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

    def turn(self, work: TreeWork, heads: Ints, labels: Ints, ranges: Ranges | None = None) -> Answers:
        """Let the trees do what a call wants of them, and answer ranges. Raises TreeFailed."""
        lane = self.lane
        found = self._room(0 if ranges is None else len(ranges))
        given: Any = NO_RANGES
        if ranges is not None:
            given = (ranges.table, ranges.split, len(ranges), self.exact, not self.exact)
        bases, states = (self.bases, self.states) if lane.compiled else (self.bases[0], self.states[0])
        trees = (self.trees.storage, *self.trees.fields, heads, bases, self.base_seen)
        lane.turn(trees, (labels, states, self.seen), work, given, found)
        return found

    def _room(self, count: int) -> Answers:
        """Room for answers, which hold until the next call; small calls share it."""
        if count > FEW_ANSWERS or not self.lane.compiled:
            return Answers.room(self.lane, count)
        if self._answers is None:
            self._answers = Answers.room(self.lane, FEW_ANSWERS)
        return self._answers

    _answers: Answers | None = None

    # ---- results ----

    def column(self, found: Answers, ranges: Ranges, places: Ints) -> pa.Array:
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
        return self.measure.column(leaves, valid, empty, self.dictionaries)

    def compare(self, found: Answers, ranges: Ranges, pairs: Ints, changed: Flags, moved: Any) -> None:
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
        if not self.lane.compiled:
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

    def _compare_columns(self, found: Answers, ranges: Ranges, pairs: Ints, changed: Flags) -> None:
        new, old = (self.column(found, ranges, np.ascontiguousarray(pairs[:, side])) for side in range(2))
        changed[pairs[differ(new, old), 2]] = True

    # ---- dictionaries ----

    def recode(self, j: int, mapped: Callable[[Ints], Ints]) -> None:
        """Codes of an input have changed: change those of every state, and build all trees again."""
        for i, of in self.measure.state_of.items():
            if of == j:
                for leaf in (self.states[i], self.bases[i]):
                    leaf[:] = mapped(leaf)
        self.trees.reset(None)

    def compact(self, live: Ints) -> None:
        """Drop values from the dictionaries that no state of these rows, and no base, holds, where most are unused."""
        for j, dictionary in self.dictionaries.items():
            if len(dictionary) > 4096 and len(dictionary) > 4 * (len(live) + len(self.base_seen)):
                held = [i for i, of in self.measure.state_of.items() if of == j]
                used = [self.states[i][live] for i in held] + [self.bases[i][self.base_seen] for i in held]
                self.recode(j, dictionary.compact(np.concatenate(used)))

    @property
    def nbytes(self) -> int:
        """The memory of states, trees and dictionaries."""
        own = sum(leaf.nbytes for leaf in (*self.states, *self.bases)) + self.seen.nbytes + self.base_seen.nbytes
        return own + self.trees.nbytes + sum(dictionary.nbytes for dictionary in self.dictionaries.values())


def _longer(lane: EagerLane, states: States, flags: Flags, length: int) -> tuple[States, Flags]:
    made, more = lane.nothing(length), np.zeros(length, np.bool_)
    for new, old in zip(made, states, strict=True):
        new[: len(old)] = old
    more[: len(flags)] = flags
    return made, more


def is_exact(part: Part) -> bool:
    """Is the aggregate exact on columns of these types? A sum is of integers, and is not of floats."""
    tests = (("bool", pa.types.is_boolean), ("int", pa.types.is_integer), ("float", pa.types.is_floating))
    kinds: list[Any] = [kind for column in part.types for kind, holds in tests if holds(column)]
    if len(kinds) < len(part.types) or part.monoid.interpreted_only:
        return part.monoid.exact
    return part.monoid.typed(*kinds).exact


def subset(states: States, places: Ints) -> States:
    """The states at some places."""
    return tuple(leaf[places] for leaf in states)


def stored(aggregate: EagerAggregate, states: States) -> Sequence[pa.Array]:
    """States as columns to keep, values in place of codes."""
    from sash.stores import codec

    measure = aggregate.measure
    if not aggregate.lane.compiled:
        dump = aggregate.part.monoid.dump or codec.dumps
        return [pa.array([None if s is None else dump(s) for s in states[0].tolist()], pa.binary())]
    found = []
    for i, leaf in enumerate(states):
        j = measure.state_of.get(i)
        found.append(array(np.ascontiguousarray(leaf)) if j is None else aggregate.dictionaries[j].decode(leaf))
    return found
