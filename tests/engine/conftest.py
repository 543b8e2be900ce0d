"""What tests of the engine share."""

from typing import Any

import pytest

from sash.engine import eager_aggregate
from sash.kernels.machine import NotCompiled


@pytest.fixture(scope="module")
def interpreted_trees() -> Any:
    """Trees of eager queries as objects: to compile them for each of some fifty aggregates would take many minutes."""

    def refuse(*_: Any) -> Any:
        raise NotCompiled("the test says so")

    patch = pytest.MonkeyPatch()
    patch.setattr(eager_aggregate, "machine_code", refuse)
    patch.setattr(eager_aggregate, "warn_once", lambda *_: None)
    yield
    patch.undo()
