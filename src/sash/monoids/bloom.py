"""A Bloom filter of the window's values; and the bytes and the hash of items that all sketches share.

Values are equal if their hashed bytes are equal. Python's `hash()`, which differs between processes, is not used:

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

import math
import struct
from datetime import UTC, date, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from sash.monoids.algebra import Monoid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
    """The set of the window's values, as a `BloomFilter`: `value in result`, with some false positives.

    With the defaults (2 KiB) one "yes" in a hundred is wrong at about 1,700 distinct values; use ten bits per
    value. The table above defines equal values. The laws hold exactly, and the result does not depend on the order.

    >>> m = Bloom(bits=2**10, hashes=5)
    >>> m.lift(1.0) == m.lift(1)
    True

    Raises TypeError or ValueError if `bits` is no multiple of 64 in 64..2**32, or `hashes` not in 1..255.
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
