"""A structure in compiled code: a struct on the kernel's stack, whose queues are rings of raw memory.

    StateType    the annotated fields of a structure's class, and its methods
    StructSpec   the parameters of a compiled kernel: a structure, a typed monoid and its layouts

The struct is in the frame of the kernel that calls `start` (`numba_intrinsics.py`). Its methods are inlined there, so
LLVM keeps positions and running aggregates in registers. Its queues are columns (`numba_arrays.py`).

A kernel that serves many keys calls `resume` in place of `start`: the struct is loaded from a key's slot, its queues
are in the memory of that slot, and `park` stores it back.

    ints     a row for each slot: FIRST, AFTER, then the int and bool fields and leaves      floats   the float leaves
    ring     queues by position: columns beside the elements of the slot
    block    other queues: a block for each slot, `ratio` times as long as the slot's ring of elements
"""

from __future__ import annotations

import functools
import types as python
from dataclasses import dataclass
from typing import Any

from numba.core import types
from numba.extending import (
    NativeValue,
    lower_getattr_generic,
    lower_setattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

from sash.aggregators.base import STORED, Aggregator, fields
from sash.aggregators.btree import BTree
from sash.kernels.jit.code_fingerprint import fingerprint
from sash.kernels.jit.numba_arrays import (
    LevelsType,
    PoolType,
    RingType,
    require_fit,
)
from sash.kernels.jit.numba_methods import Method, Owner, compiled_once
from sash.kernels.jit.numba_monoid import LayoutType, MonoidType, constant, constant_type, shaped
from sash.kernels.jit.state_layout import Layout, Layouts, Shape
from sash.monoids.algebra import Kind, Monoid


@dataclass(frozen=True)
class StructSpec:
    """The parameters of a compiled kernel: a structure, a typed monoid and its layouts; and their type."""

    structure: type[Aggregator]
    monoid: Monoid
    layouts: Layouts
    compiled_as: StructSpecType

    def allocate(self, largest: int) -> tuple[Any, ...]:
        """Memory for each queue or pool of the structure, for windows of up to `largest`."""
        return tuple(self.layout(kind).allocate(self.structure.slots(name, largest)) for name, kind in self._stored())

    @property
    def widths(self) -> tuple[int, int]:
        """The number of integers and floats of the structure in a slot, including FIRST and AFTER."""
        return self.compiled_as.state.widths

    def arena(self, elements: int) -> tuple[Any, ...]:
        """Memory for each queue or pool of the structure, for an arena of this many elements."""
        made = []
        for name, kind in self._stored():
            array = self.layout(kind).allocate(ratio(self.structure, name) * elements)
            made.append((array, array) if self.in_chunks(name) else array)
        return tuple(made)

    def in_chunks(self, name: str) -> bool:
        """Does a field have levels in the chunks of a slot, and others in its block?"""
        return fields(self.structure)[name] == "Levels" and name in self.structure.by_position

    def _stored(self) -> list[tuple[str, str]]:
        """Name and kind of each queue or pool."""
        return [(name, kind) for name, kind in fields(self.structure).items() if kind in STORED]

    def layout(self, kind: str) -> Layout:
        """The layout of a queue or pool of this kind."""
        if kind == "Times":
            return Layout(self.compiled_as.state.time)
        return Layout("int") if kind in ("Ints", "Links") else self.layouts.state


FIRST, AFTER = 0, 1
"""The first columns of a slot's integers: the structure contains the elements [FIRST, AFTER)."""


LEAST = 4
"""The least number of elements of a block."""


def ratio(structure: type[Aggregator], name: str) -> int:
    """The greatest number of slots that a queue or pool needs for each element of a block."""
    key = structure, name
    if key not in _ratios:
        _ratios[key] = _ratio(structure, name)
    return _ratios[key]


_ratios: dict[tuple[type[Aggregator], str], int] = {}


def _ratio(structure: type[Aggregator], name: str) -> int:
    return max(-(-structure.slots(name, LEAST << i) // (LEAST << i)) for i in range(24))


# ---- the state of a structure ----


class StateType(Owner):
    """A structure over a monoid, as a type: a pointer to its fields."""

    def __init__(self, structure: str, monoid: MonoidType, shape: Shape, time: Kind = "int") -> None:
        self.parts = structure, monoid, shape, time
        self.structure = _structures[structure]
        self.monoid, self.shape, self.time = monoid, shape, time
        self.kinds = fields(self.structure)
        self.fields = {name: self.field_type(name, kind) for name, kind in self.kinds.items()}
        super().__init__(name=f"State({structure}, {monoid.monoid_key}, {shape!r}, {time})")
        self.dtype = Payload(self)

    def __reduce__(self) -> Any:
        return StateType, self.parts

    @functools.cached_property
    def saved(self) -> dict[str, list[tuple[bool, int]]]:
        """For each field except queues: whether each of its scalars is a float, and its column in the slot."""
        columns = {False: AFTER + 1, True: 0}
        found: dict[str, list[tuple[bool, int]]] = {}
        for name, kind in self.kinds.items():
            if kind in STORED:
                continue
            found[name] = []
            for leaf in Layout(self.shape).leaves if kind == "State" else ("int",):
                found[name].append((leaf == "float", columns[leaf == "float"]))
                columns[leaf == "float"] += 1
        return found

    @property
    def widths(self) -> tuple[int, int]:
        """The number of integers and floats in a slot."""
        places = [place for field in self.saved.values() for place in field]
        floats = sum(is_float for is_float, _ in places)
        return AFTER + 1 + len(places) - floats, floats

    def field_type(self, name: str, kind: str) -> types.Type:
        """The type of a field of this kind."""
        if issubclass(self.structure, BTree) and kind in POOLS:
            shape = {"Times": self.time, "Links": "int"}.get(kind, self.shape)
            return PoolType(shape, self.structure.width(name, self.structure.min_arity))
        stored = {"Queue": RingType(self.shape), "Ints": RingType("int"), "Levels": LevelsType(self.shape)}
        return {**stored, "int": types.int64, "bool": types.boolean, "State": shaped(self.shape)}[kind]

    def field(self, name: str) -> types.Type | None:
        if name in self.structure.constants or name == "in_ring":
            return types.int64
        return shaped(self.shape) if name == "identity" else self.fields.get(name)

    def method(self, name: str) -> Method | None:
        if name in OF_THE_MONOID:
            return self.monoid.method(name)
        function = getattr(self.structure, name, None)
        return (
            Method(compiled_once(function, self.parts[0]), self) if isinstance(function, python.FunctionType) else None
        )

    def takes(self, name: str, args: tuple[types.Type, ...], context: Any) -> tuple[types.Type, ...]:
        if name not in ("push", "add"):
            return args
        require_fit(context, args[-1], shaped(self.shape))
        return (*args[:-1], shaped(self.shape))

    def returns(self, name: str, result: types.Type, context: Any) -> None:
        # a field, unlike a column, would accept any number and drop its fraction
        if name in ("combine", "inverse", "read"):
            require_fit(context, result, shaped(self.shape))


OF_THE_MONOID = ("combine", "inverse", "picks_right", "read", "precedes", "holds")
"""The methods of a structure that its monoid implements."""

POOLS = ("Times", "States", "Links", "Aggs")
"""The kinds of fields that have a row of a fixed width for each node."""


def structure_key(structure: type[Aggregator]) -> str:
    """The key of a structure's class; for a user's class it depends on everything that the class depends on."""
    constants = {name: getattr(structure, name) for name in structure.constants}
    key = f"{structure.__qualname__} {fingerprint(structure)} {fields(structure)} {constants}"
    _structures[key] = structure
    return key


_structures: dict[str, type[Aggregator]] = {}


class Payload(types.Type):  # type: ignore[misc]
    """The struct behind a StateType."""

    def __init__(self, state: StateType) -> None:
        self.state = state
        super().__init__(name=f"Payload({state.name})")


@register_model(Payload)
class _PayloadModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, typ: Payload) -> None:
        super().__init__(manager, typ, list(typ.state.fields.items()))


register_model(StateType)(models.PointerModel)


@lower_getattr_generic(StateType)
def get_field(context: Any, builder: Any, typ: StateType, value: Any, name: str) -> Any:
    if name == "in_ring":
        return context.get_constant(types.int64, int(bool(typ.structure.by_position)))
    if name in typ.structure.constants:
        return context.get_constant(types.int64, getattr(typ.structure, name))
    if name == "identity":
        identity = constant_type(typ.monoid.monoid.identity)
        literal = constant(context, builder, identity, typ.monoid.monoid.identity)
        return context.cast(builder, literal, identity, shaped(typ.shape))
    return getattr(context.make_data_helper(builder, typ.dtype, ref=value), name)


@lower_setattr_generic(StateType)
def _set_field(context: Any, builder: Any, sig: Any, args: Any, name: str) -> None:
    target, value = args
    setattr(context.make_data_helper(builder, sig.args[0].dtype, ref=target), name, value)


# ---- the specification of a kernel ----


class StructSpecType(Owner):
    """The type of a StructSpec, without a run-time value."""

    def __init__(self, state: StateType, inputs: Shape, result: Shape) -> None:
        self.parts = state, inputs, result
        self.state = state
        layouts = {"inputs": inputs, "state": state.shape, "result": result}
        self.attributes = {"monoid": state.monoid, **{name: LayoutType(shape) for name, shape in layouts.items()}}
        super().__init__(name=f"Spec({state.name}, {inputs!r}, {result!r})")

    def __reduce__(self) -> Any:
        return StructSpecType, self.parts

    def field(self, name: str) -> types.Type | None:
        return self.attributes.get(name)

    def method(self, name: str) -> Method | None:
        return None


register_model(StructSpecType)(models.OpaqueModel)


@functools.lru_cache(1024)
def struct_spec_type(structure: str, monoid: MonoidType, found: Layouts, time: Kind) -> StructSpecType:
    """The type for a structure (by its key), a monoid and its layouts, and the kind of times."""
    return StructSpecType(StateType(structure, monoid, found.state.shape, time), found.inputs.shape, found.result.shape)


@typeof_impl.register(StructSpec)
def _typeof_spec(value: StructSpec, context: Any) -> StructSpecType:
    return value.compiled_as


@unbox(StructSpecType)
def _unbox_spec(typ: StructSpecType, obj: Any, context: Any) -> NativeValue:
    return NativeValue(context.context.get_dummy_value())


@lower_getattr_generic(StructSpecType)
def _get_part(context: Any, builder: Any, typ: StructSpecType, value: Any, name: str) -> Any:
    return context.get_dummy_value()
