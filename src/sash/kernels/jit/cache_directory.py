"""A directory for machine code that no other user can write to.

Cache entries are unpickled and run, so each directory from the root of the file system to an entry is checked:

    /home/u/.cache       each parent belongs to root or to us, and no one else can rename its entries (as sshd requires
    │                    for the parents of authorized_keys)
    └── sash/            the base: ours, and writable for us alone
        ├── secret       32 random bytes, readable for us alone
        └── sash-kernels-<hash>/     ours, and writable for us alone
            └── <hash>.code          a regular file of ours; begins with a MAC keyed by the secret

Directories are held open, and files are opened relative to their descriptors: renaming or replacing a directory later
has no effect. Windows has neither owners nor descriptors of this kind: there paths are used, the permissions of
LOCALAPPDATA protect the directory, and only the MAC is checked.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

SECRET = "secret"
SECRET_SIZE = 32
MAC_SIZE = 32

LINKS = 40
"""The greatest number of symbolic links in a path, as in Linux."""

_POSIX = hasattr(os, "geteuid") and os.open in os.supports_dir_fd
_OPEN = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Follow no links, and do not wait for a writer if the file is a pipe."""


class Untrusted(PermissionError):
    """Another user could have put files there. The message names the path, the reason and the remedy."""


def candidates() -> Iterator[Path]:
    """The candidate directories, best first."""
    if chosen := os.environ.get("SASH_CACHE_DIR"):
        yield Path(chosen)
    if sys.platform == "win32":
        if local := os.environ.get("LOCALAPPDATA"):
            yield Path(local, "sash")
    elif sys.platform == "darwin":
        yield Path("~/Library/Caches/sash")
    else:
        yield Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "sash")
    with contextlib.suppress(FileNotFoundError):  # no temporary directory at all
        owner = os.geteuid() if hasattr(os, "geteuid") else os.environ.get("USERNAME", "user")
        yield Path(tempfile.gettempdir(), f"sash-{owner}")


# ---- the path to the base ----


def open_base(path: Path) -> Directory:
    """Open a base directory, and create it and its missing parents with mode 0700.

    Raises Untrusted if another user can write to it or replace it, OSError if it cannot be opened or created, and
    RuntimeError if the home directory is not known.
    """
    path = path.expanduser().absolute()
    if not _POSIX:
        path.mkdir(parents=True, exist_ok=True)
        return Directory(path)
    return Directory(_resolve(path))


def _resolve(path: Path) -> Path:
    """The path without symbolic links, checked from the root on: no one else can change the checked part."""
    current = Path(path.anchor)
    left = list(reversed(path.parts))
    links = 0
    while left:
        parent = os.lstat(current)
        _check_parent(current, parent)
        part = left.pop()
        step = current.parent if part == ".." else current / part  # the root, if a link is an absolute path
        if not stat.S_ISLNK(_made(step).st_mode):
            current = step
            continue
        _check_link(step, parent)
        links += 1
        if links > LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        left.extend(reversed(Path(os.readlink(step)).parts))
    return current


def _made(path: Path) -> os.stat_result:
    """The status of a directory, created if it is missing with access for us alone, whatever the umask."""
    try:
        return os.lstat(path)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):  # another process was first
            os.mkdir(path, 0o700)
        return os.lstat(path)


def _check_parent(path: Path, status: os.stat_result) -> None:
    """Raise Untrusted if others can rename entries of a directory. In a sticky one they can rename only their own."""
    if not _is_trusted_owner(status.st_uid):
        raise Untrusted(f"{path} belongs to user {status.st_uid}, neither to root nor to user {os.geteuid()}")
    if _is_shared(status) and not status.st_mode & stat.S_ISVTX and not _is_private_group(status):
        raise Untrusted(_writable(path, status))


def _check_link(path: Path, parent: os.stat_result) -> None:
    """Raise Untrusted if another user may have created a link: in /tmp anyone can, and hard links keep their owner."""
    owner = os.lstat(path).st_uid
    if (_is_shared(parent) and parent.st_mode & stat.S_ISVTX) or not _is_trusted_owner(owner):
        raise Untrusted(
            f"{path} is a symbolic link of user {owner} that other users may have made: remove it, or use its target"
        )


