"""Crafted bytes of sketches are refused before DataSketches reads them."""

import struct
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

pytest.importorskip("datasketches")

from sash.monoids.sketches import _HEADER, KEPT, ApproxDistinct, ApproxQuantile, CountMin, FrequentItems, SketchMonoid

MONOIDS: list[SketchMonoid] = [
    *(ApproxDistinct(lg_k=4), ApproxDistinct(lg_k=8), ApproxQuantile(k=8), ApproxQuantile()),
    *(FrequentItems(lg_max_k=3), FrequentItems(), CountMin(buckets=3, hashes=2)),
]
SIZES = [1, 6, 9, 40, 100, 1000]


def state(monoid: SketchMonoid, count: int) -> Any:
    found = monoid.identity
    for i in range(count):
        found = monoid.combine(found, monoid.lift(i * 7 % 101))
    return found


def with_checksum(kept: bytes, native: bytes) -> bytes:
    """The bytes of a state, with a checksum that fits."""
    body = kept + native
    return _HEADER.pack(1, len(kept), zlib.crc32(body)) + body


def native_of(monoid: SketchMonoid, count: int) -> bytearray:
    return bytearray(monoid.write_native(state(monoid, count).merged()))


def patched(monoid: SketchMonoid, count: int, at: int, new: bytes) -> bytes:
    made = native_of(monoid, count)
    made[at : at + len(new)] = new
    return with_checksum(b"", bytes(made))


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("monoid", MONOIDS, ids=repr)
def test_what_was_written_is_read(monoid: SketchMonoid, count: int) -> None:
    data = with_checksum(b"", bytes(native_of(monoid, count)))
    assert monoid.same(monoid.load(data), monoid.load(monoid.dump(monoid.load(data))))


HLL, KLL, ITEMS, COUNTS = ApproxDistinct(lg_k=8), ApproxQuantile(k=8), FrequentItems(lg_max_k=3), MONOIDS[-1]
CRAFTED: dict[str, tuple[SketchMonoid, Callable[[], bytes]]] = {
    "a list of 255 coupons": (HLL, lambda: patched(HLL, 5, 6, b"\xff")),
    "a list of 255 coupons that are there": (
        HLL,
        lambda: with_checksum(b"", patched(HLL, 5, 6, b"\xff")[9:] + bytes(1000)),
    ),
    "a set of many coupons": (HLL, lambda: patched(HLL, 20, 8, struct.pack("<I", 2**31))),
    "coupons twice": (HLL, lambda: patched(HLL, 2, 12, bytes(native_of(HLL, 2)[8:12]))),
    "registers of another size": (HLL, lambda: patched(HLL, 1000, 3, b"\x15")),
    "a register beyond 63": (HLL, lambda: patched(HLL, 1000, 40, b"\xff")),
    "sums of other registers": (HLL, lambda: patched(HLL, 1000, 16, struct.pack("<d", 1e300))),
    "an estimate that is none": (HLL, lambda: patched(HLL, 1000, 8, struct.pack("<d", float("nan")))),
    "another kind of registers": (HLL, lambda: patched(HLL, 1000, 7, b"\x02")),
    "a level beyond the values": (KLL, lambda: patched(KLL, 100, 24, struct.pack("<I", 2**20))),
    "too many levels": (KLL, lambda: patched(KLL, 100, 18, b"\xff")),
    "values that were never counted": (KLL, lambda: patched(KLL, 100, 8, struct.pack("<Q", 2**60))),
    "a value that is none": (KLL, lambda: patched(KLL, 100, 100, struct.pack("<d", float("nan")))),
    "another size": (KLL, lambda: patched(KLL, 100, 4, struct.pack("<H", 65_535))),
    "a table of 2**60": (ITEMS, lambda: patched(ITEMS, 40, 3, bytes([60, 60]))),
    "items that are not there": (ITEMS, lambda: patched(ITEMS, 2, 8, struct.pack("<I", 2**31))),
    "an item that never ends": (ITEMS, lambda: patched(ITEMS, 1, 40, struct.pack("<I", 2**31))),
    "an item of no kind": (ITEMS, lambda: patched(ITEMS, 1, 44, b"?")),
    "an item without a weight": (ITEMS, lambda: patched(ITEMS, 1, 32, bytes(8))),
    "counters that are not there": (COUNTS, lambda: patched(COUNTS, 9, 8, struct.pack("<I", 2**31))),
    "a counter below none": (COUNTS, lambda: patched(COUNTS, 9, 24, struct.pack("<d", -1.0))),
    "a preamble cut off": (KLL, lambda: with_checksum(b"", b"\x05\x01\x0f")),
    "nothing at all": (KLL, lambda: with_checksum(b"", b"")),
    "values of half a word": (KLL, lambda: with_checksum(b"1234", b"")),
    "more values than are kept": (KLL, lambda: with_checksum(bytes(8 * (KEPT + 1)), b"")),
    "a NaN that is not alone": (KLL, lambda: with_checksum(struct.pack("<dd", 1.0, float("nan")), b"")),
    "values beyond the end": (KLL, lambda: _HEADER.pack(1, 64, zlib.crc32(bytes(8))) + bytes(8)),
    "a kept item that never ends": (ITEMS, lambda: with_checksum(b"\xff\xff\xff\x7fab", b"")),
    "a kept number that is none": (ITEMS, lambda: with_checksum(b"\x03\x00\x00\x00fab", b"")),
}


@pytest.mark.parametrize("case", CRAFTED)
def test_bytes_that_are_no_state(case: str) -> None:
    monoid, make = CRAFTED[case]
    with pytest.raises(ValueError, match=r"sketch|state|values|bytes|item"):
        monoid.load(make())


@pytest.mark.parametrize("monoid", MONOIDS, ids=repr)
def test_changed_bytes_are_refused_or_of_use(monoid: SketchMonoid) -> None:
    rng = Random(repr(monoid))
    good, refused = state(monoid, 50), 0
    for _ in range(300):
        made = native_of(monoid, rng.choice(SIZES))
        at = rng.randrange(min(len(made), rng.choice([24, 60, 10**6])))
        width = rng.choice([1, 4, 8])
        made[at : at + width] = rng.choice([rng.randbytes(width), bytes(width), b"\xff" * width])
        try:
            found = monoid.load(with_checksum(b"", bytes(made)))
        except ValueError:
            refused += 1
            continue
        joined = monoid.combine(monoid.combine(found, good), found)
        monoid.lower(joined)
        assert monoid.dump(joined)
    assert 0 < refused < 300
