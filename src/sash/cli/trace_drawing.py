"""Draw a trace of a structure as SVG: a row of cells for each array, with pointers below; trees as boxes."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from sash.cli.structure_trace import TraceStep, labels_of
from sash.cli.tree_drawing import svg_text, tree_svg

CELL, HIGH, LEFT, GAP = 46, 24, 90, 16
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
                left = LEFT + CELL * (step.start + i)
                drawn.append(f'<rect x="{left}" y="{top}" width="{CELL}" height="{HIGH}"/>')
                drawn.append(svg_text(left + 6, top + 16, cell))
            top += HIGH
        for position, label in labels_of(step).items():
            drawn.append(svg_text(LEFT + CELL * position + 2, top + 14, label, "pointer"))
        top += HIGH + GAP
    last = max((step.start + len(step.window) for step in steps if not step.nodes), default=0)
    width = max(LEFT + CELL * (last + 2), widest)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}" viewBox="0 0 {width} {top}">'
    body = [head, f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>"]
    body += ['<rect width="100%" height="100%" style="fill:white;stroke:none"/>', *drawn, "</svg>"]
    return "\n".join(body) + "\n"
