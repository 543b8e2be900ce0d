"""The pages of an eager operator in a store: each call writes a small page, and small pages are merged.

    header    the progress of the operator, and the list of pages
    e<n>      the changes of a call: its rows, the revisions of older rows, its keys, the emitted slides

As in a log-structured merge tree, FAN_OUT pages of similar size are merged into one, with the current state of what is
still needed. It is written from memory: pages are read only when a store is opened. A call writes its own rows, and a
row is written O(log n) times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sash.columns.input_encoding import numbers
from sash.columns.time_numbers import finite
from sash.engine.revise.eager_change import EagerJournal
from sash.engine.revise.eager_engine import EagerEngine
from sash.kernels.loops.array_types import NO_INTS, Flags, Ints, longer
from sash.kernels.loops.eager_windows import COUNT
from sash.state.eager_codec import EagerCodec, EagerShare
from sash.state.header_page import Header, PageEntry, StoredState, read_header
from sash.stores import PageError, Store

FAN_OUT = 16
"""Pages of similar size that are merged into one."""

SPARSE = 64
"""A page of this many rows or more is rewritten when most of them have been dropped."""


@dataclass(frozen=True, eq=False)
class EagerPage:
    """The contents of a page: row numbers, older rows and their arrival, slots, by window slots and names of slides."""

    number: int
    rids: Ints
    revised: Ints
    arrival: Ints
    slots: Ints
    slides: list[Ints]

    @property
    def level(self) -> int:
        """Pages of one level are of similar size."""
        entries = len(self.rids) + len(self.revised) + len(self.slots) + sum(map(len, self.slides))
        return max(entries.bit_length() - 1, 0) // (FAN_OUT.bit_length() - 1)


class EagerPages(StoredState):
    """The state of one eager engine as pages of a store."""

    def __init__(self, engine: EagerEngine, store: Store, mode: str) -> None:
        super().__init__(store, engine.bound_query, mode)
        self.engine = engine
        self.codec = EagerCodec(engine)
        self.pages: tuple[EagerPage, ...] = ()
        self.page_of = np.full(len(engine.state.rows.labels), -1, np.int64)
        """By row number: the page that holds the row."""
        self.retained: dict[int, int] = {}
        """By page: how many of its rows are still needed."""
        self.scanned = 0
        """How many rows were scanned to merge pages."""
        self._moved: list[tuple[Ints, Ints]] = []
        self._before: tuple[tuple[EagerPage, ...], int, dict[int, int]] | None = None
        engine.state.rows.add_followers(self)

    def grow_rows(self, length: int) -> None:
        """Reserve space for this many row numbers."""
        before = len(self.page_of)
        self.page_of = longer(self.page_of, length)
        self.page_of[before:] = -1

    def grow_slots(self, slots: int, arena: int) -> None:
        """Do nothing: pages have no arrays by slot."""

    def detach(self) -> None:
        """Stop following the rows of the engine."""
        self.engine.state.rows.remove_follower(self)

    # ---- opening ----

    def open(self) -> Header | None:
        """Load the state from the store; None if it is empty."""
        found = read_header(self.transaction, self.mode, self.number_type)
        if found is None:
            return None
        header, _, directory = found
        if not header.eager:
            raise PageError(
                "the state was written with another emit=: it holds windows as of the watermark, and "
                "emit='eager' needs the rows. Open it with emit='final' or 'changes', or start without it"
            )
        names = [f"e{number}" for number in numbers(directory.column("page")).tolist()]
        self.transaction.expect(dict(zip(names, directory.column("generation").to_pylist(), strict=True)))
        read = [batches for _, batches in self.transaction.read("eager", names, self.codec.schemas)] if names else []
        self.engine.continue_from(header.counters.rows_in)
        rids = self.codec.load(dict(zip(names, read, strict=True)), finite(header.watermark))
        rows = self.engine.state.rows
        every = np.concatenate(rids) if rids else NO_INTS
        by_arrival = dict(zip(rows.arrival[every].tolist(), every.tolist(), strict=True))
        pages = []
        for name, batches, mine in zip(names, read, rids, strict=True):
            arrival = [a for a in numbers(batches[2].column("arrival")).tolist() if a in by_arrival]
            revised = np.array([by_arrival[a] for a in arrival], np.int64)
            slots = self.codec.slots_of(batches[0])
            slides = [
                np.stack([slots[numbers(table.column("key"))], numbers(table.column("name"))], 1)
                for table in batches[3:]
            ]
            alive = slots[slots >= 0]
            pages.append(EagerPage(int(name[1:]), mine, revised, np.array(arrival, np.int64), alive, slides))
            self.page_of[mine] = pages[-1].number
        self.retained = {page.number: len(page.rids) for page in pages}
        self.pages, self.next_page, self.token = tuple(pages), header.page, header.token
        self.transaction.rollback()
        return header

    # ---- committing ----

    def write(self, header: Header) -> None:
        """Write the changes of the call, and the header."""
        state, journal = self.engine.state, self.engine.state.journal
        self._before = self.pages, self.next_page, self.retained
        self.retained = dict(self.retained)
        self.transaction.number_call()
        if journal is not None:
            if state.keys.count > len(journal.gone):
                self._write_call(journal)
                self._merge(journal.gone)
            else:
                self.transaction.drop([f"e{page.number}" for page in self.pages])
                self.pages, self.retained = (), {}
        self._write_header(header)

    def _living(self, slots: Ints, gone: Ints) -> Flags:
        """Which of these slots have a key that does not expire with this call."""
        found: Flags = self.engine.state.alive[slots]
        return found & ~np.isin(slots, gone) if len(gone) else found

    def write_all(self, header: Header) -> None:
        """Write the whole state as one page."""
        share = self.codec.everything()
        self.next_page += 1
        self.transaction.write("eager", "e0", {}, self.codec.encode(share))
        self.pages = (EagerPage(0, share.rids, NO_INTS, NO_INTS, share.slots, []),)
        self._write_header(header, shared=False)

    def _write_header(self, header: Header, shared: bool = True) -> None:
        generation = self.transaction.generation_of
        listed = [PageEntry(page.number, 0, 0, len(page.rids), generation(f"e{page.number}")) for page in self.pages]
        self.commit_header(header, None, listed, shared)

    def _write_call(self, journal: EagerJournal) -> None:
        state, change = self.engine.state, journal.change
        fresh, of, taken_back = NO_INTS, NO_INTS, NO_INTS
        if change is not None:
            fresh, of, taken_back = change.new.rids, change.new.slots, change.removed.rids
        lost = np.concatenate(
            [*journal.dropped, state.rows.first_rids(journal.gone, state.rows.heads[journal.gone, COUNT])]
        )
        stays = self._living(of, journal.gone) & ~np.isin(fresh, lost)
        fresh, of = fresh[stays], of[stays]
        revised = np.unique(np.concatenate([rids for rids, _ in journal.revised] or [NO_INTS]))
        revised = revised[~np.isin(revised, np.concatenate([fresh, lost])) & (self.page_of[revised] >= 0)]
        slots = np.unique(journal.slots[self._living(journal.slots, journal.gone)])
        self._move(lost, -1)
        slides = [_of(records.changes(), slots, records.width) for records in self.codec.records]
        if len(slots) or len(revised) or len(taken_back):
            self._put(EagerShare(slots, fresh, of, revised, taken_back, slides))

    def _put(self, share: EagerShare) -> None:
        """Write a page."""
        number, self.next_page = self.next_page, self.next_page + 1
        self.transaction.write("eager", f"e{number}", {}, self.codec.encode(share))
        arrival = self.engine.state.rows.arrival[share.revised]
        slides = [table[:, :2] for table in share.slides]
        self.pages = (*self.pages, EagerPage(number, share.rids, share.revised, arrival, share.slots, slides))
        self._move(share.rids, number)

    def _move(self, rids: Ints, page: int) -> None:
        before = self.page_of[rids]
        self._moved.append((rids, before))
        self.page_of[rids] = page
        for number, count in zip(*(part.tolist() for part in np.unique_counts(before)), strict=True):
            if number in self.retained:
                self.retained[number] -= count
        if page >= 0:
            self.retained[page] = len(rids)

    # ---- merging ----

    def _merge(self, gone: Ints) -> None:
        """Merge pages of similar size, and rewrite pages whose rows have mostly been dropped."""
        while True:
            levels: dict[int, list[EagerPage]] = {}
            for page in self.pages:
                levels.setdefault(page.level, []).append(page)
            many = next((pages for pages in levels.values() if len(pages) >= FAN_OUT), None)
            if many is None:
                break
            self._rewrite(many, gone)
        for page in self.pages:
            if len(page.rids) >= SPARSE and 4 * self.retained[page.number] < len(page.rids):
                self._rewrite([page], gone)

    def _rows_of(self, page: EagerPage) -> Ints:
        self.scanned += len(page.rids)
        found: Ints = page.rids[self.page_of[page.rids] == page.number]
        return found

    def _rewrite(self, pages: list[EagerPage], gone: Ints) -> None:
        """Write the current state of what pages hold and is still needed, as one page."""
        rows = self.engine.state.rows
        rids = np.concatenate([self._rows_of(page) for page in pages])
        revised = np.unique(
            np.concatenate([page.revised[rows.arrival[page.revised] == page.arrival] for page in pages])
        )
        ours = [page.number for page in pages]
        revised = revised[(self.page_of[revised] >= 0) & ~np.isin(self.page_of[revised], ours)]
        slots = np.unique(np.concatenate([rows.slot_of[rids], *(page.slots for page in pages)]))
        slots = slots[self._living(slots, gone)]
        slides = [
            _of(records.current(np.concatenate([page.slides[w] for page in pages])), slots, records.width)
            for w, records in enumerate(self.codec.records)
        ]
        self.pages = tuple(page for page in self.pages if page not in pages)
        self.transaction.drop([f"e{number}" for number in ours])
        if len(slots):
            self._put(EagerShare(slots, rids, rows.slot_of[rids], revised, NO_INTS, slides))
        for number in ours:
            del self.retained[number]

    # ---- all or nothing ----

    def committed(self) -> None:
        """Commit the call: drop the undo log."""
        self._moved.clear()
        self._before = None

    def rollback(self) -> None:
        """Undo a call that failed; may be interrupted, and called again."""
        self.transaction.rollback()
        while self._moved:
            rids, before = self._moved[-1]
            self.page_of[rids] = before
            self._moved.pop()
        if self._before is not None:
            self.pages, self.next_page, self.retained = self._before
            self._before = None


def _of(rows: list[Any], slots: Ints, width: int) -> Ints:
    """The records of slides that belong to some slots, as a table."""
    table = np.array(rows, np.int64).reshape(-1, width)
    return table[np.isin(table[:, 0], slots)]
