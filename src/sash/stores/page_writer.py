"""Write pages to a store in a background thread, in order; the thread also deletes obsolete pages and reads ahead.

    caller ──submit──▶ [ commit 1 │ commit 2 │ … ] ──put_many──▶ store       one call for all commits that wait
           ──fetch───▶ [ names ]                   ──get_many──▶ arrived     read ahead; errors are not reported
                       [ names to delete ]         ──delete_many▶ store      after the commit that replaces them

Each writer has one daemon thread, started when there is something to do. A commit contains the pages of one consistent
version; of a page that several waiting commits contain, only the last version is written. Commit n is durable when
`durable` is at least n. If a write fails, its pages are kept: the thread stops, `attention` is set, and the caller's
next `check()` raises; after that the thread repeats the write.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from sash.stores.store import FlushError, Store

BACKLOG = 32
"""Pages that may wait to be written; beyond that, the caller waits."""

DELETED_AT_ONCE = 512
"""Pages that one call deletes, so that commits do not wait for long."""


@dataclass(frozen=True)
class Commit:
    """The pages of a consistent version, not yet encoded, and the names of the pages that it makes obsolete."""

    pages: Mapping[str, Any]
    garbage: Iterator[str] = field(default_factory=lambda: iter(()))


class PageWriter:
    """A thread that writes commits to a store, in their order.

    `encode` encodes a page as bytes. `label` names the owner in messages.
    """

    def __init__(self, store: Store, encode: Callable[[Any], bytes], label: str) -> None:
        self._store, self._encode, self._label = store, encode, label
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._commits: deque[Commit] = deque()
        self._garbage: deque[Iterator[str]] = deque()
        self._deleting: list[str] = []
        self._names: list[str] = []
        self._backlog = 0
        self._closing = False
        self._error: BaseException | None = None
        self.submitted = 0
        """Number of commits so far."""
        self.durable = 0
        """Number of commits that are written."""
        self.cleaned = 0
        """Number of commits whose garbage is deleted."""
        self.attention = False
        """Must the caller `check()` before it continues?"""
        self.arrived: deque[tuple[str, bytes | None]] = deque()
        """Pages that were read ahead, by name; None for one that could not be read."""

    def submit(self, commit: Commit) -> None:
        """Write this commit after those before it. Does not wait."""
        with self._changed:
            self._commits.append(commit)
            self._backlog += len(commit.pages)
            self.submitted += 1
            self.attention = self.attention or self._backlog > BACKLOG
            self._wake()

    def take_arrived(self) -> tuple[str, bytes | None] | None:
        """Remove and return the first page that was read ahead; None if there is none."""
        return self.arrived.popleft() if self.arrived else None

    def fetch(self, names: Sequence[str]) -> None:
        """Read these pages ahead, into `arrived`."""
        with self._changed:
            self._names += names
            self._wake()

    def check(self) -> None:
        """Wait until at most `BACKLOG` pages are unwritten.

        Raises FlushError if a write has failed since the last call.
        """
        with self._changed:
            self._wake_if_waiting()
            self._changed.wait_for(lambda: self._error is not None or self._backlog <= BACKLOG)
            self._raise()
            self.attention = False

    def wait(self, deleted: bool = False) -> None:
        """Wait until all commits are durable; with `deleted`, until their garbage is deleted, too.

        Raises FlushError if that fails.
        """

        def done() -> bool:
            return self._error is not None or (self.cleaned if deleted else self.durable) == self.submitted

        with self._changed:
            self._wake_if_waiting()
            self._changed.wait_for(done)
            self._raise()

    def _raise(self) -> None:
        """Raise an error of the background thread, once, and let the thread try again."""
        error, self._error = self._error, None
        if error is not None:
            self.attention = self._backlog > BACKLOG
            self._wake()
            raise FlushError(
                f"{self._label}: writing to the store failed in the background with {type(error).__name__}: {error}. "
                "The pages are kept in memory: the next calls repeat the write, and flush() waits for it"
            ) from error

    def close(self) -> None:
        """Write all submitted commits, and end the thread; if a write fails, end it at once."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _wake(self) -> None:
        if self._thread is None or not self._thread.is_alive():  # a fork does not inherit the thread
            thread = threading.Thread(target=self._run, name=f"sash {self._label}", daemon=True)
            thread.start()
            self._thread = thread
        self._changed.notify_all()

    def _wake_if_waiting(self) -> None:
        if self._waiting():
            self._wake()

    # ---- in the thread ----

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._woken)
                if self._closing and (self._error is not None or not self._waiting()):
                    return
                names, self._names = self._names, []
                commits = list(self._commits)
            try:
                self._read(names)
                self._write(commits)
                self._delete()
            except BaseException as error:
                with self._changed:
                    self._error = error
                    self.attention = True
                    self._changed.notify_all()

    def _waiting(self) -> bool:
        return bool(self._commits or self._names or self._deleting or self._garbage)

    def _woken(self) -> bool:
        return self._closing or (self._error is None and self._waiting())

    def _read(self, names: list[str]) -> None:
        if not names:
            return
        try:
            pages = self._store.get_many(names)
        except Exception:
            pages = [None] * len(names)
        self.arrived.extend(zip(names, pages, strict=True))

    def _write(self, commits: list[Commit]) -> None:
        if not commits:
            return
        items: dict[str, Any] = {}
        for commit in commits:
            items.update(commit.pages)
        if items:
            self._store.put_many({name: self._encode(item) for name, item in items.items()})
        with self._changed:
            for commit in commits:
                self._commits.popleft()
                self._backlog -= len(commit.pages)
                self._garbage.append(commit.garbage)
            self.durable += len(commits)
            self._changed.notify_all()

    def _delete(self) -> None:
        """Delete some of the garbage: only of commits that are durable."""
        if not (self._garbage or self._deleting):
            return
        while self._garbage and len(self._deleting) < DELETED_AT_ONCE:
            more = list(islice(self._garbage[0], DELETED_AT_ONCE - len(self._deleting)))
            self._deleting += more
            if len(self._deleting) < DELETED_AT_ONCE:
                self._garbage.popleft()
        if self._deleting:
            self._store.delete_many(self._deleting)
            self._deleting = []
        with self._changed:
            self.cleaned = self.durable - len(self._garbage)
            self._changed.notify_all()
