"""Run a job on Spark: as a batch; or as a stream, to the end of the available rows or until it is stopped."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sash.cli.job_file import COUNTERS, Job, check_spark
from sash.cli.job_pipeline import FILES, SOURCES, PreparedJob, is_address
from sash.cli.sql_statement import spark_name
from sash.cli.terminal import write_json_rows
from sash.pipeline.file_source import FORMATS
from sash.pipeline.pipeline_loop import stop_on_signals

# --- Job spark ---

OF_STREAMS = ("emit", "late", "ahead", "forget")
"""Keys of [query] that only streams support."""

CORRUPT = "_corrupt_record"
"""The column in which Spark puts a record that it cannot parse."""

MICROSECONDS = (
    "write the file with microseconds (pyarrow.parquet.write_table(table, path, coerce_timestamps='us'), or pandas' "
    "to_parquet with the same argument); or read them as integers: [spark.config] 'sql.legacy.parquet.nanosAsLong' = "
    "true, with [source.schema] of 'int64' for them and windows of numbers, or use engine local"
)
"""What to do with times in nanoseconds."""

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
"""The connector for Kafka, without its version, which is that of Spark."""


def is_stream(job: Job, follow: bool) -> bool:
    """Does Spark run a job as a stream? It does with a checkpoint, from which a later run continues."""
    return follow or job.get("spark", "checkpoint") is not None


def require_spark(job: Job, follow: bool) -> None:
    """Raises WrongUsage for a job that Spark cannot run, as a stream or in batch, or that has unsafe settings."""
    check_spark(job)
    if job.get("source", "format") == "arrow":
        job.wrong(("source", "format"), "engine spark reads messages of JSON: use format = 'json', or engine local")
    if is_stream(job, follow):
        if job.get("spark", "checkpoint") is None:
            job.wrong(("spark",), "--stream on engine spark needs a directory for state: [spark] checkpoint =")
        if job.get("options", "finish"):
            job.wrong(("options", "finish"), "a stream on engine spark has no end: leave finish = true out")
        return
    if job.get("options", "finish") is False:
        job.wrong(("options", "finish"), "a batch ends with its rows: give [spark] checkpoint =, or leave finish out")
    for key in OF_STREAMS:
        if job.get("query", key) is not None:
            job.wrong(("query", key), f"{key} is not supported for a batch on engine spark: give [spark] checkpoint =")


def job_session(job: Job) -> Any:
    """The Spark session of a job; the active one, or that of spark-submit, if there is one.

    Raises ImportError without pyspark, WrongUsage for settings that may run code.
    """
    check_spark(job)
    from sash.spark import session

    config = dict(job.get("spark", "config", {}))
    if (master := job.get("spark", "master")) is not None:
        config["master"] = master
    return session(**config)


def schema_on_spark(job: Job) -> pa.Schema | None:
    """The columns of files that only Spark can reach, such as s3a://…; None for others, and if the job has them."""
    if job.get("source", "schema") is not None or not is_address(job.get("source", "path")):
        return None
    if job.choice("source", "kind", SOURCES) != "parquet":
        job.wrong(("source",), "[source.schema] is needed: only files of Parquet have columns with types")
    from sash.spark.spark_types import arrow_schema

    return arrow_schema(parquet_schema(job, [job.get("source", "path")]))


def parquet_schema(job: Job, paths: list[str]) -> Any:
    """Spark's schema of files of Parquet. Raises WrongUsage, with the remedy, for times in nanoseconds."""
    try:
        return job_session(job).read.parquet(*paths).schema
    except Exception as error:
        if "(TIMESTAMP(NANOS" not in str(error):
            raise
        job.wrong(("source", "path"), f"{paths[0]} has times in nanoseconds, which Spark does not read: {MICROSECONDS}")


def place(path: str) -> str:
    """A path for Spark: absolute, since Spark may have another working directory; addresses are unchanged."""
    return path if is_address(path) else str(Path(path).absolute())


def results_of(prepared: PreparedJob, follow: bool) -> Any:
    """The results of a job as a lazy DataFrame: a streaming one if the job is a stream."""
    from sash.spark.column_exprs import filtered

    job = prepared.job
    stream = is_stream(job, follow)
    data = _records(prepared, stream) if job.get("source", "kind") == "kafka" else _files(prepared, stream)
    corrupt = CORRUPT in data.columns and CORRUPT not in prepared.schema.names
    made = prepared.made
    if made.where is not None:
        # records that cannot be parsed have no values for the condition, and are counted
        label = f"[query] where: {made.condition}"
        data = filtered(data, made.where.tree, made.condition, label, besides=CORRUPT if corrupt else None)
    if corrupt and not stream:
        data = data.where(f"{CORRUPT} IS NULL").drop(CORRUPT)
    results = made.query.run(data)
    if made.columns is not None:
        results = results.selectExpr(*(f"{spark_name(source)} as {spark_name(name)}" for source, name in made.columns))
    return results


