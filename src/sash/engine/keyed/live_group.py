"""A group of windows that share elements, live: its assigner, and the aggregates over its elements.

Locate the result of an aggregate that failed: the row it belongs to, or the slide and its key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sash.aggregators.catalogue import sequential
from sash.aggregators.in_order import InOrder, Running
from sash.columns.batch_columns import BatchColumns
from sash.columns.failed_rows import FailedResults
from sash.columns.lowered_results import NOT_ASKED
from sash.columns.row_errors import aggregate_failure, failure, format_slide
from sash.engine.keyed.ahead_assigner import AheadAssigner
from sash.engine.keyed.key_table import KeyTable
from sash.engine.keyed.live_aggregate import LiveAggregate, ResultFailed, RowsToLift
from sash.engine.keyed.pane_assigner import CountedPanes, CountedSlidRows, PaneAssigner, SlidRows
from sash.engine.keyed.row_assigner import RowAssigner
from sash.engine.keyed.running_assigner import RunningAssigner
from sash.engine.keyed.slot_table import SlotTable
from sash.engine.keyed.step_data import StepRows, WindowRanges, WindowResults
from sash.engine.keyed.window_assigner import AssignedRows, Ending, WindowAssigner
from sash.kernels.loops.bound_kernel import AggregateError
from sash.plan.bound_query import BoundQuery
from sash.plan.planner import FOLD, Choice, Plan, asked_windows

# --- Result errors ---


def failed_place(bound_query: BoundQuery, keys: KeyTable, failed: ResultFailed, rows: BatchColumns) -> str:
    """Return the row that a result belongs to, or the slide and its key, as text.

    `rows`: those of the step, or those that leave.
    """
    window, at = failed.window, failed.place
    if window.error_rows is not None:
        at = int(window.error_rows[at])
    elif not bound_query.per_row:
        return format_slide(bound_query, window.ends[at], keys.keys(window.slots[at : at + 1]))
    return rows.format_row(at)


# --- Live group ---

ASSIGNERS: dict[str, Callable[[BoundQuery, Sequence[int], SlotTable, str], WindowAssigner]] = {
    "rows": RowAssigner,
    "time panes": PaneAssigner,
    "row panes": CountedPanes,
    "rows of time panes": SlidRows,
    "rows of row panes": CountedSlidRows,
    "running": RunningAssigner,
}


class TakenRows(NamedTuple):
    """Rows as the assigner has assigned them, and by aggregate those that are not lifted yet."""

    assigned: AssignedRows
    to_lift: list[RowsToLift]


class LiveGroup(NamedTuple):
    """The assigner and the aggregates of a group of windows."""

    assigner: WindowAssigner
    aggregates: list[LiveAggregate]

    def take(self, rows: StepRows) -> TakenRows:
        """Assign rows to the elements, and fold them into panes; `results` lifts those that are elements.

        Raises the exception of a monoid or policy, naming row and key.
        """
        try:
            assigned = self.assigner.assign(rows)
        except AggregateError as failed:
            raise failure("the policy", failed, f"at {rows.format_row(failed.place)}") from failed.error
        to_lift = []
        for aggregate in self.aggregates:
            try:
                to_lift.append(aggregate.take(rows, assigned))
            except AggregateError as failed:
                where, bound_query = rows.format_row(failed.place), self.assigner.bound_query
                raise aggregate_failure(bound_query, aggregate.views[0].number, failed, where) from failed.error
        return TakenRows(assigned, to_lift)

    def lifted(self, taken: TakenRows) -> TakenRows:
        """Rows after `results`, which has lifted them: for further results of the same step."""
        return TakenRows(taken.assigned, [aggregate.no_rows for aggregate in self.aggregates])

    def results(
        self, rows: StepRows, taken: TakenRows, endings: Sequence[Ending], keys: KeyTable
    ) -> list[WindowResults]:
        """Lift the rows that `take` has returned, and compute the results that are due. Raises as `take`.

        `keys`: the key table, to name keys in errors.
        """
        try:
            windows = taken.assigned.results(rows, endings)
        except AggregateError as failed:
            raise failure("the policy", failed, f"at {rows.format_row(failed.place)}") from failed.error
        return self.computed(windows, rows, taken.to_lift, keys, rows)

    def computed(
        self,
        windows: list[WindowRanges],
        rows: StepRows,
        to_lift: list[RowsToLift],
        keys: KeyTable,
        ending_at: BatchColumns,
    ) -> list[WindowResults]:
        """The aggregates over ranges of elements. `ending_at`: the rows at which the windows end, to name them."""
        bound_query = self.assigner.bound_query
        made = [[NOT_ASKED] * len(bound_query.aggregates) for _ in windows]
        for aggregate, lift in zip(self.aggregates, to_lift, strict=True):
            try:
                results = aggregate.results(windows, rows, lift)
            except ResultFailed as failed:
                where = failed_place(bound_query, keys, failed, ending_at)
                raise aggregate_failure(bound_query, failed.number, failed, where) from failed.error
            except AggregateError as failed:
                where, number = rows.format_row(failed.place), aggregate.views[0].number
                raise aggregate_failure(bound_query, number, failed, where) from failed.error
            for view, by_window in zip(aggregate.views, results, strict=True):
                for cells, cell in zip(made, by_window, strict=True):
                    cells[view.number] = cell
            if failed_results := aggregate.take_failed():
                last = failed_results[-1]
                where = failed_place(bound_query, keys, last, ending_at)
                found = aggregate_failure(bound_query, last.number, last, where)
                aggregate.failures.note(len(failed_results), str(found))
        return [WindowResults(window, cells) for window, cells in zip(windows, made, strict=True)]


def build_groups(plan: Plan, table: SlotTable, failures: FailedResults) -> list[LiveGroup]:
    """The groups of a plan, whose state is in a slot table. `failures` counts results that fail and are null."""
    bound_query, found = plan.bound_query, []
    for number, group in enumerate(plan.groups):
        looks_ahead = bound_query.windows[group.windows[0]].shift > 0
        made = AheadAssigner if looks_ahead else ASSIGNERS[group.elements]
        assigner = made(bound_query, group.windows, table, f"a{number}")
        aggregates = []
        for sharing in plan.states:
            if asked_windows(bound_query, sharing, group):
                owner = sharing[0].number
                structures = [_structure(plan.choices.get((place, owner))) for place in group.windows]
                name = f"a{number}.{owner}"
                aggregates.append(LiveAggregate(sharing, assigner, structures, table, name, failures))
        found.append(LiveGroup(assigner, aggregates))
    return found


def _structure(choice: Choice | None) -> type[InOrder] | None:
    """The structure that computes an aggregate over a window; None if the query does not ask for it."""
    if choice is None:
        return None
    return Running if choice.structure == FOLD else sequential(choice.structure)
