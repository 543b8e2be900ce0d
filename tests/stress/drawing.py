"""Random cases by number: the same seed gives the same query and the same stream."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st

import sash
from sash.monoids.algebra import Bound
from tests.shared.queries import SCALES, given_windows, queries
from tests.shared.streams import Case, calls
from tests.shared.strikes import Strikes

AGGREGATES: dict[str, Bound] = {"high": sash.max("i"), "total": sash.sum("f"), "text": sash.last("s")}
"""Three aggregates, exact, inexact and of text: what most cases have, so that little is compiled."""


@st.composite
def few_aggregates(draw: st.DrawFn, max_rows: int, more: dict[str, Bound] | None = None) -> Case:
    """Cases with the three aggregates, and any others that are given."""
    mode = draw(st.sampled_from(["rows", "given", "sorted"]))
    scale = draw(st.sampled_from([SCALES[0], SCALES[0], SCALES[1], SCALES[-1], None]))
    drawn = draw(queries(scale, ("final", "changes") if mode == "sorted" else ("final", "changes", "eager")))
    kept = {name: getattr(drawn, name) for name in ("by", "on", "lateness", "emit", "late", "forget")}
    query = sash.Query(given_windows(drawn), **kept, **AGGREGATES, **(more or {}))
    return draw(calls(query, scale, mode, max_rows))


def drawn(strategy: st.SearchStrategy[Any], seed: int) -> Any:
    """An example that Hypothesis makes of a seed; its first ones are very small."""
    found: list[Any] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=4,
        database=None,
        phases=[Phase.generate],
        deadline=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def keep(example: Any) -> None:
        found.append(example)

    keep()
    return random.Random(seed).choice(found[1:] or found)


def raising_sum(strikes: Strikes) -> Any:
    """The sum of numbers as text, interpreted, any of whose functions may raise."""

    def may_raise(work: Callable[..., Any]) -> Callable[..., Any]:
        def function(*given: Any) -> Any:
            strikes()
            return work(*given)

        return function

    return sash.monoid(
        identity="0",
        lift=may_raise(str),
        combine=may_raise(lambda a, b: str(int(a) + int(b))),
        lower=may_raise(int),
        returns="int64",
        exact=True,
        name="raising sum",
    )
