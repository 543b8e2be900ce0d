"""Any and all of booleans; and, or, exclusive or of the bits of integers.

Without input the result is null, not the neutral value (False for any, -1 for bit_and): in a loop the state is then
None; on columns, where the loops count values, it is the neutral value. Integers have any size in a loop and 64 bits in
a column, two's complement with an infinite sign: both give the same bits.
"""

from __future__ import annotations

from typing import Any as Anything
from typing import ClassVar

from sash.monoids.algebra import Kind, Monoid
from sash.monoids.exact_integer import one_kind


class _Truth(Monoid):
    """The base of any and all: one of the two truth values decides."""

    domain = ("bool",)
    commutative = True
    selective = True
    exact = True
    decisive: ClassVar[bool]

    def __init__(self, identity: Anything = None) -> None:
        self.identity = identity

    def typed(self, *kinds: Kind) -> Monoid:
        kind = one_kind(self, kinds)
        if kind != "bool":
            raise TypeError(f"{self.name} reads booleans; got a column of kind {kind!r}: compare it first")
        return type(self)(not self.decisive)

    def lift(self, x: Anything) -> Anything:
        return bool(x)

    def picks_right(self, a: Anything, b: Anything) -> bool:
        if a is None:
            return True
        if b is None:
            return False
        return bool(b == self.decisive and a != self.decisive)

    def combine(self, a: Anything, b: Anything) -> Anything:
        return b if self.picks_right(a, b) else a

    def lower(self, a: Anything) -> Anything:
        return a


class Any(_Truth):
    """Is any value true? See `sash.any`. Columns must be boolean; in a loop values are converted with `bool`."""

    decisive = True


class All(_Truth):
    """Are all values true? See `sash.all`. Columns must be boolean; in a loop values are converted with `bool`."""

    decisive = False


def _refuse_floats(monoid: Monoid, kinds: tuple[Kind, ...]) -> None:
    if one_kind(monoid, kinds) == "float":
        raise TypeError(f"{monoid.name} reads integers; got a column of kind 'float', which has no bits to combine")


class _Bits(Monoid):
    """The base of bit_and and bit_or. Booleans count as 0 and 1."""

    domain = ("int",)
    commutative = True
    exact = True
    neutral: ClassVar[int]

    def __init__(self, identity: Anything = None) -> None:
        self.identity = identity

    def typed(self, *kinds: Kind) -> Monoid:
        _refuse_floats(self, kinds)
        return type(self)(self.neutral)

    def lift(self, x: Anything) -> Anything:
        return x | 0  # a bool becomes an int, a float or text is refused

    def lower(self, a: Anything) -> Anything:
        return a


class BitAnd(_Bits):
    """The bits that are set in all values; see `sash.bit_and`."""

    neutral = -1

    def combine(self, a: Anything, b: Anything) -> Anything:
        if a is None:
            return b
        if b is None:
            return a
        return a & b


class BitOr(_Bits):
    """The bits that are set in any value; see `sash.bit_or`."""

    neutral = 0

    def combine(self, a: Anything, b: Anything) -> Anything:
        if a is None:
            return b
        if b is None:
            return a
        return a | b


class BitXor(Monoid):
    """The bits that are set in an odd number of values; see `sash.bit_xor`. Booleans count as 0 and 1.

    The state is (number of values, bits): the bits alone are the same for no values and two equal ones.
    """

    identity: Anything = (0, 0)
    domain = ("int",)
    commutative = True
    exact = True

    def typed(self, *kinds: Kind) -> Monoid:
        _refuse_floats(self, kinds)
        return self

    def lift(self, x: Anything) -> Anything:
        return (1, x | 0)

    def combine(self, a: Anything, b: Anything) -> Anything:
        return (a[0] + b[0], a[1] ^ b[1])

    def inverse(self, total: Anything, oldest: Anything) -> Anything:
        return (total[0] - oldest[0], total[1] ^ oldest[1])

    def lower(self, a: Anything) -> Anything:
        return a[1] if a[0] else None
