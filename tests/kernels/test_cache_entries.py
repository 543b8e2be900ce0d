"""Entries of the cache are loaded again; one that is damaged or cannot be written causes no error."""

import errno
import os
import pickle
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sash.kernels.jit import cache
from sash.kernels.jit.cache import KernelCache
from sash.kernels.jit.cache_directory import SECRET_SIZE, Directory, Entries


class Context:
    """As much of Numba's context as the cache asks for."""

    def refresh(self) -> None:
        pass

    def codegen(self) -> Any:
        return types.SimpleNamespace(magic_tuple=lambda: ("this", "machine"))


class Compiled:
    """As much of what Numba compiled."""

    lifted = ()
    codegen = Context().codegen()

    def __init__(self, content: Any, dynamic: bool = False) -> None:
        self.content, self.library = content, types.SimpleNamespace(has_dynamic_globals=dynamic)

    def _reduce(self) -> tuple[Any, ...]:
        return (self.content,)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelCache:
    monkeypatch.setattr(cache.compiler.CompileResult, "_rebuild", lambda _context, content: ("rebuilt", content))
    return KernelCache(entries_in(tmp_path), "kernel")


def entries_in(path: Path) -> Entries:
    return Entries(Directory(path), b"x" * SECRET_SIZE)


def test_an_entry_comes_back(files: KernelCache, tmp_path: Path) -> None:
    assert files.load_overload(("int",), Context()) is None
    files.save_overload(("int",), Compiled(1))
    files.save_overload(("float",), Compiled(2))
    KernelCache(entries_in(tmp_path), "other kernel").save_overload(("int",), Compiled(3))
    assert files.load_overload(("int",), Context()) == ("rebuilt", 1)
    assert files.load_overload(("float",), Context()) == ("rebuilt", 2)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".code"] * 3


def test_addresses_of_this_process_are_not_kept(files: KernelCache, tmp_path: Path) -> None:
    files.save_overload(("int",), Compiled(1, dynamic=True))
    assert list(tmp_path.iterdir()) == []


class Bomb:
    """Raises a given exception when it is unpickled."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __reduce__(self) -> Any:
        return _explode, (self.error,)


def _explode(error: type[BaseException]) -> None:
    raise error("damaged")


@pytest.mark.parametrize(
    "damage",
    [
        lambda _data: b"",
        lambda data: data[:10],
        lambda data: data[:-1],
        lambda data: data + b"more",
        lambda _data: b"garbage" * 100,
        lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
    ],
)
def test_a_damaged_entry_is_none(files: KernelCache, tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    files.save_overload(("int",), Compiled(1))
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert files.load_overload(("int",), Context()) is None
    files.save_overload(("int",), Compiled(1))
    assert files.load_overload(("int",), Context()) == ("rebuilt", 1)


@pytest.mark.parametrize(
    "content",
    [
        b"garbage",
        pickle.dumps("no pair"),
        pickle.dumps(("another key", (1,))),
        *(
            pickle.dumps(Bomb(error))
            for error in (KeyError, ImportError, RecursionError, MemoryError, AssertionError, SystemError)
        ),
    ],
)
def test_an_entry_that_cannot_be_unpickled_is_none(files: KernelCache, tmp_path: Path, content: bytes) -> None:
    """Written by this user, by its MAC, but by another version."""
    files.save_overload(("int",), Compiled(1))
    (path,) = tmp_path.iterdir()
    files._entries.save(path.name, content)
    assert files.load_overload(("int",), Context()) is None


def test_an_entry_that_cannot_be_rebuilt_is_none(files: KernelCache, monkeypatch: pytest.MonkeyPatch) -> None:
    files.save_overload(("int",), Compiled(1))
    monkeypatch.setattr(cache.compiler.CompileResult, "_rebuild", lambda *_parts: 1 / 0)
    assert files.load_overload(("int",), Context()) is None


def test_an_entry_under_the_name_of_another_is_none(files: KernelCache, tmp_path: Path) -> None:
    files.save_overload(("int",), Compiled(1))
    (first,) = tmp_path.iterdir()
    content = first.read_bytes()
    first.unlink()
    files.save_overload(("float",), Compiled(2))
    (second,) = tmp_path.iterdir()
    second.write_bytes(content)
    assert files.load_overload(("float",), Context()) is None


def full(*_arguments: Any, **_keywords: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("step", ["replace", "fdopen"])
def test_a_full_disk_is_no_error(
    files: KernelCache, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, step, full)
    files.save_overload(("int",), Compiled(1))
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


def test_no_place_and_no_pickle_are_no_errors(files: KernelCache, tmp_path: Path) -> None:
    files.save_overload(("int",), Compiled(sys._getframe()))
    (tmp_path / "removed").mkdir()
    removed = KernelCache(entries_in(tmp_path / "removed"), "kernel")
    (tmp_path / "removed").rmdir()
    removed.save_overload(("int",), Compiled(1))
    assert removed.load_overload(("int",), Context()) is None
    assert list(tmp_path.iterdir()) == []
