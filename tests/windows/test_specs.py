"""The kinds of windows: the meaning of their arguments, and errors of refused ones."""

import dataclasses
import pickle
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import sash
from sash.windows import Count, Delta, Duration, Lifetime, Policy, Punctuation, Session, Time, WindowKind


def evicts(total: Any, prefix: Any) -> bool:
    return bool(total - prefix > 10)


WINDOWS = [
    Count(1000),
    Count(10, every=5, full=True),
    Count(10, every="1m"),
    Count(10, every=Time(5)),
    Time("1h"),
    Time("1h", closed="both"),
    Time("24h", every="1m", offset="30s"),
    Time("1h", every=100),
    Time(60, every=10, closed="right", offset=-3),
    Time("10s", every="3s", offset="1s", align="start"),
    Time(60, every=Count(10)),
    Time(2.5),
    Count(10, shift=-1),
    Count(5, full=True, shift=2),
    Time("1h", shift="-1h"),
    Time(2.5, closed="left", shift=-0.5),
    Delta("km", 100),
    Delta("at", "1h"),
    Session("30m"),
    Session(5, every="close"),
    Punctuation("end"),
    Punctuation("end", every="close"),
    Lifetime(),
    Lifetime(every=10),
    Lifetime(every="1h"),
]


@pytest.mark.parametrize("window", WINDOWS, ids=repr)
def test_a_window_reads_as_it_was_written(window: WindowKind) -> None:
    assert eval(repr(window), vars(sash)) == window


