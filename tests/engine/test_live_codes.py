"""Codes of values that are valid across calls, compared with lists."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.engine.keyed import chunk_log, rank_labels
from sash.engine.keyed.chunk_log import PlaceLog
from sash.engine.keyed.rank_labels import END, RankLabels

OUT_OF_RANGE = [-1, -(2**62), 2**62, 2**63 - 1]


def codes(values: list[int]) -> Any:
    return np.array(values, np.int64)


# ---- places ----


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), ["a", None, "", "ä"]),
        (pa.int64(), [1, None, 3]),
        (pa.bool_(), [True, None, False]),
        (pa.decimal128(10, 2), [Decimal("1.50"), None]),
        (pa.list_(pa.string()), [["a"], None, []]),
        (pa.struct([("x", pa.int64())]), [{"x": 1}, None]),
        (pa.null(), [None, None]),
    ],
    ids=str,
)
def test_places_of_every_type(kind: pa.DataType, values: list[Any]) -> None:
    log = PlaceLog(kind)
    assert log.decode(codes([0, -1])).to_pylist() == [None, None]
    given = pa.array(values * 3, kind)
    assert log.encode(given[1:]).tolist() == list(range(len(given) - 1))
    log.encode(given[:1])
    expected = [*given[1:].to_pylist(), values[0]]
    back = log.decode(np.arange(len(log)))
    assert (back.type, back.to_pylist()) == (kind, expected)
    assert log.decode(codes(OUT_OF_RANGE)).to_pylist() == [None] * 4
    renamed = log.compact(codes([2, 0, 2, -1, 2**62]))
    assert (len(log), renamed(codes([0, 2, 1, *OUT_OF_RANGE])).tolist()) == (2, [0, 1, -1, *OUT_OF_RANGE])
    assert log.decode(codes([1, 0])).to_pylist() == [expected[2], expected[0]]
    log.compact(codes([]))
    assert (len(log), log.nbytes, log.encode(given[:2]).tolist()) == (0, 0, [0, 1])


steps = st.lists(
    st.one_of(
        st.tuples(st.just("encode"), st.lists(st.one_of(st.none(), st.text(max_size=3)), max_size=20)),
        st.tuples(st.just("undo"), st.lists(st.text(max_size=3), max_size=20)),
        st.tuples(st.just("compact"), st.randoms(use_true_random=False)),
    ),
    max_size=30,
)


@given(steps)
def test_places_in_random_sequences(script: list[Any]) -> None:
    log, known, held = PlaceLog(pa.string()), list[Any](), codes([])
    for action, what in script:
        if action == "compact":
            live = codes([code for code in held.tolist() if what.random() < 0.5])
            known = [known[code] for code in sorted(set(live.tolist()))]
            held = log.compact(codes(what.sample(live.tolist(), len(live)) * 2))(live)
        elif action == "undo":
            mark = log.mark()
            log.encode(pa.array(what, pa.string()))
            if len(what) > 5:
                log.compact(codes([0]))
            log.rollback(mark)
        else:
            held = np.concatenate([held, log.encode(pa.array(what, pa.string()))])
            known += what
        assert len(log) == len(known)
        mixed = np.concatenate([held[::-1], codes(OUT_OF_RANGE)])
        assert log.decode(mixed).to_pylist() == [known[code] for code in held[::-1]] + [None] * 4
        valid = np.arange(len(mixed)) % 2 == 0
        assert log.decode(mixed, valid).to_pylist() == [
            known[code] if ok and 0 <= code < len(known) else None for code, ok in zip(mixed, valid, strict=True)
        ]


def test_many_small_calls_make_few_chunks() -> None:
    log = PlaceLog(pa.int64())
    for i in range(1000):
        log.encode(pa.array([i]))
    assert len(log.chunks) <= 11
    assert log.decode(np.arange(1000)).to_pylist() == list(range(1000))


def test_a_slice_does_not_keep_the_whole() -> None:
    log = PlaceLog(pa.int64())
    log.encode(pa.array(range(100_000))[500:510])
    assert log.chunks[0].get_total_buffer_size() < 1000


def test_large_chunks_are_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_log, "LARGEST_CHUNK", 100)
    log = PlaceLog(pa.int64())
    for i in range(20):
        log.encode(pa.array([i] * 10))
    assert len(log.chunks) == 20
    assert log.decode(codes([0, 199, 55])).to_pylist() == [0, 19, 5]


@pytest.mark.parametrize("make", [PlaceLog, RankLabels])
def test_wrong_type(make: Any) -> None:
    with pytest.raises(TypeError, match="string are expected, not int64"):
        make(pa.string()).encode(pa.array([1]))


# ---- labels ----

ORDERED: list[tuple[pa.DataType, Any]] = [
    (pa.string(), st.text(max_size=3)),
    (pa.large_string(), st.text(alphabet="aé￿😀", max_size=3)),
    (pa.binary(), st.binary(max_size=3)),
    (pa.binary(2), st.binary(min_size=2, max_size=2)),
    (pa.decimal128(10, 2), st.integers(-500, 500).map(lambda i: Decimal(i).scaleb(-2))),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
]


@pytest.mark.parametrize(("kind", "values"), ORDERED, ids=[str(kind) for kind, _ in ORDERED])
@pytest.mark.parametrize("step", [1 << 32, 1 << 60])
def test_labels_in_random_sequences(kind: pa.DataType, values: Any, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the larger step there is hardly room at the ends, so labels change often."""
    monkeypatch.setattr(rank_labels, "STEP", step)
    script = st.lists(
        st.one_of(
            st.tuples(st.just("encode"), st.lists(st.one_of(st.none(), values), max_size=20)),
            st.tuples(st.just("undo"), st.lists(values, max_size=5)),
            st.tuples(st.just("compact"), st.randoms(use_true_random=False)),
        ),
        max_size=15,
    )
    given(script)(lambda script: _play_labels(kind, script))()


