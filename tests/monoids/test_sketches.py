"""The sketches and the Bloom filter: laws within bounds, what counts as one value, what leaves the process."""

import copy
import math
import pickle
import random
import subprocess
import sys
from collections import Counter
from datetime import UTC, date, datetime, timedelta, timezone
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.monoids import sketches
from sash.monoids import sketches as count_min
from sash.monoids.algebra import Monoid, agree
from sash.monoids.sketches import Bloom, BloomFilter, decode_item, encode_item, item_digest
from tests.monoids.test_first_last import FLOATS, TEXT, Rows, check_laws, folds, lawful, one

pytest.importorskip("datasketches")
ApproxDistinct, ApproxQuantile = sketches.ApproxDistinct, sketches.ApproxQuantile
CountMin, FrequentItems = count_min.CountMin, sketches.FrequentItems

ITEMS = st.one_of(FLOATS, st.integers(), TEXT, st.binary(max_size=3), st.booleans(), st.dates(), st.datetimes())
OF_ITEMS: list[Monoid] = [ApproxDistinct(), FrequentItems(), CountMin(), Bloom()]
ALL: list[Monoid] = [*OF_ITEMS, ApproxQuantile()]


@pytest.mark.parametrize("monoid", OF_ITEMS, ids=repr)
def test_laws_on_items(monoid: Monoid) -> None:
    lawful(monoid, ITEMS)()


@pytest.mark.parametrize("q", [0.5, (0.0, 0.5, 1.0)])
def test_laws_of_quantiles(q: Any) -> None:
    lawful(ApproxQuantile(q), FLOATS)()
    lawful(ApproxQuantile(q), st.integers(-(2**63), 2**63))()


@pytest.mark.parametrize("sizes", [(1, 5000, 40), (3000, 3000, 3000), (100, 0, 9000)])
@pytest.mark.parametrize("monoid", [*OF_ITEMS[:3], Bloom(hashes=3), ApproxQuantile(k=20)], ids=repr)
def test_laws_on_large_windows(monoid: Monoid, sizes: tuple[int, ...]) -> None:
    generator = random.Random(repr(sizes))
    windows: list[Rows] = [one([generator.paretovariate(0.5) // 1 for _ in range(size)]) for size in sizes]
    check_laws(monoid, *windows)


@pytest.mark.parametrize("monoid", ALL, ids=repr)
def test_nothing_gives_null_and_no_distinct_values(monoid: Monoid) -> None:
    assert monoid.lower(monoid.identity) == (0 if isinstance(monoid, ApproxDistinct) else None)
    assert monoid.dump is not None
    assert monoid.load is not None
    assert monoid.load(monoid.dump(monoid.identity)) is monoid.identity


@pytest.mark.parametrize("monoid", ALL, ids=repr)
def test_a_state_is_a_value(monoid: Monoid) -> None:
    for size in (1, 3 * sketches.KEPT + 1):
        state = folds(monoid, one([*range(size)]))[0]
        assert monoid.same(pickle.loads(pickle.dumps(state)), state)
        assert monoid.same(copy.copy(state), state)
        assert monoid.same(copy.deepcopy(state), state)
        assert type(monoid).__name__ in repr(state)


@pytest.mark.parametrize("monoid", ALL, ids=repr)
def test_different_windows_differ(monoid: Monoid) -> None:
    few, many = folds(monoid, one([*range(10)]))[0], folds(monoid, one([*range(500)]))[0]
    assert not monoid.same(few, many)
    assert not monoid.same(few, monoid.identity)


@pytest.mark.parametrize("monoid", ALL, ids=repr)
def test_damaged_bytes_are_refused(monoid: Monoid) -> None:
    assert monoid.dump is not None
    assert monoid.load is not None
    data = monoid.dump(folds(monoid, one([*range(200)]))[0])
    for damaged in (data[:1], data[:-1], b"\xff" + data[1:], b"x"):
        with pytest.raises(ValueError, match="bytes"):
            monoid.load(damaged)


@pytest.mark.parametrize("monoid", OF_ITEMS, ids=repr)
def test_what_no_sketch_takes_is_refused(monoid: Monoid) -> None:
    for value in ([1], object(), (1, 2), np.array([1, 2])):
        with pytest.raises(TypeError, match=rf"got .* a {type(value).__name__}: convert it to text"):
            monoid.lift(value)


# What is one value.


@given(ITEMS)
def test_an_item_comes_back_from_its_bytes(item: Any) -> None:
    assert agree(decode_item(encode_item(item)), item)
    assert type(decode_item(encode_item(item))) is type(item)


@given(ITEMS, ITEMS)
def test_items_share_a_hash_if_they_are_equal(a: Any, b: Any) -> None:
    assert (item_digest(a) == item_digest(b)) == agree(a, b)


EQUALS: list[tuple[Any, ...]] = [
    (1, 1.0, True, np.int64(1), np.float32(1), np.bool_(True), np.uint8(1)),
    (0, 0.0, -0.0, False),
    (math.nan, -math.nan, np.float32("nan")),
    (2**70, 2.0**70),
    ("a", np.str_("a")),
    (datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2024, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))),
]
DIFFERENT: list[Any] = ["", b"", 0, "0", b"0", 0.5, math.nan, math.inf, -math.inf, "nan", "\0", "\ud800", 2**64, -1]
DIFFERENT += [date(2024, 1, 1), datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC), "2024-01-01"]


