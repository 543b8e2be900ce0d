"""A job file: TOML or YAML with the tables source, query, sink, store, spark and options. Nothing in it is executed.

Every mistake is a `WrongUsage` with file, line and the nearest valid name.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from sash.cli.job_settings import check_clients
from sash.cli.job_yaml import Lines, read_yaml
from sash.cli.main import WrongUsage

TEXT, NUMBER, FLAG, TABLE, TEXTS, LENGTH = (str,), (int,), (bool,), (dict,), (str, list), (str, int, float)

KEYS: dict[str, dict[str, tuple[type, ...]]] = {
    "source": {
        **dict.fromkeys(("kind", "path", "delimiter", "servers", "topic", "format"), TEXT),
        "timeout": (int, float),
        **dict.fromkeys(("schema", "config"), TABLE),
    },
    "query": {
        **dict.fromkeys(("sql", "where", "emit", "late"), TEXT),
        "windows": (str, int, float, dict),
        **dict.fromkeys(("by", "on"), TEXTS),
        **dict.fromkeys(("lateness", "forget", "ahead"), LENGTH),
        "min_periods": NUMBER,
        "aggregates": TABLE,
    },
    "sink": {
        **dict.fromkeys(("kind", "path", "servers", "topic", "name"), TEXT),
        "timeout": (int, float),
        "key": TEXTS,
        "config": TABLE,
    },
    "side": {"path": TEXT},
    "spark": {**dict.fromkeys(("checkpoint", "master", "trigger"), TEXT), "config": TABLE},
    "store": {"kind": TEXT, "path": TEXT},
    "options": {
        **dict.fromkeys(("malformed", "structure", "prefer", "failed"), TEXT),
        **dict.fromkeys(("batch_size", "threads"), NUMBER),
        "memory": (str, int),
        "finish": FLAG,
    },
}
"""The tables and keys of a job, with the types of their values."""

NEEDED = ("source", "query", "sink")

YAML = (".yaml", ".yml")
"""Suffixes of job files in YAML; others are TOML."""

ENGINES = ("local", "spark")
"""Where a job runs."""

_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false", dict: "a table", list: "a list"}

_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(#.*)?")
_KEY = re.compile(r"""\s*((?:[\w.-]|"[^"]*"|'[^']*')+)\s*=""")
_NAME = re.compile(r""""[^"]*"|'[^']*'|[^.\s]+""")


@dataclass(frozen=True)
class Job:
    """A job file as read: its tables, and the line of each key."""

    path: str
    tables: dict[str, Any]
    lines: Lines
    changed: frozenset[tuple[str, ...]] = frozenset()
    """The places of values that `--set` has replaced."""

    @property
    def engine(self) -> str:
        """The engine that the job names; "local" by default."""
        return str(self.tables.get("engine", "local"))

    def get(self, table: str, key: str, default: Any = None) -> Any:
        """A value, or the default."""
        return self.tables.get(table, {}).get(key, default)

    def needed(self, table: str, key: str) -> Any:
        """A value. Raises WrongUsage if it is missing."""
        found = self.get(table, key)
        if found is None:
            self.wrong((table,), f"[{table}] needs {key} =")
        return found

    def choice(self, table: str, key: str, known: Collection[str]) -> str:
        """A value that must be one of the known names. Raises WrongUsage, with the nearest name, for another."""
        found = self.needed(table, key)
        if found not in known:
            self.wrong((table, key), f"{key} = {found!r} is not known{nearest(found, known)}")
        return str(found)

    def only(self, table: str, kind: str, keys: Collection[str]) -> None:
        """Raises WrongUsage for a key of a table that its kind does not have.

        If `--set` has replaced the kind, keys of the file that belong to the old kind are ignored.
        """
        replaced = (table, "kind") in self.changed
        for key in self.tables.get(table, {}):
            if key not in keys and not (replaced and (table, key) not in self.changed):
                self.wrong((table, key), f"{key} is not a key of {kind}; its keys are {', '.join(keys)}")

    def wrong(self, place: tuple[str, ...], text: str) -> NoReturn:
        """Raises WrongUsage with the line of a key, or of the table that it is in."""
        if self.path.endswith(YAML):
            text = _in_yaml(text)
        if place in self.changed:
            raise WrongUsage(f"--set {'.'.join(place)}: {text}")
        while place and place not in self.lines:
            place = place[:-1]
        raise WrongUsage(f"{self.path}:{self.lines.get(place, 1)}: {text}")


def _in_yaml(text: str) -> str:
    """Rewrite a message about tables and keys of TOML for YAML.

    >>> _in_yaml("[source] needs path ="), _in_yaml("give [spark] checkpoint =")
    ('source: needs path:', 'give spark.checkpoint:')
    """
    text = re.sub(r"\[([\w.]+)\] (\w+) =", r"\1.\2:", text)
    return re.sub(r"(^|needs )(\w+) =", r"\1\2:", re.sub(r"\[([a-z.]+)\]", r"\1:", text))


