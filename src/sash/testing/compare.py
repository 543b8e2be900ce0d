"""Compare two outputs: row by row, floats within a tolerance, order only where it is guaranteed.

    got        a 1.0   b 7   a 2.0                a  1.0  2.0        b  7
    expected   a 1.0   a 2.0   b 7     by key:    a  1.0  2.0        b  7        the same

Within a group the rows are compared in order, or as a multiset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sash.monoids.algebra import agree
from sash.testing.window_oracle import alike, python_values

TOLERANCE = 1e-12
"""The relative tolerance of floats: the order of additions differs between hosts."""

Rows = list[dict[str, Any]]


def assert_same(
    got: Any,
    expected: Any,
    *,
    by: Sequence[str] = (),
    ordered: bool = True,
    loose: Mapping[str, float] | None = None,
    without: Sequence[str] = (),
) -> None:
    """Check that two outputs hold the same rows.

    `got` and `expected` are record batches, tables, lists of batches with one schema, or lists of dicts. `by` names
    the columns to group rows by: order matters only within a group (and only if `ordered`). `loose` has tolerances of
    single columns, and columns in `without` are ignored.

    >>> import pyarrow as pa
    >>> first = pa.record_batch({"k": ["a", "b", "a"], "x": [0.1 + 0.2, 7.0, 2.0]})
    >>> second = pa.record_batch({"k": ["a", "a", "b"], "x": [0.3, 2.0, 7.0]})
    >>> assert_same(first, second, by=["k"])

    Raises AssertionError that shows the group, the rows and the columns that differ.
    """
    mine, theirs = as_rows(got, without), as_rows(expected, without)
    groups, wanted = grouped(mine, by), grouped(theirs, by)
    for key in [*wanted, *(key for key in groups if key not in wanted)]:
        where = f"of {dict(zip(by, key, strict=True))}" if by else "in all"
        compare = _in_order if ordered else _as_multisets
        compare(groups.get(key, []), wanted.get(key, []), where, loose or {})


def as_rows(data: Any, without: Sequence[str] = ()) -> Rows:
    """Record batches as a list of dicts, which it may be already. Raises AssertionError if their schemas differ."""
    if isinstance(data, list) and data and isinstance(data[0], dict):
        return [{name: value for name, value in row.items() if name not in without} for row in data]
    batches: Iterable[pa.RecordBatch] = data if isinstance(data, list) else _batches(data)
    rows: Rows = []
    schema = None
    for batch in batches:
        assert schema is None or batch.schema == schema, f"two schemas in one output:\n{schema}\nand\n{batch.schema}"
        schema = batch.schema
        names = [name for name in schema.names if name not in without]
        columns = [python_values(batch.column(name)) for name in names]
        rows += [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return rows


def _batches(data: Any) -> list[pa.RecordBatch]:
    return [data] if isinstance(data, pa.RecordBatch) else data.to_batches()


def grouped(rows: Rows, by: Sequence[str]) -> dict[Any, Rows]:
    """The rows by the values of some columns, in order."""
    groups: dict[Any, Rows] = {}
    for row in rows:
        groups.setdefault(tuple(alike(row[name]) for name in by), []).append(row)
    return groups


def _differing(a: dict[str, Any], b: dict[str, Any], loose: Mapping[str, float]) -> list[str]:
    """The columns in which two rows do not agree."""
    if a.keys() != b.keys():
        return sorted(a.keys() ^ b.keys())
    return [name for name in a if not _same_value(a[name], b[name], loose.get(name))]


def _same_value(a: Any, b: Any, loose: float | None) -> bool:
    if loose is None:
        return agree(a, b, TOLERANCE)
    # a result near zero, such as the skewness of a straight line, has no significant digits
    return agree(a, b, loose) or (isinstance(a, float) and isinstance(b, float) and abs(a - b) <= loose)


def _in_order(got: Rows, expected: Rows, where: str, loose: Mapping[str, float]) -> None:
    for i, (mine, theirs) in enumerate(zip(got, expected, strict=False)):
        names = _differing(mine, theirs, loose)
        assert not names, f"row {i} {where} differs in {', '.join(names)}:\n  got      {mine}\n  expected {theirs}"
    _same_number(got, expected, where)


def _same_number(got: Rows, expected: Rows, where: str) -> None:
    few = min(len(got), len(expected))
    more = got if len(got) > few else expected
    whose = "only got" if len(got) > few else "only expected"
    assert len(got) == len(expected), f"{len(got)} rows {where}, expected {len(expected)}; {whose}: {more[few]}"


def _as_multisets(got: Rows, expected: Rows, where: str, loose: Mapping[str, float]) -> None:
    left = list(expected)
    for mine in got:
        for i, theirs in enumerate(left):
            if not _differing(mine, theirs, loose):
                del left[i]
                break
        else:
            nearest = min(left, key=lambda row: len(_differing(mine, row, loose)), default=None)
            raise AssertionError(f"a row {where} was not expected:\n  got      {mine}\n  nearest  {nearest}")
    assert not left, f"{len(left)} rows {where} are missing, the first is {left[0]}"
