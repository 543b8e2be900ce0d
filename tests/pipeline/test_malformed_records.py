"""Records of files that cannot be decoded: which they are, where, and why."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from sash.pipeline import files
from sash.pipeline.json_files import decode_json
from tests.pipeline.file_cases import read, table
from tests.pipeline.pipe_cases import SCHEMA

CSV = 'k,t,x\na,2024-05-01T09:00:00Z,1\nb,2024-05-01T09:00:01Z\n\n"c,d\ne",2024-05-01T09:00:02Z,3\n'
CSV += (
    "f,yesterday,4\ng,,5\nh,2024-05-01T09:00:05Z,six\ni,2024-05-01T09:00:06Z,7,8\nj,2024-05-01T09:00:07Z, 9 \n,,\nk,2\n"
)


@pytest.mark.parametrize("size", [1, 2, 100])
def test_malformed_rows_of_csv(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sash.pipeline.csv_files.BLOCK", 64)
    (tmp_path / "1.csv").write_text(CSV)
    source = files(tmp_path, schema=SCHEMA)
    chunks = read(source, size=size)
    assert table(chunks)["k"].to_pylist() == ["a", "c,d\ne", "g", "j", ""]
    assert table(chunks)["x"].to_pylist() == [1, 3, 5, 9, None]
    bad = [record for chunk in chunks for record in chunk.malformed]
    assert [record.where for record in bad] == [f"1.csv, record {number}" for number in (2, 4, 6, 7, 10)]
    assert [record.given.split(b",")[0] for record in bad] == [b"b", b"f", b"h", b"i", b"k"]
    assert bad[0].reason == "it has 2 values, not 3"
    assert "column 't'" in bad[1].reason
    assert "column 'x'" in bad[2].reason
    for number, chunk in enumerate(chunks):  # nothing is read or reported twice
        rest = read(source, chunk.position, size)
        names = [name for found in rest for name in found.batch["k"].to_pylist()]
        assert names == [name for found in chunks[number + 1 :] for name in found.batch["k"].to_pylist()]
        again = [record for found in rest for record in found.malformed]
        assert again == [record for found in chunks[number + 1 :] for record in found.malformed]


def test_a_malformed_row_of_csv_is_reported_as_it_was(tmp_path: Path) -> None:
    """With the columns that the schema leaves out, and its delimiter, so that it can be corrected and read again."""
    lines = ["k;note;x", 'a;"b; ""c""";six', "d;e,f;7"]
    (tmp_path / "1.csv").write_text("\n".join(lines))
    source = files(tmp_path, schema=pa.schema([("x", pa.int64()), ("k", pa.string())]), format="csv", delimiter=";")
    (chunk,) = read(source)
    assert chunk.batch.to_pydict() == {"x": [7], "k": ["d"]}
    assert [record.given for record in chunk.malformed] == [lines[1].encode()]


