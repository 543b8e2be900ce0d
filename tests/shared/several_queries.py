"""Hypothesis strategies for several queries over one stream: some share their keys, order and lateness, others not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

import sash
from tests.shared.queries import SCALES, Scale, queries
from tests.shared.streams import Case, calls


@dataclass(frozen=True)
class SharedCase:
    """Queries and the calls that an operator of them gets."""

    queries: sash.Queries
    case: Case

    def of(self, name: str) -> Case:
        """The case of one query."""
        return Case(self.queries.queries[name], self.case.schema, self.case.mode, self.case.steps)

    def __repr__(self) -> str:
        return f"{self.queries!r}\n{self.case!r}"


GROUPED = ("by", "on", "lateness", "late", "forget", "ahead", "emit")


@st.composite
def several(draw: st.DrawFn, scale: Scale | None, mode: str, emits: tuple[str, ...]) -> dict[str, sash.Query]:
    """Two or three queries; most are as the first, except for windows and aggregates."""
    first = draw(queries(scale, emits, ("drop",)))
    found = {"first": first}
    for name in draw(st.sampled_from([("a",), ("a", "b")])):
        query = draw(queries(scale, emits, ("drop",)))
        changes: dict[str, Any] = {key: getattr(first, key) for key in GROUPED}
        if mode != "sorted" and draw(st.integers(0, 3)) == 3:  # sorted rows are ordered by one key
            changes = {"lateness": first.lateness, "on": first.on}
        try:
            found[name] = query.rewritten(**changes)
        except ValueError:  # an option of the first does not go with these windows
            continue
    return found


@st.composite
def shared_cases(
    draw: st.DrawFn, modes: tuple[str, ...] = ("rows", "given", "sorted"), emits: tuple[str, ...] = ("final",)
) -> SharedCase:
    """Several queries, and a stream for all of them."""
    mode, scale = draw(st.sampled_from(modes)), draw(st.sampled_from([*SCALES, None]))
    emits = tuple(emit for emit in emits if emit != "eager" or mode != "sorted")
    found = draw(several(scale, mode, emits))
    first, *others = found.values()
    case = draw(calls(first, scale, mode, 24, others))
    return SharedCase(sash.Queries(**found), case)
