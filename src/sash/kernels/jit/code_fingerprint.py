"""Fingerprints: a key for everything that the results of a monoid depend on.

Machine code is cached under this key, in memory and on disk, so it covers everything that the code is compiled from:
the instance's parameters, its class and methods, and for every function its code, constants, defaults, captured values
and the globals it reads, followed through modules and called functions. Installed software is identified by name and
version; sash itself by name, because the cache directory is named by a hash of its sources (`cache.py`).

State outlives versions: `state_key` identifies installed software without its version, and classes of sash without
their module, so that neither an update nor a moved module makes state unreadable.

    lambda x: scale(x) + settings.BIAS        the code, then   scale          and everything that it reads
                                                               settings.BIAS  its present value

The origin of a function or class: the user, Python, sash, or installed software.
"""

from __future__ import annotations

import contextlib
import dis
import enum
import functools
import hashlib
import struct
import sys
import sysconfig
import types
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.types import Type as NumbaType

from sash.monoids.algebra import Monoid

# --- Origin ---


def installed_name(value: Any) -> tuple[str, str] | None:
    """Module and name of a value in installed software; None for other values."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", getattr(value, "__name__", None))
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    origin = release(module)
    found = sys.modules.get(module) if origin else None
    for part in name.split("."):
        found = getattr(found, part, None)
    return (module, name) if origin and found is value else None


@functools.cache
def release(module: str) -> str | None:
    """The installed software of a module, with version and time of installation; None for a user's own code.

    The time matters because a package under development is installed again with the same version.
    """
    root = module.partition(".")[0]
    if root == "sash":
        return "sash"
    loaded = sys.modules.get(root)
    file = getattr(loaded, "__file__", None)
    if root in sys.stdlib_module_names and (file is None or _standard(Path(file))):
        return "python"
    version = getattr(loaded, "__version__", None)
    if not file or not version or not _installed(Path(file)):
        return None
    return f"{root} {version} {Path(file).stat().st_mtime_ns if Path(file).exists() else ''}"


def _installed(file: Path) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(file.parts)


def _standard(file: Path) -> bool:
    folders = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    return not _installed(file) and any(file.is_relative_to(folder) for folder in folders)


# --- Code fingerprint ---

APART = frozenset({"dump", "load", "name", "returns", "same", "typed"})
"""Attributes of a monoid that compiled code never reads, and that are not part of the key."""

LARGEST_ARRAY = 1_000_000
"""In bytes. Numba compiles a larger array as the address of its memory, which cannot be part of a key."""


class NotKeyed(TypeError):
    """Something the monoid depends on has no stable key; the message names it."""


def fingerprint(thing: Monoid | type) -> str:
    """The key of a monoid or a structure's class: equal for equal behaviour, in every process.

    Raises NotKeyed if there is none.
    """
    return fingerprint_and_origin(thing)[0]


def fingerprint_and_origin(thing: Monoid | type) -> tuple[str, bool]:
    """The key, and whether it depends only on code of sash and plain values, so that it never changes."""
    known = _unchanging.get(id(thing))
    if known is not None and known[0]() is thing:
        return known[1], True
    walk = _Walk()
    try:
        walk.value(thing, "itself")
    except RecursionError:
        raise NotKeyed("its dependencies are nested too deeply") from None
    key = walk.digest().hex()
    if walk.ours:
        number = id(thing)
        _unchanging[number] = weakref.ref(thing, lambda _: _unchanging.pop(number, None)), key
    return key, walk.ours


def state_key(**parts: Any) -> str:
    """A key for the functions and values that a user's state depends on, for the fingerprint of a query.

    Raises NotKeyed if there is none.
    """
    walk = _Walk(for_state=True)
    try:
        for name, part in sorted(parts.items()):
            walk.add(name)
            walk.attribute(name, part)
    except RecursionError:
        raise NotKeyed("its dependencies are nested too deeply") from None
    return walk.digest().hex()


_unchanging: dict[int, tuple[weakref.ref[Any], str]] = {}
"""The keys of our own monoids and structures: instances are immutable, so a key is computed once."""


class _Walk:
    """Hashes everything that can be reached from a value, each part prefixed with its length."""

    def __init__(self, monoids: dict[int, tuple[bytes, Monoid]] | None = None, for_state: bool = False) -> None:
        self.parts = bytearray()
        self.for_state = for_state
        self.ours = True
        # both keep visited objects alive, so that ids are not reused
        self.visited: dict[int, tuple[int, Any]] = {}
        self.monoids = {} if monoids is None else monoids
        self.open: list[Any] = []

    def digest(self) -> bytes:
        return hashlib.blake2b(self.parts, digest_size=16).digest()

    def add(self, *tokens: bytes | str) -> None:
        for token in tokens:
            data = token.encode(errors="surrogatepass") if isinstance(token, str) else token
            self.parts += len(data).to_bytes(4, "little")
            self.parts += data

    def value(self, value: Any, where: str) -> None:
        """Add a value; `where` is its name in error messages."""
        self.add(type(value).__qualname__)
        if isinstance(value, enum.Enum):
            self.add(value.name)
            self.value(value.value, where)
        elif value is None or value is ... or isinstance(value, range | slice):
            self.add(repr(value))
        elif isinstance(value, str | bytes):
            self.add(value)
        elif isinstance(value, int):
            self.add(hex(value))
        elif isinstance(value, float | complex):
            self.add(struct.pack("<dd", value.real, value.imag))  # all NaNs have one repr
        elif isinstance(value, np.ndarray | np.generic):
            self.array(value, where)
        elif isinstance(value, tuple | list | dict | set | frozenset):
            self.inside(value, where)
        elif isinstance(value, Monoid):
            self.monoid(value)
        elif id(value) in self.visited:
            self.add(f"again {self.visited[id(value)][0]}")
        else:
            self.visited[id(value)] = len(self.visited), value
            self.reference(value, where)

    def array(self, value: Any, where: str) -> None:
        contiguous = isinstance(value, np.generic) or value.flags.forc
        if type(value) not in (np.ndarray, value.dtype.type) or value.dtype.hasobject:
            raise _not_keyed(value, where)
        if value.nbytes > LARGEST_ARRAY or not contiguous:
            raise NotKeyed(f"it reads {where}, an array too large (or not contiguous) to be a constant")
        self.add(repr(value.dtype), repr(value.shape), value.tobytes())

    # ---- values made of values ----

    def inside(self, value: Any, where: str) -> None:
        for depth, outer in enumerate(self.open):
            if outer is value:
                self.add(f"open {depth}")
                return
        self.open.append(value)
        if isinstance(value, set | frozenset):
            self.add(*sorted(self.alone(part, where) for part in value), "end")
        elif isinstance(value, dict):
            for key, part in value.items():
                self.value(key, where)
                self.value(part, where)
            self.add("end")
        else:
            self.add(repr(getattr(value, "_fields", "")))  # a named tuple
            for part in value:
                self.value(part, where)
            self.add("end")
        self.open.pop()

    def alone(self, value: Any, where: str) -> bytes:
        walk = _Walk(self.monoids, self.for_state)
        walk.value(value, where)
        self.ours = self.ours and walk.ours
        return walk.digest()

    def monoid(self, monoid: Monoid) -> None:
        """Add the hash of a monoid, which is computed once: a product refers to its parts repeatedly."""
        if any(outer is monoid for outer in self.open):
            self.add("this monoid")
            return
        if id(monoid) not in self.monoids:
            walk = _Walk(self.monoids, self.for_state)
            walk.open.append(monoid)
            walk.attributes(monoid)
            self.ours = self.ours and walk.ours
            self.monoids[id(monoid)] = walk.digest(), monoid
        self.add(self.monoids[id(monoid)][0])

    def attributes(self, monoid: Monoid) -> None:
        """Add the classes, and every attribute as the compiler reads it: `getattr(monoid, name)`."""
        names = {*vars(monoid)}
        for cls in type(monoid).__mro__[:-1]:
            self.add(*self.place(cls.__module__, cls.__qualname__))
            if self.for_state and release(cls.__module__) == "sash":
                break  # its bases do not matter
            if release(cls.__module__) is None:
                self.ours = False
                names.update(name for name in vars(cls) if not _dunder(name))
                if not {"__getattr__", "__getattribute__"}.isdisjoint(vars(cls)):
                    raise NotKeyed(f"{cls.__qualname__} computes its attributes in __getattr__")
        for name in sorted(names - APART):
            self.add(name)
            self.attribute(f"self.{name}", _attribute(monoid, name))

    def attribute(self, where: str, value: Any) -> None:
        """Add an attribute; for lists and objects only the type, because reading one fails to compile."""
        if value is None or callable(value) or isinstance(value, _READ + _WRAPPED):
            self.value(value, where)
        else:
            self.add(type(value).__qualname__)

    # ---- functions, classes, modules ----

    def place(self, module: str, name: str) -> tuple[str, ...]:
        """The identity of a module's name: with the version of its software; for state keys without it."""
        origin = release(module) or ""
        if not self.for_state:
            return origin, module, name
        return ("sash", name) if origin == "sash" else (module, name)

    def reference(self, value: Any, where: str) -> None:
        named = installed_name(value)
        if named:
            self.add(*self.place(*named))
        elif isinstance(value, types.FunctionType):
            self.function(value)
        elif isinstance(value, Dispatcher):
            signatures = [] if value._can_compile else [str(known) for known in value.overloads]
            self.value((dict(sorted(value.targetoptions.items())), signatures), where)
            self.value(value.py_func, where)
        elif isinstance(value, types.MethodType | types.BuiltinMethodType):
            self.value(getattr(value, "__func__", value.__name__), where)
            self.value(value.__self__, where)
        elif isinstance(value, _WRAPPED):
            self.value(value.fget if isinstance(value, property) else value.__func__, where)
        elif isinstance(value, types.CodeType):
            self.add(_code(value))
        elif isinstance(value, types.ModuleType) and release(value.__name__):
            self.add(*self.place(value.__name__, ""))
        elif isinstance(value, type):
            self.cls(value, where)
        elif isinstance(value, np.ufunc | np.dtype | NumbaType):
            self.add(str(value))
        else:
            raise _not_keyed(value, where)

    def function(self, function: types.FunctionType) -> None:
        module = str(function.__globals__.get("__name__"))
        origin = release(module)
        self.add(*(self.place(module, "") if origin else ()), _code(function.__code__))
        self.value(function.__defaults__, "a default value")
        self.value(function.__kwdefaults__, "a default value")
        for name, content in captured(function).items():
            if not isinstance(content, types.ModuleType):
                self.add(name)
                self.value(content, name)
        if origin is None:
            self.ours = False
            for (scope, *names), value in read_by(function):
                self.add(scope, *names)
                self.value(value, ".".join(names))
        self.add("end")

    def cls(self, cls: type, where: str) -> None:
        if type(cls).__module__ not in ("abc", "builtins", "enum"):
            raise _not_keyed(cls, where)
        self.ours = False
        for base in cls.__mro__:
            self.add(*self.place(base.__module__, base.__qualname__))
        members: Mapping[str, Any] = vars(cls)
        if issubclass(cls, enum.Enum):
            members = {member.name: member.value for member in cls}
        elif issubclass(cls, tuple):
            members = {"_fields": getattr(cls, "_fields", ())}
        for name, member in sorted(members.items()):
            if not _dunder(name):
                self.add(name)
                self.attribute(f"{cls.__qualname__}.{name}", member)
        for base in cls.__mro__[1:]:
            self.value(base, where)
        self.add("end")


