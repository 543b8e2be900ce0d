"""Fixtures that keep aggregates from being compiled, where a test is about something else.

To compile a structure for an aggregate takes 1 s of CPU, a tree 5 s. The code is the same Python either way.
"""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from sash.engine.keyed import row_assigner
from sash.kernels.jit import compile as compiler
from sash.kernels.jit.compile import NotCompiled
from sash.kernels.loops import bound_kernel
from sash.kernels.loops.eager_trees import turn_trees
from sash.kernels.loops.live_loops import (
    enforce_slots,
    fold_panes,
    fold_running,
    lift_elements,
    lower_states,
    slide_sizes,
    slide_slots,
)
from sash.kernels.loops.structure_loops import lift_rows, slide_ranges
from tests.shared.effort import PROFILE, THOROUGH

SWITCHED_OFF = {} if THOROUGH else {"NUMBA_DISABLE_JIT": "1"}
"""For the environment of programs and of Spark's workers, which `make test` does not let compile."""


QUICK = PROFILE == "quick"


def switch_off(patch: pytest.MonkeyPatch) -> None:
    """Compile nothing in this process, as if NUMBA_DISABLE_JIT were set; modules are still imported as ever."""
    patch.setattr(compiler, "config", SimpleNamespace(DISABLE_JIT=1))


def refuse(patch: pytest.MonkeyPatch, *loops: Any) -> None:
    """Do not compile these loops of aggregates, and do not warn of it."""
    compiled = bound_kernel.machine_code

    def machine_code(loop: Any, meaning: Any, arguments: Any) -> Any:
        if loop in loops:
            raise NotCompiled("the test says so")
        return compiled(loop, meaning, arguments)

    patch.setattr(bound_kernel, "machine_code", machine_code)
    patch.setattr(bound_kernel, "warn_once", lambda *_: None)


def interpret_kernels(patch: pytest.MonkeyPatch) -> None:
    """Structures of operators as objects: to compile them for each of some fifty aggregates would take many minutes."""
    refuse(patch, slide_slots, slide_sizes, fold_panes, fold_running, lift_elements, lower_states, enforce_slots)
    patch.setattr(row_assigner, "warn_once", lambda *_: None)


def interpret_trees(patch: pytest.MonkeyPatch) -> None:
    """Trees of eager queries as objects."""
    refuse(patch, turn_trees)


def interpret_columns(patch: pytest.MonkeyPatch) -> None:
    """Aggregates without a column kernel, interpreted on whole columns."""
    refuse(patch, lift_rows, slide_ranges)


@pytest.fixture(autouse=True)
def _interpreted_unless_compiled(request: pytest.FixtureRequest) -> Iterator[None]:
    """Under `make test` aggregates of queries run interpreted, except in tests with the mark `compiled`."""
    with pytest.MonkeyPatch.context() as patch:
        if QUICK and request.node.get_closest_marker("compiled") is None:
            interpret_kernels(patch)
            interpret_trees(patch)
            interpret_columns(patch)
        yield


@pytest.fixture
def interpreted_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Aggregates of queries, interpreted."""
    interpret_kernels(monkeypatch)


@pytest.fixture(scope="module", params=["interpreted", pytest.param("compiled", marks=pytest.mark.all_compiled)])
def kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    """Aggregates of queries, interpreted; under `all_compiled` also compiled."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "interpreted":
            interpret_kernels(patch)
        yield


@pytest.fixture
def interpreted_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees of eager queries as objects: to compile them for each of some fifty aggregates would take many minutes."""
    interpret_trees(monkeypatch)


@pytest.fixture(params=["interpreted", pytest.param("compiled", marks=pytest.mark.all_compiled)])
def column_aggregates(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Aggregates without a column kernel, interpreted on whole columns; under `all_compiled` also compiled."""
    if request.param == "interpreted":
        interpret_columns(monkeypatch)
    return str(request.param)
