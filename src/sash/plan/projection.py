"""Project the results of a query from those of its aggregates: formulas, and nulls below `min_periods`.

    vwap=sum(price * qty) / sum(qty), min_periods=3        n=count()

    aggregates   0 sum(price * qty)   1 count(price * qty)   2 sum(qty)   3 count(qty)   4 count()
                 └───── cell ─────┘                          └── cell ──┘                └ cell ┘
    outputs      vwap = "0" / "1"                                                        n

The engine computes aggregates over windows: `asked` are the pairs. A cell is one such pair, and the pair that counts
the inputs. Equal aggregates of a query are computed once. A query without formulas, own windows and `min_periods` is
plain: each aggregate over each window is a result.

The windows of a query with those of its aggregates, and the names of its results.

Query({"1h": …, "1d": …}, a=max("x"), b=min("x").over(5), c=sum("x"))      windows  1h, 1d, Count(5)
                                                                           results  a_1h b c_1h a_1d c_1d
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sash import monoids as m
from sash.expressions.tree import Node
from sash.monoids.algebra import Bound
from sash.monoids.arithmetic import Aggregated, Formula, state_text
from sash.windows.specs import WindowKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from sash.plan.bound_query import AggregateSpec, WindowSpec
    from sash.plan.query import Query


# --- Result names ---


class NamedResult(NamedTuple):
    """A column of results at each row: its label, the aggregate's name, and the query's window (None: its own)."""

    label: str
    name: str
    window: str | None


def has_own_windows(aggregated: Aggregated) -> bool:
    """Has every aggregate in it a window of its own?"""
    return all(leaf.window is not None for leaf in aggregated.leaves())


def all_windows(query: Query) -> dict[str, WindowKind]:
    """The windows of a query by name: those that it was given, then those of aggregates.

    The window of an aggregate is named by its text, or "" if it is the only window. An unnamed window among others is
    named by its text, too, if the results have a column for the name.
    """
    found = dict(query.windows)
    for one in query.aggregates.values():
        for leaf in one.leaves():
            if leaf.window is not None and leaf.window not in found.values():
                found[_free(state_text(leaf.window), found)] = leaf.window
    if len(found) == 1 and not query.windows:
        return {"": next(iter(found.values()))}
    if len(found) > 1 and "" in found and any(window.slide != "row" for window in found.values()):
        return {name or _free(state_text(window), found): window for name, window in found.items()}
    return found


def _free(text: str, taken: Collection[str]) -> str:
    """A text as the name of a window; the texts of two policies may be equal, and are then numbered."""
    names = (text, *(f"{text} {number}" for number in range(2, len(taken) + 2)))
    return next(name for name in names if name not in taken)


def named_results(windows: Mapping[str, WindowKind], aggregates: Mapping[str, Aggregated]) -> list[NamedResult]:
    """The results at each row: for each window each aggregate; one with windows of its own has a single result.

    Raises ValueError if two would have the same name.
    """
    found: dict[str, NamedResult] = {}
    for number, window in enumerate(windows or ("",)):
        for name, aggregated in aggregates.items():
            own = has_own_windows(aggregated)
            if own and number:
                continue
            label = f"{name}_{window}" if window and not own else name
            if label in found:
                other = found[label]
                raise ValueError(
                    f"two results would be named {label!r}: {_over(other)} and "
                    f"{_over(NamedResult(label, name, None if own else window))}; rename an aggregate or a window"
                )
            found[label] = NamedResult(label, name, None if own else window)
    return list(found.values())


def _over(result: NamedResult) -> str:
    over = "its own window" if result.window is None else f"the window {result.window!r}"
    return f"{result.name!r} over {over}"


# --- Projection ---


class ResultCell(NamedTuple):
    """An aggregate over a window, by their numbers, and the aggregate that counts its inputs, if that matters."""

    window: int
    aggregate: int
    counter: int | None


@dataclass(frozen=True)
class OutputSpec:
    """A column of results: a cell, or a formula of cells, in which they are columns named by their numbers."""

    name: str
    label: str
    """The name with that of the window, where results are at each row."""
    result: pa.DataType
    cells: tuple[ResultCell, ...]
    tree: Node | None
    text: str

    @property
    def meaning(self) -> list[Any]:
        """The inputs that its values depend on, as a JSON value."""
        return [self.label, [list(cell) for cell in self.cells], None if self.tree is None else str(self.tree)]


@dataclass(frozen=True)
class Projection:
    """Computes results from aggregates over windows."""

    is_plain: bool
    min_periods: int
    asked: frozenset[tuple[int, int]]
    """The pairs of window and aggregate that are computed."""
    outputs: tuple[OutputSpec, ...]
    """The results at each row, or of a lookup."""
    slides: tuple[tuple[OutputSpec | None, ...], ...]
    """By window: the results of a slide, in the order of the query; None where they are those of other windows."""
    results: tuple[tuple[str, pa.DataType], ...]
    """The results of a slide, by name."""

    def windows_of(self, aggregate: int) -> tuple[int, ...]:
        """The windows over which an aggregate is computed."""
        return tuple(sorted(window for window, number in self.asked if number == aggregate))


class CoreAggregates:
    """The aggregates that the engine computes: those of the query, of formulas, and counts of inputs."""

    def __init__(self, query: Query, make: Callable[[str, Bound, str], AggregateSpec]) -> None:
        self.query, self.make = query, make
        self.specs: list[AggregateSpec] = []
        self._known: dict[Any, int] = {}

    def number(self, name: str, bound: Bound, label: str, state_name: str = "") -> int:
        """The number of an aggregate; in a plain query each has one of its own."""
        spec = replace(self.make(name, bound, label), state_name=state_name)
        if self.query.is_plain:
            self.specs.append(spec)
            return len(self.specs) - 1
        return self._shared(spec)

    def _shared(self, spec: AggregateSpec) -> int:
        key = (spec.monoid, spec.columns)
        if key not in self._known:
            self._known[key] = len(self.specs)
            self.specs.append(spec)
        return self._known[key]

    def counter(self, number: int) -> int | None:
        """The number of the aggregate that counts the inputs of another; None if it does not matter."""
        if not self.query.min_periods:
            return None
        spec = self.specs[number]
        if type(spec.monoid) is m.Count:
            return number
        inputs = [place for place in range(len(spec.columns)) if place not in spec.monoid.nullable]
        inputs = inputs or [*range(len(spec.columns))][:1]  # those that count null rows have one input, and the time
        count = self.make(f"{spec.stored_name}: inputs", m.Count()(), "")
        columns, trees = tuple(spec.columns[i] for i in inputs), tuple(spec.trees[i] for i in inputs)
        return self._shared(replace(count, columns=columns, types=tuple(spec.types[i] for i in inputs), trees=trees))


def project(
    query: Query, windows: Sequence[WindowSpec], make: Callable[[str, Bound, str], AggregateSpec]
) -> tuple[list[AggregateSpec], Projection]:
    """The aggregates of a query, and how its results are computed from them.

    `make(name, bound, label)` binds an aggregate. Raises TypeError, naming the result, for operands of a formula that
    do not fit.
    """
    core = CoreAggregates(query, make)
    numbers = {name: _numbers(core, name, one) for name, one in query.aggregates.items()}
    kinds = {name: _type(core, name, one, numbers[name]) for name, one in query.aggregates.items()}

    def output(name: str, label: str, place: int) -> OutputSpec:
        one = query.aggregates[name]
        leaves = zip(one.leaves(), numbers[name], strict=True)
        cells = tuple(
            ResultCell(place if leaf.window is None else _place(windows, leaf.window), number, core.counter(number))
            for leaf, number in leaves
        )
        tree = one.tree(iter(range(len(cells)))) if isinstance(one, Formula) else None
        return OutputSpec(name, label, kinds[name], cells, tree, one.state_text())

    given = {name: place for place, name in enumerate(query.windows)}
    named = named_results(query.windows, query.aggregates)
    outputs = tuple(output(name, label, given[window] if window is not None else 0) for label, name, window in named)
    by_window = {(one.cells[0].window, one.name): one for one in outputs}
    slides = tuple(tuple(by_window.get((w, name)) for name in query.aggregates) for w in range(len(windows)))
    cells = [cell for one in outputs for cell in one.cells]
    asked = {(cell.window, cell.aggregate) for cell in cells}
    asked |= {(cell.window, cell.counter) for cell in cells if cell.counter is not None}
    found = Projection(query.is_plain, query.min_periods, frozenset(asked), outputs, slides, tuple(kinds.items()))
    return core.specs, found


def _place(windows: Sequence[WindowSpec], window: Any) -> int:
    return next(place for place, spec in enumerate(windows) if spec.window == window)


def _numbers(core: CoreAggregates, name: str, aggregated: Aggregated) -> list[int]:
    """The numbers of the aggregates in a result."""
    if isinstance(aggregated, Bound):
        return [core.number(name, aggregated, f"{name}={aggregated!r}")]
    label = f"{name}={aggregated!r}"
    return [
        core.number(f"{name}: {leaf!r}", leaf, label, f"{name}: {leaf.state_text()}") for leaf in aggregated.leaves()
    ]


def _type(core: CoreAggregates, name: str, aggregated: Aggregated, numbers: list[int]) -> pa.DataType:
    """The type of a result: that of the aggregate, or of the formula computed without rows."""
    if not isinstance(aggregated, Formula):
        return core.specs[numbers[0]].result
    import pyarrow as pa

    from sash.expressions.arrow_evaluation import evaluated

    specs = [core.specs[number] for number in numbers]
    for leaf, spec in zip(aggregated.leaves(), specs, strict=True):
        if not _is_operand(spec.result):
            raise TypeError(
                f"{name}={aggregated!r} calculates with {leaf!r}, whose results are of type {spec.result}: formulas "
                "take aggregates that give numbers, times or durations"
            )
    tree = aggregated.tree(iter(range(len(numbers))))
    try:
        return evaluated(tree, lambda column: pa.nulls(0, specs[int(column)].result), 0).type
    except (TypeError, ValueError):
        types = " and ".join(f"{spec.name.partition(': ')[2]} of type {spec.result}" for spec in specs)
        raise TypeError(f"{name}={aggregated!r} cannot be calculated from {types}") from None


def _is_operand(type_: pa.DataType) -> bool:
    import pyarrow.types as is_

    number = is_.is_integer(type_) or is_.is_floating(type_) or is_.is_decimal(type_)
    return bool(number or is_.is_timestamp(type_) or is_.is_date(type_) or is_.is_duration(type_))
