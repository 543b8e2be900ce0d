"""`sash run --ui` and `sash ui`: the page of a run, and of all runs on this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sash
from sash.cli.page.query_board import QueryBoard
from sash.cli.page.run_directory import RegisteredRun, RunBoard, run_directory
from tests.cli.typed import typed

pytestmark = pytest.mark.usefixtures("interpreted_kernels")

JOB = """\
[source]
kind = "parquet"
path = "rows"
[query]
windows = "Time(5)"
by = "k"
on = "t"
lateness = 2
[query.aggregates]
n = "count(*)"
[sink]
kind = "parquet"
path = "results"
"""


@pytest.fixture(autouse=True)
def _job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    runtime = Path(f"/tmp/sash-test-{os.getpid()}-{tmp_path.name[-8:]}")  # paths of sockets are short
    runtime.mkdir(mode=0o700, exist_ok=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    Path("rows").mkdir()
    pq.write_table(pa.table({"t": [1, 2, 4, 9], "k": ["a", "b", "a", "a"]}), "rows/0.parquet")
    Path("job.toml").write_text(JOB)
    yield
    shutil.rmtree(runtime)


@pytest.fixture
def registered() -> Iterator[Any]:
    board = QueryBoard()
    run = RegisteredRun(board)
    yield board
    run.close()
    assert not run.path.exists()


def test_the_directory_is_for_this_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = run_directory()
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    path.chmod(0o755)
    with pytest.raises(PermissionError, match=r"must be a directory of user .* with mode 0700"):
        run_directory()
    path.rmdir()
    path.symlink_to(tmp_path)
    with pytest.raises(PermissionError, match="must be a directory"):
        run_directory()
    path.unlink()
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run_directory() == tmp_path / f"sash-runs-{os.getuid()}"


def test_the_board_of_all_runs_has_what_each_run_has(registered: QueryBoard) -> None:
    op = sash.Query(2, by="k", n=sash.count()).operator()
    registered.watch(op, "a (b) / c")
    op.process({"k": ["x", "y", "x"]})
    board, name = RunBoard(), f"a (b) / c ({os.getpid()})"
    (found,) = board.queries()
    assert (found["name"], found["rows_in"]) == (name, 3)
    assert board.keys(name) == registered.keys("a (b) / c") == ['["x"]', '["y"]']
    assert board.results(name, '["x"]') == registered.results("a (b) / c", '["x"]')
    assert board.plan(name) == registered.plan("a (b) / c")
    with pytest.raises(ValueError, match="key= takes a JSON array"):
        board.results(name, "x")
    for unknown in (f"other ({os.getpid()})", "a (1)", "a"):
        with pytest.raises(KeyError):
            board.plan(unknown)


def test_sockets_of_killed_runs_are_removed(registered: QueryBoard) -> None:
    left = run_directory() / "999999-00000000.sock"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(left))
    registered.watch(sash.Query(2, n=sash.count()).operator(), "alive")
    assert [one["name"] for one in RunBoard().queries()] == [f"alive ({os.getpid()})"]
    assert not left.exists()


def test_a_run_is_listed_while_it_runs_and_its_results_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[dict[str, Any]]] = []
    publish = sash.pipeline.ParquetSink.publish

    def look(sink: Any, epoch: int) -> None:
        publish(sink, epoch)
        seen.append(RunBoard().queries())

    monkeypatch.setattr(sash.pipeline.ParquetSink, "publish", look)
    done = typed("run", "job.toml")
    assert (done.code, done.out, done.err) == (0, "4 rows in, 4 rows out\n", "")
    (last,) = seen[-1]
    assert (last["name"], last["kind"], last["rows_out"]) == (f"job.toml ({os.getpid()})", "pipeline", 4)
    assert (last["malformed"], last["finished"]) == (0, True)
    assert RunBoard().queries() == []
    assert [*run_directory().iterdir()] == []


def test_a_run_without_a_directory_for_sockets_runs_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(Path("missing").absolute()))
    monkeypatch.setattr("tempfile.tempdir", str(Path("missing").absolute()))
    assert typed("run", "job.toml").out == "4 rows in, 4 rows out\n"


def test_run_with_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address is on the standard error during the run; the standard output stays for the results."""
    from sash.cli.page.live_page import LivePage

    found: list[Any] = []
    make = LivePage.__init__
    monkeypatch.setattr(LivePage, "__init__", lambda page, *a, **k: (make(page, *a, **k), found.append(page))[0])
    publish = sash.pipeline.ParquetSink.publish

    def look(sink: Any, epoch: int) -> None:
        publish(sink, epoch)
        with urllib.request.urlopen(found[0].url.replace("/?", "/api/queries?")) as response:
            found.append(json.load(response)["queries"][0])

    monkeypatch.setattr(sash.pipeline.ParquetSink, "publish", look)
    done = typed("run", "job.toml", "--ui")
    assert (done.code, done.out) == (0, "4 rows in, 4 rows out\n")
    assert done.err == f"sash: live page: {found[0].url}\n"
    assert found[0].url.startswith("http://127.0.0.1:")
    assert (found[-1]["name"], found[-1]["rows_out"]) == ("job.toml", 4)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(found[0].url)


def test_wrong_usage() -> None:
    done = typed("run", "job.toml", "--port", "8000")
    assert (done.code, done.err) == (2, "sash: --host and --port are those of the page: give --ui as well\n")
    done = typed("run", "job.toml", "--ui", "--engine", "spark")
    assert (done.code, done.err) == (
        2,
        "sash: --ui is for streams and the local engine; on a cluster, Spark has a web UI of its own for batches\n",
    )
    assert typed("ui", "--port", "70000").code == 2
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = typed("ui", "--port", str(taken.getsockname()[1]))
    assert done.code == 1
    assert "the page cannot be served on 127.0.0.1" in done.err


def test_sash_ui_shows_the_runs_until_it_is_interrupted(registered: QueryBoard) -> None:
    registered.watch(sash.Query(2, n=sash.count()).operator(), "mine")
    # a shell that runs the tests in the background ignores interrupts, and so would every process below it
    listening = "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program = f"{listening}runpy.run_module('sash', run_name='__main__', alter_sys=True)"
    with subprocess.Popen([sys.executable, "-c", program, "ui"], stdout=subprocess.PIPE, text=True) as process:
        guard = threading.Timer(120, process.kill)
        guard.start()
        url = process.stdout.readline().strip()
        with urllib.request.urlopen(url.replace("/?", "/api/queries?")) as response:
            assert [one["name"] for one in json.load(response)["queries"]] == [f"mine ({os.getpid()})"]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        guard.cancel()


def test_sash_ui_loads_no_engine() -> None:
    code = (
        "import sys, sash.cli.page.live_page, sash.cli.page.run_directory; print({'numba', 'pyarrow'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
