"""StateReader: lookups in the state of an operator that another process, or another operator, writes.

    writer ──commit──▶ store ──refresh──▶ reader: header changed? ──▶ buckets that have changed leave memory
                                              │ no
                                              ▼
                                          lookup: buckets of the keys asked for are read, and stay

Every answer is consistent with one commit. A store that the writer uses in the same process shows one version to a
lookup (`memory.py`). In any other the header lists the generation of each page, and a page of another generation is
refused: then the writer has committed in between, and the lookup starts again with the new header.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import ClassVar, NoReturn, TypeVar, cast

import pyarrow as pa

from sash.engine.eager_backend import EagerBackend
from sash.engine.emit.output import Output
from sash.engine.intake.input_checks import GivenKeys, GivenTime
from sash.engine.live_backend import LiveBackend
from sash.engine.operator_base import OperatorBase, progress_of
from sash.engine.single_user import SingleUser
from sash.plan.planner import Plan
from sash.plan.query import Query
from sash.state.root_page import HEADER, stored_mode, stored_schema
from sash.stores import PageError, Store
from sash.stores.store import Reads, Refreshable, Viewable, checked_store
from sash.windows.arguments import Length
from sash.windows.specs import Closed

ATTEMPTS = 100
"""The most attempts of a lookup, which starts again if the writer has committed meanwhile."""

_WRITING = ("process", "advance", "finish", "run", "late_rows", "snapshot")

_Found = TypeVar("_Found")


class Version:
    """The pages of a store: within `held` those of one version, if the store can hold one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: Reads | None = None
        self._header: list[bytes | None] | None = None
        """The header that was read of the version that is held."""

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        """Return the pages of these names, in their order; None for a missing page. A header is read once."""
        if self._header is not None and ids == [HEADER]:
            return self._header
        return (self._store if self._held is None else self._held).get_many(ids)

    @contextmanager
    def held(self) -> Iterator[bytes | None]:
        """Read pages of one version, whose header this gives."""
        with self._store.view() if isinstance(self._store, Viewable) else nullcontext(self._store) as view:
            self._held = view
            try:
                self._header = self.get_many([HEADER])
                yield self._header[0]
            finally:
                self._held = self._header = None

    def __repr__(self) -> str:
        return repr(self._store)


class StateReader(OperatorBase):
    """Reads the state that an operator has committed to a store, while that operator runs.

    query: the query of the operator.
    store: a store that can be read while its writer is open, such as `RocksDBStore(path, read_only=True)`.
    schema: the columns of the operator's batches; only for state of versions that did not save it.

    >>> import pyarrow as pa, sash
    >>> from sash.stores import MemoryStore
    >>> query, store = sash.Query(2, by="k", high=sash.max("x")), MemoryStore()
    >>> op, reader = query.operator(store=store), query.reader(store)
    >>> op.process(pa.record_batch({"k": ["a", "b", "a", "a"], "x": [3, 9, 1, 2]}), offset=4).num_rows
    4
    >>> reader.lookup({"k": ["a", "c"]}).to_pydict(), reader.offset
    ({'k': ['a', 'c'], 'high': [2, None]}, 4)

    Each `lookup` refreshes. If nothing was committed since, that reads the header alone. Other properties are as of the
    last refresh. Any number of threads may use a reader: lookups wait for each other, and never for the operator.
    """

    def __init__(self, query: Query, store: Store, schema: pa.Schema | None = None) -> None:
        super().__init__(query, "rows", checked_store("store= of reader()", store), None)
        self._single, self._version = SingleUser("the reader"), Version(store)
        self._given_schema, self._header, self._is_complete = schema, None, False
        self.refresh()

    _header: bytes | None
    """The header of the commit that the state in memory belongs to."""
    _is_complete: bool
    """Whether the state in memory is that of the header."""

    def refresh(self) -> bool:
        """Read the newest commit, and return whether there was a new one.

        Raises PageError if the state is damaged or of another query.
        """
        with self._single.reading:
            before = self._header
            self._retried(lambda: None)
            return self._header != before

    def _lookup(
        self, keys: GivenKeys, at: GivenTime | None, last: Length | None, closed: Closed | None
    ) -> pa.RecordBatch:
        return self._retried(lambda: super(StateReader, self)._lookup(keys, at, last, closed))

    def _require_schema(self, what: str) -> None:
        if self.schema is None:
            self._retried(lambda: None)
        if self.schema is None:
            raise ValueError(f"{what}() has nothing to read: nothing was committed to the store {self.store!r} yet")

    def _require_opened(self, what: str) -> None:
        """Do nothing: properties are as of the last refresh, and None before the first commit."""

    # ---- following the writer ----

    def _retried(self, look: Callable[[], _Found]) -> _Found:
        """Call a function on the state of the last commit; again if the writer has committed meanwhile."""
        for _ in range(ATTEMPTS):
            self._refresh_store()
            with self._version.held() as header:
                try:
                    self._follow(header)
                    return look()
                except PageError as error:
                    failed = error
            self._refresh_store()
            if self._version.get_many([HEADER])[0] == header:
                raise failed
        raise TimeoutError(
            f"the store {self.store!r} was written to during each of {ATTEMPTS} attempts to read its state: its "
            "commits follow each other faster than a reader can read the pages of these keys"
        )

    def _refresh_store(self) -> None:
        if isinstance(self.store, Refreshable):
            self.store.refresh()

    def _new_backend(self, plan: Plan, output: Output) -> LiveBackend | EagerBackend:
        store = cast(Store, self._version)  # a reader does not write
        if self.query.emit == "eager":
            return EagerBackend(plan, self.mode, output, store)
        return LiveBackend(plan, self.mode, output, store, self.reads_only)

    def _follow(self, header: bytes | None) -> None:
        if self._is_complete and header == self._header:
            return
        is_known, self._is_complete = self._is_complete, False
        if header is None:
            if self._header is not None:
                raise PageError(f"page {HEADER!r} is missing from the store {self.store!r}: its state is incomplete")
        elif is_known and self.schema is not None and isinstance(self.backend, LiveBackend):
            self.progress = progress_of(self.backend, self.backend.follow())
        else:
            assert self.store is not None
            schema = self._given_schema or stored_schema(self.query, cast(Store, self._version))
            if schema is None:
                raise PageError(f"the state is gone from the store {self.store!r}")
            self.mode = stored_mode(self.query.bind(schema).fingerprint, header)
            self._opened = None  # frees the old state first: there may be no memory for both
            self._open(schema)
        self._header, self._is_complete = header, True

    reads_only: ClassVar[bool] = True

    def __getattr__(self, name: str) -> NoReturn:
        if name in _WRITING:
            raise AttributeError(
                f"a reader has no {name}(): it reads the state that an operator writes. Call {name}() of the operator"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<StateReader of {self.query!r} on {self.store!r}>"
