"""Emission: which of the results leave.

    final      every result, once
    changes    those that differ from the key's last: exact aggregates by value, others by whether an input entered
               or left
    eager      at the end of each call those that are new or have changed, before they are final

What was last shown of a key is kept with it, in records of its bucket: for `changes` one record a key and window, for
`eager` one for each result that may still change. A record holds the results, and for each aggregate how many values
its key had seen up to the window's start and up to its end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sash.operator.engine import Engine, Found, Step
from sash.operator.frame import Flags, Ints
from sash.operator.keys import key_column, keys_of
from sash.operator.loaded import together
from sash.operator.shown import Records, Shown, differ, joined_shown, taken


class Emission:
    """Chooses what leaves, and remembers what has."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.resolved = engine, engine.resolved
        self.emit = engine.resolved.query.emit
        self.records = Records(engine)
        engine.shelf.remember(self.records.schema, self.emit)
        self._next: tuple[list[pa.Array], Shown] | None = None

    def forget(self) -> None:
        """The call has failed: what it would have shown was not."""
        self._next = None

    # ---- changes ----

    def chosen(self, step: Step) -> list[Flags] | None:
        """Which results of a step leave, for each window (per row: for all of them together); None: all."""
        if self.emit != "changes":
            return None
        totals = self._totals(step)
        before = self.records.unpack(step.loaded.shown, step.loaded.shown_key)
        groups = [step.found] if self.records.per_row else [[found] for found in step.found]
        flags, left = [], []
        for group in groups:
            shown = self._shown(step, group, totals)
            flags.append(self._differs(step, shown, before))
            left.append(self._last(step, shown, before))
        self._remember(step, left, totals)
        return flags

    def _shown(self, step: Step, group: list[Found], totals: list[Ints]) -> Shown:
        """The results of some windows side by side, with counts since each life's first row."""
        answer = group[0].answer
        columns = [column for found in group for column in found.columns]
        low, high = [], []
        for found in group:
            of = found.answer.segment
            for p, (start, end) in enumerate(found.counts):
                some = start > end  # two windows without a value are alike wherever they lie
                low.append(np.where(some, totals[p][of] - start, 0))
                high.append(np.where(some, totals[p][of] - end, 0))
        on: Flags = np.all([found.answer.on for found in group], axis=0)
        zero = np.zeros(len(on), np.int64)
        span = np.full(len(on), -1 if self.records.per_row else answer.span)
        return Shown(answer.segment, span, zero, zero, answer.starts, answer.ends, on, columns, low, high)

    def _totals(self, step: Step) -> list[Ints]:
        """By aggregate and segment: how many values it has seen since the life began, up to now."""
        before = np.zeros((len(step.loaded), self.records.totals), np.int64)
        for p in range(self.records.totals):
            before[step.loaded.shown_key, p] = step.loaded.shown.column(f"total{p}").to_numpy()
        segments = step.segments
        stored = np.where(segments.stored[:, None], before[segments.key], 0)
        return [stored[:, p] + step.seen[p] for p in range(self.records.totals)]

    def _differs(self, step: Step, shown: Shown, before: Shown) -> Flags:
        """Which results differ from the one before, of the same segment; the first from what is remembered."""
        count = len(shown)
        if not count:
            return np.zeros(0, np.bool_)
        first = np.concatenate([[True], shown.key[1:] != shown.key[:-1]])
        earlier = np.maximum(np.arange(count) - 1, 0)
        place = np.full(len(step.loaded), -1)
        mine = np.flatnonzero(before.span == shown.span[0])
        place[before.key[mine]] = mine
        stored = np.where(step.segments.stored[shown.key], place[step.segments.key[shown.key]], -1)
        found = first & (stored < 0)
        against = first & (stored >= 0)
        found |= ~first & self.unlike(shown, np.arange(count), shown, earlier)
        places = np.flatnonzero(against)
        found[places] = self.unlike(shown, places, before, stored[places])
        return found

    def unlike(self, one: Shown, places: Ints, other: Shown, others: Ints) -> Flags:
        """Which results differ, place by place: exact ones by value, others by what entered or left."""
        found = np.zeros(len(places), np.bool_)
        for i in range(self.records.width):
            if self.records.exact[i]:
                found |= differ(one.columns[i].take(pa.array(places)), other.columns[i].take(pa.array(others)))
            else:
                found |= one.low[i][places] != other.low[i][others]
                found |= one.high[i][places] != other.high[i][others]
        return found | (one.on[places] != other.on[others])

    def _last(self, step: Step, shown: Shown, before: Shown) -> tuple[Shown, Ints, Shown, Ints]:
        """What is the key's last result from now on: the last of the step, or what it was."""
        last = np.flatnonzero(np.append(shown.key[1:] != shown.key[:-1], True)) if len(shown) else np.zeros(0, np.int64)
        last = last[~step.segments.over[shown.key[last]]]
        now = step.segments.key[shown.key[last]]
        span = -1 if self.records.per_row else int(shown.span[0]) if len(shown) else -2
        anew = step.segments.key[~step.segments.stored]
        stay = np.flatnonzero((before.span == span) & ~np.isin(before.key, now) & ~np.isin(before.key, anew))
        return shown, last, before, stay

    def _remember(self, step: Step, left: list[tuple[Shown, Ints, Shown, Ints]], totals: list[Ints]) -> None:
        current = np.flatnonzero(~step.segments.over)
        total = np.zeros((len(step.loaded), self.records.totals), np.int64)
        for p in range(self.records.totals):
            total[step.loaded.shown_key, p] = step.loaded.shown.column(f"total{p}").to_numpy()
            total[step.segments.key[current], p] = totals[p][current]
        batches, keys = [], []
        seen: set[int] = set()
        for shown, last, before, stay in left:
            for source, places, key in (
                (shown, last, step.segments.key[shown.key[last]]),
                (before, stay, before.key[stay]),
            ):
                part = taken(source, places)
                batches.append(self.records.pack(part, [total[key, p] for p in range(self.records.totals)]))
                keys.append(key)
            seen.update([-1] if self.records.per_row else shown.span.tolist())
        silent = list(set(self._spans()) - seen)
        if left and silent:
            before = left[0][2]
            anew = step.segments.key[~step.segments.stored]
            stay = np.flatnonzero(np.isin(before.span, silent) & ~np.isin(before.key, anew))
            key = before.key[stay]
            batches.append(self.records.pack(taken(before, stay), [total[key, p] for p in range(self.records.totals)]))
            keys.append(key)
        step.loaded.shown = together(batches, self.records.schema)
        step.loaded.shown_key = np.concatenate(keys) if keys else np.zeros(0, np.int64)

    def _spans(self) -> list[int]:
        return [-1] if self.records.per_row else list(range(len(self.resolved.spans)))

    # ---- eager ----

    def preview(
        self, table: pa.RecordBatch, time: Any, arrival: Ints, waiting: Any, before: Any
    ) -> tuple[Step, list[tuple[list[Found], Ints, Ints, Ints]]]:
        """The results of the keys of new rows, as if all that waits were settled: those new or changed, by window.

        For each window (per row: for all together) its results, the places of those to show, their ids and revisions.
        """
        first = int(arrival[0]) if len(arrival) else 0
        table, time, arrival = self._with_waiting(table, time, arrival, waiting)
        step = self.engine.step(table, time, arrival, before=before, commit=False, called=first)
        shown_before = self.records.unpack(step.loaded.shown, step.loaded.shown_key)
        found, records = [], []
        groups = [step.found] if self.records.per_row else [[one] for one in step.found]
        for group in groups:
            shown = self._early(step, group)
            place, revision = self._known(step, shown, shown_before)
            new = place < 0
            changed = ~new
            changed[~new] = self.unlike(shown, np.flatnonzero(~new), shown_before, place[~new])
            changed[~new] |= shown.start[~new] != shown_before.start[place[~new]]
            changed[~new] |= shown.end[~new] != shown_before.end[place[~new]]
            changed |= self._touched(group)
            changed |= new
            shown.revision = np.where(changed, revision + 1, revision)
            places = np.flatnonzero(changed)
            found.append((group, places, self._ids(step, shown)[places], shown.revision[places]))
            records.append(shown)
        self._next = (list(step.loaded.columns), joined_shown(records))
        return step, found

    def _with_waiting(self, table: Any, time: Any, arrival: Any, waiting: Any) -> Any:
        if waiting is None or not waiting[0].num_rows:
            return table, time, arrival
        old, when, number = waiting
        both = [key_column(pa.concat_arrays([table.column(n), old.column(n)])) for n in self.resolved.by]
        codes = keys_of(both, len(time) + len(when)).codes
        mine = np.flatnonzero(np.isin(codes[len(time) :], codes[: len(time)]))
        old = old.take(pa.array(mine))
        return (
            together([old, table], old.schema),
            np.concatenate([when[mine], time]),
            np.concatenate([number[mine], arrival]),
        )

    def _early(self, step: Step, group: list[Found]) -> Shown:
        answer = group[0].answer
        columns = [column for found in group for column in found.columns]
        low = [np.zeros(len(answer.los), np.int64) for _ in columns]
        high = [start - end for found in group for start, end in found.counts]
        on: Flags = np.all([found.answer.on for found in group], axis=0)
        ident = step.rows.arrival[answer.rows] if self.records.per_row and answer.rows is not None else answer.ident
        ends = step.rows.time if self.records.per_row else answer.ends
        starts = ends if self.records.per_row else answer.starts
        span = np.full(len(on), -1 if self.records.per_row else answer.span)
        key = step.segments.key[answer.segment]
        return Shown(key, span, ident, np.zeros(len(on), np.int64), starts, ends, on, columns, low, high)

    def _known(self, step: Step, shown: Shown, before: Shown) -> tuple[Ints, Ints]:
        """By result: its record, -1 if it is new, and its last revision."""
        if not len(shown) or not len(before):
            return np.full(len(shown), -1), np.full(len(shown), -1)
        names = np.stack(
            [
                np.concatenate(pair)
                for pair in ((before.key, shown.key), (before.span, shown.span), (before.ident, shown.ident))
            ]
        )
        _, codes = np.unique(names, axis=1, return_inverse=True)
        codes = codes.reshape(-1)
        place = np.full(int(codes.max()) + 1, -1)
        place[codes[: len(before)]] = np.arange(len(before))
        found = place[codes[len(before) :]]
        return found, np.where(found < 0, -1, before.revision[found])

    def _touched(self, group: list[Found]) -> Flags:
        """Which results of inexact aggregates have an input that came with this call."""
        found = np.zeros(len(group[0].answer.los), np.bool_)
        for i, one in enumerate(group):
            for p in range(len(one.columns)):
                if not self.records.exact[i * len(one.columns) + p if self.records.per_row else p]:
                    found |= one.fresh[p] > 0
        return found & group[0].answer.on

    def _ids(self, step: Step, shown: Shown) -> Ints:
        if self.records.per_row:
            return shown.ident
        hashes = step.loaded.hashes[shown.key]
        mixed = (hashes * np.uint64(31) + shown.span.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(29))) + shown.ident.astype(np.int64).view(np.uint64) * np.uint64(
            0xBF58476D1CE4E5B9
        )
        return (mixed >> np.uint64(1)).astype(np.int64)

    def settled(self, step: Step, watermark: Any, closing: bool) -> None:
        """Remember what was shown by `preview`, and forget what is final."""
        loaded = step.loaded
        before = self.records.unpack(loaded.shown, loaded.shown_key)
        parts = [before]
        if self._next is not None:
            columns, shown = self._next
            if columns:
                both = [pa.concat_arrays(pair) for pair in zip(loaded.columns, columns, strict=True)]
                codes = keys_of(both, len(loaded) + len(columns[0])).codes[len(loaded) :]
            else:
                codes = np.zeros(1, np.int64)
            shown.key = codes[shown.key]
            parts = [taken(before, np.flatnonzero(~np.isin(before.key, shown.key))), shown]
            self._next = None
        batches, keys = [], []
        for part in parts:
            stays = np.flatnonzero(self._open(part, watermark, closing))
            zeros = [np.zeros(len(stays), np.int64)] * self.records.totals
            batches.append(self.records.pack(taken(part, stays), zeros))
            keys.append(part.key[stays])
        loaded.shown = together(batches, self.records.schema)
        loaded.shown_key = np.concatenate(keys)

    def _open(self, shown: Shown, watermark: Any, closing: bool) -> Flags:
        """Which results may still change."""
        if closing or self.resolved.time is None or watermark is None:
            return np.full(len(shown), not closing and self.resolved.time is not None)
        if self.records.per_row:
            return shown.end >= watermark
        if not len(shown):
            return np.zeros(0, np.bool_)
        left = np.array([s.slide == "time" and s.closed != "right" for s in self.resolved.spans])
        return np.where(left[shown.span], shown.end > watermark, shown.end >= watermark)
