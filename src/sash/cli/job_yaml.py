"""Read a job file in YAML: its tables and the line of each key.

Values are strings, numbers, booleans, lists and tables. Booleans are those of YAML 1.2: only true and false, so `on:`
and `no` are strings. Tags, anchors, null and duplicate keys are refused.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from sash.cli.main import WrongUsage

PLAIN = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map")}
"""The default tags of nodes."""

WORDS = {"true": True, "false": False}

INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")

Lines = dict[tuple[str, ...], int]


def read_yaml(path: str, text: str) -> tuple[dict[str, Any], Lines]:
    """The tables of a job in YAML, and the line of each key.

    Raises WrongUsage with file and line for text that is not YAML, or that a job may not have; ImportError without
    PyYAML.
    """
    try:
        import yaml
    except ModuleNotFoundError:
        raise ImportError(f"{path}: job files in YAML need the package PyYAML: pip install 'sash[cli]'") from None
    try:
        node = yaml.compose(text, yaml.BaseLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        why = getattr(error, "problem", None) or " ".join(str(error).split())
        raise WrongUsage(f"{path}:{line}: this is not YAML: {why}") from None
    except RecursionError:
        raise WrongUsage(f"{path}:1: lists and tables are nested too deeply") from None
    if node is None:
        return {}, {}
    reader = _NodeReader(path)
    tables = reader.value(node, ())
    if not isinstance(tables, dict):
        raise WrongUsage(f"{path}:{node.start_mark.line + 1}: a job has tables: source:, query:, sink:")
    return tables, reader.lines


class _NodeReader:
    """Turns nodes of PyYAML into values, and records the line of each key."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lines: Lines = {}
        self._seen: set[int] = set()

    def value(self, node: Any, place: tuple[str, ...]) -> Any:
        if id(node) in self._seen:
            self._wrong(node, "anchors and aliases are not read: write the value again")
        self._seen.add(id(node))
        if node.tag not in PLAIN:
            self._wrong(node, f"the tag {node.tag!r} is not read: a job has texts, numbers, lists and tables")
        if node.id == "mapping":
            return self._table(node, place)
        if node.id == "sequence":
            return [self.value(one, place) for one in node.value]
        return self._scalar(node)

    def _table(self, node: Any, place: tuple[str, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            if key.id != "scalar" or key.tag not in PLAIN:
                self._wrong(key, "a key must be text")
            name = key.value
            inner = (*place, name)
            if name in found:
                self._wrong(key, f"the key {name!r} occurs twice; the first one is in line {self.lines[inner]}")
            self.lines[inner] = key.start_mark.line + 1
            found[name] = self.value(value, inner)
        return found

    def _scalar(self, node: Any) -> Any:
        text = node.value
        if node.style is not None:  # in quotes, or a block
            return text
        if text in ("", "~", "null"):
            self._wrong(node, "there is no value: write one, or leave the key out")
        if text in WORDS:
            return WORDS[text]
        if INTEGER.fullmatch(text):
            return int(text)
        return float(text) if NUMBER.fullmatch(text) else text

    def _wrong(self, node: Any, text: str) -> NoReturn:
        raise WrongUsage(f"{self.path}:{node.start_mark.line + 1}: {text}")
