"""Every structure with every monoid, interpreted and compiled, compared with Recalc; and refused combinations.

interpreted    structure × monoid, each pair with one workload in turn
compiled       structure × typed form × workload: each skeleton of states once, each structure with two sorts, of
               which one may be the scalar on which all of them slide

The marker `all_compiled` adds every pair with every workload, and every structure compiled with every typed form.
"""

from __future__ import annotations

import functools
import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from sash.aggregators import InOrder, Recalc
from sash.aggregators.catalogue import IN_ORDER
from sash.aggregators.in_order import INSERT
from sash.kernels import replay, slide
from sash.kernels.jit.state_layout import DTYPES, NotColumnar
from sash.kernels.loops.bound_kernel import InterpretedWarning, specify
from sash.monoids.algebra import Kind, Monoid, agree
from sash.monoids.moments import Kurtosis, Skewness
from sash.monoids.regression import Correlation, Covariance, Intercept, Slope
from sash.monoids.sketches import SketchMonoid
from tests.aggregators.probes import AFFINE
from tests.conformance.machines import admits, with_added_inputs
from tests.shared.discovery import kinds_of, monoids, sample_kinds, sample_rows
from tests.shared.effort import share
from tests.shared.workloads import WORKLOADS

LENGTH = share(300)
LONG = share(2000)
CHEAP = ("count", "max", "last", "bit_xor", "arg_max")
"""Exact monoids whose oracle can be asked about windows of hundreds of elements."""

TOLERANCE = 1e-9
MONOIDS = monoids() | with_added_inputs()
CHECKS = 6
"""How often in a run the invariants are checked: to check them takes n² ⊕."""

Row = tuple[Any, ...]


# ---- interpreted ----


@dataclass(frozen=True)
class Run:
    """The results of a window after each operation, and the window at the end."""

    results: list[Any]
    aggregates: list[Any]
    window: InOrder


