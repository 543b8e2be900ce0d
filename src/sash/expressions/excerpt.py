"""Values and texts in messages: whole if they are short, so that a message stays one line that can be read."""

from __future__ import annotations

from typing import Any


def excerpt(value: Any) -> str:
    """The text of a value as `repr` gives it, cut if it is long; of a number with very many digits, their number.

    >>> excerpt("1h"), excerpt(10**5000), len(excerpt("x" * 5000))
    ("'1h'", 'a whole number of 16610 bits', 98)
    """
    if isinstance(value, int) and value.bit_length() > 256:  # Python writes at most 4,300 digits
        return f"a whole number of {value.bit_length()} bits"
    return shortened(repr(value), 98)


def shortened(text: str, most: int = 400) -> str:
    """A text of at most so many characters, cut in its middle."""
    half = most // 2
    return text if len(text) <= most else f"{text[: most - half - 1]}…{text[-half:]}"
