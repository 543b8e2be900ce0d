"""Trace a structure, operation by operation, as text and SVG: its contents, the pointers of the paper, calls of ⊕.

    vals  3  1  4            aggregates by position, as the structure keeps them
    aggs  4  4  4
          F     B  E         pointers: half-open, E is one past the youngest

FiBA and AugmentedBTree have nodes, with the names of the paper: kinds of aggregates, and fingers.

    root   2:5 7:1          inner = 1
    ├── left   1:3          left = 3       ◀ left finger
    ├── up     4:4          up = 4
    └── right  9:2          right = 2      ◀ right finger

In SVG a trace has a row of cells for each array, with pointers below. A tree has a box for each node, levels below
each other, edges between them, fingers at the leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from sash.aggregators.base import Aggregator, fields
from sash.aggregators.btree import ARITY, CHILD, FLAGS, INNER, LEFT, RIGHT, ROOT, AugmentedBTree, BTree
from sash.aggregators.catalogue import CATALOGUE
from sash.aggregators.counted_tree import CountedTree
from sash.aggregators.slick_deque_non_inv import SlickDequeNonInv
from sash.aggregators.two_stacks import TwoStacks
from sash.cli.job_file import nearest
from sash.cli.main import WrongUsage
from sash.monoids import functions
from sash.monoids.op_counter import OpCounter

# --- Tree trace ---

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


def tree_nodes(tree: BTree, text: Callable[[Any], str]) -> list[TreeNode]:
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


# --- Structure trace ---

AGGREGATES = ("max", "min", "sum", "product", "mean", "first", "last", "median", "mode")
"""Aggregates that can be traced; the first that a structure accepts is the default."""


@dataclass(frozen=True)
class TraceStep:
    """A structure after one operation and a query."""

    operation: str
    window: list[Any]
    """The values in it, the oldest first."""
    start: int
    """The position of the first cell of `arrays`."""
    arrays: dict[str, list[str]]
    """The stored values by position, from the oldest element to the youngest."""
    pointers: dict[str, int]
    states: dict[str, str]
    """Other stored aggregates, and counts."""
    combines: int
    """Calls of ⊕ by the operation; an inverse counts as one."""
    query_combines: int
    result: Any
    nodes: list[TreeNode] = field(default_factory=list)
    """The nodes of a time-ordered tree, from the root down."""


def trace_steps(structure: str, aggregate: str, values: Sequence[Any], size: int) -> Iterator[TraceStep]:
    """Slide a window of `size` rows over values, or over pairs of time and value if the structure is time-ordered.

    Raises WrongUsage for an unknown name, and for an aggregate that the structure does not accept.
    """
    window, counter = _made(structure, aggregate)
    if isinstance(window, BTree):
        yield from _tree_steps(window, counter, values, size)
        return
    if any(isinstance(value, TimedValue) for value in values):
        raise WrongUsage(f"{type(window).__name__} takes values in order: write them without times, such as 3,1,4")
    inside: list[Any] = []
    for value in values:
        if len(inside) == size:
            gone = inside.pop(0)
            window.evict()
            yield _step(window, f"evict {gone}", inside, counter)
        inside.append(value)
        window.insert(value)
        yield _step(window, f"insert {value}", inside, counter)


def _tree_steps(window: Any, counter: OpCounter, values: Sequence[Any], size: int) -> Iterator[TraceStep]:
    """Insert values at their times, in the given order; evict the oldest when there are more than `size`."""

    def step(operation: str) -> TraceStep:
        combines, result, query_combines = counter.taken(), window.query(), counter.taken()
        inside = [f"{time}:{_text(window, state)}" for time, state in window.elements()]
        nodes = tree_nodes(window, lambda state: _text(window, state))
        return TraceStep(operation, inside, 0, {}, {}, {}, combines, query_combines, result, nodes)

    for number, given in enumerate(values, 1):
        time, value = given if isinstance(given, TimedValue) else (number, given)
        window.insert(time, value)
        yield step(f"insert {time}:{value}")
        if window.size() > size:
            oldest = window.oldest
            window.evict()
            yield step(f"evict {oldest}")


def values_of(text: str) -> list[Any]:
    """Values separated by commas: all integers, else all numbers, else strings."""
    words = [word.strip() for word in text.split(",")]
    if any(":" in word for word in words):
        return _pairs(words)
    for kind in (int, float):
        try:
            return [kind(word) for word in words]
        except ValueError:
            continue
    return list(words)


def _pairs(words: Sequence[str]) -> list[Any]:
    """Pairs of a time and a value, such as 2:5. Raises WrongUsage for anything else."""
    for word in words:
        if word.count(":") != 1 or not all(word.split(":")):
            raise WrongUsage(f"{word!r} is not a time and a value, such as 2:5; write all values like that, or none")
    times, values = (values_of(",".join(side)) for side in zip(*(word.split(":") for word in words), strict=True))
    return [TimedValue(*pair) for pair in zip(times, values, strict=True)]


def _made(structure: str, aggregate: str) -> tuple[Any, OpCounter]:
    """A structure, and the monoid in it that counts calls of ⊕."""
    if structure not in CATALOGUE:
        known = {name.lower(): name for name in CATALOGUE}
        if structure.lower() not in known:
            raise WrongUsage(f"there is no structure {structure!r}{nearest(structure, CATALOGUE)}")
        structure = known[structure.lower()]
    made: Any = CATALOGUE[structure].cls
    if issubclass(made, BTree):
        made = partial(made, min_arity=MIN_ARITY)
    if aggregate and aggregate not in AGGREGATES:
        raise WrongUsage(f"--aggregate {aggregate} is not known{nearest(aggregate, AGGREGATES)}")
    why = ""
    for name in (aggregate,) if aggregate else AGGREGATES:
        try:
            monoid = getattr(functions, name)("x").monoid
            made(monoid)  # its error names the monoid, not its counter
            counter = OpCounter(monoid)
            return made(counter), counter
        except TypeError as error:
            why = why or str(error)
    raise WrongUsage(why)


def _step(window: Any, operation: str, inside: list[Any], counter: OpCounter) -> TraceStep:
    combines, result, query_combines = counter.taken(), window.query(), counter.taken()
    kinds = fields(type(window))
    pointers = {name: int(getattr(window, name)) for name in POINTERS if kinds.get(name) == "int"}
    states = {name: str(getattr(window, name)) for name in COUNTS if kinds.get(name) == "int"}
    states |= {name: _text(window, getattr(window, name)) for name, kind in kinds.items() if kind == "State"}
    arrays = {name: [_text(window, state) for state in cells] for name, cells in _arrays(window).items()}
    start = pointers.get("F", 0)
    return TraceStep(operation, list(inside), start, arrays, pointers, states, combines, query_combines, result)


POINTERS = ("F", "L", "R", "A", "M", "B", "E")
"""Positions of elements, by the names of the papers."""

COUNTS = ("fronts", "backs", "H", "T")
"""Sizes of stacks, and ends of a deque that has fewer nodes than the window has elements."""

ALIGNED = ("vals", "aggs", "deque", "partials")
"""Queues with a slot for each element of the window, at its position."""


def _arrays(window: Any) -> dict[str, list[Any]]:
    """The values of a structure by position, from the oldest element to the youngest; none for trees."""
    if isinstance(window, TwoStacks):
        front, back = range(window.fronts - 1, -1, -1), range(window.backs)
        return {
            "vals": [*(window.front_vals[i] for i in front), *(window.back_vals[i] for i in back)],
            "aggs": [*(window.front_aggs[i] for i in front), *(window.back_aggs[i] for i in back)],
        }
    if isinstance(window, SlickDequeNonInv):
        nodes = {window.positions[j]: window.vals[j] for j in range(window.H, window.T)}
        return {"vals": [nodes.get(i) for i in range(window.F, window.E)]}
    if isinstance(window, CountedTree):
        return {}
    queues = [name for name, kind in fields(type(window)).items() if kind == "Queue" and name in ALIGNED]
    return {name: [getattr(window, name)[i] for i in range(window.F, window.E)] for name in queues}


def _text(window: Aggregator, state: Any) -> str:
    """A state as readable text: lowered. The identity and unused slots have no value."""
    if state is None or window.monoid.same(state, window.monoid.identity):
        return "·"
    return str(window.monoid.lower(state))


def trace_lines(steps: Sequence[TraceStep]) -> Iterator[str]:
    """The steps for a terminal."""
    for number, step in enumerate(steps, 1):
        cost = f"⊕ {step.combines}, query {step.query_combines}"
        yield f"{number:>3}  {step.operation:<12} {cost:<16} window {' '.join(map(str, step.window))} → {step.result}"
        if step.nodes:
            yield from (f"       {line}" for line in tree_lines(step.nodes))
            continue
        labels = labels_of(step)
        rows = {**step.arrays, "": [labels.get(step.start + i, "") for i in range(len(step.window) + 1)]}
        width = max(len(cell) for cells in rows.values() for cell in cells)
        for name, cells in rows.items():
            if any(cells):
                yield f"       {name:<9} {' '.join(cell.ljust(width) for cell in cells)}".rstrip()
        if step.states:
            yield f"       {', '.join(f'{name} = {text}' for name, text in step.states.items())}"


def labels_of(step: TraceStep) -> dict[int, str]:
    """The names of the pointers at each position."""
    found: dict[int, str] = {}
    for name, position in step.pointers.items():
        found[position] = found.get(position, "") + name
    return found


# --- Tree drawing ---

LETTER, PAD, NODE_HIGH, LEVEL, SPACE = 8, 12, 42, 72, 14
"""Width of a letter, of the margins in a box, its height, the distance of levels and of neighbours; in pixels."""


def tree_svg(nodes: Sequence[TreeNode], left: int, top: int) -> tuple[list[str], int, int]:
    """The elements of a drawing, and the x and y of its end."""
    below = children_of(nodes)
    centres: dict[int, float] = {}
    depths: dict[int, int] = {}
    widths = {node.number: _width(node) for node in nodes}
    cursor = float(left)

    def place(node: TreeNode, depth: int) -> None:
        nonlocal cursor
        depths[node.number] = depth
        inner = below.get(node.number, [])
        for child in inner:
            place(child, depth + 1)
        if inner:
            middle = (centres[inner[0].number] + centres[inner[-1].number]) / 2
            centres[node.number] = max(middle, left + widths[node.number] / 2)
        else:
            centres[node.number] = cursor + widths[node.number] / 2
            cursor += widths[node.number] + SPACE

    place(nodes[0], 0)
    edges, boxes = [], []
    for node in nodes:
        x, y = centres[node.number], top + LEVEL * depths[node.number]
        if node.parent is not None:
            above = top + LEVEL * depths[node.parent] + NODE_HIGH
            edges.append(f'<line x1="{centres[node.parent]:.0f}" y1="{above}" x2="{x:.0f}" y2="{y}" stroke="#999"/>')
        start = x - widths[node.number] / 2
        boxes.append(f'<rect x="{start:.0f}" y="{y}" width="{widths[node.number]}" height="{NODE_HIGH}" rx="4"/>')
        boxes.append(svg_text(start + PAD / 2, y + 17, " ".join(node.entries)))
        boxes.append(svg_text(start + PAD / 2, y + 35, _aggregate(node), "name"))
        if node.fingers:
            boxes.append(svg_text(start, y + NODE_HIGH + 15, _fingers(node), "pointer"))
    end = max(centres[node.number] + widths[node.number] / 2 for node in nodes)
    return edges + boxes, int(end) + SPACE, top + LEVEL * max(depths.values()) + NODE_HIGH + 22


def _width(node: TreeNode) -> int:
    texts = (" ".join(node.entries), _aggregate(node), _fingers(node))
    return PAD + LETTER * max(map(len, texts))


def _aggregate(node: TreeNode) -> str:
    return f"{node.kind} = {node.aggregate}"


def _fingers(node: TreeNode) -> str:
    return f"▲ {', '.join(node.fingers)}" if node.fingers else ""


def svg_text(x: float, y: float, text: str, kind: str = "") -> str:
    """A text element, with a class of the style sheet."""
    marked = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.0f}" y="{y:.0f}"{marked} xml:space="preserve">{escape(text)}</text>'


# --- Trace drawing ---

CELL, HIGH, MARGIN, GAP = 46, 24, 90, 16
"""Width and height of a cell, x of the first cell, and space between steps, in pixels."""

STYLE = "text{font:13px sans-serif;fill:#222}.name{fill:#666}.pointer{fill:#0072B2;font-weight:bold}"
STYLE += "rect{fill:#f4f4f4;stroke:#999}"


def trace_svg(title: str, steps: Sequence[TraceStep]) -> str:
    """The steps, one below the other. Elements stay in their columns, so the window moves to the right."""
    drawn = [svg_text(12, 20, title, "pointer")]
    top, widest = 36, 420
    for number, step in enumerate(steps, 1):
        cost = f"⊕ {step.combines}, query {step.query_combines}"
        drawn.append(svg_text(12, top + 12, f"{number}. {step.operation}    {cost}    → {step.result}"))
        top += HIGH
        if step.nodes:
            boxes, end, top = tree_svg(step.nodes, 12, top)
            drawn += boxes
            widest = max(widest, end)
            top += GAP
            continue
        for name, cells in (step.arrays or {"window": [str(value) for value in step.window]}).items():
            drawn.append(svg_text(12, top + 16, name, "name"))
            for i, cell in enumerate(cells):
                left = MARGIN + CELL * (step.start + i)
                drawn.append(f'<rect x="{left}" y="{top}" width="{CELL}" height="{HIGH}"/>')
                drawn.append(svg_text(left + 6, top + 16, cell))
            top += HIGH
        for position, label in labels_of(step).items():
            drawn.append(svg_text(MARGIN + CELL * position + 2, top + 14, label, "pointer"))
        top += HIGH + GAP
    last = max((step.start + len(step.window) for step in steps if not step.nodes), default=0)
    width = max(MARGIN + CELL * (last + 2), widest)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}" viewBox="0 0 {width} {top}">'
    body = [head, f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>"]
    body += ['<rect width="100%" height="100%" style="fill:white;stroke:none"/>', *drawn, "</svg>"]
    return "\n".join(body) + "\n"
