"""Collect values: all of them, the distinct ones, or their text joined. Space grows with the window.

States are tuples and strings; no combine changes its operands, and each result is a new object, so a caller can change
a result without an effect on the window.
"""

from __future__ import annotations

import math
from typing import Any

from sash.monoids.algebra import Monoid


class Collect(Monoid):
    """The values, oldest first, as a list; see `sash.collect`."""

    identity: Any = ()
    exact = True
    interpreted_only = "its state is a tuple that grows with the window"

    def lift(self, x: Any) -> Any:
        return (x,)

    def combine(self, a: Any, b: Any) -> Any:
        return a + b

    def inverse(self, total: Any, oldest: Any) -> Any:
        return total[len(oldest) :]

    def lower(self, a: Any) -> Any:
        return list(a) or None


class CollectDistinct(Monoid):
    """The distinct values in the order of their first appearance, as a list; see `sash.collect_distinct`.

    Values are the same if Python says they are equal (1, 1.0 and True are one value, and the first of them stays); a
    NaN equals a NaN. The order makes it not commutative.

    Raises TypeError from `lift` if a value is not hashable.
    """

    identity: Any = ()
    domain = ("hashable",)
    exact = True
    interpreted_only = "its state is a tuple that grows with the distinct values"

    def lift(self, x: Any) -> Any:
        try:
            hash(x)
        except TypeError as error:
            raise TypeError(
                f"collect_distinct needs hashable values; got {x!r}, a {type(x).__name__}: "
                "convert it to a tuple or text, or use collect"
            ) from error
        # None stands for NaN, which does not equal itself; nulls never come here
        return (None,) if x != x else (x,)

    def combine(self, a: Any, b: Any) -> Any:
        return tuple(dict.fromkeys(a + b))

    def lower(self, a: Any) -> Any:
        return [math.nan if x is None else x for x in a] or None


class Concat(Monoid):
    """The strings joined in order, with `separator` between them; see `sash.concat`.

    The state is (number of strings, text): an empty string is a string, and gets its separators.
    """

    identity: Any = (0, "")
    domain = ("text",)
    exact = True
    interpreted_only = "its state is text that grows with the window"

    def __init__(self, separator: str = "") -> None:
        if not isinstance(separator, str):
            raise TypeError(f"separator= of concat must be a string; got {separator!r}, a {type(separator).__name__}")
        self.separator = separator

    def lift(self, x: Any) -> Any:
        if not isinstance(x, str):
            raise TypeError(f"concat joins strings; got {x!r}, a {type(x).__name__}: convert it to text first")
        return (1, x)

    def combine(self, a: Any, b: Any) -> Any:
        if a[0] == 0:
            return b
        if b[0] == 0:
            return a
        return (a[0] + b[0], a[1] + self.separator + b[1])

    def inverse(self, total: Any, oldest: Any) -> Any:
        if oldest[0] == 0:
            return total
        if oldest[0] == total[0]:
            return self.identity
        return (total[0] - oldest[0], total[1][len(oldest[1]) + len(self.separator) :])

    def lower(self, a: Any) -> Any:
        return a[1] if a[0] else None
