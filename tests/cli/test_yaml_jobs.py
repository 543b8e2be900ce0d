"""Jobs in YAML: the same as in TOML, with the line of each mistake; nothing is constructed or executed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.cli.job_file import read_job
from tests.cli.typed import in_a_process, typed

ROWS = pa.table({"t": [1, 2, 4, 9], "k": ["a", "b", "a", "a"], "price": [3.0, 5.0, 4.0, 1.0]})

TOML = """\
engine = "local"
allow_imports = false
[source]
kind = "parquet"
path = "rows.parquet"
[query]
windows = "Time(5)"
by = ["k"]
on = "t"
lateness = 2
where = "price > 1.5"
[query.aggregates]
high = "max(price)"
"no" = "count(*)"
[sink]
kind = "csv"
path = "results"
[options]
finish = true
"""
YAML = """\
engine: local
allow_imports: false
source:
  kind: parquet
  path: rows.parquet
query:
  windows: Time(5)
  by: [k]
  on: t
  lateness: 2
  where: price > 1.5
  aggregates:
    high: max(price)
    no: "count(*)"
sink: {kind: csv, path: results}
options:
  finish: true
"""


@pytest.fixture(autouse=True)
def _job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(ROWS, "rows.parquet")
    Path("job.toml").write_text(TOML)
    Path("job.yaml").write_text(YAML)


def test_the_same_job_as_in_toml() -> None:
    assert read_job("job.yaml").tables == read_job("job.toml").tables
    Path("other.yml").write_text(YAML)
    done = in_a_process("run", "other.yml")
    assert (done.code, done.out, done.err) == (0, "3 rows in, 3 rows out\n", "")
    assert typed("run", "job.toml", "--set", "sink.path=others").code == 0
    rows = [[path.read_text() for path in sorted(Path(name).glob("*.csv"))] for name in ("results", "others")]
    assert rows[0] == rows[1] != []


def test_values() -> None:
    Path("job.yaml").write_text(YAML + "  prefer: 'on'\n  threads: -2\n  memory: 1_000\n  structure: |\n    3\n")
    options = read_job("job.yaml").tables["options"]
    assert options == {"finish": True, "prefer": "on", "threads": -2, "memory": "1_000", "structure": "3\n"}
    for text, value in [("1.5", 1.5), (".5", 0.5), ("1e3", 1000.0), ("010", 10), ("yes", "yes"), ("10:20", "10:20")]:
        Path("job.yaml").write_text(YAML.replace("lateness: 2", f"lateness: {text}"))
        assert read_job("job.yaml").get("query", "lateness") == value
    assert read_job("job.yaml", ["query.lateness=7"]).get("query", "lateness") == 7


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("  windows:", "  windws:", 7, "query: has no key 'windws'; did you mean 'windows'?"),
        ("high: max(price)", "high: maxx(price)", 13, "did you mean max()?"),
        ("high: max(price)", "high: lag(price)", 13, "lag() needs an OVER of its own"),
        ("{kind: csv,", "{kind: cvs,", 15, "kind: 'cvs' is not known; did you mean 'csv'?"),
        ("{kind: csv, path: results}", "{kind: csv}", 15, "sink: needs path:"),
        ("query:", "querry:", 6, "there is no 'querry' in a job; did you mean 'query'?"),
        ("by: [k]", "by: [k]\n  by: t", 9, "the key 'by' occurs twice; the first one is in line 8"),
        ("  kind: parquet", "\tkind: parquet", 4, "this is not YAML: found character '\\t'"),
        ("on: t", "on: [t", 10, "this is not YAML: "),
        ("on: t", "on: *t", 9, "this is not YAML: found undefined alias"),
        ("by: [k]", "by: &k [k]\n  on: *k", 8, "anchors and aliases are not read"),
        ("on: t", "on:", 9, "there is no value: write one, or leave the key out"),
        ("on: t", "on: ~", 9, "there is no value"),
        ("on: t", "? [on]\n  : t", 9, "a key must be text"),
        ("on: t", "on: !!python/object/apply:os.system [touch ran]", 9, "the tag 'tag:yaml.org,2002:python/object"),
        ("on: t", "on: !secret t", 9, "the tag '!secret' is not read"),
        ("on: t", "on: t\n---\nsource:", 10, "this is not YAML: but found another document"),
        ("on: t", "on: t\n  <<: {by: t}", 10, "query: has no key '<<'"),
        ("engine: local", "engine: " + "[" * 3000, 1, "too deep"),
        ("engine: local", "engine: flink", 1, "engine: 'flink' is not known"),
    ],
)
def test_mistakes(old: str, new: str, line: int, message: str) -> None:
    assert YAML.count(old) == 1
    Path("job.yaml").write_text(YAML.replace(old, new))
    done = typed("run", "job.yaml")
    assert done.code == 2, done
    assert done.err.startswith(f"sash: job.yaml:{line}: "), done.err
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not Path("results").exists()
    assert not Path("ran").exists()


def test_files_that_are_no_job() -> None:
    Path("job.yaml").write_text("- 1\n")
    assert "job.yaml:1: a job has tables: source:, query:, sink:" in typed("run", "job.yaml").err
    Path("job.yaml").write_text("# nothing\n")
    assert "job.yaml:1: there is no table source:" in typed("run", "job.yaml").err
    Path("job.yaml").write_bytes(b"\xff\xfe")
    assert "job.yaml: the file is not UTF-8" in typed("run", "job.yaml").err
    Path("job.yaml").write_text("a: \x07\n")
    assert "this is not YAML" in typed("run", "job.yaml").err


def test_another_kind_leaves_keys_of_the_first_out() -> None:
    done = typed("run", "job.yaml", "--set", "sink.kind=console")
    assert (done.code, done.out.count("\n")) == (0, 3), done
    assert not Path("results").exists()
    done = typed("run", "job.yaml", "--set", "sink.kind=console", "--set", "sink.path=other")
    assert done.err.startswith("sash: --set sink.path: path is not a key of kind = 'console'")


def test_new() -> None:
    assert typed("new", "rows.parquet", "--out", "new.yaml").code == 0
    assert typed("new", "rows.parquet", "--format", "yaml").out == Path("new.yaml").read_text()
    assert typed("new", "rows.parquet", "--out", "new.toml").code == 0
    assert read_job("new.yaml").tables == read_job("new.toml").tables
    assert (
        typed("run", "new.yaml", "--set", "query.lateness=9", "--set", "options.finish=true").out
        == "4 rows in, 4 rows out\n"
    )
    with_store = Path("new.yaml").read_text().replace("# store:", "store:").replace("#   kind: ", "  kind: ")
    Path("new.yaml").write_text(with_store.replace("#   path: ", "  path: "))
    assert read_job("new.yaml").tables["store"] == {"kind": "rocksdb", "path": "state"}
    for arguments, message in [
        (["--format", "json"], "--format json is not known; known names are toml, yaml"),
        (["--format", "toml", "--out", "x.yml"], "--out x.yml: by its suffix, `sash run` reads this as YAML, not TOML"),
        (["--format", "yaml", "--out", "x.toml"], "reads this as TOML, not YAML"),
    ]:
        done = typed("new", "rows.parquet", *arguments)
        assert (done.code, done.out) == (2, "")
        assert message in done.err


def test_without_pyyaml() -> None:
    program = "import sys; sys.modules['yaml'] = None; from sash.cli.main import main; main(['run', 'job.yaml'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "sash: job.yaml: job files in YAML need the package PyYAML: pip install 'sash[cli]'\n"
