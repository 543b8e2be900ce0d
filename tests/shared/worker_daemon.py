"""The process that Spark forks Python workers from, with what they import: 0.1 s of CPU for a worker instead of 2.5 s.

Spark's own daemon imports nothing, since a library may have started threads, which do not survive a fork; those of
NumPy and Arrow, which start theirs again, are all that workers of the tests have.
"""

import gc
import importlib

from pyspark.daemon import manager

IMPORTED = ("pyspark.worker", "pandas", "sash.spark.batch.partition_task", "sash.spark.stream.shard_task")

if __name__ == "__main__":
    for name in IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a worker looks for garbage after each task: 60 ms where it looks at all modules
    manager()
