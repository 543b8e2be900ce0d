"""Pipelines: a query from a source to a sink in one process, each result exactly once.

    source ─▶ selections ─▶ piped_query: an operator ─▶ sink.prepare ─▶ commit of the state ─▶ sink.publish

`pipeline_loop`   `sash.pipe`: the loop, its summary and its end at a signal
`source`          the protocol of a source, and iterables; `file_source` with `file_format`, `parquet_files`,
                  `csv_files`, `json_files`; `kafka` has source and sink
`sink`            the protocol of a sink, and its two phases; `file_sink`, `function_sink`
`selections`      filters rows of a source, selects columns for a sink, and the side output
`piped_query`     one query or several, for the loop
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sash.pipeline.file_sink import CsvSink, ParquetSink, read
    from sash.pipeline.file_source import FileSource, files
    from sash.pipeline.function_sink import FunctionSink
    from sash.pipeline.kafka import KafkaSink, KafkaSource
    from sash.pipeline.pipeline_loop import Pipeline, Summary, pipe
    from sash.pipeline.sink import Sink, SinkError, SinkTask
    from sash.pipeline.source import BatchSource, MalformedRecord, Reading, Source, SourceRows, SourceWarning

_NAMES = {
    "file_sink": "CsvSink ParquetSink read",
    "file_source": "FileSource files",
    "function_sink": "FunctionSink",
    "kafka": "KafkaSink KafkaSource",
    "pipeline_loop": "Pipeline Summary pipe",
    "sink": "Sink SinkError SinkTask",
    "source": "BatchSource MalformedRecord Reading Source SourceRows SourceWarning",
}
_MODULES = {name: f"sash.pipeline.{module}" for module, names in _NAMES.items() for name in names.split()}
"""Modules and their public names, which are loaded on first use: the engine loads Numba, which takes 1 s of CPU."""

__all__ = [
    "BatchSource", "CsvSink", "FileSource", "FunctionSink", "KafkaSink", "KafkaSource", "MalformedRecord",
    "ParquetSink", "Pipeline", "Reading", "Sink", "SinkError", "SinkTask", "Source", "SourceRows", "SourceWarning",
    "Summary", "files", "pipe", "read",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
