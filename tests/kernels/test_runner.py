"""Running a kernel: any column, any width, error messages, and the fallback to plain Python."""

import datetime
import math
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sash
from sash.aggregators import DABA, Recalc, TwoStacksLite
from sash.aggregators.in_order import EVICT, INSERT, InOrder
from sash.kernels import InterpretedWarning, Results, replay, slide, steady
from sash.kernels.jit.state_layout import NotColumnar
from sash.kernels.loops.bound_kernel import kind_of
from sash.monoids import Max, Monoid
from sash.monoids.extremes import ArgMax
from sash.monoids.sums import Sum

# ---- columns ----

FLOAT = ("float16", "float32", "float64", ">f8")
INT = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", ">i4")


def largest(values: list[Any], width: int) -> list[Any]:
    return [max(values[max(i + 1 - width, 0) : i + 1]) for i in range(len(values))]


@pytest.mark.parametrize("dtype", [*FLOAT, *INT, "bool"])
def test_numbers_of_every_size(dtype: str) -> None:
    column = np.array([1, 0, 1, 0, 0, 0], dtype)
    found = slide(DABA, Max(), (column,), 3)
    assert found.why_interpreted == ""
    assert found.to_list() == largest(column.tolist(), 3)
    assert {type(value) for value in found.to_list()} == {float if dtype in FLOAT else bool if dtype == "bool" else int}


@pytest.mark.parametrize(
    "column",
    [
        np.arange(20.0)[::3],
        np.arange(20.0)[::-1],
        np.asfortranarray(np.arange(20.0).reshape(4, 5))[1],
        np.frombuffer(np.arange(5.0).tobytes()),
        np.arange(5.0).view(type("Own", (np.ndarray,), {})),
    ],
    ids=["strided", "reversed", "a row of columns", "read-only", "subclass"],
)
def test_arrays_of_every_sort(column: Any) -> None:
    found = slide(DABA, Max(), (column,), 3)
    assert found.why_interpreted == ""
    assert found.to_list() == largest(column.tolist(), 3)


def test_a_read_only_array_needs_no_code_of_its_own() -> None:
    column = np.arange(5.0)
    column.flags.writeable = False
    expected = slide(DABA, Max(), (np.arange(5.0),), 3).to_list()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sash.kernels.jit.compile._compile", None)
        assert slide(DABA, Max(), (column,), 3).to_list() == expected


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (np.array([1, 2**64 - 1, 3], "uint64"), "an array of uint64"),
        (np.array([1.0, 3.0, 2.0], np.longdouble), "an array of "),
        (np.array(["a", "c", "b"]), "an array of <U1"),
        (np.array(["a", "c", "b"], object), "an array of object"),
        (np.array([1, 3, 2], "datetime64[s]"), "an array of datetime64"),
        (np.array([1, 3, 2], "timedelta64[D]"), "an array of timedelta64"),
        (np.ma.masked_array([1.0, 3.0, 2.0], [False, False, False]), "a masked array of float64"),
        ([1, 3, 2], "a list of Python objects"),
        ((1.5, 2**70, 2), "a tuple of Python objects"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_other_columns_run_interpreted(column: Any, why: str) -> None:
    if getattr(column, "dtype", None) == np.float64 and not isinstance(column, np.ma.MaskedArray):
        pytest.skip("long doubles are doubles here")
    with pytest.raises(NotColumnar, match=why):
        kind_of(column)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InterpretedWarning)
        found = slide(DABA, Max(), (column,), 2)
    assert why in found.why_interpreted
    values = column.tolist() if isinstance(column, np.ndarray) else list(column)
    assert found.to_list() == largest(values, 2)


def test_complex_numbers_have_no_order() -> None:
    column = np.array([1j, 2j])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InterpretedWarning)
        with pytest.raises(TypeError, match="complex"):
            slide(DABA, Max(), (column,), 2)
        both = sash.monoid(identity=0j, combine=lambda a, b: a + b)
        assert slide(DABA, both, (column,), 2).to_list() == [1j, 3j]


def test_dates_stay_dates() -> None:
    days = [datetime.date(2026, 1, day) for day in (3, 1, 2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InterpretedWarning)
        assert slide(DABA, Max(), (days,), 2).to_list() == largest(days, 2)


def test_no_rows() -> None:
    found = slide(DABA, Max(), (np.array([]),), 3)
    assert found.to_list() == []
    assert len(found.structure) == 0
    assert replay(DABA, Max(), (np.array([]),), np.array([], np.int8)).to_list() == []


@pytest.mark.parametrize("width", [1, 2, 5, 6, 7, 1000, 2**40, 2**80, np.int64(3)])
def test_widths(width: int) -> None:
    column = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 0.0])
    assert slide(DABA, Max(), (column,), width).to_list() == largest(column.tolist(), min(int(width), 10))


