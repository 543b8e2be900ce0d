"""Keeping: what a step leaves of its items, when something of a key is due next, and which keys are over."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from sash.kernels.lane import States
from sash.operator import grid
from sash.operator.blocks import Blocks
from sash.operator.frame import Flags, Ints, Items, Numbers, Rows, Segments
from sash.operator.layout import CellLayout, spanned
from sash.operator.loaded import Kept, Loaded
from sash.operator.measure import Met
from sash.operator.row_series import RowSeries
from sash.operator.run_series import RunSeries
from sash.operator.series import Series, later
from sash.query.resolved import Resolved


def left(
    layout: CellLayout,
    series: Series,
    blocks: Blocks,
    met: list[Met],
    states: list[States],
    counts: list[Ints],
    kept: Flags,
    segments: Segments,
) -> Kept:
    """The cells that stay of a series, and how to sum them up."""
    items = blocks.items
    closed = blocks.closed
    run_item = np.zeros(int((closed >= 0).sum()), np.int64)
    run_item[closed[closed >= 0]] = np.flatnonzero(closed >= 0)
    runs_kept = kept[run_item]
    cells = np.flatnonzero(kept & (closed < 0))

    @cache
    def sums() -> tuple[Ints, list[Ints]]:  # once for all large keys
        return _sums(items.rows), [_sums(count) for count in counts]

    def summed(starts: Ints, stops: Ints) -> tuple[Items, list[list[pa.Array]]]:
        rows, seen = sums()
        columns = []
        for p, one in enumerate(met):
            columns.append(one.store(one.measure.lane.fold(states[p], starts, stops), seen[p][stops] - seen[p][starts]))
        return spanned(items, starts, stops, rows), columns

    if isinstance(series, RunSeries) and len(cells):
        edge = items.segment[cells][1:] != items.segment[cells][:-1]
        starts, stops = cells[np.append(True, edge)], cells[np.append(edge, True)] + 1
        one_each, columns = summed(starts, stops)
        batch = layout.partials(one_each, columns)
        own = segments.key[one_each.segment]
        return Kept(batch, own, np.full(len(starts), -1), starts, run_item, summed, runs_kept)
    key = segments.key[items.segment[cells]]
    if isinstance(series, RowSeries):
        batch = blocks.cells(cells)
    else:
        columns = [one.store(_taken(states[p], cells), counts[p][cells]) for p, one in enumerate(met)]
        batch = layout.partials(items.take(cells), columns)
    return Kept(batch, key, blocks.run[cells], cells, run_item, summed, runs_kept)


def _sums(counts: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)])


def due(
    resolved: Resolved,
    first: bool,
    series: Series,
    segments: Segments,
    items: Items,
    kept: Flags,
    loaded: Loaded,
    alive: Flags,
) -> None:
    """Note when something of a key is due next, and when all of it has expired."""
    if first:
        loaded.ever[segments.key] = False
        loaded.expires[segments.key] = True
        loaded.expiry[segments.key] = _never(loaded.expiry)
    alive[segments.key[items.segment[kept]]] = True
    current = np.flatnonzero(~segments.over)
    key = segments.key[current]
    when, ever = (part[current] for part in series.due(segments, items, kept))
    sooner = ever & (~loaded.ever[key] | (when < loaded.due[key]))
    loaded.due[key] = np.where(sooner, when, loaded.due[key])
    loaded.ever[key] |= ever
    last, there = series.last_of(segments, items, kept)
    when, expires = (part[current] for part in series.expiry(segments, items, kept))
    if resolved.forget is not None:
        forgotten = later(last, resolved.forget)[current]
        when = np.where(expires, np.minimum(when, forgotten), forgotten)
        expires = expires | there[current]
    loaded.expiry[key] = np.maximum(loaded.expiry[key], when)
    loaded.expires[key] &= expires | ~there[current]


def count(resolved: Resolved, counts_rows: bool, rows: Rows, segments: Segments, loaded: Loaded, alive: Flags) -> None:
    """Bring the counters of the keys up to date, and see which keys are over."""
    total = segments.rows + np.bincount(rows.segment, minlength=len(segments))
    current = np.flatnonzero(~segments.over)
    loaded.rows[segments.key[current]] = total[current]
    keys = segments.key[rows.segment]
    loaded.last[keys] = rows.time  # in order: the last one stays
    mine = segments.key[current]
    silent = np.zeros(len(mine), np.bool_)
    if resolved.forget is not None:
        now = segments.now[current]
        last = loaded.last[mine]
        gap = grid.since(np.maximum(now, last), last)
        silent = gap > np.asarray(resolved.forget).astype(gap.dtype)
    if counts_rows:
        alive[mine] = True
    unneeded = silent & ~loaded.ever[mine]
    alive[mine] &= ~unneeded & ~segments.done[current]
    if resolved.forget is not None:  # also of keys that only count their rows
        over = later(loaded.last[mine], resolved.forget)
        loaded.expiry[mine] = np.maximum(loaded.expiry[mine], over)
    loaded.expires[mine] &= alive[mine] & (loaded.expiry[mine] > _never(loaded.expiry))


def _never(times: Numbers) -> Any:
    """Before all times: nothing has been said of this one yet."""
    return np.iinfo(np.int64).min if times.dtype.kind == "i" else -np.inf


def _taken(states: States, places: Ints) -> States:
    return tuple(part[places] for part in states)
