"""Run structures and monoids on columns, compiled with Numba.

`jit`      compiling: monoids and structures as Numba types, the layout of states, the cache of machine code
`loops`    loops that drive structures over columns and live state, and the bound kernel that calls them
`column`   whole-column kernels for single aggregates

Queries run neither `bulk`, `replay` and `steady` nor the timed drivers: those are for measurements and conformance
tests. They are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sash.kernels.loops.bound_kernel import InterpretedWarning
    from sash.kernels.loops.runner import (
        Results,
        bulk,
        replay,
        replay_timed,
        slide,
        slide_many,
        slide_timed,
        steady,
        steady_timed,
    )

__all__ = [
    "InterpretedWarning",
    "Results",
    "bulk",
    "replay",
    "replay_timed",
    "slide",
    "slide_many",
    "slide_timed",
    "steady",
    "steady_timed",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "bound_kernel" if name == "InterpretedWarning" else "runner"
    return getattr(import_module(f"sash.kernels.loops.{module}"), name)