@pytest.mark.parametrize("width", [0, -1, -(2**70)])
def test_widths_that_are_none(width: int) -> None:
    with pytest.raises(ValueError, match=f"at least one row; got a width of {width}"):
        slide(DABA, Max(), (np.arange(3.0),), width)


@pytest.mark.parametrize("width", [1.5, "3", None])
def test_widths_that_are_no_integers(width: Any) -> None:
    with pytest.raises(TypeError):
        slide(DABA, Max(), (np.arange(3.0),), width)


# ---- what is wrong with the columns ----

run_slide: Callable[..., Results] = lambda monoid, columns: slide(Recalc, monoid, columns, 2)  # noqa: E731
run_steady: Callable[..., Results] = lambda monoid, columns: steady(Recalc, monoid, columns, 1)  # noqa: E731
run_replay: Callable[..., Results] = lambda monoid, columns: replay(  # noqa: E731
    Recalc, monoid, columns, np.ones(3, np.int8)
)
each_way = pytest.mark.parametrize("run", [run_slide, run_steady, run_replay], ids=["slide", "steady", "replay"])


@each_way
def test_columns_of_different_lengths(run: Callable[..., Results]) -> None:
    """Compiled code trusts the lengths: it would read beyond the end."""
    for columns in ((np.arange(3.0), np.arange(5.0)), (np.arange(5.0), np.arange(3.0)), ([1, 2, 3], [1, 2])):
        with pytest.raises(ValueError, match=r"differ in length: \d, \d rows"):
            run(ArgMax(), columns)


@each_way
def test_the_number_of_columns(run: Callable[..., Results]) -> None:
    x = np.arange(3.0)
    with pytest.raises(TypeError, match=r"max takes 1 column \(x\); got 2"):
        run(Max(), (x, x))
    with pytest.raises(TypeError, match=r"arg_max takes 2 columns \(value, payload\); got 1"):
        run(ArgMax(), (x,))
    users = sash.monoid(identity=0.0, lift=lambda a, b, c=1.0: a + b + c, combine=lambda a, b: a + b, name="users")
    with pytest.raises(TypeError, match=r"users takes 2 to 3 columns \(a, b, c\); got 4"):
        run(users, (x, x, x, x))
    for columns in (x, [x], ()):
        with pytest.raises(TypeError, match="a tuple of at least one"):
            run(Max(), columns)


@each_way
def test_the_dimensions_of_a_column(run: Callable[..., Results]) -> None:
    with pytest.raises(ValueError, match=r"one dimension; got an array of shape \(3, 2\)"):
        run(Max(), (np.ones((3, 2)),))
    with pytest.raises(ValueError, match=r"shape \(\)"):
        run(Max(), (np.array(3.0),))


def test_operations_are_checked() -> None:
    x = np.arange(3.0)
    with pytest.raises(IndexError, match="operation 4 evicts from an empty window"):
        replay(Recalc, Max(), (x,), np.array([INSERT, INSERT, EVICT, EVICT, EVICT, EVICT], np.int8))
    with pytest.raises(IndexError, match="insert 4 rows; there are 3"):
        replay(Recalc, Max(), (x,), np.array([INSERT, EVICT] * 4, np.int8))


def test_operations_as_a_list() -> None:
    found = replay(Recalc, Max(), (np.arange(3.0),), [INSERT, INSERT, EVICT, EVICT, INSERT])  # type: ignore[arg-type]
    assert found.to_list() == [0.0, 1.0, 1.0, None, 2.0]


def test_a_structure_that_does_not_fit() -> None:
    with pytest.raises(TypeError, match="SubtractOnEvict needs a monoid with the property 'inverse'"):
        slide(sash.aggregators.SubtractOnEvict, Max(), (np.arange(3.0),), 2)


# ---- exceptions ----


def failing(error: type[Exception]) -> Monoid:
    def lower(a: float) -> float:
        if a > 2.0:
            raise error("too much")
        return a

    return sash.monoid(identity=0.0, combine=lambda a, b: a + b, lower=lower)


class TooMuch(ArithmeticError):
    """A user's own."""


