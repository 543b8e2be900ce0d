"""Mergeable sketches of Apache DataSketches: approximate aggregates in little space, within an error bound.

A state is a native sketch and the few values that came after it. Values are collected in a tuple until there are KEPT
of them, then a copy of the sketch takes all of them; states are immutable. For single events into a large state this
is 3.5 times as fast as a copy per event for `approx_distinct`, 8 times for `frequent_items`.

    state        native: 1,000,000 values     kept: "a", "q", "b"
    combine      native + native              kept + kept, or all into the new native

Estimates depend on the grouping of values, within the bounds. Those of `approx_quantile` differ between runs when it
samples (more than about k values): its algorithm, KLL, is randomised. Nulls are skipped.

`dump` writes a header of ours around the bytes of DataSketches, which trusts the lengths in them: a list of 255 values
in a buffer of 8 overwrites the memory after it, and a table of 2**40 entries is allocated. So the parts of a sketch are
compared with its parameters and with each other before they are read; a mismatch is a ValueError.

    HLL     preamble 8 │ list of coupons; or 12 │ set of coupons; or 40 │ a register a byte
    KLL     preamble 8 │ one value; or 20 │ where levels begin │ least, greatest │ values, the lowest level first
    items   preamble 32 │ weights │ texts, each with its length
    counts  preamble 24 │ a counter for each hash and bucket

Values, also those of a Bloom filter, are equal if their hashed bytes are equal. Python's `hash()`, which differs
between processes, is not used:

    value                       hashed bytes                           equal values
    int, bool, whole float      "i" + two's complement, little-endian  1 == 1.0 == True, 0 == -0.0, as in Python
    other float                 "f" + IEEE 754, little-endian          every NaN is one value
    str                         "s" + UTF-8
    bytes                       "b" + the bytes                        "a" is not b"a"
    date                        "d" + ISO 8601
    datetime                    "t" + ISO 8601, in UTC if it has a zone

So a column of integers that became floats (in pandas, because of a null) has the same hashes. The hash is BLAKE2b,
personalised by HASH_VERSION: stored states stay readable as long as it does not change.
"""

from __future__ import annotations

import copy
import importlib
import math
import struct
import zlib
from collections.abc import Callable
from datetime import UTC, date, datetime
from hashlib import blake2b
from struct import Struct
from typing import TYPE_CHECKING, Any

from sash.monoids.algebra import Monoid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# --- Bloom ---

HASH_VERSION = 1
_PERSON = b"sash" + HASH_VERSION.to_bytes(2, "little")


