"""The base class of all structures: declares, clears and copies their state, and handles exceptions of ⊕.

A structure is a class whose annotations are its state and whose methods are the algorithm, written once:

    Queue, Ints         aggregates, integers by position                     (`storage.py`)
    Levels              aggregates by level and number
    Times, States       times, aggregates by node and place in it
    Links, Aggs         integers by node and place, one aggregate a node
    int, bool, State    a position, a flag, an aggregate

Interpreted these are attributes of the object; compiled they are fields of a struct (`kernels/jit/numba_struct.py`).
The algorithm's methods use only what compiles: fields of `self`, `self.combine`, `self.identity`, integers, tuples,
and methods of the same class.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self, TypeVar

from sash.aggregators.storage import Aggs, Ints, Levels, Links, Queue, States, Times
from sash.monoids import Monoid

State = Any
"""An aggregate inside a structure: whatever the monoid's `lift` and `combine` return."""

Function = TypeVar("Function", bound=Callable[..., Any])


class Aggregator:
    """A window with an aggregate."""

    needs: ClassVar[tuple[str, ...]] = ()
    constants: ClassVar[tuple[str, ...]] = ()
    """Attributes of the class that are constants in compiled code."""
    by_position: ClassVar[tuple[str, ...]] = ()
    """The fields that are positions of elements, and the queues that are indexed by them.

    In the compiled state of a key these queues are columns beside its elements, at the positions of these.
    """
    in_ring: ClassVar[int] = 0
    """In compiled code 1 if there are such queues: they lose what leaves the ring of the key."""

    aggregate: Callable[[], State]
    size: Callable[[], int]

    def __init__(self, monoid: Monoid) -> None:
        require(type(self), monoid)
        monoid = self.form(monoid)
        self.monoid = monoid
        self.identity = monoid.identity
        self.combine = monoid.combine
        self.inverse: Any = monoid.inverse
        self.picks_right = monoid.picks_right
        self._inputs = monoid.arity[0]
        self.clear()

    @classmethod
    def form(cls, monoid: Monoid) -> Monoid:
        """The form of a monoid that the structure runs: the monoid itself, unless the structure does not use ⊕."""
        return monoid

    def _lifted(self, row: tuple[Any, ...]) -> State:
        """Lift a row, whose inputs are separate arguments or one tuple."""
        if self._inputs > 1 and len(row) == 1 and isinstance(row[0], tuple):
            row = row[0]
        return self.monoid.lifted(row)

    def _step(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Run a step of the algorithm. If it raises, refuse all further steps until `clear()`.

        The change is then incomplete, and results would be wrong.
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
        """An independent window with the same elements; the elements themselves are shared."""
        twin = self._empty_twin()
        for name, kind in fields(type(self)).items():
            value = getattr(self, name)
            setattr(twin, name, value.copy() if kind in STORED else value)
        return twin

    def _empty_twin(self) -> Self:
        """An empty window of the same kind."""
        return type(self)(self.monoid)

    @classmethod
    def slots(cls, field: str, largest: int) -> int:
        """The number of slots of a field in compiled code for windows of up to `largest`: a power of two.

        Level l of Levels has half as many as the level below, level 0 half of all.
        """
        slots = 1 << max(largest - 1, 1).bit_length()
        return 2 * slots if fields(cls)[field] == "Levels" else slots

    def check_invariants(self) -> None:
        """Compare all stored aggregates with their definitions. Raises AssertionError, naming the difference."""

    def __len__(self) -> int:
        return self.size()

    def __copy__(self) -> Self:
        return self.copy()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.monoid!r}: {len(self)} elements, aggregate {self.aggregate()!r}>"


STEPS = (
    *("push", "pop", "drop", "aggregate", "last", "answer", "between", "longest", "remove", "replace"),
    *("find", "put", "take_out", "cut", "merge_in"),
)
"""The methods of an algorithm that the structures' public methods call."""


def _refuse(error: str, structure: str, *_arguments: Any) -> Any:
    raise RuntimeError(
        f"this {structure} is incomplete: the monoid raised {error} during a change. Call clear() and insert again"
    )


FRESH: dict[str, Callable[[], Any]] = {
    "Queue": Queue,
    "Ints": Ints,
    "Levels": Levels,
    "int": int,
    "bool": bool,
    "Times": Times,
    "States": States,
    "Links": Links,
    "Aggs": Aggs,
}
"""The initial value of a field of each annotation; that of a State is the identity."""

STORED = ("Queue", "Ints", "Levels", "Times", "States", "Links", "Aggs")
"""The kinds of fields that need memory outside of the struct."""


def fields(structure: type[Aggregator]) -> dict[str, str]:
    """The state of a structure: its annotations and those it inherits, name to kind (a key of FRESH, or State)."""
    found = _fields.get(structure)
    if found is None:  # each new or cleared window asks
        kinds = {*FRESH, "State"}
        declared = (inspect.get_annotations(cls) for cls in reversed(structure.__mro__))
        found = {name: kind for every in declared for name, kind in every.items() if kind in kinds}
        _fields[structure] = found
    return found


_fields: dict[type[Aggregator], dict[str, str]] = {}


def require(structure: type[Aggregator], monoid: Monoid) -> None:
    """Raises TypeError, naming the missing property, if the structure does not accept the monoid."""
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


def expect(structure: Aggregator, what: str, stored: State, defined: State) -> None:
    """Raises AssertionError unless a stored aggregate agrees with its definition."""
    if not structure.monoid.same(stored, defined):
        raise AssertionError(f"{type(structure).__name__}: {what} is {stored!r}; expected {defined!r}")
