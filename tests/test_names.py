"""One word, one concept: no two modules and no two public classes share a name, and replaced words stay away.

Python files have at most 400 lines.
"""

from __future__ import annotations

import ast
import tokenize
from collections import defaultdict
from pathlib import Path

import sash

ROOT = Path(sash.__file__).parent

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDERS = ("benchmarks", "examples", "src", "tests", "tools")
MOST_LINES = 400

SHARED_CLASSES = {
    # `sash.Count` is a window, `sash.monoids.Count` an aggregate, `Delta` likewise: classes are named after functions.
    "Count",
    "Delta",
}

OLD_WORDS = {
    *("anew", "aside", "awake", "chapters", "crew", "cutter", "doubt", "duel", "host_page", "judge", "keeping"),
    *("lane", "lanes", "manners", "met", "pass_through", "pretend", "rolled", "shelf", "shown", "span"),
    *("straddled", "stretch", "summaries", "swept", "told", "twofold", "unsaid", "unseal", "wording"),
}
"""Words that VOCABULARY replaced: no identifier is one of them, in any case, with or without underscores around it."""

VAGUE_WORDS = {"part", "parts", "whole"}
"""Words that meant several things at once."""

HOSTS = ("frames", "plan", "spark", "stores", "testing", "windows")
"""The packages that avoid vague words; structures and monoids have parts in the ordinary sense."""

RETIRED = {
    *("arrivals", "aside", "blobs", "carry", "crew", "doubt", "drive", "holding", "lane", "lanes", "pieces"),
    *("pretend", "shelf", "shown", "stretch", "summaries", "tails", "told", "twofold", "unsaid", "wording"),
}
"""No module, class or function takes these names again; as names of values some of them are fine."""

OF_OTHERS = {"parts"}
"""Attributes of other packages that hosts read."""

OF_PANDAS = {"span"}
"""A parameter of exponentially weighted aggregates, named as in pandas."""


def sources() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if not path.stem.startswith("__"))


def test_no_two_modules_have_the_same_name() -> None:
    found = defaultdict(list)
    for path in sources():
        found[path.stem].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_no_two_public_classes_have_the_same_name() -> None:
    found = defaultdict(list)
    for path in sources():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(ROOT)))
    twice = {name: paths for name, paths in found.items() if len(paths) > 1}
    assert set(twice) == SHARED_CLASSES, twice


def test_no_module_class_or_function_has_a_retired_name() -> None:
    found = []
    for path in sources():
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        names = [path.stem, *(node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef))]
        found += [f"{path.relative_to(ROOT)}: {name}" for name in names if name.strip("_").lower() in RETIRED]
    assert found == []


def identifiers(path: Path) -> set[str]:
    with path.open("rb") as file:
        return {token.string for token in tokenize.tokenize(file.readline) if token.type == tokenize.NAME}


def test_no_identifier_is_a_replaced_word() -> None:
    found = []
    for path in sources():
        package = path.relative_to(ROOT).parts[0]
        words = OLD_WORDS | (VAGUE_WORDS - OF_OTHERS if package in HOSTS else set())
        words = words - OF_PANDAS if package == "monoids" else words
        found += [f"{path.relative_to(ROOT)}: {name}" for name in identifiers(path) if name.strip("_").lower() in words]
    assert sorted(found) == []


def test_no_file_has_more_than_400_lines() -> None:
    found = {}
    for path in (path for folder in FOLDERS for path in (REPOSITORY / folder).rglob("*.py")):
        with path.open("rb") as file:
            count = sum(1 for _ in file)
        if count > MOST_LINES:
            found[str(path.relative_to(REPOSITORY))] = count
    assert found == {}, "split these at a seam, by subject"
