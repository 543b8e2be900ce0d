r"""An immutable counted multiset: a treap of tuples, in which multisets share subtrees.

Aragon, Seidel: Randomized Search Trees, FOCS 1989; union and difference after Blelloch, Reid-Miller: Fast Set
Operations Using Treaps, SPAA 1998.

                  5 ×2                 a search tree by key, a heap by priority
                 /    \                a node counts how often its key occurs,
             3 ×1      9 ×1            and holds for its subtree: the number of keys with and without
                 \                    repetition, and the most frequent key
                  4 ×7

The priority of a key is a hash of it, so that equal multisets are equal trees, however they were made. Adding or
removing m keys of n takes O(m log(n / m + 1)) expected steps, an order statistic O(log n).

A key is None for NaN, which is greater than every number, or anything else with an order. The empty multiset is ().
"""

from __future__ import annotations

import math
import numbers
from datetime import UTC, datetime, time
from typing import Any
from zlib import crc32

Multiset = tuple[Any, ...]
"""A node, or () for none."""

KEY, COUNT, PRIORITY, LEFT, RIGHT, SIZE, DISTINCT, MODE_COUNT, MODE = range(9)

EMPTY: Multiset = ()


def single(key: Any) -> Multiset:
    """The multiset of one key."""
    return (key, 1, _priority(key), EMPTY, EMPTY, 1, 1, 1, key)


def precedes(a: Any, b: Any) -> bool:
    """Is key `a` less than key `b`? None, which stands for NaN, is greater than every other key."""
    if b is None:
        return a is not None
    return a is not None and bool(a < b)


