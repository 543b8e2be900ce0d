"""The contestants: every structure of the catalogue, with every aggregate that it accepts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import best_of
from sash.aggregators.catalogue import IN_ORDER, Record
from sash.kernels import steady
from sash.kernels.jit.compile import machine_code
from sash.kernels.jit.numba_struct import StructSpec
from sash.monoids.algebra import Monoid

LARGEST_FOLD = 2**23
"""Combines that Recalc may take for one figure: it makes a window's worth of them every round."""


def admitted(monoid: Monoid) -> list[Record]:
    """The structures that a monoid has the properties for."""
    return [record for record in IN_ORDER.values() if all(getattr(monoid, need) for need in record.needs)]


def values(length: int) -> dict[str, NDArray[Any]]:
    """Random columns, of floats and of ints."""
    chance = np.random.default_rng(7)
    return {"float": chance.random(length) + 0.5, "int": chance.integers(-(10**9), 10**9, length)}


@dataclass(frozen=True)
class Rounds:
    """Rounds on a full window to time: the whole run, the filling of the window alone, and how many rounds."""

    run: Callable[[], object]
    fill: Callable[[], object]
    count: int


def full_rounds(record: Record, monoid: Monoid, columns: tuple[NDArray[Any], ...], window: int, rounds: int) -> Rounds:
    """Rounds of evict, insert, query on a full window, compiled."""
    rounds = max(rounds, 4 * window)
    if record.name == "Recalc":
        rounds = max(8, min(rounds, LARGEST_FOLD // window))
    part, filling = (tuple(column[: window + n] for column in columns) for n in (rounds, 1))
    fill = functools.partial(steady, record.cls, monoid, filling, window)
    fill()  # compiles
    return Rounds(functools.partial(steady, record.cls, monoid, part, window), fill, rounds)


def seconds_a_round(runs: dict[str, Rounds], repeats: int = 5, seconds: float = 2.0) -> dict[str, float]:
    """Seconds a round of each contestant: what the run takes beyond the filling of the window."""
    timed = {(name, part): getattr(rounds, part) for name, rounds in runs.items() for part in ("run", "fill")}
    best = best_of(timed, repeats, seconds)
    return {name: (best[name, "run"] - best[name, "fill"]) / rounds.count for name, rounds in runs.items()}


def run_kernel(kernel: Any, spec: StructSpec, *arguments: Any) -> Any:
    """Run a loop of a benchmark's own, compiled like those of `sash.kernels.loops.structure_loops`."""
    return machine_code(kernel, spec.compiled_as, (spec, *arguments))(spec, *arguments)


def in_a_loop(
    record: Record, monoid: Monoid, rows: list[tuple[Any, ...]], window: int, rounds: int
) -> Callable[[], None]:
    """The same on Python objects, one call an operation."""
    running = record.cls(monoid)
    for row in rows[:window]:
        running.insert(*row)
    supply = rows[window : window + rounds]

    def run() -> None:
        for row in supply:
            running.evict()
            running.insert(*row)
            running.query()

    return run
