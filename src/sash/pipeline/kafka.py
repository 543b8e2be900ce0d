"""Topics of Kafka as a source and as a sink, by the package confluent-kafka, which wraps librdkafka.

    position   {"topic": "trades", "next": {"0": 1200, "1": 980}}     the next offset of each partition

Offsets are saved with the state, in one commit; the consumer joins no group. Partitions are merged by the timestamps
of their messages. Otherwise, after an outage, one partition would be read to its end, and the rows of the next be
late.

In the sink, the results of a step are one transaction:

    prepare    the results go to the outbox in the store, with the ends of the topic's partitions
    publish    begin, produce, commit: a transaction

Kafka cannot keep a transaction open across a restart, and a killed producer does not learn whether its commit
succeeded. So after a crash the sink first aborts the transaction that its predecessor left open (same transactional
id), then reads the topic after the saved ends, and sends the messages of the pending step that are missing. Each
message has an id in its headers.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from sash.columns.arrow_arrays import together
from sash.engine.intake.input_checks import check_schema
from sash.pipeline.function_sink import Outbox, OutboxSink
from sash.pipeline.json_files import decode_json, encode_json, require_json_types
from sash.pipeline.sink import SinkTask
from sash.pipeline.source import MalformedRecord, Reading, SourceRows, decode_valid, foreign_position

# --- Kafka client ---

try:
    import confluent_kafka
except ImportError as error:
    raise ImportError(
        "pipelines from and to Kafka need the package confluent-kafka: pip install 'sash[kafka]'"
    ) from error

kafka: Any = confluent_kafka
"""The package, untyped: only versions later than the required one have types."""

Message = Any
Consumer = Any

TIMEOUT = 10.0
"""How long brokers may take to answer, in seconds, unless the user says otherwise."""

LOGGER = logging.getLogger("sash.kafka")
"""Gets what librdkafka logs. Nothing of it is shown by default: what matters is raised, in one line."""

LOGGER.addHandler(logging.NullHandler())

Partitions = dict[int, int]
"""An offset for each partition."""


def require_topic(topic: Any) -> None:
    """Raises TypeError unless this is the name of one topic."""
    if not isinstance(topic, str) or not topic:
        raise TypeError(f"topic= must be the name of one topic; got {topic!r}")


def client_config(servers: str, given: Mapping[str, Any] | None, **own: Any) -> dict[str, Any]:
    """The settings of a client: those of the user, and fixed ones, which the guarantees depend on."""
    if not isinstance(servers, str) or not servers:
        raise TypeError(f"servers= must be a text such as 'broker:9092'; got {servers!r}")
    settings = dict(given or {})
    fixed = {name.replace("_", "."): value for name, value in own.items()}
    for name in settings:
        if name in fixed or name == "bootstrap.servers":
            raise ValueError(f"config= cannot set {name!r}, which is set by sash")
    return {"logger": LOGGER, **settings, **fixed, "bootstrap.servers": servers}


def checked_timeout(timeout: Any) -> float:
    """The seconds that brokers may take. Raises ValueError unless they are a number above 0."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
        raise ValueError(f"timeout= must be a number of seconds above 0; got {timeout!r}")
    return float(timeout)


def consumer(servers: str, given: Mapping[str, Any] | None, isolation: str = "read_committed") -> Consumer:
    """A consumer with assigned partitions: it joins no group and commits no offsets."""
    settings = client_config(
        servers,
        {"group.id": "sash", **(given or {})},  # never joined, but a consumer must name one
        enable_auto_commit=False,
        enable_partition_eof=True,
        auto_offset_reset="error",
        isolation_level=isolation,
    )
    return _made(kafka.Consumer, settings)


def producer(servers: str, given: Mapping[str, Any] | None, transactional_id: str) -> Any:
    """A producer of transactions."""
    return _made(kafka.Producer, client_config(servers, given, transactional_id=transactional_id))


def _made(client: Any, settings: dict[str, Any]) -> Any:
    """A client. Raises ValueError for settings that librdkafka does not take."""
    try:
        return client(settings)
    except kafka.KafkaException as error:
        raise ValueError(f"config= ([source.config] or [sink.config] in a job): {error.args[0].str()}") from error
    except TypeError as error:
        raise TypeError(f"config= ([source.config] or [sink.config] in a job): {error}") from error


