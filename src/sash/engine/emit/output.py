"""Output: results as a record batch of the query's output schema.

Per row: the input's columns and one column for each window and aggregate, in order of time and arrival. Per slide:
the key, the window's name, its start and end, the aggregates, in order of their ends. In mode "given" the results of
one window are ordered key by key: with many keys there are far more results than rows, and sorting them would take
longer than computing them.

Of a combined query each member builds its batches from the results of the step, as it would alone.

    step of the combined query ──▶ windows and aggregates of a member ──▶ its Output ──▶ a batch for each member
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import array, no_rows, taken, together
from sash.columns.failed_rows import FailedResults
from sash.columns.keys import decoded_schema, encode_as, plain_batch
from sash.columns.projected_results import Projector
from sash.engine.keyed.step_data import OrderedSlides, StepResult, WindowRanges, WindowResults
from sash.kernels.loops.array_types import NO_INTS, Flags, Ints, Numbers
from sash.kernels.loops.loop_cache import call_loop
from sash.kernels.loops.slot_loops import radix_pass
from sash.plan.bound_query import BoundQuery
from sash.plan.categories import categories_of
from sash.plan.derived_columns import source_column
from sash.plan.queries import Combination, QueryView
from sash.plan.types import value_type

if TYPE_CHECKING:
    from sash.engine.keyed.key_table import KeyTable

SlideOrder = Literal["end", "key", "found"]
"""The order of slides in a batch: by their ends, by slots and ends, or as the engine finds them, slot by slot."""


class Output:
    """Builds the output batches of an operator."""

    def __init__(self, bound_query: BoundQuery, mode: str) -> None:
        self.bound_query, self.mode = bound_query, mode
        self.schema = bound_query.output(mode)
        self.width = len(bound_query.schema)
        self.flags = bound_query.query.late == "flag" and mode != "sorted"
        self.restores = [
            i for i, field in enumerate(self.schema)
            if field.type != value_type(field.type) and (i < self.width or pa.types.is_dictionary(field.type))
        ] if bound_query.per_row else list(range(len(self.schema)))  # fmt: skip
        """The columns whose output type may differ from the computed type."""
        self.results = list(self.schema)[self.width :] if bound_query.per_row else []
        given = list(self.schema)[: self.width]
        self.given = pa.schema(given, self.schema.metadata) if bound_query.per_row and not self.restores else None
        """The schema of rows that need no conversion; None if some do."""
        self.categories = self._categories()
        """The ordered categories of the output's columns, by place."""
        self.projector = Projector(bound_query)
        self.has_names = any(window.name for window in bound_query.windows)
        self.slide_order: SlideOrder = "found" if mode == "given" and len(bound_query.windows) == 1 else "end"

    def _categories(self) -> dict[int, pa.Array]:
        bound_query = self.bound_query
        names = [(field.name, field.name) for field in self.schema if field.name in bound_query.schema.names]
        for one in bound_query.projection.outputs:
            spec = bound_query.aggregates[one.cells[0].aggregate]
            if one.tree is None and spec.encoding is not None and (source := source_column(spec.trees[-1])):
                names.append((one.label if bound_query.per_row else one.name, source))
        known = {name: categories_of(bound_query.schema.field(source)) for name, source in names}
        places = self.schema.get_field_index
        return {places(name): found for name, found in known.items() if found is not None and places(name) >= 0}

    @property
    def failures(self) -> list[FailedResults]:
        """The results of formulas that have failed and are null, of each query."""
        return [self.projector.failures]

    def sort_by_key(self) -> None:
        """Order slides by slot and end from now on."""
        self.slide_order = "key"

    def empty(self) -> pa.RecordBatch:
        """A batch without results."""
        return no_rows(self.schema)

    @property
    def takes_late(self) -> bool:
        """Whether late and untimed rows are part of the output."""
        return self.bound_query.per_row and (self.flags or self.mode == "sorted")

    def looked_up(self, keys: list[pa.Array], found: Mapping[tuple[int, int], pa.Array]) -> pa.RecordBatch:
        """The results of a lookup: keys, and the aggregates over each window."""
        bound_query = self.bound_query
        results = self.projector.outputs(lambda window, number: found[window, number])
        fields = [pa.field(name, column.type) for name, column in zip(bound_query.by, keys, strict=True)]
        fields += [pa.field(one.label, one.result) for one in bound_query.projection.outputs]
        return pa.RecordBatch.from_arrays([*keys, *results], schema=pa.schema(fields))

    def final(self, keys: KeyTable, step: StepResult, chosen: list[Flags] | None) -> pa.RecordBatch:
        """The chosen results of a step."""
        if self.bound_query.per_row:
            return self._rows(step, None if chosen is None else chosen[0])
        return self._slides(keys, step, chosen)

    def _rows(self, step: StepResult, chosen: Flags | None) -> pa.RecordBatch:
        results, table = self.projector.of_rows([one.cells for one in step.found]), step.table
        if self.flags:
            results.append(array(np.zeros(table.num_rows, np.bool_)))
        if chosen is None and self.given is not None and table.schema.equals(self.given, check_metadata=True):
            for field, column in zip(self.results, results, strict=True):
                table = table.append_column(field, column)  # 0.8 µs each; a batch from all columns 10
            return table
        columns = [*table.columns, *results]
        if chosen is not None and not chosen.all():
            places = array(np.flatnonzero(chosen))
            columns = [column.take(places) for column in columns]
        return self.typed(columns)

    def _slides(self, keys: KeyTable, step: StepResult, chosen: list[Flags] | None) -> pa.RecordBatch:
        if chosen is None and len(step.found) == 1:
            return self.typed(self._one_window(keys, step.found[0]))
        places = [None if chosen is None else np.flatnonzero(chosen[i]) for i in range(len(step.found))]
        parts = [self.slide_columns(keys, found, at) for found, at in zip(step.found, places, strict=True)]
        if self.slide_order == "found":
            return self.typed(parts[0])

        def joined(of: Sequence[Numbers]) -> Numbers:
            return np.concatenate([one if at is None else one[at] for one, at in zip(of, places, strict=True)])

        order = np.argsort(joined([found.results.ends for found in step.found]), kind="stable")
        if self.slide_order == "key":
            order = order[np.argsort(joined([found.results.slots for found in step.found])[order], kind="stable")]
        columns = [pa.concat_arrays(pieces) for pieces in zip(*parts, strict=True)] if len(parts) > 1 else parts[0]
        return self.typed([column.take(array(order)) for column in columns])

    def _one_window(self, keys: KeyTable, found: WindowResults) -> list[pa.Array]:
        """The columns of one window's slides, in order. What windows with the same slides share is computed once."""
        of = found.results

        def ordered() -> OrderedSlides:
            order = ORDERS[self.slide_order](of)
            slots, ends = (of.slots, of.ends) if order is None else (of.slots[order], of.ends[order])
            return OrderedSlides(order, keys.keys(slots), ends, self.bound(ends))

        order, by, numbers, ends = of.common.ordered(self.slide_order, ordered)
        starts = self.bound(of.starts_at(order, numbers))
        results = self._results(found)
        if order is not None:
            results = [taken(column, order) for column in results]
        return [*by, *self._name(of.window, len(of)), starts, ends, *results]

    def merged(self, found: Sequence[pa.RecordBatch], rows: Sequence[Ints]) -> pa.RecordBatch:
        """Merge the results of steps over different keys as of one step; `rows`: the places of rows, if per row."""
        joined = together(found, self.schema)
        if self.slide_order == "found" and not self.bound_query.per_row:
            return joined
        if self.bound_query.per_row:
            order = np.concatenate(rows)
        elif self.bound_query.time is None:
            order = joined.column("window_end").to_numpy()
        else:
            order, _ = self.bound_query.time.numbers(joined.column("window_end"))
        return joined.take(array(np.argsort(order, kind="stable")))

    def slide_columns(self, keys: KeyTable, found: WindowResults, places: Ints | None) -> list[pa.Array]:
        """The columns of one window's slides."""
        of = found.results
        slots, starts, ends, results = of.slots, of.starts_at(None, of.ends), of.ends, self._results(found)
        if places is not None:
            slots, starts, ends = slots[places], starts[places], ends[places]
            results = [taken(column, places) for column in results]
        return [*self.slide_head(keys.keys(slots), of.window, starts, ends), *results]

    def _results(self, found: WindowResults) -> list[pa.Array]:
        """The results of one window's slides."""
        if self.projector.is_plain:
            return found.columns
        window, count = found.results.window, len(found.results)
        return self.projector.of_slides(window, count, lambda _, number: found.cells[number].column)

    def slide_head(self, keys: list[pa.Array], window: int, starts: Numbers, ends: Numbers) -> list[pa.Array]:
        """The columns of slides before their results: keys, the window's name, starts and ends."""
        return [*keys, *self._name(window, len(starts)), self.bound(starts), self.bound(ends)]

    def _name(self, window: int, count: int) -> list[pa.Array]:
        """The column of the window's name, if windows have names."""
        if not self.has_names:
            return []
        return [pa.repeat(pa.scalar(self.bound_query.windows[window].name, pa.string()), count)]

    def bound(self, numbers: Numbers) -> pa.Array:
        """Starts or ends of windows in the type of the time column."""
        if self.bound_query.time is None:
            return array(numbers.astype(np.int64))
        return self.bound_query.time.array(numbers)

    def with_late(self, found: pa.RecordBatch, late: pa.RecordBatch, arrival: Ints) -> pa.RecordBatch:
        """Prepend late and untimed rows, with null aggregates, to the results."""
        count = late.num_rows
        columns = list(plain_batch(late, decoded_schema(self.bound_query.schema)).columns)
        for field in list(self.schema)[self.width :]:
            if field.name == "_late":
                columns.append(array(np.ones(count, np.bool_)))
            elif field.name == "_row":
                columns.append(array(arrival))
            elif field.name == "_revision":
                columns.append(array(np.zeros(count, np.int64)))
            else:
                columns.append(pa.nulls(count, value_type(field.type)))
        first = self.typed(columns)
        return together([first, found], self.schema)

    def typed(self, columns: list[pa.Array]) -> pa.RecordBatch:
        """Columns as a batch of the output schema: dictionary columns are encoded again."""
        for i in self.restores:
            columns[i] = encode_as(columns[i], self.schema.field(i).type, self.categories.get(i))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


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
        cells = [one.cells[number] for number in member.aggregates]
        found.append(WindowResults(replace(one.results, window=window), cells))
    return StepResult(step.rows, found, step.left)


def _by_key(found: WindowRanges) -> Ints | None:
    """The stable order of results by their slots and ends; None if they are in order."""
    if found.by_slide and found.restarted is None:  # slot by slot
        return None
    return np.lexsort((found.ends, found.slots))


def _by_end(found: WindowRanges) -> Ints | None:
    """The stable order of results by their ends; None if they are in order."""
    numbers, count = found.ident, len(found)
    if count < 2:
        return None
    least = int(numbers.min())
    width = int(numbers.max()) - least + 1
    if width > 4 * count + 1024 or not found.by_slide:
        return np.argsort(found.ends, kind="stable")
    order, counts = np.empty(count, np.int64), np.empty((1 << (width - 1).bit_length()) + 1, np.int64)
    call_loop(radix_pass, "", (numbers - least, NO_INTS, 0, counts, order))
    return order


ORDERS: dict[SlideOrder, Callable[[WindowRanges], Ints | None]] = {
    "end": _by_end,
    "key": _by_key,
    "found": lambda _: None,
}
"""The order of the results of one window; None if they are in it."""
