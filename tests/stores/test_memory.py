"""MemoryStore, and the protocol of stores."""

import pickle

import pytest

from sash.stores import MemoryStore, Store


def test_pages_come_back_in_the_order_asked_for():
    store = MemoryStore()
    store.put_many({"a": b"1", "b": b"2"})
    assert store.get_many(["b", "missing", "a", "b"]) == [b"2", None, b"1", b"2"]
    assert store.get_many([]) == []


def test_a_page_takes_the_place_of_the_one_of_its_name():
    store = MemoryStore()
    store.put_many({"a": b"1"})
    store.put_many({"a": b"22", "b": b""})
    assert dict(store.items()) == {"a": b"22", "b": b""}
    assert (len(store), store.nbytes) == (2, 2)


def test_to_delete_what_is_not_there_is_no_error():
    store = MemoryStore({"a": b"1"})
    store.delete_many(["a", "a", "b"])
    assert len(store) == 0
    assert store, "an empty store is a store still"


def test_a_copy_has_a_life_of_its_own():
    store = MemoryStore({"a": b"1"})
    twin = store.copy()
    store.put_many({"a": b"2"})
    assert twin.get_many(["a"]) == [b"1"]
    assert pickle.loads(pickle.dumps(twin)) == twin


@pytest.mark.parametrize("page", [bytearray(b"1"), memoryview(b"1"), "1", None])
def test_only_bytes_are_pages(page):
    store = MemoryStore()
    with pytest.raises(TypeError, match=f"page 'k/1' is a {type(page).__name__}"):
        store.put_many({"k/0": b"", "k/1": page})
    assert len(store) == 0, "refused as a whole"


def test_what_is_a_store():
    class Half:
        def get_many(self, _ids):
            return []

    assert isinstance(MemoryStore(), Store)
    assert not isinstance(Half(), Store)


def test_repr():
    assert repr(MemoryStore()) == "<MemoryStore: 0 pages, 0 bytes>"
    assert repr(MemoryStore({"a": b"123"})) == "<MemoryStore: 1 page, 3 bytes>"
