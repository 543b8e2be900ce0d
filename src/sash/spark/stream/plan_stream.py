"""Plan a query on a streaming DataFrame, and check the requirements of stream and session.

The results are a DataFrame whose `writeStream` checks the checkpoint when it is started. Only the writer knows the
location of the checkpoint. So results have a subclass of Spark's writer, whose `start` and `toTable` first check that
the checkpoint has the state of this query. DataFrames derived from the results, by `select` for example, have Spark's
own writer again.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from functools import cache
from typing import Any

import pyarrow as pa
import pyspark
import pyspark.sql.streaming
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from sash.plan import validation
from sash.plan.options import byte_size
from sash.plan.queries import ALONE, QUERY, Queries
from sash.plan.query import Query
from sash.spark.batch.plan_batch import result_schema
from sash.spark.column_exprs import plainly_named, quoted
from sash.spark.job_names import outline
from sash.spark.session import STREAM_SETTINGS
from sash.spark.shipping import by_value, processor_by_value
from sash.spark.spark_types import arrow_schema, spark_schema, wire
from sash.spark.stream.pack_shards import PackShards
from sash.spark.stream.shard_progress import FLOWS, HOT, LATEST, LEVELS, OBSERVED, PROCESSED, TIMES
from sash.spark.stream.shard_task import ShardProcessor
from sash.spark.stream.stream_spec import ERROR, GIVEN, LOCAL_LIMIT, PACKED, REASON, StreamSpec
from sash.spark.worker_io import UnpackShards

# --- Checked writer ---

LOCATION = "checkpointLocation"
DEFAULT = "spark.sql.streaming.checkpointLocation"
"""The setting of a session with a default directory; the checkpoint of a query is its subdirectory queryName."""


def with_checks(frame: Any, spec: StreamSpec) -> Any:
    """The DataFrame of a query on a stream, whose `writeStream` checks the checkpoint."""
    kind: Any = type(frame)
    frame.__class__ = _frame_class(kind)
    frame._sash_spec = spec
    return frame


class CheckedWriter:
    """A mixin that adds the check to Spark's DataStreamWriter."""

    _sash_spec: StreamSpec
    _sash_session: Any
    _sash_options: dict[str, Any]

    def option(self, key: str, value: Any) -> Any:
        """As in Spark."""
        self._sash_options[key.lower()] = value
        return super().option(key, value)  # type: ignore[misc]

    def options(self, **options: Any) -> Any:
        """As in Spark."""
        self._sash_options |= {key.lower(): value for key, value in options.items()}
        return super().options(**options)  # type: ignore[misc]

    def queryName(self, queryName: str) -> Any:  # noqa: N802
        """As in Spark."""
        self._sash_options["queryname"] = queryName
        return super().queryName(queryName)  # type: ignore[misc]

    def start(self, *arguments: Any, **options: Any) -> Any:
        """As in Spark. Raises StateMismatch, with what has changed, if the checkpoint is of another query."""
        self._check(options)
        return super().start(*arguments, **options)  # type: ignore[misc]

    def toTable(self, *arguments: Any, **options: Any) -> Any:  # noqa: N802
        """As in Spark. Raises StateMismatch, with what has changed, if the checkpoint is of another query."""
        self._check(options)
        return super().toTable(*arguments, **options)  # type: ignore[misc]

    def _check(self, options: dict[str, Any]) -> None:
        from sash.spark.stream.checkpoint import require_state_of

        given = self._sash_options | {key.lower(): value for key, value in options.items()}
        checkpoint, name = given.get(LOCATION.lower()), given.get("queryname")
        if checkpoint is None and name is not None:
            parent = self._sash_session.conf.get(DEFAULT, None)
            checkpoint = None if parent is None else f"{parent}/{name}"
        if checkpoint is not None:
            require_state_of(self._sash_spec, self._sash_session, str(checkpoint))


@cache
def _frame_class(kind: Any) -> Any:
    """The class of DataFrames of results, for one of Spark's classes of DataFrames."""

    def checked(frame: Any) -> Any:
        writer = kind.writeStream.fget(frame)
        own: Any = type(writer)
        writer.__class__ = _writer_class(own)
        writer._sash_spec, writer._sash_session, writer._sash_options = frame._sash_spec, frame.sparkSession, {}
        return writer

    place = {"__module__": kind.__module__, "__doc__": kind.__doc__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (kind,), place | {"writeStream": property(checked)})


@cache
def _writer_class(kind: Any) -> Any:
    place = {"__module__": kind.__module__, "__doc__": kind.__doc__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (CheckedWriter, kind), place)


# --- Plan stream ---

MARK = "sash.stream"
"""The key in the metadata of columns that are results of a stream."""
CORRUPT = "spark.sql.columnNameOfCorruptRecord"
LOCAL = "spark.sash.localState.limit"
"""The setting for the bytes of local state in the local directories of an executor."""


