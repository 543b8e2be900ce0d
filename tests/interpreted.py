"""Fixtures that keep aggregates from being compiled, where a test is about something else.

To compile a structure for an aggregate takes 1 s of CPU, a tree 5 s. The code is the same Python either way.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from sash.engine import eager_aggregate
from sash.kernels.jit.compile import NotCompiled
from sash.kernels.loops import aggregate_kernel, live_kernel, lowering_kernel


def refuse(*_: Any) -> Any:
    """In the place of what compiles."""
    raise NotCompiled("the test says so")


def interpret_lanes(patch: pytest.MonkeyPatch) -> None:
    """Structures of operators as objects: to compile them for each of some fifty aggregates would take many minutes."""
    patch.setattr(live_kernel.LiveKernel, "_compile", refuse)
    patch.setattr(live_kernel, "warn_once", lambda *_: None)
    patch.setattr(lowering_kernel, "machine_code", refuse)


@pytest.fixture
def interpreted_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Aggregates of queries, interpreted."""
    interpret_lanes(monkeypatch)


@pytest.fixture(scope="module", params=["interpreted", pytest.param("compiled", marks=pytest.mark.all_compiled)])
def kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    """Aggregates of queries, interpreted; under `all_compiled` also compiled."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "interpreted":
            interpret_lanes(patch)
        yield


@pytest.fixture
def interpreted_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees of eager queries as objects: to compile them for each of some fifty aggregates would take many minutes."""
    monkeypatch.setattr(eager_aggregate, "machine_code", refuse)
    monkeypatch.setattr(eager_aggregate, "warn_once", lambda *_: None)


@pytest.fixture(params=["interpreted", pytest.param("compiled", marks=pytest.mark.all_compiled)])
def column_aggregates(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Aggregates without a column kernel, interpreted on whole columns; under `all_compiled` also compiled."""
    if request.param == "interpreted":
        monkeypatch.setattr(aggregate_kernel.AggregateKernel, "_compile", refuse)
        monkeypatch.setattr(aggregate_kernel, "warn_once", lambda *_: None)
