"""A checkpoint that an earlier version has written is continued: see tests/fixtures."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash import Count, Lifetime, Options, Query, Session, Time
from sash.testing import assert_same
from tests.fixtures.checkpoint import BEFORE, QUERY, play, put, rows, unpack
from tests.fixtures.files import FOLDER
from tests.spark.cases import in_one_order

PATHS = sorted(FOLDER.glob("format*/*.spark.zip"))


def test_there_is_a_checkpoint() -> None:
    assert PATHS, "python -m tests.fixtures.make --spark writes it"


@pytest.mark.usefixtures("compiled_workers")
@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_stream_continues_from_an_old_checkpoint(spark: Any, tmp_path: Path, path: Path) -> None:
    emitted = unpack(path.read_bytes(), tmp_path)
    put(tmp_path / "in", 0, rows())  # those that were taken before are there, and are not taken again
    later = play(spark, tmp_path, "later")
    assert emitted.num_rows
    assert later.num_rows
    table = pa.concat_tables(rows())
    expected = QUERY.run(table.slice(0, table.num_rows - 1))
    # Spark writes timestamps to parquet in nanoseconds
    got = pa.concat_tables([part.cast(expected.schema) for part in (emitted, later)])
    last = got.filter(pa.compute.equal(got.column("k"), "end"))
    assert not last.num_rows, "a row that nothing has passed yet is not final"
    assert_same(in_one_order(got, QUERY), in_one_order(expected, QUERY))
    taken = [name for name in (tmp_path / "checkpoint" / "commits").iterdir() if name.name.isdigit()]
    assert len(taken) > BEFORE


MIGRATED = Query(
    {"short": Time("5s"), "count": Count(3), "session": Session("3s"), "life": Lifetime()},
    by="k",
    on=("ts", "row"),
    lateness="4s",
    options=Options(shards=2),
    total=sash.sum("n"),
    average=sash.mean("n"),
    mean=sash.mean("x"),
)
"""The query with shorter windows, fewer aggregates, and another one."""


@pytest.mark.all_compiled  # test_shard_task.py has a migration without Spark
@pytest.mark.usefixtures("compiled_workers")
def test_a_changed_query_continues_from_an_old_checkpoint(spark: Any, tmp_path: Path) -> None:
    emitted = unpack(PATHS[-1].read_bytes(), tmp_path)
    put(tmp_path / "in", 0, rows())
    later = play(spark, tmp_path, "later", lambda stream: MIGRATED.migrate(stream, from_query=QUERY))
    table = pa.concat_tables(rows())
    expected = MIGRATED.run(table.slice(0, table.num_rows - 1))
    expected = expected.filter(pa.compute.invert(pa.compute.is_in(expected["row"], emitted["row"])))
    assert 0 < expected.num_rows == later.num_rows
    assert_same(in_one_order(later.cast(expected.schema), MIGRATED), in_one_order(expected, MIGRATED))