@pytest.mark.parametrize("values", EQUALS)
def test_equals_are_one_value(values: tuple[Any, ...]) -> None:
    assert len({item_digest(value) for value in values}) == 1
    assert ApproxDistinct().lower(folds(ApproxDistinct(), one([*values]))[0]) == 1
    assert CountMin(items=values[:1]).lower(folds(CountMin(items=values[:1]), one([*values]))[0]) == (len(values),)
    assert all(value in Bloom().lift(values[0]) for value in values)


def test_others_are_different_values() -> None:
    assert len({item_digest(value) for value in DIFFERENT}) == len(DIFFERENT)
    assert ApproxDistinct().lower(folds(ApproxDistinct(), one(DIFFERENT))[0]) == len(DIFFERENT)


def test_the_hash_is_the_same_in_every_process() -> None:
    # states are stored under it: if this fails, HASH_VERSION has to rise
    assert [item_digest(x).hex() for x in (1, "sash", 0.5)] == [
        "97c92376c7d875bce238d0c0e310ec27",
        "ef4ea63786f4f14cae9782603cb9ff4f",
        "c040b0ac03c59379302274bd70f3e038",
    ]


# Distinct values.


@pytest.mark.parametrize("distinct", [1, 10, 1000, 50_000])
def test_distinct_values_are_estimated(distinct: int) -> None:
    m = ApproxDistinct()
    estimate = m.lower(folds(m, one([i % distinct for i in range(distinct + 100)]))[0])
    assert isinstance(estimate, int)
    assert abs(estimate - distinct) <= 0.04 * distinct


@pytest.mark.parametrize("lg_k", [3, 22, 12.0, True, "12"])
def test_distinct_refuses_a_wrong_size(lg_k: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="lg_k= of approx_distinct"):
        ApproxDistinct(lg_k=lg_k)


# Quantiles.


@given(st.lists(st.floats(allow_nan=False, allow_infinity=True), min_size=1, max_size=150), st.floats(0, 1))
def test_few_values_have_the_quantile_of_the_nearest_rank(values: list[float], q: float) -> None:
    m = ApproxQuantile(q)
    ordered = sorted(values)
    expected = next(x for i, x in enumerate(ordered, 1) if i / len(values) >= q)
    assert all(m.lower(state) == expected for state in folds(m, one([*values])))


def test_many_values_have_about_the_quantile() -> None:
    m = ApproxQuantile((0.01, 0.5, 0.99))
    values = [*range(100_000)]
    random.Random(1).shuffle(values)
    for q, found in zip(m.q, m.lower(folds(m, one(values))[0]), strict=True):  # type: ignore[arg-type]
        assert abs(found / 100_000 - q) < 0.03


def test_nan_is_in_every_quantile_until_it_leaves() -> None:
    m = ApproxQuantile((0.0, 1.0))
    rows = one([*map(float, range(300))])
    clean = folds(m, rows)[0]
    for dirty in folds(m, [*rows, (math.nan,), *rows]):
        assert agree(m.lower(dirty), (math.nan, math.nan))
    assert m.lower(clean) == (0.0, 299.0)
    assert math.isnan(ApproxQuantile(0.5).lower(m.lift(math.nan)))


