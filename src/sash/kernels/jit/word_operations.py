"""Operations on 64-bit words, each as a plain Python function and as machine instructions.

bit_count    the number of set bits             float_of      the float with these bits
lowest_bit   the place of the lowest set bit    mixed         a hash of a key
nth_bit      the place of the n-th set bit      slide_arrays  remove and insert in eight sorted arrays at once
prefetch     load a value into the cache

Words are `numpy.uint64`, keys `numpy.int64`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

from sash.kernels.jit.numba_methods import NATIVE

ARRAYS = 8
"""The number of sorted arrays that `slide_arrays` updates at once: eight keys are 64 bytes, the widest vector."""

_LEAST = -(2**63)
_MULTIPLIERS = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
_64_BITS = 2**64 - 1


def bit_count(word: Any) -> int:
    """The number of set bits of a word, as a signed integer."""
    return int(word).bit_count()


def lowest_bit(word: Any) -> Any:
    """The place of the lowest set bit of a word that is not 0."""
    return np.uint64((int(word) & -int(word)).bit_length() - 1)


def nth_bit(word: Any, n: Any) -> Any:
    """The place of the n-th set bit, counted from 0, of a word that has more than n."""
    word = int(word)
    for _ in range(int(n)):
        word &= word - 1
    return lowest_bit(word)


def float_of(bits: Any) -> Any:
    """The float that has these bits."""
    return np.int64(bits).view(np.float64)


def mixed(key: Any) -> Any:
    """A hash of a key, as a word: the upper bits depend on all bits of the key."""
    hashed = int(key) * _MULTIPLIERS[0] & _64_BITS
    return np.uint64((hashed ^ hashed >> 32) * _MULTIPLIERS[1] & _64_BITS)


def slide_arrays(arrays: Any, length: int, old: Any, new: Any, steps: int, place: int, found: Any) -> None:
    """Remove a key from each of eight sorted arrays and insert another one, several times.

    Key i of array j is arrays[8 * i + j]; after `length` keys follows one that is not less than any. Step t removes
    old[8 * t + j] and inserts new[8 * t + j]; then it writes the key at `place`, the next one and the last one to
    found[24 * t + j], found[24 * t + j + 8] and found[24 * t + j + 16]. Without a branch:

        sorted       1 3 5 7 9     remove 3:  t[i] = s[i] if s[i] < 3 else s[i + 1]       1 5 7 9
        insert 8     1 5 7 8 9                s[i] = min(max(t[i - 1], 8), t[i])
    """
    for step in range(steps):
        for number in range(ARRAYS):
            removed, inserted = old[ARRAYS * step + number], new[ARRAYS * step + number]
            before, key = _LEAST, arrays[number]
            for i in range(length):
                following = arrays[ARRAYS * (i + 1) + number]
                kept = key if key < removed else following
                arrays[ARRAYS * i + number] = min(max(before, inserted), kept)
                before, key = kept, following
            for i, at in enumerate((place, place + 1, length - 1)):
                found[ARRAYS * (3 * step + i) + number] = arrays[ARRAYS * at + number]


def prefetch(values: Any, at: Any) -> None:
    """Load a value that will be read and written later into the cache; changes nothing."""


# ---- as instructions ----


@intrinsic
def _bit_count(typing: Any, word: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), build


@intrinsic
def _lowest_bit(typing: Any, word: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), build


@intrinsic
def _float_of(typing: Any, bits: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), build


@njit(forceinline=True)
def _mixed(key: Any) -> Any:
    hashed = np.uint64(key) * np.uint64(_MULTIPLIERS[0])
    return (hashed ^ (hashed >> np.uint64(32))) * np.uint64(_MULTIPLIERS[1])


_BYTES = 0x0101010101010101


def _places_in_bytes() -> Any:
    """The place of the n-th set bit of each byte, at 256 * n + byte."""
    places = np.zeros(8 * 256, np.uint8)
    for byte in range(256):
        for n, place in enumerate(place for place in range(8) if byte >> place & 1):
            places[256 * n + byte] = place
    return places


_IN_BYTE = _places_in_bytes()


def _broadword_nth_bit(word: Any, n: Any) -> Any:
    """`nth_bit` by the sums of bits up to each byte (Vigna: Broadword Implementation of Rank/Select Queries)."""
    sums = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    sums = (sums & np.uint64(0x3333333333333333)) + ((sums >> np.uint64(2)) & np.uint64(0x3333333333333333))
    sums = ((sums + (sums >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)) * np.uint64(_BYTES)
    high = np.uint64(_BYTES << 7)
    place = np.uint64(_bit_count(((n * np.uint64(_BYTES) | high) - sums) & high)) << np.uint64(3)
    n -= ((sums << np.uint64(8)) >> place) & np.uint64(255)
    return place + np.uint64(_IN_BYTE[(n << np.uint64(8)) | ((word >> place) & np.uint64(255))])


_SLOW_DEPOSIT = ("bdver4", "znver1", "znver2")
"""CPUs whose `pdep` instruction is some ten times slower than that of others."""


@intrinsic
def _nth_bit(typing: Any, word: Any, n: Any) -> Any:
    """`nth_bit` by the instruction `pdep`, if the CPU has it: a fifth of the time."""
    signature = types.uint64(types.uint64, types.uint64)

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, cpu, features = context.codegen().magic_tuple()
        if "+bmi2" not in features.split(",") or cpu in _SLOW_DEPOSIT:
            return context.compile_internal(builder, _broadword_nth_bit, signature, args)
        bits = ir.IntType(64)
        deposit = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(bits, [bits, bits]), "llvm.x86.bmi.pdep.64"
        )
        one = builder.shl(ir.Constant(bits, 1), args[1])
        return builder.cttz(builder.call(deposit, [one, args[0]]), ir.Constant(ir.IntType(1), 1))

    return signature, build


@intrinsic
def _slide_arrays(typing: Any, arrays: Any, length: Any, old: Any, new: Any, steps: Any, place: Any, found: Any) -> Any:
    vector = ir.VectorType(ir.IntType(64), ARRAYS)

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def pointer(place: int) -> Any:
            data = context.make_array(signature.args[place])(context, builder, args[place]).data
            return builder.bitcast(data, vector.as_pointer())

        def at(values: Any, place: Any) -> Any:
            value = builder.load(builder.gep(values, [place]))
            value.align = 8
            return value

        def chosen(a: Any, b: Any, first: Any, second: Any) -> Any:
            return builder.select(builder.icmp_signed("<", a, b), first, second)

        keys, olds, news, results = pointer(0), pointer(2), pointer(3), pointer(6)
        _, length, _, _, steps, place, _ = args
        one, three = (ir.Constant(length.type, value) for value in (1, 3))
        before = cgutils.alloca_once(builder, vector)
        key = cgutils.alloca_once(builder, vector)
        with cgutils.for_range(builder, steps) as step:
            removed, inserted = at(olds, step.index), at(news, step.index)
            builder.store(ir.Constant(vector, [_LEAST] * ARRAYS), before)
            builder.store(at(keys, ir.Constant(length.type, 0)), key)
            with cgutils.for_range(builder, length) as loop:
                following = at(keys, builder.add(loop.index, one))
                here, last = builder.load(key), builder.load(before)
                kept = chosen(here, removed, here, following)
                last = chosen(last, inserted, inserted, last)
                builder.store(chosen(last, kept, last, kept), builder.gep(keys, [loop.index])).align = 8
                builder.store(kept, before)
                builder.store(following, key)
            result = builder.mul(step.index, three)
            for source in (place, builder.add(place, one), builder.sub(length, one)):
                builder.store(at(keys, source), builder.gep(results, [result])).align = 8
                result = builder.add(result, one)
        return context.get_dummy_value()

    return types.none(arrays, types.int64, old, new, types.int64, types.int64, found), build


@intrinsic
def _prefetch(typing: Any, values: Any, at: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        address, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address, number, number, number])
        load = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        to_write, keep, is_data = (ir.Constant(number, value) for value in (1, 3, 1))
        builder.call(load, [builder.bitcast(builder.gep(data, [args[1]]), address), to_write, keep, is_data])
        return context.get_dummy_value()

    return types.none(values, types.uint64), build


NATIVE.update(
    {
        bit_count: _bit_count,
        lowest_bit: _lowest_bit,
        nth_bit: _nth_bit,
        float_of: _float_of,
        mixed: _mixed,
        slide_arrays: _slide_arrays,
        prefetch: _prefetch,
    }
)
