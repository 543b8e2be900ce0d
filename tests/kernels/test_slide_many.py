"""slide_many: many ranges at each row, compiled and interpreted, compared with Recalc."""

import functools
from typing import Any

import numpy as np
import pytest

import sash
from sash.aggregators import DABA, FlatFIT, Recalc, SlickDequeInv, SlickDequeNonInv
from sash.aggregators.catalogue import IN_ORDER
from sash.aggregators.in_order import SuffixQuery
from sash.kernels import InterpretedWarning, slide, slide_many
from sash.monoids.algebra import Monoid
from sash.monoids.by_place import First
from sash.monoids.extremes import ArgMax, Max, Min
from sash.monoids.sums import Mean, Sum
from tests.aggregators.probes import AFFINE
from tests.conformance.machines import JOIN, admits

SHORTER: list[type[SuffixQuery]] = [record.cls for record in IN_ORDER.values() if issubclass(record.cls, SuffixQuery)]
every = pytest.mark.parametrize("structure", SHORTER)

RANGES = (3, 100, 1, 7, 3, 20)

SUM = sash.monoid(identity=0, combine=lambda a, b: a + b, inverse=lambda t, a: t - a, exact=True, name="own sum")
GREATEST = sash.monoid(
    identity=-(2**63),
    combine=lambda a, b: max(a, b),
    selective=True,
    exact=True,
    name="own max",
)


def values(length: int = 150) -> Any:
    return np.random.default_rng(11).integers(-50, 50, length)


def by_hand(fold: Any, given: Any, ranges: tuple[int, ...]) -> list[Any]:
    """A row's results side by side."""
    plain = given.tolist()
    return [fold(plain[max(0, i + 1 - n) : i + 1]) for i in range(len(plain)) for n in ranges]


def folded_by(monoid: Monoid) -> Any:
    """Fold a list with a monoid, interpreted: no kernel of Recalc is compiled for it."""
    return lambda part: monoid.lower(functools.reduce(monoid.combine, map(monoid.lift, part)))


def test_the_protocol_is_what_they_share() -> None:
    assert {FlatFIT, Recalc, SlickDequeInv, SlickDequeNonInv} <= {*SHORTER}


MONOIDS = {repr(monoid): monoid for monoid in (AFFINE, First(), SUM, GREATEST, Sum(), Max())}
ADMITTED = [(s, name) for s in SHORTER for name, monoid in MONOIDS.items() if admits(s, monoid.typed("int"))]


def cross_section() -> set[tuple[type[SuffixQuery], str]]:
    """Each structure with one monoid, the least used so far, and each monoid with one structure."""
    taken = dict.fromkeys(MONOIDS, 0)
    chosen = set()
    for structure in SHORTER:
        least = min((name for s, name in ADMITTED if s is structure), key=taken.__getitem__)
        taken[least] += 1
        chosen.add((structure, least))
    return chosen | {next(pair for pair in ADMITTED if pair[1] == name) for name in MONOIDS if not taken[name]}


EACH_TIME = cross_section()


def monoid_of(structure: type[SuffixQuery]) -> Monoid:
    """The monoid that a structure is compiled with each time."""
    return MONOIDS[next(name for s, name in ADMITTED if (s, name) in EACH_TIME and s is structure)]


def test_every_structure_and_every_monoid_is_compiled_each_time() -> None:
    assert {structure for structure, _ in EACH_TIME} == {*SHORTER}
    assert {name for _, name in EACH_TIME} == MONOIDS.keys()


@pytest.mark.parametrize(
    ("structure", "name"),
    [pytest.param(*pair, marks=() if pair in EACH_TIME else pytest.mark.all_compiled) for pair in ADMITTED],
)
def test_compared_with_recalc(structure: type[SuffixQuery], name: str) -> None:
    monoid = MONOIDS[name]
    found = slide_many(structure, monoid, (values(),), RANGES)
    assert found.why_interpreted == ""
    found.structure.check_invariants()
    assert found.to_list() == by_hand(folded_by(monoid), values(), RANGES)
    assert len(found.structure) == 100


@pytest.mark.parametrize(("structure", "monoid", "fold"), [(SlickDequeInv, Sum(), sum), (SlickDequeNonInv, Max(), max)])
def test_fixed_examples(structure: type[SuffixQuery], monoid: Monoid, fold: Any) -> None:
    found = slide_many(structure, monoid, (values(),), RANGES)
    assert found.to_list() == by_hand(fold, values(), RANGES)


