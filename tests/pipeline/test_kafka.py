"""Kafka as source and sink, with the mock brokers of librdkafka."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.pipeline import KafkaSink, KafkaSource, Summary, read
from sash.pipeline.json_files import encode_json
from sash.pipeline.kafka import HEADER, _Merge
from sash.pipeline.sink import SinkTask
from sash.stores import MemoryStore
from tests.pipeline.kafka_cases import QUIET, MockCluster, ipc
from tests.pipeline.pipe_cases import QUERY, SCHEMA, expected, ordered, rows

pytestmark = pytest.mark.usefixtures("interpreted_kernels")

TABLE = rows(120)
FAST = {"fetch.wait.max.ms": 20, **QUIET}


@pytest.fixture(scope="module")
def cluster() -> MockCluster:
    return MockCluster()


def source(cluster: MockCluster, topic: str, **more: Any) -> KafkaSource:
    return KafkaSource(cluster.servers, topic, SCHEMA, config=FAST, **more)


def as_json(table: list[dict[str, Any]]) -> list[str]:
    """Results as the sink writes them."""
    schema = pa.schema([*SCHEMA, ("high", pa.int64()), ("n", pa.int64())])
    return sorted(value.decode() for value in encode_json(pa.RecordBatch.from_pylist(table, schema)))


def written(cluster: MockCluster, topic: str) -> list[str]:
    return sorted(message.value().decode() for message in cluster.messages(topic))


def test_partitions_are_merged_by_time(cluster: MockCluster, tmp_path: Path) -> None:
    """Read one after the other, three of four partitions would be late."""
    topic = cluster.topic()
    cluster.send_rows(topic, TABLE)
    done = sash.pipe(source(cluster, topic), QUERY, tmp_path / "out", batch_size=32)
    assert (done.rows_in, done.late, done.steps) == (120, 0, 5)
    assert ordered(read(tmp_path / "out")) == expected(QUERY, TABLE)
    assert done.offset == {"topic": topic, "next": {"0": 30, "1": 30, "2": 30, "3": 30}}


def test_a_partition_that_is_ahead_waits(cluster: MockCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first partition has the last rows: they must neither overtake the others nor all be in memory."""
    monkeypatch.setattr("sash.pipeline.kafka.WAITING", 4)
    held = []
    received = _Merge._receive

    def receive(self: _Merge, rows: int, timeout: float) -> None:
        received(self, rows, timeout)
        held.append(max(len(buffer) for buffer in self.buffers.values()))

    monkeypatch.setattr(_Merge, "_receive", receive)
    topic, table = cluster.topic(), TABLE.slice(0, 48)
    values: list[bytes | None] = [json.dumps(row, default=str).encode() for row in table.to_pylist()]
    cluster.send(topic, values, list(range(1, 49)), [0 if number >= 24 else 1 + number % 3 for number in range(48)])
    done = sash.pipe(source(cluster, topic), QUERY, tmp_path / "out", batch_size=5)
    assert (done.rows_in, done.late) == (48, 0)
    assert ordered(read(tmp_path / "out")) == expected(QUERY, table)
    assert 4 <= max(held) <= 4 + 2 * 5


def test_offsets_are_those_of_the_state(cluster: MockCluster, tmp_path: Path) -> None:
    topic, store, stop = cluster.topic(), MemoryStore(), threading.Event()
    cluster.send_rows(topic, TABLE)
    arguments: dict[str, Any] = {"store": store, "batch_size": 25, "stop": stop}
    first = sash.pipe(source(cluster, topic), QUERY, tmp_path / "out", progress=lambda _: stop.set(), **arguments)
    assert first.rows_in == 25
    stop.clear()
    assert sash.pipe(source(cluster, topic), QUERY, tmp_path / "out", **arguments).rows_in == 120
    assert ordered(read(tmp_path / "out")) == expected(QUERY, TABLE)


def test_follow(cluster: MockCluster, tmp_path: Path) -> None:
    topic, stop = cluster.topic(), threading.Event()
    cluster.send_rows(topic, TABLE.slice(0, 60))

    def more(summary: Summary) -> None:
        if summary.rows_in == 60:
            cluster.send_rows(topic, TABLE.slice(60))
        elif summary.rows_in == 120:
            stop.set()

    done = sash.pipe(source(cluster, topic, linger=0.3), QUERY, tmp_path / "out", follow=True, progress=more, stop=stop)
    assert done.rows_in == 120
    assert done.late == 0


