"""A structure's state in compiled code: a struct on the kernel's stack, its queues rings of raw memory.

    Columns    one pointer per scalar of the layout, and a mask: slot i is pointer[i & mask]
    State      the annotated fields of a structure's class, and its methods

The struct lives in the frame of the kernel that calls `start`. Its methods are inlined there, so LLVM takes
it apart and keeps positions and running aggregates in registers. Raw pointers carry no reference counts;
the arrays behind them are arguments of the kernel and outlive it. A ring never grows: the caller knows the
largest window beforehand.
"""

from __future__ import annotations

import functools
import operator
import types as python
from dataclasses import dataclass
from typing import Any

from numba.core import cgutils, errors, types
from numba.core.dispatcher import Dispatcher
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import (
    NativeValue,
    intrinsic,
    lower_builtin,
    lower_getattr_generic,
    lower_setattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

from sash.aggregators.in_order import STORED, InOrder, fields
from sash.kernels.fingerprint import fingerprint
from sash.kernels.layout import Layout, Layouts, Shape
from sash.kernels.methods import NATIVE, Method, Owner, compiled
from sash.kernels.typed import LayoutType, MonoidType, constant, constant_type, shaped
from sash.monoids.algebra import Monoid


@dataclass(frozen=True)
class Spec:
    """What a kernel is compiled for: a structure, a typed monoid and its layouts; and that as a type."""

    structure: type[InOrder]
    monoid: Monoid
    layouts: Layouts
    compiled_as: SpecType

    def allocate(self, largest: int) -> tuple[Any, ...]:
        """Memory for each queue of the structure, for windows of up to `largest`."""
        layouts = {"Queue": self.layouts.state, "Ints": Layout("int"), "Levels": self.layouts.state}
        stored = ((name, kind) for name, kind in fields(self.structure).items() if kind in STORED)
        return tuple(layouts[kind].allocate(self.structure.slots(name, largest)) for name, kind in stored)


# ---- columns of raw memory ----


class ColumnsType(Owner):
    """Raw columns of one layout."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.item = shaped(shape)
        self.index: types.Type = types.int64
        self.scalars = tuple(shaped(leaf) for leaf in Layout(shape).leaves)
        super().__init__(name=f"Columns({shape!r})")

    def __reduce__(self) -> Any:
        return ColumnsType, (self.shape,)

    def field(self, name: str) -> types.Type | None:
        return None

    def method(self, name: str) -> Method | None:
        return Method(_method(_drop), self) if name in ("drop_front", "drop_back", "drop_all", "forget") else None


def _drop(columns: Any, *position: int) -> None:
    """A slot of a ring is given up by writing the next value there."""


@register_model(ColumnsType)
class _ColumnsModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, typ: ColumnsType) -> None:
        pointers = [(f"p{i}", types.CPointer(scalar)) for i, scalar in enumerate(typ.scalars)]
        super().__init__(manager, typ, [*pointers, ("mask", types.int64)])


@intrinsic
def _column(typing: Any, layout: LayoutType, arrays: types.BaseTuple) -> Any:
    typ = ColumnsType(layout.shape)

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _columns(context, builder, typ, signature.args[1], args[1], ring=False)

    return typ(layout, arrays), build


def _columns(context: Any, builder: Any, typ: ColumnsType, arrays: Any, value: Any, ring: bool) -> Any:
    columns = cgutils.create_struct_proxy(typ)(context, builder)
    for i, array_type in enumerate(arrays.types):
        if array_type.dtype != typ.scalars[i] or array_type.layout != "C":
            raise errors.TypingError(f"column {i} is a {array_type}, not contiguous {typ.scalars[i]}")
        array = context.make_array(array_type)(context, builder, builder.extract_value(value, i))
        setattr(columns, f"p{i}", array.data)
        if ring and i == 0:
            one = context.get_constant(types.intp, 1)
            slots = builder.lshr(array.nitems, one) if isinstance(typ, LevelsType) else array.nitems
            columns.mask = builder.sub(slots, one)
    if not ring:
        columns.mask = context.get_constant(types.int64, -1)
    return columns._getvalue()


class LevelsType(ColumnsType):
    """Raw columns of one layout, a ring a level: level l has half the slots of the level below."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.name = f"Levels({shape!r})"
        self.index = types.UniTuple(types.int64, 2)

    def __reduce__(self) -> Any:
        return LevelsType, (self.shape,)

    def method(self, name: str) -> Method | None:
        return Method(_method(_drop), self) if name in ("drop_before", "drop_all") else None


register_model(LevelsType)(_ColumnsModel)


def level_start(mask: int, level: int) -> int:
    """Where a level begins, if level 0 has mask + 1 slots."""
    return 2 * (mask + 1) - (2 * (mask + 1) >> level)


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], ColumnsType) and self.context.can_convert(args[1], args[0].index) is not None:
            return signature(args[0].item, args[0], args[0].index)
        return None


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        if not (isinstance(args[0], ColumnsType) and self.context.can_convert(args[1], args[0].index) is not None):
            return None
        require_fit(self.context, args[2], args[0].item)
        return signature(types.none, args[0], args[0].index, args[0].item)


