"""Draw the pictures of README.md and docs: `make pictures`.

docs/pictures/rolling.svg    values and the aggregates of their windows, from generated data, by `sash.plot`
docs/pictures/plan.svg       the plan of a query, as the live page draws it
docs/pictures/speed.svg      sash compared with other libraries, from the tables of docs/performance.md
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd

import sash
from sash.cli.page.plan_picture import plan_svg
from sash.cli.plots import COLOURS

DOCS = Path(__file__).parents[1] / "docs"
PICTURES = DOCS / "pictures"


@dataclass(frozen=True)
class Figure:
    """A cell of docs/performance.md: below which heading, in which row and column."""

    heading: str
    row: str
    column: str

    def value(self, page: str) -> float:
        """The number of the cell. Raises ValueError if there is no such cell."""
        section = page.partition(f"# {self.heading}\n")[2]
        header: list[str] = []
        for line in section.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
            if self.column in cells[1:]:
                header = cells
            elif header and cells and cells[0] == self.row:
                found = re.search(r"[\d,.]+", cells[header.index(self.column)])
                if found:
                    return float(found[0].replace(",", ""))
        raise ValueError(f"docs/performance.md has no number for {self}")


@dataclass(frozen=True)
class Comparison:
    """A task, another library, and the times of both."""

    task: str
    rival: str
    theirs: Figure
    ours: Figure

    def ratio(self, page: str) -> float:
        """The time of the other library over that of sash."""
        return self.theirs.value(page) / self.ours.value(page)


ROWS, KEYS, CALLS = "Windows of rows, 1 key", "Windows of time, 1,000 keys", "Calls of an operator, compared with Flink"
WIDE = "2,000,000 rows, 8 keys, max, sum of 10,000 rows"
MEAN = "mean, 1,024"
COMPARISONS = (
    Comparison(
        "mean of a time window, 1,000 keys",
        "pandas",
        Figure(KEYS, MEAN, "pandas"),
        Figure(KEYS, MEAN, "sash on pandas"),
    ),
    Comparison("the same", "polars", Figure(KEYS, MEAN, "polars"), Figure(KEYS, MEAN, "sash on polars")),
    Comparison(
        "mean of 1,024 rows, no keys",
        "bottleneck",
        Figure(ROWS, MEAN, "bottleneck"),
        Figure(ROWS, MEAN, "sash on polars"),
    ),
    Comparison(
        "windows of 10,000 rows on Spark",
        "Spark's segment tree",
        Figure("Spark, batch", WIDE, "tree"),
        Figure("Spark, batch", WIDE, "sash"),
    ),
    Comparison(
        "60 s at each row of a stream",
        "Flink, state on the heap",
        Figure(CALLS, "Flink, at each row", "heap"),
        Figure(CALLS, "100,000 rows a call", "ns a row"),
    ),
)
"""One of them is a loss: bottleneck adds and subtracts floats, and drifts."""


def speed(page: str) -> Any:
    """Bars: how many times as long others take."""
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(8, 3), layout="constrained")
    names = [f"{one.task}\nvs. {one.rival}" for one in COMPARISONS]
    ratios = [one.ratio(page) for one in COMPARISONS]
    colours = [COLOURS[0] if ratio >= 1 else COLOURS[1] for ratio in ratios]
    bars = axis.barh(names, [ratio - 1 for ratio in ratios], left=1, color=colours, height=0.6)
    axis.bar_label(bars, [label(ratio) for ratio in ratios], padding=4, fontsize="small")
    axis.set_xscale("log")
    axis.axvline(1, color="0.3", linewidth=1)
    axis.set_xlim(0.5, max(ratios) * 3)
    axis.set_xticks([1, 10, 100], ["as fast", "10× faster", "100× faster"])
    axis.minorticks_off()
    axis.invert_yaxis()
    axis.tick_params(axis="y", length=0, labelsize="small")
    axis.spines[["top", "right", "left"]].set_visible(False)
    return figure


def label(ratio: float) -> str:
    """A ratio as readable text."""
    return f"{ratio:.0f}×" if ratio >= 10 else f"{ratio:.1f}×"


def prices() -> pd.DataFrame:
    """Two hours of trades that walk at random."""
    chance = np.random.default_rng(4)
    seconds = np.sort(chance.integers(0, 7200, 300))
    return pd.DataFrame(
        {
            "ts": pd.Timestamp("2026-03-02 09:30") + pd.to_timedelta(seconds, unit="s"),
            "price": np.round(100 + np.cumsum(chance.normal(0, 0.16, len(seconds))), 2),
        }
    )


def rolling() -> Any:
    """Values, and the aggregates of the ten minutes before each."""
    aggregates = {"high": sash.max("price"), "mean": sash.mean("price"), "low": sash.min("price")}
    return sash.plot(prices(), "10m", on="ts", **aggregates, trades=sash.count())


def plan() -> str:
    """A plan with two windows, on white: pages may be dark."""
    aggregates = {"high": sash.max("price"), "mid": sash.median("price"), "n": sash.count()}
    query = sash.Query({"1m": "1m", "1h": "1h"}, by="symbol", on="ts", lateness="5s", **aggregates)
    ground = '<rect width="100%" height="100%" fill="white"/>'
    return plan_svg(query.explain()).replace("<title>", f"{ground}\n<title>", 1)


def main() -> None:
    matplotlib.use("Agg")
    # texts stay texts, and nothing changes from one run to the next
    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "sash", "font.family": "sans-serif"}
    PICTURES.mkdir(exist_ok=True)
    page = (DOCS / "performance.md").read_text(encoding="utf-8")
    for name, figure in {"rolling": rolling(), "speed": speed(page)}.items():
        figure.savefig(PICTURES / f"{name}.svg", metadata={"Date": None})
    (PICTURES / "plan.svg").write_text(plan(), "utf-8")


if __name__ == "__main__":
    main()
