"""Records of emitted slides, for emit="eager": the last revision of each slide that may still change.

A slide in time is identified by its number k in the grid of ends. A slide by rows is identified by its ordinal, the
number of slides of the key before it; its record has the row after which it ends, as a multiple of `every`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from sash.kernels.loops.array_types import NO_INTS, Ints

VANISHED = np.iinfo(np.int64).max
"""The number of a slide by rows that was emitted and no longer exists."""


Held = TypeVar("Held")
"""The records of a slot."""

Change = TypeVar("Change")
"""An entry of the undo log."""


@dataclass
class SlideRecords(ABC, Generic[Held, Change]):
    """Records of slides by slot, and an undo log of the current call."""

    slots: dict[int, Held] = field(default_factory=dict)
    undo: list[Change] = field(default_factory=list)

    def commit(self) -> None:
        """Commit the call: clear the undo log."""
        self.undo.clear()

    def rollback(self) -> None:
        """Undo the changes since the last commit. May be interrupted, and called again."""
        while self.undo:
            self._undo(self.undo[-1])
            self.undo.pop()

    @abstractmethod
    def _undo(self, entry: Change) -> None:
        """Undo one change."""

    def clear(self, slots: Ints) -> None:
        """Remove the records of expired slots."""
        for slot in slots.tolist():
            self.slots.pop(slot, None)


@dataclass
class TimeRecords(SlideRecords[dict[int, int], tuple[int, int, int | None]]):
    """The revisions of slides in time: by slot, then by number. The undo log has slot, number and old revision."""

    width: ClassVar[int] = 3
    """Columns of a record: slot, number, revision."""

    tidied: dict[int, int] = field(default_factory=dict)
    """By slot: the number of records after final ones were last removed."""

    def revisions(self, slots: Ints, numbers: Ints) -> Ints:
        """The last revision of each slide; -1 for none."""
        none: dict[int, int] = {}
        found = [self.slots.get(s, none).get(k, -1) for s, k in zip(slots.tolist(), numbers.tolist(), strict=True)]
        return np.array(found, np.int64)

    def set(self, slots: Ints, numbers: Ints, revisions: Ints) -> None:
        """Record revisions."""
        for s, k, revision in zip(slots.tolist(), numbers.tolist(), revisions.tolist(), strict=True):
            mine = self.slots.setdefault(s, {})
            self.undo.append((s, k, mine.get(k)))
            mine[k] = revision

    def settle(self, slots: Ints, limit: int) -> None:
        """Forget slides up to a number, in slots where many were added since the last time."""
        for s in slots.tolist():
            mine = self.slots.get(s)
            if mine and len(mine) > 2 * self.tidied.get(s, 8):
                for k in [k for k in mine if k <= limit]:
                    self.undo.append((s, k, mine.pop(k)))
                self.tidied[s] = max(len(mine), 8)

    def changes(self) -> list[tuple[int, int, int]]:
        """The changes since the last commit: slots, numbers, revisions; revision -1 for a forgotten slide."""
        return [(s, k, self.slots.get(s, {}).get(k, -1)) for s, k in dict.fromkeys((s, k) for s, k, _ in self.undo)]

    def current(self, names: Ints) -> list[tuple[int, int, int]]:
        """The existing records of these slots and numbers."""
        found = ((s, k, self.slots.get(s, {}).get(k, -1)) for s, k in dict.fromkeys(map(tuple, names.tolist())))
        return [record for record in found if record[2] >= 0]

    def load(self, rows: list[list[int]]) -> None:
        """Load records as `changes` returns them."""
        for s, k, revision in rows:
            if revision >= 0:
                self.slots.setdefault(s, {})[k] = revision
            else:
                self.slots.get(s, {}).pop(k, None)

    def _undo(self, entry: tuple[int, int, int | None]) -> None:
        s, k, revision = entry
        if revision is None:
            self.slots.get(s, {}).pop(k, None)
        else:
            self.slots.setdefault(s, {})[k] = revision

    def clear(self, slots: Ints) -> None:
        """Remove the records of expired slots."""
        super().clear(slots)
        for s in slots.tolist():
            self.tidied.pop(s, None)

    def dump(self) -> Ints:
        """All records: slots, numbers, revisions."""
        found = [(s, k, revision) for s, mine in self.slots.items() for k, revision in mine.items()]
        return np.array(found, np.int64).reshape(-1, self.width)

    @property
    def nbytes(self) -> int:
        """The approximate memory of the records."""
        return 100 * sum(map(len, self.slots.values()))


@dataclass
class RowRecords(SlideRecords[tuple[int, Ints, Ints], tuple[int, tuple[int, Ints, Ints] | None]]):
    """The revisions of slides by rows: by slot the first ordinal, then numbers and revisions in order.

    The undo log has slots and their old records.
    """

    width: ClassVar[int] = 4
    """Columns of a record: slot, ordinal, number, revision."""

    def of(self, slot: int) -> tuple[int, Ints, Ints]:
        """The records of a slot."""
        return self.slots.get(slot, (0, NO_INTS, NO_INTS))

    def set(self, slot: int, first: int, numbers: Ints, revisions: Ints) -> None:
        """Replace the records of a slot."""
        self.undo.append((slot, self.slots.get(slot)))
        self.slots[slot] = (first, numbers, revisions)

    def settle(self, slots: Ints, limits: Ints) -> None:
        """Forget slides up to a number for each slot."""
        for slot, limit in zip(slots.tolist(), limits.tolist(), strict=True):
            first, numbers, revisions = self.of(slot)
            done = int(np.searchsorted(numbers, limit, side="right"))
            if done:
                self.set(slot, first + done, numbers[done:].copy(), revisions[done:].copy())

    def _undo(self, entry: tuple[int, tuple[int, Ints, Ints] | None]) -> None:
        slot, before = entry
        if before is None:
            self.slots.pop(slot, None)
        else:
            self.slots[slot] = before

    def dump(self) -> Ints:
        """All records: slots, ordinals, numbers, revisions, as `load` takes them."""
        found = [row for slot in self.slots for row in self._from(slot, 0)]
        return np.array(found, np.int64).reshape(-1, self.width)

    def _from(self, slot: int, ordinal: int) -> list[tuple[int, int, int, int]]:
        """The records of a slot from an ordinal on, after one (slot, its first ordinal, -1, their first ordinal)."""
        first, numbers, revisions = self.of(slot)
        begin = max(ordinal, first)
        rest = zip(numbers[begin - first :].tolist(), revisions[begin - first :].tolist(), strict=True)
        return [
            (slot, first, -1, begin),
            *((slot, begin + i, number, revision) for i, (number, revision) in enumerate(rest)),
        ]

    def changes(self) -> list[tuple[int, int, int, int]]:
        """The changes since the last commit: for each slot the records from the first that differs."""
        before: dict[int, Any] = {}
        for slot, old in self.undo:
            before.setdefault(slot, old)
        return [row for slot, old in before.items() for row in self._from(slot, self._unchanged(slot, old))]

    def _unchanged(self, slot: int, old: tuple[int, Ints, Ints] | None) -> int:
        """The first ordinal whose record has changed."""
        first, numbers, revisions = self.of(slot)
        if old is None:
            return first
        begin = max(first, old[0])
        length = min(first + len(numbers), old[0] + len(old[1])) - begin
        mine, theirs = slice(begin - first, begin - first + length), slice(begin - old[0], begin - old[0] + length)
        differs = (numbers[mine] != old[1][theirs]) | (revisions[mine] != old[2][theirs])
        return begin + int(differs.argmax() if differs.any() else max(length, 0))

    def current(self, names: Ints) -> list[tuple[int, int, int, int]]:
        """All records of the slots in the first column."""
        return [row for slot in np.unique(names[:, 0]).tolist() for row in self._from(slot, 0)]

    def load(self, rows: list[list[int]]) -> None:
        """Load records as `changes` returns them."""
        at = 0
        while at < len(rows):
            slot, first, _, begin = rows[at]
            stop = next((i for i in range(at + 1, len(rows)) if rows[i][2] == -1), len(rows))
            start, numbers, revisions = self.slots.get(slot, (begin, NO_INTS, NO_INTS))
            same = slice(max(first - start, 0), max(begin - start, 0))
            more = np.array(rows[at + 1 : stop], np.int64).reshape(-1, 4)
            merged = np.concatenate([numbers[same], more[:, 2]]), np.concatenate([revisions[same], more[:, 3]])
            self.slots[slot] = (first, *merged)
            at = stop

    @property
    def nbytes(self) -> int:
        """The memory of the records."""
        return sum(numbers.nbytes + revisions.nbytes for _, numbers, revisions in self.slots.values())
