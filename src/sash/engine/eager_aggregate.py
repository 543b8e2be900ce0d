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
from sash.engine import eager_tree
from sash.engine.aggregate_batch import Measure
from sash.engine.arrow_arrays import array
from sash.engine.eager_tree import BUILT, LabelTree
from sash.engine.input_encoding import CODED, numbers, objects, seen
from sash.engine.keys import plain
from sash.engine.value_compare import differ
from sash.engine.value_dictionary import PlaceLog, RankLabels
from sash.kernels.fingerprint import NotKeyed
from sash.kernels.lane import Failed
from sash.kernels.layout import DTYPES, NotColumnar
from sash.kernels.machine import NotCompiled, machine_code
from sash.kernels.run import Interpreted, specify, warn_once
from sash.kernels.state import AFTER
from sash.monoids.algebra import Kind, Monoid
from sash.query.resolved import Part

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
States = tuple[NDArray[Any], ...]

_NONE, _NOBODY = np.zeros(0, np.int64), np.zeros(0, np.bool_)


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
        """Compile the loops that every query needs, so that none fails half-way through the data."""
        bare = EagerTrees(self)
        heads, progress = np.zeros((0, 5), np.int64), np.zeros(1, np.int64)
        states = self.nothing(0)
        columns = tuple(np.zeros(0, DTYPES[kind]) for kind in self.kinds)
        self.lift(columns, _NOBODY, _NONE, (states, _NOBODY))
        trees = (self.spec, bare.storage, bare.fields)
        asked = (_NONE, _NONE, _NONE, _NOBODY, _NONE, _NOBODY, False)
        room = (self.layouts.result.allocate(0), _NOBODY, _NONE, _NONE, _NONE)
        self.call(eager_tree.ask_trees, (*trees, heads, (states, _NOBODY), asked, room, progress))
        nobody = (_NONE, _NONE)
        self.call(eager_tree.insert_rows, (*trees, heads, _NONE, nobody, (_NONE, states, _NOBODY), progress))
        folds = (_NONE, _NONE, _NONE, _NONE, _NOBODY)
        self.call(eager_tree.shorten_trees, (*trees, heads, (states, _NOBODY), folds, nobody))

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

    def cells(self, states: States) -> Any:
        """States as the loops take them."""
        return states if self.compiled else states[0]

    def call(self, kernel: Any, arguments: tuple[Any, ...]) -> None:
        """Run a loop over trees."""
        code = machine_code(kernel, self.spec.compiled_as, arguments) if self.compiled else kernel
        code(*arguments)

    def lift(self, columns: Any, own: Flags, rids: Ints, out: tuple[States, Flags]) -> None:
        """The states of rows under their numbers. Raises Failed, with the row."""
        progress = np.zeros(1, np.int64)
        states, seen_of = out
        kernel: Any = eager_tree.lift_rows
        if self.compiled:
            inputs = tuple(np.ascontiguousarray(c, DTYPES[k]) for c, k in zip(columns, self.kinds, strict=True))
            layouts = (self.layouts.inputs, self.layouts.state)
            arguments: Any = (self.monoid, layouts, inputs, own, rids, (states, seen_of), progress)
            kernel = machine_code(kernel, (self.spec.compiled_as.state.monoid, self.kinds), arguments)
        else:
            rows = list(zip(*columns, strict=True)) if columns else [()] * len(own)
            arguments = (self.monoid, (None, None), rows, own, rids, (states[0], seen_of), progress)
        try:
            kernel(*arguments)
        except Exception as error:
            raise Failed(int(progress[0]), error) from error


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


@dataclass
class Asked:
    """Ranges of labels to be answered: for each its slot, its bounds, whether it holds a row, its base, and `on`."""

    slots: Ints
    los: Ints
    his: Ints
    some: Flags
    base: Ints
    on: Flags


@dataclass
class Answers:
    """What an aggregate says of ranges: results, which are valid, and what it sees in each (see `ask_trees`)."""

    out: Any
    valid: Flags
    presence: Ints
    first: Ints
    last: Ints
    on: Flags


