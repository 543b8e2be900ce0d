"""Operations of compiled kernels on a structure's struct, each with the Python function that interpreted kernels call.

start      create an empty structure               stop       return its scalar fields, at the end
resume     load the structure of a slot            park       store it back
restart    empty a structure                       present    cast a result that is not None
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic

from sash.aggregators.base import STORED, fields
from sash.aggregators.btree import BTree
from sash.kernels.jit.numba_arrays import BITS, Ring, RingLevels, Rows, columns_of, levels_of, ring_of
from sash.kernels.jit.numba_methods import NATIVE
from sash.kernels.jit.numba_struct import POOLS, StateType, StructSpec, StructSpecType, get_field, ratio


@intrinsic
def _start(typing: Any, spec: StructSpecType, storage: types.BaseTuple) -> Any:
    typ = spec.state

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, state = _allocate(context, builder, typ, signature.args[1], args[1])
        for name in typ.saved:
            setattr(state, name, _initial(context, builder, typ, name))
        return pointer

    return typ(spec, storage), build


@intrinsic
def _stop(typing: Any, state: StateType) -> Any:
    names = [name for name, kind in state.kinds.items() if kind not in STORED]
    result = types.Tuple([state.fields[name] for name in names])

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = [get_field(context, builder, state, args[0], name) for name in names]
        return context.make_tuple(builder, result, values)

    return result(state), build


@intrinsic
def _resume(
    typing: Any, spec: StructSpecType, storage: Any, ints: Any, floats: Any, slot: Any, offset: Any, capacity: Any,
    ring: Any,
) -> Any:  # fmt: skip
    typ = spec.state

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, arrays, ints, floats, slot, offset, capacity, ring = args
        chain = _chain(context, builder, signature.args[7], ring, slot) if typ.structure.by_position else None
        pointer, state = _allocate(context, builder, typ, signature.args[1], arrays, (offset, capacity), chain)
        rows = _slot_rows(context, builder, typ, signature.args[2:4], (ints, floats), slot)
        for name in typ.saved:
            setattr(state, name, _load(context, builder, typ.fields[name], iter(typ.saved[name]), rows))
        return pointer

    return typ(spec, storage, ints, floats, types.int64, types.int64, types.int64, ring), build


@intrinsic
def _park(typing: Any, state: StateType, ints: Any, floats: Any, slot: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows = _slot_rows(context, builder, state, signature.args[1:3], args[1:3], args[3])
        for name in state.saved:
            value = get_field(context, builder, state, args[0], name)
            _save(context, builder, state.fields[name], iter(state.saved[name]), rows, value)
        return context.get_dummy_value()

    return types.none(state, ints, floats, types.int64), build


@intrinsic
def _restart(typing: Any, state: StateType, position: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        helper = context.make_data_helper(builder, state.dtype, ref=args[0])
        for name in state.saved:
            first = args[1] if name in state.structure.by_position else _initial(context, builder, state, name)
            setattr(helper, name, first)
        return context.get_dummy_value()

    return types.none(state, types.int64), build


def _chain(context: Any, builder: Any, kinds: Any, ring: Any, slot: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Whether a slot has chunks; their directory, the mask of their numbers, and that of the positions within one; the
    offset of the block of a slot without chunks.
    """
    heads, _, directory = (
        context.make_array(kind)(context, builder, builder.extract_value(ring, i)) for i, kind in enumerate(kinds.types)
    )
    width = cgutils.unpack_tuple(builder, heads.shape, 2)[1]
    head = builder.gep(heads.data, [builder.mul(slot, width)])
    one, bits, chunk = (context.get_constant(types.int64, n) for n in (1, BITS, 1 << BITS))
    capacity = builder.load(builder.gep(head, [one]))
    large = builder.icmp_signed(">", capacity, chunk)
    chain = builder.gep(
        directory.data, [builder.select(large, builder.load(head), context.get_constant(types.int64, 0))]
    )
    last = builder.sub(builder.ashr(capacity, bits), one)
    chunks = builder.select(large, last, context.get_constant(types.int64, 0))
    mask = builder.sub(builder.select(large, chunk, capacity), one)
    return large, chain, chunks, mask, builder.load(head)