def require_fit(context: Any, value: types.Type, item: types.Type) -> None:
    """Raises TypingError if storing a value could lose something: a fraction, a None."""
    if not _fits(context, value, item):
        shown = f"{value.type} or None" if isinstance(value, types.Optional) else value
        raise errors.TypingError(f"a column of {item} cannot hold {shown}")


def _fits(context: Any, value: types.Type, item: types.Type) -> bool:
    if isinstance(value, types.BaseTuple) and isinstance(item, types.BaseTuple):
        pairs = zip(value.types, item.types, strict=False)
        return len(value.types) == len(item.types) and all(_fits(context, *pair) for pair in pairs)
    conversion = context.can_convert(value, item)
    return conversion is not None and conversion <= conversion.safe and not isinstance(value, types.Optional)


@lower_builtin(operator.getitem, ColumnsType, types.Any)
def _get_item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    slots = _slots(context, builder, sig.args[0], args[0], args[1])
    return _gather(context, builder, sig.args[0].shape, slots)


def _gather(context: Any, builder: Any, shape: Shape, slots: Any) -> Any:
    if isinstance(shape, tuple):
        parts = [_gather(context, builder, part, slots) for part in shape]
        return context.make_tuple(builder, shaped(shape), parts)
    scalar, pointer = next(slots)
    return context.unpack_value(builder, scalar, pointer)


@lower_builtin(operator.setitem, ColumnsType, types.Any, types.Any)
def _set_item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    slots = _slots(context, builder, sig.args[0], args[0], args[1])
    _scatter(context, builder, sig.args[0].shape, slots, args[2])
    return context.get_dummy_value()


def _scatter(context: Any, builder: Any, shape: Shape, slots: Any, value: Any) -> None:
    if isinstance(shape, tuple):
        for i, part in enumerate(shape):
            _scatter(context, builder, part, slots, builder.extract_value(value, i))
    else:
        scalar, pointer = next(slots)
        context.pack_value(builder, scalar, value, pointer)


def _slots(context: Any, builder: Any, typ: ColumnsType, value: Any, index: Any) -> Any:
    columns = cgutils.create_struct_proxy(typ)(context, builder, value=value)
    if isinstance(typ, LevelsType):
        place = _place(builder, columns.mask, builder.extract_value(index, 0), builder.extract_value(index, 1))
    else:
        place = builder.and_(index, columns.mask)
    for i, scalar in enumerate(typ.scalars):
        yield scalar, cgutils.gep_inbounds(builder, getattr(columns, f"p{i}"), place)


def _place(builder: Any, mask: Any, level: Any, number: Any) -> Any:
    """`level_start` and the slot behind it, as instructions."""
    one = mask.type(1)
    slots = builder.shl(builder.add(mask, one), one)
    start = builder.sub(slots, builder.lshr(slots, level))
    return builder.add(start, builder.and_(number, builder.lshr(mask, level)))


# ---- the state of a structure ----


class StateType(Owner):
    """A structure over a monoid, as a type: a pointer to its fields."""

    def __init__(self, structure: str, monoid: MonoidType, shape: Shape) -> None:
        self.parts = structure, monoid, shape
        self.structure = _structures[structure]
        self.monoid, self.shape = monoid, shape
        stored = {"Queue": ColumnsType(shape), "Ints": ColumnsType("int"), "Levels": LevelsType(shape)}
        kinds = {**stored, "int": types.int64, "bool": types.boolean, "State": shaped(shape)}
        self.kinds = fields(self.structure)
        self.fields = {name: kinds[kind] for name, kind in self.kinds.items()}
        super().__init__(name=f"State({structure}, {monoid.monoid_key}, {shape!r})")
        self.dtype = Payload(self)

    def __reduce__(self) -> Any:
        return StateType, self.parts

    def field(self, name: str) -> types.Type | None:
        return shaped(self.shape) if name == "identity" else self.fields.get(name)

    def method(self, name: str) -> Method | None:
        if name in ("combine", "inverse", "picks_right"):
            return self.monoid.method(name)
        function = getattr(self.structure, name, None)
        return Method(_method(function, self.parts[0]), self) if isinstance(function, python.FunctionType) else None

    def takes(self, name: str, args: tuple[types.Type, ...], context: Any) -> tuple[types.Type, ...]:
        if name != "push":
            return args
        require_fit(context, args[0], shaped(self.shape))
        return (shaped(self.shape),)

    def returns(self, name: str, result: types.Type, context: Any) -> None:
        if name in ("combine", "inverse"):  # a field, unlike a column, would take any number and drop its fraction
            require_fit(context, result, shaped(self.shape))


