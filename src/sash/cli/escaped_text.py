"""What commands write for people: control characters of values are escaped, so that no value controls the terminal.

    a value        "a\\x1b[31m"       in a terminal: a\\x1b[31m      in a pipe, as data: unchanged
    an error       always escaped: it may be shown later, from a log

Every module of the command writes through this one, or through `terminal`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import TextIO

_CONTROL = r"\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufff9-\ufffb\ud800-\udfff"
"""Control characters of 8 bits, marks that reorder text, separators of lines, and halves of characters."""

_ANY = re.compile(f"[\\x00-\\x1f{_CONTROL}]")
_IN_JSON = re.compile(f"[{_CONTROL}]")


def escaped(value: object) -> str:
    r"""A value as text in one line, without control characters.

    >>> print(escaped("a\x1b[2J\nb\u202ec"), escaped("日本 é"))
    a\x1b[2J\nb\u202ec 日本 é
    """
    return _ANY.sub(lambda found: found[0].encode("unicode_escape").decode(), str(value))


def escaped_lines(text: str) -> str:
    """Text of several lines, each without control characters."""
    return "\n".join(map(escaped, text.split("\n")))


def escaped_json(text: str) -> str:
    r"""The same JSON, with the control characters escaped that JSON allows in strings.

    >>> print(escaped_json('"\x9b31m"'))
    "\u009b31m"
    """
    return _IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def write(text: str, to: TextIO | None = None) -> None:
    """Write text to the standard output, or to another stream: escaped if it is a terminal."""
    stream = sys.stdout if to is None else to
    stream.write(escaped_lines(text) if stream.isatty() else text)


def write_json_text(texts: Iterable[str], to: TextIO | None = None) -> None:
    """Write JSON, as `write` does."""
    stream = sys.stdout if to is None else to
    stream.writelines(map(escaped_json, texts) if stream.isatty() else texts)


def write_error(text: str) -> None:
    """Write a message to the standard error, always escaped."""
    sys.stderr.write(f"{escaped_lines(text)}\n")
