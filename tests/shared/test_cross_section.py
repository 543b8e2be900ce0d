"""The cross-section covers each value of each parameter; of many slow cases, a quarter."""

from itertools import chain
from types import SimpleNamespace
from typing import Any

from tests.shared.cross_section import IN_TURN, left_out, part_of


def cases(name: str, *ids: tuple[str, ...], marked: bool = False) -> list[Any]:
    return [
        SimpleNamespace(
            nodeid=f"{name}[{'-'.join(one)}]",
            callspec=SimpleNamespace(_idlist=one),
            get_closest_marker=lambda _: "marked" if marked else None,
        )
        for one in ids
    ]


def names(left: Any) -> list[str]:
    return [item.nodeid.partition("[")[2][:-1] for item in left]


def test_each_value_of_each_parameter_is_covered() -> None:
    pairs = [(a, b) for a in "abc" for b in "xy"]
    assert names(left_out(cases("t.py::test", *pairs))) == ["b-y", "c-y"]
    single = [(str(i),) for i in range(20)]
    assert names(left_out(cases("t.py::test", *single))) == []
    assert names(left_out([SimpleNamespace(nodeid="t.py::test")])) == []


def test_what_is_seldom_run_anyway_meets_nothing() -> None:
    seldom = cases("t.py::test", ("a", "x"), ("a", "y"), ("b", "x"), marked=True)
    often = cases("t.py::test", ("b", "y"), ("a", "x"), ("a", "y"))
    assert names(left_out([*seldom, *often])) == ["a-y"]


def test_tests_with_slow_cases_take_turns() -> None:
    single = [(str(i),) for i in range(12)]
    left = {name: names(left_out(cases(f"{IN_TURN[0]}::{name}", *single))) for name in map(str, range(30))}
    assert {len(one) for one in left.values()} == {9}
    assert set.intersection(*map(set, left.values())) == set(), "a case that no test runs"


def test_each_test_is_in_one_part() -> None:
    tests = [*cases("one.py::test", *[(str(i),) for i in range(10)]), *cases("two.py::test", ("a",))]
    parts = [[item.nodeid for item in part_of(tests, number, 4)] for number in (1, 2, 3, 4)]
    assert sorted(chain.from_iterable(parts)) == sorted(item.nodeid for item in tests)
    assert sorted(map(len, parts)) == [2, 3, 3, 3]
