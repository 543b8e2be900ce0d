"""Functions inside a kernel, as code that is optimised only there.

Numba makes each function a library of its own: it links in what the function calls, optimises all of it and emits
machine code, then does so again for each caller. A loop four calls below its kernel is optimised five times, and only
the last result is used, for the kernel links the bitcode of all of them. Here an inner function stays plain bitcode.
The kernel, which is what Python calls, is optimised once, as a whole. Numba's cheap passes over each function stay:
without them a running `std` was measured to take half as long again.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.environment import lookup_environment

from sash.kernels.jit.quick_compiler import QuickCompiler


class _Linked:
    """The code generator as an inner library shows it: its environment gets an address in the kernel only."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, env: Any) -> None:
        """Do nothing: `bind_environments` does it when the kernel is there."""


class InnerLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The bitcode of a function that only compiled code calls, hardly optimised and without machine code."""

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
    """Give a compiled kernel the environments of its inner functions: they hold the objects that those use."""
    for variable in kernel.library._final_module.global_variables:
        if variable.name.startswith("_ZN08NumbaEnv"):
            env = lookup_environment(variable.name)
            if env is not None:
                kernel.codegen.set_env(variable.name, env)
