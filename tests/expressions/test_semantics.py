"""Expressions where SQL's dialects differ, and refused ones: the same on arrays and on single rows."""

from __future__ import annotations

import datetime
import math
import pickle
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.expressions.arrow_evaluation import evaluated
from sash.expressions.parser import Unsupported
from sash.expressions.row_evaluation import row_value

NAN, INF = math.nan, math.inf
AWARE = datetime.datetime(2024, 5, 1, 23, 30, tzinfo=datetime.UTC)
ROW: dict[str, Any] = {
    "i": 7, "z": 0, "n": None, "x": 2.5, "nan": NAN, "s": "ab", "b": True, "big": 2**62, "d": Decimal("1.25"),
    "wide": Decimal(10**20),
    "t": datetime.datetime(2024, 5, 1, 9, 30), "day": datetime.date(2024, 5, 1), "u": AWARE, "l": [1],
}  # fmt: skip
TYPES = {"n": pa.int64(), "t": pa.timestamp("us"), "u": pa.timestamp("us", "Europe/Berlin"), "d": pa.decimal128(6, 2)}
TYPES["wide"] = pa.decimal128(38, 0)
ARRAYS = {name: pa.array([value], TYPES.get(name)) for name, value in ROW.items()}


def both(text: str) -> Any:
    """The value of an expression for one row, by Arrow and by Python, which must agree."""
    tree = sash.expr(text).tree
    found = evaluated(tree, ARRAYS.__getitem__, 1)[0].as_py()
    value = row_value(tree, {name: array[0].as_py() for name, array in ARRAYS.items()}.__getitem__)
    assert found == value or (found != found and value != value), f"{text}: Arrow {found!r}, Python {value!r}"
    return found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("i / 2", 3.5),
        ("i / z", None),
        ("x / 0", None),
        ("i // 2", 3),
        ("-i // 2", -3),
        ("i // z", None),
        ("-i % 4", -3),
        ("x % 0", None),
        ("i % z", None),
        ("nan % 2", NAN),
        ("i + n", None),
        ("i + x", 9.5),
        ("big * 1.0", 2.0**62),
        ("d + i", Decimal("8.25")),
        ("d * d", Decimal("1.5625")),
        ("d * i", Decimal("8.75")),
        ("-3 * d", Decimal("-3.75")),
        ("d * n", None),
        ("d * null", None),
        ("wide * i", Decimal(7) * 10**20),
        ("wide + d", Decimal("100000000000000000001.25")),
        ("wide - 1", Decimal(99999999999999999999)),
        ("d / 2", 0.625),
        ("d > 1", True),
        ("nan = nan", False),
        ("nan <> nan", True),
        ("nan > 1", False),
        ("greatest(nan, 1)", NAN),
        ("least(nan, 1)", NAN),
        ("greatest(n, 1)", 1),
        ("isnan(nan)", True),
        ("isinf(1 / x)", False),
        ("sqrt(-1)", NAN),
        ("ln(0)", -INF),
        ("ln(-1)", NAN),
        ("power(0, -1)", INF),
        ("power(-8, 0.5)", NAN),
        ("exp(1000)", INF),
        ("log(100)", 2.0),
        ("log(3, 9)", 2.0),
        ("round(2.5)", 3.0),
        ("round(-2.5)", -3.0),
        ("round(x, 0)", 3.0),
        ("round(i, -1)", 10),
        ("cast(2.5 as bigint)", 2),
        ("cast(3.5 as bigint)", 4),
        ("cast('12' as bigint)", 12),
        ("cast(b as bigint)", 1),
        ("cast('1.5' as double)", 1.5),
        ("cast(i as varchar)", "7"),
        ("i::double", 7.0),
        ("floor(i)", 7),
        ("ceil(x)", 3.0),
        ("cast('1.25' as decimal(6, 2))", Decimal("1.25")),
        ("cast(t as date)", datetime.date(2024, 5, 1)),
        ("n is null", True),
        ("n = n", None),
        ("n = 1 or b", True),
        ("n = 1 and not b", False),
        ("(n = 1) is true", False),
        ("i in (1, 7)", True),
        ("i not in (1, n)", None),
        ("i between 7 and 8", True),
        ("s like 'a_'", True),
        ("s like '%B'", False),
        ("s ilike '%B'", True),
        ("s || n::varchar", None),
        ("concat(s, n::varchar, 'x')", "abx"),
        ("substr(s, 2)", "b"),
        ("length('é€')", 2),
        ("trim('  a ')", "a"),
        ("starts_with(s, 'a')", True),
        ("case when n > 1 then 1 end", None),
        ("if(b, 1, 2.5)", 1.0),
        ("coalesce(n, 2.5)", 2.5),
        ("nullif(i, 7)", None),
        ("t > '2024-05-01'", True),
        ("t = timestamp '2024-05-01 09:30:00'", True),
        ("day = date '2024-05-01'", True),
        ("day < t", True),
        ("t - interval '30 minutes' = '2024-05-01 09:00:00'", True),
        ("hour(t)", 9),
        ("hour(u)", 1),
        ("day(u)", 2),
        ("dow(t)", 3),
        ("quarter(day)", 2),
        ("extract(minute from t)", 30),
        ("epoch(day)", 1714521600.0),
        ("u > timestamp '2024-05-01 23:00:00'", True),
        ("t - timestamp '2024-05-01 09:00:00'", datetime.timedelta(minutes=30)),
        ("t - null", None),
        ("hour(null + day)", None),
        ("not null", None),
        ("null + 1", None),
        ("sign(-x)", -1.0),
        ("sign(-i)", -1),
        ("abs(-d)", Decimal("1.25")),
    ],
)
def test_values(text: str, value: Any) -> None:
    found = both(text)
    assert found == value or (value != value and found != found)
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["big * 2", "big + big", "-(big + big)", "cast('x' as bigint)", "cast(nan as bigint)"])
def test_values_that_do_not_fit_are_errors_on_both_paths(text: str) -> None:
    tree = sash.expr(text).tree
    with pytest.raises(ValueError, match="fails"):
        evaluated(tree, ARRAYS.__getitem__, 1)
    with pytest.raises(ValueError, match="fails"):
        row_value(tree, ROW.__getitem__)


