"""Spark: queries on Spark DataFrames. The only package that imports pyspark.

`session`        a Spark session: local, on a cluster, or that of spark-submit; `java` finds a Java for it
`route`          batch or stream: runs and explains queries
`batch`          repartition, sort, one operator per partition; large keys are split by time range
`stream`         pack rows, one operator per shard on Spark's state, unpack results
`spark_types`    Arrow types as Spark types; `column_exprs`: column expressions, and conditions on rows
`shipping`       sends tasks to executors, which may lack sash
`worker_io`      input, output and errors of workers; batches as bytes, rows by destination
`job_names`      names in Spark's UI
"""

try:
    import pyspark as _pyspark  # noqa: F401 (before the modules that need it)
except ModuleNotFoundError as error:
    if error.name != "pyspark":
        raise
    raise ImportError("sash.spark needs the package pyspark: pip install 'sash[spark]'") from error

from sash.spark.route import as_of, explain, migrate, run
from sash.spark.session import session
from sash.spark.stream.checkpoint import StateMismatch, check_checkpoint
from sash.spark.stream.monitor import monitor
from sash.spark.stream.side_output import split_queries, split_side_output, table_writer, with_side_output

__all__ = [
    "StateMismatch",
    "as_of",
    "check_checkpoint",
    "explain",
    "migrate",
    "monitor",
    "run",
    "session",
    "split_queries",
    "split_side_output",
    "table_writer",
    "with_side_output",
]
