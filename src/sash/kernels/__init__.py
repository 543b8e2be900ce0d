"""Run structures and monoids on columns, compiled with Numba.

`jit`      compiling: monoids and structures as Numba types, the layout of states, the cache of machine code
`loops`    loops that drive structures over columns and live state, and the bound kernel that calls them
`column`   whole-column kernels for single aggregates

Queries run neither `bulk`, `replay` and `steady` nor the timed drivers: those are for measurements and conformance
tests.
"""

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
