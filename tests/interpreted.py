"""Fixtures that keep aggregates from being compiled, where a test is about something else.

To compile a structure for an aggregate takes 1 s of CPU, a tree 5 s. The code is the same Python either way.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from sash.kernels.jit.compile import NotCompiled
from sash.kernels.loops import aggregate_kernel, columnar, eager_kernel, live_kernel, lowering_kernel


def refuse(*_: Any) -> Any:
    """In the place of what compiles."""
    raise NotCompiled("the test says so")


def interpret_kernels(patch: pytest.MonkeyPatch) -> None:
    """Structures of operators as objects: to compile them for each of some fifty aggregates would take many minutes."""
    patch.setattr(live_kernel.LiveKernel, "compile_loops", refuse)
    patch.setattr(columnar, "warn_once", lambda *_: None)
    patch.setattr(lowering_kernel, "machine_code", refuse)


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
    monkeypatch.setattr(eager_kernel, "machine_code", refuse)
    monkeypatch.setattr(columnar, "warn_once", lambda *_: None)


@pytest.fixture(params=["interpreted", pytest.param("compiled", marks=pytest.mark.all_compiled)])
def column_aggregates(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Aggregates without a column kernel, interpreted on whole columns; under `all_compiled` also compiled."""
    if request.param == "interpreted":
        monkeypatch.setattr(aggregate_kernel.AggregateKernel, "compile_loops", refuse)
        monkeypatch.setattr(columnar, "warn_once", lambda *_: None)
    return str(request.param)
