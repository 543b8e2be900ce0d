"""Print the plan: windows, results, structures with reasons, shared state, costs and sizes.

>>> import sash
>>> print(sash.Query(1000, high=sash.max("price")).explain())
Query(Count(1000), high=max('price'))
(no schema was given; assumed: price double)
<BLANKLINE>
windows
  Count(1000)  at each row:  the last 1,000 rows
...

Notebooks show queries and plans as HTML with the same words.

If no schema is given, each column gets the simplest type that all its readers admit: the time column is a timestamp if
a size or other length is a duration, else an integer; an aggregate's input is a float unless the aggregate needs text,
booleans or integers; columns in expressions get types from the operators and literals beside them.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sash.aggregators.catalogue import CATALOGUE
from sash.expressions.tree import CallNode, CastNode, ColumnNode, LiteralNode, Node
from sash.monoids.algebra import Domain
from sash.plan.derived_columns import inputs_of
from sash.plan.planner import FOLD, SEVERAL_SIZES, Plan, WindowGroup, has_column_kernel, plan, siblings
from sash.plan.slicing import sliding_range
from sash.plan.types import domains
from sash.plan.validation import halflife_of
from sash.windows.calendar import CalendarLength
from sash.windows.duration import UNITS, Duration, amount, counted

if TYPE_CHECKING:
    from sash.plan.bound_query import BoundQuery, WindowSpec
    from sash.plan.query import Query
    from sash.plan.time_axis import TimeAxis


# --- Type guess ---

_NUMBERS = ("+", "-", "*", "/", "//", "%", "negate", "abs", "sign", "round", "floor", "ceil", "sqrt", "exp", "ln")
_FLOATS = ("log", "log2", "log10", "power", "isnan", "isinf", "isfinite")
_TEXTS = (
    "like", "ilike", "||", "concat", "upper", "lower", "trim", "ltrim", "rtrim", "length", "substr", "starts_with",
)  # fmt: skip
_TIMES = ("year", "quarter", "month", "day", "dow", "hour", "minute", "second", "epoch")
_OPERANDS = {
    **dict.fromkeys((*_NUMBERS, *_FLOATS), "double"),
    **dict.fromkeys(_TEXTS, "string"),
    **dict.fromkeys(_TIMES, "timestamp[us]"),
    **dict.fromkeys(("and", "or", "not"), "bool"),
}
"""The type of operands, by function."""

_LITERALS = {"bool": "bool", "text": "string", "date": "timestamp[us]", "timestamp": "timestamp[us]"}


def guess_types(tree: Node, wanted: str, found: dict[str, Any]) -> None:
    """Add a type for each column of the tree to `found`, unless there is one; the tree's own should be `wanted`."""
    if isinstance(tree, ColumnNode):
        found.setdefault(tree.name, wanted)
    elif isinstance(tree, CastNode):
        guess_types(tree.value, "double", found)
    elif isinstance(tree, CallNode):
        for place, operand in enumerate(tree.arguments):
            guess_types(operand, _wanted(tree, place, wanted), found)


def _wanted(tree: CallNode, place: int, wanted: str) -> str:
    """The type that an operand of a call should have."""
    if tree.function in _OPERANDS:
        return _OPERANDS[tree.function]
    if (tree.function == "where" and place == 1) or (
        tree.function == "case" and place % 2 == 0 and place < len(tree.arguments) - 1
    ):
        return "bool"
    if tree.function in ("case", "where"):
        return wanted
    near = [_LITERALS.get(one.kind) for one in tree.arguments if isinstance(one, LiteralNode)]
    near += [_result(one) for one in tree.arguments if isinstance(one, CallNode)]
    compares = tree.function in ("=", "<>", "<", "<=", ">", ">=", "is null")
    return next((kind for kind in near if kind is not None), "double" if compares else wanted)


def _result(tree: CallNode) -> str | None:
    if tree.function in ("upper", "lower", "trim", "ltrim", "rtrim", "substr", "concat", "||"):
        return "string"
    has_interval = any(isinstance(one, LiteralNode) and one.kind == "interval" for one in tree.arguments)
    return "timestamp[us]" if tree.function in ("+", "-") and has_interval else None