def run(structure: type[InOrder], monoid: Monoid, workload: str, rows: list[Row]) -> Run:
    window = structure(monoid)
    results, aggregates = [], []
    waiting = iter(rows)
    for step, operation in enumerate(WORKLOADS[workload](len(rows))):
        if operation == INSERT:
            window.insert(*next(waiting))
        else:
            window.evict()
        results.append(window.query())
        aggregates.append(window.aggregate())
        if (step + 1) % (len(rows) // CHECKS) == 0:
            window.check_invariants()
    return Run(results, aggregates, window)


@functools.cache
def oracle(name: str, workload: str, length: int) -> tuple[list[Row], Run]:
    """The rows that a monoid is fed in a loop, and what Recalc makes of them."""
    rows = sample_rows(sample_kinds(MONOIDS[name]), length)
    return rows, run(Recalc, MONOIDS[name], workload, rows)


ADMITTED = [(s, m) for s, record in IN_ORDER.items() for m in MONOIDS if admits(record.cls, MONOIDS[m])]
REFUSED = [(s, m) for s in IN_ORDER for m in MONOIDS if (s, m) not in ADMITTED]


def in_turn() -> set[tuple[str, str, str]]:
    """Every admitted pair with one workload, so that each structure and each monoid gets every workload."""
    workloads = list(WORKLOADS)
    chosen = set()
    for position, structure in enumerate(IN_ORDER):
        names = [name for s, name in ADMITTED if s == structure]
        for number in range(max(len(names), len(workloads))):
            chosen.add((structure, names[number % len(names)], workloads[(position + number) % len(workloads)]))
    return chosen


EACH_TIME = in_turn()
INTERPRETED = [
    pytest.param(*each, id="-".join(each), marks=() if each in EACH_TIME else pytest.mark.all_compiled)
    for each in ((s, name, workload) for s, name in ADMITTED for workload in WORKLOADS)
]


@pytest.mark.parametrize(("structure", "name", "workload"), INTERPRETED)
def test_interpreted(structure: str, name: str, workload: str) -> None:
    same_as_recalc(structure, name, workload, LENGTH)


def test_every_structure_and_every_monoid_meets_every_workload_each_time() -> None:
    assert {(s, name) for s, name, _ in EACH_TIME} == {*ADMITTED}
    assert {(s, workload) for s, _, workload in EACH_TIME} == {(s, w) for s in IN_ORDER for w in WORKLOADS}
    assert {(name, workload) for _, name, workload in EACH_TIME} == {(m, w) for m in MONOIDS for w in WORKLOADS}


@pytest.mark.parametrize("workload", ["fixed", "oscillating"])
@pytest.mark.parametrize(("structure", "name"), [pair for pair in ADMITTED if pair[1] in CHEAP])
def test_interpreted_on_long_windows(structure: str, name: str, workload: str) -> None:
    same_as_recalc(structure, name, workload, LONG)


def same_as_recalc(structure: str, name: str, workload: str, length: int) -> None:
    monoid, cls = MONOIDS[name], IN_ORDER[structure].cls
    rows, expected = oracle(name, workload, length)
    found = run(cls, monoid, workload, rows)
    combines = cls.form(monoid) is monoid  # a tree of values has states of its own
    for step, (aggregate, defined) in enumerate(zip(found.aggregates, expected.aggregates, strict=True)):
        assert not combines or monoid.same(aggregate, defined), step
    if not isinstance(monoid, SketchMonoid):  # the estimates of a sketch depend on the grouping, within its bounds
        same_results(monoid, found.results, expected, monoid.exact)
    assert len(found.window) == len(expected.window)
    if cls.keeps_elements and combines and not isinstance(monoid, SketchMonoid):
        assert agree(list(found.window), list(expected.window))


def same_results(monoid: Monoid, results: list[Any], expected: Run, exact: bool) -> None:
    """The same, floats exactly or within a tolerance of what the result is made of."""
    for step, (result, defined) in enumerate(zip(results, expected.results, strict=True)):
        if not agree(result, defined, 0.0 if exact else TOLERANCE):
            assert result is not None, (step, result, defined)
            assert defined is not None, (step, result, defined)
            scale = size_of_terms(monoid, expected.aggregates[step])
            assert abs(result - defined) <= TOLERANCE * scale, (step, result, defined, scale)


def size_of_terms(monoid: Monoid, state: Any) -> float:
    """How large the terms are that cancel in a result: with spikes of ±1e16 little may be left of them."""
    if isinstance(monoid, Skewness | Kurtosis | Correlation):
        return 1.0
    if isinstance(monoid, Covariance | Slope | Intercept):
        n, x, _, y, _, m2x, m2y, _ = state
        steepest = math.sqrt(m2y / m2x)
        return {
            Covariance: math.sqrt(m2x) * math.sqrt(m2y) / n,
            Slope: steepest,
            Intercept: abs(y) + steepest * abs(x),
        }[type(monoid)]
    return 0.0


# ---- what must not go together ----


@pytest.mark.parametrize(("structure", "name"), REFUSED)
def test_refused(structure: str, name: str) -> None:
    cls = IN_ORDER[structure].cls
    missing = [need for need in cls.needs if not getattr(MONOIDS[name], need)]
    with pytest.raises(TypeError, match=f"{structure} needs a monoid with the property '{missing[0]}'"):
        cls(MONOIDS[name])


@dataclass(frozen=True)
class Form:
    """A monoid on columns of some kinds."""

    name: str
    kinds: tuple[Kind, ...]

    @property
    def generic(self) -> Monoid:
        return MONOIDS[self.name]

    @property
    def typed(self) -> Monoid:
        return MONOIDS[self.name].typed(*self.kinds)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.kinds)})"


FORMS = [Form(name, kinds) for name, monoid in MONOIDS.items() for kinds in kinds_of(monoid)]
ADMITTED_FORMS = [(s, form) for s, record in IN_ORDER.items() for form in FORMS if admits(record.cls, form.typed)]
REFUSED_FORMS = [(s, form) for s in IN_ORDER for form in FORMS if (s, form) not in ADMITTED_FORMS]


@pytest.mark.parametrize(("structure", "form"), REFUSED_FORMS, ids=str)
def test_refused_on_columns(structure: str, form: Form) -> None:
    """Though the monoid may have the property in a loop: a sum of floats is never undone."""
    cls = IN_ORDER[structure].cls
    missing = [need for need in cls.needs if not getattr(form.typed, need)]
    said = f"{structure} needs a monoid with the property '{missing[0]}'"
    with pytest.raises(TypeError, match=said):
        specify(cls, form.generic, form.kinds)
    with pytest.raises(TypeError, match=said):
        slide(cls, form.generic, columns_of(form, sample_rows(form.kinds, 5)), 2)


def test_something_is_refused() -> None:
    assert ("SubtractOnEvict", "max") in REFUSED
    assert ("SubtractOnEvict", "sum") in ADMITTED
    assert ("SubtractOnEvict", Form("sum", ("float",))) in REFUSED_FORMS
    assert ("SubtractOnEvict", Form("sum", ("int",))) in ADMITTED_FORMS


# ---- compiled ----


def state_shape(form: Form) -> Any:
    """The columns of its states; a form without such a shape is a shape of its own."""
    try:
        return specify(Recalc, form.generic, form.kinds).layouts.state.shape
    except NotColumnar:
        return form


