"""The laws of the algebra, as a test: `check_laws(monoid, values)`.

    unchanged     no function changes its arguments
    identity      combine(identity, a) == a == combine(a, identity)
    associative   combine(combine(a, b), c) == combine(a, combine(b, c))
    inverse       inverse(combine(a, b), a) == b, exactly
    commutative   combine(a, b) == combine(b, a)
    selective     combine(a, b) is b if picks_right(a, b) else a
    dump, load    load(dump(a)) == a
    compiled      machine code and Python agree

States are compared by `monoid.same`: exactly if the monoid is declared exact, else floats within 1e-9 of the
largest, or, where the operands cancelled, within `rounding` of the largest operand. Every law is tried on lifted
values and on aggregates of them; where the values are numbers, also on the typed form that runs on columns,
interpreted and compiled, and each against the others.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sash.monoids.algebra import TOLERANCE, Kind, Monoid, agree, agree_within, largest_float

if TYPE_CHECKING:
    from sash.kernels.loops.bound_kernel import BoundKernel

MOST_TRIPLES = 400
"""The greatest number of triples of states to try; all of them if there are fewer."""


class LawError(AssertionError):
    """A law does not hold; the message is the counter-example."""


@dataclass(frozen=True)
class Report:
    """The laws that were checked, by name, and whether compiled as well."""

    laws: tuple[str, ...]
    compiled: bool
    why_not_compiled: str = ""


def check_laws(monoid: Monoid, values: Iterable[Any]) -> Report:
    """Test every law and declared property of a monoid on these inputs (tuples for several inputs).

    >>> import sash
    >>> difference = sash.monoid(identity=0, combine=lambda a, b: a - b)
    >>> check_laws(difference, [1, 2, 3])
    Traceback (most recent call last):
        ...
    sash.testing.laws.LawError: identity: combine(0, 1) == 1 does not hold: -1 and 1

    Raises LawError with the counter-example, ValueError without values.
    """
    several = monoid.arity[0] != 1
    rows = [value if isinstance(value, tuple) and several else (value,) for value in values]
    if not rows:
        raise ValueError("check_laws needs at least one value")
    laws = _check(monoid, rows)
    kinds = _kinds(rows)
    if kinds is None:
        return Report(laws, False, "the values are not columns of numbers")
    return _check_columns(monoid, kinds, rows, laws)


def _kinds(rows: list[tuple[Any, ...]]) -> tuple[Kind, ...] | None:
    """The kinds of the columns of these values, or None if they are not numbers."""
    kinds: list[Kind] = []
    for column in zip(*rows, strict=True):
        names: dict[type, Kind] = {bool: "bool", int: "int", float: "float"}
        found = {names.get(type(value)) for value in column}
        kind = found.pop()
        if found or kind is None:
            return None
        if kind == "int" and not all(-(2**63) <= value < 2**63 for value in column):
            return None
        kinds.append(kind)
    return tuple(kinds)


# ---- interpreted ----


def _check(monoid: Monoid, rows: list[tuple[Any, ...]]) -> tuple[str, ...]:
    """Every law on the states of these rows; the names of those checked."""
    states = _states(monoid, rows)
    pairs = [(a, b) for a, b, _ in _triples(states)]
    checked: dict[str, Callable[[], None]] = {
        "unchanged": lambda: _unchanged(monoid, states),  # first: it explains failures of the others
        "identity": lambda: _identity(monoid, states),
        "associative": lambda: _associative(monoid, states),
    }
    if monoid.commutative:
        checked["commutative"] = lambda: _commutative(monoid, pairs)
    if monoid.inverse is not None:
        checked["inverse"] = lambda: _inverse(monoid, pairs)
    if monoid.selective:
        checked["selective"] = lambda: _selective(monoid, pairs)
    if monoid.dump is not None:
        checked["dump, load"] = lambda: _round_trip(monoid, states)
    for check in checked.values():
        check()
    return tuple(checked)


def _states(monoid: Monoid, rows: list[tuple[Any, ...]]) -> list[Any]:
    """The lifted rows, and aggregates of two and of three neighbours."""
    lifted = [_lift(monoid, row) for row in rows]
    pairs = [monoid.combine(a, b) for a, b in itertools.pairwise(lifted)]
    triples = [monoid.combine(pair, c) for pair, c in zip(pairs, lifted[2:], strict=False)]
    return [monoid.identity, *lifted, *pairs, *triples]


def _lift(monoid: Monoid, row: tuple[Any, ...]) -> Any:
    try:
        return monoid.lift(*row)
    except Exception as error:
        arguments = ", ".join(map(repr, row))
        raise LawError(
            f"lift({arguments}) raised {type(error).__name__}: {error} (compiled code may give nan or an infinity "
            "there instead); lift must take every value"
        ) from error


def _triples(states: list[Any]) -> Iterator[tuple[Any, Any, Any]]:
    if len(states) ** 3 <= MOST_TRIPLES:
        yield from itertools.product(states, repeat=3)
        return
    rng = random.Random(len(states))
    for _ in range(MOST_TRIPLES):
        yield rng.choice(states), rng.choice(states), rng.choice(states)


def _expect(
    law: str, formula: str, operands: tuple[Any, ...], found: tuple[Any, Any], same: Callable[..., bool]
) -> None:
    """Raises LawError unless both sides of a formula are the `same`. `{0!r}` in the formula is the first operand."""
    if not same(*found):
        raise LawError(f"{law}: {formula.format(*operands)} does not hold: {found[0]!r} and {found[1]!r}")


def _identity(monoid: Monoid, states: list[Any]) -> None:
    e = monoid.identity
    for a in states:
        _expect("identity", "combine({0!r}, {1!r}) == {1!r}", (e, a), (monoid.combine(e, a), a), monoid.same)
        _expect("identity", "combine({1!r}, {0!r}) == {1!r}", (e, a), (monoid.combine(a, e), a), monoid.same)


def _associative(monoid: Monoid, states: list[Any]) -> None:
    combine = monoid.combine
    formula = "combine(combine({0!r}, {1!r}), {2!r}) == combine({0!r}, combine({1!r}, {2!r}))"
    for a, b, c in _triples(states):
        same = _or_cancelled(monoid, monoid.same, (a, b, c))
        found = combine(combine(a, b), c), combine(a, combine(b, c))
        _expect("associative", formula, (a, b, c), found, same)


def _or_cancelled(monoid: Monoid, same: Callable[..., bool], operands: Any) -> Callable[..., bool]:
    """A comparison that also accepts rounding errors of operands that cancel, unless the monoid is exact."""
    if monoid.exact:
        return same
    return lambda left, right: same(left, right) or agree_within(left, right, monoid.rounding * largest_float(operands))


def _commutative(monoid: Monoid, pairs: list[tuple[Any, Any]]) -> None:
    for a, b in pairs:
        found = monoid.combine(a, b), monoid.combine(b, a)
        _expect("commutative", "combine({0!r}, {1!r}) == combine({1!r}, {0!r})", (a, b), found, monoid.same)


def _inverse(monoid: Monoid, pairs: list[tuple[Any, Any]]) -> None:
    assert monoid.inverse is not None
    for a, b in pairs:
        found = monoid.inverse(monoid.combine(a, b), a), b
        _expect("inverse", "inverse(combine({0!r}, {1!r}), {0!r}) == {1!r}", (a, b), found, agree)


def _selective(monoid: Monoid, pairs: list[tuple[Any, Any]]) -> None:
    for a, b in pairs:
        chosen = b if monoid.picks_right(a, b) else a
        formula = "combine({0!r}, {1!r}) == {2!r}, the operand that picks_right names"
        _expect("selective", formula, (a, b, chosen), (monoid.combine(a, b), chosen), agree)


def _unchanged(monoid: Monoid, states: list[Any]) -> None:
    for a, b in itertools.pairwise(states):
        before = copy.deepcopy((a, b))
        monoid.combine(a, b)
        if monoid.inverse is not None:
            monoid.inverse(monoid.combine(a, b), a)
        _result(monoid.lower, a)
        for now, then in zip((a, b), before, strict=True):
            _expect("unchanged", "{0!r} stays as it is", (then,), (now, then), monoid.same)


def _round_trip(monoid: Monoid, states: list[Any]) -> None:
    assert monoid.dump is not None
    assert monoid.load is not None
    for a in states:
        dumped = monoid.dump(a)
        if not isinstance(dumped, bytes):
            raise LawError(f"dump, load: dump({a!r}) is {dumped!r}, not bytes")
        _expect("dump, load", "load(dump({0!r})) == {0!r}", (a,), (monoid.load(dumped), a), monoid.same)


def _result(lower: Callable[[Any], Any], state: Any) -> Any:
    """The result of `lower`, or the type of its exception: an overflow is a result, too."""
    try:
        return lower(state)
    except Exception as error:
        return type(error)


# ---- on columns ----


def _check_columns(
    monoid: Monoid, kinds: tuple[Kind, ...], rows: list[tuple[Any, ...]], laws: tuple[str, ...]
) -> Report:
    """Check the typed form: its laws, its results against the generic form, its machine code against Python."""
    from sash.kernels.jit.compile import NotCompiled
    from sash.kernels.loops.bound_kernel import BoundKernel

    if monoid.interpreted_only:
        return Report(laws, False, monoid.interpreted_only)
    try:
        typed = monoid.typed(*kinds)
    except TypeError as refusal:  # it does not run on columns of these kinds
        return Report(laws, False, str(refusal))
    if typed is not monoid:
        _check(typed, rows)
        _same_results(monoid, typed, rows)
    try:
        _same_code(typed, BoundKernel(monoid, kinds, warn=False), rows)
    except NotCompiled as refusal:
        return Report(laws, False, str(refusal))
    return Report((*laws, "compiled"), True)


def _same_results(generic: Monoid, typed: Monoid, rows: list[tuple[Any, ...]]) -> None:
    """Aggregates of the first rows, by both forms."""
    a, b = generic.identity, typed.identity
    same = _or_cancelled(typed, _close, rows)
    for row in rows:
        a, b = generic.combine(a, generic.lift(*row)), typed.combine(b, typed.lift(*row))
        found = _result(typed.lower, b), _result(generic.lower, a)
        _expect("typed", "lower of {0!r} and of {1!r} on columns agree", (a, b), found, same)


def _close(a: Any, b: Any) -> bool:
    return agree(a, b, TOLERANCE)


def _same_code(typed: Monoid, machine: BoundKernel, rows: list[tuple[Any, ...]]) -> None:
    """Compare each compiled function on each state with Python."""
    lifted = [typed.lift(*row) for row in rows]
    _columns_agree("lift", rows, machine.each("lift", rows), lifted, typed.same)
    states = [typed.identity, *_states(typed, rows)]
    left, right = states, [*states[1:], states[0]]
    pairs = list(zip(left, right, strict=True))
    combined = [typed.combine(a, b) for a, b in pairs]
    _columns_agree("combine", pairs, machine.each("combine", left, right), combined, typed.same)
    if typed.inverse is not None:
        undone = [typed.inverse(total, a) for total, a in zip(combined, left, strict=True)]
        totals = list(zip(combined, left, strict=True))
        _columns_agree("inverse", totals, machine.each("inverse", combined, left), undone, agree)
    if typed.selective:
        picked = [bool(typed.picks_right(a, b)) for a, b in pairs]
        _columns_agree("picks_right", pairs, machine.each("picks_right", left, right), picked, agree)
    with_values = states[2:]  # not the identity: on columns it is never lowered
    lowered = [_result(typed.lower, state) for state in with_values]
    _columns_agree("lower", with_values, machine.each("lower", with_values), lowered, _close)


def _columns_agree(
    name: str, given: list[Any], compiled: list[Any], plain: list[Any], same: Callable[..., bool]
) -> None:
    for arguments, machine, python in zip(given, compiled, plain, strict=True):
        if not same(machine, python):
            raise LawError(
                f"compiled: {name} of {arguments!r} gives {machine!r} compiled and {python!r} interpreted "
                "(compiled integers wrap at 64 bits, and math functions give nan or an infinity where Python raises)"
            )
