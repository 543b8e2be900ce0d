"""What was emitted of slides, for emit="eager": the last revision of each slide that may still change.

A slide in time is known by its number k in the grid of ends. Slides by rows are known by their ordinal, the number of
slides of the key before it, and each record says after which row its slide ends, as a multiple of `every`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

VANISHED = np.iinfo(np.int64).max
"""The number of a slide by rows that was emitted and is not there any more."""

_NONE = np.zeros(0, np.int64)


@dataclass
class TimeRecords:
    """The revisions of slides in time: by slot, then by number."""

    slots: dict[int, dict[int, int]] = field(default_factory=dict)
    undo: list[tuple[int, int, int | None]] = field(default_factory=list)
    """Slot, number and old revision of what this call has changed."""
    tidied: dict[int, int] = field(default_factory=dict)
    """How many records a slot had after the last look for final ones."""

    def revisions(self, slots: Ints, numbers: Ints) -> Ints:
        """The last revision of each slide; -1 for none."""
        none: dict[int, int] = {}
        found = [self.slots.get(s, none).get(k, -1) for s, k in zip(slots.tolist(), numbers.tolist(), strict=True)]
        return np.array(found, np.int64)

    def set(self, slots: Ints, numbers: Ints, revisions: Ints) -> None:
        """Remember revisions."""
        for s, k, revision in zip(slots.tolist(), numbers.tolist(), revisions.tolist(), strict=True):
            mine = self.slots.setdefault(s, {})
            self.undo.append((s, k, mine.get(k)))
            mine[k] = revision

    def settle(self, slots: Ints, limit: int) -> None:
        """Forget slides up to a number, of slots where many have come since the last time."""
        for s in slots.tolist():
            mine = self.slots.get(s)
            if mine and len(mine) > 2 * self.tidied.get(s, 8):
                for k in [k for k in mine if k <= limit]:
                    self.undo.append((s, k, mine.pop(k)))
                self.tidied[s] = max(len(mine), 8)

    def commit(self) -> None:
        """The call has succeeded."""
        self.undo.clear()

    def rollback(self) -> None:
        """Undo what was changed since the last commit."""
        while self.undo:
            s, k, revision = self.undo[-1]
            if revision is None:
                self.slots.get(s, {}).pop(k, None)
            else:
                self.slots.setdefault(s, {})[k] = revision
            self.undo.pop()

    def clear(self, slots: Ints) -> None:
        """Slots have gone."""
        for s in slots.tolist():
            self.slots.pop(s, None)
            self.tidied.pop(s, None)

    def dump(self) -> tuple[Ints, Ints, Ints]:
        """All records: slots, numbers, revisions."""
        found = [(s, k, revision) for s, mine in self.slots.items() for k, revision in mine.items()]
        made = np.array(found, np.int64).reshape(-1, 3)
        return made[:, 0].copy(), made[:, 1].copy(), made[:, 2].copy()

    @property
    def nbytes(self) -> int:
        """The memory of the records, about."""
        return 100 * sum(map(len, self.slots.values()))


@dataclass
class RowRecords:
    """The revisions of slides by rows: by slot the first ordinal, then numbers and revisions in order."""

    slots: dict[int, tuple[int, Ints, Ints]] = field(default_factory=dict)
    undo: list[tuple[int, tuple[int, Ints, Ints] | None]] = field(default_factory=list)

    def of(self, slot: int) -> tuple[int, Ints, Ints]:
        """The records of a slot."""
        return self.slots.get(slot, (0, _NONE, _NONE))

    def set(self, slot: int, first: int, numbers: Ints, revisions: Ints) -> None:
        """Remember the records of a slot."""
        self.undo.append((slot, self.slots.get(slot)))
        self.slots[slot] = (first, numbers, revisions)

    def settle(self, slots: Ints, limits: Ints) -> None:
        """Forget slides up to a number, each slot its own."""
        for slot, limit in zip(slots.tolist(), limits.tolist(), strict=True):
            first, numbers, revisions = self.of(slot)
            done = int(np.searchsorted(numbers, limit, side="right"))
            if done:
                self.set(slot, first + done, numbers[done:].copy(), revisions[done:].copy())

    def commit(self) -> None:
        """The call has succeeded."""
        self.undo.clear()

    def rollback(self) -> None:
        """Undo what was changed since the last commit."""
        while self.undo:
            slot, before = self.undo[-1]
            if before is None:
                self.slots.pop(slot, None)
            else:
                self.slots[slot] = before
            self.undo.pop()

    def clear(self, slots: Ints) -> None:
        """Slots have gone."""
        for slot in slots.tolist():
            self.slots.pop(slot, None)

    def dump(self) -> tuple[Ints, Ints, Ints, Ints]:
        """All records: slots, ordinals, numbers, revisions; of a slot without any, its next ordinal, numbered -1."""
        found: list[Any] = []
        for slot, (first, numbers, revisions) in self.slots.items():
            found.append((slot, first, -1, -1))
            places = range(first, first + len(numbers))
            found += zip([slot] * len(numbers), places, numbers.tolist(), revisions.tolist(), strict=True)
        made = np.array(found, np.int64).reshape(-1, 4)
        return made[:, 0].copy(), made[:, 1].copy(), made[:, 2].copy(), made[:, 3].copy()

    @property
    def nbytes(self) -> int:
        """The memory of the records."""
        return sum(numbers.nbytes + revisions.nbytes for _, numbers, revisions in self.slots.values())