def encode_item(x: Any) -> bytes:
    """The bytes of an item, unique except for the sign of zero and of NaN; `decode_item` reads them.

    >>> encode_item("é"), encode_item(True), encode_item(300)
    (b's\\xc3\\xa9', b'o\\x01', b'i,\\x01')

    Raises TypeError if the item is of another type than the table above has.
    """
    if isinstance(x, str):
        return b"s" + x.encode("utf-8", "surrogatepass")
    if isinstance(x, bool):
        return b"o\x01" if x else b"o\x00"
    if isinstance(x, int):
        return b"i" + x.to_bytes(x.bit_length() // 8 + 1, "little", signed=True)
    if isinstance(x, float):
        return b"f" + struct.pack("<d", math.nan if x != x else x + 0.0)  # -0.0 + 0.0 is 0.0
    if isinstance(x, bytes):
        return b"b" + x
    if isinstance(x, datetime):
        return b"t" + (x.astimezone(UTC) if x.tzinfo else x).isoformat().encode()
    if isinstance(x, date):
        return b"d" + x.isoformat().encode()
    if type(x).__module__ == "numpy" and hasattr(x, "item") and not getattr(x, "shape", ()):
        return encode_item(x.item())
    raise TypeError(
        f"a sketch takes numbers, text, bytes, dates and datetimes; got {x!r}, a {type(x).__name__}: "
        "convert it to text first"
    )


def decode_item(data: bytes) -> Any:
    """The item that `encode_item` turned to bytes. Raises ValueError for other bytes."""
    tag, rest = data[:1], data[1:]
    if tag == b"s":
        return rest.decode("utf-8", "surrogatepass")
    if tag == b"o":
        return rest == b"\x01"
    if tag == b"i":
        return int.from_bytes(rest, "little", signed=True)
    if tag == b"f" and len(rest) == 8:
        return struct.unpack("<d", rest)[0]
    if tag == b"b":
        return rest
    if tag == b"t":
        return datetime.fromisoformat(rest.decode())
    if tag == b"d":
        return date.fromisoformat(rest.decode())
    raise ValueError(f"the bytes of an item must begin with its kind; got {data[:9]!r}")


def item_digest(x: Any) -> bytes:
    """16 bytes that are equal for equal items, in every process and on every machine."""
    data = encode_item(x)
    if data[:1] == b"f":
        number = struct.unpack("<d", data[1:])[0]
        data = encode_item(int(number)) if number.is_integer() else data
    elif data[:1] == b"o":
        data = encode_item(int(data[1]))
    return blake2b(data, digest_size=16, person=_PERSON).digest()


def item_hash(x: Any) -> int:
    """The digest's first half as a 64-bit integer, the input of the native sketches."""
    return int.from_bytes(item_digest(x)[:8], "little", signed=True)


def whole_number(owner: str, key: str, value: Any, least: int, most: int) -> int:
    """The value of a parameter. Raises TypeError or ValueError, naming it, if it is no integer in the range."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{key}= of {owner} must be an integer; got {value!r}, a {type(value).__name__}")
    if not least <= value <= most:
        raise ValueError(f"{key}= of {owner} must be at least {least} and at most {most}; got {value}")
    return value


class BloomFilter:
    """An approximate set of values: `in` has false positives, but no false negatives. Read-only.

    >>> m = Bloom()
    >>> seen = m.lower(m.combine(m.lift("ada"), m.lift("bob")))
    >>> "ada" in seen, "eve" in seen, round(seen.estimated_count, 1)
    (True, False, 2.0)
    """

    __slots__ = ("hashes", "words")

    words: NDArray[np.uint64]
    hashes: int

    def __init__(self, words: NDArray[np.uint64], hashes: int) -> None:
        words.flags.writeable = False
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "hashes", hashes)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a BloomFilter is read-only; {name!r} cannot be set")

    def __contains__(self, x: Any) -> bool:
        return all(int(self.words[bit >> 6]) >> (bit & 63) & 1 for bit in _bits_of(x, self.bits, self.hashes))

    def __or__(self, other: BloomFilter) -> BloomFilter:
        if (self.bits, self.hashes) != (other.bits, other.hashes):
            raise ValueError(f"only filters of the same shape can be merged; got {self!r} and {other!r}")
        return BloomFilter(self.words | other.words, self.hashes)

    @property
    def bits(self) -> int:
        """The size of the filter."""
        return 64 * len(self.words)

    @property
    def saturation(self) -> float:
        """The share of bits that are set, 0 to 1; from about a half on, "yes" means less and less."""
        return int.from_bytes(self.words.tobytes(), "little").bit_count() / self.bits

    @property
    def false_positive_rate(self) -> float:
        """The probability of "yes" for a value that was not in the window."""
        return float(self.saturation**self.hashes)

    @property
    def estimated_count(self) -> float:
        """About how many distinct values it holds; infinite if every bit is set."""
        saturation = self.saturation
        return math.inf if saturation == 1.0 else -self.bits / self.hashes * math.log1p(-saturation)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BloomFilter) and bytes(self) == bytes(other)

    def __hash__(self) -> int:
        return hash(bytes(self))

    def __repr__(self) -> str:
        return f"<BloomFilter of {self.bits} bits, {self.hashes} hashes, {self.saturation:.1%} set>"

    def __bytes__(self) -> bytes:
        return struct.pack("<BB", HASH_VERSION, self.hashes) + self.words.astype("<u8").tobytes()

    @staticmethod
    def from_bytes(data: bytes) -> BloomFilter:
        """The filter that `bytes` wrote. Raises ValueError if the bytes are of another version or damaged."""
        import numpy as np

        if len(data) < 10 or len(data) % 8 != 2 or data[0] != HASH_VERSION:
            raise ValueError(f"not a bloom filter of hash version {HASH_VERSION}: {len(data)} bytes {data[:8]!r}...")
        return BloomFilter(np.frombuffer(data, "<u8", offset=2).astype(np.uint64), data[1])

    def __reduce__(self) -> Any:
        return BloomFilter.from_bytes, (bytes(self),)


def _bits_of(x: Any, bits: int, hashes: int) -> list[int]:
    # two halves of one digest as start and step replace independent hashes (Kirsch, Mitzenmacher); an odd step of
    # 64 bits makes the positions distinct
    digest = item_digest(x)
    at, step = int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little") | 1
    return [(at + i * step) % bits for i in range(hashes)]


class Bloom(Monoid):
    """The set of the window's values, as a `BloomFilter`; see `sash.bloom`.

    The table above defines equal values. The laws hold exactly, and the result does not depend on the order.
    """

    identity: Any = None
    domain = ("hashable",)
    commutative = True
    exact = True
    interpreted_only = "its state is a filter of some thousand bits"

    def __init__(self, bits: int = 2**14, hashes: int = 7) -> None:
        self.bits = whole_number(self.name, "bits", bits, 64, 2**32)
        self.hashes = whole_number(self.name, "hashes", hashes, 1, 255)
        if bits % 64:
            raise ValueError(f"bits= of bloom must be a multiple of 64; got {bits}")

    def lift(self, x: Any) -> Any:
        import numpy as np

        data = bytearray(self.bits // 8)  # setting bits in an array takes twice as long
        for bit in _bits_of(x, self.bits, self.hashes):
            data[bit >> 3] |= 1 << (bit & 7)
        return BloomFilter(np.frombuffer(data, "<u8"), self.hashes)

    def combine(self, a: Any, b: Any) -> Any:
        if a is None:
            return b
        if b is None:
            return a
        return a | b

    def lower(self, a: Any) -> Any:
        return a

    def dump(self, a: Any) -> bytes:
        return b"" if a is None else bytes(a)

    def load(self, data: bytes) -> Any:
        if not data:
            return None
        loaded = BloomFilter.from_bytes(data)
        if (loaded.bits, loaded.hashes) != (self.bits, self.hashes):
            raise ValueError(f"{self!r} cannot read the state of another bloom: {loaded!r}")
        return loaded


# --- Sketch bytes ---

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


# --- Sketches ---

KEPT = 32
"""The number of values that a state keeps besides its sketch; more gained nothing."""

_HEADER = struct.Struct("<BII")


def datasketches_library() -> Any:
    """The package datasketches. Raises ImportError, saying how to install it."""
    try:
        return importlib.import_module("datasketches")
    except ImportError as error:
        raise ImportError(
            "approx_distinct, approx_quantile, frequent_items and count_min need the package datasketches: "
            "pip install 'sash[sketches]'"
        ) from error


class Sketch:
    """The state of a sketch: a native one, or None, and the values that came after it. Immutable."""

    __slots__ = ("kept", "monoid", "native")

    def __init__(self, monoid: SketchMonoid, native: Any, kept: tuple[Any, ...]) -> None:
        self.monoid, self.native, self.kept = monoid, native, kept

    def merged(self) -> Any:
        """A native sketch of all values; it must not be changed."""
        return self.native if not self.kept else self.monoid.join(self.natives(), self.kept)

    def natives(self) -> list[Any]:
        return [] if self.native is None else [self.native]

    def __repr__(self) -> str:
        return f"<{self.monoid!r}: {'a sketch and ' if self.native is not None else ''}{len(self.kept)} values>"

    def __reduce__(self) -> Any:
        return self.monoid.load, (self.monoid.dump(self),)


class SketchMonoid(Monoid):
    """The base of sketches. Subclasses create, fill and write a native sketch."""

    identity: Any = None
    commutative = True
    interpreted_only = "its state is a sketch, a Python object"
    value_format = "q"

    def native(self) -> Any:
        """A new, empty native sketch."""
        raise NotImplementedError

    def check_native(self, data: bytes) -> None:
        """Raises ValueError for bytes that are no native sketch of this monoid, before DataSketches reads them."""
        raise NotImplementedError

    def read_native(self, data: bytes) -> Any:
        self.check_native(data)
        try:
            return type(self.native()).deserialize(data)
        except (IndexError, RuntimeError) as error:  # translated C++ exceptions
            raise ValueError(f"DataSketches does not read a state of {self!r}: {error}") from error

    def write_native(self, native: Any) -> bytes:
        return bytes(native.serialize())

    def join(self, natives: list[Any], values: tuple[Any, ...]) -> Any:
        """A new native sketch that merges these and the values."""
        new = copy.copy(natives[0]) if natives else self.native()
        for other in natives[1:]:
            new.merge(other)
        for value in values:
            new.update(value)
        return new

    def lift(self, x: Any) -> Any:
        return Sketch(self, None, (item_hash(x),))

    def combine(self, a: Any, b: Any) -> Any:
        if a is None:
            return b
        if b is None:
            return a
        natives, kept = a.natives() + b.natives(), a.kept + b.kept
        if len(natives) < 2 and len(kept) <= KEPT:
            return Sketch(self, natives[0] if natives else None, kept)
        return Sketch(self, self.join(natives, kept), ())

    def write_values(self, values: tuple[Any, ...]) -> bytes:
        return struct.pack(f"<{len(values)}{self.value_format}", *values)

    def read_values(self, data: bytes) -> tuple[Any, ...]:
        if len(data) % 8:
            raise ValueError(f"{len(data)} bytes are not values of {self!r}")
        return struct.unpack(f"<{len(data) // 8}{self.value_format}", data)

    def dump(self, a: Any) -> bytes:
        if a is None:
            return b""
        values = self.write_values(a.kept)
        body = values if a.native is None else values + self.write_native(a.native)
        return _HEADER.pack(HASH_VERSION, len(values), zlib.crc32(body)) + body

    def load(self, data: bytes) -> Any:
        if not data:
            return None
        # checked here, and in `check_native`, because DataSketches trusts the lengths in the bytes
        header, body = data[: _HEADER.size], data[_HEADER.size :]
        version, size, checksum = _HEADER.unpack(header) if len(header) == _HEADER.size else (0, 0, 0)
        if version != HASH_VERSION or size > len(body) or zlib.crc32(body) != checksum:
            raise ValueError(f"these {len(data)} bytes are not a state of {self!r}, version {HASH_VERSION}")
        kept, rest = self.read_values(body[:size]), body[size:]
        if len(kept) > KEPT or not (kept or rest):
            raise ValueError(f"a state of {self!r} must have 1 to {KEPT} values, or a sketch; got {len(kept)}")
        return Sketch(self, self.read_native(rest) if rest else None, kept)

    def same(self, a: Any, b: Any) -> bool:
        """Are two states equal, within the bounds of the sketch?"""
        if a is None or b is None:
            return a is b
        return self.close(a.merged(), b.merged())

    def close(self, a: Any, b: Any) -> bool:
        """Do two native sketches agree within their bounds?"""
        raise NotImplementedError


class ApproxDistinct(SketchMonoid):
    """The approximate number of distinct values: a HyperLogLog sketch; see `sash.approx_distinct`.

    The standard error is next to nothing up to a hundred values.
    """

    domain = ("hashable",)
    empty: Any = 0

    def __init__(self, lg_k: int = 12) -> None:
        self.lg_k = whole_number(self.name, "lg_k", lg_k, 4, 21)
        datasketches_library()

    def native(self) -> Any:
        return datasketches_library().hll_sketch(self.lg_k)

    def check_native(self, data: bytes) -> None:
        check_hll(data, self.lg_k)

    def write_native(self, native: Any) -> bytes:
        return bytes(native.serialize_compact())

    def join(self, natives: list[Any], values: tuple[Any, ...]) -> Any:
        library = datasketches_library()
        union = library.hll_union(self.lg_k)
        for part in (*natives, *values):
            union.update(part)
        return union.get_result(library.HLL_8)

    def lower(self, a: Any) -> Any:
        return 0 if a is None else round(a.merged().get_estimate())

    def close(self, a: Any, b: Any) -> bool:
        return bool(a.get_lower_bound(3) <= b.get_upper_bound(3) and b.get_lower_bound(3) <= a.get_upper_bound(3))


class ApproxQuantile(SketchMonoid):
    """The approximate q-quantile of numbers: a KLL sketch; see `sash.approx_quantile`.

    The quantile is the nearest rank: the least value that at least q of all values do not exceed; q = 0 and q = 1 are
    always exact. Integers beyond 2**53 are rounded.
    """

    domain = ("number",)
    value_format = "d"

    def __init__(self, q: float | tuple[float, ...] = 0.5, k: int = 200) -> None:
        several = isinstance(q, tuple | list)
        wanted: tuple[Any, ...] = tuple(q) if isinstance(q, tuple | list) else (q,)
        if not wanted:
            raise ValueError("q= of approx_quantile must name at least one quantile; got an empty tuple")
        for one in wanted:
            if isinstance(one, bool) or not isinstance(one, int | float):
                raise TypeError(f"q= of approx_quantile must be a number or a tuple of numbers; got {one!r}")
            if not 0 <= one <= 1:
                raise ValueError(f"q= of approx_quantile must be at least 0 and at most 1 (0.99 for p99); got {one!r}")
        self.q = wanted if several else q
        self.k = whole_number(self.name, "k", k, 8, 65535)
        datasketches_library()

    def native(self) -> Any:
        return datasketches_library().kll_doubles_sketch(self.k)

    def check_native(self, data: bytes) -> None:
        check_kll(data, self.k)

    def read_native(self, data: bytes) -> Any:
        native = super().read_native(data)
        if native.num_retained != kll_items(data):  # where levels begin depends on how many fit in
            raise ValueError(f"a state of {self!r} has {native.num_retained} values in {len(data)} bytes")
        return native

    def load(self, data: bytes) -> Any:
        state = super().load(data)
        if state is not None and any(map(math.isnan, state.kept)) and (state.native is not None or len(state.kept) > 1):
            raise ValueError(f"in a state of {self!r} a NaN must be the only value")
        return state

    def lift(self, x: Any) -> Any:
        if not isinstance(x, int | float) and not hasattr(x, "__float__"):
            raise TypeError(f"approx_quantile reads numbers; got {x!r}, a {type(x).__name__}")
        return Sketch(self, None, (float(x),))

    def combine(self, a: Any, b: Any) -> Any:
        # a native sketch ignores NaN: a state of a single NaN stands for every window that has one
        for state in (a, b):
            if state is not None and _is_nan(state):
                return state
        return super().combine(a, b)

    def lower(self, a: Any) -> Any:
        if a is None:
            return None
        ranks = self.q if isinstance(self.q, tuple) else (self.q,)
        if _is_nan(a):
            found = (math.nan,) * len(ranks)
        else:
            native = a.merged()
            found = tuple(_quantile(native, rank) for rank in ranks)
        return found if isinstance(self.q, tuple) else found[0]

    def same(self, a: Any, b: Any) -> bool:
        if a is not None and b is not None and (_is_nan(a) or _is_nan(b)):
            return _is_nan(a) and _is_nan(b)
        return super().same(a, b)

    def close(self, a: Any, b: Any) -> bool:
        # both may err, each in its own direction
        slack = 2 * a.normalized_rank_error(False) if a.is_estimation_mode() or b.is_estimation_mode() else 0.0
        ranks = [i / 16 for i in range(17)]
        return a.n == b.n and all(
            b.get_rank(x, False) - slack <= rank <= b.get_rank(x, True) + slack
            for rank, x in zip(ranks, a.get_quantiles(ranks, True), strict=True)
        )


def _quantile(native: Any, q: float) -> float:
    if q in (0, 1):  # the sketch knows both ends exactly, but its quantiles come from the sample
        return float(native.get_max_value() if q else native.get_min_value())
    return float(native.get_quantile(q, True))


def _is_nan(a: Sketch) -> bool:
    return bool(a.native is None and a.kept[0] != a.kept[0])


class FrequentItems(SketchMonoid):
    """The k most frequent values: a Misra-Gries sketch; see `sash.frequent_items`.

    Every value that is more frequent than 3.5 / 2**lg_max_k of all counted is found. Equal estimates are in the order
    of the values' bytes. The result has the values themselves, so 1, 1.0 and True are three values here.
    """

    domain = ("hashable",)

    def __init__(self, k: int = 10, lg_max_k: int = 10) -> None:
        self.k = whole_number(self.name, "k", k, 1, 2**26)
        self.lg_max_k = whole_number(self.name, "lg_max_k", lg_max_k, 3, 26)
        datasketches_library()

    def native(self) -> Any:
        return datasketches_library().frequent_strings_sketch(self.lg_max_k)

    def check_native(self, data: bytes) -> None:
        check_items(data, self.lg_max_k)

    def lift(self, x: Any) -> Any:
        # the native sketch takes text; in Latin-1 each byte is a character
        return Sketch(self, None, (encode_item(x).decode("latin-1"),))

    def write_values(self, values: tuple[Any, ...]) -> bytes:
        parts = [value.encode("latin-1") for value in values]
        return b"".join(len(part).to_bytes(4, "little") + part for part in parts)

    def read_values(self, data: bytes) -> tuple[Any, ...]:
        return tuple(item.decode("latin-1") for item in split_texts(data, lambda part: part))

    def lower(self, a: Any) -> Any:
        if a is None:
            return None
        ranked = sorted(self.rows(a.merged()), key=lambda row: (-row[1], row[0]))
        return [(decode_item(row[0].encode("latin-1")), row[1]) for row in ranked[: self.k]]

    def rows(self, native: Any) -> list[tuple[str, int, int, int]]:
        """(value, estimate, at least, at most) of all that the sketch still holds."""
        return list(native.get_frequent_items(datasketches_library().NO_FALSE_NEGATIVES))

    def close(self, a: Any, b: Any) -> bool:
        values = {row[0] for row in self.rows(a) + self.rows(b)}
        return a.total_weight == b.total_weight and all(
            a.get_lower_bound(x) <= b.get_upper_bound(x) and b.get_lower_bound(x) <= a.get_upper_bound(x)
            for x in values
        )


# --- Count min ---


class Counts:
    """Approximate counts of the window's values: `counts["a"]`, never too low. Read-only.

    >>> m = CountMin()
    >>> counts = m.lower(m.combine(m.lift("a"), m.lift("a")))
    >>> counts["a"], counts["b"], counts.total
    (2, 0, 2)
    """

    __slots__ = ("_state",)

    def __init__(self, state: Sketch) -> None:
        self._state = Sketch(state.monoid, state.merged(), ())

    def __getitem__(self, x: Any) -> int:
        return int(self._state.native.get_estimate(item_hash(x)))

    @property
    def total(self) -> int:
        """The number of values counted, exactly."""
        return int(self._state.native.total_weight)

    @property
    def error(self) -> float:
        """The fraction of `total` by which a count may be too high, in all but a few cases."""
        return float(self._state.native.get_relative_error())

    def __repr__(self) -> str:
        return f"<Counts of {self.total} values>"

    def __reduce__(self) -> Any:
        return Counts, (self._state,)


class CountMin(SketchMonoid):
    """Approximate counts of values: never too low, rarely too high; see `sash.count_min`.

    Without `items` the result is a `Counts`, which has the count of any value. States merge exactly.
    """

    domain = ("hashable",)

    def __init__(self, items: tuple[Any, ...] = (), buckets: int = 1024, hashes: int = 5) -> None:
        if not isinstance(items, tuple | list):
            raise TypeError(f"items= of count_min must be a tuple of values; got {items!r}, a {type(items).__name__}")
        for item in items:
            encode_item(item)
        self.items = tuple(items)
        self.buckets = whole_number(self.name, "buckets", buckets, 3, 2**26)
        self.hashes = whole_number(self.name, "hashes", hashes, 1, 255)
        if buckets * hashes >= 2**30:
            raise ValueError(f"count_min must have fewer than 2**30 counters; got {buckets} buckets x {hashes} hashes")
        datasketches_library()

    def native(self) -> Any:
        return datasketches_library().count_min_sketch(self.hashes, self.buckets)

    def check_native(self, data: bytes) -> None:
        check_counts(data, self.buckets, self.hashes)

    def lower(self, a: Any) -> Any:
        if a is None:
            return None
        counts = Counts(a)
        return tuple(counts[item] for item in self.items) if self.items else counts

    def close(self, a: Any, b: Any) -> bool:
        return bool(a.serialize() == b.serialize())
