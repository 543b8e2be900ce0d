"""Find the host for data, and report a clear error if there is none."""

import gc
import subprocess
import sys
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash import Query
from sash.plan import dispatch

QUERY = Query(5, n=sash.count())


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replaces the module of a host."""

    def put(name: str, **contents: Any) -> None:
        module = ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)

    return put


def test_the_operator(host: Any) -> None:
    host("sash.engine", Operator=lambda query, schema, **keywords: (query, schema, keywords))
    assert QUERY.operator() == (QUERY, None, {"mode": "rows", "store": None, "clock": None})
    assert QUERY.operator("schema", mode="given", store="s", clock=max) == (  # type: ignore[arg-type]
        QUERY,
        "schema",
        {"mode": "given", "store": "s", "clock": max},
    )


def test_frames(host: Any) -> None:
    host("sash.frames", run=lambda query, data: ("frames", query, data))
    table = pa.table({"x": [1]})
    assert QUERY.run(table) == ("frames", QUERY, table)
    assert QUERY.run(table.to_batches()[0])[0] == "frames"
    frame = type("DataFrame", (), {"__module__": "polars.dataframe.frame"})()
    assert QUERY.run(frame) == ("frames", QUERY, frame)
    derived = type("Mine", (type("DataFrame", (), {"__module__": "pandas.core.frame"}),), {})()
    assert QUERY.run(derived) == ("frames", QUERY, derived)


def test_spark(host: Any) -> None:
    host("sash.spark", run=lambda query, data: ("spark", query, data))
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    assert QUERY.run(frame) == ("spark", QUERY, frame)


def test_an_iterator_of_batches(host: Any) -> None:
    host("sash.engine", stream=lambda _query, batches: list(batches))
    assert QUERY.run(iter([1, 2])) == [1, 2]
    assert QUERY.run(batch for batch in (3,)) == [3]


@pytest.mark.parametrize("data", [None, 5, [1, 2], {"x": 1}, {"x": "abc"}, {"x": {1: 2}}, {}])
def test_what_no_host_takes(data: Any) -> None:
    with pytest.raises(TypeError, match=r"a query runs on pandas, polars, .*; got a builtins\."):
        QUERY.run(data)


def test_a_host_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sash.frames", "sash.engine"):
        monkeypatch.setitem(sys.modules, name, None)  # makes its import fail
    with pytest.raises(
        ImportError, match=r"pyarrow data needs sash\.frames, which this installation of sash does not have"
    ):
        QUERY.run(pa.table({"x": [1]}))
    with pytest.raises(ImportError, match=r"an operator needs sash\.engine, which"):
        QUERY.operator()


def test_an_import_that_a_host_misses_is_raised_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_name: str) -> ModuleType:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")

    monkeypatch.setattr("sash.plan.dispatch.importlib.import_module", missing)
    with pytest.raises(ModuleNotFoundError, match="No module named 'pyspark'"):
        QUERY.operator()


@pytest.mark.parametrize("collects", [True, False])
def test_no_garbage_is_collected_while_a_host_is_imported(collects: bool) -> None:
    """Nor afterwards for what it has loaded; the setting of the process stays."""
    program = f"""if True:
        import gc, sash
        from sash.plan import dispatch
        gc.collect()
        gc.{"enable" if collects else "disable"}()
        collected = []
        gc.callbacks.append(lambda phase, _: collected.append(phase))
        dispatch.host("sash.frames", "this")
        made = gc.get_count()[0]
        gc.callbacks.clear()
        print(collected, made < 1000, gc.isenabled(), gc.get_freeze_count())
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"[] {collects} {collects} 0"  # a process that does not collect has its own reasons


def test_objects_that_a_process_has_frozen_stay_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sash.plan.dispatch.importlib.import_module", lambda _name: gc)
    monkeypatch.delitem(sys.modules, "sash.spark", raising=False)
    gc.freeze()
    try:
        dispatch.host("sash.spark", "this")
        assert gc.get_freeze_count()
        assert gc.isenabled()
    finally:
        gc.unfreeze()


def test_a_host_that_cannot_be_imported_leaves_collection_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_name: str) -> ModuleType:
        assert not gc.isenabled()
        raise ImportError("libarrow is missing")

    monkeypatch.setattr("sash.plan.dispatch.importlib.import_module", fails)
    monkeypatch.delitem(sys.modules, "sash.spark", raising=False)
    with pytest.raises(ImportError, match="libarrow is missing"):
        dispatch.host("sash.spark", "this")
    assert gc.isenabled()
