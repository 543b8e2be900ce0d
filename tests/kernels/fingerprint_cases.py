"""Aggregates whose fingerprints are tested: sums of the results of a function."""

from collections.abc import Callable
from typing import Any

import numpy as np

import sash
from sash.aggregators import Recalc
from sash.kernels import slide
from sash.kernels.jit.code_fingerprint import fingerprint
from sash.monoids import Monoid


def add(a: Any, b: Any) -> Any:
    return a + b


def of(lift: Callable[..., Any], **keywords: Any) -> Monoid:
    """The sum of the results of `lift`."""
    return sash.monoid(identity=0.0, lift=lift, combine=add, **keywords)


def key(lift: Callable[..., Any]) -> str:
    return fingerprint(of(lift))


def sums(monoid: Monoid) -> list[Any]:
    """A compiled run, on windows of one row."""
    results = slide(Recalc, monoid, (np.array([1.0, 2.0]),), 1)
    assert results.why_interpreted == ""
    return results.to_list()


def times(k: Any) -> Monoid:
    return of(lambda x: x * k)