# --- Default schema ---

_NARROW: tuple[Domain, ...] = ("any", "hashable", "ordered", "number", "int", "bool", "text")
_TYPES: dict[Domain, str] = {"int": "int64", "bool": "bool", "text": "string"}


def default_schema(query: Query) -> pa.Schema:
    """A schema on which the query could run, with the columns that it names."""
    asked: dict[str, list[Domain]] = {}
    fixed: dict[str, Any] = dict.fromkeys(query.by, pa.string())
    overs = [bound for window in query.all_windows.values() for bound in window.decides_by]
    bounds = [*(leaf for one in query.aggregates.values() for leaf in one.leaves()), *overs]
    for bound in bounds:
        for column, domain in zip(bound.columns, domains(bound.monoid, len(bound.columns)), strict=True):
            if isinstance(column, str):
                asked.setdefault(column, []).append(domain)
    for column, needed in asked.items():
        fixed[column] = pa.type_for_alias(_TYPES.get(max(needed, key=_NARROW.index), "float64"))
    for window in query.all_windows.values():
        if window.reads is not None:
            values = pa.timestamp("us") if isinstance(window.length, Duration) else pa.float64()
            fixed[window.reads] = pa.bool_() if window.is_marked else values
    for column in query.on[1:]:
        fixed.setdefault(column, pa.int64())
    if query.on:
        fixed[query.on[0]] = _time(query)
    guessed: dict[str, Any] = {}
    for bound in bounds:
        for tree, domain in zip(inputs_of(bound), bound.monoid.domain, strict=False):
            guess_types(tree, _TYPES.get(domain, "double"), guessed)
    fixed |= {name: pa.type_for_alias(kind) for name, kind in guessed.items() if name not in fixed}
    return pa.schema(list(fixed.items()))


def _time(query: Query) -> pa.DataType:
    lengths = [query.lateness, query.forget, query.ahead]
    leaves = [leaf for aggregated in query.aggregates.values() for leaf in aggregated.leaves()]
    lengths += [halflife_of(leaf.monoid, repr(leaf)) for leaf in leaves]
    for window in query.all_windows.values():
        lengths += [window.step, window.length if window.unit == "time" else None]
    durations = [one for one in lengths if isinstance(one, Duration)]
    if durations:
        return pa.timestamp("us" if all(not one.nanoseconds % 1000 for one in durations) else "ns")
    numbers = [one for one in lengths if isinstance(one, float)]
    return pa.float64() if numbers else pa.int64()


# --- Explain text ---

_BOUNDS = {"right": "(]", "left": "[)", "both": "[]", "neither": "()"}


def holds(spec: WindowSpec) -> str:
    """The rows of a window."""
    window: Any = spec.window
    if not spec.rule.in_time:
        return window.holds  # type: ignore[no-any-return]
    left, right = tuple(_BOUNDS[spec.closed])
    end = "end" if spec.slide == "time" else "t"
    if spec.calendar_size is not None or spec.calendar_shift is not None:
        held = _of_calendar(spec, end)
    else:
        held = f"{_moved(end, _less(window.shift, window.length))}, {_moved(end, window.shift)}"
    return f"{left}{held}{right}, rows of equal time together"


def _of_calendar(spec: WindowSpec, end: str) -> str:
    """Start and end of a window whose size or shift is a calendar length."""
    window: Any = spec.window
    if spec.calendar_shift is not None:
        back = amount(Duration(-window.shift.nanoseconds, -window.shift.months))
        end = f"{end} - {back} of the calendar in {spec.calendar_shift.clock.zone}"
    elif spec.shift:
        end = _moved(end, window.shift)
    of = "" if spec.calendar_size is None else f" of the calendar in {spec.calendar_size.clock.zone}"
    return f"{end} - {amount(window.size)}{of}, {end}"


def _less(shift: Any, size: Any) -> Any:
    """shift - size, as a length."""
    if isinstance(size, Duration):
        return Duration((shift.nanoseconds if shift else 0) - size.nanoseconds)
    return shift - size


