"""Draw the values of a frame with the aggregates of their windows: `sash.plot`. It needs matplotlib."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.columns.keys import has_key
from sash.frames import adapter_of
from sash.monoids.algebra import Bound
from sash.monoids.arithmetic import Aggregated
from sash.plan import validation
from sash.plan.query import Query
from sash.plan.rolling import time_column
from sash.plan.validation import aggregates_named

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sash.plan.api_types import Columns, Emit, EventFrame, Late, Windows
    from sash.plan.options import Options
    from sash.windows.arguments import Length

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
"""The palette of Okabe and Ito, which colour-blind people can distinguish."""

STYLES = ("-", "--", "-.", ":")

SAME_UNIT = frozenset(
    {"min", "max", "mean", "geometric_mean", "weighted_mean", "ewm_mean", "median", "quantile", "approx_quantile"}
    | {"mode", "first", "last", "nth", "lag"}
)
"""Aggregates in the unit of their input, which are drawn over the values; others are drawn below."""


@dataclass(frozen=True)
class _Line:
    """A line of the plot: a result column, or the part of it with the slides of one window."""

    label: str
    column: str
    window: str | None
    is_over: bool
    """Is it drawn over the values?"""


@dataclass(frozen=True)
class _Panel:
    """The input rows and results of one key, in order."""

    title: str
    values: pa.Table
    results: pa.Table


@aggregates_named
def plot(
    data: EventFrame,
    windows: Windows | None = None,
    *,
    key: Any = None,
    panels: int = 4,
    by: Columns | None = (),
    on: Columns | None = None,
    lateness: Length | None = None,
    emit: Emit = "final",
    late: Late = "drop",
    forget: Length | None = None,
    ahead: Length | None = None,
    retract: str | None = None,
    min_periods: int = 0,
    options: Options | None = None,
    **aggregates: Aggregated,
) -> Figure:
    """Draw the values of a frame with the aggregates of their windows.

    Aggregates in the unit of their input, such as `max` and `mean`, are drawn over the values; others, such as
    `count` and `std`, have an axis of their own below. Each key has a panel.

    data: a frame of pandas, polars or pyarrow, a dict of arrays or lists, or an object that gives an Arrow stream.
    key: the key to draw, or a list of keys; with several columns in `by` each is a tuple. By default the keys with the
        most rows.
    panels: the maximum number of keys that are drawn.
    windows, by, on, lateness, emit, late, forget, ahead, retract, min_periods, options, aggregates: as for
        `sash.rolling`.

    Returns a figure of matplotlib: `figure.savefig("prices.png")` writes it to a file.

    Raises ImportError without matplotlib, ValueError for a key that is not in the frame and for a result that is not a
    number, and what `sash.rolling` raises.
    """
    pyplot, dates = _matplotlib()
    query = Query(
        windows,
        by=by,
        on=time_column(data, {"windows": windows, "on": on, **aggregates}),
        lateness=lateness,
        emit=emit,
        late=late,
        forget=forget,
        ahead=ahead,
        retract=retract,
        min_periods=min_periods,
        options=options,
        **aggregates,
    )
    if not isinstance(panels, int) or panels < 1:
        raise ValueError(f"panels= must be an integer of at least 1; got {panels!r}")
    table = _read(query, data)
    results = query.run(table)
    lines = _lines(query, results)
    found = [*_panels(query, table, results, _keys(query, table, key, panels))]
    heights = ([2.6] if any(line.is_over for line in lines) else []) + (
        [1.5] if any(not line.is_over for line in lines) else []
    )
    figure, axes = pyplot.subplots(
        len(heights) * len(found),
        1,
        sharex=True,
        squeeze=False,
        figsize=(9, 0.6 + sum(heights) * len(found)),
        height_ratios=heights * len(found),
        layout="constrained",
    )
    for i, panel in enumerate(found):
        mine = axes[i * len(heights) : (i + 1) * len(heights), 0]
        mine[0].set_title(panel.title, loc="left", fontsize="medium")
        _draw(mine, query, panel, lines)
    axes[-1, 0].set_xlabel(_place(query, results) or "row")
    if isinstance(axes[-1, 0].xaxis.get_major_formatter(), dates.AutoDateFormatter):
        axes[-1, 0].xaxis.set_major_formatter(dates.ConciseDateFormatter(axes[-1, 0].xaxis.get_major_locator()))
    return figure  # type: ignore[no-any-return]


def _matplotlib() -> tuple[Any, Any]:
    try:
        from matplotlib import dates, pyplot
    except ImportError as error:
        raise ImportError("sash.plot needs the package matplotlib: pip install 'sash[plot]'") from error
    return pyplot, dates


def _read(query: Query, data: Any) -> pa.Table:
    """The columns of the data that the query reads."""
    frame = adapter_of(data)
    named = set(validation.named(query))
    return pa.table({name: frame.column(name) for name in dict.fromkeys(frame.names) if name in named})


def _lines(query: Query, results: pa.Table) -> list[_Line]:
    """The lines to draw. Raises ValueError for a column that is not numeric."""
    windows = [None] if "window" not in results.column_names or query.per_row else [*query.all_windows]
    found = []
    for name, aggregate in query.aggregates.items():
        is_over = isinstance(aggregate, Bound) and aggregate.monoid.name in SAME_UNIT
        labels = {name, *(f"{name}_{window}" for window in query.windows if window)}
        for column in [one for one in results.column_names if one in labels]:
            kind = results.schema.field(column).type
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
                raise ValueError(f"{name}={aggregate!r} gives {kind}, which cannot be drawn: leave it out")
            for window in windows:
                label = f"{column} = {aggregate!r}" if column == name else column
                found.append(_Line(label if window is None else f"{label}, {window}", column, window, is_over))
    return found


def _keys(query: Query, table: pa.Table, key: Any, most: int) -> list[tuple[Any, ...]]:
    if not query.by:
        if key is not None:
            raise ValueError("key= chooses among the keys of by=, and there is no by=")
        return [()]
    counted = table.group_by(list(query.by), use_threads=False).aggregate([([], "count_all")])
    known = {tuple(row[name] for name in query.by): row["count_all"] for row in counted.to_pylist()}
    if key is None:
        return sorted(known, key=lambda one: -known[one])[:most]
    wanted = [one if isinstance(one, tuple) else (one,) for one in (key if isinstance(key, list) else [key])]
    for one in wanted:
        if one not in known:
            text = repr(one if len(query.by) > 1 else one[0])
            raise ValueError(f"key= asks for {text}, which no row has in {', '.join(map(repr, query.by))}")
    return wanted


def _panels(query: Query, table: pa.Table, results: pa.Table, keys: Sequence[tuple[Any, ...]]) -> Iterator[_Panel]:
    for key in keys:
        title = ", ".join(f"{name} = {value}" for name, value in zip(query.by, key, strict=True))
        yield _Panel(title, _of_key(query, table, key), _of_key(query, results, key))


def _of_key(query: Query, table: pa.Table, key: tuple[Any, ...]) -> pa.Table:
    if query.by:
        columns = table.select(query.by).columns
        table = table.filter(has_key(columns, [pa.scalar(one, of.type) for one, of in zip(key, columns, strict=True)]))
    place = _place(query, table)
    return table.sort_by(place) if place is not None else table


def _place(query: Query, table: pa.Table) -> str | None:
    """The column for the horizontal axis; None: the number of the row."""
    return "window_end" if not query.per_row and "window_end" in table.column_names else next(iter(query.on), None)


def _draw(axes: NDArray[Any], query: Query, panel: _Panel, lines: Sequence[_Line]) -> None:
    over, below = [line for line in lines if line.is_over], [line for line in lines if not line.is_over]
    if over:
        inputs = _inputs(query)
        for name in inputs:
            axes[0].plot(*_points(query, panel.values, name), ".", color="0.6", markersize=3, label=name)
        _draw_lines(axes[0], query, panel.results, over)
        axes[0].set_ylabel(", ".join(inputs))
    if below:
        _draw_lines(axes[-1], query, panel.results, below)
        axes[-1].set_ylabel(", ".join(dict.fromkeys(line.column for line in below)))


def _draw_lines(axis: Axes, query: Query, results: pa.Table, lines: Sequence[_Line]) -> None:
    for i, line in enumerate(lines):
        mine = results if line.window is None else results.filter(pc.equal(results["window"], line.window))
        axis.plot(
            *_points(query, mine, line.column),
            STYLES[i // len(COLOURS) % len(STYLES)],
            color=COLOURS[i % len(COLOURS)],
            drawstyle="default" if query.per_row else "steps-pre",
            linewidth=1.5,
            label=line.label,
        )
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", color="0.92")
    axis.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))


def _inputs(query: Query) -> list[str]:
    """The input columns of the aggregates that are drawn over the values."""
    bound = [one for one in query.aggregates.values() if isinstance(one, Bound) and one.monoid.name in SAME_UNIT]
    return [*dict.fromkeys(one.columns[0] for one in bound if isinstance(one.columns[0], str))]


def _points(query: Query, table: pa.Table, name: str) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """The coordinates of a line; a null is a gap."""
    place = _place(query, table)
    where = np.arange(len(table)) if place is None else table[place].to_numpy()
    values = table[name].cast(pa.float64(), safe=False).to_numpy()
    if place != "window_end" or not len(table):
        return where, values
    # a slide is drawn as a step up to its end, and the first one from the start of its window
    return np.concatenate([table["window_start"][:1].to_numpy(), where]), np.concatenate([values[:1], values])
