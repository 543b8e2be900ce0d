"""Pages: encoding round-trips, and every kind of damage is refused with an error that names it."""

import contextlib
import datetime as dt
import struct
from decimal import Decimal
from zlib import crc32

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.stores import PageError
from sash.stores import pages as page
from sash.stores.envelope import FORMAT, HEAD, unwrap, wrap

OURS, OTHER = "0123456789abcdef" * 2, "f" * 32
NAME = "page 'k/7'"
BATCH = pa.record_batch({"t": pa.array(range(5), pa.int64()), "x": pa.array([1.5, None, 2.5, float("nan"), -0.0])})


def packed(kind="run", fingerprint=OURS, meta=None, batches=(BATCH,)):
    return page.pack(kind, fingerprint, {"rows": 5} if meta is None else meta, batches)


def unpacked(data, kind="run", fingerprint=OURS, schemas=(BATCH.schema,)):
    return page.unpack(data, kind, fingerprint, schemas, NAME)


@st.composite
def batches(draw):
    types = {
        "int": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
        "small": (pa.int8(), st.integers(-128, 127)),
        "float": (pa.float64(), st.floats(allow_nan=False)),
        "bool": (pa.bool_(), st.booleans()),
        "text": (pa.string(), st.text(max_size=5)),
        "bytes": (pa.binary(), st.binary(max_size=5)),
        "list": (pa.list_(pa.int32()), st.lists(st.integers(0, 9), max_size=3)),
        "struct": (pa.struct({"a": pa.int16()}), st.fixed_dictionaries({"a": st.integers(0, 9)})),
        "time": (pa.timestamp("us", "UTC"), st.datetimes().map(lambda x: x.replace(tzinfo=dt.UTC))),
        "decimal": (pa.decimal128(20, 2), st.integers(-(10**9), 10**9).map(lambda x: Decimal(x).scaleb(-2))),
    }
    names = draw(st.lists(st.sampled_from(sorted(types)), unique=True, max_size=5))
    rows = draw(st.integers(0, 20))
    columns = [
        pa.array(draw(st.lists(st.none() | types[name][1], min_size=rows, max_size=rows)), types[name][0])
        for name in names
    ]
    batch = pa.record_batch(columns, names=names)
    start = draw(st.integers(0, rows))
    return batch.slice(start, draw(st.integers(0, rows - start)))


words = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.text(max_size=12), st.dictionaries(st.text(max_size=4), words, max_size=4), st.lists(batches(), max_size=20))
def test_round_trip(kind, meta, found):
    data = page.pack(kind, OURS, meta, found)
    assert len(data) % 8 == 0
    again, back = page.unpack(data, kind, OURS, [batch.schema for batch in found], NAME)
    assert again == meta
    assert len(back) == len(found)
    for batch, original in zip(back, found, strict=True):
        batch.validate(full=True)
        assert batch.equals(original)
        assert batch.schema.equals(original.schema)
    assert page.pack(kind, OURS, meta, back) == data


def test_infinities_in_the_meta_are_kept():
    assert unpacked(packed(meta={"w": float("-inf")}))[0] == {"w": float("-inf")}


def test_columns_are_read_where_they_lie():
    data = packed()
    _, (batch,) = unpacked(data)
    place = pa.py_buffer(data)
    assert place.address < batch.column("t").buffers()[1].address < place.address + place.size
    assert batch.column("t").buffers()[1].address % 8 == 0


def test_a_slice_takes_the_room_of_its_rows():
    long = pa.record_batch({"t": pa.array(range(10_000), pa.int64())})
    assert len(packed(batches=[long.slice(9_000, 10)])) < 600


def test_a_page_of_no_rows_and_one_of_no_batches():
    assert unpacked(packed(batches=[BATCH.slice(0, 0)]))[1][0].equals(BATCH.slice(0, 0))
    assert unpacked(packed(batches=[]), schemas=[]) == ({"rows": 5}, [])


@pytest.mark.parametrize("data", [b"PK\3\4" + bytes(60), b"{}", b"sash" + bytes(90), b"\0" * 100])
def test_not_a_page(data):
    with pytest.raises(PageError, match=r"page 'k/7' was not written by sash: it begins with b'"):
        unpacked(data)


def test_truncated_anywhere():
    data = packed()
    for size in range(len(data)):
        with pytest.raises(PageError, match=f"page 'k/7' is truncated: it has {size} "):
            unpacked(data[:size])


