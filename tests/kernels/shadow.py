"""Kernels that run twice, compiled and as plain Python, and must leave the same.

LLVM may assume that signed integers do not wrap around, and drop a check that looks at a wrapped difference: compiled
code is then wrong where Python is right. `shadowed` replaces what compiles, so that every kernel without an aggregate
(its arguments are arrays and numbers) also runs interpreted, on copies of its arguments, with an error for each
integer that wraps around.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from sash.engine.keyed import slot_table
from sash.kernels.column import group_rows as numpy_loops
from sash.kernels.jit import compile as compiling
from sash.kernels.loops import loop_cache

FLOATS = ("sash.kernels.column.sum_mean", "sash.kernels.column.variance", "sash.kernels.column.exact_sum")
"""Modules whose floats may overflow: they mark such results as uncertain."""


@contextmanager
def shadowed() -> Iterator[set[str]]:
    """Run kernels twice; gives the names of those that were compared."""
    seen: set[str] = set()
    original = compiling._compile

    def compile_twice(kernel: Any, signature: Any) -> Any:
        code = original(kernel, signature)
        return code if isinstance(code, str) else Twice(kernel, code, seen)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiling, "_compile", compile_twice)
        patch.setattr(compiling, "_found", {})
        patch.setattr(loop_cache, "_loops", {})
        patch.setattr(numpy_loops, "FEW_ROWS", 0)
        patch.setattr(slot_table, "PLAIN", 1 << 40)  # a copy of reserved address space would touch all of it
        yield seen


class Twice:
    """A kernel, called as its machine code is."""

    def __init__(self, kernel: Any, code: Any, seen: set[str]) -> None:
        self.kernel, self.code, self.seen = kernel, code, seen
        self.name = f"{kernel.__module__}.{kernel.__qualname__}"

    def __call__(self, *arguments: Any) -> Any:
        if not all(map(is_plain, arguments)):
            return self.code(*arguments)
        self.seen.add(self.name)
        roots: dict[int, Any] = {}
        copies = tuple(copied(argument, roots) for argument in arguments)
        over = "ignore" if self.kernel.__module__ in FLOATS else "raise"
        with np.errstate(all="ignore", over=over):
            expected = self.kernel(*loop_cache.interpreted_arguments(self.kernel, copies))
        found = self.code(*arguments)
        assert same(found, expected), f"{self.name} returns {found}, interpreted {expected}"
        for place, (mine, theirs) in enumerate(zip(arguments, copies, strict=True)):
            assert same(mine, theirs), f"argument {place} of {self.name} is\n{mine}\ninterpreted\n{theirs}"
        return found


def is_plain(argument: Any) -> bool:
    """Is it an array, a number, None, or a tuple of them?"""
    if isinstance(argument, tuple):
        return all(map(is_plain, argument))
    return argument is None or isinstance(argument, np.ndarray | np.generic | int | float | str)


def copied(argument: Any, roots: dict[int, Any]) -> Any:
    """A copy; arrays that share memory share it again."""
    if isinstance(argument, tuple):
        return tuple(copied(part, roots) for part in argument)
    if not isinstance(argument, np.ndarray):
        return argument
    root = argument
    while isinstance(root.base, np.ndarray):
        root = root.base
    if id(root) not in roots:
        roots[id(root)] = (root, copy.deepcopy(root) if root.flags.c_contiguous else None)
    twin = roots[id(root)][1]
    if twin is None or argument.size == 0:
        return argument.copy()
    offset = argument.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    return np.ndarray(argument.shape, argument.dtype, twin, offset, argument.strides)


def same(mine: Any, theirs: Any) -> bool:
    """Equal to the last bit, where NaN equals NaN."""
    if isinstance(mine, tuple):
        return len(mine) == len(theirs) and all(map(same, mine, theirs))
    if mine is None or theirs is None:
        return mine is theirs
    one, other = np.asarray(mine), np.asarray(theirs)
    return np.array_equal(one, other, equal_nan=one.dtype.kind == "f" and other.dtype.kind == "f")
