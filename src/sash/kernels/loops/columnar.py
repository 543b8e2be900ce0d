"""The base class of aggregate kernels: loops are compiled if possible, else interpreted on Python objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sash.aggregators.base import Aggregator, require
from sash.kernels.jit.code_fingerprint import NotKeyed
from sash.kernels.jit.compile import NotCompiled
from sash.kernels.jit.state_layout import DTYPES, Layouts, NotColumnar
from sash.kernels.loops.array_types import Numbers, States
from sash.kernels.loops.runner import Interpreted, specify, warn_once
from sash.monoids.algebra import Kind, Monoid


class AggregateError(Exception):
    """A monoid raised an exception: the place of the row or result, and the exception."""

    def __init__(self, place: int, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.place, self.error = place, error


class Columnar:
    """An aggregate whose states and results are columns if its loops compile, else Python objects.

    `kinds` are those of its columns, or None for columns of Python objects. Loops that do not compile run interpreted:
    `why_interpreted` has the reason, and `warn` issues a warning.
    """

    layouts: Layouts
    """The layouts of inputs, states and results; only if it is compiled."""

    def __init__(
        self, monoid: Monoid, kinds: tuple[Kind, ...] | None, structures: Sequence[type[Aggregator]], warn: bool = True
    ) -> None:
        self.why_interpreted, self.compiled = "", True
        self.monoid, self.kinds = monoid, kinds
        self.specs: dict[type[Aggregator], Any] = {}
        try:
            require_columns(monoid, kinds)
            for structure in structures:
                spec = self.specs[structure] = specify(structure, monoid, kinds or ())
                self.monoid, self.layouts = spec.monoid, spec.layouts
            self.compile_loops()
        except (NotColumnar, NotKeyed, NotCompiled) as error:
            self.why_interpreted, self.compiled = str(error), False
            self.monoid, self.kinds = monoid, None
            for structure in structures:
                require(structure, monoid)
                self.specs[structure] = Interpreted(structure, monoid)
            if warn:
                warn_once(monoid, self.why_interpreted)

    def compile_loops(self) -> None:
        """Compile every loop by running it on no rows, so that none fails to compile in the middle of the data."""
        raise NotImplementedError

    @property
    def leaves(self) -> tuple[Kind, ...]:
        """The kinds of a state's arrays; empty if interpreted: then states are one array of objects."""
        return self.layouts.state.leaves if self.compiled else ()

    @property
    def monoid_type(self) -> Any:
        """The compiler's type of the typed monoid: a key for its code."""
        return next(iter(self.specs.values())).compiled_as.state.monoid

    def typed(self, columns: Sequence[Any]) -> tuple[Numbers, ...]:
        """Columns of numbers as the loops take them: contiguous, of the types of the inputs."""
        return tuple(
            [
                column if column.dtype == kind and column.flags.c_contiguous else np.ascontiguousarray(column, kind)
                for column, kind in zip(columns, self.input_types, strict=True)
            ]
        )

    @property
    def input_types(self) -> list[Any]:
        """The types of the inputs' arrays."""
        return [DTYPES[kind] for kind in self.kinds or ()]

    def nothing(self, length: int) -> States:
        """New arrays for states."""
        return self.layouts.state.allocate(length) if self.compiled else (np.empty(length, object),)


def require_columns(monoid: Monoid, kinds: tuple[Kind, ...] | None) -> None:
    """Raises NotColumnar if the inputs of an aggregate are columns of Python objects."""
    if kinds is None:
        raise NotColumnar(monoid.interpreted_only or "its input is a column of Python objects")