def sort_of(form: Form) -> str:
    """The layout that machine code handles: a scalar, a tuple, tuples in a tuple, a result that may be null."""
    shape = state_shape(form)
    if may_be_null(form):
        return "optional"
    if not isinstance(shape, tuple):
        return "scalar"
    return "nested" if any(isinstance(part, tuple) for part in shape) else "tuple"


def may_be_null(form: Form) -> bool:
    """Is the result of a single row null?"""
    return form.typed.lower(form.typed.lift(*sample_rows(form.kinds, 1)[0])) is None


SORTS = ("scalar", "nested", "tuple", "optional")

TELLING = ("max", "last", "var", "min * first * count")
"""Of each sort the one that tells most: an aggregate that depends on the values and, if possible, on their order."""


def of_each_sort(structure: str) -> dict[str, Form]:
    """One form of each sort that a structure admits."""
    admitted = [form for s, form in ADMITTED_FORMS if s == structure]
    chosen: dict[str, Form] = {}
    for form in sorted(admitted, key=lambda form: form.name not in TELLING):
        chosen.setdefault(sort_of(form), form)
    return chosen


def skeleton(form: Form) -> Any:
    """The shape of its states; of a tuple's leaves only the places, for each is a column of its own kind."""
    return _places(shape) if isinstance(shape := state_shape(form), tuple) else shape


def _places(shape: Any) -> Any:
    return tuple(map(_places, shape)) if isinstance(shape, tuple) else "leaf"


def _leaves(shape: Any) -> set[str]:
    return {kind for part in shape for kind in _leaves(part)} if isinstance(shape, tuple) else {shape}


def of_each_skeleton() -> set[tuple[str, Form]]:
    """One form of each skeleton, on the structures in turn; those with most kinds of leaves first."""
    chosen: dict[Any, tuple[str, Form]] = {}
    structures = list(IN_ORDER)
    for form in sorted(FORMS, key=lambda form: -len({*form.kinds})):
        start = len(chosen) % len(structures)
        in_turn = structures[start:] + structures[:start]
        chosen.setdefault(skeleton(form), next((s, form) for s in in_turn if (s, form) in ADMITTED_FORMS))
    return {*chosen.values()}


SLID = Form("max", ("float",))
"""What every structure that takes it slides compiled, each time."""


def slid_sorts(structure: str) -> set[str]:
    """The sort of state with which `test_slide` compiles a structure."""
    return {sort_of(SLID)} if (structure, SLID) in ADMITTED_FORMS else set()


def of_two_sorts(chosen: set[tuple[str, Form]]) -> set[tuple[str, Form]]:
    """More: each structure with two sorts, those that fewest structures have so far, and each sort with four."""
    found = {*chosen}
    for structure in IN_ORDER:
        offered = of_each_sort(structure)
        there = {sort_of(form) for s, form in found if s == structure} | slid_sorts(structure)
        on = {sort: len({s for s, form in found if sort_of(form) == sort}) for sort in SORTS}
        more = [sort for sort in sorted(SORTS, key=lambda sort: on[sort]) if sort in offered and sort not in there]
        found |= {(structure, offered[sort]) for sort in more[: max(0, 2 - len(there))]}
    for sort in SORTS:
        there = {s for s, form in found if sort_of(form) == sort}
        others = [s for s in IN_ORDER if s not in there and sort in of_each_sort(s)]
        found |= {(s, of_each_sort(s)[sort]) for s in others[: max(0, 4 - len(there))]}
    return found


CHOSEN = of_two_sorts(of_each_skeleton())
COMPILED = [
    pytest.param(*pair, id=f"{pair[0]}-{pair[1]}", marks=() if pair in CHOSEN else pytest.mark.all_compiled)
    for pair in ADMITTED_FORMS
]


def columns_of(form: Form, rows: list[Row]) -> tuple[Any, ...]:
    columns = zip(*rows, strict=True)
    return tuple(np.array(column, DTYPES[kind]) for kind, column in zip(form.kinds, columns, strict=True))


@functools.cache
def oracles(form: Form, workload: str) -> tuple[list[Row], Run, Run]:
    """Rows, and what Recalc makes of them in a loop: with the generic form, and with the typed one.

    The rows have spikes; where those would take a result of ints out of 64 bits, the ints are small. There are none
    where floats keep no digit of the rest: in weights, whose products of 1e32 cancel, and in values whose weights do
    not decay, because the times are true and false.
    """
    rows = sample_rows(form.kinds, LENGTH)
    if form.name == "weighted_mean":
        rows = [(value, max(-1000, min(weight, 1000))) for value, weight in rows]
    elif form.name.endswith("(time)") and form.kinds[-1] == "bool":
        rows = [(max(-1000, min(value, 1000)), time) for value, time in rows]
    try:
        typed = run(Recalc, form.typed, workload, rows)
    except OverflowError:
        rows = [tuple(value % 3 - 1 for value in row) for row in rows]
        typed = run(Recalc, form.typed, workload, rows)
    return rows, run(Recalc, form.generic, workload, rows), typed


