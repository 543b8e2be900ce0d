"""Timing on a shared, noisy machine: all contestants in turn, several times over, the best of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Name = TypeVar("Name", bound=Hashable)


def best_of(
    contestants: dict[Name, Callable[[], object]],
    repeats: int = 5,
    seconds: float = 2.0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[Name, float]:
    """The least seconds each contestant took, interleaved; one that has had `seconds` in all is not run again.

    `clock`: `time.process_time` counts the time of all threads, without that of other processes.
    """
    best = dict.fromkeys(contestants, float("inf"))
    spent = dict.fromkeys(contestants, 0.0)
    for _ in range(repeats):
        for name, run in contestants.items():
            if spent[name] < seconds:
                began = clock()
                run()
                took = clock() - began
                spent[name] += took
                best[name] = min(best[name], took)
    return best


def each_call(process: Callable[[Any], object], batches: Iterable[Any]) -> NDArray[np.float64]:
    """Microseconds of each call: of processor time (the first row), which does not count other processes, and of wall
    time (the second)."""
    found = []
    for batch in batches:
        began, cpu = time.perf_counter(), time.process_time()
        process(batch)
        cpu = time.process_time() - cpu
        found.append((cpu, time.perf_counter() - began))
    return np.array(found).reshape(-1, 2).T * 1e6
