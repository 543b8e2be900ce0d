"""Write a commented job for a file, from its columns: `sash new`."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa

from sash.cli.job_pipeline import FILES
from sash.cli.terminal import escaped, escaped_json
from sash.expressions.tree import ColumnNode
from sash.pipeline.file_source import files
from sash.plan.validation import PARAMETERS

CLOCKS = ("t", "ts", "time", "timestamp", "event_time", "epoch")
"""Names of integer columns that are assumed to be times."""

SIZES: dict[str, tuple[Any, str, Any]] = {
    "timestamp": ("1h", "or 1000 (rows), \"Time('1h', every='10m')\", \"Session('30m')\"", "10m"),
    "day": ("7d", "or 1000 (rows), \"Time('7d', every='1d')\"", "1d"),
    "number": (1000, 'rows; or "Time(60)" in units of the column of on', 0),
}
"""By kind of time column: the window, a comment with other windows, and the lateness."""

MOST = 3
"""The maximum number of columns that are aggregated."""

LATENESS = "how far a row may be behind the latest one; later rows are dropped"


def _literal(value: Any) -> str:
    return escaped_json(json.dumps(value, ensure_ascii=False))


class _Toml:
    """Lines of TOML."""

    indent = ""

    def table(self, name: str, comment: str = "") -> str:
        return f"[{name}]" + (f"  # {comment}" if comment else "")

    def key(self, name: str, value: Any, comment: str = "") -> str:
        return f"{name} = {_literal(value)}" + (f"  # {comment}" if comment else "")


class _Yaml:
    """Lines of YAML: keys are indented below their tables."""

    indent = "  "

    def table(self, name: str, comment: str = "") -> str:
        *outer, last = name.split(".")
        return "  " * len(outer) + f"{last}:" + (f"  # {comment}" if comment else "")

    def key(self, name: str, value: Any, comment: str = "") -> str:
        return f"  {name}: {_literal(value)}" + (f"  # {comment}" if comment else "")


FORMATS: dict[str, _Toml | _Yaml] = {"toml": _Toml(), "yaml": _Yaml()}
"""The formats of job files."""


def job_for(path: str, format_: str = "toml") -> str:
    """The text of a job that reads a file or a directory: it runs unchanged, and its comments explain what to change.

    Raises FileNotFoundError or ValueError if there is nothing to read.
    """
    source = files(path)
    schema = source.schema
    if schema is None:
        raise ValueError(f"{path} has no file to read")
    kind = next(kind for kind, layout in FILES.items() if layout == source.layout.name)
    on = _time(schema)
    size, others, lateness = SIZES["number" if on is None else _measure(schema.field(on).type)]
    by = next((one.name for one in schema if one.type in (pa.string(), pa.large_string()) and one.name != on), None)
    write = FORMATS[format_]
    table, key, indent = write.table, write.key, write.indent

    def off(line: str) -> str:
        return f"{indent}# {line.removeprefix(indent)}"

    lines = [
        "# A job of sash: `sash run` runs it, `sash run --dry-run` shows what it would do.",
        "",
        table("source"),
        key("kind", kind),
        key("path", path, "a file or a directory: with a store, a later run reads only the files that are new"),
        *(f"{indent}#   {escaped(field.name)}: {escaped(field.type)}" for field in schema),
        "",
        table("query"),
        key("windows", size, others),
        key("by", by) if by else off(key("by", "…", "a window for each value of this column")),
        key("on", on) if on else off(key("on", "…", "the column to order by; without, rows are in order")),
        *([key("lateness", lateness, LATENESS)] if on else []),
        off(key("where", "…", "a condition in SQL: other rows are left out")),
        "",
        table("query.aggregates", "as in SQL: sum(x), avg(x), median(x), count(*) FILTER (WHERE x > 1), …"),
        *(indent + key(name, text) for name, text in _aggregates(schema, on).items()),
        "",
        table("sink"),
        key("kind", "parquet", "or csv, kafka, console"),
        key("path", "results"),
        "",
        table("store", "the state: each run continues where the last one stopped, with the files of a new day"),
        key("kind", "rocksdb"),
        key("path", "state"),
        "",
        f"# {table('options')}",
        f"# {key('finish', True, 'close all windows at the end and write the last results; no rows can follow then')}",
    ]
    return "\n".join(lines) + "\n"


def _measure(dtype: pa.DataType) -> str:
    if pa.types.is_timestamp(dtype):
        return "timestamp"
    return "day" if pa.types.is_date(dtype) else "number"


def _time(schema: pa.Schema) -> str | None:
    """The column of the event time: the first timestamp or date, or an integer by its name."""
    for field in schema:
        if pa.types.is_timestamp(field.type) or pa.types.is_date(field.type):
            return str(field.name)
    clocks = (one.name for one in schema if pa.types.is_integer(one.type) and one.name.lower() in CLOCKS)
    return next(clocks, None)


def _aggregates(schema: pa.Schema, on: str | None) -> dict[str, str]:
    """Aggregates by name: the number of rows, and two for each of the first numeric columns."""
    taken = {*schema.names, *PARAMETERS}
    found: dict[str, str] = {}

    def add(name: str, text: str) -> None:
        name = re.sub(r"\W", "_", name, flags=re.ASCII)
        while name in taken:
            name += "_"
        taken.add(name)
        found[name] = text

    add("rows", "count(*)")
    numbers = [one for one in schema if (pa.types.is_integer(one.type) or pa.types.is_floating(one.type))]
    for field in [one for one in numbers if one.name != on][:MOST]:
        column = ColumnNode(field.name)
        add(f"max_{field.name}", f"max({column})")
        add(f"mean_{field.name}", f"avg({column})")
    return found
