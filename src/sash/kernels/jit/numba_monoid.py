"""Monoids and layouts as Numba types.

A monoid is a type, keyed by its fingerprint, without a run-time value: its functions are compiled into every kernel
that uses it, and its parameters are constants. The cache on disk finds machine code by the type's name, which
identifies the monoid in every process.
"""

from __future__ import annotations

import types as python
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.dispatcher import Dispatcher
from numba.extending import NativeValue, intrinsic, lower_getattr_generic, models, register_model, typeof_impl, unbox

from sash.kernels.jit.code_fingerprint import APART, fingerprint
from sash.kernels.jit.numba_methods import NATIVE, Method, Owner, compiled
from sash.kernels.jit.state_layout import Layout, NotColumnar, Shape, shape_of
from sash.monoids.algebra import Monoid, identical

SCALARS: dict[str, types.Type] = {"bool": types.boolean, "int": types.int64, "float": types.float64}


def shaped(shape: Shape) -> types.Type:
    """The Numba type of a shape."""
    if isinstance(shape, tuple):
        return types.Tuple([shaped(part) for part in shape])
    return SCALARS[shape]


class MonoidType(Owner):
    """A monoid, as a type."""

    def __init__(self, key: str) -> None:
        self.monoid_key = key
        super().__init__(name=f"Monoid({key})")

    def __reduce__(self) -> Any:
        return MonoidType, (self.monoid_key,)

    @property
    def monoid(self) -> Monoid:
        return _monoids[self.monoid_key]

    def attribute(self, name: str) -> Any:
        """The attribute of this name, if it is part of the key, else None."""
        return None if name in APART or name.startswith("__") else getattr(self.monoid, name, None)

    def field(self, name: str) -> types.Type | None:
        value = self.attribute(name)
        return None if callable(value) and not isinstance(value, Monoid) else constant_type(value)

    def method(self, name: str) -> Method | None:
        if (self.monoid_key, name) not in _methods:
            method = _method(self.attribute(name), self.monoid_key)
            if method is None:
                return None
            _methods[self.monoid_key, name] = method
        return _methods[self.monoid_key, name]


def _method(function: Any, key: str) -> Method | None:
    if isinstance(function, python.MethodType):
        plain, owner = function.__func__, function.__self__
        if isinstance(plain, python.FunctionType | Dispatcher) and isinstance(owner, Monoid):
            return Method(compiled(plain, key), monoid_type(owner))
        return None
    if isinstance(function, python.FunctionType | Dispatcher):
        return Method(compiled(function, key), None)
    return Method(function, None) if callable(function) else None


_monoids: dict[str, Monoid] = {}
_methods: dict[tuple[str, str], Method] = {}


def monoid_type(monoid: Monoid, key: str = "") -> MonoidType:
    """The type of a monoid. Its key is computed now (or was just now), so that a changed global gives another type."""
    key = key or fingerprint(monoid)
    _monoids[key] = monoid  # the latest: an earlier one may have changed since
    return MonoidType(key)


@intrinsic
def _identical(typing: Any, a: types.Type, b: types.Type) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _same_bits(context, builder, b, context.cast(builder, args[0], a, b), args[1])

    return types.boolean(a, b), build


def _same_bits(context: Any, builder: Any, typ: types.Type, a: Any, b: Any) -> Any:
    if isinstance(typ, types.BaseTuple):
        same = cgutils.true_bit
        for i, part in enumerate(typ.types):
            x, y = builder.extract_value(a, i), builder.extract_value(b, i)
            same = builder.and_(same, _same_bits(context, builder, part, x, y))
        return same
    if isinstance(typ, types.Float):
        bits = ir.IntType(typ.bitwidth)
        a, b = builder.bitcast(a, bits), builder.bitcast(b, bits)
    return builder.icmp_signed("==", a, b)


NATIVE[identical] = _identical


class LayoutType(types.Type):  # type: ignore[misc]
    """A layout, as a type."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        super().__init__(name=f"Layout({shape!r})")

    def __reduce__(self) -> Any:
        return LayoutType, (self.shape,)


def constant_type(value: Any) -> types.Type | None:
    """The type of a monoid's parameter; None if the compiler has no constants of that kind."""
    if isinstance(value, Monoid):
        return monoid_type(value)
    if isinstance(value, tuple):
        parts = [constant_type(part) for part in value]
        return None if None in parts else types.Tuple(parts)
    try:
        return shaped(shape_of(value))
    except NotColumnar:
        return None


def constant(context: Any, builder: Any, typ: types.Type, value: Any) -> Any:
    """A parameter as a constant in the machine code."""
    if isinstance(typ, Owner):
        return context.get_dummy_value()
    if isinstance(typ, types.BaseTuple):
        parts = [constant(context, builder, part, v) for part, v in zip(typ.types, value, strict=True)]
        return context.make_tuple(builder, typ, parts)
    return context.get_constant(typ, value.item() if isinstance(value, np.generic) else value)


@lower_getattr_generic(MonoidType)
def _get_parameter(context: Any, builder: Any, typ: MonoidType, value: Any, name: str) -> Any:
    return constant(context, builder, typ.field(name), typ.attribute(name))


@typeof_impl.register(Monoid)
def _typeof_monoid(value: Monoid, context: Any) -> MonoidType:
    return monoid_type(value)


@typeof_impl.register(Layout)
def _typeof_layout(value: Layout, context: Any) -> LayoutType:
    return LayoutType(value.shape)


for _type in (MonoidType, LayoutType):
    register_model(_type)(models.OpaqueModel)

    @unbox(_type)
    def _unbox(typ: Any, obj: Any, context: Any) -> NativeValue:
        return NativeValue(context.context.get_dummy_value())
