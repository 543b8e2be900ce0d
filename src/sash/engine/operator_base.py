"""The base of the state of a query and of its readers: opens the state, and looks up aggregates in it.

The names that completion offers of an operator, and of what is asked as one.
"""

from __future__ import annotations

import time as clocks
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from sash.columns.failed_rows import RowChecks
from sash.columns.keys import decoded_schema
from sash.columns.row_errors import RowLimits
from sash.columns.time_numbers import Watermark, finite, greater, time_text
from sash.columns.watermark import WatermarkTracker
from sash.engine.eager_backend import EagerBackend
from sash.engine.emit.output import Output, SharedOutput
from sash.engine.intake.input_checks import GivenKeys, GivenTime, number, require_movable
from sash.engine.intake.progress import Metrics, Progress
from sash.engine.intake.reorder_buffer import SortedRows
from sash.engine.keyed.lookup import Pairs, key_columns, require_closed
from sash.engine.live_backend import LiveBackend
from sash.engine.single_user import SingleUser
from sash.plan.api_types import EventTime, Frame, Mode
from sash.plan.bound_query import BoundQuery
from sash.plan.categories import schema_categories
from sash.plan.planner import Plan
from sash.plan.queries import CombinedQuery
from sash.plan.query import Query
from sash.state.header_page import Header
from sash.state.root_page import explained, has_state
from sash.stores import PageError, Store
from sash.stores.store import checked_store
from sash.windows.arguments import Length
from sash.windows.specs import Closed

# --- Public names ---

CALLS = ("process", "advance", "finish", "run", "late_rows", "failed_rows", "lookup")
STATE = ("snapshot", "restore", "refresh")
VALUES = ("query", "queries", "schema", "mode", "store", "watermark", "due", "offset", "metrics", "structures")


class PublicNames:
    """Lists in `dir` what users call; hosts and tools of sash use more."""

    def __dir__(self) -> Iterable[str]:
        ours = {name for cls in type(self).__mro__ if cls.__module__.startswith("sash.") for name in vars(cls)}
        hidden = (ours | vars(self).keys()).difference(CALLS, STATE, VALUES)
        return [name for name in super().__dir__() if name.startswith("_") or name not in hidden]


# --- Operator base ---


@dataclass(frozen=True)
class OpenedQuery:
    """A query whose schema is known, with what computes it."""

    schema: pa.Schema
    bound_query: BoundQuery
    plan: Plan
    plain: pa.Schema
    """The schema without dictionaries."""
    categories: dict[str, pa.Array]
    """The ordered categories that all batches must have, by column."""
    watermark_tracker: WatermarkTracker
    limits: RowLimits
    checks: RowChecks
    output: Output
    sorted_rows: SortedRows
    backend: LiveBackend | EagerBackend


def progress_of(backend: LiveBackend | EagerBackend, header: Header) -> Progress:
    """The progress that a header has."""
    held, newest = backend.held() if header.has_held else None, header.newest
    if newest is None:  # earlier versions did not save it: rows from the watermark on still wait
        newest = greater(finite(header.watermark), backend.newest_waiting())
    return Progress(
        header.watermark, *header.counters, before=header.before, held=held, offset=header.offset, newest=newest
    )


