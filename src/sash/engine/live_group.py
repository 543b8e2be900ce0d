"""A group of windows that share elements, live: its assigner, and the aggregates over its elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sash.aggregators.by_position import sequential
from sash.aggregators.in_order import InOrder
from sash.aggregators.running import Running
from sash.engine.ahead_assigner import AheadAssigner
from sash.engine.key_table import KeyTable
from sash.engine.live_aggregate import LiveAggregate
from sash.engine.lowered_results import NOT_ASKED
from sash.engine.pane_assigner import CountedPanes, CountedSlidRows, PaneAssigner, SlidRows
from sash.engine.result_columns import ResultFailed
from sash.engine.result_errors import failed_place
from sash.engine.row_assigner import RowAssigner
from sash.engine.row_errors import aggregate_failure, failure
from sash.engine.running_assigner import RunningAssigner
from sash.engine.slot_table import SlotTable
from sash.engine.step_data import StepRows, WindowResults
from sash.engine.window_assigner import Ending, WindowAssigner
from sash.kernels.loops.columnar import AggregateError
from sash.plan.bound_query import BoundQuery
from sash.plan.planner import FOLD, Choice, Plan, asked_windows

ASSIGNERS: dict[str, Callable[[BoundQuery, Sequence[int], SlotTable, str], WindowAssigner]] = {
    "rows": RowAssigner,
    "time panes": PaneAssigner,
    "row panes": CountedPanes,
    "rows of time panes": SlidRows,
    "rows of row panes": CountedSlidRows,
    "running": RunningAssigner,
}


class LiveGroup(NamedTuple):
    """The assigner and the aggregates of a group of windows."""

    assigner: WindowAssigner
    aggregates: list[LiveAggregate]

    def take(self, rows: StepRows) -> None:
        """Assign rows to the elements, and fold them into panes.

        Raises the exception of a monoid or policy, naming row and key.
        """
        try:
            self.assigner.assign(rows)
        except AggregateError as failed:
            raise failure("the policy", failed, rows.format_row(failed.place)) from failed.error
        for aggregate in self.aggregates:
            try:
                aggregate.take(rows)
            except AggregateError as failed:
                where, bound_query = rows.format_row(failed.place), self.assigner.bound_query
                raise aggregate_failure(bound_query, aggregate.views[0].number, failed, where) from failed.error

    def results(self, rows: StepRows, endings: Sequence[Ending], keys: KeyTable) -> list[WindowResults]:
        """Compute the results that are due. `keys`: the key table, to name keys in errors. Raises as `take`."""
        bound_query = self.assigner.bound_query
        try:
            windows = self.assigner.results(rows, endings)
        except AggregateError as failed:
            raise failure("the policy", failed, rows.format_row(failed.place)) from failed.error
        nothing = [NOT_ASKED] * len(windows)
        made = [nothing] * len(bound_query.aggregates)
        for aggregate in self.aggregates:
            try:
                results = aggregate.results(windows, rows)
            except AggregateError as failed:
                where = failed_place(bound_query, keys, aggregate, failed, rows)
                number = failed.number if isinstance(failed, ResultFailed) else aggregate.views[0].number
                raise aggregate_failure(bound_query, number, failed, where) from failed.error
            for view, by_window in zip(aggregate.views, results, strict=True):
                made[view.number] = by_window
        return [
            WindowResults(
                window, [of[w].column for of in made], [of[w].low for of in made], [of[w].high for of in made]
            )
            for w, window in enumerate(windows)
        ]


def build_groups(plan: Plan, table: SlotTable) -> list[LiveGroup]:
    """The groups of a plan, whose state is in a slot table."""
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
                aggregates.append(LiveAggregate(sharing, assigner, structures, table, f"a{number}.{owner}"))
        found.append(LiveGroup(assigner, aggregates))
    return found


def _structure(choice: Choice | None) -> type[InOrder] | None:
    """The structure that computes an aggregate over a window; None if the query does not ask for it."""
    if choice is None:
        return None
    return Running if choice.structure == FOLD else sequential(choice.structure)
