"""Large keys: runs of cells in pages of their own, of which a step opens only those in which a window begins.

    runs page    │ run 3 │ run 4 │ run 5 │ run 6 │       coordinates, and a state per aggregate
                     ▲                        tail page
                 a window begins here: its cells are read one by one, those of runs 4 to 6 are not

A run is written once, when the tail has grown beyond it, and dropped as a whole. A key that has shrunk to a tail
goes back to its bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sash.operator.frame import Flags, Ints
from sash.operator.layout import CellLayout
from sash.operator.loaded import Kept, Loaded, Stored, together
from sash.operator.pages import Pages

RUN = 512
"""Cells of a run."""

LARGE = 4 * RUN
"""Beyond this many cells of one series a key has pages of its own."""


class LargeKeys:
    """The pages of large keys."""

    def __init__(self, pages: Pages, layouts: Sequence[CellLayout]) -> None:
        self.pages, self.layouts = pages, layouts
        self.next = 0
        """The number of the next large key."""

    def open(
        self, loaded: Loaded, s: int, chosen: Flags, cells: pa.RecordBatch, cell_key: Ints, straddled: Any
    ) -> Stored:
        """What is stored of a series, for the chosen keys, given the cells of small ones."""
        layout = self.layouts[s]
        large = np.flatnonzero(chosen & (loaded.large[s] >= 0))
        empty = together([], layout.run)
        if not len(large):
            return Stored(cells, cell_key, np.full(len(cell_key), -1), empty, np.zeros(0, np.int64))
        numbers = loaded.large[s][large].tolist()
        pages = self.pages.read("runs", [f"s{s}.{n}" for n in numbers], [layout.run])
        tails = self.pages.read("tail", [f"t{s}.{n}" for n in numbers], [layout.cell])
        runs = [batches[0] for _, batches in pages]
        run_key = np.repeat(large, [batch.num_rows for batch in runs])
        summed = together(runs, layout.run)
        beyond = np.zeros(len(loaded), np.int64)
        beyond[large] = [batches[0].num_rows for _, batches in tails]
        opened = straddled(layout.items_of_runs(summed, run_key), run_key, beyond)
        names, owners, labels = [], [], []
        for place in np.flatnonzero(opened).tolist():
            label = int(summed.column("run")[place].as_py())
            names.append(f"r{s}.{loaded.large[s][run_key[place]]}.{label}")
            owners.append(int(run_key[place]))
            labels.append(label)
        read = [batches[0] for _, batches in self.pages.read("run", names, [layout.cell])]
        parts = [cells, *read, *(batches[0] for _, batches in tails)]
        lengths = [batch.num_rows for batch in parts]
        key = np.concatenate([cell_key, np.repeat(np.array([*owners, *large.tolist()], np.int64), lengths[1:])])
        run = np.concatenate(
            [np.full(len(cell_key), -1), np.repeat(np.array([*labels, *[-1] * len(large)], np.int64), lengths[1:])]
        )
        closed = np.flatnonzero(~opened)
        order = np.lexsort((np.where(run < 0, 2**62, run), key))
        joined = together(parts, layout.cell).take(pa.array(order))
        return Stored(joined, key[order], run[order], summed.take(pa.array(closed)), run_key[closed])

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
        unopened = np.arange(*np.searchsorted(stored.run_key, (key, key + 1)))
        labels = stored.runs.column("run").to_numpy()
        opened = stored.cell_run[slice(*np.searchsorted(stored.cell_key, (key, key + 1)))]
        before = set(labels[unopened].tolist()) | set(np.unique(opened[opened >= 0]).tolist())
        closed = unopened[left.runs[unopened]]
        open_now = set(np.unique(left.run[places]).tolist()) - {-1}
        after = set(labels[closed].tolist()) | open_now
        tail = places[left.run[places] < 0]
        if number >= 0:
            self._drop(s, number, before - after if alive else before)
        if not alive or (not after and len(tail) <= LARGE):
            if number >= 0:
                self.pages.drop((f"s{s}.{number}", f"t{s}.{number}"))
                loaded.large[s][key] = -1
            return True
        if number < 0:
            number = self.next
            self.next += 1
            loaded.large[s][key] = number
        sealed = len(tail) // RUN if len(tail) > RUN else 0
        if sealed and sealed * RUN == len(tail):
            sealed -= 1  # a tail is never empty: it is where the next row, or the rest of its slice, goes
        starts = tail[0] + RUN * np.arange(sealed) if sealed else np.zeros(0, np.int64)
        new = left.sealed(starts, starts + RUN)
        first = max(before, default=-1) + 1
        sizes = np.zeros(sealed, np.int64)
        for i in range(sealed):
            cells = left.cells.slice(int(starts[i]), RUN)
            sizes[i] = self.pages.write("run", f"r{s}.{number}.{first + i}", {}, [cells])
        rows = [stored.runs.take(pa.array(closed)), self._opened(s, number, open_now)]
        rows.append(layout.runs(first + np.arange(sealed), sizes, *new))
        summed = together(rows, layout.run)
        summed = summed.take(pa.array(np.argsort(summed.column("run").to_numpy(), kind="stable")))
        rest = left.cells.slice(int(tail[0]) + RUN * sealed, len(tail) - RUN * sealed)
        self.pages.write("tail", f"t{s}.{number}", {}, [rest])
        self.pages.write("runs", f"s{s}.{number}", {}, [summed])
        large_cells[key] += len(places) + RUN * len(closed)  # what expired in the oldest run is not held
        return False

    def _drop(self, s: int, number: int, labels: set[int]) -> None:
        """Drop runs, which the runs page knows the sizes of."""
        if labels:
            ((_, (before,)),) = self.pages.read("runs", [f"s{s}.{number}"], [self.layouts[s].run])
            known = zip(before.column("run").to_pylist(), before.column("bytes").to_pylist(), strict=True)
            sizes = {f"r{s}.{number}.{label}": size for label, size in known}
            self.pages.drop((f"r{s}.{number}.{label}" for label in labels), sizes)

    def _opened(self, s: int, number: int, labels: set[int]) -> pa.RecordBatch:
        """The sums of runs that were opened and stay, as they were."""
        layout = self.layouts[s]
        if not labels:
            return together([], layout.run)
        ((_, (before,)),) = self.pages.read("runs", [f"s{s}.{number}"], [layout.run])
        chosen = np.isin(before.column("run").to_numpy(), list(labels))
        return before.take(pa.array(np.flatnonzero(chosen)))
