"""A structure's state in compiled code: a struct on the kernel's stack, its queues rings of raw memory.

    State      the annotated fields of a structure's class, and its methods
    Spec       what a kernel is compiled for: a structure, a typed monoid and its layouts

The struct lives in the frame of the kernel that calls `start`. Its methods are inlined there, so LLVM takes
it apart and keeps positions and running aggregates in registers. Its queues are columns (`columns.py`).

A kernel that serves many keys calls `resume` in place of `start`: the struct is loaded from a key's slot, its queues
are that slot's block of the arena, and `park` stores it back.

    ints     a row a slot: FIRST, AFTER, then the int and bool fields and leaves      floats   the float leaves
    arena    a block a slot for each queue, `ratio` times as long as the slot's ring of elements
"""

from __future__ import annotations

import functools
import types as python
from dataclasses import dataclass
from typing import Any

from numba.core import cgutils, types
from numba.extending import (
    NativeValue,
    intrinsic,
    lower_getattr_generic,
    lower_setattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

from sash.aggregators.base import STORED, Aggregator, fields
from sash.aggregators.btree_nodes import BTreeNodes
from sash.kernels.jit.code_fingerprint import fingerprint
from sash.kernels.jit.numba_arrays import (
    ColumnsType,
    LevelsType,
    PoolType,
    Ring,
    RingLevels,
    Rows,
    columns_of,
    require_fit,
)
from sash.kernels.jit.numba_methods import NATIVE, Method, Owner, compiled_once
from sash.kernels.jit.numba_monoid import LayoutType, MonoidType, constant, constant_type, shaped
from sash.kernels.jit.state_layout import Layout, Layouts, Shape
from sash.monoids.algebra import Kind, Monoid


@dataclass(frozen=True)
class StructSpec:
    """What a kernel is compiled for: a structure, a typed monoid and its layouts; and that as a type."""

    structure: type[Aggregator]
    monoid: Monoid
    layouts: Layouts
    compiled_as: StructSpecType

    def allocate(self, largest: int) -> tuple[Any, ...]:
        """Memory for each queue or pool of the structure, for windows of up to `largest`."""
        stored = ((name, kind) for name, kind in fields(self.structure).items() if kind in STORED)
        return tuple(self.layout(kind).allocate(self.structure.slots(name, largest)) for name, kind in stored)

    @property
    def widths(self) -> tuple[int, int]:
        """How many integers and floats a slot keeps of the structure, FIRST and AFTER included."""
        return self.compiled_as.state.widths

    def arena(self, elements: int) -> tuple[Any, ...]:
        """Memory for each queue or pool of the structure, for an arena of so many elements."""
        stored = ((name, kind) for name, kind in fields(self.structure).items() if kind in STORED)
        return tuple(self.layout(kind).allocate(ratio(self.structure, name) * elements) for name, kind in stored)

    def layout(self, kind: str) -> Layout:
        """How the values of a queue or pool of this kind lie in columns."""
        if kind == "Times":
            return Layout(self.compiled_as.state.time)
        return Layout("int") if kind in ("Ints", "Links") else self.layouts.state


FIRST, AFTER = 0, 1
"""The first columns of a slot's integers: which elements [FIRST, AFTER) the structure holds."""

BLOCK = 4
"""The least number of elements of a slot's block."""


def ratio(structure: type[Aggregator], name: str) -> int:
    """How many slots a queue or pool of the structure needs for each element of a block, at most."""
    key = structure, name
    if key not in _ratios:
        _ratios[key] = _ratio(structure, name)
    return _ratios[key]


_ratios: dict[tuple[type[Aggregator], str], int] = {}


def _ratio(structure: type[Aggregator], name: str) -> int:
    return max(-(-structure.slots(name, BLOCK << i) // (BLOCK << i)) for i in range(24))


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
        """For each field that is no queue: whether each of its scalars is a float, and its column in the slot."""
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
        """How many integers and floats a slot keeps."""
        places = [place for field in self.saved.values() for place in field]
        floats = sum(is_float for is_float, _ in places)
        return AFTER + 1 + len(places) - floats, floats

    def field_type(self, name: str, kind: str) -> types.Type:
        """The type of a field of this kind."""
        if issubclass(self.structure, BTreeNodes) and kind in POOLS:
            shape = {"Times": self.time, "Links": "int"}.get(kind, self.shape)
            return PoolType(shape, self.structure.width(name, self.structure.min_arity))
        stored = {"Queue": ColumnsType(self.shape), "Ints": ColumnsType("int"), "Levels": LevelsType(self.shape)}
        return {**stored, "int": types.int64, "bool": types.boolean, "State": shaped(self.shape)}[kind]

    def field(self, name: str) -> types.Type | None:
        if name in self.structure.constants:
            return types.int64
        return shaped(self.shape) if name == "identity" else self.fields.get(name)

    def method(self, name: str) -> Method | None:
        if name in ("combine", "inverse", "picks_right"):
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
        if name in ("combine", "inverse"):  # a field, unlike a column, would take any number and drop its fraction
            require_fit(context, result, shaped(self.shape))


POOLS = ("Times", "States", "Links", "Aggs")
"""The kinds of fields that have a row of a fixed width for each node."""


def structure_key(structure: type[Aggregator]) -> str:
    """The key of a structure's class; a user's own by all that it depends on."""
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
def _get_field(context: Any, builder: Any, typ: StateType, value: Any, name: str) -> Any:
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


# ---- what a kernel is compiled for ----


class StructSpecType(Owner):
    """A Spec, as a type without a run-time value."""

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


@intrinsic
def _start(typing: Any, spec: StructSpecType, storage: types.BaseTuple) -> Any:
    typ = spec.state

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = cgutils.alloca_once(builder, context.get_data_type(typ.dtype))
        state = context.make_data_helper(builder, typ.dtype, ref=pointer)
        queue = 0
        for name, kind in typ.kinds.items():
            if kind in STORED:
                arrays = builder.extract_value(args[1], queue)
                layout = signature.args[1].types[queue]
                value = columns_of(context, builder, typ.fields[name], layout, arrays, ring=kind not in POOLS)
                queue += 1
            elif kind == "State":
                value = _get_field(context, builder, typ, None, "identity")
            else:
                value = context.get_constant(typ.fields[name], 0)
            setattr(state, name, value)
        return pointer

    return typ(spec, storage), build


@intrinsic
def _stop(typing: Any, state: StateType) -> Any:
    names = [name for name, kind in state.kinds.items() if kind not in STORED]
    result = types.Tuple([state.fields[name] for name in names])

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = [_get_field(context, builder, state, args[0], name) for name in names]
        return context.make_tuple(builder, result, values)

    return result(state), build


@intrinsic
def _resume(
    typing: Any, spec: StructSpecType, storage: Any, ints: Any, floats: Any, slot: Any, offset: Any, capacity: Any
) -> Any:
    typ = spec.state

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, arenas, ints, floats, slot, offset, capacity = args
        pointer = cgutils.alloca_once(builder, context.get_data_type(typ.dtype))
        state = context.make_data_helper(builder, typ.dtype, ref=pointer)
        queue = 0
        for name, kind in typ.kinds.items():
            if kind in STORED:
                arrays = builder.extract_value(arenas, queue)
                layout = signature.args[1].types[queue]
                times = context.get_constant(types.int64, ratio(typ.structure, name))
                block = builder.mul(offset, times), builder.mul(capacity, times)
                value = columns_of(context, builder, typ.fields[name], layout, arrays, kind not in POOLS, block)
                setattr(state, name, value)
                queue += 1
        rows = _slot_rows(context, builder, typ, signature.args[2:4], (ints, floats), slot)
        for name in typ.saved:
            setattr(state, name, _load(context, builder, typ.fields[name], iter(typ.saved[name]), rows))
        return pointer

    return typ(spec, storage, ints, floats, types.int64, types.int64, types.int64), build


@intrinsic
def _park(typing: Any, state: StateType, ints: Any, floats: Any, slot: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows = _slot_rows(context, builder, state, signature.args[1:3], args[1:3], args[3])
        for name in state.saved:
            value = _get_field(context, builder, state, args[0], name)
            _save(context, builder, state.fields[name], iter(state.saved[name]), rows, value)
        return context.get_dummy_value()

    return types.none(state, ints, floats, types.int64), build


@intrinsic
def _restart(typing: Any, state: StateType) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        helper = context.make_data_helper(builder, state.dtype, ref=args[0])
        for name in state.saved:
            if state.kinds[name] == "State":
                value = _get_field(context, builder, state, None, "identity")
            else:
                value = context.get_constant(state.fields[name], 0)
            setattr(helper, name, value)
        return context.get_dummy_value()

    return types.none(state), build


def _slot_rows(context: Any, builder: Any, typ: StateType, kinds: Any, matrices: Any, slot: Any) -> tuple[Any, Any]:
    """Pointers to a slot's row of the integers and of the floats."""
    found = []
    for kind, matrix in zip(kinds, matrices, strict=True):
        array = context.make_array(kind)(context, builder, matrix)
        width = cgutils.unpack_tuple(builder, array.shape, 2)[1]  # a row may hold more than the structure's
        found.append(builder.gep(array.data, [builder.mul(slot, width)]))
    return found[0], found[1]


def _load(context: Any, builder: Any, typ: types.Type, places: Any, rows: Any) -> Any:
    if isinstance(typ, types.BaseTuple):
        parts = [_load(context, builder, part, places, rows) for part in typ.types]
        return context.make_tuple(builder, typ, parts)
    is_float, column = next(places)
    value = builder.load(builder.gep(rows[is_float], [context.get_constant(types.int64, column)]))
    return context.cast(builder, value, types.int64, typ) if typ == types.boolean else value


def _save(context: Any, builder: Any, typ: types.Type, places: Any, rows: Any, value: Any) -> None:
    if isinstance(typ, types.BaseTuple):
        for i, part in enumerate(typ.types):
            _save(context, builder, part, places, rows, builder.extract_value(value, i))
        return
    is_float, column = next(places)
    if typ == types.boolean:
        value = context.cast(builder, value, typ, types.int64)
    builder.store(value, builder.gep(rows[is_float], [context.get_constant(types.int64, column)]))


@intrinsic
def _present(typing: Any, result: types.Type) -> Any:
    inner = result.type if isinstance(result, types.Optional) else result

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return args[0] if inner is result else context.make_helper(builder, result, value=args[0]).data

    return inner(result), build


# ---- the same for interpreted kernels ----


def start(spec: StructSpec, storage: Any) -> Any:
    """An empty structure; in a kernel in the caller's frame, its queues rings over `storage`."""
    return spec.structure(spec.monoid)


def resume(spec: Any, storage: Any, ints: Any, floats: Any, slot: int, offset: int, capacity: int) -> Any:
    """The structure of a slot; in a kernel loaded into the caller's frame. Interpreted, `storage` is a dict of them."""
    found = storage.get(slot)
    if found is None:
        found = storage[slot] = spec.structure(spec.monoid)
    return found


def park(state: Any, ints: Any, floats: Any, slot: int) -> None:
    """Store a structure back in its slot; interpreted it has not left."""


def restart(state: Any) -> None:
    """Empty a structure."""
    state.clear()


def stop(state: Any) -> Any:
    """What is left at the end: in a kernel the fields that are no queues, interpreted the structure."""
    return state


def present(result: Any) -> Any:
    """A result that is known not to be None."""
    return result


NATIVE.update({start: _start, resume: _resume, park: _park, restart: _restart, stop: _stop, present: _present})


def rebuild(spec: StructSpec, storage: Any, left: Any) -> Any:
    """The structure that a kernel left, to look at: its fields from `stop`, its queues and pools in place."""
    structure, memory, others = spec.structure(spec.monoid), iter(storage), iter(left)
    for name, kind in fields(spec.structure).items():
        setattr(structure, name, _in_place(spec, name, kind, next(memory)) if kind in STORED else next(others))
    return structure


def _in_place(spec: StructSpec, name: str, kind: str, arrays: Any) -> Any:
    if kind in POOLS and issubclass(spec.structure, BTreeNodes):
        return Rows(spec.layout(kind), arrays, spec.structure.width(name, spec.structure.min_arity))
    return (RingLevels if kind == "Levels" else Ring)(spec.layout(kind), arrays)
