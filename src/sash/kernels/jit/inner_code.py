"""Compile the inner functions of a kernel to bitcode, which is optimised once, with the kernel.

Numba makes each function a library: it links its callees, optimises all of it and emits machine code, and repeats that
for each caller. A loop four calls below its kernel is optimised five times, and only the last result is used. Here an
inner function stays bitcode, and the kernel, which Python calls, is optimised once, as a whole. Numba's cheap passes
over each function remain: without them a running `std` took 1.5 times as long.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.environment import lookup_environment

from sash.kernels.jit.quick_compiler import QuickCompiler


class _Linked:
    """The code generator of an inner library: environments get an address only in the kernel."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, env: Any) -> None:
        """Do nothing: `bind_environments` sets the environments of the whole kernel."""


class InnerLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The bitcode of a function that only compiled code calls, without machine code."""

    @property
    def codegen(self) -> Any:
        return _Linked(self._codegen)

    def get_pointer_to_function(self, _name: str) -> int:
        self._ensure_finalized()
        return 0

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class InnerCompiler(QuickCompiler):
    """Compiles a function to an `InnerLibrary`."""

    def define_pipelines(self) -> Any:
        codegen = self.state.targetctx.codegen()
        self.state.library = InnerLibrary(codegen, self.state.func_id.func_qualname)
        return super().define_pipelines()


def bind_environments(kernel: Any) -> None:
    """Bind the environments of inner functions in a compiled kernel: they hold the objects that these use."""
    for variable in kernel.library._final_module.global_variables:
        if variable.name.startswith("_ZN08NumbaEnv"):
            env = lookup_environment(variable.name)
            if env is not None:
                kernel.codegen.set_env(variable.name, env)
