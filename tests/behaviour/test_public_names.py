"""Tests of behaviour import public modules only, so that they hold whatever becomes of the others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.behaviour.mutants import MUTANTS, place_of

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = {"sash", "sash.aggregators", "sash.monoids", "sash.pipeline", "sash.spark", "sash.stores", "sash.windows"}
"""The packages whose names users import; those in `sash.testing` are the reference that ours are tested against."""


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports, with the names that it takes from them if they are modules."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names if _is_module(node.module, alias.name))


def _is_module(package: str, name: str) -> bool:
    folder = ROOT / "src" / package.replace(".", "/")
    return (folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists()


def with_helpers(paths: list[Path]) -> dict[Path, set[str]]:
    """What these files import, and the files of tests that they import."""
    found: dict[Path, set[str]] = {}
    rest = [*paths]
    while rest:
        path = rest.pop()
        if path not in found:
            found[path] = set(imported(path))
            helpers = (ROOT / f"{module.replace('.', '/')}.py" for module in found[path] if module.startswith("tests."))
            rest += [helper for helper in helpers if helper.exists()]
    return found


def test_only_public_modules_are_imported() -> None:
    files = with_helpers(sorted((ROOT / "tests" / "behaviour").glob("*.py")))
    assert len(files) > 10
    wrong = {
        f"{path.relative_to(ROOT)} imports {module}"
        for path, modules in files.items()
        for module in modules
        if module.partition(".")[0] == "sash" and module not in PUBLIC and not module.startswith("sash.testing")
    }
    assert not wrong


def test_an_internal_module_is_found(tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text("def f():\n    from sash import engine\n    import sash.plan.binder, os\n")
    assert set(imported(path)) == {"sash", "sash.engine", "sash.plan.binder", "os"}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_line_of_a_mutant_is_there_once(name: str) -> None:
    """`make mutants` runs them; a line that has moved is known at once."""
    mutant = MUTANTS[name]
    place_of(mutant)
    assert mutant.line != mutant.becomes
    assert (ROOT / "tests" / "behaviour" / mutant.noticed_by.partition("::")[0]).exists()
