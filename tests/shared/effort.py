"""How much a run tests: `make test` a share of the rounds and pairs, `make test-all` all of them.

SASH_HYPOTHESIS names the profile: `quick` is that of `make test`, `thorough` that of `make test-all`, and `checked`
that of its second part, in which kernels check their indices.
"""

import os
from typing import Any

import pytest

PROFILE = os.environ.get("SASH_HYPOTHESIS", "quick")
THOROUGH = PROFILE == "thorough"


def share(count: int) -> int:
    """This many rounds under `make test-all`; a fifth of them under `make test`, with the same draws each time."""
    return max(1, count // 5) if PROFILE == "quick" else count


def seldom(*values: Any, unless: bool = False, id: str | None = None) -> Any:  # noqa: A002 (as pytest names it)
    """A parameter for `make test-all` alone; for each run if `unless` is true."""
    return pytest.param(*values, id=id, marks=() if unless or PROFILE == "checked" else pytest.mark.all_compiled)


def in_turn(first: Any, second: Any) -> list[Any]:
    """All pairs of two lists of names, for `parametrize`: under `make test` each name of `first` with one of `second`.

    Those of `second` take turns, so that each of them occurs if `first` is not the shorter one.
    """
    second = list(second)
    return [
        seldom(one, other, unless=number % len(second) == place, id=f"{one}-{other}")
        for number, one in enumerate(first)
        for place, other in enumerate(second)
    ]