_READ = (bool, int, float, complex, str, bytes, tuple, np.generic, Monoid)
_WRAPPED = (staticmethod, classmethod, property)


def _not_keyed(value: Any, where: str) -> NotKeyed:
    return NotKeyed(f"it reads {where}, a {type(value).__name__}, whose content has no stable key")


def _dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _attribute(monoid: Monoid, name: str) -> Any:
    try:
        return getattr(monoid, name)
    except Exception as error:
        raise NotKeyed(f"self.{name} raised {type(error).__name__}: {error}") from error


def captured(function: types.FunctionType) -> dict[str, Any]:
    """The variables that a function captured, without those that have no value yet."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):
            found[name] = cell.cell_contents
    return found


@functools.lru_cache(4096)
def _code(code: types.CodeType) -> bytes:
    """A hash of the behaviour of code: without file, line numbers and names of the function."""
    walk = _Walk()
    walk.add(code.co_code, code.co_exceptiontable)
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    walk.value((counts, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars), "code")
    for constant in code.co_consts:
        walk.value(constant, "a constant")
    return walk.digest()


# ---- the variables that a function reads ----


def read_by(function: types.FunctionType) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The globals and captured values that a function reads, by their dotted names, through modules."""
    scopes = {"global": function.__globals__, "captured": captured(function)}
    for scope, first, *names in sorted(reads(function.__code__)):
        if first in scopes[scope]:
            value, path = scopes[scope][first], [first]
            while (
                isinstance(value, types.ModuleType) and len(path) <= len(names) and hasattr(value, names[len(path) - 1])
            ):
                path.append(names[len(path) - 1])
                value = getattr(value, path[-1])
            yield (scope, *path), value


@functools.lru_cache(4096)
def reads(code: types.CodeType) -> frozenset[tuple[str, ...]]:
    """The dotted names of globals and captured values in code: ("global", "math", "log"), ("captured", "k")."""
    found: list[list[str]] = []
    following = False
    for step in dis.get_instructions(code):
        if step.opname == "EXTENDED_ARG":
            continue
        if step.opname in _SCOPES:
            found.append([_SCOPES[step.opname], step.argval])
        elif following and step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            found[-1].append(step.argval)
        else:
            following = False
            continue
        following = True
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return frozenset(map(tuple, found)).union(*(reads(part) for part in inner))


_SCOPES = {
    "LOAD_GLOBAL": "global",
    "LOAD_NAME": "global",
    "LOAD_DEREF": "captured",
    "LOAD_CLASSDEREF": "captured",
    "LOAD_FROM_DICT_OR_DEREF": "captured",
    "LOAD_FROM_DICT_OR_GLOBALS": "global",
}
