"""Who runs: every structure of the catalogue, on every aggregate it admits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.aggregators.catalogue import IN_ORDER, Record
from sash.kernels import steady
from sash.kernels.machine import machine_code
from sash.kernels.state import Spec
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


def full_rounds(
    record: Record, monoid: Monoid, columns: tuple[NDArray[Any], ...], window: int, rounds: int
) -> tuple[Callable[[], object], int]:
    """Rounds of evict, insert, query on a full window, compiled: what to time, and how many rounds that is."""
    rounds = max(rounds, 4 * window)  # so that filling the window does not count
    if record.name == "Recalc":
        rounds = max(8, min(rounds, LARGEST_FOLD // window))
    part = tuple(column[: window + rounds] for column in columns)
    steady(record.cls, monoid, tuple(column[: window + 1] for column in columns), window)
    return lambda: steady(record.cls, monoid, part, window), rounds


def run_kernel(kernel: Any, spec: Spec, *arguments: Any) -> Any:
    """Run a loop of a benchmark's own, compiled like those of `sash.kernels.drive`."""
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
