"""The shelf: what is kept of every key, in pages of a store; a step reads and writes only what it touches.

    bucket page     many small keys: their values, counters, and the cells of each series
    tail page       of a large key and one series: its youngest cells
    run page        some 512 cells of it, never written again
    runs page       its runs, summed up: coordinates and one state per aggregate

        hash of the key ──▶ bucket ──▶ small: all of its cells
                                   └─▶ large: runs page ──▶ the runs in which a window begins

Buckets are ranges of hashes; one whose page grows too large is cut in two. A bucket also says when something of one
of its keys is due, so that those without new rows cost nothing until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sash.operator.frame import Flags, Ints, Numbers, stable_order
from sash.operator.keys import Keys, keys_of
from sash.operator.large import LargeKeys
from sash.operator.layout import CellLayout
from sash.operator.loaded import Kept, Loaded, Stored, together
from sash.operator.pages import Pages

PAGE = 1 << 17
"""A bucket page beyond this many bytes is cut in two."""


class Shelf:
    """Keys and their items in a store."""

    def __init__(
        self, pages: Pages, keys: pa.Schema, layouts: Sequence[CellLayout], policies: Sequence[int], number: pa.DataType
    ) -> None:
        self.pages, self.layouts, self.policies = pages, list(layouts), list(policies)
        self.number_type = number
        own = [pa.field(f"k{i}", kind) for i, kind in enumerate(keys.types)]
        own += [pa.field("rows", pa.int64()), pa.field("last", number), pa.field("due", number)]
        own += [pa.field("expiry", number), pa.field("elements", pa.int64())]
        own += [pa.field(f"held{place}", pa.int64()) for place in policies]
        own += [pa.field(f"large{s}", pa.int64()) for s in range(len(layouts))]
        self.keys = pa.schema(own)
        self.by = len(keys)
        key = pa.field("key", pa.int32())
        self.schemas = [self.keys, *(pa.schema([key, *layout.cell]) for layout in layouts), pa.schema([key])]
        self.directory = pa.schema(
            [
                pa.field("start", pa.uint64()),
                pa.field("due", number),
                pa.field("keys", pa.int64()),
                pa.field("cells", pa.int64()),
            ]
        )
        self.starts = np.zeros(0, np.uint64)
        self.when: list[Any] = []
        self.counts: list[tuple[int, int]] = []
        self.large = LargeKeys(pages, self.layouts)

    def remember(self, records: pa.Schema, emit: str) -> None:
        """Keep records of this schema, of this emission, with the keys."""
        self.emit = emit
        self.schemas[-1] = pa.schema([pa.field("key", pa.int32()), *records])

    # ---- the directory, kept in the header ----

    def to_batch(self) -> pa.RecordBatch:
        """The directory as a batch."""
        counts = list(zip(*self.counts, strict=True)) or [(), ()]
        arrays = [
            pa.array(self.starts),
            pa.array(self.when, self.number_type),
            *(pa.array(column, pa.int64()) for column in counts),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.directory)

    def from_batch(self, batch: pa.RecordBatch, next_large: int) -> None:
        """Take the directory from a batch."""
        self.starts = batch.column("start").to_numpy()
        self.when = batch.column("due").cast(self.number_type).to_pylist()
        self.counts = list(zip(batch.column("keys").to_pylist(), batch.column("cells").to_pylist(), strict=True))
        self.large.next = next_large

    @property
    def key_count(self) -> int:
        return sum(keys for keys, _ in self.counts)

    @property
    def cell_count(self) -> int:
        return sum(cells for _, cells in self.counts)

    def awake(self, now: Any) -> list[int]:
        """The buckets of which something is due."""
        return [] if now is None else [i for i, due in enumerate(self.when) if due is not None and due <= now]

    # ---- reading ----

    def load(self, keys: Keys, now: Any, everything: bool, asleep: bool = False) -> Loaded:
        """The buckets of these keys, and those of which something is due at `now`, unless they are to sleep on."""
        hashes = keys.hashes() if self.by else np.zeros(keys.count, np.uint64)
        asked = len(hashes) and len(keys.codes) > 0
        wanted: set[int] = set()
        if asked and len(self.starts):
            wanted.update((np.searchsorted(self.starts, hashes, "right") - 1).tolist())
        due = [] if asleep else list(range(len(self.starts))) if everything else self.awake(now)
        wanted.update(due)
        at_once = set(due)
        buckets = sorted(i for i in wanted if self.counts[i][0])
        read = self.pages.read("bucket", [self._bucket(i) for i in buckets], self.schemas)
        own = [batches[0] for _, batches in read]
        stored = together(own, self.keys)
        known = stored.num_rows
        columns = [stored.column(i) for i in range(self.by)]
        awake = _keys_of_buckets(own, [i for i, bucket in enumerate(buckets) if bucket in at_once])
        codes, columns, total = self._matched(columns, known, keys if asked else None)
        loaded = self._numbers(stored, total)
        if now is not None and not asleep:  # read anyway: let those go of which nothing is needed any more
            over = loaded["expires"][:known] & (loaded["expiry"][:known] <= now)
            awake = np.union1d(awake, np.flatnonzero(over))
        offsets = np.cumsum([0, *(batch.num_rows for batch in own)])
        cells, cell_key = [], []
        for s, schema in enumerate(self.schemas[1:]):
            batches = [batches[s + 1] for _, batches in read]
            if s == len(self.layouts):  # what was shown under another emission means nothing under this one
                alike = [meta["emit"] == self.emit for meta, _ in read]
                batches = [b if same else b.slice(0, 0) for b, same in zip(batches, alike, strict=True)]
            joined = together(batches, schema)
            places = [b.column(0).to_numpy() + offset for b, offset in zip(batches, offsets[:-1], strict=True)]
            cell_key.append(np.concatenate(places).astype(np.int64) if places else np.zeros(0, np.int64))
            cells.append(pa.RecordBatch.from_arrays(joined.columns[1:], schema=pa.schema(list(schema)[1:])))
        all_keys = Keys(np.arange(total), tuple(columns), total)
        return Loaded(
            columns=columns,
            hashes=all_keys.hashes() if self.by else np.zeros(total, np.uint64),
            known=known,
            codes=codes,
            cells=cells[:-1],
            cell_key=cell_key[:-1],
            shown=cells[-1],
            shown_key=cell_key[-1],
            buckets=buckets,
            awake=awake,
            **loaded,
        )

    def _matched(self, columns: list[pa.Array], known: int, keys: Keys | None) -> tuple[Ints, list[pa.Array], int]:
        """The codes of the keys that are asked for among the stored ones and new ones behind them."""
        if keys is None:
            return np.zeros(0, np.int64), columns, known
        if not self.by:
            return np.zeros(keys.count, np.int64), columns, 1
        both = [pa.concat_arrays([old, new]) for old, new in zip(columns, keys.columns, strict=True)]
        found = keys_of(both, known + keys.count)
        return found.codes[known:], list(found.columns), found.count

    def _numbers(self, stored: pa.RecordBatch, total: int) -> dict[str, Any]:
        known = stored.num_rows

        def column(name: str, fill: Any) -> Any:
            return np.concatenate([stored.column(name).to_numpy(), np.full(total - known, fill, np.int64)])

        def when(name: str) -> tuple[Any, Any]:
            array = stored.column(name)
            there = np.concatenate([array.is_valid().to_numpy(zero_copy_only=False), np.zeros(total - known, bool)])
            kind = np.int64 if pa.types.is_integer(self.number_type) else np.float64
            return np.concatenate([array.fill_null(0).to_numpy().astype(kind), np.zeros(total - known, kind)]), there

        last, _ = when("last")
        due, ever = when("due")
        expiry, expires = when("expiry")
        return {
            "rows": column("rows", 0),
            "elements": column("elements", 0),
            "last": last,
            "due": due,
            "ever": ever,
            "expiry": expiry,
            "expires": expires,
            "held": {place: column(f"held{place}", 0) for place in self.policies},
            "large": [column(f"large{s}", -1) for s in range(len(self.layouts))],
        }

    def stored(self, loaded: Loaded, s: int, chosen: Flags, straddled: Any) -> Stored:
        """What is stored of a series for the chosen keys. `straddled(runs, keys)` says which runs to open."""
        keys = loaded.cell_key[s]
        mine = np.flatnonzero(chosen[keys])
        cells, cell_key = loaded.cells[s], keys
        if len(mine) < len(keys):
            cells, cell_key = cells.take(pa.array(mine)), keys[mine]
        return self.large.open(loaded, s, chosen, cells, cell_key, straddled)

    # ---- writing ----

    def keep(self, loaded: Loaded, chosen: Flags, alive: Flags, kept: Sequence[Kept], stored: Sequence[Stored]) -> None:
        """Write what a step left of the chosen keys; the others stay as they are. Keys not alive are dropped."""
        tables: list[tuple[pa.RecordBatch, Ints, Ints]] = []
        large_cells = np.where(chosen, 0, loaded.elements)
        for s, left in enumerate(kept):
            small = np.flatnonzero(self.large.keep(loaded, s, left, stored[s], alive, large_cells))
            others = np.flatnonzero(~chosen[loaded.cell_key[s]])
            both = together([loaded.cells[s], left.cells], self.layouts[s].cell)
            source = np.concatenate([others, len(loaded.cell_key[s]) + small])
            tables.append((both, source, np.concatenate([loaded.cell_key[s][others], left.key[small]])))
        tables.append((loaded.shown, np.arange(len(loaded.shown_key)), loaded.shown_key))
        self._keep_buckets(loaded, alive, tables, large_cells)

    def _keep_buckets(
        self, loaded: Loaded, alive: Flags, tables: list[tuple[pa.RecordBatch, Ints, Ints]], large_cells: Ints
    ) -> None:
        if not len(self.starts) and len(loaded):
            self.starts, self.when, self.counts = np.zeros(1, np.uint64), [None], [(0, 0)]
        loaded.elements = large_cells
        bucket = np.searchsorted(self.starts, loaded.hashes, "right") - 1
        touched = sorted({*loaded.buckets, *np.unique(bucket).tolist()})
        self.number = np.zeros(len(loaded), np.int64)
        parts = [_parted(np.flatnonzero(alive), bucket, len(self.starts))]
        counts = large_cells.copy()
        for i, (batch, source, key) in enumerate(tables):
            living = np.flatnonzero(alive[key])
            order = living[stable_order(key[living], len(loaded))]
            tables[i] = batch, source[order], key[order]
            parts.append(_parted(np.arange(len(order)), bucket[key[order]], len(self.starts)))
            if i < len(self.layouts):
                counts += np.bincount(key[order], minlength=len(loaded))
        for i in reversed(touched):  # cutting one in two moves those behind it
            mine = [rows[edges[i] : edges[i + 1]] for rows, edges in parts]
            self._keep_bucket(i, mine[0], mine[1:], loaded, counts, tables)

    def _keep_bucket(
        self,
        i: int,
        members: Ints,
        cells: list[Ints],
        loaded: Loaded,
        counts: Ints,
        tables: list[tuple[pa.RecordBatch, Ints, Ints]],
    ) -> None:
        """Write the bucket of these keys and these cells of each table, or two if its page would be too large."""
        start = int(self.starts[i])
        if not len(members):
            self.pages.drop([f"b{start:016x}"])
            self.when[i], self.counts[i] = None, (0, 0)
            return
        batches = self._batches(members, cells, loaded, tables)
        stop = int(self.starts[i + 1]) if i + 1 < len(self.starts) else 2**64
        if sum(batch.nbytes for batch in batches) > PAGE and len(members) > 1 and stop - start > 1:
            middle = start + (stop - start) // 2
            self.starts = np.insert(self.starts, i + 1, np.uint64(middle))
            self.when.insert(i + 1, None)
            self.counts.insert(i + 1, (0, 0))
            for place, upper in ((i + 1, True), (i, False)):
                half = members[(loaded.hashes[members] >= np.uint64(middle)) == upper]
                mine = [
                    rows[(loaded.hashes[key[rows]] >= np.uint64(middle)) == upper]
                    for rows, (_, _, key) in zip(cells, tables, strict=True)
                ]
                self._keep_bucket(place, half, mine, loaded, counts, tables)
            return
        self.pages.write("bucket", f"b{start:016x}", {"emit": self.emit}, batches)
        due = [loaded.due[members][loaded.ever[members]].min()] if loaded.ever[members].any() else []
        if loaded.expires[members].any():
            due.append(loaded.expiry[members][loaded.expires[members]].max())
        self.when[i] = min(due).item() if due else None
        self.counts[i] = (len(members), int(counts[members].sum()))

    def _batches(
        self, members: Ints, cells: list[Ints], loaded: Loaded, tables: list[tuple[pa.RecordBatch, Ints, Ints]]
    ) -> list[pa.RecordBatch]:
        taken = pa.array(members)

        def when(values: Numbers, there: Flags) -> pa.Array:
            return pa.array(values[members], self.number_type, mask=~there[members])

        arrays = [column.take(taken) for column in loaded.columns]
        arrays += [pa.array(loaded.rows[members]), pa.array(loaded.last[members], self.number_type)]
        arrays += [when(loaded.due, loaded.ever), when(loaded.expiry, loaded.expires)]
        arrays += [pa.array(loaded.elements[members])]
        arrays += [pa.array(loaded.held[place][members]) for place in self.policies]
        arrays += [pa.array(large[members]) for large in loaded.large]
        found = [pa.RecordBatch.from_arrays(arrays, schema=self.keys)]
        self.number[members] = np.arange(len(members))
        for s, (mine, (batch, source, key)) in enumerate(zip(cells, tables, strict=True)):
            part = batch.take(pa.array(source[mine]))
            column = pa.array(self.number[key[mine]].astype(np.int32))
            found.append(pa.RecordBatch.from_arrays([column, *part.columns], schema=self.schemas[s + 1]))
        return found

    def _bucket(self, i: int) -> str:
        return f"b{int(self.starts[i]):016x}"


def _keys_of_buckets(own: Sequence[pa.RecordBatch], chosen: Sequence[int]) -> Ints:
    offsets = np.cumsum([0, *(batch.num_rows for batch in own)])
    ranges = [np.arange(offsets[i], offsets[i + 1]) for i in chosen]
    return np.concatenate(ranges) if ranges else np.zeros(0, np.int64)


def _parted(rows: Ints, bucket: Ints, count: int) -> tuple[Ints, Ints]:
    """Rows by the bucket of each, in order, and where each bucket begins."""
    own = bucket[rows]
    order = stable_order(own, count)
    return rows[order], np.searchsorted(own[order], np.arange(count + 1))
