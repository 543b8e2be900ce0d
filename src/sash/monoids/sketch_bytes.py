"""Validate the bytes of native sketches before DataSketches reads them.

DataSketches trusts the lengths in the bytes: a list of 255 values in a buffer of 8 overwrites the memory after it, and
a table of 2**40 entries is allocated. So this module compares the parts of a sketch with its parameters and with each
other; a mismatch is a ValueError.

    HLL     preamble 8 │ list of coupons; or 12 │ set of coupons; or 40 │ a register a byte
    KLL     preamble 8 │ one value; or 20 │ where levels begin │ least, greatest │ values, the lowest level first
    items   preamble 32 │ weights │ texts, each with its length
    counts  preamble 24 │ a counter for each hash and bucket
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING

from sash.monoids.bloom import decode_item

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_HLL_HEAD = Struct("<BBBBBBBB")
_HLL_SUMS = Struct("<dddII")
_HLL_8 = 2
_COMPACT, _OUT_OF_ORDER = 8, 16
_LIST, _SET, _ARRAY = range(3)
_LIST_SIZE = 8

_SORTED, _SINGLE = 2, 4
_KLL_HEAD = Struct("<BBBBHBx")
_KLL_MORE = Struct("<QHBx")
_LEAST_WIDTH = 8
_LEVELS = 60

_ITEMS_HEAD = Struct("<BBBBBBH")
_NO_ITEMS = 5
_ITEMS_MORE = Struct("<IIQQ")
_COUNTS_HEAD = Struct("<BBBBIIBHB")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"the bytes of a sketch do not agree with each other: {what}")


def check_hll(data: bytes, lg_k: int) -> None:
    """Raises ValueError unless these are the bytes of a compact HLL_8 sketch of this size."""
    import numpy as np

    _require(len(data) >= _HLL_HEAD.size, "the preamble")
    words, version, family, size, lg_array, flags, count, mode = _HLL_HEAD.unpack_from(data)
    _require((version, family, size) == (1, 7, lg_k), f"version {version}, family {family}, lg_k {size}")
    _require(flags & ~_OUT_OF_ORDER == _COMPACT and mode >> 2 == _HLL_8, f"flags {flags}, mode {mode}")
    kind = mode & 3
    if kind == _ARRAY:
        _require(words == 10 and len(data) == 40 + (1 << lg_k), f"{len(data)} bytes")
        _check_registers(data, count, np.frombuffer(data, np.uint8, offset=40))
        return
    start = 8 if kind == _LIST else 12
    _require(kind in (_LIST, _SET) and words == start // 4 and len(data) >= start, f"mode {mode}")
    if kind == _SET:
        count = int.from_bytes(data[8:12], "little")
    most = _LIST_SIZE - 1 if kind == _LIST else 3 * (1 << lg_k >> 3) // 4
    _require(0 < count <= most and lg_array <= max(lg_k - 3, 3), f"{count} values")
    _require(kind == _LIST or lg_k > 7, f"a set of lg_k {lg_k}")
    _require(len(data) == start + 4 * count, f"{count} values in {len(data)} bytes")
    coupons = np.frombuffer(data, "<u4", offset=start)
    _require(bool((coupons != 0).all()) and len(np.unique(coupons)) == count, "values that are there twice")


def _check_registers(data: bytes, least: int, registers: NDArray[np.uint8]) -> None:
    import numpy as np

    total, low, high, at_least, more = _HLL_SUMS.unpack_from(data, 8)
    counts = np.bincount(registers, minlength=64)
    _require(len(counts) == 64, f"a register of {len(counts) - 1}")
    powers = counts * 0.5 ** np.arange(64)
    _require(least == 0 and more == 0 and at_least == counts[0], f"{at_least} registers of {least}")
    _require(low == powers[:32].sum() and high == powers[32:].sum(), "the sums of its registers")
    _require(0 <= total < 2.0**70, f"an estimate of {total}")


def check_kll(data: bytes, k: int) -> None:
    """Raises ValueError unless these are the bytes of a KLL sketch of doubles of this size that is not empty."""
    import numpy as np

    _require(len(data) >= 16, "the preamble")
    words, version, family, flags, size, width = _KLL_HEAD.unpack_from(data)
    _require((family, size, width) == (15, k, _LEAST_WIDTH), f"family {family}, k {size}, m {width}")
    if (words, version, flags & ~_SORTED) == (2, 2, _SINGLE):
        _require(len(data) == 16 and not np.isnan(np.frombuffer(data, "<f8", 1, 8)[0]), "its only value")
        return
    _require(
        (words, version) == (5, 1) and flags & ~_SORTED == 0, f"preamble {words}, version {version}, flags {flags}"
    )
    _require(len(data) >= 8 + _KLL_MORE.size, "the preamble")
    n, least_k, levels = _KLL_MORE.unpack_from(data, 8)
    start = 8 + _KLL_MORE.size
    _require(_LEAST_WIDTH <= least_k <= k and 0 < levels <= _LEVELS, f"k {least_k}, {levels} levels")
    values = len(data) - start - 4 * levels
    _require(values >= 3 * 8 and values % 8 == 0, f"{values} bytes of values")
    ends = np.frombuffer(data, "<f8", 2, start + 4 * levels)
    items = np.frombuffer(data, "<f8", offset=start + 4 * levels + 16)
    begins = np.frombuffer(data, "<u4", levels, start).astype(np.int64)
    edges = np.append(begins - begins[0], len(items))
    sizes = np.diff(edges)
    _require(bool((sizes >= 0).all()) and sizes[-1] > 0, "the levels")
    _require(sum(int(count) << level for level, count in enumerate(sizes)) == n, f"{n} values in all")
    _require(bool(((ends[0] <= items) & (items <= ends[1])).all()), "the least and the greatest value")
    falls = np.flatnonzero(items[1:] < items[:-1]) + 1
    _require(bool(np.isin(falls[falls > edges[1]], edges).all()), "the order of a level")
    _require(not flags & _SORTED or bool((falls >= edges[1]).all()), "the order of the lowest level")


def kll_items(data: bytes) -> int:
    """How many values the bytes of a KLL sketch hold, by their length."""
    if data[0] == 2:
        return 1
    return (len(data) - 8 - _KLL_MORE.size - 4 * data[18]) // 8 - 2


def check_items(data: bytes, lg_max_k: int) -> None:
    """Raises ValueError unless these are the bytes of a sketch of frequent texts, each of them an item."""
    import numpy as np

    _require(len(data) >= 32 or len(data) == 8, "the preamble")
    words, version, family, largest, current, flags, _ = _ITEMS_HEAD.unpack_from(data)
    preamble = (4, 1, 10, 0) if len(data) > 8 else (1, 1, 10, _NO_ITEMS)
    _require((words, version, family, flags) == preamble, f"preamble {words}, version {version}, flags {flags}")
    _require(largest == lg_max_k and 3 <= current <= largest, f"tables of 2**{current} and 2**{largest}")
    if len(data) == 8:
        return
    count, _, total, offset = _ITEMS_MORE.unpack_from(data, 8)
    _require(0 < count <= 3 * (1 << current) // 4 and len(data) >= 32 + 12 * count, f"{count} items")
    weights = np.frombuffer(data, "<u8", count, 32)
    _require(max(total, offset) < 2**53 and bool(((weights > 0) & (weights < 2**53)).all()), "the weights")
    texts = split_texts(data[32 + 8 * count :], lambda part: part.decode("utf-8").encode("latin-1"))
    _require(len(texts) == count and len(set(texts)) == count, f"{len(texts)} items, and {count} weights")


def split_texts(data: bytes, item_of: Callable[[bytes], bytes]) -> list[bytes]:
    """The items in bytes, each with its length before it. Raises ValueError for what is no item."""
    found, at = [], 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "little")
        _require(end <= len(data), f"an item of {end - at - 4} bytes")
        item = item_of(data[at + 4 : end])
        decode_item(item)
        found.append(item)
        at = end
    return found


def check_counts(data: bytes, buckets: int, hashes: int) -> None:
    """Raises ValueError unless these are the bytes of a count-min sketch of this shape."""
    import numpy as np

    _require(len(data) == 24 + 8 * buckets * hashes, f"{len(data)} bytes for {hashes} x {buckets} counters")
    words, version, family, flags, _, width, height, *_ = _COUNTS_HEAD.unpack_from(data)
    _require((words, version, family, flags) == (2, 1, 18, 0), f"preamble {words}, version {version}, flags {flags}")
    _require((width, height) == (buckets, hashes), f"{height} x {width} counters")
    counts = np.frombuffer(data, "<f8", offset=16)
    _require(bool(((counts >= 0) & (counts < 2.0**63)).all()), "a counter that is not a count")
