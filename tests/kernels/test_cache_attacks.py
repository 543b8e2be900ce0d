"""Attacks on the cache of machine code: who can put a file there must not get it run.

An attacker's file carries a payload that runs when it is unpickled. As root the tests give such files to another user;
as any other user the files stay ours, and the MAC has to stop them.
"""

import contextlib
import hashlib
import os
import pickle
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sash.kernels.jit import cache
from sash.kernels.jit.cache_directory import MAC_SIZE
from tests.kernels.test_cache_entries import Compiled, Context

STRANGER = 12345
SIGNATURE = ("int",)
OURS = "compiled by us"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")

ran: list[str] = []
"""Payloads that were unpickled."""


class Payload:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> Any:
        return _attack, ()


def _attack() -> None:
    ran.append("attack")


def kernel() -> None:
    """A kernel by name only: nothing is compiled."""


@pytest.fixture(autouse=True)
def victim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A user whose candidates lie below the test's directory; the temporary directory is sticky, as /tmp is."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("SASH_CACHE_DIR", str(tmp_path / "chosen"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    monkeypatch.setattr(cache.compiler.CompileResult, "_rebuild", lambda _context, content: content)
    (tmp_path / "temporary").mkdir()
    (tmp_path / "temporary").chmod(0o1777)
    ran.clear()
    yield
    monkeypatch.undo()
    cache.directory.cache_clear()


def start() -> Any:
    """The cache of a kernel in a new process of the victim. Its warnings are tested elsewhere."""
    cache.directory.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        files = cache.use_cache(types.SimpleNamespace(py_func=kernel, _cache=None))._cache
    assert files is not None
    return files


def filled() -> Any:
    """The same, with an entry."""
    files = start()
    files.save_overload(SIGNATURE, Compiled(OURS))
    assert files.load_overload(SIGNATURE, Context()) == OURS
    return files


def load(files: Any) -> Any:
    found = files.load_overload(SIGNATURE, Context())
    assert ran == []
    return found


def give(path: Path, owner: int = STRANGER) -> None:
    """Give a file, directory or link to another user, where we may."""
    if os.geteuid() == 0:
        os.chown(path, owner, owner, follow_symlinks=False)


def plant(path: Path) -> None:
    """A file of the attacker's: the payload behind a hash that needs no secret."""
    payload = pickle.dumps(Payload())
    path.unlink(missing_ok=True)
    path.write_bytes(hashlib.blake2b(payload, digest_size=MAC_SIZE).digest() + payload)
    give(path)


def entry(below: Path) -> Path:
    (found,) = below.rglob("*.code")
    return found


def imitate(original: Path, path: Path) -> None:
    """A directory of the attacker's with the same names inside."""
    path.mkdir(parents=True)
    for file in original.rglob("*.code"):
        imitation = path / file.relative_to(original)
        imitation.parent.mkdir(exist_ok=True)
        plant(imitation)
        give(imitation.parent)
    give(path)


def test_the_payload_runs_when_it_is_unpickled() -> None:
    pickle.loads(pickle.dumps(Payload()))
    assert ran == ["attack"]


# ---- directories that others can write to ----


@pytest.mark.parametrize("mode", [0o770, 0o775, 0o1775])
def test_kernels_exchanged_in_a_base_that_a_group_can_write(tmp_path: Path, mode: int) -> None:
    """A member of the group exchanges the directory of kernels after the victim has checked it."""
    (tmp_path / "chosen").mkdir()
    (tmp_path / "chosen").chmod(mode)
    files = filled()
    kernels = entry(tmp_path).parent
    moved = kernels.rename(tmp_path / "moved")
    imitate(moved, kernels)
    assert load(files) == OURS, "what the descriptor leads to has not changed"
    load(start())


@pytest.mark.parametrize("mode", [0o770, 0o775, 0o777, 0o1777])
@pytest.mark.parametrize("name", ["chosen", "xdg"])
def test_a_base_that_others_can_write_is_refused(tmp_path: Path, name: str, mode: int) -> None:
    base = tmp_path / name / "sash" if name == "xdg" else tmp_path / name
    base.mkdir(parents=True)
    base.chmod(mode)
    if name == "xdg":
        (tmp_path / "chosen").touch()  # in the way, so that this candidate's turn comes
    cache.directory.cache_clear()
    with pytest.warns(RuntimeWarning, match=rf"{base} is writable for .*mode {mode:04o}.*chmod go-w.*SASH_CACHE_DIR"):
        found = cache.directory()
    assert found is not None
    assert not found.path.is_relative_to(base)
    assert list(base.iterdir()) == [], "nothing is written there, not even the secret"


