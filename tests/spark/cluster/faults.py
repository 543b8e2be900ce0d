"""Faults of a cluster, and drivers that they interrupt. A wait that is too long shows the log of the driver."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.spark.cluster.standalone import StandaloneCluster, end_group, environment, kill, spawn

LIMIT = 300.0
"""Seconds that a micro-batch may take, with all that is started again in it."""

BUSY = "Python worker failed to connect back"
"""The error if a worker takes more than ten seconds to start, as on a machine with many other processes."""

FAULTS = ("executor", "executors", "worker", "driver")
"""One executor killed; all of them; a worker stopped with its executor, and started again; the driver killed."""


class Driver:
    """A driver on the cluster, in a process that leads a group."""

    def __init__(self, cluster: StandaloneCluster, folder: Path, *job: str) -> None:
        self.cluster, self.folder, self.restarts = cluster, folder, 0
        self._command = [sys.executable, "-m", "tests.spark.cluster.driver", cluster.url, str(folder), *job]
        self._log = folder / "driver.log"
        self.start()

    def start(self) -> None:
        """Start the process, which continues from its checkpoint."""
        # its workers load queries and functions of the tests by name
        surroundings = environment() | {"PYTHONPATH": os.getcwd()}
        self._process = spawn(self._command, surroundings, self._log)

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something. Raises AssertionError if the driver ends before, or it takes too long."""
        ends = time.monotonic() + LIMIT
        while not condition():
            if self._process.poll() is not None:
                self._start_again()
            assert time.monotonic() < ends, f"nothing has come after {LIMIT:.0f} s:\n{self.log()}"
            time.sleep(0.02)

    def finish(self) -> None:
        """Wait for its end. Raises AssertionError if it failed."""
        try:
            while self._process.wait(timeout=LIMIT) != 0:
                self._start_again()
        finally:
            self.kill()

    def _start_again(self) -> None:
        """Start the driver again, as a supervisor does, if Spark was too slow to start a Python worker; else fail."""
        assert BUSY in self.log(), f"the driver has ended:\n{self.log()}"
        assert self.restarts < 3, f"the driver has ended too often:\n{self.log()}"
        self.restarts += 1
        self._log.rename(self.folder / f"driver-{self.restarts}.log")
        self.start()

    def kill(self) -> None:
        """Kill it with -9, with its JVM."""
        end_group(self._process)

    def log(self) -> str:
        """The end of what it has written."""
        return self._log.read_text(errors="replace")[-8000:]


def strike(fault: str, driver: Driver, draw: random.Random) -> Callable[[], None]:
    """Inject a fault, and return a function that repairs it."""
    cluster = driver.cluster
    if fault == "driver":
        driver.kill()
        driver.start()
    elif fault == "worker":
        number = draw.randrange(2)
        cluster.stop_worker(number)
        return lambda: cluster.start_worker(number)
    else:
        driver.until(lambda: bool(cluster.executors()))
        found = sorted(cluster.executors())
        for pid in found if fault == "executors" else [draw.choice(found)]:
            kill(pid)
    return lambda: None


def put(folder: Path, number: int, parts: list[pa.RecordBatch]) -> None:
    """Add the file of a micro-batch, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number:04}.parquet"
    unfinished = folder.parent / "unfinished.parquet"
    pq.write_table(pa.Table.from_batches(parts), unfinished)
    os.utime(unfinished, (1_700_000_000 + number, 1_700_000_000 + number))
    unfinished.rename(path)


def numbers(folder: Path) -> set[int]:
    """The micro-batches in a log of a checkpoint."""
    return {int(path.name) for path in folder.iterdir() if path.name.isdigit()} if folder.exists() else set()
