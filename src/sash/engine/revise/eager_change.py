"""The changes of one call of an eager engine: inserted and removed rows, and the journal that undoes the call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sash.engine.atomic import Revertible
from sash.engine.revise.eager_aggregate import SlotRows
from sash.engine.revise.eager_rows import NewRows
from sash.kernels.loops.array_types import NO_INTS, Ints, Numbers, States


class RowPlaces(NamedTuple):
    """Rows by their slots and indices, with times and row numbers."""

    slots: Ints
    places: Ints
    time: Numbers
    rids: Ints


@dataclass(slots=True)
class Removed:
    """Retracted rows, sorted by slot and index: slots, indices, times and row numbers."""

    slots: Ints
    index: Ints
    time: Numbers
    rids: Ints

    def __len__(self) -> int:
        return len(self.slots)


@dataclass(slots=True)
class RowChanges:
    """The changes of order in a call: inserted rows, each with the index it goes before, and removed rows."""

    new: NewRows
    places: Ints
    removed: Removed
    done: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    """How much of the change has been applied."""

    @property
    def entered(self) -> SlotRows:
        """The inserted rows."""
        return self.new.slots, self.new.rids

    @property
    def left(self) -> SlotRows:
        """The removed rows."""
        return self.removed.slots, self.removed.rids

    def among_the_rest(self) -> Ints:
        """The indices of the new rows among those that are not removed."""
        removed, new = self.removed, self.new
        if not len(removed):
            return self.places
        width = int(max(removed.index.max(), self.places.max(initial=0))) + 1
        theirs = np.searchsorted(removed.slots * width + removed.index, new.slots * width + self.places)
        return self.places - theirs + np.searchsorted(removed.slots, new.slots)

    def reached(self) -> Ints:
        """The indices of the new rows after the change."""
        slots = self.new.slots
        return self.among_the_rest() + np.arange(len(slots)) - np.searchsorted(slots, slots)

    def all(self) -> RowPlaces:
        """Inserted and removed rows, sorted by slot and order."""
        new, removed = self.new, self.removed
        if not len(removed):
            return RowPlaces(new.slots, self.places, new.time, new.rids)
        parts = [
            np.concatenate(pair)
            for pair in (
                (new.slots, removed.slots),
                (self.places, removed.index),
                (new.time, removed.time),
                (new.rids, removed.rids),
            )
        ]
        is_removed = np.arange(len(parts[0])) >= len(new)
        order = np.lexsort((is_removed, parts[2], parts[1], parts[0]))
        return RowPlaces(*(part[order] for part in parts))


@dataclass(slots=True)
class EagerJournal:
    """The state before a call, as far as the call changes it, to undo it until it is committed."""

    fresh: Ints
    arrived: int
    """The arrival number of the next row."""
    numbers: tuple[int, int]
    """How many row numbers were free, and how many were in use."""
    marks: list[tuple[Revertible, Any]]
    """Logs and dictionaries, each with its mark for `rollback`."""
    slots: Ints = field(default_factory=lambda: NO_INTS)
    saved: Sequence[NDArray[Any]] = ()
    bases: list[States] = field(default_factory=list)
    change: RowChanges | None = None
    copies: list[tuple[int, Numbers, Ints]] = field(default_factory=list)
    """The rows of slots before the call; only for interpreted loops, which an interrupt can stop."""
    revised: list[tuple[Ints, Ints]] = field(default_factory=list)
    dropped: list[Ints] = field(default_factory=list)
    """Row numbers to free when the call is committed."""
    gone: Ints = field(default_factory=lambda: NO_INTS)
    """Slots to free when the call is committed."""

    def enter(self, change: RowChanges) -> None:
        """Record a change of rows before it is made."""
        self.change = change

    def save(self, slots: Ints, saved: Sequence[NDArray[Any]], bases: list[States]) -> None:
        """Save the scalars and bases of slots that are not saved yet."""
        if self.saved:
            slots = np.concatenate([self.slots, slots])
            saved = [np.concatenate(pair) for pair in zip(self.saved, saved, strict=True)]
            bases = [_joined(*pair) for pair in zip(self.bases, bases, strict=True)]
        self.slots, self.bases, self.saved = slots, bases, saved

    def copy_order(self, slot: int, time: Numbers, rids: Ints) -> None:
        """Save the order of a slot's rows before the call."""
        self.copies.append((slot, time, rids))

    def revise(self, rids: Ints, before: Ints) -> None:
        """Save the revisions of rows before the call."""
        self.revised.append((rids, before))

    def free_rows_later(self, *rids: Ints) -> None:
        """Free these row numbers when the call is committed."""
        self.dropped += rids

    def free_slots_later(self, slots: Ints) -> None:
        """Free these slots when the call is committed."""
        self.gone = slots


def _joined(one: States, other: States) -> States:
    return tuple(np.concatenate(pair) for pair in zip(one, other, strict=True))
