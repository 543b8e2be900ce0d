"""Bulk eviction and slide policies, shared by AMTA and LogMTA.

    a structure defines `drop(n)` and `longest(policy, total)`, which compile; it gets `evict_many(n)` and
    `enforce(evict)`, and with `store=` a window in a key-value store

        oldest                              youngest
          v   v   v   v   v   v   v   v   v   v
          └──── prefix ────┘
          └───────────── total ───────────────┘

A slide policy is a function `evict(total, prefix)`: true if the window evicts this prefix, its oldest elements. It must
be monotone: if it is true for a prefix, it is true for every shorter one. Both arguments are aggregates converted by
`Monoid.policy_value`: the state of a user-defined aggregate as it is, a sum as a number, a product as a tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from sash.aggregators.base import State
from sash.aggregators.in_order import InOrder, checked_integer
from sash.aggregators.storage import Levels
from sash.monoids import Monoid

if TYPE_CHECKING:
    from sash.aggregators.stored_levels import StoredLevels
    from sash.stores import Store

Policy = Callable[[Any, Any], Any]
"""`evict(total, prefix)`: true if the window evicts the prefix."""


class PolicyProbe(Protocol):
    """A slide policy on states, which it converts to the values that the user's function takes."""

    def evicts(self, total: State, prefix: State) -> bool:
        """Return whether the window evicts this prefix."""


class _FunctionPolicy:
    """A user's function as a `PolicyProbe`."""

    def __init__(self, evict: Policy, policy_value: Callable[[State], Any]) -> None:
        self.evict, self.policy_value = evict, policy_value

    def evicts(self, total: State, prefix: State) -> bool:
        return bool(self.evict(self.policy_value(total), self.policy_value(prefix)))


