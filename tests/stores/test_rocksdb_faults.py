"""RocksDB where it cannot write: full disks, read-only directories, places that are no store."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import rocksdict

from sash.stores import RocksDBStore, StoreDamaged, StoreError, StoreUnavailable
from tests.shared.effort import share
from tests.stores.writing import ROOT

PAGES = {f"p{n}": os.urandom(100_000) for n in range(3)}


@contextmanager
def mounted(path: Path, *options: str) -> Iterator[Path]:
    """A file system in memory. Skips where nothing can be mounted: then the limits of a process stand in for it."""
    path.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", path], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"only root can mount a small file system: {done.stderr.decode().strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def fill(store: RocksDBStore) -> None:
    for number in range(20):
        store.put_many({f"{number} {name}": page for name, page in PAGES.items()})


def test_a_full_disk(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "-o", "size=3m") as disk:
        with RocksDBStore(disk / "store") as store:
            store.put_many({f"first {name}": page for name, page in PAGES.items()})
            message = rf"{disk}/store.*No space left.*repeat the call .* there is room"
            with pytest.raises(StoreUnavailable, match=message):
                fill(store)
            before = dict(store.scan())
            assert len(before) % 3 == 0, "a write is there as a whole or not at all"
            with pytest.raises(StoreUnavailable, match="No space left"):
                store.put_many(PAGES)
            assert dict(store.scan()) == before
        subprocess.run(["mount", "-o", "remount,size=60m", disk], check=True)
        with RocksDBStore(disk / "store") as store:
            assert dict(store.scan()) == before, "nothing that was confirmed is lost"
            store.put_many(PAGES)
            assert store.get_many(list(PAGES)) == list(PAGES.values())


def test_a_file_that_cannot_grow(tmp_path: Path) -> None:
    """As on a full disk, by a limit of the process: a write fails in the middle of the WAL."""
    program = f"""
