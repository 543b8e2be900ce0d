"""The query of a job: SQL, or windows and aggregates as strings, which are parsed and never executed."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

import pyarrow as pa

from sash.cli.job_file import Job, nearest
from sash.cli.sql_aggregates import UnsupportedSQL
from sash.cli.sql_statement import formula_of, statement_of
from sash.expressions.parser import expr
from sash.expressions.source_text import excerpt, shortened
from sash.expressions.tree import Expr
from sash.monoids.algebra import Monoid
from sash.monoids.arithmetic import Aggregated
from sash.plan.options import Options
from sash.plan.query import Query
from sash.windows import Count, Delta, Lifetime, Punctuation, Session, Time

WINDOWS: dict[str, Any] = {one.__name__: one for one in (Count, Delta, Lifetime, Punctuation, Session, Time)}

IMPORTED = re.compile(r"([a-zA-Z_][\w.]*):(\w+)\(([\w\s,]*)\)")
"""A user-defined aggregate: module:name(column, …)."""

LONGEST = 1000
"""The maximum number of characters of a window: Python's parser fails on what is nested very deep."""

STREAM = ("lateness", "emit", "late", "forget", "ahead", "min_periods")
"""Keys that are also allowed with SQL."""


@dataclass(frozen=True)
class JobQuery:
    """The query of a job, the condition on its rows, and the columns of the results that it writes."""

    query: Query
    where: Expr | None
    columns: tuple[tuple[str, str], ...] | None
    """Columns of the results and their names; None: all."""
    condition: str = ""
    """The text of `where`."""


def query_of(job: Job, schema: pa.Schema) -> JobQuery:
    """The query of a job on rows of a schema. Raises WrongUsage, with the line, if it does not fit."""
    given = {key: job.get("query", key) for key in STREAM if job.get("query", key) is not None}
    given["options"] = _options(job)
    if job.get("query", "sql") is not None:
        job.only("query", "a query in SQL", ("sql", *STREAM))
        found = _from_sql(job, schema, given)
    else:
        found = _from_keys(job, given)
    try:
        found.query.bind(schema)
    except (TypeError, ValueError) as error:
        _report(job, error)
    return found


def _options(job: Job) -> Options:
    given = {key: job.get("options", key) for key in ("structure", "prefer", "threads", "failed")}
    try:
        return Options(**{key: value for key, value in given.items() if value is not None})
    except (TypeError, ValueError) as error:
        _report(job, error, "options")


def _from_sql(job: Job, schema: pa.Schema, given: dict[str, Any]) -> JobQuery:
    try:
        read = statement_of(job.get("query", "sql")).with_output_names(schema.names)
        read.require_columns(schema.names)
    except ValueError as error:
        job.wrong(("query", "sql"), str(error))
    if (refused := read.peers_refused) is not None:
        job.wrong(("query", "sql"), refused)
    if len(read.partitions) > 1:
        job.wrong(
            ("query", "sql"), "all windows of a job must have the same PARTITION BY and ORDER BY: write a job for each"
        )
    (partition,) = read.partitions
    try:
        columns = read.output_columns(schema.names)
    except UnsupportedSQL as error:
        job.wrong(("query", "sql"), str(error))
    try:
        query = partition.query(read.windows, **given)
    except (TypeError, ValueError) as error:
        _report(job, error)
    return JobQuery(query, read.where, tuple(columns), read.condition)


def _from_keys(job: Job, given: dict[str, Any]) -> JobQuery:
    aggregates: dict[str, Any] = {}
    for name, text in job.needed("query", "aggregates").items():
        place = ("query", "aggregates", name)
        if not isinstance(text, str):
            job.wrong(place, f'{name} must be an aggregate as text, such as "max(price)"; got {text!r}')
        try:
            imported = IMPORTED.fullmatch(text)
            aggregates[name] = _imported(job, place, *imported.groups()) if imported else formula_of(text)
        except UnsupportedSQL as error:
            job.wrong(place, str(error))
        except (TypeError, ValueError) as error:
            job.wrong(place, f"{text!r}: {error}")
        except RecursionError:
            job.wrong(place, f"{text!r:.80} … is nested too deeply")
    where = job.get("query", "where")
    try:
        condition = None if where is None else expr(where)
    except (TypeError, ValueError) as error:
        job.wrong(("query", "where"), str(error))
    windows = _windows(job)
    more = {key: job.get("query", key) for key in ("by", "on") if job.get("query", key) is not None}
    try:
        return JobQuery(Query(windows, **more, **given, **aggregates), condition, None, where or "")
    except (TypeError, ValueError) as error:
        _report(job, error)


def _imported(job: Job, place: tuple[str, ...], module: str, name: str, columns: str) -> Aggregated:
    """A user-defined aggregate, applied to columns. Its module is imported, if the job allows it."""
    if job.tables.get("allow_imports") is not True:
        job.wrong(
            place, f"{module}:{name} is imported, which runs its code: write allow_imports = true above all tables"
        )
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        job.wrong(place, f"{module}:{name} cannot be imported: {error}")
    if not isinstance(found, Monoid):
        job.wrong(place, f"{module}:{name} is a {type(found).__name__}, not an aggregate that sash.monoid() made")
    names = [column.strip() for column in columns.split(",")]
    return found(*names)


def _windows(job: Job) -> Any:
    given = job.needed("query", "windows")
    place = ("query", "windows")
    if isinstance(given, dict):
        return {name: _window(job, value, (*place, name)) for name, value in given.items()}
    return _window(job, given, place)


def _window(job: Job, given: Any, place: tuple[str, ...]) -> Any:
    """A window: a number of rows, a duration, or a call in Python's syntax, such as Time('1h', every='10m')."""
    if not isinstance(given, str) or "(" not in given:
        return given
    try:
        if len(given) > LONGEST:
            raise SyntaxError
        return _called(job, ast.parse(given.strip().removeprefix("sash."), mode="eval").body, place)
    except (SyntaxError, MemoryError, RecursionError):
        job.wrong(place, f"{excerpt(given)} is not a window: write one such as \"Time('1h', every='10m')\"")
    except (TypeError, ValueError, OverflowError) as error:
        job.wrong(place, str(error))


def _called(job: Job, node: ast.expr, place: tuple[str, ...]) -> Any:
    if not isinstance(node, ast.Call):
        try:
            return ast.literal_eval(node)
        except ValueError:  # a name, or a calculation such as 10**9
            text = shortened(ast.unparse(node), 60)
            job.wrong(place, f"{text} is computed: write the number or the duration itself, such as 3600 or '1h'")
    name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
    if name not in WINDOWS:
        job.wrong(place, f"there is no window {name}(){nearest(name, WINDOWS)}")
    values = [_called(job, one, place) for one in node.args]
    named = {str(one.arg): _called(job, one.value, place) for one in node.keywords}
    return WINDOWS[name](*values, **named)


def _report(job: Job, error: Exception, table: str = "query") -> NoReturn:
    """Raises WrongUsage for an error of the query, at the line of the key that it names."""
    text = str(error.args[0] if error.args else error)
    named = re.match(r"(?:the column |.*?\b)?(\w+)=", text)
    name = named[1] if named else ""
    places = [(table, name), ("query", "aggregates", name), (table, "sql")]
    job.wrong(next((place for place in places if place in job.lines or place in job.changed), (table,)), text)
