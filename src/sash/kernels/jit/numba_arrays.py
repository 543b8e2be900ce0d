"""Columns of raw memory: the layout of queues, levels, inputs and results in compiled code.

    Columns    one pointer per scalar of the layout: slot i is pointer[i]
    Ring       the same in a block, at pointer[start + (i & mask)], or in the chunks of a directory, at
               pointer[directory[(i >> BITS) & chunks] + (i & mask)]
    Levels     a ring for each level, addressed by (level, number); in the chunks of a directory, each with the levels
               up to its own, and the levels above in a block
    Pool       rows of a fixed width, addressed by (node, place); if the width is 1, by node

Raw pointers carry no reference counts; the arrays behind them are arguments of the kernel and outlive it. A ring
never grows in a kernel: the caller gives it memory beforehand. A ring in a block has `chunks` 0, and in kernels over
whole arrays LLVM knows it.
"""

from __future__ import annotations

import operator
from typing import Any

from numba.core import cgutils, errors, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

from sash.kernels.jit.numba_methods import NATIVE, Method, Owner, compiled_once
from sash.kernels.jit.numba_monoid import LayoutType, shaped
from sash.kernels.jit.state_layout import Layout, Shape

BITS = 8
"""The logarithm of the elements of a chunk."""


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
        return None


class RingType(ColumnsType):
    """A queue of one layout."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.name = f"Ring({shape!r})"

    def __reduce__(self) -> Any:
        return RingType, (self.shape,)

    def method(self, name: str) -> Method | None:
        return Method(compiled_once(_drop), self) if name in ("drop_front", "drop_back", "drop_all", "forget") else None


def _drop(columns: Any, *position: int) -> None:
    """Do nothing: the next value overwrites a dropped slot of a ring."""


@register_model(ColumnsType)
class _ColumnsModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, typ: ColumnsType) -> None:
        pointers = [(f"p{i}", types.CPointer(scalar)) for i, scalar in enumerate(typ.scalars)]
        super().__init__(manager, typ, [*pointers, ("mask", types.int64), ("length", types.int64)])


class LevelsType(ColumnsType):
    """Raw columns of one layout, a ring for each level, with half the slots of the level below."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.name = f"Levels({shape!r})"
        self.index = types.UniTuple(types.int64, 2)

    def __reduce__(self) -> Any:
        return LevelsType, (self.shape,)

    def method(self, name: str) -> Method | None:
        return Method(compiled_once(_drop), self) if name in ("drop_before", "drop_all") else None


@register_model(LevelsType)
class _LevelsModel(models.StructModel):  # type: ignore[misc]
    """`p` are the columns of the block, whose lowest level is `skipped`; `c` those of chunks, for levels below `limit`.

    A chunk has `times` values for each element.
    """

    def __init__(self, manager: Any, typ: LevelsType) -> None:
        pointers = [(f"{of}{i}", types.CPointer(scalar)) for of in "pc" for i, scalar in enumerate(typ.scalars)]
        chunks = [("directory", types.CPointer(types.int64))]
        chunks += [(name, types.int64) for name in ("chunks", "times", "limit", "skipped")]
        super().__init__(manager, typ, [*pointers, ("mask", types.int64), ("length", types.int64), *chunks])


@register_model(RingType)
class _RingModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, typ: RingType) -> None:
        pointers = [(f"p{i}", types.CPointer(scalar)) for i, scalar in enumerate(typ.scalars)]
        chunks = [("directory", types.CPointer(types.int64)), ("chunks", types.int64), ("start", types.int64)]
        super().__init__(manager, typ, [*pointers, ("mask", types.int64), ("length", types.int64), *chunks])


@intrinsic
def _column(typing: Any, layout: LayoutType, arrays: types.BaseTuple) -> Any:
    typ = ColumnsType(layout.shape)

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return columns_of(context, builder, typ, signature.args[1], args[1], ring=False)

    return typ(layout, arrays), build


