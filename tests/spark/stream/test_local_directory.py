"""Local files of live state: who may read them, how large they get, and when they are deleted."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from sash.spark.stream.local_pages import NAME, STALE, LocalDirectory, delete_stale_files
from tests.spark.stream.fake_spark import FakeStream
from tests.spark.stream.live_cases import QUERY, SCHEMA, OtherWorkers, expected, files, rows, sorted_rows

pytestmark = pytest.mark.usefixtures("local")

TOKEN = "0123456789abcdef" * 2


def test_files_belong_to_this_user_alone(local: Path) -> None:
    FakeStream(QUERY, SCHEMA, shards=2).batch([rows(0)])
    assert stat.S_IMODE((local / NAME).stat().st_mode) == 0o700
    assert [stat.S_IMODE(file.stat().st_mode) for file in files(local)] == [0o600] * 2
    assert len({file.name for file in files(local)}) == 2
    assert all(len(file.name) == 32 for file in files(local))


def published(directory: LocalDirectory, token: str = TOKEN, page: bytes = b"page") -> None:
    file = directory.create()
    assert file is not None
    file.pages.put("b0", page)
    file.publish(token)


def test_a_file_is_claimed_once(local: Path) -> None:
    directory = LocalDirectory(str(local / NAME), 1 << 20)
    published(directory)
    found = directory.claim(TOKEN)
    assert found is not None
    assert found.pages.get("b0") == b"page"
    assert found.pages.get("b1") is None
    assert directory.claim(TOKEN) is None
    assert directory.claim("f" * 32) is None


@pytest.mark.parametrize("token", ["", "../" + TOKEN, TOKEN.upper(), TOKEN + "0", "host"])
def test_a_token_that_is_none_names_no_file(token: str, local: Path) -> None:
    """The token comes from a checkpoint, which others may have written."""
    directory = LocalDirectory(str(local / NAME), 1 << 20)
    published(directory)
    (local / TOKEN).write_bytes(files(local)[0].read_bytes())
    assert directory.claim(token) is None
    published(directory, token)
    assert [file.name for file in files(local)] == [TOKEN]


def test_links_and_files_of_others_are_refused(local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = LocalDirectory(str(local / NAME), 1 << 20)
    published(directory)
    (file,) = files(local)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert directory.claim(TOKEN) is None
    assert (tmp_path / "elsewhere").exists()
    published(directory)
    os.chmod(file, 0o644)
    assert directory.claim(TOKEN) is None
    published(directory)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert directory.claim(TOKEN) is None
    with pytest.raises(PermissionError):
        LocalDirectory(str(local / NAME), 1 << 20)
    assert LocalDirectory.of_worker(1 << 20, 0) is None


@pytest.mark.parametrize("kind", ["open to others", "link", "file"])
def test_a_directory_that_others_may_have_made_is_not_used(kind: str, local: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o700)
    path = local / NAME
    if kind == "link":
        path.symlink_to(tmp_path / "theirs")
    elif kind == "file":
        path.write_bytes(b"")
    else:
        path.mkdir()
        path.chmod(0o770)
    assert LocalDirectory.of_worker(1 << 20, 0) is None
    stream = OtherWorkers(QUERY, SCHEMA, shards=2)
    for number in range(3):
        stream.batch([rows(number)])
    assert sorted_rows(stream.table()) == expected(3)
    assert not list((tmp_path / "theirs").iterdir())


def test_a_file_is_not_larger_than_twice_its_pages(local: Path) -> None:
    """A page of 1 MB stays, another of 100 KB is replaced by each of 40 micro-batches."""
    directory = LocalDirectory(str(local / NAME), 1 << 30)
    file, sizes = directory.create(), []
    for number in range(40):
        assert file is not None
        if number == 0:
            file.pages.put("b0", bytes(1_000_000))
        file.pages.put("b1", bytes([number]) * 100_000)
        file.publish(f"{number:032x}")
        sizes += [one.stat().st_size for one in files(local)]
        file = directory.claim(f"{number:032x}")
    assert file is not None
    assert (file.pages.get("b0"), file.pages.get("b1")) == (bytes(1_000_000), bytes([39]) * 100_000)
    assert len(sizes) == 40
    assert max(sizes) < 2 * 1_100_000 + 2**20 + 1000
    assert min(sizes[20:]) < 1_300_000  # it was rewritten


def test_files_are_bounded_and_the_oldest_go_first(local: Path) -> None:
    directory = LocalDirectory(str(local / NAME), 10_000)
    for number in range(5):
        published(directory, f"{number:032x}", bytes(3000))
        os.utime(local / NAME / f"{number:032x}", (time.time() - 100 + number,) * 2)
    assert [int(file.name, 16) for file in files(local)] == [2, 3, 4]
    published(directory, TOKEN, bytes(20_000))  # larger than all may be together
    assert [int(file.name, 16) for file in files(local)] == [2, 3, 4]


def test_a_limit_of_0_makes_no_files(local: Path) -> None:
    stream = OtherWorkers(QUERY, SCHEMA, shards=2)
    stream.spec = cloudpickle.dumps(replace(stream.spec_now(), local_limit=0))
    for number in range(3):
        stream.batch([rows(number)])
    assert not (local / NAME).exists()
    assert sorted_rows(stream.table()) == expected(3)


def test_a_full_disk_costs_only_the_file(local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    stream = OtherWorkers(QUERY, SCHEMA, shards=2)
    for number in range(6):
        with monkeypatch.context() as patch:
            if number == 3:
                patch.setattr(os, "pwrite", full)
            stream.batch([rows(number)])
        assert len(files(local)) == (0 if number == 3 else 2)
    assert sorted_rows(stream.table()) == expected(6)


def test_files_of_applications_that_were_killed_are_cleaned(local: Path, tmp_path: Path) -> None:
    stale, fresh = tmp_path / "blockmgr-2", tmp_path / "blockmgr-3"
    for root in (stale, fresh, local):
        root.mkdir(exist_ok=True)
        (root / "shuffle").write_bytes(b"of Spark")
        directory = LocalDirectory(str(root / NAME), 1 << 20)
        published(directory)
        assert directory.create() is not None
    for file in (*files(stale), *files(local)):
        os.utime(file, (time.time() - STALE - 1,) * 2)
    delete_stale_files(str(local))
    assert not (stale / NAME).exists()
    assert (stale / "shuffle").exists()
    assert len(files(fresh)) == 2
    assert files(local) == []
