"""Run a job in batch on Spark: Parquet to Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from sash.cli.job_file import Job
from sash.cli.job_pipeline import PreparedJob
from sash.expressions.parser import DIALECT
from sash.pipeline.file_source import FileSource
from sash.pipeline.selections import FilteredSource

STREAM_KEYS = {"query": ("emit", "late", "ahead", "forget"), "options": ("batch_size", "malformed", "finish", "memory")}
"""Keys for rows that arrive over time: a batch has all of them."""


def require_batch(job: Job) -> None:
    """Raises WrongUsage for a job that Spark does not run in batch."""
    for table in ("source", "sink"):
        if job.get(table, "kind") != "parquet":
            job.wrong((table, "kind"), f"engine spark takes kind = 'parquet' in [{table}]: use engine local")
    if "store" in job.tables:
        job.wrong(("store",), "[store] does not go with engine spark, which runs in batch: use engine local")
    for table, keys in STREAM_KEYS.items():
        for key in keys:
            if job.get(table, key) is not None:
                job.wrong((table, key), f"{key} does not go with engine spark, which runs in batch: use engine local")


def run_on_spark(prepared: PreparedJob) -> dict[str, int]:
    """Run a job on a Spark session of this machine; the numbers of rows read and written.

    Raises FileExistsError if the sink's directory has files, ImportError without pyspark.
    """
    import sqlglot

    from sash.spark import session

    job = prepared.job
    target = Path(job.get("sink", "path")).absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(f"{target} exists already: remove it, or use another directory")
    paths = _paths(prepared.source)
    data: Any = session().read.parquet(*map(str, paths))
    if prepared.made.condition:
        data = data.where(sqlglot.transpile(prepared.made.condition, read=DIALECT, write="spark")[0])
    results: Any = prepared.made.query.run(data)
    if prepared.made.columns is not None:
        results = results.selectExpr(*(f"`{source}` as `{name}`" for source, name in prepared.made.columns))
    results.write.mode("append").parquet(str(target))
    return {"rows_in": _rows(paths), "rows_out": _rows(sorted(target.glob("*.parquet")))}


def _paths(source: Any) -> list[Path]:
    """The files that the local engine would read."""
    inner = source.source if isinstance(source, FilteredSource) else source
    assert isinstance(inner, FileSource)
    return inner.paths()


def _rows(paths: list[Path]) -> int:
    return sum(pq.read_metadata(path).num_rows for path in paths)
