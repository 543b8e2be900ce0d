"""Pipelines: a query from a source to a sink in one process, each result exactly once.

`pipeline_loop` the loop: read, process, commit, publish `source`        the protocol of a source            `sink`
the protocol of a sink, and its two phases `file_source`   a directory of files                `parquet_sink`   a
directory of Parquet files `batch_source`  an iterable of batches              `function_sink`  a function, at least
once `kafka_source`  topics of Kafka                     `kafka_sink`     a topic of Kafka, in transactions `csv_sink`
a directory of CSV files            `selections`     filters rows of a source, selects columns for a sink `side_rows`
late, untimed and malformed rows    `outbox`         pending results, in the store
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sash.pipeline.batch_source import BatchSource
    from sash.pipeline.csv_sink import CsvSink
    from sash.pipeline.file_source import FileSource, files
    from sash.pipeline.function_sink import FunctionSink
    from sash.pipeline.kafka_sink import KafkaSink
    from sash.pipeline.kafka_source import KafkaSource
    from sash.pipeline.parquet_sink import ParquetSink, read
    from sash.pipeline.pipeline_loop import Pipeline, pipe
    from sash.pipeline.sink import Sink, SinkError, SinkTask
    from sash.pipeline.source import MalformedRecord, Reading, Source, SourceRows, SourceWarning
    from sash.pipeline.summary import Summary

_MODULES = {
    "batch_source": ("BatchSource",),
    "csv_sink": ("CsvSink",),
    "file_source": ("FileSource", "files"),
    "function_sink": ("FunctionSink",),
    "kafka_sink": ("KafkaSink",),
    "kafka_source": ("KafkaSource",),
    "parquet_sink": ("ParquetSink", "read"),
    "pipeline_loop": ("Pipeline", "pipe"),
    "sink": ("Sink", "SinkError", "SinkTask"),
    "source": ("MalformedRecord", "Reading", "Source", "SourceRows", "SourceWarning"),
    "summary": ("Summary",),
}
"""Modules and their public names, which are loaded on first use: the engine loads Numba, which takes 1 s of CPU."""

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
    module = next((module for module, names in _MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module 'sash.pipeline' has no attribute {name!r}")
    return getattr(import_module(f"sash.pipeline.{module}"), name)