@pytest.mark.parametrize("window", [*WINDOWS, Policy(evicts, sash.sum("x"))], ids=repr)
def test_windows_are_frozen_values(window: WindowKind) -> None:
    assert pickle.loads(pickle.dumps(window)) == window
    assert len({window, pickle.loads(pickle.dumps(window))}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        window.every = 1


@pytest.mark.parametrize(
    ("window", "slide", "step", "timed"),
    [
        (Count(10), "row", None, False),
        (Count(10, every=5), "rows", 5, False),
        (Count(10, every=Count(5)), "rows", 5, False),
        (Count(10, every="1m"), "time", Duration.of("1m"), True),
        (Count(10, every=timedelta(minutes=1)), "time", Duration.of("1m"), True),
        (Count(10, every=Time("1m")), "time", Duration.of("1m"), True),
        (Count(10, every=Time(60)), "time", 60, True),
        (Time("1h"), "row", None, True),
        (Time("1h", every="1m"), "time", Duration.of("1m"), True),
        (Time("1h", every=100), "rows", 100, True),
        (Time("1h", every=Count(100)), "rows", 100, True),
        (Time(60, every=10), "time", 10, True),
        (Time(60, every=2.5), "time", 2.5, True),
        (Time(60, every=Count(10)), "rows", 10, True),
        (Delta("x", 5), "row", None, False),
        (Session("1m"), "row", None, True),
        (Session("1m", every="close"), "close", None, True),
        (Punctuation("p"), "row", None, False),
        (Punctuation("p", every="close"), "close", None, False),
        (Lifetime(), "row", None, False),
        (Lifetime(every=5), "rows", 5, False),
        (Lifetime(every="1h"), "time", Duration.of("1h"), True),
        (Lifetime(every=Time(5)), "time", 5, True),
        (Policy(evicts, sash.sum("x")), "row", None, False),
    ],
    ids=repr,
)
def test_when_there_is_a_window(window: WindowKind, slide: str, step: Any, timed: bool) -> None:
    assert (window.slide, window.step, window.timed) == (slide, step, timed)


@pytest.mark.parametrize(
    ("window", "closed"),
    [
        (Time("1h"), "right"),
        (Time("1h", every=10), "right"),
        (Time("1h", every="1m"), "left"),
        (Time(60, every=10), "left"),
        (Time("1h", every="1m", closed="right"), "right"),
        *((Time("1h", closed=closed), closed) for closed in ("right", "left", "both", "neither")),
        *((Time("1h", every=10, closed=closed), closed) for closed in ("right", "left", "both", "neither")),
    ],
    ids=repr,
)
def test_which_ends_belong_to_it(window: Time, closed: str) -> None:
    assert window.closed == closed


def test_equal_windows_are_equal_however_written() -> None:
    assert Time("1h") == Time("60m") == Time(timedelta(hours=1)) == Time("1h", closed="right", offset="0s")
    assert Count(np.int64(5)) == Count(5)
    assert Count(10, every=Count(5)) == Count(10, every=5)
    assert Time("1h", every=5) == Time("1h", every=Count(5))
    assert Time(60, every=5) != Time(60, every=Count(5))


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Count(0), ValueError, r"size= of Count must be at least 1; got 0"),
        (lambda: Count(-5), ValueError, r"size= of Count must be at least 1; got -5"),
        (lambda: Count(2.0), TypeError, r"size= of Count must be a whole number of rows; got 2\.0, a float"),
        (lambda: Count(True), TypeError, r"size= of Count must be a whole number of rows; got True"),
        (lambda: Count("1h"), TypeError, r"size= of Count must be a whole number of rows; got '1h', a str"),
        (lambda: Count(5, every=0), ValueError, r"every= of Count, .* must be at least 1; got 0"),
        (lambda: Count(5, every=1.5), TypeError, r"every= of Count, a number of rows \(or a duration\), .*got 1\.5"),
        (lambda: Count(5, every="0s"), ValueError, r"every= of Count must be above zero; got '0s'"),
        (lambda: Count(5, every="close"), ValueError, r"every= of Count must be a number and a unit.*got 'close'"),
        (
            lambda: Count(5, every=Count(5, full=True)),
            ValueError,
            r"every= of Count must be a Count with only a size; .*full=True",
        ),
        (
            lambda: Count(5, every=Time(5, closed="left")),
            ValueError,
            r"every= of Count must be a Time with only a size",
        ),
        (lambda: Count(5, full=1), TypeError, r"full= of Count must be True or False; got 1"),
        (lambda: Time("0s"), ValueError, r"size= of Time must be above zero; got '0s'"),
        (lambda: Time("-1h"), ValueError, r"size= of Time must be above zero; got '-1h'"),
        (lambda: Time(timedelta(0)), ValueError, r"size= of Time must be above zero; got datetime\.timedelta\(0\)"),
        (lambda: Time(0), ValueError, r"size= of Time must be above zero; got 0"),
        (lambda: Time(-1.5), ValueError, r"size= of Time must be above zero; got -1\.5"),
        (lambda: Time(float("nan")), ValueError, r"size= of Time must be finite; got nan"),
        (lambda: Time(float("inf")), ValueError, r"size= of Time must be finite; got inf"),
        (
            lambda: Time(None),
            TypeError,
            r"size= of Time must be a duration .* or a number in the column's units; got None",
        ),
        (lambda: Time(True), TypeError, r"size= of Time must be a duration .*; got True, a bool"),
        (lambda: Time("1 parsec"), ValueError, r"size= of Time has the unit 'parsec'"),
        (lambda: Time("1h", every="0s"), ValueError, r"every= of Time must be above zero; got '0s'"),
        (lambda: Time("1h", every=0), ValueError, r"every= of Time, a number of rows, must be at least 1; got 0"),
        (
            lambda: Time("1h", every=1.5),
            TypeError,
            r"every= of Time, a number of rows, must be a whole number .*got 1\.5",
        ),
        (
            lambda: Time(60, every="1m"),
            TypeError,
            r"every='1m' of Time is a duration and size=60 a number: give both",
        ),
        (lambda: Time(60, every=-1), ValueError, r"every= of Time must be above zero; got -1"),
        (
            lambda: Time("1h", every=Count(5, every=2)),
            ValueError,
            r"every= of Time must be a Count with only a size; .*every=2",
        ),
        (lambda: Time("1h", closed="open"), ValueError, r"closed= of Time must be one of 'right', .*; got 'open'"),
        (lambda: Time("1h", every="1m", closed="both"), ValueError, r"closed='both' of Time: windows that slide in ti"),
        (lambda: Time("1h", every="1m", closed="neither"), ValueError, r"closed 'left' or 'right'"),
        (lambda: Time("1h", offset="1m"), ValueError, r"offset='1m' of Time shifts windows that slide in time: add e"),
        (lambda: Time("1h", every=5, offset="1m"), ValueError, r"offset='1m' of Time shifts windows that slide"),
        (lambda: Time("1h", every="1m", offset=5), TypeError, r"offset=5 of Time and size=.*: give both as durations"),
        (lambda: Time(60, every=5, offset="1m"), TypeError, r"offset='1m' of Time and size=60: give both"),
        (
            lambda: Time("1h", every="1m", align="left"),
            ValueError,
            r"align= of Time must be 'end' or 'start'; got 'left'",
        ),
        (
            lambda: Time("1h", align="start"),
            ValueError,
            r"align='start' of Time aligns windows that slide in time: add",
        ),
        (
            lambda: Time("1h", every=5, align="start"),
            ValueError,
            r"align='start' of Time aligns windows that slide in t",
        ),
        (lambda: Time("1h", every="1m", offset=None), TypeError, r"offset= of Time must be a duration .*; got None"),
        (lambda: Delta(5, 5), TypeError, r"column= of Delta must be the name of a column; got 5, a int"),
        (lambda: Delta("x", 0), ValueError, r"size= of Delta must be above zero; got 0"),
        (lambda: Session("0s"), ValueError, r"gap= of Session must be above zero; got '0s'"),
        (lambda: Session(None), TypeError, r"gap= of Session must be a duration"),
        (lambda: Session("1m", every=5), ValueError, r"every= of Session must be None .* or 'close' .*; got 5"),
        (lambda: Session("1m", every="1m"), ValueError, r"every= of Session must be None .*; got '1m'"),
        (lambda: Punctuation(None), TypeError, r"column= of Punctuation must be the name of a column; got None"),
        (lambda: Punctuation("p", every=1), ValueError, r"every= of Punctuation must be None .* or 'close'"),
        (lambda: Lifetime(every=0), ValueError, r"every= of Lifetime, .* must be at least 1; got 0"),
        (lambda: Lifetime(every="-1s"), ValueError, r"every= of Lifetime must be above zero; got '-1s'"),
        (
            lambda: Policy(5, sash.sum("x")),
            TypeError,
            r"evict= of Policy must be a function of \(total, prefix\); got 5",
        ),
        (lambda: Policy(evicts, "x"), TypeError, r"over= of Policy must be an aggregate of columns, .*; got 'x'"),
        (lambda: Policy(evicts, ()), TypeError, r"over= of Policy must be an aggregate of columns"),
        (lambda: Policy(evicts, sash.monoids.Sum()), TypeError, r"over= of Policy must be an aggregate of columns"),
    ],
)
def test_what_is_refused(make: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make()


def test_a_policy_sees_a_value_or_a_tuple() -> None:
    one = Policy(evicts, over=sash.sum("x"))
    assert one.over == (sash.sum("x"),)
    assert one.evicts((15,), (3,))
    assert not one.evicts((13,), (3,))
    several = Policy(lambda t, p: t[0] - p[0] + p[1] > 10, over=(sash.sum("x"), sash.last("x")))
    assert several.evicts((15, 4), (5, 2))
    assert Policy(evicts, over=(sash.sum("x"),)) != one
    assert Policy(lambda t, _p: len(t) == 1, over=[sash.sum("x")]).evicts((1,), (1,))


def test_a_policy_names_its_function() -> None:
    assert repr(Policy(evicts, sash.sum("x"))) == "Policy(evicts, over=sum('x'))"
    assert repr(Policy(evicts, [sash.sum("x"), sash.count()])) == "Policy(evicts, over=(sum('x'), count()))"