def test_longer_than_it_was():
    with pytest.raises(PageError, match="page 'k/7' is damaged: it has"):
        unpacked(packed() + b"\0")


def test_another_format_version():
    data = bytearray(packed())
    data[4] = FORMAT + 1
    said = f"page 'k/7' has format version {FORMAT + 1}, and this sash reads version {FORMAT}"
    with pytest.raises(PageError, match=said):
        unpacked(bytes(data))


def test_another_kind():
    with pytest.raises(PageError, match="page 'k/7' is a header page; expected a run page"):
        unpacked(packed(kind="header"))


def test_another_query():
    with pytest.raises(PageError, match=rf"page 'k/7' was written by another query.*{OTHER}.*{OURS}"):
        unpacked(packed(fingerprint=OTHER))


def test_damage_anywhere():
    """Every bit in turn: no damaged page is ever read, and none is taken for another query's."""
    whole = packed()
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        wanted = (
            "was not written by sash" if bit < 32 else "has format version" if bit < 48 else "is damaged|is truncated"
        )
        with pytest.raises(PageError, match=f"page 'k/7' ({wanted})"):
            unpacked(bytes(data))


@given(st.binary(max_size=200))
def test_noise_is_never_a_page(data):
    for noise in (data, b"SASH\1\0" + data):
        with pytest.raises(PageError, match="page 'k/7'"):
            unpacked(noise)


def with_checksum(data: bytes) -> bytes:
    """The same bytes with a checksum that matches: a page that is invalid, but not damaged."""
    return data[:8] + struct.pack("<I", crc32(data[12:])) + data[12:]


@given(st.data())
def test_what_passes_the_checksum_is_not_trusted_with_lengths(draw):
    data = bytearray(packed())
    at = draw.draw(st.integers(12, HEAD.size + 40))
    data[at : at + 2] = draw.draw(st.binary(min_size=2, max_size=2))
    with contextlib.suppress(PageError):
        unpacked(with_checksum(bytes(data)))


def test_batches_of_another_schema():
    with pytest.raises(PageError, match="page 'k/7' has 1 batches; a run page of this query has 2"):
        unpacked(packed(), schemas=[BATCH.schema, BATCH.schema])
    wider = pa.schema([*BATCH.schema, pa.field("y", pa.int64())])
    with pytest.raises(PageError, match="page 'k/7' is damaged"):
        unpacked(packed(), schemas=[wider])
    longer = pa.schema([("t", pa.decimal256(40, 2)), ("x", pa.float64())])
    with pytest.raises(PageError, match="page 'k/7' is damaged"):
        unpacked(packed(), schemas=[longer])


@pytest.mark.parametrize("parts", [[], [b"nonsense"], [b"{}", b"nonsense"], [b"\xff", b""]])
def test_parts_that_are_not_what_a_page_has(parts):
    with pytest.raises(PageError, match="page 'k/7'"):
        unpacked(wrap("run", OURS, parts))


def test_dictionaries_are_refused_when_written():
    word = pa.array(["a", "b"]).dictionary_encode()
    with pytest.raises(TypeError, match="column 'w' of a run page is dictionary-encoded"):
        packed(batches=[pa.record_batch({"w": word})])
    nested = pa.ListArray.from_arrays([0, 2], word)
    with pytest.raises(TypeError, match="column 'w' of a run page is dictionary-encoded"):
        packed(batches=[pa.record_batch({"x": [1], "w": nested})])


def test_meta_that_is_not_json():
    with pytest.raises(TypeError, match="the meta of a run page must be JSON: Object of type set"):
        packed(meta={"a": {1}})


@pytest.mark.parametrize("fingerprint", ["", "00", "g" * 32, "0 " * 16 + "0" * 16, "0" * 34])
def test_a_fingerprint_has_32_digits(fingerprint):
    with pytest.raises(ValueError, match="32 hexadecimal digits"):
        packed(fingerprint=fingerprint)
    with pytest.raises(ValueError, match="32 hexadecimal digits"):
        unpacked(packed(), fingerprint=fingerprint)


def test_an_envelope_of_many_parts():
    parts = [bytes([n % 256]) * n for n in range(300)]
    page = wrap("many", OURS, parts)
    assert [bytes(part) for part in unwrap(page, "many", OURS, "it")] == parts
