"""Chapters: of a large key with very many runs, those far from the young end stand together, 64 to a page.

    runs page      │ chapter 3 to 66 │ chapter 67 to 130 │ run 131 │ … │ run 200 │       what a step reads and writes
                          │
    chapter page   │ run 3 │ run 4 │ … │ run 66 │           read when a window begins in it

To the engine an entry is an item, whether it stands for one run or for 64: a window that begins before it takes it as a
whole. So a window of a million rows has a runs page of some 200 entries, and not of 2,000, at each step. A chapter is
written once; when the first of its runs is over, the others stand in the runs page again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from sash.operator.frame import Flags, Ints, Items
from sash.operator.layout import CellLayout
from sash.operator.loaded import Kept, Listed, together
from sash.operator.pages import Pages

CHAPTER = 64
"""Runs of a chapter, and how many of the youngest are in none."""


class Chapters:
    """The runs pages of one series."""

    def __init__(self, pages: Pages, series: int, layout: CellLayout) -> None:
        self.pages, self.series, self.layout = pages, series, layout

    def _entries(self, kind: str, name: str) -> pa.RecordBatch:
        ((_, (batch,)),) = self.pages.read(kind, [name], [self.layout.run])
        return batch

    def _name(self, number: int, label: int) -> str:
        return f"c{self.series}.{number}.{label}"

    # ---- reading ----

    def listed(self, keys: Ints, numbers: Ints, straddled: Callable[[Items, Ints], Flags]) -> Listed:
        """The entries of these large keys; a chapter in which a window begins is taken apart."""
        names = [f"s{self.series}.{number}" for number in numbers[keys].tolist()]
        read = [batches[0] for _, batches in self.pages.read("runs", names, [self.layout.run])]
        key = np.repeat(keys, [batch.num_rows for batch in read])
        entries = together(read, self.layout.run)
        listed = Listed(entries, key, np.full(len(key), -1), np.zeros(len(key), np.bool_))
        listed.opened = straddled(self.layout.items_of_runs(entries, key), key)
        if (listed.opened & (listed.counts > 1)).any():
            listed = self._apart(listed, numbers)
            listed.opened = straddled(self.layout.items_of_runs(listed.entries, listed.key), listed.key)
        return listed

    def _apart(self, listed: Listed, numbers: Ints) -> Listed:
        """With the runs of chapters in place of those that are opened."""
        there = np.flatnonzero(listed.opened & (listed.counts > 1))
        key, labels = listed.key[there], listed.labels[there]
        names = [self._name(n, label) for n, label in zip(numbers[key].tolist(), labels.tolist(), strict=True)]
        read = [batches[0] for _, batches in self.pages.read("chapter", names, [self.layout.run])]
        lengths = [batch.num_rows for batch in read]
        rest = np.delete(np.arange(len(listed.key)), there)
        entries = together([listed.entries.take(pa.array(rest)), *read], self.layout.run)
        key = np.concatenate([listed.key[rest], np.repeat(key, lengths)])
        chapter = np.concatenate([np.full(len(rest), -1), np.repeat(labels, lengths)])
        order = np.lexsort((entries.column("run").to_numpy(), key))
        return Listed(entries.take(pa.array(order)), key[order], chapter[order], np.zeros(len(order), np.bool_))

    # ---- writing ----

    def drop(self, number: int, before: Listed, gone: Flags) -> None:
        """Drop the pages of entries that are over, and of chapters of which a run is over."""
        if not gone.any():
            return
        entries = [before.entries.take(pa.array(np.flatnonzero(gone & (before.counts == 1))))]
        parted = set(before.chapter[gone].tolist()) - {-1}
        for label in before.labels[gone & (before.counts > 1)].tolist():
            entries.append(self._entries("chapter", self._name(number, label)))
            parted.add(label)
        known = [zip(*(batch.column(name).to_pylist() for name in ("run", "bytes")), strict=True) for batch in entries]
        sizes = {f"r{self.series}.{number}.{label}": size for pairs in known for label, size in pairs}
        self.pages.drop(sizes, sizes)
        self.pages.drop(self._name(number, label) for label in sorted(parted))

    def bound(self, number: int, before: Listed, stays: Flags, left: Kept, items: Ints) -> pa.RecordBatch:
        """The entries that stay, in order: chapters that are whole as they were, and new ones of what has aged.

        `items` are those of the entries that were not opened.
        """
        if len(stays) <= CHAPTER and (before.chapter < 0).all():  # too few for a new one: a thousand keys may come here
            return before.entries if stays.all() else before.entries.take(pa.array(np.flatnonzero(stays)))
        whole = ~np.isin(before.chapter, before.chapter[~stays]) & (before.chapter >= 0)
        item = np.full(len(stays), -1)
        item[~before.opened] = items
        chosen = np.flatnonzero(stays & ~whole)
        single = before.entries.take(pa.array(chosen))
        starts = _stretches(before.labels[chosen], (before.counts == 1)[chosen] & (item[chosen] >= 0))
        rest = np.delete(np.arange(len(chosen)), (starts[:, None] + np.arange(CHAPTER)).ravel())
        entries = [single.take(pa.array(rest))]
        if len(starts):
            entries.append(self._written(number, single, starts, item[chosen], left))
        if whole.any():
            known = self._entries("runs", f"s{self.series}.{number}")
            again = np.isin(known.column("run").to_numpy(), before.chapter[whole])
            entries.append(known.take(pa.array(np.flatnonzero(again))))
        found = together(entries, self.layout.run)
        return found.take(pa.array(np.argsort(found.column("run").to_numpy(), kind="stable")))

    def _written(self, number: int, entries: pa.RecordBatch, starts: Ints, item: Ints, left: Kept) -> pa.RecordBatch:
        """New chapters, of the entries from these places on."""
        labels = entries.column("run").to_numpy()[starts]
        sizes = np.zeros(len(starts), np.int64)
        for i, (start, label) in enumerate(zip(starts.tolist(), labels.tolist(), strict=True)):
            sizes[i] = self.pages.write("chapter", self._name(number, label), {}, [entries.slice(start, CHAPTER)])
        summed = left.summed(item[starts], item[starts + (CHAPTER - 1)] + 1)
        return self.layout.runs(labels, np.full(len(starts), CHAPTER), sizes, *summed)


def _stretches(labels: Ints, free: Flags) -> Ints:
    """Where new chapters begin: as many free entries in a row, with none missing between, the youngest left out."""
    free = free & (np.arange(len(labels)) < len(labels) - CHAPTER)
    if not free.any():
        return np.zeros(0, np.int64)
    edge = np.append(True, (labels[1:] != labels[:-1] + 1) | ~free[1:] | ~free[:-1])
    begin = np.flatnonzero(edge)
    length = np.diff(np.append(begin, len(labels))) * free[begin]
    many = length // CHAPTER
    within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    found: Ints = np.repeat(begin, many) + CHAPTER * within
    return found
