"""The text of a user's function in the texts of aggregates and windows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from types import CodeType
from typing import Any


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
