"""Types: the result type of every aggregate on every type of column, refused types, and that results fit.

The table's columns are types of columns; a dash is a refusal, `same` the column's own type.
"""

from importlib.util import find_spec
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash import Lifetime, Query
from sash.monoids import functions
from sash.monoids.functions import AGGREGATES
from sash.monoids.null_rows import NullRows
from sash.plan.bound_query import AggregateSpec
from sash.plan.types import BY_COLUMNS, BY_PARAMETERS, FIXED, admits, column, kind, samples

COLUMNS = {
    "bool": pa.bool_(),
    "int": pa.int32(),
    "uint64": pa.uint64(),
    "float": pa.float32(),
    "text": pa.large_string(),
    "time": pa.timestamp("ms"),
    "decimal": pa.decimal128(9, 2),
    "list": pa.list_(pa.int8()),
}
RUN = "struct<start: int64, end: int64, interval: int64, count: int64>"
TABLE = {
    # aggregate          bool        int         uint64      float       text        time        decimal     list
    "count":            "int64       int64       int64       int64       int64       int64       int64       int64",
    "sum":              "int64       int64       int64       double      -           -           decimal+10  -",
    "product":          "int64       int64       int64       double      -           -           -           -",
    "range":            "int64       int64       int64       double      -           interval    decimal+1   -",
    "sum_of_squares":   "int64       int64       int64       double      -           -           -           -",
    "mean":             "double      double      double      double      -           same        decimal+4   -",
    "geometric_mean":   "double      double      double      double      -           -           -           -",
    "var":              "double      double      double      double      -           -           -           -",
    "std":              "double      double      double      double      -           -           -           -",
    "skewness":         "double      double      double      double      -           -           -           -",
    "kurtosis":         "double      double      double      double      -           -           -           -",
    "covariance":       "double      double      double      double      -           -           -           -",
    "correlation":      "double      double      double      double      -           -           -           -",
    "slope":            "double      double      double      double      -           -           -           -",
    "intercept":        "double      double      double      double      -           -           -           -",
    "min":              "same        same        same        same        same        same        same        -",
    "max":              "same        same        same        same        same        same        same        -",
    "first":            "same        same        same        same        same        same        same        same",
    "last":             "same        same        same        same        same        same        same        same",
    "nth":              "same        same        same        same        same        same        same        same",
    "arg_min":          "date32[day] date32[day] date32[day] date32[day] date32[day] date32[day] date32[day] -",
    "arg_max":          "date32[day] date32[day] date32[day] date32[day] date32[day] date32[day] date32[day] -",
    "min_count":        "int64       int64       int64       int64       int64       int64       int64       -",
    "max_count":        "int64       int64       int64       int64       int64       int64       int64       -",
    "collect":          "listed      listed      listed      listed      listed      listed      listed      listed",
    "collect_distinct": "listed      listed      listed      listed      listed      listed      listed      -",
    "concat":           "-           -           -           -           same        -           -           -",
    "any":              "bool        -           -           -           -           -           -           -",
    "all":              "bool        -           -           -           -           -           -           -",
    "bit_and":          "int64       int64       uint64      -           -           -           -           -",
    "bit_or":           "int64       int64       uint64      -           -           -           -           -",
    "bit_xor":          "int64       int64       uint64      -           -           -           -           -",
    "m4":               "four        four        four        four        four        four        four        -",
    "longest_run":      "run         run         run         run         run         run         run         -",
    "approx_distinct":  "int64       int64       int64       int64       int64       int64       -           -",
    "approx_quantile":  "double      double      double      double      -           -           -           -",
    "frequent_items":   "items       items       items       items       items       items       -           -",
    "count_min":        "int64s      int64s      int64s      int64s      int64s      int64s      -           -",
    "median":           "double      double      double      double      -           same        decimal+4   -",
    "quantile":         "double      double      double      double      -           same        decimal+4   -",
    "rank":             "double      double      double      double      double      double      double      -",
    "percent_rank":     "double      double      double      double      double      double      double      -",
    "mode":             "same        same        same        same        same        same        same        -",
    "count_distinct":   "int64       int64       int64       int64       int64       int64       int64       -",
    "weighted_mean":   "double      double      double      double      -           -           -           -",
    "ewm_mean":        "double      double      double      double      -           -           -           -",
    "ewm_var":         "double      double      double      double      -           -           -           -",
    "ewm_std":         "double      double      double      double      -           -           -           -",
    "pct_change":      "double      double      double      double      -           -           -           -",
    "delta":           "int64       int64       int64       double      -           -           -           -",
    "lag":             "same        same        same        same        same        same        same        same",
    "bloom":            "binary      binary      binary      binary      binary      binary      -           -",
}  # fmt: skip
PARAMETERS: dict[str, dict[str, Any]] = {"nth": {"n": 2}, "quantile": {"q": 0.5}, "count_min": {"items": ("a", 1)}}
PARAMETERS |= {key: {"halflife": 2} for key in ("ewm_mean", "ewm_var", "ewm_std")}
CASES = [
    (name, over, wanted)
    for name, row in TABLE.items()
    for over, wanted in zip(COLUMNS, row.split(), strict=True)
    if find_spec("datasketches") or name not in ("approx_distinct", "approx_quantile", "frequent_items", "count_min")
]


