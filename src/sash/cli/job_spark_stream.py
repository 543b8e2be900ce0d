"""Run a job as a stream on Spark, to the end of the available rows or until it is stopped, with a checkpoint."""

from __future__ import annotations

import threading
from typing import Any

from sash.cli.job_file import Job
from sash.cli.job_pipeline import PreparedJob
from sash.cli.job_spark import as_messages, kafka_options, place, print_table, results_of
from sash.pipeline.stop_signals import stop_on_signals

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
    writer = _writer(job, results_of(prepared, follow))
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
    names = ("rows_in", "rows_out", "late", "untimed", "malformed", "failed", "failed_results")
    counts = {name: watched.totals[name] for name in names}
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


def _writer(job: Job, results: Any) -> Any:
    """The writer of a stream to the sink of a job, in append mode."""
    kind = job.get("sink", "kind")
    if kind == "console":
        return results.writeStream.foreachBatch(lambda batch, _number: print_table(batch.toArrow()))
    if kind == "kafka":
        writer = as_messages(results, job.get("sink", "key", ())).writeStream.format("kafka")
        return writer.options(**kafka_options(job, "sink"))
    if kind == "table":
        return results.writeStream
    return results.writeStream.format(kind).option("header", True).option("path", place(job.get("sink", "path")))