def plan_stream(query: Query | Queries, data: Any, side_output: bool = False, from_query: Query | None = None) -> Any:
    """The query on a streaming DataFrame; with `side_output`, rows that enter no window are emitted as well.

    Several queries are one stream: a column `_query`, and a struct for each query.

    A checkpoint may have state of `from_query`, which each shard migrates when it is first opened. A checkpoint of any
    other query is refused when the stream is started: `CheckedWriter`.

    Raises ValueError without `on` and `lateness`, for a stream that has a watermark, for a session that lacks required
    settings, for queries that cannot share one state, and for state that cannot be migrated; all that `Query.bind`
    raises.
    """
    query = one_state(query)
    data, spec = stream_spec(query, data, side_output, from_query)
    pack = by_value(PackShards(spec), f"sash: pack rows of {outline(query)} into {spec.shards} shards")
    packed = plainly_named(data).mapInArrow(pack, spark_schema(PACKED)).withWatermark("max_ts", spec.clock.delay)
    # Spark's watermark has read the times by now; those of numeric columns are out of range for Python's datetime
    blobs = packed.where(sf.col("max_ts").isNull())
    processor, processed = processor_by_value(ShardProcessor(spec)), spark_schema(PROCESSED)
    done = blobs.groupBy("shard").transformWithStateInPandas(processor, processed, "Append", "EventTime")
    unpack = by_value(UnpackShards(output_schema(spec), len(spec.results)), f"sash: unpack {outline(query)}")
    return with_checks(_observed(done, spec).mapInArrow(unpack, _schema(spec, data.schema)), spec)


def stream_spec(query: Query, data: Any, side_output: bool, from_query: Query | None) -> tuple[Any, StreamSpec]:
    """The stream with the columns that are sent to workers, and the parameters of workers. Raises as `plan_stream`."""
    _require(query, data)
    corrupt = data.sparkSession.conf.get(CORRUPT, "_corrupt_record")
    corrupt = corrupt if corrupt in data.columns and corrupt not in validation.named(query) else None
    shards, given = _shards(query, data), arrow_schema(data.schema)
    spec = spec_of(query, given, shards, corrupt, side_output)
    if not side_output:  # no other column has to be sent
        wanted = [name for name in data.columns if name in spec.bound_query.schema.names or name == corrupt]
        data = data.select(*map(quoted, wanted))
        spec = spec_of(query, arrow_schema(data.schema), shards, corrupt, side_output)
    spec = replace(spec, local_limit=_local_limit(data.sparkSession))
    return data, spec if from_query is None else migrating(spec, from_query, given)


def spec_of(query: Query, given: pa.Schema, shards: int, corrupt: str | None, side_output: bool) -> StreamSpec:
    """The parameters of workers. The query gets all columns, or, if it emits no rows, those that it names."""
    names = set(given.names if query.keeps_rows else validation.named(query)) - {corrupt}
    query.bind(given)  # raises for columns that are missing
    bound_query = query.bind(pa.schema([field for field in given if field.name in names]))
    return StreamSpec(bound_query, given, shards, corrupt, side_output)


def migrating(spec: StreamSpec, from_query: Query, given: pa.Schema) -> StreamSpec:
    """The parameters of workers that migrate state of another query on the same stream.

    Raises ValueError, with the reason, if its state cannot be migrated.
    """
    from sash.engine.migration import check_migration  # loads Numba, which other streams need only in workers

    before = spec_of(from_query, given, spec.shards, spec.corrupt, spec.side_output).bound_query
    check_migration(before.query, before.schema, spec.bound_query.query, spec.bound_query.schema)
    return replace(spec, before=before)


def _schema(spec: StreamSpec, given: StructType) -> StructType:
    known = StructType([field for field in given.fields if field.name in spec.bound_query.schema.names])
    marked = [StructField(f.name, f.dataType, f.nullable, {**f.metadata, MARK: True}) for f in _results(spec, known)]
    if not spec.side_output:
        return StructType(marked)
    row = StructType([StructField(field.name, field.dataType) for field in given.fields])
    added = [StructField(field.name, StringType()) for field in spec.side_fields]
    return StructType([*marked, *added, StructField(GIVEN, row)])


def _results(spec: StreamSpec, known: StructType) -> list[StructField]:
    """The columns of results; of several queries, the column `_query` and a struct for each query."""
    structs = {name: result_schema(one, known, mode="given") for name, one in spec.members.items()}
    if ALONE in structs:
        return list(structs[ALONE].fields)
    return [StructField(QUERY, StringType()), *(StructField(name, struct) for name, struct in structs.items())]


