"""`sash.pipe` with `sash.Queries`: a sink for each query, or one for all, exactly once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.pipeline import FunctionSink, ParquetSink, files, read
from sash.stores import MemoryStore, PageError
from tests.pipeline.pipe_cases import QUERY, SLIDES, TABLE, expected, ordered, write_files

pytestmark = pytest.mark.usefixtures("interpreted_kernels")

APART = sash.Query("5s", by="k", on="t", lateness="0s", n=sash.count())
BOTH = sash.Queries(at_rows=QUERY, at_slides=SLIDES)
PARTS = [TABLE.slice(start, 40).combine_chunks().to_batches()[0] for start in range(0, 200, 40)]


def of_query(tagged: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The rows of one query in a sink for all."""
    return sorted((row[name] for row in tagged if row["_query"] == name), key=repr)


def test_a_sink_for_each_query(tmp_path: Path) -> None:
    sinks = {"at_slides": tmp_path / "slides", "at_rows": tmp_path / "rows"}
    done = sash.pipe(write_files(tmp_path / "in", TABLE, 4), BOTH, sinks, store=MemoryStore(), batch_size=30)
    assert ordered(read(tmp_path / "rows")) == expected(QUERY, TABLE)
    assert ordered(read(tmp_path / "slides")) == expected(SLIDES, TABLE)
    assert (done.rows_in, done.rows_out) == (200, len(expected(QUERY, TABLE)) + len(expected(SLIDES, TABLE)))
    assert done.watermark == {"at_rows": float("inf"), "at_slides": float("inf")}


def test_one_sink_for_all(tmp_path: Path) -> None:
    sash.pipe(PARTS, BOTH, tmp_path / "out")
    found = read(tmp_path / "out")
    assert found.column_names == ["_query", "at_rows", "at_slides"]
    assert of_query(found.to_pylist(), "at_rows") == expected(QUERY, TABLE)
    assert of_query(found.to_pylist(), "at_slides") == expected(SLIDES, TABLE)
    assert all((row["at_rows"] is None) == (row["_query"] == "at_slides") for row in found.to_pylist())


def test_one_query_of_queries_is_piped_as_the_query(tmp_path: Path) -> None:
    for name, query in BOTH.queries.items():
        of_queries = sash.pipe(PARTS, sash.Queries(**{name: query}), {name: tmp_path / f"of_{name}"})
        alone = sash.pipe(PARTS, query, tmp_path / name)
        assert read(tmp_path / f"of_{name}").equals(read(tmp_path / name))
        assert (of_queries.rows_in, of_queries.rows_out) == (alone.rows_in, alone.rows_out)
        assert of_queries.watermark == {name: alone.watermark}


@pytest.mark.parametrize("moment", ["prepare", "publish"])
@pytest.mark.parametrize("step", [3, 6])
def test_exactly_once_when_a_sink_fails(tmp_path: Path, moment: str, step: int) -> None:
    """Before the commit no sink has anything of the step; after it both get all of it, in the next run."""
    source, store = write_files(tmp_path / "in", TABLE, 5), MemoryStore()

    class Failing(ParquetSink):
        def prepare(self, epoch: int, batch: pa.RecordBatch) -> None:
            if moment == "prepare" and epoch == step:
                raise OSError("no space")
            super().prepare(epoch, batch)

        def publish(self, epoch: int) -> None:
            if moment == "publish" and epoch == step:
                raise OSError("no space")
            super().publish(epoch)

    sinks = {"at_rows": ParquetSink(tmp_path / "rows"), "at_slides": Failing(tmp_path / "slides")}
    with pytest.raises(OSError, match="no space"):
        sash.pipe(source, BOTH, sinks, store=store)
    again = {"at_rows": tmp_path / "rows", "at_slides": tmp_path / "slides"}
    done = sash.pipe(source, BOTH, again, store=store)
    assert done.finished
    assert ordered(read(tmp_path / "rows")) == expected(QUERY, TABLE)
    assert ordered(read(tmp_path / "slides")) == expected(SLIDES, TABLE)


