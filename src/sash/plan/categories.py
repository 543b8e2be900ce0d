"""Ordered categories: the declared order of a column's values, as metadata of its field.

The type of a dictionary says that its values have an order; the values are in the data. So a schema for a query with
`max("size")` has the order in the field's metadata, from the first batch:

    size: dictionary<string, ordered>   ──first batch──▶   the same, with small < medium < large

Plain values may have it, too: frames hand decoded columns to the engine.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

KEY = b"sash.categories"
"""The metadata of a field: its categories in order, as an Arrow stream."""

Categories = tuple[Any, ...]


class UnknownCategories(TypeError):
    """A query compares ordered categories, and the schema does not have their order: the first batch will."""


def with_categories(field: pa.Field, categories: pa.Array) -> pa.Field:
    """The field with the order of its values."""
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays([categories], names=["categories"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return field.with_metadata({**(field.metadata or {}), KEY: sink.getvalue().to_pybytes()})


def categories_of(field: pa.Field) -> pa.Array | None:
    """The values of a field in their order, if they have one; None if not."""
    found = (field.metadata or {}).get(KEY)
    return None if found is None else pa.ipc.open_stream(found).read_all().column(0).combine_chunks()


def without_categories(field: pa.Field) -> pa.Field:
    """The field without the order of its values."""
    if KEY not in (field.metadata or {}):
        return field
    rest = {key: value for key, value in field.metadata.items() if key != KEY}
    return field.with_metadata(rest) if rest else field.remove_metadata()


def is_ordered(type_: pa.DataType) -> bool:
    """Is it a type of ordered categories?"""
    return bool(getattr(type_, "ordered", False))


def ordered_categories(name: str, column: pa.Array | pa.ChunkedArray) -> pa.Array | None:
    """The categories of a column in their order; None if it has none.

    Raises ValueError, naming the column, if its chunks have different ones.
    """
    if not is_ordered(column.type):
        return None
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    for chunk in chunks[1:]:
        _require_same(name, chunks[0].dictionary, chunk.dictionary)
    return _plain(chunks[0].dictionary if chunks else pa.nulls(0, column.type.value_type))


def schema_with_categories(batch: pa.RecordBatch) -> pa.Schema:
    """The schema of a batch, with the order of its ordered categories."""
    schema = batch.schema
    if not any(is_ordered(kind) for kind in schema.types):
        return schema
    fields = []
    for field, column in zip(schema, batch.columns, strict=True):
        found = ordered_categories(field.name, column)
        fields.append(field if found is None else with_categories(field, found))
    return pa.schema(fields, schema.metadata)


def schema_categories(schema: pa.Schema) -> dict[str, pa.Array]:
    """The ordered categories of the dictionaries of a schema, by column."""
    known = {field.name: categories_of(field) for field in schema if is_ordered(field.type)}
    return {name: found for name, found in known.items() if found is not None}


def require_categories(batch: pa.RecordBatch, known: dict[str, pa.Array]) -> None:
    """Raises ValueError, naming the column, if ordered categories of a batch have another order than those known."""
    for name, categories in known.items():
        _require_same(name, categories, batch.column(name).dictionary)


def _require_same(name: str, known: pa.Array, given: pa.Array) -> None:
    given = _plain(given)
    if not _plain(known).equals(given):
        raise ValueError(
            f"the ordered categories of the column {name!r} differ between batches: {_listed(known)}, then "
            f"{_listed(given)}: give all batches the same categories in the same order, or cast the column to text"
        )


def _plain(values: pa.Array) -> pa.Array:
    from sash.plan.types import value_type

    kind = value_type(values.type)
    return values if values.type == kind else values.cast(kind)


def _listed(values: pa.Array) -> str:
    names = [str(value) for value in values[:8].to_pylist()]
    return " < ".join(names) + (" < …" if len(values) > 8 else "") if names else "no categories"


def encode_categories(column: pa.Array, kind: pa.DataType, categories: pa.Array) -> pa.Array:
    """Plain values as ordered categories of this type."""
    codes = pc.index_in(column, categories.cast(column.type)).cast(kind.index_type)
    return pa.DictionaryArray.from_arrays(codes, categories.cast(kind.value_type), ordered=True)