def _files(prepared: PreparedJob, stream: bool) -> Any:
    """The rows of the files that the local engine would read."""
    from sash.spark.spark_types import spark_schema

    job = prepared.job
    session, kind, path = job_session(job), job.get("source", "kind"), place(job.get("source", "path"))
    reader = session.readStream if stream else session.read
    reader = reader.option("pathGlobFilter", f"*{{{','.join(FORMATS[FILES[kind]].suffixes)}}}")
    if stream and Path(path).is_file():
        job.wrong(("source", "path"), f"{path!r} is a file: a stream on engine spark reads a directory of files")
    if kind == "parquet":
        given = job.get("source", "schema") is not None or (prepared.files is not None and not prepared.files.paths())
        schema = spark_schema(prepared.schema) if given else parquet_schema(job, _paths(prepared))
        return reader.schema(schema).parquet(path)
    return _text_options(reader, prepared).format(FILES[kind]).load(path)


def _paths(prepared: PreparedJob) -> list[str]:
    """A path with the columns of the source: one file, since all have the same columns, or the address."""
    if prepared.files is None:
        return [prepared.job.get("source", "path")]
    return [str(prepared.files.paths()[0])]


def _text_options(reader: Any, prepared: PreparedJob) -> Any:
    """A reader of CSV or JSON lines that accepts and refuses the same records as the local engine."""
    from sash.spark.spark_types import spark_schema

    job, schema = prepared.job, spark_schema(prepared.schema)
    if job.get("options", "malformed") == "error":
        reader = reader.option("mode", "FAILFAST")
    elif CORRUPT not in prepared.schema.names:
        schema = schema.add(CORRUPT, "string")
        reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", CORRUPT)
    if job.get("source", "kind") == "csv":
        reader = reader.option("header", True).option("enforceSchema", False).option("escape", '"')
        reader = reader.option("sep", job.get("source", "delimiter", ","))
    return reader.schema(schema)


def _records(prepared: PreparedJob, stream: bool) -> Any:
    """The messages of a topic of Kafka, decoded to rows."""
    job, session = prepared.job, job_session(prepared.job)
    reader = (session.readStream if stream else session.read).format("kafka")
    for name, value in kafka_options(job, "source").items():
        reader = reader.option(name, value)
    return decoded(_loaded(session, reader.option("startingOffsets", "earliest").load), prepared)


def decoded(messages: Any, prepared: PreparedJob) -> Any:
    """Decode the values of messages, which are JSON objects, with a column for those that cannot be parsed."""
    from sash.spark.spark_types import spark_schema

    strict = prepared.job.get("options", "malformed") == "error"
    known = spark_schema(prepared.schema)
    columns = [f"{spark_name(field.name)} {field.dataType.simpleString()}" for field in known.fields]
    columns += [] if strict else [f"`{CORRUPT}` string"]
    more = "'mode', 'FAILFAST'" if strict else f"'mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{CORRUPT}'"
    schema = ", ".join(columns).replace("\\", "\\\\").replace("'", "\\'")  # a literal, whatever the names contain
    record = f"from_json(CAST(value AS STRING), '{schema}', map({more})) AS record"
    return messages.selectExpr(record).select("record.*")


def kafka_options(job: Job, table: str) -> dict[str, Any]:
    """The options of Spark's connector for [source] or [sink]."""
    topic = "subscribe" if table == "source" else "topic"
    config = {f"kafka.{name}": value for name, value in job.get(table, "config", {}).items()}
    return {"kafka.bootstrap.servers": job.get(table, "servers"), topic: job.get(table, "topic"), **config}


def _loaded(session: Any, load: Any) -> Any:
    """Load a DataFrame with Spark's reader. Raises ImportError if Spark has no connector for Kafka."""
    try:
        return load()
    except Exception as error:
        if "kafka" not in str(error).lower():
            raise
        raise ImportError(
            f"Spark has no connector for Kafka: give it as [spark.config] 'jars.packages' = '{CONNECTOR}:"
            f"{session.version}', with allow_imports = true above all tables, or as spark-submit --packages"
        ) from None


