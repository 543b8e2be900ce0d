"""A topic of Kafka as a sink: the results of a step are one transaction.

    prepare    the results go to the outbox in the store, with the ends of the topic's partitions
    publish    begin, produce, commit: a transaction

Kafka cannot keep a transaction open across a restart, and a killed producer does not learn whether its commit
succeeded. So after a crash the sink first aborts the transaction that its predecessor left open (same transactional
id), then reads the topic after the saved ends, and sends the messages of the pending step that are missing. Each
message has an id in its headers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sash.pipeline.json_values import encode_json
from sash.pipeline.kafka_client import (
    TIMEOUT,
    Partitions,
    checked_timeout,
    client_config,
    consumer,
    is_end,
    kafka,
    partitions_of,
    producer,
    require_topic,
    watermarks,
)
from sash.pipeline.outbox import Outbox
from sash.pipeline.sink import SinkTask

HEADER = "sash-id"
TRANSACTION = 30.0
"""Seconds that brokers may take to begin or to end a transaction."""

ATTEMPTS = 5
"""The maximum number of attempts for a transaction."""


@dataclass
class _Opened:
    """What an open sink has."""

    producer: Any
    outbox: Outbox
    identity: str
    """The prefix of the ids of messages."""
    ends: Partitions
    """By partition: an offset at or before the messages of the next step."""

    def delivered(self, error: Any, message: Any) -> None:
        """Take the report of a message."""
        if error is None:  # the commit fails for messages that were not delivered
            self.ends[message.partition()] = max(self.ends.get(message.partition(), 0), message.offset() + 1)


class KafkaSink:
    """Writes each result as a JSON object to a topic of Kafka: exactly once for consumers that read committed messages.

    servers: the brokers, such as "broker:9092".
    topic: its name; it must exist.
    key: the columns whose values are the message key, by which Kafka chooses the partition. By default there is none.
    config: further settings of librdkafka, such as those of security.
    timeout: seconds that brokers may take to answer.

    Consumers need `isolation.level=read_committed`, which is not the default everywhere. One that reads uncommitted
    messages may see some of aborted transactions: the header `sash-id` is unique to a result. Messages must not be
    deleted from the topic while the pipeline is down after a crash.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        key: str | list[str] | tuple[str, ...] = (),
        config: Mapping[str, Any] | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        require_topic(topic)
        self.timeout = checked_timeout(timeout)
        self.servers, self.topic, self.config = servers, topic, config
        self.key = (key,) if isinstance(key, str) else tuple(key)
        client_config(servers, config, transactional_id="")
        self._opened: _Opened | None = None
        self._waiting: tuple[int, pa.RecordBatch] | None = None

    def open(self, task: SinkTask) -> None:
        """Abort the transaction that a predecessor left open, and send the missing messages of the pending step."""
        for name in self.key:
            if name not in task.schema.names:
                raise ValueError(f"key= names {name!r}, and the results have only {', '.join(task.schema.names)}")
        outbox = Outbox(task)
        transactional = f"sash-{task.run}-{task.name}"
        made = producer(self.servers, self.config, transactional)
        partitions = partitions_of(made, self.servers, self.topic, self.timeout)
        try:
            made.init_transactions(max(self.timeout, TRANSACTION))
        except kafka.KafkaException as error:
            raise ConnectionError(f"{self.servers!r} cannot start transactions: {error.args[0].str()}") from error
        client = consumer(self.servers, self.config, "read_uncommitted")
        try:
            ends = {
                number: end for number, (_, end) in watermarks(client, self.topic, partitions, self.timeout).items()
            }
        finally:
            client.close()
        opened = _Opened(made, outbox, f"{task.run}/{task.name}", ends)
        if (pending := outbox.pending()) is not None:
            starts = {int(number): offset for number, offset in pending.notes["ends"].items()}
            self._send(opened, task.epoch, pending.batch, self._sent(opened, task.epoch, starts))
        self._opened = opened

    def prepare(self, epoch: int, batch: pa.RecordBatch) -> None:
        """Save the results in the store."""
        opened = self._opened
        assert opened is not None
        opened.outbox.put(epoch, batch, {"ends": {str(number): end for number, end in opened.ends.items()}})
        self._waiting = epoch, batch

    def publish(self, epoch: int) -> None:
        """Send the results in a transaction."""
        if self._opened is not None and self._waiting is not None and self._waiting[0] == epoch:
            self._send(self._opened, epoch, self._waiting[1], frozenset())
            self._waiting = None

    def close(self) -> None:
        """Clear the outbox if everything was sent."""
        if self._opened is not None and self._waiting is None:
            self._opened.outbox.delete()
        self._opened = self._waiting = None

    def __repr__(self) -> str:
        return f"KafkaSink({self.servers!r}, {self.topic!r})"

    # ---- a transaction ----

    def _send(self, opened: _Opened, epoch: int, batch: pa.RecordBatch, without: frozenset[int]) -> None:
        """Send all rows in one transaction, except those with the numbers `without`."""
        values = encode_json(batch)
        if len(without) == len(values):
            return
        keys = self._keys(batch)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                opened.producer.begin_transaction()
                for number, value in enumerate(values):
                    if number not in without:
                        self._produce(opened, value, keys[number], f"{opened.identity}/{epoch}/{number}")
                _commit(opened.producer)
                return
            except kafka.KafkaException as error:
                reason = error.args[0]
                if not reason.txn_requires_abort() or attempt == ATTEMPTS:
                    raise ConnectionError(f"the transaction of step {epoch} failed: {reason.str()}") from error
                opened.producer.abort_transaction(TRANSACTION)

    def _produce(self, opened: _Opened, value: bytes, key: bytes | None, name: str) -> None:
        while True:
            try:
                opened.producer.produce(
                    self.topic, value, key, headers=[(HEADER, name.encode())], on_delivery=opened.delivered
                )
                opened.producer.poll(0)
                return
            except BufferError:  # the queue of the producer is full: let it send
                opened.producer.poll(0.1)

    def _keys(self, batch: pa.RecordBatch) -> list[bytes | None]:
        if not self.key:
            return [None] * batch.num_rows
        rows = encode_json(batch.select(list(self.key)))
        if len(self.key) > 1:
            return list(rows)
        values = [json.loads(row)[self.key[0]] for row in rows]
        return [None if one is None else (one if isinstance(one, str) else json.dumps(one)).encode() for one in values]

    # ---- after a crash ----

    def _sent(self, opened: _Opened, epoch: int, starts: Partitions) -> frozenset[int]:
        """The numbers of a step's rows that the topic already has, at or after the offsets `starts`."""
        prefix = f"{opened.identity}/{epoch}/".encode()
        client = consumer(self.servers, self.config)
        found: set[int] = set()
        try:
            known = watermarks(client, self.topic, opened.ends, self.timeout)
            begin = {number: max(starts.get(number, 0), first) for number, (first, _) in known.items()}
            waiting = {number for number, start in begin.items() if start < opened.ends[number]}
            client.assign([kafka.TopicPartition(self.topic, number, begin[number]) for number in waiting])
            deadline = time.monotonic() + TRANSACTION
            while waiting:
                for message in client.consume(1000, 0.1):
                    deadline = time.monotonic() + TRANSACTION
                    if is_end(message):
                        if message.offset() >= opened.ends[message.partition()]:
                            waiting.discard(message.partition())
                        continue
                    for name, value in message.headers() or ():
                        if name == HEADER and value.startswith(prefix):
                            found.add(int(value[len(prefix) :]))
                if waiting and time.monotonic() > deadline:
                    raise ConnectionError(
                        f"whether step {epoch} was sent is unknown: messages of {self.topic!r} cannot be read to their "
                        "end. A transaction of another producer may be open; try again when it has ended"
                    )
        finally:
            client.close()
        return frozenset(found)


def _commit(producer: Any) -> None:
    deadline = time.monotonic() + TRANSACTION
    while True:
        try:
            producer.commit_transaction(TRANSACTION)
            return
        except kafka.KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
