"""Find the host for the data of a query, by name: a lower layer does not import a higher one.

pandas, polars, pyarrow         sash.frames
a dict of arrays or lists       sash.frames
any other Arrow stream          sash.frames     objects with `__arrow_c_stream__`, such as DuckDB's relations
pyspark                         sash.spark
an iterator of record batches   sash.engine
"""

from __future__ import annotations

import functools
import gc
import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sash.plan.as_of_query import AsOfQuery
    from sash.plan.queries import Queries
    from sash.plan.query import Query
    from sash.stores import Store

HOSTS = {"pandas": "sash.frames", "polars": "sash.frames", "pyarrow": "sash.frames", "pyspark": "sash.spark"}
"""The host for data, by the package that its type comes from."""


def package_of(data: Any) -> str | None:
    """The package of `HOSTS` that the type of some data comes from, also if it is derived from one of its types."""
    return _package_of(type(data).__mro__)


@functools.lru_cache(256)
def _package_of(kinds: tuple[type, ...]) -> str | None:
    packages = (cls.__module__.partition(".")[0] for cls in kinds)
    return next((name for name in packages if name in HOSTS), None)


def host(name: str, what: str) -> ModuleType:
    """Import a host by name. Raises ImportError, with what needs it, if it is not installed.

    Garbage is not collected meanwhile, since nearly all that an import makes survives: collections, which also pass
    over the objects of a loaded pandas, took a fifth of the time of a first call.
    """
    collects = name not in sys.modules and gc.isenabled()
    if collects:
        gc.disable()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ImportError(f"{what} needs {name}, which this installation of sash does not have") from None
    finally:
        if collects:
            if not gc.get_freeze_count():  # what is loaded is old now, without a collection that passes over it
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def migrate(query: Query, state: Any, from_query: Query, to: Store | None) -> Any:
    """The state of another query as that of this one. Raises ImportError if its host is not installed."""
    if package_of(state) == "pyspark":
        return host("sash.spark", "pyspark data").migrate(query, state, from_query, to)
    return host("sash.engine", "a migration").migrate(query, state, from_query, to)


def run(query: Query | Queries, data: Any) -> Any:
    """Run the query, or several, on the host of the data.

    Raises TypeError if there is none for the data, ImportError if it is not installed.
    """
    package = package_of(data)
    if package is not None:
        return host(HOSTS[package], f"{package} data").run(query, data)
    if _is_columns(data):
        return host("sash.frames", "a dict of columns").run(query, data)
    if hasattr(data, "__arrow_c_stream__"):
        return host("sash.frames", "an Arrow stream").run(query, data)
    if isinstance(data, Iterator):
        return host("sash.engine", "an iterator of record batches").stream(query, data)
    raise TypeError(
        "a query runs on pandas, polars, pyarrow and Spark frames, on dicts of arrays or lists, on objects that give "
        f"an Arrow stream, and on iterators of record batches; got a {type(data).__module__}.{type(data).__qualname__}"
        f"{_hint(data)}"
    )


def as_of(query: AsOfQuery, spine: Any, events: Any) -> Any:
    """Run a query on a spine and events. Raises TypeError for data that is no frame, or if only one is of Spark."""
    hosts = [_frame_host(what, data) for what, data in (("spine", spine), ("events", events))]
    if hosts[0] != hosts[1]:
        raise TypeError(
            f"as_of() has a spine of {type(spine).__module__.partition('.')[0]} and events of "
            f"{type(events).__module__.partition('.')[0]}: with Spark both must be DataFrames of Spark"
        )
    return host(hosts[0], "as_of()").as_of(query, spine, events)


def _frame_host(what: str, data: Any) -> str:
    package = package_of(data)
    if package is not None:
        return HOSTS[package]
    if _is_columns(data) or hasattr(data, "__arrow_c_stream__"):
        return "sash.frames"
    raise TypeError(
        f"as_of() takes frames of pandas, polars, pyarrow or Spark, dicts of arrays or lists, and objects that give an "
        f"Arrow stream; {what}= is a {type(data).__module__}.{type(data).__qualname__}{_hint(data)}"
    )


def is_array(data: Any) -> bool:
    """Is it an array of NumPy, or a Series of pandas or polars?"""
    if isinstance(data, np.ndarray):
        return True
    return package_of(data) in ("pandas", "polars") and any(one.__name__ == "Series" for one in type(data).__mro__)


def _is_columns(data: Any) -> bool:
    return isinstance(data, dict) and bool(data) and all(map(_is_column, data.values()))


def _is_column(values: Any) -> bool:
    """Is it a sequence of values, such as an array, a list or a Series?"""
    sized = hasattr(values, "__len__") and hasattr(values, "__getitem__")
    return sized and not isinstance(values, str | bytes | dict)


def _hint(data: Any) -> str:
    if is_array(data):
        return ": an array takes one aggregate, sash.rolling(array, 64, sash.mean()); for more write a dict of arrays"
    if isinstance(data, list | tuple):
        return ": write a dict, {'x': values}"
    if not isinstance(data, dict):
        return ""
    odd = [name for name, column in data.items() if not _is_column(column)]
    if not odd:
        return " without columns"
    return f" whose {odd[0]!r} is a {type(data[odd[0]]).__name__}: make it an array or a list of values"
