"""Crafted pages with a matching checksum are refused by name, without a crash and cheaply."""

import json
import re
import struct

import pyarrow as pa
import pytest

from sash.stores import PageError
from sash.stores import envelope as snapshot
from sash.stores import pages as page
from sash.stores.codec import DEEPEST, dumps, loads
from sash.stores.envelope import COUNTER, check_meta, integer, list_of, one_of, optional, text, wrap
from sash.stores.pages import read_stream

OURS = "0123456789abcdef" * 2
TEXT = pa.schema([("s", pa.string())])
NUMBERS = pa.record_batch({"a": pa.array(range(5), pa.int64()), "b": pa.array(range(5), pa.int64())})


def refused(part: bytes, schema: pa.Schema) -> str:
    """The message of the error for a page with this batch."""
    with pytest.raises(PageError, match="page 'k' is damaged: ") as error:
        page.unpack(wrap("run", OURS, [b"{}", part]), "run", OURS, [schema], "page 'k'")
    assert "start without" in str(error.value)
    return str(error.value)


def part_of(batch: pa.RecordBatch, **options: object) -> bytes:
    """A batch as a page has it, written with options of Arrow's."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    _, message = pa.ipc.MessageReader.open_stream(sink.getvalue())
    return bytes(message.serialize())


def patched(batch: pa.RecordBatch, old: bytes, new: bytes) -> bytes:
    """A batch as a page has it, with some bytes replaced."""
    part = bytes(batch.serialize())
    assert part.count(old) == 1
    return part.replace(old, new)


@pytest.mark.parametrize("offsets", [(0, 10**9, 7), (0, 9, 7), (-7, 5, 7), (0, 5, 2**31 - 1), (6, 5, 7)])
def test_offsets_of_text_that_lead_elsewhere(offsets: tuple[int, ...]) -> None:
    batch = pa.record_batch([pa.array(["hello", "ab"])], schema=TEXT)
    refused(patched(batch, struct.pack("<3i", 0, 5, 7), struct.pack("<3i", *offsets)), TEXT)


def test_offsets_of_lists_that_lead_elsewhere() -> None:
    batch = pa.record_batch({"l": pa.array([[1, 2], [3]])})
    refused(patched(batch, struct.pack("<3i", 0, 2, 3), struct.pack("<3i", 0, 70_000, 80_000)), batch.schema)


def test_text_that_is_no_text() -> None:
    batch = pa.record_batch([pa.array(["hello"])], schema=TEXT)
    assert "UTF8" in refused(patched(batch, b"hello", b"\xff\xfeabc"), TEXT)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_buffers_are_not_decompressed(compression: str) -> None:
    zeros = pa.record_batch({"x": pa.array([0], pa.int64()).take(pa.array([0] * (1 << 20)))})
    part = part_of(zeros, compression=compression)
    assert len(part) < 100_000
    before = pa.total_allocated_bytes()
    assert "compressed" in refused(part, zeros.schema)
    assert pa.total_allocated_bytes() <= before


def test_buffers_between_words() -> None:
    """Compiled loops read words."""
    crooked = patched(NUMBERS, struct.pack("<4q", 40, 0, 40, 40), struct.pack("<4q", 40, 0, 36, 40))
    assert "are not aligned" in refused(crooked, NUMBERS.schema)


def test_rows_without_bytes() -> None:
    nothing = pa.record_batch({"x": pa.nulls(12_345)})
    part = bytes(nothing.serialize()).replace(struct.pack("<q", 12_345), struct.pack("<q", 2**40))
    assert "claims 1099511627776 rows" in refused(part, nothing.schema)


def test_a_schema_where_a_batch_belongs() -> None:
    assert "has a schema" in refused(bytes(NUMBERS.schema.serialize()), NUMBERS.schema)


@pytest.mark.parametrize("meta", [b"[" * 100_000, b'{"a":' * 100_000, b"[]", b"null", b"7", b'"a"', b"{", b"\xff"])
def test_meta_that_is_no_object(meta: bytes) -> None:
    with pytest.raises(PageError, match="page 'k' is damaged"):
        page.unpack(wrap("run", OURS, [meta]), "run", OURS, [], "page 'k'")


FIELDS = {
    "rows": COUNTER,
    "mode": one_of("rows", "given"),
    "token": text("[0-9a-f]*"),
    "held": optional(integer(-1, 9)),
    "counters": list_of(integer(0, 5), 2),
    "eager": one_of(False, True),
}
GOOD = {"rows": 3, "mode": "rows", "token": "0f", "held": None, "counters": [0, 5], "eager": False}
BAD: list[tuple[str, object]] = [
    *(("rows", -1), ("rows", 2**63), ("rows", 1.0), ("rows", True), ("rows", None), ("rows", "3"), ("mode", "sorted")),
    *(("mode", None), ("token", "0g"), ("token", 7), ("held", 10), ("held", "1"), ("counters", [0]), ("eager", 0)),
    *(("counters", [0, 6]), ("counters", {"0": 1}), ("counters", "01"), ("counters", [0, None])),
]


@pytest.mark.parametrize(("field", "value"), BAD)
def test_fields_of_other_types_and_ranges(field: str, value: object) -> None:
    check_meta(GOOD, FIELDS, "page 'k'")
    with pytest.raises(PageError, match=f"page 'k' is damaged: its field '{field}' is .*; expected .*"):
        check_meta({**GOOD, field: value}, FIELDS, "page 'k'")
    with pytest.raises(PageError, match=f"its meta has no field '{field}'"):
        check_meta({key: value for key, value in GOOD.items() if key != field}, FIELDS, "page 'k'")


# ---- streams and snapshots ----


def stream_of(batch: pa.RecordBatch, **options: object) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def test_streams_are_not_decompressed() -> None:
    words = pa.record_batch({"w": pa.array(["a", "b"] * 500).dictionary_encode()})
    (again,) = read_stream(stream_of(words), words.schema)
    assert again.equals(words)
    with pytest.raises(ValueError, match="compressed"):
        read_stream(stream_of(words, compression="zstd"), words.schema)
    with pytest.raises(ValueError, match="; expected "):
        read_stream(stream_of(words), NUMBERS.schema)


def test_codes_of_a_dictionary_that_lead_elsewhere() -> None:
    codes = pa.array([0, 1, 70_000], pa.int32())
    column = pa.DictionaryArray.from_arrays(codes, pa.array(["a", "b"]), safe=False)
    batch = pa.record_batch({"w": column})
    with pytest.raises(pa.ArrowInvalid):
        read_stream(stream_of(batch), batch.schema)


@pytest.mark.parametrize(
    "directory",
    [
        *({"mode": 1, "pages": ["a"]}, {"mode": "rows"}, {"pages": ["a"]}, {"mode": "rows", "pages": "a"}),
        *(
            {"mode": "rows", "pages": [1]},
            {"mode": "rows", "pages": []},
            [],
            None,
            {"mode": "rows", "pages": ["a", "b"]},
        ),
    ],
)
def test_directories_of_snapshots(directory: object) -> None:
    data = wrap("snapshot", OURS, [json.dumps(directory).encode(), b"page"])
    with pytest.raises(PageError, match="the snapshot is damaged"):
        snapshot.unpack_pages(data, OURS)


def test_a_page_that_is_listed_twice() -> None:
    data = wrap("snapshot", OURS, [b'{"mode": "rows", "pages": ["a", "a"]}', b"one", b"two"])
    with pytest.raises(PageError, match="lists a page twice"):
        snapshot.unpack_pages(data, OURS)


# ---- values ----


def nested(tag: bytes, inner: bytes, depth: int) -> bytes:
    return (tag + struct.pack("<I", 1)) * depth + inner


def test_tuples_in_sets_are_not_hashed_without_a_limit() -> None:
    """Python hashes a tuple by recursion and overflows its stack: a hundred thousand of them are 500 kB."""
    assert loads(nested(b"e", nested(b"t", b"_", DEEPEST), 1)) is not None
    with pytest.raises(ValueError, match="nested more than 1000 deep"):
        loads(nested(b"e", nested(b"t", b"_", 100_000), 1))
    with pytest.raises(ValueError, match="nested more than 1000 deep"):
        loads(b"m" + struct.pack("<I", 1) + nested(b"t", b"_", 100_000) + b"_")


def test_what_is_not_read_again_is_not_written() -> None:
    value: tuple[object, ...] = ()
    for _ in range(DEEPEST + 5):
        value = (value,)
    with pytest.raises(ValueError, match="nested more than 1000 deep"):
        dumps({value, "a"})


@pytest.mark.parametrize(
    "code", [b"i4,(", b"(1000000000,)f8", b"<V8", b"O", b"<f8,<f8", b"<U99999999", b"<q8", b"", b"<f99"]
)
def test_types_of_numpy_are_not_evaluated(code: bytes) -> None:
    content = code + b" " + bytes(8)
    with pytest.raises(ValueError, match=re.escape("the bytes of a value are damaged")):
        loads(b"N" + struct.pack("<I", len(content)) + content)
