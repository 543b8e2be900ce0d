"""Pipelines that are killed with -9 repeatedly, at any moment, have the output of a batch: nothing lost, nothing
twice.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sash.pipeline import read
from sash.pipeline.json_files import encode_json
from tests.pipeline.kafka_cases import MockCluster
from tests.pipeline.kill_child import Job, child
from tests.pipeline.pipe_cases import QUERY, SCHEMA, expected, ordered, rows, write_files

pytestmark = pytest.mark.usefixtures("interpreted_kernels")

MOMENTS = {"parquet": 14, "function": 20, "kafka": 120}
"""About as many as two steps have, so that children get further than the one before, but not to the end."""


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """A fork server that starts children quickly."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.pipeline.kill_child"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SASH_TEST_FORKSERVER", "1")
        yield context
    forkserver._forkserver._stop()  # type: ignore[attr-defined]


def run_killed(server: Any, job: Job, kills: int, seed: int) -> None:
    """Start a child, and kill it, as often as asked; then let one run to its end."""
    chance = random.Random(seed)
    killed = 0
    for _ in range(kills):
        by_itself = chance.random() < 0.7
        moment = chance.randint(1, MOMENTS[job.kind]) if by_itself else 2 * MOMENTS[job.kind]
        process = server.Process(target=child, args=(replace(job, moment=moment),))
        process.start()
        if not by_itself:
            time.sleep(chance.uniform(0.02, 0.12))
            process.kill()
        process.join(60)
        assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
        killed += process.exitcode != 0
    process = server.Process(target=child, args=(job,))
    process.start()
    process.join(120)
    assert process.exitcode == 0
    assert killed >= kills // 2, "most children must be killed while they have something to do"


def many(count: int) -> list[Any]:
    return [pytest.param(4, id="4"), pytest.param(count, id=str(count), marks=pytest.mark.all_compiled)]


@pytest.mark.parametrize("kills", many(100))
def test_files_to_parquet(server: Any, tmp_path: Path, kills: int) -> None:
    table = rows(100 * kills)
    write_files(tmp_path / "in", table, 4)
    run_killed(server, Job("parquet", tmp_path), kills, seed=kills)
    assert ordered(read(tmp_path / "out")) == expected(QUERY, table)


@pytest.mark.parametrize("kills", many(100))
def test_files_to_a_function(server: Any, tmp_path: Path, kills: int) -> None:
    table = rows(100 * kills)
    write_files(tmp_path / "in", table, 4, "parquet")
    run_killed(server, Job("function", tmp_path), kills, seed=kills)
    received: dict[str, Any] = {}
    for line in (tmp_path / "log").read_text().splitlines():
        name, batch = json.loads(line)
        assert received.setdefault(name, batch) == batch, "the same id, the same rows"
    found = [row for batch in received.values() for row in batch]
    assert sorted(map(repr, found)) == sorted(repr(as_text(row)) for row in expected(QUERY, table))
    assert list(received) == sorted(received), "ids ascend"


def as_text(row: dict[str, Any]) -> Any:
    return json.loads(json.dumps(row, default=str))


@pytest.mark.parametrize("kills", many(100))
def test_kafka_to_kafka(server: Any, tmp_path: Path, kills: int) -> None:
    cluster = MockCluster()
    table = rows(20 * kills)
    topics = cluster.topic(), cluster.topic()
    cluster.send_rows(topics[0], table)
    run_killed(server, Job("kafka", tmp_path, cluster.servers, topics), kills, seed=kills)
    schema = pa.schema([*SCHEMA, ("high", pa.int64()), ("n", pa.int64())])
    want = sorted(encode_json(pa.RecordBatch.from_pylist(expected(QUERY, table), schema)))
    assert sorted(message.value() for message in cluster.messages(topics[1])) == want
