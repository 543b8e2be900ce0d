"""Compiled kernels of few aggregates, compared with the reference on random queries: each takes seconds to compile."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from tests.behaviour.differential import compare_with_reference
from tests.behaviour.test_operator import begin, resume
from tests.shared.queries import AFFINE, SCALES, given_windows, queries
from tests.shared.streams import Case, calls

pytestmark = pytest.mark.compiled

AGGREGATES = {"high": sash.max("i"), "total": sash.sum("f"), "text": sash.last("s"), "maps": AFFINE("i")}
"""One that selects, one that is rounded, one of text, and one whose order matters and that is a user's own."""


@st.composite
def few_aggregates(draw: st.DrawFn, mode: str) -> Case:
    """Any query that draws no aggregates of its own."""
    scale = draw(st.sampled_from([*SCALES, None]))
    query = draw(queries(scale, ("final", "changes")))
    names = ("by", "on", "lateness", "emit", "late", "forget", "ahead", "options")
    kept: dict[str, Any] = {name: getattr(query, name) for name in names}
    return draw(calls(sash.Query(given_windows(query), **kept, **AGGREGATES), scale, mode))


@pytest.mark.parametrize("mode", ["rows", "given", "sorted"])
def test_compiled_kernels_give_what_the_reference_gives(mode: str) -> None:
    @given(few_aggregates(mode))
    def agrees(case: Case) -> None:
        compare_with_reference(case, begin, resume)

    agrees()
