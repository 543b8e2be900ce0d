"""DABA step by step: the pointers of a known trace, and the phases they go through."""

from itertools import pairwise

import pytest

from sash.aggregators import DABA
from sash.monoids.extremes import Max

Pointers = tuple[int, int, int, int, int, int]


def pointers(window: DABA) -> Pointers:
    return window.F, window.L, window.R, window.A, window.B, window.E


def phase(before: Pointers, after: Pointers) -> str:
    """The step that `fixup` took, inferred from the pointers that moved.

    shrink              L up, A down, R and B stay
    free ride           L, R and A up, B stays
    flip and shrink     B moves up to the end; of the new [L, R) and [R, A) the outer elements are taken
    restart             all four at the end
    """
    _, l0, r0, a0, b0, _ = before
    F, L, R, A, B, E = after
    if L == R == A == B == E:
        return "restart"
    if b0 == B:
        moves = {(1, 0, -1): "shrink", (1, 1, 1): "free ride"}
        return moves[L - l0, R - r0, A - a0]
    assert (F + 1, b0, E - 1, E) == (L, R, A, B)
    return "flip and shrink"


def test_the_phases_of_a_window_that_grows_from_nothing() -> None:
    window = DABA(Max())
    trace = [pointers(window)]
    for x in range(6):
        window.insert(x)
        trace.append(pointers(window))
    phases = [phase(before, after) for before, after in pairwise(trace)]
    assert phases[:2] == ["restart", "flip and shrink"]
    assert "restart" not in phases[1:]


def test_a_flip_finds_the_four_inner_pointers_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that `flip` need not set R."""
    seen = []
    flip = DABA.flip

    def watched(window: DABA) -> None:
        seen.append({window.L, window.R, window.A, window.B})
        flip(window)

    monkeypatch.setattr(DABA, "flip", watched)
    window = DABA(Max())
    for x in range(400):
        window.insert(x)
        if x % 3:
            window.evict()
    assert len(seen) > 5
    assert all(len(four) == 1 for four in seen)
