"""Draw a tree as SVG: a box for each node, levels below each other, edges between them, fingers at the leaves."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from sash.cli.tree_trace import TreeNode, children_of

LETTER, PAD, HIGH, LEVEL, SPACE = 8, 12, 42, 72, 14
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
            above = top + LEVEL * depths[node.parent] + HIGH
            edges.append(f'<line x1="{centres[node.parent]:.0f}" y1="{above}" x2="{x:.0f}" y2="{y}" stroke="#999"/>')
        start = x - widths[node.number] / 2
        boxes.append(f'<rect x="{start:.0f}" y="{y}" width="{widths[node.number]}" height="{HIGH}" rx="4"/>')
        boxes.append(svg_text(start + PAD / 2, y + 17, " ".join(node.entries)))
        boxes.append(svg_text(start + PAD / 2, y + 35, _aggregate(node), "name"))
        if node.fingers:
            boxes.append(svg_text(start, y + HIGH + 15, _fingers(node), "pointer"))
    end = max(centres[node.number] + widths[node.number] / 2 for node in nodes)
    return edges + boxes, int(end) + SPACE, top + LEVEL * max(depths.values()) + HIGH + 22


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
