"""Tasks are sent to executors by value, so that one without sash can report what is missing."""

import os
import pickle
import re
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

import sash
from sash.plan.queries import ALONE
from sash.spark.batch.partition_task import ROWS, PartitionTask, PassLayout, QueryExecutor
from sash.spark.shipping import by_value, processor_by_value
from sash.spark.stream.plan_stream import spec_of
from sash.spark.stream.shard_task import ShardProcessor

SCHEMA = pa.schema({"k": pa.string(), "t": pa.int64()})
QUERY = sash.Query(2, by="k", on="t", lateness=1, n=sash.count())
EXECUTOR = """
import pickle, sys

for name in sys.argv[2:]:
    sys.modules[name] = None  # as if it were not installed
with open(sys.argv[1], "rb") as file:
    shipped = pickle.load(file)
class Handle:  # what Spark's process on the driver needs of a processor needs no sash
    def getMapState(self, *_):
        return None

try:
    if hasattr(shipped, "init"):
        shipped.init(Handle())
        shipped.handleInputRows((0,), [], None)
    else:
        shipped([])
except RuntimeError as error:
    print(error)
"""
REMEDY = (
    "install sash[spark] there, or send an environment that has it (spark.archives and PYSPARK_PYTHON), or its wheel, "
    "renamed to .zip (--py-files or addPyFile), with the packages that it needs there: see docs/deployment.md"
)


def task(query: sash.Query = QUERY) -> PartitionTask:
    executor = partial(QueryExecutor, PassLayout({ALONE: query}, SCHEMA), 0.0)
    return PartitionTask(executor, query.bind(SCHEMA), 0.0, ROWS, None)


@pytest.mark.parametrize(
    ("missing", "named"), [(["sash"], "sash"), (["sash", "numba"], "sash, numba"), (["numba"], "numba")]
)
@pytest.mark.parametrize("kind", ["task", "processor"])
def test_an_executor_without_sash_reports_it(tmp_path: Path, kind: str, missing: list[str], named: str) -> None:
    whole = ShardProcessor(spec_of(QUERY, SCHEMA, 2, None, False))
    shipped = by_value(task(), "the task") if kind == "task" else processor_by_value(whole)
    (tmp_path / "shipped").write_bytes(cloudpickle.dumps(shipped))
    program = [sys.executable, "-c", EXECUTOR, str(tmp_path / "shipped"), *missing]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    where = f"the executor on {socket.gethostname()} (Python: {sys.executable})"
    assert done.stdout == f"{where} does not have {named}: {REMEDY}\n"


def test_modules_are_searched_for_garbage_until_they_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    from sash.spark import worker_io

    calls: list[None] = []
    monkeypatch.setattr(worker_io.gc, "freeze", lambda: calls.append(None))
    monkeypatch.setattr(worker_io, "_frozen", set())
    for _ in range(3):
        there(by_value(task(), "the task"))
        worker_io.freeze_modules()
    assert len(calls) == 1
    monkeypatch.setitem(sys.modules, "one_more", sys)
    worker_io.freeze_modules()
    assert len(calls) == 2


def there(shipped: Any) -> Any:
    return pickle.loads(cloudpickle.dumps(shipped))


def test_a_task_runs_after_its_way() -> None:
    rows = pa.RecordBatch.from_pydict({"k": ["a", "a", "a"], "t": [1, 2, 3]}, schema=SCHEMA)
    results = pa.Table.from_batches(list(there(by_value(task(), "the task"))([rows])))
    assert results.column("n").to_pylist() == [1, 2, 2]


def test_another_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped, driver = by_value(task(), "the task"), re.escape(sash.__version__)
    monkeypatch.setattr(sash, "__version__", "9.8.7")
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    with pytest.raises(RuntimeError, match=rf"Python: .*\) has sash 9\.8\.7 and the driver has {driver}: "):
        there(shipped)([])
    assert os.environ["SPARK_HIDE_TRACEBACK"] == "1", "the message alone reaches the user"


def test_a_module_of_the_user_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_module.py").write_text("def lift(x):\n    return x\n")
    monkeypatch.syspath_prepend(tmp_path)
    import own_module

    own = sash.monoid(identity=0, lift=own_module.lift, combine=lambda a, b: a + b)
    shipped = by_value(task(sash.Query(2, by="k", on="t", n=own("t"))), "the task")
    monkeypatch.setitem(sys.modules, "own_module", None)
    with pytest.raises(RuntimeError, match=r"lacks a module that the query needs \(.*own_module.*addPyFile"):
        there(shipped)([])
