"""Spark: queries on Spark DataFrames. The only package that imports pyspark.

`session`        a ready local session; `java` finds or makes a Java for it
`route`          batch or stream
`batch`          repartition, sort, one operator a partition; large keys are split by time range
`stream`         pack, one operator a shard on Spark's state, unpack
`spark_explain`  the plan as text
`spark_types`    Arrow types as Spark types; `column_exprs`: column expressions; `arrow_ipc`: batches as bytes
"""

from sash.spark.route import run
from sash.spark.session import session
from sash.spark.spark_explain import explain
from sash.spark.stream.monitor import monitor
from sash.spark.stream.side_output import split_side_output, table_writer, with_side_output

__all__ = ["explain", "monitor", "run", "session", "split_side_output", "table_writer", "with_side_output"]
