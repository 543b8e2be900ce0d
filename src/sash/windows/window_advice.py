"""Advice for arguments that windows of other libraries have: what to write instead."""

from __future__ import annotations

import difflib
import inspect
from typing import Any

_SIZE = "it is called size, the first argument"
_SLIDE = "it is called every="
_SIZES = ("window", "windows", "window_size", "length", "width", "period", "freq", "n", "rows", "rule")
_BY = "by= is an argument of sash.rolling and sash.Query"
_ON = "on= is an argument of sash.rolling and sash.Query"
_ADVICE: dict[str, str] = {
    "center": "shift= moves a window: sash.Count(5, shift=2) is centred on its row",
    "win_type": "windows are not weighted: write the aggregate with sash.monoid(...)",
    **dict.fromkeys(("step", "slide", "hop", "stride", "advance"), _SLIDE),
    **dict.fromkeys((*_SIZES, "duration", "range", "interval", "preceding"), _SIZE),
    "following": "shift= moves a window ahead: sash.Count(5, shift=2) is ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING",
    **dict.fromkeys(("timeout", "inactivity"), "it is called gap: sash.Session('10m')"),
    "gap": "windows with a gap are sessions: sash.Session('10m')",
    "size": "a window of a number of rows is sash.Count(5), one of a length of time sash.Time('1h')",
    "closed": "only windows measured in time have ends that may be open: sash.Time('1h', closed='left')",
    "offset": "only windows that slide in time have it: sash.Time('1d', every='1d', offset='6h')",
    "align": "only windows that slide in time have it: sash.Time('10s', every='3s', align='start')",
    "full": "only windows of a number of rows are ever full: sash.Count(10, full=True)",
    "shift": "only windows of a number of rows or a length of time move: sash.Count(5, shift=-1)",
    "every": "sash.Count, sash.Time and sash.Lifetime slide: sash.Time('1h', every='10m')",
    **dict.fromkeys(("tz", "timezone", "time_zone"), "days of a time zone are sash.Time('1d', every='1d', tz='UTC')"),
    **dict.fromkeys(("min_samples", "min_periods"), "min_periods= is an argument of sash.rolling and sash.Query"),
    **dict.fromkeys(("by", "group_by", "groupby", "partition_by", "partitionBy", "keys", "key"), _BY),
    **dict.fromkeys(("on", "order_by", "orderBy", "sort_by", "index_column", "time_column", "timestamp"), _ON),
    "axis": "windows are windows of rows",
    **dict.fromkeys(("lateness", "allowed_lateness"), "lateness= is an argument of sash.Query"),
    "include_boundaries": "results of windows with every= always have window_start and window_end",
    "label": "results of windows with every= always have window_start and window_end",
    "start_by": "slides are multiples of every= since the epoch; align= and offset= of sash.Time move them",
}


_EVERY: dict[str, str] = {
    "Count": f"{_SLIDE}: sash.Count(10, every=5)",
    "Time": f"{_SLIDE}: sash.Time('1h', every='10m')",
    "Lifetime": f"{_SLIDE}: sash.Lifetime(every='1h')",
    "Session": "every='close' gives one window for each session",
    "Punctuation": "every='close' gives one window for each mark",
}
_CALLED = "it is called "


def _advice(window: str, name: str, known: list[str]) -> str:
    """What to write instead of an argument: its name if the window has it, else the window that does."""
    found = _ADVICE.get(name, "")
    if found == _SLIDE:
        found = _EVERY.get(window, _ADVICE["every"])
    elif found.startswith(_CALLED) and not found.removeprefix(_CALLED).startswith(tuple(known)):
        found = _ADVICE["size"] if found == _SIZE else ""
    near = difflib.get_close_matches(name, known, 1, 0.75)
    return f": {found}" if found else f": did you mean {near[0]}=?" if near else ""


def require_known(cls: type, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Raises TypeError, with advice, for unknown arguments of a window and for too many positional ones."""
    if len(positional) < 2 and not named:
        return  # most windows are written so: it saves the cost of a signature
    parameters = [one for one in inspect.signature(cls.__init__).parameters.values() if one.name != "self"]  # type: ignore[misc]
    known = [one.name for one in parameters]
    for name in named:
        if name not in known:
            advice = _advice(cls.__name__, name, known)
            raise TypeError(f"{cls.__name__}() has no argument {name!r}{advice}; it takes {', '.join(known)}")
    first = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]
    if len(positional) > len(first):
        others = ", ".join(f"{one}=" for one in known[len(first) :])
        more = f"name the others: {others}" if others else "and no more"
        raise TypeError(
            f"{cls.__name__}() takes {' and '.join(first) or 'no argument'} without a name, {more}; "
            f"got {', '.join(map(repr, positional))}"
        )
