"""Run a job: its source, sink and store, through `sash.pipe`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sash.cli.job_file import Job, nearest
from sash.cli.job_query import JobQuery, query_of
from sash.cli.terminal import write_json_rows
from sash.pipeline import (
    BatchSource,
    CsvSink,
    FileSource,
    FunctionSink,
    ParquetSink,
    Pipeline,
    Sink,
    Source,
    Summary,
    files,
    pipe,
)
from sash.pipeline.piped_query import PipedQuery
from sash.pipeline.selections import FilteredSource, SelectedSink, selected
from sash.stores import Store

FILES = {"parquet": "parquet", "csv": "csv", "jsonl": "json"}
"""The kinds of file sources, and the format of each."""

SOURCES = (*FILES, "kafka")
SINKS = {"local": ("parquet", "csv", "kafka", "console"), "spark": ("parquet", "csv", "kafka", "console", "table")}
"""The kinds of sinks, by engine."""

SINK_KEYS = {
    "parquet": ("path",),
    "csv": ("path",),
    "kafka": ("servers", "topic", "key", "config", "timeout"),
    "console": (),
    "table": ("name",),
}
"""The keys of each kind of sink."""


class PreparedJob:
    """A checked job: source and query are known, and nothing is written yet.

    job: the job file.
    engine: "local" or "spark".
    schema: the columns of a source that this process cannot read, but Spark can.
    """

    def __init__(self, job: Job, engine: str = "local", schema: pa.Schema | None = None) -> None:
        self.job = job
        source = _source(job, engine, schema)
        self.files = source if isinstance(source, FileSource) else None
        found = source.schema
        if found is None:
            raise ValueError(f"{source!r} has no rows yet, so its columns are unknown: give [source.schema]")
        self.schema: pa.Schema = found
        self.made: JobQuery = query_of(job, found)
        self.source = source if self.made.where is None else _filtered(job, source, self.made)
        _check_sink(job, engine)

    @property
    def time_type(self) -> pa.DataType | None:
        """The type of the time column; None if the query has none."""
        on = self.made.query.on
        return self.schema.field(on[0]).type if on else None

    def result_schema(self) -> pa.Schema:
        """The columns that the sink gets."""
        found = self.made.query.operator(self.schema).state.output.schema
        return found if self.made.columns is None else selected(found, self.made.columns)

    def run(
        self,
        follow: bool,
        progress: Callable[[Summary], object] | None,
        watch: Callable[[Pipeline], object] | None = None,
        overwrite: bool = False,
    ) -> Summary:
        """Run the job; with `follow` until it is stopped, with `overwrite` in place of results of earlier runs."""
        job, sink = self.job, self._sink(overwrite)
        side = job.get("side", "path")
        query, memory = self.made.query, job.get("options", "memory")
        given = _given(job, "options", "batch_size", "malformed")
        # with a store the job may run again: windows that are closed would take no rows of a later run
        finish = job.get("options", "finish", "store" not in job.tables)
        given |= {"follow": follow, "finish": None if follow else finish}
        with _opened_store(job) as store:
            if memory is not None:
                if store is None:
                    job.wrong(("options", "memory"), "memory needs a [store] for the keys that are evicted from memory")
                query = query.rewritten(options=replace(query.options, memory=memory, store=store))
            return pipe(self.source, query, sink, store=store, side=side, progress=progress, watch=watch, **given)

    def publish_pending(self, store: Store) -> None:
        """Publish results of the last step that a killed run has left pending; take no step."""
        with closing(self._sink(False)) as sink, closing(self.source) as source:
            Pipeline(source, PipedQuery(self.made.query, store), [sink], has_side=False)

    def _sink(self, overwrite: bool) -> Sink:
        sink = _sink(self.job, overwrite)
        return sink if self.made.columns is None else SelectedSink(sink, self.made.columns)


def is_address(path: Any) -> bool:
    """Is a path the address of another file system, such as s3a://bucket/trades?"""
    return isinstance(path, str) and "://" in path


def _filtered(job: Job, source: Source, made: JobQuery) -> FilteredSource:
    assert made.where is not None
    found = FilteredSource(source, made.where)
    try:
        assert found.schema is not None
    except (TypeError, ValueError) as error:
        job.wrong(("query", "sql" if job.get("query", "sql") is not None else "where"), str(error))
    return found


