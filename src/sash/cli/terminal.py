r"""Write results of commands: tables in a terminal, CSV in a pipe, JSON on demand.

Control characters of values are escaped, so that no value controls the terminal:

    a value        "a\x1b[31m"       in a terminal: a\x1b[31m      in a pipe, as data: unchanged
    an error       always escaped: it may be shown later, from a log

Every module of the command writes through this one.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import pyarrow as pa

# --- Escaped text ---

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


# --- Terminal ---

ROWS = 40
"""Rows of a result that a terminal shows."""


def is_terminal() -> bool:
    """Does a person read the output?"""
    return sys.stdout.isatty()


def write_json(value: Any, to: TextIO | None = None) -> None:
    """Write a value as indented JSON, to the standard output by default."""
    write_json_text([json.dumps(value, indent=2, ensure_ascii=False) + "\n"], to)


def write_rows(names: Sequence[str], rows: Iterable[Sequence[Any]], note: str = "") -> None:
    """Write rows as a table with a note below in a terminal; in a pipe as CSV, without the note."""
    if not is_terminal():
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)
        return
    from rich.console import Console  # without it the command says what to install
    from rich.table import Table
    from rich.text import Text

    table = Table(header_style="bold")
    found = [*rows]
    for i, name in enumerate(names):
        is_number = all(isinstance(row[i], int | float) or row[i] is None for row in found)
        table.add_column(Text(escaped(name)), justify="right" if is_number else "left", overflow="fold")
    for row in found:
        table.add_row(*(Text("") if value is None else Text(escaped(value)) for value in row))
    console = Console()
    console.print(table)
    if note:
        console.print(Text(escaped(note), style="dim"))


def write_table(table: pa.Table, as_json: bool, most: int = ROWS) -> None:
    """Write a result: the first rows in a terminal, all rows as CSV in a pipe, or as JSON lines if asked for."""
    if as_json:
        write_json_rows(table.to_batches())
        return
    first = table.slice(0, most) if is_terminal() else table
    note = f"{first.num_rows} of {table.num_rows} rows; --rows shows more" if first.num_rows < table.num_rows else ""
    write_rows(table.column_names, (row for batch in first.to_batches() for row in _values(batch)), note)


def write_json_rows(batches: Iterable[pa.RecordBatch]) -> None:
    """Write rows as JSON lines to the standard output, and flush it: a reader may wait for them."""
    from sash.pipeline.json_files import encode_json  # most commands write no rows

    for batch in batches:
        write_json_text(f"{row.decode()}\n" for row in encode_json(batch))
    sys.stdout.flush()


def write_tree(text: str) -> None:
    """Print text as a tree: the first line is the root, and a line belongs to the last line that is indented less."""
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    first, *lines = [line for line in escaped_lines(text).split("\n") if line.strip()]
    root = Tree(Text(first))
    above = [(-1, root)]
    for line in lines:
        depth = len(line) - len(line.lstrip())
        while above[-1][0] >= depth:
            above.pop()
        above.append((depth, above[-1][1].add(Text(line.strip()))))
    Console().print(root)


def _values(batch: pa.RecordBatch) -> Iterable[tuple[Any, ...]]:
    """The values of each row as strings or numbers, formatted as in JSON."""
    from sash.pipeline.json_files import encode_json

    for row in encode_json(batch):
        yield tuple(
            json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict | bool) else value
            for value in json.loads(row).values()
        )
