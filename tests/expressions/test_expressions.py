"""Expressions evaluated by Arrow, compared with DuckDB and with row-by-row Python."""

from __future__ import annotations

import math
from typing import Any

import duckdb
import pytest

from sash.expressions.arrow_evaluation import evaluated
from sash.expressions.parser import expr
from sash.expressions.row_evaluation import row_value
from tests.expressions.random_expressions import Drawn, table


def same(a: Any, b: Any) -> bool:
    if a is None or b is None or isinstance(a, str | bool):
        return a is None and b is None if a is None or b is None else bool(a == b)
    a, b = float(a), float(b)
    return a == b or (a != a and b != b) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_random_expressions_compared_with_duckdb_and_python(seed: int) -> None:
    rows = table(seed)
    texts = [Drawn(1000 * seed + i).any() for i in range(60)]
    connection = duckdb.connect()
    connection.register("rows", rows)
    for text in texts:
        tree = expr(text).tree
        found = evaluated(tree, rows.column, rows.num_rows).to_pylist()
        known = [row[0] for row in connection.sql(f"select {text} from rows").fetchall()]
        for i, (one, other) in enumerate(zip(found, known, strict=True)):
            assert same(one, other), f"{text}: {one!r}, DuckDB {other!r}, row {rows.slice(i, 1).to_pylist()}"
        for one, row in zip(found, rows.to_pylist(), strict=True):
            value = row_value(tree, row.__getitem__)
            assert same(one, value), f"{text}: {one!r}, a row at a time {value!r}, {row}"


@pytest.mark.parametrize("seed", range(4))
def test_the_normal_form_reads_as_itself(seed: int) -> None:
    for i in range(100):
        one = expr(Drawn(7000 * seed + i).any())
        assert expr(one.text) == one
        assert expr(one.text).text == one.text
