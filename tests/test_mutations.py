"""A test of the tests: with one key line changed, a few named tests of `make test` fail.

Each mutant is a copy of the package in which one line is changed, run in a process of its own. The tests
are listed here: if they pass on the mutant, that class of bug has lost its guard. They are chosen to be cheap, and not
to compile the changed code.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import sash
from tests.interpreted import SWITCHED_OFF

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(sash.__file__).parent
TESTS_FAILED = 1  # pytest's exit code; an error in collection or usage has another


@dataclass(frozen=True)
class Mutant:
    """A line of a module, what it becomes, and the tests that must notice."""

    module: str
    line: str
    becomes: str
    noticed_by: str


MUTANTS = {
    "a row at the watermark is late": Mutant(
        "columns/watermark.py",
        "late = timed & (time < watermark)",
        "late = timed & (time <= watermark)",
        "tests/engine/test_streams.py::test_advance_gives_what_has_become_final",
    ),
    "a Time window keeps the row at its open start": Mutant(
        "windows/rules.py",
        "by = min(max(int(by) + (not inclusive), -LIMIT), LIMIT)",
        "by = min(max(int(by), -LIMIT), LIMIT)",
        "tests/engine/test_streams.py::test_a_row_leaves_a_time_window_when_it_is_as_old_as_the_window_is_long",
    ),
    "DABA flips too late": Mutant(
        "aggregators/daba.py",
        "if self.L == self.B:",
        "if self.L > self.B:",
        "tests/aggregators/test_daba.py::test_the_phases_of_a_window_that_grows_from_nothing",
    ),
    "a sum of floats forgets the second parts": Mutant(
        "monoids/double_double.py",
        "v, v_rest = quick_two_sum(s, s_rest + t)",
        "v, v_rest = quick_two_sum(s, s_rest)",
        "tests/monoids/test_accuracy.py::test_the_sum_of_pairs_is_accurate_where_they_cancel",
    ),
    "a page of another call is read": Mutant(
        "state/page_transaction.py",
        'if expected is not None and expected != meta["generation"]:',
        "if expected is not None and expected != expected:",
        "tests/engine/test_page_identity.py::test_an_older_copy_of_a_page_is_refused[slides]",
    ),
}


def copy_of_the_package(folder: Path) -> Path:
    """The package with its bytecode, which stays valid: modification times are copied, too."""
    shutil.copytree(PACKAGE, folder / PACKAGE.name)
    return folder / PACKAGE.name


def run_tests(package: Path, *selection: str) -> subprocess.CompletedProcess[str]:
    """Run tests of this tree on another copy of the package."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *selection]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=inherited | SWITCHED_OFF | {"PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_noticed(name: str, tmp_path: Path) -> None:
    mutant = MUTANTS[name]
    package = copy_of_the_package(tmp_path)
    module = package / mutant.module
    source = module.read_text()
    assert source.count(mutant.line) == 1, f"{mutant.module} has no such line any more: name its successor"
    module.write_text(source.replace(mutant.line, mutant.becomes))
    found = run_tests(package, mutant.noticed_by)
    assert found.returncode == TESTS_FAILED, found.stdout + found.stderr
    assert f"FAILED {mutant.noticed_by}" in found.stdout


@pytest.mark.all_compiled  # they pass on this tree in every run
def test_the_same_tests_pass_on_an_unchanged_copy(tmp_path: Path) -> None:
    found = run_tests(copy_of_the_package(tmp_path), *(mutant.noticed_by for mutant in MUTANTS.values()))
    assert found.returncode == 0, found.stdout + found.stderr
    assert f"{len(MUTANTS)} passed" in found.stdout