@pytest.mark.parametrize(
    "text",
    [
        "s + 1",
        "b + 1",
        "s > 1",
        "t * 2",
        "t + t",
        "i and b",
        "not i",
        "upper(i)",
        "year(i)",
        "sqrt(s)",
        "l = 1",
        "x // 2",
        "coalesce(i, s)",
        "case when i then 1 end",
        "cast(x as varchar)",
        "s like 'a' and i",
        "-s",
        "cast(t as bigint)::date",
    ],
)
def test_types_that_do_not_fit_are_errors_on_both_paths(text: str) -> None:
    tree = sash.expr(text).tree
    with pytest.raises(TypeError):
        evaluated(tree, ARRAYS.__getitem__, 1)
    if not text.startswith("coalesce"):  # values of two types: a row has but one of them
        with pytest.raises((TypeError, ValueError)):
            row_value(tree, ROW.__getitem__)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("select a from t", "is a query"),
        ("(select 1)", "is a subquery"),
        ("a in (select b from t)", "IN takes a list"),
        ("sum(a)", r"SUM\(a\) is an aggregate"),
        ("sum(a) over ()", "is a window function"),
        ("count(*)", "is an aggregate"),
        ("*", "names no column"),
        ("a; b", "has 2 statements"),
        ("", "is empty"),
        ("?", "is a parameter"),
        ("$1", "is a parameter"),
        ("a as b", "is an alias"),
        ("t.a", 'quote the name if it has a dot, as "t.a"'),
        ("soundex(a)", r"there is no function soundex\(\).* Functions are abs, ceil, "),
        ("flor(a)", r"Did you mean floor\(\)\?"),
        ("random()", "not deterministic"),
        ("try_cast(a as int)", "no TRY_CAST"),
        ("a[1]", "BRACKET"),
        ("drop table a", "DROP"),
        ("is paid", "double quotes"),
        ("unit price", "Put a column's name with spaces in double quotes"),
        ("a +", "at character 3"),
        ("a b c", "at character 5, 'c'"),
        ("abs(a, b)", "abs"),
        ("cast(a as blob)", "there is no cast to"),
        ("a like b", "the pattern of LIKE must be text in quotes"),
        ("substr(a, b)", "must be numbers"),
        ("substr(a, 0)", "the first character has the number 1"),
        ("round(a, b)", "digits of round"),
        ("interval '1 month'", "units of intervals"),
        ("date 'soon'", "is not a date"),
        ("9223372036854775808", "does not fit 64 bits"),
        ("1e999", "does not fit a 64-bit float"),
        ("a is b", "IS takes"),
        ("cast(a as decimal(50, 2))", "a decimal has 1 to 38 digits"),
        ("floor(a, 2)", "floor"),
        ("(" * 150 + "a" + "+1)" * 150, "nested more than 100 deep"),
        ("not " * 3000 + "a", "nested more than 100 deep"),
        ("a = " * 3000 + "1", "nested more than 100 deep"),
        ("1 + (" * 200 + "a" + ")" * 200, "nested more than 100 deep"),
        ("a > 1 & b < 3", "1 & b: & is not supported; for conditions write AND"),
        ("(a > 1) && (b < 3)", "&& is not supported; for conditions write AND"),
        ("(a > 1) | (b < 3)", r"\| is not supported; for conditions write OR"),
        ("~(a > 1)", "~ is not supported; for conditions write NOT"),
        ("a between symmetric 1 and 2", "SYMMETRIC is not supported"),
        ("a like 'b' escape '/'", "ESCAPE"),
        ("round(a, 1, 2)", r"ROUND\(a, 1, 2\): 2 is not supported"),
        ("cast(a as decimal(10, 'b'))", "a decimal has 1 to 38 digits"),
        ("interval (-1) day", "an interval is a number and a unit"),
        ("interval abs(1) day", "an interval is a number and a unit"),
        ("cast(a as int format 'b')", "'b' is not supported"),
    ],
)
def test_refused_by_name_at_the_call(text: str, says: str) -> None:
    with pytest.raises(Unsupported, match=says):
        sash.expr(text)