def partitions_of(client: Any, servers: str, topic: str, timeout: float) -> list[int]:
    """The partitions of a topic. Raises ConnectionError if no broker answers, ValueError if there is no such topic."""
    try:
        found = client.list_topics(topic, timeout=timeout).topics[topic]
    except kafka.KafkaException as error:
        raise ConnectionError(
            f"no broker of {servers!r} answers within {timeout:g} s: {error.args[0].str()}. Check that Kafka runs "
            "there; timeout= sets the limit"
        ) from error
    if found.error is not None or not found.partitions:
        why = "it has no partitions" if found.error is None else found.error.str()
        raise ValueError(f"the topic {topic!r} cannot be used: {why}")
    return sorted(found.partitions)


def watermarks(client: Consumer, topic: str, partitions: Iterable[int], timeout: float) -> dict[int, tuple[int, int]]:
    """By partition: its first available offset, and the one after its last. Raises ConnectionError."""
    found = {}
    for number in partitions:
        try:
            answer = client.get_watermark_offsets(kafka.TopicPartition(topic, number), timeout=timeout, cached=False)
        except kafka.KafkaException as error:
            raise ConnectionError(f"the offsets of {topic}[{number}] are unknown: {error.args[0].str()}") from error
        if answer is None:
            raise ConnectionError(f"the offsets of {topic}[{number}] are unknown: no answer within {timeout:g} s")
        found[number] = answer
    return found


def is_end(message: Message) -> bool:
    """Does this event mark the end of a partition, instead of a message? Raises for any other error."""
    error = message.error()
    if error is None:
        return False
    if error.code() == kafka.KafkaError._PARTITION_EOF:
        return True
    where = f"{message.topic()}[{message.partition()}]"
    if error.code() == kafka.KafkaError._AUTO_OFFSET_RESET:
        raise ValueError(
            f"{where} no longer has the messages to be read next ({error.str()}): they were deleted before they "
            "were read. Keep messages longer, and start with a new store"
        )
    raise ConnectionError(f"reading {where} failed: {error.str()}")


# --- Kafka source ---

TICK = 0.1
"""Seconds between two checks of `stop`."""

WAITING = 1000
"""The minimum number of messages of a partition that may wait in memory, whatever the size of a step."""

REFRESH = 60.0
"""Seconds between two checks for new partitions."""


