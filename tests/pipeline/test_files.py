"""Files as a source: formats, positions, and files that change or come too late."""

from __future__ import annotations

import gzip
import json
import os
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.pipeline import Reading, SourceWarning, files
from tests.pipeline.file_cases import read, table
from tests.pipeline.pipe_cases import SCHEMA, rows, write_file, write_files

TABLE = rows(100)


@pytest.mark.parametrize("layout", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("size", [7, 30, 1000])
def test_continues_behind_any_position(tmp_path: Path, layout: str, size: int) -> None:
    folder = write_files(tmp_path, TABLE, 3, layout)
    chunks = read(files(folder, schema=SCHEMA), size=size)
    assert table(chunks).equals(TABLE)
    assert all(chunk.batch.num_rows <= size for chunk in chunks)
    done = 0
    for chunk in chunks:
        done += chunk.batch.num_rows
        position = json.loads(json.dumps(chunk.position))
        rest = read(files(folder, schema=SCHEMA), position, size=11)
        assert sum(found.batch.num_rows for found in rest) == 100 - done
        if rest:
            assert table(rest).equals(TABLE.slice(done))


def test_the_position_does_not_grow(tmp_path: Path) -> None:
    chunks = read(files(write_files(tmp_path, TABLE, 50)))
    sizes = {len(json.dumps(chunk.position)) for chunk in chunks}
    assert len(chunks) == 50
    assert max(sizes) - min(sizes) <= 4


def test_one_file_and_what_is_ignored(tmp_path: Path) -> None:
    write_files(tmp_path, TABLE, 1, "csv")
    for name in ("_x.csv", ".y.csv", "z.txt"):
        (tmp_path / name).write_text("no\n")
    (tmp_path / "folder.csv").mkdir()
    assert table(read(files(tmp_path, "csv", schema=SCHEMA))).equals(TABLE)
    assert table(read(files(tmp_path / "0000.csv", schema=SCHEMA))).equals(TABLE)


def test_types_are_those_of_the_first_file(tmp_path: Path) -> None:
    write_file(tmp_path / "1.csv", TABLE)
    assert files(tmp_path).schema.names == ["k", "t", "x"]
    assert files(tmp_path).schema.field("x").type == pa.int64()
    assert pa.types.is_timestamp(files(tmp_path).schema.field("t").type)
    (tmp_path / "1.jsonl").write_text('{"a": 1, "b": "x"}\n{"a": 2.5, "c": null}\n')
    found = files(tmp_path, "json").schema
    assert found == pa.schema([("a", pa.float64()), ("b", pa.string()), ("c", pa.string())])


def test_compressed_text(tmp_path: Path) -> None:
    write_files(tmp_path, TABLE, 1, "jsonl")
    plain = tmp_path / "0000.jsonl"
    (tmp_path / "0001.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert table(read(files(tmp_path, schema=SCHEMA))).equals(TABLE)


# ---- what is refused ----


def test_a_file_with_other_columns(tmp_path: Path) -> None:
    write_file(tmp_path / "1.parquet", TABLE)
    write_file(tmp_path / "2.parquet", TABLE.drop_columns(["x"]))
    with pytest.raises(ValueError, match=r"the file .*2\.parquet has no column 'x'"):
        read(files(tmp_path))
    write_file(tmp_path / "2.parquet", TABLE.set_column(2, "x", TABLE["x"].cast(pa.float64())))
    with pytest.raises(ValueError, match=r"column 'x' of the file .*2\.parquet is of type double.* is int64"):
        read(files(tmp_path))
    write_file(tmp_path / "2.parquet", TABLE.append_column("y", TABLE["x"]))
    with pytest.raises(ValueError, match=r"2\.parquet has a column 'y', which the first file does not have"):
        read(files(tmp_path))
    assert table(read(files(tmp_path, schema=SCHEMA))).num_rows == 200
    write_file(tmp_path / "2.parquet", TABLE.select(["x", "k", "t"]))
    assert table(read(files(tmp_path))).num_rows == 200, "the order of columns does not matter"


def test_a_csv_file_with_other_columns(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("k,x\na,1\n")
    (tmp_path / "2.csv").write_text("k,y\na,1\n")
    with pytest.raises(ValueError, match=r"2\.csv has a column 'y'"):
        read(files(tmp_path))
    (tmp_path / "2.csv").write_text("k,x,x\na,1,2\n")
    with pytest.raises(ValueError, match="more than one column 'x'"):
        read(files(tmp_path))
    (tmp_path / "2.csv").write_text("")
    with pytest.raises(ValueError, match="has no column 'k'"):
        read(files(tmp_path))


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "1.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(ValueError, match=r"1\.parquet is not a readable Parquet file"):
        read(files(tmp_path))
    (tmp_path / "1.csv").write_text("d\n1\n")
    with pytest.raises(TypeError, match=r"column 'd' is of type duration.*; use Parquet"):
        read(files(tmp_path, "csv", schema=pa.schema([("d", pa.duration("s"))])))
    (tmp_path / "1.csv").write_bytes(b"\xff,b\n1,2\n")
    with pytest.raises(ValueError, match=r"has no header in UTF-8: a column is named '\\udcff'"):
        read(files(tmp_path, "csv", schema=SCHEMA))


def test_types_of_some_columns_of_parquet(tmp_path: Path) -> None:
    given = pa.table({"t": ["2024-05-01", "x", None], "x": [1, 2, 3], "l": [[1], [2], None], "s": ["a", None, "b"]})
    pq.write_table(given, tmp_path / "1.parquet", row_group_size=2)
    found = table(read(files(tmp_path, types={"t": pa.timestamp("ms"), "x": pa.float64()})))
    assert [(row["t"] and row["t"].day, row["x"], row["l"]) for row in found.to_pylist()] == [
        (1, 1.0, [1]),
        (None, 3.0, None),
    ]
    assert found.schema.types == [pa.timestamp("ms"), pa.float64(), pa.list_(pa.int64()), pa.string()]
    with pytest.raises(ValueError, match=r"column 'x' of the file .*1\.parquet is of type int64; .* cannot hold all"):
        read(files(tmp_path, types={"x": pa.bool_()}))
    with pytest.raises(
        TypeError, match=r"column 's' is of type list<.*>, which a column of text, as in .*, cannot have"
    ):
        read(files(tmp_path, types={"s": pa.list_(pa.int64())}))
    pq.write_table(pa.table({"t": ["2024-05-02"], "x": [1.5], "l": [[1]], "s": ["c"]}), tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=r"column 'x' of the file .*2\.parquet is of type double; that of the source"):
        read(files(tmp_path, types={"t": pa.timestamp("ms")}))


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"format": "xml"}, ValueError, "format= must be one of"),
        ({"poll": 0}, ValueError, "poll="),
        ({"delimiter": "::"}, ValueError, "delimiter= must be one character; got '::'"),
        ({"schema": ["x"]}, TypeError, "schema="),
        ({}, ValueError, r"several formats \(csv, parquet\)"),
    ],
)
def test_bad_arguments(tmp_path: Path, arguments: Any, error: type[Exception], match: str) -> None:
    (tmp_path / "1.csv").write_text("")
    (tmp_path / "1.parquet").write_text("")
    given = arguments if not arguments or "format" in arguments else {"format": "csv", **arguments}
    with pytest.raises(error, match=match):
        files(tmp_path, **given)


