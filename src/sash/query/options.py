"""Options: how a query is computed, never what."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from sash.aggregators.catalogue import CATALOGUE

PREFERENCES = ("throughput", "latency")


@dataclass(frozen=True)
class Options:
    """How to compute a query; the results are the same.

    `structure` forces a structure of the catalogue, `prefer` chooses among them: "throughput" the fastest on the
    whole, "latency" only those whose every single step is of constant cost. `threads`, `split` and `shards` are
    how many threads (on a table in memory; as many as there are cores, unless said), parts of one key and parts of a
    stream a host may use; `store` is where state lives.

    >>> import sash
    >>> sash.Options(prefer="latency")
    Options(prefer='latency')

    Raises TypeError or ValueError, by name, if an argument is out of place.
    """

    structure: str | None = None
    prefer: str = "throughput"
    threads: int | None = None
    split: int | None = None
    shards: int | None = None
    store: Any = None

    def __post_init__(self) -> None:
        if self.structure is not None and self.structure not in CATALOGUE:
            raise ValueError(f"structure= of Options is one of {', '.join(CATALOGUE)}; got {self.structure!r}")
        if self.prefer not in PREFERENCES:
            raise ValueError(f"prefer= of Options is 'throughput' or 'latency'; got {self.prefer!r}")
        for name in ("threads", "split", "shards"):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name}= of Options is a whole number; got {value!r}, a {type(value).__name__}")
            if value < 1:
                raise ValueError(f"{name}= of Options is at least 1; got {value!r}")

    def __repr__(self) -> str:
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        shown = [f"{name}={given[name]!r}" for name in given if given[name] != type(self).__dict__[name]]
        return f"Options({', '.join(shown)})"