def test_malformed_messages_are_put_to_the_side(cluster: MockCluster, tmp_path: Path) -> None:
    topic = cluster.topic()
    good = b'{"k": "a", "t": "2024-05-01T09:00:00Z", "x": 1}'
    cluster.send(topic, [good, b"oops", None, b"null", b'{"x": 1.5}', good], list(range(1, 7)), [0, 0, 1, 2, 3, 3])
    done = sash.pipe(source(cluster, topic), QUERY, tmp_path / "out", side=tmp_path / "side")
    assert (done.rows_in, done.rows_out, done.malformed) == (2, 2, 4)
    side = {row["_where"]: row for row in read(tmp_path / "side").to_pylist()}
    assert set(side) == {f"{topic}[{number}] offset {at}" for number, at in [(0, 1), (1, 0), (2, 0), (3, 0)]}
    assert side[f"{topic}[0] offset 1"]["_given"] == b"oops"
    assert side[f"{topic}[1] offset 0"]["_error"] == "it has no value"
    with pytest.raises(ValueError, match="malformed record at"):
        sash.pipe(source(cluster, topic), QUERY, tmp_path / "other", malformed="error")


def test_arrow_values(cluster: MockCluster, tmp_path: Path) -> None:
    topic = cluster.topic()
    batches = TABLE.combine_chunks().to_batches(max_chunksize=40)
    other = pa.record_batch({"k": ["a"]})
    values: list[bytes | None] = [ipc(batches[0]), ipc(batches[1]), b"junk", ipc(other), ipc(batches[2])]
    cluster.send(topic, values, list(range(1, 6)), [0] * 5)
    done = sash.pipe(source(cluster, topic, format="arrow"), QUERY, tmp_path / "out")
    assert (done.rows_in, done.malformed) == (120, 2)
    assert ordered(read(tmp_path / "out")) == expected(QUERY, TABLE)


def test_to_a_topic(cluster: MockCluster) -> None:
    topic, store = cluster.topic(), MemoryStore()
    sink = KafkaSink(cluster.servers, topic, key="k", config=QUIET)
    done = sash.pipe([TABLE.slice(0, 60), TABLE.slice(60)], QUERY, sink, store=store)
    assert written(cluster, topic) == as_json(expected(QUERY, TABLE))
    messages = cluster.messages(topic)
    assert len({dict(message.headers())[HEADER] for message in messages}) == done.rows_out
    by_key: dict[bytes, set[int]] = {}
    for message in messages:
        by_key.setdefault(message.key(), set()).add(message.partition())
    assert set(by_key) == {b"k0", b"k1", b"k2"}
    assert all(len(partitions) == 1 for partitions in by_key.values())


@pytest.mark.parametrize("sent", ["nothing", "some", "all"])
def test_what_a_killed_producer_has_sent_is_not_sent_again(cluster: MockCluster, sent: str) -> None:
    """The state is saved, and the process ends in the middle of its transaction."""
    topic, store = cluster.topic(), MemoryStore()
    halves = [TABLE.slice(0, 60), TABLE.slice(60)]

    class Killed(KafkaSink):
        def publish(self, epoch: int) -> None:
            if epoch != 2:
                return super().publish(epoch)
            if sent != "nothing":
                assert self._opened is not None
                assert self._waiting is not None
                skipped = frozenset(range(0, 60, 2)) if sent == "some" else frozenset()
                self._send(self._opened, epoch, self._waiting[1], skipped)
            raise SystemExit

    with pytest.raises(SystemExit):
        sash.pipe(halves, QUERY, Killed(cluster.servers, topic, config=FAST), store=store)
    sash.pipe(halves, QUERY, KafkaSink(cluster.servers, topic, config=FAST), store=store)
    assert written(cluster, topic) == as_json(expected(QUERY, TABLE))
    before = len(cluster.messages(topic))
    sash.pipe(halves, QUERY, KafkaSink(cluster.servers, topic, config=FAST), store=store)
    assert len(cluster.messages(topic)) == before


