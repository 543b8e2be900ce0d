"""The page that shows the results: sections of docs/performance.md, each written by its benchmark."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "performance.md"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, figures to the right."""
    rule = ["---", *("---:" for _ in header[1:])]
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, rule, *rows))


def plot(
    name: str, x: Sequence[float], curves: Mapping[str, Sequence[float]], xlabel: str, ylabel: str, logy: bool = False
) -> None:
    """Draw curves over a logarithmic axis into a picture file next to the page."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "sash"  # the same picture from the same figures
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for number, (label, figures) in enumerate(curves.items()):
        axes.plot(x[: len(figures)], figures, label=label, marker="osD^v"[number % 5], markersize=3, linewidth=1)
    axes.set(xscale="log", xlabel=xlabel, ylabel=ylabel, yscale="log" if logy else "linear")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, ncols=2)
    figure.savefig(DOCS / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


def machine() -> str:
    """Where the figures come from."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}"


def write(section: str, text: str) -> None:
    """Put a section into the page, in place of its former self."""
    begin, end = f"<!-- {section} -->", f"<!-- end of {section} -->"
    page = PAGE.read_text(encoding="utf-8")
    if begin not in page:
        page = f"{page.rstrip()}\n\n{begin}\n{end}\n"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    PAGE.write_text(f"{before}{begin}\n{text.strip()}\n\n*{machine()}.*\n{end}{after}", encoding="utf-8")
