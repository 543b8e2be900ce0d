"""Cut a stream into partials for windows that slide: Panes, Pairs and Cutty, alone and for many windows together.

    range 5, slide 3        0     1     2     3     4     5     6      one composite slide: the LCM of the slides
    Panes                   ├─────┼─────┼─────┼─────┼─────┼─────┤      gcd(range, slide)
    Pairs                   ├─────┼───────────┼─────┼───────────┤      slide - range % slide, then range % slide
    Cutty                         ├─────────────────┼────────────      where windows start, and nowhere else

From Shein, Chrysanthis, Labrinidis: SlickDeque, EDBT 2018, sections 2.1 and 2.3. Windows end at multiples of their
slide, counted from their offset. Several windows are cut at the edges of all of them; equal edges count once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from sash.plan.bound_query import WindowSpec

Technique = Literal["Panes", "Pairs", "Cutty"]
TECHNIQUES: tuple[Technique, ...] = ("Panes", "Pairs", "Cutty")

WHY_PAIRS = "a call folds all its rows into partials before it answers slides, so no partial may go on across an end"
"""Why the engine does not cut at starts alone: Cutty reads the open partial at the moment a window ends."""

WHY_SAME = "cuts at the starts of windows alone would be as many"


class EdgeGrid(NamedTuple):
    """Edges at equal distances: the step, and the least edge that is not negative."""

    step: Fraction
    first: Fraction

    @classmethod
    def through(cls, edge: Fraction, step: Fraction) -> EdgeGrid:
        """The grid with one of its edges."""
        return cls(step, edge % step)

    def lies_on(self, other: EdgeGrid) -> bool:
        """Is every edge of this grid an edge of the other?"""
        return not self.step % other.step and self.first % other.step == other.first

    def until(self, stop: Fraction) -> set[Fraction]:
        """The edges in [0, stop), which is a multiple of the step."""
        return {self.first + k * self.step for k in range(int(stop / self.step))}


@dataclass(frozen=True)
class SlidingRange:
    """A range of a stream and its slide, in the same units, which may be fractions."""

    size: Fraction
    every: Fraction
    offset: Fraction = Fraction(0)

    @property
    def rest(self) -> Fraction:
        """How far a window reaches into its oldest slide: the second fragment of Pairs."""
        return self.size % self.every

    @property
    def pane(self) -> Fraction:
        """The length of a pane: the greatest that divides both range and slide."""
        unit = self.size.denominator * self.every.denominator // gcd(self.size.denominator, self.every.denominator)
        return Fraction(gcd(int(self.size * unit), int(self.every * unit)), unit)

    @property
    def ends(self) -> EdgeGrid:
        """Where windows end."""
        return EdgeGrid.through(self.offset, self.every)

    @property
    def starts(self) -> EdgeGrid:
        """Where windows start."""
        return EdgeGrid.through(self.offset - self.size, self.every)

    def edges(self, technique: Technique, until: Fraction) -> set[Fraction]:
        """The edges in [0, until), for a multiple of the slide."""
        if technique == "Panes":
            return EdgeGrid.through(self.offset, self.pane).until(until)
        starts = self.starts.until(until)
        return starts if technique == "Cutty" else starts | self.ends.until(until)


def composite_slide(ranges: Iterable[SlidingRange]) -> Fraction:
    """The length after which the edges of all windows repeat: the least common multiple of their slides.

    >>> composite_slide([SlidingRange(Fraction(6), Fraction(2)), SlidingRange(Fraction(8), Fraction(4))])
    Fraction(4, 1)
    """
    slides = [one.every for one in ranges]
    unit = lcm(*(slide.denominator for slide in slides))
    return Fraction(lcm(*(int(slide * unit) for slide in slides)), unit)


def composite_edges(ranges: Sequence[SlidingRange], technique: Technique) -> list[Fraction]:
    """The edges of one composite slide, from 0: its partials begin there.

    >>> list(map(int, composite_edges([SlidingRange(Fraction(5), Fraction(3))], "Pairs")))
    [0, 1]
    """
    until = composite_slide(ranges)
    return sorted({edge for one in ranges for edge in one.edges(technique, until)})


MOST_SLIDES = 1 << 16
"""The greatest number of slides in a composite slide whose edges are counted: beyond it, rates are added up."""


def partials_per_unit(ranges: Sequence[SlidingRange], technique: Technique) -> Fraction:
    """The average number of partials per unit of the stream; an upper bound if edges hardly ever coincide."""
    until = composite_slide(ranges)
    if sum(until / (one.pane if technique == "Panes" else one.every) for one in ranges) > MOST_SLIDES:
        return sum((_alone(one, technique) for one in ranges), Fraction(0))
    return len(composite_edges(ranges, technique)) / until


def _alone(one: SlidingRange, technique: Technique) -> Fraction:
    if technique == "Panes":
        return 1 / one.pane
    return (2 if technique == "Pairs" and one.rest else 1) / one.every


@dataclass(frozen=True)
class Slicing:
    """How a group of windows is cut, and why; `rates` has the partials per unit of each technique."""

    technique: Technique
    why: str
    rates: dict[Technique, Fraction]

    @property
    def rate(self) -> Fraction:
        """Partials per unit of time, or per row."""
        return self.rates[self.technique]


def slicing_of(specs: Sequence[WindowSpec]) -> Slicing | None:
    """How the windows of a group of panes are cut; None for slides that follow a calendar.

    The engine cuts where any window starts or ends: the edges of Pairs.
    """
    if any(spec.grid is not None for spec in specs):
        return None
    ranges = [sliding_range(spec) for spec in specs]
    rates = {technique: partials_per_unit(ranges, technique) for technique in TECHNIQUES}
    return Slicing("Pairs", WHY_SAME if rates["Cutty"] == rates["Pairs"] else WHY_PAIRS, rates)


def sliding_range(spec: WindowSpec) -> SlidingRange:
    """The range and slide of a window, in units of its axis or in rows."""
    return SlidingRange(Fraction(spec.size or 1), Fraction(spec.every or 1), Fraction(spec.offset))
