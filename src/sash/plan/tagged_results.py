"""Results of several queries as rows of one table: a tag, and a struct column for each query.

_query   a                  b
"a"      {k: 1, high: 3.0}  null
"b"      null               {k: 1, n: 2}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

QUERY = "_query"
"""The column with the name of the query that a result belongs to."""


def tagged_schema(tag: pa.Field, structs: Mapping[str, Iterable[pa.Field]]) -> pa.Schema:
    """The columns of the table: the tag, and a struct with the given fields for each name."""
    import pyarrow as pa

    return pa.schema([tag, *(pa.field(name, pa.struct(list(fields))) for name, fields in structs.items())])


def query_schema(results: Mapping[str, Iterable[pa.Field]]) -> pa.Schema:
    """The columns of results that are tagged with the names of their queries."""
    import pyarrow as pa

    return tagged_schema(pa.field(QUERY, pa.string()), results)


def tagged_batch(schema: pa.Schema, tag: str | int, struct: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of a tagged schema: each has the tag, and the columns of `batch` in one struct; the others are null.

    >>> import pyarrow as pa
    >>> a, b = pa.record_batch({"high": [3, 5]}), pa.record_batch({"n": [2]})
    >>> tagged_batch(query_schema({"a": a.schema, "b": b.schema}), "b", "b", b).to_pylist()
    [{'_query': 'b', 'a': None, 'b': {'n': 2}}]
    """
    import pyarrow as pa

    rows, (first, *fields) = batch.num_rows, schema
    columns = [pa.repeat(pa.scalar(tag, first.type), rows)]
    for field in fields:
        if field.name == struct:
            columns.append(pa.StructArray.from_arrays(batch.columns, fields=list(field.type)))
        else:
            columns.append(pa.nulls(rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
