"""How much a run takes on: `make test` a share of the examples, `make test-all` all of them."""

import os
from typing import Any

import pytest

THOROUGH = os.environ.get("SASH_HYPOTHESIS") == "thorough"
"""Is this `make test-all`?"""


def share(count: int) -> int:
    """So many rounds under `make test-all`; two fifths of them under `make test`, which draws the same each time."""
    return count if THOROUGH else count * 2 // 5


def seldom(*values: Any, unless: bool = False, id: str | None = None) -> Any:  # noqa: A002 (as pytest names it)
    """A parameter for `make test-all` alone; for each run if `unless` says so."""
    return pytest.param(*values, id=id, marks=() if unless else pytest.mark.all_compiled)


def in_turn(first: Any, second: Any) -> list[Any]:
    """All pairs of two lists of names, for `parametrize`: under `make test` each name of `first` with one of `second`.

    Those of `second` take turns, so that each of them is met if `first` is not the shorter one.
    """
    second = list(second)
    return [
        seldom(one, other, unless=number % len(second) == place, id=f"{one}-{other}")
        for number, one in enumerate(first)
        for place, other in enumerate(second)
    ]
