"""The processor's clock inside compiled code, for what is too short or too rare to be timed from outside."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sash.kernels.jit.numba_methods import NATIVE


def clock() -> int:
    """Processor cycles; only compiled code can ask for them."""
    raise RuntimeError("clock() is for compiled code")


@intrinsic
def _clock(_typing: Any) -> Any:
    def build(_context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        counter = ir.FunctionType(ir.IntType(64), ())
        return builder.call(builder.module.declare_intrinsic("llvm.readcyclecounter", (), counter), ())

    return types.int64(), build


NATIVE[clock] = _clock