import os, resource, signal
from sash.stores import RocksDBStore, StoreUnavailable
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = RocksDBStore({str(tmp_path / "store")!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
done = 0
try:
    for done in range(20):
        store.put_many({{f"{{done}} {{n}}": bytes(100_000) for n in range(3)}})
except StoreUnavailable as error:
    print(done, error)
    assert len(dict(store.scan())) == 3 * done
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    number, _, message = done.stdout.partition(" ")
    assert message.startswith(f"cannot write to the store at {tmp_path}/store: IO error: ")
    assert "File too large" in message
    assert message.strip().endswith("check the disk, then open the store again")
    with RocksDBStore(tmp_path / "store") as store:
        assert len(dict(store.scan())) == 3 * int(number)
        store.put_many(PAGES)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1 << 20, "the limit was another process's"


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    with RocksDBStore(tmp_path / "disk" / "store") as store:
        store.put_many(PAGES)
    if os.geteuid():
        (tmp_path / "disk" / "store").chmod(0o555)
        with pytest.raises(StoreError, match=rf"store at {tmp_path}/disk/store: .*Permission denied"):
            RocksDBStore(tmp_path / "disk" / "store")
        (tmp_path / "disk" / "store").chmod(0o755)
        return
    with mounted(tmp_path / "frozen") as disk:
        with RocksDBStore(disk / "store") as store:
            store.put_many(PAGES)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        with pytest.raises(StoreError, match=rf"store at {disk}/store: .*Read-only file system"):
            RocksDBStore(disk / "store")
        with pytest.raises(StoreError, match=rf"store at {disk}/new: Read-only file system"):
            RocksDBStore(disk / "new")
        with pytest.raises(StoreError, match=rf"cannot read the store at {disk}/store: Read-only file system"):
            RocksDBStore(disk / "store", read_only=True)


def test_a_path_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=rf"cannot open the store at {tmp_path}/file/store: Not a directory"):
        RocksDBStore(tmp_path / "file" / "store")
    with pytest.raises(StoreError, match=rf"cannot open the store at {tmp_path}/file: File exists"):
        RocksDBStore(tmp_path / "file")


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(
        StoreError, match=r"is not a store and not empty \(it has 'notes\.txt'\): use a separate directory"
    ):
        RocksDBStore(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_there_is_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=rf"there is no store at {tmp_path}/none: a writer has to create it first"):
        RocksDBStore(tmp_path / "none", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_store_is_one_by_any_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RocksDB locks by the text of a path: a link or a relative path must not open it twice."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("store")
    with RocksDBStore("store") as store:
        store.put_many(PAGES)
        for path in ("./store", "link", tmp_path / "x" / ".." / "store"):
            with pytest.raises(StoreError, match=rf"{tmp_path}/store is open for writing"):
                RocksDBStore(path)


def damage(file: Path, how: str, draw: random.Random) -> None:
    """Damage a file of a store: flip bits, cut it, overwrite it with zeros, or delete it."""
    content = bytearray(file.read_bytes())
    if how == "delete" or not content:
        file.unlink()
        return
    if how == "flip":
        for _ in range(draw.choice([1, 1, 8])):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    file.write_bytes(
        {"flip": content, "cut": content[: draw.randrange(len(content))], "zeros": bytes(len(content))}[how]
    )


def copied(source: str, target: str) -> None:
    """Copy a file unless RocksDB, in the background, has deleted it meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copy2(source, target)


@pytest.mark.parametrize("seed", range(share(200)))
def test_damage_is_found(tmp_path: Path, seed: int) -> None:
    """A writer and a reader of a damaged store name the file, or what they read is what was written.

    A WAL may lack its end as after a power failure: then what is read is an earlier version. Without the end of a
    MANIFEST a later WAL may follow an earlier version: operators see that by the generations of pages.
    """
    draw, path = random.Random(seed), tmp_path / "store"
    versions: list[dict[str, bytes]] = [{}]
    with RocksDBStore(path) as store:
        for number in range(draw.randrange(1, 30)):
            pages = {f"p{n}": draw.randbytes(2000) for n in range(number % 5, 10)} | {"number": b"%d" % number}
            store.put_many(pages)
            versions.append(versions[-1] | pages)
            if draw.random() < 0.2:
                store._opened().flush()
        killed = draw.random() < 0.5
        if killed:
            shutil.copytree(path, tmp_path / "copy", copy_function=copied)
    if killed:
        shutil.rmtree(path)
        (tmp_path / "copy").rename(path)
    kind = draw.choice(["*.sst", "*.sst", "MANIFEST-*", "CURRENT", "OPTIONS-*", "*.log", "IDENTITY", "rocksdict*"])
    file = draw.choice(sorted(path.glob(kind)) or [path / "CURRENT"])
    damage(file, draw.choice(["flip", "flip", "cut", "zeros", "delete"]), draw)
    possible: Any = versions if file.name.endswith(".log") else versions[-1:]
    for read_only in (True, False):
        refused = lacks_end = ""
        try:
            with RocksDBStore(path, read_only=read_only) as store:
                scanned, names = dict(store.scan()), [*versions[-1]]
                assert scanned == {n: page for n, page in zip(names, store.get_many(names), strict=True) if page}
                assert scanned in possible or file.name.startswith("MANIFEST")
        except StoreDamaged as error:
            refused = str(error)
        except StoreError as error:
            lacks_end = str(error)
        if lacks_end:
            assert read_only
            assert "the end of its log is missing, as after a power failure" in lacks_end
        if refused:
            assert refused.startswith(f"the store at {path} is damaged: ")
            assert "restore a backup (sash restore BACKUP STORE)" in refused
            assert "\n" not in refused


def test_a_damaged_block_ends_no_scan_and_no_lookup(tmp_path: Path) -> None:
    with RocksDBStore(tmp_path / "store") as store:
        store.put_many(PAGES)
        store._opened().flush()
    (file,) = (tmp_path / "store").glob("*.sst")
    content = bytearray(file.read_bytes())
    content[150_000] ^= 1
    file.write_bytes(content)
    for read_only in (True, False):
        with RocksDBStore(tmp_path / "store", read_only=read_only) as store:
            for read in (lambda s: list(s.scan()), lambda s: s.get_many(list(PAGES))):
                with pytest.raises(StoreDamaged, match=rf"is damaged: {file.name}: block checksum mismatch\. Move"):
                    read(store)


def test_a_reader_does_not_go_back(tmp_path: Path) -> None:
    """RocksDB shows a reader the last version whose files it can open: here none."""
    with RocksDBStore(tmp_path / "store") as store:
        store.put_many(PAGES)
        store._opened().flush()
        (file,) = (tmp_path / "store").glob("*.sst")
        file.unlink()
        with pytest.raises(StoreDamaged, match=rf"{file.name}: No such file"):
            RocksDBStore(tmp_path / "store", read_only=True)
    with pytest.raises(StoreDamaged, match=rf"{file.name}: No such file"):
        RocksDBStore(tmp_path / "store")
    (tmp_path / "store" / "CURRENT").unlink()
    for read_only in (True, False):
        with pytest.raises(StoreDamaged, match="the file CURRENT is missing"):
            RocksDBStore(tmp_path / "store", read_only=read_only)


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A store whose writer was killed after ten writes, which are in its log."""
    with RocksDBStore(tmp_path / "running") as store:
        for number in range(10):
            store.put_many({"number": b"%d" % number} | {f"p{n}": os.urandom(40_000) for n in range(5)})
        shutil.copytree(tmp_path / "running", tmp_path / "killed", copy_function=copied)
    return tmp_path / "killed"


@pytest.mark.parametrize("part", [0.05, 0.15, 0.55, 0.95])
def test_a_log_that_is_damaged_before_its_end_is_not_cut_there(killed: Path, part: float) -> None:
    """RocksDB drops all writes after the damage, without an error."""
    (log,) = killed.glob("*.log")
    content = bytearray(log.read_bytes())
    content[int(len(content) * part)] ^= 4
    log.write_bytes(content)
    for read_only in (True, False, True):
        with pytest.raises(
            StoreDamaged, match=rf"is damaged: {log.name}: checksum mismatch\. Move .* restore a backup"
        ):
            RocksDBStore(killed, read_only=read_only)
    assert log.read_bytes() == content


@pytest.mark.parametrize("at", [6, 32 * 1024 + 6])
@pytest.mark.parametrize("bit", range(8))
def test_the_type_of_a_record_of_a_log_is_damaged(killed: Path, at: int, bit: int) -> None:
    """RocksDB reads some of them forever, in any mode."""
    (log,) = killed.glob("*.log")
    content = bytearray(log.read_bytes())
    content[at] ^= 1 << bit
    log.write_bytes(content)
    for read_only in (True, False):
        with pytest.raises(
            StoreDamaged, match=rf"is damaged: {log.name}: (unknown record type|checksum mismatch)\. Move"
        ):
            RocksDBStore(killed, read_only=read_only)


def test_a_log_may_lack_its_end(killed: Path) -> None:
    """As after a killed write. After a power failure it may be zeros, up to the length that the file had."""
    (log,) = killed.glob("*.log")
    length = log.stat().st_size
    os.truncate(log, int(0.47 * length))  # in the middle of a page
    with RocksDBStore(killed, read_only=True) as reader:
        seen = reader.get_many(["number"])
    shutil.copytree(killed, killed.with_name("zeros"))
    os.truncate(killed.with_name("zeros") / log.name, length)
    with pytest.raises(
        StoreError, match=r"the end of its log is missing, as after a power failure\. Open it for writing"
    ):
        RocksDBStore(killed.with_name("zeros"), read_only=True)
    for path in (killed, killed.with_name("zeros")):
        with RocksDBStore(path) as store:
            assert store.get_many(["number"]) == seen
            assert seen == [b"3"]


def test_a_missing_log_is_no_empty_log(killed: Path) -> None:
    """Copies often leave out files named *.log. A writer that closes the store leaves nothing in it."""
    (log,) = killed.glob("*.log")
    log.unlink()
    for read_only in (True, False):
        with pytest.raises(
            StoreDamaged, match=r"its log, a file \*\.log, is missing, and its writer has not closed it"
        ):
            RocksDBStore(killed, read_only=read_only)
    for log in (killed.with_name("running")).glob("*.log"):
        log.unlink()
    for read_only in (True, False):
        with RocksDBStore(killed.with_name("running"), read_only=read_only) as store:
            assert store.get_many(["number"]) == [b"9"]


def test_a_log_without_its_end_before_another_log_is_damaged(tmp_path: Path) -> None:
    """RocksDB would drop all of the later log."""
    options = rocksdict.Options(raw_mode=True)
    options.set_write_buffer_size(64 << 10)
    options.set_max_write_buffer_number(8)
    options.set_min_write_buffer_number_to_merge(6)  # no flush, which deletes logs
    running = rocksdict.Rdict(str(tmp_path / "running"), options)
    for number in range(50):
        running[b"p%d" % number] = os.urandom(4000)
    shutil.copytree(tmp_path / "running", tmp_path / "killed", copy_function=copied)
    running.close()
    first, *later = sorted((tmp_path / "killed").glob("*.log"))
    assert later
    os.truncate(first, first.stat().st_size // 2)
    with pytest.raises(StoreDamaged, match=rf"is damaged: {first.name}, .*: truncated record body"):
        RocksDBStore(tmp_path / "killed")


def test_a_list_of_files_without_its_end_is_no_empty_store(tmp_path: Path) -> None:
    """RocksDB opens it without its files, and deletes them."""
    with RocksDBStore(tmp_path / "store") as store:
        store.put_many(PAGES)
    (manifest,), (file,) = (tmp_path / "store").glob("MANIFEST-*"), (tmp_path / "store").glob("*.sst")
    os.truncate(manifest, 130)  # after what the creation of the store has written
    for read_only in (True, False):
        with pytest.raises(StoreDamaged, match=rf"is damaged: {manifest.name}: it does not list {file.name}\. Move"):
            RocksDBStore(tmp_path / "store", read_only=read_only)
    assert file.exists()


def test_a_killed_creation_can_be_repeated(tmp_path: Path) -> None:
    """A process that ends before RocksDB has named its first files leaves some of them behind."""
    (tmp_path / "store").mkdir()
    for name in ("LOCK", "LOG", "IDENTITY", "MANIFEST-000001"):
        (tmp_path / "store" / name).write_text("")
    with RocksDBStore(tmp_path / "store") as store:
        store.put_many(PAGES)
        assert dict(store.scan()) == PAGES


def test_readers_leave_no_files_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    with RocksDBStore(tmp_path / "store") as store:
        store.put_many(PAGES)
        with RocksDBStore(tmp_path / "store", read_only=True) as reader:
            assert dict(reader.scan()) == PAGES
            assert len(list((tmp_path / "temporary").iterdir())) == 1
    assert list((tmp_path / "temporary").iterdir()) == []


def test_what_a_missing_package_says() -> None:
    program = """
import sys
sys.modules["rocksdict"] = sys.modules["valkey"] = None
import sash.stores
for name in ("RocksDBStore", "ValkeyStore"):
    try:
        getattr(sash.stores, name)
    except ImportError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "RocksDBStore needs the package rocksdict: pip install 'sash[stores]'",
        "ValkeyStore needs the package valkey: pip install 'sash[stores]'",
    ]


def test_a_reader_does_not_prefer_a_log_to_the_newer_file_that_replaces_it(tmp_path: Path) -> None:
    """RocksDB's secondary instances do. Found by random calls, after restarts of the writer."""
    with RocksDBStore(tmp_path / "store") as store:
        store.put_many({"a": b"old"})
        reader = RocksDBStore(tmp_path / "store", read_only=True)
    with RocksDBStore(tmp_path / "store") as store:
        store.put_many({"a": b"new"})
    with RocksDBStore(tmp_path / "store"), reader:
        reader.refresh()
        assert reader.get_many(["a"]) == [b"new"]


def test_a_reader_starts_again_if_the_writer_changes_its_files_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RocksDBStore(tmp_path / "store") as store:
        store.put_many({"a": b"1"})
        opened, calm = 0, 3

        class Disturbed(RocksDBStore):
            def _reader(self) -> rocksdict.Rdict:
                nonlocal opened
                opened += 1
                db = super()._reader()
                if opened < calm:
                    store.put_many({"a": b"%d" % opened})
                    store._opened().flush()
                return db

        with Disturbed(tmp_path / "store", read_only=True) as reader:
            assert opened == 3
            assert reader.get_many(["a"]) == [b"2"]
            reader.refresh()
            assert opened == 3, "nothing has changed"
            monkeypatch.setattr("sash.stores.rocksdb_store._CATCH_UP_SECONDS", 0.3)
            opened, calm = 0, 1 << 30
            store._opened().flush()
            store.put_many({"a": b"3"})
            store._opened().flush()
            with pytest.raises(StoreUnavailable, match=r"while its writer is open: its files change all the time"):
                reader.refresh()
            assert opened > 3
            calm = 0
            reader.refresh()
            assert reader.get_many(["a"]) == store.get_many(["a"])


def test_an_empty_path_is_not_the_current_directory() -> None:
    with pytest.raises(ValueError, match="path is empty: pass the directory of the store"):
        RocksDBStore("")