def _priority(key: Any) -> int:
    """A hash that is the same in every process; equal numbers of different types have the same."""
    if isinstance(key, numbers.Number):
        mixed = (hash(key) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        mixed = ((mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        return (mixed ^ (mixed >> 32)) & 0xFFFFFFFF
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], numbers.Number):
        return _priority(key[1])
    return crc32(key) if isinstance(key, bytes) else crc32(repr(_time_key(key)).encode())


def _node(key: Any, count: int, priority: int, left: Multiset, right: Multiset) -> Multiset:
    size, distinct, often, mode = count, 1, count, key
    if left:
        size, distinct = size + left[SIZE], distinct + left[DISTINCT]
        if left[MODE_COUNT] >= often:
            often, mode = left[MODE_COUNT], left[MODE]
    if right:
        size, distinct = size + right[SIZE], distinct + right[DISTINCT]
        if right[MODE_COUNT] > often:
            often, mode = right[MODE_COUNT], right[MODE]
    return (key, count, priority, left, right, size, distinct, often, mode)


def _above(a: Multiset, b: Multiset) -> bool:
    """Does node `a` lie above node `b`? The key decides between equal priorities."""
    if a[PRIORITY] != b[PRIORITY]:
        return bool(a[PRIORITY] > b[PRIORITY])
    return precedes(a[KEY], b[KEY])


def _split(tree: Multiset, key: Any) -> tuple[Multiset, int, Multiset]:
    """The keys below a key, how often the key itself occurs, and the keys above."""
    if not tree:
        return EMPTY, 0, EMPTY
    at, count, priority, left, right = tree[:SIZE]
    if precedes(key, at):
        less, same, more = _split(left, key)
        return less, same, _node(at, count, priority, more, right)
    if precedes(at, key):
        less, same, more = _split(right, key)
        return _node(at, count, priority, left, less), same, more
    return left, count, right


def union(a: Multiset, b: Multiset) -> Multiset:
    """All keys of both: counts add up.

    >>> both = union(union(single(3), single(1)), single(3))
    >>> size(both), distinct(both), [select(both, i) for i in range(3)]
    (3, 2, [1, 3, 3])
    """
    if not a:
        return b
    if not b:
        return a
    if not _above(a, b):
        a, b = b, a
    less, same, more = _split(b, a[KEY])
    return _node(a[KEY], a[COUNT] + same, a[PRIORITY], union(a[LEFT], less), union(a[RIGHT], more))


def difference(a: Multiset, b: Multiset) -> Multiset:
    """The keys of `a` without those of `b`, all of which must be in `a`.

    >>> difference(union(single(3), single(1)), single(3)) == single(1)
    True
    """
    if not b:
        return a
    less, same, more = _split(b, a[KEY])
    left, right = difference(a[LEFT], less), difference(a[RIGHT], more)
    if a[COUNT] > same:
        return _node(a[KEY], a[COUNT] - same, a[PRIORITY], left, right)
    return _join(left, right)


def _join(a: Multiset, b: Multiset) -> Multiset:
    """Both, where every key of `a` is less than every key of `b`."""
    if not a:
        return b
    if not b:
        return a
    if _above(a, b):
        return _node(a[KEY], a[COUNT], a[PRIORITY], a[LEFT], _join(a[RIGHT], b))
    return _node(b[KEY], b[COUNT], b[PRIORITY], _join(a, b[LEFT]), b[RIGHT])


# ---- order statistics ----


def size(tree: Multiset) -> int:
    """The number of keys, with repetition."""
    return tree[SIZE] if tree else 0


def distinct(tree: Multiset) -> int:
    """The number of different keys."""
    return tree[DISTINCT] if tree else 0


def select(tree: Multiset, index: int) -> Any:
    """The key at a place in order, from 0; each key stands there as often as it occurs."""
    while True:
        before = size(tree[LEFT])
        if index < before:
            tree = tree[LEFT]
        elif index < before + tree[COUNT]:
            return tree[KEY]
        else:
            index -= before + tree[COUNT]
            tree = tree[RIGHT]


def greatest(tree: Multiset) -> Any:
    """The greatest key."""
    while tree[RIGHT]:
        tree = tree[RIGHT]
    return tree[KEY]


def place(tree: Multiset, key: Any) -> tuple[int, int, int]:
    """The number of keys below a key, how often the key occurs, and the number of different keys below it.

    >>> place(union(single(1), union(single(1), single(2))), 2)
    (2, 1, 1)
    """
    below, different = 0, 0
    while tree:
        if precedes(key, tree[KEY]):
            tree = tree[LEFT]
            continue
        below, different = below + size(tree[LEFT]), different + distinct(tree[LEFT])
        if not precedes(tree[KEY], key):
            return below, tree[COUNT], different
        below, different = below + tree[COUNT], different + 1
        tree = tree[RIGHT]
    return below, 0, different


# ---- keys ----


def ordered_key(x: Any) -> Any:
    """The key of a value with an order: None for NaN, 0.0 for -0.0."""
    if isinstance(x, float):
        return None if x != x else x + 0.0
    return None if x != x else x


def ordered_value(key: Any) -> Any:
    """The value of such a key."""
    return math.nan if key is None else key


def _time_key(x: Any) -> Any:
    """A datetime or time of day with the text of all that equal it: equal ones may differ in zone or `fold`."""
    if isinstance(x, datetime) and x.tzinfo is not None:
        return x.astimezone(UTC)
    return x.replace(fold=0) if isinstance(x, datetime | time) and x.fold else x


def hashable_key(x: Any) -> Any:
    """The key of any hashable value: equal values have equal keys, and all keys have an order among each other.

    Values that are neither numbers, text, bytes, times nor tuples and sets of such are distinguished by hash, type and
    text.

    Raises TypeError for a value that is not hashable.
    """
    if isinstance(x, numbers.Number) and not isinstance(x, complex):
        return (0, None) if x != x else (1, x)
    if isinstance(x, str):
        return (2, x)
    if isinstance(x, bytes):
        return (3, x)
    if isinstance(x, tuple):
        return (4, tuple(map(hashable_key, x)))
    if isinstance(x, frozenset):
        return (5, tuple(sorted(map(hashable_key, x))))
    x = _time_key(x)
    try:
        return (6, hash(x), type(x).__qualname__, repr(x))
    except TypeError as error:
        raise TypeError(
            f"count_distinct needs hashable values; got {x!r}, a {type(x).__name__}: convert it to a tuple or text"
        ) from error
