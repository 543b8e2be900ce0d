"""Compile plain Python classes: Numba types with the fields and methods of a Python class.

An `Owner` type defines its attributes: a field has a type, a method is a plain Python function whose first argument
is
the owner. Numba compiles that function at the call, specialised to the owner's type, and LLVM inlines it:
`self.combine(a, b)` costs no more than its expression written inline.

    self.fixup()      Owner.method("fixup")    the function DABA.fixup, compiled with self: Owner
    self.aggs         Owner.field("aggs")      a field of the struct, or a constant

Exact products in compiled code: a fused multiply-add computes the rounding error of a product in one instruction.

Interpreted, and on processors without it, the same takes some 16 operations (`two_product` of
`sash.monoids.double_double`).

`min` and `max` of two scalars and `int` of one as instructions, for functions of sash.

Numba compiles a function for each of them and each combination of types, which takes some 25 ms.
"""

from __future__ import annotations

import functools
import inspect
import operator
import types as python
from dataclasses import dataclass
from typing import Any

from numba import jit, njit
from numba.core import errors, types
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_getattr
from numba.extending import intrinsic, lower_builtin

from sash.kernels.jit.code_fingerprint import captured, read_by
from sash.kernels.jit.inner_code import EntryCompiler, InnerCompiler
from sash.monoids import double_double

# --- Fused ---


