"""The files that a job reads: of another kind than it says, and columns of other types."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.test_jobs import JOB, ROWS, read
from tests.cli.typed import typed


@pytest.fixture(autouse=True)
def _job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows").mkdir()
    pq.write_table(ROWS, "rows/0.parquet")
    Path("job.toml").write_text(JOB)


def test_files_of_another_kind() -> None:
    """The message names the kind, whatever the suffix says."""
    Path("text.parquet").write_text("t,k,price\n1,a,2.0\n")
    pq.write_table(ROWS, "table.csv")
    Path("packed.csv").write_bytes(gzip.compress(b"t,k,price\n1,a,2.0\n"))
    Path("lines.csv").write_text('{"t": 1, "k": "a", "price": 2}\n')
    Path("array.jsonl").write_text('[{"t": 1, "k": "a", "price": 2}]\n')
    Path("wide.csv").write_text("t,k,price\n1,a,2.0\n", "utf-16")
    Path("empty.parquet").write_text("")
    for kind, path, message in [
        ("csv", "rows/0.parquet", "rows/0.parquet is not text but a Parquet file: its format is 'parquet' (kind = "),
        ("csv", "table.csv", "table.csv is not text but a Parquet file"),
        ("jsonl", "table.csv", "table.csv is not text but a Parquet file"),
        ("csv", "packed.csv", "packed.csv is not text but compressed with gzip: its name must end in .gz"),
        (
            "parquet",
            "text.parquet",
            "is not a Parquet file but text: if it has a header and values, its format is 'csv' (",
        ),
        ("parquet", "packed.csv", "packed.csv is not a Parquet file but compressed with gzip"),
        (
            "parquet",
            "lines.csv",
            "is not a Parquet file but JSON lines: its format is 'json' (kind = 'jsonl' in a job)",
        ),
        ("parquet", "empty.parquet", "empty.parquet is not a Parquet file: move it away"),
        ("csv", "lines.csv", "lines.csv is not CSV but JSON lines: its format is 'json' (kind = 'jsonl' in a job)"),
        ("csv", "wide.csv", "wide.csv is text in UTF-16: convert it to UTF-8"),
        ("jsonl", "wide.csv", "wide.csv is text in UTF-16: convert it to UTF-8"),
        ("jsonl", "text.parquet", "no JSON object in its first 1000 lines. It seems to be text: if it has a header"),
        ("jsonl", "array.jsonl", "It seems to be a JSON array: write each object in a line of its own"),
    ]:
        done = typed("run", "job.toml", "--set", f"source.kind={kind}", "--set", f"source.path={path}")
        assert (done.code, done.err.count("\n")) == (1, 1)
        assert message in done.err


def test_the_types_of_some_columns() -> None:
    """Those that [source.schema] names; the others stay as they are inferred."""
    Path("rows.csv").write_text("t,k,price\n1,a,3\n2,b,5\n3,a,x\n")
    change = ["--set", "source.kind=csv", "--set", "source.path=rows.csv", "--set", "source.schema.price='float64'"]
    done = typed("run", "job.toml", *change)
    assert (done.code, done.out) == (0, "2 rows in, 2 rows out, 1 malformed\n")
    assert read("results").schema.field("high").type == pa.float64()
    assert read("results").schema.names[:3] == ["t", "k", "price"]
    done = typed("run", "job.toml", *change, "--set", "source.schema.prise='int64'")
    assert "names a column 'prise', which the file rows.csv does not have; its columns are t, k, price" in done.err
    Path("rows.jsonl").write_text('{"t": 1, "k": "a", "price": 2}\n{"t": 2, "k": "a", "price": "x"}\n')
    change = ["--set", "source.kind=jsonl", "--set", "source.path=rows.jsonl", "--set", "sink.path=from_json"]
    assert "Pass schema= ([source.schema] in a job)" in typed("run", "job.toml", *change).err
    done = typed("run", "job.toml", *change, "--set", "source.schema.price='int64'", "--set", "source.schema.t='int64'")
    assert (done.code, done.out) == (0, "1 rows in, 1 rows out, 1 malformed\n")
    assert read("from_json").schema.names[:3] == ["t", "k", "price"]


def test_the_types_of_some_columns_of_parquet() -> None:
    """The remedy for times that are text, and numbers that the type holds."""
    times = ["2024-05-01 10:00:00", "2024-05-01T11:00:00.5", "noon", None]
    pq.write_table(pa.table({"t": times, "k": ["a"] * 4, "price": [1.0, 2.0, 3.0, 4.0]}), "texts.parquet")
    change = ["--set", "source.path=texts.parquet", "--set", "query.windows='1h'", "--set", "query.lateness='1h'"]
    done = typed("run", "job.toml", *change)
    assert 'in a job with t = "timestamp[us]" under [source.schema]' in done.err
    change += ["--set", "source.schema.t='timestamp[us]'"]
    done = typed("run", "job.toml", *change)
    assert done.code == 0, done.err
    assert "3 rows in, 2 rows out, 1 untimed, 1 malformed" in done.out
    assert "texts.parquet, row 3: column 't': Failed to parse string: 'noon'" in done.err
    assert read("results").schema.field("t").type == pa.timestamp("us")
    change += ["--set", "sink.path=others"]
    done = typed("run", "job.toml", *change, "--set", "options.malformed='error'", "--set", "sink.path=none")
    assert "texts.parquet, row 3: column 't'" in done.err
    assert "'price': 3.0" in done.err
    done = typed("run", "job.toml", *change, "--set", "source.schema.price='int8'")
    assert (done.code, read("others").schema.field("price").type) == (0, pa.int8())
    done = typed("run", "job.toml", *change, "--set", "source.schema.price='string'", "--set", "sink.path=more")
    assert "the column 'price' of the file texts.parquet is of type double; that of the source is string" in done.err
