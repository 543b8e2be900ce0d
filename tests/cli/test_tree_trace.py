"""`sash trace` of FiBA and AugmentedBTree: nodes, kinds of aggregates, fingers and calls of ⊕ are those of the tree."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from sash.aggregators import AugmentedBTree, FiBA
from sash.monoids import Max
from sash.monoids.op_counter import OpCounter
from tests.cli.typed import in_a_terminal, typed

PAIRS = [(5, 3), (2, 1), (9, 4), (7, 1), (8, 5), (1, 9), (3, 2), (12, 6), (11, 5), (10, 3), (4, 8), (6, 2), (13, 7)]
TEXT = ",".join(f"{time}:{value}" for time, value in PAIRS)


def traced(name: str, text: str, size: int) -> list[dict[str, Any]]:
    done = typed("trace", name, text, "--window", str(size), "--json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


@pytest.mark.parametrize("cls", [FiBA, AugmentedBTree])
def test_the_steps_are_those_of_the_tree(cls: type[FiBA] | type[AugmentedBTree]) -> None:
    counter = OpCounter(Max())
    tree: Any = cls(counter, min_arity=2)
    steps = iter(traced(cls.__name__, TEXT, 10))

    def compare(operation: str) -> None:
        combines = counter.taken()
        step = next(steps)
        result = tree.query()
        found = (step["operation"], step["combines"], step["query_combines"], step["result"])
        assert found == (operation, combines, counter.taken(), result)
        assert step["window"] == [f"{time}:{value}" for time, value in tree.elements()]
        check_nodes(tree, step["nodes"])

    for time, value in PAIRS:
        counter.taken()
        tree.insert(time, value)
        compare(f"insert {time}:{value}")
        if tree.size() > 10:
            oldest = tree.oldest
            counter.taken()
            tree.evict()
            compare(f"evict {oldest}")
    assert next(steps, None) is None


def check_nodes(tree: Any, nodes: list[dict[str, Any]]) -> None:
    """The entries of all nodes, from left to right, are the window; fingers are the ends; aggregates are their own."""
    below: dict[Any, list[dict[str, Any]]] = {}
    for node in nodes:
        below.setdefault(node["parent"], []).append(node)

    def entries(node: dict[str, Any]) -> list[str]:
        children = below.get(node["number"], [])
        if not children:
            return node["entries"]
        assert len(children) == len(node["entries"]) + 1
        found = entries(children[0])
        for entry, child in zip(node["entries"], children[1:], strict=True):
            found = [*found, entry, *entries(child)]
        return found

    (root,) = below[None]
    everything = entries(root)
    assert everything == [f"{time}:{value}" for time, value in tree.elements()]
    leaves = [node for node in nodes if node["number"] not in below]
    if isinstance(tree, AugmentedBTree):
        assert {node["kind"] for node in nodes} == {"up"}
        assert not any(node["fingers"] for node in nodes)
        for node in nodes:
            assert node["aggregate"] == str(max(int(entry.split(":")[1]) for entry in entries(node)))
        return
    first, last = min(leaves, key=times), max(leaves, key=times)
    assert [node["fingers"] for node in leaves if node is first] == [
        ["left finger", "right finger"] if first is last else ["left finger"]
    ]
    assert "right finger" in last["fingers"]
    assert sum(len(node["fingers"]) for node in nodes) == 2
    for node in nodes:
        if node["kind"] == "up":
            assert node["aggregate"] == str(max(int(entry.split(":")[1]) for entry in entries(node)))
    assert root["kind"] == "inner"


def times(node: dict[str, Any]) -> int:
    return int(node["entries"][0].split(":")[0])


def test_values_without_times_are_in_order() -> None:
    assert traced("fiba", "3,1,4", 2)[-1]["window"] == ["2:1", "3:4"]
    assert traced("FiBA", "2:b,1:a", 2)[-1]["window"] == ["1:a", "2:b"]


def test_lines() -> None:
    lines = typed("trace", "FiBA", "1:3,4:1,2:4,3:1").out.splitlines()
    assert lines[0] == "  1  insert 1:3   ⊕ 0, query 0     window 1:3 → 3"
    done = in_a_terminal("trace", "FiBA", "1:3,4:1,2:4,3:1,9:5", "--window", "9")
    assert "root [3:1]           inner = 1\n" in done.out
    assert "├── left [1:3 2:4]   left = 4   ◀ left finger\n" in done.out
    assert "└── right [4:1 9:5]  right = 5  ◀ right finger\n" in done.out


def test_svg(tmp_path: Path) -> None:
    path = tmp_path / "tree.svg"
    assert typed("trace", "FiBA", TEXT, "--window", "13", "--svg", path).out == ""
    root = ElementTree.parse(path).getroot()
    space = "{http://www.w3.org/2000/svg}"
    texts = [node.text for node in root.iter(f"{space}text")]
    steps = traced("FiBA", TEXT, 13)
    assert texts.count("▲ left finger") + texts.count("▲ left finger, right finger") == len(steps)
    nodes = [node for step in steps for node in step["nodes"]]
    for node in nodes:
        assert f"{node['kind']} = {node['aggregate']}" in texts
    boxes = [one for one in root.iter(f"{space}rect") if one.get("rx")]
    assert len(boxes) == len(nodes)
    assert len([*root.iter(f"{space}line")]) == sum(node["parent"] is not None for node in nodes)
    width = float(root.get("width") or 0)
    by_row: dict[str, list[tuple[float, float]]] = {}
    for box in boxes:
        x, wide = float(box.get("x") or 0), float(box.get("width") or 0)
        assert 0 <= x <= x + wide <= width
        by_row.setdefault(box.get("y") or "", []).append((x, x + wide))
    for row in by_row.values():  # boxes of a level do not overlap
        row.sort()
        assert all(left[1] <= right[0] for left, right in pairwise(row))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["FiBBA", "1"], "there is no structure 'FiBBA'; did you mean 'FiBA'?"),
        (["FiBA", "1:2,3"], "'3' is not a time and a value, such as 2:5"),
        (["FiBA", "1:"], "'1:' is not a time and a value"),
        (["DABA", "1:2"], "DABA takes values in order: write them without times, such as 3,1,4"),
    ],
)
def test_mistakes(arguments: list[str], message: str) -> None:
    done = typed("trace", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