class BulkEvict(InOrder):
    """A window with bulk eviction: removes any number of elements at once.

    `store` keeps its nodes in a key-value store, a `sash.stores.Store`, under `name` (`stored_levels.py`). If the store
    has a window of that name, it is opened as it was at its last flush or a little later. On a store every operation is
    atomic: one that raises leaves the window as it was.

    Raises TypeError for another object as store, StoreInUse if the window is open already, PageError if the stored
    window is damaged, or is of another structure or monoid.
    """

    bulk: ClassVar[int] = 1

    levels: Levels
    if TYPE_CHECKING:  # the structures declare them: the order of declarations is that of compiled fields
        F: int
        E: int

    longest: Callable[[PolicyProbe, State], int]
    """Return the length of the longest prefix that the policy evicts, if it does not evict the whole window."""

    restore: Callable[[Callable[[int], int]], None]
    """Recompute the nodes that are on no complete page of the store, from the elements [F, E).

    On each level these are the last node and the nodes before it on its page: from `page_start(number)` on.
    """

    unsettle: Callable[[], None]
    """Recompute or clear the fields that are derived from F, E and the nodes, after these were restored."""

    _stored: StoredLevels | None = None
    _total: tuple[int, int, State] | None = None
    """F, E and the aggregate of the last query. Positions are never reused, so equal F and E mean the same window."""

    def __init__(self, monoid: Monoid, store: Store | None = None, name: str = "window") -> None:
        self._stored = None
        super().__init__(monoid)
        if store is not None:
            self._open(store, name)

    def _open(self, store: Store, name: str) -> None:
        from sash.aggregators.stored_levels import StoredLevels, WindowPages, page_start

        if not isinstance(name, str) or not name:
            raise TypeError(f"name= must be the name of the window in the store, as text; got {name!r}")
        levels = StoredLevels(store, WindowPages(name, type(self).__name__, self.monoid))
        self.F, self.E = levels.F, levels.E
        self._stored = self.levels = levels
        try:
            self.restore(page_start)
        except BaseException:
            levels.release()
            raise
        levels.restored()

    # ---- what users call ----

    def insert_many(self, rows: Iterable[Any]) -> None:
        """Add elements at the young end, in order: the same as `insert` for each, and faster.

        An aggregate of several inputs takes tuples. All rows are lifted before any is inserted. If ⊕ or the store
        raises later, the elements before stay in the window: `len()` returns how many.
        """
        states = [self._lifted((row,)) for row in rows]
        if self._stored is None:
            self._step(self._push_all, states)
        else:
            self._push_stored(self._stored, states)

    def _push_all(self, states: list[State]) -> None:
        push = self.push
        for state in states:
            push(state)

    def _push_stored(self, levels: StoredLevels, states: list[State]) -> None:
        push, done = self.push, 0
        self._total = None
        levels.begin()
        try:
            for state in states:
                if levels.attention:
                    levels.begin()
                push(state)
                levels.advance(self.F, self.E)
                done += 1
        except BaseException as error:
            self._take_back(levels)
            error.add_note(f"insert_many: {done} of {len(states)} elements were inserted before")
            raise

    def evict_many(self, n: int) -> None:
        """Remove the n oldest elements at once.

        Raises IndexError if there are fewer, ValueError if n is negative, TypeError if it is no integer.
        """
        n = checked_integer("n of evict_many(n)", n)
        if n < 0:
            raise ValueError(f"evict_many({n}): n must be at least 0")
        if n > len(self):
            raise IndexError(f"evict_many({n}): the window has {len(self)} elements")
        if n:
            self._step(self.drop, n)

    def enforce(self, evict: Policy) -> int:
        """Remove the longest prefix that the policy `evict(total, prefix)` evicts, possibly the whole window.

        Returns the number of removed elements. An exception of the policy is passed on, and the window is unchanged.

        Raises TypeError if the policy is no function.
        """
        if not callable(evict):
            raise TypeError(f"enforce(evict) takes a function of (total, prefix); got {evict!r}")
        if not self.size():
            return 0
        count = self.evicted_count(_FunctionPolicy(evict, self.monoid.policy_value), self._aggregated())
        if count:
            self._step(self.drop, count)
        return count

    def query(self) -> Any:
        """Return the lowered aggregate of the window. A repeated query without a change takes no ⊕."""
        return self.monoid.lower(self._aggregated()) if self.size() else self.monoid.nothing()

    def _aggregated(self) -> State:
        known = self._total
        if known is not None and known[0] == self.F and known[1] == self.E:
            return known[2]
        total = self._step(self.aggregate)
        self._total = self.F, self.E, total
        return total

    def _step(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Run a step of the algorithm; on a store, undo it if it raises."""
        self._total = None
        levels = self._stored
        if levels is None:
            return super()._step(step, *arguments)
        levels.begin()
        try:
            result = step(*arguments)
            levels.advance(self.F, self.E)
        except BaseException:
            self._take_back(levels)
            raise
        return result

    def _take_back(self, levels: StoredLevels) -> None:
        """Undo the current operation."""
        levels.undo()
        self.F, self.E = levels.F, levels.E
        self.unsettle()

    def evicted_count(self, policy: PolicyProbe, total: State) -> int:
        """Return how many of the oldest elements the policy evicts; `total` is the aggregate of all."""
        if policy.evicts(total, total):
            return self.size()
        return self.longest(policy, total)

    def clear(self) -> None:
        """Empty the window and release its memory."""
        self._total = None
        if self._stored is None:
            super().clear()
        else:
            self._step(self.drop, self.size())

    def copy(self) -> Self:
        """An independent window with the same elements; the elements themselves are shared.

        Raises TypeError if the window is in a store, which has one writer.
        """
        if self._stored is not None:
            self._stored.copy()
        return super().copy()

    def element(self, i: int) -> State:
        return self.levels[0, i]

    # ---- durability ----

    def flush(self) -> None:
        """Wait until the present window is in its store. Does nothing for a window in memory.

        Raises FlushError if the store fails; the window stays usable, and the next calls try again.
        """
        if self._stored is not None:
            self._stored.flush()

    def close(self) -> None:
        """Flush, and release the window; the store stays open. Does nothing for a window in memory."""
        if self._stored is not None:
            self._stored.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
