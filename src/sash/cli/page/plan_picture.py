"""Draw a plan as SVG from the text of `explain()`: rows, windows, structures, results, from left to right."""

from __future__ import annotations

import itertools
import re
import textwrap
from dataclasses import dataclass, field, replace
from xml.sax.saxutils import escape

WIDTH, BETWEEN, PAD, LINE, GAP, TOP = 232, 52, 12, 17, 14, 34
"""Width of a box, space between columns, padding, height of a line, space between boxes, and of the titles."""

LETTERS = 33
"""The maximum number of characters in a line of a box."""

COLUMNS = ("order", "windows", "structures", "results")
NOTES = ("shared", "ties", "state")


@dataclass(frozen=True)
class PlanBox:
    """A box: a name in bold, lines below it, and the names of its input boxes."""

    name: str
    lines: list[str]
    inputs: list[str] = field(default_factory=list)
    left: int = 0
    top: int = 0

    @property
    def height(self) -> int:
        """In pixels."""
        return 2 * PAD + LINE * (len(self.lines) + bool(self.name)) - 3


def plan_sections(text: str) -> dict[str, list[tuple[int, str]]]:
    """The sections of `explain()`: for each its lines, with their depth below the title."""
    found: dict[str, list[tuple[int, str]]] = {}
    lines: list[tuple[int, str]] = []
    for line in text.splitlines()[1:]:
        if line and not line.startswith(" "):
            lines = found.setdefault(line.strip(), [])
        elif line.strip():
            lines.append(((len(line) - len(line.lstrip())) // 2, line.strip()))
    return found


def plan_svg(text: str) -> str:
    """The picture of a plan, in the colours of the page that contains it."""
    sections = plan_sections(text)
    columns = [_boxes(name, sections) for name in COLUMNS]
    heights = [sum(box.height + GAP for box in boxes) - GAP for boxes in columns]
    tall, drawn = max(heights), []
    for number, height in enumerate(heights):
        left, top = 1 + number * (WIDTH + BETWEEN), TOP + (tall - height) // 2
        drawn.append(_text(left, 14, ("rows", *COLUMNS[1:])[number], "plan-title"))
        columns[number] = _placed(columns[number], left, top)
    edges = [
        _edge(one, box)
        for before, boxes in itertools.pairwise(columns)
        for box in boxes
        for one in before
        if not box.inputs or one.name in box.inputs
    ]
    drawn += [*edges, *(_drawn(box) for boxes in columns for box in boxes)]
    top, wide = TOP + tall + 26, len(COLUMNS) * (WIDTH + BETWEEN) - BETWEEN + 2
    for name in NOTES:
        for number, (_, line) in enumerate(sections.get(name, ())):
            drawn += [_text(1, top, name, "plan-title")] if not number else []
            for one in textwrap.wrap(line, 130):
                drawn.append(_text(90, top, one, "plan-line"))
                top += LINE
        top += 6 if name in sections else 0
    return _document("plan", wide, top, _title(columns), drawn)


def narrow_plan_svg(text: str) -> str:
    """The same for narrow screens: the columns below one another."""
    sections = plan_sections(text)
    columns, drawn, top = [], [], 14
    for number, name in enumerate(COLUMNS):
        if number:
            drawn.append(
                f'<path d="M{WIDTH // 2} {top - 26}v14l-4 -6h8l-4 6z" class="plan-arrow" fill="currentColor"/>'
            )
        drawn.append(_text(1, top, ("rows", *COLUMNS[1:])[number], "plan-title"))
        columns.append(_placed(_boxes(name, sections), 1, top + 10))
        drawn += map(_drawn, columns[-1])
        top = columns[-1][-1].top + columns[-1][-1].height + 44
    for name in NOTES:
        lines = [one for _, line in sections.get(name, ()) for one in textwrap.wrap(line, LETTERS + 4)]
        for number, line in enumerate([name, *lines] if lines else []):
            drawn.append(_text(1, top, line, "plan-line" if number else "plan-title"))
            top += LINE
        top += 10 if lines else 0
    return _document("plan narrow", WIDTH + 2, top, _title(columns), drawn)


def _document(kind: str, wide: int, tall: int, title: str, drawn: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="{kind}" viewBox="0 0 {wide} {tall}" width="{wide}"'
    return "\n".join(
        [
            f'{head} height="{tall}" font-family="system-ui, sans-serif" font-size="12.5" role="img">',
            f"<title>{escape(title)}</title>",
            *drawn,
            "</svg>",
            "",
        ]
    )


def _title(columns: list[list[PlanBox]]) -> str:
    """The title of the picture, for screen readers."""
    _, windows, structures, _ = columns
    ways = [f"{box.name} by {box.lines[0]}" for box in structures if box.lines]
    return f"Plan: rows go through {', '.join(box.name for box in windows)}; {'; '.join(ways)}"


def _boxes(section: str, sections: dict[str, list[tuple[int, str]]]) -> list[PlanBox]:
    lines = sections.get(section, [])
    if section in ("order", "results"):
        wrapped = [one for _, line in lines for one in _wrapped(_cells(line))]
        return [PlanBox("", wrapped or ["as they come"])]
    entries = []
    for depth, line in lines:
        if depth != 1 or line.startswith(("costs in", "on frames")):
            break
        entries.append(_cells(line))
    if section == "windows":
        return [PlanBox(one[0], _wrapped(one[1:])) for one in entries] or [PlanBox("windows", [])]
    windows = {cells[0] for cells in (_cells(line) for _, line in sections.get("windows", []))}
    found = []
    for cells in entries:
        inputs = [cells.pop(0)] if len(cells) > 2 and cells[0] in windows else []
        found.append(PlanBox(cells[0], _wrapped(cells[1:2]) + _wrapped(cells[2:]), inputs))
    return found or [PlanBox("structures", [])]


def _placed(boxes: list[PlanBox], left: int, top: int) -> list[PlanBox]:
    """The boxes of a column, one below the other."""
    tops = itertools.accumulate((box.height + GAP for box in boxes), initial=top)
    return [replace(box, left=left, top=y) for box, y in zip(boxes, tops, strict=False)]


def _cells(line: str) -> list[str]:
    """The cells of a table line, which are separated by two spaces or more."""
    return re.split(r" {2,}", line)


def _wrapped(cells: list[str]) -> list[str]:
    return textwrap.wrap("  ".join(cells), LETTERS) if cells else []


def _drawn(box: PlanBox) -> str:
    shape = f'<rect x="{box.left}" y="{box.top}" width="{WIDTH}" height="{box.height}" rx="8" class="plan-box" '
    shape += 'fill="none" stroke="currentColor"/>'
    texts, y = [], box.top + PAD + 10
    for number, line in enumerate([box.name] * bool(box.name) + box.lines):
        kind = "plan-name" if box.name and not number else "plan-line"
        texts.append(_text(box.left + PAD, y, line, kind))
        y += LINE
    return "\n".join([shape, *texts])


def _edge(start: PlanBox, end: PlanBox) -> str:
    x0, y0 = start.left + WIDTH, start.top + start.height // 2
    x1, y1 = end.left, end.top + end.height // 2
    middle = (x0 + x1) // 2
    path = f'<path d="M{x0} {y0}C{middle} {y0} {middle} {y1} {x1 - 6} {y1}"'
    path += ' class="plan-edge" fill="none" stroke="currentColor"/>'
    return f'{path}<path d="M{x1 - 7} {y1 - 4}l7 4l-7 4z" class="plan-arrow" fill="currentColor"/>'


def _text(x: int, y: int, text: str, kind: str) -> str:
    weight = ' font-weight="600"' if kind != "plan-line" else ""
    return f'<text x="{x}" y="{y}" class="{kind}" fill="currentColor"{weight}>{escape(text)}</text>'