def test_an_empty_directory_has_no_format(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no file of a known format yet"):
        files(tmp_path)
    assert files(tmp_path, "csv").schema is None
    assert read(files(tmp_path, "csv")) == []


def test_files_of_other_suffixes_alone_are_reported(tmp_path: Path) -> None:
    (tmp_path / "1.tsv").write_text("k\tt\n")
    source = files(tmp_path, "csv", delimiter="\t")
    with pytest.warns(
        SourceWarning, match=r"no file with a suffix of the format 'csv' .* such as 1\.tsv, are not read"
    ):
        assert read(source) == []
    assert len(source.problems) == 1


def test_hidden_names_do_not_tell_a_format(tmp_path: Path) -> None:
    write_files(tmp_path, TABLE, 1)
    (tmp_path / ".1.csv").write_text("")
    assert table(read(files(tmp_path))).equals(TABLE)


@pytest.mark.parametrize("layout", ["csv", "jsonl"])
@pytest.mark.parametrize("schema", [None, SCHEMA])
def test_a_damaged_compressed_file_is_named(tmp_path: Path, layout: str, schema: pa.Schema | None) -> None:
    write_file(tmp_path / f"1.{layout}", TABLE)
    whole = gzip.compress((tmp_path / f"1.{layout}").read_bytes())
    (tmp_path / f"1.{layout}").unlink()
    for damaged in (whole[: len(whole) // 2], b"k,t,x\n"):
        (tmp_path / f"1.{layout}.gz").write_bytes(damaged)
        with pytest.raises(ValueError, match=rf"the file .*1\.{layout}\.gz cannot be read.*: (Truncated|zlib)"):
            read(files(tmp_path, schema=schema))


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "\udcff.csv").write_text("k\na\n")
    with pytest.raises(ValueError, match=r"the name of the file .*udcff\.csv' is not UTF-8: rename it"):
        read(files(tmp_path))


def test_a_record_longer_than_a_block(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text(f'k,x\na,1\n"{"b" * (9 << 20)},2\n')
    with pytest.raises(
        ValueError, match="after record 1: a record is longer than 4 MiB; perhaps a quote is not closed"
    ):
        read(files(tmp_path, schema=pa.schema([("k", pa.string()), ("x", pa.int64())])))
    (tmp_path / "1.csv").write_text("k" * 200_000)
    with pytest.raises(ValueError, match=r"1\.csv has no header: field larger"):
        read(files(tmp_path, schema=SCHEMA))


# ---- files that change, or come too late ----


def test_a_file_that_changed_while_half_of_it_was_read(tmp_path: Path) -> None:
    folder = write_files(tmp_path, TABLE, 2, "csv")
    source = files(folder, schema=SCHEMA)
    first = read(source, size=30)[0]
    path = folder / "0000.csv"
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with pytest.raises(ValueError, match=r"0000\.csv has changed .* up to record 30: it shrank from \d+ to \d+ bytes"):
        read(source, first.position)
    path.write_bytes(whole.replace(b"k1", b"k2"))
    with pytest.raises(ValueError, match="its contents differ"):
        read(source, first.position)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"0000\.csv was read up to record 30, and no longer exists"):
        read(source, first.position)


def test_a_file_that_grows_while_it_is_read(tmp_path: Path) -> None:
    folder = write_files(tmp_path, TABLE, 1, "csv")
    chunks = files(folder, schema=SCHEMA).read(None, Reading(30, False, threading.Event()))
    next(chunks)
    with (folder / "0000.csv").open("a") as file:
        file.write("k1,2024-05-01T09:00:00Z,1\n")
    with pytest.raises(ValueError, match=r"0000\.csv was changed while it was read: it has grown"):
        list(chunks)


def test_files_that_are_done_may_go(tmp_path: Path) -> None:
    folder = write_files(tmp_path, TABLE, 2)
    chunks = read(files(folder), size=100)
    for file in folder.iterdir():
        file.unlink()
    write_file(folder / "0002.parquet", TABLE)
    assert table(read(files(folder), chunks[-1].position)).equals(TABLE)


def test_files_that_are_deleted_while_they_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may delete a file that is done at any moment; nothing of it is kept."""
    folder = write_files(tmp_path, TABLE, 2)
    source = files(folder)
    chunks = source.read(None, Reading(100, False, threading.Event()))
    next(chunks)
    next(chunks)
    scandir = os.scandir

    @contextmanager
    def deleting(path: Any) -> Any:
        with scandir(path) as entries:
            found = list(entries)
        (folder / "0000.parquet").unlink(missing_ok=True)
        yield found

    monkeypatch.setattr(os, "scandir", deleting)
    assert list(chunks) == []
    assert set(source._known) == {"0001.parquet"}


def test_a_name_before_the_position_is_reported(tmp_path: Path) -> None:
    folder = write_files(tmp_path, TABLE, 2)
    source = files(folder)
    chunks = source.read(None, Reading(1000, False, threading.Event()))
    next(chunks)
    last = next(chunks)
    write_file(folder / "0000a.parquet", TABLE)
    with pytest.warns(SourceWarning, match=r"0000a\.parquet has appeared after files up to 0001\.parquet were read"):
        assert list(chunks) == []
    assert len(source.problems) == 1

    again = files(folder)  # also after a restart
    with pytest.warns(SourceWarning, match=r"0000a\.parquet has appeared or changed after files up to"):
        assert read(again, last.position) == []
    assert len(again.problems) == 1


def test_a_file_that_changed_after_it_was_read_is_reported(tmp_path: Path) -> None:
    folder = write_files(tmp_path, TABLE, 2)
    source = files(folder)
    chunks = source.read(None, Reading(1000, False, threading.Event()))
    next(chunks)
    next(chunks)
    pq.write_table(TABLE, folder / "0000.parquet")
    with pytest.warns(SourceWarning, match=r"0000\.parquet has changed after it was read: it shrank"):
        assert list(chunks) == []


def test_one_file_after_another(tmp_path: Path) -> None:
    """A file that is named by itself is read behind the one before, or reported."""
    folder = write_files(tmp_path, TABLE, 2)
    first, second = (files(folder / f"000{number}.parquet") for number in range(2))
    position = read(first, size=100)[-1].position
    assert table(read(second, position, size=100)).equals(TABLE.slice(50))
    with pytest.warns(SourceWarning, match=r"the state is that of 0001\.parquet, whose name comes after 0000\.parquet"):
        assert read(first, read(second, size=100)[-1].position | {"seen": 2**62}) == []


def test_nothing_is_reported_without_reason(tmp_path: Path) -> None:
    folder = write_files(tmp_path, TABLE, 3)
    chunks = read(files(folder))
    os.utime(folder, (1, 1))
    for chunk in chunks:
        source = files(folder)
        read(source, chunk.position)
        assert source.problems == []
