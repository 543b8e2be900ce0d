"""Get the machine code of a kernel for one signature: from memory, from disk, or compiled now.

Compiling is separate from running, so that a compile error is not confused with an exception of a monoid, and a call
does not inspect the types of its arguments.
"""

from __future__ import annotations

import functools
import gc
import re
import threading
import types as python
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numba import config, typeof
from numba.core import errors, types
from numba.core.dispatcher import Dispatcher

from sash.kernels.jit.cache import cached_code, lock_kernel, use_cache
from sash.kernels.jit.inner_code import bind_environments
from sash.kernels.jit.numba_methods import compiled


class NotCompiled(TypeError):
    """The kernel does not compile for this monoid; the message has the reason."""


def type_of(value: Any) -> types.Type:
    """The type of an argument. Read-only arrays have the type of others: kernels write only to their own."""
    if isinstance(value, np.ndarray):
        return types.Array(typeof(value).dtype, value.ndim, "C")
    if isinstance(value, tuple):
        return types.Tuple([type_of(part) for part in value])
    return typeof(value)


def machine_code(kernel: python.FunctionType, meaning: Hashable, arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """The compiled kernel for these arguments, and for all with the same `meaning`, which determines their types.

    Raises NotCompiled with the reason in one line; failures are cached, too.
    """
    if config.DISABLE_JIT:
        raise NotCompiled("NUMBA_DISABLE_JIT is set")
    found = _found.get((kernel, meaning))
    if found is None:
        with _lock:  # warnings.catch_warnings is not safe in threads
            found = _found.get((kernel, meaning)) or _compile(kernel, tuple(map(type_of, arguments)))
        _found[kernel, meaning] = found
    if isinstance(found, str):
        raise NotCompiled(found)
    return found


_found: dict[tuple[python.FunctionType, Hashable], Callable[..., Any] | str] = {}
_lock = threading.RLock()

compiled_kernels: list[str] = []
"""The names of the kernels that this process has compiled."""


@functools.cache
def _dispatcher(kernel: python.FunctionType) -> Dispatcher:
    return use_cache(compiled(kernel, entry=True))


def _compile(kernel: python.FunctionType, signature: tuple[types.Type, ...]) -> Callable[..., Any] | str:
    with warnings.catch_warnings(), _without_garbage_collection():
        warnings.simplefilter("ignore", errors.NumbaWarning)  # we report failures in one line
        try:
            code: Callable[..., Any] = cached_code(kernel, signature) or _compiled_once(kernel, signature)
        except Exception as error:  # Numba's errors, and internal ones
            return explain(error)
    return code


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection during a compilation: nearly all objects survive, and it took a sixth of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _compiled_once(kernel: python.FunctionType, signature: tuple[types.Type, ...]) -> Callable[..., Any]:
    """Compile a kernel, or load it if another process has compiled it meanwhile."""
    with lock_kernel(kernel, signature) as waited:
        # another process may have saved the kernel since we looked, even if we have not waited
        found = cached_code(kernel, signature)
        if found is None and not waited:
            found = _compiled_now(kernel, signature)
    # a kernel that cannot be saved is compiled by all waiting processes at once, not by one after the other
    return _compiled_now(kernel, signature) if found is None else found


def _compiled_now(kernel: python.FunctionType, signature: tuple[types.Type, ...]) -> Callable[..., Any]:
    dispatcher = _dispatcher(kernel)
    code: Callable[..., Any] = dispatcher.compile(signature)
    made = dispatcher.overloads[signature]
    bind_environments(made)
    made.library._shared_module = None  # for linking, and no other code links a kernel
    compiled_kernels.append(f"{kernel.__module__}.{kernel.__qualname__}")
    return code


def is_switched_off() -> bool:
    """Is NUMBA_DISABLE_JIT set, so that everything runs interpreted?"""
    return bool(config.DISABLE_JIT)


@functools.cache
def interpreted(kernel: python.FunctionType) -> Callable[..., Any]:
    """A kernel that Python interprets; as compiled code, it does not warn of divisions by zero, and returns Python's
    numbers.
    """

    def run(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return _plain(kernel(*arguments))

    return run


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value.item() if isinstance(value, np.generic) else value


def explain(error: Exception) -> str:
    """The informative line of an error; Numba's reports have pages."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))  # if colorama is installed, Numba colours its reports
    text = re.sub(r"(type )?Monoid\([0-9a-f]{32}\)", "the monoid", plain)
    refused = re.search(r"a column of .* cannot hold .*", text)
    if refused:
        return f"{refused[0]}; each of identity, lift, combine and lower keeps to one type"
    lines = [line.strip() for line in text.splitlines()]
    noise = ("Failed in", "During", "- Resolution", "None", "File ")
    reason = next((line for line in lines if line and not line.startswith(noise)), "no reason given")
    if not isinstance(error, errors.NumbaError):
        reason = f"Numba failed with {type(error).__name__}: {reason}"
    unknown = re.search(r">>> (.*)", text)
    return (f"Numba does not compile {unknown[1]}" if unknown else reason) + _place(text)


def _place(text: str) -> str:
    """The place in the user's code, if the report names one."""
    for file, line in re.findall(r"During: typing of .* at (.+) \((\d+)\)", text):
        if file != "<string>" and not file.startswith("sash/"):
            return f" ({file}, line {line})"
    return ""
