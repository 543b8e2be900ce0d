"""What order statistics are, by definition: on the list of a window's values, oldest first, None for a null."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from sash.monoids import CountDistinct, Median, Mode, Monoid, PercentRank, Quantile, Rank

Values = list[Any]


def place(x: Any) -> tuple[bool, Any]:
    """The place of a value in order: NaN comes last."""
    return (True, 0) if x != x else (False, x)


def known(values: Values) -> Values:
    return [x for x in values if x is not None]


def defined(monoid: Monoid, values: Values) -> Any:
    """The result of a window with these values."""
    by_class: dict[type[Monoid], Callable[..., Any]] = {
        Median: lambda _m, found: _between(found, 0.5, "linear"),
        Quantile: _quantile,
        Mode: lambda _m, found: _mode(found),
        CountDistinct: lambda _m, found: len({place(x) for x in found}),
    }
    if isinstance(monoid, Rank):
        return _rank(monoid, values)
    found = known(values)
    if not found:
        return monoid.empty
    return by_class[type(monoid)](monoid, found)


def _quantile(monoid: Quantile, found: Values) -> Any:
    if monoid.interpolation in ("linear", "midpoint"):
        return _between(found, monoid.q, monoid.interpolation)
    if any(x != x for x in found):
        return math.nan
    rule = {"equiprobable": "inverted_cdf"}.get(monoid.interpolation, monoid.interpolation)
    at = int(np.quantile(np.arange(len(found)), monoid.q, method=rule))  # type: ignore[call-overload]
    return sorted(found)[at]


def _between(found: Values, q: float, rule: str) -> float:
    """By NumPy, where it does not multiply an infinity."""
    if any(x != x for x in found):
        return math.nan
    order = sorted(map(float, found))
    at = float(np.quantile(np.arange(len(order)), q, method=rule))  # type: ignore[call-overload]
    low, high = order[math.floor(at)], order[math.ceil(at)]
    if low == high:
        return low
    if math.isinf(low) or math.isinf(high):
        return low + high
    return low + (high - low) * (at - math.floor(at))


def _mode(found: Values) -> Any:
    counts = Counter(map(place, found))
    is_nan, value = min(counts, key=lambda one: (-counts[one], one))
    return math.nan if is_nan else value


def _rank(monoid: Rank, values: Values) -> Any:
    if not values or values[-1] is None:
        return None
    order = [place(x) for x in known(values)]
    newest = place(values[-1])
    if not monoid.ascending:
        below, least = sum(x > newest for x in order), sum(x > newest for x in {*order})
    else:
        below, least = sum(x < newest for x in order), sum(x < newest for x in {*order})
    same = order.count(newest)
    ranks = {"min": below + 1, "max": below + same, "average": below + (same + 1) / 2, "dense": least + 1}
    rank = ranks[monoid.method]
    if isinstance(monoid, PercentRank):
        return rank / (len({*order}) if monoid.method == "dense" else len(order))
    return rank


OF_NUMBERS: list[Monoid] = [
    Median(), Quantile(0.9), Quantile(0.0), Quantile(1), Quantile(0.4, "midpoint"), Quantile(1 / 3),
]  # fmt: skip
OF_ANYTHING: list[Monoid] = [
    *(Quantile(0.35, rule) for rule in ("lower", "higher", "nearest", "equiprobable")),  # type: ignore[arg-type]
    Mode(), CountDistinct(),
]  # fmt: skip
RANKS: list[Monoid] = [
    Rank(), Rank("min"), Rank("max", False), Rank("dense"), Rank("dense", False), Rank("average", False),
    PercentRank(), PercentRank("dense", False), PercentRank("max"),
]  # fmt: skip
EVERY = [*OF_NUMBERS, *OF_ANYTHING, *RANKS]
