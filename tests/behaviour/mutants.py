"""Mutation tests: with one line of the package changed, the tests of this directory must fail.

    make mutants                        all of them
    make mutants ARGS="watermark"       those whose name contains a word; `--jobs 4` for more processes

A mutant is a copy of the package in which one line is changed so that a user sees it: in a result, a message, the
state, or a cost. Its processes compile nothing. First the tests run that are expected to notice (`noticed_by`, a
file or a test of this directory), then all of the directory. A mutant that survives is a gap in the tests; a line that
the module does not have exactly once has moved, and its successor must be named here.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = ROOT / "src" / "sash"
TESTS_FAILED = 1  # pytest's exit code; an error in collection or usage has another
LONGEST = 300
"""Seconds after which a run counts as noticed: the mutant does not end."""


@dataclass(frozen=True)
class Mutant:
    """A line of a module, without its indentation, what it becomes, and the tests that are expected to notice."""

    module: str
    line: str
    becomes: str
    noticed_by: str


MUTANTS: dict[str, Mutant] = {}
"""By what is wrong."""


def place_of(mutant: Mutant, package: Path = PACKAGE) -> int:
    """The number of a mutant's line. Raises ValueError unless the module has it exactly once."""
    lines = (package / mutant.module).read_text().splitlines()
    found = [number for number, line in enumerate(lines) if line.strip() == mutant.line]
    if len(found) != 1:
        raise ValueError(f"{mutant.module} has the line {len(found)} times: {mutant.line!r}; name its successor")
    return found[0]


@contextmanager
def applied(mutant: Mutant, package: Path) -> Iterator[None]:
    """The copy of the package with the line changed, for as long as the block runs."""
    module, place = package / mutant.module, place_of(mutant, package)
    source = module.read_text()
    lines = source.splitlines(keepends=True)
    lines[place] = lines[place].replace(mutant.line, mutant.becomes)
    module.write_text("".join(lines))
    try:
        yield
    finally:
        module.write_text(source)


def run_tests(package: Path, selection: str) -> subprocess.CompletedProcess[str]:
    """Run tests of this tree on a copy of the package, up to the first that fails."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "SASH_"))}
    own = {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line"]
    return subprocess.run(
        [*command, selection],
        cwd=ROOT,
        env=inherited | own,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST,
    )


def verdict(name: str, package: Path) -> tuple[bool, str]:
    """Whether tests notice a mutant, and what there is to say."""
    mutant = MUTANTS[name]
    try:
        with applied(mutant, package):
            for selection in (f"tests/behaviour/{mutant.noticed_by}", "tests/behaviour"):
                found = run_tests(package, selection)
                if found.returncode == TESTS_FAILED:
                    failed = [line for line in found.stdout.splitlines() if line.startswith("FAILED")]
                    return True, failed[0].split(" - ")[0][7:]
                if found.returncode != 0:
                    return False, f"pytest did not run {selection}: {(found.stdout + found.stderr)[-2000:]}"
    except subprocess.TimeoutExpired:
        return True, f"a test did not end within {LONGEST} s"
    except ValueError as moved:
        return False, str(moved)
    return False, f"survived: {mutant.module}: {mutant.line!r} → {mutant.becomes!r}"


def main() -> int:
    """Run mutants, and print what notices them. Returns 1 if one survives."""
    parser = argparse.ArgumentParser(prog="make mutants", description="mutation tests through the public surface")
    parser.add_argument("words", nargs="*", help="only mutants whose name or module contains one of these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    given = parser.parse_args()
    names = [
        name
        for name, mutant in MUTANTS.items()
        if not given.words or any(word in name or word in mutant.module for word in given.words)
    ]
    with tempfile.TemporaryDirectory() as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(given.jobs):
            copy = Path(folder, str(number), PACKAGE.name)
            shutil.copytree(PACKAGE, copy)  # with its bytecode, which stays valid
            copies.put(copy)
        if not given.words:
            package = copies.get()
            plain = run_tests(package, "tests/behaviour")
            if plain.returncode != 0:
                print(plain.stdout + plain.stderr, "\nthe tests fail on an unchanged copy")  # noqa: T201 (a command)
                return 1
            copies.put(package)

        def judged(name: str) -> tuple[str, bool, str, float]:
            package, start = copies.get(), time.perf_counter()
            try:
                return (name, *verdict(name, package), time.perf_counter() - start)
            finally:
                copies.put(package)

        survivors = 0
        with ThreadPoolExecutor(given.jobs) as pool:
            for name, noticed, how, seconds in pool.map(judged, names):
                survivors += not noticed
                print(f"{'ok  ' if noticed else 'GAP '} {seconds:5.1f} s  {name}: {how}", flush=True)  # noqa: T201
    print(f"{len(names) - survivors} of {len(names)} mutants are noticed")  # noqa: T201
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
