"""Flink as a rival: its SQL in one JVM, from its own generator into a sink that drops everything, one task at a time.

The jars are those of `apache-flink-libraries`; py4j, which comes with PySpark, drives the JVM. A job takes seconds to
start, so that the time of a row is the difference of two jobs, a short one and a long one.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sash.spark.java import java_home

OPENED = ("java.util", "java.lang", "java.net", "java.time", "java.nio", "java.util.concurrent", "java.lang.invoke")
BACKENDS = {"heap": "hashmap", "RocksDB": "rocksdb"}
SOURCE = """
CREATE TABLE source (id BIGINT, k BIGINT, x DOUBLE, ts AS TO_TIMESTAMP_LTZ(id, 3), WATERMARK FOR ts AS ts) WITH (
  'connector' = 'datagen', 'number-of-rows' = '{rows}', 'rows-per-second' = '1000000000',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '{last}',
  'fields.k.min' = '0', 'fields.k.max' = '{keys}', 'fields.x.min' = '0', 'fields.x.max' = '1')
"""
SINK = "CREATE TABLE sink (k BIGINT, high DOUBLE, total DOUBLE) WITH ('connector' = 'blackhole')"
PASS_THROUGH = "SELECT k, x, x FROM source"


def per_row(seconds: int) -> str:
    """Max and sum at each row."""
    return (
        "SELECT k, MAX(x) OVER w, SUM(x) OVER w FROM source WINDOW w AS (PARTITION BY k ORDER BY ts RANGE BETWEEN "
        f"INTERVAL '{seconds}' SECOND PRECEDING AND CURRENT ROW)"
    )


def per_slide(seconds: int, every: int) -> str:
    """Max and sum of each hop."""
    return (
        f"SELECT k, MAX(x), SUM(x) FROM TABLE(HOP(TABLE source, DESCRIPTOR(ts), INTERVAL '{every}' SECOND, "
        f"INTERVAL '{seconds}' SECOND)) GROUP BY k, window_start, window_end"
    )


class Flink:
    """A JVM with Flink."""

    def __init__(self, jvm: Any) -> None:
        self.jvm = jvm

    def nanoseconds(self, select: str, keys: int, backend: str, rows: int) -> float:
        """The time of a row of a statement, beyond the start of its job."""
        few = rows // 5
        self.seconds(select, keys, backend, few)  # the JVM compiles what is hot
        return (
            (self.seconds(select, keys, backend, rows) - self.seconds(select, keys, backend, few)) / (rows - few) * 1e9
        )

    def seconds(self, select: str, keys: int, backend: str, rows: int) -> float:
        """The time of a job over so many rows, a millisecond apart."""
        configuration = self.jvm.org.apache.flink.configuration.Configuration()
        configuration.setString("state.backend.type", BACKENDS[backend])
        configuration.setString("parallelism.default", "1")
        settings = self.jvm.org.apache.flink.table.api.EnvironmentSettings.newInstance().inStreamingMode()
        table = self.jvm.org.apache.flink.table.api.TableEnvironment.create(
            settings.withConfiguration(configuration).build()
        )
        table.executeSql(SOURCE.format(rows=rows, last=rows - 1, keys=keys - 1))
        table.executeSql(SINK)
        began = time.perf_counter()
        getattr(table.executeSql(f"INSERT INTO sink {select}"), "await")()
        return time.perf_counter() - began


@contextmanager
def flink(memory: str = "6g") -> Iterator[Flink]:
    """A JVM with Flink, until the block ends. Raises ModuleNotFoundError without its jars."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    found = importlib.util.find_spec("pyflink")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("apache-flink-libraries is not installed: make bench installs it")
    jars = Path(next(iter(found.submodule_search_locations))) / "lib"
    home = java_home()
    port = launch_gateway(
        classpath=os.pathsep.join(map(str, sorted(jars.glob("*.jar")))),
        javaopts=[f"-Xmx{memory}", *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED)],
        java_path=str(Path(home) / "bin" / "java") if home else "java",
        redirect_stderr=subprocess.DEVNULL,
        die_on_exit=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    try:
        yield Flink(gateway.jvm)
    finally:
        gateway.shutdown()