def _moved(end: str, by: Any) -> str:
    """A time at a distance from another."""
    zero = Duration(0) if isinstance(by, Duration) else 0
    if by == zero:
        return end
    return f"{end} + {amount(by)}" if by > zero else f"{end} - {amount(_less(0, by))}"


def ends(spec: WindowSpec) -> str:
    """When there is a result."""
    step = spec.window.step
    if spec.slide == "row":
        return "at each row" + (", once its end has passed" if spec.shift > 0 else "")
    if spec.slide == "close":
        return "when it closes"
    if spec.slide == "rows":
        return f"every {counted(step)}" if step > 1 else "every row"
    offset = spec.window.offset
    calendar = ""
    if spec.grid is not None and not isinstance(spec.grid.every, int):
        calendar = f" of the calendar in {spec.grid.every.clock.zone}"
    aligned = ", aligned by start" if spec.window.align == "start" else ""
    return f"every {amount(step)}{calendar}{aligned}" + (f", shifted by {amount(offset)}" if offset else "")


def zone_hint(spec: WindowSpec, axis: TimeAxis | None) -> str:
    """What to write for local days in a time zone; empty if slides are no whole days, or those of a zone already."""
    zone, window = getattr(axis and axis.type, "tz", None), spec.window
    step, every = window.step, window.every
    given = window.tz or getattr(every, "tz", None) or window.offset
    if zone in (None, "UTC", "Etc/UTC", "+00:00") or given or spec.slide != "time" or not isinstance(step, Duration):
        return ""
    if not step.months and step.nanoseconds % UNITS["d"]:
        return ""
    assert axis is not None
    return (
        f"{label(spec)} is cut at midnight in UTC, and {axis.column!r} is in {zone}: with tz={zone!r} the window is "
        "cut at midnight there"
    )


def label(spec: WindowSpec) -> str:
    return spec.name or repr(spec.window)


# ---- elements ----


def elements(bound_query: BoundQuery, group: WindowGroup) -> str:
    """The state of a key, and its size."""
    specs = [bound_query.windows[place] for place in group.windows]
    if group.kind == "running":
        return "one partial"
    if group.single_rows:
        return f"the rows of at most {most_panes(specs):,} panes"
    if group.kind in ("time panes", "row panes"):
        return f"at most {most_panes(specs):,} partials"
    return "; ".join(_longest(specs))


def _longest(specs: list[WindowSpec]) -> list[str]:
    """The longest window of each kind: it contains the others."""
    found: dict[Any, WindowSpec] = {}
    for spec in specs:
        at = (spec.kind, spec.column, id(spec.window) if spec.over else None)
        if at not in found or spec.behind > found[at].behind:
            found[at] = spec
    return [_reach(spec) for spec in found.values()]


def _reach(spec: WindowSpec) -> str:
    window: Any = spec.window
    if not spec.rule.in_time:
        return f"the last {counted(window.size - window.shift)}" if spec.shift < 0 else holds(spec).partition(";")[0]
    if spec.shift < 0 and (spec.calendar_size is not None or spec.calendar_shift is not None):
        return f"the rows of {holds(spec).partition(', rows')[0]}"
    return (
        f"the rows of the last {amount(_less(0, _less(window.shift, window.size)) if spec.shift < 0 else window.size)}"
    )


