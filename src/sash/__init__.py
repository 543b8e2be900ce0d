"""sash: aggregates over sliding windows, exactly and incrementally.

`sash.monoids`      the aggregates, and `sash.monoid` for one of your own
`sash.windows`      the windows: which rows are aggregated
`sash.plan`         `sash.Query` combines both; `sash.rolling` runs it on data
`sash.loop`         `sash.Window`: a window for a loop of your own (*)
`sash.aggregators`  the data structures that compute aggregates, one event at a time (*)
`sash.kernels`      the same, compiled on columns with Numba (*)
`sash.frames`       queries on pandas, polars, Arrow and NumPy (*)
`sash.columns`      whole columns, without state (*)
`sash.engine`       operators on Arrow record batches (*)
`sash.state`        the state of operators as pages (*)
`sash.spark`        queries on Spark DataFrames, batch and streaming (*)
`sash.stores`       durable state: pages of bytes (*)
`sash.pipeline`     `sash.pipe`: from files or Kafka to files or Kafka, exactly once (*)
`sash.cli`          `sash.sql`: windows in SQL; `sash.plot`: pictures of them; `sash.live_page`: running queries in a
                    browser (*)
`sash.testing`      laws of aggregates, for tests of your own; `Reference`, which the engine is tested against
                    (*)

(*) `import sash` does not load these: they are loaded when first used.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from sash import monoids, plan, windows
from sash.expressions.parser import expr
from sash.monoids import functions as _functions
from sash.monoids import monoid
from sash.monoids.functions import *  # noqa: F403 (each aggregate)
from sash.plan import Options, Queries, Query, as_of, rolling
from sash.windows import Count, Delta, Lifetime, Policy, Punctuation, Session, Time

if _TYPE_CHECKING:
    from sash import aggregators, testing
    from sash import engine as engine  # what `Query.operator` returns is named by its public path
    from sash.cli.page.live_page import live_page
    from sash.cli.plots import plot
    from sash.cli.sql import sql
    from sash.loop import Window
    from sash.pipeline import pipe

__version__ = "0.1.0"

__all__ = [
    "Count", "Delta", "Lifetime", "Options", "Policy", "Punctuation", "Queries", "Query", "Session", "Time", "Window",
    "aggregators", "as_of", "expr", "live_page", "monoid", "monoids", "pipe", "plan", "plot", "rolling", "sql",
    "testing", "windows",
]  # fmt: skip
__all__ += _functions.__all__


_LAZY_NAMES = {
    "Window": "sash.loop",
    "live_page": "sash.cli.page.live_page",
    "pipe": "sash.pipeline",
    "plot": "sash.cli.plots",
    "sql": "sash.cli.sql",
}
"""Modules of names that `import sash` does not load."""

_LAZY_PACKAGES = {
    *("aggregators", "cli", "columns", "engine", "frames", "kernels", "loop"),
    *("pipeline", "spark", "state", "stores", "testing"),
}
"""Packages that `import sash` does not load: they import more than most programs need."""


def __dir__() -> list[str]:
    """The public names, and those that every module has."""
    return sorted({*__all__, "__version__", *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> _Any:
    if name in _LAZY_NAMES:
        found = globals()[name] = getattr(_import_module(_LAZY_NAMES[name]), name)
        return found
    if name in _LAZY_PACKAGES:
        return _import_module(f"sash.{name}")
    from sash.monoids.synonyms import missing_name

    raise AttributeError(missing_name(name, __all__))
