"""Exact products in compiled code: a fused multiply-add computes the rounding error of a product in one instruction.

Interpreted, and on processors without it, the same takes some 16 operations (`two_product` of
`sash.monoids.double_double`).
"""

from __future__ import annotations

from typing import Any

from numba import njit
from numba.core import types
from numba.extending import intrinsic


@intrinsic
def _fused(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once."""
    float64 = types.float64

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return float64(float64, float64, float64), build


@njit(forceinline=True)
def two_product(a: Any, b: Any) -> Any:
    """The exact product a * b: the rounded product and its rounding error."""
    p = a * b
    return p, _fused(a, b, -p)


@njit(forceinline=True)
def two_square(a: Any) -> Any:
    """The exact square a * a."""
    p = a * a
    return p, _fused(a, a, -p)