def most_panes(specs: list[WindowSpec]) -> int:
    """The greatest number of panes in the longest window.

    A pane ends where a window starts or ends. A grid of edges that coincides with another adds none.

    >>> from types import SimpleNamespace
    >>> [most_panes([SimpleNamespace(size=s, every=e, offset=0, grid=None)]) for s, e in ((86400, 60), (5, 2))]
    [1440, 5]
    """
    if any(spec.grid is not None for spec in specs):
        return _most_calendar_panes(specs)
    ranges = [sliding_range(spec) for spec in specs]
    grids = {grid for one in ranges for grid in (one.ends, one.starts)}
    needed = {grid for grid in grids if not any(grid.lies_on(other) for other in grids - {grid})}
    longest = max(ranges, key=lambda one: one.size)
    size, starts = longest.size, longest.starts
    # a window includes its end but not its start: it holds one edge less of the grid of starts
    return sum(size // grid.step if grid == starts else -(-size // grid.step) for grid in needed)


def _most_calendar_panes(specs: list[WindowSpec]) -> int:
    """The same with a calendar: each window has an edge for each end and for each start within the longest window.

    Where sizes are multiples of slides, starts are ends.
    """
    longest = max(spec.size or 0 for spec in specs)
    found = 0
    for spec in specs:
        grid = spec.grid
        if grid is not None and isinstance(grid.every, CalendarLength) and isinstance(grid.size, CalendarLength):
            month = bool(grid.every.months)
            slide, size = (grid.every.months, grid.size.months) if month else (grid.every.days, grid.size.days)
            if size and not size % slide and spec.size == longest:
                found += size // slide
                continue
        step = grid.every.shortest if grid is not None and isinstance(grid.every, CalendarLength) else spec.every
        found += 2 * -int(-longest // (step or 1))
    return found


# ---- ties ----


def ties(bound_query: BoundQuery) -> list[str]:
    """The windows, then the aggregates, that depend on the order of rows of equal time."""
    found = [
        f"{label(spec)} (a {type(spec.window).__name__} window)" for spec in bound_query.windows if not spec.rule.peers
    ]
    made = bound_query.query.aggregates.items()
    return found + [
        f"{name}={one!r}" for name, one in made if not all(leaf.monoid.commutative for leaf in one.leaves())
    ]


# --- Notebook html ---


class PlanText(str):
    """The text of a plan. A notebook shows it with its headings in bold, not as a quoted string."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        first, *lines = self.splitlines()
        marked = [f"<b>{escape(line)}</b>" if line and line[0] not in " (" else escape(line) for line in lines]
        return f"<pre><b>{escape(first)}</b>\n" + "\n".join(marked) + "</pre>"


def query_html(query: Query) -> str:
    """A query as a table: its windows, keys, order and aggregates."""
    windows = ((f"window {name}".strip(), repr(window)) for name, window in query.all_windows.items())
    rows: list[tuple[str, str]] = [*windows]
    rows += [(name, ", ".join(columns)) for name, columns in (("by", query.by), ("on", query.on)) if columns]
    optional = {"lateness": query.lateness, "forget": query.forget, "ahead": query.ahead, "retract": query.retract}
    optional |= {"min_periods": query.min_periods or None}
    rows += [(name, str(value)) for name, value in optional.items() if value is not None]
    rows += [("emit", query.emit)] if query.emit != "final" else []
    rows += [(name, repr(aggregate)) for name, aggregate in query.aggregates.items()]
    return f"<b>Query</b>{_table(rows)}"


def _table(rows: Iterable[tuple[str, str]]) -> str:
    cells = (
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in rows
    )
    return f"<table>{''.join(cells)}</table>"


# --- Explain ---

EMISSION = {
    "final": "each result is emitted once, when it is final",
    "changes": "each result is emitted once, when it is final, if it differs from the key's last",
    "eager": "results are emitted at once, and revised by later rows",
}
"""Texts for `emit`."""

LATE = {"drop": "are counted and dropped", "flag": "pass with _late true", "error": "raise an error"}
"""Texts for `late`."""

ELEMENTS = {
    "rows": "single rows",
    "time panes": "panes",
    "row panes": "panes in rows",
    "rows of time panes": "single rows, because an order statistic needs all values of a pane",
    "rows of row panes": "single rows, because an order statistic needs all values of a pane",
    "running": "a running partial",
}
"""Texts for the elements of a group of windows."""


def explain(query: Query, schema: pa.Schema | None = None) -> PlanText:
    """The plan of a query as text. Raises as `Query.plan` does."""
    if schema is not None:
        return explained(query.plan(schema))
    guess = default_schema(query)
    return explained(plan(query.bind(guess)), assumption(guess))


def assumption(schema: pa.Schema) -> str:
    """The line about a schema that was not given."""
    types = ", ".join(f"{field.name} {field.type}" for field in schema) or "no columns are read"
    return f"(no schema was given; assumed: {types})"


def explained(found: Plan, note: str = "") -> PlanText:
    """A plan as text; `note` is its second line."""
    sections = {
        "windows": _windows(found),
        "results": _results(found),
        "order": _order(found),
        "shared": _shared(found),
        "structures": _structures(found),
        "ties": _ties(found),
        "state": _state(found),
    }
    lines = [repr(found.bound_query.query)]
    lines += [note] if note else []
    for title, body in sections.items():
        lines += ["", title, *indented(body)]
    return PlanText("\n".join(lines) + "\n")


def table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Rows of text as aligned columns, without trailing spaces."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def keyed(query: Query) -> str:
    """The keys of a query."""
    return f"keyed by {', '.join(query.by)}" if query.by else "no keys"


def _names(found: Plan, places: Iterable[int]) -> str:
    return ", ".join(label(found.bound_query.windows[place]) for place in places)


# ---- windows, results and order ----


def _windows(found: Plan) -> list[str]:
    specs = found.bound_query.windows
    rows = [(repr(spec.window), f"{ends(spec)}:", holds(spec)) for spec in specs]
    names = ["" if spec.name == repr(spec.window) else spec.name for spec in specs]
    lines = table((name, *row) for name, row in zip(names, rows, strict=True)) if any(names) else table(rows)
    hints = [zone_hint(spec, found.bound_query.time) for spec in specs]
    return [*lines, *(hint for hint in hints if hint)]


def _results(found: Plan) -> list[str]:
    bound_query, query = found.bound_query, found.bound_query.query
    first = "one row for each input row" if bound_query.per_row else "one row per key and slide"
    types = {one.name: bound_query.output_type(one) for one in bound_query.projection.outputs}
    made = table((name, repr(query.aggregates[name]), str(kind)) for name, kind in types.items())
    if query.min_periods:
        made.append(f"null unless an aggregate has seen {query.min_periods:,} inputs that are not null (min_periods)")
    return [f"{first}, {keyed(query)}", *made, f"{query.emit}: {EMISSION[query.emit]}"]


def _order(found: Plan) -> list[str]:
    query = found.bound_query.query
    if not query.on:
        return ["arrival: there is no on="]
    lines = [", then ".join((*query.on, "the order of arrival"))]
    if query.lateness is None:
        lines.append("no lateness=: rows must be in order, an earlier one is an error (frames are sorted first)")
    else:
        behind = amount(query.lateness)
        lines.append(f"rows at most {behind} behind the latest time; late rows {LATE[query.late]}")
    if query.forget is not None:
        lines.append(f"a key without rows for more than {amount(query.forget)} expires")
    if query.ahead is not None:
        lines.append(f"times more than {amount(query.ahead)} ahead of the clock count as missing")
    return lines


def _ties(found: Plan) -> list[str]:
    query, affected = found.bound_query.query, ties(found.bound_query)
    if not affected:
        return ["none: no result depends on the order of rows of equal time"]
    if not query.on:
        return ["the order is that of arrival, which a Spark shuffle does not keep; it affects", *indented(affected)]
    unique = query.on[0] if len(query.on) == 1 else f"({', '.join(query.on)})"
    return [
        f"rows of a key with equal {unique} have no fixed order on Spark; it affects",
        *indented(affected),
        f"the same on every host where {unique} is unique for a key; else add a tie-breaker to on=",
    ]


# ---- sharing, structures and state ----


def _shared(found: Plan) -> list[str]:
    lines = []
    for group in found.groups:
        kept = f", kept once for {len(group.windows)} windows" if len(group.windows) > 1 else ""
        lines.append(f"{_names(found, group.windows)}: {ELEMENTS[group.elements]}{kept}")
        lines += indented(_one_structure(found, group))
    return lines + _one_state(found)


def _one_structure(found: Plan, group: WindowGroup) -> list[str]:
    """Lines about structures that answer several windows."""
    alike = {siblings(found.bound_query, group, place) for place in group.windows}
    return [
        f"{owner.aggregate.name}: one {found.choices[places[0], owner.number].structure} for {_names(found, places)}"
        for alike_places in sorted(alike)
        for owner, *_ in found.states
        if len(places := [place for place in alike_places if (place, owner.number) in found.choices]) > 1
        and found.choices[places[0], owner.number].structure in SEVERAL_SIZES
    ]


def _one_state(found: Plan) -> list[str]:
    """Lines about aggregates that share one state."""
    return [
        f"{owner.aggregate.name}: one state, shared with {_listed([member.aggregate.name for member in others])}"
        for owner, *others in found.states
        if others
    ]


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _structures(found: Plan) -> list[str]:
    """The structure of each window and aggregate, then the costs of these structures."""
    aggregates, specs = found.bound_query.aggregates, found.bound_query.windows
    each = [[found.choices.get((place, number)) for number in range(len(aggregates))] for place in range(len(specs))]
    if all(choices == each[0] for choices in each):
        lines = table(
            (aggregate.name, one.structure, one.why)
            for aggregate, one in zip(aggregates, each[0], strict=True)
            if one is not None
        )
    else:
        lines = table(
            (label(spec), aggregate.name, one.structure, one.why)
            for spec, choices in zip(specs, each, strict=True)
            for aggregate, one in zip(aggregates, choices, strict=True)
            if one is not None
        )
    used = dict.fromkeys(choice.structure for choice in found.choices.values())
    costs = table((f"{name}:", _cost(name)) for name in used)
    lines += ["costs in ⊕ per insert, evict, query; n elements in the window", *indented(costs)]
    special = [aggregate.name for aggregate in aggregates if has_column_kernel(found.bound_query, aggregate)]
    if special:
        lines.append(f"on frames and sorted batches: whole-column kernels for {', '.join(special)}")
    return lines + _one_per_size(found)


def _one_per_size(found: Plan) -> list[str]:
    """Lines about aggregates that have one structure for each size on frames."""
    if found.bound_query.query.options.structure is not None or not found.bound_query.is_stateless:
        return []
    several = {number for (_, number), choice in found.choices.items() if choice.structure in SEVERAL_SIZES}
    named = [
        found.bound_query.aggregates[n].name
        for n in sorted(several)
        if not has_column_kernel(found.bound_query, found.bound_query.aggregates[n])
    ]
    return [f"on frames and sorted batches: TwoStacksLite for each size of {', '.join(named)}"] if named else []


def _cost(name: str) -> str:
    if name == FOLD:
        return "1, –, 0; at worst 1, –, 0; space 1"
    record = CATALOGUE[name]
    average, worst = (", ".join(map(str, costs.values())) for costs in (record.average, record.worst))
    besides = f", and {record.comparisons} comparisons" if record.comparisons else ""
    return f"{average}{besides}; at worst {worst}{besides}; space {record.space}"


def _state(found: Plan) -> list[str]:
    bound_query, query = found.bound_query, found.bound_query.query
    lines = []
    for group in found.groups:
        held = elements(bound_query, group)
        if group.elements.startswith("rows"):
            held += f", each with {', '.join(_columns_read(found, group)) or 'only its position'}"
        else:
            held += f" of {len(found.states)} aggregate{'s' if len(found.states) > 1 else ''}"
        lines.append(f"{_names(found, group.windows)}: each key holds {held}")
    ahead = [place for place, spec in enumerate(bound_query.windows) if spec.shift > 0]
    if ahead:
        lines.append(f"rows wait, with all their columns, until {_names(found, ahead)} has all rows")
    if query.lateness is not None:
        lines.append(f"rows of the last {amount(query.lateness)} wait in the reorder buffer")
    return lines


def _columns_read(found: Plan, group: WindowGroup) -> list[str]:
    """The columns that a row is kept with: the time, and those that windows and aggregates read."""
    bound_query = found.bound_query
    specs = [bound_query.windows[place] for place in group.windows]
    read = [bound_query.time.column] if bound_query.time else []
    read += [spec.column for spec in specs if spec.column]
    for aggregate in (*bound_query.aggregates, *(aggregate for spec in specs for aggregate in spec.over)):
        read += aggregate.columns
    return list(dict.fromkeys(read))
