"""Check the metadata of a page: which fields it has, of which type, in which range.

    FIELDS = {"rows": integer(0), "mode": one_of("rows", "sorted"), "token": text(), "held": optional(integer())}
    check_meta(meta, FIELDS, "page 'header'")

A checksum detects accidental damage only. A crafted page can have a valid checksum, so each field is checked before it
is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sash.stores.envelope import damaged

LARGEST = 2**62
"""Greatest value of a counter: one more, or twice as much, is still a 64-bit integer."""


class Check(NamedTuple):
    """A requirement for a value, in words and as a test."""

    wanted: str
    holds: Callable[[Any], bool]


def integer(low: int = -(2**63), high: int = 2**63 - 1) -> Check:
    """An integer in [low, high].

    >>> integer(0).holds(7), integer(0).holds(-1), integer().holds(True), integer().holds("7")
    (True, False, False, False)
    """
    return Check(f"an integer from {low} to {high}", lambda x: type(x) is int and low <= x <= high)


def text(pattern: str = "") -> Check:
    """Text; with a pattern, text that matches this regular expression as a whole."""
    wanted = f"text like {pattern}" if pattern else "text"
    return Check(wanted, lambda x: type(x) is str and (not pattern or re.fullmatch(pattern, x) is not None))


def one_of(*values: Any) -> Check:
    """One of these values, with the same type."""
    wanted = "one of " + ", ".join(map(repr, values))
    return Check(wanted, lambda x: any(type(x) is type(value) and x == value for value in values))


def optional(check: Check) -> Check:
    """Null, or a value that passes the check."""
    return Check(f"null or {check.wanted}", lambda x: x is None or check.holds(x))


def list_of(check: Check, length: int | None = None) -> Check:
    """A list of values that pass the check, of this length if one is given.

    >>> list_of(integer(0), 2).holds([1, 2]), list_of(integer(0), 2).holds([1]), list_of(text()).holds(["a", None])
    (True, False, False)
    """
    many = "" if length is None else f"{length} "

    def holds(x: Any) -> bool:
        return type(x) is list and length in (None, len(x)) and all(map(check.holds, x))

    return Check(f"a list of {many}entries, each {check.wanted}", holds)


ANYTHING = Check("anything", lambda _x: True)
COUNTER = integer(0, LARGEST)


def check_meta(meta: Any, fields: Mapping[str, Check], name: str) -> None:
    """Raises PageError, naming the page and the field, if one is missing or invalid.

    >>> check_meta({"rows": 3}, {"rows": COUNTER}, "page 'k'")
    >>> check_meta({"rows": -3}, {"rows": integer(0, 9)}, "page 'k'")
    Traceback (most recent call last):
    sash.stores.envelope.PageError: page 'k' is damaged: its field 'rows' is -3; expected an integer from 0 to ...
    """
    if type(meta) is not dict:
        raise damaged(name, f"its meta is a {type(meta).__name__}; expected an object")
    for key, check in fields.items():
        if key not in meta:
            raise damaged(name, f"its meta has no field {key!r}")
        if not check.holds(meta[key]):
            raise damaged(name, f"its field {key!r} is {meta[key]!r:.80}; expected {check.wanted}")
