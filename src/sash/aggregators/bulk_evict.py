"""What structures share that give up any number of elements at once, and slide by a policy of the user's.

    Bulk     fills `drop(n)` and `longest(policy, total)`, which compile; gets `evict_many(n)` and `enforce(evict)`

        oldest                              youngest
          v   v   v   v   v   v   v   v   v   v
          └──── prefix ────┘
          └───────────── total ───────────────┘

A slide policy is asked `evict(total, prefix)`: does the window give up at least this oldest part of it? It must be
monotone: what it says of a prefix it says of every shorter one, or refuses both. Both arguments are aggregates, as
the monoid shows them to a policy (`Monoid.seen`): a user's state as it is, a sum as a number, a product as a tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any, ClassVar, Protocol, Self, cast

from sash.aggregators.block_levels import Blocks, Levels
from sash.aggregators.in_order import InOrder, State
from sash.monoids import Monoid

Policy = Callable[[Any, Any], Any]
"""`evict(total, prefix)`: true if the window gives up the prefix."""


class PolicyProbe(Protocol):
    """A policy as the algorithms ask it: of states, which it turns into what the user's function sees."""

    def gives_up(self, total: State, prefix: State) -> bool:
        """Does the window give up this prefix?"""


class _Asked:
    """A user's function of the values that the monoid shows."""

    def __init__(self, evict: Policy, seen: Callable[[State], Any]) -> None:
        self.evict, self.seen = evict, seen

    def gives_up(self, total: State, prefix: State) -> bool:
        return bool(self.evict(self.seen(total), self.seen(prefix)))


class BulkEvict(InOrder):
    """A window that gives up any number of elements at once.

    `store` keeps the blocks elsewhere than in memory: an empty store with the methods of
    `sash.aggregators.block_levels.Blocks`, for this window alone.

    Raises TypeError for a store that lacks one of them.
    """

    bulk: ClassVar[int] = 1

    levels: Levels
    longest: Callable[[PolicyProbe, State], int]
    """How many elements the longest prefix has that the policy gives up, given that it does not give up all."""

    def __init__(self, monoid: Monoid, store: Blocks | None = None) -> None:
        self._store: Blocks | None = None
        super().__init__(monoid)
        if store is not None:
            if isinstance(store, type) or not isinstance(store, Blocks):
                raise TypeError(f"store= must have the methods of sash.aggregators.block_levels.Blocks; got {store!r}")
            self._store = self.levels = cast(Levels, store)

    def evict_many(self, n: int) -> None:
        """Remove the n oldest elements at once.

        Raises IndexError if there are fewer, ValueError if n is negative, TypeError if it is no integer.
        """
        try:
            n = index(n)
        except TypeError:
            raise TypeError(f"evict_many(n) takes a whole number of elements; got {n!r}") from None
        if n < 0:
            raise ValueError(f"evict_many({n}): n must be at least 0")
        if n > len(self):
            raise IndexError(f"evict_many({n}): the window has {len(self)} elements")
        self._step(self.drop, n)

    def enforce(self, evict: Policy) -> int:
        """Remove the longest prefix that the policy `evict(total, prefix)` gives up, possibly all of the window.

        Returns how many elements were removed. What the policy raises is passed on, and the window stays as it is.

        Raises TypeError if the policy is no function.
        """
        if not callable(evict):
            raise TypeError(f"enforce(evict) takes a function of (total, prefix); got {evict!r}")
        if not self.size():
            return 0
        gone = self.given_up(_Asked(evict, self.monoid.seen), self._step(self.aggregate))
        self._step(self.drop, gone)
        return gone

    def given_up(self, policy: PolicyProbe, total: State) -> int:
        """How many of the oldest elements the policy gives up; `total` is the aggregate of all."""
        if policy.gives_up(total, total):
            return self.size()
        return self.longest(policy, total)

    def clear(self) -> None:
        """Empty the window and release its memory. A store of the user's is emptied and stays."""
        super().clear()
        if self._store is not None:
            self._store.drop_all()
            self.levels = cast(Levels, self._store)

    def copy(self) -> Self:
        """A window of its own with the same elements, on a copy of the store; the elements themselves are shared."""
        twin = super().copy()
        if self._store is not None:
            twin._store = twin.levels
        return twin
