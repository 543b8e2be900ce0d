"""The directory of buckets: the range of hashes of each, its statistics, and the slots of its keys.

    starts     0          40…        80…        c0…        the least hash
    due        12         —          40         —          the earliest timer of its keys
    members    [0, 4]     [1, 2, 7]  …          …          the slots of its keys, if they are in memory

Members are cached, so that the cost of writing a bucket depends on its own keys only. They are computed again from all
keys after a failed call and when slots are renumbered: both are rare.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.columns.arrow_arrays import array
from sash.columns.time_numbers import Watermark
from sash.engine.atomic import attributes, items
from sash.kernels.loops.array_types import Flags, Ints, Numbers
from sash.plan.time_axis import Number

Hashes = NDArray[np.uint64]


class BucketDirectory:
    """The directory of buckets: an array for each property, in the order of hashes."""

    def __init__(self, never: Number, numbers: np.dtype[Any]) -> None:
        self.never = never
        self.starts: Hashes = np.zeros(0, np.uint64)
        self.due: Numbers = np.zeros(0, numbers)
        self.keys, self.elements, self.generation = (np.zeros(0, np.int64) for _ in range(3))
        self.loaded = np.zeros(0, np.bool_)
        """Whether the keys of a bucket are in memory; true for a bucket without keys."""
        self.used = np.zeros(0, np.int64)
        """The number of the call that has last used the keys of a bucket."""
        self.members: list[Ints] | None = None
        self.scanned = 0
        """Number of slots visited to find members and to write buckets."""

    def __len__(self) -> int:
        return len(self.starts)

    @classmethod
    def read(cls, batch: pa.RecordBatch, never: Number, numbers: np.dtype[Any]) -> BucketDirectory:
        """Read the directory from a header."""
        found = cls(never, numbers)
        found.starts = batch.column("start").to_numpy().copy()
        found.due = batch.column("due").fill_null(never).to_numpy().copy()
        for name in ("keys", "elements", "generation"):
            setattr(found, name, batch.column(name).to_numpy().copy())
        found.loaded, found.used = found.keys == 0, np.zeros(len(found.starts), np.int64)
        return found

    def batch(self) -> pa.RecordBatch:
        """The directory as a batch for the header."""
        columns = {"start": pa.array(self.starts), "due": pa.array(self.due, mask=self.due == self.never)}
        columns |= {name: array(getattr(self, name)) for name in ("keys", "elements", "generation")}
        return pa.RecordBatch.from_pydict(columns)

    def copy(self) -> BucketDirectory:
        """A copy without members."""
        found = BucketDirectory(self.never, self.due.dtype)
        for name in _ARRAYS:
            setattr(found, name, getattr(self, name).copy())
        found.scanned = self.scanned
        return found

    def begin(self) -> None:
        """Create the first bucket, of all hashes."""
        self.starts, self.due = np.zeros(1, np.uint64), np.full(1, self.never, self.due.dtype)
        self.keys, self.elements, self.generation = (np.zeros(1, np.int64) for _ in range(3))
        self.loaded, self.members, self.used = np.ones(1, np.bool_), None, np.zeros(1, np.int64)

    def follow(self, before: BucketDirectory) -> Flags:
        """Take over from an earlier directory which calls have used its buckets; returns which are unchanged.

        A bucket is unchanged if it has the same hashes and was written by the same call.
        """
        if not len(self):
            return np.zeros(len(before), np.bool_)
        found = np.minimum(np.searchsorted(self.starts, before.starts), len(self) - 1)
        ends, others = np.append(self.starts[1:], 0), np.append(before.starts[1:], 0)
        same: Flags = (self.starts[found] == before.starts) & (ends[found] == others)
        same &= self.generation[found] == before.generation
        self.used[found[same]] = before.used[same]
        return same

    def rolled_back(self, failed: BucketDirectory) -> BucketDirectory:
        """This directory after a failed call, which has only split and loaded buckets. Loaded ones stay in memory."""
        found, same = self.copy(), np.searchsorted(failed.starts, self.starts)
        found.loaded, found.used = failed.loaded[same], failed.used[same]
        return found

    def count_scanned(self, slots: int) -> None:
        """Count slots that were visited to write their buckets."""
        self.scanned += slots

    # ---- which bucket ----

    def of(self, hashes: Hashes) -> Ints:
        """The buckets of hashes."""
        return np.searchsorted(self.starts, hashes, "right") - 1

    def stop(self, i: int) -> int:
        """The hash after the last of a bucket."""
        return int(self.starts[i + 1]) if i + 1 < len(self.starts) else 1 << 64

    def is_divisible(self, i: int) -> bool:
        """Has a bucket more than one hash?"""
        return self.stop(i) - int(self.starts[i]) > 1

    def name(self, i: int) -> str:
        """The name of a bucket's page."""
        return f"b{int(self.starts[i]):016x}"

    def named(self, names: list[str]) -> list[int]:
        """The buckets that have pages of these names; other pages are ignored."""
        starts = np.array([int(name[1:], 16) for name in names if name[0] == "b"], np.uint64)
        found = np.searchsorted(self.starts, starts)
        return found[(found < len(self.starts)) & (self.starts[found % len(self.starts)] == starts)].tolist()

    def absent(self, now: Watermark = None) -> Ints:
        """The buckets that are only in the store; with `now`, only those with a timer due by then."""
        missing = ~self.loaded
        return np.flatnonzero(missing if now is None else missing & (self.due <= now) & (self.due != self.never))

    # ---- members ----

    def forget_members(self) -> None:
        """Discard the members: the next commit finds them again."""
        self.members = None

    def note_loaded(self, i: int, slots: Ints, call: int) -> None:
        """Record that the keys of a bucket are in memory, in these slots, and used by this call."""
        if self.members is not None:
            self.members[i] = np.sort(slots)
        self.loaded[i], self.used[i] = True, call

    def note_used(self, some: Ints | Sequence[int], call: int) -> None:
        """Record that a call uses the keys of some buckets."""
        self.used[some] = call

    def describe(self, some: Sequence[int], due: Numbers, keys: Ints, elements: Ints, generation: int) -> None:
        """Set the statistics of buckets that are written."""
        self.due[some], self.keys[some], self.elements[some], self.generation[some] = due, keys, elements, generation

    def unloading(self, leaving: Flags) -> Sequence[partial[Any]]:
        """The changes that mark some buckets as only in the store, for `all_at_once`."""
        members = self.members
        if members is not None:
            members = [mine[:0] if leaves else mine for mine, leaves in zip(members, leaving.tolist(), strict=True)]
        return items(self.loaded, leaving, False), attributes(self, members=members)

    def find_members(self, live: Ints, hashes: Hashes) -> None:
        """Find the slots of each bucket among all slots; `hashes` are by slot."""
        self.scanned += len(live)
        bucket = self.of(hashes[live])
        order = np.argsort(bucket, kind="stable")
        edges = np.searchsorted(bucket[order], np.arange(1, len(self)))
        self.members = np.split(live[order], edges)

    def changed_members(self, changed: Ints, gone: Ints, hashes: Hashes) -> list[int]:
        """Assign changed slots to their buckets, and remove slots that are gone; returns these buckets."""
        assert self.members is not None
        if not len(changed):
            return []
        bucket = self.of(hashes[changed])
        order = np.lexsort((changed, bucket))
        touched, firsts = np.unique(bucket[order], return_index=True)
        for i, mine in zip(touched.tolist(), np.split(changed[order], firsts[1:]), strict=True):
            known = self.members[i]
            at = known.searchsorted(mine)
            if len(known) == 0 or (known.take(at, mode="clip") != mine).any():  # a set union takes 70 µs
                self.members[i] = np.union1d(known, mine)
            if len(gone):
                self.members[i] = self.members[i][~np.isin(self.members[i], gone)]
        return touched.tolist()

    def cut(self, i: int, hashes: Hashes) -> None:
        """Split a bucket at the middle of its hashes."""
        assert self.members is not None
        start, stop, mine = int(self.starts[i]), self.stop(i), self.members[i]
        middle = np.uint64(start + (stop - start) // 2)
        is_upper = hashes[mine] >= middle
        self.starts = np.insert(self.starts, i + 1, middle)
        blanks = {"due": self.never, "keys": 0, "elements": 0, "generation": 0, "loaded": True, "used": self.used[i]}
        for name, blank in blanks.items():
            setattr(self, name, np.insert(getattr(self, name), i + 1, blank))
        self.members[i : i + 1] = [mine[~is_upper], mine[is_upper]]

    def clear(self, i: int) -> None:
        """Reset the statistics of a bucket that has no keys any more."""
        self.due[i], self.keys[i], self.elements[i], self.generation[i] = self.never, 0, 0, 0


_ARRAYS = ("starts", "due", "keys", "elements", "generation", "loaded", "used")
