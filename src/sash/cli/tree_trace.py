"""The nodes of FiBA and AugmentedBTree, with the names of the paper: kinds of aggregates, and fingers.

root   2:5 7:1          inner = 1
├── left   1:3          left = 3       ◀ left finger
├── up     4:4          up = 4
└── right  9:2          right = 2      ◀ right finger
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sash.aggregators.augmented_b_tree import AugmentedBTree
from sash.aggregators.btree_nodes import ARITY, CHILD, FLAGS, INNER, LEFT, RIGHT, ROOT, BTreeNodes

MIN_ARITY = 2
"""That of the figures in the paper: small nodes show splits and merges early."""


class TimedValue(NamedTuple):
    """A value and its time."""

    time: Any
    value: Any


@dataclass(frozen=True)
class TreeNode:
    """A node: its entries, its aggregate by kind, and where it is."""

    number: int
    """From 0, the root, in the order of `tree_nodes`."""
    parent: int | None
    place: str
    """root, left (on the left spine), right, or up."""
    kind: str
    """What its aggregate is: inner, left, right or up."""
    entries: list[str]
    aggregate: str
    fingers: list[str] = field(default_factory=list)


def timed_values(values: Sequence[Any]) -> Iterator[TimedValue]:
    """Values with their times; without, they are 1, 2, 3 and so on."""
    for number, value in enumerate(values, 1):
        yield value if isinstance(value, TimedValue) else TimedValue(number, value)


def tree_nodes(tree: BTreeNodes, text: Callable[[Any], str]) -> list[TreeNode]:
    """The nodes of a tree, each before those below it. `text` formats a state."""
    found: list[TreeNode] = []
    has_fingers = not isinstance(tree, AugmentedBTree)

    def visit(node: int, parent: int | None) -> None:
        flags = tree.links[node, FLAGS]
        place = "root" if flags & ROOT else "left" if flags & LEFT else "right" if flags & RIGHT else "up"
        kind = "up" if not has_fingers else "inner" if place == "root" else place
        entries = [f"{tree.times[node, i]}:{text(tree.vals[node, i])}" for i in range(tree.links[node, ARITY] - 1)]
        ends = {"left finger": tree.left, "right finger": tree.right} if has_fingers else {}
        fingers = [name for name, end in ends.items() if end == node]
        number = len(found)
        found.append(TreeNode(number, parent, place, kind, entries, text(tree.aggs[node]), fingers))
        if flags & INNER:
            for i in range(tree.links[node, ARITY]):
                visit(tree.links[node, CHILD + i], number)

    visit(tree.root, None)
    return found


def children_of(nodes: Sequence[TreeNode]) -> dict[int | None, list[TreeNode]]:
    """The nodes below each node, from left to right; below None is the root."""
    below: dict[int | None, list[TreeNode]] = {}
    for node in nodes:
        below.setdefault(node.parent, []).append(node)
    return below


def tree_lines(nodes: Sequence[TreeNode]) -> list[str]:
    """A tree for a terminal: the root first, and a branch to each node below."""
    below = children_of(nodes)
    found: list[tuple[str, str, str]] = []

    def visit(node: TreeNode, above: str, branch: str, rest: str) -> None:
        title = f"{above}{branch}{node.place} [{' '.join(node.entries)}]"
        found.append((title, f"{node.kind} = {node.aggregate}", f"◀ {', '.join(node.fingers)}" if node.fingers else ""))
        inner = below.get(node.number, [])
        for child in inner:
            is_last = child is inner[-1]
            visit(child, above + rest, "└── " if is_last else "├── ", "    " if is_last else "│   ")

    visit(nodes[0], "", "", "")
    widths = [max(len(row[i]) for row in found) for i in range(2)]
    return [f"{title.ljust(widths[0])}  {kind.ljust(widths[1])}  {fingers}".rstrip() for title, kind, fingers in found]