def test_expressions_are_values() -> None:
    one = sash.expr("Price*qty  > 1.0 AND  not OK")
    assert repr(one) == "expr('((Price * qty) > 1.0) and (not OK)')"
    assert one.columns == ("Price", "qty", "OK")
    assert pickle.loads(pickle.dumps(one)) == one == sash.expr(one.text)
    assert {one: 1}[sash.expr(one.text)] == 1
    assert sash.expr("1") != sash.expr("1.0") != sash.expr("true")
    assert sash.expr(one) is one
    assert sash.expr('"unit price" + "order"').text == '"unit price" + "order"'


@pytest.mark.parametrize("count", [3, 100, 3000])
@pytest.mark.parametrize(
    ("operator", "operand", "value"),
    [
        ("or", "i = {}", True),
        ("and", "i <> {}", False),
        ("+", "x", 2.5),
        ("-", "x", 2.5),
        ("*", "i", 7),
        ("||", "s", "ab"),
    ],
)
def test_a_flat_chain_is_no_nesting(operator: str, operand: str, value: Any, count: int) -> None:
    text = f" {operator} ".join(operand.format(7 + i) for i in range(count))
    one = sash.expr(text)
    if operator == "*":
        one = sash.expr(text.replace("i", "1"))
    wanted = {"+": value * count if operator == "+" else 0, "-": 2.5 - 2.5 * (count - 1), "*": 1}.get(operator, value)
    wanted = value * count if operator == "||" else wanted
    assert evaluated(one.tree, ARRAYS.__getitem__, 1)[0].as_py() == row_value(one.tree, ROW.__getitem__) == wanted
    assert pickle.loads(pickle.dumps(one)) == one == sash.expr(one.text)
    assert len({one, sash.expr(one.text)}) == 1


def test_a_chain_is_computed_from_left_to_right() -> None:
    assert both("i - 1 - 2 - 3") == 1 == both("((i - 1) - 2) - 3")
    assert both("i - (1 - (2 - 3))") == 5
    assert sash.expr("(i + 1) + 2").text == "i + 1 + 2"
    assert sash.expr("i + (1 + 2)").text == "i + (1 + 2)"
    assert both("n = 1 or b or n = 2")
    assert both("n = 1 and i = 7 and b") is None
    assert both("n = 1 and i = 8 and b") is False
    with pytest.raises(
        TypeError, match=r"'\+' in the expression '\(i \+ 1\) \+ s' does not take i \+ 1 of type int64 and s"
    ):
        evaluated(sash.expr("i + 1 + s + x").tree, ARRAYS.__getitem__, 1)
    with pytest.raises(ValueError, match=r"the expression '\(i \+ 1 \+ big\) \+ big' fails"):
        row_value(sash.expr("i + 1 + big + big + 1").tree, ROW.__getitem__)


