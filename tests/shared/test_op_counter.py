"""`OpCounter` counts calls, and otherwise behaves as the monoid that it wraps."""

import pytest

from sash.aggregators import DABA, SubtractOnEvict
from sash.aggregators.base import require
from sash.monoids.algebra import Monoid
from sash.monoids.collect import Collect
from sash.monoids.direct_product import DirectProduct
from sash.monoids.extremes import ArgMax, Max
from sash.monoids.op_counter import OpCounter
from sash.monoids.sums import Count, Sum
from sash.testing import check_laws


def test_combine_counts() -> None:
    counted = OpCounter(Sum())
    assert counted.calls == 0
    assert counted.combine(1, 2) == 3
    assert counted.calls == 1


def test_the_inverse_counts() -> None:
    counted = OpCounter(Sum())
    assert counted.inverse is not None
    assert counted.inverse(5, 2) == 3
    assert counted.taken() == 1


def test_to_ask_which_operand_counts() -> None:
    counted = OpCounter(Max())
    assert counted.picks_right(1, 2)
    assert not counted.picks_right(2, 1)
    assert counted.taken() == 2


def test_lift_and_lower_do_not_count() -> None:
    counted = OpCounter(Collect())
    assert counted.lower(counted.lift(3)) == [3]
    assert counted.lifted((None,)) == ()
    assert counted.taken() == 0


def test_taken_restarts_the_count() -> None:
    counted = OpCounter(Max())
    counted.combine(1, 2)
    assert [counted.taken(), counted.taken()] == [1, 0]


@pytest.mark.parametrize("monoid", [Max(), Sum(), Count(), Collect(), ArgMax(), DirectProduct(ArgMax(), Count())])
def test_it_declares_what_the_other_declares(monoid: Monoid) -> None:
    counted = OpCounter(monoid)
    for name in ("identity", "empty", "commutative", "selective", "exact", "declares_empty", "arity"):
        assert getattr(counted, name) == getattr(monoid, name), name
    assert (counted.inverse is None) == (monoid.inverse is None)


def test_a_missing_property_stays_missing() -> None:
    with pytest.raises(TypeError, match="'inverse'"):
        require(SubtractOnEvict, OpCounter(Max()))


def test_several_inputs() -> None:
    window = DABA(OpCounter(DirectProduct(ArgMax(), Count())))
    window.insert((3, "a"))
    window.insert(1, "b")
    assert window.query() == ("a", 2)


def test_it_keeps_the_laws_and_never_compiles() -> None:
    report = check_laws(OpCounter(Max()), [1, 2, 3])
    assert not report.compiled
    assert report.why_not_compiled == "it counts its calls in Python"
