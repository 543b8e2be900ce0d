"""One word, one concept: no two modules or public classes share a name, and replaced names are not used again.

Words are looked for in the package, its tests, tools, benchmarks and examples.
"""

from __future__ import annotations

import ast
import tokenize
from collections import defaultdict
from pathlib import Path

import pytest

import sash

ROOT = Path(sash.__file__).parent

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDERS = ("benchmarks", "examples", "src", "tests", "tools")

SHARED_CLASSES = {
    # `sash.Count` is a window, `sash.monoids.Count` an aggregate, `Delta` likewise: classes are named after functions.
    "Count",
    "Delta",
}

OLD_WORDS = {
    *("anew", "aside", "awake", "chapters", "crew", "cutter", "doubt", "duel", "host_page", "judge", "keeping"),
    *("lane", "lanes", "manners", "met", "pass_through", "played", "pretend", "rolled", "shelf", "shown", "span"),
    *("straddled", "stretch", "summaries", "swept", "told", "twofold", "unsaid", "unseal", "wording"),
}
"""Replaced words: no identifier is one of them, in any case, with or without underscores around it.

The words to use are in the table "Words" of CONTRIBUTING.md.
"""

ORDINARY_IN_COMPOUNDS = {
    "met",  # test_the_bound_is_met
    "rolled",  # rolled_back
    "shown",  # test_a_plan_is_shown_as_its_text
    "span",  # by_span, as by_com: the parameter of exponentially weighted aggregates
}
"""Replaced words that a longer name may contain. The others are in no name between underscores, as in `told_by`."""

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
"""A parameter of exponentially weighted aggregates, named as in pandas: allowed in files that have such aggregates."""


def sources() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if not path.stem.startswith("__"))


def all_sources() -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (REPOSITORY / folder).rglob("*.py"))


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
    for path in all_sources():
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        names = [path.stem, *(node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef))]
        found += [f"{path.relative_to(REPOSITORY)}: {name}" for name in names if name.strip("_").lower() in RETIRED]
    assert found == []


def identifiers(path: Path) -> set[str]:
    """The names in a file. Before Python 3.12 an f-string is one token: its names are in the syntax tree."""
    with path.open("rb") as file:
        names = {token.string for token in tokenize.tokenize(file.readline) if token.type == tokenize.NAME}
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names |= {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def old_words(path: Path) -> set[str]:
    """The words that no identifier of a file may be."""
    words = OLD_WORDS - OF_PANDAS if "ewm_" in path.read_text(encoding="utf-8") else OLD_WORDS
    is_host = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in HOSTS
    return words | (VAGUE_WORDS - OF_OTHERS) if is_host else words


def has_old_word(name: str, words: set[str]) -> bool:
    """Is a name one of the words, or does it contain one, between underscores, that is not ordinary there?"""
    name = name.strip("_").lower()
    return name in words or not (OLD_WORDS - ORDINARY_IN_COMPOUNDS).isdisjoint(name.split("_"))


def test_no_identifier_is_a_replaced_word() -> None:
    found = []
    for path in all_sources():
        words = old_words(path)
        found += [f"{path.relative_to(REPOSITORY)}: {name}" for name in identifiers(path) if has_old_word(name, words)]
    assert sorted(found) == []


def test_names_in_f_strings_are_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text('x = f"{self._told(error)} {met}"')
    assert {"_told", "met"} <= identifiers(tmp_path / "one.py")


@pytest.mark.parametrize("name", ["told", "_told", "TOLD", "told_by", "test_what_is_told_once", "shown", "host_page"])
def test_replaced_words_are_found(name: str) -> None:
    assert has_old_word(name, OLD_WORDS)


@pytest.mark.parametrize("name", ["rolled_back", "test_the_bound_is_met", "toldo", "plane"])
def test_ordinary_names_are_not_found(name: str) -> None:
    assert not has_old_word(name, OLD_WORDS)
