"""Run a job: its source, sink and store, through `sash.pipe`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sash.cli.job_file import Job, nearest
from sash.cli.job_query import JobQuery, query_of
from sash.pipeline import CsvSink, ParquetSink, Sink, Source, Summary, files, pipe
from sash.pipeline.selections import FilteredSource, SelectedSink, selected

FILES = {"parquet": "parquet", "csv": "csv", "jsonl": "json"}
"""The kinds of files that are read, and the format of each."""

SOURCES = (*FILES, "kafka")
SINKS = ("parquet", "csv", "kafka")


class PreparedJob:
    """A job that is checked and ready: source and query are known, and nothing is written yet."""

    def __init__(self, job: Job) -> None:
        self.job = job
        source = _source(job)
        schema = source.schema
        if schema is None:
            raise ValueError(f"{source!r} has no rows yet, so that its columns are unknown: give [source.schema]")
        self.schema: pa.Schema = schema
        self.made: JobQuery = query_of(job, schema)
        self.source = source if self.made.where is None else _filtered(job, source, self.made)
        _check_sink(job)

    def result_schema(self) -> pa.Schema:
        """The columns that the sink gets."""
        found = self.made.query.operator(self.schema).output.schema
        return found if self.made.columns is None else selected(found, self.made.columns)

    def run(self, follow: bool, progress: Callable[[Summary], object] | None) -> Summary:
        """Run the job; with `follow` until it is stopped."""
        job = self.job
        sink = _sink(job)
        sink = sink if self.made.columns is None else SelectedSink(sink, self.made.columns)
        query, memory = self.made.query, job.get("options", "memory")
        store, opened = _store(job)
        if memory is not None:
            if store is None:
                job.wrong(("options", "memory"), "memory needs a [store], where the other keys are")
            query = query.rewritten(options=replace(query.options, memory=memory, store=store))
        given = {"batch_size": 65_536, "malformed": "count"}
        given |= {key: job.get("options", key) for key in given if job.get("options", key) is not None}
        finish = None if follow else job.get("options", "finish", True)
        with opened:
            return pipe(self.source, query, sink, store=store, follow=follow, finish=finish, progress=progress, **given)  # type: ignore[arg-type]


def _filtered(job: Job, source: Source, made: JobQuery) -> FilteredSource:
    assert made.where is not None
    found = FilteredSource(source, made.where)
    try:
        assert found.schema is not None
    except (TypeError, ValueError) as error:
        job.wrong(("query", "sql" if job.get("query", "sql") is not None else "where"), str(error))
    return found


def _source(job: Job) -> Source:
    kind = job.choice("source", "kind", SOURCES)
    schema = _schema(job)
    if kind == "kafka":
        job.only("source", "kind = 'kafka'", ("kind", "servers", "topic", "schema", "format", "config"))
        if schema is None:
            job.wrong(("source",), "[source.schema] is needed: messages of Kafka have no columns of their own")
        from sash.pipeline import KafkaSource

        format_ = job.choice("source", "format", ("json", "arrow")) if job.get("source", "format") else "json"
        where = job.needed("source", "servers"), job.needed("source", "topic")
        return KafkaSource(*where, schema, format=format_, config=job.get("source", "config"))  # type: ignore[arg-type]
    more = ("delimiter",) if kind == "csv" else ()
    job.only("source", f"kind = {kind!r}", ("kind", "path", "schema", *more))
    path = job.needed("source", "path")
    try:
        return files(path, FILES[kind], schema=schema, delimiter=job.get("source", "delimiter", ","))  # type: ignore[arg-type]
    except FileNotFoundError as error:
        job.wrong(("source", "path"), str(error))
    except (TypeError, ValueError) as error:
        job.wrong(("source",), str(error))


def _schema(job: Job) -> pa.Schema | None:
    """The columns of [source.schema], by name and type."""
    given = job.get("source", "schema")
    if given is None:
        return None
    return pa.schema([(name, _type(job, name, value)) for name, value in given.items()])


def _type(job: Job, name: str, text: Any) -> pa.DataType:
    zoned = re.fullmatch(r"timestamp\[(s|ms|us|ns), *tz=([\w/+:-]+)\]", str(text))
    if zoned:
        return pa.timestamp(zoned[1], zoned[2])
    try:
        return pa.type_for_alias(text)
    except (TypeError, ValueError):
        known = ("int64", "float64", "string", "bool", "date32", "timestamp[us]", "timestamp[us, tz=UTC]")
        job.wrong(("source", "schema", name), f"{text!r} is not a type{nearest(str(text), known)}")


def _check_sink(job: Job) -> None:
    """Raises WrongUsage for a sink or a store that does not fit; opens nothing."""
    kind = job.choice("sink", "kind", SINKS)
    if kind == "kafka":
        job.only("sink", "kind = 'kafka'", ("kind", "servers", "topic", "key", "config"))
        for key in ("servers", "topic"):
            job.needed("sink", key)
    else:
        job.only("sink", f"kind = {kind!r}", ("kind", "path"))
        path, read = job.needed("sink", "path"), job.get("source", "path")
        if read is not None and os.path.realpath(path) == os.path.realpath(read):
            job.wrong(("sink", "path"), f"{path!r} is the source: the sink needs a directory of its own")
    if "store" in job.tables:
        job.choice("store", "kind", ("rocksdb",))
        job.needed("store", "path")


def _sink(job: Job) -> Sink:
    kind = job.get("sink", "kind")
    if kind == "kafka":
        from sash.pipeline import KafkaSink

        where = job.get("sink", "servers"), job.get("sink", "topic")
        return KafkaSink(*where, key=job.get("sink", "key", ()), config=job.get("sink", "config"))
    return (CsvSink if kind == "csv" else ParquetSink)(job.get("sink", "path"))


def _store(job: Job) -> tuple[Any, Any]:
    """The store, and what closes it; None for state in memory."""
    if "store" not in job.tables:
        return None, nullcontext()
    from sash.stores import RocksDBStore

    store = RocksDBStore(job.get("store", "path"))
    return store, closing(store)