@intrinsic
def _fused(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once."""
    float64 = types.float64

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return float64(float64, float64, float64), build


@njit(forceinline=True)
def two_product(a: Any, b: Any) -> Any:
    """The exact product a * b: the rounded product and its rounding error."""
    p = a * b
    return p, _fused(a, b, -p)


@njit(forceinline=True)
def two_square(a: Any) -> Any:
    """The exact square a * a."""
    p = a * a
    return p, _fused(a, a, -p)


# --- Numba builtins ---


def _chosen(typing: Any, a: Any, b: Any, beats: Any) -> Any:
    """b if it beats a, else a, as in Python: a later number never replaces a NaN."""
    both = typing.unify_types(a, b)
    if not isinstance(both, types.Number | types.Boolean):
        raise errors.TypingError(f"min or max of {a} and {b}")

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        first, second = (context.cast(builder, arg, kind, both) for arg, kind in zip(args, sig.args, strict=True))
        test = context.get_function(beats, signature(types.boolean, both, both))
        return builder.select(test(builder, (second, first)), second, first)

    return both(a, b), build


@intrinsic
def _max(typing: Any, a: Any, b: Any) -> Any:
    return _chosen(typing, a, b, operator.gt)


@intrinsic
def _min(typing: Any, a: Any, b: Any) -> Any:
    return _chosen(typing, a, b, operator.lt)


@intrinsic
def _int(typing: Any, x: Any) -> Any:
    """Convert to an integer; integers keep their width."""
    if not isinstance(x, types.Integer | types.Boolean | types.Float):
        raise errors.TypingError(f"int of {x}")

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return context.cast(builder, args[0], sig.args[0], sig.return_type)

    return (x if isinstance(x, types.Integer) else types.intp)(x), build


BUILTINS = {"min": _min, "max": _max, "int": _int}


# --- Numba methods ---


class Owner(types.Type):  # type: ignore[misc]
    """A Numba type with the fields and methods of a Python class."""

    def field(self, name: str) -> types.Type | None:
        """The type of a field, or None if there is no such field."""
        raise LookupError(name)

    def method(self, name: str) -> Method | None:
        """The compiled form of a method, or None if there is no such method."""
        raise LookupError(name)

    def takes(self, name: str, args: tuple[types.Type, ...], context: Any) -> tuple[types.Type, ...]:
        """The types to which the arguments of a method are cast. Raises TypingError if they do not fit."""
        return args

    def returns(self, name: str, result: types.Type, context: Any) -> None:
        """Raises TypingError if a method may not return values of this type."""


@dataclass(frozen=True)
class Method:
    """A function, and the owner it takes as first argument (None: it takes no such argument).

    The receiver is the owner of the call itself, or a type without a run-time value.
    """

    function: Any
    receiver: Owner | None

    def taking(self, count: int) -> Dispatcher:
        """The function for a call with this many arguments.

        Numba does not bind `*row` and default values here, and its own functions (`max`) are not dispatchers.
        """
        count += self.receiver is not None
        if isinstance(self.function, Dispatcher):
            parameters = inspect.signature(self.function.py_func).parameters.values()
            if len(parameters) == count and all(p.kind is not p.VAR_POSITIONAL for p in parameters):
                return self.function
        return _spread(self.function, count)


@infer_getattr
class _Attributes(AttributeTemplate):  # type: ignore[misc]
    key = Owner

    def generic_resolve(self, owner: Owner, name: str) -> types.Type | None:
        field = owner.field(name)
        if field is not None:
            return field
        method = owner.method(name)
        if method is None:
            return None
        _lower_method(name)
        found: Method = method

        class Call(AbstractTemplate):  # type: ignore[misc]
            key = ("sash method", name)

            def generic(self, args: tuple[types.Type, ...], kws: dict[str, types.Type]) -> Any:
                receiver = () if found.receiver is None else (found.receiver,)
                function = types.Dispatcher(found.taking(len(args)))
                args = owner.takes(name, args, self.context)
                signature = function.get_call_type(self.context, (*receiver, *args), kws)
                owner.returns(name, signature.return_type, self.context)
                return signature.replace(args=signature.args[len(receiver) :], recvr=owner, pysig=None)

        return types.BoundFunction(Call, owner)


_lowered: set[str] = set()


def _lower_method(name: str) -> None:
    """Register the lowering of methods of this name, once."""
    if name in _lowered:
        return
    _lowered.add(name)

    @lower_builtin(("sash method", name), Owner, types.VarArg(types.Any))
    def call(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        owner, *others = signature.args
        method = owner.method(name)
        if method.receiver is None:
            signature, args = signature.replace(args=tuple(others)), args[1:]
        elif method.receiver != owner:
            signature = signature.replace(args=(method.receiver, *others))
            args = (context.get_dummy_value(), *args[1:])
        function = context.get_function(types.Dispatcher(method.taking(len(others))), signature)
        context.add_linking_libs(getattr(function, "libs", ()))
        return function(builder, args)


@functools.cache
def _spread(function: Any, count: int) -> Dispatcher:
    names = ", ".join(f"x{i}" for i in range(count))
    scope = {"function": function}
    exec(f"def spread({names}): return function({names})", scope)
    spread: Any = scope["spread"]
    spread.__qualname__ = f"spread.{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', function)}"
    return njit(forceinline=True, _nrt=True, **_INNER)(spread)


_INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": InnerCompiler}
"""Options of functions that are called from compiled code only."""

NATIVE: dict[Any, Any] = {double_double.two_product: two_product, double_double.two_square: two_square}
"""Functions with a native implementation in compiled code (`numba_intrinsics.py` adds to this)."""


def compiled(function: python.FunctionType | Dispatcher, key: str = "", entry: bool = False) -> Dispatcher:
    """A plain function, with all plain functions that it calls, as a dispatcher for use inside a kernel.

    Numba cannot call plain Python functions in globals, captured variables or modules; each is replaced by its compiled
    form. Forced inlining lets LLVM keep a structure's fields in registers; a tree's longer methods are `noinline`,
    because compiling them for each caller takes minutes. `key` identifies a user's functions and becomes part of their
    names: machine code from several processes is linked by name, and Numba's names are unique only within a process. An
    entry is called from Python.
    """
    return _CompiledForms(key, entry).function(function)


@functools.cache
def compiled_once(function: python.FunctionType, key: str = "") -> Dispatcher:
    """`compiled`, cached for the process: for functions of sash, which do not change."""
    return compiled(function, key)


class _CompiledForms:
    """The compiled forms of a function and of the functions that it calls."""

    def __init__(self, key: str, entry: bool) -> None:
        self.key, self.entry = key, entry
        self.done: dict[int, Any] = {}
        self.open: list[int] = []

    def function(self, function: python.FunctionType | Dispatcher) -> Any:
        if id(function) in self.open[:-1]:
            # a function may call itself; machine code of a longer cycle crashes when it is loaded from disk
            raise errors.TypingError(f"functions that call each other in a circle, through {function.__name__}")
        if id(function) in self.done:
            return self.done[id(function)]
        if isinstance(function, Dispatcher):
            return self.dispatcher(function)
        if function in NATIVE:
            return NATIVE[function]
        if self.open and is_ours(function) and not function.__closure__:
            return compiled_once(function)
        inlined = not getattr(function, "noinline", False)
        options = {"nopython": True, "forceinline": inlined, "error_model": getattr(function, "error_model", "python")}
        return self.made(function, function, {**options, **self.inner(), "_nrt": _allocates(function)})

    def inner(self) -> dict[str, Any]:
        """The options of an entry, which releases the GIL, or of an inner function.

        Inner functions are optimised only as parts of an entry (`inner_code`).
        """
        entry = self.entry and not self.open
        return {"nogil": True, "no_cfunc_wrapper": True, "pipeline_class": EntryCompiler} if entry else _INNER

    def dispatcher(self, theirs: Dispatcher) -> Dispatcher:
        """A user's dispatcher, rebuilt with its options and the current values of its globals."""
        twin = self.made(theirs, theirs.py_func, {"_nrt": True, **theirs.targetoptions})
        if not theirs._can_compile:
            for known in theirs.nopython_signatures:
                twin.compile(known)
            twin.disable_compile()
        return twin

    def made(self, original: Any, function: python.FunctionType, options: dict[str, Any]) -> Dispatcher:
        scope, cells = dict(function.__globals__), captured(function)
        if is_ours(function):
            scope = BUILTINS | scope
        closure = tuple(python.CellType() for _ in function.__closure__ or ()) or None
        code = _code_without_directory(function)
        twin = python.FunctionType(code, scope, function.__name__, function.__defaults__, closure)
        twin.__kwdefaults__ = function.__kwdefaults__
        twin.__qualname__, twin.__module__ = f"{function.__qualname__}{self.key}", function.__module__
        made = self.done[id(original)] = jit(**options)(twin)
        self.open.append(id(original))
        for (place, *names), value in read_by(function):
            target = scope if place == "global" else cells
            if _needs_compiling(value):
                _replace(target, names, self.function(value))
        self.open.pop()
        for name, cell in zip(function.__code__.co_freevars, closure or (), strict=True):
            if name in cells:
                cell.cell_contents = cells[name]
        return made


def is_ours(function: python.FunctionType) -> bool:
    """Is it a function of sash? Such functions use only the part of Python that kernels need."""
    return str(function.__module__).startswith("sash.")


def _allocates(function: python.FunctionType) -> bool:
    """Does it allocate arrays or other reference-counted objects? A user's function may.

    Functions of sash do not, unless they call `copy`, `empty` or `zeros`: Python holds the arrays of a kernel while it
    runs. Counting references took an eighth of the compile time.
    """
    return not is_ours(function) or not {"copy", "empty", "zeros"}.isdisjoint(function.__code__.co_names)


def _code_without_directory(function: python.FunctionType) -> python.CodeType:
    """The code of a function; for functions of sash without the installation directory.

    Machine code contains file names for error messages, and a wheel must not contain directories of its builder.
    """
    if not is_ours(function):
        return function.__code__
    return function.__code__.replace(co_filename=f"{function.__module__.replace('.', '/')}.py")


class _Module(python.ModuleType):
    """A copy of a module, with functions replaced."""


def _replace(scope: dict[str, Any], names: list[str], value: Any) -> None:
    """Replace a variable of a scope, or one of a module in a copy of that module."""
    first, *rest = names
    if rest:
        if not isinstance(scope[first], _Module):
            copy = _Module(scope[first].__name__)
            copy.__dict__.update(vars(scope[first]))
            scope[first] = copy
        _replace(vars(scope[first]), rest, value)
    else:
        scope[first] = value


def _needs_compiling(value: Any) -> bool:
    """Is it a function that Numba can call only in our compiled form?"""
    if isinstance(value, Dispatcher):
        return True
    if not isinstance(value, python.FunctionType):
        return False
    cpu_target.typing_context.refresh()
    try:
        cpu_target.typing_context.resolve_value_type(value)
    except ValueError:
        return True
    return False