def meant(wanted: str, type_: pa.DataType) -> str:
    """The type that a word of the table stands for."""
    four = ", ".join(f"{name}: {type_}" for name in ("first", "min", "max", "last"))
    words = {
        "same": type_,
        "listed": pa.list_(type_),
        "run": RUN,
        "four": f"struct<{four}>",
        "int64s": "list<item: int64>",
        "interval": "duration[ms]",
        "decimal+1": "decimal128(10, 2)",
        "decimal+4": "decimal128(13, 6)",
        "decimal+10": "decimal128(19, 2)",
    }
    return str({**words, "items": f"list<item: struct<item: {type_}, count: int64>>"}.get(wanted, wanted))


def bound_query(name: str, type_: pa.DataType, second: pa.DataType | None = None) -> AggregateSpec:
    """The aggregate on columns x (and y)."""
    least = AGGREGATES[name](**PARAMETERS.get(name, {})).arity[0]
    bound = getattr(functions, name)(*["x", "y"][: max(least, 1)], **PARAMETERS.get(name, {}))
    other = second or (pa.date32() if name.startswith("arg") else pa.int16())
    (part,) = Query(Lifetime(), r=bound).bind(pa.schema([("x", type_), ("y", other)])).aggregates
    return part


def test_the_table_is_complete() -> None:
    assert TABLE.keys() == AGGREGATES.keys()
    assert {*AGGREGATES.values()} == {*FIXED, *BY_COLUMNS, *BY_PARAMETERS}


@pytest.mark.parametrize(("name", "over", "wanted"), CASES)
def test_what_it_gives(name: str, over: str, wanted: str) -> None:
    type_ = COLUMNS[over]
    if wanted == "-":
        message = rf"r={name}\('x'(, .*)?\) (reads|takes) .*; the column 'x' is of type "
        with pytest.raises(TypeError, match=message):
            bound_query(name, type_)
        return
    part = bound_query(name, type_)
    assert str(part.result) == meant(wanted, type_)
    folded = part.monoid.identity
    rows = list(zip(*(samples(one) for one in part.types), strict=True))
    if isinstance(part.monoid, NullRows):
        rows = [(x, True) for x, _ in rows[::-1]]  # so that none of those compared is zero
    for row in rows:
        folded = part.monoid.combine(folded, part.monoid.lifted(row))
    array = part.array([part.monoid.lower(folded), part.monoid.empty])
    assert array.type == part.result
    assert array.null_count == (0 if part.monoid.empty == 0 else 1)


@pytest.mark.parametrize("name", ["max", "first", "count", "collect", "min_count", "arg_max"])
@pytest.mark.parametrize(
    "type_",
    [
        pa.date32(),
        pa.date64(),
        pa.time32("s"),
        pa.time64("ns"),
        pa.duration("us"),
        pa.binary(),
        pa.binary(4),
        pa.string(),
    ],
    ids=str,
)
def test_what_has_an_order(name: str, type_: pa.DataType) -> None:
    result = bound_query(name, type_, pa.int8()).result
    assert result == {"max": type_, "first": type_, "collect": pa.list_(type_), "arg_max": pa.int8()}.get(
        name, pa.int64()
    )


@pytest.mark.parametrize("name", ["max", "first", "concat", "collect_distinct"])
def test_a_dictionary_counts_as_its_values(name: str) -> None:
    coded = bound_query(name, pa.dictionary(pa.int8(), pa.string()))
    plain = bound_query(name, pa.string())
    assert (coded.types, coded.result) == (plain.types, plain.result)


@pytest.mark.parametrize("type_", [pa.struct([("a", pa.int8())]), pa.map_(pa.string(), pa.int8())], ids=str)
def test_what_has_no_order(type_: pa.DataType) -> None:
    with pytest.raises(
        TypeError, match=r"r=max\('x'\) reads values with an order: numbers, text, times, booleans; the col"
    ):
        bound_query("max", type_)
    assert bound_query("first", type_).result == type_


