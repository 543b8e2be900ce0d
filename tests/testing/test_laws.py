"""`check_laws` reports the law that a monoid breaks, and passes correct monoids."""

import json
import math
import operator
import pickle
from typing import Any

import pytest

import sash
from sash.monoids.algebra import Monoid
from sash.monoids.collect import Collect
from sash.monoids.direct_product import DirectProduct
from sash.monoids.extremes import ArgMax, Max
from sash.monoids.logic import Any as AnyOf
from sash.monoids.sums import Count, Sum
from sash.testing import LawError, Report, check_laws


def add(a: Any, b: Any) -> Any:
    return a + b


def sub(a: Any, b: Any) -> Any:
    return a - b


def total(**changes: Any) -> Monoid:
    """The sum, but for what is changed."""
    parts: dict[str, Any] = {"identity": 0, "combine": add, "exact": True}
    return sash.monoid(**(parts | changes))


def finds(law: str, monoid: Monoid, values: list[Any]) -> str:
    """The counter-example, which must be of this law."""
    with pytest.raises(LawError, match=f"^{law}: ") as caught:
        check_laws(monoid, values)
    return str(caught.value)


INTS = [3, 1, 4, 1, 5]


# ---- what is wrong ----


def test_not_associative() -> None:
    mean = sash.monoid(identity=None, combine=lambda a, b: b if a is None else a if b is None else (a + b) / 2)
    said = finds("associative", mean, [1.0, 2.0, 4.0])
    assert said.startswith("associative: combine(combine(")
    assert "does not hold" in said


def test_associative_only_within_a_tolerance() -> None:
    finds("associative", total(identity=0.0), [0.1, 0.2, 0.3])
    check_laws(total(identity=0.0, exact=False), [0.1, 0.2, 0.3])
    finds("associative", total(identity=0.0, exact=False), [0.1, 1e16, -1e16])


@pytest.mark.parametrize("identity", [1, -1, 0.5])
def test_a_wrong_identity(identity: Any) -> None:
    assert f"combine({identity!r}, " in finds("identity", total(identity=identity), INTS)


def test_an_identity_on_one_side_only() -> None:
    finds("identity", sash.monoid(identity=0, combine=lambda a, _b: a), INTS)
    finds("identity", sash.monoid(identity=0, combine=lambda _a, b: b), INTS)


def test_the_minimum_without_infinity() -> None:
    finds("identity", sash.monoid(identity=0, combine=min), INTS)


def test_not_commutative() -> None:
    join = sash.monoid(identity="", combine=operator.add, exact=True, commutative=True)
    assert finds("commutative", join, ["a", "b"]) in {
        "commutative: combine('a', 'b') == combine('b', 'a') does not hold: 'ab' and 'ba'",
        "commutative: combine('b', 'a') == combine('a', 'b') does not hold: 'ba' and 'ab'",
    }


def test_not_selective() -> None:
    finds("selective", total(selective=True), INTS)


def test_picks_right_names_the_other_operand() -> None:
    largest = sash.monoid(identity=-(2**63), combine=max, selective=True, picks_right=lambda a, b: a > b)
    assert "the operand that picks_right names" in finds("selective", largest, INTS)


def test_floats_are_not_undone_by_subtraction() -> None:
    finds("inverse", total(identity=0.0, exact=False, inverse=sub), [0.1, 0.2, 0.3])
    finds("inverse", total(identity=0.0, exact=False, inverse=sub), [1e16, 1.0])


def test_an_inverse_that_takes_off_the_youngest() -> None:
    from_the_wrong_end = sash.monoid(
        identity=(), lift=lambda x: (x,), combine=operator.add, inverse=lambda t, a: t[: len(t) - len(a)], exact=True
    )
    finds("inverse", from_the_wrong_end, INTS)


def extended(a: list[Any], b: list[Any]) -> list[Any]:
    a.extend(b)
    return a


def united(a: set[Any], b: set[Any]) -> set[Any]:
    b |= a
    return b


@pytest.mark.parametrize(
    ("identity", "lift", "combine"),
    [([], lambda x: [x], extended), (set(), lambda x: {x}, united)],
    ids=["the left one", "the right one"],
)
def test_a_combine_that_changes_its_operand(identity: Any, lift: Any, combine: Any) -> None:
    finds("unchanged", sash.monoid(identity=identity, lift=lift, combine=combine), INTS)


