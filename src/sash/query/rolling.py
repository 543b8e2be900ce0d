"""rolling: a query and data in one call."""

from __future__ import annotations

from typing import Any

from sash.query import checks
from sash.query.query import Query


def rolling(
    data: Any,
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
) -> Any:
    """Aggregates over the windows of a frame: `Query(windows, …).run(data)`, which explains the arguments.

    The kind of frame that is given comes back: with a column for each aggregate, or, where windows have `every`, a
    frame of slides.

    >>> import numpy as np, sash
    >>> sash.rolling({"price": np.array([3, 1, 2])}, 2, high=sash.max("price"))["high"].tolist()
    [3, 3, 2]

    Raises TypeError or ValueError, naming the argument or the column that does not fit.
    """
    checks.not_an_aggregate("data", data)
    return Query(
        windows,
        by=by,
        on=on,
        lateness=lateness,
        emit=emit,
        late=late,
        forget=forget,
        ahead=ahead,
        retract=retract,
        options=options,
        **aggregates,
    ).run(data)