class KafkaSource:
    """Reads a topic of Kafka from the offsets that the state has.

    servers: the brokers, such as "broker:9092".
    topic: its name.
    schema: the columns of the rows. Messages have no schema of their own.
    format: "json": each value is a JSON object. "arrow": each value is an Arrow IPC stream of any number of rows.
    config: further settings of librdkafka, such as those of security.
    linger: seconds that a step waits for more messages when all have been read.
    timeout: seconds that brokers may take to answer.

    Without a stored position, the topic is read from its first message. Without `follow`, it is read up to the messages
    that it has at the start. Messages of a transaction are read after it was committed.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        schema: pa.Schema,
        *,
        format: Literal["json", "arrow"] = "json",  # noqa: A002
        config: Mapping[str, Any] | None = None,
        linger: float = 0.5,
        timeout: float = TIMEOUT,
    ) -> None:
        if not isinstance(schema, pa.Schema):
            raise TypeError(f"schema= must be a pyarrow.Schema: messages have none; got a {type(schema).__name__}")
        require_topic(topic)
        if format not in ("json", "arrow"):
            raise ValueError(f"format= must be 'json' or 'arrow'; got {format!r}")
        if format == "json":
            require_json_types(schema, "a JSON message", "format='arrow'")
        self.servers, self.topic, self.format, self.linger = servers, topic, format, linger
        self._schema, self._config, self.problems = schema, config, list[str]()
        self.timeout = checked_timeout(timeout)
        client_config(servers, config)
        self._ends: Partitions | None = None
        self._starts: Partitions = {}
        self._consumer: Consumer | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns given."""
        return self._schema

    def read(self, position: Any, reading: Reading) -> Iterator[SourceRows]:
        """Messages of all partitions after a position, merged by their timestamps."""
        self.close()
        client = self._consumer = consumer(self.servers, self._config)
        partitions = partitions_of(client, self.servers, self.topic, self.timeout)
        following = self._checked(position)
        known = watermarks(client, self.topic, partitions, self.timeout)
        self._require_offsets(following, known)
        following = {number: following.get(number, known[number][0]) for number in partitions}
        ends = None if reading.follow else {number: end for number, (_, end) in known.items()}
        self._starts, self._ends = {number: first for number, (first, _) in known.items()}, ends
        merge = _Merge(client, self.topic, following, ends, timeout=self.timeout)
        refreshed = time.monotonic()
        while not reading.stop.is_set():
            messages = merge.messages(reading, self.linger)
            if messages:
                yield self._decoded(messages, merge.following)
            elif not reading.follow and merge.is_over:
                return
            if reading.follow and time.monotonic() - refreshed > REFRESH:
                refreshed = time.monotonic()
                more = set(partitions_of(client, self.servers, self.topic, self.timeout)) - set(merge.following)
                if more:
                    following = merge.following | dict.fromkeys(more, 0)
                    merge = _Merge(client, self.topic, following, timeout=self.timeout)

    def share_read(self, position: Any) -> float | None:
        """The share of the messages that has been read; None if the topic is followed."""
        if self._ends is None or position is None:
            return None
        next_of = self._checked(position)
        total = sum(end - self._starts[number] for number, end in self._ends.items())
        done = sum(next_of.get(number, first) - first for number, first in self._starts.items())
        return min(done / total, 1.0) if total else 1.0

    def _checked(self, position: Any) -> Partitions:
        """The next offsets of a position. Raises ValueError if it is not one of this topic."""
        if position is None:
            return {}
        if not isinstance(position, dict) or set(position) != {"topic", "next"} or position["topic"] != self.topic:
            raise foreign_position(position, f"the topic {self.topic!r}")
        return {int(number): offset for number, offset in position["next"].items()}

    def _require_offsets(self, following: Partitions, known: dict[int, tuple[int, int]]) -> None:
        """Raises ValueError if saved offsets are past the end of the topic: then it is not the topic that was read."""
        for number, offset in following.items():
            end = known[number][1] if number in known else None
            if end is None or offset > end:
                has = "there is no such partition" if end is None else f"it ends at offset {end}"
                raise ValueError(
                    f"{self.topic}[{number}] was read up to offset {offset}, but {has}: the topic was deleted and "
                    "created again, or these are other servers. Start with a new store"
                )

    def _decoded(self, messages: list[Message], following: Partitions) -> SourceRows:
        values = [message.value() or b"" for message in messages]
        if self.format == "json":
            batch, bad = decode_json(values, self._schema)
        else:
            good, bad = decode_valid(len(values), lambda start, stop: self._batch(values[start:stop]))
            batch = together(good, self._schema)
        malformed = []
        for number, reason in bad:
            message = messages[number]
            where = f"{self.topic}[{message.partition()}] offset {message.offset()}"
            malformed.append(MalformedRecord(values[number], reason if values[number] else "it has no value", where))
        offsets = {str(number): offset for number, offset in sorted(following.items())}
        return SourceRows(batch, {"topic": self.topic, "next": offsets}, tuple(malformed))

    def _batch(self, values: list[bytes]) -> pa.RecordBatch:
        """Values that are Arrow IPC streams as one batch."""
        batches = []
        for value in values:
            with pa.ipc.open_stream(value) as reader:
                check_schema(reader.schema, self._schema)
                batches += list(reader)
        for batch in batches:
            batch.validate(full=True)
        return together(batches, self._schema)

    def close(self) -> None:
        """Close the consumer."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def __repr__(self) -> str:
        return f"KafkaSource({self.servers!r}, {self.topic!r})"


@dataclass
class _Merge:
    """Merges partitions by timestamp: a message is taken when every partition has one waiting, or is at its end."""

    consumer: Consumer
    topic: str
    following: Partitions
    """The next offset of each partition, after the messages that were taken."""
    ends: Partitions | None = None
    """The offset of each partition at which to stop; None: never stop."""
    buffers: dict[int, deque[Message]] = field(default_factory=dict)
    exhausted: set[int] = field(default_factory=set)
    """Partitions that were at their end when last polled."""
    paused: set[int] = field(default_factory=set)
    timeout: float = TIMEOUT
    heard: float = 0.0
    """When a broker last sent something."""

    def __post_init__(self) -> None:
        self.following = dict(self.following)
        self.buffers = {number: deque() for number in self.following}
        assigned = [kafka.TopicPartition(self.topic, *item) for item in self.following.items()]
        self.consumer.assign(assigned)
        self.consumer.resume(assigned)  # an earlier merge may have paused some of them
        self.heard = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Were all messages up to the ends taken?"""
        return all(self._is_done(number) for number in self.following)

    def _is_done(self, number: int) -> bool:
        if self.ends is None:
            return False
        # a partition may end with the markers of transactions, which are not messages
        past = self.following[number] >= self.ends.get(number, 0)
        return past or (not self.buffers[number] and number in self.exhausted)

    def messages(self, reading: Reading, linger: float) -> list[Message]:
        """The next messages: at most as many as a step may have; fewer if no more arrive within `linger` seconds."""
        taken: list[Message] = []
        deadline: float | None = None
        while len(taken) < reading.rows and not reading.stop.is_set():
            open_ones = [number for number in self.following if not self._is_done(number)]
            if not open_ones:
                break
            if any(not self.buffers[number] and number not in self.exhausted for number in open_ones):
                self._receive(reading.rows, TICK)
                continue
            ready = [number for number in open_ones if self.buffers[number]]
            if ready:
                first = min(ready, key=lambda number: (self.buffers[number][0].timestamp()[1], number))
                taken.append(self._take(first))
                continue
            now = time.monotonic()  # all partitions are at their ends
            deadline = now + linger if deadline is None else deadline
            if taken and now >= deadline:
                break
            self._receive(reading.rows, TICK if not taken else min(TICK, max(deadline - now, 0.001)))
        return taken

    def _take(self, number: int) -> Message:
        message = self.buffers[number].popleft()
        self.following[number] = message.offset() + 1
        return message

    def _receive(self, rows: int, timeout: float) -> None:
        """Poll the consumer, and buffer what it has received."""
        found = self.consumer.consume(rows, timeout)
        now = time.monotonic()
        if found:
            self.heard = now
        elif self.ends is not None and now - self.heard > self.timeout:
            raise ConnectionError(
                f"no broker has sent a message of the topic {self.topic!r} for {self.timeout:g} seconds; timeout= sets "
                "the limit"
            )
        for message in found:
            number = message.partition()
            if is_end(message):
                self.exhausted.add(number)
            elif message.offset() >= self.following[number]:
                self.exhausted.discard(number)
                self.buffers[number].append(message)
        self._pause_or_resume(rows)

    def _pause_or_resume(self, rows: int) -> None:
        """Pause partitions with many waiting messages, to bound the memory."""
        enough = max(2 * rows // len(self.buffers), WAITING)
        full = {number for number, waiting in self.buffers.items() if len(waiting) >= enough} - self.paused
        empty = {number for number in self.paused if len(self.buffers[number]) <= enough // 2}
        if full:
            self.consumer.pause([kafka.TopicPartition(self.topic, number) for number in full])
        if empty:
            self.consumer.resume([kafka.TopicPartition(self.topic, number) for number in empty])
        self.paused = (self.paused | full) - empty


# --- Kafka sink ---

HEADER = "sash-id"
TRANSACTION = 30.0
"""Seconds that brokers may take to begin or to end a transaction."""

ATTEMPTS = 5
"""The maximum number of attempts for a transaction."""


@dataclass
class _Opened:
    """What an open sink has."""

    producer: Any
    identity: str
    """The prefix of the ids of messages."""
    ends: Partitions
    """By partition: an offset at or before the messages of the next step."""

    def delivered(self, error: Any, message: Any) -> None:
        """Take the report of a message."""
        if error is None:  # the commit fails for messages that were not delivered
            self.ends[message.partition()] = max(self.ends.get(message.partition(), 0), message.offset() + 1)


class KafkaSink(OutboxSink):
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
        super().__init__()
        self._opened: _Opened | None = None

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
        opened = _Opened(made, f"{task.run}/{task.name}", ends)
        if (pending := outbox.pending()) is not None:
            starts = {int(number): offset for number, offset in pending.notes["ends"].items()}
            self._send(opened, task.epoch, pending.batch, self._sent(opened, task.epoch, starts))
        self._opened, self._outbox = opened, outbox

    def _notes(self) -> Any:
        assert self._opened is not None
        return {"ends": {str(number): end for number, end in self._opened.ends.items()}}

    def _deliver(self, epoch: int, batch: pa.RecordBatch) -> None:
        assert self._opened is not None
        self._send(self._opened, epoch, batch, frozenset())

    def close(self) -> None:
        """Clear the outbox if everything was sent, and drop the producer."""
        super().close()
        self._opened = None

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