def test_a_lower_that_changes_its_argument() -> None:
    def middle(a: list[Any]) -> Any:
        a.sort()
        return a[len(a) // 2] if a else None

    finds("unchanged", sash.monoid(identity=[], lift=lambda x: [x], combine=operator.add, lower=middle), [3, 1, 2])


def test_states_that_do_not_come_back() -> None:
    said = finds("dump, load", total(dump=lambda a: b"%d" % a, load=lambda data: int(data) + 1), INTS)
    assert said.startswith("dump, load: load(dump(")


def test_a_type_that_does_not_come_back() -> None:
    """A set becomes a list in JSON."""
    union = sash.monoid(
        identity=frozenset(),
        lift=lambda x: frozenset({x}),
        combine=operator.or_,
        dump=lambda a: json.dumps(sorted(a)).encode(),
        load=json.loads,
    )
    finds("dump, load", union, INTS)


def test_a_dump_that_is_not_bytes() -> None:
    assert "not bytes" in finds("dump, load", total(dump=str, load=int), INTS)


def test_a_lift_that_raises() -> None:
    logs = sash.monoid(identity=0.0, lift=math.log, combine=add)
    with pytest.raises(LawError, match=r"^lift\(0\.0\) raised ValueError: .*lift must take every value") as caught:
        check_laws(logs, [1.0, 0.0])
    assert isinstance(caught.value.__cause__, ValueError)


# ---- what is wrong only when compiled ----


def test_integers_that_wrap() -> None:
    said = finds("compiled", total(), [2**62, 2**62])
    assert "combine of" in said
    assert f"gives {-(2**63)} compiled and {2**63} interpreted" in said


def test_a_lift_that_wraps() -> None:
    assert "lift of" in finds("compiled", total(lift=lambda x: x * x), [2**40, 1])


def test_a_result_that_differs() -> None:
    """Python raises where the machine gives nan."""

    def root_of(a: float) -> float:
        return math.sqrt(a)

    root = total(identity=0.0, exact=False, lower=root_of)
    assert "lower of" in finds("compiled", root, [1.0, -4.0])


def test_a_result_that_differs_only_for_aggregates() -> None:
    squared = total(lower=lambda a: a * a)
    assert "lower of" in finds("compiled", squared, [2**31, 2**31 - 1, 2**31])


class Halves(Monoid):
    """In a loop a sum; on columns, by mistake, half of it."""

    identity = 0.0

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def typed(self, *_kinds: str) -> Monoid:
        return Halves(0.5)

    def lift(self, x: float) -> float:
        return x

    def combine(self, a: float, b: float) -> float:
        return a + b

    def lower(self, a: float) -> float:
        return a * self.factor


def test_a_typed_form_with_other_results() -> None:
    finds("typed", Halves(), [1.0, 2.0])


# ---- what is right ----


@pytest.mark.parametrize(
    ("monoid", "values"),
    [
        (total(commutative=True, inverse=sub), INTS),
        (total(identity=0.0, exact=False, commutative=True), [0.1, 0.2, math.nan, math.inf, -math.inf]),
        (sash.monoid(identity=-math.inf, combine=lambda a, b: max(a, b), exact=True), [1.0, -0.0, 0.0]),  # noqa: PLW0108
        (Max(), [1.0, math.nan, -0.0]),
        (Sum(), [0.1, 1e308, 1e308, -1e308]),
        (Sum(), [2**63 - 1, 2**63 - 1]),
        (ArgMax(), [(1.0, 1), (1.0, 2), (math.nan, 3)]),
        (DirectProduct(Max(), Sum()), INTS),
        (Count(), [(1,), (2,)]),
    ],
    ids=repr,
)
def test_lawful_and_compiled(monoid: Monoid, values: list[Any]) -> None:
    report = check_laws(monoid, values)
    assert report.compiled, report.why_not_compiled
    assert report.why_not_compiled == ""
    assert report.laws[-1] == "compiled"


def test_the_report_names_the_laws() -> None:
    assert check_laws(total(), INTS) == Report(("unchanged", "identity", "associative", "compiled"), True)
    everything = total(commutative=True, inverse=sub, dump=pickle.dumps, load=pickle.loads)
    assert set(check_laws(everything, INTS).laws) == {
        "unchanged", "identity", "associative", "commutative", "inverse", "dump, load", "compiled"
    }  # fmt: skip
    assert "selective" in check_laws(Max(), INTS).laws


# ---- whether it was compiled, and why not ----


def why_not(monoid: Monoid, values: list[Any]) -> str:
    report = check_laws(monoid, values)
    assert not report.compiled
    assert "compiled" not in report.laws
    return report.why_not_compiled


def test_text_is_no_column() -> None:
    assert why_not(sash.monoid(identity="", combine=add), ["a", "b"]) == "the values are not columns of numbers"


@pytest.mark.parametrize("values", [[1, 2.0], [True, 1], [2**63], [1, None]])
def test_mixed_values_are_no_column(values: list[Any]) -> None:
    assert why_not(Count(), [(value,) for value in values]) == "the values are not columns of numbers"


def test_a_monoid_that_never_compiles() -> None:
    assert why_not(Collect(), INTS) == Collect().interpreted_only


def test_a_state_that_does_not_fit_in_columns() -> None:
    listed = sash.monoid(identity=(), lift=lambda x: (x,), combine=add)
    assert why_not(listed, INTS)


@pytest.mark.parametrize(
    "lift",
    [lambda x: float(json.loads(f"{x}")), lambda x: float(f"{x:.3e}")],
    ids=["a function", "a bytecode"],
)
def test_what_numba_does_not_know(lift: Any) -> None:
    assert why_not(sash.monoid(identity=0.0, lift=lift, combine=add), [1.0, 2.0])


@pytest.mark.parametrize(("identity", "combine"), [(0.0, operator.add), (-math.inf, max)])
def test_builtin_functions_compile(identity: float, combine: Any) -> None:
    report = check_laws(sash.monoid(identity=identity, combine=combine), [1.0, 2.0])
    assert report.compiled, report.why_not_compiled


def test_kinds_that_a_monoid_does_not_read() -> None:
    assert "any reads booleans" in why_not(AnyOf(), [1, 0])


def test_without_values() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        check_laws(Max(), [])


def test_a_law_error_is_an_assertion() -> None:
    assert issubclass(LawError, AssertionError)
