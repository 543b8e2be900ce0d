"""Accessors: `df.sash.rolling(…)` on frames of pandas and polars.

They are registered with pandas and polars if these are loaded, else when they are imported: loading both would take
half a second, also for queries that use only one of them, or neither.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Generic

from sash.plan.api_types import FrameT, arguments_of
from sash.plan.query import Query
from sash.plan.rolling import as_of, rolling


class Accessor(Generic[FrameT]):
    """Queries on a frame: `df.sash.rolling("1h", on="ts", high=sash.max("price"))`, `df.sash.run(query)`."""

    def __init__(self, frame: FrameT) -> None:
        self._frame = frame

    @arguments_of(rolling)
    def rolling(self, *given: Any, **named: Any) -> FrameT:
        """Compute aggregates over sliding windows of this frame: `sash.rolling(df, windows, …)`.

        windows, by, on, lateness, emit, late, forget, ahead, retract, min_periods, options, aggregates: as for
            `sash.rolling`.
        """
        return rolling(self._frame, *given, **named)

    @arguments_of(as_of)
    def as_of(self, *given: Any, **named: Any) -> FrameT:
        """Point-in-time features, with this frame as the spine: `sash.as_of(df, events, windows, …)`.

        events, windows, by, on, closed, spine_by, spine_on, min_periods, options, aggregates: as for `sash.as_of`.
        """
        return as_of(self._frame, *given, **named)

    def run(self, query: Query) -> FrameT:
        """`query.run(df)`."""
        return query.run(self._frame)


def _with_pandas(pandas: Any) -> None:
    pandas.api.extensions.register_dataframe_accessor("sash")(Accessor)


def _with_polars(polars: Any) -> None:
    polars.api.register_dataframe_namespace("sash")(Accessor)
    polars.api.register_lazyframe_namespace("sash")(Accessor)


WITH = {"pandas": _with_pandas, "polars": _with_polars}
"""The function that registers with each package."""


class ImportHook(importlib.abc.MetaPathFinder):
    """Registers the accessor with a package when that is imported."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def find_spec(self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec of a watched package from the other finders, with the registration after its execution."""
        if name not in self.names:
            return None
        self.names.discard(name)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            WITH[name](module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def register() -> None:
    """Register with loaded packages, and watch for the import of the others."""
    awaited = set()
    for name, register_with in WITH.items():
        if name in sys.modules:
            register_with(sys.modules[name])
        else:
            awaited.add(name)
    if awaited:
        sys.meta_path.insert(0, ImportHook(awaited))