@pytest.mark.parametrize(
    ("name", "type_", "says"),
    [
        (
            "var",
            pa.decimal128(5, 1),
            r"reads numbers; .* decimal128\(5, 1\): cast it to float64; sum, mean",
        ),
        (
            "var",
            pa.duration("s"),
            r"reads numbers; .* duration\[s\], which is ordered but not a number: cast it to int64",
        ),
        ("any", pa.int8(), r"reads booleans; .* int8: compare it first, or cast it to bool"),
        ("concat", pa.int8(), r"reads text; .* int8: cast it to string"),
        ("bit_or", pa.float64(), r"reads integers; the column 'x' is of type double$"),
        (
            "collect_distinct",
            pa.list_(pa.int8()),
            r"reads values that can be compared for equality, not lists or structs",
        ),
        (
            "bloom",
            pa.time32("s"),
            r"takes numbers, text, bytes, dates and timestamps; .* time32\[s\]: cast it to string",
        ),
    ],
)
def test_a_refusal_suggests_a_remedy(name: str, type_: pa.DataType, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        bound_query(name, type_)


def test_the_second_column_is_looked_at() -> None:
    with pytest.raises(TypeError, match=r"r=slope\('x', 'y'\) reads numbers; the column 'y' is of type string"):
        bound_query("slope", pa.int8(), pa.string())
    with pytest.raises(
        TypeError, match=r"r=longest_run\('x', 'y'\) reads numbers; the column 'y' is of type timestamp"
    ):
        bound_query("longest_run", pa.int8(), pa.timestamp("s"))
    assert bound_query("arg_max", pa.int8(), pa.list_(pa.int8())).result == pa.list_(pa.int8())
    assert bound_query("longest_run", pa.string(), pa.float32()).result.field("interval").type == pa.float64()


def test_counting_several_columns() -> None:
    (part,) = (
        Query(5, n=sash.count("x", "y")).bind(pa.schema([("x", pa.null()), ("y", pa.list_(pa.int8()))])).aggregates
    )
    assert part.result == pa.int64()
    (part,) = Query(5, n=sash.count()).bind(pa.schema([])).aggregates
    assert (part.columns, part.types, part.result) == ((), (), pa.int64())


@pytest.mark.skipif(not find_spec("datasketches"), reason="datasketches has no release for this Python")
def test_sketches_of_several() -> None:
    schema = pa.schema([("x", pa.float64())])
    (part,) = Query(Lifetime(), q=sash.approx_quantile("x", q=(0.5, 0.9))).bind(schema).aggregates
    assert part.result == pa.list_(pa.float64())
    assert part.array([(1.0, 2.0), None]).to_pylist() == [[1.0, 2.0], None]
    with pytest.raises(
        TypeError, match=r"c=count_min\('x'\): count_min without items= gives an object that does not fit"
    ):
        Query(Lifetime(), c=sash.count_min("x")).bind(schema)


def test_products() -> None:
    both = sash.monoids.Max() * sash.monoids.Count() * sash.monoids.Max()
    (part,) = Query(5, r=both("x")).bind(pa.schema([("x", pa.int8())])).aggregates
    three = sash.monoids.DirectProduct(sash.monoids.Max(), sash.monoids.Count(), sash.monoids.Max())
    (flat,) = Query(5, r=three("x")).bind(pa.schema([("x", pa.int8())])).aggregates
    assert str(flat.result) == "struct<max: int8, count: int64, max_3: int8>"
    assert str(part.result) == "struct<direct_product: struct<max: int8, count: int64>, max: int8>"
    assert flat.array([(5, 2, 5), three.empty]).to_pylist() == [
        {"max": 5, "count": 2, "max_3": 5},
        {"max": None, "count": 0, "max_3": None},
    ]


def test_results_become_columns() -> None:
    four = pa.struct([("first", pa.int64()), ("last", pa.int64())])
    assert column([(1, 2), None], four, "m").to_pylist() == [{"first": 1, "last": 2}, None]
    pairs = pa.list_(pa.struct([("item", pa.string()), ("count", pa.int64())]))
    assert column([[("a", 2)], None], pairs, "f").to_pylist() == [[{"item": "a", "count": 2}], None]
    seen = sash.monoids.Bloom().lift("a")
    assert column([seen], pa.binary(), "b").to_pylist() == [bytes(seen)]
    with pytest.raises(TypeError, match=r"a result of 'm' does not fit its type, int8: .*"):
        column([300], pa.int8(), "m")
    with pytest.raises(TypeError, match=r"a result of 'm' does not fit its type, string"):
        column([object()], pa.string(), "m")


def test_kinds_of_compiled_columns() -> None:
    found = {
        str(type_): kind(type_)
        for type_ in (pa.bool_(), pa.int8(), pa.uint32(), pa.uint64(), pa.float16(), pa.string())
    }
    assert list(found.values()) == ["bool", "int", "int", None, "float", None]
    assert admits("any", pa.null())


def test_want_of_memory_is_not_blamed_on_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: Any) -> Any:
        raise pa.ArrowMemoryError("malloc of size 64 failed")

    monkeypatch.setattr(pa, "array", no_memory)
    with pytest.raises(MemoryError, match="malloc of size 64 failed"):
        column([1], pa.int64(), "n")
