"""The edges of panes that windows of several lengths and slides share, by the definition of the papers.

Krishnamurthy, Wu, Franklin: On-the-fly Sharing for Streamed Aggregation, SIGMOD 2006 (paired windows);
Shein, Chrysanthis, Labrinidis: SlickDeque, EDBT 2018, sections 2.1 and 2.3 (composite slides, example 1).

A query is (length, slide) in any one unit: windows of that length end at every multiple of the slide. A pane lies
between two neighbouring edges, and a window is a run of panes:

    (4, 2)     0───────2───────4───────6          a window begins where another ends
    (6, 3)     0───────────3───────────6
    edges      ────────┴───┴───┴───────┴          2, 3, 4, 6: the composite slide of 6, then from the start

Windows of one query need not have the same number of panes: of (4, 2) they have 2, 3 and 3 in turn.

`sash.plan.explain.most_panes` is tested against this.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import index


def pairs(length: int, slide: int) -> tuple[int, ...]:
    """The fragments of a slide: cut where windows begin; the second, if there is one, is length mod slide.

    >>> pairs(6, 2), pairs(5, 2), pairs(7, 4)
    ((2,), (1, 1), (1, 3))

    Raises ValueError, naming it, if one is below 1, TypeError if it is no integer.
    """
    second = _positive("length", length) % _positive("slide", slide)
    return (slide - second, second) if second else (slide,)


def edges(queries: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """Where panes end in a composite slide: at the ends and cuts of every query. The last edge is its length.

    >>> edges([(6, 2), (8, 4)]), edges([(4, 2), (6, 3)])
    ((2, 4), (2, 3, 4, 6))

    Raises ValueError without queries.
    """
    fragments = [pairs(length, slide) for length, slide in queries]
    if not fragments:
        raise ValueError("edges() needs at least one query, a (length, slide)")
    composite = math.lcm(*map(sum, fragments))
    found = {edge for pair in fragments for edge in accumulate(pair * (composite // sum(pair)))}
    return tuple(sorted(found))


def panes(length: int, slide: int, cuts: Sequence[int]) -> tuple[int, ...]:
    """How many panes each window of a query has, for those that end within one composite slide.

    >>> panes(4, 2, edges([(4, 2), (6, 3)]))
    (2, 3, 3)

    Raises ValueError if a window of the query begins or ends within a pane.
    """
    composite = cuts[-1]
    if composite % _positive("slide", slide):
        raise ValueError(f"a composite slide of {composite} is not a multiple of the slide {slide}")
    ends = range(slide, composite + 1, slide)
    starts = [end - _positive("length", length) for end in ends]
    for position in (*starts, *ends):
        place = position % composite or composite
        if place not in cuts:
            raise ValueError(f"({length}, {slide}) needs an edge at {place}; the edges are {tuple(cuts)}")
    return tuple(_before(end, cuts) - _before(start, cuts) for start, end in zip(starts, ends, strict=True))


def _before(position: int, cuts: Sequence[int]) -> int:
    """How many edges lie in (0, position], the composite slide repeated both ways."""
    rounds, rest = divmod(position, cuts[-1])
    return rounds * len(cuts) + bisect_right(cuts, rest)


def _positive(name: str, value: int) -> int:
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number; got {value!r}") from None
    if number < 1:
        raise ValueError(f"{name} must be at least 1; got {value!r}")
    return number