@needs_root
def test_a_base_of_roots_that_a_group_can_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root owns the base, for a group. A member of it has made the directory for the victim, who is not root."""
    base = tmp_path / "chosen"
    kernels = base / (cache.PREFIX + cache.sources_key())
    kernels.mkdir(parents=True)
    base.chmod(0o775)
    give(kernels)
    monkeypatch.setattr(os, "getuid", lambda: STRANGER)
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    cache.directory.cache_clear()
    with pytest.warns(RuntimeWarning, match=f"{base} belongs to user 0, not to user {STRANGER}"):
        assert cache.directory() is None


@needs_root
@pytest.mark.parametrize("part", ["chosen", "chosen/base"])
def test_a_directory_of_another_user_is_refused(tmp_path: Path, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a closed one, also for root, also as a parent: its owner can exchange what is in it."""
    monkeypatch.setenv("SASH_CACHE_DIR", str(tmp_path / "chosen" / "base"))
    (tmp_path / "chosen" / "base").mkdir(parents=True)
    give(tmp_path / part)
    cache.directory.cache_clear()
    with pytest.warns(RuntimeWarning, match=rf"{part} belongs to user {STRANGER}"):
        found = cache.directory()
    assert found is not None
    assert found.path.is_relative_to(tmp_path / "xdg")


