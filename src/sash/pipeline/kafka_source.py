"""A topic of Kafka as a source.

    position   {"topic": "trades", "next": {"0": 1200, "1": 980}}     the next offset of each partition

Offsets are saved with the state, in one commit; the consumer joins no group. Partitions are merged by the timestamps of
their messages. Otherwise, after an outage, one partition would be read to its end, and the rows of the next be late.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from sash.engine.arrow_arrays import together
from sash.engine.input_checks import check_schema
from sash.pipeline.json_rows import decode_json, require_json_types
from sash.pipeline.kafka_client import (
    TIMEOUT,
    Consumer,
    Message,
    Partitions,
    checked_timeout,
    client_config,
    consumer,
    is_end,
    kafka,
    partitions_of,
    require_topic,
    watermarks,
)
from sash.pipeline.source import MalformedRecord, Reading, SourceRows, decode_valid

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

    def __init__(  # noqa: PLR0913 (public: keyword-only)
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
            raise ValueError(
                f"the state has the position {position!r}, which is not one of the topic {self.topic!r}: it belongs to "
                "another source. Use that source, or a new store"
            )
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
