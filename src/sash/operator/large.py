"""Large keys: runs of cells in pages of their own, of which a step opens only those in which a window begins.

    runs page    │ run 3 │ run 4 │ chapter 5 to 68 │ run 69 │ run 70 │      coordinates, and a state per aggregate
                     ▲              64 runs in one                  tail page
                 a window begins here: its cells are read one by one, those of what follows are not

A run is written once, when the tail has grown beyond it, and dropped as a whole. A key that has shrunk to a tail
goes back to its bucket. Runs far from the young end stand together in chapters, see `chapters`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sash.operator.chapters import Chapters
from sash.operator.frame import Flags, Ints
from sash.operator.layout import CellLayout
from sash.operator.loaded import Kept, Listed, Loaded, Stored, together
from sash.operator.pages import Pages

RUN = 512
"""Cells of a run."""

LARGE = 4 * RUN
"""Beyond this many cells of one series a key has pages of its own."""


class LargeKeys:
    """The pages of large keys."""

    def __init__(self, pages: Pages, layouts: Sequence[CellLayout]) -> None:
        self.pages, self.layouts = pages, layouts
        self.chapters = [Chapters(pages, s, layout) for s, layout in enumerate(layouts)]
        self.next = 0
        """The number of the next large key."""

    def open(
        self, loaded: Loaded, s: int, chosen: Flags, cells: pa.RecordBatch, cell_key: Ints, straddled: Any
    ) -> Stored:
        """What is stored of a series, for the chosen keys, given the cells of small ones."""
        layout = self.layouts[s]
        large = np.flatnonzero(chosen & (loaded.large[s] >= 0))
        if not len(large):
            nothing = np.zeros(0, np.int64)
            listed = Listed(together([], layout.run), nothing, nothing, np.zeros(0, np.bool_))
            return Stored(cells, cell_key, np.full(len(cell_key), -1), listed.entries, nothing, listed)
        numbers = loaded.large[s]
        tails = self.pages.read("tail", [f"t{s}.{n}" for n in numbers[large].tolist()], [layout.cell])
        beyond = np.zeros(len(loaded), np.int64)
        beyond[large] = [batches[0].num_rows for _, batches in tails]
        listed = self.chapters[s].listed(large, numbers, lambda runs, key: straddled(runs, key, beyond))
        opened = np.flatnonzero(listed.opened)
        owners, labels = listed.key[opened], listed.labels[opened]
        names = [f"r{s}.{n}.{label}" for n, label in zip(numbers[owners].tolist(), labels.tolist(), strict=True)]
        read = [batches[0] for _, batches in self.pages.read("run", names, [layout.cell])]
        parts = [cells, *read, *(batches[0] for _, batches in tails)]
        lengths = [batch.num_rows for batch in parts[1:]]
        key = np.concatenate([cell_key, np.repeat(np.concatenate([owners, large]), lengths)])
        run = np.repeat(np.concatenate([labels, np.full(len(large), -1)]), lengths)
        run = np.concatenate([np.full(len(cell_key), -1), run])
        order = np.lexsort((np.where(run < 0, 2**62, run), key))
        joined = together(parts, layout.cell).take(pa.array(order))
        closed = np.flatnonzero(~listed.opened)
        return Stored(joined, key[order], run[order], listed.entries.take(pa.array(closed)), listed.key[closed], listed)

    def keep(self, loaded: Loaded, s: int, left: Kept, stored: Stored, alive: Flags, large_cells: Ints) -> Flags:
        """Write the pages of large keys; gives which of the cells belong to small keys."""
        small = np.ones(len(left.key), np.bool_)
        counts = np.bincount(left.key, minlength=len(loaded))
        mine = loaded.large[s] >= 0
        touched = np.zeros(len(loaded), np.bool_)
        touched[stored.run_key] = True
        touched[stored.cell_key] = True
        touched[left.key] = True
        for key in np.flatnonzero((mine & touched) | (counts > LARGE)).tolist():
            places = np.arange(*np.searchsorted(left.key, (key, key + 1)))
            small[places] = self._keep_one(loaded, s, key, places, left, stored, bool(alive[key]), large_cells)
        return small

    def _keep_one(
        self,
        loaded: Loaded,
        s: int,
        key: int,
        places: Ints,
        left: Kept,
        stored: Stored,
        alive: bool,
        large_cells: Ints,
    ) -> bool:
        """Write the pages of one large key; true if it is small from now on."""
        layout, number = self.layouts[s], int(loaded.large[s][key])
        before = stored.listed.of(key)
        stays = np.isin(before.labels, left.run[places])
        unopened = np.arange(*np.searchsorted(stored.run_key, (key, key + 1)))
        stays[~before.opened] = left.runs[unopened]
        tail = places[left.run[places] < 0]
        if not alive or (not stays.any() and len(tail) <= LARGE):
            if number >= 0:
                self.chapters[s].drop(number, before, np.ones(len(stays), np.bool_))
                self.pages.drop((f"s{s}.{number}", f"t{s}.{number}"))
                loaded.large[s][key] = -1
            return True
        if number < 0:
            number = self.next
            self.next += 1
            loaded.large[s][key] = number
        self.chapters[s].drop(number, before, ~stays)
        sealed = len(tail) // RUN if len(tail) > RUN else 0
        if sealed and sealed * RUN == len(tail):
            sealed -= 1  # a tail is never empty: it is where the next row, or the rest of its slice, goes
        starts = tail[0] + RUN * np.arange(sealed) if sealed else np.zeros(0, np.int64)
        first = before.following
        sizes = np.zeros(sealed, np.int64)
        for i in range(sealed):
            cells = left.cells.slice(int(starts[i]), RUN)
            sizes[i] = self.pages.write("run", f"r{s}.{number}.{first + i}", {}, [cells])
        items, states = left.summed(left.cell_item[starts], left.cell_item[starts + (RUN - 1)] + 1)
        new = layout.runs(first + np.arange(sealed), np.ones(sealed, np.int64), sizes, items, states)
        summed = self.chapters[s].bound(number, before, stays, left, left.run_item[unopened])
        rest = left.cells.slice(int(tail[0]) + RUN * sealed, len(tail) - RUN * sealed)
        self.pages.write("tail", f"t{s}.{number}", {}, [rest])
        self.pages.write("runs", f"s{s}.{number}", {}, [together([summed, new], layout.run)])
        # what expired in the oldest run is not held
        large_cells[key] += len(places) + RUN * int(before.counts[stays & ~before.opened].sum())
        return False
