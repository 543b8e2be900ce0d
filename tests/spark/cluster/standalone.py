"""A cluster of Spark on loopback: a master and two workers of the installed pyspark, in processes of their own.

    master ── worker 0 ── executor ── Python workers
           └─ worker 1 ── executor ── Python workers

Each process leads a group of its own, so that its end is the end of all that it has started. Only Linux has /proc, by
which executors are found.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyspark

from sash.spark.java import java_home

HOME = Path(pyspark.__file__).parent
LIMIT = 300.0
"""Seconds that anything may take to begin."""

DAEMON = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dspark.deploy.maxExecutorRetries=-1"
"""Java's options of master and workers: small, and no application is given up because its executors are killed."""


class StandaloneCluster:
    """A master, and workers of one core each. `stop()` ends all of it."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        try:
            self._spawn("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0")
            self.url = self._logged("master", r"Starting Spark master at (spark://\S+)")
            self._logged("master", "I have been elected leader")
            for number in range(workers):
                self.start_worker(number)
        except BaseException:
            self.stop()
            raise

    def start_worker(self, number: int) -> None:
        """Start a worker, and wait until the master knows it."""
        name = f"worker {number}"
        place = self.folder / name.replace(" ", "-")
        sizes = ("--cores", "1", "--memory", "1g", "--work-dir", str(place))
        self._spawn(name, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", *sizes, self.url)
        self._logged(name, "Successfully registered with master")

    def stop_worker(self, number: int) -> None:
        """End a worker with its executors, as a machine that loses power does."""
        self._end(f"worker {number}")

    def executors(self) -> list[int]:
        """The process ids of the executors of all applications."""
        workers = {process.pid for name, process in self._processes.items() if name != "master"}
        return [
            pid for pid, parent, command in _processes() if parent in workers and "CoarseGrainedExecutor" in command
        ]

    def stop(self) -> None:
        """End the workers, then the master."""
        for name in reversed(list(self._processes)):
            self._end(name)

    def log(self, name: str) -> Path:
        """The file with what a process has written."""
        return self.folder / f"{name.replace(' ', '-')}.log"

    def _spawn(self, name: str, *command: str) -> None:
        surroundings = environment() | {"SPARK_NO_DAEMONIZE": "1", "SPARK_DAEMON_JAVA_OPTS": DAEMON}
        surroundings |= {"SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_DIRS": str(self.folder / "local")}
        program = [str(HOME / "bin" / "spark-class"), command[0], "--webui-port", "0", *command[1:]]
        self._processes[name] = spawn(program, surroundings, self.log(name))

    def _logged(self, name: str, pattern: str) -> str:
        """Wait until a process has written a line of this form; gives its last group."""
        process, ends = self._processes[name], time.monotonic() + LIMIT
        while time.monotonic() < ends and process.poll() is None:
            found = re.search(pattern, self.log(name).read_text(errors="replace"))
            if found is not None:
                return found[found.re.groups]
            time.sleep(0.1)
        raise RuntimeError(f"{name} has not said {pattern!r}:\n{self.log(name).read_text(errors='replace')[-2000:]}")

    def _end(self, name: str) -> None:
        process = self._processes.pop(name)
        end_group(process)


def environment() -> dict[str, str]:
    """The surroundings of Spark's programs: its home, a Java, and this Python for the workers."""
    dropped = ("SPARK_HOME", "SPARK_CONF_DIR", "PYTHONPATH", "PYSPARK_GATEWAY_PORT")
    found = {name: value for name, value in os.environ.items() if name not in dropped}
    found |= {"SPARK_HOME": str(HOME), "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    home = java_home()
    return found if home is None else found | {"JAVA_HOME": home}


def spawn(command: list[str], surroundings: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Start a process that leads a group, writes to a log, and is killed when this one ends, however that ends."""
    with log.open("ab") as file:
        return subprocess.Popen(
            command,
            env=surroundings,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_dies_with_parent,  # noqa: PLW1509 (no other threads here)
        )


def _dies_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG; it holds in what is executed next


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a group, and all of the group, with -9."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=LIMIT)


def kill(pid: int) -> None:
    """Kill a process with -9, if it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _processes() -> list[tuple[int, int, str]]:
    """The id, the parent and the command line of each process."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                parent = int(path.joinpath("stat").read_text().rpartition(")")[2].split()[1])
                found.append((int(path.name), parent, path.joinpath("cmdline").read_bytes().decode(errors="replace")))
            except (FileNotFoundError, ProcessLookupError):  # it has ended
                continue
    return found
