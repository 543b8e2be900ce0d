"""Results of queries that share one state: each builds its batches from the step's results, as it would alone.

step of the combined query ──▶ windows and aggregates of a member ──▶ its Output ──▶ a batch for each member
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sash.columns.failed_rows import FailedResults
from sash.engine.emit.output import Output
from sash.engine.keyed.key_table import KeyTable
from sash.engine.keyed.step_data import StepResult, WindowResults
from sash.engine.operator import Operator
from sash.kernels.loops.array_types import Flags, Ints
from sash.plan.combined_query import Combination, CombinedQuery, QueryView


class ResultBatches(dict[str, pa.RecordBatch]):
    """A batch of results for each query, by name."""

    @property
    def num_rows(self) -> int:
        """The number of results of all queries."""
        return sum(batch.num_rows for batch in self.values())


class SharedOutput(Output):
    """Builds a batch for each member of a combined query, with an Output of its own."""

    def __init__(self, combination: Combination, mode: str) -> None:  # no schema of its own: its members have theirs
        self.bound_query, self.mode = combination.bound_query, mode
        self.members = combination.members
        self.outputs = {name: Output(member.bound_query, mode) for name, member in self.members.items()}

    @property
    def failures(self) -> list[FailedResults]:
        return [one for output in self.outputs.values() for one in output.failures]

    def sort_by_key(self) -> None:
        for output in self.outputs.values():
            output.sort_by_key()

    @property
    def takes_late(self) -> bool:
        return any(output.takes_late for output in self.outputs.values())

    def empty(self) -> Any:
        return self._each(lambda _, output: output.empty())

    def final(self, keys: KeyTable, step: StepResult, chosen: list[Flags] | None) -> Any:
        assert chosen is None  # only emit="final" shares state
        return self._each(lambda name, output: output.final(keys, member_step(self.members[name], step), None))

    def with_late(self, found: Any, late: pa.RecordBatch, arrival: Ints) -> Any:
        def beside(name: str, output: Output) -> pa.RecordBatch:
            return output.with_late(found[name], late, arrival) if output.takes_late else found[name]

        return self._each(beside)

    def merged(self, results: Sequence[Any], rows: Sequence[Ints]) -> Any:
        return self._each(lambda name, output: output.merged([found[name] for found in results], rows))

    def looked_up(self, keys: list[pa.Array], found: Mapping[tuple[int, int], pa.Array]) -> Any:
        return self._each(lambda name, output: output.looked_up(keys, self.members[name].read(found)))

    def _each(self, batch: Callable[[str, Output], pa.RecordBatch]) -> ResultBatches:
        return ResultBatches({name: batch(name, output) for name, output in self.outputs.items()})


def member_step(member: QueryView, step: StepResult) -> StepResult:
    """The results of a step for one member: those of its windows, with a column for each of its aggregates."""
    found = []
    for window, place in enumerate(member.windows):
        one = step.found[place]
        columns, low, high = ([of[a] for a in member.aggregates] for of in (one.columns, one.low, one.high))
        found.append(WindowResults(replace(one.results, window=window), columns, low, high))
    return StepResult(step.rows, found, step.left)


class SharedOperator(Operator):
    """An operator of a combined query: its calls return a batch for each member."""

    query: CombinedQuery

    def _output(self, schema: pa.Schema) -> Output:
        return SharedOutput(self.query.combination(schema), self.mode)
