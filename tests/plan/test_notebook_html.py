"""What notebooks show: the words of the text, escaped."""

from __future__ import annotations

import re
from html import unescape

import pyarrow as pa

import sash

QUERY = sash.Query(
    {"1h": "1h", "all": sash.Lifetime()}, by="k", on="t", lateness="5m", few=sash.count(where="x < 3 and y <> '<b>'")
)


def text_of(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", html))


def test_a_plan_is_shown_as_its_text() -> None:
    plan = QUERY.explain()
    html = plan._repr_html_()
    assert text_of(html) == str(plan).removesuffix("\n")
    assert "<b>structures</b>" in html
    assert "&lt;b&gt;" in html


def test_a_plan_object_is_shown_likewise() -> None:
    found = QUERY.plan(pa.schema({"k": pa.string(), "t": pa.timestamp("us"), "x": pa.int64(), "y": pa.string()}))
    assert text_of(found._repr_html_()) == str(found).removesuffix("\n")


def test_a_query_is_a_table_of_what_it_says() -> None:
    rows = re.findall(r"<tr><th[^>]*>(.*?)</th><td[^>]*>(.*?)</td></tr>", QUERY._repr_html_())
    assert [(unescape(name), unescape(text)) for name, text in rows] == [
        ("window 1h", "Time('1h')"),
        ("window all", "Lifetime()"),
        ("by", "k"),
        ("on", "t"),
        ("lateness", "5m"),
        ("few", repr(QUERY.aggregates["few"])),
    ]
