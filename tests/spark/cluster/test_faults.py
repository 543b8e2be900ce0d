"""Exactly once on a cluster: after faults in the middle of micro-batches no row is lost, and none is there twice."""

import random
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.testing import assert_same
from tests.shared.queries import loose
from tests.spark.cases import in_one_order
from tests.spark.cluster.driver import HOT
from tests.spark.cluster.faults import FAULTS, Driver, numbers, put, strike
from tests.spark.cluster.standalone import StandaloneCluster
from tests.spark.stream.stream_rows import STREAMS, arriving, expected

ROUNDS = 4
CHOSEN = {"rows, changes": 1, "timestamps, every": 2, "money, slide": 3, "order statistics": 4}
"""Streams, and the seed by which the faults of each are drawn."""


def drawn(seed: int) -> list[str]:
    return random.Random(seed).choices(FAULTS, k=ROUNDS)


def test_each_fault_is_drawn() -> None:
    counts = Counter(fault for seed in CHOSEN.values() for fault in drawn(seed))
    assert counts.keys() == set(FAULTS)
    assert counts.total() + ROUNDS == 20, "with the rounds of the batch"


@pytest.mark.parametrize("name", CHOSEN)
def test_a_stream_gives_the_rows_of_the_batch(cluster: StandaloneCluster, tmp_path: Path, name: str) -> None:
    query, faults, draw = STREAMS[name], drawn(CHOSEN[name]), random.Random(CHOSEN[name])
    expected_rows = expected(query)  # first: it compiles what each worker would compile
    batches = arriving(query, seed=4, batches=ROUNDS + 1)
    begun, committed = tmp_path / "checkpoint" / "offsets", tmp_path / "checkpoint" / "commits"
    put(tmp_path / "in", 0, batches[0])
    driver = Driver(cluster, tmp_path, "stream", name)
    try:
        driver.until(lambda: 0 in numbers(committed))
        for number, (fault, parts) in enumerate(zip(faults, batches[1:], strict=False), 1):
            before = max(numbers(begun))
            put(tmp_path / "in", number, parts)
            driver.until(lambda before=before: max(numbers(begun)) > before)
            time.sleep(draw.uniform(0, draw.choice([0.2, 1.0])))
            repair = strike(fault, driver, draw)
            driver.until(lambda before=before: max(numbers(committed)) > before)
            repair()
        put(tmp_path / "in", len(batches), batches[-1])
        (tmp_path / "stop").touch()
        driver.finish()
    finally:
        driver.kill()
    got = pa.ipc.open_file(tmp_path / "result.arrow").read_all()
    assert_same(in_one_order(got, query), in_one_order(expected_rows, query), loose=loose(query))


def hot_rows(count: int = 40_000) -> pa.Table:
    """Rows of which nine in ten have one key."""
    draw = random.Random(5)
    found = {
        "k": ["hot" if draw.random() < 0.9 else draw.choice("abc") for _ in range(count)],
        "t": [i // 8 + (100 if i % 5000 > 2500 else 0) for i in range(count)],
        "row": list(range(count)),
        "x": [draw.choice([1e16, -1e16, 0.5, 3.25, None]) for _ in range(count)],
    }
    return pa.table(found)


def test_a_batch_with_a_hot_key_gives_the_rows_of_the_local_host(cluster: StandaloneCluster, tmp_path: Path) -> None:
    table, draw = hot_rows(), random.Random(6)
    expected = in_one_order(HOT.run(table), HOT)
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "rows.parquet")
    driver = Driver(cluster, tmp_path, "batch", str(ROUNDS))
    try:
        for number in range(ROUNDS):
            driver.until(lambda number=number: (tmp_path / f"begun-{number}").exists())
            time.sleep(draw.uniform(0, 2))
            repair = strike(draw.choice(["executor", "executors", "worker"]), driver, draw)
            driver.until(lambda number=number: (tmp_path / "out" / str(number) / "_SUCCESS").exists())
            repair()
        driver.finish()
    finally:
        driver.kill()
    for number in range(ROUNDS):
        got = pq.read_table(tmp_path / "out" / str(number))
        assert_same(in_one_order(got, HOT), expected)
