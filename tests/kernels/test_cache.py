"""The on-disk cache: the next process loads it, it is never stale or another user's, and a broken one is no error."""

import errno
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import types
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sash
from sash.kernels.jit import cache, cache_directory
from sash.kernels.jit import cache as source_hash
from sash.kernels.jit.cache import ENTRIES, KEPT, PREFIX, directory, sources_key
from sash.kernels.jit.cache_directory import SECRET, Directory


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of sash, which nobody edits while the tests run."""
    path = tmp_path_factory.mktemp("sources")
    shutil.copytree(Path(sash.__file__).parent, path / "sash", ignore=shutil.ignore_patterns("__pycache__"))
    return path


# ---- processes ----

PROGRAM = """
import json, math, sys
import numpy as np
from numba.core import event
import sash
from sash.aggregators import Recalc
from sash.kernels import slide
from sash.monoids import Max

compiled = []

class Compilations(event.Listener):
    def on_start(self, found): compiled.append(found.data["dispatcher"].py_func.__qualname__)
    def on_end(self, found): pass

event.register("numba:compile", Compilations())
FACTOR = 1.0

def power(x, n):
    return 1.0 if n < 1.0 else FACTOR * x * power(x, n - 1.0)

monoid = sash.monoid(identity=0.0, lift=lambda x: power(x, 2.0), combine=lambda a, b: a + b)
column = (np.array([1.0, 3.0, 2.0]),)
answers = []
for argument in sys.argv[1:]:
    if argument == "max":
        answers.append(slide(Recalc, Max(), column, 2).to_list())
    else:
        FACTOR = float(argument)
        answers.append(slide(Recalc, monoid, column, 1).to_list())
print(json.dumps([answers, compiled]))
"""


def start(sources: Path, caches: Path, *arguments: Any) -> "subprocess.Popen[str]":
    """A process that computes the maximum, and sums of the squares of multiples, as its arguments choose."""
    environment = {**os.environ, "SASH_CACHE_DIR": str(caches), "PYTHONPATH": str(sources)}
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=caches.parent
    )


def finish(process: "subprocess.Popen[str]") -> tuple[list[Any], list[str]]:
    """The answers, and the names of what was compiled for them."""
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    answers, compiled = json.loads(output)
    return answers, compiled


def run(sources: Path, caches: Path, *arguments: Any) -> tuple[list[Any], list[str]]:
    return finish(start(sources, caches, *arguments))


def expected(*arguments: Any) -> list[Any]:
    return [
        [1.0, 3.0, 3.0] if argument == "max" else [argument**2 * x * x for x in (1.0, 3.0, 2.0)]
        for argument in arguments
    ]


def test_the_next_process_compiles_nothing_and_finds_only_its_own(sources: Path, tmp_path: Path) -> None:
    """Several at once on an empty cache; then one that needs the machine code of all of them.

    Each compiled a function of the same name, in which another constant is meant: linked together, the name
    alone must not decide.
    """
    arguments = ("max", 1, 2)
    processes = [start(sources, tmp_path / "caches", argument) for argument in arguments]
    for argument, process in zip(arguments, processes, strict=True):
        answers, compiled = finish(process)
        assert answers == expected(argument)
        assert "slide" in compiled
    answers, compiled = run(sources, tmp_path / "caches", *arguments, *arguments)
    assert answers == expected(*arguments, *arguments)
    assert compiled == []


def test_an_edited_source_is_compiled_again(sources: Path, tmp_path: Path) -> None:
    copy = tmp_path / "sources"
    shutil.copytree(sources, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert run(copy, tmp_path / "caches", "max")[0] == expected("max")
    helper = copy / "sash/monoids/extremes.py"
    before = helper.read_text()
    after = before.replace("return not (a >= b or a != a)", "return not (a >= b - 2.0 or a != a)")
    assert after != before
    helper.write_text(after)
    answers, compiled = run(copy, tmp_path / "caches", "max")
    assert answers == [[1.0, 1.0, 3.0]]
    assert "slide" in compiled


def test_a_damaged_file_is_compiled_again(sources: Path, tmp_path: Path) -> None:
    caches = tmp_path / "caches"
    assert run(sources, caches, "max")[0] == expected("max")
    (file,) = caches.rglob("*.code")
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF  # in the machine code: running it would be the end
    file.write_bytes(damaged)
    answers, compiled = run(sources, caches, "max")
    assert answers == expected("max")
    assert "slide" in compiled
    assert run(sources, caches, "max") == (expected("max"), [])


def test_without_any_place_it_computes_all_the_same(sources: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file" / "nowhere")
    places = dict.fromkeys(("SASH_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"), nowhere)
    done = subprocess.run(
        [sys.executable, "-c", f"import tempfile; tempfile.gettempdir = lambda: {nowhere!r}\n{PROGRAM}", "max"],
        env={**os.environ, **places, "PYTHONPATH": str(sources)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)[0] == expected("max")
    assert done.stderr.count("RuntimeWarning") == 1


# ---- sources ----


def test_sources_in_a_zip_file_have_the_same_key(sources: Path, tmp_path: Path) -> None:
    archive = tmp_path / "sash.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in sources.rglob("*.py"):
            file.write(path, path.relative_to(sources))
    keys = []
    for place in (sources, archive):
        done = subprocess.run(
            [sys.executable, "-c", "import sash.kernels.jit.cache as c; print(c.__file__); print(c.sources_key())"],
            env={**os.environ, "PYTHONPATH": str(place)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        where, key = done.stdout.split()
        assert where.startswith(str(place))
        keys.append(key)
    assert keys[0] == keys[1]


@pytest.mark.usefixtures("fresh")
def test_without_sources_there_is_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_hash, "_sources", lambda _folder, _path: iter(()))
    with pytest.warns(RuntimeWarning, match="sources of sash are not there"):
        assert directory() is None


def test_versions_and_the_processor_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before = sources_key()
    monkeypatch.setattr(cache.numba, "__version__", "0")
    other_version = sources_key()
    monkeypatch.undo()
    monkeypatch.setattr(cache.llvm, "get_host_cpu_name", lambda: "other")
    assert len({before, other_version, sources_key()}) == 3
    monkeypatch.undo()
    assert sources_key() == before


# ---- where ----


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No directory chosen yet, and all candidates below the test's own."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("SASH_CACHE_DIR", str(tmp_path / "chosen"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    directory.cache_clear()
    yield
    monkeypatch.undo()
    directory.cache_clear()


def found() -> str:
    """The candidate that was taken."""
    path = chosen()
    assert path.is_dir()
    assert path.name == PREFIX + sources_key()
    return path.parent.name


def chosen() -> Path:
    entries = directory()
    assert entries is not None
    return entries.path


@pytest.mark.usefixtures("fresh")
def test_the_chosen_place() -> None:
    assert found() == "chosen"


@pytest.mark.usefixtures("fresh")
def test_a_place_relative_to_where_we_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SASH_CACHE_DIR", "here")
    assert chosen().parent == tmp_path / "here"


@pytest.mark.usefixtures("fresh")
def test_a_place_in_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SASH_CACHE_DIR", "~/here")
    assert chosen().parent == tmp_path / "home" / "here"


@pytest.mark.usefixtures("fresh")
def test_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SASH_CACHE_DIR")
    assert chosen().parent == tmp_path / "xdg" / "sash"
    directory.cache_clear()
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert chosen().parent == tmp_path / "home" / ".cache" / "sash"


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_platforms(tmp_path: Path, platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    places = {"darwin": Path("~/Library/Caches/sash"), "win32": tmp_path / "local" / "sash"}
    assert list(cache_directory.candidates())[1] == places[platform]


@pytest.mark.usefixtures("fresh")
def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "chosen").touch()
    assert found() == "sash"


@pytest.mark.usefixtures("fresh")
def test_a_place_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated: who runs as root may write anywhere."""
    touch = Directory.touch

    def refuse(self: Directory) -> None:
        if "chosen" in str(self.path):
            raise PermissionError(errno.EROFS, "Read-only file system")
        touch(self)

    monkeypatch.setattr(Directory, "touch", refuse)
    assert found() == "sash"


