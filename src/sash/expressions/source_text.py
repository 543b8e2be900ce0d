"""Values and texts in messages: whole if they are short, so that a message stays one line that can be read.

The text of a user's function in the texts of aggregates and windows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from types import CodeType
from typing import Any

# --- Excerpt ---


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


# --- Function text ---


def function_name(function: Callable[..., Any]) -> str:
    """The name of a function, without the scopes around it.

    >>> function_name(len), function_name(lambda x: x)
    ('len', '<lambda>')
    """
    return str(getattr(function, "__qualname__", repr(function))).rpartition(".")[2]


def function_text(function: Callable[..., Any]) -> str:
    """The name of a function; for a lambda, with its place in the source, because all have one name."""
    name, code = function_name(function), getattr(function, "__code__", None)
    if name != "<lambda>" or not isinstance(code, CodeType):
        return name
    # the first instructions of a function stand at no column
    column = next((one[2] for one in code.co_positions() if one[2]), 0)
    return f"<lambda at {PurePath(code.co_filename).name}:{code.co_firstlineno}:{column}>"
