"""Compile the inner functions of a kernel to bitcode, which is optimised once, with the kernel.

Numba makes each function a library: it links its callees, optimises all of it and emits machine code, and repeats that
for each caller. A loop four calls below its kernel is optimised five times, and only the last result is used. Here an
inner function stays bitcode, and the kernel, which Python calls, is optimised once, as a whole. Numba's cheap passes
over each function remain: without them a running `std` took 1.5 times as long.

After a compilation there remain the machine code, the kernel's LLVM module, which the execution engine owns, and the
bitcode of inner functions, which later kernels share. That is 1.1 MB for each kernel (mean of 31) instead of Numba's
3.0 MB, for the same machine code; a kernel from disk takes 0.1 MB instead of 0.35 MB.

    0.9   MB less  llvmlite never frees what it registers for the passes over a function (`SharedPassesLibrary`)
    0.6   MB less  Numba keeps two LLVM modules of each inner function (`InnerLibrary`)
    0.3   MB less  Numba keeps a copy of the kernel's module for linking (`compile.py`, and `cache.py` from disk)
    0.15  MB less  Numba keeps the types of all variables (`quick_compiler.py`)
"""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.binding as llvm
from numba import config
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


@functools.cache
def _function_passes(codegen: Any, *_settings: Any) -> Any:
    """Numba's cheap passes over a function, for these settings of Numba."""
    passes, _ = codegen._function_pass_manager()
    return passes


class SharedPassesLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a function, optimised with passes that all functions share."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Run the cheap passes over each function.

        Numba makes new passes for each, even for declarations, which have no code: llvmlite leaks 16 kB each time. The
        builder is not shared: LLVM registers callbacks in it that are invalid after the run.
        """
        if not hasattr(self._codegen, "_pass_builder"):  # Numba 0.61 has other passes, which are freed
            super()._optimize_functions(ll_module)
            return
        ll_module.data_layout = self._codegen._data_layout
        passes = _function_passes(self._codegen, int(config.OPT), config.LLVM_REFPRUNE_PASS)
        for function in ll_module.functions:
            if not function.is_declaration:
                passes.run(function, self._codegen._pass_builder())


class InnerLibrary(SharedPassesLibrary):
    """The bitcode of a function that only compiled code calls, without machine code."""

    _bitcode: bytes

    _final_module: Any

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
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"  # each kernel that calls it has a copy
        self._bitcode = self._final_module.as_bitcode()
        self._final_module = None
        self._finalized = True

    def get_llvm_str(self) -> str:
        """Return the LLVM code, for inspection."""
        return str(self._get_module_for_linking())

    def _get_module_for_linking(self) -> Any:
        self._ensure_finalized()
        return llvm.parse_bitcode(self._bitcode)


class EntryCompiler(QuickCompiler):
    """Compiles a kernel to a `SharedPassesLibrary`."""

    def define_pipelines(self) -> Any:
        codegen = self.state.targetctx.codegen()
        self.state.library = SharedPassesLibrary(codegen, self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return super().define_pipelines()


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
