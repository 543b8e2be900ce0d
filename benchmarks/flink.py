"""Flink as a rival: its SQL in one JVM, from its own generator into a sink that drops everything.

The jars are those of `apache-flink-libraries`; py4j, which comes with PySpark, drives the JVM. A job takes seconds to
start, so that the time of a row is the difference of two jobs, a short one and a long one.
"""

from __future__ import annotations

import importlib.util
import math
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sash.spark.java import java_home

Clock = Callable[[], float]
"""Seconds, of the wall or of processors."""

OPENED = ("java.util", "java.lang", "java.net", "java.time", "java.nio", "java.util.concurrent", "java.lang.invoke")
BACKENDS = {"heap": "hashmap", "RocksDB": "rocksdb"}
SOURCE = """
CREATE TABLE source (id BIGINT, k BIGINT, x DOUBLE, ts AS TO_TIMESTAMP_LTZ(id, 3), WATERMARK FOR ts AS ts) WITH (
  'connector' = 'datagen', 'number-of-rows' = '{rows}', 'rows-per-second' = '1000000000',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '{last}',
  'fields.k.min' = '0', 'fields.k.max' = '{keys}', 'fields.x.min' = '0', 'fields.x.max' = '1')
"""
SINK = "CREATE TABLE sink (k BIGINT, high DOUBLE, total DOUBLE) WITH ('connector' = 'blackhole')"
PROJECTION = "SELECT k, x, x FROM source"


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


@dataclass(frozen=True)
class FlinkJob:
    """Statements, and how they run."""

    select: str | tuple[str, ...]
    """A statement, or several that run as one set: one job, which reads its source once."""
    backend: str
    """Where its state lies: a name of `BACKENDS`."""
    keys: int
    sink: str = SINK
    tasks: int = 1
    """The parallelism."""
    checkpoints: Path | None = None
    """Where checkpoints are written, one each ten seconds; None: there are none."""

    @property
    def inserts(self) -> tuple[str, ...]:
        """The statements with their sink."""
        selects = (self.select,) if isinstance(self.select, str) else self.select
        return tuple(f"INSERT INTO sink {select}" for select in selects)

    def settings(self) -> dict[str, str]:
        """The settings of Flink."""
        found = {"state.backend.type": BACKENDS[self.backend], "parallelism.default": str(self.tasks)}
        if len(self.inserts) > 1:  # each needs buffers of its own
            found |= {"taskmanager.memory.network.min": "512m", "taskmanager.memory.network.max": "512m"}
        if self.checkpoints is not None:
            found |= {
                "execution.checkpointing.interval": "10 s",
                "execution.checkpointing.dir": self.checkpoints.as_uri(),
                "execution.checkpointing.incremental": "true",
            }
        return found


class Flink:
    """A JVM with Flink."""

    def __init__(self, jvm: Any) -> None:
        self.jvm = jvm

    def processor_time(self) -> float:
        """The processor seconds that the JVM has taken."""
        process = self.jvm.java.lang.ProcessHandle.current().pid()
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def nanoseconds(self, job: FlinkJob, rows: int, budget: int = 3600, clock: Clock = time.perf_counter) -> float:
        """The time of a row of a job, beyond its start; infinite if it does not end within a budget of seconds."""
        few = rows // 5
        if math.isinf(self.seconds(job, few, budget, clock)):  # the JVM compiles what is hot
            return math.inf
        most = self.seconds(job, rows, budget, clock)
        return (most - self.seconds(job, few, 3600, clock)) / (rows - few) * 1e9

    def seconds(self, job: FlinkJob, rows: int, budget: int = 3600, clock: Clock = time.perf_counter) -> float:
        """Seconds of a job over this many rows, a millisecond apart; infinite if it was cancelled after the budget."""
        from py4j.protocol import Py4JJavaError

        configuration = self.jvm.org.apache.flink.configuration.Configuration()
        for name, value in job.settings().items():
            configuration.setString(name, value)
        settings = self.jvm.org.apache.flink.table.api.EnvironmentSettings.newInstance().inStreamingMode()
        table = self.jvm.org.apache.flink.table.api.TableEnvironment.create(
            settings.withConfiguration(configuration).build()
        )
        table.executeSql(SOURCE.format(rows=rows, last=rows - 1, keys=job.keys - 1))
        table.executeSql(job.sink)
        statements = table.createStatementSet()
        for insert in job.inserts:
            statements.addInsertSql(insert)
        began = clock()
        running = statements.execute()
        try:
            getattr(running, "await")(budget, self.jvm.java.util.concurrent.TimeUnit.SECONDS)
        except Py4JJavaError as error:
            if "TimeoutException" not in error.java_exception.getClass().getName():
                raise
            running.getJobClient().get().cancel().get()
            return math.inf
        return clock() - began


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
