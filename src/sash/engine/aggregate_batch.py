"""A aggregate: one aggregate of a query as the engine runs it, between Arrow columns and the loops of the kernels.

    rows' columns ─┐                          ┌─▶ results ──▶ an Arrow column
                   ├─▶ states (one call) ─────┤
    stored states ─┘                          └─▶ states of ranges ──▶ Arrow columns, stored

Stored, a state is a count of the values it has seen and one column per scalar, values instead of codes; of an
aggregate that runs interpreted one column of bytes, by the monoid's `dump` or our codec.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.aggregators.in_order import InOrder
from sash.aggregators.suffix_query import SuffixQuery
from sash.engine.input_encoding import CODED, Form, ValueDictionary, encodings_of, non_null, numbers, objects, to_arrow
from sash.engine.key_values import decode
from sash.kernels.jit.state_layout import Layout
from sash.kernels.loops.aggregate_kernel import AggregateKernel, Bounds, Share, States, Wanted, all_rows
from sash.monoids.algebra import Kind, Monoid
from sash.monoids.custom import Custom
from sash.plan.bound_query import AggregateSpec
from sash.plan.types import kind as number_kind
from sash.plan.types import value_type
from sash.stores import codec

_MARK = 1_000_003
_KINDS = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64()}


def column_kernel(
    *structures: type[InOrder], several: Sequence[type[SuffixQuery]] = ()
) -> Callable[..., AggregateKernel]:
    """What makes a kernel over whole columns, for these structures."""
    return lambda monoid, kinds, warn: AggregateKernel(monoid, kinds, structures, several, warn=warn)


def is_exact(part: AggregateSpec) -> bool:
    """Is the aggregate exact on columns of these types? A sum is of integers, and is not of floats.

    By the types alone, not by the form that runs: what is emitted must not depend on whether the aggregate compiles.
    """
    tests = (("bool", pa.types.is_boolean), ("int", pa.types.is_integer), ("float", pa.types.is_floating))
    kinds: list[Any] = [kind for column in part.types for kind, holds in tests if holds(column)]
    if len(kinds) < len(part.types) or part.monoid.interpreted_only:
        return part.monoid.exact
    return part.monoid.typed(*kinds).exact


class Aggregate:
    """An aggregate on its columns, for the structures it will run on."""

    def __init__(self, part: AggregateSpec, kernel: Callable[[Monoid, tuple[Kind, ...] | None, bool], Any]) -> None:
        """`kernel(monoid, kinds, warn)` makes the kernel that the aggregate runs on."""
        self.part = part
        self.types = tuple(map(value_type, part.types))
        self.ours = not isinstance(part.monoid, Custom)
        for name, kind in zip(part.columns, self.types, strict=True):
            if not self.ours and getattr(kind, "unit", None) == "ns":
                raise TypeError(
                    f"the aggregate {part.name!r} takes the column {name!r} of type {kind} as objects of Python, which "
                    "have no nanoseconds: cast it to microseconds"
                )
        forms = encodings_of(part.monoid, self.types)
        kinds = None if forms is None else tuple(map(kind_of, forms, self.types or (pa.bool_(),)))
        self.kernel = kernel(part.monoid, kinds, not self.ours)
        as_objects: tuple[Form, ...] = tuple("object" for _ in self.types)
        self.forms = forms if forms and self.kernel.compiled else as_objects
        self.state_of, self.result_of = self._traced() if self.kernel.compiled else ({}, {})

    def _traced(self) -> tuple[dict[int, int], dict[int, int]]:
        """Which scalars of a state, and of a result, are an input as it came: found by marking the inputs."""
        monoid = self.kernel.monoid
        coded = [j for j, form in enumerate(self.forms) if form in CODED]
        if not coded:
            return {}, {}
        row = [_MARK + j if form in CODED else _sample(form, kind) for j, (form, kind) in enumerate(self._inputs())]
        state = monoid.lift(*row)
        marks = {_MARK + j: j for j in coded}
        of_state = _marked(self.kernel.layouts.state, state, marks)
        return of_state, _marked(self.kernel.layouts.result, monoid.lower(state), marks)

    def _inputs(self) -> list[tuple[Form, pa.DataType]]:
        return list(zip(self.forms, self.types, strict=True))

    @property
    def fields(self) -> list[pa.Field]:
        """The columns in which a state is stored."""
        if not self.kernel.compiled:
            return [pa.field("n", pa.int64()), pa.field("state", pa.binary())]
        found = [pa.field("n", pa.int64())]
        for i, kind in enumerate(self.kernel.leaves):
            stored = self.types[self.state_of[i]] if i in self.state_of else _KINDS[kind]
            found.append(pa.field(f"s{i}", stored))
        return found

    def column(self, out: Any, valid: Wanted, empty: Wanted, pools: Mapping[int, Any]) -> pa.Array:
        """Results as a column of the part's type, `empty` where there was nothing to see; `pools` decode values."""
        part, kernel = self.part, self.kernel
        nothing = part.monoid.empty
        if not kernel.compiled:
            values = [x if ok else None for x, ok in zip(out, valid.tolist(), strict=True)]
            if nothing is not None:
                values = [nothing if e else x for x, e in zip(values, empty.tolist(), strict=True)]
            return part.array(values)
        shape = kernel.layouts.result.shape
        if nothing is not None and empty.any():
            if not isinstance(nothing, tuple) and len(out) == 1:
                out = (np.where(empty, nothing, out[0]).astype(out[0].dtype),)
                return self._built(iter(enumerate(out)), valid | empty, part.result, shape, pools)
            made = self._built(iter(enumerate(out)), valid, part.result, shape, pools).to_pylist()
            return part.array([nothing if e else x for x, e in zip(made, empty.tolist(), strict=True)])
        return self._built(iter(enumerate(out)), valid, part.result, shape, pools)

    def _built(self, leaves: Any, valid: Wanted, kind: pa.DataType, shape: Any, pools: Mapping[int, Any]) -> pa.Array:
        """A column of this type from scalars of this shape; one scalar may stand for a value of any type."""
        if isinstance(shape, tuple):
            fields = list(kind)
            parts = zip(fields, shape, strict=True)
            made = [self._built(leaves, valid, field.type, part, pools) for field, part in parts]
            return pa.StructArray.from_arrays(made, fields=fields, mask=pa.array(~valid))
        i, leaf = next(leaves)
        j = self.result_of.get(i)
        if j is not None:
            made = pools[j].decode(leaf, valid)
            return made if made.type == kind else made.cast(kind)
        return to_arrow(leaf, valid, kind)

    def meet(
        self, columns: Sequence[pa.Array], rows: int, stored: Sequence[pa.Array], share: Share = all_rows
    ) -> AggregateBatch:
        """The states of rows and of what is stored, for one call. Raises `AggregateError`."""
        return AggregateBatch(self, [decode(column) for column in columns], rows, stored, share)


