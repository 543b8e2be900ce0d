"""A store in a directory: RocksDB, embedded in the process. The durable default.

    writer ──put_many──▶ WAL ──▶ memtable ──flush──▶ SST files ──▶ compaction
                          │                             │
    reader ◀──refresh()───┴─────────────────────────────┘      (a secondary instance, other processes too)

One process writes: RocksDB locks the directory. Others read at the same time with `read_only=True`. They see the
version of their last `refresh`.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from weakref import WeakSet, finalize

from sash.stores.memory import Views
from sash.stores.store import (
    ClosedAtEnd,
    Reads,
    StoreDamaged,
    StoreError,
    StoreInUse,
    StoreUnavailable,
    checked_names,
    encoded_names,
    encoded_pages,
)

try:
    import rocksdict
except ImportError as error:
    raise ImportError("RocksDBStore needs the package rocksdict: pip install 'sash[stores]'") from error

BLOCK_CACHE = 16 << 20
WRITE_BUFFER = 8 << 20
WRITE_BUFFERS = 3
"""Memory of a store: the cache of blocks, with indexes and filters, and the write buffers: 40 MiB, and what one call
reads or writes."""

WRITER = "sash-writer"
"""Name of the file that says which process writes, for messages; the lock itself is RocksDB's."""

_ROCKSDB_FILES = re.compile(
    r"LOCK|LOG(\.old\.\d+)?|IDENTITY|CURRENT|(MANIFEST|OPTIONS)-\d+(\.dbtmp)?|\d+\.(log|sst|blob|dbtmp)"
    rf"|rocksdict-config\.json|{WRITER}"
)
_CATCH_UP_SECONDS, _CATCH_UP_FAILURES = 10.0, 100
"""How long a reader tries to catch up with a writer that changes its files meanwhile, and after how many failed
attempts it gives up."""

_STILL = 0.1
"""For how many seconds attempts must fail on files that do not change: then no writer is the cause."""

_DAMAGE = re.compile(r"Corruption|No such file|switched to a new MANIFEST")
"""What RocksDB says of files that are damaged or missing, and of nothing else."""

_CONTENT = re.compile(r"\d+\.(sst|blob|log)|MANIFEST-(?!000001$)\d+")
"""Files that a store has only after it was created: one without CURRENT has lost it."""


class _FileList(NamedTuple):
    """The files of a store, as far as they tell what a reader has to read."""

    oldest_wal: int
    newest_wal: int
    manifests: tuple[tuple[str, int], ...]
    """Name and length of each file with a list of files: they grow before the writer deletes a file."""
    written: int
    """The length of the newest WAL: it grows with each write."""

    def has_same_files(self, other: _FileList | None) -> bool:
        """Has the writer neither created nor deleted files in between?"""
        return other is not None and self[:3] == other[:3]

    def follows(self, other: _FileList | None) -> bool:
        """Can a reader of an earlier version catch up?

        It reads the list of files from where it was, and prefers what it has read of a WAL to the file that replaces
        that, even if the WAL had more records when it was deleted. It drops that with the first record of a later WAL.
        """
        if other is None or [name for name, _ in self.manifests] != [name for name, _ in other.manifests]:
            return False
        return self.newest_wal == other.newest_wal or self.written > 0


_LOG_DAMAGE = re.compile(r"Corruption: (checksum mismatch|truncated|missing start|error|partial|bad|unknown)(?!.*/)")
"""What RocksDB says of its log (WAL): it names no file."""

_LOG_BLOCK, _RECORD = 32 << 10, struct.Struct("<4sHB")
"""Bytes of a block of a log; the header of a record: checksum, length, type."""

_RECORD_TYPES = 5
"""Records that a store writes have types below this. RocksDB loops forever on some damaged ones above."""

_SECTOR = 512
"""Bytes that a disk writes at once: a power failure leaves at least so many zeros where data was not written."""

_Recovery = rocksdict.DBRecoveryMode


