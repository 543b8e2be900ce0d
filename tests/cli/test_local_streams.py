"""`sash run --stream` on the local engine: stopped by a signal, it continues later, and gives each result once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import sash
from sash.pipeline import read
from tests.cli.typed import typed
from tests.interpreted import SWITCHED_OFF

JOB = """\
source: {kind: parquet, path: rows}
query: {windows: Time(5), by: k, on: t, lateness: 2, aggregates: {high: max(x), n: count(*)}}
sink: {kind: parquet, path: results}
store: {kind: rocksdb, path: state}
"""
ROWS = pa.table({"t": [1, 2, 4, 3, 9, 12, 30], "k": [*"abaabaa"], "x": [3.0, 5.0, 4.0, 1.0, 2.0, 6.0, 7.0]})


def test_stopped_by_a_signal_and_continued(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "job.yaml").write_text(JOB)
    for number, rows in enumerate((ROWS.slice(0, 5), ROWS.slice(5))):
        new = tmp_path / f"{number}.parquet"
        pq.write_table(rows, new)
        stream(tmp_path, new)
    done = typed("run", tmp_path / "job.yaml", *in_folder(tmp_path), "--set", "options.finish=true")
    assert (done.code, done.out) == (0, "7 rows in, 7 rows out\n"), done.err
    query = sash.Query(sash.Time(5), by="k", on="t", lateness=2, high=sash.max("x"), n=sash.count())
    expected = query.run(ROWS)
    found = read(tmp_path / "results")
    assert sorted(found.to_pylist(), key=repr) == sorted(expected.to_pylist(), key=repr)


def in_folder(folder: Path) -> list[str]:
    places = {"source": "rows", "sink": "results", "store": "state"}
    return [one for table, name in places.items() for one in ("--set", f"{table}.path={folder / name}")]


def stream(folder: Path, new: Path) -> None:
    """Begin a stream, let a file appear, and stop it when there are results of the file."""
    before, target = len([*folder.glob("results/*.parquet")]), folder / "rows" / new.name
    if not any((folder / "rows").iterdir()):  # the first file has the columns of the job
        new.rename(target)
    command = [sys.executable, "-m", "sash", "run", "job.yaml", "--stream"]
    pipe, surroundings = subprocess.PIPE, os.environ | SWITCHED_OFF
    with subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True, env=surroundings) as process:
        try:
            if not target.exists():
                new.rename(target)
            while len([*folder.glob("results/*.parquet")]) == before:
                assert process.poll() is None, process.communicate()
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
    assert (process.returncode, err) == (0, "")
    assert out.endswith(" rows out, not finished\n")
