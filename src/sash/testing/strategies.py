"""Hypothesis strategies for the inputs of aggregates, including edge cases.

NaN, infinities, -0.0, the largest and smallest floats, the limits of int64, empty and astral strings.
Importing this module needs `hypothesis`.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from sash.monoids.algebra import Domain, Kind, Monoid

AWKWARD_FLOATS = (
    float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1.7976931348623157e308, -1.7976931348623157e308, 5e-324,
    -5e-324, 2.2250738585072014e-308, 1e16, -1e16, 1e9, 1.0, -1.0, 0.1,
)  # fmt: skip
AWKWARD_INTS = (0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1, -(2**53) - 1, 2**32, 3037000499, 3037000500)
AWKWARD_TEXT = ("", "a", "ab", "é", "e\u0301", "\U0001f600", "\u202e", "\x00", "ß")

KINDS: dict[Kind, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int": st.sampled_from(AWKWARD_INTS) | st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5),
    "float": st.sampled_from(AWKWARD_FLOATS) | st.floats() | st.integers(-5, 5).map(float),
}
"""Values of one kind, as columns hold them."""

_TEXT = st.sampled_from(AWKWARD_TEXT) | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)

_DOMAINS: dict[Domain, tuple[st.SearchStrategy[Any], ...]] = {
    "bool": (KINDS["bool"],),
    "int": (KINDS["int"], KINDS["bool"]),
    "number": (KINDS["float"], KINDS["int"], KINDS["bool"]),
    "ordered": (KINDS["float"], KINDS["int"], KINDS["bool"], _TEXT, st.dates()),
    "text": (_TEXT,),
    "hashable": (KINDS["float"], KINDS["int"], _TEXT),
    "any": (KINDS["float"], KINDS["int"], KINDS["bool"], _TEXT),
}


def columns(domain: Domain) -> tuple[st.SearchStrategy[Any], ...]:
    """A strategy for each type of column that an input accepts."""
    return _DOMAINS[domain]


@st.composite
def rows(draw: st.DrawFn, monoid: Monoid, min_size: int = 1, max_size: int = 12) -> list[tuple[Any, ...]]:
    """Inputs for a monoid: rows of one type a column."""
    wanted = [draw(st.sampled_from(columns(domain))) for domain in monoid.domain]
    return draw(st.lists(st.tuples(*wanted), min_size=min_size, max_size=max_size))