def _options(read_only: bool, recovery: rocksdict.DBRecoveryMode | None = None) -> rocksdict.Options:
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(not read_only)
    options.set_wal_recovery_mode(recovery or _Recovery.point_in_time())
    options.set_write_buffer_size(WRITE_BUFFER)
    options.set_max_write_buffer_number(WRITE_BUFFERS)
    options.set_target_file_size_base(2 * WRITE_BUFFER)
    options.set_max_bytes_for_level_base(8 * WRITE_BUFFER)
    options.set_max_background_jobs(2)
    options.set_compression_type(rocksdict.DBCompressionType.lz4())
    options.set_manifest_preallocation_size(64 << 10)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    # A reader keeps its files open: those that the writer deletes stay readable for it.
    options.set_max_open_files(-1)
    blocks = rocksdict.BlockBasedOptions()
    blocks.set_block_cache(rocksdict.Cache(BLOCK_CACHE))
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
    blocks.set_bloom_filter(10, False)
    options.set_block_based_table_factory(blocks)
    return options


class RocksDBStore(ClosedAtEnd):
    """Pages in a directory of RocksDB.

    `read_only`: open while a writer is running, in this or in another process; `refresh` shows its later writes.
    `sync`: each write waits until the data is on disk. Without it, a write survives the end of the process, also by
    kill -9, but a power failure or a crash of the operating system can lose the last writes: whole writes, never a
    part of one.

    >>> import tempfile
    >>> store = RocksDBStore(tempfile.mkdtemp())
    >>> store.put_many({"b1": b"x", "a": b"y", "b0": b"z"})
    >>> store.get_many(["a", "c"]), list(store.scan("b"))
    ([b'y', None], [('b0', b'z'), ('b1', b'x')])
    >>> store.close()

    Raises StoreInUse if another writer has the directory open, StoreDamaged, naming the file, if files are damaged or
    missing, and StoreError, naming the path, if it cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False, sync: bool = False) -> None:
        if not os.fspath(path):
            raise ValueError("path is empty: pass the directory of the store")
        # RocksDB locks by the text of the path, so one directory needs one text.
        self.path = Path(path).resolve()
        self.read_only = read_only
        self._process = os.getpid()
        self._failed = False
        self._scans: WeakSet[_Scan] = WeakSet()
        self._write = rocksdict.WriteOptions()
        self._write.sync = sync
        self._db: rocksdict.Rdict | None = None
        self._read_from: _FileList | None = None
        self._views, self._catches_up = Views(), threading.Lock()
        if read_only:
            self._reader_directory = tempfile.mkdtemp(prefix="sash-reader-")
            self._clean_up = finalize(self, shutil.rmtree, self._reader_directory, ignore_errors=True)
            self._catch_up()
        else:
            self._db = self._writer()

    def _writer(self) -> rocksdict.Rdict:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            names = os.listdir(self.path)
        except OSError as error:
            raise StoreError(f"cannot open the store at {self.path}: {error.strerror or error}") from error
        self._require_current(names)
        foreign = sorted(name for name in names if not _ROCKSDB_FILES.fullmatch(name))
        if "CURRENT" not in names and foreign:
            raise StoreError(
                f"{self.path} is not a store and not empty (it has {foreign[0]!r}): use a separate directory"
            )
        self._require_content(names)
        try:
            db = self._open_whole()
        except Exception as error:
            if "lock hold by current process" in str(error) or "While lock file" in str(error):
                raise StoreInUse(
                    f"the store at {self.path} is open for writing {self._holder()}: close it there, or open it with "
                    "read_only=True"
                ) from error
            self.raise_failed("open", error)
        since = f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S %z}"
        try:
            (self.path / WRITER).write_text(
                f"in process {os.getpid()} on {socket.gethostname()} since {since}", "utf-8"
            )
        except OSError as error:
            db.close()
            raise StoreError(f"cannot write to the store at {self.path}: {error.strerror or error}") from error
        return db

    def _holder(self) -> str:
        try:
            return (self.path / WRITER).read_text("utf-8")[:200]
        except OSError:
            return "elsewhere"

    def _require_current(self, names: Iterable[str]) -> None:
        """Raises StoreDamaged for a store without the file CURRENT: RocksDB would create it again, empty."""
        if "CURRENT" not in names and any(_CONTENT.fullmatch(name) for name in names):
            raise self._damaged("the file CURRENT is missing")

    def _require_content(self, names: Iterable[str]) -> None:
        """Raises StoreDamaged for what RocksDB does not find.

        A log is missing or has unknown records, or the list of files lists none of them.
        """
        names = list(names)
        if WRITER in names and not any(name.endswith(".log") for name in names):
            raise self._damaged("its log, a file *.log, is missing, and its writer has not closed it")
        for name in names:
            if name.endswith(".log") and _has_unknown_record(self.path / name):
                raise self._damaged(f"{name}: unknown record type")
        files = sorted(name for name in names if name.endswith(".sst"))
        if files and "CURRENT" in names:
            try:
                written = self._last_write(_Recovery.point_in_time())
            except Exception:  # a writer changes its files, or the next step says what is damaged
                return
            if not written:
                manifest = (self.path / "CURRENT").read_text("utf-8").strip()
                raise self._damaged(f"{manifest}: it does not list {files[0]}")

    def _last_write(self, recovery: rocksdict.DBRecoveryMode) -> int:
        """The number of the last write that RocksDB finds; 0 if there is none. Nothing is changed."""
        access = rocksdict.AccessType.read_only()
        with tempfile.TemporaryDirectory(prefix="sash-reader-") as directory:
            options = _options(True, recovery)
            options.set_db_log_dir(directory)
            db = rocksdict.Rdict(str(self.path), options, access_type=access)
            try:
                return db.latest_sequence_number()
            finally:
                db.close()

    def _open_whole(self) -> rocksdict.Rdict:
        """Open for writing. Raises an error of RocksDB if a log is damaged, except at its end.

        A process that ends while it writes, or a power failure, leaves a log without its end: RocksDB opens the version
        before it. By default it does so wherever a log is damaged, and drops all later writes without an error.
        """
        try:
            return rocksdict.Rdict(str(self.path), _options(False, _Recovery.absolute_consistency()))
        except Exception as error:
            if not self._may_recover(error):
                raise
        return rocksdict.Rdict(str(self.path), _options(False))

    def _may_recover(self, error: Exception) -> bool:
        """Is an error of RocksDB due to a log such as a power failure or a killed write leaves?

        The end is missing, or is zeros that were never overwritten, and no later log follows.
        """
        if not _LOG_DAMAGE.search(str(error)):
            return False
        newest = max((file for file in self.path.glob("*.log") if file.stat().st_size), key=lambda file: int(file.stem))
        with newest.open("rb") as content:
            content.seek(max(0, newest.stat().st_size - _SECTOR))
            if not any(content.read()):
                return True
        try:
            tolerant = self._last_write(_Recovery.tolerate_corrupted_tail_records())
        except Exception:
            return False
        return tolerant == self._last_write(_Recovery.point_in_time())

    def _logs(self) -> str:
        """The names of the logs that have content."""
        return ", ".join(sorted(file.name for file in self.path.glob("*.log") if file.stat().st_size))

    def _damaged(self, what: object) -> StoreDamaged:
        return StoreDamaged(
            f"the store at {self.path} is damaged: {what}. Move the directory away and restore a backup (sash restore "
            "BACKUP STORE), or start without the state"
        )

    def raise_failed(self, verb: str, error: Exception) -> NoReturn:
        """Raises StoreDamaged if files are damaged, else StoreError."""
        if isinstance(error, StoreDamaged):
            raise error
        if _LOG_DAMAGE.search(str(error)):
            if self.read_only and self._may_recover(error):
                raise StoreError(
                    f"cannot read the store at {self.path}: the end of its log is missing, as after a power failure. "
                    "Open it for writing (sash run): that opens the version before it"
                ) from error
            raise self._damaged(f"{self._logs()}: {_damage(error)}") from error
        if _DAMAGE.search(str(error)):
            raise self._damaged(_damage(error)) from error
        raise StoreError(f"cannot {verb} the store at {self.path}: {error}") from error

    def _reader(self) -> rocksdict.Rdict:
        """A secondary instance. Raises an error of RocksDB if it does not have all that the writer has written.

        An instance that cannot open a file of the newest version shows the last version that is complete, perhaps
        none, without an error. One that only reads opens all files or fails.
        """
        self._require_content(os.listdir(self.path))
        try:
            written = self._last_write(_Recovery.absolute_consistency())
        except Exception as error:
            if not self._may_recover(error):
                raise
            written = self._last_write(_Recovery.point_in_time())
        access = rocksdict.AccessType.secondary(self._reader_directory)
        found = rocksdict.Rdict(str(self.path), _options(read_only=True), access_type=access)
        if found.latest_sequence_number() < written:
            raise StoreError("its files were replaced while they were opened")
        return found

    def _opened(self) -> rocksdict.Rdict:
        if self._db is None:
            raise StoreError(f"the store at {self.path} is closed")
        if os.getpid() != self._process:
            raise StoreError(
                f"the store at {self.path} was opened in process {self._process}, and this is its fork {os.getpid()}: "
                "open it in the process that uses it"
            )
        return self._db

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        """Return the pages of these names, in their order, from one version; None for a missing page."""
        db, names = self._opened(), encoded_names(ids)
        try:
            found: list[bytes | None] = db.get(names) if names else []  # type: ignore[arg-type,assignment]
        except Exception as error:
            self.raise_failed("read from", error)
        return found

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        """Write these pages atomically; existing pages of the same names are replaced.

        Raises TypeError, naming the page, if one is not bytes, and StoreUnavailable if the disk refuses the write.
        """
        batch = rocksdict.WriteBatch(raw_mode=True)
        for name, page in encoded_pages(pages):
            batch.put(name, page)
        self._views.keep(self, pages)
        self._commit(batch)

    def delete_many(self, ids: Iterable[str]) -> None:
        """Delete these pages atomically; missing pages are ignored."""
        batch, names = rocksdict.WriteBatch(raw_mode=True), checked_names(ids)
        for name in names:
            batch.delete(name.encode())
        self._views.keep(self, names)
        self._commit(batch)

    def _commit(self, batch: rocksdict.WriteBatch) -> None:
        db = self._opened()
        if self.read_only:
            raise StoreError(f"the store at {self.path} is open with read_only=True: only its writer can write")
        if not len(batch):
            return
        try:
            db.write(batch, self._write)
        except Exception as error:
            self._failed = True
            self._raise_unavailable(error)

    def _raise_unavailable(self, error: Exception) -> NoReturn:
        if "Corruption" in str(error):  # found by a compaction
            raise self._damaged(_damage(error)) from error
        if "No space left" in str(error):
            advice = "repeat the call some seconds after there is room"
        else:
            advice = "check the disk, then open the store again"
        raise StoreUnavailable(f"cannot write to the store at {self.path}: {error}; {advice}") from error

    def scan(self, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        """Iterate over the pages whose names begin with the prefix, in the order of their names, from one version."""
        found = _Scan(self, self._opened(), encoded_names([prefix])[0])
        self._scans.add(found)
        return found

    def view(self) -> AbstractContextManager[Reads]:
        """The pages as they are now, until the end of the `with` block, while another thread writes."""
        return self._views.view(self)

    def refresh(self) -> None:
        """Make the writer's commits so far visible. All reads until the next call see this version.

        A writer always sees its own writes, so for a writer this does nothing.
        """
        self._opened()
        if self.read_only:
            with self._catches_up:  # one thread at a time: the instance may be replaced
                self._catch_up()

    def _catch_up(self) -> None:
        if not (self.path / "CURRENT").exists():
            with suppress(OSError):
                self._require_current(os.listdir(self.path))
            raise StoreError(f"there is no store at {self.path}: a writer has to create it first")
        failure: Exception | None = None
        failures, end = 0, time.monotonic() + _CATCH_UP_SECONDS
        failed: tuple[_FileList | None, float] = None, 0.0
        while failures < _CATCH_UP_FAILURES and time.monotonic() < end:
            # A reader reads the list of files and then the WAL. If the writer changes the list or deletes a WAL in
            # between, the reader misses its contents, so it tries again.
            before = None
            try:
                before = self._files()
                if self._db is not None and before == self._read_from:
                    return  # nothing was written: 20 µs, and 300 with an attempt to catch up
                if self._db is not None and before.follows(self._read_from):
                    self._db.try_catch_up_with_primary()
                else:
                    self._db, self._read_from = self._reader(), None  # scans keep the old one open
                if before.has_same_files(self._files()):
                    self._read_from = before
                    return
            except PermissionError as error:  # rocksdict writes a file of its own, readers too
                raise StoreError(
                    f"cannot read the store at {self.path} without write permission in its directory: {error}"
                ) from error
            except Exception as error:  # e.g. the writer has deleted a file before it was opened
                failure, failures, self._read_from = error, failures + 1, None
                now = time.monotonic()
                if before is None or failed[0] != before:
                    failed = before, now
                elif now - failed[1] >= _STILL:
                    self.raise_failed("read", error)
                time.sleep(_STILL / 10)
        raise StoreUnavailable(
            f"cannot read the store at {self.path} while its writer is open: its files change all the time"
        ) from failure

    def _files(self) -> _FileList:
        oldest, newest, manifests, written = 1 << 62, -1, [], 0
        with os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.endswith(".log"):
                    number = int(entry.name[:-4])
                    oldest = min(oldest, number)
                    if number > newest:
                        newest, written = number, os.stat(entry.path).st_size
                elif entry.name.startswith("MANIFEST-"):
                    manifests.append((entry.name, os.stat(entry.path).st_size))
        return _FileList(oldest, newest, tuple(sorted(manifests)), written)

    def close(self) -> None:
        """Close the files and release the lock. A second call does nothing."""
        if self._db is None or os.getpid() != self._process:
            return
        for scan in list(self._scans):
            scan.stop()
        if not self.read_only:
            with suppress(OSError):
                (self.path / WRITER).unlink()
        db, self._db = self._db, None
        try:
            db.close()
        except Exception as error:
            if not self._failed:  # else a write has already raised; what was confirmed is in the WAL
                self._raise_unavailable(error)
        finally:
            if self.read_only:
                self._clean_up()

    def __repr__(self) -> str:
        return f"<RocksDBStore: {self.path}{', read only' * self.read_only}{', closed' * (self._db is None)}>"


class _Scan:
    """An iterator over the pages with a prefix, of one version. `close` of the store stops it, to release the lock."""

    def __init__(self, store: RocksDBStore, db: rocksdict.Rdict, prefix: bytes) -> None:
        self._store = store
        self._prefix = prefix
        self._items: Any = db.iter()
        self._items.seek(prefix)
        self._over = False

    def __iter__(self) -> _Scan:
        return self

    def __next__(self) -> tuple[str, bytes]:
        if self._over:
            raise StopIteration
        items = self._items
        if items is None:
            raise StoreError(f"the store at {self._store.path} was closed during a scan")
        try:
            if items.valid():
                name, page = items.key(), items.value()
                items.next()
                if name.startswith(self._prefix):
                    return name.decode(), page
            else:
                items.status()  # it also ends at a damaged block, and only the status says so
        except Exception as error:
            self._store.raise_failed("read from", error)
        self._over, self._items = True, None
        raise StopIteration

    def stop(self) -> None:
        """Release the files."""
        self._items = None


def _has_unknown_record(log: Path) -> bool:
    """Has a log a record of a type that no store writes?"""
    try:
        content = log.read_bytes()
    except FileNotFoundError:  # its writer has deleted it
        return False
    at = 0
    while at + _RECORD.size <= len(content):
        left = _LOG_BLOCK - at % _LOG_BLOCK
        if left >= _RECORD.size:
            _, length, kind = _RECORD.unpack_from(content, at)
            if kind >= _RECORD_TYPES:
                return True
            size = _RECORD.size + length
            left = left if kind == 0 or size > left else size
        at += left
    return False


def _damage(error: Exception) -> str:
    """What RocksDB says of a damaged file, in a few words and with the name of the file first."""
    text = re.sub(r"^((Corruption|IO error): )+", "", " ".join(str(error).split()))
    if "switched to a new MANIFEST" in text:
        return "the file MANIFEST that CURRENT names is missing"
    text = re.sub(r"\.? The file \S+ may be corrupted\.+$", "", text) if text.count("MANIFEST") < 2 else text
    named = re.search(r"[^\s/]+\.(sst|blob|log)\b|MANIFEST-\d+", text)
    text = re.split(r": stored\(|: While|: /|, type =| in (?=/)|,? expected (?=\d)| The file ", text)[0].rstrip(":")
    return f"{named[0]}: {text}" if named else text
