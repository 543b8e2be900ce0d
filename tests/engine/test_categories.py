"""Ordered categories and dictionaries: compared by order or by value, and returned with the same type."""

import random
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sash
from sash import Count, Lifetime, Query, Time
from sash.engine import Operator
from sash.monoids import DirectProduct, Max, Min
from sash.stores import MemoryStore, PageError
from tests.behaviour.differential import compare_with_reference
from tests.behaviour.test_operator import begin, resume
from tests.shared.streams import Case, StreamStep

SIZES = ["small", "medium", "large"]
ORDERED = pa.dictionary(pa.int8(), pa.string(), ordered=True)
WIDE = pa.dictionary(pa.int32(), pa.string(), ordered=True)
OTHER = pa.dictionary(pa.int32(), pa.string())

ALL: dict[str, Any] = {
    "largest": sash.max("size"), "least": sash.min("size"), "oldest": sash.first("size"),
    "second": sash.nth("size", n=2),
    "of_best": sash.arg_max("x", "size"), "when_best": sash.arg_max("size", "x"), "times": sash.max_count("size"),
    "four": sash.m4("size"), "run": sash.longest_run("size", "x"), "by_name": sash.max("colour"),
    "newest": sash.last("colour"), "held": sash.collect("size"), "n": sash.count("size"),
    "usual": sash.mode("size"), "sizes": sash.count_distinct("size"),
    "middle": sash.quantile("size", q=0.5, interpolation="lower"),
}  # fmt: skip
RANKS: dict[str, Any] = {
    "rank": sash.rank("size"), "dense": sash.rank("size", method="dense"), "part": sash.percent_rank("size"),
}  # fmt: skip
"""They need a result at each row."""


def categories(values: list[Any], order: list[str] | None = None) -> pa.Array:
    known = order or SIZES
    codes = pa.array([None if value is None else known.index(value) for value in values], pa.int8())
    return pa.DictionaryArray.from_arrays(codes, known, ordered=True)


def rows(count: int = 30) -> pa.RecordBatch:
    draw = random.Random(3)
    sizes, colours = [*SIZES, None], ["red", "blue", "green", None]
    return pa.record_batch({
        "k": [draw.choice("ab") for _ in range(count)], "t": list(range(count)),
        "x": [draw.randrange(5) for _ in range(count)], "size": categories([draw.choice(sizes) for _ in range(count)]),
        "colour": pa.array([draw.choice(colours) for _ in range(count)]).dictionary_encode(),
    })  # fmt: skip


def schema_with_categories(batch: pa.RecordBatch) -> pa.Schema:
    """The schema of an operator that has seen a batch."""
    operator = Query(1, rows_seen=sash.count()).operator()
    operator.process(batch)
    assert operator.schema is not None
    return operator.schema


def in_pieces(batch: pa.RecordBatch, length: int) -> list[pa.RecordBatch]:
    """Pieces, in which unordered dictionaries differ."""
    found = []
    for at in range(0, batch.num_rows, length):
        piece = batch.slice(at, length)
        colour = piece["colour"].dictionary_decode().dictionary_encode()
        found.append(piece.set_column(4, pa.field("colour", colour.type), colour))
    return found


@pytest.mark.usefixtures("kernels", "interpreted_trees")
@pytest.mark.parametrize("emit", ["final", "changes", "eager"])
@pytest.mark.parametrize("window", [Count(3), Time(6, every=2), Lifetime()], ids=repr)
def test_compared_with_the_reference(window: Any, emit: Any) -> None:
    per_row = window.every is None
    query = Query(
        window, by="k", on="t", lateness=2, late="flag" if per_row else "drop", emit=emit,
        **ALL, **(RANKS if per_row else {}),
    )  # fmt: skip
    steps = [step for cut in in_pieces(rows(), 7) for step in (StreamStep("process", cut), StreamStep("snapshot"))]
    compare_with_reference(
        Case(query, schema_with_categories(rows()), "rows", (*steps, StreamStep("finish"))), begin, resume
    )


@pytest.mark.usefixtures("column_aggregates")
@pytest.mark.parametrize("window", [Count(3), Time(6, every=2)], ids=repr)
def test_frames_give_what_an_operator_gives(window: Any) -> None:
    query = Query(window, by="k", on="t", **ALL, **(RANKS if window.every is None else {}))
    batch = rows()
    operator = query.operator(mode="sorted")
    ordered = batch.sort_by([("k", "ascending"), ("t", "ascending")])
    by = [("k", "ascending"), ("t" if query.per_row else "window_end", "ascending")]
    expected = pa.Table.from_batches([operator.process(ordered), operator.finish()]).sort_by(by)
    found = query.run(pa.Table.from_batches(in_pieces(batch, 11))).sort_by(by)
    assert found.schema.field("largest").type == found.schema.field("second").type == ORDERED
    assert expected.schema.field("largest").type == WIDE
    assert found.schema.field("by_name").type == expected.schema.field("newest").type == OTHER
    assert found.to_pylist() == expected.to_pylist()
    for column in (found["largest"], expected["largest"]):
        assert all(chunk.dictionary.to_pylist() == SIZES for chunk in column.chunks)