@every
@pytest.mark.parametrize("n", [1, 2, 30])
def test_all_ranges(structure: type[SuffixQuery], n: int) -> None:
    """The maximum of queries: every range from 1 to n, at each row."""
    monoid = monoid_of(structure)
    for ranges in (tuple(range(1, n + 1)), tuple(range(n, 0, -1))):
        found = slide_many(structure, monoid, (values(),), ranges)
        assert found.why_interpreted == ""
        found.structure.check_invariants()
        assert found.to_list() == by_hand(folded_by(monoid), values(), ranges)


@pytest.mark.parametrize(("structure", "monoid"), [(SlickDequeInv, Sum()), (SlickDequeNonInv, Max())])
def test_one_range_is_a_slide(structure: type[SuffixQuery], monoid: Monoid) -> None:
    for width in (1, 6, 1000):
        many = slide_many(structure, monoid, (values(),), (width,))
        assert many.to_list() == slide(structure, monoid, (values(),), width).to_list()


@every
@pytest.mark.parametrize("length", [0, 1, 5])
def test_more_ranges_than_rows(structure: type[SuffixQuery], length: int) -> None:
    monoid = monoid_of(structure)
    ranges = tuple(range(1, 40))
    found = slide_many(structure, monoid, (values(length),), ranges)
    found.structure.check_invariants()
    assert found.to_list() == by_hand(folded_by(monoid), values(length), ranges)


@pytest.mark.parametrize("structure", [Recalc, FlatFIT, SlickDequeNonInv])
def test_floats_and_several_columns(structure: type[SuffixQuery]) -> None:
    keys, payloads = values().astype(float), np.arange(150)
    found = slide_many(structure, ArgMax(), (keys, payloads), (5, 2))
    assert found.why_interpreted == ""
    expected = [int(max(range(max(0, i + 1 - n), i + 1), key=lambda j: keys[j])) for i in range(150) for n in (5, 2)]
    assert found.to_list() == expected


def test_results_that_are_rounded() -> None:
    given = values().astype(float) / 7
    found = slide_many(FlatFIT, Mean(), (given,), (4, 9))
    assert found.why_interpreted == ""
    assert found.to_list() == pytest.approx(by_hand(lambda part: sum(part) / len(part), given, (4, 9)))


def test_the_structure_that_is_left_can_be_asked() -> None:
    for structure, monoid, fold in ((SlickDequeInv, Sum(), sum), (SlickDequeNonInv, Max(), max), (FlatFIT, Min(), min)):
        found: Any = slide_many(structure, monoid, (values(),), RANGES)
        assert found.structure.ranges == RANGES
        assert found.structure.query_ranges() == tuple(found.to_list()[-len(RANGES) :])
        assert found.structure.query_last(3) == fold(values().tolist()[-3:])


@pytest.mark.parametrize("structure", [Recalc, FlatFIT])
@pytest.mark.filterwarnings("ignore::sash.kernels.InterpretedWarning")
def test_interpreted(structure: type[SuffixQuery]) -> None:
    letters = [chr(97 + i % 26) for i in range(40)]
    found = slide_many(structure, JOIN, (letters,), RANGES)
    assert "list of Python objects" in found.why_interpreted
    found.structure.check_invariants()
    assert found.to_list() == ["".join(letters[max(0, i + 1 - n) : i + 1]) for i in range(40) for n in RANGES]


def test_interpreted_with_a_reason() -> None:
    shouting = sash.monoid(identity="", combine=lambda a, b: a + b, lift=str, exact=True, name="text")
    with pytest.warns(InterpretedWarning, match="monoid\\('text'\\) runs interpreted"):
        found = slide_many(FlatFIT, shouting, (np.array([1, 2, 3]),), (2, 1))
    assert found.to_list() == ["1", "1", "12", "2", "23", "3"]


# ---- what is refused ----


def test_a_structure_that_answers_no_shorter_windows() -> None:
    with pytest.raises(TypeError, match=r"slide_many needs .* shorter windows; DABA has no last\(n\)"):
        slide_many(DABA, Sum(), (values(),), (3,))  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("ranges", "error", "said"),
    [
        ((), ValueError, "at least one range"),
        ((3, 0), ValueError, "a range must have at least one element; got 0"),
        ((3, 1.5), TypeError, r"a range must be a whole number of elements; got 1\.5"),
        (3, TypeError, "ranges= takes several numbers"),
    ],
)
def test_ranges_that_are_refused(ranges: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        slide_many(FlatFIT, Sum(), (values(),), ranges)


def test_a_monoid_without_the_property() -> None:
    with pytest.raises(TypeError, match="SlickDequeInv needs a monoid with the property 'inverse'"):
        slide_many(SlickDequeInv, Max(), (values(),), (3,))
