"""`sash trace`: contents, pointers and calls of ⊕ are those of the structure."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sash.aggregators import DABA
from sash.aggregators.catalogue import IN_ORDER
from sash.monoids import Max
from sash.monoids.op_counter import OpCounter
from tests.cli.typed import in_a_terminal, typed

VALUES = [3, 1, 4, 1, 5, 9, 2, 6]


def traced(name: str, *more: str) -> list[dict[str, object]]:
    done = typed("trace", name, ",".join(map(str, VALUES)), "--window", "4", "--json", *more)
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def test_the_steps_are_those_of_the_structure() -> None:
    counter = OpCounter(Max())
    window, inside = DABA(counter), []
    expected = []
    for value in VALUES:
        for operation in ["evict", "insert"] if len(inside) == 4 else ["insert"]:
            counter.taken()
            if operation == "evict":
                name, _ = f"evict {inside.pop(0)}", window.evict()
            else:
                name, _ = f"insert {value}", window.insert(value)
                inside.append(value)
            combines = counter.taken()
            result = window.query()
            aggs = [str(window.aggs[i]) for i in range(window.F, window.E)]
            pointers = {pointer: getattr(window, pointer) for pointer in "FLRABE"}
            expected.append((name, [*inside], aggs, pointers, combines, counter.taken(), result))
    names = ("operation", "window", "pointers", "combines", "query_combines", "result")
    found = [(*(step[name] for name in names), step["arrays"]["aggs"]) for step in traced("DABA")]
    assert found == [(name, w, p, c, q, r, aggs) for name, w, aggs, p, c, q, r in expected]


@pytest.mark.parametrize("name", [*IN_ORDER])
def test_every_structure(name: str) -> None:
    steps = traced(name)
    assert len(steps) == len(VALUES) + len(VALUES) - 4
    for step in steps:
        assert all(len(cells) == len(step["window"]) for cells in step["arrays"].values())
    assert steps[-1]["window"] == VALUES[-4:]
    lines = typed("trace", name.lower(), "3,1,4", "--window", "2").out
    assert lines.startswith("  1  insert 3     ⊕ ")


def test_what_is_kept() -> None:
    stacks = traced("TwoStacks")
    assert stacks[4]["operation"] == "evict 3"
    assert stacks[4]["arrays"] == {"vals": ["1", "4", "1"], "aggs": ["4", "4", "1"]}  # the front: from i to its end
    assert stacks[4]["states"] == {"fronts": "3", "backs": "0"}
    assert stacks[-1]["arrays"] == {"vals": ["5", "9", "2", "6"], "aggs": ["5", "9", "9", "9"]}  # the back: up to i
    assert stacks[-1]["states"] == {"fronts": "0", "backs": "4"}
    assert traced("SlickDequeNonInv")[-1]["arrays"] == {"vals": ["·", "9", "·", "6"]}
    assert traced("SubtractOnEvict")[-1]["states"] == {"total": "22"}
    assert [step["result"] for step in traced("CountedTree", "--aggregate", "median")][-1] == 5.5


def test_other_values() -> None:
    assert json.loads(typed("trace", "Recalc", "b, a,c", "--json").out)[-1]["result"] == "c"
    assert json.loads(typed("trace", "Recalc", "1.5,2", "--json").out)[-1]["window"] == [1.5, 2.0]


def test_svg(tmp_path: Path) -> None:
    path = tmp_path / "steps.svg"
    assert typed("trace", "DABA", "3,1,<4", "--svg", path, "--aggregate", "max").out == ""
    texts = [node.text for node in ElementTree.parse(path).getroot().iter("{http://www.w3.org/2000/svg}text")]
    assert "vals" in texts
    assert "<4" in texts
    assert "LRABE" in texts


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["DABBA", "1"], "there is no structure 'DABBA'; did you mean 'DABA'?"),
        (["DABA", "1", "--aggregate", "maxx"], "--aggregate maxx is not known; did you mean 'max'?"),
        (["SubtractOnEvict", "1", "--aggregate", "max"], "SubtractOnEvict needs a monoid with the property 'inverse'"),
        (["DABA", "1", "--window", "0"], "--window"),
    ],
)
def test_mistakes(arguments: list[str], message: str) -> None:
    done = typed("trace", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_in_a_terminal() -> None:
    done = in_a_terminal("trace", "DABA", "3,1,4")
    assert done.code == 0
    assert "  3  insert 4     ⊕ 1, query 1     window 3 1 4 → 4\n       vals      3    1    4\n" in done.out