def nearest(name: str, known: Collection[str]) -> str:
    """The end of a message: the nearest of the known names, and a list of all."""
    near = difflib.get_close_matches(str(name), list(known), 1)
    return (f"; did you mean {near[0]!r}? Known" if near else "; known") + f" names are {', '.join(known)}"


def read_job(path: str, changes: Sequence[str] = ()) -> Job:
    """Read a job file, with changes such as "sink.path=results". Raises WrongUsage for unknown or wrong values."""
    try:
        text = Path(path).read_bytes().decode()
    except UnicodeDecodeError:
        raise WrongUsage(f"{path}: the file is not UTF-8") from None
    except FileNotFoundError:
        near = difflib.get_close_matches(path, [one.name for one in Path().iterdir()], 1)
        more = f"; did you mean {near[0]!r}?" if near else ": `sash new DATA --out job.toml` writes one"
        raise FileNotFoundError(f"there is no job file {path!r}{more}") from None
    except (OSError, ValueError) as error:
        raise OSError(f"the job file {path!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    tables, lines = read_yaml(path, text) if path.endswith(YAML) else _read_toml(path, text)
    changed = frozenset(_changed(tables, change) for change in changes)
    job = Job(path, tables, lines, changed)
    _check(job)
    return job


def _read_toml(path: str, text: str) -> tuple[dict[str, Any], Lines]:
    try:
        return tomllib.loads(text), _lines(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r" \(at line (\d+), column \d+\)", str(error))
        line = found[1] if found else str(text.count("\n") + 1)
        more = "; a job is TOML, or YAML if its name ends in .yaml" if text.lstrip().startswith("{") else ""
        raise WrongUsage(f"{path}:{line}: this is not TOML: {str(error).partition(' (at ')[0]}{more}") from None
    except (RecursionError, ValueError) as error:
        raise WrongUsage(f"{path}: {_beyond(error)}") from None


def _beyond(error: Exception) -> str:
    """What to say of TOML that Python cannot represent."""
    if isinstance(error, RecursionError):
        return "lists and tables are nested too deeply"
    return "a number has too many digits"  # Python converts at most 4,300


def _changed(tables: dict[str, Any], change: str) -> tuple[str, ...]:
    """Apply a change, and return its place."""
    name, equals, text = change.partition("=")
    place = tuple(name.strip().split("."))
    if not equals or len(place) < 2 or not all(place):
        raise WrongUsage(f"--set {change}: write --set table.key=value, such as --set sink.path=results")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # text whose quotes the shell has removed
    except (RecursionError, ValueError) as error:
        raise WrongUsage(f"--set {'.'.join(place)}: {_beyond(error)}") from None
    inner: Any = tables
    for key in place[:-1]:
        inner = inner.setdefault(key, {})
        if not isinstance(inner, dict):
            raise WrongUsage(f"--set {change}: {key} is a value, not a table")
    inner[place[-1]] = value
    return place


def _lines(text: str) -> Lines:
    """The line of each table and key, which `tomllib` does not report."""
    found: Lines = {}
    table: tuple[str, ...] = ()
    quotes = ""
    for number, line in enumerate(text.splitlines(), 1):
        if quotes:  # inside a multi-line string
            quotes = "" if quotes in line else quotes
            continue
        if header := _HEADER.fullmatch(line):
            table = _names(header[1])
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault((*table, *_names(key[1])), number)
        for mark in ('"""', "'''"):
            if line.count(mark) % 2:
                quotes = mark
    return found


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(name.strip("\"'") for name in _NAME.findall(dotted))


def _check(job: Job) -> None:
    for table, values in job.tables.items():
        if table == "engine":
            if values not in ENGINES:
                job.wrong(("engine",), f"engine = {values!r} is not known{nearest(str(values), ENGINES)}")
            continue
        if table == "allow_imports":
            if not isinstance(values, bool):
                job.wrong(("allow_imports",), f"allow_imports must be true or false; got {values!r}")
            continue
        if table not in KEYS:
            known = [*KEYS, "engine", "allow_imports"]
            job.wrong((table,), f"there is no {table!r} in a job{nearest(table, known)}")
        if not isinstance(values, dict):
            job.wrong((table,), f"{table} must be a table: [{table}]")
        for key, value in values.items():
            if key not in KEYS[table]:
                job.wrong((table, key), f"[{table}] has no key {key!r}{nearest(key, KEYS[table])}")
            types = KEYS[table][key]
            if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
                wanted = " or ".join(_NAMES[one] for one in types)
                job.wrong((table, key), f"{key} must be {wanted}; got {value!r}")
    for table in NEEDED:
        if table not in job.tables:
            job.wrong((), f"there is no table [{table}]")
    check_clients(job)
