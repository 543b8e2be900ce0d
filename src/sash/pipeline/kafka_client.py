"""Helpers of the Kafka source and sink: clients, partitions, first and last offsets of topics.

They use the package confluent-kafka, which wraps librdkafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

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

TIMEOUT = 30.0
"""How long a broker may take to answer, in seconds."""

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
    return {**settings, **fixed, "bootstrap.servers": servers}


def consumer(servers: str, given: Mapping[str, Any] | None, isolation: str = "read_committed") -> Consumer:
    """A consumer with assigned partitions: it joins no group and commits no offsets."""
    return kafka.Consumer(
        client_config(
            servers,
            {"group.id": "sash", **(given or {})},  # never joined, but a consumer must name one
            enable_auto_commit=False,
            enable_partition_eof=True,
            auto_offset_reset="error",
            isolation_level=isolation,
        )
    )


def partitions_of(client: Any, servers: str, topic: str) -> list[int]:
    """The partitions of a topic. Raises ConnectionError if no broker answers, ValueError if there is no such topic."""
    try:
        found = client.list_topics(topic, timeout=TIMEOUT).topics[topic]
    except kafka.KafkaException as error:
        raise ConnectionError(f"no broker of {servers!r} answers: {error.args[0].str()}") from error
    if found.error is not None or not found.partitions:
        why = "it has no partitions" if found.error is None else found.error.str()
        raise ValueError(f"the topic {topic!r} cannot be used: {why}")
    return sorted(found.partitions)


def watermarks(client: Consumer, topic: str, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
    """By partition: its first available offset, and the one after its last. Raises ConnectionError."""
    found = {}
    for number in partitions:
        try:
            answer = client.get_watermark_offsets(kafka.TopicPartition(topic, number), timeout=TIMEOUT, cached=False)
        except kafka.KafkaException as error:
            raise ConnectionError(f"the offsets of {topic}[{number}] are unknown: {error.args[0].str()}") from error
        if answer is None:
            raise ConnectionError(f"the offsets of {topic}[{number}] are unknown: no answer within {TIMEOUT:g} s")
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
