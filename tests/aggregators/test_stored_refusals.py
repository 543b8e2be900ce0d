"""What AMTA and LogMTA in a store refuse: other monoids, damaged pages, second writers, copies."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import sash
from sash.aggregators import AMTA, LogMTA
from sash.aggregators.bulk_evict import BulkEvict
from sash.aggregators.stored_levels import SIZE
from sash.monoids import Collect, Max, Sum, Var
from sash.stores import MemoryStore, PageError, StoreError, StoreInUse
from sash.stores.envelope import FORMAT
from tests.aggregators.stored_cases import STRUCTURES, contents

both = pytest.mark.parametrize("structure", STRUCTURES)


# ---- what cannot be opened ----


def stored(structure: type[BulkEvict], monoid: Any, values: Any) -> MemoryStore:
    store = MemoryStore()
    with structure(monoid, store=store) as window:
        window.insert_many(values)
    return store


def test_another_monoid_is_refused() -> None:
    store = stored(AMTA, Sum(), range(10))
    with pytest.raises(PageError, match=r"page 'window/header' holds a window AMTA\(Sum\(\)\); this is AMTA\(Max\("):
        AMTA(Max(), store=store)
    assert AMTA(Sum(), store=store).query() == 45


def test_other_parameters_are_another_monoid() -> None:
    store = stored(AMTA, Var(ddof=0), range(10))
    with pytest.raises(PageError, match=r"holds a window AMTA\(Var\(ddof=0.*this is AMTA\(Var\(ddof=1"):
        AMTA(Var(), store=store)


def test_user_monoids_are_distinguished() -> None:
    def scaled(by: int, name: str | None = None) -> Any:
        return sash.monoid(identity=0, lift=lambda x: by * x, combine=lambda a, b: a + b, name=name)

    store = stored(AMTA, scaled(2), range(10))
    assert AMTA(scaled(2), store=store).query() == 90
    with pytest.raises(PageError, match="another name="):
        AMTA(scaled(3), store=store)
    store = stored(AMTA, scaled(2, "mine"), range(10))
    assert AMTA(scaled(3, "mine"), store=store).query() == 90


def test_another_structure_is_refused() -> None:
    store = stored(LogMTA, Sum(), range(10))
    with pytest.raises(PageError, match=r"holds a window LogMTA\(Sum\(\)\); this is AMTA\(Sum\(\)\)"):
        AMTA(Sum(), store=store)


@both
def test_a_damaged_page_is_named(structure: type[BulkEvict]) -> None:
    whole = stored(structure, Sum(), range(3 * SIZE)).pages
    assert set(whole) == {"window/header", "window/0/0", "window/0/1", "window/1/0"}
    for name, page in whole.items():
        for damaged in (page[:-3], page[:30] + b"\x01" + page[31:], b"something else", b""):
            with pytest.raises(PageError, match=f"page '{name}'"):
                list(structure(Sum(), store=MemoryStore({**whole, name: damaged})))


@both
def test_a_missing_page_is_named(structure: type[BulkEvict]) -> None:
    whole = stored(structure, Sum(), range(3 * SIZE)).pages
    for name in whole:
        rest = {other: page for other, page in whole.items() if other != name}
        with pytest.raises(PageError, match=f"page '{name}' is missing from the store"):
            list(structure(Sum(), store=MemoryStore(rest)))


def test_a_page_in_anothers_place_is_named() -> None:
    pages = stored(AMTA, Sum(), range(3 * SIZE)).pages
    pages["window/0/1"] = pages["window/0/0"]
    with pytest.raises(PageError, match="page 'window/0/1' is damaged: it holds page 0 of level 0"):
        list(AMTA(Sum(), store=MemoryStore(pages)))
    pages["window/0/1"] = stored(AMTA, Max(), range(3 * SIZE)).pages["window/0/1"]
    with pytest.raises(PageError, match="page 'window/0/1' was written by another"):
        list(AMTA(Sum(), store=MemoryStore(pages)))


def test_another_version_is_named() -> None:
    pages = stored(AMTA, Sum(), range(10)).pages
    header = pages["window/header"]
    pages["window/header"] = header[:4] + (FORMAT + 1).to_bytes(2, "little") + header[6:]
    with pytest.raises(PageError, match=f"page 'window/header' has format version {FORMAT + 1}"):
        AMTA(Sum(), store=MemoryStore(pages))


@both
def test_a_window_that_could_not_be_opened_is_not_open(structure: type[BulkEvict]) -> None:
    store = stored(structure, Sum(), range(10))
    header = store.pages.pop("window/header")
    store.pages["window/header"] = header[:-1]
    for _ in range(2):
        with pytest.raises(PageError):
            structure(Sum(), store=store)
    store.pages["window/header"] = header
    assert structure(Sum(), store=store).query() == 45


@both
def test_a_second_writer_is_refused(structure: type[BulkEvict]) -> None:
    store = MemoryStore()
    window = structure(Sum(), store=store, name="prices")
    with pytest.raises(StoreInUse, match=r"a window named 'prices' is open on this store: close\(\) it first"):
        structure(Sum(), store=store, name="prices")
    structure(Sum(), store=store, name="volumes").insert(1)
    structure(Sum(), store=MemoryStore(), name="prices").insert(1)
    window.close()
    structure(Sum(), store=store, name="prices").insert(1)


@both
def test_a_closed_window_refuses_operations(structure: type[BulkEvict]) -> None:
    window = structure(Sum(), store=MemoryStore(), name="prices")
    window.insert(3)
    window.close()
    window.close()
    for operation in (lambda: window.insert(1), window.evict, window.query, window.flush, window.clear):
        with pytest.raises(StoreError, match=r"'prices' is closed: open it again with \w+\(monoid, store=…\)"):
            operation()


@both
@pytest.mark.parametrize("store", [{}, [], 3, MemoryStore])
def test_what_is_no_store(structure: type[BulkEvict], store: Any) -> None:
    with pytest.raises(TypeError, match=r"store= must be a store: .*; got "):
        structure(Sum(), store=store)


@pytest.mark.parametrize("name", ["", 3, None])
def test_what_is_no_name(name: Any) -> None:
    with pytest.raises(TypeError, match="name= must be the name of the window in the store, as text; got "):
        AMTA(Sum(), store=MemoryStore(), name=name)


@both
def test_a_window_in_a_store_is_not_copied(structure: type[BulkEvict]) -> None:
    window = structure(Sum(), store=MemoryStore(), name="prices")
    window.insert(3)
    for make in (window.copy, lambda: copy.deepcopy(window), lambda: pickle.dumps(window)):
        with pytest.raises(TypeError, match="'prices' is in a store, which has one writer: it cannot be copied"):
            make()
    assert window.query() == 3


@both
def test_a_state_that_cannot_be_written_is_refused(structure: type[BulkEvict]) -> None:
    window = structure(Collect(), store=MemoryStore())
    for held in ([], ["a"]):
        with pytest.raises(TypeError, match=r"object .*cannot be written as state"):
            window.insert(object())
        assert contents(window) == (len(held), [(x,) for x in held], held or None)
        window.insert("a")