@pytest.mark.parametrize(("mode", "refused"), [(0o770, True), (0o777, True), (0o1777, False), (0o755, False)])
def test_a_parent_that_others_can_write(
    tmp_path: Path, mode: int, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SASH_CACHE_DIR", str(tmp_path / "parent" / "between" / "base"))
    (tmp_path / "parent").mkdir()
    (tmp_path / "parent").chmod(mode)
    monkeypatch.setattr("sash.kernels.jit.cache_directory._is_private_group", lambda _status: False)
    cache.directory.cache_clear()
    expected = pytest.warns(RuntimeWarning, match=f"{tmp_path / 'parent'} is writable for")
    with expected if refused else contextlib.nullcontext():
        found = cache.directory()
    assert found is not None
    assert found.path.is_relative_to(tmp_path / "parent") != refused
    assert (tmp_path / "parent" / "between").exists() != refused, "nothing is made where it can be exchanged"


# ---- symbolic links ----


@pytest.mark.parametrize("planted", [False, True])
def test_a_link_in_the_temporary_directory(tmp_path: Path, planted: bool) -> None:
    """The attacker lets the fallback lead to a directory of the victim's, and to his own after the check."""
    for name in ("chosen", "xdg"):
        (tmp_path / name).touch()
    link = tmp_path / "temporary" / f"sash-{os.getuid()}"
    (tmp_path / "ours").mkdir()
    link.symlink_to(tmp_path / "ours")
    if planted:
        give(link)
    cache.directory.cache_clear()
    with pytest.warns(RuntimeWarning, match=rf"{link} is a symbolic link .*SASH_CACHE_DIR"):
        assert cache.directory() is None
    assert list((tmp_path / "ours").iterdir()) == []


def test_a_link_that_is_moved_after_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link of one's own is followed; where it leads later is not checked again."""
    monkeypatch.setenv("SASH_CACHE_DIR", str(tmp_path / "link"))
    link, ours = tmp_path / "link", tmp_path / "ours"
    ours.mkdir()
    link.symlink_to("ours")
    files = filled()
    imitate(ours, tmp_path / "theirs")
    link.unlink()
    link.symlink_to("theirs")
    give(link)
    assert load(files) == OURS
    load(start())


def test_links_of_ones_own_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on clusters, where `~/.cache` leads to a larger disk: absolute, relative, upwards, one after the other."""
    (tmp_path / "disk" / "deep").mkdir(parents=True)
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to("disk/deep/../deep")
    monkeypatch.setenv("SASH_CACHE_DIR", str(tmp_path / "one" / ".." / "base"))
    cache.directory.cache_clear()
    found = cache.directory()
    assert found is not None
    assert found.path.parent == tmp_path / "disk" / "base"


def test_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "chosen").symlink_to("chosen")
    cache.directory.cache_clear()
    found = cache.directory()
    assert found is not None
    assert found.path.is_relative_to(tmp_path / "xdg")


# ---- files ----


def signed(path: Path, secret: bytes) -> None:
    """The payload with the MAC that belongs there, so that only the checks of the file are left to stop it."""
    payload = pickle.dumps(Payload())
    key = hashlib.blake2b(path.parent.name.encode(), key=secret, digest_size=MAC_SIZE).digest()
    mac = hashlib.blake2b(path.name.encode() + b"\0" + payload, key=key, digest_size=MAC_SIZE).digest()
    path.unlink()
    path.write_bytes(mac + payload)
    path.chmod(0o600)


def linked(path: Path) -> None:
    path.rename(path.with_suffix(".other"))
    path.symlink_to(path.with_suffix(".other").name)


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def directed(path: Path) -> None:
    path.unlink()
    path.mkdir()


CHANGES: dict[str, Callable[[Path], Any]] = {
    "group-writable": lambda path: path.chmod(0o620),
    "world-writable": lambda path: path.chmod(0o602),
    "hard link": lambda path: os.link(path, path.with_suffix(".other")),
    "symbolic link": linked,
    "pipe": piped,
    "directory": directed,
}


def test_a_payload_with_the_right_mac_would_run(tmp_path: Path) -> None:
    files = filled()
    signed(entry(tmp_path), (tmp_path / "chosen" / "secret").read_bytes())
    files.load_overload(SIGNATURE, Context())
    assert ran == ["attack"], "so that the tests below can fail"


@pytest.mark.parametrize(
    "change", [*CHANGES.values(), pytest.param(give, marks=needs_root)], ids=[*CHANGES, "another's"]
)
def test_a_file_that_is_not_ours_alone_is_not_unpickled(tmp_path: Path, change: Callable[[Path], Any]) -> None:
    files = filled()
    path = entry(tmp_path)
    signed(path, (tmp_path / "chosen" / "secret").read_bytes())
    change(path)
    assert load(files) is None
    if not path.is_dir():
        files.save_overload(SIGNATURE, Compiled(OURS))
        assert load(files) == OURS, "it is compiled and written again"


def test_a_payload_without_the_secret_is_not_unpickled(tmp_path: Path) -> None:
    files = filled()
    plant(entry(tmp_path))
    entry(tmp_path).chmod(0o600)
    give(entry(tmp_path), os.geteuid())
    assert load(files) is None


def test_an_entry_of_another_name_or_version_is_not_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = filled()
    path = entry(tmp_path)
    content = path.read_bytes()
    unpickled: list[Any] = []
    monkeypatch.setattr(cache.pickle, "loads", unpickled.append)
    files.save_overload(("float",), Compiled(OURS))
    (other,) = set(path.parent.glob("*.code")) - {path}
    other.write_bytes(content)
    assert files.load_overload(("float",), Context()) is None
    monkeypatch.setattr(cache, "sources_key", lambda: "later")
    later = start()
    (tmp_path / "chosen" / f"{cache.PREFIX}later" / path.name).write_bytes(content)
    assert later.load_overload(SIGNATURE, Context()) is None
    assert unpickled == []


def test_a_directory_that_is_opened_to_others_later(tmp_path: Path) -> None:
    files = filled()
    entry(tmp_path).parent.chmod(0o777)
    assert load(files) is None


def test_the_descriptor_of_another_directory(tmp_path: Path) -> None:
    """A process that becomes a daemon closes all descriptors, and gets their numbers again."""
    files = filled()
    original = entry(tmp_path)
    imitate(original.parent, tmp_path / "theirs")
    descriptor = files._entries.directory._descriptor
    theirs = os.open(tmp_path / "theirs", os.O_RDONLY)
    os.dup2(theirs, descriptor)
    os.close(theirs)
    assert load(files) is None
    before = original.read_bytes()
    files.save_overload(SIGNATURE, Compiled(OURS))
    assert original.read_bytes() == before
    assert sorted(path.name for path in (tmp_path / "theirs").iterdir()) == [original.name], "nothing was written there"
    assert pickle.dumps(Payload()) in (tmp_path / "theirs" / original.name).read_bytes()