@pytest.mark.parametrize(("structure", "form"), COMPILED)
def test_compiled(structure: str, form: Form) -> None:
    for workload, of_length in WORKLOADS.items():
        rows, generic, typed = oracles(form, workload)
        operations = np.array(of_length(LENGTH), np.int8)
        found = replay(IN_ORDER[structure].cls, form.generic, columns_of(form, rows), operations)
        assert found.why_interpreted == ""
        found.structure.check_invariants()
        sizes = np.cumsum(np.where(operations == INSERT, 1, -1))
        assert len(found.structure) == sizes[-1]
        results = [y if n else form.generic.empty for y, n in zip(found.to_list(), sizes, strict=True)]
        same_results(form.typed, results, typed, form.typed.exact)
        same_results(form.typed, results, generic, exact=False)  # a float may be rounded otherwise at the end
        assert list(map(types_of, results)) == list(map(types_of, generic.results))


def types_of(result: Any) -> Any:
    """The type of a result, part by part."""
    return tuple(map(types_of, result)) if isinstance(result, tuple) else type(result)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_form_lies_in_columns(form: Form) -> None:
    """No form runs interpreted unnoticed. Nothing is compiled for this check."""
    specify(Recalc, form.generic, form.kinds)


def test_every_sort_and_every_skeleton_is_compiled_each_time() -> None:
    assert {sort_of(form) for _, form in CHOSEN} == {*SORTS}
    assert {skeleton(form) for _, form in CHOSEN} == {skeleton(form) for form in FORMS}
    assert {"bool", "int", "float"} <= {state_shape(form) for _, form in CHOSEN}
    in_tuples = {kind for _, form in CHOSEN if isinstance(shape := state_shape(form), tuple) for kind in _leaves(shape)}
    assert in_tuples == {"bool", "int", "float"}
    for structure, record in IN_ORDER.items():
        admitted = {sort_of(form) for s, form in ADMITTED_FORMS if s == structure}
        assert not admitted or [form for s, form in CHOSEN if s == structure], structure
        there = {sort_of(form) for s, form in CHOSEN if s == structure} | slid_sorts(structure)
        assert len(there) >= min(2, len(admitted))
        assert len(admitted) == 4 or record.needs
    for sort in SORTS:
        assert len({s for s, form in CHOSEN if sort_of(form) == sort}) >= 4, sort


@pytest.mark.parametrize("structure", [s for s in IN_ORDER if (s, SLID) in ADMITTED_FORMS])
def test_slide(structure: str) -> None:
    form = SLID
    rows = sample_rows(form.kinds, LENGTH)
    for width in (1, 2, 7, 64, LENGTH, 5 * LENGTH):
        found = slide(IN_ORDER[structure].cls, form.generic, columns_of(form, rows), width)
        assert found.why_interpreted == ""
        assert found.to_list() == [max(rows[max(0, i + 1 - width) : i + 1])[0] for i in range(LENGTH)]
        found.structure.check_invariants()


@pytest.mark.parametrize("structure", [s for s, record in IN_ORDER.items() if not record.needs and s != "Recalc"])
def test_maps_one_after_the_other(structure: str) -> None:
    """Compiled, an aggregate in which each wrong order or grouping shows."""
    column = np.random.default_rng(1).integers(-1000, 1000, 900)
    for workload in WORKLOADS.values():
        operations = np.array(workload(900), np.int8)
        found = replay(IN_ORDER[structure].cls, AFFINE, (column,), operations)
        assert found.why_interpreted == ""
        assert found.to_list() == replay(Recalc, AFFINE, (column,), operations).to_list()
        found.structure.check_invariants()


@pytest.mark.parametrize("name", [name for name, monoid in MONOIDS.items() if monoid.interpreted_only])
def test_those_that_never_compile_say_why(name: str) -> None:
    rows, expected = oracle(name, "random", LENGTH)
    columns = tuple(np.array(column) for column in zip(*rows, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InterpretedWarning)
        found = replay(Recalc, MONOIDS[name], columns, np.array(WORKLOADS["random"](LENGTH), np.int8))
    assert found.why_interpreted == MONOIDS[name].interpreted_only or columns[0].dtype.kind == "U"
    assert MONOIDS[name].same(found.structure.aggregate(), expected.window.aggregate())
