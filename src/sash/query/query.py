"""Query: which windows, which aggregates, partitioned by what, ordered by what. Frozen data.

Query ──resolve(schema)──▶ Resolved ──plan──▶ Plan ──explain──▶ text
  │    columns, types, units          structures, what is shared
  └──operator(schema) / run(data): found by name in the layers above
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sash.monoids.algebra import Bound
from sash.query import checks, hosts
from sash.query.options import Options
from sash.windows.kinds import Kind

if TYPE_CHECKING:
    import pyarrow as pa

    from sash.query.planner import Plan
    from sash.query.resolved import Resolved


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Query:
    """What to compute: windows, aggregates, and the order of the rows.

    `windows` is a window, a number of rows, a duration, or a dict of named ones. `by` are the columns that part
    the rows into keys, `on` is the column of the time, or a list: the time, then tie-breakers; without it
    arrival is the order. `lateness` is how far a row may be behind the latest time seen, `late` what happens to
    one further behind ("drop", "flag", "error"), `emit` when results leave ("final", "changes", "eager"). A key
    silent for longer than `forget` starts anew; a time further than `ahead` before the clock is no time. With
    `emit="eager"` a row whose column `retract` is true takes back the last row of the same key and `on`.

    >>> import sash
    >>> q = sash.Query("1h", by="symbol", on="ts", high=sash.max("price"))
    >>> q
    Query(Time('1h'), by='symbol', on='ts', high=max('price'))
    >>> q.windows, q.by, q.on, q.lateness
    ({'': Time('1h')}, ('symbol',), ('ts',), None)

    Raises TypeError or ValueError, naming the argument, for all that can be told without data: what depends on
    column types is told by `resolve`.
    """

    windows: dict[str, Kind]
    by: tuple[str, ...]
    on: tuple[str, ...]
    lateness: Any
    emit: str
    late: str
    forget: Any
    ahead: Any
    retract: str | None
    options: Options
    aggregates: dict[str, Bound]
    _resolved: list[tuple[Any, Any]]

    def __init__(
        self,
        /,
        windows: Any,
        *,
        by: Any = (),
        on: Any = None,
        lateness: Any = None,
        emit: Any = "final",
        late: Any = "drop",
        forget: Any = None,
        ahead: Any = None,
        retract: Any = None,
        options: Any = None,
        **aggregates: Any,
    ) -> None:
        given = {"by": by, "on": on, "lateness": lateness, "emit": emit, "late": late}
        given |= {"forget": forget, "ahead": ahead, "retract": retract, "options": options}
        for name, value in given.items():
            checks.not_an_aggregate(name, value)
        values = {
            "windows": checks.windows(windows),
            "by": checks.columns("by", by),
            "on": checks.columns("on", on),
            "lateness": checks.span("lateness", lateness, zero=True),
            "emit": checks.one_of("emit", emit, checks.EMIT),
            "late": checks.one_of("late", late, checks.LATE),
            "forget": checks.span("forget", forget),
            "ahead": checks.span("ahead", ahead, zero=True),
            "retract": checks.retract(retract, emit),
            "options": checks.options(options),
            "aggregates": checks.aggregates(aggregates),
            "_resolved": [],
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        checks.together(self)

    @property
    def per_row(self) -> bool:
        """Is there a result for each row, not for each slide?"""
        return all(window.slide == "row" for window in self.windows.values())

    def resolve(self, schema: pa.Schema) -> Resolved:
        """The query on columns of these types: everything in units and with its type.

        Raises KeyError, which here is a ValueError as well, for an unknown column, TypeError or ValueError for a
        column that does not fit, each by name.
        """
        from sash.query.resolve import resolve

        plain = schema.remove_metadata()
        for known, resolved in self._resolved:
            if known.equals(plain, check_metadata=True):
                return resolved  # type: ignore[no-any-return]
        found = resolve(self, plain)
        self._resolved.append((plain, found))
        return found

    def plan(self, schema: pa.Schema) -> Plan:
        """The structures and what is shared. Raises as `resolve`, and TypeError if `options` force what cannot be."""
        from sash.query.planner import plan

        return plan(self.resolve(schema))

    def explain(self, schema: pa.Schema | None = None) -> str:
        """The plan as text: windows, structures and why, what is shared, what ties may change, costs and state.

        Without a schema the types are assumed, and the text says so.
        """
        from sash.query.explain import explain

        return explain(self, schema)

    def fingerprint(self, schema: pa.Schema) -> str:
        """32 hexadecimal digits that name the state of this query: equal for equal meaning, in every process."""
        return self.resolve(schema).fingerprint

    def operator(
        self, schema: pa.Schema | None = None, *, mode: str = "rows", store: Any = None, clock: Any = None
    ) -> Any:
        """The engine for this query: record batches in, record batches out."""
        return hosts.operator(self, schema, mode=mode, store=store, clock=clock)

    def run(self, data: Any) -> Any:
        """Compute the query on a frame, and give the kind of frame it was given.

        Raises TypeError if there is no host for such data.
        """
        return hosts.run(self, data)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_resolved": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Query) and self._meaning() == other._meaning()

    def __hash__(self) -> int:
        return hash(self._meaning())

    def _meaning(self) -> tuple[Any, ...]:
        # as tuples, for the order of windows and of aggregates is that of the results' columns
        said = (
            self.by,
            self.on,
            self.lateness,
            self.emit,
            self.late,
            self.forget,
            self.ahead,
            self.retract,
            self.options,
        )
        return (*said, tuple(self.windows.items()), tuple(self.aggregates.items()))

    def __repr__(self) -> str:
        windows = repr(self.windows[""]) if "" in self.windows else repr(self.windows)
        shown = [windows]
        for name in ("by", "on"):
            value = getattr(self, name)
            if value:
                shown.append(f"{name}={value[0]!r}" if len(value) == 1 else f"{name}={list(value)!r}")
        for name, said in (
            ("lateness", None),
            ("emit", "final"),
            ("late", "drop"),
            ("forget", None),
            ("ahead", None),
            ("retract", None),
        ):
            value = getattr(self, name)
            if value != said:
                shown.append(f"{name}={checks.shown(value)}")
        if self.options != Options():
            shown.append(f"options={self.options!r}")
        shown += [f"{name}={bound!r}" for name, bound in self.aggregates.items()]
        return f"Query({', '.join(shown)})"
