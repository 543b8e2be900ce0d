"""Find the host for data, and report a clear error if there is none."""

import sys
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash import Query

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
