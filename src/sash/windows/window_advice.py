"""What to write instead of the arguments that windows have elsewhere."""

from __future__ import annotations

import inspect
from typing import Any

_ADVICE: dict[str, str] = {
    "center": "shift= moves a window: sash.Count(5, shift=2) is centred on its row",
    "win_type": "windows are not weighted: write the aggregate with sash.monoid(...)",
    **dict.fromkeys(("step", "slide", "hop", "stride", "advance"), "it is called every=: sash.Count(10, every=5)"),
    **dict.fromkeys(("window", "length", "width", "period", "freq", "n"), "it is called size, the first argument"),
    **dict.fromkeys(("duration", "range", "interval"), "it is called size, the first argument"),
    **dict.fromkeys(("timeout", "inactivity"), "it is called gap: sash.Session('10m')"),
    "gap": "windows with a gap are sessions: sash.Session('10m')",
    "closed": "only windows measured in time have ends that may be open: sash.Time('1h', closed='left')",
    "offset": "only windows that slide in time have it: sash.Time('1d', every='1d', offset='6h')",
    "full": "only windows of a number of rows are ever full: sash.Count(10, full=True)",
    "min_samples": "it is called min_periods=",
    **dict.fromkeys(("by", "group_by", "partition_by", "keys"), "by= is an argument of sash.rolling and sash.Query"),
    **dict.fromkeys(("on", "order_by", "index_column"), "on= is an argument of sash.rolling and sash.Query"),
    **dict.fromkeys(("time_column", "timestamp"), "the time is on=, an argument of sash.rolling and sash.Query"),
    "axis": "windows are windows of rows",
    **dict.fromkeys(("lateness", "allowed_lateness"), "lateness= is an argument of sash.Query"),
    "include_boundaries": "results of windows with every= always have window_start and window_end",
    "label": "results of windows with every= always have window_start and window_end",
    "start_by": "slides are multiples of every= since the epoch; offset= of sash.Time moves them",
}


_CALLED = "it is called "


def _advice(name: str, known: list[str]) -> str:
    """What to write instead of an argument, if the window has it."""
    found = _ADVICE.get(name, "")
    if found.startswith(_CALLED) and not found.removeprefix(_CALLED).startswith(tuple(known)):
        return ""
    return f": {found}" if found else ""


def require_known(cls: type, given: dict[str, Any]) -> None:
    """Raises TypeError, with advice, for an argument that a window does not have."""
    if not given:
        return
    known = [name for name in inspect.signature(cls.__init__).parameters if name != "self"]  # type: ignore[misc]
    for name in given:
        if name not in known:
            advice = _advice(name, known)
            takes = ", ".join(known) if known else "no arguments"
            raise TypeError(f"{cls.__name__}() has no argument {name!r}{advice}; it takes {takes}")
