"""A Kafka cluster for tests: the mock brokers of librdkafka, which listen on the loopback of this process.

They know transactions but do not take aborted messages back: a reader sees those as well. A topic has four partitions
and is made by the first message.
"""

from __future__ import annotations

import io
import json
import time
from typing import Any

import confluent_kafka as kafka
import pyarrow as pa

QUIET = {"log_level": 0}


class MockCluster:
    """Brokers that live as long as this object."""

    def __init__(self) -> None:
        settings: dict[str, Any] = {"bootstrap.servers": "unused", "test.mock.num.brokers": 1, **QUIET}
        self._owner = kafka.Producer(settings)
        brokers = self._owner.list_topics(timeout=10).brokers.values()
        self.servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
        self._names = 0

    def topic(self) -> str:
        """The name of a topic that is there, without messages."""
        self._names += 1
        name = f"topic{self._names}"
        self._owner.list_topics(name, timeout=10)
        deadline = time.monotonic() + 10
        while not self._owner.list_topics(name, timeout=10).topics[name].partitions and time.monotonic() < deadline:
            time.sleep(0.01)
        return name

    def send(self, topic: str, values: list[bytes | None], times: list[int], partitions: list[int]) -> None:
        """Send messages with timestamps to partitions."""
        failed = []
        for value, at, partition in zip(values, times, partitions, strict=True):
            self._owner.produce(
                topic, value, partition=partition, timestamp=at, on_delivery=lambda error, _: failed.append(error)
            )
            self._owner.poll(0)
        assert self._owner.flush(20) == 0
        assert set(failed) <= {None}

    def send_rows(self, topic: str, table: pa.Table) -> None:
        """Send rows as JSON to the partitions in turn; the timestamps of messages ascend as the rows do."""
        values: list[bytes | None] = [json.dumps(row, default=str).encode() for row in table.to_pylist()]
        self.send(topic, values, list(range(1, len(values) + 1)), [number % 4 for number in range(len(values))])

    def messages(self, topic: str) -> list[Any]:
        """All messages of a topic."""
        settings = {"bootstrap.servers": self.servers, "group.id": "test", "enable.partition.eof": True, **QUIET}
        client = kafka.Consumer(settings | {"fetch.wait.max.ms": 20})
        try:
            partitions = client.list_topics(topic, timeout=10).topics[topic].partitions
            client.assign([kafka.TopicPartition(topic, number, 0) for number in partitions])
            found, ended = [], set()
            while len(ended) < len(partitions):
                for message in client.consume(500, 0.1):
                    if message.error() is None:
                        found.append(message)
                    else:
                        assert message.error().code() == kafka.KafkaError._PARTITION_EOF, message.error()
                        ended.add(message.partition())
            return found
        finally:
            client.close()

    def rows(self, topic: str) -> list[dict[str, Any]]:
        """The JSON objects of a topic."""
        return [json.loads(message.value()) for message in self.messages(topic)]


def ipc(batch: pa.RecordBatch) -> bytes:
    """A batch as an Arrow IPC stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()
