"""What `sash.pipe` refuses: sources, states and directories of others, and wrong arguments."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import sash
from sash.pipeline import BatchSource, SinkError, Summary, read
from sash.stores import MemoryStore, PageError
from tests.pipeline.pipe_cases import (
    QUERY,
    SCHEMA,
    SLIDES,
    TABLE,
    Collected,
    expected,
    ordered,
    write_files,
)

pytestmark = pytest.mark.usefixtures("interpreted_kernels")


def test_a_source_without_the_columns(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", TABLE.drop_columns(["x"]), 1)
    with pytest.raises(ValueError, match=r"the source files\(.*does not fit the query: .*'x'"):
        sash.pipe(folder, QUERY, tmp_path / "out")
    (tmp_path / "1.jsonl").write_text('{"k": "a", "t": "2024-05-01T09:00:00Z", "x": 1}\n')
    with pytest.raises(TypeError, match=r"'t' of type string.* Types were inferred .* pass files\(…, schema=\)"):
        sash.pipe(tmp_path / "1.jsonl", QUERY, tmp_path / "out")
    with pytest.raises(ValueError, match=r"the source BatchSource.*does not fit the query: .*'x'"):
        sash.pipe([TABLE.drop_columns(["x"])], QUERY, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_state_of_another_query(tmp_path: Path) -> None:
    store = MemoryStore()
    sash.pipe([TABLE], QUERY, tmp_path / "out", store=store)
    with pytest.raises(PageError):
        sash.pipe([TABLE], SLIDES, tmp_path / "other", store=store)


def test_an_offset_of_another_program(tmp_path: Path) -> None:
    store = MemoryStore()
    QUERY.operator(SCHEMA, store=store).process(TABLE, offset=7)
    with pytest.raises(ValueError, match="offset 7, which no pipeline saved"):
        sash.pipe(BatchSource([TABLE], SCHEMA), QUERY, tmp_path / "out", store=store)


def test_the_position_of_another_source(tmp_path: Path) -> None:
    folder, store = write_files(tmp_path / "in", TABLE, 2), MemoryStore()
    sash.pipe(BatchSource([TABLE], SCHEMA), QUERY, tmp_path / "out", store=store, finish=False)
    with pytest.raises(ValueError, match="position 1, which is not one of files"):
        sash.pipe(folder, QUERY, tmp_path / "out", store=store)
    other = MemoryStore()
    sash.pipe(folder, QUERY, tmp_path / "out2", store=other, finish=False)
    with pytest.raises(ValueError, match="which is not one of an iterable"):
        sash.pipe(BatchSource([TABLE], SCHEMA), QUERY, tmp_path / "out2", store=other)


def test_the_directory_of_another_pipeline(tmp_path: Path) -> None:
    store = MemoryStore()
    sash.pipe([TABLE], QUERY, tmp_path / "out", store=store, finish=False)
    with pytest.raises(SinkError, match=r"has the output of another query, Query\(Time\('10s'\)"):
        sash.pipe([TABLE], SLIDES, tmp_path / "out")
    with pytest.raises(SinkError, match="another run of this query, with another store"):
        sash.pipe([TABLE], QUERY, tmp_path / "out")
    with pytest.raises(SinkError, match="is empty, and the state in the store is that of step 1"):
        sash.pipe(BatchSource([TABLE], SCHEMA), QUERY, tmp_path / "elsewhere", store=store)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(SinkError, match="has files that no pipeline wrote"):
        sash.pipe([TABLE], QUERY, tmp_path / "mine")
    (tmp_path / "out.pending" / "run.json").write_text("{")
    with pytest.raises(SinkError, match="damaged"):
        sash.pipe([TABLE], QUERY, tmp_path / "out")


def test_one_process_writes_to_a_directory(tmp_path: Path) -> None:
    folder, store = write_files(tmp_path / "in", TABLE, 2), MemoryStore()

    def second(_: Summary) -> None:
        with pytest.raises(SinkError, match="another pipeline is writing to"):
            sash.pipe(folder, QUERY, tmp_path / "out", store=MemoryStore())

    sash.pipe(folder, QUERY, tmp_path / "out", store=store, progress=second)
    assert ordered(read(tmp_path / "out")) == expected(QUERY, TABLE)


def test_one_directory_for_two_things(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", TABLE, 2)
    with pytest.raises(ValueError, match="in is given twice"):
        sash.pipe(folder, QUERY, tmp_path / "in")
    (tmp_path / "link").symlink_to(tmp_path / "in")
    with pytest.raises(ValueError, match="in is given twice"):
        sash.pipe(folder, QUERY, tmp_path / "link")
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="file is a file"):
        sash.pipe(folder, QUERY, tmp_path / "file")
    with pytest.raises(ValueError, match="out is given twice"):
        sash.pipe(folder, QUERY, tmp_path / "out", side=tmp_path / "out")


def test_an_older_copy_of_the_store(tmp_path: Path) -> None:
    folder, store = write_files(tmp_path / "in", TABLE, 3), MemoryStore()
    stop = threading.Event()
    sash.pipe(folder, QUERY, tmp_path / "out", store=store, progress=lambda _: stop.set(), stop=stop)
    older = MemoryStore(dict(store.items()))
    sash.pipe(folder, QUERY, tmp_path / "out", store=store)
    with pytest.raises(SinkError, match="results of step 4, and the state in the store is that of step 1"):
        sash.pipe(folder, QUERY, tmp_path / "out", store=older)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"query": "1h"}, TypeError, "takes a sash.Query"),
        ({"source": 3}, TypeError, "a source is .*; got a int"),
        ({"source": b"x"}, TypeError, "a source is"),
        ({"source": "nowhere"}, FileNotFoundError, "nowhere"),
        ({"source": [3]}, TypeError, "batch 1 of the source, a int"),
        ({"source": [{"x": 3}]}, TypeError, "batch 1 .* the column 'x' must be a list or an array of values; got 3"),
        ({"sink": 3}, TypeError, "sink= takes a directory"),
        ({"side": 3}, TypeError, "side= takes a directory"),
        ({"batch_size": 0}, ValueError, "batch_size="),
        ({"batch_size": True}, ValueError, "batch_size="),
        ({"malformed": "drop"}, ValueError, "malformed="),
        ({"store": "state"}, TypeError, r"store= takes a store, such as sash\.stores\.RocksDBStore\(path\); got a str"),
        ({"stop": True}, TypeError, r"stop= takes a threading\.Event; got a bool"),
        ({"follow": True, "finish": True}, ValueError, "finish=True"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception], match: str) -> None:
    given: dict[str, Any] = {"source": [TABLE], "query": QUERY, "sink": Collected()} | arguments
    with pytest.raises(error, match=match):
        sash.pipe(**given)


def test_an_iterable_that_has_become_shorter(tmp_path: Path) -> None:
    store, halves = MemoryStore(), [TABLE.slice(0, 100), TABLE.slice(100)]
    sash.pipe(BatchSource(halves, SCHEMA), QUERY, tmp_path / "out", store=store, finish=False)
    with pytest.raises(ValueError, match="2 batches of the source are done, but it has only 1"):
        sash.pipe(BatchSource(halves[:1], SCHEMA), QUERY, tmp_path / "out", store=store)


def test_batches_of_different_columns() -> None:
    with pytest.raises(ValueError, match=r"batch 2 of the source does not fit: .*'x'"):
        sash.pipe([TABLE, TABLE.drop_columns(["x"])], QUERY, Collected())
    for make in (pd.DataFrame, dict):
        frames = [make({"x": [1]}), make({"x": [1.5]})]
        with pytest.raises(ValueError, match=r"batch 2 of the source does not fit: .*'x'.*1\.5"):
            sash.pipe(frames, sash.Query(2, total=sash.sum("x")), Collected())


def test_a_side_column_of_the_source_itself(tmp_path: Path) -> None:
    named = TABLE.append_column("_reason", pa.nulls(200, pa.string()))
    with pytest.raises(ValueError, match="adds a column '_reason'"):
        sash.pipe([named], QUERY, Collected(), side=tmp_path / "side")