def _source(job: Job, engine: str, known: pa.Schema | None) -> Source:
    """The source of a job; for data that only Spark can read, a source with its columns and no rows."""
    kind = job.choice("source", "kind", SOURCES)
    schema = _schema(job) or known
    if kind == "kafka":
        job.only("source", "kind = 'kafka'", ("kind", "servers", "topic", "schema", "format", "config", "timeout"))
        if schema is None:
            job.wrong(("source",), "[source.schema] is needed: messages of Kafka have no columns of their own")
        format_ = job.choice("source", "format", ("json", "arrow")) if job.get("source", "format") else "json"
        where = job.needed("source", "servers"), job.needed("source", "topic")
        if engine == "spark":
            return BatchSource([], schema)
        from sash.pipeline import KafkaSource

        try:
            return KafkaSource(*where, schema, format=format_, **_given(job, "source", "config", "timeout"))  # type: ignore[arg-type]
        except ValueError as error:
            job.wrong(("source", "timeout"), str(error))
    more = ("delimiter",) if kind == "csv" else ()
    job.only("source", f"kind = {kind!r}", ("kind", "path", "schema", *more))
    path = job.needed("source", "path")
    if is_address(path):
        if engine != "spark":
            job.wrong(("source", "path"), f"{path!r} is not on this machine: use engine spark")
        return BatchSource([], schema)
    try:
        types = None if schema is None else dict(zip(schema.names, schema.types, strict=True))
        return files(path, FILES[kind], types=types, delimiter=job.get("source", "delimiter", ","))  # type: ignore[arg-type]
    except FileNotFoundError as error:
        job.wrong(("source", "path"), str(error))
    except (TypeError, ValueError) as error:
        job.wrong(("source",), str(error))


def _given(job: Job, table: str, *keys: str) -> dict[str, Any]:
    """The values of a table that the job has, by their keys."""
    return {key: job.get(table, key) for key in keys if job.get(table, key) is not None}


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
    except (AttributeError, TypeError, ValueError):
        known = ("int64", "float64", "string", "bool", "date32", "timestamp[us]", "timestamp[us, tz=UTC]")
        job.wrong(("source", "schema", name), f"{text!r} is not a type{nearest(str(text), known)}")


def _check_sink(job: Job, engine: str) -> None:
    """Raises WrongUsage for a sink or a store that does not fit; opens nothing."""
    kind = job.choice("sink", "kind", SINKS[engine])
    job.only("sink", f"kind = {kind!r}", ("kind", *SINK_KEYS[kind]))
    for key in ("path", "servers", "topic", "name"):
        if key in SINK_KEYS[kind]:
            job.needed("sink", key)
    path, read = job.get("sink", "path"), job.get("source", "path")
    if path is not None and read is not None and os.path.realpath(path) == os.path.realpath(read):
        job.wrong(("sink", "path"), f"{path!r} is the source: the sink needs a separate directory")
    if "side" in job.tables:
        if engine == "spark":
            job.wrong(("side",), "[side] is for engine local: on a stream use sash.spark.with_side_output")
        side = os.path.realpath(job.needed("side", "path"))
        if side in {os.path.realpath(one) for one in (path, read) if one is not None}:
            job.wrong(
                ("side", "path"), f"{job.get('side', 'path')!r} is the source or the sink: give a separate directory"
            )
    if "store" in job.tables:
        job.choice("store", "kind", ("rocksdb",))
        job.needed("store", "path")


def _sink(job: Job, overwrite: bool) -> Sink:
    kind = job.get("sink", "kind")
    if overwrite and kind not in ("parquet", "csv"):
        job.wrong(("sink", "kind"), f"--overwrite replaces files, and kind = {kind!r} writes none")
    if kind == "kafka":
        from sash.pipeline import KafkaSink

        where = job.get("sink", "servers"), job.get("sink", "topic")
        return KafkaSink(*where, **_given(job, "sink", "key", "config", "timeout"))
    if kind == "console":
        return FunctionSink(lambda batch, _id: write_json_rows([batch]))
    return (CsvSink if kind == "csv" else ParquetSink)(job.get("sink", "path"), overwrite=overwrite)


@contextmanager
def _opened_store(job: Job) -> Iterator[Store | None]:
    """The store of a job, open; None for state in memory."""
    if "store" not in job.tables:
        yield None
        return
    from sash.stores import RocksDBStore

    with RocksDBStore(job.get("store", "path")) as store:
        yield store
