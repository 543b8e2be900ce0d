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
    0.15  MB less  Numba keeps the types of all variables (`inner_code.py`)

Numba's compiler, without slow passes that our kernels do not need.

Most of the compile time of a kernel is spent in Numba's Python code. For each `a + b` Numba tries a dozen templates
in
turn, with exceptions, even if it has resolved the same types before: this takes a quarter of that time. Here the
signatures of Numba's own functions are cached. Passes for list comprehensions, `with` blocks, array expressions and
`literally` are skipped for functions of sash, which have none of these.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import llvmlite.binding as llvm
from numba import config
from numba.core import compiler, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_machinery import PassManager
from numba.core.environment import lookup_environment
from numba.core.typing.context import Context

# --- Quick compiler ---

_UNUSED = frozenset(
    {
        "AnnotateTypes",
        "DumpParforDiagnostics",
        "FindLiterallyCalls",
        "InlineClosureLikes",
        "InlineInlinables",
        "InlineOverloads",
        "LiteralPropagationSubPipelinePass",
        "LiteralUnroll",
        "MakeFunctionToJitFunction",
        "NopythonRewrites",
        "WithLifting",
    }
)
"""Passes that change nothing in functions of sash."""


class QuickCompiler(compiler.CompilerBase):  # type: ignore[misc]
    """Numba's compiler, with fewer passes for functions of sash."""

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, *arguments: Any) -> None:
        super().__init__(typingctx, targetctx, library, *arguments)
        if type(typingctx) is Context:
            self.state.typingctx = MemoContext(typingctx, self.state.flags)

    def _compile_core(self) -> Any:
        result = super()._compile_core()
        result.fndesc.typemap = result.fndesc.calltypes = None  # only this compilation reads them
        return result._replace(type_annotation=None)

    def define_pipelines(self) -> list[PassManager]:
        full = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        if not str(self.state.func_id.modname).startswith("sash."):
            return [full]
        quick = PassManager(full.pipeline_name)
        for step, reason in full.passes:
            if step.__name__ not in _UNUSED:
                quick.add_pass(step, reason)
        quick.finalize()
        return [quick]


class MemoContext(Context):  # type: ignore[misc]
    """Numba's typing context, with shared state, and a cache of signatures for each set of compiler flags."""

    __slots__ = ("signatures",)

    def __init__(self, context: Context, flags: Any) -> None:
        object.__setattr__(self, "__dict__", context.__dict__)
        self.signatures: dict[Any, Any] = _signatures.setdefault(flags.copy(), {})

    def _resolve_user_function_type(self, func: Any, args: Any, kws: Any, literals: Any = None) -> Any:
        known = self._lookup_global(func)
        if not kws and type(known or func) is types.Function:
            return self._signature(known or func, tuple(args))
        return super()._resolve_user_function_type(func, args, kws, literals)

    def resolve_getitem(self, target: Any, index: Any) -> Any:
        return self._signature(self.resolve_value_type(operator.getitem), (target, index))

    def resolve_setitem(self, target: Any, index: Any, value: Any) -> Any:
        return self._signature(self.resolve_value_type(operator.setitem), (target, index, value))

    def _signature(self, function: Any, args: tuple[Any, ...]) -> Any:
        """The signature of a function of Numba for these types. Raises TypingError if there is none."""
        found = self.signatures.get((function, args))
        if found is None:
            signature = function.get_call_type(self, args, {})
            self.signatures[function, args] = signature, function.get_impl_key(signature)
            return signature
        signature, implementation = found
        function._impl_keys[signature.args] = implementation  # other flags may have another
        return signature


_signatures: dict[Any, dict[Any, Any]] = {}


# --- Inner code ---


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
