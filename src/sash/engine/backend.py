"""The base of state backends: live state of an operator, its pages in a store, and lookups."""

from __future__ import annotations

from collections.abc import Callable

from sash.columns.failed_rows import FailedResults
from sash.engine.emit.output import Output
from sash.engine.intake.reorder_buffer import TimedRows
from sash.plan.planner import Plan
from sash.state.header_page import StoredState


class Backend:
    """Live state of one operator, durable if there is a store."""

    durable: StoredState | None

    failures: list[FailedResults]
    """The results of this call that have failed and are null: those of aggregates, and those of formulas."""

    def __init__(self, plan: Plan, mode: str, output: Output) -> None:
        self.plan, self.bound_query, self.mode, self.output = plan, plan.bound_query, mode, output

    def is_compiled(self, number: int) -> bool:
        """Does the aggregate of this number run compiled?"""
        raise NotImplementedError

    @property
    def buffers(self) -> bool:
        """Whether rows may wait before they are lifted, so that they fail in a later call."""
        return False

    def check_released(self, check: Callable[[TimedRows], TimedRows]) -> None:
        """In this call, process only those of the released rows that a check returns."""

    @property
    def is_unsettled(self) -> bool:
        """Whether an interrupted call or lookup has to be undone."""
        return False

    @property
    def stored_bytes(self) -> int | None:
        """The size of all pages in the store; None without one."""
        return None if self.durable is None else self.durable.transaction.nbytes + self.durable.transaction.header

    @property
    def pages(self) -> tuple[int, int]:
        """Pages read and written."""
        if self.durable is None:
            return 0, 0
        return self.durable.transaction.read_count, self.durable.transaction.written_count

    def claim(self) -> None:
        """Become the owner of the store, and delete garbage pages that a crash has left."""
        if self.durable is not None:
            self.durable.transaction.claim()
            self.durable.transaction.delete_garbage()

    def require_owner(self) -> None:
        """Raises RuntimeError if another operator was opened on the store since."""
        if self.durable is not None:
            self.durable.transaction.require_owner()