def test_pandas_and_polars() -> None:
    values = ["small", "large", "medium", None]
    wanted = ["small", "large", "large", "medium"]
    kind = pd.CategoricalDtype(SIZES, ordered=True)
    for frame in (pd.DataFrame({"size": pd.Categorical(values, dtype=kind)}),):
        found = sash.rolling(frame, 2, m=sash.max("size"))["m"]
        assert (found.tolist(), found.dtype) == (wanted, kind)
        slides = sash.rolling(frame, Count(2, every=2), m=sash.max("size"))["m"]
        assert (slides.tolist(), slides.dtype) == (["large", "medium"], kind)
    polars = pl.DataFrame({"size": pl.Series(values, dtype=pl.Enum(SIZES))})
    for data in (polars, polars.lazy()):
        result = sash.rolling(data, 2, m=sash.max("size")).lazy().collect()["m"]
        assert (result.to_list(), result.dtype) == (wanted, pl.Enum(SIZES))
    assert sash.rolling(polars.clear(), 2, m=sash.max("size")).schema["m"] == pl.Enum(SIZES)


def test_order_statistics_by_the_order_of_categories() -> None:
    kind = pd.CategoricalDtype(SIZES, ordered=True)
    frame = pd.DataFrame({"size": pd.Categorical(["small", "large", "medium", None, "medium"], dtype=kind)})
    rules = ("lower", "higher", "nearest", "equiprobable")
    found = sash.rolling(
        frame, 4, usual=sash.mode("size"), n=sash.count_distinct("size"), rank=sash.rank("size"),
        **{rule: sash.quantile("size", q=0.5, interpolation=rule) for rule in rules},  # type: ignore[arg-type]
    )  # fmt: skip
    assert found["usual"].tolist() == ["small", "small", "small", "small", "medium"]
    assert found["n"].tolist() == [1, 2, 3, 3, 2]
    assert found["rank"].tolist()[:3] == [1.0, 2.0, 2.0]
    assert pd.isna(found["rank"][3])
    assert found["rank"][4] == 1.5  # medium, of large, medium, medium
    assert found["lower"].tolist() == ["small", "small", "medium", "medium", "medium"]
    assert found["higher"].tolist() == ["small", "large", "medium", "medium", "medium"]
    assert all(found[name].dtype == kind for name in ("usual", *rules))
    for aggregate in (sash.median("size"), sash.quantile("size", q=0.5)):
        with pytest.raises(TypeError, match=r"y=(median\('size'\)|quantile\('size', q=0\.5\)) reads numbers; .*"):
            sash.rolling(frame, 3, y=aggregate)


def test_a_table_without_chunks() -> None:
    empty = pa.table({"size": pa.chunked_array([], ORDERED)})
    assert sash.rolling(empty, 2, m=sash.max("size")).num_rows == 0


def test_another_order_in_a_later_batch_is_an_error() -> None:
    query = Query(2, m=sash.max("size"))
    operator = query.operator(pa.schema([("size", ORDERED)]))
    assert operator.process(pa.record_batch({"size": categories(["large"])}))["m"].to_pylist() == ["large"]
    other = pa.record_batch({"size": categories(["small"], ["large", "medium", "small"])})
    says = r"the ordered categories of the column 'size' differ between batches: small < medium < large, then large < "
    with pytest.raises(ValueError, match=says):
        operator.process(other)
    assert operator.process(pa.record_batch({"size": categories(["small"])}))["m"].to_pylist() == ["large"]
    with pytest.raises(ValueError, match=says):
        query.run(pa.table({"size": pa.chunked_array([categories(["large"]), other["size"]])}))


def test_a_store_has_the_order() -> None:
    query, store = Query(2, m=sash.max("size")), MemoryStore()
    Operator(query, store=store).process(pa.record_batch({"size": categories(["large"])}))
    opened = Operator(query, store=store)
    assert opened.process(pa.record_batch({"size": categories(["small"])}))["m"].to_pylist() == ["large"]
    other = pa.record_batch({"size": categories(["small"], ["large", "medium", "small"])})
    with pytest.raises(ValueError, match="the ordered categories of the column 'size' differ between batches"):
        Operator(query, store=store).process(other)
    with pytest.raises(PageError):
        Operator(query, schema_with_categories(other), store=store)
    with pytest.raises(ValueError, match="the given schema lacks the ordered categories of a column"):
        _ = Operator(query, pa.schema([("size", ORDERED)]), store=store).offset


def test_a_schema_alone_does_not_have_the_order() -> None:
    query, schema = Query(2, m=sash.max("size")), pa.schema([("size", ORDERED)])
    with pytest.raises(
        TypeError, match=r"m=max\('size'\) compares the column 'size' by the order of its categories, whi"
    ):
        query.bind(schema)
    assert Query(2, m=sash.last("size")).bind(schema).output().field("m").type == WIDE
    with pytest.raises(ValueError, match="the batch has no column 'size'"):
        query.operator(schema).process(pa.record_batch({"x": [1]}))


def test_what_is_refused() -> None:
    batch = pa.record_batch({"size": categories(["large"])})
    with pytest.raises(TypeError, match=r"would compare the ordered categories of the column 'size' by name"):
        Query(2, m=DirectProduct(Min(), Max())("size")).operator().process(batch)
    with pytest.raises(TypeError, match=r"m=range\('size'\) reads numbers; the column 'size' is of type string"):
        Query(2, m=sash.range("size")).run(batch)
