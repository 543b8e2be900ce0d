"""Write the summary of docs/performance.md from its own tables; run by `make format`."""

from __future__ import annotations

import re
from pathlib import Path

from tools.pictures import CALLS, COMPARISONS, DOCS, KEYS, ROWS, WIDE, Comparison, Figure, label

PAGE = DOCS / "performance.md"
MARKED = re.compile(r"(<!-- summary -->\n).*?(<!-- end of summary -->)", re.DOTALL)
MORE = (
    Comparison(
        "max of 1,024 rows, no keys",
        "polars",
        Figure(ROWS, "max, 1,024", "polars"),
        Figure(ROWS, "max, 1,024", "sash on polars"),
    ),
    Comparison(
        "std of 1,024 rows, no keys",
        "bottleneck",
        Figure(ROWS, "std, 1,024", "bottleneck"),
        Figure(ROWS, "std, 1,024", "sash on polars"),
    ),
    Comparison(
        "arg_max of a time window, 1,000 keys",
        "polars",
        Figure(KEYS, "arg_max, 1,024", "polars"),
        Figure(KEYS, "arg_max, 1,024", "sash on polars"),
    ),
    Comparison(
        "windows of 10,000 rows on Spark",
        "Spark with default settings",
        Figure("Spark, batch", WIDE, "Spark"),
        Figure("Spark, batch", WIDE, "sash"),
    ),
    Comparison(
        "60 s at each row of a stream",
        "Flink, state in RocksDB",
        Figure(CALLS, "Flink, at each row", "RocksDB"),
        Figure(CALLS, "100,000 rows a call", "ns a row"),
    ),
)


def summary(page: str) -> str:
    """The most important figures."""
    lines = ["| task | compared with | their time over ours |", "|---|---|---:|"]
    for one in sorted((*COMPARISONS, *MORE), key=lambda one: -one.ratio(page)):
        ratio = one.ratio(page)
        cell = label(ratio) if ratio >= 1 else f"**{label(ratio)}**"
        lines.append(f"| {_task(one)} | {one.rival} | {cell} |")
    return "\n".join(lines)


def _task(one: Comparison) -> str:
    return COMPARISONS[0].task if one.task == "the same" else one.task


def filled(page: str) -> str:
    """The page with its summary updated."""
    return MARKED.sub(lambda match: f"{match[1]}{summary(page)}\n{match[2]}", page)


def pages() -> dict[Path, str]:
    """The page, updated."""
    return {PAGE: filled(PAGE.read_text(encoding="utf-8"))}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