def _play_labels(kind: pa.DataType, script: list[Any]) -> None:
    labels, held, stand_for = RankLabels(kind), codes([]), list[Any]()
    for action, what in script:
        if action == "compact":
            chosen = [i for i in range(len(held)) if what.random() < 0.5]
            renamed = labels.compact(held[chosen])
            dropped = set(held.tolist()) - set(held[chosen].tolist())
            assert renamed(codes(list(dropped - {-1}))).tolist() == [-1] * len(dropped - {-1})
            held, stand_for = renamed(held[chosen]), [stand_for[i] for i in chosen]
            assert renamed(codes(OUT_OF_RANGE)).tolist() == OUT_OF_RANGE
            assert len(labels) == len({value for value in stand_for if value is not None})
        else:
            mark = labels.mark()
            found = labels.encode(pa.array(what, kind))
            if labels.relabelled is not None:
                held = labels.relabelled(held)
                assert labels.relabelled(codes(OUT_OF_RANGE)).tolist() == OUT_OF_RANGE
            if action == "undo":
                labels.rollback(mark)
            else:
                held, stand_for = np.concatenate([held, found]), stand_for + what
        _check_labels(labels, held, stand_for)


def _check_labels(labels: RankLabels, held: Any, stand_for: list[Any]) -> None:
    back = labels.decode(held)
    assert (back.type, back.to_pylist()) == (labels.type, stand_for)
    assert [label == -1 for label in held.tolist()] == [value is None for value in stand_for]
    ranks = pc.rank(pa.array(stand_for, labels.type).drop_null(), sort_keys="ascending", tiebreaker="dense")
    own = pc.rank(pa.array(held[held >= 0], pa.int64()), sort_keys="ascending", tiebreaker="dense")
    assert own.to_pylist() == ranks.to_pylist()
    assert all(0 < label < END for label in labels._values)
    assert labels._order == sorted(labels._labels)
    assert {label: value for value, label in labels._labels.items()} == labels._values
    assert sorted(labels._values) == [labels._labels[value] for value in labels._order]
    assert labels._size >= 0


def test_no_room_between_neighbours() -> None:
    """Each new value lies just below the last, above "a": the gap halves until labels are spread again."""
    labels, relabelled = RankLabels(pa.string()), 0
    held = labels.encode(pa.array(["a", "z"]))
    names = ["a", "z"]
    for i in range(200):
        name = "b" * (250 - i) if i % 2 else "a" * (250 - i)
        found = labels.encode(pa.array([name]))
        if labels.relabelled is not None:
            relabelled += 1
            held = labels.relabelled(held)
        held, names = np.concatenate([held, found]), [*names, name]
        _check_labels(labels, held, names)
    assert relabelled > 0


def test_room_at_the_ends() -> None:
    labels = RankLabels(pa.string())
    for i in range(2000):
        labels.encode(pa.array([f"{5000 + i}", f"{4999 - i}"]))
        assert labels.relabelled is None


def test_many_values_at_once() -> None:
    labels, names = RankLabels(pa.string()), [f"{i:06}" for i in np.random.default_rng(2).permutation(30_000)]
    held = np.concatenate([labels.encode(pa.array(names[first : first + 10_000])) for first in (0, 10_000, 20_000)])
    _check_labels(labels, held, names)
    assert labels.nbytes > 30_000 * 50


def test_rollback_without_relabelling_forgets() -> None:
    labels = RankLabels(pa.string())
    held = labels.encode(pa.array(["b", "d"]))
    before, mark = labels.nbytes, labels.mark()
    labels.encode(pa.array(["a", "c", "d", "e"]))
    labels.rollback(mark)
    assert (len(labels), labels._order) == (2, ["b", "d"])
    assert labels.decode(held).to_pylist() == ["b", "d"]
    assert labels.nbytes <= before + 200


def test_decode_where_not_valid() -> None:
    labels = RankLabels(pa.string())
    held = labels.encode(pa.array(["b", None, "a"]))
    assert labels.decode(held, np.array([True, True, False])).to_pylist() == ["b", None, None]
    assert labels.decode(codes([])).to_pylist() == []
    assert labels.encode(pa.array([], pa.string())).tolist() == []
    assert labels.encode(pa.array([None], pa.string())).tolist() == [-1]
