"""Atomic calls of an operator: do the work and write the changes to the store, or revert everything.

begin ──▶ work ──▶ before_commit ──▶ save ──▶ settle
            │            │             │
            └────────────┴─────────────┴──▶ raises: recover, and the state is as it was before
"""

from __future__ import annotations

import time as clocks
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import together
from sash.columns.failed_rows import FailedRows, failed_schema, split_failed
from sash.engine.atomic import all_at_once, attributes
from sash.engine.intake.input_checks import json_copy
from sash.engine.intake.progress import BeforeCommit, Changes, Progress, Uncommitted, replace
from sash.engine.intake.reorder_buffer import TimedRows
from sash.engine.operator_base import ObservedCalls, OperatorBase
from sash.state.header_page import Header

Work = Callable[[Progress], tuple[pa.RecordBatch, Changes]]
"""The work of a call: from the progress before it to the results, and the changes of progress."""


class AtomicCalls(ObservedCalls, OperatorBase):
    """An operator's calls that change its state."""

    def call(self, work: Work, offset: Any = None, before_commit: BeforeCommit | None = None) -> pa.RecordBatch:
        """Do the work of a call, commit it, and notify the observer."""
        observer, start = self.observer, clocks.perf_counter()
        if offset is not None:
            offset = json_copy("offset=", offset)
        with self._single:
            result = self.attempt(work, offset, before_commit)
            self.settle()
        if observer is not None:
            observer(result, clocks.perf_counter() - start)
        return result

    def attempt(self, work: Work, offset: Any, before_commit: BeforeCommit | None = None) -> pa.RecordBatch:
        """Do the work and write its changes to the store. `undo` reverts it until `settle`."""
        self._begin()
        opened, now = self.opened, self.progress
        try:
            result, changes = self._work(work, now) if opened.checks.lifts else work(now)
            changes["rows_out"] = now.rows_out + result.num_rows
            for one in opened.backend.failures:
                if one.count:
                    changes |= self.failed_results(now)
            if offset is not None:
                changes["offset"] = offset
            reached = replace(now, changes)
            if before_commit is not None:
                late = together(reached.late_rows[len(now.late_rows) :], self.schema)
                before_commit(Uncommitted(result, late, reached.watermark, self.newly_failed(now, reached)))
            self.save(reached)
        except BaseException:
            self._recover()
            raise
        return result

    def _work(self, work: Work, now: Progress) -> tuple[pa.RecordBatch, Changes]:
        """Do the work. If it fails, find the rows that fail, set them aside, and do the work without them.

        Rows that wait in the reorder buffer were checked on arrival, unless they arrived with failed="error".
        """
        try:
            return work(now)
        except Exception:
            if self._cautious and not self.backend.buffers:
                raise
        self._recover()
        self._begin()
        self._cautious = True
        released: Changes = {}
        self.backend.check_released(lambda rows: self._without_failed(rows, now, released, lifts=True)[0])
        result, changes = work(now)
        if released:
            found = released["failed_rows"][len(now.failed_rows) :]
            changes["failed"] = changes.get("failed", now.failed) + sum(len(one.messages) for one in found)
            changes["failed_rows"] = (*changes.get("failed_rows", now.failed_rows), *found)
            changes["last_failure"] = released["last_failure"]
        return result, changes

    def _without_failed(
        self, rows: TimedRows, now: Progress, changes: Changes, lifts: bool
    ) -> tuple[TimedRows, FailedRows | None]:
        """The rows that do not fail, and those that do. `lifts`: whether to check `lift`, or only expressions."""
        opened = self.opened
        failures = opened.checks.failures(rows.table, lifts)
        if not failures:
            return rows, None
        taken, failed = split_failed(failures, rows.table, rows.arrival, (opened.schema, opened.plain))
        before: tuple[FailedRows, ...] = changes.get("failed_rows", now.failed_rows)
        changes["failed"] = changes.get("failed", now.failed) + len(failures)
        changes["failed_rows"], changes["last_failure"] = (*before, failed), failed.messages[-1]
        return rows.take(np.flatnonzero(taken)), failed

    def failed_results(self, before: Progress) -> Changes:
        """The changes of progress by results of this call that have failed."""
        failures = [one for one in self.backend.failures if one.count]
        if not failures:
            return {}
        count = sum(one.count for one in failures)
        return {"failed_results": before.failed_results + count, "last_failure": failures[-1].message}

    def newly_failed(self, before: Progress, reached: Progress) -> pa.RecordBatch:
        """The rows that have failed from one progress to a later one."""
        assert self.schema is not None
        found = [failed.batch() for failed in reached.failed_rows[len(before.failed_rows) :]]
        return together(found, failed_schema(self.schema))

    @contextmanager
    def attempting(self) -> Iterator[None]:
        """A call whose caller does the work, up to `save`. If it raises or is abandoned, nothing has changed."""
        with self._single:
            self._begin()
            try:
                yield
            except BaseException:
                self._recover()
                raise
            self.settle()

    def _begin(self) -> None:
        backend = self.backend
        if self._succeeded or self._failed or backend.is_unsettled:
            self._recover()
        backend.require_owner()
        backend.begin()
        self._failed = True

    def save(self, reached: Progress) -> None:
        """Write the changes of a call to the store; `reached` is the progress from now on."""
        if self.store is not None:
            self.backend.write(self.header(reached))
        vars(self).update(progress=reached, _failed=False, _succeeded=True)  # one call in C, as `all_at_once`

    def undo(self, before: Progress) -> None:
        """Revert an attempt; `before` was the progress before it. May be interrupted, and called again."""
        all_at_once(attributes(self, progress=before, _failed=True, _succeeded=False))
        self._recover()

    def header(self, now: Progress | None = None) -> Header:
        """The header of the state; of another progress, if it is given."""
        now = self.progress if now is None else now
        eager = self.query.emit == "eager"
        return Header(now.watermark, now.before, now.counts, now.offset, eager, now.held, newest=now.newest)