def _allocate(
    context: Any, builder: Any, typ: StateType, kinds: Any, arrays: Any, block: Any = None, chain: Any = None
) -> tuple[Any, Any]:
    """Allocate a struct in the caller's frame, its queues over `arrays`: whole, or a block (offset, capacity) of them.

    Those by position are in the ring of a slot, if there is one: `chain`.
    """
    pointer = cgutils.alloca_once(builder, context.get_data_type(typ.dtype))
    state = context.make_data_helper(builder, typ.dtype, ref=pointer)
    for queue, name in enumerate(name for name, kind in typ.kinds.items() if kind in STORED):
        place = None
        in_ring = chain is not None and name in typ.structure.by_position
        memory = builder.extract_value(arrays, queue)
        if in_ring and typ.kinds[name] != "Levels":
            setattr(state, name, ring_of(context, builder, typ.fields[name], kinds.types[queue], memory, chain))
            continue
        if block is not None:
            times = context.get_constant(types.int64, ratio(typ.structure, name))
            place = builder.mul(block[0], times), builder.mul(block[1], times)
        is_ring, kind = typ.kinds[name] not in POOLS, kinds.types[queue]
        if in_ring:  # the arrays of levels in blocks, and of those in chunks
            (kind, chunk_kind), (memory, chunk_memory) = kind.types, cgutils.unpack_tuple(builder, memory, 2)
        value = columns_of(context, builder, typ.fields[name], kind, memory, is_ring, place)
        if in_ring:
            count = ratio(typ.structure, name)
            value = levels_of(context, builder, typ.fields[name], value, chunk_kind, chunk_memory, chain, count)
        setattr(state, name, value)
    return pointer, state


def _initial(context: Any, builder: Any, typ: StateType, name: str) -> Any:
    """The value of a scalar field in an empty structure: 0, or the identity."""
    if typ.kinds[name] == "State":
        return get_field(context, builder, typ, None, "identity")
    return context.get_constant(typ.fields[name], 0)


def _slot_rows(context: Any, builder: Any, typ: StateType, kinds: Any, matrices: Any, slot: Any) -> tuple[Any, Any]:
    """Pointers to a slot's row of the integers and of the floats."""
    found = []
    for kind, matrix in zip(kinds, matrices, strict=True):
        array = context.make_array(kind)(context, builder, matrix)
        width = cgutils.unpack_tuple(builder, array.shape, 2)[1]  # a row may have columns of other structures
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


# ---- the same operations for interpreted kernels ----


def start(spec: StructSpec, storage: Any) -> Any:
    """An empty structure. Compiled: in the caller's frame, with queues over `storage`."""
    return spec.structure(spec.monoid)


def resume(spec: Any, storage: Any, ints: Any, floats: Any, slot: int, offset: int, capacity: int, ring: Any) -> Any:
    """The structure of a slot. Compiled: loaded into the caller's frame. Interpreted, `storage` is a dict of them.

    `ring` has the queues by position, the block (offset, capacity) the others.
    """
    found = storage.get(slot)
    if found is None:
        found = storage[slot] = spec.structure(spec.monoid)
    return found


def park(state: Any, ints: Any, floats: Any, slot: int) -> None:
    """Store a structure in its slot. Interpreted: does nothing, because `storage` holds it."""


def restart(state: Any, position: int) -> None:
    """Empty a structure, whose next element has this position."""
    state.clear()


def stop(state: Any) -> Any:
    """The final state. Compiled: the scalar fields. Interpreted: the structure."""
    return state


def present(result: Any) -> Any:
    """A result that is not None. Compiled: cast from an optional type."""
    return result


NATIVE.update({start: _start, resume: _resume, park: _park, restart: _restart, stop: _stop, present: _present})


def rebuild(spec: StructSpec, storage: Any, left: Any) -> Any:
    """The structure after a kernel: its fields from `stop`, its queues and pools in place."""
    structure, memory, others = spec.structure(spec.monoid), iter(storage), iter(left)
    for name, kind in fields(spec.structure).items():
        setattr(structure, name, _in_place(spec, name, kind, next(memory)) if kind in STORED else next(others))
    return structure


def _in_place(spec: StructSpec, name: str, kind: str, arrays: Any) -> Any:
    if kind in POOLS and issubclass(spec.structure, BTree):
        return Rows(spec.layout(kind), arrays, spec.structure.width(name, spec.structure.min_arity))
    return (RingLevels if kind == "Levels" else Ring)(spec.layout(kind), arrays)