@pytest.mark.usefixtures("fresh")
def test_a_file_system_that_is_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The home is read-only, and so are the directories that an earlier process has made in it."""
    kernels = chosen().stat()
    directory.cache_clear()
    whole = os.open

    def refuse(path: Any, flags: int, mode: int = 0, *, dir_fd: int | None = None) -> int:
        if flags & os.O_CREAT and dir_fd is not None and os.path.samestat(os.fstat(dir_fd), kernels):
            raise OSError(errno.EROFS, "Read-only file system")
        return whole(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)
    assert found() == "sash"


@pytest.mark.usefixtures("fresh")
def test_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SASH_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name)

    def unknown(uid: int) -> Any:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert found() == f"sash-{os.getuid()}"


@pytest.mark.usefixtures("fresh")
def test_no_temporary_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    assert len(list(cache_directory.candidates())) == 2


@pytest.mark.usefixtures("fresh")
def test_nowhere(tmp_path: Path) -> None:
    for name in ("chosen", "xdg", "temporary"):
        (tmp_path / name).touch()
    with pytest.warns(RuntimeWarning, match="set SASH_CACHE_DIR") as warned:
        assert directory() is None
    assert len(warned) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert directory() is None
        dispatcher = types.SimpleNamespace(_cache="none")
        assert cache.use_cache(dispatcher)._cache == "none"


@pytest.mark.usefixtures("fresh")
def test_places_of_other_users_are_in_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found() == "chosen"
    directory.cache_clear()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.warns(RuntimeWarning, match="compiles again.*belongs to user.*set SASH_CACHE_DIR") as warned:
        assert directory() is None
    assert len(warned) == 1


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_kernels_that_others_may_write_are_refused(tmp_path: Path, mode: int) -> None:
    assert found() == "chosen"
    directory.cache_clear()
    kernels = tmp_path / "chosen" / (PREFIX + sources_key())
    kernels.chmod(mode)
    with pytest.warns(RuntimeWarning, match=f"stored in {tmp_path / 'xdg'}.*{kernels} is writable for") as warned:
        assert found() == "sash"
    assert len(warned) == 1


# ---- what is old ----


@pytest.mark.usefixtures("fresh")
def test_old_directories_go(tmp_path: Path) -> None:
    base = tmp_path / "chosen"
    names = [f"{PREFIX}{age}" for age in range(KEPT + 3)]
    for age, name in enumerate(names):
        (base / name / "inside").mkdir(parents=True)
        os.utime(base / name, (1e9 - age, 1e9 - age))
    (base / "of somebody else").mkdir()
    current = chosen().name
    assert {path.name for path in base.iterdir()} == {SECRET, current, *names[:KEPT], "of somebody else"}


@pytest.mark.usefixtures("fresh")
def test_old_entries_go(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ENTRIES >= 1000
    current = chosen()
    for age in range(5):
        path = current / f"{age}.code"
        path.touch()
        os.utime(path, (1e9 - age, 1e9 - age))
    monkeypatch.setattr(cache, "ENTRIES", 3)
    directory.cache_clear()
    assert chosen() == current
    assert sorted(path.name for path in current.iterdir()) == ["0.code", "1.code", "2.code"]