@pytest.mark.parametrize("count", [100, 2000])
def test_a_list_of_values_is_no_nesting(count: int) -> None:
    values = ", ".join(map(str, range(1, count)))
    table = pa.table({"x": [0, 1, count - 1, count, None]})
    found = sash.rolling(table, 1, n=sash.count(where=f"x in ({values})"), m=sash.count(where=f"x not in ({values})"))
    assert found["n"].to_pylist() == [0, 1, 1, 0, 0]
    assert found["m"].to_pylist() == [1, 0, 0, 1, 0]


@pytest.mark.parametrize(
    ("condition", "written"),
    [('k == "a"', "k = 'a'"), ('x > 1 and k <> "a b"', "k <> 'a b'"), ("not (k in ('b', \"c\"))", "k = 'c'")],
)
def test_the_error_of_a_text_in_double_quotes_says_how_to_write_it(condition: str, written: str) -> None:
    said = f"texts take single quotes: {written}"
    with pytest.raises(KeyError, match=re.escape(said)):
        sash.rolling(pa.table({"k": ["a"], "x": [1]}), 1, n=sash.count(where=condition))
    with pytest.raises(KeyError, match=re.escape(said)):
        sash.Query(1, n=sash.sum(sash.expr(f"if({condition}, 1, 0)"))).operator().process({"k": ["a"], "x": [1]})
    with pytest.raises(KeyError) as found:
        sash.Window(1, sash.count(where=condition)).push({"k": "a", "x": 1})
    assert found.value.args[0].endswith(said)


def test_a_quoted_name_of_another_case_is_a_column() -> None:
    with pytest.raises(KeyError, match=r"names the column 'K', which does not exist: did you mean 'k'\?"):
        sash.rolling(pa.table({"k": ["a"]}), 1, n=sash.count(where="\"K\" = 'a'"))


def test_conditions_are_checked_at_the_call() -> None:
    with pytest.raises(
        TypeError, match=r"where= of sum must be a boolean column's name, or a condition .*; got 3, a int"
    ):
        sash.sum("x", where=3)  # type: ignore[arg-type]
    with pytest.raises(Unsupported, match="at character"):
        sash.sum("x", where="x >")
    with pytest.raises(TypeError, match="takes an SQL expression as text"):
        sash.expr(3)  # type: ignore[arg-type]


def test_the_row_that_fails_is_found() -> None:
    values = pa.array([1] * 1000 + [2**62] + [1] * 500)
    with pytest.raises(ValueError, match=r"the expression 'i \* 4' fails at row 1000, i=4611686018427387904: overflow"):
        evaluated(sash.expr("i * 4").tree, lambda _: values, len(values))


def test_a_decimal_of_more_than_38_digits_is_an_error_of_its_row() -> None:
    columns = {"d": pa.array([Decimal(1), Decimal(10**20)], pa.decimal128(38, 0))}
    with pytest.raises(ValueError, match=r"'d \* d' fails at row 1, d=Decimal\('1\d+'\): .* precision 38"):
        evaluated(sash.expr("d * d").tree, columns.__getitem__, 2)
    places = {"d": pa.array([], pa.decimal128(38, 30))}
    with pytest.raises(
        TypeError, match=r"'\*' in the expression 'd \* d' does not take d of type decimal128\(38, 30\)"
    ):
        evaluated(sash.expr("d * d").tree, places.__getitem__, 0)


def test_money_times_quantity() -> None:
    trades = pa.table({"price": pa.array([Decimal("1.10"), Decimal("2.25")]), "qty": [3, 4]})
    found = sash.rolling(trades, 2, paid=sash.sum(sash.expr("price * qty")), twice=2 * sash.max("price"))
    assert found["paid"].to_pylist() == [Decimal("3.30"), Decimal("12.30")]
    assert found["twice"].to_pylist() == [Decimal("2.20"), Decimal("4.50")]
