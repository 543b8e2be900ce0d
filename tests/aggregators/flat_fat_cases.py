"""What the tests of FlatFAT share."""

from typing import Any

from sash.aggregators import FlatFAT
from tests.conformance.machines import JOIN


def window_of(values: Any, monoid: Any = JOIN) -> FlatFAT:
    """A window into which the values were inserted."""
    window = FlatFAT(monoid)
    for value in values:
        window.insert(value)
    return window


def leaves(window: FlatFAT) -> int:
    """How many elements its tree has room for."""
    return 1 << window.height
