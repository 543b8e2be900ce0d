"""A group of windows that share elements, live: its assigner, and the aggregates over its elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sash.engine.key_table import KeyTable
from sash.engine.live_aggregate import LiveAggregate
from sash.engine.lowered_results import NOT_ASKED
from sash.engine.result_columns import ResultFailed
from sash.engine.result_errors import failed_place
from sash.engine.row_errors import aggregate_failure, failure
from sash.engine.step_data import StepRows, WindowResults
from sash.engine.window_assigner import Ending, WindowAssigner
from sash.kernels.loops.columnar import AggregateError


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
