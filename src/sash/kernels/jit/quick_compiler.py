"""Numba's compiler, without slow passes that our kernels do not need.

Most of the compile time of a kernel is spent in Numba's Python code. For each `a + b` Numba tries a dozen templates in
turn, with exceptions, even if it has resolved the same types before: this takes a quarter of that time. Here the
signatures of Numba's own functions are cached. Passes for list comprehensions, `with` blocks, array expressions and
`literally` are skipped for functions of sash, which have none of these.
"""

from __future__ import annotations

import operator
from typing import Any

from numba.core import compiler, types
from numba.core.compiler_machinery import PassManager
from numba.core.typing.context import Context

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
