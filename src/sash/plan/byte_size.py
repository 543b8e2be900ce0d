"""Parse amounts of memory, such as "256 MiB"."""

from __future__ import annotations

import re
from typing import Any

from sash.expressions.excerpt import excerpt

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
