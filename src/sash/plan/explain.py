"""Print the plan: windows, results, structures with reasons, shared state, costs and sizes.

>>> import sash
>>> print(sash.Query(1000, high=sash.max("price")).explain())
Query(Count(1000), high=max('price'))
(no schema was given; assumed: price double)
<BLANKLINE>
windows
  Count(1000)  at each row:  the last 1,000 rows
...
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sash.aggregators.catalogue import CATALOGUE
from sash.plan import explain_text
from sash.plan.default_schema import default_schema
from sash.plan.notebook_html import PlanText
from sash.plan.planner import FOLD, SEVERAL_SIZES, Plan, WindowGroup, has_column_kernel, is_stateless, plan, siblings
from sash.plan.state_sharing import Member

if TYPE_CHECKING:
    import pyarrow as pa

    from sash.plan.query import Query

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
    return ", ".join(explain_text.label(found.bound_query.windows[place]) for place in places)


# ---- windows, results and order ----


def _windows(found: Plan) -> list[str]:
    specs = found.bound_query.windows
    rows = [(repr(spec.window), f"{explain_text.ends(spec)}:", explain_text.holds(spec)) for spec in specs]
    names = ["" if spec.name == repr(spec.window) else spec.name for spec in specs]
    lines = table((name, *row) for name, row in zip(names, rows, strict=True)) if any(names) else table(rows)
    hints = [explain_text.zone_hint(spec, found.bound_query.time) for spec in specs]
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
        behind = explain_text.amount(query.lateness)
        lines.append(f"rows at most {behind} behind the latest time; late rows {LATE[query.late]}")
    if query.forget is not None:
        lines.append(f"a key without rows for more than {explain_text.amount(query.forget)} expires")
    if query.ahead is not None:
        lines.append(f"times more than {explain_text.amount(query.ahead)} ahead of the clock count as missing")
    return lines


def _ties(found: Plan) -> list[str]:
    query, affected = found.bound_query.query, explain_text.ties(found.bound_query)
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
        if len(places := _asked(found, alike_places, owner)) > 1
        and found.choices[places[0], owner.number].structure in SEVERAL_SIZES
    ]


def _asked(found: Plan, places: Iterable[int], owner: Member) -> list[int]:
    """The windows among these over which a state is computed."""
    return [place for place in places if (place, owner.number) in found.choices]


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
            (explain_text.label(spec), aggregate.name, one.structure, one.why)
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
    if found.bound_query.query.options.structure is not None or not is_stateless(found.bound_query):
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
        held = explain_text.elements(bound_query, group)
        if group.elements.startswith("rows"):
            held += f", each with {', '.join(_columns_read(found, group)) or 'only its position'}"
        else:
            held += f" of {len(found.states)} aggregate{'s' if len(found.states) > 1 else ''}"
        lines.append(f"{_names(found, group.windows)}: each key holds {held}")
    ahead = [place for place, spec in enumerate(bound_query.windows) if spec.shift > 0]
    if ahead:
        lines.append(f"rows wait, with all their columns, until {_names(found, ahead)} has all rows")
    if query.lateness is not None:
        lines.append(f"rows of the last {explain_text.amount(query.lateness)} wait in the reorder buffer")
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
