"""Order statistics of windows with slides, over rows and on trees, compared with the reference."""

from typing import Any

import pytest

import sash
from sash import Count, Query, Time
from tests.behaviour.differential import compare_with_reference
from tests.behaviour.test_operator import begin, resume, steps_of, stream
from tests.engine import test_small_pages as small
from tests.shared.small_state import small_pages
from tests.shared.streams import Case, sorted_by_key

pytestmark = pytest.mark.usefixtures("interpreted_kernels", "interpreted_trees")

AGGREGATES: dict[str, Any] = {
    "middle": sash.median("f"),
    "high": sash.quantile("i", q=0.9, interpolation="higher"),
    "often": sash.mode("s"),
    "texts": sash.count_distinct("s"),
    "total": sash.sum("i"),
    "some": sash.median("f", where="i > 1"),
}
WINDOWS: dict[str, Any] = {
    "in time": Time(5, every=2),
    "of several sizes": {"a": Time(6, every=2), "b": Time(4, every=2), "c": Time(3, every=3, closed="right")},
    "in rows": Count(4, every=3),
    "of rows, full": Count(4, every=2, full=True),
}


def case(windows: Any, mode: str, **arguments: Any) -> Case:
    query, batch = Query(windows, by="k", on="t", **arguments, **AGGREGATES), stream(timed=True)
    if mode == "sorted":
        batch = sorted_by_key(batch, query)
    return Case(query, batch.schema, mode, steps_of(batch, mode))


@pytest.mark.parametrize("mode", ["rows", "given", "sorted"])
@pytest.mark.parametrize("name", WINDOWS)
def test_in_every_mode(name: str, mode: str) -> None:
    compare_with_reference(case(WINDOWS[name], mode, lateness=3), begin, resume)


@pytest.mark.parametrize("name", WINDOWS)
def test_changes_of_keys_that_expire(name: str) -> None:
    compare_with_reference(case(WINDOWS[name], "rows", lateness=3, emit="changes"), begin, resume)
    compare_with_reference(case(WINDOWS[name], "rows", lateness=3, forget=2), begin, resume)


@pytest.mark.parametrize("name", WINDOWS)
def test_on_small_pages(name: str) -> None:
    with small_pages(2):
        compare_with_reference(case(WINDOWS[name], "rows", lateness=3), small.begin, small.resume)
