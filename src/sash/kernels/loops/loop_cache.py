"""Call loops without an aggregate: compiled and kept in memory, or interpreted if Numba is disabled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from sash.kernels.jit import compile as compiling
from sash.kernels.jit.compile import interpreted, is_switched_off, machine_code

F = TypeVar("F", bound=Callable[..., Any])

_loops: dict[tuple[Any, Any], Any] = {}

_of_python_integers: set[Any] = set()


def with_python_integers(kernel: F) -> F:
    """Mark a loop over keys or hashes, whose products may need more than 64 bits.

    Interpreted, it gets memoryviews: their items are Python's integers, which do not overflow.
    """
    _of_python_integers.add(kernel)
    return kernel


def call_loop(kernel: Any, meaning: Any, arguments: tuple[Any, ...]) -> Any:
    """Run a loop without an aggregate; interpreted if Numba is disabled. `meaning` determines all types."""
    if compiling.config.DISABLE_JIT:  # type: ignore[attr-defined]  # `is_switched_off` would be one more Python call
        return interpreted(kernel)(*interpreted_arguments(kernel, arguments))
    code = _loops.get((kernel, meaning))
    if code is None:
        code = _loops[kernel, meaning] = machine_code(kernel, meaning, arguments)
    return code(*arguments)


def prepare_loop(kernel: Any, meaning: Any, arguments: tuple[Any, ...]) -> None:
    """Load or compile a loop for arguments of these types, unless it is loaded already.

    A call prepares the loops that undo it before it changes anything: if they were loaded when memory has run out, LLVM
    would abort the process ("Unable to allocate section memory!").
    """
    if (kernel, meaning) not in _loops and not is_switched_off():
        _loops[kernel, meaning] = machine_code(kernel, meaning, arguments)


def interpreted_arguments(kernel: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a loop as it takes them interpreted."""
    if kernel not in _of_python_integers:
        return arguments
    return tuple(part.data if isinstance(part, np.ndarray) else part for part in arguments)
