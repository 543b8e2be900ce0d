"""Where a query runs: its hosts, found by name when they are asked for, for a lower layer imports no higher one.

pandas, polars, pyarrow         sash.frames
pyspark                         sash.spark
an iterator of record batches   sash.operator
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

HOSTS = {"pandas": "sash.frames", "polars": "sash.frames", "pyarrow": "sash.frames", "pyspark": "sash.spark"}
"""The host for data, by the package that its type comes from."""


def operator(query: Any, schema: Any, **keywords: Any) -> Any:
    """An operator for the query. Raises ImportError if the engine is not there."""
    return _host("sash.operator", "an operator").Operator(query, schema, **keywords)


def run(query: Any, data: Any) -> Any:
    """The query computed on data by its host. Raises TypeError if there is none, ImportError if it is missing."""
    for cls in type(data).__mro__:
        package = cls.__module__.partition(".")[0]
        if package in HOSTS:
            return _host(HOSTS[package], f"{package} data").run(query, data)
    if isinstance(data, Iterator):
        return _host("sash.operator", "an iterator of record batches").stream(query, data)
    raise TypeError(
        f"a query runs on frames of pandas, polars, pyarrow and Spark, and on iterators of record batches; "
        f"got a {type(data).__module__}.{type(data).__qualname__}"
    )


def _host(name: str, what: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ImportError(f"{what} needs {name}, which this installation of sash does not have") from None