def columns_of(
    context: Any, builder: Any, typ: ColumnsType, arrays: Any, value: Any, ring: bool, block: Any = None
) -> Any:
    """Columns over whole arrays, or over a block of them: its offset and its length, a power of two for a ring."""
    columns = cgutils.create_struct_proxy(typ)(context, builder)
    for i, array_type in enumerate(arrays.types):
        if array_type.dtype != typ.scalars[i] or array_type.layout != "C":
            raise errors.TypingError(f"column {i} is a {array_type}, not contiguous {typ.scalars[i]}")
        array = context.make_array(array_type)(context, builder, builder.extract_value(value, i))
        data = array.data if block is None else builder.gep(array.data, [block[0]])
        setattr(columns, f"p{i}", data)
        if i == 0:
            columns.length = array.nitems if block is None else block[1]
        if ring and i == 0:
            one = context.get_constant(types.intp, 1)
            slots = builder.lshr(columns.length, one) if isinstance(typ, LevelsType) else columns.length
            columns.mask = builder.sub(slots, one)
    if not ring:
        columns.mask = context.get_constant(types.int64, -1)
    if isinstance(typ, RingType):
        zero = context.get_constant(types.int64, 0)
        columns.directory = cgutils.alloca_once_value(builder, zero)
        columns.chunks, columns.start = zero, zero
    if isinstance(typ, LevelsType):
        no_chunks(context, builder, typ, columns)
    return columns._getvalue()


def no_chunks(context: Any, builder: Any, typ: LevelsType, columns: Any) -> None:
    """Let all levels lie in the block."""
    zero = context.get_constant(types.int64, 0)
    for i in range(len(typ.scalars)):
        setattr(columns, f"c{i}", getattr(columns, f"p{i}"))
    columns.directory = cgutils.alloca_once_value(builder, zero)
    columns.chunks, columns.times, columns.skipped = zero, zero, zero
    columns.limit = context.get_constant(types.int64, -(1 << 63))  # LLVM knows that no level is below


def levels_of(
    context: Any, builder: Any, typ: LevelsType, block: Any, arrays: Any, value: Any, chain: Any, times: int
) -> Any:
    """Levels over a block, and over the chunks of a slot in whole arrays, if it has chunks."""
    columns = cgutils.create_struct_proxy(typ)(context, builder, value=block)
    for i, array_type in enumerate(arrays.types):
        array = context.make_array(array_type)(context, builder, builder.extract_value(value, i))
        setattr(columns, f"c{i}", array.data)
    large, columns.directory, columns.chunks, *_ = chain
    zero, bits = (context.get_constant(types.int64, n) for n in (0, BITS))
    columns.times = context.get_constant(types.int64, times)
    columns.limit = builder.select(large, context.get_constant(types.int64, BITS + 1), zero)
    columns.skipped = builder.select(large, bits, zero)
    return columns._getvalue()


def ring_of(context: Any, builder: Any, typ: RingType, arrays: Any, value: Any, place: Any) -> Any:
    """A queue in the ring of a slot, in whole arrays; `place`: the directory of its chunks, their mask, that within."""
    columns = cgutils.create_struct_proxy(typ)(context, builder)
    for i, array_type in enumerate(arrays.types):
        if array_type.dtype != typ.scalars[i] or array_type.layout != "C":
            raise errors.TypingError(f"column {i} is a {array_type}, not contiguous {typ.scalars[i]}")
        array = context.make_array(array_type)(context, builder, builder.extract_value(value, i))
        setattr(columns, f"p{i}", array.data)
        if i == 0:
            columns.length = array.nitems
    _, columns.directory, columns.chunks, columns.mask, columns.start = place
    return columns._getvalue()


class PoolType(ColumnsType):
    """Raw columns of one layout, in rows of a fixed width, a constant in the machine code."""

    def __init__(self, shape: Shape, width: int) -> None:
        super().__init__(shape)
        self.width = width
        self.name = f"Pool({shape!r}, {width})"
        if width > 1:
            self.index = types.UniTuple(types.int64, 2)

    def __reduce__(self) -> Any:
        return PoolType, (self.shape, self.width)

    def method(self, name: str) -> Method | None:
        if name == "back":
            return Method(compiled_once(_released_nodes), self)
        return Method(compiled_once(_drop), self) if name in ("open", "close", "forget") else None


def _released_nodes(columns: Any) -> int:
    """0: raw memory is not released."""
    return 0


register_model(PoolType)(_ColumnsModel)


def level_start(mask: int, level: int) -> int:
    """The first slot of a level, if level 0 has mask + 1 slots."""
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
    """Raises TypingError if storing a value could lose information: a fraction, a None."""
    if not _fits(context, value, item):
        described = f"{value.type} or None" if isinstance(value, types.Optional) else value
        raise errors.TypingError(f"a column of {item} cannot hold {described}")


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
        yield from _level_slots(context, builder, typ, columns, index)
        return
    if isinstance(typ, PoolType):
        place = index
        if typ.width > 1:
            row = builder.mul(builder.extract_value(index, 0), context.get_constant(types.int64, typ.width))
            place = builder.add(row, builder.extract_value(index, 1))
    elif isinstance(typ, RingType):
        # a branch, because the load would be part of the latency of each access
        bits, zero = (context.get_constant(types.int64, n) for n in (BITS, 0))
        own, has_chunks = columns.start, builder.icmp_signed("!=", columns.chunks, zero)
        before = builder.basic_block
        with builder.if_then(has_chunks):
            found = directory_entry(builder, columns, builder.ashr(index, bits))
            after = builder.basic_block
        start = builder.phi(zero.type)
        start.add_incoming(own, before)
        start.add_incoming(found, after)
        place = builder.add(start, builder.and_(index, columns.mask))
    else:
        place = index
    if context.enable_boundscheck:  # NUMBA_BOUNDSCHECK
        cgutils.do_boundscheck(context, builder, place, columns.length)
    for i, scalar in enumerate(typ.scalars):
        yield scalar, cgutils.gep_inbounds(builder, getattr(columns, f"p{i}"), place)