def structure_key(structure: type[InOrder]) -> str:
    """The key of a structure's class; a user's own by all that it depends on."""
    key = f"{structure.__qualname__} {fingerprint(structure)} {fields(structure)}"
    _structures[key] = structure
    return key


_structures: dict[str, type[InOrder]] = {}


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


@functools.cache
def _method(function: python.FunctionType, key: str = "") -> Dispatcher:
    return compiled(function, key)


@lower_getattr_generic(StateType)
def _get_field(context: Any, builder: Any, typ: StateType, value: Any, name: str) -> Any:
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


class SpecType(Owner):
    """A Spec, as a type without a run-time value."""

    def __init__(self, state: StateType, inputs: Shape, result: Shape) -> None:
        self.parts = state, inputs, result
        self.state = state
        self.attributes = {"monoid": state.monoid, "inputs": LayoutType(inputs), "result": LayoutType(result)}
        super().__init__(name=f"Spec({state.name}, {inputs!r}, {result!r})")

    def __reduce__(self) -> Any:
        return SpecType, self.parts

    def field(self, name: str) -> types.Type | None:
        return self.attributes.get(name)

    def method(self, name: str) -> Method | None:
        return None


register_model(SpecType)(models.OpaqueModel)


@functools.lru_cache(1024)
def spec_type(structure: str, monoid: MonoidType, found: Layouts) -> SpecType:
    """The type for a structure (by its key), a monoid and its layouts."""
    return SpecType(StateType(structure, monoid, found.state.shape), found.inputs.shape, found.result.shape)


@typeof_impl.register(Spec)
def _typeof_spec(value: Spec, context: Any) -> SpecType:
    return value.compiled_as


@unbox(SpecType)
def _unbox_spec(typ: SpecType, obj: Any, context: Any) -> NativeValue:
    return NativeValue(context.context.get_dummy_value())


@lower_getattr_generic(SpecType)
def _get_part(context: Any, builder: Any, typ: SpecType, value: Any, name: str) -> Any:
    return context.get_dummy_value()


@intrinsic
def _start(typing: Any, spec: SpecType, storage: types.BaseTuple) -> Any:
    typ = spec.state

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = cgutils.alloca_once(builder, context.get_data_type(typ.dtype))
        state = context.make_data_helper(builder, typ.dtype, ref=pointer)
        queue = 0
        for name, kind in typ.kinds.items():
            if kind in STORED:
                arrays = builder.extract_value(args[1], queue)
                layout = signature.args[1].types[queue]
                value = _columns(context, builder, typ.fields[name], layout, arrays, ring=True)
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
def _present(typing: Any, result: types.Type) -> Any:
    inner = result.type if isinstance(result, types.Optional) else result

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return args[0] if inner is result else context.make_helper(builder, result, value=args[0]).data

    return inner(result), build


# ---- the same for interpreted kernels ----


def column(layout: Layout, cells: Any) -> Any:
    """Cells by index: in a kernel a tuple of arrays, interpreted any sequence."""
    return cells


def start(spec: Spec, storage: Any) -> Any:
    """An empty structure; in a kernel in the caller's frame, its queues rings over `storage`."""
    return spec.structure(spec.monoid)


def stop(state: Any) -> Any:
    """What is left at the end: in a kernel the fields that are no queues, interpreted the structure."""
    return state


def present(result: Any) -> Any:
    """A result that is known not to be None."""
    return result


NATIVE.update({column: _column, start: _start, stop: _stop, present: _present})


class Ring:
    """A queue that a kernel left, read in place."""

    def __init__(self, layout: Layout, arrays: Any) -> None:
        self.layout, self.arrays, self.mask = layout, arrays, len(arrays[0]) - 1

    def __getitem__(self, position: int) -> Any:
        return self.layout.value(self.arrays, position & self.mask)


class RingLevels:
    """Levels that a kernel left, read in place."""

    def __init__(self, layout: Layout, arrays: Any) -> None:
        self.layout, self.arrays, self.mask = layout, arrays, len(arrays[0]) // 2 - 1

    def __getitem__(self, key: tuple[int, int]) -> Any:
        level, number = key
        return self.layout.value(self.arrays, level_start(self.mask, level) + (number & (self.mask >> level)))


def rebuild(spec: Spec, storage: Any, left: Any) -> InOrder:
    """The structure that a kernel left, to look at: its fields from `stop`, its queues in place."""
    structure, memory, others = spec.structure(spec.monoid), iter(storage), iter(left)
    for name, kind in fields(spec.structure).items():
        layout = Layout("int") if kind == "Ints" else spec.layouts.state
        ring = RingLevels if kind == "Levels" else Ring
        setattr(structure, name, ring(layout, next(memory)) if kind in STORED else next(others))
    return structure
