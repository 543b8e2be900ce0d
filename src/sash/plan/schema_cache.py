"""Keep what was computed for a schema: a query is bound once for each, and equal calls share a query."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sash.monoids.algebra import Monoid

if TYPE_CHECKING:
    import pyarrow as pa

    from sash.plan.query import Query

Found = TypeVar("Found")

MOST_SCHEMAS, MOST_QUERIES = 16, 256


class SchemaCache(Generic[Found]):
    """Results by schema, of the last few. Metadata of fields counts, that of the schema does not.

    A pickled cache is empty.
    """

    def __init__(self) -> None:
        self._known: list[tuple[pa.Schema, Found]] = []

    def get(self, schema: pa.Schema, compute: Callable[[pa.Schema], Found]) -> Found:
        """The result for a schema, computed when it is first asked for."""
        if schema.metadata:
            schema = schema.remove_metadata()
        for known, found in self._known:
            if known.equals(schema, check_metadata=True):
                return found
        made = compute(schema)
        self._known = [*self._known[1 - MOST_SCHEMAS :], (schema, made)]  # a new list: threads may share the cache
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return SchemaCache, ()


class Prepared(dict[Any, Any]):
    """What hosts have computed for a query and for the columns of a frame, the last few; a pickled one is empty."""

    def get_or(self, key: Any, compute: Callable[[], Found]) -> Found:
        """The value for a key, computed when it is first asked for."""
        found: Found | None = self.get(key)
        if found is None:
            if len(self) >= MOST_SCHEMAS:
                self.clear()
            found = self[key] = compute()
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return Prepared, ()


_REMEMBERED: dict[Any, Query] = {}


def remembered(make: type[Query], arguments: Mapping[str, Any]) -> Query:
    """The query with these arguments, the same one as in an earlier call of this process where aggregates are ours.

    `sash.rolling` names its query anew in each call, and to make, bind and plan one takes longer than 1,000 rows.
    """
    try:
        key = _exact(arguments)
    except _NotShared:
        return make(**arguments)
    found = _REMEMBERED.get(key)
    if found is None:
        if len(_REMEMBERED) >= MOST_QUERIES:
            _REMEMBERED.clear()
        found = _REMEMBERED[key] = make(**arguments)
    return found


_PLAIN = frozenset((str, int, bool, type(None)))


class _NotShared(Exception):
    """A value is compared by its identity, such as a function or a store: a query with it is made anew."""


def _exact(value: Any) -> Any:
    """A key that is equal for values that are equal in all their types: 1, 1.0 and True differ."""
    kind = type(value)
    if kind in _PLAIN:
        return kind, value
    if kind is float:
        return kind, value if value == value else repr(value)
    if kind in (list, tuple):
        return kind, *[(type(one), one) if type(one) in _PLAIN else _exact(one) for one in value]
    if kind is not dict:
        value = _attributes(value)
    return kind, *[
        (name, type(one), one) if type(one) in _PLAIN else (name, _exact(one)) for name, one in value.items()
    ]


def _attributes(value: Any) -> Mapping[str, Any]:
    """What determines an object of ours. Raises _NotShared for other objects."""
    kind = type(value)
    if kind.__module__.startswith("sash."):
        if isinstance(value, Monoid):
            return vars(value)
        if is_dataclass(kind):
            return {name: getattr(value, name) for name in _names(kind)}
    raise _NotShared


@functools.lru_cache(256)
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))