class AggregateBatch:
    """What an aggregate meets in one call: the states of its rows and of what was stored, and the way back."""

    def __init__(
        self, aggregate: Aggregate, columns: list[pa.Array], rows: int, stored: Sequence[pa.Array], share: Share
    ) -> None:
        self.aggregate = aggregate
        kernel, part = aggregate.kernel, aggregate.part
        self.seen = non_null(columns, part.monoid.nullable, rows)
        self.stored_seen = numbers(stored[0]) if stored else np.zeros(0, np.int64)
        self.pools: dict[int, ValueDictionary] = {}
        if not kernel.compiled:
            inputs = [objects(column, aggregate.ours) for column in columns]
            self.rows: States = kernel.lift(inputs or [[None] * rows], self.seen)
            load = part.monoid.load or codec.loads
            self.stored: States = (_object_array([load(b) for b in stored[1].to_pylist()] if stored else []),)
            return
        leaves = list(stored[1:])
        self._fill_pools(columns, leaves)
        given = [self._input(j, column, rows) for j, column in enumerate(columns)] or [np.zeros(rows, np.bool_)]
        if aggregate.forms == ("presence",):
            given = [np.zeros(rows, np.bool_)]
        self.rows = kernel.lift(given, self.seen, share)
        self.stored = tuple(self._leaf(i, kind, leaves, rows) for i, kind in enumerate(kernel.leaves))

    def _fill_pools(self, columns: list[pa.Array], leaves: list[pa.Array]) -> None:
        for j, form in enumerate(self.aggregate.forms):
            if form in CODED:
                mine = [leaves[i] for i, of in self.aggregate.state_of.items() if of == j] if leaves else []
                self.pools[j] = ValueDictionary(form, [columns[j], *mine])

    def _input(self, j: int, column: pa.Array, rows: int) -> NDArray[Any]:
        return self.pools[j].codes[:rows] if j in self.pools else numbers(column)

    def _leaf(self, i: int, kind: Kind, leaves: list[pa.Array], rows: int) -> NDArray[Any]:
        """A stored scalar of the states, codes again."""
        if not leaves:
            return self.aggregate.kernel.nothing(0)[i]
        j = self.aggregate.state_of.get(i)
        if j is None:
            return numbers(leaves[i])
        before = [k for k, of in self.aggregate.state_of.items() if of == j and k < i]
        start = rows + sum(len(leaves[k]) for k in before)
        codes = self.pools[j].codes[start : start + len(leaves[i])]
        if self.aggregate.forms[j] == "rank":
            identity = _flat(self.aggregate.kernel.monoid.identity)[i]
            codes = np.where(codes < 0, identity, codes)
        return codes

    def join(self, order: NDArray[np.int64]) -> tuple[States, NDArray[np.int64]]:
        """States and counts of seen values, of rows and stored ones together, in this order (stored ones behind)."""
        states = tuple(np.concatenate(pair)[order] for pair in zip(self.rows, self.stored, strict=True))
        counts = np.concatenate([self.seen.astype(np.int64), self.stored_seen])[order]
        return states, counts

    def store(self, states: States, counts: NDArray[np.int64]) -> list[pa.Array]:
        """States as columns to keep."""
        kernel = self.aggregate.kernel
        if not kernel.compiled:
            dump = self.aggregate.part.monoid.dump or codec.dumps
            return [pa.array(counts), pa.array([dump(state) for state in states[0].tolist()], pa.binary())]
        found = [pa.array(counts)]
        for i, leaf in enumerate(states):
            j = self.aggregate.state_of.get(i)
            found.append(pa.array(leaf) if j is None else self.pools[j].decode(leaf))
        return found

    def results(
        self, structure: type[InOrder], states: States, counts: NDArray[np.int64], los: Bounds, his: Bounds, on: Wanted
    ) -> pa.Array:
        """The result over each range of states where it is `on`, as a column; `empty` where it has seen no value."""
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        filled = sums[his] > sums[los]
        out, valid = self.aggregate.kernel.slide(structure, states, los, his, on & filled)
        return self.column(out, valid, on & ~filled)

    def results_of_sizes(
        self,
        structure: type[SuffixQuery],
        states: States,
        counts: NDArray[np.int64],
        los: Sequence[Bounds],
        his: Bounds,
        on: Sequence[Wanted],
    ) -> list[pa.Array]:
        """The same for several starts to each end, from one structure."""
        sizes = len(los)
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        filled = [sums[his] > sums[lo] for lo in los]
        wanted = np.stack([a & b for a, b in zip(on, filled, strict=True)], axis=1).ravel()
        starts = np.stack(los, axis=1).ravel()
        out, valid = self.aggregate.kernel.slide_sizes(structure, states, starts, his, wanted)
        columns = []
        for k in range(sizes):
            part = (
                out[k::sizes] if isinstance(out, list) else tuple(np.ascontiguousarray(leaf[k::sizes]) for leaf in out)
            )
            columns.append(self.column(part, valid[k::sizes], on[k] & ~filled[k]))
        return columns

    def column(self, out: Any, valid: Wanted, empty: Wanted) -> pa.Array:
        """Results as a column of the part's type, `empty` where there was nothing to see."""
        return self.aggregate.column(out, valid, empty, self.pools)


def kind_of(form: Form, kind: pa.DataType) -> Kind:
    """The kind of numbers in which an input of this form comes."""
    if form == "presence":
        return "bool"
    return "int" if form != "number" else number_kind(kind) or "float"


def _sample(form: Form, kind: pa.DataType) -> Any:
    return {"bool": True, "int": 1, "float": 1.5}[kind_of(form, kind)]


def _flat(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in _flat(part)] if isinstance(value, tuple) else [value]


def _marked(layout: Layout, value: Any, marks: dict[int, int]) -> dict[int, int]:
    return {i: marks[leaf] for i, leaf in enumerate(_flat(value)) if not isinstance(leaf, bool) and leaf in marks}


def _object_array(values: list[Any]) -> NDArray[Any]:
    made = np.empty(len(values), object)
    for i, value in enumerate(values):
        made[i] = value
    return made
