"""Jobs: `sash run` writes the results of the query; errors name the file, the line and the nearest name."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import sash
from sash.pipeline import read
from tests.cli.typed import in_a_process, in_a_terminal, typed
from tests.interpreted import SWITCHED_OFF

ROWS = pa.table(
    {
        "t": [1, 2, 4, 3, 9, 12, 30],
        "k": ["a", "b", "a", "a", "b", "a", "a"],
        "price": [3.0, 5.0, 4.0, 1.0, 2.0, 6.0, 7.0],
    }
)
QUERY = sash.Query(sash.Time(5), by="k", on="t", lateness=2, high=sash.max("price"), n=sash.count())

JOB = """\
engine = "local"

[source]
kind = "parquet"
path = "rows"

[query]
windows = "Time(5)"
by = "k"
on = "t"
lateness = 2

[query.aggregates]
high = "max(price)"
n = "count(*)"

[sink]
kind = "parquet"
path = "results"
"""


@pytest.fixture(autouse=True)
def _job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows").mkdir()
    pq.write_table(ROWS.slice(0, 4), "rows/0.parquet")
    pq.write_table(ROWS.slice(4), "rows/1.parquet")
    Path("job.toml").write_text(JOB)


def expected(query: sash.Query = QUERY, rows: pa.Table = ROWS) -> pa.Table:
    op = query.operator()
    batches = [op.process(batch) for batch in rows.combine_chunks().to_batches()]
    return pa.Table.from_batches([*batches, op.finish()])


def ordered(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=repr)


def test_run() -> None:
    done = typed("run", "job.toml", "--once")
    assert (done.code, done.out, done.err) == (0, "7 rows in, 7 rows out\n", "")
    assert ordered(read("results")) == ordered(expected())


def test_run_again_with_a_store() -> None:
    """Each result is written once, though the job runs three times."""
    more = ["--set", "store.kind=rocksdb", "--set", "store.path=state"]
    Path("rows/1.parquet").rename("later.parquet")
    assert typed("run", "job.toml", *more).out == "4 rows in, 1 rows out, not finished\n"
    Path("later.parquet").rename("rows/1.parquet")
    assert typed("run", "job.toml", *more, "--set", "options.memory=1MB").code == 0
    finish = ["--set", "options.finish=true"]
    summary = json.loads(typed("run", "job.toml", *more, *finish, "--json").out)
    assert (summary["rows_in"], summary["rows_out"], summary["finished"]) == (7, 7, True)
    assert ordered(read("results")) == ordered(expected())


def test_the_same_in_sql() -> None:
    frame = "PARTITION BY k ORDER BY t ROWS 1 PRECEDING"
    sql = f"SELECT t, max(price) OVER ({frame}) AS high, k AS key FROM rows WHERE price > 1"
    Path("job.toml").write_text(JOB[: JOB.index("[query]")] + f'[query]\nsql = """\n{sql}"""\nlateness = 2\n[sink]\n')
    done = typed("run", "job.toml", "--set", "sink.kind=parquet", "--set", "sink.path=results")
    assert (done.code, done.err) == (0, "")
    found = read("results")
    assert found.column_names == ["t", "high", "key"]
    assert ordered(found) == ordered(sash.sql(sql, rows=ROWS))


def test_files_of_text() -> None:
    pyarrow.csv.write_csv(ROWS, "rows.csv")
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS.to_pylist()))
    for kind in ("csv", "jsonl"):
        source = ["--set", f"source.kind={kind}", "--set", f"source.path=rows.{kind}"]
        done = typed("run", "job.toml", *source, "--set", "sink.kind=csv", "--set", f"sink.path=from_{kind}")
        assert (done.code, done.err) == (0, "")
        tables = [pyarrow.csv.read_csv(file) for file in sorted(Path(f"from_{kind}").glob("*.csv"))]
        assert ordered(pa.concat_tables(tables)) == ordered(expected())


@pytest.mark.compiled
@pytest.mark.filterwarnings("default")  # a state of None is not compiled, and a warning says so
def test_an_aggregate_of_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("my_aggregates.py").write_text(
        "from pathlib import Path\nimport sash\nPath('imported').touch()\nother = 3\n"
        "widest = sash.monoid(identity=None, combine=lambda a, b: b if a is None else a if b is None else max(a, b))\n"
    )
    monkeypatch.syspath_prepend(str(Path.cwd()))
    change = ["--set", "query.aggregates.high=my_aggregates:widest(price)"]
    done = typed("run", "job.toml", *change)
    assert done.code == 2
    assert "my_aggregates:widest is imported, which runs its code: write allow_imports = true" in done.err
    assert not Path("imported").exists()
    Path("job.toml").write_text("allow_imports = true\n" + JOB)
    done = typed("run", "job.toml", *change)
    assert done.out == "7 rows in, 7 rows out\n"
    assert done.err.startswith("sash: warning: ")
    assert ordered(read("results").select(["t", "high"])) == ordered(expected().select(["t", "high"]))
    for name, message in [
        ("my_aggregates:none", "my_aggregates:none cannot be imported: "),
        ("no_such_module:x", "no_such_module:x cannot be imported: No module named 'no_such_module'"),
        ("my_aggregates:other", "my_aggregates:other is a int, not an aggregate that sash.monoid() made"),
    ]:
        done = typed("run", "job.toml", "--set", f"query.aggregates.high={name}(price)")
        assert done.code == 2
        assert message in done.err
    Path("job.toml").write_text("allow_imports = 1\n" + JOB)
    assert "job.toml:1: allow_imports must be true or false; got 1" in typed("run", "job.toml").err


def test_csv_has_no_lists() -> None:
    change = ["--set", "sink.kind=csv", "--set", "query.aggregates.all='array_agg(price)'"]
    done = typed("run", "job.toml", *change)
    assert done.code == 1
    assert "column 'all' is of type list<item: double>, which CSV cannot represent: write Parquet" in done.err
    assert not Path("results").exists()


def test_a_given_schema_and_a_condition() -> None:
    Path("rows.csv").write_text("t;k;price\n1;a;2\n2;a;x\n3;a;9\n")
    Path("job.toml").write_text(
        JOB.replace('"parquet"\npath = "rows"', '"csv"\npath = "rows.csv"\ndelimiter = ";"').replace(
            "[query]", '[source.schema]\nt = "int64"\nk = "string"\nprice = "float64"\n[query]\nwhere = "price > 2"'
        )
    )
    done = typed("run", "job.toml")
    assert done.out == "1 rows in, 1 rows out, 1 malformed\n"
    assert "warning: malformed record at rows.csv, record 2" in done.err
    assert read("results").to_pylist() == [{"t": 3, "k": "a", "price": 9.0, "high": 9.0, "n": 1}]


def test_windows_by_name() -> None:
    change = "query.windows={short = 1, all = 'sash.Lifetime()'}"
    done = typed("run", "job.toml", "--dry-run", "--json", "--set", change)
    assert (done.code, done.err) == (0, "")
    assert [*json.loads(done.out)["schema"]][3:] == ["high_short", "n_short", "high_all", "n_all"]


def test_a_dry_run_writes_nothing() -> None:
    done = typed("run", "job.toml", "--dry-run")
    assert done.code == 0
    assert "result\n  t  int64\n  k  string\n  price  double\n  high  double\n  n  int64\n" in done.out
    found = json.loads(typed("run", "job.toml", "--dry-run", "--json").out)
    assert found["query"] == repr(QUERY)
    assert found["schema"]["n"] == "int64"
    assert sorted(path.name for path in Path().iterdir()) == ["job.toml", "rows"]


def test_in_processes_of_their_own() -> None:
    done = in_a_process("run", "job.toml")
    assert (done.code, done.out, done.err) == (0, "7 rows in, 7 rows out\n", "")
    done = in_a_terminal("run", "job.toml", "--set", "sink.path=others")
    assert done.code == 0
    assert "7 rows in, 7 rows out\n" in done.out
    assert read("others").num_rows == 7
    more = [one for given in ("kind=rocksdb", "path=state") for one in ("--set", f"store.{given}")]
    done = in_a_terminal("run", "job.toml", *more, "--set", "options.finish=false", "--set", "sink.path=open")
    assert done.code == 0
    assert "rows in, 6 rows out, not finished\n" in done.out
    assert re.search(r"100%, 7 rows, [\d,]+ rows/s, watermark 28\b", done.out)  # the last line that it shows


def test_a_stream_until_it_is_interrupted() -> None:
    command = [sys.executable, "-m", "sash", "run", "job.toml", "--stream"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | SWITCHED_OFF) as process:
        while len([*Path().glob("results/*.parquet")]) < 2:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0].startswith("7 rows in, ")
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        (
            "[query]",
            "[querry]",
            7,
            "there is no 'querry' in a job; did you mean 'query'? Known names are source, query",
        ),
        ("windows =", "windws =", 8, "[query] has no key 'windws'; did you mean 'windows'?"),
        ('"max(price)"', '"maxx(price)"', 14, "the function maxx() is not supported over windows; did you mean max()?"),
        ('"max(price)"', '"max(prise)"', 14, "prise"),
        ('"max(price)"', '"max(price), 1"', 14, "is not one aggregate"),
        ('"max(price)"', '"3"', 14, "'3' is a number"),
        ('"max(price)"', '"max(price) FROM x"', 14, "is not one aggregate"),
        ('"max(price)"', "3", 14, "high must be an aggregate as text"),
        ('"Time(5)"', '"Tyme(5)"', 8, "there is no window Tyme(); did you mean 'Time'?"),
        ('"Time(5)"', '"Time(5"', 8, "is not a window"),
        ('"Time(5)"', "\"Time(__import__('os').getpid())\"", 8, "there is no window __import__('os').getpid()"),
        ('"Time(5)"', '"Time(0)"', 8, "size= of Time"),
        ('"Time(5)"', "true", 8, "windows must be text or a whole number or a number or a table; got True"),
        ('on = "t"', 'on = "tt"', 10, "tt"),
        ("lateness = 2", 'lateness = "2 parsecs"', 11, "parsecs"),
        ("lateness = 2", 'where = "price"', 11, "it must be true or false"),
        ("lateness = 2", 'where = "prise > 1"', 11, "prise"),
        ("lateness = 2", 'where = "price >"', 11, ""),
        ("lateness = 2", 'emit = "sometimes"', 11, "emit="),
        ('path = "rows"', 'path = "nowhere"', 5, "there is no file or directory 'nowhere' to read"),
        ('path = "rows"', 'path = "rows"\ntopic = "x"', 6, "topic is not a key of kind = 'parquet'"),
        ('path = "rows"', "", 3, "[source] needs path ="),
        ('"parquet"\npath = "rows"', '"parket"\npath = "rows"', 4, "did you mean 'parquet'?"),
        ('path = "results"', 'path = "./rows"', 19, "the sink needs a separate directory"),
        ('path = "results"', 'path = ["results"]', 19, "path must be text; got ['results']"),
        ('path = "results"', 'path = "results', 19, "this is not TOML"),
        ('engine = "local"', 'engine = "flink"', 1, "engine = 'flink' is not known; known names are local, spark"),
        ("[sink]", "[options]\nmemory = 1\n[sink]", 18, "memory needs a [store]"),
        ("[sink]", '[options]\nprefer = "speed"\n[sink]', 18, "prefer= of Options"),
        ("[sink]", '[store]\nkind = "rocks"\n[sink]', 18, "did you mean 'rocksdb'?"),
        ("[sink]", '[source.schema]\nt = "int65"\n[sink]', 18, "'int65' is not a type; did you mean 'int64'?"),
        ("[query.aggregates]\n", 'sql = "SELECT 1"\n[query.aggregates]\n', 8, "windows is not a key of a query in SQL"),
    ],
)
def test_mistakes(old: str, new: str, line: int, message: str) -> None:
    assert JOB.count(old) == 1
    Path("job.toml").write_text(JOB.replace(old, new))
    done = typed("run", "job.toml")
    assert done.code == 2, done
    assert done.err.startswith(f"sash: job.toml:{line}: "), done.err
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not Path("results").exists()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT 1", "there is no FROM"),
        ("SELECT sum(price) OVER (ORDER BY t) AS a, sum(price) OVER (ORDER BY k) AS b FROM r", "write a job for each"),
        (
            "SELECT tt, sum(price) OVER (ORDER BY t) AS a FROM r",
            "names the column 'tt', which does not exist: did you mean 't'?",
        ),
        (
            "SELECT t, sum(price) OVER (ORDER BY t) AS a FROM r WHERE T > 1",
            "WHERE names the column 'T', which does not",
        ),
        (
            "SELECT t, sum(PRICE) OVER (ORDER BY t) AS a FROM r",
            "names the column 'PRICE', which does not exist: did you",
        ),
        ("SELECT t, sum(price) OVER (ORDER BY t, k) AS a FROM r", "not supported on a stream: write ROWS UNBOUNDED"),
        ("SELECT t, max(price, 2) OVER (ORDER BY t) AS a FROM r", "2 is not supported in MAX(price, 2)"),
        ("SELECT *, sum(price) OVER (ORDER BY t) AS t FROM r", "two columns are named 't'"),
        ("SELECT sum(price) OVER (ORDER BY t) AS a FROM r WHERE prise > 1", "prise"),
    ],
)
def test_mistakes_in_sql(sql: str, message: str) -> None:
    job = JOB[: JOB.index("[query]")] + f'[query]\nsql = "{sql}"\n' + JOB[JOB.index("[sink]") :]
    Path("job.toml").write_text(job)
    done = typed("run", "job.toml")
    assert (done.code, done.err[:17]) == (2, "sash: job.toml:8:"), done
    assert message in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.toml"], "sash: there is no job file 'no.toml'; did you mean 'job.toml'?\n"),
        (["rows"], "sash: the job file 'rows' cannot be read: Is a directory\n"),
        (["job.toml", "--set", "sink"], "--set sink: write --set table.key=value"),
        (["job.toml", "--set", "sink.path.x=1"], "path is a value, not a table"),
        (["job.toml", "--set", "query.lateness=true"], "--set query.lateness: lateness must be text"),
        (["job.toml", "--set", "sink.pth=x"], "--set sink.pth: [sink] has no key 'pth'; did you mean 'path'?"),
        (["job.toml", "--once", "--stream"], "--once and --stream exclude each other"),
        (["job.toml", "--engine", "loca"], "did you mean 'local'?"),
    ],
)
def test_mistakes_of_the_command(arguments: list[str], message: str) -> None:
    done = typed("run", *arguments)
    assert done.code == (1 if len(arguments) == 1 else 2)
    assert message in done.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = " + "[" * 100_000, "job.toml: lists and tables are nested too deeply"),
        ("a = " + "9" * 5000, "job.toml: a number has too many digits"),
        ('{"source": {}}', "a job is TOML, or YAML if its name ends in .yaml"),
        (JOB.replace("Time(5)", "Time(10**9)"), "job.toml:8: 10 ** 9 is computed: write the number or the duration"),
        (JOB.replace("Time(5)", "Time(" + "-" * 50_000 + "5)"), "is not a window: write one such as"),
        (JOB.replace("Time(5)", "Time(1e400)"), "job.toml:8: "),
        (JOB + "[source.schema]\nt = 3\n", "3 is not a type; known names are int64"),
        (JOB.replace("count(*)", "(" * 3000), "job.toml:15: "),
    ],
    ids=range(8),
)
def test_extreme_files(text: str, message: str) -> None:
    Path("job.toml").write_text(text)
    done = typed("run", "job.toml")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert message in done.err
    assert len(done.err) < 2000


def test_progress_has_times_and_a_share(monkeypatch: pytest.MonkeyPatch) -> None:
    times = pa.array([1_546_788_420 + i for i in range(7)], pa.timestamp("s"))
    for number in range(2):
        pq.write_table(ROWS.set_column(0, "t", times).slice(4 * number, 4), f"rows/{number}.parquet")
    texts: list[str] = []
    monkeypatch.setattr("rich.status.Status.update", lambda _self, text: texts.append(text))
    change = ["--set", "query.windows=5s", "--set", "query.lateness=0s", "--set", "options.batch_size=2"]
    assert typed("run", "job.toml", *change, terminal=True).code == 0
    shares = [int(text.partition("%")[0]) for text in texts]
    assert shares == sorted(shares)
    assert (len(shares), shares[-1]) == (5, 100)
    assert 20 <= shares[0] < shares[1] < 70
    assert texts[0].endswith("watermark 2019-01-06 15:27:01.000")
    assert "watermark" not in texts[-1]
    summary = json.loads(typed("run", "job.toml", *change, "--overwrite", "--json").out)
    assert (summary["watermark"], summary["share"], summary["finished"]) == (None, 1.0, True)


def test_help_lists_commands_by_use() -> None:
    listed = re.findall(r"^[│ ]+([a-z][a-z-]+)  ", typed("--help").out, re.MULTILINE)
    assert listed[:6] == ["run", "new", "explain", "sql", "inspect", "lookup"]
    assert {"migrate", "backup", "restore", "trace"} < {*listed}


def test_the_output_of_another_job() -> None:
    assert typed("run", "job.toml").code == 0
    done = typed("run", "job.toml")
    assert done.code == 1
    assert "has the output of another run of this query" in done.err


# ---- rows that fail ----


def test_rows_that_fail_go_to_the_side_directory() -> None:
    job = JOB.replace('high = "max(price)"', 'high = "max(cast(price as bigint) * 4611686018427387904)"')
    Path("job.toml").write_text(job)
    failed = typed("run", "job.toml")
    assert failed.code == 1
    assert "fails at row 0" in failed.err
    assert '([options] failed = "side" in a job)' in failed.err
    Path("job.toml").write_text(job + '\n[options]\nfailed = "side"\n\n[side]\npath = "side"\n')
    done = typed("run", "job.toml", "--set", "sink.path=others")
    assert (done.code, done.out) == (0, "7 rows in, 1 rows out, 6 failed\n")
    assert "sash: warning: the expression 'cast(price as bigint) * 4611686018427387904' fails at price=7.0" in done.err
    assert {row["_reason"] for row in read("side").to_pylist()} == {"failed"}
    for more, message in (
        ('[side]\npath = "results"', "'results' is the source or the sink: give a separate directory"),
        ("[side]", "[side] needs path ="),
        ('[options]\nfailed = "drop"', "failed= of Options must be 'error' or 'side'; got 'drop'"),
    ):
        Path("job.toml").write_text(f"{JOB}\n{more}\n")
        refused = typed("run", "job.toml")
        assert refused.code == 2
        assert message in refused.err
