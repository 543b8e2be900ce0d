"""The same job gives the same rows on both engines."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.cli.job_file import check_spark, read_job
from sash.testing import assert_same
from tests.cli.typed import typed

JOB = """\
engine = "spark"
[source]
kind = "parquet"
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
"""
SQL = """\
[source]
kind = "parquet"
path = "rows"
[query]
lateness = 9
sql = "SELECT k AS key, t, sum(x) OVER (PARTITION BY k ORDER BY t ROWS 1 PRECEDING) AS s FROM r WHERE x <> 2"
[sink]
kind = "parquet"
path = "results"
"""
ROWS = pa.table({"t": [1, 2, 4, 3, 9, 12, 30], "k": [*"abaabaa"], "x": [3.0, 5.0, 4.0, 1.0, 2.0, 6.0, 7.0]})


@pytest.fixture(autouse=True)
def _rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows").mkdir()
    pq.write_table(ROWS.slice(0, 4), "rows/0.parquet")
    pq.write_table(ROWS.slice(4), "rows/1.parquet")
    Path("rows/_ignored.parquet").write_text("not read")


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("job", [JOB, SQL])
def test_both_engines_give_the_same(job: str) -> None:
    Path("job.toml").write_text(job)
    done = typed("run", "job.toml", "--engine", "spark")
    assert (done.code, done.out) == (0, "7 rows in, 6 rows out\n"), done.err
    assert typed("run", "job.toml", "--engine", "local", "--set", "sink.path=local").code == 0
    found, expected = (pq.read_table(path).sort_by([("t", "ascending")]) for path in ("results", "local"))
    assert found.column_names == expected.column_names
    assert_same(found, expected)
    done = typed("run", "job.toml", "--engine", "spark")
    assert done.code == 1
    assert "results exists already: remove it, or use another directory" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--stream"], "--stream on engine spark needs a directory for state: [spark] checkpoint ="),
        (["--set", "query.emit=eager"], "--set query.emit: emit is not supported for a batch on engine spark"),
        (["--set", "options.finish=false"], "--set options.finish: a batch ends with its rows"),
    ],
)
def test_what_a_batch_does_not_have(arguments: list[str], message: str) -> None:
    Path("job.toml").write_text(JOB)
    done = typed("run", "job.toml", *arguments)
    assert done.code == 2
    assert message in done.err
    assert not Path("results").exists()


UNSAFE = [
    *("jars", "spark.jars", "jars.packages", "jars.repositories", "driver.extraJavaOptions", "submit.pyFiles", "files"),
    *("executor.extraJavaOptions", "driver.extraClassPath", "plugins", "extraListeners", "sql.extensions", "archives"),
    *("pyspark.python", "pyspark.driver.python", "executorEnv.LD_PRELOAD", "serializer", "kryo.registrator", "remote"),
    *("sql.catalog.x", "sql.streaming.stateStore.providerClass", "driver.defaultJavaOptions", "eventLog.dir"),
    *("hadoop.fs.s3a.aws.credentials.provider", "shuffle.manager", "sql.hive.metastore.jars", "python.daemon.module"),
    *("driver.host", "driver.bindAddress", "authenticate"),
]
"""Settings that load code, run commands, write files, or open the driver to other machines."""


def test_settings_of_spark_that_may_run_code_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Java starts."""
    monkeypatch.chdir(tmp_path)
    for name in UNSAFE:
        Path("job.toml").write_text(JOB + f'[spark.config]\n"{name}" = "x"\n')
        done = typed("run", "job.toml")
        line = len(JOB.splitlines()) + 2
        assert done.code == 2
        known = re.sub(r" \(did you mean '[\w.]+'\?\)", "", done.err)  # a setting that is similar and harmless
        assert known == (
            f"sash: job.toml:{line}: {name} is not among the settings of Spark that are known to run no code: if you "
            "trust this job, write allow_imports = true above all tables\n"
        )
    for place in ("[spark]\nmaster", "[spark.config]\nmaster", '[spark.config]\n"spark.master"'):
        for master in ("spark://elsewhere:7077", "localhost:7077", "local[2]://elsewhere", "yarn", "local[x y]"):
            Path("job.toml").write_text(JOB + f'{place} = "{master}"\n')
            assert f"master = '{master}' runs code of other machines" in typed("run", "job.toml").err
    for master in ("local", "local[2]", "local[*]", "local[2, 3]", "local-cluster[1, 1, 1024]"):
        Path("job.toml").write_text(JOB + f'[spark]\nmaster = "{master}"\n')
        check_spark(read_job("job.toml"))
    Path("job.toml").write_text(JOB.replace("rows", "s3a://rows") + '[spark.config]\n"jars" = "x"\n')
    assert "known to run no code" in typed("explain", "job.toml").err


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_times_in_nanoseconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark does not read them: the message says how to write the file, and it is then read."""
    monkeypatch.chdir(tmp_path)
    Path("nanos").mkdir()
    table = pa.table({"t": pa.array([1000, 2000], pa.timestamp("ns")), "k": ["a", "a"], "x": [1.0, 3.0]})
    pq.write_table(table, "nanos/0.parquet")
    Path("job.toml").write_text(
        JOB.replace("rows", "nanos").replace("Time(5)", "5s").replace("lateness = 9", 'lateness = "9s"')
    )
    done = typed("run", "job.toml")
    assert done.code == 2
    assert done.err.startswith("sash: job.toml:4: ")
    assert "has times in nanoseconds, which Spark does not read: write the file with microseconds (" in done.err
    assert done.err.count("\n") == 1
    pq.write_table(table, "nanos/0.parquet", coerce_timestamps="us")
    assert typed("run", "job.toml").code == 0
