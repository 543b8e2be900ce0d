"""Jobs as streams on Spark: the rows of the local engine, continued from a checkpoint; sinks; spark-submit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from sash.cli.job_file import read_job
from sash.cli.job_pipeline import PreparedJob
from sash.cli.page.query_board import QueryBoard
from sash.testing import assert_same
from tests.cli.typed import in_a_process, in_a_terminal, typed
from tests.interpreted import SWITCHED_OFF

JOB = """\
[source]
kind = "{kind}"
path = "rows"
[query]
windows = "Time(5)"
by = "k"
on = "t"
lateness = 9
where = "x <> 2"
[query.aggregates]
high = "max(x)"
n = "count(*)"
[sink]
kind = "parquet"
path = "results"
[store]
kind = "rocksdb"
path = "state"
[spark]
checkpoint = "checkpoint"
[options]
finish = false
"""
ROWS = pa.table({"t": [1, 2, 4, 3, 9, 12, 30, 33], "k": [*"abaabaab"], "x": [3.0, 5.0, 4.0, 1.0, 2.0, 6.0, 7.0, 8.0]})


@pytest.fixture(autouse=True)
def _rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows").mkdir()
    Path("job.toml").write_text(JOB.format(kind="parquet"))


def write(number: int, rows: pa.Table, kind: str = "parquet") -> None:
    """Write a file of rows, one second after the previous one: Spark reads the oldest first."""
    path = Path("rows", f"{number}.{kind}")
    if kind == "parquet":
        pq.write_table(rows, path)
    elif kind == "csv":
        pyarrow.csv.write_csv(rows, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
    os.utime(path, (1_750_000_000 + number,) * 2)


def results(path: str) -> pa.Table:
    return pq.read_table(path).sort_by([("t", "ascending")])


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_both_engines_give_the_same_and_continue() -> None:
    """Two runs, the second with more files: the rows are those of the local engine, each once."""
    for number, rows in enumerate((ROWS.slice(0, 6), ROWS.slice(6))):
        write(number, rows)
        done = typed("run", "job.toml", "--engine", "spark")
        assert (done.code, done.err) == (0, "")
        assert typed("run", "job.toml", "--set", "sink.path=local").code == 0
        assert_same(results("results"), results("local"))
    assert done.out == "2 rows in, 3 rows out, not finished\n"
    assert results("results")["t"].to_pylist() == [1, 2, 3, 4, 12]  # 30 and 33 wait for the watermark
    done = typed("run", "job.toml", "--engine", "spark", "--once", "--json")
    assert json.loads(done.out)["rows_out"] == 0


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("kind", ["csv", pytest.param("jsonl", marks=pytest.mark.all_compiled)])
def test_files_of_text(kind: str) -> None:
    Path("job.toml").write_text(JOB.format(kind=kind))
    write(0, ROWS, kind)
    with Path(f"rows/0.{kind}").open("a") as file:
        file.write("40,b\n" if kind == "csv" else '{"t": 40, "k"\n')
    os.utime(f"rows/0.{kind}", (1_750_000_000,) * 2)
    Path("rows/other.txt").write_text("not read")
    done = typed("run", "job.toml", "--engine", "spark", "--set", "sink.kind=csv")
    assert (done.code, done.out, done.err) == (0, "7 rows in, 5 rows out, 1 malformed, not finished\n", "")
    assert typed("run", "job.toml", "--set", "sink.path=local").out == done.out
    found = [pyarrow.csv.read_csv(path) for path in Path("results").glob("*.csv")]
    assert_same(
        pa.concat_tables([one for one in found if one.num_rows]).sort_by([("t", "ascending")]), results("local")
    )
    shutil.rmtree("results")
    batch = JOB[: JOB.index("[store]")].format(kind=kind)
    Path("job.toml").write_text(batch)
    done = typed("run", "job.toml", "--engine", "spark")
    assert (done.code, done.out, done.err) == (0, f"{results('results').num_rows} rows out\n", "")
    assert typed("run", "job.toml", "--set", "sink.path=all").code == 0
    assert_same(results("results"), results("all"))


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_stream_until_it_is_stopped() -> None:
    """On the page of the run are the counters of the stream, and its plan."""
    from sash.cli.job_spark import run_stream

    write(0, ROWS.slice(0, 4))
    prepared, stop, done, board = PreparedJob(read_job("job.toml"), "spark"), threading.Event(), [], QueryBoard()
    watch = lambda monitor, query: board.watch(monitor, "job", query)  # noqa: E731
    stream = threading.Thread(target=lambda: done.append(run_stream(prepared, follow=True, stop=stop, watch=watch)))
    stream.start()
    try:
        until(Path("checkpoint/commits/0").exists, stream)
        write(1, ROWS.slice(4))
        # not when the n-th micro-batch has ended: one without data may come before these rows, and one comes after them
        until(lambda: board.queries()[0]["rows_out"] == 5, stream)
    finally:
        stop.set()
        stream.join()
    assert done[0]["rows_in"] == board.queries()[0]["rows_in"] == 7
    assert "Time(5)" in board.plan("job")["text"]
    again = typed("run", "job.toml", "--engine", "spark", "--once", "--ui")
    assert again.code == 0
    assert again.err.startswith("sash: live page: http://127.0.0.1:")
    assert typed("run", "job.toml", "--set", "sink.path=local").code == 0
    assert_same(results("results"), results("local"))


def until(is_done: Callable[[], bool], stream: threading.Thread) -> None:
    while not is_done():
        assert stream.is_alive()
        stream.join(0.05)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_other_sinks(spark: Any) -> None:
    write(0, ROWS)
    kind = JOB.index('kind = "parquet"\npath = "results"')
    rest = JOB[kind + len('kind = "parquet"\npath = "results"') :]
    Path("job.toml").write_text((JOB[:kind] + 'kind = "console"' + rest).format(kind="parquet"))
    on_spark, local = typed("run", "job.toml", "--engine", "spark"), typed("run", "job.toml")
    assert sorted(on_spark.out.splitlines()) == sorted(local.out.splitlines())
    assert json.loads(min(local.out.splitlines())) == {"t": 1, "k": "a", "x": 3.0, "high": 3.0, "n": 1}
    assert on_spark.err == local.err == "7 rows in, 5 rows out, not finished\n"
    shutil.rmtree("checkpoint")
    text = (JOB[:kind] + 'kind = "table"\nname = "highs"' + rest).format(kind="parquet")
    Path("job.toml").write_text(text)
    assert typed("run", "job.toml", "--engine", "spark").code == 0
    assert spark.table("highs").count() == 5
    spark.sql("DROP TABLE highs")
    Path("job.toml").write_text(text[: text.index("[store]")])
    assert typed("run", "job.toml", "--engine", "spark").out == "8 rows in\n"
    assert spark.table("highs").count() == 7
    spark.sql("DROP TABLE highs")
    done = typed("run", "job.toml")
    assert done.code == 2
    assert "kind = 'table' is not known; known names are parquet, csv, kafka, console" in done.err


KAFKA = """\
engine = "spark"
[source]
kind = "kafka"
servers = "localhost:1"
topic = "trades"
config = { "security.protocol" = "SSL" }
[source.schema]
t = "int64"
k = "string"
x = "float64"
[query]
windows = "Time(5)"
by = "k"
on = "t"
lateness = 9
[query.aggregates]
high = "max(x)"
[sink]
kind = "kafka"
servers = "localhost:1"
topic = "highs"
key = "k"
"""


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_messages_of_kafka(spark: Any) -> None:
    """What the messages have; Spark's connector is a jar that is not here."""
    from sash.cli.job_spark import as_messages, decoded, kafka_options

    Path("job.toml").write_text(KAFKA)
    prepared = PreparedJob(read_job("job.toml"), "spark")
    messages = spark.createDataFrame([(b'{"t": 1, "k": "a", "x": 2.5}',), (b"oops",)], "value binary")
    found = decoded(messages, prepared).orderBy("t").collect()
    assert [(row.t, row.k, row.x, row["_corrupt_record"]) for row in found] == [
        (None, None, None, "oops"),
        (1, "a", 2.5, None),
    ]
    assert kafka_options(prepared.job, "source") == {
        "kafka.bootstrap.servers": "localhost:1",
        "subscribe": "trades",
        "kafka.security.protocol": "SSL",
    }
    rows = spark.createDataFrame([("a", 1, None)], "k string, t long, high double")
    assert [tuple(row) for row in as_messages(rows, "k").collect()] == [("a", '{"k":"a","t":1,"high":null}')]
    assert as_messages(rows, ["k", "t"]).collect()[0]["key"] == '{"k":"a","t":1}'
    assert as_messages(rows, ()).columns == ["value"]
    # names are names, not SQL
    strange = "a` AS x, reflect('java.lang.Runtime', 'getRuntime') AS `y"
    rows = spark.createDataFrame([("a", 1)], ["k", "t"]).withColumnRenamed("k", strange)
    assert as_messages(rows, strange).collect()[0]["key"] == "a"
    Path("strange.toml").write_text(KAFKA.replace('x = "float64"', 'x = "float64"\n"q\', map()) \\\\` " = "int64"'))
    prepared = PreparedJob(read_job("strange.toml"), "spark")
    messages = spark.createDataFrame([(b'{"t": 1, "k": "a", "x": 2.5, "q\', map()) \\\\` ": 3}',)], "value binary")
    assert decoded(messages, prepared).collect()[0]["q', map()) \\` "] == 3
    done = typed("run", "job.toml")
    assert done.code == 1
    assert "Spark has no connector for Kafka: give it as [spark.config] 'jars.packages' = 'org.apache.spark" in done.err


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_files_at_an_address() -> None:
    """A path with a scheme is Spark's alone; its columns come from there."""
    write(0, ROWS)
    there = Path("rows").absolute().as_uri()
    more = ["--set", f"source.path={there}", "--set", f"sink.path={Path('results').absolute().as_uri()}"]
    done = typed("run", "job.toml", "--engine", "spark", *more)
    assert (done.code, done.out) == (0, "7 rows in, 5 rows out, not finished\n"), done.err
    assert results("results").num_rows == 5
    done = typed("run", "job.toml", *more)
    assert done.code == 2
    assert "is not on this machine: use engine spark" in done.err
    done = typed("run", "job.toml", "--engine", "spark", *more, "--set", "source.kind=csv")
    assert done.code == 2
    assert "[source.schema] is needed: only files of Parquet have columns with types" in done.err