@pytest.mark.parametrize("first", ["", "0\n"])
def test_long_runs_of_malformed_rows_come_in_pieces(
    tmp_path: Path, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file with another number of values in each record must not be in memory as a whole."""
    monkeypatch.setattr("sash.pipeline.csv_files.BLOCK", 64)
    (tmp_path / "1.csv").write_text(f"x\n{first}" + "1,2\n" * 500 + "3\n" + "4,5\n" * 25)
    source = files(tmp_path, schema=pa.schema([("x", pa.int64())]))
    chunks = read(source, size=10)
    assert table(chunks)["x"].to_pylist() == ([0, 3] if first else [3])
    assert max(len(chunk.malformed) for chunk in chunks) < 10 + 64 // 4
    bad = [record for chunk in chunks for record in chunk.malformed]
    start = 2 if first else 1
    numbers = [*range(start, start + 500), *range(start + 501, start + 526)]
    assert [record.where for record in bad] == [f"1.csv, record {number}" for number in numbers]
    for number in (0, 7, len(chunks) - 2):
        rest = read(source, chunks[number].position, size=10)
        again = [record for found in rest for record in found.malformed]
        assert again == [record for found in chunks[number + 1 :] for record in found.malformed]


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_bytes(b"k,t,x\n\xff,2024-05-01T09:00:00Z,1\nb,2024-05-01T09:00:00Z,1\n")
    (chunk,) = read(files(tmp_path, schema=SCHEMA))
    assert chunk.batch["k"].to_pylist() == ["b"]
    assert chunk.malformed[0].given.startswith(b"\xff")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_too_few_values_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_bytes(b"k,t,x\n\xff,2\n")
    with pytest.raises(ValueError, match=r"1\.csv cannot be read .* Expected 3 columns, got 2.* not UTF-8 either"):
        read(files(tmp_path, schema=SCHEMA))


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"null", "JSON null, not an object"),
        (b"[1]", "JSON array, not an object"),
        (b'{"k": "a"} {"k": "b"}', "not JSON"),
        (b'{"k": "\xff"}', "not JSON"),
        (b'{"n": "1"}', "'n'"),
        (b'{"n": 1.5}', "'n'"),
        (b'{"n": true}', "'n'"),
        (b'{"n": 99999999999999999999}', "'n'"),
        (b'{"x": "1"}', "'x'"),
        (b'{"x": 1' + b"0" * 400 + b"}", "'x'"),
        (b'{"k": 3}', "'k'"),
        (b'{"t": "soon"}', "'t'"),
        (b'{"t": 5}', "'t'"),
        (b'{"t": true}', "'t'"),
        (b'{"t": "2024-05-01T09:00:00.000001Z"}', "'t'"),
        (b'{"b": 1}', "'b'"),
        (b'{"d": "one"}', "'d'"),
        (b'{"l": [1, "x"]}', "'l'"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_json_that_is_no_row(record: bytes, reason: str) -> None:
    fields = [("k", pa.string()), ("n", pa.int64()), ("x", pa.float64()), ("t", pa.timestamp("ms", "UTC"))]
    schema = pa.schema([*fields, ("b", pa.bool_()), ("d", pa.decimal128(6, 2)), ("l", pa.list_(pa.int64()))])
    good = b'{"k": "a", "n": 1, "x": 2, "t": "2024-05-01T11:00:00.5+02:00", "b": true, "d": 1.25, "l": [1], "q": {}}'
    batch, bad = decode_json([good, record, good], schema)
    at = datetime(2024, 5, 1, 9, 0, 0, 500_000, UTC)
    row = {"k": "a", "n": 1, "x": 2.0, "t": at, "b": True, "d": Decimal("1.25"), "l": [1]}
    assert batch.to_pylist() == [row, row]
    ((number, why),) = bad
    assert number == 1
    assert reason in why


@pytest.mark.parametrize(
    ("dtype", "good", "bad"),
    [
        (pa.int64(), "1", "1.7"),
        (pa.float64(), "12345678901234567000", "9007199254740993"),
        (pa.float32(), "16777216", "16777217"),
        (pa.float32(), "0.1", "1e39"),
        (pa.float16(), "2048", "2049"),
        (pa.float16(), "1.5", "70000.5"),
        (pa.timestamp("s"), "2024-05-01 09:00:00.000", "2024-05-01 09:00:00.500"),
        (pa.timestamp("us", "UTC"), "2024-05-01T09:00:00Z", "2024-05-01T09:00:00"),
        (pa.timestamp("us"), "2024-05-01T09:00:00", "2024-05-01T09:00:00Z"),
        (pa.date32(), "2024-05-01", "2024-05-01 12:00:00"),
        (pa.decimal128(9, 2), "1.50", "1.555"),
    ],
    ids=str,
)
def test_text_that_a_type_cannot_hold_is_malformed(tmp_path: Path, dtype: pa.DataType, good: str, bad: str) -> None:
    """In CSV and in JSON, where numbers are text, too."""
    schema = pa.schema([("x", dtype)])
    (tmp_path / "1.csv").write_text(f"x\n{good}\n{bad}\n")
    (chunk,) = read(files(tmp_path, schema=schema))
    assert (chunk.batch.num_rows, len(chunk.malformed)) == (1, 1)
    assert "'x'" in chunk.malformed[0].reason
    quoted = (good, bad) if pa.types.is_integer(dtype) or pa.types.is_floating(dtype) else (f'"{good}"', f'"{bad}"')
    rows, malformed = decode_json([b'{"x": %s}' % text.encode() for text in quoted], schema)
    assert rows.equals(chunk.batch)
    assert [number for number, _ in malformed] == [1]
    assert "'x'" in malformed[0][1]


def test_numbers_in_lists_and_structs_of_json_are_not_truncated() -> None:
    schema = pa.schema([("x", pa.list_(pa.int64())), ("s", pa.struct([("a", pa.int64())]))])
    given = [b'{"x": [1, 2.0], "s": {"a": 1, "b": 2}}', b'{"x": [1.5]}', b'{"s": {"a": 1.5}}']
    rows, bad = decode_json(given, schema)
    assert rows.to_pylist() == [{"x": [1, 2], "s": {"a": 1}}]
    assert [number for number, _ in bad] == [1, 2]


def test_numbers_of_json_keep_the_digits_that_a_decimal_has() -> None:
    """The parser of Python reads 0.12345678901234567890 as a float of 17 digits."""
    schema = pa.schema(
        [("d", pa.decimal128(38, 20)), ("x", pa.float64()), ("n", pa.int64()), ("l", pa.list_(pa.float64()))]
    )
    record = b'{"d": 0.12345678901234567890, "x": 0.25, "n": 3.0, "l": [0.5]}'
    rows, bad = decode_json([record, b'{"d": 12345678901234567.89}', b'{"d": 1e3}'], schema)
    assert bad == []
    found = rows["d"].to_pylist()
    assert found == [Decimal("0.12345678901234567890"), Decimal("12345678901234567.89"), Decimal(1000)]
    assert rows.slice(0, 1).to_pylist() == [{"d": found[0], "x": 0.25, "n": 3, "l": [0.5]}]


def test_a_float_of_json_that_may_have_lost_digits_is_no_integer() -> None:
    """9007199254740993.0 and 9007199254740992.5 are read as 9007199254740992.0."""
    given = [b'{"n": 9007199254740993.0}', b'{"n": 9007199254740992.5}', b'{"n": 1e18}', b'{"n": 9007199254740993}']
    rows, bad = decode_json(given, pa.schema([("n", pa.int64())]))
    assert rows["n"].to_pylist() == [10**18, 2**53 + 1]
    assert [number for number, _ in bad] == [0, 1]
    assert "'n'" in bad[0][1]
    assert "9007199254740992.0" in bad[0][1]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (pa.int64(), "9223372036854775808"),
        (pa.decimal128(5, 2), "12345.5"),
        (pa.decimal128(5, 2), "1.555"),
        (pa.list_(pa.float64()), "[true]"),
        (pa.dictionary(pa.int32(), pa.string()), "7"),
    ],
    ids=str,
)
def test_the_reason_names_field_and_value(dtype: pa.DataType, value: str) -> None:
    rows, bad = decode_json([b'{"x": %s}' % value.encode()], pa.schema([("x", dtype)]))
    assert rows.num_rows == 0
    assert "field 'x'" in bad[0][1]
    assert value.title() in bad[0][1]
