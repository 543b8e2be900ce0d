"""The picture of a plan has the contents of `explain()`, and is well-formed whatever the names are."""

from __future__ import annotations

from xml.etree import ElementTree

import pyarrow as pa
import pytest

import sash
from sash.cli.page.plan_picture import narrow_plan_svg, plan_sections, plan_svg

SCHEMA = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.float64())])
QUERIES = {
    "two windows": sash.Query({"short": sash.Time(5), "long": sash.Time(50)}, by="k", on="t", high=sash.max("x")),
    "slides": sash.Query(sash.Time(60, every=10), on="t", lateness=5, n=sash.count(), mean=sash.mean("x")),
    "windows of their own": sash.Query(3, high=sash.max("x"), m=sash.sum("x").over(5)),
    "eager": sash.Query(sash.Time(5), by="k", on="t", lateness=2, emit="eager", high=sash.max("x")),
    "session": sash.Query(sash.Session(5, every="close"), by="k", on="t", high=sash.max("x")),
}
NAMESPACE = "{http://www.w3.org/2000/svg}"


def texts(svg: str, kind: str) -> list[str]:
    found = ElementTree.fromstring(svg).iter(f"{NAMESPACE}text")
    return ["".join(one.itertext()) for one in found if one.get("class") == kind]


@pytest.mark.parametrize("name", QUERIES)
def test_it_has_windows_structures_and_results(name: str) -> None:
    query = QUERIES[name]
    svg = plan_svg(query.explain(SCHEMA))
    names, lines = texts(svg, "plan-name"), " ".join(texts(svg, "plan-line"))
    assert len(names) == len(query.bind(SCHEMA).windows) + len(query.aggregates)
    for aggregate in query.aggregates:
        assert aggregate in " ".join(names)
        assert aggregate in lines
    assert texts(svg, "plan-title")[:4] == ["rows", "windows", "structures", "results"]
    assert "each row" in lines or "every" in lines or "session" in lines


@pytest.mark.parametrize("name", QUERIES)
def test_the_narrow_picture_has_the_same_in_one_column(name: str) -> None:
    text = QUERIES[name].explain(SCHEMA)
    wide, narrow = plan_svg(text), narrow_plan_svg(text)
    assert texts(narrow, "plan-name") == texts(wide, "plan-name")
    assert texts(narrow, "plan-title") == texts(wide, "plan-title")
    words = [" ".join(texts(svg, "plan-line")).split() for svg in (wide, narrow)]
    assert words[0] == words[1]
    root = ElementTree.fromstring(narrow)
    assert int(root.get("width", "0")) < 320
    places = [float(one.get("y", "0")) for one in root.iter(f"{NAMESPACE}text")]
    assert places == sorted(places)
    assert places[-1] <= float(root.get("height", "0"))


def test_structures_and_edges() -> None:
    svg = plan_svg(QUERIES["windows of their own"].explain(SCHEMA))
    assert texts(svg, "plan-name") == ["Count(3)", "Count(5)", "high", "m"]
    assert texts(svg, "plan-line").count("TwoStacksLite") == 2
    assert svg.count('class="plan-edge"') == 2 + 2 + 2  # each aggregate has one window
    svg = plan_svg(QUERIES["two windows"].explain(SCHEMA))
    assert svg.count('class="plan-edge"') == 2 + 2 + 1


def test_every_line_of_the_plan_is_in_a_section() -> None:
    text = QUERIES["slides"].explain(SCHEMA)
    sections = plan_sections(text)
    assert [*sections] == ["windows", "results", "order", "shared", "structures", "ties", "state"]
    lines = [line.strip() for line in text.splitlines()[1:] if line.startswith(" ")]
    assert [line for lines in sections.values() for _, line in lines] == lines


def test_hostile_names_are_text() -> None:
    query = sash.Query(sash.Time(5), by="<b>", on="t", **{"<script>alert(1)</script>&": sash.max("</text>")})
    schema = pa.schema([("<b>", pa.string()), ("t", pa.int64()), ("</text>", pa.float64())])
    svg = plan_svg(query.explain(schema))
    assert "<script>alert(1)</script>&" in texts(svg, "plan-name")
    assert {one.tag.removeprefix(NAMESPACE) for one in ElementTree.fromstring(svg).iter()} == {
        *("svg", "title", "text", "rect", "path")
    }
