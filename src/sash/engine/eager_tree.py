"""The tree of a slot and an aggregate, and the loops that run it: FiBA over labels, in flat arrays or as an object.

    labels     -3  0  7  8  20         one entry for each row of the slot that the aggregate sees
    window         └─────┘             between(0, 8), in O(log n), for every window of the query

A label is a row's place in its slot's order. Windows are ranges of labels, so that one tree serves all of them. What
came before the rows that are kept, in the session or life of the oldest, is a partial beside the tree: its `base`.
"""

from __future__ import annotations

from typing import Any

from sash.aggregators.fiba import FiBA
from sash.aggregators.nodes import ARITY, CHILD, FLAGS, INNER
from sash.aggregators.timed import Time
from sash.aggregators.window import apart
from sash.engine.eager_loops import CAPACITY, OFFSET
from sash.kernels.columns import column
from sash.kernels.drive import emit
from sash.kernels.state import FIRST, park, restart, resume

BUILT = FIRST
"""The column of a slot's integers that says whether its tree is built (0), or to be built from its rows (-1)."""


class LabelTree(FiBA):
    """FiBA whose times are labels, with the nearest labels of a range.

    >>> from sash.monoids import Sum
    >>> tree = LabelTree(Sum())
    >>> for label in (10, 30, 20): tree.insert(label, label)
    >>> tree.query(15, 30), tree.ceiling(15), tree.floor(29)
    (50, 20, 20)
    """

    @apart
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

    @apart
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


def lift_rows(monoid: Any, layouts: Any, rows: Any, seen: Any, rids: Any, out: Any, progress: Any) -> None:
    """Write the state of each row that the aggregate sees under its row number."""
    inputs, state = layouts
    states, seen_of = out
    x, y = column(inputs, rows), column(state, states)
    for i in range(len(seen)):
        progress[0] = i
        seen_of[rids[i]] = seen[i]
        if seen[i]:
            y[rids[i]] = monoid.lift(*x[i])


def ask_trees(
    spec: Any, storage: Any, fields: Any, heads: Any, bases: Any, asked: Any, out: Any, progress: Any
) -> None:
    """The result over each range of labels, and the least and greatest label in it that the aggregate sees.

    `presence` is 0 where it sees nothing, else 1 for what the tree has and 2 for what the base has, or their sum.
    """
    monoid = spec.monoid
    ints, floats = fields
    base_states, base_seen = bases
    slots, los, his, some, base, wanted, by_label = asked
    results, valid, presence, first, last = out
    y, z = column(spec.result, results), column(spec.state, base_states)
    for i in range(len(slots)):
        progress[0] = i
        s, b = slots[i], base[i]
        tree = resume(spec, storage, ints, floats, s, heads[s, OFFSET], heads[s, CAPACITY])
        valid[i] = False
        presence[i] = 0
        has_base = b >= 0 and base_seen[b]
        if some[i]:
            found, state = tree.between(los[i], his[i], True, True)
            if found:
                presence[i] = 1
                if by_label:
                    first[i], last[i] = tree.ceiling(los[i]), tree.floor(his[i])
                if wanted[i]:
                    if has_base:
                        emit(y, valid, i, monoid.lower(monoid.combine(z[b], state)))
                    else:
                        emit(y, valid, i, monoid.lower(state))
        if has_base:
            if presence[i] == 0 and wanted[i]:
                emit(y, valid, i, monoid.lower(z[b]))
            presence[i] += 2


def insert_rows(
    spec: Any, storage: Any, fields: Any, heads: Any, emptied: Any, inserted: Any, rows: Any, progress: Any
) -> None:
    """Empty the trees of some slots, and put rows into trees."""
    ints, floats = fields
    labels, states, seen = rows
    x = column(spec.state, states)
    for i in range(len(emptied)):
        s = emptied[i]
        tree = resume(spec, storage, ints, floats, s, heads[s, OFFSET], heads[s, CAPACITY])
        restart(tree)
        tree.begin()
        park(tree, ints, floats, s)
    slots, rids = inserted
    for i in range(len(slots)):
        s, r = slots[i], rids[i]
        progress[0] = r
        if seen[r]:
            tree = resume(spec, storage, ints, floats, s, heads[s, OFFSET], heads[s, CAPACITY])
            tree.add(labels[r], x[r])
            tree.tidy()
            park(tree, ints, floats, s)
    for i in range(len(emptied)):
        ints[emptied[i], BUILT] = 0


def remove_rows(
    spec: Any, storage: Any, fields: Any, heads: Any, removed: Any, labels: Any, seen: Any, progress: Any
) -> None:
    """Take rows out of trees."""
    ints, floats = fields
    slots, rids = removed
    for i in range(len(slots)):
        s, r = slots[i], rids[i]
        progress[0] = r
        if seen[r]:
            tree = resume(spec, storage, ints, floats, s, heads[s, OFFSET], heads[s, CAPACITY])
            tree.remove(labels[r])
            tree.tidy()
            park(tree, ints, floats, s)


def shorten_trees(spec: Any, storage: Any, fields: Any, heads: Any, bases: Any, folds: Any, cuts: Any) -> None:
    """Fold what leaves into the bases of the windows that need it, then cut it off.

    Of each fold: the slot, the labels from and to, the base, and whether that goes on (else it begins anew).
    """
    monoid = spec.monoid
    ints, floats = fields
    base_states, base_seen = bases
    z = column(spec.state, base_states)
    slots, los, his, base, goes_on = folds
    for i in range(len(slots)):
        s, b = slots[i], base[i]
        tree = resume(spec, storage, ints, floats, s, heads[s, OFFSET], heads[s, CAPACITY])
        found, state = tree.between(los[i], his[i], True, True)
        if found:
            if goes_on[i] and base_seen[b]:
                z[b] = monoid.combine(z[b], state)
            else:
                z[b] = state
            base_seen[b] = True
        elif not goes_on[i]:
            base_seen[b] = False
    slots, upto = cuts
    for i in range(len(slots)):
        s = slots[i]
        tree = resume(spec, storage, ints, floats, s, heads[s, OFFSET], heads[s, CAPACITY])
        tree.cut(upto[i])
        tree.tidy()
        park(tree, ints, floats, s)
