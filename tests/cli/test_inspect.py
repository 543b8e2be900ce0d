"""`sash inspect`: the largest keys of snapshots and stores, and checkpoints of Spark streams."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sash
from sash.cli.inspect import described_query
from sash.plan.fingerprint import described_state
from tests.cli.typed import in_a_terminal, typed

SCHEMA = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.float64()), ("y", pa.float64())])


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def rows(counts: dict[str, int]) -> pa.RecordBatch:
    keys = [key for key, count in counts.items() for _ in range(count)]
    return pa.record_batch({"k": keys, "t": range(len(keys)), "x": [1.0] * len(keys), "y": [2.0] * len(keys)}, SCHEMA)


def test_the_largest_keys_of_a_snapshot() -> None:
    op = sash.Query(5, by="k", on="t", lateness=0, high=sash.max("x"), mid=sash.median("y")).operator()
    op.process(rows({"a": 2, "b": 9, "c": 4, "d": 1}))
    op.advance(99)
    Path("state.bin").write_bytes(op.snapshot())
    found = json.loads(typed("inspect", "state.bin", "--top", "2", "--json").out)
    assert found["largest"] == [{"key": {"k": "b"}, "elements": 5}, {"key": {"k": "c"}, "elements": 4}]
    assert found["elements"] == 12
    assert "largest key 1,k=b: 5 elements\n" in typed("inspect", "state.bin").out
    assert "largest" not in json.loads(typed("inspect", "state.bin", "--top", "0", "--json").out)
    assert "│ largest key 3" in in_a_terminal("inspect", "state.bin", NO_COLOR="1").out


def test_the_largest_keys_of_a_store() -> None:
    pq.write_table(pa.Table.from_batches([rows({"a": 2, "b": 9, "c": 4})]), "rows.parquet")
    Path("job.yaml").write_text("""\
source: {kind: parquet, path: rows.parquet}
query:
  windows: 3
  by: [k]
  on: t
  lateness: 0
  aggregates: {n: count(*), total: sum(x)}
sink: {kind: parquet, path: results}
store: {kind: rocksdb, path: state}
options: {finish: false}
""")
    assert typed("run", "job.yaml").code == 0
    found = json.loads(typed("inspect", "state", "--json").out)
    # the last row waits for the watermark
    assert found["largest"] == [{"key": {"k": key}, "elements": n} for key, n in (("b", 3), ("c", 3), ("a", 2))]


@pytest.mark.filterwarnings("default")
def test_a_query_with_functions_needs_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.Table.from_batches([rows({"a": 2, "b": 9})]), "rows.parquet")
    Path("my_sums.py").write_text("import sash\nadd = sash.monoid(identity=0.0, combine=lambda a, b: a + b)\n")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    Path("job.yaml").write_text("""\
allow_imports: true
source: {kind: parquet, path: rows.parquet}
query: {windows: 3, by: k, aggregates: {total: "my_sums:add(x)"}}
sink: {kind: parquet, path: results}
store: {kind: rocksdb, path: state}
options: {finish: false}
""")
    assert typed("run", "job.yaml").code == 0
    assert json.loads(typed("inspect", "state", "--json").out)["largest"] is None
    assert "does not describe its query completely; give it with --job" in typed("inspect", "state").out
    found = json.loads(typed("inspect", "state", "--job", "job.yaml", "--json").out)
    assert found["largest"] == [{"key": {"k": "b"}, "elements": 3}, {"key": {"k": "a"}, "elements": 2}]


@pytest.mark.parametrize(
    "query",
    [
        sash.Query(3, by=["k"], n=sash.count()),
        sash.Query(
            {"a": sash.Time(6, every=2), "b": sash.Time(4, every=2)}, by="k", on="t", lateness=3, s=sash.sum("x")
        ),
        sash.Query(3, on="t", min_periods=2, q=sash.quantile("x", q=0.9), band=sash.mean("x") - 2 * sash.std("x")),
        sash.Query(3, by="k", on="t", l=sash.lag("x", n=2), s=sash.sum(sash.expr("x * y"), where="x > 1")),
        sash.Query(by="k", on="t", s=sash.sum("x").over(sash.Count(2)), m=sash.max("x").over(sash.Time(9))),
        sash.Query(sash.Session(30), by="k", on="t", forget=99, best=sash.arg_max("x", "y")),
    ],
)
def test_a_description_has_the_query(query: sash.Query) -> None:
    bound = query.bind(SCHEMA)
    found = described_query(described_state(bound), SCHEMA, bound.fingerprint)
    assert found is not None
    assert found.bind(SCHEMA).fingerprint == bound.fingerprint


def test_a_description_that_is_crafted() -> None:
    query = sash.Query(3, by="k", n=sash.count())
    bound = query.bind(SCHEMA)
    good = described_state(bound)
    for text in ("__import__('os').system('touch ran')", "os.system('touch ran')", "_x()", "max", "1 +", "[1] * 9"):
        assert described_query(good | {"aggregates": {"n": text}}, SCHEMA, bound.fingerprint) is None
    for text in ("'x' * 10 ** 12", "[0] * 1000000000000", "max('x' * 1000000000000)", "'a' * 1000000000000 + count()"):
        assert described_query(good | {"aggregates": {"n": text}}, SCHEMA, bound.fingerprint) is None
    assert described_query(good | {"by": ["x"]}, SCHEMA, bound.fingerprint) is None
    assert not Path("ran").exists()


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_checkpoint_of_spark() -> None:
    Path("rows").mkdir()
    pq.write_table(pa.Table.from_batches([rows({"a": 2, "b": 9, "c": 4, "d": 1})]), "rows/0.parquet")
    os.utime("rows/0.parquet", (1_750_000_000,) * 2)
    Path("job.yaml").write_text("""\
engine: spark
source: {kind: parquet, path: rows}
query: {windows: 5, by: k, on: t, lateness: 2, aggregates: {high: max(x)}}
sink: {kind: parquet, path: results}
spark: {checkpoint: checkpoint}
""")
    done = typed("run", "job.yaml")
    assert (done.code, done.out) == (0, "16 rows in, 13 rows out, not finished\n"), done.err
    done = typed("inspect", "checkpoint", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert (found["kind"], found["rows_in"], found["rows_out"], found["keys"]) == ("checkpoint", 16, 13, 3)
    assert found["query"]["aggregates"] == {"high": "max('x')"}
    assert (found["watermark"], found["batch"]) == ("13", 1)
    assert found["waiting"] >= 3  # of the page of the micro-batch, which is there until its last row is released
    assert found["largest"][0] == {"key": {"k": "b"}, "elements": 5}
    assert found["pages"]["header"]["pages"] == found["shards"]
    assert "largest key 1,k=b: 5 elements\n" in typed("inspect", "checkpoint").out


def test_directories_that_are_no_checkpoint() -> None:
    for name in ("offsets", "commits"):
        Path("other", name).mkdir(parents=True)
    done = typed("inspect", "other")
    assert done.code == 1
    assert done.err.count("\n") == 1
