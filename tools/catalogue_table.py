"""Write the tables of structures in docs/structures.md and docs/papers; run by `make format`, checked by the tests.

`<!-- catalogue -->` is filled with all structures and their costs, `<!-- structures A B -->` with some of them: where
each is in the code, its costs, and the time of a round as docs/performance.md has it.
"""

from __future__ import annotations

import re
from pathlib import Path

from sash.aggregators.catalogue import CATALOGUE, table
from tools.pictures import Figure

DOCS = Path(__file__).parents[1] / "docs"
ALL = re.compile(r"(<!-- catalogue -->\n).*?(<!-- end of catalogue -->)", re.DOTALL)
SOME = re.compile(r"(<!-- structures ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
SIZES = ("16", "1,024", "1,048,576")


def filled(text: str) -> str:
    """A page with its tables updated."""
    text = ALL.sub(lambda match: f"{match[1]}{table()}\n{match[2]}", text)
    return SOME.sub(lambda match: f"{match[1]}{some(match[2].split())}\n{match[3]}", text)


def some(names: list[str]) -> str:
    """A table of some structures, with the times of a round where they were measured."""
    times = {name: measured(name) for name in names}
    known = any(cell != "–" for cells in times.values() for cell in cells)
    sizes = [f"ns at n = {size}" for size in SIZES] if known else []
    head = [
        "structure",
        "file in `sash/aggregators`",
        "needs",
        "⊕ per insert, evict, query",
        "worst case",
        "space",
        *sizes,
    ]
    rows = [f"| {' | '.join(head)} |", "|---" * 6 + "|---:" * len(sizes) + "|"]
    for name in names:
        record = CATALOGUE[name]
        average, worst = (", ".join(map(str, costs.values())) for costs in (record.average, record.worst))
        cells = [
            f"`{name}`",
            f"`{record.cls.__module__.rpartition('.')[2]}.py`",
            ", ".join(record.needs) or "–",
            average,
            worst,
        ]
        rows.append(f"| {' | '.join([*cells, str(record.space), *times[name][: len(sizes)]])} |")
    return "\n".join([*rows, "", ROUNDS if known else OUT_OF_ORDER])


ROUNDS = (
    "Times are those of a round of evict, insert and query on full windows, compiled: `max` of floats, or `sum` of\n"
    "ints for structures that need an inverse ([performance](../performance.md))."
)
OUT_OF_ORDER = "Times by the distance of events are in [performance](../performance.md#out-of-order)."


def measured(name: str) -> list[str]:
    """Nanoseconds a round, – where there is no measurement."""
    page = (DOCS / "performance.md").read_text(encoding="utf-8")
    what = "sum of ints" if "inverse" in CATALOGUE[name].needs else "max of floats"
    found = []
    for size in SIZES:
        try:
            found.append(f"{Figure('One round of evict, insert and query', f'{what}, {name}', size).value(page):g}")
        except ValueError:
            found.append("–")
    return found


def pages() -> dict[Path, str]:
    """The pages with such tables, updated."""
    paths = [DOCS / "structures.md", *sorted((DOCS / "papers").glob("*.md"))]
    return {path: filled(path.read_text(encoding="utf-8")) for path in paths}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
