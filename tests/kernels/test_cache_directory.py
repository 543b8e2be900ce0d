"""The directory of the cache: its modes, its secret, private groups, and systems without descriptors."""

import errno
import grp
import os
import pwd
import stat
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sash.kernels.jit import cache_directory
from sash.kernels.jit.cache_directory import (
    SECRET,
    SECRET_SIZE,
    Directory,
    Entries,
    Untrusted,
    is_entry,
    open_base,
    shared_secret,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Directory]:
    with open_base(tmp_path / "base") as opened:
        yield opened


@pytest.fixture(params=["descriptors", "paths"])
def either(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Directory]:
    """A base as POSIX has it, and as Windows has it."""
    if request.param == "paths":
        monkeypatch.setattr(cache_directory, "_POSIX", False)
        monkeypatch.delattr(os, "geteuid")
    with open_base(tmp_path / "parent" / "base") as opened:
        assert (opened._descriptor is None) == (request.param == "paths")
        yield opened


# ---- modes ----


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_all_that_is_made_is_for_us_alone(tmp_path: Path, umask: int) -> None:
    """Also the parents: `~/.cache` that is made under the umask 002 would be refused the next time."""
    before = os.umask(umask)
    try:
        with open_base(tmp_path / "home" / ".cache" / "sash") as base, base.child("kernels") as kernels:
            Entries(kernels, shared_secret(base)).save("a.code", b"content")
    finally:
        os.umask(before)
    made = {path.relative_to(tmp_path).as_posix(): mode(path) for path in tmp_path.rglob("*")}
    assert made == {
        "home": 0o700,
        "home/.cache": 0o700,
        "home/.cache/sash": 0o700,
        "home/.cache/sash/secret": 0o600,
        "home/.cache/sash/kernels": 0o700,
        "home/.cache/sash/kernels/a.code": 0o600,
    }


def test_what_is_there_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir(mode=0o755)
    (tmp_path / "base").chmod(0o755)
    open_base(tmp_path / "base").close()
    assert mode(tmp_path / "base") == 0o755
    (tmp_path / "base").chmod(0o775)
    with pytest.raises(Untrusted, match=r"base is writable for group \d+ \(mode 0775\): chmod go-w .*base"):
        open_base(tmp_path / "base")
    assert mode(tmp_path / "base") == 0o775