def test_a_function_gets_the_same_again_under_the_same_id() -> None:
    """Each sink has its own outbox."""
    store, calls = MemoryStore(), {"at_rows": [], "at_slides": []}  # type: ignore[var-annotated]

    def failing(*_: Any) -> None:
        raise ConnectionError("no receiver")

    def collect(query: str) -> FunctionSink:
        return FunctionSink(lambda batch, name: calls[query].append((name, batch)))

    with pytest.raises(ConnectionError):
        sash.pipe(PARTS, BOTH, {"at_rows": collect("at_rows"), "at_slides": FunctionSink(failing)}, store=store)
    sash.pipe(PARTS, BOTH, {name: collect(name) for name in calls}, store=store)
    for name, query in (("at_rows", QUERY), ("at_slides", SLIDES)):
        table = pa.Table.from_batches(list(dict(calls[name]).values()))  # each id once
        assert ordered(table) == expected(query, TABLE)


def test_side_output_names_the_queries_of_a_state() -> None:
    late = pa.concat_tables([TABLE, TABLE.slice(0, 1)])
    queries = sash.Queries(patient=QUERY, strict=APART)
    side: list[dict[str, Any]] = []
    done = sash.pipe([late], queries, lambda *_: None, side=lambda batch, _: side.extend(batch.to_pylist()))
    by_query = {name: [row for row in side if row["_query"] == name] for name in ("patient", "strict")}
    assert len(by_query["patient"]) == 1
    assert by_query["patient"][0]["_reason"] == "late"
    assert len(by_query["strict"]) == done.late > 1
    assert len(side) == len(by_query["patient"]) + len(by_query["strict"])


def test_malformed_records_belong_to_no_query(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text('{"x": 1}\n{"x": \n', "utf-8")
    side: list[dict[str, Any]] = []
    queries = sash.Queries(one=sash.Query(1, s=sash.sum("x")), two=sash.Query(2, s=sash.sum("x")))
    source = files(tmp_path / "one.jsonl", schema=pa.schema([("x", pa.int64())]))
    sash.pipe(source, queries, lambda *_: None, side=lambda batch, _: side.extend(batch.to_pylist()))
    assert [(row["_reason"], row["_query"]) for row in side] == [("malformed", None)]


def test_equal_queries_are_counted_each(tmp_path: Path) -> None:
    done = sash.pipe(PARTS, sash.Queries(a=QUERY, b=QUERY), tmp_path / "out")
    assert done.rows_out == 2 * len(expected(QUERY, TABLE)) == len(read(tmp_path / "out"))


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no sink for 'at_slides'"):
        sash.pipe(PARTS, BOTH, {"at_rows": tmp_path / "a"})
    with pytest.raises(ValueError, match="a sink for 'other', which is not a query"):
        sash.pipe(PARTS, BOTH, {"at_rows": tmp_path / "a", "at_slides": tmp_path / "b", "other": tmp_path / "c"})
    with pytest.raises(TypeError, match="this is one query"):
        sash.pipe(PARTS, QUERY, {"at_rows": tmp_path / "a"})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match=r"sink\['at_slides'\]= takes a directory"):
        sash.pipe(PARTS, BOTH, {"at_rows": tmp_path / "a", "at_slides": 3})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="given twice"):
        sash.pipe(PARTS, BOTH, {"at_rows": tmp_path / "a", "at_slides": tmp_path / "a"})
    with pytest.raises(ValueError, match="_query"):
        sash.pipe(PARTS, sash.Queries(_query=QUERY), tmp_path / "a")
    with pytest.raises(ValueError, match=r"does not fit the query: at_rows: .*'k'"):
        sash.pipe([pa.record_batch({"x": [1]})], BOTH, tmp_path / "a")
    store = MemoryStore()
    sash.pipe(PARTS, BOTH, lambda *_: None, store=store)
    with pytest.raises(PageError, match="queries"):
        sash.pipe(PARTS, sash.Queries(at_rows=QUERY), lambda *_: None, store=store)
