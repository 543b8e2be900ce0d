"""Streams written as text, for tests of fixed examples: `"1 2 2 5"` are four rows of one key at these times.

A word is a key (a letter, optional), a time (`?` is null), and after `/` what further columns hold. Each row's `x` is
its arrival number, so that `collect("x")` shows which rows a window holds.
"""

from typing import Any

import pyarrow as pa

import sash
from sash.testing.reference import Reference

SCHEMA = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.int64()), ("v", pa.int64()), ("p", pa.bool_())])


def rows(text: str, first: int = 0) -> pa.RecordBatch:
    """Words as a batch; what stands after `/` is `v`, and `p` where it is `!`."""
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    for i, word in enumerate(text.split()):
        place, _, extra = word.partition("/")
        key = place[0] if place[0].isalpha() else "a"
        time = place.lstrip("abcdefgh")
        columns["k"].append(key)
        columns["t"].append(None if time == "?" else int(time))
        columns["x"].append(first + i)
        columns["v"].append(int(extra) if extra.lstrip("-").isdigit() else None)
        columns["p"].append(extra == "!")
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


class Play:
    """A reference that is fed text, and what each call gave."""

    def __init__(self, windows: Any, mode: str = "rows", clock: Any = None, **arguments: Any) -> None:
        arguments = {"by": "k", "on": "t", "held": sash.collect("x")} | arguments
        if mode == "rows" and arguments["on"]:
            arguments = {"lateness": 100} | arguments
        self.reference = Reference(sash.Query(windows, **arguments), SCHEMA, mode=mode, clock=clock)
        self.count = 0

    def __call__(self, call: str | int) -> list[dict[str, Any]]:
        """A word list is processed, a number advances the watermark, "." finishes."""
        if call == ".":
            return self.reference.finish().to_pylist()
        if isinstance(call, int):
            return self.reference.advance(call).to_pylist()
        batch = rows(call, self.count)
        self.count += batch.num_rows
        return self.reference.process(batch).to_pylist()

    def all(self, *calls: str | int) -> list[dict[str, Any]]:
        return [row for call in (*calls, ".") for row in self(call)]


def held(windows: Any, text: str, **arguments: Any) -> list[Any]:
    """The rows that each window holds, of one key in order."""
    return [row["held"] for row in Play(windows, **arguments).all(text)]


def slides(windows: Any, text: str, **arguments: Any) -> list[tuple[Any, Any, Any]]:
    """Start, end and rows of each window of a query with `every`."""
    found = Play(windows, **arguments).all(text)
    return [(row["window_start"], row["window_end"], row["held"]) for row in found]
