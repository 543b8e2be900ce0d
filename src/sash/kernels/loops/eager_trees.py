"""The trees of emit="eager", and the loop that runs them: FiBA over labels for each slot and aggregate.

    labels     -3  0  7  8  20         one entry for each row of the slot that the aggregate reads
    window         └─────┘             between(0, 8), in O(log n), for every window of the query

A label is a row's place in its slot's order. Windows are ranges of labels, so that one tree serves all of them. If rows
of a session (or of the key since `forget` last expired it) were dropped, but others of it are retained, the dropped
rows are a partial beside the tree: its `base`.
"""

from __future__ import annotations

from typing import Any

from sash.aggregators.btree import ARITY, CHILD, FLAGS, INNER
from sash.aggregators.fiba import FiBA
from sash.aggregators.time_ordered import Time
from sash.kernels.jit.numba_arrays import column
from sash.kernels.jit.numba_intrinsics import park, restart, resume
from sash.kernels.jit.numba_struct import FIRST
from sash.kernels.loops.eager_windows import BASE, CAPACITY, HIGH, LOW, OFFSET, ON, SLOT, SOME
from sash.kernels.loops.structure_loops import emit
from sash.monoids.algebra import noinline

LIFTING, BUILDING, ASKING, REMOVING, INSERTING, FOLDING = range(6)
"""Phases of the loop. When a monoid raises, `place` is a row of the batch, a row number or a range, by phase."""

BUILT = FIRST
"""The column of a slot's integers that is 0 if its tree is built, -1 if it must be built from its rows."""


class LabelTree(FiBA):
    """FiBA whose times are labels, with the nearest labels of a range.

    >>> from sash.monoids import Sum
    >>> tree = LabelTree(Sum())
    >>> for label in (10, 30, 20): tree.insert(label, label)
    >>> tree.query(15, 30), tree.ceiling(15), tree.floor(29)
    (50, 20, 20)
    """

    @noinline
    def ceiling(self, t: Time) -> Time:
        """The least label that is not below t; t if there is none."""
        node, best = self.root, t
        while True:
            i = self.rank(node, t)
            if i < self.links[node, ARITY] - 1:
                best = self.times[node, i]
            if not self.links[node, FLAGS] & INNER:
                return best
            node = self.links[node, CHILD + i]

    @noinline
    def floor(self, t: Time) -> Time:
        """The greatest label that is not above t; t if there is none."""
        node, best = self.root, t
        while True:
            i = self.rank_through(node, t)
            if i > 0:
                best = self.times[node, i - 1]
            if not self.links[node, FLAGS] & INNER:
                return best
            node = self.links[node, CHILD + i]


def turn_trees(
    spec: Any, trees: Any, rows: Any, lifted: Any, changes: Any, ranges: Any, shorter: Any, out: Any, progress: Any
) -> None:
    """Apply one call to an aggregate's trees, phase by phase.

    It lifts rows, builds missing trees, answers ranges, removes and inserts rows, answers ranges again, and folds
    leaving rows into bases before it evicts them. It is one function so that a tree is compiled once per monoid.

    `ranges`: as in `eager_windows`, how many of them are from before the change, whether those need results, and
    whether to find first and last labels. Presence is 0 for a range without values, else 1 if the tree has values, 2 if
    the base has, or their sum.
    """
    monoid = spec.monoid
    storage, ints, floats, heads, base_states, base_non_null = trees
    labels, states, non_null = rows
    x, z = column(spec.state, states), column(spec.state, base_states)
    results, valid, presence, first, last = out
    y = column(spec.result, results)

    inputs, own, numbers = lifted
    given = column(spec.inputs, inputs)
    progress[1] = LIFTING
    for i in range(len(own)):
        progress[0] = i
        non_null[numbers[i]] = own[i]
        if own[i]:
            x[numbers[i]] = monoid.lift(*given[i])

    emptied, built, removed, inserted = changes
    progress[1] = BUILDING
    for i in range(len(emptied)):
        s = emptied[i]
        tree = resume(spec, storage, ints, floats, s, heads[s, OFFSET], heads[s, CAPACITY], ())
        restart(tree, 0)
        tree.begin()
        park(tree, ints, floats, s)

    asked, split, count, with_old, by_label = ranges
    for turn in range(2):  # before the change, and after it
        slots, rids = built if turn == 0 else inserted
        for i in range(len(slots)):
            s, r = slots[i], rids[i]
            progress[0] = r
            if non_null[r]:
                tree = resume(spec, storage, ints, floats, s, heads[s, OFFSET], heads[s, CAPACITY], ())
                tree.add(labels[r], x[r])
                tree.tidy()
                park(tree, ints, floats, s)
        if turn == 0:
            for i in range(len(emptied)):
                ints[emptied[i], BUILT] = 0
        progress[1] = ASKING
        for i in range(0 if turn == 0 else split, split if turn == 0 else count):
            progress[0] = i
            s, b = asked[i, SLOT], asked[i, BASE]
            wanted = asked[i, ON] > 0 and (turn == 1 or with_old)
            has_base = b >= 0 and base_non_null[b]
            valid[i] = False
            presence[i] = 0
            if asked[i, SOME]:
                tree = resume(spec, storage, ints, floats, s, heads[s, OFFSET], heads[s, CAPACITY], ())
                low, high = asked[i, LOW], asked[i, HIGH]
                found, state = tree.between(low, high, True, True)
                if found:
                    presence[i] = 1
                    if by_label:
                        first[i], last[i] = tree.ceiling(low), tree.floor(high)
                    if wanted:
                        if has_base:
                            emit(y, valid, i, monoid.lower(monoid.combine(z[b], state)))
                        else:
                            emit(y, valid, i, monoid.lower(state))
            if has_base:
                if presence[i] == 0 and wanted:
                    emit(y, valid, i, monoid.lower(z[b]))
                presence[i] += 2
        if turn == 0:
            progress[1] = REMOVING
            slots, rids = removed
            for i in range(len(slots)):
                s, r = slots[i], rids[i]
                progress[0] = r
                if non_null[r]:
                    tree = resume(spec, storage, ints, floats, s, heads[s, OFFSET], heads[s, CAPACITY], ())
                    tree.remove(labels[r])
                    tree.tidy()
                    park(tree, ints, floats, s)
            progress[1] = INSERTING

    folds, cuts = shorter
    progress[1] = FOLDING
    slots, lows, highs, bases, goes_on = folds
    for i in range(len(slots)):
        s, b = slots[i], bases[i]
        progress[0] = s
        tree = resume(spec, storage, ints, floats, s, heads[s, OFFSET], heads[s, CAPACITY], ())
        found, state = tree.between(lows[i], highs[i], True, True)
        if found:
            if goes_on[i] and base_non_null[b]:
                z[b] = monoid.combine(z[b], state)
            else:
                z[b] = state
            base_non_null[b] = True
        elif not goes_on[i]:
            base_non_null[b] = False
    slots, upto = cuts
    for i in range(len(slots)):
        s = slots[i]
        progress[0] = s
        tree = resume(spec, storage, ints, floats, s, heads[s, OFFSET], heads[s, CAPACITY], ())
        tree.cut(upto[i])
        tree.tidy()
        park(tree, ints, floats, s)
