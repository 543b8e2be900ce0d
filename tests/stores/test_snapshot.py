"""Snapshots that are incomplete or of another query are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.stores import PageError
from sash.stores import envelope as snapshot
from sash.stores import pages as page
from sash.stores.envelope import wrap

OURS, OTHER = "0123456789abcdef" * 2, "f" * 32
PAGES = {"header": b"first", "k/1": b"", "k/7": bytes(100)}


@given(st.text(max_size=8), st.dictionaries(st.text(max_size=8), st.binary(max_size=50), max_size=30))
def test_round_trip(mode, pages):
    assert snapshot.unpack_pages(snapshot.pack_pages(OURS, mode, pages), OURS) == (mode, pages)


def test_the_order_of_the_pages_does_not_matter():
    assert snapshot.pack_pages(OURS, "rows", PAGES) == snapshot.pack_pages(OURS, "rows", dict(reversed(PAGES.items())))


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_other_kinds_of_bytes(kind):
    mode, pages = snapshot.unpack_pages(kind(snapshot.pack_pages(OURS, "rows", PAGES)), OURS)
    assert (mode, pages) == ("rows", PAGES)
    assert all(type(content) is bytes for content in pages.values())


def test_damage_anywhere():
    data = snapshot.pack_pages(OURS, "rows", PAGES)
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1
        with pytest.raises(PageError, match="the snapshot"):
            snapshot.unpack_pages(bytes(damaged), OURS)
        with pytest.raises(PageError, match="the snapshot is truncated"):
            snapshot.unpack_pages(data[:at], OURS)


def test_refusals_give_a_reason():
    data = snapshot.pack_pages(OURS, "rows", PAGES)
    with pytest.raises(PageError, match=f"the snapshot was written by another query.*{OURS}.*{OTHER}"):
        snapshot.unpack_pages(data, OTHER)
    with pytest.raises(PageError, match="the snapshot is damaged: its checksum"):
        snapshot.unpack_pages(data[:-1] + b"\1", OURS)
    with pytest.raises(PageError, match="the snapshot was not written by sash"):
        snapshot.unpack_pages(b"something else", OURS)
    with pytest.raises(PageError, match="the snapshot is a run page; expected a snapshot page"):
        snapshot.unpack_pages(page.pack("run", OURS, {}, []), OURS)


@pytest.mark.parametrize("parts", [[], [b"x"], [b"{}"], [b"[]"], [b'{"mode": "rows", "pages": ["a"]}']])
def test_a_directory_that_does_not_fit(parts):
    with pytest.raises(PageError, match="the snapshot is damaged"):
        snapshot.unpack_pages(wrap("snapshot", OURS, parts), OURS)