def test_a_predecessor_is_known_by_its_transactional_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka ends what another producer of the same id has left open, and refuses what that still sends.

    (The mock brokers do not refuse it.)
    """
    seen = []

    def producer(settings: dict[str, Any]) -> Any:
        seen.append(settings["transactional.id"])
        raise SystemExit

    monkeypatch.setattr("sash.pipeline.kafka.kafka.Producer", producer)
    for run, name in [("r1", "results"), ("r1", "results"), ("r1", "side"), ("r2", "results")]:
        with pytest.raises(SystemExit):
            KafkaSink("localhost:1", "t").open(SinkTask(run, 0, name, SCHEMA, "0f" * 16, "Query", MemoryStore()))
    assert seen == ["sash-r1-results", "sash-r1-results", "sash-r1-side", "sash-r2-results"]


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"servers": ""}, TypeError, "servers="),
        ({"topic": ["a", "b"]}, TypeError, "topic= must be the name of one topic"),
        ({"schema": {"x": "int"}}, TypeError, "schema="),
        ({"format": "avro"}, ValueError, "format="),
        (
            {"schema": pa.schema([("d", pa.duration("s"))])},
            TypeError,
            "column 'd' is of type duration.*a JSON message cannot have; use format='arrow'",
        ),
        ({"config": {"bootstrap.servers": "mine"}}, ValueError, r"cannot set 'bootstrap\.servers', which is set by"),
    ],
)
def test_bad_arguments_of_the_source(arguments: dict[str, Any], error: type[Exception], match: str) -> None:
    given: dict[str, Any] = {"servers": "localhost:1", "topic": "t", "schema": SCHEMA} | arguments
    with pytest.raises(error, match=match):
        KafkaSource(**given)


def test_settings_that_the_guarantees_depend_on(cluster: MockCluster) -> None:
    given = KafkaSource(cluster.servers, cluster.topic(), SCHEMA, config={"isolation.level": "read_uncommitted"})
    with pytest.raises(ValueError, match=r"cannot set 'isolation\.level', which is set by sash"):
        sash.pipe(given, QUERY, lambda *_: None)


def test_a_source_can_be_read_twice(cluster: MockCluster) -> None:
    topic = cluster.topic()
    cluster.send_rows(topic, TABLE.slice(0, 8))
    given = KafkaSource(cluster.servers, topic, SCHEMA, config={"group.id": "mine", **FAST})
    for _ in range(2):
        assert sash.pipe(given, QUERY, lambda *_: None).rows_in == 8


def test_bad_arguments_of_the_sink(cluster: MockCluster) -> None:
    with pytest.raises(TypeError, match="topic= must be the name of one topic; got ''"):
        KafkaSink("localhost:1", "")
    with pytest.raises(ValueError, match=r"cannot set 'transactional\.id', which is set by sash"):
        KafkaSink("localhost:1", "t", config={"transactional.id": "mine"})
    with pytest.raises(ValueError, match="key= names 'symbol', and the results have only k, t, x, high, n"):
        sash.pipe([TABLE], QUERY, KafkaSink(cluster.servers, cluster.topic(), key="symbol", config=QUIET))


def test_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sash.pipeline.kafka.TIMEOUT", 0.2)
    with pytest.raises(ConnectionError, match="no broker of 'localhost:1' answers"):
        sash.pipe(KafkaSource("localhost:1", "t", SCHEMA, config=QUIET), QUERY, lambda *_: None)


def test_the_position_of_another_topic(cluster: MockCluster, tmp_path: Path) -> None:
    store, topic = MemoryStore(), cluster.topic()
    cluster.send_rows(topic, TABLE.slice(0, 8))
    sash.pipe(source(cluster, topic), QUERY, tmp_path / "out", store=store, finish=False)
    with pytest.raises(ValueError, match="which is not one of the topic"):
        sash.pipe(source(cluster, cluster.topic()), QUERY, tmp_path / "out", store=store)


@pytest.mark.parametrize(
    ("saved", "match"),
    [({str(number): 50 for number in range(4)}, r"\[0\] was read up to offset 50, but it ends at offset 2"),
     ({"0": 0, "7": 3}, r"\[7\] was read up to offset 3, but there is no such partition")],
)  # fmt: skip
def test_a_topic_that_was_created_again(cluster: MockCluster, saved: dict[str, int], match: str) -> None:
    topic = cluster.topic()
    cluster.send_rows(topic, TABLE.slice(0, 8))
    with pytest.raises(ValueError, match=match):
        sash.pipe(_At(source(cluster, topic), {"topic": topic, "next": saved}), QUERY, lambda *_: None)


def test_partitions_that_wait_are_read_on_when_a_new_one_is_found(
    cluster: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The consumer keeps a partition paused that is assigned again."""
    monkeypatch.setattr("sash.pipeline.kafka.WAITING", 4)
    monkeypatch.setattr("sash.pipeline.kafka.REFRESH", 0.0)
    topic, asked = cluster.topic(), list[str]()
    cluster.send_rows(topic, TABLE)

    def partitions_of(*_: Any) -> list[int]:
        asked.append(topic)
        return [0, 1, 2] if len(asked) == 1 else [0, 1, 2, 3]

    monkeypatch.setattr("sash.pipeline.kafka.partitions_of", partitions_of)
    stop = threading.Event()
    deadline = threading.Timer(20, stop.set)
    deadline.start()

    def enough(done: Summary) -> None:
        if done.rows_in == 120:
            stop.set()

    given = source(cluster, topic, linger=0.01)
    done = sash.pipe(given, QUERY, lambda *_: None, follow=True, batch_size=2, progress=enough, stop=stop)
    deadline.cancel()
    assert done.rows_in == 120


def test_messages_that_were_deleted_are_reported(
    cluster: MockCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster.topic()
    cluster.send_rows(topic, TABLE.slice(0, 8))
    monkeypatch.setattr(KafkaSource, "_require_offsets", lambda *_: None)  # they go after the offsets were compared
    gone = {"topic": topic, "next": {"0": 50, "1": 0, "2": 0, "3": 0}}
    with pytest.raises(ValueError, match=r"\[0\] no longer has the messages"):
        sash.pipe(_At(source(cluster, topic), gone), QUERY, tmp_path / "out")


class _At:
    """A source that begins at a position."""

    def __init__(self, inner: KafkaSource, position: Any) -> None:
        self.inner, self.position, self.problems, self.schema = inner, position, list[str](), inner.schema

    def read(self, _: Any, reading: Any) -> Any:
        return self.inner.read(self.position, reading)

    def close(self) -> None:
        self.inner.close()
