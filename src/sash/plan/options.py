"""Options: how a query is computed, never what.

Parse amounts of memory, such as "256 MiB".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, get_args

from sash.expressions.source_text import excerpt
from sash.plan.api_types import Failed, Prefer, StructureName

if TYPE_CHECKING:
    from sash.stores import Store


# --- Byte size ---

_UNITS = {"": 1, "b": 1} | {
    f"{letter}{middle}b": base**power
    for middle, base in (("", 1000), ("i", 1024))
    for power, letter in enumerate("kmgt", 1)
}
DIGITS = 40
"""The maximum number of digits."""

_TEXT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


def byte_size(what: str, given: Any) -> int:
    """Return a number of bytes, given as an integer or as text: "256MB" (millions), "256 MiB" (of 1,048,576 bytes).

    >>> byte_size("memory=", 4096), byte_size("memory=", "256MB"), byte_size("memory=", "1.5 GiB")
    (4096, 256000000, 1610612736)
    >>> byte_size("memory=", "much")
    Traceback (most recent call last):
    ValueError: memory= must be a number of bytes, or text such as '256MB' or '256 MiB'; got 'much'

    Raises TypeError for any other type, and ValueError for other text and for less than one byte.
    """
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise TypeError(
            f"{what} must be a number of bytes, or text such as '256MB' or '256 MiB'; got {excerpt(given)}, "
            f"a {type(given).__name__}"
        )
    found = given
    if isinstance(given, str):
        parts = _TEXT.fullmatch(given)
        unit = None if parts is None else _UNITS.get(parts[2].lower())
        if parts is None or unit is None or len(parts[1]) > DIGITS:
            raise ValueError(
                f"{what} must be a number of bytes, or text such as '256MB' or '256 MiB'; got {excerpt(given)}"
            )
        found = int(float(parts[1]) * unit) if "." in parts[1] else int(parts[1]) * unit
    if int(found) < 1:
        raise ValueError(f"{what} must be at least one byte; got {excerpt(given)}")
    return int(found)


# --- Options ---

STRUCTURES: tuple[str, ...] = get_args(StructureName)
PREFERENCES: tuple[str, ...] = get_args(Prefer)
FAILED: tuple[str, ...] = get_args(Failed)


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to compute a query; the results are the same, where nothing fails.

    structure: the name of the structure of `sash.aggregators` to use, such as "DABA", instead of the planner's choice.
    prefer: what the choice of a structure optimizes. "throughput": the least total time. "latency": only structures
        whose every single step has a constant cost; over Time and Delta windows at each row, which any number of rows
        may leave at once, a logarithmic one.
    threads: how many threads may work on a table in memory; by default as many as there are cores.
    split: into how many time ranges Spark may split the rows of one large key.
    shards: over how many shards a stream on Spark spreads its keys.
    store: where operators save their state.
    memory: how much memory the live state of an operator may take between calls, in bytes or as text such as "256MB"
        or "256 MiB"; the least recently used keys are then only in the store. Needs a store.
    failed: what happens where an aggregate fails. "error": the call fails, and has changed nothing. "side": a row on
        which an expression, a condition or the `lift` of an aggregate fails enters no window and goes to the side
        output (`failed_rows()` of an operator), and a result whose `lower` fails is null; both are counted. An
        exception in `combine` is an error in either case.

    >>> import sash
    >>> sash.Options(prefer="latency")
    Options(prefer='latency')

    Raises TypeError or ValueError, naming the argument that does not fit.
    """

    structure: StructureName | None = None
    prefer: Prefer = "throughput"
    threads: int | None = None
    split: int | None = None
    shards: int | None = None
    store: Store | None = None
    memory: int | str | None = None
    failed: Failed = "error"

    def __post_init__(self) -> None:
        if self.structure is not None and self.structure not in STRUCTURES:
            raise ValueError(f"structure= of Options must be one of {', '.join(STRUCTURES)}; got {self.structure!r}")
        if self.prefer not in PREFERENCES:
            raise ValueError(f"prefer= of Options must be 'throughput' or 'latency'; got {self.prefer!r}")
        if self.failed not in FAILED:
            raise ValueError(f"failed= of Options must be 'error' or 'side'; got {self.failed!r}")
        for name in ("threads", "split", "shards"):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name}= of Options must be a whole number; got {value!r}, a {type(value).__name__}")
            if value < 1:
                raise ValueError(f"{name}= of Options must be at least 1; got {value!r}")
        if self.store is not None:
            from sash.stores.store import checked_store

            checked_store("store= of Options", self.store)
        if self.memory is not None:
            object.__setattr__(self, "memory", byte_size("memory= of Options", self.memory))

    @property
    def memory_limit(self) -> int | None:
        """`memory` as a number of bytes."""
        assert not isinstance(self.memory, str)
        return self.memory

    def __repr__(self) -> str:
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        arguments = [f"{name}={given[name]!r}" for name in given if given[name] != type(self).__dict__[name]]
        return f"Options({', '.join(arguments)})"