@pytest.mark.parametrize(
    ("group", "members", "user_group", "accepted"),
    [
        ("ann", [], 1000, True),
        ("ann", ["ann"], 1000, True),
        ("ann", ["ann", "bob"], 1000, False),
        ("staff", [], 1000, False),
        ("ann", [], 1001, False),
    ],
)
def test_parents_may_be_writable_for_a_private_group(
    group: str, members: list[str], user_group: int, accepted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with the umask 002 of Debian and Fedora, where each user has a group of the same name."""
    user = types.SimpleNamespace(pw_name="ann", pw_gid=user_group)
    monkeypatch.setattr(pwd, "getpwuid", lambda _uid: user)
    monkeypatch.setattr(grp, "getgrgid", lambda gid: types.SimpleNamespace(gr_name=group, gr_gid=gid, gr_mem=members))
    status = types.SimpleNamespace(st_uid=os.geteuid(), st_gid=1000, st_mode=stat.S_IFDIR | 0o775)
    if accepted:
        cache_directory._check_parent(Path("/home/ann"), status)
    else:
        with pytest.raises(Untrusted, match=r"/home/ann is writable for group 1000 \(mode 0775\)"):
            cache_directory._check_parent(Path("/home/ann"), status)


def test_a_group_of_nobody_we_know_is_not_private(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> Any:
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    status = types.SimpleNamespace(st_uid=os.geteuid(), st_gid=1000, st_mode=stat.S_IFDIR | 0o775)
    assert not cache_directory._is_private_group(status)


def test_the_group_of_root_is_not_private() -> None:
    """Containers run users of any number in group 0."""
    status = types.SimpleNamespace(st_uid=os.geteuid(), st_gid=0, st_mode=stat.S_IFDIR | 0o775)
    assert not cache_directory._is_private_group(status)


def test_the_owner_of_the_root_directory_is_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a user namespace root appears under another number."""
    lstat, number = os.lstat, os.geteuid() + 1
    other = types.SimpleNamespace(st_uid=number, st_gid=number, st_mode=stat.S_IFDIR | 0o755)
    with pytest.raises(Untrusted, match=f"/home belongs to user {number}, neither to root nor to"):
        cache_directory._check_parent(Path("/home"), other)
    monkeypatch.setattr(os, "lstat", lambda path: other if str(path) == "/" else lstat(path))
    cache_directory._check_parent(Path("/home"), other)


# ---- the secret ----


def test_the_secret_is_made_once(base: Directory) -> None:
    first = shared_secret(base)
    assert len(first) == SECRET_SIZE
    assert (base.path / SECRET).read_bytes() == first == shared_secret(base)
    assert os.listdir(base.path) == [SECRET], "no temporary file is left"


def test_ten_at_once_have_one_secret(base: Directory) -> None:
    barrier = threading.Barrier(10)
    found: list[bytes] = []

    def process() -> None:
        with open_base(base.path) as own:
            barrier.wait()
            found.append(shared_secret(own))

    threads = [threading.Thread(target=process) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 10
    assert set(found) == {(base.path / SECRET).read_bytes()}
    assert os.listdir(base.path) == [SECRET]


def test_the_secret_of_the_first_is_taken(base: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process makes the secret after this one has looked for it, and its temporary file still exists."""
    link = os.link

    def beaten(*arguments: Any, **keywords: Any) -> None:
        (base.path / "other.part").write_bytes(b"x" * SECRET_SIZE)
        (base.path / "other.part").chmod(0o600)
        link(base.path / "other.part", base.path / SECRET)
        link(*arguments, **keywords)

    monkeypatch.setattr(os, "link", beaten)
    assert shared_secret(base) == b"x" * SECRET_SIZE


def test_a_file_system_without_hard_links(base: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_arguments: Any, **_keywords: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", unsupported)
    assert shared_secret(base) == shared_secret(base) == (base.path / SECRET).read_bytes()
    assert os.listdir(base.path) == [SECRET]


@pytest.mark.parametrize(("content", "permissions"), [(b"", 0o600), (b"short", 0o600), (b"x" * SECRET_SIZE, 0o640)])
def test_a_damaged_or_readable_secret_is_replaced(base: Directory, content: bytes, permissions: int) -> None:
    (base.path / SECRET).write_bytes(content)
    (base.path / SECRET).chmod(permissions)
    new = shared_secret(base)
    assert new not in (content, b"x" * SECRET_SIZE)
    assert new == shared_secret(base)
    assert mode(base.path / SECRET) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_secret_of_another_user_is_replaced(base: Directory) -> None:
    known = shared_secret(base)
    os.chown(base.path / SECRET, 12345, 12345)
    assert shared_secret(base) != known


def test_a_link_is_no_secret(base: Directory, tmp_path: Path) -> None:
    (tmp_path / "known").write_bytes(b"x" * SECRET_SIZE)
    (tmp_path / "known").chmod(0o600)
    (base.path / SECRET).symlink_to(tmp_path / "known")
    assert shared_secret(base) != b"x" * SECRET_SIZE
    assert (tmp_path / "known").read_bytes() == b"x" * SECRET_SIZE


# ---- files, also where there are no descriptors ----


def test_entries(either: Directory) -> None:
    secret = shared_secret(either)
    with either.child("kernels") as kernels:
        kernels.touch()
        entries = Entries(kernels, secret)
        entries.save("a.code", b"first")
        entries.save("a.code", b"second")
        with either.child("kernels") as again:
            assert Entries(again, shared_secret(either)).load("a.code") == b"second"
        (kernels.path / "a.code").write_bytes(b"third")
        assert entries.load("a.code") is None
        with pytest.raises(FileNotFoundError):
            entries.load("b.code")
        assert os.listdir(kernels.path) == ["a.code"]


def test_a_file_is_added_once(either: Directory) -> None:
    either.add("a", b"first")
    with pytest.raises(FileExistsError):
        either.add("a", b"second")
    assert either.read("a", is_entry) == b"first"
    assert os.listdir(either.path) == ["a"]


def test_reading_marks_a_file_as_used(either: Directory) -> None:
    either.replace("a", b"content")
    os.utime(either.path / "a", (1e9, 1e9))
    either.read("a", is_entry)
    assert (either.path / "a").stat().st_mtime > 1e9


def test_pruning(either: Directory) -> None:
    for age, name in enumerate(["a-spared", "a-new", "a-newer", "b-other", "a-file", "a-folder"]):
        if name == "a-file":
            either.replace(name, b"")
        else:
            (either.path / name / "inside").mkdir(parents=True)
        os.utime(either.path / name, (1e9 - age, 1e9 - age))
    either.prune(2, "a-", spare="a-spared")
    assert sorted(os.listdir(either.path)) == ["a-new", "a-newer", "a-spared", "b-other"]


def test_what_another_process_removes_is_no_error(either: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    either.replace("a", b"")
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: [*listed(path), "gone"])
    either.prune(0)
    monkeypatch.undo()
    assert os.listdir(either.path) == []
    either._remove("gone")


def test_pruning_does_not_follow_links(either: Directory, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").touch()
    (either.path / "a").symlink_to(tmp_path / "elsewhere")
    either.prune(0)
    assert os.listdir(either.path) == []
    assert os.listdir(tmp_path / "elsewhere") == ["file"]


def test_a_refused_directory_is_closed(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base").chmod(0o777)
    before = os.open("/", os.O_RDONLY)
    os.close(before)
    with pytest.raises(Untrusted):
        open_base(tmp_path / "base")
    after = os.open("/", os.O_RDONLY)
    os.close(after)
    assert after == before, "the lowest free number is the same"


def test_a_closed_directory_reads_nothing(base: Directory) -> None:
    base.replace("a", b"content")
    base.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        base.read("a", is_entry)
