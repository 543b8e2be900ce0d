"""Keep what was computed for a schema: a query is bound once for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

Found = TypeVar("Found")


class SchemaCache(Generic[Found]):
    """Results by schema. Metadata of fields counts, that of the schema does not; a pickled cache is empty."""

    def __init__(self) -> None:
        self._known: list[tuple[pa.Schema, Found]] = []

    def get(self, schema: pa.Schema, compute: Callable[[pa.Schema], Found]) -> Found:
        """The result for a schema, computed when it is first asked for."""
        plain = schema.remove_metadata()
        for known, found in self._known:
            if known.equals(plain, check_metadata=True):
                return found
        made = compute(plain)
        self._known.append((plain, made))
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return SchemaCache, ()
