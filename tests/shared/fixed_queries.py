"""A small fixed stream, every kind of window, and every aggregate of sash, for plain cases."""

from typing import Any

import pyarrow as pa

import sash
from sash import Count, Delta, Lifetime, Policy, Punctuation, Session, Time
from sash.monoids import Bound, Rank
from tests.shared.discovery import SKETCHES, monoids
from tests.shared.queries import AFFINE, FromHigh, KeepLast, SumWithin

PER_ROW: dict[str, Any] = {
    "count": Count(3),
    "count full": Count(3, full=True),
    "time": Time(4),
    "time left": Time(4, closed="left"),
    "time both": Time(4, closed="both"),
    "time neither": Time(4, closed="neither"),
    "count before": Count(3, shift=-2),
    "time before": Time(4, shift=-3),
    "count ahead": Count(3, shift=2),
    "time ahead": Time(4, shift=2),
    "delta": Delta("g", 3),
    "session": Session(3),
    "punctuation": Punctuation("p"),
    "lifetime": Lifetime(),
    "policy of one": Policy(KeepLast(2), sash.count()),
    "policy of two": Policy(SumWithin(9), (sash.sum("n"), sash.last("n"))),
    "policy with a memory": Policy(FromHigh(6), (sash.last("n"), sash.count())),
}
"""A window of each kind for each row."""

PER_SLIDE: dict[str, Any] = {
    "time": Time(6, every=2),
    "time tumbling": Time(4, every=4),
    "time no multiple": Time(5, every=3),
    "time with gaps": Time(2, every=5),
    "time right": Time(6, every=2, closed="right"),
    "time offset": Time(6, every=4, offset=1),
    "time by rows": Time(4, every=Count(2)),
    "time by rows left": Time(4, every=Count(2), closed="left"),
    "count": Count(3, every=2),
    "count full": Count(3, every=2, full=True),
    "count by time": Count(3, every=Time(4)),
    "lifetime": Lifetime(every=3),
    "lifetime by time": Lifetime(every=Time(4)),
    "session": Session(3, every="close"),
    "punctuation": Punctuation("p", every="close"),
}
"""A window of each kind with `every`."""

UNTIMED = (
    "count",
    "count full",
    "count before",
    "count ahead",
    "lifetime",
    "punctuation",
    "delta",
    "policy of one",
    "policy of two",
    "policy with a memory",
)
"""Those of both that need no time."""

_COLUMNS = {"text": "s", "bool": "b", "int": "i", "number": "f", "ordered": "f", "hashable": "s", "any": "d"}


def aggregates(window: Any) -> dict[str, Bound]:
    """Every aggregate of sash, on columns that suit it; sketches and ranks where the window allows them."""
    found = {
        f"a{i}_{''.join(c if c.isalnum() else '_' for c in name)}": monoid(*(_COLUMNS[d] for d in monoid.domain))
        for i, (name, monoid) in enumerate(monoids().items())
        if (name not in SKETCHES or window.slide != "row" or isinstance(window, Lifetime))
        and not (isinstance(monoid, Rank) and window.slide != "row")
    }
    return found | {"rows": sash.count(), "of_ints": sash.sum("i"), "text": sash.max("s"), "affine": AFFINE("i")}


_NAN = float("nan")
_ROWS = (
    # k     t     n  i     f      b      s     p      d
    ("a", 1, 4, 1, 1.5, True, "x", False, 10),
    ("b", 1, 2, 2, 2.5, False, "y", False, 20),
    ("a", 2, 5, 3, -1.0, None, "", False, 30),
    ("a", 4, 3, None, 0.25, True, None, True, None),
    (None, 3, 1, 7, 4.0, True, "z", False, 40),
    ("a", 4, 9, 2, 2.0, False, "é", False, 50),
    ("b", 4, 0, None, None, None, None, False, None),
    ("a", 3, 1, 5, 8.5, True, "x", False, 60),  # behind, within lateness
    ("b", 9, 3, 6, 1.0, True, "y", True, 70),
    ("a", 2, 3, 6, 1.0, True, "late", True, 80),  # late
    ("a", None, 3, 6, 1.0, True, "untimed", True, 90),
    ("b", 9, 8, -3, 0.5, False, "q", False, 15),
    (None, 8, 2, 4, _NAN, True, "z", False, 25),
    ("a", 7, 2, 8, 3.5, True, "w", False, 35),
    ("a", 11, 20, 9, 2.25, None, "v", False, 45),
    ("a", 10, 1, 1, 6.0, False, "u", True, 55),
    (None, 20, 1, 1, 1.0, True, "t", True, 65),
    ("b", 21, 6, 2, 3.0, True, "r", False, 75),
    ("b", 22, 6, 2, 5.0, False, "r", False, 85),
    ("a", 30, 6, 2, 7.0, True, "s", False, 95),
)
_TYPES = {
    "k": pa.string(), "t": pa.int64(), "n": pa.int64(), "i": pa.int64(), "f": pa.float64(), "b": pa.bool_(),
    "s": pa.string(), "p": pa.bool_(), "d": pa.timestamp("us"),
}  # fmt: skip


def stream(timed: bool = True) -> pa.RecordBatch:
    """The rows; `g` never decreases with the time, or, where that does not count, with arrival."""
    columns = {name: [row[i] for row in _ROWS] for i, name in enumerate(_TYPES)}
    grown = [None if t is None else t // 2 for t in columns["t"]] if timed else [i // 2 for i in range(len(_ROWS))]
    arrays = [pa.array(columns[name], kind) for name, kind in _TYPES.items()]
    schema = pa.schema([*_TYPES.items(), ("g", pa.int64())])
    return pa.RecordBatch.from_arrays([*arrays, pa.array(grown, pa.int64())], schema=schema)
