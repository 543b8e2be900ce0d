"""Helpers for the tests of time-ordered structures: windows, trees drawn as nested lists, and trees that count."""

from collections import Counter
from typing import Any

from sash.aggregators import AugmentedBTree, FiBA
from sash.aggregators.btree import ARITY, CHILD, FLAGS, INNER, LEFT, PARENT, RIGHT, ROOT, BTree
from tests.conformance.machines import JOIN

STRUCTURES = (FiBA, AugmentedBTree)

Shape = list[Any]
"""A leaf: a list of times. An inner node: children (lists) and times in turn."""


def window_of(structure: Any, monoid: Any, pairs: Any, min_arity: int = 2) -> Any:
    """A window of pairs of a time and a value."""
    window = structure(monoid, min_arity)
    for time, value in pairs:
        window.insert(time, value)
    return window


def letters(structure: Any, count: int = 26) -> Any:
    """A window of letters: a at time 0, b at 1."""
    return window_of(structure, JOIN, [(i, chr(97 + i)) for i in range(count)])


def build(structure: Any, shape: Shape, min_arity: int = 2, monoid: Any = JOIN, value: Any = None) -> Any:
    """A tree of a given shape; an entry's value is the letter of its time: 1 is a, unless `value` is given."""
    tree = structure(monoid, min_arity)
    of = value or (lambda t: chr(96 + t))
    nodes = [tree.root]

    def fill(node: int, part: Shape, flags: int) -> None:
        children = [x for x in part if isinstance(x, list)]
        times = [x for x in part if not isinstance(x, list)]
        tree.links[node, FLAGS] = flags | (INNER if children else 0)
        tree.links[node, ARITY] = len(times) + 1
        tree.held += len(times)
        for i, t in enumerate(times):
            tree.times[node, i], tree.vals[node, i] = t, monoid.lifted((of(t),))
        for i, child in enumerate(children):
            new = tree.take()
            nodes.append(new)
            tree.adopt(node, i, new)
            spine = LEFT if i == 0 and flags & (LEFT | ROOT) else 0
            spine |= RIGHT if i == len(children) - 1 and flags & (RIGHT | ROOT) else 0
            fill(new, child, spine)
        if not children and flags & (LEFT | ROOT):
            tree.left = node
        if not children and flags & (RIGHT | ROOT):
            tree.right = node

    fill(tree.root, shape, ROOT)
    for node in reversed(nodes):
        tree.settle(node)
    tree.repair(tree.root, LEFT | RIGHT)
    tree.check_invariants()
    return tree


def shape_of(tree: BTree, node: int | None = None) -> Shape:
    """The tree as nested lists."""
    node = tree.root if node is None else node
    part: Shape = []
    for i in range(tree.links[node, ARITY]):
        if tree.links[node, FLAGS] & INNER:
            part.append(shape_of(tree, tree.links[node, CHILD + i]))
        if i < tree.links[node, ARITY] - 1:
            part.append(tree.times[node, i])
    return part


def coins(tree: BTree) -> int:
    """The coins that the nodes keep in reserve, by the paper's lemma 9."""
    kept = 0
    for node in tree.nodes_below(tree.root):
        arity, root = tree.links[node, ARITY], tree.links[node, FLAGS] & ROOT
        if arity == 2 * tree.min_arity:
            kept += 2
        elif arity == tree.min_arity and not root:
            kept += 1
    return kept


def counting(structure: Any) -> Any:
    """The structure with counters of its operations, such as `tree.done["split"]`."""

    def counted(name: str) -> Any:
        method = getattr(structure, name)

        def call(self: Any, *arguments: Any) -> Any:
            self.done[name] += 1
            return method(self, *arguments)

        return call

    names = ("split", "merge", "move_back", "move_on", "rank", "rank_through", "fold")
    members: dict[str, Any] = {name: counted(name) for name in names}
    members["done"] = Counter()

    def init(self: Any, *arguments: Any) -> None:
        self.done = Counter()
        structure.__init__(self, *arguments)

    members["__init__"] = init
    return type(structure.__name__, (structure,), members)


def spent(tree: Any) -> int:
    """Coins spent: splits, merges and moves."""
    return sum(tree.done[name] for name in ("split", "merge", "move_back", "move_on"))


def ancestors(tree: BTree, node: int) -> int:
    """How far a node is below the root."""
    return 0 if tree.links[node, FLAGS] & ROOT else 1 + ancestors(tree, tree.links[node, PARENT])
