"""Helpers for the tests of FlatFAT."""

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
    """The number of elements that fit into its tree."""
    return 1 << window.height