class EagerAggregate:
    """One aggregate over the rows of all slots. `anchors`: how many windows of the query have bases."""

    def __init__(self, part: Part, anchors: int) -> None:
        self.part, self.anchors = part, anchors
        self.measure = Measure(part, EagerLane)
        self.lane: EagerLane = self.measure.lane
        self.exact = is_exact(part)
        self.trees = EagerTrees(self.lane)
        self.states, self.seen = self.lane.nothing(0), _NOBODY
        self.bases, self.base_seen = self.lane.nothing(0), _NOBODY
        self.dictionaries: dict[int, Any] = {
            j: (PlaceLog if form == "place" else RankLabels)(kind)
            for j, (form, kind) in enumerate(zip(self.measure.forms, self.measure.types, strict=False))
            if form in CODED
        }

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

    def lift(self, table: pa.RecordBatch, rids: Ints) -> None:
        """Take rows under these numbers. Raises Failed."""
        measure, count = self.measure, table.num_rows
        columns = [plain(table.column(name)) for name in self.part.columns]
        own = seen(columns, self.part.monoid.nullable, count)
        given: Any
        if not self.lane.compiled:
            given = [objects(column, measure.ours) for column in columns] or [[None] * count]
        elif measure.forms == ("presence",):
            given = [np.zeros(count, np.bool_)]
        else:
            given = [self.encoded(j, column) for j, column in enumerate(columns)]
        self.lane.lift(given, own, rids, (self.states, self.seen))

    def encoded(self, j: int, column: pa.Array) -> NDArray[Any]:
        """The values of an input as numbers: as they are, or codes."""
        if j not in self.dictionaries:
            return numbers(column)
        dictionary = self.dictionaries[j]
        codes: Ints = dictionary.encode(column)
        if isinstance(dictionary, RankLabels) and dictionary.relabelled is not None:
            self.recode(j, dictionary.relabelled)
        return codes

    # ---- trees ----

    def missing(self, slots: Ints) -> Ints:
        """Those of some slots whose trees are not there."""
        found: Ints = slots[self.trees.fields[0][slots, BUILT] < 0]
        return found

    def build(self, slots: Ints, rows: tuple[Ints, Ints], heads: Ints, labels: Ints) -> None:
        """Build trees from all rows of their slots: slots and row numbers. Raises Failed, with the number."""
        self._insert(slots, rows, heads, labels)

    def insert(self, rows: tuple[Ints, Ints], heads: Ints, labels: Ints) -> None:
        """Put rows into their trees: slots and row numbers. Raises Failed, with the number."""
        self._insert(_NONE, rows, heads, labels)

    def _insert(self, emptied: Ints, inserted: tuple[Ints, Ints], heads: Ints, labels: Ints) -> None:
        rows = (labels, self.lane.cells(self.states), self.seen)
        self._run(eager_tree.insert_rows, lambda progress: (heads, emptied, inserted, rows, progress))

    def remove(self, rows: tuple[Ints, Ints], heads: Ints, labels: Ints) -> None:
        """Take rows out of their trees: slots and row numbers. Raises Failed, with the number."""
        self._run(eager_tree.remove_rows, lambda progress: (heads, rows, labels, self.seen, progress))

    def ask(self, asked: Asked, heads: Ints, valued: bool = True) -> Answers:
        """Answer ranges; `valued`: with results, not only with what the aggregate sees. Raises Failed."""
        count = len(asked.slots)
        out: Any = self.lane.layouts.result.allocate(count) if self.lane.compiled else [None] * count
        low, high, last = (np.zeros(count, np.int64) for _ in range(3))
        found = Answers(out, np.zeros(count, np.bool_), low, high, last, asked.on)
        if not count:
            return found
        wanted = asked.on if valued else np.zeros(count, np.bool_)
        ranges = (asked.slots, asked.los, asked.his, asked.some, asked.base, wanted, not self.exact)
        bases = (self.lane.cells(self.bases), self.base_seen)
        room = (out, found.valid, found.presence, found.first, found.last)
        self._run(eager_tree.ask_trees, lambda progress: (heads, bases, ranges, room, progress))
        return found

    def shorten(self, folds: Any, cuts: tuple[Ints, Ints], heads: Ints) -> None:
        """Cut the oldest rows off their trees, folded into bases (see `shorten_trees`). Raises Failed."""
        bases = (self.lane.cells(self.bases), self.base_seen)
        self._run(eager_tree.shorten_trees, lambda progress: (heads, bases, folds, cuts))

    def _run(self, kernel: Any, more: Callable[[Ints], tuple[Any, ...]]) -> None:
        progress = np.full(1, -1, np.int64)
        try:
            self.lane.call(kernel, (self.lane.spec, self.trees.storage, self.trees.fields, *more(progress)))
        except Exception as error:
            raise Failed(int(progress[0]), error) from error

    # ---- results ----

    def column(self, found: Answers, places: Ints) -> pa.Array:
        """Some results as a column."""
        out = [found.out[i] for i in places.tolist()] if isinstance(found.out, list) else None
        leaves = tuple(leaf[places] for leaf in found.out) if out is None else out
        empty = found.on[places] & (found.presence[places] == 0)
        return self.measure.column(leaves, found.valid[places], empty, self.dictionaries)

    def differing(self, new: Answers, places: Ints, old: Answers, others: Ints) -> Flags:
        """Which results differ, place by place: exact ones by value, others by what the aggregate sees."""
        there, before = new.presence[places], old.presence[others]
        if not self.exact:
            moved = (new.first[places] != old.first[others]) | (new.last[places] != old.last[others])
            return (there != before) | (moved & (there & 1 == 1)) | (new.on[places] != old.on[others])
        found = np.zeros(len(places), np.bool_)
        if self.lane.compiled:
            alike = (new.valid[places] == old.valid[others]) & ((there == 0) == (before == 0))
            alike &= new.on[places] == old.on[others]
            for one, other in zip(new.out, old.out, strict=True):
                a, b = one[places], other[others]
                alike &= (a == b) | ((a != a) & (b != b)) | ~new.valid[places]
            found = ~alike & new.valid[places] & old.valid[others] & (not self._carries)
            doubtful = np.flatnonzero(~alike & ~found)
        else:
            doubtful = np.arange(len(places))
        if len(doubtful):
            pair = self.column(new, places[doubtful]), self.column(old, others[doubtful])
            found[doubtful] = differ(*pair)
        return found

    @property
    def _carries(self) -> bool:
        """Do results hold codes of which two may stand for equal values?"""
        return any(self.measure.forms[j] == "place" for j in self.measure.result_of.values())

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
