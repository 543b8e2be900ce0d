"""Send tasks to executors, where sash may be missing or of another version.

    driver: task ──▶ bytes ─┐                                   ┌─▶ bytes ──▶ task ──▶ results
                            └─▶ a function, by value ── Spark ──┤
                                                                └─▶ an error that names the executor and the remedy

Spark unpickles a task before any of our code runs. A class of sash would fail there with "No module named 'sash'",
which names neither the machine nor the remedy. So Spark gets a function, or a class, that is defined inside a function:
cloudpickle sends those by value. Until they have found sash, they import only what every executor has.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

if TYPE_CHECKING:
    import pyarrow as pa

    Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

REQUIRED = ("numba", "numpy", "pyarrow")
"""Packages that executors need in addition to sash."""


def by_value(task: Task, name: str) -> Task:
    """A task for `mapInArrow`, as a function that cloudpickle sends by value; Spark shows its name in plans.

    On an executor without sash, without one of the packages that it needs, or with another version of sash, it raises
    RuntimeError with the executor's host and Python, and the remedy.
    """
    unpacked = _unpacking(task)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        results: Iterator[pa.RecordBatch] = unpacked()(batches)
        return results

    run.__name__ = name
    return run


def processor_by_value(processor: Any) -> Any:
    """A processor of DataFrames, of a class that cloudpickle sends by value; it raises as `by_value`.

    `init` declares its state variable without unpacking it: when a stream starts, Spark waits for a process on the
    driver that only calls `init`, and importing sash would take three times as long as the call.
    """
    from pyspark.sql.streaming import StatefulProcessor

    unpacked, variable = _unpacking(processor), processor.STATE

    class Shipped(StatefulProcessor):  # type: ignore[misc]
        """The processor, unpacked where Spark calls it."""

        def init(self, handle: Any) -> None:
            self.handle, self.state = handle, handle.getMapState(*variable)
            self.processor: Any = None

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802
            return self.opened().handle_rows(key, rows, timerValues)

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:  # noqa: N802
            return self.opened().handle_timer(key, timerValues, expiredTimerInfo)

        def opened(self) -> Any:
            if self.processor is None:
                self.processor = unpacked()
                self.processor.open(self.handle, self.state)
            return self.processor

        def close(self) -> None:
            """Nothing to release."""

    return Shipped()


def _unpacking(task: Any) -> Callable[[], Any]:
    """A function, to be sent by value, that unpickles the task on an executor."""
    # imported by name: modules of sash do not import the top-level package
    content, version, required = cloudpickle.dumps(task), importlib.import_module("sash").__version__, REQUIRED

    def unpacked() -> Any:
        import importlib.util
        import os
        import pickle
        import socket
        import sys

        where = f"the executor on {socket.gethostname()} (Python: {sys.executable})"
        remedy = (
            "install sash[spark] there, or send an environment that has it (spark.archives and PYSPARK_PYTHON), or "
            "its wheel, renamed to .zip (--py-files or addPyFile), with the packages that it needs there: see "
            "docs/deployment.md"
        )
        try:
            missing = [name for name in ("sash", *required) if importlib.util.find_spec(name) is None]
            if missing:
                raise RuntimeError(f"{where} does not have {', '.join(missing)}: {remedy}")
            try:
                found = importlib.import_module("sash").__version__
            except ImportError as error:
                raise RuntimeError(f"{where} cannot import sash ({error}): {remedy}") from error
            if found != version:
                raise RuntimeError(
                    f"{where} has sash {found} and the driver has {version}: install the same version in both places"
                )
            try:
                importlib.import_module("sash.spark.worker_io").freeze_modules()
                return pickle.loads(content)
            except ImportError as error:
                raise RuntimeError(
                    f"{where} lacks a module that the query needs ({error}): install it there, or send it with "
                    "--py-files or addPyFile"
                ) from error
        except RuntimeError:
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # only the message helps the user, see `worker_io`
            raise

    return unpacked
