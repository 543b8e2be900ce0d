"""What compiles, and how: the structures and monoids of the layers below, on columns, through Numba.

`layout`     how states lie in columns              `fingerprint`   what a monoid's meaning depends on
`methods`    plain classes as Numba types           `typed`         monoids and layouts as types
`columns`    queues as rings of raw memory          `state`         a structure's fields on the stack
`machine`    a kernel for one signature             `cache`         machine code on disk
`drive`      the loops, written once                `each`          a monoid's functions on columns
`run`        compiled if possible, else explained   `drive_timed`, `run_timed`   the same, with times
"""

from sash.kernels.run import InterpretedWarning, Results, bulk, replay, slide, slide_many, steady
from sash.kernels.run_timed import replay_timed, slide_timed, steady_timed

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