def directory_entry(builder: Any, columns: Any, chunk: Any) -> Any:
    """The start of a chunk. A kernel never changes directories, and LLVM may keep what it has loaded."""
    loaded = builder.load(builder.gep(columns.directory, [builder.and_(chunk, columns.chunks)]))
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


def _level_slots(context: Any, builder: Any, typ: LevelsType, columns: Any, index: Any) -> Any:
    level, number = builder.extract_value(index, 0), builder.extract_value(index, 1)
    in_chunk = builder.icmp_signed("<", level, columns.limit)
    above = builder.sub(level, columns.skipped)
    zero, bits = (context.get_constant(types.int64, n) for n in (0, BITS))
    own = _place(builder, columns.mask, builder.select(in_chunk, zero, above), number)
    inner = builder.select(in_chunk, level, bits)
    found = directory_entry(builder, columns, builder.ashr(number, builder.sub(bits, inner)))
    start = builder.mul(found, columns.times)
    one = context.get_constant(types.int64, 1)
    mask = builder.sub(builder.mul(columns.times, context.get_constant(types.int64, 1 << BITS >> 1)), one)
    place = builder.add(start, _place(builder, mask, inner, number))
    for i, scalar in enumerate(typ.scalars):
        pointers = getattr(columns, f"c{i}"), getattr(columns, f"p{i}")
        yield scalar, builder.select(in_chunk, builder.gep(pointers[0], [place]), builder.gep(pointers[1], [own]))


def _place(builder: Any, mask: Any, level: Any, number: Any) -> Any:
    """`level_start` plus a slot, as instructions."""
    one = mask.type(1)
    slots = builder.shl(builder.add(mask, one), one)
    start = builder.sub(slots, builder.lshr(slots, level))
    return builder.add(start, builder.and_(number, builder.lshr(mask, level)))


def column(layout: Layout, values: Any) -> Any:
    """Values by index. Compiled, `values` is a tuple of arrays; interpreted, any sequence, or a tuple of one."""
    return values[0] if isinstance(values, tuple) else values


NATIVE[column] = _column


# ---- memory of a structure after a kernel, read in place ----


class Ring:
    """A queue in the memory of a kernel, read in place."""

    def __init__(self, layout: Layout, arrays: Any) -> None:
        self.layout, self.arrays, self.mask = layout, arrays, len(arrays[0]) - 1

    def __getitem__(self, position: int) -> Any:
        return self.layout.value(self.arrays, position & self.mask)


class Rows:
    """A pool in the memory of a kernel, read and written in place."""

    def __init__(self, layout: Layout, arrays: Any, width: int) -> None:
        self.layout, self.arrays, self.width = layout, arrays, width

    def __getitem__(self, key: Any) -> Any:
        return self.layout.value(self.arrays, self._slot(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        self.layout.store(self.arrays, self._slot(key), value)

    def _slot(self, key: Any) -> int:
        return int(key[0] * self.width + key[1] if self.width > 1 else key)

    def open(self, node: int, width: int) -> None:
        """Do nothing, as in a kernel: the memory exists, or writing raises IndexError."""

    def close(self, node: int) -> None:
        """Do nothing, as in a kernel: the memory is not released."""

    def forget(self, node: int, place: int) -> None:
        """Do nothing, as in a kernel: the value stays until another one is written."""

    def back(self) -> int:
        """0, as in a kernel: no memory is released."""
        return 0


class RingLevels:
    """Levels in the memory of a kernel, read in place."""

    def __init__(self, layout: Layout, arrays: Any) -> None:
        self.layout, self.arrays, self.mask = layout, arrays, len(arrays[0]) // 2 - 1

    def __getitem__(self, key: tuple[int, int]) -> Any:
        level, number = key
        return self.layout.value(self.arrays, level_start(self.mask, level) + (number & (self.mask >> level)))