def as_messages(results: Any, key: str | list[str]) -> Any:
    """Results as messages for Kafka, equal to those of the local engine: JSON objects, with `key` as their key."""
    names = [spark_name(name) for name in ([key] if isinstance(key, str) else key)]
    value = "to_json(struct(*), map('ignoreNullFields', 'false')) AS value"
    if not names:
        return results.selectExpr(value)
    made = f"CAST({names[0]} AS STRING)" if len(names) == 1 else f"to_json(struct({', '.join(names)}))"
    return results.selectExpr(f"{made} AS key", value)


def run_batch(prepared: PreparedJob) -> dict[str, int | None]:
    """Run a job in batch; the numbers of rows read and written, None where Spark does not count them.

    Raises FileExistsError if the sink's directory has files.
    """
    job = prepared.job
    kind, path = job.get("sink", "kind"), job.get("sink", "path")
    if path is not None and not is_address(path):
        target = Path(path).absolute()
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise FileExistsError(f"{target} exists already: remove it, or use another directory")
    results = results_of(prepared, follow=False)
    if kind == "console":
        write_json_rows(results.toArrow().to_batches())
    elif kind == "table":
        results.write.mode("error").saveAsTable(job.get("sink", "name"))
    else:
        _writer(job, results, "write").mode("append").save()
    written = sorted(Path(path).glob("*.parquet")) if kind == "parquet" and not is_address(path) else None
    read = prepared.files.paths() if prepared.files is not None and job.get("source", "kind") == "parquet" else None
    return {"rows_in": _rows(read), "rows_out": _rows(written)}


def _rows(paths: list[Path] | None) -> int | None:
    return None if paths is None else sum(pq.read_metadata(path).num_rows for path in paths)


# --- Job spark stream ---

SECONDS = 0.25
"""Seconds between two checks whether a stream has ended or is to be stopped."""


def run_stream(
    prepared: PreparedJob, follow: bool, stop: threading.Event | None = None, watch: Any = None
) -> dict[str, Any]:
    """Run a job as a stream, with `follow` until SIGINT, SIGTERM or `stop`. Returns the counters of this run.

    `watch` is called with the monitor of the stream and the query, as `LivePage.watch` is.

    Stopping in the middle of a micro-batch loses nothing: the next run repeats it from the checkpoint, and files and
    tables get it once. Raises RuntimeError if the stream fails.
    """
    from sash.spark import monitor

    job = prepared.job
    stop = threading.Event() if stop is None else stop
    writer = _writer(job, results_of(prepared, follow), "writeStream")
    writer = writer.option("checkpointLocation", place(job.get("spark", "checkpoint")))
    trigger = job.get("spark", "trigger")
    if not follow:
        writer = writer.trigger(availableNow=True)
    elif trigger is not None:
        writer = writer.trigger(processingTime=trigger)
    query = writer.toTable(job.get("sink", "name")) if job.get("sink", "kind") == "table" else writer.start()
    with stop_on_signals(stop), monitor(query) as watched:
        if watch is not None:
            watch(watched, prepared.made.query)
        while not _has_ended(query):
            if stop.is_set():
                query.stop()
                break
    last = watched.last
    counts = {name: watched.totals[name] for name in COUNTERS}
    return {**counts, "batches": watched.batch_count, "keys": None if last is None else last.keys, "finished": False}


def _has_ended(query: Any) -> bool:
    """Wait a moment for a stream to end. Raises RuntimeError, without Spark's plan of it, if it has failed."""
    try:
        return bool(query.awaitTermination(SECONDS))
    except Exception as error:
        cause, plan, _ = str(error).partition("=== Streaming Query ===")
        if not plan:
            raise
        raise RuntimeError(f"the stream has failed: {' '.join(cause.split())}") from error


def _writer(job: Job, results: Any, how: str) -> Any:
    """The writer of results to the sink of a job: `write` of a batch, or `writeStream`."""
    kind = job.get("sink", "kind")
    if kind == "kafka":
        writer = getattr(as_messages(results, job.get("sink", "key", ())), how).format("kafka")
        return writer.options(**kafka_options(job, "sink"))
    writer = getattr(results, how)
    if kind == "console":
        return writer.foreachBatch(lambda batch, _number: write_json_rows(batch.toArrow().to_batches()))
    return (
        writer
        if kind == "table"
        else writer.format(kind).option("header", True).option("path", place(job.get("sink", "path")))
    )