@pytest.mark.spark
@pytest.mark.all_compiled  # a JVM of its own
def test_under_spark_submit() -> None:
    """In a process of its own: spark-submit starts the JVM, with the master of its command line."""
    from sash.spark.java import java_home

    write(0, ROWS)
    home = java_home()
    more = {} if home is None else {"JAVA_HOME": home}
    script = in_a_process("job-script").out.strip()
    import pyspark

    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
    submit += ["--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2"]
    done = subprocess.run(
        [*submit, script, "job.toml", "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **more, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)["rows_out"] == 5
    assert typed("run", "job.toml", "--set", "sink.path=local").code == 0
    assert_same(results("results"), results("local"))


def test_mistakes() -> None:
    write(0, ROWS)
    for arguments, message in [
        (["--set", "options.finish=true"], "--set options.finish: a stream on engine spark has no end"),
        (["--set", "spark.checkpont=x"], "[spark] has no key 'checkpont'; did you mean 'checkpoint'?"),
        (["--set", "sink.kind=table"], "[sink] needs name ="),
        (["--set", "source.format=arrow"], "engine spark reads messages of JSON"),
    ]:
        done = typed("run", "job.toml", "--engine", "spark", *arguments)
        assert done.code == 2
        assert message in done.err
    Path("job.toml").write_text(JOB.format(kind="parquet").replace('checkpoint = "checkpoint"\n', ""))
    done = typed("run", "job.toml", "--engine", "spark", "--stream")
    assert "job.toml:19: --stream on engine spark needs a directory for state: [spark] checkpoint =" in done.err
    done = typed("run", "job.toml", "--engine", "spark")
    assert "job.toml:21: a batch ends with its rows: give [spark] checkpoint =, or leave finish out" in done.err


def test_a_failure_has_the_cause_without_the_plan() -> None:
    from sash.cli.job_spark import _has_ended

    class Failing:
        text = "[STREAM_FAILED] terminated with exception:\nno space left\n=== Streaming Query ===\nLogical Plan: …"

        def awaitTermination(self, _seconds: float) -> bool:  # noqa: N802
            raise ValueError(self.text)

    query = Failing()
    with pytest.raises(RuntimeError, match=r"^the stream has failed: .STREAM_FAILED. .* exception: no space left$"):
        _has_ended(query)
    query.text = "another"
    with pytest.raises(ValueError, match="another"):
        _has_ended(query)


def test_explain_takes_the_engine_of_the_job() -> None:
    write(0, ROWS)
    text = JOB.format(kind="parquet").replace('"parquet"\npath = "results"', '"table"\nname = "highs"')
    Path("job.toml").write_text(f'engine = "spark"\n{text}')
    done = typed("explain", "job.toml")
    assert (done.code, done.err) == (0, "")
    assert "high  double" in done.out


def test_console_in_a_terminal() -> None:
    write(0, ROWS)
    Path("job.toml").write_text(JOB.format(kind="parquet").replace('"parquet"\npath = "results"', '"console"'))
    done = in_a_terminal("run", "job.toml", NO_COLOR="1", **SWITCHED_OFF)
    assert done.code == 0
    assert '{"t":1,"k":"a","x":3.0,"high":3.0,"n":1}\n' in done.out
