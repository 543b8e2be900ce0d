"""One word, one concept: no two modules and no two public classes of the package share a name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import sash

ROOT = Path(sash.__file__).parent

SHARED_CLASSES = {
    # `sash.Count` is a window, `sash.monoids.Count` an aggregate: classes are named after their functions.
    "Count",
}

RETIRED = {
    *("arrivals", "aside", "blobs", "carry", "crew", "doubt", "drive", "holding", "lane", "lanes", "pieces"),
    *("pretend", "shelf", "shown", "stretch", "summaries", "tails", "told", "twofold", "unsaid", "wording"),
}
"""Names that VOCABULARY replaced: no module, class or function takes them again."""


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
