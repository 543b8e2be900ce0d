"""Pipelines: a query from a source to a sink in one process, each result exactly once.

`pipe`          the loop: read, process, commit, publish
`source`        the protocol of a source            `sink`           the protocol of a sink, and its two phases
`file_source`   a directory of files                `parquet_sink`   a directory of Parquet files
`batch_source`  an iterable of batches              `function_sink`  a function, at least once
`kafka_source`  topics of Kafka                     `kafka_sink`     a topic of Kafka, in transactions
`csv_sink`      a directory of CSV files            `selections`     a source with a condition, a sink of some columns
`side_rows`     late, untimed and malformed rows    `outbox`         pending results, in the store
"""

from typing import TYPE_CHECKING, Any

from sash.pipeline.batch_source import BatchSource
from sash.pipeline.csv_sink import CsvSink
from sash.pipeline.file_source import FileSource, files
from sash.pipeline.function_sink import FunctionSink
from sash.pipeline.parquet_sink import ParquetSink, read
from sash.pipeline.pipe import Pipeline, pipe
from sash.pipeline.sink import Sink, SinkError, SinkTask
from sash.pipeline.source import MalformedRecord, Reading, Source, SourceRows, SourceWarning
from sash.pipeline.summary import Summary

if TYPE_CHECKING:
    from sash.pipeline.kafka_sink import KafkaSink
    from sash.pipeline.kafka_source import KafkaSource

__all__ = [
    "BatchSource",
    "CsvSink",
    "FileSource",
    "FunctionSink",
    "KafkaSink",
    "KafkaSource",
    "MalformedRecord",
    "ParquetSink",
    "Pipeline",
    "Reading",
    "Sink",
    "SinkError",
    "SinkTask",
    "Source",
    "SourceRows",
    "SourceWarning",
    "Summary",
    "files",
    "pipe",
    "read",
]


def __getattr__(name: str) -> Any:
    """The names that need confluent-kafka, which is loaded when one of them is asked for."""
    if name == "KafkaSource":
        from sash.pipeline.kafka_source import KafkaSource

        return KafkaSource
    if name == "KafkaSink":
        from sash.pipeline.kafka_sink import KafkaSink

        return KafkaSink
    raise AttributeError(f"module 'sash.pipeline' has no attribute {name!r}")