@pytest.mark.parametrize("error", [OverflowError, ValueError, TooMuch])
def test_what_a_monoid_raises_reaches_the_caller(error: type[Exception]) -> None:
    monoid = failing(error)
    assert slide(Recalc, monoid, (np.array([1.0, 1.0]),), 2).why_interpreted == ""
    with pytest.raises(error, match="too much"):
        slide(Recalc, monoid, (np.array([1.0, 2.0]),), 2)
    assert slide(Recalc, monoid, (np.array([1.0, 1.0]),), 2).to_list() == [1.0, 2.0]


def test_a_division_by_zero_is_an_error() -> None:
    monoid = sash.monoid(identity=0, combine=lambda a, b: a + b, lower=lambda a: 6 // (a - 3))
    assert slide(Recalc, monoid, (np.array([1, 4]),), 1).to_list() == [-3, 6]
    with pytest.raises(ZeroDivisionError):
        slide(Recalc, monoid, (np.array([1, 2]),), 2)


def test_integers_at_their_limits() -> None:
    limits = np.array([2**63 - 1, -(2**63), 0, 2**63 - 1])
    assert slide(DABA, Max(), (limits,), 2).to_list() == [2**63 - 1, 2**63 - 1, 0, 2**63 - 1]
    assert slide(DABA, Sum(), (limits,), 2).to_list() == [2**63 - 1, -1, -(2**63), 2**63 - 1]
    with pytest.raises(OverflowError, match="64-bit"):
        slide(DABA, Sum(), (np.array([2**63 - 1, 1]),), 2)


def test_users_integers_wrap_when_compiled() -> None:
    """As documented, integers of users wrap around when compiled; `check_laws` shows it."""
    total = sash.monoid(identity=0, combine=lambda a, b: a + b)
    assert slide(Recalc, total, (np.array([2**63 - 1, 1]),), 2).to_list() == [2**63 - 1, -(2**63)]


# ---- threads ----


def test_threads_share_a_kernel() -> None:
    """All compile it at once, and run it on columns of their own."""
    offset = 12345.0
    monoid = sash.monoid(identity=-math.inf, lift=lambda x: x + offset, combine=max)
    columns = [np.random.default_rng(seed).normal(size=20_000) for seed in range(4)]
    found: dict[int, Any] = {}
    barrier = threading.Barrier(4)

    def work(i: int) -> None:
        barrier.wait()
        for _ in range(5):
            found[i] = slide(TwoStacksLite, monoid, (columns[i],), 50)

    before = list(warnings.filters)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(warnings.filters) == before
    for i, column in enumerate(columns):
        padded = np.concatenate([np.full(49, -math.inf), column])
        expected = np.lib.stride_tricks.sliding_window_view(padded, 50).max(axis=1) + offset
        assert found[i].why_interpreted == ""
        assert np.array_equal(found[i].out[0], expected)
        assert found[i].valid.all()


# ---- what is left ----


@pytest.mark.parametrize("structure", [DABA, TwoStacksLite])
def test_the_structure_at_the_end(structure: type[InOrder]) -> None:
    """The structure equals one that was filled in a loop; it is a snapshot, made on request."""
    column = np.random.default_rng(1).normal(size=40)
    found = slide(structure, Max(), (column,), 7)
    window = found.structure
    assert found.structure is window
    assert isinstance(window, structure)
    window.check_invariants()
    assert len(window) == 7
    assert window.aggregate() == window.query() == max(column[-7:])
    if structure.keeps_elements:
        assert list(window) == column[-7:].tolist()


def test_the_structure_at_the_end_of_an_interpreted_run() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InterpretedWarning)
        window = slide(DABA, Max(), (["a", "c", "b"],), 2).structure
    window.check_invariants()
    assert list(window) == ["c", "b"]
    window.insert("d")
    assert window.query() == "d"


def test_steady_starts_with_a_full_window() -> None:
    column = np.array([3.0, 1.0, 2.0, 5.0, 0.0])
    assert steady(DABA, Max(), (column,), 2).to_list() == [2.0, 5.0, 5.0]
    for width in (0, 5):
        with pytest.raises(ValueError, match=f"1 to 4 rows here; got a width of {width}"):
            steady(DABA, Max(), (column,), width)


# ---- the cost of a call ----


def test_a_call_looks_at_nothing_twice() -> None:
    """A kernel on few rows must not cost more than its rows: counted in Python calls, not clocked."""
    column, monoid = (np.arange(10.0),), Max() * Max()
    slide(DABA, monoid, column, 3)
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        slide(DABA, monoid, column, 3)
    finally:
        sys.setprofile(None)
    assert calls < 120
