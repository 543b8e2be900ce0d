"""Discovery: every aggregate of ours as an instance, and the kinds of columns it runs on.

Tests take what they test from here, so that all of them cover a new monoid from the start.
"""

from __future__ import annotations

import itertools
import random
from importlib.util import find_spec
from typing import Any, Literal

import sash
from sash.monoids import DirectProduct, Lag, Monoid, Nth, Var

Kind = Literal["bool", "int", "float"]

SKETCHES = ("approx_distinct", "approx_quantile", "frequent_items", "count_min", "bloom")
"""The aggregates whose states are sketches; all but the last need `datasketches`."""

_EXAMPLES: dict[str, dict[str, Any]] = {
    "nth": {"n": 2},
    "ewm_mean": {"halflife": 3},
    "ewm_var": {"halflife": 3},
    "ewm_std": {"span": 9},
    "approx_quantile": {"q": 0.5},
    "quantile": {"q": 0.9},
    "count_min": {"items": (1, 2.0, "a")},
}
"""Arguments for the aggregates that have no default for them."""

_ADMITTED: dict[str, tuple[Kind, ...]] = {
    "bool": ("bool",),
    "int": ("int", "bool"),
    "number": ("float", "int", "bool"),
    "ordered": ("float", "int", "bool"),
    "any": ("float", "int", "bool"),
    "hashable": ("float", "int", "bool"),
    "text": (),
}


def monoids() -> dict[str, Monoid]:
    """Every aggregate of `sash`, and products of some, by name."""
    offered = aggregate_classes()
    if not find_spec("datasketches"):
        offered = {name: cls for name, cls in offered.items() if name not in SKETCHES[:-1]}
    found = {name: cls(**_EXAMPLES.get(name, {})) for name, cls in offered.items()}
    found["nth(-2)"] = Nth(n=-2)
    found["var(ddof=0)"] = Var(ddof=0)
    found["lag(3)"] = Lag(n=3)
    found["max * sum"] = DirectProduct(found["max"], found["sum"])
    found["min * first * count"] = DirectProduct(found["min"], found["first"], found["count"])
    return found


def aggregate_classes() -> dict[str, type[Monoid]]:
    """The class of every aggregate of `sash`, by the name of its function."""
    functions = [name for name in sash.__all__ if name.islower() and name != "monoid"]
    named = {name: getattr(sash.monoids, name.title().replace("_", ""), None) for name in functions}
    return {name: cls for name, cls in named.items() if cls is not None}


def kinds_of(monoid: Monoid) -> list[tuple[Kind, ...]]:
    """The kinds of columns that a monoid's typed forms run on; none for those that never compile."""
    if monoid.interpreted_only:
        return []
    return list(itertools.product(*(_ADMITTED[domain] for domain in monoid.domain)))


def sample(kind: str, length: int, seed: int = 0) -> list[Any]:
    """Values as streams have them: a random walk, ties, and a spike now and then. No NaN, no infinity."""
    chance = random.Random(seed)
    walk, values = 100.0, []
    for i in range(length):
        walk += chance.gauss(0, 1)
        values.append(chance.choice((1e16, -1e16)) if i % 97 == 96 else round(walk, 3))
    if kind == "int":
        return [int(value) for value in values]
    if kind == "bool":
        return [chance.random() < 0.5 for _ in values]
    if kind == "text":
        return [chr(97 + int(value) % 26) for value in values]
    return values


def sample_rows(kinds: tuple[str, ...], length: int, seed: int = 0) -> list[tuple[Any, ...]]:
    """Rows of such values, a column a kind."""
    return list(zip(*(sample(kind, length, seed + i) for i, kind in enumerate(kinds)), strict=True))


def sample_kinds(monoid: Monoid) -> tuple[str, ...]:
    """One kind for each input, so that the monoid can be fed in an interpreted run."""
    return tuple({"text": "text", "bool": "bool", "int": "int"}.get(domain, "float") for domain in monoid.domain)