def one_state(query: Query | Queries) -> Query:
    """The queries of a stream as one. Raises ValueError if they cannot share one state."""
    if isinstance(query, Query):
        return query
    first, *others = query.groups(one_state=True)
    if others:
        differ = first.differences(others[0])
        what = ", ".join(f"{name}=" for name in differ) or "windows that end after their row"
        raise ValueError(
            f"queries on a stream share one state, and {next(iter(others[0].members))!r} differs from "
            f"{next(iter(first.members))!r} in {what}: run it as a separate stream"
        )
    if first.emit != "final":
        raise ValueError(f"queries on a stream need emit='final'; got {first.emit!r}: run it as a separate stream")
    for name in (QUERY, REASON, ERROR, GIVEN):
        if name in first.members:
            raise ValueError(
                f"a query on a stream cannot be named {name!r}, which is a column of the results: rename it"
            )
    return first


def output_schema(spec: StreamSpec) -> pa.Schema:
    """The schema of results and side output, in types that Spark reads."""
    if not spec.side_output:
        return spec.results
    row = wire(pa.struct(list(spec.given)))
    return pa.schema([*spec.results, *spec.side_fields, (GIVEN, row)])


def _observed(done: Any, spec: StreamSpec) -> Any:
    """Add the progress of the shards to Spark's progress of the query.

    The name of the metrics contains the length of a unit of time, and is unique, since a query may have several.
    """
    flows = [sf.sum(name).alias(name) for name in FLOWS]
    times = [sf.max(name).alias(name) for name in TIMES]
    shard = sf.struct("shard", "rows_in", *LEVELS, *HOT)
    levels = sf.collect_list(sf.when(sf.col("keys").isNotNull(), shard)).alias("shards")
    latest = sf.max_by(sf.struct(*LATEST), "greatest").alias("latest")
    unit = spec.clock.axis.unit if spec.clock.axis.timed else 0
    return done.observe(f"{OBSERVED} {unit} {uuid.uuid4().hex[:8]}", *flows, *times, levels, latest)


def explain_stream(query: Query | Queries, data: Any) -> list[str]:
    """The plan of `plan_stream` as lines of text. Runs nothing; raises the same errors."""
    query = one_state(query)
    _require(query, data)
    keys = f"by a hash of {', '.join(query.by)}" if query.by else "all rows in one, because there is no by="
    return [
        f"rows packed into {_shards(query, data)} shards, {keys}; the number of shards is fixed for a checkpoint",
        "one operator per shard, its pages in Spark's state",
        f"the watermark is {validation.format_value(query.lateness)} behind the latest time of earlier micro-batches",
    ]


def _shards(query: Query, data: Any) -> int:
    return query.options.shards or int(data.sparkSession.conf.get("spark.sql.shuffle.partitions"))


def _local_limit(session: Any) -> int:
    """The limit of local state in files. Raises ValueError for a setting that is not a number of bytes."""
    given = session.conf.get(LOCAL, str(LOCAL_LIMIT))
    return 0 if given.strip() == "0" else byte_size(f"the setting {LOCAL}", given)


# ---- requirements ----


def _require(query: Query, data: Any) -> None:
    _require_version()
    _require_query(query)
    _require_stream(data)
    _require_settings(data.sparkSession)


def _require_version() -> None:
    if not hasattr(pyspark.sql.streaming, "StatefulProcessor"):
        raise RuntimeError(
            f"a query on a stream needs Spark 4.0 or later, whose state Python can use; this is {pyspark.__version__}: "
            "pip install 'pyspark>=4.0'; batch DataFrames need only 3.5"
        )


def _require_query(query: Query) -> None:
    if not query.on:
        raise ValueError("a stream needs a time: set its column with on=")
    if query.lateness is None:
        raise ValueError(
            "a stream needs the allowed lateness, which is how long it waits for out-of-order rows: set "
            "lateness='10s', or how far in time a row may be behind the latest one; lateness=0 if rows come in order"
        )
    if query.options.store is not None:
        raise ValueError("store= of Options is not supported on a stream: its state is in Spark's checkpoint")


def _require_stream(data: Any) -> None:
    for field in data.schema.fields:
        if MARK in field.metadata:
            raise ValueError(
                f"the column {field.name!r} is the result of a query on a stream already, which has a watermark, and "
                "Spark allows one: name all windows in one query, or write the results to a table and stream that"
            )
        if "spark.watermarkDelayMs" in field.metadata:
            raise ValueError(
                f"the stream has a watermark already, on its column {field.name!r}: remove the withWatermark, and "
                "set lateness= instead"
            )


def _require_settings(session: Any) -> None:
    for name, wanted in STREAM_SETTINGS.items():
        found = session.conf.get(name, "")
        if found.lower() != wanted.lower():
            raise ValueError(
                f"a stream needs the setting {name}={wanted}; it is {found!r} in this session: set it with "
                "spark.conf.set before the query, or use sash.spark.session()"
            )
