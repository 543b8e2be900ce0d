"""new, explain, inspect and lookup."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import sash
from sash.pipeline import read
from sash.stores import RocksDBStore
from tests.cli.typed import in_a_terminal, typed

DAY = datetime.datetime(2026, 3, 2, 9)
TRADES = pa.table(
    {
        "symbol": ["A", "B", "A", "A"],
        "ts": [DAY + datetime.timedelta(minutes=30 * i) for i in range(4)],
        "price": [101, 7, 104, 102],
        "size of": [1.5, 2.5, 3.5, 4.5],
    }
)


@pytest.fixture(autouse=True)
def _trades(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(TRADES, "trades.parquet")


def test_new_gives_a_job_that_runs() -> None:
    done = typed("new", "trades.parquet", "--out", "job.toml")
    assert (done.code, done.out, done.err) == (0, "", "")
    text = Path("job.toml").read_text()
    assert typed("new", "trades.parquet").out == text
    assert "#   ts: timestamp[us]\n" in text
    assert typed("run", "job.toml", "--set", "options.finish=true").out == "4 rows in, 4 rows out\n"
    found = read("results").sort_by("ts")
    assert found["rows"].to_pylist() == [1, 1, 1, 2]
    assert found["max_price"].to_pylist() == [101, 7, 104, 104]
    assert found["mean_size_of"].to_pylist()[3] == 4.0
    done = typed("new", "trades.parquet", "--out", "job.json")
    assert (done.code, done.err) == (2, "sash: --out job.json: a job is TOML or YAML: name it job.toml, or .yaml\n")
    assert not Path("job.json").exists()
    done = typed("new", "trades.parquet", "--out", "job.toml")
    assert done.code == 2
    assert "the file exists already" in done.err
    assert typed("new", "nothing.parquet").code == 1


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"t": [1, 2], "x": [1.0, 2.0]}),
        pa.table({"rows": ["a"], "by": [1], "on": [True], "max_by": [2]}),
        pa.table({'a "quoted" name': [1]}),
        pa.table({"from": [1], "select": [2], "größe": [3]}),
        pa.table({"text": ["x"], "day": [datetime.date(2026, 1, 1)]}),
    ],
)
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_new_for_other_columns(table: pa.Table, kind: str) -> None:
    write = pq.write_table if kind == "parquet" else pyarrow.csv.write_csv
    write(table, f"data.{kind}")
    assert typed("new", f"data.{kind}", "--out", "job.toml").code == 0
    done = typed("run", "job.toml", "--dry-run")
    assert (done.code, done.err) == (0, ""), Path("job.toml").read_text()


def test_explain_is_a_tree_in_a_terminal() -> None:
    typed("new", "trades.parquet", "--out", "job.toml")
    done = typed("explain", "job.toml", terminal=True)
    assert done.code == 0
    assert "├── windows\n│   └── Time('1h')" in done.out
    assert "└── result\n    ├── symbol  string\n" in done.out
    piped = typed("explain", "job.toml")
    assert piped.out == typed("run", "job.toml", "--dry-run").out
    assert json.loads(typed("explain", "job.toml", "--json").out)["schema"]["rows"] == "int64"


def job_with_a_store() -> list[str]:
    typed("new", "trades.parquet", "--out", "job.toml")
    more = ["--set", "store.kind=rocksdb", "--set", "store.path=state"]
    assert typed("run", "job.toml", *more, "--set", "options.finish=false").code == 0
    return more


def test_inspect_a_store() -> None:
    job_with_a_store()
    found = json.loads(typed("inspect", "state", "--json").out)
    assert found["kind"] == "store"
    assert found["query"]["windows"] == {"": {"kind": "Time", "size": "1h"}}
    assert found["query"]["by"] == ["symbol"]
    assert (found["rows_in"], found["rows_out"], found["offset"]["epoch"]) == (4, 3, 1)
    assert (found["keys"], found["waiting"], found["mode"]) == (2, 1, "rows")
    assert found["watermark"] == f"{DAY + datetime.timedelta(minutes=80)}.000000"
    store = RocksDBStore("state", read_only=True)
    sizes = {name: len(page) for name, page in store.scan("")}
    store.close()
    assert sum(one["pages"] for one in found["pages"].values()) == len(sizes)
    assert sum(one["bytes"] for one in found["pages"].values()) == sum(sizes.values())
    assert found["pages"]["header"] == {"pages": 1, "bytes": sizes["header"]}
    lines = typed("inspect", "state").out
    assert "window,Time(1h)\n" in lines
    assert "aggregate max_price,max('price')\n" in lines
    assert "│ watermark" in in_a_terminal("inspect", "state", NO_COLOR="1").out


def test_inspect_a_snapshot() -> None:
    op = sash.Query(2, by="k", high=sash.max("x")).operator()
    op.process({"k": ["a", "b", "a"], "x": [1.0, 2.0, 3.0]}, offset=[3])
    Path("state.bin").write_bytes(op.snapshot())
    found = json.loads(typed("inspect", "state.bin", "--json").out)
    assert (found["kind"], found["keys"], found["elements"], found["offset"]) == ("snapshot", 2, 3, [3])
    assert found["fingerprint"] == op.state.bound_query.fingerprint
    eager = sash.Query(2, by="k", emit="eager", high=sash.max("x")).operator()
    eager.process({"k": ["a"], "x": [1.0]})
    Path("eager.bin").write_bytes(eager.snapshot())
    found = json.loads(typed("inspect", "eager.bin", "--json").out)
    assert (found["keys"], found["rows_in"]) == (None, 1)


def test_inspect_what_is_no_state() -> None:
    Path("other.bin").write_bytes(b"something else")
    Path("empty").mkdir()
    missing = "there is no snapshot, store or checkpoint"
    for path, message in [("no.bin", missing), ("other.bin", "was not written by sash")]:
        done = typed("inspect", path)
        assert done.code == 1
        assert message in done.err
        assert done.err.count("\n") == 1
    assert typed("inspect", "empty").code == 1


def test_lookup() -> None:
    more = job_with_a_store()
    found = json.loads(typed("lookup", "job.toml", "symbol=A", *more, "--json").out)
    assert (found["symbol"], found["rows"], found["max_price"]) == ("A", 2, 104)
    assert typed("lookup", "job.toml", "symbol=C", *more).out.splitlines()[1].startswith("C,")
    for keys in ([], ["symbl=A"], ["symbol=A", "symbol=B"]):
        done = typed("lookup", "job.toml", *keys, *more)
        assert done.code == 2
        assert "give a value for each column of by: symbol=…" in done.err
    text = Path("job.toml").read_text()
    Path("job.toml").write_text(text[: text.index("[store]")])
    done = typed("lookup", "job.toml", "symbol=A")
    assert (done.code, done.err[:15]) == (2, "sash: job.toml:")
    assert "the job has no [store]" in done.err


def test_lookup_of_a_key_of_another_type() -> None:
    typed("new", "trades.parquet", "--out", "job.toml")
    more = ["--set", "store.kind=rocksdb", "--set", "store.path=state", "--set", "query.by=price"]
    assert typed("run", "job.toml", *more, "--set", "options.finish=false").code == 0
    assert json.loads(typed("lookup", "job.toml", "price=104", *more, "--json").out)["rows"] == 1
    done = typed("lookup", "job.toml", "price=dear", *more)
    assert (done.code, done.err) == (2, "sash: lookup: price=dear is not of type int64\n")
