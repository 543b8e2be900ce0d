"""Helpers of the Kafka source and sink: clients, partitions, first and last offsets of topics.

They use the package confluent-kafka, which wraps librdkafka.
"""

from __future__ import annotations

import logging
import math
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