class OperatorBase(PublicNames):
    """A query with live state in memory, and possibly in a store: opens the state, and looks up aggregates in it."""

    def __init__(self, query: Query, mode: Mode, store: Store | None, clock: Callable[[], float] | None) -> None:
        self.query, self.mode = query, mode
        self.store: Store | None = query.options.store if store is None else checked_store("store=", store)
        self.clock = clock or clocks.time
        if query.options.memory is not None:
            _check_memory(query, mode, self.store)
        self.progress = Progress()
        self._opened: OpenedQuery | None = None
        self._single = SingleUser("the operator")
        self._failed = False
        """Whether a call has begun and not succeeded."""
        self._succeeded = False
        """Whether a call has succeeded, and can still be undone."""
        self._cautious = False
        """Whether a row has failed: from then on rows are checked before they are lifted."""

    reads_only: ClassVar[bool] = False
    """Whether the state is used for lookups only."""

    def _open(self, schema: pa.Schema) -> None:
        """Bind the query to the schema, and open its state. After an error, the next call opens it again."""
        bound_query, plain, categories = self.query.bind(schema), decoded_schema(schema), schema_categories(schema)
        require_movable(plain)
        plan, output = self._plan(schema), self._output(schema)
        backend = self._new_backend(plan, output)
        opened = OpenedQuery(
            schema=schema,
            bound_query=bound_query,
            plan=plan,
            plain=plain,
            categories=categories,
            watermark_tracker=WatermarkTracker(bound_query, self.mode, self.clock),
            limits=RowLimits(bound_query),
            checks=RowChecks(bound_query, backend.is_compiled),
            output=output,
            sorted_rows=SortedRows(bound_query),
            backend=backend,
        )
        self.progress = Progress() if self.store is None else self._reopen(opened)
        self._opened = opened

    def _new_backend(self, plan: Plan, output: Output) -> LiveBackend | EagerBackend:
        """The state in memory, not yet loaded from the store."""
        if self.query.emit == "eager":
            return EagerBackend(plan, self.mode, output, self.store)
        return LiveBackend(plan, self.mode, output, self.store, self.reads_only)

    def _plan(self, schema: pa.Schema) -> Plan:
        """How the query is computed."""
        return self.query.plan(schema)

    def _output(self, schema: pa.Schema) -> Output:
        """Builds the batches of results: of a combined query one for each member."""
        if isinstance(self.query, CombinedQuery):
            return SharedOutput(self.query.combination(schema), self.mode)
        return Output(self.query.bind(schema), self.mode)

    def _reopen(self, opened: OpenedQuery) -> Progress:
        """Load the state from the store. Raises PageError, with the differences, for state of another query."""
        try:
            header = opened.backend.open()
        except PageError as error:
            assert self.store is not None
            raise explained(error, opened.bound_query, self.store) from error
        return Progress() if header is None else progress_of(opened.backend, header)

    # ---- the query, once its schema is known ----

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the batches; None before the first batch of an operator without a schema."""
        return None if self._opened is None else self._opened.schema

    @property
    def opened(self) -> OpenedQuery:
        """The query on its schema, with its state."""
        assert self._opened is not None
        return self._opened

    @property
    def bound_query(self) -> BoundQuery:
        """The query on its schema."""
        return self.opened.bound_query

    @property
    def plan(self) -> Plan:
        """How the query is computed."""
        return self.opened.plan

    @property
    def output(self) -> Output:
        """Builds the batches of results."""
        return self.opened.output

    @property
    def backend(self) -> LiveBackend | EagerBackend:
        """The state."""
        assert self._opened is not None  # not `opened`: each call reads this seven times
        return self._opened.backend

    # ---- lookups and properties ----

    def lookup(
        self,
        keys: Mapping[str, Any] | Frame,
        at: EventTime | np.datetime64 | pa.Scalar | None = None,
        last: Length | None = None,
        closed: Closed | None = None,
    ) -> pa.RecordBatch:
        """Return the current aggregates of some keys, without a change of state.

        keys: the columns of `by`, each with its values: a dict, a frame of pandas or polars, a RecordBatch or Table.
        at: the time at which the windows end; by default that of the newest row of all keys, or the watermark if
            `advance` has raised it further.
        last: a shorter range to aggregate than the size of the window.
        closed: which ends belong to the windows, as in `sash.as_of`; by default those of the query.

        `Operator.lookup` says more. Raises ValueError for other columns, for a range that the window does not hold, and
        for a time before the watermark.
        """
        with self._single.reading:
            self._require_schema("lookup")
            return self._lookup(keys, at, last, closed)

    def _lookup(
        self, keys: GivenKeys, at: GivenTime | None, last: Length | None, closed: Closed | None
    ) -> pa.RecordBatch:
        columns = key_columns(self.bound_query, keys)
        return self.output.looked_up(columns, self._looked_up(columns, at, last, closed))

    def _looked_up(
        self, columns: list[pa.Array], at: GivenTime | None, last: Length | None, closed: Closed | None
    ) -> Pairs:
        """The results of each aggregate over each window for these keys."""
        time = self.bound_query.time
        if at is not None and time is None:
            raise ValueError("lookup(at=…) needs a time column, and the query has no on=")
        reached = None if at is None or time is None else number(at, time, "at= of lookup()")
        watermark = finite(self.progress.watermark)
        if reached is not None and watermark is not None and reached < watermark:
            raise ValueError(
                f"lookup(at={at!r}) is before the watermark, {time_text(watermark, time and time.type)}: rows that "
                "have left the windows since then are no longer stored"
            )
        if closed is not None:
            require_closed(self.bound_query, closed, at, reached, watermark)
        self._recover()
        if time is not None and reached is None:
            reached = 0 if self.progress.newest is None else self.progress.newest
        return self.backend.lookup(columns, reached, last, self.progress, closed)

    @property
    def watermark(self) -> Watermark:
        """The watermark, in units of the time column; None before there is one."""
        self._require_opened("watermark")
        return self.progress.watermark

    @property
    def offset(self) -> Any:
        """The last `offset=` that was passed to a call: where to continue reading after a restart."""
        self._require_opened("offset")
        return deepcopy(self.progress.offset)

    @property
    def due(self) -> Watermark:
        """The least watermark at which something is due, in units of the time column; None if nothing is."""
        self._require_opened("due")
        with self._single.reading:
            if self._opened is None:
                return None
            self._recover()
            return self.backend.due

    @property
    def structures(self) -> dict[tuple[str, str], str]:
        """Which structure runs for each window and aggregate, by their names; an only window has the name ""."""
        with self._single.reading:
            self._require_schema("structures")
            found = sorted(self.backend.executed().items())
            windows, aggregates = self.bound_query.windows, self.bound_query.aggregates
        return {(windows[w].name, aggregates[a].name): structure for (w, a), structure in found}

    @property
    def metrics(self) -> Metrics:
        """Counters of the operator, and the size of its state."""
        with self._single.reading:
            if self._opened is None:
                return Metrics()
            self._recover()
            now = self.progress
            keys, elements, nbytes = self.backend.sizes
            elements += 0 if now.held is None else len(now.held)
            return Metrics(*now.counts, keys, elements, nbytes, *self.backend.pages, now.last_failure)

    def _require_schema(self, what: str) -> None:
        if self.schema is None:
            raise ValueError(f"{what}() before the first batch needs the schema: use query.operator(schema)")

    def _require_opened(self, what: str) -> None:
        """Raises ValueError if the first batch will open the store's state: the schema lacks ordered categories."""
        if self.schema is None and self.store is not None and has_state(self.store):
            raise ValueError(
                f"{what} is in the state of the store, and the given schema lacks the ordered categories of a column: "
                "use query.operator(store=…), because the store has them"
            )

    # ---- after a failure ----

    def _recover(self) -> None:
        """Restore the state before a failed call. May be interrupted, and called again.

        A call that was interrupted after it had succeeded is not undone: its progress is saved.
        """
        if self._succeeded:
            self.settle()
        elif self._failed or self.backend.is_unsettled:
            self.backend.recover()
            self._failed = False

    def settle(self) -> None:
        """Drop what would undo the last call, which has succeeded. May be interrupted, and called again."""
        self.backend.committed()
        self._succeeded = False


def _check_memory(query: Query, mode: Mode, store: Store | None) -> None:
    """Raises ValueError if the memory of an operator cannot be bounded."""
    if query.emit == "eager":
        raise ValueError(
            "memory= of Options needs emit='final' or 'changes': with emit='eager' each page holds the "
            "changes of one call for all keys, so single keys cannot be loaded"
        )
    if store is None and mode != "sorted":  # that mode has one key in memory at a time
        raise ValueError(
            "memory= of Options needs a store for the keys that leave memory: use query.operator(store=…) or "
            "Options(store=…)"
        )