def test_one_quantile_is_a_number_and_several_a_tuple() -> None:
    assert ApproxQuantile(1).lower(ApproxQuantile().lift(3)) == 3.0
    assert ApproxQuantile((1,)).lower(ApproxQuantile().lift(np.int64(3))) == (3.0,)
    assert ApproxQuantile([0.5]) == ApproxQuantile((0.5,))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"q": 99}, r"q= of approx_quantile must be at least 0 and at most 1 \(0.99 for p99\); got 99"),
        ({"q": math.nan}, "got nan"),
        ({"q": "0.5"}, "q= of approx_quantile must be a number or a tuple"),
        ({"q": ()}, "at least one quantile"),
        ({"q": True}, "got True"),
        ({"k": 7}, "k= of approx_quantile must be at least 8"),
    ],
)
def test_quantiles_refuse_wrong_parameters(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        ApproxQuantile(**arguments)


def test_quantiles_refuse_what_is_no_number() -> None:
    with pytest.raises(TypeError, match="approx_quantile reads numbers; got 'a', a str"):
        ApproxQuantile().lift("a")


# Frequent items.


@given(st.lists(ITEMS, min_size=1, max_size=60))
def test_few_distinct_items_are_counted_exactly(values: list[Any]) -> None:
    m = FrequentItems(k=100)
    expected = Counter(encode_item(value) for value in values)
    for state in folds(m, one([*values])):
        found = m.lower(state)
        assert {encode_item(item): count for item, count in found} == expected
        assert [count for _, count in found] == sorted((count for _, count in found), reverse=True)


def test_the_most_frequent_come_first_and_no_more_than_k() -> None:
    m = FrequentItems(k=3, lg_max_k=6)
    values = [int(random.Random(i).paretovariate(1)) for i in range(20_000)]
    expected = Counter(values)
    for state in folds(m, one([*values])):
        found = m.lower(state)
        assert [item for item, _ in found] == [1, 2, 3]
        assert all(0 <= estimate - expected[item] <= 3.5 / 2**6 * len(values) for item, estimate in found)


def test_ties_are_ordered_by_their_bytes() -> None:
    m = FrequentItems()
    assert m.lower(folds(m, one(["b", "c", "a"]))[0]) == [("a", 1), ("b", 1), ("c", 1)]


@pytest.mark.parametrize("arguments", [{"k": 0}, {"k": 2.0}, {"lg_max_k": 2}, {"lg_max_k": 27}])
def test_frequent_items_refuse_wrong_parameters(arguments: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=f"{next(iter(arguments))}= of frequent_items"):
        FrequentItems(**arguments)


# Counts.


@given(st.lists(ITEMS, max_size=200), st.lists(ITEMS, min_size=1, max_size=3))
def test_counts_are_never_too_low(values: list[Any], asked: list[Any]) -> None:
    m = CountMin(items=tuple(asked))
    expected = Counter(item_digest(value) for value in values + asked)
    for state in folds(m, one(values + asked)):
        assert all(found >= expected[item_digest(item)] for found, item in zip(m.lower(state), asked, strict=True))


def test_counts_can_be_asked_about_any_value() -> None:
    m = CountMin(buckets=2048)
    values = [i % 100 for i in range(10_000)]
    counts = m.lower(folds(m, one([*values]))[0])
    assert counts.total == 10_000
    assert counts.error < 0.002
    assert counts[7] == counts[7.0] == 100
    assert counts["7"] == 0
    assert pickle.loads(pickle.dumps(counts))[7] == 100
    assert repr(counts) == "<Counts of 10000 values>"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"items": "ab"}, "items= of count_min must be a tuple"),
        ({"items": ([1],)}, "a sketch takes numbers"),
        ({"buckets": 2}, "buckets= of count_min"),
        ({"hashes": 0}, "hashes= of count_min"),
        ({"buckets": 2**26, "hashes": 255}, r"fewer than 2\*\*30 counters"),
    ],
)
def test_count_min_refuses_wrong_parameters(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        CountMin(**arguments)


# The Bloom filter.


@given(st.lists(ITEMS, min_size=1, max_size=50))
def test_bloom_never_misses(values: list[Any]) -> None:
    m = Bloom(bits=64, hashes=2)
    for state in folds(m, one([*values])):
        assert all(value in m.lower(state) for value in values)


def test_bloom_is_rarely_wrong() -> None:
    m = Bloom()
    seen = reduce(m.combine, map(m.lift, range(1700)))
    assert abs(seen.estimated_count - 1700) < 30
    assert 0.45 < seen.saturation < 0.55
    wrong = sum(i in seen for i in range(10_000, 20_000)) / 10_000
    assert wrong < 2 * seen.false_positive_rate < 0.03


def test_a_full_filter_reports_it() -> None:
    m = Bloom(bits=64, hashes=8)
    full = reduce(m.combine, map(m.lift, range(200)))
    assert (full.saturation, full.false_positive_rate, full.estimated_count) == (1.0, 1.0, math.inf)


def test_a_filter_cannot_be_changed() -> None:
    seen = Bloom().lift("a")
    with pytest.raises(ValueError, match="read-only"):
        seen.words[0] = 1
    with pytest.raises(AttributeError, match="read-only"):
        seen.words = None


def test_filters_of_other_shapes_do_not_mix() -> None:
    small, other = Bloom(bits=64), Bloom(bits=128)
    with pytest.raises(ValueError, match="the same shape"):
        small.lift(1) | other.lift(1)
    with pytest.raises(ValueError, match="another bloom"):
        small.load(other.dump(other.lift(1)))
    assert small.lift(1) != other.lift(1)
    assert isinstance(small.lift(1), BloomFilter)


@pytest.mark.parametrize("arguments", [{"bits": 100}, {"bits": 0}, {"bits": 64.0}, {"hashes": 0}, {"hashes": 256}])
def test_bloom_refuses_wrong_parameters(arguments: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=f"{next(iter(arguments))}= of bloom"):
        Bloom(**arguments)


# The package that the sketches need.


@pytest.mark.parametrize("make", [ApproxDistinct, ApproxQuantile, FrequentItems, CountMin])
def test_a_missing_package_is_named_at_once(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(ImportError, match=r"pip install 'sash\[sketches\]'"):
        make()


def test_importing_does_not_load_datasketches() -> None:
    program = "import sys; import sash.monoids.sketches; assert 'datasketches' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