def _is_trusted_owner(user: int) -> bool:
    """Is it root or this user? In a user namespace root has another number: that of the owner of /."""
    return user in (0, os.geteuid(), os.lstat("/").st_uid)


def _is_shared(status: os.stat_result) -> bool:
    return bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _is_private_group(status: os.stat_result) -> bool:
    """Is the directory writable for a group whose only member is this user?

    Many systems give each user a group of the same name and the umask 002, so that `~/.cache` is group-writable.
    """
    import grp
    import pwd

    if status.st_mode & stat.S_IWOTH or status.st_gid == 0:
        return False
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    own = user.pw_gid == group.gr_gid and user.pw_name == group.gr_name
    return own and set(group.gr_mem) <= {user.pw_name}


def _writable(path: Path, status: os.stat_result) -> str:
    others = "everyone" if status.st_mode & stat.S_IWOTH else f"group {status.st_gid}"
    return f"{path} is writable for {others} (mode {stat.S_IMODE(status.st_mode):04o}): chmod go-w {path}"


# ---- directories and files of ours ----


def _check_own(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise Untrusted(f"{path} belongs to user {status.st_uid}, not to user {os.geteuid()}")
    if _is_shared(status):
        raise Untrusted(_writable(path, status))


def _is_own_file(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not _is_shared(status)


def is_entry(status: os.stat_result) -> bool:
    """Is it a file of ours with one name? Another user may create a hard link. (No name: it was just replaced.)"""
    return _is_own_file(status) and status.st_nlink <= 1


def is_secret(status: os.stat_result) -> bool:
    """Is it a file that only we can read? It has two names for a moment while it is created."""
    return _is_own_file(status) and not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)


class Directory:
    """An open directory that belongs to us and that no one else can write to.

    Raises Untrusted if this is not so, and OSError if it cannot be opened.
    """

    def __init__(self, path: Path, parent: Directory | None = None) -> None:
        self.path = path
        self._descriptor: int | None = None
        if not _POSIX:
            return
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        if parent is None:
            self._descriptor = os.open(path, flags)
        else:
            self._descriptor = os.open(path.name, flags, dir_fd=parent._at())
        try:
            status = os.fstat(self._descriptor)
            self._identity = status.st_dev, status.st_ino
            _check_own(path, status)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor; nothing can be read or written afterwards."""
        if self._descriptor is not None and self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def child(self, name: str) -> Directory:
        """Open a directory in this one, created if it is missing."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._name(name), 0o700, dir_fd=self._at())
        return Directory(self.path / name, self)

    def read(self, name: str, fits: Callable[[os.stat_result], bool]) -> bytes | None:
        """Read a file and mark it as used; None unless its status `fits`. Raises OSError."""
        descriptor = os.open(self._name(name), os.O_RDONLY | _OPEN, dir_fd=self._at())
        try:
            if _POSIX and not fits(os.fstat(descriptor)):
                return None
            with contextlib.suppress(OSError):
                os.utime(descriptor if os.utime in os.supports_fd else self._name(name))
            with open(descriptor, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(descriptor)

    def replace(self, name: str, data: bytes) -> None:
        """Write a file atomically, in place of an existing one. Raises OSError."""
        with self._written(data) as part:
            at = self._at()
            os.replace(part, self._name(name), src_dir_fd=at, dst_dir_fd=at)

    def add(self, name: str, data: bytes) -> None:
        """Write a new file atomically. Raises FileExistsError if it exists, and OSError."""
        with self._written(data) as part:
            at = self._at()
            os.link(part, self._name(name), src_dir_fd=at, dst_dir_fd=at)

    def open_lock(self, name: str) -> int:
        """Open a file for locks, created if missing, and mark it as used; returns its descriptor. Raises OSError."""
        descriptor = os.open(self._name(name), os.O_RDWR | os.O_CREAT | _OPEN, 0o600, dir_fd=self._at())
        with contextlib.suppress(OSError):
            os.utime(descriptor if os.utime in os.supports_fd else self._name(name))
        return descriptor

    @contextlib.contextmanager
    def _written(self, data: bytes) -> Iterator[str]:
        """Write a temporary file with this content; it is removed at the end if it still exists."""
        part = self._name(f"{secrets.token_hex(8)}.part")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN, 0o600, dir_fd=self._at())
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            yield part
        finally:
            with contextlib.suppress(OSError):
                os.unlink(part, dir_fd=self._at())

    def touch(self) -> None:
        """Mark the directory as used now. Raises OSError if it cannot be written."""
        with self._written(b""):
            os.utime(self.path if self._descriptor is None else self._descriptor)

    def prune(self, kept: int, prefix: str = "", spare: str = "") -> None:
        """Remove all but the newest `kept` entries with a prefix; other processes may remove entries meanwhile."""
        at = self._at()
        names = os.listdir(self.path if at is None else at)
        names = [name for name in names if name.startswith(prefix) and name != spare]
        if len(names) <= kept:
            return
        ages = []
        for name in names:
            with contextlib.suppress(OSError):
                ages.append((os.stat(self._name(name), dir_fd=at, follow_symlinks=False).st_mtime, name))
        for _, name in sorted(ages, reverse=True)[kept:]:
            self._remove(name)

    def _remove(self, name: str) -> None:
        try:
            os.unlink(self._name(name), dir_fd=self._at())
        except FileNotFoundError:
            pass
        except OSError:  # a directory: EISDIR, EPERM or EACCES, depending on the system
            shutil.rmtree(self._name(name), ignore_errors=True, dir_fd=self._at())

    def _name(self, name: str) -> str:
        """A name relative to the descriptor, or a path if there is none."""
        return str(self.path / name) if self._descriptor is None else name

    def _at(self) -> int | None:
        """The descriptor, after a check that it is still that of this directory.

        A process that becomes a daemon closes all descriptors, and their numbers are reused. Raises OSError.
        """
        if self._descriptor is None:
            return None
        status = os.fstat(self._descriptor)
        if (status.st_dev, status.st_ino) != self._identity:
            raise OSError(errno.EBADF, "the descriptor was closed and used again", str(self.path))
        _check_own(self.path, status)
        return self._descriptor


# ---- authenticated entries ----


def shared_secret(base: Directory) -> bytes:
    """The secret of a base directory, created by the first process if several start at once.

    A secret that is damaged, or that others could read, is replaced; entries written with it are compiled again.
    Raises OSError if no secret can be stored.
    """
    if found := _secret(base):
        return found
    with contextlib.suppress(OSError):  # there is one, or the file system has no hard links
        base.add(SECRET, secrets.token_bytes(SECRET_SIZE))
    if found := _secret(base):
        return found
    base.replace(SECRET, secrets.token_bytes(SECRET_SIZE))
    if found := _secret(base):
        return found
    raise OSError(errno.EIO, "the secret cannot be read back", str(base.path / SECRET))


def _secret(base: Directory) -> bytes | None:
    with contextlib.suppress(OSError):
        found = base.read(SECRET, is_secret)
        return found if found is not None and len(found) == SECRET_SIZE else None
    return None


class Entries:
    """The entries of a directory. Each starts with a MAC of its content, its name and that of the directory."""

    def __init__(self, directory: Directory, secret: bytes) -> None:
        self.path, self.directory = directory.path, directory
        self._key = hashlib.blake2b(directory.path.name.encode(), key=secret, digest_size=MAC_SIZE).digest()

    def load(self, name: str) -> memoryview | None:
        """Load the content of an entry; None if it is not ours or damaged. Raises OSError."""
        data = self.directory.read(name, is_entry)
        if data is None:
            return None
        content = memoryview(data)[MAC_SIZE:]
        return content if hmac.compare_digest(data[:MAC_SIZE], self._mac(name, content)) else None

    def save(self, name: str, content: bytes) -> None:
        """Save the content of an entry. Raises OSError."""
        self.directory.replace(name, self._mac(name, content) + content)

    def _mac(self, name: str, content: bytes | memoryview) -> bytes:
        mac = hashlib.blake2b(name.encode() + b"\0", key=self._key, digest_size=MAC_SIZE)
        mac.update(content)
        return mac.digest()
