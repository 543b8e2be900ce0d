"""A checkpoint that an earlier version has written is taken up: see tests/fixtures."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sash.testing import assert_same
from tests.fixtures.checkpoint import BEFORE, QUERY, play, put, rows, unpack
from tests.fixtures.files import FOLDER
from tests.spark.cases import in_one_order

PATHS = sorted(FOLDER.glob("format*/*.spark.zip"))


def test_there_is_a_checkpoint() -> None:
    assert PATHS, "python -m tests.fixtures.make --spark writes it"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_stream_goes_on_from_an_old_checkpoint(spark: Any, tmp_path: Path, path: Path) -> None:
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
