"""FlatFAT, the flat fixed-sized aggregator: a complete binary tree in one array, its leaves a circular buffer.

Tangwongsan, Hirzel, Schneider, Wu: General Incremental Sliding-Window Aggregation, PVLDB 8(7), 2015 (the
Reactive Aggregator), sections 4 and 5.

Needs nothing but associativity. An insert or evict changes a leaf and takes no ⊕. The query propagates all
changes at once, at most m(1 + ⌈log2(c/m)⌉) ⊕ for m changed leaves of c, and reads the root, or if the buffer has
wrapped its suffix and its prefix, at most 2 log2 c ⊕; together never more than n - 1, as after a resize. Elements
may leave in any order (`evict_at`) and be replaced (`update`). Space 2c: c doubles when full, halves below n = c/4.

                             1: ×                        c = 8, the window is [6, 13)
                  2: 8…11             3: ×
             4: 8,9   5: 10,11   6: 12    7: 6,7         node v has the children 2v and 2v + 1
    leaves   8    9   10   11    12   ·   6    7         position p is in leaf c + p mod c
                                      E   F
    query: 7 ⊕ 2 ⊕ 6

Positions are absolute: window order is their order, however often the buffer has wrapped. Block b of level l
is the positions from b·2^l up to (b + 1)·2^l, its node the one above their leaves. The paths up from the oldest
and from the youngest leaf meet in a node of level `meet`. If the buffer has wrapped (is *inverted*), that node
and those above it (×) contain both ends in the wrong order: they are neither computed nor read.

Invariant: all other nodes with elements below them are ⊕ over these, except for changes that are not yet propagated.
In a first-in, first-out window positions identify the changes since the last query: the elements [old_end, E) were
inserted and [old_front, F) evicted. From an `evict_at` or `update` on, until the next resize, every change is marked,
in `dirty` for each node above it. A hole contains the identity; `holes` counts the holes below each node, so that
elements are found by number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sash.aggregators.base import State, expect, fold
from sash.aggregators.in_order import RangeQuery, checked_integer
from sash.aggregators.storage import Ints, Queue

FLOOR = 2
"""The height at which the tree stops shrinking: four leaves."""


class FlatFAT(RangeQuery):
    """A tree of aggregates that the query updates; elements may leave from anywhere.

    >>> from sash.monoids import Max
    >>> window = FlatFAT(Max())
    >>> for x in (3, 1, 2, 0): window.insert(x)
    >>> window.evict(); window.query()
    2
    >>> window.evict_at(1); window.query(), window.prefix(1), window.suffix(1)
    (1, 1, 0)
    """

    nodes: Queue
    holes: Ints
    dirty: Ints
    height: int
    F: int
    E: int
    old_front: int
    old_end: int
    meet: int
    gone: int
    marking: bool

    def size(self) -> int:
        return self.E - self.F - self.gone

    def push(self, v: State) -> None:
        if 1 << self.height == self.E - self.F:  # full: remove the holes, or double the buffer if there are few
            self.rebuild(self.height if 4 * self.size() <= 3 << self.height else self.height + 1)
        leaf = self.node(0, self.E)
        self.nodes[leaf] = v
        if self.marking:
            self.mark_above(leaf)
        self.E += 1

    def pop(self) -> None:
        if self.marking:
            self.change(self.F, self.identity, 0)
        else:
            self.empty_front()
        self.F += 1
        self.trim()

    def remove(self, i: int) -> None:
        """Remove the i-th oldest element; not the oldest."""
        self.start_marking()
        self.change(self.find(i), self.identity, 1)
        self.gone += 1
        self.trim()

    def replace(self, i: int, v: State) -> None:
        """Replace the i-th oldest element by v."""
        self.start_marking()
        self.change(self.find(i), v, 0)

    def aggregate(self) -> State:
        if self.F == self.E:
            return self.identity
        self.propagate()
        if not self.inverted():
            return self.nodes[1]
        level = self.meet - 1
        v = self.node(level, self.F >> level)
        suffix = self.nodes[v]
        prefix = self.nodes[self.node(level, (self.E - 1) >> level)]
        v >>= 1
        while v > 1:
            if v & 1:
                prefix = self.combine(self.nodes[v - 1], prefix)
            else:
                suffix = self.combine(suffix, self.nodes[v + 1])
            v >>= 1
        return self.combine(suffix, prefix)

    def block(self, level: int, block: int) -> State:
        return self.nodes[self.node(level, block)]

    # ---- places ----

    def node(self, level: int, block: int) -> int:
        """The node of a block; on level 0 the leaf of a position."""
        width = 1 << (self.height - level)
        return width + (block & (width - 1))

    def inverted(self) -> bool:
        """Has the buffer wrapped between the oldest and the youngest element?"""
        return self.F >> self.height != (self.E - 1) >> self.height

    def meeting(self) -> int:
        """The level on which the paths up from the oldest and the youngest leaf meet; of a single leaf, 1."""
        apart = (self.F ^ (self.E - 1)) & ((1 << self.height) - 1)
        level = 1
        while apart > 1:
            apart >>= 1
            level += 1
        return level

    def find(self, i: int) -> int:
        """The position of the i-th oldest element: skip the largest possible blocks, then descend into its block."""
        if self.gone == 0:
            return self.F + i
        position = self.F
        level = 0
        while i >= self.inside(level, position):
            i -= self.inside(level, position)
            position += 1 << level
            if not (position >> level) & 1:
                level += 1
        while level > 0:
            level -= 1
            if i >= self.inside(level, position):
                i -= self.inside(level, position)
                position += 1 << level
        return position

    def inside(self, level: int, start: int) -> int:
        """The number of elements of a block from `start` on; a sufficient number if it reaches the window's end."""
        end = start + (1 << level)
        return end - start - self.holes[self.node(level, start >> level)] if end < self.E else self.E - self.F

    # ---- changes ----

    def empty_front(self) -> None:
        """Release the oldest element, and the nodes above it that were not released since the last query."""
        for level in range(self.height + 1):
            if level > 0 and self.old_front < self.F and self.F & ((1 << level) - 1):
                break
            self.nodes.forget(self.node(level, self.F >> level))

    def start_marking(self) -> None:
        """Start marking changes; marks those since the last query."""
        if self.marking:
            return
        self.marking = True
        for v in range(2 << self.height):
            self.holes[v] = 0
            self.dirty[v] = 0
        if self.old_front < self.F:
            self.mark_above(self.node(0, self.old_front))
            self.mark_above(self.node(0, self.F - 1))
        for position in range(max(self.old_end, self.F), self.E):
            self.mark_above(self.node(0, position))

    def mark_above(self, v: int) -> None:
        """Mark all nodes above v; those above a marked one are marked."""
        v >>= 1
        while v > 0 and not self.dirty[v]:
            self.dirty[v] = 1
            v >>= 1

    def change(self, position: int, value: State, hole: int) -> None:
        """Write a leaf and count a hole there; mark and release the nodes above."""
        v = self.node(0, position)
        self.nodes[v] = value
        self.holes[v] += hole
        while v > 1:
            v >>= 1
            self.nodes.forget(v)
            self.dirty[v] = 1
            self.holes[v] += hole

    def trim(self) -> None:
        """After an eviction: skip holes at either end, and halve a buffer that is less than a quarter full."""
        while self.gone > 0 and self.holes[self.node(0, self.F)]:
            self.fill(self.F)
            self.F += 1
        while self.gone > 0 and self.holes[self.node(0, self.E - 1)]:
            self.E -= 1
            self.fill(self.E)
        if self.height > FLOOR and 4 * self.size() < 1 << self.height:
            self.rebuild(self.height - 1)

    def fill(self, position: int) -> None:
        """Count one hole less."""
        self.gone -= 1
        for level in range(self.height + 1):
            self.holes[self.node(level, position >> level)] -= 1

    def rebuild(self, height: int) -> None:
        """Move the elements, in window order and without holes, to the leaves of a tree of this height.

        Leaves of different heights do not overlap; within one height positions only decrease: nothing is overwritten
        before it has moved. The next query computes the nodes above.
        """
        leaves = 1 << height
        position = self.F
        for old in range(self.F, self.E):
            if self.gone == 0 or not self.holes[self.node(0, old)]:
                self.nodes[leaves + (position & (leaves - 1))] = self.nodes[self.node(0, old)]
                position += 1
        for free in range(position, self.F + leaves):
            self.nodes[leaves + (free & (leaves - 1))] = self.identity
        for v in range(1, leaves):
            self.nodes[v] = self.identity
        for v in range((2 << self.height) - 1, 2 * leaves - 1, -1):
            self.nodes.drop_back(v)
        self.holes.drop_all()
        self.dirty.drop_all()
        self.height = height
        self.E = position
        self.old_front = self.old_end = self.F
        self.gone = 0
        self.marking = False

    @classmethod
    def slots(cls, _field: str, largest: int) -> int:
        """Two slots for each leaf; with holes there may be twice as many leaves as elements."""
        return 4 << max(largest - 1, 1).bit_length()

    # ---- propagation ----

    def propagate(self) -> None:
        """Compute the nodes above all changes, each once."""
        if self.marking:
            self.propagate_marks()
        elif self.old_front != self.F or self.old_end != self.E:
            self.propagate_positions()
        self.old_front = self.F
        self.old_end = self.E

    def propagate_marks(self) -> None:
        """Compute the marked nodes: descend to one with no marked node below it, then go up again."""
        self.meet = self.meeting()
        v = self.dirty[1]
        level = self.height
        while v > 0:
            if self.dirty[2 * v] or self.dirty[2 * v + 1]:
                v = 2 * v + 1 - self.dirty[2 * v]
                level -= 1
                continue
            first = self.F >> level
            block = first + ((v - first) & ((1 << (self.height - level)) - 1))
            middle = (2 * block + 1) << (level - 1)
            wrong = block == first and level >= self.meet and self.inverted()
            if block << level < self.E and not wrong:
                if middle <= self.F:
                    self.nodes[v] = self.nodes[2 * v + 1]
                elif middle >= self.E:
                    self.nodes[v] = self.nodes[2 * v]
                else:
                    self.nodes[v] = self.combine(self.nodes[2 * v], self.nodes[2 * v + 1])
            self.dirty[v] = 0
            v >>= 1
            level += 1

    def propagate_positions(self) -> None:
        """Compute the blocks between the two paths, level by level; both paths, up to their meeting; the nodes above.

        Besides blocks with new elements, the formerly youngest block may have shared a node with the oldest from level
        `wrong` on, and have it alone now.
        """
        came = max(self.old_end, self.F)
        young = self.E - 1
        wrong = self.height + 1
        low = came
        if self.old_front >> self.height < (self.old_end - 1) >> self.height:
            wrong = self.meet
            low = self.old_end - 1
        level = 1
        while low >> level < young >> level:
            start = (low if level >= wrong else came) >> level
            for block in range(max(start, (self.F >> level) + 1), young >> level):
                v = self.node(level, block)
                self.nodes[v] = self.combine(self.nodes[2 * v], self.nodes[2 * v + 1])
            level += 1
        self.meet = self.meeting()
        v = self.node(0, self.F)
        level = 1
        while level < self.meet and not (v & 1 and self.old_front < self.F) and came >> level != self.F >> level:
            v >>= 1
            level += 1
        suffix = self.nodes[v]
        while level < self.meet:
            if not v & 1:
                suffix = self.combine(suffix, self.nodes[v + 1])
            v >>= 1
            level += 1
            self.nodes[v] = suffix
        level = 1 if came < self.E else min(wrong, self.meet)
        w = self.node(0, young) >> (level - 1)
        prefix = self.nodes[w]
        while level < self.meet:
            if w & 1:
                prefix = self.combine(self.nodes[w - 1], prefix)
            w >>= 1
            level += 1
            self.nodes[w] = prefix
        if not self.inverted():
            total = suffix if v == w else self.combine(suffix, prefix)
            v >>= 1
            while v > 0:
                self.nodes[v] = total
                v >>= 1

    # ---- what users call, in addition to the methods of all structures ----

    def evict_at(self, i: int) -> None:
        """Remove the i-th oldest element, counted from 0. Raises IndexError if there is none."""
        if i := self._checked("evict_at", i):
            self.remove(i)
        else:
            self.pop()

    def update(self, i: int, *row: Any) -> None:
        """Replace the i-th oldest element, counted from 0. Raises IndexError if there is none."""
        self.replace(self._checked("update", i), self._lifted(row))

    def _checked(self, method: str, i: int) -> int:
        if (i := checked_integer(f"{method}(i)", i)) not in range(len(self)):
            raise IndexError(f"{method}({i}): the window has {len(self)} elements")
        return i

    def prefix(self, i: int) -> Any:
        """The result for the oldest i elements. Raises ValueError if there are fewer."""
        return self.query_range(0, i)

    def suffix(self, j: int) -> Any:
        """The result for all but the oldest j elements. Raises ValueError if there are fewer."""
        return self.query_range(j, len(self))

    def elements(self) -> Iterator[State]:
        leaves = (self.node(0, position) for position in range(self.F, self.E))
        return (self.nodes[leaf] for leaf in leaves if not (self.gone and self.holes[leaf]))

    def check_invariants(self) -> None:
        F, E, leaves = self.F, self.E, 1 << self.height
        assert F <= E <= F + leaves, f"FlatFAT: [F, E) = [{F}, {E}) does not fit {leaves} leaves"
        assert self.height <= FLOOR or 4 * self.size() >= leaves, f"FlatFAT: {leaves} leaves for {self.size()} elements"
        assert self.marking or not self.gone, f"FlatFAT: {self.gone} holes, and changes are not marked"
        if self.marking:
            self.check_marks()
        changed = [(max(self.old_end, F), E), (self.old_front, F), (self.old_front + leaves, F + leaves)]
        for level in range(1, self.height + 1):
            for block in range(F >> level, ((E - 1) >> level) + 1):
                v, start, end = self.node(level, block), block << level, (block + 1) << level
                wrong = (start < F or end > E) and level >= self.meeting() and self.inverted()
                pending = self.dirty[v] if self.marking else any(start < b and a < end and a < b for a, b in changed)
                if not wrong and not pending:
                    below = (self.nodes[self.node(0, p)] for p in range(max(F, start), min(E, end)))
                    expect(self, f"nodes[{v}]", self.nodes[v], fold(self.monoid, below))

    def check_marks(self) -> None:
        leaves = 1 << self.height
        assert self.holes[1] == self.gone, f"FlatFAT: {self.gone} holes, {self.holes[1]} below the root"
        for v in range(1, leaves):
            below = self.holes[2 * v] + self.holes[2 * v + 1]
            assert self.holes[v] == below, f"FlatFAT: holes[{v}] is {self.holes[v]}, by definition {below}"
            assert v == 1 or self.dirty[v // 2] or not self.dirty[v], f"FlatFAT: dirty[{v}], but not the node above"
        for v in range(leaves, 2 * leaves):
            if self.holes[v]:
                position = self.F + ((v - self.F) & (leaves - 1))
                assert self.F < position < self.E - 1, f"FlatFAT: a hole at {position} in [{self.F}, {self.E})"
                expect(self, f"nodes[{v}]", self.nodes[v], self.identity)
