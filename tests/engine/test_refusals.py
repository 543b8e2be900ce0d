"""Invalid queries are refused before any row is read, and the error names the argument."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.stores import MemoryStore
from tests.engine.lookup_cases import SCHEMA, batch, every_mode, query

# ---- refused before any row is read ----


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [
        (query(3, high=sash.max("y")), KeyError, r"high=max\('y'\) names the column 'y', which does not exist"),
        (query(3, by="kk"), KeyError, r"by= names the column 'kk', .*did you mean 'k'"),
        (query(3, on="time"), KeyError, r"on= names the column 'time'"),
        (query(3, on=["t", "seq"]), KeyError, r"on= names the column 'seq'"),
        (query(3, on="k"), TypeError, r"on= names the column 'k' of type string"),
        (query(sash.Delta("k", 3)), TypeError, r"Delta names the column 'k' of type string"),
        (query(sash.Punctuation("x")), TypeError, r"Punctuation names 'x' of type int64"),
        (query(3, total=sash.sum("k")), TypeError, r"total=sum\('k'\) reads numbers; the column 'k' is of type string"),
        (query(3, total=sash.any("x")), TypeError, r"total=any\('x'\) reads booleans; the column 'x' is of type int64"),
        (query(3, total=sash.concat("x")), TypeError, r"total=concat\('x'\) reads text; the column 'x'"),
        (query("1h"), TypeError, r"size= of Time is the duration '1h', and the column 't' is of type int64"),
        (query(3, lateness="1s"), TypeError, r"lateness= is the duration '1s'"),
        (query(3, lateness=0.5), ValueError, r"lateness= is 0.5, and the column 't' is of type int64"),
        (query(3, ahead=5), TypeError, r"ahead= compares times with the clock"),
        (query(3, by=(), k=sash.max("x")), ValueError, r"two columns 'k'"),
    ],
    ids=str,
)
@every_mode
def test_what_does_not_fit_the_columns(asked: sash.Query, error: type[Exception], says: str, mode: str) -> None:
    with pytest.raises(error, match=says):
        asked.operator(SCHEMA, mode=mode)
    store = MemoryStore()
    operator = asked.operator(mode=mode, store=store)
    with pytest.raises(error, match=says):
        operator.process(batch(("a", 1, 1)))
    assert not store.pages


def test_modes_that_are_none() -> None:
    with pytest.raises(ValueError, match=r"mode= must be one of 'rows', 'given', 'sorted'; got 'batch'"):
        query(3).operator(SCHEMA, mode="batch")
    with pytest.raises(ValueError, match=r"emit='eager' emits results before they are final; in mode 'sorted'"):
        query(3, emit="eager").operator(SCHEMA, mode="sorted")


@pytest.mark.parametrize("data", [None, 5, "a", [1, 2]])
def test_what_is_no_batch(data: Any) -> None:
    with pytest.raises(
        TypeError,
        match=rf"process\(\) takes a pyarrow RecordBatch .* or a dict of columns; got a {type(data).__name__}",
    ):
        query(3).operator(SCHEMA).process(data)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"k": pa.string(), "t": pa.int64()}, r"the batch has no column 'x'; it has k, t"),
        ({"k": pa.string(), "t": pa.int32(), "x": pa.int64()}, r"the column 't' is of type int32; .* int64: cast it"),
        ({"k": pa.large_string(), "t": pa.int64(), "x": pa.int64()}, r"the column 'k' is of type large_string"),
        ({"k": pa.string(), "x": pa.int64(), "t": pa.int64()}, r"columns k, x, t; .* k, t, x, in this order"),
        ({"k": pa.string(), "t": pa.int64(), "x": pa.int64(), "y": pa.int64()}, r"the columns k, t, x, y; .* k, t, x"),
        ({"k": pa.dictionary(pa.int8(), pa.string()), "t": pa.int64(), "x": pa.int64()}, r"'k' is of type dictionary"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
@every_mode
def test_other_columns_between_batches(columns: dict[str, Any], says: str, mode: str) -> None:
    operator = query(3).operator(mode=mode)
    operator.process(batch(("a", 1, 1)))
    before = operator.snapshot()
    with pytest.raises(ValueError, match=says):
        operator.process(pa.RecordBatch.from_pylist([], schema=pa.schema(columns)))
    assert operator.snapshot() == before


def test_other_metadata_between_batches_is_no_matter() -> None:
    operator = query(3, late="flag").operator()
    operator.process(batch(("a", 9, 1), ("a", 1, 1)))
    noted = pa.schema([field.with_metadata({"from": "elsewhere"}) for field in SCHEMA], metadata={"made": "there"})
    operator.process(batch(("a", 10, 2), ("a", 2, 1), schema=noted))
    assert [row["t"] for row in operator.late_rows().to_pylist()] == [1, 2]
    assert operator.finish()["high"].to_pylist()[-1] == 2


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("state", r"for a directory, use sash\.stores\.RocksDBStore\('state'\); got 'state'"),
        (Path("state"), r"RocksDBStore\('state'\); got "),
        ("redis://me:secret@host", r"use sash\.stores\.ValkeyStore\(url\); got a URL$"),
        (MemoryStore, "an object of the class MemoryStore, not the class"),
        ({}, r"such as sash\.stores\.RocksDBStore\(path\); got \{\}"),
    ],
    ids=str,
)
def test_what_is_no_store(given: Any, says: str) -> None:
    for make in (lambda: query(3).operator(store=given), lambda: query(3).reader(given)):
        with pytest.raises(TypeError, match=f"^store= .*must be a store: .*{says}"):
            make()
    with pytest.raises(TypeError, match=f"^store= of Options must be a store: .*{says}"):
        sash.Options(store=given)


def test_a_reader_without_a_store() -> None:
    with pytest.raises(TypeError, match=r"store= of reader\(\) must be a store"):
        query(3).reader(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("offset", [object(), {"at": b"1"}, {(1, 2): 3}], ids=["object", "bytes", "tuple as key"])
def test_what_is_no_offset(offset: Any) -> None:
    for store in (None, MemoryStore()):
        operator = query(3).operator(store=store)
        with pytest.raises(TypeError, match="offset= must be a JSON value: "):
            operator.process(batch(("a", 1, 1)), offset=offset)
        assert operator.metrics.rows_in == 0
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="offset= must be a JSON value: it contains itself"):
        operator.process(batch(("a", 1, 1)), offset=endless)
