"""What all in-order structures share: the way in (`lift`), the way out (`lower`), and manners.

A structure is a class whose annotations are its state and whose methods are the algorithm, written once:

    class Example(InOrder):
        vals: Queue          aggregates by position    ─┐
        jumps: Ints          integers by position       │
        tree: Levels         aggregates by level        │
        F: int               a position                 ├─ interpreted: attributes of the object
        valid: bool          a flag                     │  compiled: fields of a struct (kernels/state.py)
        both: State          an aggregate              ─┘

        push(v), pop(), aggregate(), size()     the algorithm, on lifted values

`push`, `pop`, `aggregate` and `size` and what they call stay within what compiles: fields of `self`,
`self.combine`, `self.identity`, `self.inverse`, `self.picks_right`, integers, and methods of the same class.
The public `insert`, `evict` and `query` wrap them here and are never compiled.

Structures that answer shorter windows from the same state derive from `Shorter` (`shorter.py`) and fill

        last(n)         the aggregate of the n youngest elements, of all if there are fewer; 1 at least

which compiles like the rest. `query_last(n)` wraps it, and `slide_many` asks for many ranges at each row.
Those for which that is cheaper if they know the ranges beforehand, or are asked in order, change one of

        track(n)        prepare for a range; on an empty window, for each range in turn, the longest first
        answer(k, n)    the k-th of these ranges, which is n: asked in the same order, for k = 0, 1, 2, …,
                        or the same once more

Indices and positions are half-open everywhere: `[F, B)` holds F and not B.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

from sash.aggregators.levels import Levels
from sash.aggregators.queue import Ints, Queue
from sash.monoids import Monoid

INSERT, EVICT = 1, 0
"""The operations that change a window, as data."""

State = Any
"""An aggregate inside a structure: whatever the monoid's `lift` and `combine` return."""


class InOrder:
    """A window whose elements leave in the order they came."""

    needs: ClassVar[tuple[str, ...]] = ()
    keeps_elements: ClassVar[bool] = True

    # ---- the algorithm: each structure fills these ----

    push: Callable[[State], None]
    pop: Callable[[], None]
    aggregate: Callable[[], State]
    size: Callable[[], int]
    elements: Callable[[], Iterator[State]]

    def drop(self, n: int) -> None:
        """Remove the n oldest elements: one by one, where a structure knows no better."""
        for _ in range(n):
            self.pop()

    # ---- what users call ----

    def __init__(self, monoid: Monoid) -> None:
        require(type(self), monoid)
        self.monoid = monoid
        self.identity = monoid.identity
        self.combine = monoid.combine
        self.inverse: Any = monoid.inverse
        self.picks_right = monoid.picks_right
        self._inputs = monoid.arity[0]
        self.clear()

    def insert(self, *row: Any) -> None:
        """Add an element at the young end. A null is an element that no aggregate sees.

        An aggregate of several inputs takes them one by one or as one tuple.
        """
        if self._inputs > 1 and len(row) == 1 and isinstance(row[0], tuple):
            row = row[0]
        self._step(self.push, self.monoid.lifted(row))

    def evict(self) -> None:
        """Remove the oldest element. Raises IndexError if there is none."""
        if not self.size():
            raise IndexError(f"evict() from an empty {type(self).__name__}: insert() first, or ask len()")
        self._step(self.pop)

    def query(self) -> Any:
        """The aggregate of the window, lowered; for the empty window what the monoid declares for it."""
        return self.monoid.lower(self._step(self.aggregate)) if self.size() else self.monoid.nothing()

    def _step(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Carry out a step of the algorithm. If ⊕ raises in it, refuse all others until cleared.

        Such a window is half-way through a change: an answer from it would be wrong.
        """
        try:
            return step(*arguments)
        except Exception as error:
            refuse = functools.partial(_refuse, f"{type(error).__name__}: {error}", type(self).__name__)
            vars(self).update((name, refuse) for name in STEPS if hasattr(self, name))
            raise

    def clear(self) -> None:
        """Empty the window and release its memory."""
        for name in STEPS:
            vars(self).pop(name, None)
        for name, kind in fields(type(self)).items():
            setattr(self, name, self.identity if kind == "State" else FRESH[kind]())

    def copy(self) -> Self:
        """A window of its own with the same elements; the elements themselves are shared."""
        twin = type(self)(self.monoid)
        for name, kind in fields(type(self)).items():
            value = getattr(self, name)
            setattr(twin, name, value.copy() if kind in STORED else value)
        return twin

    @classmethod
    def slots(cls, field: str, largest: int) -> int:
        """How many slots a field needs in compiled code for windows of up to `largest`: a power of two.

        Level l of Levels has half as many as the level below, level 0 half of all.
        """
        slots = 1 << max(largest - 1, 1).bit_length()
        return 2 * slots if fields(cls)[field] == "Levels" else slots

    def check_invariants(self) -> None:
        """Compare all that is stored with its definition; AssertionError names what differs."""

    def __len__(self) -> int:
        return self.size()

    def __iter__(self) -> Iterator[State]:
        if not self.keeps_elements:
            raise TypeError(f"{type(self).__name__} overwrites its elements with aggregates: it cannot be iterated")
        return self.elements()

    def __copy__(self) -> Self:
        return self.copy()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.monoid!r}: {len(self)} elements, aggregate {self.aggregate()!r}>"


STEPS = ("push", "pop", "drop", "aggregate", "last", "answer", "between", "longest", "remove", "replace")
"""What the structures' public methods call: the ways into an algorithm."""


def _refuse(error: str, structure: str, *arguments: Any) -> Any:
    raise RuntimeError(
        f"this {structure} is half-way through a change in which the monoid raised {error}; clear() it and start anew"
    )


FRESH: dict[str, Callable[[], Any]] = {"Queue": Queue, "Ints": Ints, "Levels": Levels, "int": int, "bool": bool}
"""What a field of each annotation holds in an empty window; a State holds the identity."""

STORED = ("Queue", "Ints", "Levels")
"""The kinds of fields that need memory of their own."""


def fields(structure: type[InOrder]) -> dict[str, str]:
    """The state of a structure: its own annotations, name to kind (Queue, Ints, Levels, int, bool or State)."""
    kinds = {*FRESH, "State"}
    return {name: kind for name, kind in structure.__annotations__.items() if kind in kinds}


def require(structure: type[InOrder], monoid: Monoid) -> None:
    """Raises TypeError naming the missing property if the monoid does not admit the structure."""
    if not isinstance(monoid, Monoid):
        raise TypeError(f"{structure.__name__} is built from a monoid, such as sash.monoids.Max(); got {monoid!r}")
    for need in structure.needs:
        if not getattr(monoid, need):
            raise TypeError(
                f"{structure.__name__} needs a monoid with the property '{need}', which {monoid!r} does not declare"
            )


def fold(monoid: Monoid, states: Iterator[State]) -> State:
    """⊕ over states, oldest first."""
    total = monoid.identity
    for state in states:
        total = monoid.combine(total, state)
    return total


def expect(structure: InOrder, what: str, stored: State, defined: State) -> None:
    """AssertionError unless a stored aggregate means the same as its definition."""
    if not structure.monoid.same(stored, defined):
        raise AssertionError(f"{type(structure).__name__}: {what} is {stored!r}, by definition {defined!r}")
