"""Pages of a window that are intact and wrong: crafted ones, with a valid checksum, are refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sash.aggregators import AMTA
from sash.aggregators.stored_levels import ANY_WINDOW, SIZE, NodePage, WindowHeader, WindowPages, tail_start
from sash.monoids import Count
from sash.stores import MemoryStore, PageError
from sash.stores.codec import dump_states
from sash.stores.envelope import wrap

PAGES = WindowPages("w", "AMTA", Count())


def crafted_header(states: Any = (1, 1, 1), **fields: Any) -> bytes:
    meta = {"structure": "AMTA", "monoid": PAGES.monoid, "described": "Count()", "F": 0, "E": 3, "garbage": []}
    return wrap("window", ANY_WINDOW, [json.dumps(meta | fields).encode(), dump_states(list(states))])


def test_the_header_as_it_should_be() -> None:
    window = AMTA(Count(), store=MemoryStore({"w/header": crafted_header()}), name="w")
    assert (len(window), window.query()) == (3, 3)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (crafted_header(F=-1), "its field 'F' is -1"),
        (crafted_header(E="3"), "its field 'E' is '3'"),
        (crafted_header(F=4), r"its window \[4, 3\) ends before it begins"),
        (crafted_header(E=5), r"it has 3 elements; of \[0, 5\) there must be 5"),
        (crafted_header(states=[1, 1]), r"it has 2 elements; of \[0, 3\) there must be 3"),
        (crafted_header(garbage=[[0, 0, 1]]), "it wants to delete the pages 0 to 1 of level 0, which are in use"),
        (crafted_header(garbage=[[2**62, 0, 0, 0]]), "its field 'garbage'"),
        (crafted_header(garbage=3), "its field 'garbage' is 3"),
        (wrap("window", ANY_WINDOW, [b"{}"]), "it has 1 items, not 2"),
        (wrap("window", ANY_WINDOW, [b"{", b"c"]), "is damaged"),
        (wrap("window", ANY_WINDOW, [b"[]", b"c"]), "its meta is a list"),
        (wrap("header", ANY_WINDOW, [b"{}", b"c"]), "is a header page; expected a window page"),
    ],
)
def test_a_crafted_header_is_refused(header: bytes, said: str) -> None:
    with pytest.raises(PageError, match=f"^page 'w/header' .*{said}|^page 'w/header' {said}"):
        AMTA(Count(), store=MemoryStore({"w/header": header}), name="w")


def test_a_header_of_a_window_that_cannot_be_there() -> None:
    """A header of 2**61 elements without pages is refused when the first page is read, not by counting."""
    E = 2**61
    header = crafted_header(states=[1] * (E - tail_start(0, E)), E=E)
    with pytest.raises(PageError, match=r"page 'w/0/\d+' is missing from the store"):
        AMTA(Count(), store=MemoryStore({"w/header": header}), name="w")


def test_a_page_of_nodes_with_too_few() -> None:
    page = PAGES.encode(NodePage(1, 2, 3, list(range(SIZE))))
    assert PAGES.decode_nodes(page, 1, 2, 3)[3:] == list(range(3, SIZE))
    with pytest.raises(
        PageError, match=f"page 'w/1/2' is damaged: it has {SIZE - 3} nodes from slot 3 on; needed from"
    ):
        PAGES.decode_nodes(page, 1, 2, 0)
    short = PAGES.encode(NodePage(1, 2, 3, list(range(SIZE - 1))))
    with pytest.raises(PageError, match=f"it has {SIZE - 4} nodes from slot 3 on"):
        PAGES.decode_nodes(short, 1, 2, 3)


@pytest.mark.parametrize(("F", "E"), [(0, 0), (0, 1), (5, SIZE), (0, SIZE + 1), (SIZE + 7, SIZE + 9), (9, 9)])
def test_a_header_comes_back(F: int, E: int) -> None:
    header = WindowHeader(F, E, list(range(tail_start(F, E), E)), [])
    assert PAGES.decode_header(PAGES.encode(header)) == header
