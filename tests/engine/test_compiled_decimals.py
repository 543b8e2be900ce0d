"""Compiled kernels of decimals and durations, compared with the reference."""

import pytest

from sash import Count, Query
from tests.behaviour.differential import compare_with_reference
from tests.behaviour.test_operator import begin, resume
from tests.engine.test_money_and_durations import TYPES, aggregates, case

pytestmark = pytest.mark.compiled


@pytest.mark.parametrize("name", ["decimal128(34, 10)", "duration[s]"])
def test_compiled_compared_with_the_reference(name: str) -> None:
    asked = {key: one for key, one in aggregates(TYPES[name]).items() if key in ("total", "mean", "range")}
    query = Query(Count(3), by="k", on="t", lateness=2, **asked)
    operator = query.operator(case(query, TYPES[name]).schema)
    assert all(one.kernel.compiled for group in operator.state.backend.engine.groups for one in group.aggregates)
    compare_with_reference(case(query, TYPES[name]), begin, resume)
